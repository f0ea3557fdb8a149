"""From checked runs to the fitted curves: estimates, resamples, bands, support and times.

Everything is computed at the knots, the steps at which some run ended, and spread over all steps
at the very end.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.estimates import ReliabilityCurve
from sojourn.process._incidence_bands import Band, effective_wilson, spread, sup_half_width
from sojourn.process._incidence_cells import (
    MAX_STEPS,
    Cells,
    Curves,
    Runs,
    curves,
    knot_of_step,
    make_cells,
    resample,
)
from sojourn.process._incidence_result import Incidence, SimultaneousBands
from sojourn.process._incidence_times import TimeCurve, TimeToFinish, no_times, times
from sojourn.sequences import CENSORED, FAILURE, SUCCESS
from sojourn.tables import n_of

__all__ = ["fit_checked"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Share of runs whose future may be borrowed from other limits before a step counts as unsupported:
# it bounds what the borrowing can do to the curve.
_BORROWED = 0.01


def fit_checked(
    runs: Runs,
    ci_prob: float,
    n_resamples: int,
    min_units: int,
    rng: np.random.Generator,
    executor: Executor | None,
) -> Incidence:
    """Fit runs that have been checked; the strata of their limits are combined, not shown."""
    cells = make_cells(runs)
    horizon = int(runs.duration.max())
    found, borrowed = curves(cells)
    drawn = resample(cells, n_resamples, rng, executor)
    longest = np.zeros(runs.n_units, np.int64)
    np.maximum.at(longest, runs.unit, runs.duration)
    units_at_risk = _at_least(longest, horizon)
    support = _support(runs, cells, units_at_risk, borrowed, min_units)
    scene = _Scene(runs, cells, horizon, support, _uncut(cells))
    n_success, n_failure = (int(np.count_nonzero(runs.event == e)) for e in (SUCCESS, FAILURE))
    success, success_band, success_half = _curve(
        scene, "success_within", found.success, drawn.success, ci_prob
    )
    failure, failure_band, failure_half = _curve(
        scene, "failure_within", found.failure, drawn.failure, ci_prob
    )
    finish = _finish_times(scene, found, drawn, ci_prob)
    return Incidence(
        success=success,
        failure=failure,
        simultaneous=SimultaneousBands(
            success=success_band,
            failure=failure_band,
            success_half_width=success_half,
            failure_half_width=failure_half,
        ),
        still_running=np.maximum(1 - success.value - failure.value, 0.0),
        at_risk=_at_least(runs.duration, horizon),
        units_at_risk=units_at_risk,
        horizon=horizon,
        supported_to=support.to,
        restricted_mean=finish.restricted_mean,
        median=finish.median,
        p90=finish.p90,
        given_success=_success_times(scene, found, drawn, min_units, ci_prob),
        worst_best=_worst_best(runs, horizon),
        n_runs=runs.duration.size,
        n_units=runs.n_units,
        n_success=n_success,
        n_failure=n_failure,
        n_events=n_success + n_failure,
        n_censored=runs.duration.size - n_success - n_failure,
        n_resamples=len(drawn.success),
        ci_prob=ci_prob,
        reasons=support.cautions,
        min_units_at_risk=min_units,
        support_reason=support.reason,
    )


class _Scene(NamedTuple):
    """What every curve of one fit shares."""

    runs: Runs
    cells: Cells
    horizon: int
    support: _Support
    uncut: Floats


def _curve(
    scene: _Scene, quantity: str, value: Floats, drawn: Floats, ci_prob: float
) -> tuple[ReliabilityCurve, Band, float]:
    """Return a curve with its pointwise band, its simultaneous band and that one's half-width."""
    runs = scene.runs
    se = spread(drawn, runs.n_units)
    point = effective_wilson(
        value,
        se,
        uncut=scene.uncut,
        n_units=runs.n_units,
        n_runs=runs.duration.size,
        ci_prob=ci_prob,
    )
    half = sup_half_width(value, drawn, runs.n_units, ci_prob)
    low = np.minimum(np.maximum(value - half, 0.0), point.low)
    high = np.maximum(np.minimum(value + half, 1.0), point.high)
    steps = knot_of_step(scene.cells.knots, scene.horizon)
    curve = ReliabilityCurve(
        quantity=quantity,
        x=np.arange(scene.horizon + 1),
        value=value[steps],
        low=point.low[steps],
        high=point.high[steps],
        ci_prob=ci_prob,
        kind="wilson_effective",
        n_supported=scene.support.to + 1,
    )
    return curve, Band(low[steps], high[steps]), half


def _time_curve(
    scene: _Scene,
    value: Floats,
    drawn: Floats,
    n_units: int,
    n_runs: int,
    cautions: tuple[str, ...],
    ci_prob: float,
) -> TimeCurve:
    band = effective_wilson(
        value,
        spread(drawn, n_units),
        uncut=scene.uncut,
        n_units=n_units,
        n_runs=n_runs,
        ci_prob=ci_prob,
    )
    return TimeCurve(
        value=value,
        replicates=drawn,
        band=band,
        knots=scene.cells.knots,
        horizon=scene.horizon,
        # Where nobody has been cut yet the curve is a plain share of all runs.
        is_supported=(scene.cells.knots <= scene.support.to) | (scene.uncut == 1.0),
        n_units=n_units,
        cautions=cautions,
        ci_prob=ci_prob,
    )


def _finish_times(scene: _Scene, found: Curves, drawn: Curves, ci_prob: float) -> TimeToFinish:
    ended = np.minimum(found.success + found.failure, 1.0)
    return times(
        _time_curve(
            scene,
            ended,
            drawn.success + drawn.failure,
            scene.runs.n_units,
            scene.runs.duration.size,
            scene.support.cautions,
            ci_prob,
        )
    )


def _success_times(
    scene: _Scene, found: Curves, drawn: Curves, min_units: int, ci_prob: float
) -> TimeToFinish:
    if found.success[-1] <= 0:
        return no_times("no run succeeded")
    successes = scene.runs.event == SUCCESS
    n_units = np.unique(scene.runs.unit[successes]).size
    cautions = scene.support.cautions
    if n_units < min_units <= scene.runs.n_units:
        few = n_of(n_units, "task or cluster", "tasks or clusters")
        cautions += (f"only {few} with a success ({min_units} are needed)",)
    some = drawn.success[drawn.success[:, -1] > 0]
    return times(
        _time_curve(
            scene,
            found.success / found.success[-1],
            some / some[:, -1:],
            n_units,
            int(np.count_nonzero(successes)),
            cautions,
            ci_prob,
        )
    )


def _at_least(duration: Ints, horizon: int) -> Ints:
    """Return how many durations are at least d, d = 0 .. horizon."""
    return np.cumsum(np.bincount(duration, minlength=horizon + 1)[::-1])[::-1].astype(np.int64)


def _worst_best(runs: Runs, horizon: int) -> Band:
    """Bound the share with success within d over all that cut runs might have done [Manski]."""
    n = max(runs.duration.size, 1)
    success = np.bincount(runs.duration[runs.event == SUCCESS], minlength=horizon + 1)
    cut = np.bincount(runs.duration[runs.event == CENSORED], minlength=horizon + 1)
    after = np.append(0, np.cumsum(cut)[:-1])
    worst = np.cumsum(success)
    return Band(worst / n, (worst + after) / n)


def _uncut(cells: Cells) -> Floats:
    """Return G just before each knot: the product-limit curve of the cuts, limits and all."""
    table = cells.table().sum(axis=0)
    at_risk = np.cumsum(table.sum(axis=0)[::-1])[::-1]
    stay = at_risk - table[SUCCESS] - table[FAILURE]
    cut = np.divide(table[CENSORED], stay, out=np.zeros_like(stay), where=stay > 0)
    return np.cumprod(1 - np.append(0.0, cut[:-1]))


class _Support(NamedTuple):
    """Last supported step, why it is the last where that is not obvious, and common cautions."""

    to: int
    reason: str | None
    cautions: tuple[str, ...]


def _support(
    runs: Runs, cells: Cells, units_at_risk: Ints, borrowed: Floats, min_units: int
) -> _Support:
    enough = np.flatnonzero(units_at_risk >= min_units)
    to = int(enough[-1]) if enough.size else -1
    reason = None
    lent = np.flatnonzero(borrowed > _BORROWED)
    if len(runs.limits) > 1 and lent.size:
        end = int(cells.knots[lent[0] - 1])
        if end < to:
            to = end
            reason = (
                f"beyond {end} steps the curve rests on step limits having been set independently "
                "of difficulty: runs under lower limits were cut there"
            )
    cautions = []
    if runs.n_units == 1:
        cautions.append("one task or cluster only: nothing is known of others")
    elif runs.n_units < min_units:
        cautions.append(f"only {runs.n_units} tasks or clusters ({min_units} are needed)")
    if runs.n_limits > len(runs.limits):
        cautions.append(
            f"{runs.n_limits} different step limits are put into {len(runs.limits)} groups"
        )
    if runs.n_shortened:
        are = "is" if runs.n_shortened == 1 else "are"
        cautions.append(
            f"{n_of(runs.n_shortened, 'run')} of more than {MAX_STEPS} steps {are} cut there"
        )
    return _Support(to, reason, tuple(cautions))
