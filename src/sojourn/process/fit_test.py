"""Does a fitted process fit? The refitted parametric bootstrap, for any process.

A p-value against a process that was fitted to the same runs means little unless the process is
fitted again to every simulated corpus. So corpora with the observed design (tasks, attempts, step
caps) are drawn from the fitted process with the fitted task effect, the process is fitted to each,
and each is asked how far its own fit is from it. The statistics are the sup distances of both
incidence curves, a second step of memory given state and step band, and the spread of lengths.

By default the kind of process is held as it was chosen, which makes the p-value a little too
large or small where the choice was a near thing; `full` repeats the choice in every corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_fraction, check_positive_int, frozen_array, generator
from sojourn.estimates import Verdict, number
from sojourn.process._ranks import smallest_p, two_sided_p, upper_p
from sojourn.process.base import RefittableProcess
from sojourn.process.cap_law import CapLaw, cap_law, cut_after
from sojourn.process.process_bound import BootstrappedProcess
from sojourn.process.task_effect import TaskEffect, match_task_effect, outcome_correlation
from sojourn.sequences import CENSORED, StateSequences

__all__ = ["FitStatistic", "FitTest", "test_fit"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NAMES = ("success_curve", "failure_curve", "length_spread", "second_order")
_N_TIMING = 3
_N_BANDS = 4
_N_CHUNKS = 8
_ENDLESS = 50  # longest runs: a simulated run that outlasts so many of them is cut
_HORIZON = 2  # longest runs, up to which curves are compared
_DENSE = 2_000_000
_SHORT = 0.03


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitStatistic:
    """One statistic with its draws.

    Attributes
    ----------
    name : str
        ``success_curve`` and ``failure_curve`` (sup distance of the fitted curve from
        Aalen-Johansen), ``length_spread`` (variance of the number of steps), ``second_order``
        (G2 of the state before and the next event, given state and step band).
    value : float
        The statistic of the observed corpus.
    p_value : float
        Its own p-value, two-sided for ``length_spread``.
    draws : ndarray of shape (n_draws,)
        The statistic of each simulated corpus, refitted.
    """

    name: str
    value: float
    p_value: float
    draws: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the statistic without its draws."""
        return {
            "name": self.name,
            "value": number(self.value),
            "p_value": number(self.p_value),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitTest:
    """What the refitted parametric bootstrap finds.

    Attributes
    ----------
    p_value : float or None
        Of all statistics together, by the smallest of their p-values; None where nothing could
        be tested.
    p_timing, p_order : float or None
        Of both curves and the lengths together, and of the second step of memory.
    order, timing : Verdict
        ``rejected`` at `alpha`, ``accepted`` (not rejected) or ``inconclusive``.
    process : str
        The kind of process.
    full : bool
        Whether the choice of the process was repeated in every simulated corpus.
    alpha : float
        Size of each family's test.
    statistics : tuple of FitStatistic
        All statistics with their draws.
    order_gain : float or None
        What the state before tells of the next event beyond state and step band, in nats per
        step, over what chance alone gives.
    effect : TaskEffect or None
        What tasks share in the simulated corpora.
    capped : bool
        Whether simulated runs are cut as the observed ones may be.
    n_runs, n_tasks, n_draws : int
        Design and number of simulated corpora.
    reasons : tuple of str
        What a reader must know.
    """

    p_value: float | None
    p_timing: float | None
    p_order: float | None
    order: Verdict
    timing: Verdict
    process: str
    full: bool
    alpha: float
    statistics: tuple[FitStatistic, ...] = field(repr=False)
    order_gain: float | None
    effect: TaskEffect | None
    capped: bool
    n_runs: int
    n_tasks: int
    n_draws: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        p = "-" if self.p_value is None else f"{self.p_value:.4g}"
        lines = [f"fit of the {self.process} process: p = {p} ({self.n_draws} refitted corpora)"]
        lines += [f"  {s.name:14} {s.value:10.4g}  p = {s.p_value:.4g}" for s in self.statistics]
        return "\n".join(lines + [f"  {reason}" for reason in self.reasons])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, without the draws."""
        effect = self.effect
        return {
            "p_value": number(self.p_value),
            "p_timing": number(self.p_timing),
            "p_order": number(self.p_order),
            "order": str(self.order),
            "timing": str(self.timing),
            "process": self.process,
            "full": self.full,
            "alpha": self.alpha,
            "statistics": [s.to_dict() for s in self.statistics],
            "order_gain": number(self.order_gain),
            "task_effect": None
            if effect is None
            else {
                "mean": number(effect.mean),
                "sd": number(effect.sd),
                "icc": number(effect.icc),
                "icc_reached": number(effect.reached),
            },
            "capped": self.capped,
            "n_runs": self.n_runs,
            "n_tasks": self.n_tasks,
            "n_draws": self.n_draws,
            "reasons": list(self.reasons),
        }


@plain_blas()
def test_fit(
    process: RefittableProcess,
    sequences: StateSequences,
    *,
    n_draws: int = 499,
    icc: float | None = None,
    alpha: float = 0.05,
    full: bool = False,
    candidates: Sequence[str] | None = None,
    chosen: bool = True,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> FitTest:
    """Test the fit of a process by simulating from it and fitting it again.

    Parameters
    ----------
    process : RefittableProcess
        A process fitted to `sequences`.
    sequences : StateSequences
        The runs.
    n_draws : int
        Simulated corpora; p-values are multiples of ``1 / (n_draws + 1)``.
    icc : float, optional
        Intraclass correlation of success among attempts at a task; the moment estimate by
        default.
    alpha : float
        Size of each family's test.
    full : bool
        Choose the process anew, by cross-validation, in every simulated corpus; costs as many
        choices.
    candidates : sequence of str, optional
        With `full`, the candidates of the choice; all by default.
    chosen : bool
        Whether the kind of process was chosen by these runs. False where it was named beforehand:
        then p needs no allowance for a choice.
    executor : concurrent.futures.Executor, optional
        Where to simulate and refit; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Returns
    -------
    FitTest

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    A cut run is cut at its length in every simulated corpus. What the caps of the others would
    have been is drawn from the product-limit law of the cuts beyond their lengths; with a single
    step cap that is the cap itself.

    References
    ----------
    Stute, Gonzales Manteiga and Presedo Quindimil (1993), Bootstrap based goodness-of-fit tests,
    Metrika 40. Davison and Hinkley (1997), Bootstrap Methods and their Application, section 3.5.
    """
    check_positive_int(n_draws, name="n_draws")
    check_fraction(alpha, name="alpha")
    if icc is not None and not 0.0 <= icc <= 1.0:
        raise ValueError(f"icc must lie in [0, 1]; got {icc!r}")
    source = generator(rng)
    reason = _untestable(sequences)
    if reason is not None:
        return _untested(process, sequences, alpha, full, reason)
    design = _design(sequences)
    wanted = outcome_correlation(sequences) if icc is None else icc
    effect = match_task_effect(process, wanted, max_steps=design.max_steps, rng=source)
    again = _choosing(candidates, design.horizon) if full else _refitting(process, design.horizon)
    seeds = source.spawn(n_draws)

    def rows_of(chunk: Sequence[np.random.Generator]) -> Floats:
        return np.array([_simulated(process, design, effect, again, seed) for seed in chunk])

    chunks = [seeds[k::_N_CHUNKS] for k in range(min(_N_CHUNKS, n_draws))]
    parts = map(rows_of, chunks) if executor is None else executor.map(rows_of, chunks)
    own = _curves_of(process, design.horizon)
    rows = np.vstack([_statistics(own, sequences, design), *parts])
    return _result(process, sequences, design, effect, rows, alpha, full, chosen)


def _settled(rows: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Return the rows of the corpora that could be fitted, and how many could not."""
    able = np.isfinite(rows).all(axis=1)
    if able.all():
        return rows, ()
    lost = int(np.count_nonzero(~able))
    return rows[able], (f"{lost} of {rows.shape[0] - 1} simulated corpora could not be fitted",)


class _Design(NamedTuple):
    task: npt.NDArray[np.int32]
    caps: CapLaw | None
    max_steps: int
    horizon: int
    edges: Ints  # first steps of the step bands but the first


def _design(sequences: StateSequences) -> _Design:
    lengths = sequences.lengths
    longest = int(lengths.max())
    caps = cap_law(sequences)
    endless = _ENDLESS * longest + 100
    step = np.arange(sequences.states.size) - np.repeat(sequences.offsets[:-1], lengths)
    edges = np.unique(np.quantile(step, np.arange(1, _N_BANDS) / _N_BANDS).round().astype(int))
    closed = caps is not None and caps.survival[-1] <= 0.0
    return _Design(
        task=np.unique(sequences.task, return_inverse=True)[1].astype(np.int32),
        caps=caps,
        max_steps=int(caps.at[-1]) if caps is not None and closed else endless,
        horizon=longest if closed else _HORIZON * longest,
        edges=edges[edges > 0],
    )


# From a corpus to both curves of the process that is fitted to it.
_Again = Callable[[StateSequences, np.random.Generator], Floats]


def _refitting(process: RefittableProcess, horizon: int) -> _Again:
    """Fit the same kind of process again, curves only where it can be had: that is faster."""

    def refit(runs: StateSequences, _rng: np.random.Generator) -> Floats:
        if not isinstance(process, BootstrappedProcess):
            return _curves_of(process.refit(runs), horizon)
        once = np.ones((1, np.unique(runs.unit).size))
        return np.asarray(process.bootstrap_curves(runs, once, horizon)[0])

    return refit


def _choosing(candidates: Sequence[str] | None, horizon: int) -> _Again:
    from sojourn.process.candidates import CANDIDATES
    from sojourn.process.choice import choose_process

    names = CANDIDATES if candidates is None else candidates

    def choose(runs: StateSequences, rng: np.random.Generator) -> Floats:
        return _curves_of(choose_process(runs, candidates=names, rng=rng).process, horizon)

    return choose


def _curves_of(process: RefittableProcess, horizon: int) -> Floats:
    return np.stack([process.success_within(horizon), process.failure_within(horizon)])


def _simulated(
    process: RefittableProcess,
    design: _Design,
    effect: TaskEffect,
    again: _Again,
    rng: np.random.Generator,
) -> Floats:
    """Draw a corpus of the observed design, fit again, and return its statistics."""
    log_odds = effect.draw(design.task, rng) if effect.sd > 0.0 else None
    runs = process.simulate_tasks(
        design.task, log_odds=log_odds, max_steps=design.max_steps, rng=rng
    )
    if design.caps is not None:
        runs = cut_after(runs, design.caps.draw(design.max_steps, rng))
    try:
        fitted = again(runs, rng)
    except ArithmeticError:  # an iteration that did not settle; such corpora are counted
        return np.full(len(_NAMES), np.nan)
    return _statistics(fitted, runs, design)


def _statistics(fitted: Floats, runs: StateSequences, design: _Design) -> Floats:
    from sojourn.process._exact_kernels import incidence_curves

    horizon = design.horizon
    endings = np.zeros((3, horizon + 2))
    np.add.at(endings, (runs.event, np.minimum(runs.lengths, horizon + 1)), 1.0)
    observed = np.zeros((2, horizon + 1))
    incidence_curves(endings, observed)
    return np.array(
        [
            *np.abs(fitted - observed).max(axis=1),
            runs.lengths.var(),
            _second_order(runs, design.edges),
        ]
    )


def _second_order(runs: StateSequences, edges: Ints) -> float:
    """G2 of the state before and the next event, given state and step band."""
    m = runs.n_states
    step = np.arange(runs.states.size) - np.repeat(runs.offsets[:-1], runs.lengths)
    state = runs.states.astype(np.int64)
    following = np.append(state[1:], 0)
    ended = runs.offsets[1:][runs.lengths > 0] - 1
    following[ended] = np.array([-1, m, m + 1])[runs.event[runs.lengths > 0]]
    used = np.flatnonzero((step > 0) & (following >= 0))
    band = np.searchsorted(edges, step[used], side="right")
    here = band * m + state[used]
    before, after = state[used - 1], following[used]
    n_here = (edges.size + 1) * m
    joint = _n_log_n((here * m + before) * (m + 2) + after, n_here * m * (m + 2))
    given = _n_log_n(here * m + before, n_here * m)
    alone = _n_log_n(here * (m + 2) + after, n_here * (m + 2))
    return 2.0 * (joint - given - alone + _n_log_n(here, n_here))


def _n_log_n(keys: Ints, size: int) -> float:
    """Sum n log n over the counts of the keys, each below `size`."""
    if size <= max(_DENSE, 4 * keys.size):
        counts = np.bincount(keys)
        counts = counts[counts > 0]
    else:
        counts = np.unique(keys, return_counts=True)[1]
    return float(np.sum(counts * np.log(counts)))


def _untestable(sequences: StateSequences) -> str | None:
    if sequences.n_runs == 0 or sequences.states.size == 0:
        return "no run has a step"
    if not np.any(sequences.event != CENSORED):
        return "no run ended: every one was cut"
    return None


def _result(
    process: RefittableProcess,
    sequences: StateSequences,
    design: _Design,
    effect: TaskEffect,
    rows: Floats,
    alpha: float,
    full: bool,
    chosen: bool,
) -> FitTest:
    rows, lost = _settled(rows)
    rows = np.round(rows, 9)  # equal corpora must tie whatever the order of additions
    p = np.column_stack([upper_p(column) for column in rows.T])
    p[:, 2] = two_sided_p(rows[:, 2])
    timing, order = float(smallest_p(p[:, :_N_TIMING])[0]), float(p[0, 3])
    spare = rows[0, 3] - rows[1:, 3].mean()
    return FitTest(
        p_value=float(smallest_p(p)[0]),
        p_timing=timing,
        p_order=order,
        order=Verdict.REJECTED if order <= alpha else Verdict.ACCEPTED,
        timing=Verdict.REJECTED if timing <= alpha else Verdict.ACCEPTED,
        process=process.name,
        full=full,
        alpha=alpha,
        statistics=tuple(
            FitStatistic(
                name=name,
                value=float(rows[0, k]),
                p_value=float(p[0, k]),
                draws=frozen_array(rows[1:, k], np.float64, name="draws"),
            )
            for k, name in enumerate(_NAMES)
        ),
        order_gain=float(spare / (2 * sequences.states.size)),
        effect=effect,
        capped=design.caps is not None,
        n_runs=sequences.n_runs,
        n_tasks=int(design.task.max()) + 1,
        n_draws=rows.shape[0] - 1,
        reasons=(*lost, *_reasons(design, effect, full, chosen)),
    )


def _reasons(design: _Design, effect: TaskEffect, full: bool, chosen: bool) -> tuple[str, ...]:
    held: tuple[str, ...] = ()
    if full:
        held = ("the choice of the process is repeated in every simulated corpus",)
    elif chosen:
        held = ("the kind of process is held as it was chosen: p does not allow for the choice",)
    words = (
        f"simulated tasks differ in the odds of success (sd {effect.sd:.2f} on the log odds)"
        if effect.sd > 0.0
        else "simulated tasks do not differ beyond what the process says"
    )
    if effect.reached < effect.icc - _SHORT:
        words += (
            f"; they cannot differ as much as the observed ones (correlation "
            f"{effect.reached:.2f}, not {effect.icc:.2f}), so p may be too small"
        )
    cut = () if design.caps is None else ("simulated runs are cut as the observed ones may be",)
    return (*held, words, *cut)


def _untested(
    process: RefittableProcess, sequences: StateSequences, alpha: float, full: bool, reason: str
) -> FitTest:
    return FitTest(
        p_value=None,
        p_timing=None,
        p_order=None,
        order=Verdict.INCONCLUSIVE,
        timing=Verdict.INCONCLUSIVE,
        process=process.name,
        full=full,
        alpha=alpha,
        statistics=(),
        order_gain=None,
        effect=None,
        capped=False,
        n_runs=sequences.n_runs,
        n_tasks=sequences.n_tasks,
        n_draws=0,
        reasons=(reason,),
    )
