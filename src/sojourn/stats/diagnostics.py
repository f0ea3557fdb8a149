"""Say whether a sampler has converged, and how large its Monte Carlo error is.

Thin use of the array functions of arviz-stats: rank-normalised split R-hat, bulk and tail effective
sample size, Monte Carlo standard errors, Pareto k. Draws are always of shape (chain, draw).
References: Vehtari et al. (2021), Bayesian Analysis 16(2); Vehtari et al. (2024), JMLR 25(72).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "DrawDiagnostics",
    "diagnose",
    "mcse_mean",
    "mcse_quantile",
    "pareto_k",
    "pareto_smoothed",
]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawDiagnostics:
    """Diagnostics of one scalar.

    Attributes
    ----------
    r_hat : float
        Rank-normalised split R-hat; 1.0 for a constant.
    ess_bulk, ess_tail : float
        Effective draws for the middle and for the 5 and 95 % quantiles.
    mcse : float
        Monte Carlo standard error of the mean.
    """

    r_hat: float
    ess_bulk: float
    ess_tail: float
    mcse: float


def _array_stats() -> Any:
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]

    return array_stats


def _checked(draws: npt.ArrayLike) -> FloatArray:
    array = np.asarray(draws, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] < 4:
        raise ValueError(f"draws must have shape (chain, draw >= 4); got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError("draws must be finite")
    return array


def diagnose(draws: npt.ArrayLike) -> DrawDiagnostics:
    """Return R-hat, effective draws and Monte Carlo error of a scalar's draws.

    Parameters
    ----------
    draws : array_like of shape (n_chains, n_draws)
        Draws of one scalar. A single chain is split in two for R-hat.

    Returns
    -------
    DrawDiagnostics
        A constant scalar has R-hat 1, all draws effective, and no error.

    Raises
    ------
    ValueError
        If the shape is wrong or a draw is not finite.
    """
    array_stats = _array_stats()
    array = _checked(draws)
    if np.ptp(array) <= 1e-14 * max(1.0, float(np.abs(array).max())):
        return DrawDiagnostics(
            r_hat=1.0, ess_bulk=float(array.size), ess_tail=float(array.size), mcse=0.0
        )
    for_r_hat = array
    if array.shape[0] == 1:
        half = array.shape[1] // 2
        for_r_hat = array[:, : 2 * half].reshape(2, half)
    return DrawDiagnostics(
        r_hat=float(array_stats.rhat(for_r_hat, method="rank")),
        ess_bulk=float(array_stats.ess(array, method="bulk")),
        ess_tail=float(array_stats.ess(array, method="tail", prob=(0.05, 0.95))),
        mcse=float(array_stats.mcse(array, method="mean")),
    )


def mcse_mean(draws: npt.ArrayLike) -> float:
    """Return the Monte Carlo standard error of the mean of draws of shape (chain, draw).

    sd / sqrt(effective draws), by autocorrelations of the half chains up to where sums of pairs are
    no longer positive, those sums made to fall (Geyer 1992; Vehtari et al. 2021): what `diagnose`
    gives, without a loop over lags, for results that hold many figures.
    """
    array = _checked(draws)
    if np.ptp(array) <= 1e-14 * max(1.0, float(np.abs(array).max())):
        return 0.0
    half = array.shape[1] // 2
    chains = np.concatenate([array[:, :half], array[:, -half:]])
    m, n = chains.shape
    means = chains.mean(axis=1)
    centred = chains - means[:, None]
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    mean_acov = np.fft.irfft(np.abs(spectrum) ** 2, size)[:, :n].mean(axis=0) / n
    within = mean_acov[0] * n / (n - 1.0)
    total = mean_acov[0] + means.var(ddof=1)
    rho = 1.0 - (within - mean_acov) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    kept = int(np.argmax(pairs <= 0.0)) if np.any(pairs <= 0.0) else pairs.size - 1
    tau = 2.0 * float(np.minimum.accumulate(pairs[:kept]).sum()) - 1.0 + max(rho[2 * kept], 0.0)
    effective = m * n / max(tau, 1.0 / np.log10(m * n))
    return float(array.std(ddof=1) / np.sqrt(effective))


def mcse_quantile(draws: npt.ArrayLike, prob: float) -> float:
    """Return the Monte Carlo standard error of a quantile of draws of shape (chain, draw)."""
    array = _checked(draws)
    if np.ptp(array) == 0.0:
        return 0.0
    return float(_array_stats().mcse(array, method="quantile", prob=prob))


def pareto_k(log_weights: npt.ArrayLike) -> float:
    """Return the Pareto k of importance weights given by their logs, all draws in one row.

    Above 0.7 an average under these weights is not to be trusted. Equal weights give -inf.
    """
    logs = np.asarray(log_weights, dtype=np.float64).ravel()
    if not np.all(np.isfinite(logs)):
        raise ValueError("log_weights must be finite")
    if np.ptp(logs) < 1e-12:
        return float("-inf")
    return float(_array_stats().psislw(-logs)[1])


def pareto_smoothed(log_weights: npt.ArrayLike) -> tuple[FloatArray, float]:
    """Return Pareto-smoothed importance weights, summing to one, and their Pareto k.

    Parameters
    ----------
    log_weights : array_like of shape (n_draws,)
        Logs of the raw weights. Equal ones stay equal, with k = -inf.
    """
    logs = np.asarray(log_weights, dtype=np.float64).ravel()
    if not np.all(np.isfinite(logs)):
        raise ValueError("log_weights must be finite")
    if np.ptp(logs) < 1e-12:
        return np.full(logs.size, 1.0 / logs.size), float("-inf")
    smooth, k = _array_stats().psislw(-logs)
    weights = np.exp(smooth - smooth.max())
    return np.asarray(weights / weights.sum()), float(k)
