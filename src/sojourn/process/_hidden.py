"""What mixtures and hidden phases share: weights of runs, subsamples, and drawing by tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.process.base import GeometricTail
from sojourn.sequences import FAILURE, SUCCESS, StateSequences
from sojourn.tables import n_of

__all__ = [
    "FittedOn",
    "Optima",
    "draw_runs",
    "of_units",
    "tail_of",
    "take_units",
    "weights_of",
]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
# Which units stand for a large corpus must not change from one refit to the next.
_SUBSAMPLE_SEED = 20_260_417


class FittedOn(NamedTuple):
    """How many runs and units a fit rests on, of how many that were given."""

    n_runs: int
    n_units: int
    n_runs_given: int
    n_units_given: int

    def most_runs(self, usual: int) -> int:
        """Return how many runs a refit may use: as many as here, where these were a part."""
        return self.n_runs if self.n_runs < self.n_runs_given else max(self.n_runs, usual)

    def __str__(self) -> str:
        if self.n_runs == self.n_runs_given:
            return f"{n_of(self.n_runs, 'run')} of {n_of(self.n_units, 'unit')}"
        return (
            f"{self.n_runs} of {self.n_runs_given} runs, all those of {n_of(self.n_units, 'unit')} "
            f"drawn out of {self.n_units_given}"
        )


class Optima(NamedTuple):
    """What the starts of an iteration came to.

    Attributes
    ----------
    log_posterior : ndarray of shape (n_starts,)
        The log likelihoods with the log prior that were reached, best first.
    share_at_best : float
        Share of the starts within 0.1 nat of the best: little means that there may be a better
        one still.
    n_open : int
        Starts that were stopped while they still gained.
    """

    log_posterior: Floats
    share_at_best: float
    n_open: int

    @classmethod
    def of(cls, values: Floats, n_open: int) -> Optima:
        """Sort what was reached and count what agrees with the best."""
        reached = np.sort(np.asarray(values, dtype=np.float64))[::-1]
        reached.flags.writeable = False
        return cls(reached, float(np.mean(reached >= reached[0] - 0.1)), n_open)

    def __str__(self) -> str:
        first = (
            f"{self.log_posterior.size} starts, {self.share_at_best:.0%} within 0.1 nat of the "
            f"best, the worst {self.log_posterior[0] - self.log_posterior[-1]:.2f} nats below"
        )
        return first + (f"; {self.n_open} still gained when stopped" if self.n_open else "")


class _Taken(NamedTuple):
    sequences: StateSequences
    runs: npt.NDArray[np.intp]
    fitted_on: FittedOn


def take_units(sequences: StateSequences, max_runs: int) -> _Taken:
    """Keep whole units, in an order of chance that is always the same, up to `max_runs` runs."""
    check_positive_int(max_runs, name="max_runs")
    units, place, runs_of = np.unique(sequences.unit, return_inverse=True, return_counts=True)
    n_runs, n_units = sequences.n_runs, units.size
    everything = np.arange(n_runs, dtype=np.intp)
    if n_runs <= max_runs:
        return _Taken(sequences, everything, FittedOn(n_runs, n_units, n_runs, n_units))
    order = np.random.default_rng(_SUBSAMPLE_SEED).permutation(n_units)
    fits = max(1, int(np.searchsorted(np.cumsum(runs_of[order]), max_runs, side="right")))
    chosen = np.zeros(n_units, dtype=np.bool_)
    chosen[order[:fits]] = True
    runs = everything[chosen[place]]
    return _Taken(sequences.select(runs), runs, FittedOn(runs.size, fits, n_runs, n_units))


def weights_of(sequences: StateSequences, weights: Floats | None) -> Floats:
    """Return the weight of every run, checked.

    Raises
    ------
    ValueError
        If there is no run, or weights are not finite and not negative or all zero.
    """
    if sequences.n_runs == 0:
        raise ValueError("there is no run to fit to")
    if weights is None:
        return np.ones(sequences.n_runs)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (sequences.n_runs,):
        raise ValueError(f"weights has shape {given.shape}, not ({sequences.n_runs},)")
    if not (np.all(np.isfinite(given)) and np.all(given >= 0.0) and np.any(given > 0.0)):
        raise ValueError("weights must be finite and not negative, and not all zero")
    return given


def of_units(sequences: StateSequences, unit_weights: Any) -> Floats:
    """Give each run the weight of its unit, shape (n_corpora, n_runs).

    Raises
    ------
    ValueError
        If there is not a column a unit.
    """
    units, place = np.unique(sequences.unit, return_inverse=True)
    given = np.asarray(unit_weights, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != units.size:
        raise ValueError(f"unit_weights has shape {given.shape}, not (n_corpora, {units.size})")
    return given[:, place]


def tail_of(sequences: StateSequences, weights: Floats | None) -> GeometricTail:
    """Fit the geometric tail to weighted runs, as `GeometricTail.of` does to plain ones."""
    if weights is None:
        return GeometricTail.of(sequences)
    total = float(weights.sum())
    moments = float(weights @ sequences.lengths) + total + 1.5
    return GeometricTail(
        success_hazard=(float(weights[sequences.event == SUCCESS].sum()) + 0.5) / moments,
        failure_hazard=(float(weights[sequences.event == FAILURE].sum()) + 0.5) / moments,
        weight=1.0 / (total + 1.0),
    )


def draw_runs(
    tables: Floats,
    which: npt.NDArray[np.int64],
    *,
    task: npt.NDArray[np.int32],
    state_names: tuple[str, ...],
    log_odds: Floats | None,
    max_steps: int,
    rng: Rng,
) -> StateSequences:
    """Draw run r by the chain ``tables[which[r]]``, its odds of success shifted.

    Parameters
    ----------
    tables : ndarray of shape (n_tables, n_states + 1, n_states + 2)
        Start and rows of each chain.
    which : ndarray of shape (n_runs,), int64
        The chain of each run.
    task : ndarray of shape (n_runs,)
        The task, and unit, of each run.
    state_names : tuple of str
        Names of the states.
    log_odds : ndarray of shape (n_runs,) or None
        Added to the log odds of success against failure at every end.
    max_steps : int
        A run that would go on after so many steps is cut there.
    rng : Generator, SeedSequence, int or None
        Source of chance.
    """
    from sojourn.process import _kernels

    task = np.asarray(task, dtype=np.int32)
    if max_steps < 0:
        raise ValueError(f"max_steps must not be negative; got {max_steps}")
    if log_odds is not None:
        given = np.asarray(log_odds, dtype=np.float64)
        if given.shape != task.shape:
            raise ValueError(f"log_odds has shape {given.shape}, not {task.shape}")
        pairs, place = np.unique(np.column_stack((which, given)), axis=0, return_inverse=True)
        tables = _tilt(tables[pairs[:, 0].astype(np.intp)], pairs[:, 1].astype(np.float64))
        which = place.reshape(-1).astype(np.int64)
    accept, alias = _kernels.alias_rows(np.ascontiguousarray(tables))
    limits = np.full(task.size, max_steps, dtype=np.int64)
    states, offsets, event = _kernels.simulate_paths(
        generator(rng), accept, alias, which, limits, 0.0, 1, 1.0, 0
    )
    return StateSequences(
        states=states,
        offsets=offsets,
        event=event,
        task=task,
        unit=task,
        state_names=state_names,
    )


def _tilt(tables: Floats, log_odds: Floats) -> Floats:
    """Shift the log odds of the two ends in every row of every table; their sum stays."""
    shifted = tables.copy()
    exits = tables[..., -2:].sum(axis=-1)
    # Half of the shift on either side keeps both factors finite.
    half = np.clip(log_odds, -600.0, 600.0)[:, None] / 2.0
    won, lost = tables[..., -2] * np.exp(half), tables[..., -1] * np.exp(-half)
    total = won + lost
    share = np.divide(won, total, out=np.zeros(total.shape), where=total > 0.0)
    shifted[..., -2] = exits * share
    shifted[..., -1] = exits * (1.0 - share)
    return shifted
