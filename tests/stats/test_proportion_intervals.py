from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from sojourn import stats


@pytest.mark.parametrize(("count", "n"), [(0, 5), (1, 5), (42, 100), (5, 5), (84, 200), (0, 1)])
@pytest.mark.parametrize("ci_prob", [0.8, 0.95])
def test_wilson_and_clopper_pearson_agree_with_statsmodels(
    count: int, n: int, ci_prob: float
) -> None:
    ours = stats.wilson(count / n, n, stats.normal_quantile(ci_prob))
    theirs = proportion_confint(count, n, alpha=1 - ci_prob, method="wilson")
    np.testing.assert_allclose(np.array(ours), theirs, atol=1e-12)
    ours = stats.clopper_pearson(count, n, ci_prob)
    theirs = proportion_confint(count, n, alpha=1 - ci_prob, method="beta")
    np.testing.assert_allclose(np.array(ours), theirs, atol=1e-12)


def test_jeffreys_agrees_with_statsmodels_and_is_closed_at_the_ends() -> None:
    ours = stats.jeffreys(np.array([0.0, 0.3, 1.0]), 10, 0.95)
    theirs = proportion_confint(3, 10, alpha=0.05, method="jeffreys")
    np.testing.assert_allclose((ours.low[1], ours.high[1]), theirs, atol=1e-12)
    assert ours.low[0] == 0.0
    assert ours.high[2] == 1.0


def test_wilson_holds_its_value_and_has_a_width_everywhere() -> None:
    value = np.linspace(0, 1, 101)[:, None]
    size = np.array([0.7, 1.0, 3.5, 1e6, 1e12])
    bounds = stats.wilson(value, size, 12.7)
    assert ((bounds.low >= 0) & (bounds.low <= value)).all()
    assert ((bounds.high <= 1) & (bounds.high >= value)).all()
    assert (bounds.high > bounds.low).all()


def test_t_quantile_agrees_with_scipy() -> None:
    df = np.array([1.0, 4.0, 49.0])
    np.testing.assert_allclose(stats.t_quantile(0.9, df), scipy_stats.t.ppf(0.95, df))
    assert stats.normal_quantile(0.95) == pytest.approx(1.959963984540054)


def test_effective_size_is_bounded_and_falls_to_the_smallest_where_nothing_is_known() -> None:
    size = stats.effective_size([0.5, 0.5, 0.5, 0.0, 1.0], [0.025, 0.0, 0.5, 0.0, 0.0], 3, 20)
    np.testing.assert_allclose(size, [10, 20, 3, 3, 3])


def test_ratio_mean_is_the_clustered_variance_of_the_linearised_ratio(
    rng: np.random.Generator,
) -> None:
    x = rng.integers(1, 9, 30).astype(float)
    y = rng.binomial(x.astype(int), 0.4).astype(float)
    mean = stats.ratio_mean(np.append(y, 0.0), np.append(x, 0.0))  # an empty unit does not count
    assert mean.value == pytest.approx(y.sum() / x.sum())
    linear = (y - mean.value * x) / x.mean()
    assert mean.variance == pytest.approx(linear.var(ddof=1) / 30)
    assert mean.n_units == 30
    assert mean.n_effective_units == pytest.approx(x.sum() ** 2 / (x**2).sum())
    equal = stats.ratio_mean(y, np.full(30, 8.0))
    assert equal.variance == pytest.approx((y / 8).var(ddof=1) / 30)
    assert equal.n_effective_units == pytest.approx(30)


def test_resampled_sums_have_the_moments_of_the_bootstrap(rng: np.random.Generator) -> None:
    rows = rng.integers(0, 3, (40, 2)).astype(float)
    sums = stats.resampled_sums(rows, 20_000, rng)
    error = rows.std(axis=0) * np.sqrt(40 / 20_000)
    assert (np.abs(sums.mean(axis=0) - rows.sum(axis=0)) < 4 * error).all()
    expected = 40 * np.cov(rows.T, ddof=0)
    np.testing.assert_allclose(np.cov(sums.T), expected, rtol=0, atol=5 * expected.max() / 140)


def test_resampled_sums_do_not_depend_on_how_equal_rows_are_ordered() -> None:
    rows = np.repeat([[1.0, 2.0], [0.0, 1.0]], [7, 5], axis=0)
    shuffled = rows[np.random.default_rng(3).permutation(12)]
    first = stats.resampled_sums(rows, 50, np.random.default_rng(1))
    np.testing.assert_array_equal(
        first, stats.resampled_sums(shuffled, 50, np.random.default_rng(1))
    )
    assert (first[:, 1] - first[:, 0] == 12).all()


def test_weighted_quantiles_of_equal_weights_are_the_plain_ones() -> None:
    values = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    weights = np.ones(5)
    np.testing.assert_allclose(
        stats.weighted_quantiles(values, weights, [0.1, 0.5, 0.6]),
        np.quantile(values, [0.1, 0.5, 0.6], method="hazen"),
    )
    joined = stats.weighted_quantiles(np.array([1.0, 2.0]), np.array([2.0, 1.0]), [0.4])
    repeated = stats.weighted_quantiles(np.array([1.0, 1.0, 2.0]), np.ones(3), [0.4])
    assert joined == pytest.approx(repeated)


@pytest.mark.parametrize("ci_prob", [0.0, 1.0, float("nan")])
def test_a_coverage_outside_0_and_1_is_refused(ci_prob: float) -> None:
    with pytest.raises(ValueError, match="ci_prob"):
        stats.normal_quantile(ci_prob)
