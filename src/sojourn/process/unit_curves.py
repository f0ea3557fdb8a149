"""A corpus by units of resampling, and the curves of very many resampled corpora at once.

What the homogeneous chain and the Aalen-Johansen estimate need of a corpus are counts, and counts
add up over units: the tables of B resampled corpora are one matrix product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process._exact_kernels import replicate_curves
from sojourn.process.counting import share_survivals
from sojourn.sequences import CENSORED, StateSequences

__all__ = [
    "CurveReplicates",
    "UnitTables",
    "fit_curves",
    "observed_curves",
    "resampled_weights",
    "runs_that_tell",
    "unit_tables",
]

Floats = npt.NDArray[np.float64]

_CHUNK_CELLS = 4_000_000


class UnitTables(NamedTuple):
    """What each unit adds to the sufficient statistics of the chain and of the incidence.

    ``cells`` is a scipy CSR array of shape (n_units, m + m (m + 3) + 3 (n_steps + 1)): starts,
    steps with what followed them, and endings by event and length. The tables of a resampled
    corpus are a weighted sum of rows.
    """

    cells: Any
    n_states: int
    n_steps: int
    n_runs: int

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.cells.shape[0])


class CurveReplicates(NamedTuple):
    """Fitted and Aalen-Johansen curves of B weighted corpora, shape (B, 2, n_steps + 1) each."""

    fitted: Floats
    observed: Floats


def runs_that_tell(sequences: StateSequences) -> StateSequences:
    """Return the runs without those that were cut before their first step."""
    used = (sequences.lengths > 0) | (sequences.event != CENSORED)
    return sequences if used.all() else sequences.select(np.flatnonzero(used))


def unit_tables(sequences: StateSequences) -> UnitTables:
    """Tabulate starts, steps and endings of each unit.

    Runs that were cut before their first step tell nothing and are left out; runs that ended
    before it count at step 0. Units stand in the order of ``np.unique``.
    """
    from scipy.sparse import coo_array

    runs = runs_that_tell(sequences)
    m = runs.n_states
    n_steps = int(runs.lengths.max()) if runs.n_runs else 0
    unit = np.unique(runs.unit, return_inverse=True)[1]
    full = np.flatnonzero(runs.lengths > 0)
    first = runs.states[runs.offsets[:-1][full]].astype(np.int64)
    following = np.append(runs.states[1:], 0)[: runs.states.size].astype(np.int64)
    final = runs.offsets[1:][full] - 1
    following[final] = np.array([m + 2, m, m + 1])[runs.event[full]]
    step = m + runs.states.astype(np.int64) * (m + 3) + following
    ending = m + m * (m + 3) + runs.event.astype(np.int64) * (n_steps + 1) + runs.lengths
    row = np.concatenate((unit[full], np.repeat(unit, runs.lengths), unit))
    column = np.concatenate((first, step, ending))
    n_units = int(unit.max()) + 1 if unit.size else 0
    shape = (n_units, m + m * (m + 3) + 3 * (n_steps + 1))
    cells = coo_array((np.ones(row.size), (row, column)), shape=shape).tocsr()
    return UnitTables(cells, m, n_steps, runs.n_runs)


def resampled_weights(
    n_units: int, n_resamples: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw how often each unit stands in each resample, shape (n_resamples, n_units)."""
    return rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=n_resamples)


def fit_curves(tables: UnitTables, weights: npt.NDArray[Any]) -> CurveReplicates:
    """Fit the homogeneous chain and Aalen-Johansen to weighted corpora.

    Parameters
    ----------
    tables : UnitTables
        The corpus by units.
    weights : ndarray of shape (B, n_units)
        How often each unit counts in each of B corpora.

    Returns
    -------
    CurveReplicates
        Success and failure curves. The chain is fitted by maximum likelihood without smoothing;
        a cut run counts with the steps it took, and is known to have gone on after the last.
    """
    m, n_steps = tables.n_states, tables.n_steps
    n_corpora = weights.shape[0]
    fitted = np.zeros((n_corpora, 2, n_steps + 1))
    observed = np.zeros_like(fitted)
    chunk = max(1, _CHUNK_CELLS // max(tables.cells.shape))
    for low in range(0, n_corpora, chunk):
        part = slice(low, min(low + chunk, n_corpora))
        summed = np.ascontiguousarray((tables.cells.T @ weights[part].T.astype(np.float64)).T)
        starts, steps, endings = np.split(summed, [m, m + m * (m + 3)], axis=1)
        replicate_curves(
            np.ascontiguousarray(starts),
            share_survivals(steps.reshape(-1, m, m + 3)),
            np.ascontiguousarray(endings).reshape(-1, 3, n_steps + 1),
            fitted[part],
            observed[part],
        )
    return CurveReplicates(fitted, observed)


def observed_curves(tables: UnitTables, weights: npt.NDArray[Any]) -> Floats:
    """Aalen-Johansen curves of weighted corpora alone, shape (B, 2, n_steps + 1)."""
    m, n_steps = tables.n_states, tables.n_steps
    ends = tables.cells[:, m + m * (m + 3) :]
    counts = np.asarray((ends.T @ weights.T.astype(np.float64)).T).reshape(-1, 3, n_steps + 1)
    leaving = counts.sum(axis=1)
    at_risk = np.cumsum(leaving[:, ::-1], axis=1)[:, ::-1]
    some = at_risk > 0.5  # counts are whole; what is left is rounding
    hazard = np.where(some[:, None], counts[:, 1:] / np.where(some, at_risk, 1.0)[:, None], 0.0)
    after = np.cumprod(1.0 - hazard.sum(axis=1), axis=1)
    before = np.concatenate((np.ones((after.shape[0], 1)), after[:, :-1]), axis=1)
    return np.asarray(np.cumsum(hazard * before[:, None], axis=2))
