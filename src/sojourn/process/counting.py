"""Counts of what followed what: all that a first-order chain needs of the data.

The counts of a corpus are one small table (see `TransitionCounts`). Kept by unit of resampling
they make the bootstrap over tasks one matrix product: the tables of B resampled corpora are the
(B, units) matrix of multiplicities times the (units, cells) matrix of counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import frozen_array
from sojourn.sequences import StateSequences

__all__ = ["TransitionCounts", "UnitCounts", "count_batches", "count_by_unit", "count_transitions"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_DENSE_CELLS = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransitionCounts:
    """How often each event followed each state.

    Attributes
    ----------
    table : ndarray of shape (n_states + 1, n_states + 3), int64
        Row 0 counts what runs did first, row i + 1 what followed a step in state i. The columns
        are the next state, then success, failure, and a cut (the next event was not observed).
    state_names : tuple of str
        One readable name a state.
    longest : int
        Steps of the longest run, cut runs included.
    """

    table: Integers
    state_names: tuple[str, ...]
    longest: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", frozen_array(self.table, np.int64, ndim=2, name="table"))
        m = len(self.state_names)
        if self.table.shape != (m + 1, m + 3):
            raise ValueError(f"table has shape {self.table.shape}, not ({m + 1}, {m + 3})")

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_names)

    @property
    def n_runs(self) -> int:
        """Number of runs, empty and cut ones included."""
        return int(self.table[0].sum())

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return int(self.table[1:].sum())

    @property
    def starts(self) -> Integers:
        """Runs by their first state, shape (n_states,)."""
        return self.table[0, : self.n_states]

    @property
    def transitions(self) -> Integers:
        """Transitions from state (row) to state (column)."""
        return self.table[1:, : self.n_states]

    @property
    def to_success(self) -> Integers:
        """Runs that succeeded, by their last state."""
        return self.table[1:, self.n_states]

    @property
    def to_failure(self) -> Integers:
        """Runs that failed, by their last state."""
        return self.table[1:, self.n_states + 1]

    @property
    def cut(self) -> Integers:
        """Runs that were cut, by their last state."""
        return self.table[1:, self.n_states + 2]

    @property
    def row_totals(self) -> Integers:
        """Observed events after each state, cuts left out."""
        return np.asarray(self.table[1:, : self.n_states + 2].sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitCounts:
    """Transition counts kept apart by unit of resampling.

    Attributes
    ----------
    matrix : ndarray or scipy.sparse.csr_array of shape (n_units, cells)
        A flattened table a unit; sparse where the dense one would be large.
    n_states : int
        Number of states, so that cells = (n_states + 1)(n_states + 3).
    """

    matrix: Any
    n_states: int

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.matrix.shape[0])

    def resample(self, weights: Floats) -> Floats:
        """Tables of corpora in which unit u stands ``weights[b, u]`` times.

        Parameters
        ----------
        weights : ndarray of shape (n_corpora, n_units)

        Returns
        -------
        ndarray of shape (n_corpora, n_states + 1, n_states + 3), float64
        """
        # A sparse matrix stands on the left: the product then stays an ordinary array.
        flat = (
            weights @ self.matrix
            if isinstance(self.matrix, np.ndarray)
            else (self.matrix.T @ weights.T).T
        )
        return np.asarray(flat, dtype=np.float64).reshape(-1, self.n_states + 1, self.n_states + 3)


def count_transitions(sequences: StateSequences) -> TransitionCounts:
    """Count starts, transitions and ends of all runs."""
    from sojourn.process import _kernels

    m = sequences.n_states
    tables = np.zeros((1, m + 1, m + 3), dtype=np.int64)
    unit = np.zeros(sequences.n_runs, dtype=np.int32)
    _kernels.count_by_unit(sequences.states, sequences.offsets, sequences.event, unit, tables)
    return TransitionCounts(
        table=tables[0],
        state_names=sequences.state_names,
        longest=int(sequences.lengths.max(initial=0)),
    )


def count_by_unit(
    sequences: StateSequences, unit: npt.NDArray[np.int32] | None = None
) -> UnitCounts:
    """Count transitions by unit of resampling.

    Parameters
    ----------
    sequences : StateSequences
        The runs.
    unit : ndarray of shape (n_runs,), int, optional
        The unit of each run; that of the sequences by default. Units are renumbered in ascending
        order of the numbers present.

    Returns
    -------
    UnitCounts
    """
    _, inverse = np.unique(sequences.unit if unit is None else unit, return_inverse=True)
    place: npt.NDArray[np.int32] = inverse.astype(np.int32)
    n_units = int(place.max(initial=-1)) + 1
    m = sequences.n_states
    cells = (m + 1) * (m + 3)
    if n_units * cells > _DENSE_CELLS:
        return UnitCounts(matrix=_sparse(sequences, place, n_units), n_states=m)
    from sojourn.process import _kernels

    tables = np.zeros((n_units, m + 1, m + 3), dtype=np.int64)
    _kernels.count_by_unit(sequences.states, sequences.offsets, sequences.event, place, tables)
    return UnitCounts(matrix=tables.reshape(n_units, cells).astype(np.float64), n_states=m)


def _sparse(sequences: StateSequences, unit: npt.NDArray[np.int32], n_units: int) -> Any:
    from scipy.sparse import coo_array

    m, width = sequences.n_states, sequences.n_states + 3
    lengths = sequences.lengths
    first = sequences.offsets[:-1][lengths > 0]
    row = np.concatenate(([0], sequences.states[:-1] + 1)) if sequences.states.size else np.zeros(0)
    row[first] = 0
    last = np.zeros(sequences.n_runs, dtype=np.int64)
    last[lengths > 0] = sequences.states[sequences.offsets[1:][lengths > 0] - 1] + 1
    ends = np.array([m + 2, m, m + 1])[sequences.event]
    cell = np.concatenate((row * width + sequences.states, last * width + ends)).astype(np.int64)
    of = np.concatenate((np.repeat(unit, lengths), unit))
    shape = (n_units, (m + 1) * width)
    return coo_array((np.ones(cell.size), (of, cell)), shape=shape).tocsr()


def count_batches(
    batches: Iterable[tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]],
    *,
    event: npt.NDArray[np.int8],
    state_names: tuple[str, ...],
) -> TransitionCounts:
    """Count from a stream of step rows, in memory that does not grow with their number.

    Parameters
    ----------
    batches : iterable of (run, state)
        Arrays with a row a step: the number of the run and the state. Rows are sorted by run and
        stand in the order of steps; a run may go on from one batch into the next.
    event : ndarray of shape (n_runs,), int8
        How each run ended (0 cut, 1 success, 2 failure); runs without rows have no steps.
    state_names : tuple of str
        One readable name a state.

    Raises
    ------
    ValueError
        If rows are not sorted by run, or name a run or a state that does not exist.
    """
    from sojourn.process import _kernels

    m = len(state_names)
    table = np.zeros((m + 1, m + 3), dtype=np.int64)
    event = np.ascontiguousarray(event, dtype=np.int8)
    carry = np.array([-1, 0, 0, 0], dtype=np.int64)
    seen = 0
    for runs, states in batches:
        if runs.shape != states.shape:
            raise ValueError(f"a batch has {runs.size} runs but {states.size} states")
        fault = _kernels.count_rows(runs, states, event, carry, table)
        if fault >= 0:
            raise ValueError(
                f"step row {seen + fault} is out of order by run, or names an unknown run or state"
            )
        seen += runs.size
    # The last run is still open, and the runs after it have no steps.
    run, row, longest = int(carry[0]), int(carry[1]), int(carry[3])
    columns = np.array([m + 2, m, m + 1])[event]
    if run >= 0:
        table[row, columns[run]] += 1
    np.add.at(table[0], columns[run + 1 :], 1)
    return TransitionCounts(table=table, state_names=tuple(state_names), longest=longest)


def share_survivals(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Spread the unseen next steps of cut runs over the moves that were seen from their state.

    A run that is cut after a step is known not to have ended with it: it moved on to some state.
    Spreading these moves as the seen ones are is the maximum likelihood solution; where a state
    has no seen move, they are spread as all moves are.

    Parameters
    ----------
    rows : ndarray of shape (..., n_states, n_states + 3)
        What followed each state: next states, success, failure, a cut.

    Returns
    -------
    ndarray of shape (..., n_states, n_states + 2)
        Next states, success, failure; the total is that of `rows` where any move was seen.
    """
    m = rows.shape[-2]
    observed = rows[..., : m + 2].astype(np.float64)
    moves = observed[..., :m]
    total = moves.sum(axis=-1, keepdims=True)
    seen = np.where(total > 0.0, moves, moves.sum(axis=-2, keepdims=True))
    total = seen.sum(axis=-1, keepdims=True)
    observed[..., :m] = moves + rows[..., m + 2 :] * seen / np.maximum(total, 1e-300)
    return observed
