"""Differences of two sets of runs against other libraries, enumeration and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep

from sojourn.attempts import TaskCounts, differences
from sojourn.attempts.differences import PairedCounts
from sojourn.attempts.estimators import success_rate
from sojourn.estimates import Estimate, Interval, Status
from sojourn.stats import holm, wilson


def counts(successes: list[int], attempts: list[int] | int = 1) -> TaskCounts:
    c = np.asarray(successes)
    n = np.broadcast_to(attempts, c.shape).astype(int)
    return TaskCounts(successes=c, attempts=n, unit=np.arange(c.size, dtype=np.int32))


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, interval=Interval(low=low, high=high, kind="x"))


def test_mcnemar_is_statsmodels_exact() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        a, b = rng.random((2, 40)) < [[0.5], [0.7]]
        table = [[int(np.sum(a & b)), int(np.sum(a & ~b))], [int(np.sum(~a & b)), 3]]
        pairs = PairedCounts(a=counts(a.astype(int)), b=counts(b.astype(int)))
        expected = mcnemar(table, exact=True).pvalue
        assert differences.exact_paired_p(pairs) == pytest.approx(expected, rel=1e-10)


def test_exact_p_of_repeated_attempts_against_enumeration() -> None:
    a, b = counts([2, 0, 1], [2, 1, 3]), counts([1, 2, 3], [2, 2, 3])
    tasks = []
    for c_a, n_a, c_b, n_b in zip(a.successes, a.attempts, b.successes, b.attempts, strict=True):
        runs = [1] * int(c_a + c_b) + [0] * int(n_a + n_b - c_a - c_b)
        tasks.append(
            [
                sum(runs[i] for i in chosen)
                for chosen in itertools.combinations(range(len(runs)), n_a)
            ]
        )
    sums = np.array([sum(choice) for choice in itertools.product(*tasks)])
    observed = int(a.successes.sum())
    expected = min(1.0, 2 * min(np.mean(sums <= observed), np.mean(sums >= observed)))
    assert differences.exact_paired_p(PairedCounts(a=a, b=b)) == pytest.approx(expected)


def test_mover_of_two_wilson_intervals_is_newcombes() -> None:
    sets = ((21, 50), (33, 60))
    arms = []
    for won, n in sets:
        bounds = wilson(won / n, n, 1.959963984540054)
        arms.append(estimate(won / n, float(bounds.low), float(bounds.high)))
    found = differences.mover(*arms)
    low, high = confint_proportions_2indep(33, 60, 21, 50, method="newcomb", compare="diff")
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-9)


def test_mover_of_symmetric_intervals_is_the_standard_error_of_a_difference() -> None:
    a, b, r = estimate(0.4, 0.3, 0.5), estimate(0.6, 0.45, 0.75), 0.6
    found = differences.mover(a, b, correlation=r)
    half = math.sqrt(0.1**2 + 0.15**2 - 2 * r * 0.1 * 0.15)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.2 - half, 0.2 + half))


def test_mover_keeps_what_is_not_known() -> None:
    lost = Estimate(value=None, status=Status.WITHHELD, reasons=("why",))
    found = differences.mover(estimate(0.4, 0.3, 0.5), lost)
    assert (found.status, found.reasons) == (Status.WITHHELD, ("why",))


def test_the_same_runs_twice_do_not_differ() -> None:
    a = counts([0, 1, 2, 4, 4, 3] * 5, 4)
    for estimand in ("population", "same_tasks"):
        rate = differences.rate_difference(a, a, estimand=estimand, paired=True)
        hat = differences.pass_difference(a, a, 3, estimand=estimand, paired=True)
        for found in (rate, hat):
            assert found.value == 0.0
            assert found.interval is not None
            assert found.interval.low <= 0.0 <= found.interval.high
    # As the same tasks with the same runs they would differ by the luck of attempts only.
    population = differences.rate_difference(a, a, estimand="population", paired=True)
    assert population.interval is not None
    assert population.interval.width < 0.08
    assert rate.interval is not None
    assert rate.interval.width > 0.1


@pytest.mark.parametrize("cells", [(30, 4, 9, 17), (12, 0, 0, 13), (3, 9, 8, 5)])
def test_single_attempts_are_paired_as_newcombes_tenth_method_does(
    cells: tuple[int, int, int, int],
) -> None:
    both, only_a, only_b, neither = cells
    a = counts([1] * (both + only_a) + [0] * (only_b + neither))
    b = counts([1] * both + [0] * only_a + [1] * only_b + [0] * neither)
    n = sum(cells)
    cross = both * neither - only_a * only_b
    cross = cross if cross <= 0 else max(cross - n / 2, 0)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    wanted = differences.mover(
        success_rate(a), success_rate(b), correlation=cross / math.sqrt(margins)
    )
    found = differences.rate_difference(a, b, estimand="population", paired=True)
    assert found.interval is not None
    assert wanted.interval is not None
    assert found.interval.low == pytest.approx(wanted.interval.low, abs=1e-12)
    assert found.interval.high == pytest.approx(wanted.interval.high, abs=1e-12)
    assert found.interval.width > 2 / n


def test_paired_single_attempts_are_near_the_classical_interval() -> None:
    rng = np.random.default_rng(4)
    base = rng.random(400)
    a, b = (base < 0.5).astype(int), ((base + 0.2 * rng.random(400)) < 0.55).astype(int)
    found = differences.rate_difference(counts(a), counts(b), estimand="population", paired=True)
    d = b - a
    half = scipy_stats.t.ppf(0.975, 399) * d.std(ddof=1) / math.sqrt(400)
    assert found.value == pytest.approx(d.mean())
    assert found.interval is not None
    assert found.interval.width / 2 == pytest.approx(half, rel=0.02)


def test_chance_of_being_better_is_a_beta_tail_for_paired_single_attempts() -> None:
    a, b = counts([1] * 8 + [0] * 12 + [1] * 20), counts([0] * 8 + [1] * 12 + [1] * 20)
    expected = scipy_stats.beta(12.5, 8.5).sf(0.5)
    found = differences.probability_better(a, b, paired=True, n_draws=100_000, rng=2)
    assert found == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(100_000))


def test_chance_of_being_better_is_that_of_two_betas_for_unpaired_single_attempts() -> None:
    a, b = counts([1] * 20 + [0] * 20), counts([1] * 18 + [0] * 12)
    draws = np.random.default_rng(0)
    truth = np.mean(draws.beta(18.5, 12.5, 10**6) > draws.beta(20.5, 20.5, 10**6))
    found = differences.probability_better(a, b, paired=False, n_draws=100_000, rng=2)
    assert found == pytest.approx(truth, abs=4 * 0.5 / math.sqrt(100_000) + 0.002)


def test_permuted_p_is_fishers_where_units_are_single_runs() -> None:
    a, b = counts([1] * 9 + [0] * 3), counts([1] * 3 + [0] * 9)
    found = differences.permuted_p(a, b, n_draws=20_000, rng=1)
    exact = scipy_stats.fisher_exact([[9, 3], [3, 9]]).pvalue
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))


def test_holm_is_statsmodels() -> None:
    p = [0.03, 0.2, 0.001, 0.04, 0.04]
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_flips_are_the_tasks_that_differ() -> None:
    pairs = PairedCounts(a=counts([1, 0, 2, 2], 2), b=counts([2, 0, 0, 2], 2))
    assert [(f.task, f.gain) for f in differences.task_flips(pairs)] == [(0, 0.5), (2, -1.0)]


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        PairedCounts(a=counts([1]), b=counts([1, 0]))


def test_smallest_visible_is_the_power_formula() -> None:
    se = 0.05
    found = differences.smallest_visible(estimate(0.5, 0.5 - 1.959964 * se, 0.5 + 1.959964 * se))
    assert found == pytest.approx((1.959964 + 0.841621) * se, rel=1e-5)


@pytest.mark.statistical
@pytest.mark.parametrize("n_attempts", [1, 3])
def test_few_tasks_at_which_sets_agree_do_not_make_a_difference_known(n_attempts: int) -> None:
    rng = np.random.default_rng(n_attempts)
    n_tasks, hits, n_sets = 25, 0, 800
    for _ in range(n_sets):
        solved = rng.random(n_tasks) < 0.5
        gained = ~solved & (rng.random(n_tasks) < 0.08)
        arms = [
            counts((x * n_attempts).tolist(), n_attempts)
            for x in (solved.astype(int), (solved | gained).astype(int))
        ]
        found = differences.rate_difference(*arms, estimand="population", paired=True)
        assert found.interval is not None
        hits += found.interval.low <= 0.04 <= found.interval.high
    # .70 without the correction of the correlation.
    assert hits / n_sets >= 0.93


@pytest.mark.statistical
@pytest.mark.parametrize("estimand", ["population", "same_tasks"])
@pytest.mark.parametrize("k", [1, 3])
def test_paired_intervals_cover(estimand: str, k: int) -> None:
    rng = np.random.default_rng(10 * k)
    n_tasks, n_attempts, hits, n_sets = 50, 4, 0, 600
    fixed = rng.beta(1.2, 1.5, n_tasks)
    for _ in range(n_sets):
        p = fixed if estimand == "same_tasks" else rng.beta(1.2, 1.5, n_tasks)
        q = p + 0.3 * (1 - p) * p
        arms = [counts(rng.binomial(n_attempts, x).tolist(), n_attempts) for x in (p, q)]
        found = differences.pass_difference(*arms, k, estimand=estimand, paired=True)
        if estimand == "same_tasks":
            truth = np.mean(q**k - p**k)
        else:
            x = scipy_stats.beta(1.2, 1.5)
            truth = x.expect(lambda u: (u + 0.3 * (1 - u) * u) ** k - u**k)
        assert found.interval is not None
        hits += found.interval.low <= truth <= found.interval.high
    # Nominal 95 %; 600 sets have a Monte Carlo error of .9 points.
    assert 0.923 <= hits / n_sets <= 0.999
