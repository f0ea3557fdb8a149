from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from oracles.attempts import TAU_BENCH, posterior_by_integration
from sojourn import attempts
from sojourn.attempts import TaskCounts
from sojourn.attempts.beta_binomial import count_law
from sojourn.estimates import Status


def counts_of(successes: list[int], tried: int | list[int]) -> TaskCounts:
    n_tasks = len(successes)
    return TaskCounts(
        successes=successes, attempts=np.broadcast_to(tried, n_tasks), unit=np.arange(n_tasks)
    )


@pytest.fixture(scope="module")
def tau_bench() -> TaskCounts:
    return counts_of(np.repeat(np.arange(5), TAU_BENCH).tolist(), 4)


def test_tau_bench_beyond_its_attempts(tau_bench: TaskCounts) -> None:
    posterior = attempts.fit_beta_binomial(tau_bench)
    estimate = posterior.pass_hat(8)
    assert estimate.value == pytest.approx(0.108, abs=0.001)
    assert estimate.interval.low == pytest.approx(0.036, abs=0.001)
    assert estimate.interval.high == pytest.approx(0.215, abs=0.002)
    assert posterior.prob_homogeneous < 1e-6


@pytest.mark.parametrize(
    ("successes", "tried"),
    [([0, 1, 3], [2, 3, 3]), ([2], [3]), ([0, 0, 2, 2], [2, 2, 2, 2]), ([1, 1, 1], [1, 1, 2])],
)
def test_quadrature_agrees_with_adaptive_integration(
    successes: list[int], tried: list[int]
) -> None:
    expected = posterior_by_integration(successes, tried)
    posterior = attempts.fit_beta_binomial(counts_of(successes, tried))
    assert posterior.prob_homogeneous == pytest.approx(expected["alike"], abs=1e-5)
    assert posterior.posterior_mean() == pytest.approx(expected["mean"], abs=1e-5)
    assert posterior.posterior_icc() == pytest.approx(expected["icc"], abs=1e-5)
    assert posterior.pass_hat(3).value == pytest.approx(expected["third"], abs=1e-5)


def test_single_attempts_have_the_closed_form() -> None:
    # One attempt a task says nothing of the correlation: the mean is Beta(c + 1, f + 1), the rest
    # stays as before.
    posterior = attempts.fit_beta_binomial(counts_of([1] * 7 + [0] * 4, 1))
    assert posterior.prob_homogeneous == pytest.approx(0.5, abs=1e-6)
    mean = scipy_stats.beta(8, 5)
    assert posterior.pass_hat(1).value == pytest.approx(mean.mean(), abs=1e-6)
    interval = posterior.pass_hat(1).interval
    # The grid's cells are about .01 wide here; its quantiles are within a part of that.
    np.testing.assert_allclose((interval.low, interval.high), mean.ppf([0.025, 0.975]), atol=2e-3)
    assert posterior.correlation().interval.high == pytest.approx(0.95, abs=0.005)


def test_one_task_with_two_attempts_by_hand() -> None:
    # c = n = 2: P(data | m, r) = m (m (1 - r) + r). Alike: 1/3; differing: 1/3 * 1/2 + 1/2 * 1/2.
    posterior = attempts.fit_beta_binomial(counts_of([2], 2))
    alike, differing = 1 / 3, 1 / 6 + 1 / 4
    assert posterior.prob_homogeneous == pytest.approx(alike / (alike + differing), abs=1e-6)


def test_the_grid_is_fine_enough(tau_bench: TaskCounts) -> None:
    coarse = attempts.fit_beta_binomial(tau_bench)
    fine = attempts.fit_beta_binomial(tau_bench, n_mean=500, n_icc=500)
    for k in (1, 4, 16):
        a, b = coarse.pass_at(k), fine.pass_at(k)
        assert a.value == pytest.approx(b.value, abs=1e-6)
        assert a.interval.low == pytest.approx(b.interval.low, abs=2e-3)
        assert a.interval.high == pytest.approx(b.interval.high, abs=2e-3)
    assert coarse.correlation().interval.high == pytest.approx(
        fine.correlation().interval.high, abs=3e-3
    )


def test_a_large_corpus_is_resolved_and_cheap(rng: np.random.Generator) -> None:
    p = rng.beta(0.8, 1.2, 250_000)
    posterior = attempts.fit_beta_binomial(counts_of(rng.binomial(4, p).tolist(), 4))
    for estimate, truth, error in (
        (posterior.pass_hat(1), 0.4, np.sqrt(0.24 * (1 / 3 + 2 / 12) / 250_000)),
        (posterior.correlation(), 1 / 3, 0.0011),
    ):
        assert abs(estimate.value - truth) < 4 * error
        assert 3 * error < estimate.interval.width < 5 * error


def test_many_attempts_are_summed_by_blocks(rng: np.random.Generator) -> None:
    from scipy.special import betaln

    from sojourn.attempts.beta_binomial import _log_likelihood, _Terms

    tried = np.array([3000, 150, 70, 1200])
    successes = np.array([900, 149, 0, 1200])
    terms = _Terms.of(counts_of(successes.tolist(), tried.tolist()))
    assert terms.attempts.point.size < 600
    m, r = np.array([[0.1], [0.6]]), np.array([0.02, 0.3, 0.9])
    a, b = m * (1 / r - 1), (1 - m) * (1 / r - 1)
    expected = sum(
        betaln(a + c, b + n - c) - betaln(a, b) for c, n in zip(successes, tried, strict=True)
    )
    found = _log_likelihood(terms, m, 1 - m, r, 1 - r)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_alike_tasks_raise_the_probability_that_they_are(rng: np.random.Generator) -> None:
    posterior = attempts.fit_beta_binomial(counts_of(rng.binomial(4, 0.42, 200).tolist(), 4))
    assert posterior.prob_homogeneous > 0.5
    assert posterior.pass_hat(8).interval.high < 0.01
    assert posterior.correlation().interval.low == 0.0


@pytest.mark.parametrize("successes", [[0] * 30, [6] * 30, [0], [6]])
def test_extreme_counts_stay_finite(successes: list[int]) -> None:
    posterior = attempts.fit_beta_binomial(counts_of(successes, 6))
    assert np.isfinite(posterior.weight).all()
    assert posterior.weight.sum() == pytest.approx(1)
    for k in (1, 6, 50):
        interval = posterior.pass_hat(k).interval
        assert 0 <= interval.low < interval.high <= 1


def test_the_law_of_counts_agrees_with_scipy() -> None:
    mean, icc = np.array([0.3, 0.8, 0.5]), np.array([0.2, 0.7, 0.0])
    law = count_law(7, mean, icc)
    for row, m, r in zip(law[:2], mean[:2], icc[:2], strict=True):
        a, b = m * (1 / r - 1), (1 - m) * (1 / r - 1)
        np.testing.assert_allclose(row, scipy_stats.betabinom.pmf(np.arange(8), 7, a, b))
    np.testing.assert_allclose(law[2], scipy_stats.binom.pmf(np.arange(8), 7, 0.5))


def test_icc_with_the_moment_estimate_beside_it(tau_bench: TaskCounts) -> None:
    assert attempts.moment_icc(tau_bench) == pytest.approx(0.397, abs=0.001)
    estimate = attempts.icc(tau_bench)
    assert estimate.status is Status.SUPPORTED
    assert estimate.interval.low < 0.397 < estimate.interval.high
    assert estimate.reasons == ("moment estimate 0.398",)


def test_icc_where_it_cannot_be_told() -> None:
    withheld = attempts.icc(counts_of([0, 1], 1))
    assert withheld.status is Status.WITHHELD
    alike = attempts.icc(counts_of([4, 4, 4], 4))
    assert alike.status is Status.INCONCLUSIVE
    assert attempts.moment_icc(counts_of([4, 4, 4], 4)) is None
    assert attempts.moment_icc(counts_of([0, 1], 1)) is None


def test_the_predictive_check_sees_a_law_that_is_no_beta(
    tau_bench: TaskCounts, rng: np.random.Generator
) -> None:
    fitting = attempts.predictive_check(tau_bench, attempts.fit_beta_binomial(tau_bench), rng=rng)
    assert fitting > 0.05
    halves = counts_of([4] * 60 + [8] * 60, 8)  # always half, or always all: nothing between
    strange = attempts.predictive_check(halves, attempts.fit_beta_binomial(halves), rng=rng)
    assert strange < 0.01


def test_a_coarse_grid_is_refused(tau_bench: TaskCounts) -> None:
    with pytest.raises(ValueError, match="200 x 200"):
        attempts.fit_beta_binomial(tau_bench, n_mean=50)
    with pytest.raises(ValueError, match="k must be"):
        attempts.fit_beta_binomial(tau_bench).pass_hat(0)
