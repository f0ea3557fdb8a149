"""Intervals of the cumulative incidence curves, from the spread over resampled units.

Pointwise: Wilson's form on the effective number of runs n = R (1 - R) / se^2, with Student's
quantile on units - 1. It stays inside [0, 1], has a width where no run or every run has
succeeded, and keeps its coverage with twenty units, where percentiles do not.
Simultaneous: the bootstrap quantile of sup |R* - R|. Times: the mean by Student's form, quantiles
by reading the pointwise band of the curve at their level.
Arrays run over knots, the steps at which some run ended; nothing here knows of runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.estimates import Interval

__all__ = [
    "Band",
    "effective_wilson",
    "mean_interval",
    "quantile_interval",
    "quantile_step",
    "spread",
    "sup_half_width",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROUNDING = 1e-12


class Band(NamedTuple):
    """Lower and upper bounds of a curve, one a step."""

    low: Floats
    high: Floats


def student_quantile(ci_prob: float, n_units: int) -> float:
    """Return the two-sided quantile on units - 1 degrees of freedom; infinite for one unit."""
    from scipy.special import stdtrit

    if n_units < 2:
        return math.inf
    return float(stdtrit(n_units - 1, 0.5 + ci_prob / 2))


def _small_sample(n_units: int) -> float:
    """Undo the factor (m - 1) / m in the variance of the mean of m resampled units."""
    return math.sqrt(n_units / (n_units - 1)) if n_units > 1 else 1.0


def spread(replicates: Floats, n_units: int) -> Floats:
    """Return the standard error at each knot; row by row, so that no second copy is made."""
    total = np.zeros(replicates.shape[1])
    if len(replicates) < 2:
        return total
    centre = replicates.mean(axis=0)
    for row in replicates:
        total += (row - centre) ** 2
    return np.asarray(_small_sample(n_units) * np.sqrt(total / (len(replicates) - 1)))


def _effective_size(value: Floats, se: Floats, floor: Floats, cap: float) -> Floats:
    """Return n = R (1 - R) / se^2 inside [floor, cap].

    At R = 0 and 1, where the data say nothing of how alike the runs of a unit are, it is the floor:
    were tasks of two kinds, all runs of the other kind could be missing together.
    """
    least = np.minimum(floor, cap)
    inner = (value > _ROUNDING) & (value < 1 - _ROUNDING)
    size = np.clip(value * (1 - value) / np.maximum(se, 1e-150) ** 2, least, cap)
    return np.asarray(np.where(inner, size, least))


def effective_wilson(
    value: Floats,
    se: Floats,
    *,
    uncut: Floats,
    n_units: int,
    n_runs: int,
    ci_prob: float,
) -> Band:
    """Return the pointwise band of a curve.

    Parameters
    ----------
    value, se : ndarray of shape (n_knots,)
        The curve and its standard error.
    uncut : ndarray of shape (n_knots,)
        G, the probability of not being cut before the knot. Without cutting the effective size
        is at least the number of units; weighting by 1 / G has variance at most
        (R / G - R^2) / units, which lowers that bound to units G (1 - R) / (1 - G R).
    n_units, n_runs : int
        Number of units and of runs.
    ci_prob : float
        Probability of the band.
    """
    t = student_quantile(ci_prob, n_units)
    if math.isinf(t):
        return Band(np.zeros_like(value), np.ones_like(value))
    rest = np.maximum(1 - value, 0.0)
    share = np.divide(uncut * rest, 1 - uncut * value, out=uncut.copy(), where=rest > _ROUNDING)
    size = _effective_size(value, se, np.maximum(n_units * share, 1.0), float(n_runs))
    scale = 1 + t * t / size
    centre = (value + t * t / (2 * size)) / scale
    half = t / scale * np.sqrt(np.maximum(value * rest, 0) / size + (t / (2 * size)) ** 2)
    low = np.minimum(np.maximum(centre - half, 0.0), value)
    return Band(low, np.maximum(np.minimum(centre + half, 1.0), value))


def sup_half_width(value: Floats, replicates: Floats, n_units: int, ci_prob: float) -> float:
    """Return the half-width of the constant-width band: the quantile of sup |R* - R|.

    Scaled by Student's over the normal quantile, and by the missing (m - 1) / m, for few units.
    One unit tells nothing: half-width 1.
    """
    from scipy.special import ndtri

    if n_units < 2:
        return 1.0
    sup = np.sort([np.abs(row - value).max() for row in replicates])
    rank = min(math.ceil(ci_prob * (sup.size + 1)), sup.size) - 1
    few = student_quantile(ci_prob, n_units) / float(ndtri(0.5 + ci_prob / 2))
    return min(float(sup[rank]) * few * _small_sample(n_units), 1.0)


def mean_interval(
    value: float,
    replicates: Floats,
    *,
    n_units: int,
    top: float,
    fallback: tuple[float, float],
    ci_prob: float,
) -> Interval | None:
    """Return value -+ t se inside [0, top]; `fallback` where no resample differs from another."""
    t = student_quantile(ci_prob, n_units)
    if math.isinf(t):
        return None
    se = _small_sample(n_units) * float(replicates.std(ddof=1)) if replicates.size > 1 else 0.0
    if se <= _ROUNDING * max(top, 1.0):
        low, high = fallback
        return Interval(
            low=min(low, value), high=max(high, value), ci_prob=ci_prob, kind="wilson_effective"
        )
    return Interval(
        low=min(max(value - t * se, 0.0), value),
        high=max(min(value + t * se, top), value),
        ci_prob=ci_prob,
        kind="bootstrap_t",
    )


def quantile_step(curve: Floats, knots: Ints, level: float) -> int | None:
    """Return the first step at which the curve has reached `level`, or None if it never does."""
    reached = np.flatnonzero(curve >= level - _ROUNDING)
    return int(knots[reached[0]]) if reached.size else None


def quantile_interval(
    band: Band, knots: Ints, level: float, *, top: int, ci_prob: float
) -> tuple[Interval, bool]:
    """Return the steps at which the level is inside the band, and whether the end is among them.

    The interval of Brookmeyer and Crowley (1982) with the band of resampled units. Where the lower
    bound of the curve never reaches the level the interval is closed at `top`.
    """
    low = quantile_step(band.high, knots, level)
    high = quantile_step(band.low, knots, level)
    bound = top if high is None else high
    return (
        Interval(
            low=float(bound if low is None else low),
            high=float(bound),
            ci_prob=ci_prob,
            kind="bootstrap_inversion",
        ),
        high is None,
    )
