"""The certificate: which claims about a fitted chain the data support, claim by claim.

``order``, that one step of memory is enough, is decided by the exact conditional test. ``timing``,
that the chain's curves may be used, is decided by how far off they are against a margin, since with
enough data every model is rejected and what a reader needs is whether it matters. The published
rule (two-sample KS and AIC on a split) stays available for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import Workers
from sojourn._validation import generator
from sojourn.corpus import ResolvedRuns, TraceCorpus
from sojourn.estimates import Claim, Verdict, number
from sojourn.process._exact_result import ExactTest
from sojourn.process.bound import MisspecificationBound, misspecification_bound
from sojourn.process.detectable import DetectableEffects, detectable_effects
from sojourn.process.exact import test_exact
from sojourn.process.published import PublishedCertificate, certify_published
from sojourn.sequences import CENSORED, StateSequences
from sojourn.states.model import StateModel, fit_states
from sojourn.tables import n_of

__all__ = [
    "MAX_RUNS",
    "MAX_STEPS",
    "MIN_UNITS",
    "Certificate",
    "CertificateUnderWay",
    "Check",
    "certificate_under_way",
    "certify_as_published",
    "only_runs",
    "part_of",
    "tested_p",
]

# With fewer tasks (or clusters) than this nothing is certified.
MIN_UNITS = 20
# A larger corpus is certified on a random part of its tasks: the test's cost grows with steps x
# draws, while its power at this size is beyond any departure that matters. Corpora with cut runs
# are drawn by tail swaps, which cost some twenty times as much a step.
MAX_RUNS = 20_000
MAX_STEPS = 100_000
MAX_STEPS_CUT = 8_000
# Replicates x steps of the bound; runs of very many steps get fewer replicates.
_MAX_BOUND_CELLS = 20_000_000
_MIN_RESAMPLES = 99
# Share of steps that must be able to move for a test inside tasks to have much to see.
_ENOUGH = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One piece of evidence under a claim.

    Attributes
    ----------
    claim, name : str
        The claim it bears on, and what was tested.
    statistic, p_value : float or None
        Its value and p-value.
    n : int
        Runs it rests on.
    on : str
        ``all`` runs pooled, ``within_task``, or ``split`` (the published rule).
    """

    claim: str
    name: str
    statistic: float | None
    p_value: float | None
    n: int
    on: str

    def to_dict(self) -> dict[str, Any]:
        """Return the check in the form of the JSON contract."""
        return {
            "claim": self.claim,
            "name": self.name,
            "statistic": number(self.statistic),
            "p_value": number(self.p_value),
            "n": self.n,
            "on": self.on,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate:
    """What may be believed of a fitted chain, with the evidence.

    Attributes
    ----------
    method : str
        ``exact`` or ``published``.
    claims : tuple of Claim
        ``order`` and ``timing``.
    checks : tuple of Check
        All tests that were made.
    alpha : float
        Size of each test.
    margin : float or None
        The error of a curve that is of no matter; None for the published rule.
    pooled, within : ExactTest or None
        The exact test over all runs, and inside tasks.
    bound : MisspecificationBound or None
        The bound on the curves' error.
    detectable : DetectableEffects or None
        What the exact test could have seen, where it was asked for.
    published : PublishedCertificate or None
        The published rule's result.
    notes : tuple of str
        What a reader must know of how it was made.
    """

    method: str
    claims: tuple[Claim, ...]
    checks: tuple[Check, ...]
    alpha: float
    margin: float | None
    pooled: ExactTest | None = field(default=None, repr=False)
    within: ExactTest | None = field(default=None, repr=False)
    bound: MisspecificationBound | None = field(default=None, repr=False)
    detectable: DetectableEffects | None = field(default=None, repr=False)
    published: PublishedCertificate | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def claim(self, name: str) -> Claim:
        """Return the claim of that name.

        Raises
        ------
        KeyError
            If the certificate does not decide it.
        """
        for claim in self.claims:
            if claim.claim == name:
                return claim
        raise KeyError(name)

    def evidence(self) -> dict[str, Any]:
        """Return the tests whole, for the JSON."""
        parts: Mapping[str, Any] = {
            "pooled": self.pooled,
            "within_tasks": self.within,
            "bound": self.bound,
            "detectable": self.detectable,
            "published": self.published,
        }
        return {name: part.to_dict() for name, part in parts.items() if part is not None} | {
            "notes": list(self.notes)
        }


class CertificateUnderWay(NamedTuple):
    """A certificate whose exact tests may still run.

    Attributes
    ----------
    timing : Verdict
        The verdict on timing, which the bound alone decides.
    result : callable
        Wait for the tests and return the certificate.
    """

    timing: Verdict
    result: Callable[[], Certificate]


@contextmanager
def certificate_under_way(
    sequences: StateSequences,
    *,
    alpha: float = 0.05,
    margin: float = 0.10,
    n_draws: int = 999,
    n_resamples: int = 999,
    approximate: bool = False,
    power: bool = False,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> Iterator[CertificateUnderWay]:
    """Certify the homogeneous chain by the exact test and the error bound, while the caller works.

    The tests are compiled code that holds no lock, so that what the caller does in Python inside
    this context costs next to no time of its own.

    Parameters
    ----------
    sequences : StateSequences
        All runs; nothing is held out.
    alpha : float
        Size of the test of each family.
    margin : float
        The error of a curve that is of no matter.
    n_draws, n_resamples : int
        Corpora drawn by the test, and bootstrap replicates of the bound.
    approximate : bool
        Whether the states were made by looking at the order of steps.
    power : bool
        Find the smallest departures that the test could have seen (takes minutes).
    executor : concurrent.futures.Executor, optional
        Where to draw; by default in a thread a core. The answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of all draws.

    Yields
    ------
    CertificateUnderWay
        Its certificate is never an exception for a chain that fails: the verdict is the answer.
    """
    draws = generator(rng).spawn(5)
    limit = MAX_STEPS_CUT if np.any(sequences.event == CENSORED) else MAX_STEPS
    for_bound, notes = part_of(sequences, MAX_RUNS, np.inf, "the error bound", draws[0])
    part, more = part_of(for_bound, MAX_RUNS, limit, "the exact test", draws[0])
    settings: dict[str, Any] = {
        "n_draws": n_draws,
        "alpha": alpha,
        "approximate": approximate,
    }
    own = Workers() if executor is None else nullcontext(executor)
    # The threads are left first: without them a test that still runs ends with its next piece.
    with Workers(1) as beside, own as threads:
        tests = [
            beside.submit(
                test_exact, part, within_tasks=w, rng=draws[1 + w], executor=threads, **settings
            )
            for w in (False, True)
        ]
        longest = int(for_bound.lengths.max(initial=1))
        n_resamples = min(n_resamples, max(_MIN_RESAMPLES, _MAX_BOUND_CELLS // max(longest, 1)))
        bound = misspecification_bound(
            for_bound, margin=margin, n_resamples=n_resamples, rng=draws[3]
        )

        def result() -> Certificate:
            pooled, within = (test.result() for test in tests)
            seen = detectable_effects(part, alpha=alpha, rng=draws[4]) if power else None
            n_units = int(np.unique(for_bound.unit).size)
            return Certificate(
                method="exact",
                claims=(
                    _order_claim(pooled, within, n_units, seen),
                    _timing_claim(pooled, bound, seen),
                ),
                checks=tuple(_checks(pooled, within, bound)),
                alpha=alpha,
                margin=margin,
                pooled=pooled,
                within=within,
                bound=bound,
                detectable=seen,
                notes=notes + more,
            )

        yield CertificateUnderWay(bound.verdict, result)


def part_of(
    sequences: StateSequences,
    max_runs: int,
    max_steps: float,
    what: str,
    rng: np.random.Generator,
) -> tuple[StateSequences, tuple[str, ...]]:
    """Return the runs to look at: all of them, or those of randomly drawn units, and say so."""
    if sequences.n_runs <= max_runs and sequences.states.size <= max_steps:
        return sequences, ()
    order = rng.permutation(np.unique(sequences.unit))
    rank = np.empty(int(order.max()) + 1, np.int64)
    rank[order] = np.arange(order.size)
    place = rank[sequences.unit]
    runs = np.cumsum(np.bincount(place, minlength=order.size))
    steps = np.cumsum(np.bincount(place, weights=sequences.lengths, minlength=order.size))
    n_units = max(1, int(np.count_nonzero((runs <= max_runs) & (steps <= max_steps))))
    part = sequences.select(np.flatnonzero(place < n_units))
    note = (
        f"{what} looks at the {n_of(part.n_runs, 'run')} of "
        f"{n_of(n_units, 'task or cluster', 'tasks or clusters')} drawn at random "
        f"out of {order.size}"
    )
    return part, (note,)


def _order_claim(
    pooled: ExactTest, within: ExactTest, n_units: int, seen: DetectableEffects | None
) -> Claim:
    """Decide whether one step of memory is enough: within tasks first, then pooled."""
    reasons = [*dict.fromkeys((*pooled.reasons, *within.reasons))]
    effect = (
        f"a second step of memory gains {pooled.order_gain:.3f} nats per step"
        if pooled.order_gain is not None
        else "the gain of a second step of memory is unknown"
    )
    if n_units < MIN_UNITS:
        few = n_of(n_units, "task or cluster", "tasks or clusters")
        verdict, why = Verdict.INCONCLUSIVE, f"only {few}"
        advice: str | None = f"run at least {MIN_UNITS} tasks"
    elif within.order is Verdict.REJECTED:
        verdict, why = Verdict.REJECTED, "memory: the test inside tasks rejects"
        advice = "use states that hold more of the past (--states), or the curves alone"
    elif pooled.order is Verdict.REJECTED:
        verdict, why = (
            Verdict.INCONCLUSIVE,
            "pooled runs reject, runs inside tasks do not: tasks differ"
            + (
                ", or there is too little to see inside tasks "
                f"({within.movable_steps:.0%} of steps can move there)"
                if within.movable_steps < _ENOUGH
                else ""
            ),
        )
        advice = "run more attempts per task"
    elif pooled.order is Verdict.INCONCLUSIVE:
        verdict, why = Verdict.INCONCLUSIVE, "too little can move for a test"
        advice = "run more tasks or attempts"
    else:
        verdict, why, advice = Verdict.ACCEPTED, "not rejected, pooled or inside tasks", None
    return Claim(
        claim="order",
        verdict=verdict,
        p_value=tested_p(pooled, "order")
        if tested_p(within, "order") is None
        else tested_p(within, "order"),
        detectable=_detectable(seen, "order"),
        reasons=(why, effect, *reasons),
        next=advice,
    )


def _timing_claim(
    pooled: ExactTest, bound: MisspecificationBound, seen: DetectableEffects | None
) -> Claim:
    """Decide whether the curves may be used: the bound on their error against the margin."""
    errors = None
    if bound.success is not None and bound.failure is not None:
        errors = {"success": bound.success.upper, "failure": bound.failure.upper}
    return Claim(
        claim="timing",
        verdict=bound.verdict,
        p_value=tested_p(pooled, "timing"),
        error_bound=errors,
        detectable=_detectable(seen, "timing"),
        reasons=bound.reasons,
        next=bound.next,
    )


def tested_p(test: ExactTest, family: str) -> float | None:
    """Return a family's p-value, None where nothing could move: 1 would read as a pass."""
    p: float | None = getattr(test, f"p_{family}")
    return p if test.movable_steps > 0 else None


def _detectable(seen: DetectableEffects | None, family: str) -> dict[str, float]:
    found = {} if seen is None else seen.of(family)
    return {name: value for name, value in found.items() if value is not None}


def _checks(pooled: ExactTest, within: ExactTest, bound: MisspecificationBound) -> Iterator[Check]:
    for test, on in ((pooled, "all"), (within, "within_task")):
        for family in ("order", "timing"):
            p = tested_p(test, family)
            yield Check(
                claim=family, name=f"{family} family", statistic=None, p_value=p,
                n=test.n_runs, on=on,
            )  # fmt: skip
        for statistic in test.statistics:
            yield Check(
                claim=statistic.family,
                name=statistic.name,
                statistic=statistic.value,
                p_value=statistic.p_value if test.movable_steps > 0 else None,
                n=test.n_runs,
                on=on,
            )
    for name, curve in (("success", bound.success), ("failure", bound.failure)):
        if curve is not None:
            for end in ("lower", "upper"):
                yield Check(
                    claim="timing",
                    name=f"{end} bound of the {name} curve's error",
                    statistic=getattr(curve, end),
                    p_value=None,
                    n=bound.n_runs,
                    on="all",
                )


def certify_as_published(
    corpus: TraceCorpus,
    resolved: ResolvedRuns,
    *,
    table: Mapping[str, str] | None = None,
    alpha: float = 0.05,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> Certificate:
    """Apply the published rule: split tasks in halves, make states on one, test on the other.

    Parameters
    ----------
    corpus, resolved : TraceCorpus, ResolvedRuns
        The runs and what they count as.
    table : mapping of str to str, optional
        A user's states.
    alpha : float
        Size of the KS test; AIC has none.
    rng : Generator, SeedSequence, int or None
        Source of the split and of the simulated runs.

    References
    ----------
    Tran-Truong and Le, TraceToChain (ISSRE 2026).
    """
    for_split, for_rule = generator(rng).spawn(2)
    units = np.unique(resolved.unit)
    fitted = np.isin(resolved.unit, for_split.permutation(units)[: (units.size + 1) // 2])
    half = only_runs(resolved, fitted)
    states: StateModel = fit_states(corpus, runs=half, table=table)
    result = certify_published(
        states.transform(corpus, half),
        states.transform(corpus, only_runs(resolved, ~fitted)),
        alpha=alpha,
        rng=for_rule,
    )
    return Certificate(
        method="published",
        claims=tuple(_published_claims(result, alpha, units.size)),
        checks=(
            Check(
                claim="timing", name="two-sample KS of passage times",
                statistic=result.ks_statistic, p_value=result.ks_p, n=result.n_test, on="split",
            ),
            Check(
                claim="order", name="AIC of order 1 minus AIC of order 2",
                statistic=result.aic_difference, p_value=None, n=result.n_test, on="split",
            ),
        ),
        alpha=alpha,
        margin=None,
        published=result,
        notes=("the published rule: half of the tasks make the chain, the others test it",),
    )  # fmt: skip


def only_runs(resolved: ResolvedRuns, keep: npt.NDArray[np.bool_]) -> ResolvedRuns:
    """Return the resolved runs where `keep` holds, numbering as it was."""
    columns = ("index", "success", "event", "duration", "step_limit", "task", "unit")
    fields = {name: getattr(resolved, name) for name in ResolvedRuns.__slots__}
    return ResolvedRuns(**fields | {name: fields[name][keep] for name in columns})


def _published_claims(result: PublishedCertificate, alpha: float, n_units: int) -> Iterator[Claim]:
    caution = "the rule has little power: its acceptance is no evidence of fit"
    aic, p = result.aic_difference, result.ks_p
    order = (
        "AIC could not be compared" if aic is None else f"AIC of order 1 minus order 2: {aic:.1f}"
    )
    timing = "no passage times to compare" if p is None else f"KS p = {p:.3g}, level {alpha}"
    for name, known, accepted, why in (
        ("order", aic is not None, (aic or 0.0) < 0, order),
        ("timing", p is not None, (p or 0.0) > alpha, timing),
    ):
        verdict = Verdict.ACCEPTED if accepted else Verdict.REJECTED
        if not known or n_units < MIN_UNITS:
            verdict = Verdict.INCONCLUSIVE
        yield Claim(
            claim=name,
            verdict=verdict,
            p_value=p if name == "timing" else None,
            reasons=(why, caution),
            next=None if verdict is Verdict.ACCEPTED else "--method exact says by how much",
        )
