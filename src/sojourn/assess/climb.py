"""From the homogeneous chain to a richer process: choice among candidates, then certification.

Where the homogeneous chain's timing is not accepted, the candidates are compared by
cross-validation over tasks and the simplest that is good enough is certified: *timing* by how far
its curves may be off, with a refitted test of fit beside it; *order* by exchanging futures at the
same state and step (progress) or by a second step of memory in the refitted test (others). Where
the timing of the simplest is not accepted, the next simplest within one standard error of the best
is tried; all that were tried are named. The homogeneous chain's own certificate stays as evidence;
the claims then speak of the chosen process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sojourn._threads import Workers
from sojourn.assess.certify import MAX_RUNS, MAX_STEPS, MIN_UNITS, Check, part_of
from sojourn.estimates import Claim, Estimate, Interval, Status, Verdict
from sojourn.process.base import TraceProcess
from sojourn.process.bound import MisspecificationBound
from sojourn.process.candidates import CANDIDATES, fit_candidate
from sojourn.process.choice import ProcessChoice, choose_process
from sojourn.process.draws import UNFITTED
from sojourn.process.exchange import ExchangeTest, test_exchange
from sojourn.process.fit_test import FitTest, test_fit
from sojourn.process.process_bound import BootstrappedProcess, ProcessBound, bound_process
from sojourn.sequences import StateSequences
from sojourn.tables import at_most, n_of

__all__ = ["Climb", "ProcessFindings", "climb"]

# Replicates x steps of the bound, as many as the bound of the chain has.
_MAX_BOUND_CELLS = 20_000_000
_MIN_RESAMPLES = 99
_ENOUGH = 0.8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessFindings:
    """A process other than the homogeneous chain, with what it may be believed for.

    Attributes
    ----------
    process : process
        Fitted to `runs`.
    runs : StateSequences
        All runs, or of very many those of tasks drawn at random.
    claims : tuple of Claim
        ``order`` and ``timing`` of this process.
    checks : tuple of Check
        The tests that were made of it.
    timing : ProcessBound
        Bounds on its error, and its curves with bands.
    tried : tuple of (str, MisspecificationBound)
        Simpler candidates whose timing was not accepted.
    fit_test : FitTest
        The refitted parametric bootstrap.
    pooled, within : ExchangeTest
        Memory given state and step, over all runs and inside tasks.
    horizon : int
        Steps of the longest observed run.
    notes : tuple of str
        What a reader must know of how it was made.
    """

    process: BootstrappedProcess = field(repr=False)
    runs: StateSequences = field(repr=False)
    claims: tuple[Claim, ...]
    checks: tuple[Check, ...] = field(repr=False)
    timing: ProcessBound = field(repr=False)
    tried: tuple[tuple[str, MisspecificationBound], ...] = field(repr=False)
    fit_test: FitTest
    pooled: ExchangeTest
    within: ExchangeTest
    horizon: int
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return self.process.name

    @property
    def bound(self) -> MisspecificationBound:
        """The bound on the curves' error."""
        return self.timing.bound

    @property
    def accepted(self) -> bool:
        """Whether its timing is accepted."""
        return self.bound.verdict is Verdict.ACCEPTED

    def within_steps(self, d: int, outcome: str) -> Estimate:
        """Return the process's P(outcome within d steps), as far as the claims let it."""
        curve = self.timing.success_within if outcome == "success" else self.timing.failure_within
        if curve is None or d >= curve.x.size:
            return Estimate(value=None, status=Status.WITHHELD, reasons=("not computed",))
        if self.bound.verdict is Verdict.REJECTED:
            reason = f"the timing of the {self.name} process is rejected"
            return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
        beyond = d > self.horizon
        reasons: tuple[str, ...] = ()
        if beyond:
            reasons = (f"beyond the longest run ({self.horizon} steps): extrapolation",)
        elif not self.accepted:
            reasons = ("timing is not certified",)
        return Estimate(
            value=float(curve.value[d]),
            interval=Interval(
                low=float(curve.low[d]),
                high=float(curve.high[d]),
                ci_prob=curve.ci_prob,
                kind=curve.kind,
            ),
            status=Status.INCONCLUSIVE if reasons else Status.SUPPORTED,
            reasons=reasons,
            estimand="population",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence as plain values."""
        return {
            "process": self.name,
            "bound": self.bound.to_dict(),
            "tried": [{"process": name, "bound": b.to_dict()} for name, b in self.tried],
            "fit_test": self.fit_test.to_dict(),
            "exchange_pooled": self.pooled.to_dict(),
            "exchange_within_tasks": self.within.to_dict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Climb:
    """What was looked at beyond the homogeneous chain.

    Attributes
    ----------
    choice : ProcessChoice or None
        The comparison of candidates; None where the process was named, or nothing was compared.
    found : ProcessFindings or None
        The richer process and its certificate; None where the homogeneous chain was kept.
    notes : tuple of str
        What a reader must know of how it was made.
    """

    choice: ProcessChoice | None = None
    found: ProcessFindings | None = None
    notes: tuple[str, ...] = ()


def climb(
    sequences: StateSequences,
    *,
    name: str | None = None,
    candidates: tuple[str, ...] = CANDIDATES,
    alpha: float = 0.05,
    margin: float = 0.10,
    n_draws: int = 499,
    n_refits: int = 199,
    n_exchanges: int = 999,
    icc: float | None = None,
    approximate: bool = False,
    full: bool = False,
    chain_rejected: bool = True,
    ci_prob: float = 0.95,
    executor: Executor | None = None,
    rng: np.random.Generator,
) -> Climb:
    """Choose a process, and certify it where it is not the homogeneous chain.

    Parameters
    ----------
    sequences : StateSequences
        All runs; nothing is held out but in the cross-validation.
    name : str, optional
        Certify this process, without any choice.
    candidates : tuple of str
        What is compared otherwise.
    alpha, margin : float
        Size of each test; the error of a curve that is of no matter.
    n_draws, n_refits, n_exchanges : int
        Simulated corpora of the test of fit, replicates of the bound, draws of the test of
        memory.
    icc : float, optional
        Intraclass correlation of success within tasks, for the simulated corpora.
    approximate : bool
        Whether the states were made by looking at the order of steps.
    full : bool
        Repeat the choice in every corpus of the test of fit.
    chain_rejected : bool
        Whether the homogeneous chain's timing is rejected, so that it is not kept even where its
        score is good enough.
    ci_prob : float
        Probability of the curves' bands.
    executor : concurrent.futures.Executor, optional
        Where to fit; by default in a thread a core. The answer does not depend on it.
    rng : Generator
        Source of chance.
    """
    for_part, for_choice, for_bound, for_rest = rng.spawn(4)
    n_units = int(np.unique(sequences.unit).size)
    if name is None and n_units < MIN_UNITS:
        note = f"fewer than {MIN_UNITS} tasks or clusters: no richer process is looked for"
        return Climb(notes=(note,))
    runs, notes = part_of(sequences, MAX_RUNS, np.inf, "the choice of a process", for_part)
    # A thread a core: more would only contend, since fits spend much of their time in Python.
    own = Workers(os.cpu_count()) if executor is None else nullcontext(executor)
    with own as threads:
        choice = None
        if name is None:
            choice = choose_process(runs, candidates=candidates, executor=threads, rng=for_choice)
            if choice.chosen == "homogeneous" and not chain_rejected:
                return Climb(choice=choice, notes=notes)
            fits = [choice.fits[near] for near in choice.near if near != "homogeneous"]
            if not fits:
                return Climb(choice=choice, notes=notes)
        else:
            try:
                fits = [fit_candidate(name, runs, rng=for_choice)]
            except (ValueError, ArithmeticError) as error:
                return Climb(notes=(*notes, f"{name} could not be fitted: {error}"))
        bounds = _bounds(fits, runs, margin, n_refits, ci_prob, threads, for_bound)
        found, lost = _certify(
            fits,
            bounds,
            runs,
            alpha=alpha,
            n_draws=n_draws,
            n_exchanges=n_exchanges,
            icc=icc,
            approximate=approximate,
            candidates=candidates if full and choice is not None else None,
            chosen=choice is not None,
            threads=threads,
            rng=for_rest,
        )
    return Climb(choice=choice, found=found, notes=notes + lost)


def _bounds(
    fits: Sequence[BootstrappedProcess],
    runs: StateSequences,
    margin: float,
    n_refits: int,
    ci_prob: float,
    threads: Executor,
    rng: np.random.Generator,
) -> list[ProcessBound | str]:
    """Bound the error of each process in turn, until one is accepted.

    Where a process could not be refitted to some resampled corpus, the reason stands in its place.
    """
    longest = int(runs.lengths.max(initial=1))
    found: list[ProcessBound | str] = []
    for process, own in zip(fits, rng.spawn(len(fits)), strict=True):
        horizon = 2 * longest if process.extrapolates else longest
        try:
            bound = bound_process(
                process,
                runs,
                margin=margin,
                n_resamples=min(n_refits, max(_MIN_RESAMPLES, _MAX_BOUND_CELLS // horizon)),
                ci_prob=ci_prob,
                horizon=horizon,
                executor=threads,
                rng=own,
            )
        except UNFITTED as error:
            found.append(f"could not be refitted to resampled tasks, left out: {error}")
            continue
        found.append(bound)
        if bound.bound.verdict is Verdict.ACCEPTED:
            break
    return found


class _Tested(NamedTuple):
    """What was found, and what could not be fitted again."""

    found: ProcessFindings | None
    lost: tuple[str, ...]


def _certify(
    fits: Sequence[BootstrappedProcess],
    bounds: Sequence[ProcessBound | str],
    runs: StateSequences,
    *,
    alpha: float,
    n_draws: int,
    n_exchanges: int,
    icc: float | None,
    approximate: bool,
    candidates: tuple[str, ...] | None,
    chosen: bool,
    threads: Executor,
    rng: np.random.Generator,
) -> _Tested:
    """Test the first process that is accepted, else the simplest; None where none has a bound.

    Beside it stands what could not be fitted again, and why.
    """
    pairs = list(zip(fits, bounds, strict=False))
    lost = tuple(f"{fit.name}: {b}" for fit, b in pairs if isinstance(b, str))
    known = [(fit, b) for fit, b in pairs if not isinstance(b, str)]
    if not known:
        return _Tested(None, lost)
    place = len(known) - 1 if known[-1][1].bound.verdict is Verdict.ACCEPTED else 0
    process, timing = known[place]
    for_part, for_fit, for_pooled, for_within = rng.spawn(4)
    what = f"the tests of the {process.name} process"
    part, notes = part_of(runs, MAX_RUNS, MAX_STEPS, what, for_part)
    try:
        fit_test = test_fit(
            process if part is runs else process.refit(part),
            part,
            n_draws=n_draws,
            icc=icc,
            alpha=alpha,
            full=candidates is not None,
            candidates=candidates,
            chosen=chosen,
            executor=threads,
            rng=for_fit,
        )
    except UNFITTED as error:
        why = f"{process.name}: could not be fitted to what its test looks at, left out: {error}"
        return _Tested(None, (*lost, why))
    settings: dict[str, Any] = {
        "n_draws": n_exchanges,
        "alpha": alpha,
        "approximate": approximate,
        "executor": threads,
    }
    pooled = test_exchange(part, rng=for_pooled, **settings)
    within = test_exchange(part, within_tasks=True, rng=for_within, **settings)
    n_units = int(np.unique(runs.unit).size)
    tried = [(fit.name, b.bound) for fit, b in known]
    del tried[place]
    found = ProcessFindings(
        process=process,
        runs=runs,
        claims=(
            _order_claim(process, pooled, within, fit_test, n_units),
            _timing_claim(process, timing.bound, fit_test),
        ),
        checks=tuple(_checks(process, timing.bound, fit_test, pooled, within)),
        timing=timing,
        tried=tuple(tried),
        fit_test=fit_test,
        pooled=pooled,
        within=within,
        horizon=int(runs.lengths.max(initial=1)),
        notes=(*notes, *(_tried_note(tried, process.name) if tried else ())),
    )
    return _Tested(found, lost)


def _tried_note(tried: Sequence[tuple[str, MisspecificationBound]], kept: str) -> tuple[str, ...]:
    errors = [
        f"{name} (off by at most {at_most(max(b.success.upper, b.failure.upper))})"
        for name, b in tried
        if b.success is not None and b.failure is not None
    ]
    return (
        f"tried as well, not accepted: {', '.join(errors)}; each bound holds with 95 % on its own, "
        f"and {kept} is the one reported",
    )


def _order_claim(
    process: TraceProcess,
    pooled: ExchangeTest,
    within: ExchangeTest,
    fit_test: FitTest,
    n_units: int,
) -> Claim:
    """Decide whether the process remembers enough."""
    by_step = process.name == "progress"
    verdict, why, advice = _by_exchange(pooled, within) if by_step else _by_simulation(fit_test)
    if n_units < MIN_UNITS:
        few = n_of(n_units, "task or cluster", "tasks or clusters")
        verdict, why = Verdict.INCONCLUSIVE, f"only {few}"
        advice = f"run at least {MIN_UNITS} tasks"
    p = within.p_value if within.p_value is not None else pooled.p_value
    gain = pooled.gain if by_step else fit_test.order_gain
    effect = (
        "what the step before adds is unknown"
        if gain is None
        else f"the step before the present one adds {gain:.3f} nats per step"
    )
    return Claim(
        claim="order",
        verdict=verdict,
        p_value=p if by_step else fit_test.p_order,
        reasons=(f"{process.name}: {why}", effect),
        next=advice,
    )


def _by_exchange(pooled: ExchangeTest, within: ExchangeTest) -> tuple[Verdict, str, str | None]:
    if within.verdict is Verdict.REJECTED:
        return (
            Verdict.REJECTED,
            "memory beyond state and step: runs of the same task cannot exchange their futures",
            "use states that hold more of the past (--states), or the curves alone",
        )
    if pooled.verdict is Verdict.REJECTED:
        little = within.movable_steps < _ENOUGH
        return (
            Verdict.INCONCLUSIVE,
            "runs of different tasks cannot exchange their futures, runs of the same task can: "
            "tasks differ"
            + (
                ", or there is too little to see inside tasks "
                f"({within.movable_steps:.0%} of steps can move there)"
                if little
                else ""
            ),
            "run more attempts per task",
        )
    if pooled.verdict is Verdict.INCONCLUSIVE:
        return (
            Verdict.INCONCLUSIVE,
            "too little can move for a test of memory given state and step",
            "run more tasks or attempts",
        )
    return (
        Verdict.ACCEPTED,
        "no memory beyond state and step is found, pooled or inside tasks",
        None,
    )


def _by_simulation(fit_test: FitTest) -> tuple[Verdict, str, str | None]:
    if fit_test.order is Verdict.REJECTED:
        return (
            Verdict.REJECTED,
            "a second step of memory is not as in its own simulated corpora",
            "use states that hold more of the past (--states), or the curves alone",
        )
    if fit_test.order is Verdict.INCONCLUSIVE:
        return Verdict.INCONCLUSIVE, "; ".join(fit_test.reasons), "run more tasks or attempts"
    return Verdict.ACCEPTED, "a second step of memory is as in its own simulated corpora", None


def _timing_claim(process: TraceProcess, bound: MisspecificationBound, fit_test: FitTest) -> Claim:
    errors = None
    if bound.success is not None and bound.failure is not None:
        errors = {"success": bound.success.upper, "failure": bound.failure.upper}
    first, *more = bound.reasons or ("",)
    return Claim(
        claim="timing",
        verdict=bound.verdict,
        p_value=fit_test.p_timing,
        error_bound=errors,
        reasons=(f"{process.name}: {first}", *more),
        next=bound.next,
    )


def _checks(
    process: TraceProcess,
    bound: MisspecificationBound,
    fit_test: FitTest,
    pooled: ExchangeTest,
    within: ExchangeTest,
) -> Iterator[Check]:
    name = process.name
    for statistic in fit_test.statistics:
        yield Check(
            claim="order" if statistic.name == "second_order" else "timing",
            name=f"{name}, refitted simulation: {statistic.name}",
            statistic=statistic.value,
            p_value=statistic.p_value,
            n=fit_test.n_runs,
            on="all",
        )
    for test, on in ((pooled, "all"), (within, "within_task")):
        yield Check(
            claim="order",
            name="memory given state and step",
            statistic=test.gain,
            p_value=test.p_value,
            n=test.n_runs,
            on=on,
        )
    for what, curve in (("success", bound.success), ("failure", bound.failure)):
        if curve is not None:
            for end in ("lower", "upper"):
                yield Check(
                    claim="timing",
                    name=f"{name}: {end} bound of the {what} curve's error",
                    statistic=getattr(curve, end),
                    p_value=None,
                    n=bound.n_runs,
                    on="all",
                )
