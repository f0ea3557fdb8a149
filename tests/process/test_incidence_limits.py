"""Curves under several step limits: how strata are combined, and whether limits tell of runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oracles.incidence import stratified
from process.incidence_runs import assert_sane
from sojourn.estimates import Status
from sojourn.process import _incidence_kernels
from sojourn.process.incidence import (
    aalen_johansen,
    fit_incidence,
)
from sojourn.sequences import CENSORED


def limited(rng: np.random.Generator, n_units: int, informative: bool) -> dict[str, Any]:
    """Four runs a unit, cut at 4 or 10 steps; easy tasks have the low limit if informative."""
    unit = np.repeat(np.arange(n_units), 4)
    limit = np.where(unit % 2, 10, 4)
    pace = np.where(informative & (limit == 4), 0.35, 0.15)
    duration = rng.geometric(pace)
    event = rng.integers(1, 3, unit.size)
    return {
        "duration": np.minimum(duration, limit),
        "event": np.where(duration > limit, CENSORED, event),
        "unit": unit,
        "stratum": limit,
    }


def test_strata_are_combined_by_share_and_borrow_beyond_the_lowest_limit(
    rng: np.random.Generator,
) -> None:
    runs = limited(rng, 40, informative=True)
    extra = rng.random(runs["event"].size) < 0.1
    runs["event"] = np.where(extra, CENSORED, runs["event"])
    fit = fit_incidence(**runs, rng=0, n_resamples=99)
    columns = [runs[name].tolist() for name in ("duration", "event", "stratum")]
    want = [float(v) for v in stratified(*columns, 10)]
    np.testing.assert_allclose(fit.success.value, want, rtol=0, atol=1e-13)
    assert fit.success.n_supported == 5
    assert fit.supported_to == 4
    assert fit.point(4).status is Status.SUPPORTED
    assert fit.point(5).status is Status.INCONCLUSIVE
    assert any("limits" in reason for reason in fit.point(5).reasons)
    assert [limit for limit, _ in fit.by_stratum] == [4, 10]
    low = runs["stratum"] == 4
    alone = aalen_johansen(runs["duration"][low], runs["event"][low])
    assert np.array_equal(fit.by_stratum[0][1].success.value, alone.success)
    assert fit.by_stratum[1][1].supported_to > 4
    assert_sane(fit)


def test_limits_cut_runs_only_so_strata_and_pooling_agree(rng: np.random.Generator) -> None:
    runs = limited(rng, 40, informative=True)
    fit = fit_incidence(**runs, rng=0, n_resamples=99)
    pooled = aalen_johansen(runs["duration"], runs["event"])
    np.testing.assert_allclose(fit.success.value, pooled.success, rtol=0, atol=1e-13)


def test_support_goes_on_where_all_runs_under_the_low_limit_have_ended() -> None:
    unit = np.arange(60)
    limit = np.where(unit % 2, 20, 3)
    duration = np.where(unit % 2, unit % 7 + 1, unit % 3 + 1)
    fit = fit_incidence(duration, unit % 2 + 1, unit, stratum=limit, rng=0, n_resamples=50)
    assert fit.n_censored == 0
    assert fit.supported_to > 3


def test_many_limits_are_grouped_and_said_so(rng: np.random.Generator) -> None:
    runs = limited(rng, 60, informative=False)
    n = runs["unit"].size
    fit = fit_incidence(
        runs["duration"], runs["event"], runs["unit"], stratum=np.arange(n), rng=0, n_resamples=20
    )
    assert [limit for limit, _ in fit.by_stratum] == list(range(0, n, n // 20))
    assert [part.n_runs for _, part in fit.by_stratum] == [n // 20] * 20
    assert any("240 different step limits" in reason for reason in fit.reasons)


def test_no_declared_limit_is_the_highest(rng: np.random.Generator) -> None:
    runs = limited(rng, 40, informative=False)
    named = fit_incidence(**runs, rng=0, n_resamples=50)
    runs["stratum"] = np.where(runs["stratum"] == 10, -1, 4)
    open_ended = fit_incidence(**runs, rng=0, n_resamples=50)
    assert [limit for limit, _ in open_ended.by_stratum] == [4, -1]
    assert open_ended.limit_check == named.limit_check
    assert np.array_equal(open_ended.success.value, named.success.value)


def test_limit_check_finds_informative_limits_and_only_those() -> None:
    pvalues: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(12):
        for informative in (True, False):
            runs = limited(np.random.default_rng(seed), 60, informative)
            check = fit_incidence(**runs, rng=seed, n_resamples=199).limit_check
            assert check is not None
            assert check.up_to == 4
            assert check.n_low + check.n_high == 240
            pvalues[informative].append(check.p_value)
    assert np.median(pvalues[True]) <= 0.01
    assert 0.2 < np.median(pvalues[False]) < 0.8


def test_limit_check_inside_tasks_is_not_misled_by_their_difficulty() -> None:
    rng = np.random.default_rng(2)
    unit = np.repeat(np.arange(60), 6)
    limit = np.where(np.arange(360) % 6 < np.where(unit % 2, 4, 2), 10, 4)
    duration = rng.geometric(np.where(unit % 2, 0.15, 0.4))
    event = np.where(duration > limit, CENSORED, rng.integers(1, 3, 360))
    runs = {"duration": np.minimum(duration, limit), "event": event, "stratum": limit}
    inside = fit_incidence(unit=unit, **runs, rng=0, n_resamples=199).limit_check
    blind = fit_incidence(unit=np.arange(360), **runs, rng=0, n_resamples=199).limit_check
    assert inside is not None
    assert blind is not None
    assert inside.p_value > 0.05
    assert blind.p_value < 0.05
    # Where the limit itself slows the runs of a task down, the runs of the task show it.
    runs["duration"] = np.minimum(rng.geometric(np.where(limit == 4, 0.4, 0.15)), limit)
    slowed = fit_incidence(unit=unit, **runs, rng=0, n_resamples=199).limit_check
    assert slowed is not None
    assert slowed.p_value < 0.01
    assert slowed.failure_ratio is not None
    assert slowed.failure_ratio < 0.9


def test_shuffles_draw_every_order_inside_groups_equally_often() -> None:
    n = 12_000
    out = np.empty((n, 1))
    # The score writes the order of the labels 1, 2, 3 as digits; the group of one stays.
    score = np.array([[100.0], [10.0], [1.0], [1000.0]])
    _incidence_kernels.permuted_scores(
        np.random.default_rng(8), np.array([0, 3, 4]), np.array([1.0, 2.0, 3.0, 4.0]), score, out
    )
    orders, order = np.unique(out, return_inverse=True)
    assert orders.tolist() == [4123, 4132, 4213, 4231, 4312, 4321]
    # One shuffle starts from the last: all pairs in a row, so that no order leads to another.
    pairs = np.bincount(6 * order.ravel()[:-1] + order.ravel()[1:], minlength=36)
    assert np.all(np.abs(pairs - n / 36) < 4 * math.sqrt(n / 36))


def test_limit_check_counts_every_permutation() -> None:
    # Two units of one run: the statistic takes one value up to sign, so that p is 1.
    fit = fit_incidence([1, 5], [1, 1], [0, 1], stratum=[3, 9], rng=0, n_resamples=50)
    assert fit.limit_check is not None
    assert fit.limit_check.p_value == 1.0
    assert fit.limit_check.up_to == 3
    assert fit.limit_check.success_ratio == 0.0
    assert fit_incidence([1, 5], [1, 1], [0, 1], stratum=[3, 3], rng=0).limit_check is None
    # The same inside a unit, beside one whose runs cannot be exchanged.
    runs = ([1, 3, 2], [1, 0, 1], [0, 0, 1])
    check = fit_incidence(*runs, stratum=[9, 3, 9], rng=0, n_resamples=50).limit_check
    assert check is not None
    assert check.p_value == 1.0
