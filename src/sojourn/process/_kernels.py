"""Compiled loops over runs: counting what happened, and simulating what could.

All counts share one layout, a table of m + 1 rows and m + 3 columns for m states. Row 0 is the
moment before the first step, row i + 1 the moment after a step in state i. Columns 0 .. m - 1 are
the next state, then success, failure, and a cut. The kernels check nothing; their callers do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = [
    "alias_rows",
    "count_by_unit",
    "count_rows",
    "simulate_paths",
    "simulate_tables",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
States = npt.NDArray[np.int32]


@kernel
def _column(event: int, m: int) -> int:
    """Column of an end: events are 0 cut, 1 success, 2 failure."""
    return m + 2 if event == 0 else m + event - 1


@kernel
def count_by_unit(
    states: States,
    offsets: Integers,
    event: npt.NDArray[np.int8],
    unit: npt.NDArray[np.int32],
    tables: Integers,
) -> None:
    """Add the counts of every run to the table of its unit; tables: (n_units, m + 1, m + 3)."""
    m = tables.shape[1] - 1
    for r in range(event.size):
        u = unit[r]
        row = 0
        for k in range(offsets[r], offsets[r + 1]):
            s = states[k]
            tables[u, row, s] += 1
            row = s + 1
        tables[u, row, _column(event[r], m)] += 1


@kernel
def count_rows(
    run: npt.NDArray[np.integer[Any]],
    state: npt.NDArray[np.integer[Any]],
    event: npt.NDArray[np.int8],
    carry: Integers,
    table: Integers,
) -> int:
    """Add one batch of (run, state) rows, sorted by run and in order of steps, to one table.

    A run may go on into the next batch, so `carry` keeps the last run (-1 at first), its row, its
    length, and the length of the longest run; the caller closes the last run. Runs without rows
    count as empty. Returns -1, or k where row k breaks the order or names no run or no state.
    """
    m = table.shape[0] - 1
    last_run, row, length, longest = carry[0], carry[1], carry[2], carry[3]
    for k in range(run.size):
        r = np.int64(run[k])
        s = np.int64(state[k])
        if r < last_run or r < 0 or r >= event.size or s < 0 or s >= m:
            return k
        if r != last_run:
            if last_run >= 0:
                table[row, _column(event[last_run], m)] += 1
                longest = max(longest, length)
            for empty in range(last_run + 1, r):
                table[0, _column(event[empty], m)] += 1
            last_run = r
            row = np.int64(0)
            length = np.int64(0)
        table[row, s] += 1
        row = s + 1
        length += 1
    carry[0], carry[1], carry[2], carry[3] = last_run, row, length, max(longest, length)
    return -1


@kernel
def alias_rows(probability: Floats) -> tuple[Floats, States]:
    """Walker's alias tables of each row (Vose 1991), so that a draw costs one uniform number."""
    n_tables, n_rows, n_columns = probability.shape
    accept = np.ones((n_tables, n_rows, n_columns))
    alias = np.zeros((n_tables, n_rows, n_columns), dtype=np.int32)
    small = np.empty(n_columns, dtype=np.int64)
    large = np.empty(n_columns, dtype=np.int64)
    scaled = np.empty(n_columns)
    for t in range(n_tables):
        for i in range(n_rows):
            total = probability[t, i].sum()
            n_small = 0
            n_large = 0
            best = 0
            for j in range(n_columns):
                scaled[j] = probability[t, i, j] / total * n_columns
                if probability[t, i, j] > probability[t, i, best]:
                    best = j
                if scaled[j] < 1.0:
                    small[n_small] = j
                    n_small += 1
                else:
                    large[n_large] = j
                    n_large += 1
            while n_small > 0 and n_large > 0:
                n_small -= 1
                n_large -= 1
                low = small[n_small]
                high = large[n_large]
                accept[t, i, low] = scaled[low]
                alias[t, i, low] = high
                scaled[high] -= 1.0 - scaled[low]
                if scaled[high] < 1.0:
                    small[n_small] = high
                    n_small += 1
                else:
                    large[n_large] = high
                    n_large += 1
            # What rounding leaves over is whole; a column of probability zero never is.
            for k in range(n_small):
                j = small[k]
                if probability[t, i, j] == 0.0:
                    accept[t, i, j] = 0.0
                    alias[t, i, j] = best
    return accept, alias


@kernel
def _draw(rng: np.random.Generator, accept: Floats, alias: States) -> int:
    u = rng.random() * accept.size
    j = int(u)
    return j if u - j < accept[j] else int(alias[j])


@kernel
def simulate_paths(
    rng: np.random.Generator,
    accept: Floats,
    alias: States,
    which: Integers,
    max_steps: Integers,
    memory: float,
    sojourn: int,
    exit_factor: float,
    exit_steps: int,
) -> tuple[States, Integers, npt.NDArray[np.int8]]:
    """Draw the paths of runs; run r follows table which[r] and is cut after max_steps[r] steps.

    Departures from the chain, all off at memory = 0, sojourn = 1, exit_steps = 0: with probability
    `memory` a run goes back to the state it came from; every visit lasts `sojourn` steps; during
    the first `exit_steps` steps an exit happens with `exit_factor` times its probability, else the
    run goes on as it would have, given that it does.
    """
    m = accept.shape[1] - 1
    n_runs = which.size
    offsets = np.zeros(n_runs + 1, dtype=np.int64)
    event = np.zeros(n_runs, dtype=np.int8)
    path = np.empty(16 + 16 * n_runs, dtype=np.int32)
    n = 0
    for r in range(n_runs):
        t = which[r]
        length = 0
        previous = -1
        here = -1
        while True:
            if memory > 0.0 and previous >= 0 and rng.random() < memory:
                there = previous
            else:
                there = _draw(rng, accept[t, here + 1], alias[t, here + 1])
                early = 0 < length <= exit_steps
                if early and there >= m and rng.random() >= exit_factor:
                    while there >= m:
                        there = _draw(rng, accept[t, here + 1], alias[t, here + 1])
            if there >= m:
                event[r] = there - m + 1
                break
            if length >= max_steps[r]:
                break
            for _ in range(min(sojourn, max_steps[r] - length)):
                if n == path.size:
                    wider = np.empty(2 * n, dtype=np.int32)
                    wider[:n] = path
                    path = wider
                path[n] = there
                n += 1
                length += 1
            previous = here
            here = there
        offsets[r + 1] = n
    return path[:n].copy(), offsets, event


@kernel
def simulate_tables(
    keys: npt.NDArray[np.uint64],
    accept: Floats,
    alias: States,
    n_runs: int,
    max_steps: int,
    tables: Integers,
    ends: Integers,
) -> None:
    """Draw corpora of runs and keep only what a refit needs: counts and ends.

    Corpus b is drawn with the key keys[b], from the counter-based generator SplitMix64 (Steele,
    Lea & Flood 2014): each number is a mix of key plus counter, so that the next one is under way
    before the last is used. `accept` and `alias` are the rows of one chain, shape (m + 1, m + 2),
    `tables` has shape (n_corpora, m + 1, m + 3), `ends` (n_corpora, 3, max_steps + 1).
    """
    m = tables.shape[1] - 1
    width = accept.shape[1]
    columns = m + 3
    keep = accept.ravel()
    other = alias.ravel()
    gamma = np.uint64(0x9E3779B97F4A7C15)
    first = np.uint64(0xBF58476D1CE4E5B9)
    second = np.uint64(0x94D049BB133111EB)
    scale = width * 2.0**-53
    for b in range(keys.size):
        counter = keys[b]
        table = tables[b].ravel()
        for _ in range(n_runs):
            row = np.int64(0)
            length = 0
            while True:
                counter += gamma
                x = counter
                x = (x ^ (x >> np.uint64(30))) * first
                x = (x ^ (x >> np.uint64(27))) * second
                x ^= x >> np.uint64(31)
                u = np.float64(x >> np.uint64(11)) * scale
                j = np.int64(u)
                cell = row * width + j
                swap = np.int64(other[cell])
                # Both are loaded, so that the choice costs no branch that is guessed wrong.
                j = j if u - j < keep[cell] else swap
                if j >= m:
                    table[row * columns + j] += 1
                    ends[b, j - m + 1, length] += 1
                    break
                if length == max_steps:
                    table[row * columns + m + 2] += 1
                    ends[b, 0, length] += 1
                    break
                table[row * columns + j] += 1
                row = j + 1
                length += 1
