"""What every session model offers, and how its draws become figures.

A figure is computed for each posterior draw and only then summarised: the mean of R(n) over draws,
never R(n) at the mean of the parameters. A summary carries its Monte Carlo errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction
from sojourn.estimates import Estimate, Interval, ReliabilityCurve, Status
from sojourn.stats.diagnostics import diagnose, mcse_quantile

__all__ = ["STARTS", "DrawSummary", "SessionModel", "curve_from_draws", "summarise"]

FloatArray = npt.NDArray[np.float64]

STARTS = ("continuing", "fresh", "long_run")


class SessionModel(Protocol):
    """A fitted model of the tasks of one domain."""

    @property
    def subdomain_names(self) -> tuple[str, ...]:
        """Names of the subdomains."""

    def run_draws(
        self, n_max: int, *, start: str = "continuing", weights: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Draws of R(1..n_max), shape (chain, draw, n_max)."""

    def success_run(
        self,
        n_max: int,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        ci_prob: float = 0.95,
    ) -> ReliabilityCurve:
        """R(n) = P(next n tasks all succeed), n = 1..n_max."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawSummary:
    """A figure's posterior: mean, equal-tailed interval, and the Monte Carlo error of each.

    Attributes
    ----------
    mean, sd : float
        Posterior mean and standard deviation.
    low, high : float
        Equal-tailed interval.
    ci_prob : float
        Its probability.
    mcse, mcse_low, mcse_high : float
        Monte Carlo standard errors of the mean and of the interval's ends.
    r_hat, ess_bulk, ess_tail : float
        Convergence diagnostics.
    """

    mean: float
    sd: float
    low: float
    high: float
    ci_prob: float
    mcse: float
    mcse_low: float
    mcse_high: float
    r_hat: float
    ess_bulk: float
    ess_tail: float

    def estimate(self, reasons: Sequence[str] = ()) -> Estimate:
        """Return it as an `Estimate`: inconclusive with `reasons` when there are any."""
        return Estimate(
            value=self.mean,
            interval=Interval(low=self.low, high=self.high, ci_prob=self.ci_prob, kind="eti"),
            status=Status.INCONCLUSIVE if reasons else Status.SUPPORTED,
            reasons=tuple(reasons),
            estimand="population",
        )


def summarise(draws: npt.ArrayLike, *, ci_prob: float = 0.95) -> DrawSummary:
    """Summarise the draws of one figure.

    Parameters
    ----------
    draws : array_like of shape (n_chains, n_draws)
        The figure for each draw.
    ci_prob : float
        Probability of the equal-tailed interval.

    Returns
    -------
    DrawSummary
    """
    array = np.asarray(draws, dtype=np.float64)
    tail = 0.5 * (1.0 - check_fraction(ci_prob, name="ci_prob"))
    diagnostics = diagnose(array)
    low, high = np.quantile(array, [tail, 1.0 - tail])
    return DrawSummary(
        mean=float(array.mean()),
        sd=float(array.std()),
        low=float(low),
        high=float(high),
        ci_prob=ci_prob,
        mcse=diagnostics.mcse,
        mcse_low=_finite(mcse_quantile(array, tail)),
        mcse_high=_finite(mcse_quantile(array, 1.0 - tail)),
        r_hat=diagnostics.r_hat,
        ess_bulk=diagnostics.ess_bulk,
        ess_tail=diagnostics.ess_tail,
    )


def _finite(value: float) -> float:
    # A quantile that sits on a constant stretch of the draws has no error.
    return value if math.isfinite(value) else 0.0


def curve_from_draws(
    run: FloatArray, *, n_supported: int, ci_prob: float = 0.95
) -> ReliabilityCurve:
    """Return R(n) with its pointwise band from draws of shape (chain, draw, n_max)."""
    flat = run.reshape(-1, run.shape[-1])
    tail = 0.5 * (1.0 - check_fraction(ci_prob, name="ci_prob"))
    low, high = np.quantile(flat, [tail, 1.0 - tail], axis=0)
    n_max = flat.shape[1]
    return ReliabilityCurve(
        quantity="success_run",
        x=np.arange(1, n_max + 1),
        value=flat.mean(axis=0),
        low=low,
        high=high,
        ci_prob=ci_prob,
        kind="eti",
        n_supported=min(n_supported, n_max),
    )
