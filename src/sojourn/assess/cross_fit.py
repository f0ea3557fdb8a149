"""The tests of memory again, with states that were made of other tasks.

States that were chosen by a score, or that look at neighbouring steps, have seen what the exact
test is about, so its p-value is only approximate. Here the tasks are dealt into two halves; the
states of each half are made of the other, and the tests are made on them. Of two p-values twice
the smaller is valid whatever their dependence. Where the states look at one step alone this is
exact; where they look at the run so far it is not, and says only that the choice is not to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.assess.certify import MAX_RUNS, MAX_STEPS, MAX_STEPS_CUT, only_runs, part_of, tested_p
from sojourn.corpus import ResolvedRuns, TraceCorpus
from sojourn.errors import NothingUsableError
from sojourn.estimates import Claim, Verdict, number
from sojourn.process.exact import test_exact
from sojourn.process.exchange import test_exchange
from sojourn.sequences import CENSORED, StateSequences
from sojourn.states.model import StateModel

__all__ = ["CrossFit", "cross_fit", "held_to"]

Make = Callable[[TraceCorpus, ResolvedRuns, np.random.Generator], StateModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFit:
    """What the tests of memory find with states that were made of other tasks.

    Attributes
    ----------
    pooled, within : float or None
        p-value of the exact test of order, over all runs and inside tasks; None where nothing
        could move.
    timing : float or None
        p-value of its timing family, over all runs.
    exchange_pooled, exchange_within : float or None
        p-values of memory given state and step.
    exact : bool
        Whether the states look at one step alone, so that the p-values are exact.
    n_runs : int
        Runs that were tested.
    """

    pooled: float | None
    within: float | None
    timing: float | None
    exchange_pooled: float | None
    exchange_within: float | None
    exact: bool
    n_runs: int

    def of(self, process: str) -> float | None:
        """Return the p-value of memory of a process: inside tasks, else over all runs."""
        pooled, within = (
            (self.exchange_pooled, self.exchange_within)
            if process == "progress"
            else (self.pooled, self.within)
        )
        return pooled if within is None else within

    @property
    def note(self) -> str:
        """Say what was done and found."""
        kind = "exact" if self.exact else "approximate still, as states see earlier steps"
        figures = ", ".join(
            f"{name} p {'-' if p is None else f'{p:.3g}'}"
            for name, p in (
                ("order", self.pooled),
                ("order within tasks", self.within),
                ("timing", self.timing),
            )
        )
        return f"with states made of other tasks (two halves, {kind}): {figures}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        names = ("pooled", "within", "timing", "exchange_pooled", "exchange_within")
        return {name: number(getattr(self, name)) for name in names} | {
            "exact": self.exact,
            "n_runs": self.n_runs,
        }


def cross_fit(
    corpus: TraceCorpus,
    runs: ResolvedRuns,
    make: Make,
    *,
    n_draws: int = 999,
    alpha: float = 0.05,
    executor: Executor | None = None,
    rng: np.random.Generator,
) -> CrossFit | str:
    """Make the states of each half of the tasks from the other half, and test memory on them.

    Parameters
    ----------
    corpus, runs : TraceCorpus, ResolvedRuns
        The runs and what they count as.
    make : callable
        Makes states of some runs: ``make(corpus, runs, rng) -> StateModel``.
    n_draws : int
        Corpora drawn by each test.
    alpha : float
        Size of each test.
    executor : concurrent.futures.Executor, optional
        Where to draw.
    rng : Generator
        Source of the halves and of all draws.

    Returns
    -------
    CrossFit or str
        In words why it could not be done, where it could not.
    """
    for_halves, *for_parts = rng.spawn(3)
    units = for_halves.permutation(np.unique(runs.unit))
    first = np.isin(runs.unit, units[: units.size // 2])
    found, exact, n_runs = [], True, 0
    for mine, source in zip((first, ~first), for_parts, strict=True):
        for_states, for_cut, *for_tests = source.spawn(6)
        try:
            states = make(corpus, only_runs(runs, ~mine), for_states)
        except NothingUsableError as error:
            return f"states could not be made of one half of the tasks alone: {error}"
        exact &= states.clusters is None or states.clusters.description.order_free
        part = states.transform(corpus, only_runs(runs, mine))
        limit = MAX_STEPS_CUT if np.any(part.event == CENSORED) else MAX_STEPS
        part, _ = part_of(part, MAX_RUNS, limit, "the test", for_cut)
        n_runs += part.n_runs
        found.append(_p_values(part, n_draws, alpha, executor, for_tests))
    pooled, within, timing, exchange, inside = map(_both, zip(*found, strict=True))
    return CrossFit(
        pooled=pooled,
        within=within,
        timing=timing,
        exchange_pooled=exchange,
        exchange_within=inside,
        exact=exact,
        n_runs=n_runs,
    )


def _p_values(
    part: StateSequences,
    n_draws: int,
    alpha: float,
    executor: Executor | None,
    sources: Sequence[np.random.Generator],
) -> tuple[float | None, ...]:
    one, two, three, four = sources
    settings: dict[str, Any] = {"n_draws": n_draws, "alpha": alpha, "executor": executor}
    pooled = test_exact(part, rng=one, **settings)
    within = test_exact(part, within_tasks=True, rng=two, **settings)
    exchange = test_exchange(part, rng=three, **settings)
    inside = test_exchange(part, within_tasks=True, rng=four, **settings)
    return (
        tested_p(pooled, "order"),
        tested_p(within, "order"),
        tested_p(pooled, "timing"),
        exchange.p_value,
        inside.p_value,
    )


def _both(values: tuple[float | None, ...]) -> float | None:
    known = [p for p in values if p is not None]
    return None if not known else min(1.0, len(known) * min(known))


def held_to(claim: Claim, process: str, found: CrossFit | str, alpha: float) -> Claim:
    """Return the claim ``order`` as far as the tests on states made of other tasks bear it.

    Its own p-value is approximate; where both disagree the claim is inconclusive.
    """
    if claim.claim != "order":
        return claim
    why = "the p-value is approximate, since the states have seen other steps or the ends of runs"
    if isinstance(found, str):
        return replace(claim, reasons=(*claim.reasons, f"{why}; {found}"))
    p = found.of(process)
    shown = "nothing could move" if p is None else f"p = {p:.3g}"
    verdict = claim.verdict
    more: tuple[str, ...] = ()
    if p is not None and (claim.verdict is Verdict.REJECTED) != (p <= alpha):
        if claim.verdict is not Verdict.INCONCLUSIVE:
            more = ("the two do not agree",)
        verdict = Verdict.INCONCLUSIVE
    reason = f"{why}; with states made of other tasks {shown}"
    return replace(claim, verdict=verdict, reasons=(*claim.reasons, reason, *more))
