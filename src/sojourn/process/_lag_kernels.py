"""Kernel of the k-step check: pairs of moments of one corpus, at all lags in one pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = ["count_lags"]


@kernel
def count_lags(
    states: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    event: npt.NDArray[np.int8],
    last_moment: int,
    tables: npt.NDArray[np.int64],
) -> None:
    """Count where runs are k moments on; tables: (n_lags, m + 1, m + 2), origin 0 the start.

    A pair (t, t + k) counts where t + k is at most `last_moment`, so that with one step cap, its
    `last_moment`, no pair is lost by a cut. A run that has ended stays at its end.
    """
    n_lags, m = tables.shape[0], tables.shape[1] - 1
    tables[:] = 0
    for r in range(event.size):
        low, high = offsets[r], offsets[r + 1]
        length = high - low
        for t in range(length + 1):
            origin = 0 if t == 0 else states[low + t - 1] + 1
            for k in range(1, n_lags + 1):
                if t + k > last_moment:
                    break
                if t + k <= length:
                    tables[k - 1, origin, states[low + t + k - 1]] += 1
                elif event[r] > 0:
                    tables[k - 1, origin, m + event[r] - 1] += 1
