"""What becomes of a run that is under way: its chances, its steps left, and when to stop it.

A fitted process says P(success | in this state at this step). Kept as tables, together with the
same tables of refits to resampled tasks, that is a forecast with an interval for any run, step by
step (`Monitor`). Whether states foretell anything beyond the step itself is another question, which
only held-out runs can answer (`sojourn.process.skill`); the tables therefore carry the state-blind
forecast P(success | the run has a step t) too, and it stands in wherever a state says nothing.

Some processes remember more than the present state: the states before it, how long the run has
been in it, which kind of task it seems to be, which hidden phase. A run that is followed is then
forecast from all its steps so far, by a law of the inner state given them (the forward filter);
the tables hold the average over runs that are in the state at that step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_fraction, check_positive_int
from sojourn.estimates import Estimate, Status
from sojourn.process.base import TraceProcess
from sojourn.process.draws import RefittedDraws, interval_of_draws
from sojourn.process.unrolled import UnrolledChain, unroll
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = [
    "ForecastTables",
    "Monitor",
    "RunForecast",
    "blind_values",
    "forecast_tables",
    "path_values",
    "state_values",
]

Floats = npt.NDArray[np.float64]
# A process without tables is followed this many times its longest run for what happens in the end.
_LONG = 10
# Numbers in the beliefs of runs that are followed at once.
_MAX_BELIEFS = 4_000_000


class _Inner(NamedTuple):
    """A process whose inner states are not the observed ones, for following a run.

    A belief is a law of the inner state given the run so far, one row a run.
    """

    moves: Any  # sparse (n_inner, n_inner)
    start: Floats
    owner: npt.NDArray[np.int32]
    spread: Floats  # expected steps of a run in each inner state
    success: Floats
    steps_left: Floats

    @classmethod
    def of(cls, chain: UnrolledChain, horizon: int, lost: npt.NDArray[np.bool_]) -> Self:
        """Take what is needed from tables that hold at every step."""
        from scipy.sparse import csr_array

        n, gone = chain.n_inner, lost[chain.owner]
        return cls(
            moves=csr_array(chain.rows[0, :, :n]),
            start=chain.start[:n],
            owner=chain.owner,
            spread=chain.masses(horizon).sum(axis=0),
            success=np.where(gone, np.nan, chain.values[0]),
            steps_left=np.where(gone, np.nan, chain.steps_left[0]),
        )

    def moved(self, belief: Floats | None, n_runs: int) -> Floats:
        """Carry beliefs to the next step, before its state is seen; None: the first step."""
        if belief is None:
            return np.tile(self.start, (n_runs, 1))
        return np.asarray(belief @ self.moves, dtype=np.float64)

    def seen(self, moved: Floats, state: npt.NDArray[Any]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Condition beliefs on the observed states; tell which the process holds possible.

        After what it holds impossible, runs in that state stand in as they are spread overall.
        """
        here = self.owner[None, :] == state[:, None]
        belief = np.where(here, moved, 0.0)
        total = belief.sum(axis=1)
        possible = total > 0.0
        if not np.all(possible):
            anew = np.where(here, self.spread, 0.0)
            anew = np.where(anew.sum(axis=1, keepdims=True) > 0.0, anew, here)
            belief = np.where(possible[:, None], belief, anew)
            total = belief.sum(axis=1)
        return belief / total[:, None], possible

    def expected(self, belief: Floats) -> Floats:
        """Return P(success) and the steps left under beliefs, shape (n_runs, 2)."""
        held = belief > 0.0
        return np.stack(
            [
                np.where(held, belief * figure, 0.0).sum(axis=1)
                for figure in (self.success, self.steps_left)
            ],
            axis=1,
        )


class _Tables(NamedTuple):
    """Figures of one process: by step and state, and by step alone."""

    success: Floats
    steps_left: Floats
    blind_success: Floats
    blind_left: Floats
    inner: _Inner | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastTables:
    """All forecasts of a fitted process, ready to be looked up.

    Attributes
    ----------
    process : str
        Kind of the process.
    state_names : tuple of str
        One readable name a state.
    success : ndarray of shape (n_steps, n_states)
        P(success | in this state at step t), row t - 1; the last row holds for later steps. NaN
        where it is not identified.
    steps_left : ndarray of shape (n_steps, n_states)
        Expected further steps; NaN where there is no such figure.
    blind_success, blind_left : ndarray of shape (horizon + 1,)
        The same for a run of which only the step is known; index 0 is a run before its first step.
    horizon : int
        Longest observed run: forecasts at later steps are extrapolation.
    n_units : int
        Units behind the draws.
    draws : tuple
        The same figures of each refit.
    n_lost : int
        Resampled corpora that could not be fitted.
    inner : object or None
        What a run is followed by where the process remembers more than its present state.
    """

    process: str
    state_names: tuple[str, ...]
    success: Floats = field(repr=False)
    steps_left: Floats = field(repr=False)
    blind_success: Floats = field(repr=False)
    blind_left: Floats = field(repr=False)
    horizon: int
    n_units: int
    draws: tuple[Any, ...] = field(repr=False, default=())
    n_lost: int = 0
    inner: Any = field(repr=False, default=None)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_names)

    @property
    def n_draws(self) -> int:
        """Number of refits that intervals are made of."""
        return len(self.draws)

    def at(
        self, state: int | None, step: int, *, ci_prob: float = 0.95
    ) -> tuple[Estimate, Estimate]:
        """Give P(success) and the expected steps left of a run at a step.

        Parameters
        ----------
        state : int or None
            The state; None for the state-blind forecast.
        step : int
            Steps of the run so far; 0 before the first.
        ci_prob : float
            Probability of the intervals.
        """
        if step < 0:
            raise ValueError(f"step must not be negative; got {step}")
        if state is not None and not 0 <= state < self.n_states:
            raise ValueError(f"state must lie in 0 .. {self.n_states - 1}; got {state}")
        own = _Tables(self.success, self.steps_left, self.blind_success, self.blind_left)
        drawn = [_look_up(draw, state, step) for draw in self.draws]
        return self.estimates(_look_up(own, state, step), drawn, step, ci_prob=ci_prob)

    def estimates(
        self,
        figures: tuple[float, float],
        draws: Sequence[tuple[float, float]],
        step: int,
        *,
        ci_prob: float = 0.95,
    ) -> tuple[Estimate, Estimate]:
        """Make estimates of P(success) and the steps left at a step, and of the same by draw."""
        success, left = figures
        drawn = np.full((len(self.draws) + self.n_lost, 2), np.nan)
        drawn[: len(draws)] = np.array(draws, dtype=np.float64).reshape(-1, 2)
        reasons: tuple[str, ...] = ()
        if step > self.horizon:
            reasons = (f"beyond the longest observed run of {n_of(self.horizon, 'step')}",)
        return (
            interval_of_draws(
                success,
                drawn[:, 0],
                ci_prob=ci_prob,
                n_units=self.n_units,
                proportion=True,
                reasons=reasons,
                missing="no observed path leads from here to an end of a run",
            ),
            interval_of_draws(
                left,
                drawn[:, 1],
                ci_prob=ci_prob,
                n_units=self.n_units,
                reasons=reasons,
                missing="the process does not say when a run in this state ends",
            ),
        )


def forecast_tables(
    process: TraceProcess,
    *,
    horizon: int,
    draws: Sequence[TraceProcess] = (),
    n_units: int = 0,
) -> ForecastTables:
    """Compute the forecasts of a process for every state and step.

    Parameters
    ----------
    process : TraceProcess
        The process.
    horizon : int
        Longest observed run.
    draws : sequence of TraceProcess
        Refits to resampled tasks (`sojourn.process.draws.refitted_draws`), or other draws of it.
    n_units : int
        Units behind the draws.
    """
    check_positive_int(horizon, name="horizon")
    own = _tables(process, horizon)
    return ForecastTables(
        process=process.name,
        state_names=process.state_names,
        success=own.success,
        steps_left=own.steps_left,
        blind_success=own.blind_success,
        blind_left=own.blind_left,
        horizon=horizon,
        n_units=n_units,
        draws=tuple(_tables(draw, horizon) for draw in draws),
        n_lost=draws.n_lost if isinstance(draws, RefittedDraws) else 0,
        inner=own.inner,
    )


def path_values(process: TraceProcess, sequences: StateSequences, steps: Sequence[int]) -> Floats:
    """P(success | the run's steps up to step t), as `Monitor` forecasts it.

    Parameters
    ----------
    process : TraceProcess
        The process.
    sequences : StateSequences
        Runs of its states; how they ended is not looked at.
    steps : sequence of int
        The steps t, each at least 1.

    Returns
    -------
    ndarray of shape (n_runs, n_steps)
        NaN where a run has no such step, or the value is not identified.
    """
    horizon, lengths = max(steps), sequences.lengths
    tables = _tables(process, horizon)
    found = np.full((sequences.n_runs, len(steps)), np.nan)
    if tables.inner is None:
        for k, t in enumerate(steps):
            runs = np.flatnonzero(lengths >= t)
            state = sequences.states[sequences.offsets[runs] + t - 1]
            found[runs, k] = tables.success[min(t, tables.success.shape[0]) - 1, state]
        return found
    at_once = max(1, _MAX_BELIEFS // tables.inner.owner.size)
    for first in range(0, sequences.n_runs, at_once):
        runs, belief = np.arange(first, min(first + at_once, sequences.n_runs)), None
        for t in range(1, horizon + 1):
            still = lengths[runs] >= t
            belief = None if belief is None else belief[still]
            runs = runs[still]
            if not runs.size:
                break
            state = sequences.states[sequences.offsets[runs] + t - 1]
            belief, _ = tables.inner.seen(tables.inner.moved(belief, runs.size), state)
            for place in np.flatnonzero(np.asarray(steps) == t):
                found[runs, place] = tables.inner.expected(belief)[:, 0]
    return found


def state_values(process: TraceProcess, horizon: int) -> Floats:
    """P(success | in a state at step t), shape (n_steps, n_states), NaN where not identified.

    The last row holds for later steps; a process that does not look at the step has one row.
    """
    return _tables(process, horizon).success


def blind_values(process: TraceProcess, horizon: int) -> Floats:
    """P(success | the run has a step t) for t = 0 .. horizon; t = 0 is a run before it starts.

    With the curves R and F: (R_inf - R(t - 1)) / (1 - R(t - 1) - F(t - 1)).
    """
    return _tables(process, horizon).blind_success


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecast:
    """What is expected of a run at one moment.

    Attributes
    ----------
    step : int
        Steps so far.
    state : str or None
        The state it is in; None before the first step, or where none is known.
    known : bool
        Whether the state was one of the fitted ones; else the rare state, or no state, stands in.
    success : Estimate
        P(success); the outcome itself once the run is over.
    steps_left : Estimate
        Expected further steps.
    outcome : str or None
        ``success`` or ``failure`` once the run is over.
    """

    step: int
    state: str | None
    known: bool
    success: Estimate
    steps_left: Estimate
    outcome: str | None = None

    def __str__(self) -> str:
        if self.outcome is not None:
            return f"over after {self.step} steps: {self.outcome}"
        where = "before its first step" if self.step == 0 else f"at step {self.step}"
        note = "" if self.known else " (state never seen in the fit)"
        return f"{where}{note}: P(success) {self.success}, steps left {self.steps_left}"

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain values."""
        return {
            "step": self.step,
            "state": self.state,
            "known": self.known,
            "success": self.success.to_dict(),
            "steps_left": self.steps_left.to_dict(),
            "outcome": self.outcome,
        }


class Monitor:
    """A run that is followed one step at a time.

    Where the process remembers more than its present state, a forecast rests on all steps so far.

    Parameters
    ----------
    tables : ForecastTables
        The forecasts.
    state_of : callable, optional
        Gives the state of whatever is fed, None where it has none, and whether it was known:
        ``state_of(step) -> (state, known)``. By default states themselves are fed, and a number
        that is no state is unknown.
    rare_state : int, optional
        The state that stands for unknown ones; without it their forecast is state-blind.
    ci_prob : float
        Probability of the intervals.
    doubt : str, optional
        Why no forecast may be taken as supported, such as a claim that was not accepted.
    """

    def __init__(
        self,
        tables: ForecastTables,
        *,
        state_of: Callable[[Any], tuple[int | None, bool]] | None = None,
        rare_state: int | None = None,
        ci_prob: float = 0.95,
        doubt: str | None = None,
    ) -> None:
        if rare_state is not None and not 0 <= rare_state < tables.n_states:
            raise ValueError(f"rare_state must lie in 0 .. {tables.n_states - 1}")
        self._tables = tables
        self._state_of = self._as_index if state_of is None else state_of
        self._rare = rare_state
        self._ci_prob = check_fraction(ci_prob, name="ci_prob")
        self._doubt = doubt
        self._outcome: str | None = None
        self._n_steps = 0
        self._state: int | None = None
        self._known = True
        inner = [] if tables.inner is None else [tables, *tables.draws]
        self._inner: list[_Inner] = [table.inner for table in inner]
        self._beliefs: list[Floats | None] = [None] * len(self._inner)
        self._possible = True

    @property
    def forecast(self) -> RunForecast:
        """What is expected of the run now."""
        name = None if self._state is None else self._tables.state_names[self._state]
        if self._outcome is not None:
            success = Estimate(value=float(self._outcome == "success"))
            left = Estimate(value=0.0)
        else:
            success, left = self._expected()
        doubts = [] if self._doubt is None else [self._doubt]
        if not self._known:
            doubts.append("its last step is of a kind that was not seen in the fit")
        for doubt in doubts if self._outcome is None else ():
            success, left = _doubted(success, doubt), _doubted(left, doubt)
        return RunForecast(
            step=self._n_steps,
            state=name,
            known=self._known,
            success=success,
            steps_left=left,
            outcome=self._outcome,
        )

    def feed(self, step: Any) -> RunForecast:
        """Take the run's next step and say what is expected now.

        Raises
        ------
        ValueError
            If the run is over.
        """
        if self._outcome is not None:
            raise ValueError("the run is over; a step cannot follow its end")
        state, self._known = self._state_of(step)
        self._state = self._rare if state is None else state
        self._n_steps += 1
        for k, inner in enumerate(self._inner):
            moved = inner.moved(self._beliefs[k], 1)
            if self._state is None:
                # The run goes on, in whatever state: if the process knows of none, it starts anew.
                self._beliefs[k] = moved if moved.sum() > 0.0 else inner.spread[None]
                continue
            self._beliefs[k], possible = inner.seen(moved, np.array([self._state]))
            self._possible = bool(possible[0]) if k == 0 else self._possible
        return self.forecast

    def finish(self, outcome: str) -> RunForecast:
        """Take the run's end; the forecast of a run that is over is its outcome."""
        self._outcome = str(check_choice(str(outcome), ("success", "failure"), name="outcome"))
        return self.forecast

    def _expected(self) -> tuple[Estimate, Estimate]:
        """Look the forecast up, or make it of all steps so far where the process remembers them."""
        if self._state is None or not self._inner:
            return self._tables.at(self._state, self._n_steps, ci_prob=self._ci_prob)
        figures = []
        for inner, belief in zip(self._inner, self._beliefs, strict=True):
            success, left = inner.expected(np.asarray(belief))[0].tolist()
            figures.append((success, left))
        found = self._tables.estimates(
            figures[0], figures[1:], self._n_steps, ci_prob=self._ci_prob
        )
        if self._possible:
            return found
        reason = "the process never goes this way: what came before its last step is left out"
        return _doubted(found[0], reason), _doubted(found[1], reason)

    def _as_index(self, step: Any) -> tuple[int | None, bool]:
        known = isinstance(step, (int, np.integer)) and 0 <= step < self._tables.n_states
        return (int(step), True) if known else (None, False)


def _doubted(estimate: Estimate, reason: str) -> Estimate:
    if estimate.value is None:
        return estimate
    return Estimate(
        value=estimate.value,
        interval=estimate.interval,
        status=Status.INCONCLUSIVE,
        reasons=(*estimate.reasons, reason),
        estimand=estimate.estimand,
    )


def _look_up(tables: _Tables, state: int | None, step: int) -> tuple[float, float]:
    blind = min(step, tables.blind_success.size - 1)
    if state is None or step == 0:
        return float(tables.blind_success[blind]), float(tables.blind_left[blind])
    row = min(step, tables.success.shape[0]) - 1
    late = min(step, tables.steps_left.shape[0]) - 1
    return float(tables.success[row, state]), float(tables.steps_left[late, state])


def _tables(process: TraceProcess, horizon: int) -> _Tables:
    try:
        chain = unroll(process)
    except ValueError:
        return _tables_by_questions(process, horizon)
    values, steps_left = chain.values, chain.steps_left
    success = chain.observed(values, horizon)
    left = chain.observed(steps_left, horizon)
    lost = _lost_states(process)
    blind = _blind_of_chain(chain, values, steps_left, horizon, lost[chain.owner])
    if np.any(lost):
        success = np.where(lost, np.nan, success)
        left = np.where(lost, np.nan, left)
    remembers = not chain.is_observed and chain.n_layers == 1
    inner = _Inner.of(chain, horizon, lost) if remembers else None
    return _Tables(success, left, *blind, inner)


def _lost_states(process: TraceProcess) -> npt.NDArray[np.bool_]:
    """Mark the states that have no observed fate; a process that names none has none."""
    m = len(process.state_names)
    if getattr(process, "unidentified", None) == ():
        return np.zeros(m, dtype=np.bool_)
    return np.array([process.value(i, 1) is None for i in range(m)])


def _blind_of_chain(
    chain: UnrolledChain,
    values: Floats,
    steps_left: Floats,
    horizon: int,
    lost: npt.NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Average the chain's own `values` and `steps_left` over where runs are at each step."""
    masses = chain.masses(horizon)
    steps = np.minimum(np.arange(horizon), chain.n_layers - 1)
    total = masses.sum(axis=1)
    blind = np.full((2, horizon + 1), np.nan)
    first, at_once = chain.start[: chain.n_inner], chain.start[chain.n_inner]
    blind[0, 0] = min(first @ values[0] + at_once, 1.0)
    blind[1, 0] = np.where(first > 0.0, first * (1.0 + steps_left[0]), 0.0).sum()
    there = total > 0.0
    for row, table in enumerate((values, steps_left)):
        weighted = np.where(masses > 0.0, masses * table[steps], 0.0).sum(axis=1)
        blind[row, 1:][there] = weighted[there] / total[there]
        # A mean over states is not known where that of one of them is not.
        blind[row, 1:][masses[:, lost].any(axis=1)] = np.nan
        if np.any(chain.start[: chain.n_inner][lost] > 0.0):
            blind[row, 0] = np.nan
        # Where no run of the process gets, the last step that one gets to stands in.
        blind[row, 1:][~there] = blind[row, np.count_nonzero(there)]
    return blind[0], blind[1]


def _tables_by_questions(process: TraceProcess, horizon: int) -> _Tables:
    """Ask a process that has no tables, one state and step at a time; steps left by its curves."""
    m = len(process.state_names)
    asked = [[process.value(i, t) for i in range(m)] for t in range(1, horizon + 1)]
    success = np.array([[np.nan if v is None else v for v in row] for row in asked])
    last = _LONG * horizon
    reached, failed = process.success_within(last), process.failure_within(last)
    going = np.clip(1.0 - reached - failed, 0.0, 1.0)
    has_step = np.concatenate(([1.0], going[:horizon]))
    before = np.concatenate(([0.0], reached[:horizon]))
    later = np.cumsum(going[::-1])[::-1]
    left = np.concatenate(([later[0]], later[1 : horizon + 1]))
    there = has_step > 0.0
    blind = np.full((2, horizon + 1), np.nan)
    blind[0][there] = (reached[-1] - before)[there] / has_step[there]
    blind[1][there] = left[there] / has_step[there]
    return _Tables(np.clip(success, 0.0, 1.0), np.full((1, m), np.nan), blind[0], blind[1])
