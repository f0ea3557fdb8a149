"""From runs to cells, and from cells to resampled curves, whatever the number of workers.

Runs are checked once, units and limits numbered, steps reduced to the *knots* at which some run
ends; identical rows (unit, cell) are added up. The replicates are cut into blocks of a fixed size
with one random stream each, so that the answer does not depend on who computes which block.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import Workers
from sojourn.sequences import CENSORED, FAILURE

__all__ = [
    "MAX_LIMITS",
    "MAX_STEPS",
    "Cells",
    "Curves",
    "Runs",
    "check_runs",
    "curves",
    "knot_of_step",
    "make_cells",
    "resample",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_STEPS = 100_000
MAX_LIMITS = 20
_BLOCK = 64
_MAX_CELLS = 50_000_000


class Runs(NamedTuple):
    """Checked runs: units and strata numbered from 0, durations no longer than `MAX_STEPS`.

    Strata are in the order of their limits, "none declared" (-1) last.
    """

    duration: Ints
    event: npt.NDArray[np.int8]
    unit: Ints
    n_units: int
    stratum: Ints
    limits: tuple[int, ...]
    n_shortened: int
    n_limits: int


class Cells(NamedTuple):
    """Rows (unit, cell, count); a cell is (stratum, event, knot) in C order."""

    knots: Ints
    shape: tuple[int, int, int]
    row_offsets: Ints
    row_cell: Ints
    row_count: Floats

    def table(self) -> Floats:
        """Return the number of runs in each cell, shape (n_strata, 3, n_knots)."""
        n_cells = int(np.prod(self.shape))
        flat = np.bincount(self.row_cell, weights=self.row_count, minlength=n_cells)
        return flat.astype(np.float64).reshape(self.shape)


class Curves(NamedTuple):
    """Both curves at the knots; of several replicates, one a row."""

    success: Floats
    failure: Floats


def _whole(values: npt.ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 dimension, one value a run, not {array.ndim}")
    if array.size and array.dtype.kind not in "iub":
        if array.dtype.kind != "f" or not np.all(np.isfinite(array) & (array == np.rint(array))):
            raise ValueError(f"{name} must hold whole numbers, not {array.dtype}")
        array = np.clip(array, -(2.0**62), 2.0**62)
    return array.astype(np.int64)


def check_runs(
    duration: npt.ArrayLike,
    event: npt.ArrayLike,
    unit: npt.ArrayLike,
    stratum: npt.ArrayLike | None = None,
) -> Runs:
    """Check the arrays of a corpus and number its units and strata.

    A run of more than `MAX_STEPS` steps was still going after that step, whatever came later, and
    is kept as cut there: nothing about earlier steps changes.

    Raises
    ------
    ValueError
        If shapes differ, durations are negative or events are none of 0, 1, 2.
    """
    steps, ends, units = _whole(duration, "duration"), _whole(event, "event"), _whole(unit, "unit")
    codes = np.zeros_like(steps) if stratum is None else _whole(stratum, "stratum")
    if not steps.size == ends.size == units.size == codes.size:
        raise ValueError(
            f"duration, event, unit and stratum must have one value a run; they have "
            f"{steps.size}, {ends.size}, {units.size} and {codes.size}"
        )
    if steps.size and steps.min() < 0:
        raise ValueError(
            f"duration must not be negative; run {int(steps.argmin())} has {steps.min()}"
        )
    if ends.size and not CENSORED <= ends.min() <= ends.max() <= FAILURE:
        raise ValueError("event must be 0 (censored), 1 (success) or 2 (failure)")
    longer = steps > MAX_STEPS
    names, unit_index = np.unique(units, return_inverse=True)
    stratum_index, limits, n_limits = _strata(codes)
    return Runs(
        duration=np.minimum(steps, MAX_STEPS),
        event=np.where(longer, CENSORED, ends).astype(np.int8),
        unit=unit_index.astype(np.int64),
        n_units=names.size,
        stratum=stratum_index,
        limits=limits,
        n_shortened=int(longer.sum()),
        n_limits=n_limits,
    )


def _strata(codes: Ints) -> tuple[Ints, tuple[int, ...], int]:
    """Give the limits numbers in rising order; past `MAX_LIMITS` neighbours share a stratum.

    A merged stratum is named by its lowest limit. Returns number of each run, limits of the
    strata, and how many different limits there were.
    """
    none = np.iinfo(np.int64).max
    limits, index, counts = np.unique(
        np.where(codes < 0, none, codes), return_inverse=True, return_counts=True
    )
    n_limits = limits.size
    if n_limits > MAX_LIMITS:
        before = np.cumsum(counts) - counts
        group = before * MAX_LIMITS // codes.size
        first = np.flatnonzero(np.diff(group, prepend=-1))
        limits, index = limits[first], (np.searchsorted(first, index, side="right") - 1)
    named = tuple(-1 if limit == none else int(limit) for limit in limits)
    return index.astype(np.int64), named, n_limits


def make_cells(runs: Runs) -> Cells:
    """Add up the runs that share unit, stratum, event and duration."""
    knots, knot = np.unique(np.append(runs.duration, 0), return_inverse=True)
    shape = (max(len(runs.limits), 1), 3, knots.size)
    n_cells = shape[0] * shape[1] * shape[2]
    cell = (runs.stratum * 3 + runs.event) * knots.size + knot[:-1]
    keys, counts = np.unique(runs.unit * n_cells + cell, return_counts=True)
    rows = np.bincount(keys // n_cells, minlength=runs.n_units)
    return Cells(
        knots=knots,
        shape=shape,
        row_offsets=np.concatenate(([0], np.cumsum(rows))).astype(np.int64),
        row_cell=(keys % n_cells).astype(np.int64),
        row_count=counts.astype(np.float64),
    )


def knot_of_step(knots: Ints, horizon: int) -> Ints:
    """Return for d = 0 .. horizon the place of the last knot that is not after d."""
    return np.searchsorted(knots, np.arange(horizon + 1), side="right") - 1


def curves(cells: Cells) -> tuple[Curves, Floats]:
    """Return the curves of the corpus itself and the share of runs on borrowed hazards."""
    from sojourn.process._incidence_kernels import incidence_of_table

    success, failure, borrowed = np.empty((3, cells.knots.size))
    incidence_of_table(cells.table(), success, failure, borrowed)
    return Curves(success, failure), borrowed


def _block(cells: Cells, rng: np.random.Generator, n_resamples: int) -> Curves:
    from sojourn.process._incidence_kernels import resampled_curves

    out = Curves(*np.empty((2, n_resamples, cells.knots.size)))
    resampled_curves(
        rng, cells.row_offsets, cells.row_cell, cells.row_count, np.empty(cells.shape), *out
    )
    return out


def resample(
    cells: Cells, n_resamples: int, rng: np.random.Generator, executor: Executor | None = None
) -> Curves:
    """Return the curves of `n_resamples` corpora of units drawn with replacement.

    With very many different durations fewer replicates are made, so that they fit in memory; the
    number is the length of what is returned.
    """
    n_resamples = max(min(n_resamples, _MAX_CELLS // cells.knots.size), 1)
    sizes = [min(_BLOCK, n_resamples - start) for start in range(0, n_resamples, _BLOCK)]
    streams = rng.spawn(len(sizes))
    jobs = [cells] * len(sizes)
    if executor is not None:
        blocks = list(executor.map(_block, jobs, streams, sizes))
    else:
        with Workers(min(2, os.cpu_count() or 1)) as pool:
            blocks = list(pool.map(_block, jobs, streams, sizes))
    return Curves(
        np.concatenate([block.success for block in blocks]),
        np.concatenate([block.failure for block in blocks]),
    )
