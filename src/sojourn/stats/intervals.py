"""Intervals for proportions and for means of values in [0, 1], when runs come in groups.

The idea: a mean of grouped 0/1 outcomes is as uncertain as a proportion of `n_eff` independent
ones, n_eff = m (1 - m) / se^2. Wilson's interval at that size keeps what makes it good at the
edges (it lies inside [0, 1] and has a width at 0 and 1), and a t quantile pays for estimating se.
Everything here takes plain arrays that broadcast, so that a study evaluates a million intervals
with the code that the estimators use. Nothing here knows of tasks or attempts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction

__all__ = [
    "Bounds",
    "RatioMean",
    "clopper_pearson",
    "effective_size",
    "jeffreys",
    "normal_quantile",
    "ratio_mean",
    "resampled_sums",
    "t_quantile",
    "weighted_quantiles",
    "wilson",
]

FloatArray = npt.NDArray[np.float64]
_BLOCK = 4_000_000


class Bounds(NamedTuple):
    """Lower and upper bounds, arrays of the shape of the broadcast arguments."""

    low: FloatArray
    high: FloatArray


class RatioMean(NamedTuple):
    """A ratio of totals over units, its variance, and how many equal units it amounts to."""

    value: float
    variance: float
    n_units: int
    n_effective_units: float


def normal_quantile(ci_prob: float) -> float:
    """Return z with P(-z < Z < z) = ci_prob."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + check_fraction(ci_prob, name="ci_prob") / 2))


def t_quantile(ci_prob: float, df: npt.ArrayLike) -> FloatArray:
    """Return t with P(-t < T < t) = ci_prob for Student's T with `df` degrees of freedom."""
    from scipy.special import stdtrit

    tail = 0.5 + check_fraction(ci_prob, name="ci_prob") / 2
    return np.asarray(stdtrit(np.asarray(df, dtype=float), tail), dtype=float)


def wilson(value: npt.ArrayLike, size: npt.ArrayLike, quantile: npt.ArrayLike) -> Bounds:
    """Return Wilson's score interval for a proportion `value` seen in `size` outcomes.

    Solves (m - p)^2 = q^2 p (1 - p) / n for p. The size may be any positive number.

    Parameters
    ----------
    value : array_like
        Proportions m in [0, 1].
    size : array_like
        Numbers of outcomes n > 0, whole or effective.
    quantile : array_like
        q, a normal or t quantile.

    References
    ----------
    E. B. Wilson (1927), JASA 22, 209-212.
    """
    m = np.asarray(value, dtype=float)
    n = np.asarray(size, dtype=float)
    q2 = np.square(np.asarray(quantile, dtype=float))
    centre = (n * m + q2 / 2) / (n + q2)
    half = np.sqrt(q2 * (n * m * (1 - m) + q2 / 4)) / (n + q2)
    # At 0 and 1 the bound is exact on paper; rounding must not push it past the value.
    low = np.where(m <= 0.0, 0.0, np.minimum(np.maximum(centre - half, 0.0), m))
    high = np.where(m >= 1.0, 1.0, np.maximum(np.minimum(centre + half, 1.0), m))
    return Bounds(low, high)


def clopper_pearson(successes: npt.ArrayLike, size: npt.ArrayLike, ci_prob: float) -> Bounds:
    """Return the Clopper-Pearson interval; counts may be fractional (effective).

    References
    ----------
    C. J. Clopper and E. S. Pearson (1934), Biometrika 26, 404-413. With effective counts:
    E. L. Korn and B. I. Graubard (1998), Survey Methodology 24, 193-201.
    """
    from scipy.special import betaincinv

    tail = (1 - check_fraction(ci_prob, name="ci_prob")) / 2
    x, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(size, float))
    empty, full = x <= 0, x >= n
    low = betaincinv(np.where(empty, 1.0, x), np.where(empty, 1.0, n - x + 1), tail)
    high = betaincinv(np.where(full, 1.0, x + 1), np.where(full, 1.0, n - x), 1 - tail)
    return Bounds(np.where(empty, 0.0, low), np.where(full, 1.0, high))


def jeffreys(value: npt.ArrayLike, size: npt.ArrayLike, ci_prob: float) -> Bounds:
    """Return the equal-tailed interval of Beta(n m + 1/2, n (1 - m) + 1/2), closed at 0 and 1.

    References
    ----------
    L. D. Brown, T. T. Cai and A. DasGupta (2001), Statistical Science 16, 101-133, section 4.1.
    """
    from scipy.special import betaincinv

    tail = (1 - check_fraction(ci_prob, name="ci_prob")) / 2
    m, n = np.broadcast_arrays(np.asarray(value, float), np.asarray(size, float))
    a, b = n * m + 0.5, n * (1 - m) + 0.5
    low = np.where(m <= 0.0, 0.0, np.minimum(betaincinv(a, b, tail), m))
    high = np.where(m >= 1.0, 1.0, np.maximum(betaincinv(a, b, 1 - tail), m))
    return Bounds(low, high)


def effective_size(
    value: npt.ArrayLike, variance: npt.ArrayLike, smallest: npt.ArrayLike, largest: npt.ArrayLike
) -> FloatArray:
    """Return m (1 - m) / variance, kept within [smallest, largest].

    At m = 0 or m = 1, where the data say nothing of how outcomes hang together, it is `smallest`.
    """
    m = np.asarray(value, dtype=float)
    v = np.asarray(variance, dtype=float)
    spread = m * (1 - m)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(v > 0, spread / v, np.inf)
    size = np.where(spread > 0, size, 0.0)
    return np.asarray(np.maximum(np.minimum(size, largest), smallest), dtype=float)


def ratio_mean(numerator: FloatArray, denominator: FloatArray) -> RatioMean:
    """Return sum(y) / sum(x) over units and its linearised variance.

    Parameters
    ----------
    numerator, denominator : ndarray of shape (n_units,)
        Totals y_u and x_u >= 0 of each unit; units with x_u = 0 do not count.

    Notes
    -----
    var = U / (U - 1) * sum_u (y_u - m x_u)^2 / (sum_u x_u)^2, zero for a single unit. The number
    of equal units that weigh as much is Kish's (sum x)^2 / sum x^2.

    References
    ----------
    W. G. Cochran (1977), Sampling Techniques, 3rd ed., section 2.11; L. Kish (1965), section 8.2.
    """
    counted = denominator > 0
    y, x = numerator[counted], denominator[counted]
    total = float(x.sum())
    n_units = int(x.size)
    value = min(max(float(y.sum()) / total, 0.0), 1.0)
    residual = float(np.square(y - value * x).sum()) / total**2
    variance = residual * n_units / (n_units - 1) if n_units > 1 else 0.0
    return RatioMean(value, variance, n_units, total**2 / float(np.square(x).sum()))


def resampled_sums(rows: FloatArray, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return column sums of `rows` over bootstrap resamples of the rows.

    Equal rows are drawn together: how often each *kind* of row is drawn is multinomial, so the cost
    follows the number of distinct rows. Blocks keep the weights within about 32 MB.

    Parameters
    ----------
    rows : ndarray of shape (n_units, n_columns)
        What each unit adds to every total.
    n_resamples : int
        Number of resamples.
    rng : Generator
        Source of the draws.

    Returns
    -------
    ndarray of shape (n_resamples, n_columns)
    """
    distinct, multiplicity = np.unique(rows, axis=0, return_counts=True)
    n_units = rows.shape[0]
    sums = np.empty((n_resamples, rows.shape[1]))
    block = max(1, _BLOCK // distinct.shape[0])
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        weights = rng.multinomial(n_units, multiplicity / n_units, size=size)
        sums[start : start + size] = weights @ distinct
    return sums


def weighted_quantiles(
    values: FloatArray, weights: FloatArray, probabilities: npt.ArrayLike
) -> FloatArray:
    """Return quantiles of a weighted sample, linear between the middles of the weights.

    Equal values are joined first: on a grid they would otherwise make steps.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))
    w = np.add.reduceat(weights[order], first) / weights.sum()
    levels = np.asarray(probabilities, dtype=float)
    return np.asarray(np.interp(levels, np.cumsum(w) - w / 2, ordered[first]), dtype=float)
