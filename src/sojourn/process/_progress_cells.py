"""Cells and basis of the progress-dependent chain: all that its likelihood sees of the runs.

A step in state i at level g, followed by event j, counts in cell (i, g, j). The level of a step is
its number, up to the last knot of the spline; beyond it the spline is constant, so all later steps
share one level. Events are the next state, success, failure, and "went on": the run was cut there
and is known not to have ended. A fit costs as much as there are cells, whatever the number of runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.absorbing import leads_out
from sojourn.process.base import GeometricTail
from sojourn.process.homogeneous import start_row
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

__all__ = [
    "Basis",
    "UnitCells",
    "cells_by_unit",
    "count_cells",
    "count_starts",
    "make_basis",
    "provenance",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_DEGREE = 3
_LAST_KNOT = 0.95
_FIRST_KNOTS = (2.0, 3.0)
_TREND = 0.05


class Basis(NamedTuple):
    """A spline in the step, turned so that its penalty is a plain sum of squares."""

    values: Floats  # (n_levels, n_functions): at steps 1 .. n_levels; the last one holds beyond
    knots: Floats  # distinct knots, first and last included


class UnitCells(NamedTuple):
    """What each unit adds to the cells that occur, and to the starts."""

    matrix: Any  # sparse, (n_units, n_occurring)
    occurring: Ints  # place of each column among all cells, flattened
    starts: Floats  # (n_units, n_states + 3)


def make_basis(sequences: StateSequences, n_knots: int, weights: Floats | None = None) -> Basis:
    """Lay a cubic B-spline over the steps, knots at quantiles of the end times.

    Two more knots, at steps 2 and 3, let the first steps be of their own kind: few runs end there.
    With D1 and D2 the first and second differences of neighbouring coefficients the penalty is
    |D2 c|^2 + .05 |D1 c|^2; the second term holds the straight trend, which the first leaves free,
    about as firmly as a parabola. The functions returned are those in which the penalty is the
    sum of squares, ordered from smooth to rough, each of mean zero over all steps taken, so that
    the intercepts speak of the mean step; the first has variance one.
    """
    from scipy.interpolate import BSpline
    from scipy.linalg import eigh

    weights = np.ones(sequences.n_runs) if weights is None else weights
    lengths = sequences.lengths
    used = (lengths > 0) & (weights > 0)
    ended = used & (sequences.event != CENSORED)
    times = np.sort(lengths[ended if ended.any() else used])
    last = int(np.quantile(times, _LAST_KNOT, method="higher")) if times.size else 1
    if last == 1:
        return Basis(np.zeros((1, 0)), np.ones(1))
    inside = np.quantile(times, np.arange(1, n_knots + 1) / (n_knots + 1), method="higher")
    inside = np.concatenate((_FIRST_KNOTS, inside))
    knots = np.unique(np.concatenate(([1.0, float(last)], inside[(inside > 1) & (inside < last)])))
    padded = np.concatenate(([knots[0]] * _DEGREE, knots, [knots[-1]] * _DEGREE))
    functions = BSpline.design_matrix(np.arange(1.0, last + 1.0), padded, _DEGREE).toarray()
    # The share of all steps that each level holds: runs of at least that length, and what follows.
    reach = np.array([weights[lengths >= d].sum() for d in range(1, last + 1)])
    reach[-1] = (weights * np.maximum(lengths - last + 1, 0)).sum()
    share = np.sqrt(reach / reach.sum())[:, None]
    functions -= share.T**2 @ functions
    differences = np.diff(np.eye(functions.shape[1]), axis=0)
    rough = np.diff(differences, axis=0)
    penalty = rough.T @ rough + _TREND * differences.T @ differences
    # Constant coefficients are the null space of both matrices: give them size without variance.
    gram = (share * functions).T @ (share * functions)
    size, vectors = eigh(gram, penalty + 1.0)
    keep = np.flatnonzero(size > 1e-9 * size[-1])[::-1]
    values = functions @ vectors[:, keep] / np.sqrt(size[-1])
    # The sign of an eigenvector is arbitrary: let every function end above where it began.
    values *= np.where(values[-1] < values[0], -1.0, 1.0)
    return Basis(values, knots)


def count_cells(sequences: StateSequences, n_levels: int, weights: Floats | None = None) -> Floats:
    """Count the cells, shape (n_states, n_levels, n_states + 3); a run counts with its weight."""
    m = sequences.n_states
    repeated = None if weights is None else np.repeat(weights, sequences.lengths)
    cells = np.bincount(_codes(sequences, n_levels), repeated, m * n_levels * (m + 3))
    return cells.reshape(m, n_levels, m + 3).astype(np.float64)


def count_starts(sequences: StateSequences, weights: Floats | None = None) -> Floats:
    """Count what runs did first, shape (n_states + 3,): a state, or an end without a step."""
    firsts = np.bincount(_firsts(sequences), weights, sequences.n_states + 3)
    return firsts.astype(np.float64)


def cells_by_unit(sequences: StateSequences, n_levels: int) -> UnitCells:
    """Count cells and starts apart by unit, in ascending order of the unit numbers present."""
    from scipy.sparse import coo_array

    m = sequences.n_states
    place = np.unique(sequences.unit, return_inverse=True)[1]
    n_units = int(place.max(initial=-1)) + 1
    occurring, column = np.unique(_codes(sequences, n_levels), return_inverse=True)
    row = np.repeat(place, sequences.lengths)
    shape = (n_units, occurring.size)
    starts = np.bincount(place * (m + 3) + _firsts(sequences), minlength=n_units * (m + 3))
    return UnitCells(
        matrix=coo_array((np.ones(row.size), (row, column)), shape=shape).tocsr(),
        occurring=occurring,
        starts=starts.reshape(n_units, m + 3).astype(np.float64),
    )


def provenance(
    sequences: StateSequences,
    weights: Floats | None,
    cells: Floats,
    starts: Floats,
    start: str | int,
) -> dict[str, Any]:
    """Give the fields that come from the runs and not from the maximisation."""
    present = np.ones(sequences.n_runs, dtype=np.bool_) if weights is None else weights > 0.0
    each = present.astype(np.float64) if weights is None else weights
    n_runs = float(each.sum())
    moments = float(each @ (sequences.lengths + 1.0)) + 1.5
    ended = [float(each[sequences.event == event].sum()) for event in (SUCCESS, FAILURE)]
    return {
        "unidentified": _unidentified(cells, starts, sequences.state_names),
        "initial": start_row(np.vstack((starts, cells.sum(axis=1))), start),
        "cells": cells,
        "starts": starts,
        "horizon": int(sequences.lengths[present].max(initial=0)),
        "n_runs": n_runs,
        "n_tasks": int(np.unique(sequences.task[present]).size),
        "n_units": int(np.unique(sequences.unit[present]).size),
        "tail": GeometricTail(
            success_hazard=(ended[0] + 0.5) / moments,
            failure_hazard=(ended[1] + 0.5) / moments,
            weight=1.0 / (n_runs + 1.0),
        ),
    }


def _ends(sequences: StateSequences) -> Ints:
    m = sequences.n_states
    return np.array([m + 2, m, m + 1], dtype=np.int64)[sequences.event]


def _codes(sequences: StateSequences, n_levels: int) -> Ints:
    """Place of the cell of every step in the flattened table."""
    lengths, offsets = sequences.lengths, sequences.offsets
    full = lengths > 0
    code = np.append(sequences.states[1:], 0)[: sequences.states.size].astype(np.int64)
    code[offsets[1:][full] - 1] = _ends(sequences)[full]
    level = np.arange(sequences.states.size) - np.repeat(offsets[:-1], lengths)
    np.minimum(level, n_levels - 1, out=level)
    code += (sequences.states * np.int64(n_levels) + level) * (sequences.n_states + 3)
    return code


def _firsts(sequences: StateSequences) -> Ints:
    first = _ends(sequences)
    full = sequences.lengths > 0
    first[full] = sequences.states[sequences.offsets[:-1][full]]
    return first


def _unidentified(cells: Floats, starts: Floats, names: tuple[str, ...]) -> tuple[str, ...]:
    m = len(names)
    rows = cells.sum(axis=1)
    visited = rows.sum(axis=1) > 0.0
    if not starts[: m + 2].any():
        visited[:] = True  # no run was seen to do anything
    out = leads_out(rows[:, :m], rows[:, m] + rows[:, m + 1])
    return tuple(names[i] for i in np.flatnonzero(visited & ~out))
