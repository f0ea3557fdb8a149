"""Runs for the tests of incidence, and what every fit of them must keep."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from sojourn.estimates import Estimate
from sojourn.process.incidence import (
    Incidence,
)
from sojourn.sequences import CENSORED, FAILURE, SUCCESS


def random_runs(rng: np.random.Generator, n_units: int = 30, attempts: int = 4) -> dict[str, Any]:
    n = n_units * attempts
    return {
        "duration": rng.integers(0, 15, n),
        "event": rng.choice([CENSORED, SUCCESS, FAILURE], n, p=[0.2, 0.4, 0.4]),
        "unit": np.repeat(np.arange(n_units), attempts),
    }


def estimates_of(fit: Incidence) -> list[Estimate]:
    curves = [
        fit.point(d, outcome=o) for d in range(fit.horizon + 1) for o in ("success", "failure")
    ]
    given_success = fit.given_success
    return [
        *curves,
        *(fit.restricted_mean, fit.median, fit.p90),
        *(given_success.restricted_mean, given_success.median, given_success.p90),
    ]


def assert_sane(fit: Incidence) -> None:
    """No NaN anywhere, curves rise inside [0, 1], bands hold them and have a width."""
    for curve, band in (
        (fit.success, fit.simultaneous.success),
        (fit.failure, fit.simultaneous.failure),
    ):
        assert np.array_equal(curve.x, np.arange(fit.horizon + 1))
        for array in (curve.value, curve.low, curve.high, *band):
            assert array.shape == (fit.horizon + 1,)
            assert np.all((array >= 0) & (array <= 1))
        assert np.all(np.diff(curve.value) >= 0)
        assert np.all((curve.low <= curve.value) & (curve.value <= curve.high))
        assert np.all((band.low <= curve.low) & (curve.high <= band.high))
        assert np.all(curve.low < curve.high)
    assert np.all(np.diff(fit.still_running) <= 1e-15)
    assert np.allclose(fit.still_running + fit.success.value + fit.failure.value, 1, atol=1e-12)
    assert np.all(np.diff(fit.at_risk) <= 0)
    assert np.all(fit.worst_best.low <= fit.worst_best.high)
    for estimate in estimates_of(fit):
        if estimate.value is not None:
            assert math.isfinite(estimate.value)
        if estimate.interval is not None:
            assert estimate.interval.low <= estimate.value <= estimate.interval.high
    json.dumps(fit.to_dict(), allow_nan=False)
    assert " run" in str(fit)
