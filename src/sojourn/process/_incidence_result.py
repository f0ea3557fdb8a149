"""What a fit of the cumulative incidence curves gives: curves, bands, times, and their cautions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.estimates import Estimate, Interval, ReliabilityCurve, Status
from sojourn.process._incidence_bands import Band
from sojourn.process._incidence_limits import LimitCheck
from sojourn.process._incidence_times import TimeToFinish, no_times
from sojourn.tables import n_of

__all__ = ["Incidence", "SimultaneousBands", "without_runs"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimultaneousBands:
    """Bands that hold the whole curve with the stated probability, d = 0 .. horizon.

    Attributes
    ----------
    success, failure : Band
        Lower and upper bounds, shape (horizon + 1,) each; nowhere inside the pointwise band.
    success_half_width, failure_half_width : float
        Quantile of sup_d |R*(d) - R(d)| over resampled units.
    """

    success: Band
    failure: Band
    success_half_width: float
    failure_half_width: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Incidence:
    """Cumulative incidence of success and failure, with all that says how far to believe it.

    Attributes
    ----------
    success, failure : ReliabilityCurve
        The curves at d = 0 .. horizon with their pointwise bands (Wilson on the effective size).
    simultaneous : SimultaneousBands
        Bands for whole curves.
    still_running : ndarray of shape (horizon + 1,)
        P(neither has happened after d steps).
    at_risk, units_at_risk : ndarray of shape (horizon + 1,), int
        Runs, and units with a run, of at least d steps.
    horizon : int
        The longest observed run, in steps.
    supported_to : int
        Largest step that is supported; -1 if none is.
    restricted_mean, median, p90 : Estimate
        Steps to finish, either ending.
    given_success : TimeToFinish
        Steps to success given success within the horizon.
    worst_best : Band
        Share with success within d if cut runs never succeed, and if they do right after the cut.
    n_runs, n_units, n_success, n_failure, n_events, n_censored, n_resamples : int
        Sizes; events are successes and failures.
    ci_prob : float
        Probability of intervals and bands.
    reasons : tuple of str
        Cautions that hold for every figure.
    by_stratum : tuple of (int, Incidence)
        One fit for each step limit (-1: none declared), where there are several.
    limit_check : LimitCheck or None
        Whether limits are informative; None under one limit.
    """

    success: ReliabilityCurve = field(repr=False)
    failure: ReliabilityCurve = field(repr=False)
    simultaneous: SimultaneousBands = field(repr=False)
    still_running: Floats = field(repr=False)
    at_risk: Ints = field(repr=False)
    units_at_risk: Ints = field(repr=False)
    horizon: int
    supported_to: int
    restricted_mean: Estimate
    median: Estimate
    p90: Estimate
    given_success: TimeToFinish
    worst_best: Band = field(repr=False)
    n_runs: int
    n_units: int
    n_success: int
    n_failure: int
    n_events: int
    n_censored: int
    n_resamples: int
    ci_prob: float
    reasons: tuple[str, ...] = ()
    by_stratum: tuple[tuple[int, Incidence], ...] = field(default=(), repr=False)
    limit_check: LimitCheck | None = None
    min_units_at_risk: int = 10
    # Why support ends where it does, if not by the number of units at risk.
    support_reason: str | None = None

    def __post_init__(self) -> None:
        bands = (*self.simultaneous.success, *self.simultaneous.failure, *self.worst_best)
        for array in (self.still_running, self.at_risk, self.units_at_risk, *bands):
            array.flags.writeable = False

    def point(self, d: int, *, outcome: str = "success") -> Estimate:
        """Return P(success within d steps), or of failure, as an estimate.

        Parameters
        ----------
        d : int
            Number of steps.
        outcome : str
            ``success`` or ``failure``.

        Returns
        -------
        Estimate
            ``supported`` up to `supported_to`, ``inconclusive`` up to the longest observed run,
            ``withheld`` beyond it.

        Raises
        ------
        ValueError
            If `d` is negative or `outcome` is another word.
        """
        if outcome not in ("success", "failure"):
            raise ValueError(f"outcome must be success or failure; got {outcome!r}")
        if d < 0:
            raise ValueError(f"d must not be negative; got {d}")
        curve = self.success if outcome == "success" else self.failure
        if self.n_runs == 0 or d > self.horizon:
            reason = "no runs"
            if self.n_runs:
                reason = f"beyond the longest observed run ({n_of(self.horizon, 'step')})"
            return Estimate(
                value=None, status=Status.WITHHELD, reasons=(reason,), estimand="population"
            )
        reasons = self.reasons + self._doubts(d)
        return Estimate(
            value=float(curve.value[d]),
            interval=Interval(
                low=float(curve.low[d]),
                high=float(curve.high[d]),
                ci_prob=self.ci_prob,
                kind=curve.kind,
            ),
            status=Status.SUPPORTED if d <= self.supported_to else Status.INCONCLUSIVE,
            reasons=reasons,
            estimand="population",
        )

    def _doubts(self, d: int) -> tuple[str, ...]:
        doubts = []
        if self.units_at_risk[d] < self.min_units_at_risk:
            doubts.append(
                f"only {self.units_at_risk[d]} tasks or clusters have a run of {d} steps "
                f"({self.min_units_at_risk} are needed)"
            )
        if self.support_reason is not None and d > self.supported_to:
            doubts.append(self.support_reason)
        return tuple(doubts)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, curves as lists of estimates."""
        steps = range(self.horizon + 1)
        check = self.limit_check
        return {
            "success_within": [{"d": d, **self.point(d).to_dict()} for d in steps],
            "failure_within": [
                {"d": d, **self.point(d, outcome="failure").to_dict()} for d in steps
            ],
            "simultaneous_half_width": {
                "success": self.simultaneous.success_half_width,
                "failure": self.simultaneous.failure_half_width,
            },
            "worst_best": [
                [float(low), float(high)] for low, high in zip(*self.worst_best, strict=True)
            ],
            "at_risk": self.at_risk.tolist(),
            "units_at_risk": self.units_at_risk.tolist(),
            "horizon": self.horizon,
            "supported_to": self.supported_to,
            "steps_to_finish": {
                "restricted_mean": self.restricted_mean.to_dict(),
                "median": self.median.to_dict(),
                "p90": self.p90.to_dict(),
                "given_success": self.given_success.to_dict(),
            },
            "n_runs": self.n_runs,
            "n_units": self.n_units,
            "n_success": self.n_success,
            "n_failure": self.n_failure,
            "n_censored": self.n_censored,
            "n_resamples": self.n_resamples,
            "reasons": list(self.reasons),
            "limit_check": None if check is None else check.to_dict(),
            "by_stratum": [{"limit": limit, **fit.to_dict()} for limit, fit in self.by_stratum],
        }

    def __str__(self) -> str:
        lines = [
            f"{n_of(self.n_runs, 'run')} of {n_of(self.n_units, 'unit')}, "
            f"{self.n_censored} cut; longest "
            f"{n_of(self.horizon, 'step')}, supported to {self.supported_to}",
            *self.reasons,
        ]
        if self.n_runs:
            steps = np.unique(np.linspace(0, self.horizon, 7).round().astype(int))
            lines += [
                f"success within {d:>4} {'step ' if d == 1 else 'steps'}  {self.point(int(d))}"
                for d in steps
            ]
        lines += [
            f"mean steps (restricted)    {self.restricted_mean}",
            f"median steps               {self.median}",
            f"90 % have ended by step    {self.p90}",
        ]
        return "\n".join(lines)


def without_runs(ci_prob: float, min_units: int) -> Incidence:
    """Return the fit of an empty corpus: everything withheld, bands that say nothing."""
    zero, one = np.zeros(1), np.ones(1)
    none = no_times("no runs")
    band = Band(zero, one)

    def curve(quantity: str) -> ReliabilityCurve:
        return ReliabilityCurve(
            quantity=quantity,
            x=np.zeros(1, np.int64),
            value=zero,
            low=zero,
            high=one,
            ci_prob=ci_prob,
            kind="wilson_effective",
            n_supported=0,
        )

    return Incidence(
        success=curve("success_within"),
        failure=curve("failure_within"),
        simultaneous=SimultaneousBands(
            success=band, failure=band, success_half_width=1.0, failure_half_width=1.0
        ),
        still_running=np.ones(1),
        at_risk=np.zeros(1, np.int64),
        units_at_risk=np.zeros(1, np.int64),
        horizon=0,
        supported_to=-1,
        restricted_mean=none.restricted_mean,
        median=none.median,
        p90=none.p90,
        given_success=none,
        worst_best=band,
        n_runs=0,
        n_units=0,
        n_success=0,
        n_failure=0,
        n_events=0,
        n_censored=0,
        n_resamples=0,
        ci_prob=ci_prob,
        reasons=("no runs",),
        min_units_at_risk=min_units,
    )
