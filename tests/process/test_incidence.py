"""Aalen-Johansen curves against fractions, lifelines, enumerated resamples and real logs."""

from __future__ import annotations

import json
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracles.incidence import every_resample, product_limit, split_ties
from process.incidence_runs import assert_sane, estimates_of, random_runs
from sojourn.estimates import Status
from sojourn.process import _incidence_cells, _incidence_kernels
from sojourn.process._incidence_bands import (
    Band,
    effective_wilson,
    quantile_interval,
    sup_half_width,
)
from sojourn.process.incidence import (
    TimeToFinish,
    aalen_johansen,
    bootstrap_incidence,
    fit_incidence,
)
from sojourn.sequences import CENSORED, FAILURE, SUCCESS

CUT_IN_TAU_BENCH = {(33, 0), (2, 1), (9, 2), (9, 3), (46, 3)}

runs_strategy = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(-3, 6)), min_size=1, max_size=40
)


# The bare estimator ---------------------------------------------------------------------------


@given(runs=runs_strategy, longer=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_bare_estimator_is_the_product_limit(runs: list[tuple[int, int, int]], longer: int) -> None:
    duration, event, seed = (list(column) for column in zip(*runs, strict=True))
    horizon = max(duration) + longer
    weights = [abs(s) for s in seed]
    for w in (None, weights) if any(weights) else (None,):
        got = aalen_johansen(duration, event, w, horizon)
        for curve, want in zip(got, product_limit(duration, event, horizon, w), strict=True):
            np.testing.assert_allclose(curve, [float(v) for v in want], rtol=0, atol=1e-13)


def test_bare_estimator_cuts_the_curve_at_a_short_horizon() -> None:
    full, short = (aalen_johansen([1, 2, 2, 5], [1, 0, 2, 1], horizon=h) for h in (None, 2))
    assert np.array_equal(short.success, full.success[:3])
    assert aalen_johansen([], []).success.tolist() == [0.0]
    assert aalen_johansen([3, 4], [1, 2], [0, 0]).failure.tolist() == [0.0] * 5


def test_agrees_with_lifelines(rng: np.random.Generator) -> None:
    lifelines = pytest.importorskip("lifelines")
    runs = random_runs(rng)
    fit = fit_incidence(**runs, rng=0, n_resamples=20)
    times = np.array(split_ties(runs["duration"].tolist(), runs["event"].tolist()))
    for event, curve in ((SUCCESS, fit.success), (FAILURE, fit.failure)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            peer = lifelines.AalenJohansenFitter(calculate_variance=False)
            peer.fit(times, runs["event"], event_of_interest=event)
        density = peer.cumulative_density_.iloc[:, 0]
        want = [density[density.index < d + 2].iloc[-1] for d in range(fit.horizon + 1)]
        np.testing.assert_allclose(curve.value, want, rtol=0, atol=1e-12)


def test_still_running_is_kaplan_meier_of_either_ending(rng: np.random.Generator) -> None:
    lifelines = pytest.importorskip("lifelines")
    runs = random_runs(rng)
    fit = fit_incidence(**runs, rng=0, n_resamples=20)
    peer = lifelines.KaplanMeierFitter().fit(runs["duration"], runs["event"] != CENSORED)
    want = peer.survival_function_at_times(np.arange(fit.horizon + 1))
    np.testing.assert_allclose(fit.still_running, want, rtol=0, atol=1e-12)


def test_one_ending_only_is_kaplan_meier_turned_over() -> None:
    # 5 runs: success at 1, cut at 1, success at 2 (of 3), cut at 3.
    fit = fit_incidence([1, 1, 2, 3, 3], [1, 0, 1, 0, 1], [0, 1, 2, 3, 4], rng=0)
    assert fit.success.value.tolist() == pytest.approx([0, 1 / 5, 1 - 4 / 5 * 2 / 3, 1 - 4 / 15])
    assert fit.failure.value.tolist() == [0.0] * 4


# Real logs ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tau_bench(real_logs: Path) -> dict[str, Any]:
    path = real_logs / "tau-bench" / "gpt-4o-airline.json"
    runs = json.loads(path.read_text(encoding="utf-8"))
    return {
        "duration": [sum(m["role"] == "assistant" for m in run["traj"]) for run in runs],
        "event": [SUCCESS if run["reward"] == 1.0 else FAILURE for run in runs],
        "unit": [run["task_id"] for run in runs],
        "cut": [(run["task_id"], run["trial"]) in CUT_IN_TAU_BENCH for run in runs],
    }


def test_tau_bench_with_limits_as_failures(tau_bench: dict[str, Any]) -> None:
    cut = tau_bench.pop("cut")
    assert sum(cut) == 5
    fit = fit_incidence(**tau_bench, rng=0)
    tau_bench["cut"] = cut
    steps = [3, 5, 8, 10, 12, 15, 20, 25, 30]
    within = [0.010, 0.090, 0.210, 0.255, 0.310, 0.345, 0.415, 0.420, 0.420]
    ended = [0.015, 0.145, 0.350, 0.440, 0.580, 0.715, 0.910, 0.955, 1.0]
    # Whole counts over 200: equal to the last bit, since nobody is cut.
    assert fit.success.value[steps].tolist() == within[: len(steps)]
    np.testing.assert_allclose(1 - fit.still_running[steps], ended, rtol=0, atol=1e-15)
    assert (fit.n_runs, fit.n_units, fit.n_censored, fit.horizon) == (200, 50, 0, 30)
    assert fit.supported_to == 22
    assert fit.success.n_supported == fit.failure.n_supported == 23
    assert fit.restricted_mean.value == pytest.approx(np.mean(tau_bench["duration"]), abs=1e-12)
    assert fit.median.value == np.median(tau_bench["duration"])
    assert fit.point(22).status is Status.SUPPORTED
    assert fit.point(23).status is Status.INCONCLUSIVE
    assert fit.units_at_risk[[22, 23]].tolist() == [10, 9]
    assert fit.point(23).reasons[0].startswith("only 9 tasks")
    beyond = fit.point(31)
    assert beyond.status is Status.WITHHELD
    assert "beyond the longest observed run" in beyond.reasons[0]
    assert_sane(fit)


def test_tau_bench_with_limits_censored(tau_bench: dict[str, Any]) -> None:
    event = np.where(tau_bench["cut"], CENSORED, tau_bench["event"])
    fit = fit_incidence(tau_bench["duration"], event, tau_bench["unit"], rng=0)
    assert fit.n_censored == 5
    assert fit.success.at(30) == 0.420
    assert fit.failure.at(30) == 0.555
    assert fit.still_running[30] == pytest.approx(0.025, abs=1e-15)
    assert fit.supported_to == 22
    # Those who succeed after the cut would do so beyond the horizon.
    assert fit.worst_best.high[30] == 0.420
    assert fit.restricted_mean.value == pytest.approx(np.mean(tau_bench["duration"]), abs=1e-12)
    assert fit.restricted_mean.status is Status.SUPPORTED
    assert_sane(fit)


def test_mint_budget_of_five(real_logs: Path) -> None:
    path = real_logs / "mint-bench/gpt-3.5-turbo-0613/F=None/max5_p2+tool+cd/reasoning/gsm8k"
    lines = (path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    duration = [sum(m["role"] == "assistant" for m in r["state"]["history"][1:]) for r in runs]
    ends = [r["state"]["terminate_reason"] for r in runs]
    event = [{"task_success": SUCCESS, "max_steps": CENSORED}.get(end, FAILURE) for end in ends]
    fit = fit_incidence(duration, event, np.arange(len(runs)), rng=0)
    assert fit.n_runs == 48
    assert fit.n_censored == 3
    assert np.rint(np.diff(fit.success.value) * 48).tolist() == [2, 4, 7, 5, 3]
    assert fit.success.value[1:] * 48 == pytest.approx([2, 6, 13, 18, 21], abs=1e-12)


# Resampling -----------------------------------------------------------------------------------


def test_bootstrap_has_the_law_of_all_resamples() -> None:
    duration, event, unit = [1, 2, 2, 3, 1, 4], [1, 0, 2, 1, 2, 1], [7, 7, -1, -1, 3, 3]
    law = np.array(every_resample(duration, event, unit, 4), dtype=float)
    assert len(law) == 27
    n = 40_000
    drawn = bootstrap_incidence(duration, event, unit, n, rng=5).success
    # Mean and every moment of the law: the share of replicates at or below each value.
    np.testing.assert_allclose(
        drawn.mean(axis=0), law.mean(axis=0), rtol=0, atol=4 * law.std(axis=0).max() / n**0.5
    )
    for d in range(5):
        for value in np.unique(law[:, d]):
            want = np.mean(law[:, d] <= value + 1e-9)
            got = np.mean(drawn[:, d] <= value + 1e-9)
            assert abs(got - want) <= 4 * math.sqrt(want * (1 - want) / n) + 1e-12


def test_kernel_equals_its_python_twin(rng: np.random.Generator) -> None:
    runs = random_runs(rng, n_units=8)
    stratum = np.where(runs["unit"] % 2, 5, 9)
    cells = _incidence_cells.make_cells(_incidence_cells.check_runs(**runs, stratum=stratum))
    found = []
    for call in (
        _incidence_kernels.resampled_curves,
        _incidence_kernels.resampled_curves.py_func,  # type: ignore[attr-defined]
    ):
        out = np.empty((2, 7, cells.knots.size))
        stream = np.random.default_rng(3)
        call(stream, cells.row_offsets, cells.row_cell, cells.row_count, cells.table(), *out)
        found.append(out)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-14)


def test_replicate_is_the_bare_estimator_on_drawn_weights(rng: np.random.Generator) -> None:
    runs = random_runs(rng, n_units=6)
    # Few different steps, so that runs of a unit share cells.
    runs["duration"] %= 3
    drawn = bootstrap_incidence(**runs, n_resamples=5, rng=11)
    stream = np.random.default_rng(11).spawn(1)[0]
    for row in range(5):
        times = np.bincount((stream.random(6) * 6).astype(int), minlength=6)
        want = aalen_johansen(runs["duration"], runs["event"], times[runs["unit"]])
        np.testing.assert_allclose(drawn.success[row], want.success, rtol=0, atol=1e-13)
        np.testing.assert_allclose(drawn.failure[row], want.failure, rtol=0, atol=1e-13)


def test_same_seed_same_answer_for_any_number_of_workers(rng: np.random.Generator) -> None:
    runs = random_runs(rng)
    found = []
    for workers in (1, 2, 5):
        with ThreadPoolExecutor(workers) as pool:
            found.append(fit_incidence(**runs, rng=4, executor=pool))
    found.append(fit_incidence(**runs, rng=4))
    for other in found[1:]:
        assert other.to_dict() == found[0].to_dict()
    assert fit_incidence(**runs, rng=5).to_dict() != found[0].to_dict()


@given(runs=runs_strategy, seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_order_of_runs_and_names_of_units_do_not_matter(
    runs: list[tuple[int, int, int]], seed: int
) -> None:
    duration, event, unit = (np.array(column) for column in zip(*runs, strict=True))
    fit = fit_incidence(duration, event, unit, rng=seed, n_resamples=30)
    order = np.random.default_rng(seed).permutation(len(runs))
    moved = fit_incidence(
        duration[order], event[order], unit[order] * 10 + 1, rng=seed, n_resamples=30
    )
    assert moved.to_dict() == fit.to_dict()
    assert_sane(fit)
    swapped = fit_incidence(duration, np.array([0, 2, 1])[event], unit, rng=seed, n_resamples=30)
    assert np.array_equal(swapped.failure.value, fit.success.value)
    assert np.array_equal(swapped.failure.high, fit.success.high)


# Bands and times ------------------------------------------------------------------------------


def test_effective_wilson_bounds_solve_their_equation() -> None:
    from scipy.stats import t as student

    value, se = np.array([0.1, 0.35, 0.6]), np.array([0.03, 0.05, 0.2])
    band = effective_wilson(value, se, uncut=np.ones(3), n_units=40, n_runs=160, ci_prob=0.9)
    size = np.clip(value * (1 - value) / se**2, 40, 160)
    assert size[2] == 40
    assert 40 < size[0] < 160
    quantile = student.ppf(0.95, 39)
    for bound in band:
        want = quantile**2 * bound * (1 - bound) / size
        np.testing.assert_allclose((value - bound) ** 2, want, rtol=1e-10)


def test_cutting_lowers_the_least_effective_size() -> None:
    value, se = np.array([0.5]), np.array([0.4])
    bands = [
        effective_wilson(value, se, uncut=np.array([g]), n_units=40, n_runs=80, ci_prob=0.95)
        for g in (1.0, 0.5)
    ]
    assert bands[1].low[0] < bands[0].low[0]
    # units G (1 - R) / (1 - G R) = 40 * .25 / .75 = 13.3, by Wilson's equation at that size.
    from scipy.stats import t as student

    low = bands[1].low[0]
    size = student.ppf(0.975, 39) ** 2 * low * (1 - low) / (0.5 - low) ** 2
    assert size == pytest.approx(40 / 3, rel=1e-9)


def test_sup_half_width_is_the_quantile_of_the_supremum() -> None:
    value = np.array([0.2, 0.5])
    drawn = np.column_stack([np.full(99, 0.2), 0.5 - np.arange(1, 100) / 1000])
    # 95th of 99 sorted suprema is .095; 10^9 units need no correction.
    assert sup_half_width(value, drawn, 10**9, 0.95) == pytest.approx(0.095, rel=1e-6)
    assert sup_half_width(value, drawn, 5, 0.95) == pytest.approx(
        0.095 * 2.7764451 / 1.9599640 * math.sqrt(5 / 4), rel=1e-6
    )


def test_interval_of_a_quantile_reads_the_band() -> None:
    knots = np.array([0, 2, 5, 9])
    band = Band(np.array([0.0, 0.2, 0.4, 0.6]), np.array([0.1, 0.5, 0.7, 0.95]))
    interval, is_open = quantile_interval(band, knots, 0.5, top=9, ci_prob=0.95)
    assert (interval.low, interval.high, is_open) == (2, 9, False)
    interval, is_open = quantile_interval(band, knots, 0.9, top=9, ci_prob=0.95)
    assert (interval.low, interval.high, is_open) == (9, 9, True)


def test_band_widens_when_attempts_agree(rng: np.random.Generator) -> None:
    outcome = rng.integers(1, 3, 40)
    same = fit_incidence(np.full(160, 3), np.repeat(outcome, 4), np.repeat(np.arange(40), 4), rng=1)
    mixed = fit_incidence(np.full(160, 3), np.repeat(outcome, 4), np.arange(160), rng=1)
    widths = [fit.success.high[3] - fit.success.low[3] for fit in (same, mixed)]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.1)


def test_times_without_cuts_are_those_of_the_sample(rng: np.random.Generator) -> None:
    runs = random_runs(rng, n_units=50)
    runs["event"] = np.where(runs["event"] == CENSORED, SUCCESS, runs["event"])
    fit = fit_incidence(**runs, rng=0)
    assert fit.restricted_mean.value == pytest.approx(runs["duration"].mean())
    ordered = np.sort(runs["duration"])
    assert fit.median.value == ordered[math.ceil(0.5 * ordered.size) - 1]
    assert fit.p90.value == ordered[math.ceil(0.9 * ordered.size) - 1]
    won = np.sort(runs["duration"][runs["event"] == SUCCESS])
    assert fit.given_success.restricted_mean.value == pytest.approx(won.mean())
    assert fit.given_success.median.value == won[math.ceil(0.5 * won.size) - 1]
    sem = runs["duration"].reshape(50, 4).mean(axis=1).std(ddof=1) / math.sqrt(50)
    half = fit.restricted_mean.interval.width / 2
    assert half == pytest.approx(2.0096 * sem, rel=4 / math.sqrt(2 * 999))


def test_mean_time_of_success_has_the_error_of_a_ratio(rng: np.random.Generator) -> None:
    runs = random_runs(rng, n_units=60)
    runs["event"] = np.where(runs["event"] == CENSORED, FAILURE, runs["event"])
    estimate = fit_incidence(**runs, rng=0).given_success.restricted_mean
    won = runs["event"] == SUCCESS
    apart = np.where(won, runs["duration"] - estimate.value, 0).reshape(60, 4).sum(axis=1)
    error = math.sqrt(60 / 59 * np.sum(apart**2)) / won.sum()
    n_units = np.unique(runs["unit"][won]).size
    assert n_units == 48
    # The linearised error is good to about 1 / n_units, the bootstrap to 1 / sqrt(2 * 999).
    half = estimate.interval.width / 2
    assert half == pytest.approx(2.0117 * error, rel=1 / 48 + 4 / math.sqrt(2 * 999))


def test_few_tasks_with_a_success_make_its_time_inconclusive() -> None:
    fit = fit_incidence([4] * 20 + [2] * 20, [1] * 3 + [2] * 37, np.arange(40), rng=0)
    assert fit.restricted_mean.status is Status.SUPPORTED
    assert fit.given_success.restricted_mean.value == 4
    assert fit.given_success.restricted_mean.status is Status.INCONCLUSIVE
    assert "only 3 tasks" in fit.given_success.median.reasons[0]


def test_mean_is_doubtful_where_early_cuts_leave_few_at_risk() -> None:
    duration = [2] * 20 + [5] * 40 + list(range(6, 40, 4))
    event = [1] * 20 + [0] * 40 + [2] * 9
    fit = fit_incidence(duration, event, np.arange(69), rng=0)
    assert fit.restricted_mean.status is Status.INCONCLUSIVE
    assert "of the mean" in fit.restricted_mean.reasons[0]
    # Without cuts the same tail is a plain mean of all runs.
    whole = fit_incidence(duration, np.ones(69), np.arange(69), rng=0)
    assert whole.restricted_mean.status is Status.SUPPORTED


def test_quantile_not_reached_is_withheld() -> None:
    fit = fit_incidence([1] * 12 + [5] * 28, [1] * 12 + [0] * 28, np.arange(40), rng=0)
    assert fit.median.status is Status.WITHHELD
    assert "0.300" in fit.median.reasons[0]
    assert fit.given_success.median.value == 1
    assert fit.restricted_mean.value == pytest.approx(1 + 4 * 0.7)


def test_interval_of_a_quantile_may_end_at_the_horizon() -> None:
    fit = fit_incidence([1] * 11 + [5] * 9, [1] * 11 + [0] * 9, np.arange(20), rng=0)
    assert fit.median.value == 1
    assert fit.median.interval is not None
    assert fit.median.interval.high == 5
    assert any("longest observed run" in reason for reason in fit.median.reasons)


def test_worst_and_best_for_cut_runs() -> None:
    fit = fit_incidence([1, 2, 2, 4], [1, 0, 2, 1], [0, 1, 2, 3], rng=0)
    assert fit.worst_best.low.tolist() == [0, 0.25, 0.25, 0.25, 0.5]
    assert fit.worst_best.high.tolist() == [0, 0.25, 0.25, 0.5, 0.75]
    assert np.all(fit.success.value <= fit.worst_best.high)
    assert np.all(fit.success.value >= fit.worst_best.low)


# Edges ----------------------------------------------------------------------------------------


def test_no_runs() -> None:
    fit = fit_incidence([], [], [], rng=0)
    assert fit.point(0).status is Status.WITHHELD
    assert fit.restricted_mean.reasons == ("no runs",)
    assert fit.supported_to == -1
    assert_sane(fit)
    with pytest.raises(ValueError, match="no runs"):
        bootstrap_incidence([], [], [])


@pytest.mark.parametrize(
    ("duration", "event", "unit"),
    [
        ([3], [1], [0]),
        ([3], [0], [0]),
        ([0], [2], [0]),
        ([0, 0, 0], [0, 0, 0], [0, 1, 2]),
        ([0, 0, 0], [1, 2, 0], [0, 1, 2]),
        ([4] * 20, [1] * 20, list(range(20))),
        ([4] * 20, [2] * 20, list(range(20))),
        (list(range(20)), [0] * 20, list(range(20))),
        (list(range(20)), [1] * 20, [5] * 20),
    ],
    ids=[
        "one",
        "cut",
        "zero",
        "all-cut-at-0",
        "zeros",
        "success",
        "failure",
        "cuts",
        "unit",
    ],
)
def test_edges_are_sane(duration: list[int], event: list[int], unit: list[int]) -> None:
    fit = fit_incidence(duration, event, unit, rng=0, n_resamples=99)
    assert_sane(fit)
    if len(set(unit)) == 1:
        assert np.all((fit.success.low == 0) & (fit.success.high == 1))
        for estimate in estimates_of(fit):
            assert estimate.status is not Status.SUPPORTED
        assert "one task" in fit.point(0).reasons[0]


def test_all_success_has_an_honest_lower_bound() -> None:
    fit = fit_incidence([4] * 20, [1] * 20, np.arange(20), rng=0)
    t = 2.093024
    assert fit.success.low[4] == pytest.approx(20 / (20 + t * t), rel=1e-5)
    assert fit.success.high[4] == 1
    assert fit.failure.high[4] == pytest.approx(t * t / (20 + t * t), rel=1e-5)
    assert isinstance(fit.given_success, TimeToFinish)
    assert fit.restricted_mean.value == 4


def test_where_nothing_succeeded_yet_only_units_count() -> None:
    # Hard tasks fail at step 2, easy ones (unseen so far at step 1) succeed at step 3, all
    # attempts alike: at d = 1 eighty runs say no more than their twenty tasks.
    hard = np.repeat(np.arange(20) < 10, 4)
    curves = fit_incidence(
        np.where(hard, 2, 3), np.where(hard, 2, 1), np.repeat(np.arange(20), 4), rng=1
    )
    t = stats.t.ppf(0.975, 19)
    early = curves.point(1)
    assert early.value == 0.0
    assert early.interval is not None
    assert early.interval.high == pytest.approx(t * t / (20 + t * t))


def test_cuts_at_a_step_do_not_weaken_that_step() -> None:
    fit = fit_incidence([4] * 20, [0] * 20, np.arange(20), rng=0)
    t = 2.093024
    # All twenty were seen not to succeed at step 4.
    assert fit.success.high[4] == pytest.approx(t * t / (20 + t * t), rel=1e-5)


def test_very_long_runs_are_cut_and_said_so() -> None:
    fit = fit_incidence([1, 10**12], [1, 1], [0, 1], rng=0, n_resamples=20)
    assert fit.horizon == 100_000
    assert fit.n_censored == 1
    assert fit.success.at(99_999) == 0.5
    assert fit.point(100_000).value == 0.5
    assert fit.restricted_mean.value == pytest.approx(50_000.5)
    assert any("100000" in reason for reason in fit.reasons)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, -2], [1, 1], [0, 1]), "negative; run 1 has -2"),
        (([1, 2], [1, 3], [0, 1]), "event must be"),
        (([1, 2], [1], [0, 1]), "one value a run"),
        (([1.5, 2], [1, 1], [0, 1]), "whole numbers"),
        (([[1, 2]], [[1, 1]], [[0, 1]]), "1 dimension"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_incidence(*arguments)


@pytest.mark.parametrize("option", [{"ci_prob": 1.0}, {"n_resamples": 0}, {"min_units_at_risk": 0}])
def test_bad_options_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        fit_incidence([1], [1], [0], **option)


def test_point_checks_its_arguments() -> None:
    fit = fit_incidence([1, 2], [1, 2], [0, 1], rng=0, n_resamples=20)
    with pytest.raises(ValueError, match="negative"):
        fit.point(-1)
    with pytest.raises(ValueError, match="success or failure"):
        fit.point(1, outcome="cut")
