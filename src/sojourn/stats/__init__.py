"""Plain arrays in, plain arrays out: intervals and tests that every method shares."""

from __future__ import annotations

from sojourn.stats.intervals import (
    Bounds,
    RatioMean,
    clopper_pearson,
    effective_size,
    jeffreys,
    normal_quantile,
    ratio_mean,
    resampled_sums,
    t_quantile,
    weighted_quantiles,
    wilson,
)
from sojourn.stats.significance import (
    Dispersion,
    holm,
    monte_carlo_p,
    permuted_dispersion,
    tarone,
)

__all__ = [
    "Bounds",
    "Dispersion",
    "RatioMean",
    "clopper_pearson",
    "effective_size",
    "holm",
    "jeffreys",
    "monte_carlo_p",
    "normal_quantile",
    "permuted_dispersion",
    "ratio_mean",
    "resampled_sums",
    "t_quantile",
    "tarone",
    "weighted_quantiles",
    "wilson",
]
