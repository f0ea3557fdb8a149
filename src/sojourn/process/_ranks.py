"""P-values by rank: every value compared with all, the observed one among them.

Where the observed and the drawn values are on a par, these are exact at every number of draws, and
so is the smallest of several once it is itself ranked among the smallest of all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["smallest_p", "two_sided_p", "upper_p"]

Floats = npt.NDArray[np.float64]


def upper_p(values: Floats) -> Floats:
    """Share of all values that are at least as large, for each of them."""
    below = np.searchsorted(np.sort(values), values, side="left")
    return np.asarray((values.size - below) / values.size)


def two_sided_p(values: Floats) -> Floats:
    """Twice the smaller tail, at most 1."""
    return np.minimum(1.0, 2.0 * np.minimum(upper_p(values), upper_p(-values)))


def smallest_p(p: Floats) -> Floats:
    """P-value of the smallest of several p-values, for each row.

    Parameters
    ----------
    p : ndarray of shape (n_corpora, n_statistics)
        Each column ranks all corpora by one statistic.

    Returns
    -------
    ndarray of shape (n_corpora,)
    """
    return upper_p(-p.min(axis=1))
