from __future__ import annotations

import numpy as np
import pytest

from oracles.attempts import TAU_BENCH, dispersion_law
from sojourn import attempts
from sojourn.attempts import TaskCounts


def counts_of(successes: list[int], tried: int | list[int]) -> TaskCounts:
    n_tasks = len(successes)
    return TaskCounts(
        successes=successes, attempts=np.broadcast_to(tried, n_tasks), unit=np.arange(n_tasks)
    )


def test_tau_bench_tasks_differ() -> None:
    counts = counts_of(np.repeat(np.arange(5), TAU_BENCH).tolist(), 4)
    result = attempts.test_homogeneity(counts, rng=1)
    assert result.p_value < 0.001
    assert result.tarone_p < 1e-9
    assert "p = 0.0005" in str(result)


def test_the_p_value_is_the_enumerated_one() -> None:
    successes, tried = [0, 3, 1], [3, 4, 2]
    law = dispersion_law(tried, 4)
    p = 4 / 9
    s = sum((c - n * p) ** 2 for c, n in zip(successes, tried, strict=True)) / (p * (1 - p))
    exact = sum(share for value, share in law.items() if value >= s - 1e-6)
    result = attempts.test_homogeneity(counts_of(successes, tried), n_resamples=20_000, rng=2)
    assert result.statistic == pytest.approx(s)
    assert abs(result.p_value - exact) < 4 * np.sqrt(exact * (1 - exact) / 20_000)


def test_size_when_tasks_are_alike(rng: np.random.Generator) -> None:
    p_values = [
        attempts.test_homogeneity(
            counts_of(rng.binomial(4, 0.3, 15).tolist(), 4), n_resamples=99, rng=rng
        ).p_value
        for _ in range(400)
    ]
    rejected = np.mean([p is not None and p <= 0.05 for p in p_values])
    assert rejected < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_a_million_runs(rng: np.random.Generator) -> None:
    alike = counts_of(rng.binomial(4, 0.42, 250_000).tolist(), 4)
    assert attempts.test_homogeneity(alike, n_resamples=99, rng=3).p_value > 0.01
    differ = counts_of(rng.binomial(4, rng.beta(20, 28, 250_000)).tolist(), 4)
    assert attempts.test_homogeneity(differ, n_resamples=99, rng=3).p_value == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("successes", "tried", "reason"),
    [
        ([3], 4, "one task"),
        ([0, 1, 1], 1, "one attempt per task"),
        ([4, 4], 4, "all runs ended alike"),
        ([0, 0], 4, "all runs ended alike"),
    ],
)
def test_where_there_is_no_p_there_is_a_reason(
    successes: list[int], tried: int, reason: str
) -> None:
    result = attempts.test_homogeneity(counts_of(successes, tried), rng=0)
    assert result.p_value is None
    assert reason in result.reason
    assert reason in str(result)


def test_the_same_seed_gives_the_same_answer() -> None:
    counts = counts_of([0, 1, 2, 4, 1], 4)
    assert attempts.test_homogeneity(counts, rng=7) == attempts.test_homogeneity(counts, rng=7)
