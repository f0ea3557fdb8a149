"""Steps to finish, read off a curve: restricted mean, median and ninetieth percentile.

All arrays run over knots. What is asked for is the curve of what has happened, either ending or
success given success, its resampled versions and its pointwise band.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.estimates import Estimate, Status
from sojourn.process._incidence_bands import (
    Band,
    mean_interval,
    quantile_interval,
    quantile_step,
)

__all__ = ["TimeCurve", "TimeToFinish", "no_times", "times"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Largest share of the mean that may lie where the curve itself is not supported.
_DOUBTFUL_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToFinish:
    """Steps until the end of a run, in steps.

    Attributes
    ----------
    restricted_mean : Estimate
        Mean of min(steps to the end, horizon).
    median, p90 : Estimate
        First step by which 50 and 90 in a hundred have ended; withheld where the curve does not
        get there inside the horizon. The interval of whole steps may hold one step only.
    """

    restricted_mean: Estimate
    median: Estimate
    p90: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the three estimates in the form of the JSON contract."""
        return {name: getattr(self, name).to_dict() for name in self.__slots__}


class TimeCurve(NamedTuple):
    """The curve of what has happened by each knot, and all that says how sure it is."""

    value: Floats
    replicates: Floats
    band: Band
    knots: Ints
    horizon: int
    is_supported: npt.NDArray[np.bool_]
    n_units: int
    cautions: tuple[str, ...]
    ci_prob: float


def no_times(reason: str) -> TimeToFinish:
    """Return three estimates withheld for the same reason."""
    none = Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
    return TimeToFinish(restricted_mean=none, median=none, p90=none)


def _step_widths(curve: TimeCurve) -> Ints:
    """Return for how many steps d < horizon the curve keeps the value of each knot."""
    return np.diff(np.append(np.minimum(curve.knots, curve.horizon), curve.horizon))


def _mean(curve: TimeCurve) -> Estimate:
    widths, h = _step_widths(curve), curve.horizon
    value = min(max(h - float(curve.value @ widths), 0.0), float(h))
    going = float(1 - curve.value[-1])
    reasons = list(curve.cautions)
    doubtful = float(((1 - curve.value) * widths)[~curve.is_supported].sum())
    if doubtful > _DOUBTFUL_SHARE * value:
        reasons.append(
            f"{doubtful / value:.0%} of the mean lies at steps where the curve is not supported"
        )
    status = Status.INCONCLUSIVE if reasons else Status.SUPPORTED
    if going > 1e-12:
        reasons.append(f"restricted to {h} steps, when a share of {going:.3f} is still going")
    interval = mean_interval(
        value,
        h - curve.replicates @ widths,
        n_units=curve.n_units,
        top=float(h),
        fallback=(h - float(curve.band.high @ widths), h - float(curve.band.low @ widths)),
        ci_prob=curve.ci_prob,
    )
    return Estimate(
        value=value,
        interval=interval,
        status=status,
        reasons=tuple(reasons),
        estimand="population",
    )


def _quantile(curve: TimeCurve, level: float) -> Estimate:
    value = quantile_step(curve.value, curve.knots, level)
    if value is None:
        reason = (
            f"only a share of {curve.value[-1]:.3f} has ended by the longest observed run "
            f"({curve.horizon} steps)"
        )
        return Estimate(
            value=None, status=Status.WITHHELD, reasons=(reason,), estimand="population"
        )
    reasons = list(curve.cautions)
    if not curve.is_supported[np.searchsorted(curve.knots, value)]:
        reasons.append(f"too few runs are at risk at step {value}")
    status = Status.INCONCLUSIVE if reasons else Status.SUPPORTED
    interval = None
    if curve.n_units > 1:
        interval, is_open = quantile_interval(
            curve.band, curve.knots, level, top=curve.horizon, ci_prob=curve.ci_prob
        )
        if is_open:
            reasons.append("the upper bound is the longest observed run; the true one may be later")
    return Estimate(
        value=float(value),
        interval=interval,
        status=status,
        reasons=tuple(reasons),
        estimand="population",
    )


def times(curve: TimeCurve) -> TimeToFinish:
    """Read mean, median and ninetieth percentile off a curve."""
    return TimeToFinish(
        restricted_mean=_mean(curve), median=_quantile(curve, 0.5), p90=_quantile(curve, 0.9)
    )
