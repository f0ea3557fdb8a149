"""Slow and obvious versions of what is computed on repeated attempts."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import integrate

TAU_BENCH = (14, 12, 10, 4, 10)  # tasks with 0, 1, .. 4 successes in 4 attempts


def pass_hat_by_subsets(successes: list[int], attempts: list[int], k: int) -> float:
    """Average over tasks of the share of k-subsets of attempts that all succeed."""
    shares = []
    for c, n in zip(successes, attempts, strict=True):
        if n >= k:
            subsets = list(itertools.combinations([1] * c + [0] * (n - c), k))
            shares.append(sum(all(subset) for subset in subsets) / len(subsets))
    return sum(shares) / len(shares)


def pass_at_by_subsets(successes: list[int], attempts: list[int], k: int) -> float:
    """Average over tasks of the share of k-subsets of attempts with a success."""
    shares = []
    for c, n in zip(successes, attempts, strict=True):
        if n >= k:
            subsets = list(itertools.combinations([1] * c + [0] * (n - c), k))
            shares.append(sum(any(subset) for subset in subsets) / len(subsets))
    return sum(shares) / len(shares)


def dispersion_law(attempts: list[int], total: int) -> dict[float, float]:
    """P(S) when `total` successes are dealt over all attempts: every arrangement enumerated."""
    task = [t for t, n in enumerate(attempts) for _ in range(n)]
    p = total / len(task)
    law: dict[float, float] = {}
    arrangements = list(itertools.combinations(range(len(task)), total))
    for chosen in arrangements:
        c = [0] * len(attempts)
        for run in chosen:
            c[task[run]] += 1
        s = sum((x - n * p) ** 2 for x, n in zip(c, attempts, strict=True)) / (p * (1 - p))
        key = round(s, 9)
        law[key] = law.get(key, 0.0) + 1 / len(arrangements)
    return law


def likelihood(successes: list[int], attempts: list[int], m: float, r: float) -> float:
    """Beta-binomial likelihood, up to the binomial coefficients, by the rising products."""
    value = 1.0
    for c, n in zip(successes, attempts, strict=True):
        value *= math.prod(m * (1 - r) + i * r for i in range(c))
        value *= math.prod((1 - m) * (1 - r) + j * r for j in range(n - c))
        value /= math.prod(1 - r + i * r for i in range(n))
    return value


def posterior_by_integration(successes: list[int], attempts: list[int]) -> dict[str, float]:
    """P(alike), E[mean] and E[p^3] by adaptive quadrature over m and r."""

    def moment(m: float, r: float) -> float:
        return math.prod((m * (1 - r) + i * r) / (1 - r + i * r) for i in range(3))

    def total(weight) -> tuple[float, float]:
        alike, _ = integrate.quad(
            lambda m: weight(m, 0.0) * likelihood(successes, attempts, m, 0.0), 0, 1, epsrel=1e-10
        )
        differ, _ = integrate.dblquad(
            lambda m, r: weight(m, r) * likelihood(successes, attempts, m, r),
            0,
            1,
            0,
            1,
            epsabs=0,
            epsrel=1e-7,
        )
        return alike / 2, differ / 2

    alike, differ = total(lambda m, r: 1.0)
    evidence = alike + differ
    return {
        "alike": alike / evidence,
        "mean": sum(total(lambda m, r: m)) / evidence,
        "icc": sum(total(lambda m, r: r)) / evidence,
        "third": sum(total(moment)) / evidence,
    }


def mixture_bounds_by_search(
    low: np.ndarray, high: np.ndarray, k: int, n_grid: int = 26
) -> tuple[float, float]:
    """Least and largest E[p^k] over laws on at most n + 1 = 3 points of a grid, n = 2 attempts.

    A linear programme has its optimum at laws on few points: for n = 2 attempts and four active
    constraints at most, four points; weights of every set of three come from a fine simplex grid.
    """
    p = np.linspace(0, 1, n_grid)
    shares = np.stack([(1 - p) ** 2, 2 * p * (1 - p), p**2])
    steps = np.arange(0, 41)
    simplex = np.array([(a, b, 40 - a - b) for a in steps for b in steps if a + b <= 40]) / 40
    least, largest = 1.0, 0.0
    for points in itertools.combinations(range(n_grid), 3):
        made = simplex @ shares[:, points].T
        inside = ((made >= low - 1e-12) & (made <= high + 1e-12)).all(axis=1)
        if inside.any():
            values = simplex[inside] @ p[list(points)] ** k
            least, largest = min(least, values.min()), max(largest, values.max())
    return float(least), float(largest)
