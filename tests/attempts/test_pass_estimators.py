from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scorio import eval as scorio
from statsmodels.stats.proportion import proportion_confint

from oracles.attempts import TAU_BENCH, pass_at_by_subsets, pass_hat_by_subsets
from sojourn import attempts
from sojourn.attempts import TaskCounts
from sojourn.attempts.values import alike_variance, attempt_variance, task_values
from sojourn.estimates import Status

METHODS = ("auto", "wilson_effective", "beta_binomial", "bootstrap")


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


def values(estimates) -> list[float]:
    return [estimate.value for estimate in estimates]


def test_tau_bench_gives_its_known_figures(tau_bench: TaskCounts) -> None:
    assert attempts.success_rate(tau_bench).value == pytest.approx(0.42)
    hats = attempts.pass_hats(tau_bench, (1, 2, 3, 4))
    assert values(hats) == pytest.approx([0.42, 41 / 150, 0.22, 0.2], abs=1e-12)
    ats = attempts.pass_ats(tau_bench, (1, 2, 3, 4))
    assert values(ats) == pytest.approx([0.42, 17 / 30, 0.66, 0.72], abs=1e-12)
    assert all(e.status is Status.SUPPORTED and not e.reasons for e in (*hats, *ats))
    assert {e.interval.kind for e in (*hats, *ats)} == {"wilson_effective"}
    assert attempts.naive_rate(tau_bench).value ** 4 == pytest.approx(0.031, abs=5e-4)


def test_golden_values_of_scorio() -> None:
    counts = counts_of([3, 4], 5)
    assert attempts.pass_at(counts, 1).value == pytest.approx(0.7)
    assert attempts.pass_at(counts, 2).value == pytest.approx(0.95)
    assert attempts.pass_hat(counts, 2).value == pytest.approx(0.45)


@pytest.mark.parametrize("seed", range(5))
def test_random_matrices_agree_with_scorio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_tasks, n = rng.integers(1, 12), rng.integers(1, 9)
    outcomes = (rng.random((n_tasks, n)) < rng.random((n_tasks, 1))).astype(int)
    counts = counts_of(outcomes.sum(axis=1).tolist(), int(n))
    ks = range(1, n + 1)
    hats = [scorio.pass_hat_k(outcomes, k) for k in ks]
    ats = [scorio.pass_at_k(outcomes, k) for k in ks]
    assert values(attempts.pass_hats(counts, ks)) == pytest.approx(hats, abs=1e-12)
    assert values(attempts.pass_ats(counts, ks)) == pytest.approx(ats, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_unequal_attempts_agree_with_all_subsets(k: int) -> None:
    successes, tried = [0, 1, 3, 2, 6, 4, 1], [1, 2, 5, 2, 8, 4, 7]
    counts = counts_of(successes, tried)
    hat, at = attempts.pass_hat(counts, k), attempts.pass_at(counts, k)
    assert hat.value == pytest.approx(pass_hat_by_subsets(successes, tried, k), abs=1e-12)
    assert at.value == pytest.approx(pass_at_by_subsets(successes, tried, k), abs=1e-12)
    left_out = sum(n < k for n in tried)
    if left_out:
        assert any(f"{left_out} of 7 tasks have fewer than {k}" in r for r in hat.reasons)
    assert (hat.status is Status.INCONCLUSIVE) == (2 * left_out > 7)


def test_estimators_are_unbiased_over_all_outcomes() -> None:
    # The expectation over Binomial(n, p), enumerated, is p^k.
    n, p = 6, 0.37
    for k in range(1, n + 1):
        law = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
        assert task_values(np.arange(n + 1), n, k) @ law == pytest.approx(p**k)


def test_the_rate_weighs_runs_and_pass_1_weighs_tasks() -> None:
    counts = counts_of([1, 0], [1, 3])
    assert attempts.success_rate(counts).value == pytest.approx(1 / 4)
    assert attempts.pass_hat(counts, 1).value == pytest.approx(1 / 2)


def test_rate_and_pass_1_agree_with_equal_attempts(tau_bench: TaskCounts) -> None:
    for estimand in ("population", "same_tasks"):
        rate = attempts.success_rate(tau_bench, estimand=estimand)
        first = attempts.pass_hat(tau_bench, 1, estimand=estimand)
        assert rate.value == pytest.approx(first.value)
        assert rate.interval.low == pytest.approx(first.interval.low)
        assert rate.interval.high == pytest.approx(first.interval.high)


def test_the_population_interval_by_hand(tau_bench: TaskCounts) -> None:
    # Per-task rates 0, 1/4, .. 1: se^2 = s^2 / 50, n_eff = .42 * .58 / se^2, t(49) for z.
    rates = np.repeat(np.arange(5) / 4, TAU_BENCH)
    size = 0.42 * 0.58 / (rates.var(ddof=1) / 50)
    t = 2.009575
    centre = (0.42 * size + t**2 / 2) / (size + t**2)
    half = t / (size + t**2) * math.sqrt(size * 0.42 * 0.58 + t**2 / 4)
    interval = attempts.success_rate(tau_bench).interval
    assert (interval.low, interval.high) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert interval.width > 1.4 * attempts.naive_rate(tau_bench).interval.width


def test_the_naive_interval_is_plain_wilson(tau_bench: TaskCounts) -> None:
    interval = attempts.naive_rate(tau_bench, ci_prob=0.9).interval
    expected = proportion_confint(84, 200, alpha=0.1, method="wilson")
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert interval.kind == "wilson"


def test_clusters_widen_the_interval_and_are_not_modelled_away() -> None:
    successes = [4, 4, 4, 0, 0, 0] * 5
    alone = attempts.success_rate(counts_of(successes, 4))
    unit = np.repeat(np.arange(10), 3).tolist()
    grouped = attempts.success_rate(counts_of(successes, 4, unit))
    assert grouped.interval.width > 1.4 * alone.interval.width
    few = attempts.success_rate(counts_of([4, 4, 1, 4, 4, 4], 4, [0, 0, 1, 1, 2, 2]))
    assert few.interval.kind == "wilson_effective"


def test_splitting_a_label_of_units_changes_nothing(tau_bench: TaskCounts) -> None:
    renamed = counts_of(tau_bench.successes.tolist(), 4, (np.arange(50) * 17 + 3).tolist())
    assert attempts.pass_hat(renamed, 2) == attempts.pass_hat(tau_bench, 2)


@pytest.mark.parametrize("estimand", ["population", "same_tasks"])
@pytest.mark.parametrize(
    ("successes", "tried"),
    [
        ([0] * 5, 4),
        ([4] * 5, 4),
        ([0], 4),
        ([4], 4),
        ([2], 4),
        ([4, 4, 4, 4, 0], 4),
        ([2, 2, 2], 4),
        ([1], 1),
        ([0], 1),
        ([0, 1], 1),
        ([0] * 300, [1, 2, 3] * 100),
    ],
)
def test_extreme_corpora_get_honest_intervals(
    successes: list[int], tried: int | list[int], estimand: str
) -> None:
    counts = counts_of(successes, tried)
    ks = [k for k in (1, 2, 4) if k <= counts.max_attempts]
    figures = [
        attempts.success_rate(counts, estimand=estimand),
        attempts.naive_rate(counts),
        *attempts.pass_hats(counts, ks, estimand=estimand),
        *attempts.pass_ats(counts, ks, estimand=estimand),
    ]
    for estimate in figures:
        if estimate.value is None:
            assert estimand == "same_tasks"
            assert estimate.status is Status.WITHHELD
            assert estimate.reasons
            continue
        interval = estimate.interval
        assert 0 <= interval.low <= estimate.value <= interval.high <= 1
        assert interval.width > 0


def test_one_unit_is_inconclusive_with_a_reason() -> None:
    for counts in (counts_of([3], 4), counts_of([3, 1], 4, [7, 7]), counts_of([1], 1)):
        estimate = attempts.success_rate(counts)
        assert estimate.status is Status.INCONCLUSIVE
        assert "one unit" in estimate.reasons[0]
        assert estimate.interval.width > 0.4
    assert attempts.success_rate(counts_of([3], 4), estimand="same_tasks").status == "supported"


def test_few_values_lean_on_the_beta_binomial_law_and_say_so() -> None:
    successes = [4, 4, 3] + [1] * 10 + [0] * 17
    estimate = attempts.pass_hat(counts_of(successes, 4), 4)
    assert estimate.interval.kind == "wilson_beta_binomial"
    assert "2 tasks with a value above 0" in estimate.reasons[0]
    parts = [
        attempts.pass_hat(counts_of(successes, 4), 4, method=method).interval
        for method in ("wilson_effective", "beta_binomial")
    ]
    assert estimate.interval.low == pytest.approx((parts[0].low + parts[1].low) / 2)
    assert estimate.interval.high == pytest.approx((parts[0].high + parts[1].high) / 2)
    mirrored = attempts.pass_at(counts_of([4 - c for c in successes], 4), 4)
    assert "2 tasks with a value above 0" not in mirrored.reasons[0]
    assert mirrored.interval.low == pytest.approx(1 - estimate.interval.high)


@pytest.mark.parametrize("method", METHODS)
def test_pass_at_mirrors_pass_hat(method: str) -> None:
    counts = counts_of([0, 1, 4, 3, 2, 4, 0, 1], 4)
    hat = attempts.pass_hat(counts.flipped(), 3, method=method, rng=1)
    at = attempts.pass_at(counts, 3, method=method, rng=1)
    assert at.value == pytest.approx(1 - hat.value)
    assert at.interval.low == pytest.approx(1 - hat.interval.high)
    assert at.interval.kind == hat.interval.kind
    assert 0 <= at.interval.low <= at.value <= at.interval.high <= 1


def test_the_bootstrap_is_the_percentile_bootstrap_of_units(tau_bench: TaskCounts) -> None:
    rng = np.random.default_rng(5)
    rates = task_values(tau_bench.successes, tau_bench.attempts, 3)
    by_hand = np.quantile(rates[rng.integers(0, 50, (20_000, 50))].mean(axis=1), [0.025, 0.975])
    interval = attempts.pass_hat(
        tau_bench, 3, method="bootstrap", n_resamples=20_000, rng=5
    ).interval
    # Quantiles are within their Monte Carlo error: sqrt(q (1 - q) / B) over the density there.
    np.testing.assert_allclose((interval.low, interval.high), by_hand, atol=0.01)
    shared = attempts.pass_hats(tau_bench, (3, 4), method="bootstrap", rng=5)
    again = attempts.pass_hats(tau_bench, (3, 4), method="bootstrap", rng=5)
    assert shared == again


def test_the_bootstrap_survives_resamples_without_a_task_that_counts() -> None:
    counts = counts_of([0, 1, 1, 3], [1, 1, 1, 4])
    interval = attempts.pass_hat(counts, 3, method="bootstrap", rng=0).interval
    assert interval.low <= 0.25 <= interval.high


def test_k_beyond_the_attempts_is_withheld(tau_bench: TaskCounts) -> None:
    estimate = attempts.pass_hat(tau_bench, 5)
    assert estimate.value is None
    assert "no task has 5 attempts, the most is 4" in estimate.reasons[0]
    assert attempts.pass_at(tau_bench, 5).status is Status.WITHHELD


def test_same_tasks_needs_two_attempts_at_half_of_the_tasks() -> None:
    ones = attempts.success_rate(counts_of([1, 0, 1], 1), estimand="same_tasks")
    assert ones.status is Status.WITHHELD
    assert "0 of 3 tasks tried twice" in ones.reasons[0]
    half = attempts.success_rate(counts_of([1, 0, 2, 3], [1, 1, 3, 3]), estimand="same_tasks")
    assert half.status is Status.SUPPORTED


def test_same_tasks_is_narrower_when_tasks_differ(tau_bench: TaskCounts) -> None:
    for k in (1, 2, 4):
        same = attempts.pass_hat(tau_bench, k, estimand="same_tasks")
        assert same.estimand == "same_tasks"
        assert same.interval.width < attempts.pass_hat(tau_bench, k).interval.width


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_variance_of_equal_tasks_is_the_enumerated_one(k: int) -> None:
    n, p = 5, 0.6
    law = np.array([math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    v = task_values(np.arange(n + 1), n, k)
    expected = (law @ v**2 - (law @ v) ** 2) / 7
    counts = counts_of([3] * 7, n)
    assert alike_variance(counts, k, np.ones(7), p**k) == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_attempt_variance_is_that_of_running_the_tasks_again(
    k: int, rng: np.random.Generator
) -> None:
    # Many tasks, so that the imagined one does not matter; k <= n / 2 is unbiased, beyond it
    # the variance may only be too large.
    p = rng.beta(0.8, 1.2, 40_000)
    law = np.stack([math.comb(4, c) * p**c * (1 - p) ** (4 - c) for c in range(5)], axis=1)
    v = task_values(np.arange(5), 4, k)
    truth = (law @ v**2 - (law @ v) ** 2).mean() / p.size
    counts = counts_of(rng.binomial(4, p).tolist(), 4)
    ratio = attempt_variance(counts, k, np.ones(p.size)) / truth
    assert ratio == pytest.approx(1, abs=0.04) if k <= 2 else 1 - 0.04 < ratio < 1.5


def test_two_classes_are_found_by_the_moments(rng: np.random.Generator) -> None:
    # p is 0 or .8: the moments of two points with one at 0 determine all later ones.
    p = np.where(rng.random(40_000) < 0.5, 0.0, 0.8)
    counts = counts_of(rng.binomial(4, p).tolist(), 4)
    truth = (p**4 - p**8).mean() / p.size
    assert attempt_variance(counts, 4, np.ones(p.size)) == pytest.approx(truth, rel=0.04)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 2, "estimand": "all"}, "estimand must be one of"),
        ({"k": 2, "method": "jackknife"}, "method must be one of"),
        ({"k": 2, "ci_prob": 1.0}, "ci_prob"),
        ({"k": 2, "estimand": "same_tasks", "method": "bootstrap"}, "resamples tasks"),
    ],
)
def test_wrong_arguments_are_named(
    tau_bench: TaskCounts, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        attempts.pass_hat(tau_bench, **arguments)
    with pytest.raises(ValueError, match="estimand must be one of"):
        attempts.success_rate(tau_bench, estimand="none")


def test_every_histogram_of_four_tasks_is_well_behaved() -> None:
    for bars in itertools.combinations_with_replacement(range(4), 4):
        counts = counts_of(list(bars), 3)
        for estimate in attempts.pass_hats(counts, (1, 2, 3)):
            assert 0 <= estimate.interval.low <= estimate.value <= estimate.interval.high <= 1
            assert estimate.interval.width > 0.2
