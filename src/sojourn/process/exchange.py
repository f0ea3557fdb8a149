"""Memory given state and step: an exact test that leaves the timing of runs as it is.

If the next event of a run depends on nothing but its state and its step number, then runs that are
in the same state after the same number of steps may exchange their futures. Doing so at every
state and step, independently and uniformly, draws uniformly among all corpora with the observed
counts n(step, state, next event). All these corpora have the same two incidence curves, so the
test says nothing on timing; what it sees is whether the steps before the present one tell what
comes next.

Tasks that differ in pace or in what they need look like memory when runs of all tasks exchange
their futures: only a rejection *within tasks* is memory.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, frozen_array, generator
from sojourn.estimates import Verdict, number
from sojourn.process._exchange_kernels import Layout, draw_tables, lay_out, tables_of
from sojourn.process._ranks import smallest_p, upper_p
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["ExchangeStatistic", "ExchangeTest", "test_exchange"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NAMES = ("before", "before_moves", "two_before")
_ENOUGH_VALUES = 20
_N_CHUNKS = 8
_MOST_CELLS = 8_000_000  # of all drawn tables together; rarer states are pooled to stay below
_FEWEST_STATES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExchangeStatistic:
    """One statistic of the test with its null draws.

    Attributes
    ----------
    name : str
        ``before`` (the state before and the next event), ``before_moves`` (the same among steps
        from state to state only), ``two_before`` (the state two steps before).
    value : float
        Pearson's chi-square of the observed table against the mean of all drawn ones.
    p_value : float
        Its own exact p-value.
    n_distinct : int
        Different values among the draws.
    draws : ndarray of shape (n_draws,)
        The statistic of each drawn corpus.
    """

    name: str
    value: float
    p_value: float
    n_distinct: int
    draws: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the statistic without its draws."""
        return {
            "name": self.name,
            "value": number(self.value),
            "p_value": number(self.p_value),
            "n_distinct": self.n_distinct,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExchangeTest:
    """What the exchange of futures finds.

    Attributes
    ----------
    p_value : float or None
        Exact p-value of all statistics together; None where nothing can move.
    verdict : Verdict
        ``rejected`` at `alpha`, ``accepted`` (not rejected) or ``inconclusive`` with `reasons`.
    within_tasks : bool
        Whether only runs of the same task exchanged futures.
    alpha : float
        Size of the test.
    gain : float or None
        What the state before tells of the next event beyond state and step, in nats per step,
        over what chance alone gives.
    statistics : tuple of ExchangeStatistic
        All statistics with their draws.
    movable_steps : float
        Share of steps in groups where futures differ and pasts do too.
    n_runs, n_steps : int
        What was tested; runs without a step are left out.
    n_draws : int
        Corpora drawn.
    exactness : str
        ``exact`` or ``approximate``, as the caller knows how the states were made.
    conditions : tuple of str
        Under which the p-values are as exact as `exactness` says.
    reasons : tuple of str
        Why the verdict is inconclusive, and what else a reader must know.
    """

    p_value: float | None
    verdict: Verdict
    within_tasks: bool
    alpha: float
    gain: float | None
    statistics: tuple[ExchangeStatistic, ...] = field(repr=False)
    movable_steps: float
    n_runs: int
    n_steps: int
    n_draws: int
    exactness: str
    conditions: tuple[str, ...] = field(repr=False)
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        where = "within tasks" if self.within_tasks else "pooled"
        p = "-" if self.p_value is None else f"{self.p_value:.4g}"
        kind = "" if self.exactness == "exact" else f"{self.exactness} "
        lines = [
            f"memory given state and step, {where}: {kind}p = {p}, {self.verdict} "
            f"({n_of(self.n_draws, 'draw')}, {self.movable_steps:.0%} of steps can move)"
        ]
        lines += [f"  {s.name:14} {s.value:10.4g}  p = {s.p_value:.4g}" for s in self.statistics]
        return "\n".join(lines + [f"  {reason}" for reason in self.reasons])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, without the draws."""
        return {
            "p_value": number(self.p_value),
            "verdict": str(self.verdict),
            "within_tasks": self.within_tasks,
            "alpha": self.alpha,
            "gain": number(self.gain),
            "statistics": [s.to_dict() for s in self.statistics],
            "movable_steps": self.movable_steps,
            "n_runs": self.n_runs,
            "n_steps": self.n_steps,
            "n_draws": self.n_draws,
            "exactness": self.exactness,
            "conditions": list(self.conditions),
            "reasons": list(self.reasons),
        }


def test_exchange(
    sequences: StateSequences,
    *,
    n_draws: int = 999,
    within_tasks: bool = False,
    alpha: float = 0.05,
    approximate: bool = False,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> ExchangeTest:
    """Test whether the next event depends on more than the state and the step number, exactly.

    Parameters
    ----------
    sequences : StateSequences
        The runs; cut ones keep their number of steps too. Those without a step are left out.
    n_draws : int
        Corpora to draw; p-values are multiples of ``1 / (n_draws + 1)``.
    within_tasks : bool
        Let only runs of the same task exchange their futures, so that each task may have a
        process of its own.
    alpha : float
        Size of the test.
    approximate : bool
        Say so when the states were made from features that see their neighbours or by a score:
        the p-values are then not exact.
    executor : concurrent.futures.Executor or None
        Where to run the draws; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of the draws' seeds.

    Returns
    -------
    ExchangeTest

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    With n(t, i, j) the number of runs that are in state i after step t and do j next, the corpora
    with the observed n are the products over (t, i) of all ways to join the pasts that meet there
    with the next events; each is drawn equally often. Both incidence curves are functions of n.
    Tables of (state before, state, next event), summed over steps, are compared with their mean
    over the observed and all drawn corpora, so that all corpora are on a par.
    """
    check_positive_int(n_draws, name="n_draws")
    check_fraction(alpha, name="alpha")
    seeds = generator(rng).integers(0, 2**64, size=n_draws, dtype=np.uint64)
    runs = sequences.select(np.flatnonzero(sequences.lengths > 0))
    reasons = []
    if runs.n_runs < sequences.n_runs:
        reasons.append(f"left out: {n_of(sequences.n_runs - runs.n_runs, 'run')} without a step")
    settings = _Settings(within_tasks, alpha, approximate)
    if runs.n_runs == 0:
        return _untested(runs, settings, (*reasons, "no run has a step"))
    laid = _make_layout(runs, within_tasks, _n_coarse(runs.n_states, n_draws + 1))
    if laid.movable == 0.0:
        why = "no two runs with different pasts and different futures meet in a state and step"
        return _untested(runs, settings, (*reasons, why))
    if laid.pooled:
        reasons.append(f"the {laid.pooled} rarest states are taken together in the statistics")
    drawn = _draw(laid, runs.n_states, seeds, executor)
    return _result(runs, laid, drawn, settings, reasons)


class _Settings(NamedTuple):
    within_tasks: bool
    alpha: float
    approximate: bool


class _Laid(NamedTuple):
    layout: Layout
    n_coarse: int
    pooled: int
    movable: float


class _Drawn(NamedTuple):
    one: Ints  # (n_draws + 1, c + 1, c, c + 3): the observed corpus first
    two: Ints


def _n_coarse(n_states: int, n_corpora: int) -> int:
    """Return how many states the tables may tell apart."""
    most = int((_MOST_CELLS / n_corpora) ** (1 / 3)) - 1
    return min(n_states, max(most, _FEWEST_STATES))


def _make_layout(runs: StateSequences, within_tasks: bool, n_coarse: int) -> _Laid:
    m, lengths = runs.n_states, runs.lengths
    run = np.repeat(np.arange(runs.n_runs), lengths)
    stratum = np.unique(runs.task, return_inverse=True)[1][run] if within_tasks else 0 * run
    step = np.arange(runs.states.size) - np.repeat(runs.offsets[:-1], lengths)
    state = runs.states.astype(np.int64)
    following = np.append(state[1:], 0)
    following[runs.offsets[1:] - 1] = m + runs.event
    order = np.lexsort((state, step, stratum))
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    origin = np.empty(order.size, dtype=np.int64)
    lay_out(place, run, origin)
    new = np.append(True, (np.diff(stratum[order]) != 0) | (np.diff(step[order]) != 0))
    starts = np.flatnonzero(new)
    rank = np.empty(m, dtype=np.int64)
    rank[np.argsort(-np.bincount(state, minlength=m), kind="stable")] = np.arange(m)
    coarse = np.concatenate((np.minimum(rank, n_coarse - 1), n_coarse + np.arange(3), [n_coarse]))
    layout = Layout(
        state=state[order],
        events=following[order],
        origin=origin,
        blocks=np.append(starts, order.size),
        first=step[order][starts] == 0,
        coarse=coarse,
    )
    return _Laid(layout, n_coarse, max(0, m - n_coarse + 1) * (n_coarse < m), _movable(layout, new))


def _movable(layout: Layout, new: npt.NDArray[np.bool_]) -> float:
    """Share of steps in groups whose next events differ and whose states before differ too."""
    group = np.cumsum(new | np.append(True, np.diff(layout.state) != 0)) - 1
    before = np.where(layout.origin >= 0, layout.state[layout.origin], -1)

    def varies(values: Ints) -> npt.NDArray[np.bool_]:
        low = np.full(group[-1] + 1, np.iinfo(np.int64).max)
        high = np.full(group[-1] + 1, np.iinfo(np.int64).min)
        np.minimum.at(low, group, values)
        np.maximum.at(high, group, values)
        return low < high

    moves = varies(layout.events) & varies(before)
    return float(moves[group].mean())


def _draw(
    laid: _Laid, n_states: int, seeds: npt.NDArray[np.uint64], executor: Executor | None
) -> _Drawn:
    c = laid.n_coarse
    one = np.empty((seeds.size + 1, c + 1, c, c + 3), dtype=np.int64)
    two = np.empty_like(one)
    tables_of(laid.layout, laid.layout.events, laid.layout.origin, one[0], two[0])
    calls: list[tuple[Any, ...]] = [
        (draw_tables, chunk, laid.layout, n_states, first, second)
        for chunk, first, second in zip(
            np.array_split(seeds, _N_CHUNKS),
            np.array_split(one[1:], _N_CHUNKS),
            np.array_split(two[1:], _N_CHUNKS),
            strict=True,
        )
    ]
    if executor is None:
        for function, *arguments in calls:
            function(*arguments)
    else:
        for future in [executor.submit(*call) for call in calls]:
            future.result()
    return _Drawn(one, two)


def _chi_square(tables: Ints) -> Floats:
    """Pearson's statistic of each table against the mean of all, shape (n_corpora,)."""
    flat = tables.reshape(tables.shape[0], -1)
    total = flat.sum(axis=0)
    flat = flat[:, total > 0].astype(np.float64)
    mean = total[total > 0] / flat.shape[0]
    # Equal corpora must tie whatever the order of additions.
    return np.asarray(np.round(np.square(flat - mean) @ (1.0 / mean), 9))


def _gains(tables: Ints) -> Floats:
    """Sum of n log(n / mean) over the cells of each table, in nats."""
    flat = tables.reshape(tables.shape[0], -1)
    total = flat.sum(axis=0)
    flat = flat[:, total > 0].astype(np.float64)
    log = np.log(np.maximum(flat, 1.0)) - np.log(total[total > 0] / flat.shape[0])
    return np.asarray((flat * log).sum(axis=1))


def _result(
    runs: StateSequences, laid: _Laid, drawn: _Drawn, settings: _Settings, reasons: list[str]
) -> ExchangeTest:
    c = laid.n_coarse
    columns = np.column_stack(
        (
            _chi_square(drawn.one[:, :c]),
            _chi_square(drawn.one[:, :c, :, :c]),
            _chi_square(drawn.two[:, :c]),
        )
    )
    p = np.column_stack([upper_p(column) for column in columns.T])
    joint = float(smallest_p(p)[0])
    statistics = tuple(
        ExchangeStatistic(
            name=name,
            value=float(columns[0, k]),
            p_value=float(p[0, k]),
            n_distinct=int(np.unique(columns[1:, k]).size),
            draws=frozen_array(columns[1:, k], np.float64, name="draws"),
        )
        for k, name in enumerate(_NAMES)
    )
    most = max(s.n_distinct for s in statistics)
    verdict = Verdict.REJECTED if joint <= settings.alpha else Verdict.ACCEPTED
    if most < _ENOUGH_VALUES:
        verdict = Verdict.INCONCLUSIVE
        reasons.append(
            f"the counts leave only {most} different values of the statistics, fewer than "
            f"{_ENOUGH_VALUES}: too little can move to tell anything"
        )
    gains = _gains(drawn.one[:, :c])
    return ExchangeTest(
        p_value=joint,
        verdict=verdict,
        within_tasks=settings.within_tasks,
        alpha=settings.alpha,
        gain=float((gains[0] - gains[1:].mean()) / runs.states.size),
        statistics=statistics,
        movable_steps=laid.movable,
        n_runs=runs.n_runs,
        n_steps=runs.states.size,
        n_draws=columns.shape[0] - 1,
        exactness="approximate" if settings.approximate else "exact",
        conditions=_conditions(settings),
        reasons=tuple(reasons),
    )


def _conditions(settings: _Settings) -> tuple[str, ...]:
    return (
        "runs are independent, and what follows a step depends on state and step number only"
        + (", in each task in its own way" if settings.within_tasks else ""),
        "the states, which see other steps too or were chosen by a score, are taken as given"
        if settings.approximate
        else "the states were fixed without looking at the order of the steps",
    )


def _untested(runs: StateSequences, settings: _Settings, reasons: tuple[str, ...]) -> ExchangeTest:
    return ExchangeTest(
        p_value=None,
        verdict=Verdict.INCONCLUSIVE,
        within_tasks=settings.within_tasks,
        alpha=settings.alpha,
        gain=None,
        statistics=(),
        movable_steps=0.0,
        n_runs=runs.n_runs,
        n_steps=runs.states.size,
        n_draws=0,
        exactness="approximate" if settings.approximate else "exact",
        conditions=_conditions(settings),
        reasons=reasons,
    )
