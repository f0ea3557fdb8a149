"""What one task says of k attempts, and how much of that is the luck of its attempts."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sojourn.attempts.counts import TaskCounts

__all__ = ["alike_variance", "attempt_variance", "task_values"]

FloatArray = npt.NDArray[np.float64]


def task_values(successes: npt.ArrayLike, attempts: npt.ArrayLike, k: int) -> FloatArray:
    """Return C(c, k) / C(n, k) for each task, n >= k: all of k attempts drawn succeeded."""
    c, n = np.asarray(successes, dtype=float), np.asarray(attempts, dtype=float)
    values = np.ones(np.broadcast_shapes(c.shape, n.shape))
    for i in range(k):
        values *= np.maximum(c - i, 0.0) / (n - i)
    return values


def attempt_variance(counts: TaskCounts, k: int, weights: FloatArray) -> float:
    """Return the variance of the weighted mean of C(c, k) / C(n, k) when the tasks are run again.

    Notes
    -----
    Two sets of k attempts out of n share j of them with hypergeometric probability h_j, so that
    var(value | p) = sum_{j > 0} h_j (p^(2k-j) - p^(2k)); the mean over tasks needs only the moments
    M_i of p, unbiased up to the number of attempts L that half of the tasks have. Beyond L they
    are extended by M_{L+i} = M_L (M_L / M_{L-1})^i, which is not more than the truth since ratios
    of successive moments rise, so that the variance is not too small. One imagined task with a
    single failure keeps it above zero where each task always ended alike.
    """
    longest = int(np.sort(counts.attempts)[::-1][(counts.n_tasks + 1) // 2 - 1])
    moments = _success_moments(counts, weights, min(longest, 2 * k), 2 * k)
    return _variance_of_mean(counts, k, weights, moments)


def alike_variance(counts: TaskCounts, k: int, weights: FloatArray, value: float) -> float:
    """Return the variance of the mean if all tasks were alike, with p^k = value."""
    p = value ** (1 / k)
    return _variance_of_mean(counts, k, weights, [p**i for i in range(2 * k + 1)])


def _variance_of_mean(
    counts: TaskCounts, k: int, weights: FloatArray, moments: list[float]
) -> float:
    """Return sum_t w_t^2 sum_j h_j (M_{2k-j} - M_{2k}) / (sum_t w_t)^2."""
    numbers, where = np.unique(counts.attempts, return_inverse=True)
    squares = np.bincount(where, weights=np.square(weights / weights.sum()))
    variance = 0.0
    for n, square in zip(numbers.tolist(), squares.tolist(), strict=True):
        for j in range(max(1, 2 * k - n), k + 1):
            shared = math.comb(k, j) * math.comb(n - k, k - j) / math.comb(n, k)
            variance += square * shared * (moments[2 * k - j] - moments[2 * k])
    return variance


def _success_moments(
    counts: TaskCounts, weights: FloatArray, n_estimated: int, n_moments: int
) -> list[float]:
    """Return M_0 .. M_n_moments of p over tasks; see `attempt_variance`."""
    used = counts.attempts >= n_estimated
    c, n, w = counts.successes[used], counts.attempts[used], weights[used]
    typical = float(n.mean())
    moments = [1.0]
    for i in range(1, n_estimated + 1):
        imagined = float(w.mean()) * max(1.0 - i / typical, 0.0)
        moments.append(float((w @ task_values(c, n, i) + imagined) / w.sum()))
    last, before = moments[-1], moments[-2]
    ratio = min(last / before, 1.0) if before > 0 else 0.0
    while len(moments) <= n_moments:
        moments.append(moments[-1] * ratio)
    return moments
