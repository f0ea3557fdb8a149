from __future__ import annotations

import numpy as np
import pytest

from oracles.attempts import TAU_BENCH, mixture_bounds_by_search
from sojourn import attempts
from sojourn.attempts import TaskCounts
from sojourn.attempts.bounds import _hypergeometric_shares, _share_region
from sojourn.estimates import Status
from sojourn.stats import clopper_pearson


def counts_of(successes: list[int], tried: int | list[int], unit: list[int] | None = None):
    n_tasks = len(successes)
    return TaskCounts(
        successes=successes,
        attempts=np.broadcast_to(tried, n_tasks),
        unit=np.arange(n_tasks) if unit is None else unit,
    )


@pytest.fixture(scope="module")
def tau_bench() -> TaskCounts:
    return counts_of(np.repeat(np.arange(5), TAU_BENCH).tolist(), 4)


def test_tau_bench_bounds(tau_bench: TaskCounts) -> None:
    bounds = attempts.pass_hat_bounds(tau_bench, 8)
    assert bounds.low == pytest.approx(0.009, abs=0.001)
    assert bounds.high == pytest.approx(0.38, abs=0.003)
    assert bounds.n_attempts == 4


@pytest.mark.parametrize("k", [3, 5])
def test_the_programme_agrees_with_a_search_over_three_point_laws(k: int) -> None:
    counts = counts_of([0] * 30 + [1] * 20 + [2] * 30, 2)
    low, high = _share_region(counts, 2, 0.95)
    least, largest = mixture_bounds_by_search(low, high, k)
    bounds = attempts.pass_hat_bounds(counts, k)
    # The search has coarser points and weights, so that it may only be inside, and not by much.
    assert bounds.low <= least + 1e-9 < bounds.low + 0.03
    assert bounds.high >= largest - 1e-9 > bounds.high - 0.03


def test_the_region_is_the_box_of_clopper_pearson(tau_bench: TaskCounts) -> None:
    low, high = _share_region(tau_bench, 4, 0.95)
    expected = clopper_pearson(np.array(TAU_BENCH), 50, 1 - 0.05 / 5)
    np.testing.assert_allclose(low, expected.low)
    np.testing.assert_allclose(high, expected.high)


def test_within_the_attempts_the_bounds_hold_the_estimate(tau_bench: TaskCounts) -> None:
    for k in (1, 2, 4):
        bounds = attempts.pass_hat_bounds(tau_bench, k)
        assert bounds.low < attempts.pass_hat(tau_bench, k).value < bounds.high


def test_pass_at_mirrors_pass_hat(tau_bench: TaskCounts) -> None:
    hat = attempts.pass_hat_bounds(tau_bench.flipped(), 8)
    at = attempts.pass_at_bounds(tau_bench, 8)
    assert (at.low, at.high) == pytest.approx((1 - hat.high, 1 - hat.low))
    assert at.quantity == "pass_at"
    assert at.low >= attempts.pass_at_bounds(tau_bench, 4).low - 1e-9


def test_unequal_attempts_use_shares_of_the_number_half_of_the_tasks_reach() -> None:
    counts = counts_of([3, 0, 2, 5, 1], [3, 1, 4, 5, 2])
    bounds = attempts.pass_hat_bounds(counts, 6)
    assert bounds.n_attempts == 3
    shares = _hypergeometric_shares(counts_of([3, 2, 5], [3, 4, 5]), 3)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    np.testing.assert_allclose(shares[:, 0], [0, 0, 0, 1])
    np.testing.assert_allclose(shares[:, 1], [0, 0.5, 0.5, 0], atol=1e-12)


def test_clusters_widen_the_region() -> None:
    successes = np.tile([4, 4, 0, 0], 20).tolist()
    alone = attempts.pass_hat_bounds(counts_of(successes, 4), 8)
    unit = np.repeat(np.arange(20), 4).tolist()
    grouped = attempts.pass_hat_bounds(counts_of(np.sort(successes).tolist(), 4, unit), 8)
    assert grouped.high - grouped.low > 1.3 * (alone.high - alone.low)


def test_attempts_too_regular_to_be_independent_are_said_to_be() -> None:
    bounds = attempts.pass_hat_bounds(counts_of([2] * 200, 4), 8)
    assert (bounds.low, bounds.high) == (0.0, 1.0)
    assert "vary less" in bounds.reasons[0]


def test_single_attempts_give_jensen() -> None:
    rate = attempts.success_rate(counts_of([1] * 12 + [0] * 28, 1))
    both = attempts.single_attempt_bounds(rate, 3)
    assert (both.pass_hat.low, both.pass_hat.high) == pytest.approx((0.3**3, 0.3))
    assert (both.pass_at.low, both.pass_at.high) == pytest.approx((0.3, 1 - 0.7**3))
    given = rate.interval
    assert both.pass_hat.interval.low == pytest.approx(given.low**3)
    assert both.pass_hat.interval.high == pytest.approx(given.high)
    assert both.pass_at.interval.high == pytest.approx(1 - (1 - given.high) ** 3)
    with pytest.raises(ValueError, match="value and its interval"):
        attempts.single_attempt_bounds(attempts.pass_hat(counts_of([1], 1), 2), 2)


def test_the_programme_gives_jensen_for_single_attempts() -> None:
    counts = counts_of([1] * 12 + [0] * 28, 1)
    bounds = attempts.pass_hat_bounds(counts, 3)
    region = clopper_pearson(12, 40, 1 - 0.05 / 2)
    assert bounds.high == pytest.approx(float(region.high), abs=1e-6)
    assert bounds.low == pytest.approx(float(region.low) ** 3, abs=1e-4)


def test_beyond_is_never_more_than_inconclusive(tau_bench: TaskCounts) -> None:
    beyond = attempts.pass_hat_beyond(tau_bench, 8)
    assert beyond.estimate.status is Status.INCONCLUSIVE
    assert beyond.estimate.value == pytest.approx(0.108, abs=0.001)
    assert "at most 4 were made" in beyond.estimate.reasons[0]
    assert "between 0.009 and 0.380" in beyond.estimate.reasons[1]
    at = attempts.pass_at_beyond(tau_bench, 8, posterior=attempts.fit_beta_binomial(tau_bench))
    assert at.bounds.low < at.estimate.value < at.bounds.high
    single = attempts.pass_hat_beyond(counts_of([1, 0, 1], 1), 2)
    assert single.estimate.status is Status.WITHHELD
    assert single.bounds.high > single.bounds.low
