"""What a progress-dependent chain is, once it is fitted, and all that can be asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.estimates import Estimate, Status, number
from sojourn.process._progress_cells import (
    cells_by_unit,
    count_cells,
    count_starts,
    provenance,
)
from sojourn.process._progress_draws import draw_coefficients, forward
from sojourn.process._progress_posterior import (
    Coefficients,
    Data,
    Design,
    Penalty,
    data_of,
    design_of,
    row_probabilities,
)
from sojourn.process.absorbing import AbsorbingChain, leads_out
from sojourn.process.base import GeometricTail, run_scores, task_scores
from sojourn.process.homogeneous import RowPrior, start_row
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

if TYPE_CHECKING:
    from sojourn.process._progress_maximum import Anchor

__all__ = ["ProgressFit"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
_CHUNK_NUMBERS = 4_000_000
# Gains in log posterior that are given up. The second leaves curves within 1e-6.
_TOLERANCE = 1e-13
_REFIT_TOLERANCE = 1e-9
_ARRAYS = (
    "intercept",
    "spline",
    "state_spline",
    "basis",
    "knots",
    "penalty",
    "initial",
    "cells",
    "starts",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgressFit:
    """A progress-dependent chain fitted to runs.

    Attributes
    ----------
    unidentified : tuple of str
        States that runs were in and from which no observed path leads to an end.
    state_names : tuple of str
        One readable name a state.
    intercept : ndarray of shape (n_states, n_states + 2)
        a_ij, the log odds at the mean step; next states, success, failure. Minus infinity where
        an event is impossible.
    spline : ndarray of shape (n_states + 2, n_functions)
        c_jb, common to all states.
    state_spline : ndarray of shape (n_states, n_states + 2, n_functions)
        What a state adds to them; the last axis is empty without splines by state.
    basis : ndarray of shape (n_levels, n_functions)
        The spline functions at steps 1 .. n_levels; later steps have the last row.
    knots : ndarray
        Distinct knots of the spline; its last is n_levels.
    penalty : ndarray of shape (3,)
        Precisions of the spline coefficients: of moves about their mean, of ends about that mean,
        and by state about the common ones; infinite where they are held at zero.
    prior : RowPrior
        The prior of the rows, as in the homogeneous fit.
    initial : ndarray of shape (n_states + 2,)
        Distribution of what runs do first: a state, or an end without a step.
    start : str or int
        ``empirical``, ``modal``, or the fixed first state.
    freedom : float
        Effective degrees of freedom of the splines.
    cells : ndarray of shape (n_states, n_levels, n_states + 3)
        Counts of events by state and step; the last event is "went on, then cut".
    starts : ndarray of shape (n_states + 3,)
        Counts of what runs did first.
    horizon : int
        Steps of the longest observed run: beyond it the curves are extrapolation.
    n_runs : float
        Runs, by weight.
    n_tasks, n_units : int
        Tasks and units of resampling among the runs.
    tail : GeometricTail
        What is mixed in when the fit is scored.
    """

    unidentified: tuple[str, ...]
    state_names: tuple[str, ...]
    intercept: Floats = field(repr=False)
    spline: Floats = field(repr=False)
    state_spline: Floats = field(repr=False)
    basis: Floats = field(repr=False)
    knots: Floats
    penalty: Floats
    prior: RowPrior = field(repr=False)
    initial: Floats = field(repr=False)
    start: str | int
    freedom: float
    cells: Floats = field(repr=False)
    starts: Floats = field(repr=False)
    horizon: int
    n_runs: float
    n_tasks: int
    n_units: int
    tail: GeometricTail
    _anchored: Anchor | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __str__(self) -> str:
        lines = []
        if self.unidentified:
            lines.append(f"unidentified: no observed way to an end from {_list(self.unidentified)}")
        move, end, state = self.penalty
        lines += [
            f"progress-dependent chain, {n_of(len(self.state_names), 'state')}, "
            f"{self.n_runs:g} runs, "
            f"{n_of(self.n_tasks, 'task')}",
            f"  P(success ever)   {self.success_ever}",
            f"  longest run       {n_of(self.horizon, 'step')}; constant from step "
            f"{self.basis.shape[0]}",
            f"  parameters        {self.n_parameters}, of which splines {self.freedom:.1f}",
            f"  penalties         moves {move:.3g}, ends {end:.3g}"
            + (f", by state {state:.3g}" if self.by_state else ""),
        ]
        return "\n".join(lines)

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return "progress"

    @property
    def by_state(self) -> bool:
        """Whether states have splines of their own."""
        return bool(self.state_spline.shape[2])

    @property
    def n_parameters(self) -> int:
        """Observed cells of the rows less one a row, plus the splines' effective number, rounded.

        The same count as the homogeneous fit's, start included, and `freedom` on top.
        """
        m = len(self.state_names)
        rows = np.vstack((self.starts, self.cells.sum(axis=1)))[:, : m + 2]
        free = np.maximum(np.count_nonzero(rows, axis=1) - 1, 0).sum()
        return int(free + round(self.freedom))

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run, with the last step's probabilities."""
        return True

    @property
    def rows(self) -> Floats:
        """P(j | i, t) at steps 1 .. n_levels, shape (n_levels, n_states, n_states + 2)."""
        return row_probabilities(self._coefficients, self.basis)

    @property
    def values(self) -> Floats:
        """P(success | now in a state) at steps 1 .. n_levels, shape (n_levels, n_states).

        Beyond the last knot the chain is homogeneous, h = Q h + R+; before it h_t = Q_t h_{t+1}
        + R+_t.
        """
        m = len(self.state_names)
        rows = self.rows
        last = AbsorbingChain(
            transient=rows[-1, :, :m],
            to_success=rows[-1, :, m],
            to_failure=rows[-1, :, m + 1],
            initial=np.full(m, 1.0 / m),
            state_names=self.state_names,
        )
        values = np.empty(rows.shape[:2])
        values[-1] = last.values
        for g in range(rows.shape[0] - 2, -1, -1):
            values[g] = rows[g, :, :m] @ values[g + 1] + rows[g, :, m]
        return np.clip(values, 0.0, 1.0)

    @property
    def success_ever(self) -> Estimate:
        """P(success ever), without an interval; withheld where it is not identified.

        What lies beyond the longest run is extrapolated.
        """
        if self.unidentified:
            reason = f"no observed path leads from {_list(self.unidentified)} to an end of a run"
            return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
        m = len(self.state_names)
        return Estimate(value=float(self.initial[:m] @ self.values[0] + self.initial[m]))

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        curve: Floats = self._curves(horizon)[0]
        return curve

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        curve: Floats = self._curves(horizon)[1]
        return curve

    def value(self, state: int, step: int) -> float | None:
        """P(success | in `state` at step number `step`); None where no end was seen on its way.

        Raises
        ------
        ValueError
            If `step` is below 1.
        """
        check_positive_int(step, name="step")
        m = len(self.state_names)
        if self.unidentified:
            lost = np.isin(self.state_names, self.unidentified).astype(np.float64)
            if leads_out(self.cells.sum(axis=1)[:, :m], lost)[state]:
                return None
        return float(self.values[min(step, self.basis.shape[0]) - 1, state])

    def simulate(
        self, n_runs: int, *, rng: Rng = None, max_steps: int = 1_000_000
    ) -> StateSequences:
        """Draw independent runs, each of a task of its own; one longer than `max_steps` is cut."""
        tasks = np.arange(n_runs, dtype=np.int32)
        return self.simulate_tasks(tasks, max_steps=max_steps, rng=rng)

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: Rng = None,
    ) -> StateSequences:
        """Draw one run for each entry of `task`.

        Parameters
        ----------
        task : ndarray of shape (n_runs,), int32
            The task of each run; also the unit of the drawn runs.
        log_odds : ndarray of shape (n_runs,), optional
            Added to the log odds of success against failure wherever the run may end; when runs
            end is left as it is.
        max_steps : int
            A run that would go on after so many steps is cut there.
        rng : Generator, SeedSequence, int or None
            Source of chance.
        """
        from sojourn.process._progress_kernels import simulate_progress

        shift = np.zeros(len(task)) if log_odds is None else np.asarray(log_odds, dtype=np.float64)
        if shift.shape != (len(task),):
            raise ValueError(f"log_odds has shape {shift.shape}, not ({len(task)},)")
        odds = np.exp(np.clip(shift, -500.0, 500.0))
        states, offsets, event = simulate_progress(
            generator(rng), self.initial.copy(), self.rows, odds, int(max_steps)
        )
        return StateSequences(
            states=states,
            offsets=offsets,
            event=event,
            task=task,
            unit=task,
            state_names=self.state_names,
        )

    def refit(self, sequences: StateSequences, *, weights: Floats | None = None) -> Self:
        """Fit again to runs of the same states, with penalties, knots and prior held.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        weights : ndarray of shape (n_runs,), optional
            How often each run counts, not negative.

        Raises
        ------
        ValueError
            If the states differ, or no run has weight.
        """
        from sojourn.process._progress_maximum import refit

        _check_states(self, sequences)
        weights = _checked_weights(sequences, weights)
        cells = count_cells(sequences, self.basis.shape[0], weights)
        starts = count_starts(sequences, weights)
        data = data_of(cells, starts, self.basis, self.prior)
        found = refit(self._anchor, data, _TOLERANCE)
        fields = provenance(sequences, weights, cells, starts, self.start)
        return replace(self, **found._asdict(), **fields)

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of a task's runs, one value a distinct task (ascending).

        The fit is mixed with weight 1 / (n + 1) of a geometric law, so no score is infinite.
        """
        longest = int(sequences.lengths.max(initial=0))
        success, failure = self._curves(longest)
        return task_scores(sequences, run_scores(sequences, success, failure, tail=self.tail))

    def bootstrap_curves(
        self, sequences: StateSequences, weights: npt.NDArray[Any], horizon: int
    ) -> Floats:
        """Curves of refits to resampled corpora, from the cells of each unit counted once.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        weights : ndarray of shape (n_resamples, n_units)
            How often each unit counts, units in ascending order of the numbers present.
        horizon : int
            Last step of the curves.

        Returns
        -------
        ndarray of shape (n_resamples, 2, horizon + 1)
            Success and failure curves.
        """
        _check_states(self, sequences)
        weights = np.asarray(weights, dtype=np.float64)
        n_units = np.unique(sequences.unit).size
        if weights.ndim != 2 or weights.shape[1] != n_units:
            raise ValueError(f"weights has shape {weights.shape}, not (n_resamples, {n_units})")
        if weights.shape[0] == 1 and np.all(weights == 1.0):
            cells = count_cells(sequences, self.basis.shape[0])
            return self._refitted_curves(cells[None], count_starts(sequences)[None], horizon)
        units = cells_by_unit(sequences, self.basis.shape[0])
        curves = np.empty((weights.shape[0], 2, horizon + 1))
        chunk = max(1, _CHUNK_NUMBERS // self.cells.size)
        for low in range(0, weights.shape[0], chunk):
            part = weights[low : low + chunk]
            flat = np.zeros((part.shape[0], self.cells.size))
            flat[:, units.occurring] = (units.matrix.T @ part.T).T
            cells = flat.reshape(-1, *self.cells.shape)
            curves[low : low + chunk] = self._refitted_curves(cells, part @ units.starts, horizon)
        return curves

    def _refitted_curves(self, cells: Floats, starts: Floats, horizon: int) -> Floats:
        """Curves of refits to the cells and starts of many corpora, one after the other."""
        from sojourn.process._progress_maximum import refit

        anchor = self._anchor
        rows = np.empty((cells.shape[0], self.basis.shape[0], *self.intercept.shape))
        for b in range(cells.shape[0]):
            data = data_of(cells[b], starts[b], self.basis, self.prior)
            rows[b] = row_probabilities(refit(anchor, data, _REFIT_TOLERANCE), self.basis)
        tables = np.concatenate((starts[:, None, :], cells.sum(axis=2)), axis=1)
        return forward(start_row(tables, self.start), rows, horizon)

    def coefficient_draws(self, n_draws: int, horizon: int, *, rng: Rng = None) -> Floats:
        """Curves of draws from the Laplace approximation of the posterior.

        Spline coefficients are normal; intercepts are normal given them in their mean and
        log-gamma in their noise, so that rare events keep the skewness of counts; the start is
        Dirichlet. Runs count as independent: with several attempts a task the spread is too
        small, and the bootstrap over tasks is the honest one.

        Returns
        -------
        ndarray of shape (n_draws, 2, horizon + 1)
        """
        source = generator(rng)
        check_positive_int(n_draws, name="n_draws")
        drawn = draw_coefficients(
            self._coefficients, self._data, self._design, self._penalty, n_draws, source
        )
        rows = np.stack([row_probabilities(one, self.basis) for one in drawn])
        m = len(self.state_names)
        shape = np.where(self.initial > 0.0, self.starts[: m + 2], 0.0)
        start = np.tile(self.initial, (n_draws, 1))
        if self.start == "empirical" and shape.any():
            gammas = source.standard_gamma(shape, size=(n_draws, m + 2))
            start = gammas / gammas.sum(axis=1, keepdims=True)
        return forward(start, rows, horizon)

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that makes the fit, as arrays by name; `from_parameters` is the inverse."""
        arrays: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        prior = self.prior
        tail = self.tail
        return arrays | {
            "unidentified": np.array(self.unidentified, dtype=np.str_),
            "state_names": np.array(self.state_names, dtype=np.str_),
            "smoothing": np.array(prior.smoothing),
            "masses": np.array([prior.kappa, prior.alpha]),
            "allowed": prior.allowed,
            "cut_step": np.array(prior.cut_step),
            "start": np.array(self.start),
            "scalars": np.array([self.freedom, self.n_runs]),
            "sizes": np.array([self.horizon, self.n_tasks, self.n_units]),
            "tail": np.array([tail.success_hazard, tail.failure_hazard, tail.weight]),
        }

    @classmethod
    def from_parameters(cls, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Build a fit of the arrays that `parameters` gives."""
        kappa, alpha = arrays["masses"].tolist()
        freedom, n_runs = arrays["scalars"].tolist()
        horizon, n_tasks, n_units = arrays["sizes"].tolist()
        success, failure, weight = arrays["tail"].tolist()
        return cls(
            **{name: arrays[name] for name in _ARRAYS},
            unidentified=tuple(arrays["unidentified"].tolist()),
            state_names=tuple(arrays["state_names"].tolist()),
            prior=RowPrior(
                smoothing=str(arrays["smoothing"]),
                kappa=kappa,
                alpha=alpha,
                allowed=np.array(arrays["allowed"], dtype=np.bool_),
                cut_step=str(arrays["cut_step"]),
            ),
            start=arrays["start"].item(),
            freedom=freedom,
            n_runs=n_runs,
            horizon=horizon,
            n_tasks=n_tasks,
            n_units=n_units,
            tail=GeometricTail(success_hazard=success, failure_hazard=failure, weight=weight),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values; infinite ones as None."""
        return {name: _plain(array.tolist()) for name, array in self.parameters().items()}

    @property
    def _coefficients(self) -> Coefficients:
        return Coefficients(self.intercept, self.spline, self.state_spline)

    @property
    def _penalty(self) -> Penalty:
        return Penalty(*self.penalty.tolist())

    @property
    def _data(self) -> Data:
        return data_of(self.cells, self.starts, self.basis, self.prior)

    @property
    def _design(self) -> Design:
        return design_of(self.basis, self.by_state)

    def _curves(self, horizon: int) -> Floats:
        if horizon < 0:
            raise ValueError(f"horizon must not be negative; got {horizon}")
        both: Floats = forward(self.initial[None], self.rows[None], horizon)[0]
        return both

    @property
    def _anchor(self) -> Anchor:
        from sojourn.process._progress_maximum import anchor_of

        # Threads that come here at once make the same anchor twice.
        if self._anchored is None:
            made = anchor_of(self._coefficients, self._data, self._design, self._penalty)
            object.__setattr__(self, "_anchored", made)
            return made
        return self._anchored


def _check_states(fit: ProgressFit, sequences: StateSequences) -> None:
    if sequences.state_names != fit.state_names:
        raise ValueError(f"the runs have states {sequences.state_names}, not {fit.state_names}")


def _checked_weights(sequences: StateSequences, weights: Floats | None) -> Floats | None:
    if weights is None:
        if sequences.n_runs == 0:
            raise ValueError("there is no run to fit a chain to")
        return None
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (sequences.n_runs,):
        raise ValueError(f"weights has shape {weights.shape}, not ({sequences.n_runs},)")
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0.0) and weights.any()):
        raise ValueError("weights must be finite, not negative, and not all zero")
    return weights


def _plain(values: Any) -> Any:
    if isinstance(values, list):
        return [_plain(value) for value in values]
    if isinstance(values, float):
        return number(values)
    return values


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
