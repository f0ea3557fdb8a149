"""Laws of task success probabilities: other libraries, optimality, recovery, and the extremes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.stats import betabinom, binom

from sojourn.attempts._inflated import _loss
from sojourn.attempts._mixing_parts import pairs_of
from sojourn.attempts.beta_binomial import BetaBinomialPosterior, fit_beta_binomial
from sojourn.attempts.counts import TaskCounts
from sojourn.attempts.estimators import pass_at, pass_hat
from sojourn.attempts.mixing import (
    InflatedFit,
    NonparametricMixing,
    choose_mixing,
    fit_inflated,
    fit_nonparametric,
)
from sojourn.estimates import Status


def counts_of(successes: object, attempts: object, unit: object = None) -> TaskCounts:
    c = np.asarray(successes, dtype=np.int64)
    n = np.broadcast_to(np.asarray(attempts, dtype=np.int64), c.shape)
    return TaskCounts(
        successes=c, attempts=n, unit=np.arange(c.size) if unit is None else np.asarray(unit)
    )


def drawn(p: np.ndarray, n: object, rng: np.random.Generator) -> TaskCounts:
    return counts_of(rng.binomial(n, p), n)


def airline() -> TaskCounts:
    """Successes of 50 tasks in 4 attempts, gpt-4o on tau-bench."""
    return counts_of(np.repeat([0, 1, 2, 3, 4], [14, 12, 10, 4, 10]), 4)


def inflated_likelihood(
    counts: TaskCounts, never: float, always: float, m: float, r: float
) -> float:
    a, b = m * (1 / r - 1), (1 - m) * (1 / r - 1)
    p = (1 - never - always) * betabinom.pmf(counts.successes, counts.attempts, a, b)
    p += never * (counts.successes == 0) + always * (counts.successes == counts.attempts)
    return float(np.log(p).sum())


def mixture_likelihood(counts: TaskCounts, atoms: np.ndarray, weights: np.ndarray) -> float:
    table = binom.pmf(counts.successes[:, None], counts.attempts[:, None], atoms)
    return float(np.log(table @ weights).sum())


EXTREMES = {
    "never": counts_of(np.zeros(12), 4),
    "always": counts_of(np.full(12, 4), 4),
    "never or always": counts_of(np.repeat([0, 5], 6), 5),
    "one task": counts_of([2], 4),
    "one attempt": counts_of([0, 1, 1], 1),
    "all alike": counts_of(np.full(20, 2), 4),
    "many attempts": counts_of([0, 3, 90, 300], 300),
    "unequal attempts": counts_of([0, 1, 2, 7, 0, 3], [1, 1, 5, 7, 9, 4]),
    "one unit": counts_of([0, 1, 2, 4], 4, [3, 3, 3, 3]),
}


def test_inflated_likelihood_is_that_of_scipy_and_a_maximum(rng: np.random.Generator) -> None:
    p = np.where(rng.random(120) < 0.3, 0.0, rng.beta(3, 2, size=120))
    counts = drawn(p, rng.integers(4, 9, size=120), rng)
    fit = fit_inflated(counts, n_resamples=2, rng=rng)
    best = inflated_likelihood(counts, fit.never, fit.always, fit.mean, fit.icc)
    assert fit.log_likelihood == pytest.approx(best, abs=1e-6)

    def loss(x: np.ndarray) -> float:
        w = np.exp([x[0], x[1], 0.0])
        w /= w.sum()
        m, r = 1 / (1 + np.exp(-x[2:]))
        return -inflated_likelihood(counts, w[0], w[1], m, r)

    for start in ([-1.0, -2.0, 0.5, -1.0], [0.0, -4.0, 0.0, -2.0]):
        other = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 2000})
        assert -other.fun <= fit.log_likelihood + 1e-4
    assert fit.share_at_best >= 0.5


def test_derivatives_are_the_differences() -> None:
    pairs = pairs_of(EXTREMES["unequal attempts"])
    for free in ([-1.0, 0.3, 0.2, -1.0], [1.0, -2.0, -1.0, 0.5], [-6.0, -6.0, 2.0, -6.0]):
        at = np.array(free)
        by_hand = approx_fprime(at, lambda x: _loss(x, pairs)[0], 1e-7)
        np.testing.assert_allclose(_loss(at, pairs)[1], by_hand, rtol=1e-4, atol=1e-5)


def test_atoms_at_both_ends_are_found(rng: np.random.Generator) -> None:
    n_tasks = 400
    kind = rng.choice(3, size=n_tasks, p=[0.3, 0.2, 0.5])
    p = np.choose(kind, [0.0, 1.0, rng.beta(6, 4, size=n_tasks)])
    fit = fit_inflated(drawn(p, 8, rng), n_resamples=20, rng=rng)
    # Standard errors of the maximum by its own resamples, which are compared in turn below.
    se = fit.resampled.std(axis=0)
    assert np.all(se[:3] < 0.05)
    for value, truth, error in zip(
        (fit.never, fit.always, fit.mean), (0.3, 0.2, 0.6), se, strict=False
    ):
        assert abs(value - truth) < 4.0 * error
    assert se[0] > 0.6 * np.sqrt(0.3 * 0.7 / n_tasks)
    estimate = fit.pass_hat(2)
    moment = 0.2 + 0.5 * (0.6**2 + 0.24 / 11)
    assert estimate.interval is not None
    assert abs(estimate.value - moment) < 4.0 * (estimate.interval.width / 4.0)  # type: ignore[operator]
    assert fit.predictive_check(n_resamples=99, rng=rng) > 0.01


def test_no_directional_derivative_is_positive(rng: np.random.Generator) -> None:
    fine = np.linspace(0.0, 1.0, 2001)
    for counts in (
        airline(),
        drawn(rng.beta(0.5, 0.5, size=80), rng.integers(1, 15, size=80), rng),
        drawn(np.repeat([0.2, 0.7], 60), 10, rng),
        *EXTREMES.values(),
    ):
        fit = fit_nonparametric(counts, n_resamples=2, rng=rng)
        assert fit.gradient <= 1e-6
        assert np.all(fit.directional_derivative(fit.grid) <= 1e-6)
        np.testing.assert_allclose(fit.directional_derivative(fit.atoms), 0.0, atol=1e-5)
        if counts.max_attempts < 50:
            # Between the points of the grid the derivative is all but the same.
            assert np.all(fit.directional_derivative(fine) <= 1e-3)
        assert fit.weights.sum() == pytest.approx(1.0)
        assert np.all(fit.weights > 0.0)


def test_likelihood_without_a_form_is_above_that_of_any_law(rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, size=60)
    counts = drawn(p, 6, rng)
    fit = fit_nonparametric(counts, n_resamples=2, rng=rng)
    own = mixture_likelihood(counts, fit.atoms, fit.weights)
    assert fit.log_likelihood == pytest.approx(own, rel=1e-10)
    assert fit.log_likelihood >= fit_inflated(counts, n_resamples=2, rng=rng).log_likelihood - 1e-3
    for _ in range(20):
        atoms, weights = rng.random(5), rng.dirichlet(np.ones(5))
        assert mixture_likelihood(counts, atoms, weights) <= fit.log_likelihood + 1e-3
    # The plain iteration comes near from below.
    table = binom.pmf(counts.successes[:, None], 6, fit.grid)
    weights = np.full(fit.grid.size, 1.0 / fit.grid.size)
    for _ in range(3000):
        weights *= (table / (table @ weights)[:, None]).mean(axis=0)
    slow = float(np.log(table @ weights).sum())
    assert slow <= fit.log_likelihood + 1e-8
    assert slow == pytest.approx(fit.log_likelihood, abs=0.05)


def test_a_histogram_that_some_law_gives_is_reproduced(rng: np.random.Generator) -> None:
    pmf = 0.3 * binom.pmf(np.arange(6), 5, 0.1) + 0.7 * binom.pmf(np.arange(6), 5, 0.8)
    counts = counts_of(np.repeat(np.arange(6), np.round(20_000 * pmf).astype(int)), 5)
    fit = fit_nonparametric(counts, n_resamples=1, rng=1)
    np.testing.assert_allclose(fit.expected_histogram(), counts.histogram(), atol=2.0)
    # Ten attempts and three atoms: no other law gives these counts.
    assert fit_nonparametric(
        drawn(np.repeat([0.2, 0.7], 100), 10, rng), n_resamples=1, rng=1
    ).is_unique
    # Where the histogram is that of a law, moments up to n are the unbiased estimates.
    fit = fit_nonparametric(airline(), n_resamples=1, rng=1)
    np.testing.assert_allclose(fit.expected_histogram(), airline().histogram(), atol=1e-3)
    for k in (1, 2, 3, 4):
        assert fit.pass_hat(k).value == pytest.approx(pass_hat(airline(), k).value, abs=1e-4)
        assert fit.pass_at(k).value == pytest.approx(pass_at(airline(), k).value, abs=1e-4)
    assert not fit.is_unique
    inflated = fit_inflated(airline(), n_resamples=1, rng=1)
    np.testing.assert_allclose(inflated.expected_histogram(), airline().histogram(), atol=0.02)


def test_success_and_failure_mirror_each_other(rng: np.random.Generator) -> None:
    counts = drawn(rng.beta(1, 2, size=60), 5, rng)
    for fit in (fit_nonparametric, fit_inflated):
        one = fit(counts, n_resamples=3, rng=1)
        other = fit(counts.flipped(), n_resamples=3, rng=1)
        for k in (1, 3, 5):
            mirrored = other.pass_hat(k).value
            assert mirrored is not None
            assert one.pass_at(k).value == pytest.approx(1 - mirrored, abs=2e-3)


def test_beyond_the_attempts_everything_is_inconclusive(rng: np.random.Generator) -> None:
    sets = (
        airline(),
        drawn(np.repeat([0.0, 0.5, 1.0], 60), 8, rng),
        drawn(np.full(40, 0.4), 5, rng),
    )
    for counts in sets:
        laws = (
            fit_inflated(counts, n_resamples=5, rng=1),
            fit_nonparametric(counts, n_resamples=5, rng=1),
            choose_mixing(counts, n_resamples=19, rng=1),
        )
        for law in laws:
            for estimate in (law.pass_hat(16), law.pass_at(16)):
                assert estimate.status is Status.INCONCLUSIVE
                assert any("whatever the law" in reason for reason in estimate.reasons)
                assert estimate.value is not None
    within = fit_nonparametric(sets[1], n_resamples=50, rng=1).pass_hat(8)
    assert within.status is Status.SUPPORTED


def test_one_attempt_gives_no_figure_for_more() -> None:
    counts = EXTREMES["one attempt"]
    for law in (
        fit_inflated(counts, n_resamples=3, rng=1),
        fit_nonparametric(counts, n_resamples=3, rng=1),
        choose_mixing(counts, rng=1),
    ):
        assert law.pass_hat(2).status is Status.WITHHELD
        assert law.pass_hat(2).value is None
    assert choose_mixing(counts, rng=1).kind == "none"


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_give_numbers_and_no_nan(name: str) -> None:
    counts = EXTREMES[name]
    for fit in (
        fit_inflated(counts, n_resamples=5, rng=1),
        fit_nonparametric(counts, n_resamples=5, rng=1),
    ):
        assert np.isfinite(fit.log_likelihood)
        assert np.all(np.isfinite(fit.resampled))
        assert np.all(np.isfinite(fit.expected_histogram()))
        assert fit.expected_histogram().sum() == pytest.approx(counts.histogram().sum())
        assert 0.0 < fit.predictive_check(n_resamples=5, rng=1) <= 1.0
        json.dumps(fit.to_dict(), allow_nan=False)
        assert "nan" not in str(fit)
        for k in (1, 2, 30):
            for estimate in (fit.pass_hat(k), fit.pass_at(k)):
                if estimate.value is None:
                    assert counts.max_attempts == 1
                    continue
                assert estimate.interval is not None
                low, high = estimate.interval.low, estimate.interval.high
                assert 0.0 <= low <= estimate.value <= high <= 1.0
                assert low < high  # never as if nothing were left to learn
    choice = choose_mixing(counts, n_resamples=19, rng=1)
    json.dumps(choice.to_dict(), allow_nan=False)
    assert choice.reasons


@pytest.mark.slow
def test_the_narrowest_law_that_fits_is_chosen(rng: np.random.Generator) -> None:
    plain = choose_mixing(drawn(rng.beta(2, 3, size=100), 5, rng), rng=rng)
    assert plain.kind == "beta_binomial"
    assert isinstance(plain.law, BetaBinomialPosterior)
    assert plain.pass_hat(3).status is Status.SUPPORTED
    ends = choose_mixing(drawn(np.repeat([0.0, 0.5, 1.0], 60), 8, rng), n_resamples=39, rng=rng)
    assert ends.kind == "inflated"
    assert isinstance(ends.law, InflatedFit)
    assert ends.fits
    assert list(ends.checks) == ["beta_binomial", "inflated"]
    two = choose_mixing(drawn(np.repeat([0.2, 0.7], 150), 10, rng), n_resamples=39, rng=rng)
    assert two.kind == "nonparametric"
    assert isinstance(two.law, NonparametricMixing)
    assert two.fits
    truth = (0.2**4 + 0.7**4) / 2
    interval = two.pass_hat(4).interval
    assert interval is not None
    assert interval.low < truth < interval.high
    alike = choose_mixing(counts_of(np.full(60, 2), 4), n_resamples=39, rng=rng)
    assert alike.kind == "nonparametric"
    assert not alike.fits
    assert alike.pass_hat(2).status is Status.INCONCLUSIVE
    assert "copies" in alike.pass_hat(2).reasons[0]
    three = choose_mixing(drawn(np.repeat([0.0, 1.0], 60), 3, rng), n_resamples=19, rng=rng)
    assert "inflated" not in three.checks


def test_a_check_that_was_made_is_not_made_again(rng: np.random.Generator) -> None:
    counts = drawn(rng.beta(2, 3, size=100), 5, rng)
    law = fit_beta_binomial(counts)
    for p, passed in ((0.9, True), (0.05, False), (0.001, False)):
        choice = choose_mixing(counts, posterior=law, check_p=p, alpha=0.05, n_resamples=9, rng=1)
        assert choice.checks["beta_binomial"] == p
        assert (choice.kind == "beta_binomial") == passed
    with pytest.raises(ValueError, match="of a posterior that is given"):
        choose_mixing(counts, check_p=0.5, rng=1)


def test_units_are_what_is_resampled(rng: np.random.Generator) -> None:
    p = rng.beta(1, 1, size=30)
    once = rng.binomial(6, p)
    alone = fit_nonparametric(counts_of(once, 6), rng=1).pass_hat(2).interval
    copies = counts_of(np.repeat(once, 4), 6, np.repeat(np.arange(30), 4))
    together = fit_nonparametric(copies, rng=1).pass_hat(2).interval
    apart = fit_nonparametric(counts_of(np.repeat(once, 4), 6), rng=1).pass_hat(2).interval
    assert alone is not None
    assert together is not None
    assert apart is not None
    assert together.width == pytest.approx(alone.width, rel=0.25)
    assert apart.width == pytest.approx(alone.width / 2, rel=0.25)


def test_same_seed_same_law() -> None:
    for fit in (fit_inflated, fit_nonparametric):
        one, other = (fit(airline(), n_resamples=5, rng=7) for _ in range(2))
        np.testing.assert_array_equal(one.resampled, other.resampled)
