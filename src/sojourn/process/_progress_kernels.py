"""The compiled loop that draws runs of a chain whose rows depend on the step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = ["simulate_progress"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@kernel
def _event(u: float, row: Floats, odds: float) -> int:
    """Choose the event of a row by one uniform number; the odds of success are multiplied."""
    m = row.size - 2
    # Ends come first in the unit interval: when a run ends does not depend on its odds.
    end = row[m] + row[m + 1]
    if u < end:
        success = row[m] * odds
        return m if u * (success + row[m + 1]) < end * success else m + 1
    u -= end
    chosen = -1
    for j in range(m):
        if row[j] > 0.0:
            chosen = j
            if u < row[j]:
                break
            u -= row[j]
    if chosen < 0:
        # Rounding, in a row without moves.
        return m if row[m] * odds > row[m + 1] else m + 1
    return chosen


@kernel
def simulate_progress(
    rng: np.random.Generator, start: Floats, rows: Floats, odds: Floats, max_steps: int
) -> tuple[npt.NDArray[np.int32], Integers, npt.NDArray[np.int8]]:
    """Draw one run an entry of `odds`; rows: (n_levels, m, m + 2), the last for all later steps."""
    n_levels, m = rows.shape[0], rows.shape[1]
    offsets = np.zeros(odds.size + 1, dtype=np.int64)
    event = np.zeros(odds.size, dtype=np.int8)
    path = np.empty(16 + 16 * odds.size, dtype=np.int32)
    n = 0
    for r in range(odds.size):
        length = 0
        there = _event(rng.random(), start, odds[r])
        while there < m and length < max_steps:
            if n == path.size:
                wider = np.empty(2 * n, dtype=np.int32)
                wider[:n] = path
                path = wider
            path[n] = there
            n += 1
            length += 1
            there = _event(rng.random(), rows[min(length, n_levels) - 1, there], odds[r])
        if there >= m:
            event[r] = there - m + 1
        offsets[r + 1] = n
    return path[:n].copy(), offsets, event
