"""Tests whose null distribution is drawn exactly: p values that hold at every sample size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Dispersion", "holm", "monte_carlo_p", "permuted_dispersion", "tarone"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_BLOCK = 2_000_000


class Dispersion(NamedTuple):
    """Tarone's statistic: the sum, its standardised form and the normal tail beyond it."""

    statistic: float
    z: float
    p_value: float


def monte_carlo_p(observed: float, draws: FloatArray) -> float:
    """Return (1 + #{draws >= observed}) / (draws + 1), exact for exchangeable draws.

    Ties count against the observed value; a relative slack of 1e-9 keeps equal float sums equal.
    """
    slack = 1e-9 * max(1.0, abs(observed))
    return float((1 + np.count_nonzero(draws >= observed - slack)) / (draws.size + 1))


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Return Holm's adjusted p-values, in the order given.

    References
    ----------
    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979), 65-70.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def tarone(successes: IntArray, attempts: IntArray) -> Dispersion:
    """Return Tarone's score test of equal success probabilities against beta-binomial spread.

    Notes
    -----
    S = sum_t (c_t - n_t p)^2 / (p (1 - p)) with the pooled p;
    Z = (S - sum n_t) / sqrt(2 sum n_t (n_t - 1)), standard normal for many groups.

    References
    ----------
    R. E. Tarone (1979), Biometrika 66, 585-590.
    """
    from scipy.special import ndtr

    c, n = successes.astype(float), attempts.astype(float)
    p = c.sum() / n.sum()
    statistic = float(np.square(c - n * p).sum() / (p * (1 - p)))
    z = float((statistic - n.sum()) / np.sqrt(2 * np.sum(n * (n - 1))))
    return Dispersion(statistic, z, float(ndtr(-z)))


def permuted_dispersion(
    attempts: IntArray, total: int, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return Tarone's S for outcomes dealt anew over all attempts, `total` of them successes.

    Two exact samplers of the same law, the one that needs fewer draws: the multivariate
    hypergeometric law itself, a draw for each group; or how many groups have each count, drawn
    independently and kept when the total agrees (one in sqrt(2 pi N p (1 - p)) does), a draw for
    each different number of attempts and count.
    """
    n_runs = int(attempts.sum())
    p = total / n_runs
    tries = 1 + np.sqrt(2 * np.pi * n_runs * p * (1 - p))
    if attempts.size <= tries * np.sum(np.unique(attempts) + 1):
        squares = _dealt_squares(attempts, total, n_resamples, rng)
    else:
        squares = _matched_squares(attempts, total, n_resamples, rng)
    return np.asarray(squares / (p * (1 - p)), dtype=float)


def _dealt_squares(
    attempts: IntArray, total: int, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return sum_t (c_t - n_t p)^2 for hypergeometric c, a block of resamples at a time."""
    expected = attempts * (total / attempts.sum())
    squares = np.empty(n_resamples)
    block = max(1, _BLOCK // attempts.size)
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        dealt = rng.multivariate_hypergeometric(attempts, total, size=size, method="marginals")
        squares[start : start + size] = np.square(dealt - expected).sum(axis=1)
    return squares


def _matched_squares(
    attempts: IntArray, total: int, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Return the same by rejection: independent binomial counts, kept when they sum to `total`."""
    from scipy.special import bdtr

    p = total / attempts.sum()
    sizes, groups = np.unique(attempts, return_counts=True)
    counts = [np.arange(n + 1) for n in sizes]
    laws = [np.diff(bdtr(c, n, p), prepend=0.0) for n, c in zip(sizes, counts, strict=True)]
    kept: list[FloatArray] = []
    n_kept = 0
    block = max(1, _BLOCK // int(np.sum(sizes + 1)))
    while n_kept < n_resamples:
        sums = np.zeros(block, dtype=np.int64)
        squares = np.zeros(block)
        for n, size, c, law in zip(sizes, groups, counts, laws, strict=True):
            drawn = rng.multinomial(size, law / law.sum(), size=block)
            sums += drawn @ c
            squares += drawn @ np.square(c - n * p)
        kept.append(squares[sums == total])
        n_kept += kept[-1].size
    return np.concatenate(kept)[:n_resamples]
