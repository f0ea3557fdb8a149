"""Weighted runs: counts, tails and checks that every refit needs.

The bootstrap gives a resampled unit's multiplicity to all its runs, so a refit is a fit to weighted
counts. Whole weights give whole counts, and the same fit as runs repeated that often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import frozen_array
from sojourn.estimates import Estimate, Status
from sojourn.process.absorbing import leads_out
from sojourn.process.base import GeometricTail
from sojourn.process.counting import TransitionCounts
from sojourn.sequences import FAILURE, SUCCESS, StateSequences

__all__ = [
    "CUT_STEPS",
    "WeightedCounts",
    "check_unit_weights",
    "check_weights",
    "common_arrays",
    "common_fields",
    "identified_states",
    "most_probable_mass",
    "unless_unidentified",
    "weight_blocks",
    "weighted_counts",
    "weighted_tail",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
CUT_STEPS = ("unseen", "survived")
_BLOCK_CELLS = 4_000_000
_NUMBERS = ("n_parameters", "horizon", "n_runs", "n_tasks", "n_units")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedCounts(TransitionCounts):
    """Transition counts of runs whose weights are not whole: the table is of float64.

    Attributes
    ----------
    table : ndarray of shape (n_states + 1, n_states + 3), float64
        As in `TransitionCounts`, each run counting by its weight.
    """

    table: Any

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "table", frozen_array(self.table, np.float64, ndim=2, name="table")
        )

    @property
    def n_runs(self) -> int:
        """Total weight of the runs, to the nearest whole number."""
        return round(float(self.table[0].sum()))

    @property
    def n_steps(self) -> int:
        """Total weight of the steps, to the nearest whole number."""
        return round(float(self.table[1:].sum()))


def check_weights(sequences: StateSequences, weights: Any | None) -> Floats:
    """Return one weight a run (ones by default), or say what is wrong with them."""
    if sequences.n_runs == 0:
        raise ValueError("there is no run to fit to")
    if weights is None:
        return np.ones(sequences.n_runs)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (sequences.n_runs,):
        raise ValueError(
            f"weights has shape {array.shape}, not ({sequences.n_runs},): one weight for each run"
        )
    if not np.all(np.isfinite(array)) or np.any(array < 0.0):
        raise ValueError("weights must be finite and not negative")
    if not np.any(array > 0.0):
        raise ValueError("all weights are zero: there is no run to fit to")
    return array


def check_unit_weights(sequences: StateSequences, unit_weights: Any) -> Floats:
    """Return the weights of units in each corpus, shape (n_corpora, n_units), checked."""
    array = np.asarray(unit_weights, dtype=np.float64)
    n_units = int(np.unique(sequences.unit).size)
    if array.ndim != 2 or array.shape[1] != n_units:
        raise ValueError(
            f"unit_weights has shape {array.shape}, not (n_corpora, {n_units}): one column for "
            "each unit"
        )
    if not np.all(np.isfinite(array)) or np.any(array < 0.0):
        raise ValueError("unit_weights must be finite and not negative")
    return array


def weight_blocks(unit_weights: Floats, cells: int) -> list[slice]:
    """Cut the corpora into blocks, so that `cells` numbers for each of a block fit in memory."""
    size = max(1, _BLOCK_CELLS // max(cells, unit_weights.shape[1], 1))
    return [slice(k, k + size) for k in range(0, unit_weights.shape[0], size)]


def weighted_counts(sequences: StateSequences, weights: Floats) -> TransitionCounts:
    """Count starts, transitions and ends, each run by its weight.

    Returns
    -------
    TransitionCounts
        With a whole table where all weights are whole, else a `WeightedCounts`.
    """
    m, width = sequences.n_states, sequences.n_states + 3
    lengths = sequences.lengths
    some = lengths > 0
    row = np.zeros(sequences.states.size, dtype=np.int64)
    row[1:] = sequences.states[:-1] + 1
    row[sequences.offsets[:-1][some]] = 0
    last = np.zeros(sequences.n_runs, dtype=np.int64)
    last[some] = sequences.states[sequences.offsets[1:][some] - 1] + 1
    ends = np.array([m + 2, m, m + 1])[sequences.event]
    cell = np.concatenate((row * width + sequences.states, last * width + ends))
    mass = np.concatenate((np.repeat(weights, lengths), weights))
    table = np.bincount(cell, weights=mass, minlength=(m + 1) * width).reshape(m + 1, width)
    whole = bool(np.all(weights == np.rint(weights)))
    kind = TransitionCounts if whole else WeightedCounts
    return kind(
        table=np.rint(table).astype(np.int64) if whole else table,
        state_names=sequences.state_names,
        longest=int(lengths[weights > 0.0].max(initial=0)),
    )


def weighted_tail(sequences: StateSequences, weights: Floats) -> GeometricTail:
    """Fit the geometric law of `GeometricTail.of` to weighted runs."""
    total = float(weights.sum())
    moments = float(weights @ sequences.lengths) + total + 1.5
    return GeometricTail(
        success_hazard=(float(weights[sequences.event == SUCCESS].sum()) + 0.5) / moments,
        failure_hazard=(float(weights[sequences.event == FAILURE].sum()) + 0.5) / moments,
        weight=1.0 / (total + 1.0),
    )


def identified_states(table: npt.NDArray[Any]) -> tuple[Mask, Mask]:
    """Tell which states have an observed fate, and which only meet such states.

    Parameters
    ----------
    table : ndarray of shape (n_states + 1, n_states + 3)
        Counts laid out as in `TransitionCounts`.

    Returns
    -------
    lost : ndarray of shape (n_states,), bool
        States that runs were in and from which no observed path leads to an end.
    clear : ndarray of shape (n_states,), bool
        States from which no observed path leads to a lost one (and that are not lost).
    """
    m = table.shape[0] - 1
    visited = table[1:].sum(axis=1) > 0
    if not np.any(table[0, : m + 2]):
        visited[:] = True  # no run was seen to do anything
    moves = table[1:, :m]
    lost = visited & ~leads_out(moves, table[1:, m : m + 2].sum(axis=1))
    return lost, ~leads_out(moves, lost.astype(np.float64))


def unless_unidentified(value: float, unidentified: tuple[str, ...]) -> Estimate:
    """Return a figure that needs the fate of every state, withheld where one has none."""
    if not unidentified:
        return Estimate(value=value)
    names = ", ".join(repr(name) for name in unidentified)
    reason = f"no observed path leads from {names} to an end of a run"
    return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))


def most_probable_mass(events: Floats, base: Floats) -> float:
    """Give the prior mass under which rows of counts are most probable (empirical Bayes).

    Row i is Dirichlet-multinomial with parameters kappa b_i; the log likelihood is
    sum_i [ lgamma(k) - lgamma(k + c_i) + sum_j lgamma(k b_ij + c_ij) - lgamma(k b_ij) ], searched
    between 1e-2 and 1e4, the upper end standing for rows that do not differ from their base.

    Parameters
    ----------
    events : ndarray of shape (n_rows, n_columns)
        Counts; rows without any say nothing.
    base : ndarray of shape (n_rows, n_columns) or (n_columns,)
        Mean of the prior; where it is zero there are no counts.

    Returns
    -------
    float
        The mass; 1 where there is nothing to learn it from.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    base = np.broadcast_to(base, events.shape)
    total = events.sum(axis=1)
    cells = (events > 0.0) & (base > 0.0)
    if not np.any(cells):
        return 1.0
    count, mean, total = events[cells], base[cells], total[total > 0.0]

    def loss(log_kappa: float) -> float:
        kappa = np.exp(log_kappa)
        rows = gammaln(kappa) - gammaln(kappa + total)
        within = gammaln(kappa * mean + count) - gammaln(kappa * mean)
        return -float(rows.sum() + within.sum())

    found = minimize_scalar(loss, bounds=(np.log(1e-2), np.log(1e4)), method="bounded")
    return float(np.exp(found.x))


def common_arrays(fit: Any) -> dict[str, npt.NDArray[Any]]:
    """Return what every fit puts into a model file besides its own tables, as arrays."""
    tail = fit.tail
    return {
        "allowed": fit.allowed,
        "identified": fit.identified,
        "unidentified": np.isin(fit.state_names, fit.unidentified),
        "cut_step": np.array(CUT_STEPS.index(fit.cut_step)),
        "numbers": np.array([getattr(fit, name) for name in _NUMBERS]),
        "tail": np.array([tail.success_hazard, tail.failure_hazard, tail.weight]),
    }


def common_fields(
    parameters: Mapping[str, npt.NDArray[Any]], state_names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the fields of a fit that `common_arrays` wrote."""
    lost = np.asarray(parameters["unidentified"], dtype=np.bool_)
    success, failure, weight = (float(x) for x in parameters["tail"])
    numbers = (int(x) for x in parameters["numbers"])
    return {
        "unidentified": tuple(state_names[i] for i in np.flatnonzero(lost)),
        "state_names": state_names,
        "allowed": np.asarray(parameters["allowed"], dtype=np.bool_),
        "identified": np.asarray(parameters["identified"], dtype=np.bool_),
        "cut_step": CUT_STEPS[int(parameters["cut_step"])],
        **dict(zip(_NUMBERS, numbers, strict=True)),
        "tail": GeometricTail(success_hazard=success, failure_hazard=failure, weight=weight),
    }
