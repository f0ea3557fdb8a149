"""Weighted sums of independent Beta variables: their moments and their distribution function."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["mix_cdf", "moments_of_mix"]

FloatArray = npt.NDArray[np.float64]


def moments_of_mix(a: FloatArray, b: FloatArray, weights: FloatArray, n_max: int) -> FloatArray:
    """Return E[p^n], n = 1..n_max, of p = sum_j w_j theta_j, independent theta_j ~ Beta(a_j, b_j).

    E[p^n] / n! = [x^n] prod_j sum_k w_j^k E[theta_j^k] x^k / k!; written with binomial splits so
    that nothing grows: adding subdomain j with share r of the weight so far, n factors split
    binomially.

    Parameters
    ----------
    a, b : ndarray of shape (n_subdomains, n_cells)
        Beta parameters.
    weights : ndarray of shape (n_subdomains,)
        Shares, summing to one.
    n_max : int
        Highest moment.

    Returns
    -------
    ndarray of shape (n_cells, n_max)
    """
    total: FloatArray | None = None
    seen = 0.0
    k = np.arange(n_max)
    for j in np.flatnonzero(weights):
        steps = (a[j][:, None] + k) / (a[j][:, None] + b[j][:, None] + k)
        new = np.concatenate((np.ones((steps.shape[0], 1)), np.cumprod(steps, axis=1)), axis=1)
        if total is None:
            total, seen = new, float(weights[j])
            continue
        share = float(weights[j]) / (seen + float(weights[j]))
        mixed = np.empty_like(total)
        law = np.ones(1)
        for n in range(n_max + 1):
            if n:
                law = np.convolve(law, (1.0 - share, share))
            mixed[:, n] = (total[:, n::-1] * new[:, : n + 1]) @ law
        total, seen = mixed, seen + float(weights[j])
    if total is None:
        raise ValueError("weights are all zero")
    return total[:, 1:]


def mix_cdf(
    a: FloatArray, b: FloatArray, weights: FloatArray, at: float, *, n_lattice: int = 512
) -> FloatArray:
    """Return P(sum_j w_j theta_j <= at) for each cell, theta_j ~ Beta(a_j, b_j), shape (n_cells,).

    Each w_j theta_j but the last is put on a lattice of midpoints and convolved; the last enters by
    its exact distribution function, so that one subdomain alone is exact.
    """
    from scipy.special import betainc

    used = np.flatnonzero(weights)
    last = used[-1]
    n_cells = a.shape[1]
    step = 1.0 / n_lattice
    total = np.ones((n_cells, 1))
    centre = 0.0
    for j in used[:-1]:
        n_points = max(2, math.ceil(float(weights[j]) / step))
        edges = np.linspace(0.0, 1.0, n_points + 1)
        law = np.diff(betainc(a[j][:, None], b[j][:, None], edges), axis=1)
        # midpoints sit at (k + 1/2) w_j / n_points; resampling to a common step keeps the mean
        total = _convolve(total, law, float(weights[j]) / n_points / step)
        centre += 0.5 * float(weights[j]) / n_points
    support = centre + step * np.arange(total.shape[1])
    left = np.clip((at - support) / float(weights[last]), 0.0, 1.0)
    return np.asarray((total * betainc(a[last][:, None], b[last][:, None], left)).sum(axis=1))


def _convolve(total: FloatArray, law: FloatArray, ratio: float) -> FloatArray:
    """Convolve by FFT after spreading `law`, whose points lie `ratio` steps apart, linearly."""
    position = ratio * np.arange(law.shape[1])
    below = np.floor(position).astype(int)
    part = position - below
    spread = np.zeros((law.shape[0], below[-1] + 2))
    for k in range(law.shape[1]):
        spread[:, below[k]] += law[:, k] * (1.0 - part[k])
        spread[:, below[k] + 1] += law[:, k] * part[k]
    size = total.shape[1] + spread.shape[1] - 1
    out = np.fft.irfft(np.fft.rfft(total, size) * np.fft.rfft(spread, size), size)
    return np.maximum(out, 0.0)
