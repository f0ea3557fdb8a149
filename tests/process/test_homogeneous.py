"""Counting and fitting: hand counts, the identity of R_inf and the pass rate, and the edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import gammaln, softmax

from oracles.chains import count_by_hand, random_chain
from oracles.runs import EDGES, runs
from sojourn.estimates import Status
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import TraceProcess
from sojourn.process.counting import (
    TransitionCounts,
    count_batches,
    count_by_unit,
    count_transitions,
)
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences


def random_runs(rng: np.random.Generator, n_runs: int, m: int, *, cut: float) -> StateSequences:
    paths = [rng.integers(0, m, size=rng.integers(0, 9)).tolist() for _ in range(n_runs)]
    done = rng.choice([SUCCESS, FAILURE], size=n_runs)
    events = np.where(rng.random(n_runs) < cut, CENSORED, done).tolist()
    return runs(paths, events, rng.integers(0, 5, size=n_runs).tolist(), n_states=m)


def check_against_hand(counts: TransitionCounts, hand: dict[str, Any]) -> None:
    np.testing.assert_array_equal(counts.starts, hand["starts"])
    np.testing.assert_array_equal(counts.transitions, hand["transitions"])
    np.testing.assert_array_equal(counts.to_success, hand["to_success"])
    np.testing.assert_array_equal(counts.to_failure, hand["to_failure"])
    np.testing.assert_array_equal(counts.cut, hand["cut"])
    np.testing.assert_array_equal(counts.table[0, -3:], hand["empty"][[SUCCESS, FAILURE, CENSORED]])


@pytest.mark.parametrize("seed", range(5))
def test_counts_equal_those_of_a_plain_loop(seed: int) -> None:
    sequences = random_runs(np.random.default_rng(seed), 40, 4, cut=0.3)
    counts = count_transitions(sequences)
    check_against_hand(counts, count_by_hand(sequences))
    assert counts.n_runs == 40
    assert counts.n_steps == sequences.states.size
    assert counts.longest == sequences.lengths.max()


@pytest.mark.parametrize("dense_cells", [20_000_000, 0])
def test_unit_counts_add_up_to_those_of_the_resampled_runs(
    dense_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn.process.counting._DENSE_CELLS", dense_cells)
    sequences = random_runs(np.random.default_rng(3), 30, 3, cut=0.3)
    units = count_by_unit(sequences)
    assert units.n_units == np.unique(sequences.unit).size
    weights = np.array([[1.0] * units.n_units, [2.0] + [0.0] * (units.n_units - 2) + [1.0]])
    tables = units.resample(weights)
    np.testing.assert_array_equal(tables[0], count_transitions(sequences).table)
    first, last = np.unique(sequences.unit)[[0, -1]]
    chosen = np.concatenate([np.flatnonzero(sequences.unit == u) for u in (first, first, last)])
    np.testing.assert_array_equal(tables[1], count_transitions(sequences.select(chosen)).table)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_batches_of_any_size_give_the_same_counts(size: int) -> None:
    sequences = random_runs(np.random.default_rng(8), 60, 4, cut=0.3)
    run = np.repeat(np.arange(60), sequences.lengths)
    batches = (
        (run[k : k + size], sequences.states[k : k + size]) for k in range(0, run.size, size)
    )
    counts = count_batches(batches, event=sequences.event, state_names=sequences.state_names)
    whole = count_transitions(sequences)
    np.testing.assert_array_equal(counts.table, whole.table)
    assert counts.longest == whole.longest


def test_batches_out_of_order_or_out_of_range_are_refused_with_the_row() -> None:
    event = np.array([SUCCESS, SUCCESS], dtype=np.int8)
    good = (np.array([0, 0]), np.array([0, 1]))
    for bad in (([1, 0], [0, 0]), ([2, 2], [0, 0]), ([0, 0], [1, 5])):
        batch = (np.array(bad[0]), np.array(bad[1]))
        with pytest.raises(ValueError, match=r"step row [23]"):
            count_batches([good, batch], event=event, state_names=("a", "b"))
    with pytest.raises(ValueError, match="2 runs but 1"):
        count_batches([(good[0], good[1][:1])], event=event, state_names=("a", "b"))


@given(seed=st.integers(0, 10_000), m=st.integers(1, 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_unsmoothed_on_complete_runs_success_ever_is_the_pass_rate(seed: int, m: int) -> None:
    sequences = random_runs(np.random.default_rng(seed), 25, m, cut=0.0)
    fit = fit_homogeneous(sequences, smoothing="none")
    assert fit.success_ever.value == pytest.approx(np.mean(sequences.event == SUCCESS), abs=1e-12)
    assert fit.mean_steps.value == pytest.approx(sequences.lengths.mean(), abs=1e-11)
    assert fit.unidentified == ()


def test_the_published_rule_adds_one_to_every_cell() -> None:
    fit = fit_homogeneous(
        runs([[0, 1], [0], [0, 0, 1]], [SUCCESS, FAILURE, SUCCESS]), smoothing="published"
    )
    # Row a: a 1, b 2, success 0, failure 1, and one more in each of 4 cells; row b: success 2.
    np.testing.assert_allclose(fit.chain.transient, [[2 / 8, 3 / 8], [1 / 6, 1 / 6]])
    np.testing.assert_allclose(fit.chain.to_success, [1 / 8, 3 / 6])
    np.testing.assert_allclose(fit.chain.to_failure, [2 / 8, 1 / 6])
    np.testing.assert_allclose(fit.chain.initial, [1.0, 0.0])
    np.testing.assert_allclose(fit.prior_share, [0.5, 4 / 6])


def test_shrinkage_draws_each_row_to_the_mean_row() -> None:
    sequences = runs([[0, 1], [0], [0, 0, 1]], [SUCCESS, FAILURE, SUCCESS])
    fit = fit_homogeneous(sequences, kappa=0.5, allowed=np.ones((2, 4), dtype=bool))
    mean_row = np.array([1, 2, 2, 1]) / 6
    rows = np.array(
        [
            (np.array([1, 2, 0, 1]) + 0.5 * mean_row) / 4.5,
            (np.array([0, 0, 2, 0]) + 0.5 * mean_row) / 2.5,
        ]
    )
    np.testing.assert_allclose(fit.chain.transient, rows[:, :2])
    np.testing.assert_allclose(fit.chain.to_success, rows[:, 2])
    np.testing.assert_allclose(fit.chain.to_failure, rows[:, 3])
    np.testing.assert_allclose(fit.prior_share, [0.5 / 4.5, 0.5 / 2.5])


def test_structural_zeros_stay_zero() -> None:
    # 60 visits to b never went on to a, though the mean row goes there in over a third of steps.
    paths = [[0, 0, 1]] * 60
    fit = fit_homogeneous(runs(paths, [SUCCESS, FAILURE] * 30))
    assert fit.chain.transient[1, 0] == 0.0
    few = fit_homogeneous(runs(paths[:4], [SUCCESS, FAILURE] * 2))
    assert few.chain.transient[1, 0] > 0.0
    mask = np.array([[True, True, False, False], [False, False, True, True]])
    told = fit_homogeneous(runs(paths[:4], [SUCCESS, FAILURE] * 2), allowed=mask)
    assert told.chain.transient[1].tolist() == [0.0, 0.0]
    assert told.chain.to_success[0] == 0.0


def test_empirical_bayes_maximises_the_dirichlet_multinomial_likelihood() -> None:
    rng = np.random.default_rng(5)
    base, kappa = np.array([0.3, 0.3, 0.2, 0.2]), 8.0
    chain = random_chain(rng, 2)
    rows = rng.dirichlet(kappa * base, size=2)
    chain |= {"transient": rows[:, :2], "to_success": rows[:, 2], "to_failure": rows[:, 3]}
    sequences = AbsorbingChain(**chain).simulate(400, rng=rng)
    fit = fit_homogeneous(sequences, kappa="empirical_bayes")
    events = fit.counts.table[1:, :4]
    grid = np.exp(np.linspace(np.log(0.01), np.log(1e4), 2000))
    mean_row = events.sum(axis=0) / events.sum()
    value = [
        np.sum(gammaln(k) - gammaln(k + events.sum(axis=1)))
        + np.sum(gammaln(k * mean_row + events) - gammaln(k * mean_row))
        for k in grid
    ]
    assert fit.prior.kappa == pytest.approx(grid[int(np.argmax(value))], rel=0.01)


def test_what_a_cut_run_tells_of_its_last_step() -> None:
    # State a: 3 moves to b, 1 failure, and 2 cuts; then b always succeeds.
    paths = [[0, 1]] * 3 + [[0]] * 3
    sequences = runs(paths, [SUCCESS] * 3 + [FAILURE, CENSORED, CENSORED])
    unseen = fit_homogeneous(sequences, smoothing="none", cut_step="unseen")
    assert unseen.chain.transient[0, 1] == pytest.approx(3 / 4)
    survived = fit_homogeneous(sequences, smoothing="none")
    assert survived.chain.transient[0, 1] == pytest.approx(5 / 6)
    assert survived.chain.to_failure[0] == pytest.approx(1 / 6)


def test_survived_is_the_maximum_of_its_likelihood() -> None:
    sequences = random_runs(np.random.default_rng(4), 80, 2, cut=0.4)
    fit = fit_homogeneous(sequences, smoothing="none", cut_step="survived")
    events, cut = fit.counts.table[1, :4].astype(float), float(fit.counts.table[1, 4])

    def loss(logits: np.ndarray) -> float:
        p = softmax(logits)
        return -float(events @ np.log(p) + cut * np.log(p[:2].sum()))

    best = softmax(minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x)
    np.testing.assert_allclose(np.append(fit.chain.transient[0], best[2:]), best, atol=1e-5)
    assert fit.chain.to_success[0] == pytest.approx(best[2], abs=1e-5)


def test_a_cap_is_ignorable_only_when_its_last_step_counts_as_survived() -> None:
    # One state, exits .2 + .1 a step, all runs capped at 3 steps.
    chain = AbsorbingChain(
        transient=[[0.7]], to_success=[0.2], to_failure=[0.1], initial=[1.0], state_names=("a",)
    )
    sequences = chain.simulate(40_000, rng=2, max_steps=3)
    n = np.count_nonzero(sequences.lengths) * 2.19
    tolerance = 4 * np.sqrt(0.3 * 0.7 / n)
    survived = fit_homogeneous(sequences, smoothing="none")
    assert survived.chain.transient[0, 0] == pytest.approx(0.7, abs=tolerance)
    unseen = fit_homogeneous(sequences, smoothing="none", cut_step="unseen")
    # Expected: moves .7 + .49 a run against exits .3 (1 + .7 + .49).
    assert unseen.chain.transient[0, 0] == pytest.approx(1.19 / (1.19 + 0.657), abs=tolerance)


def test_states_without_an_observed_way_out_are_named_and_withhold_the_far_figures() -> None:
    sequences = runs([[0, 0], [0, 1, 1], [0]], [SUCCESS, CENSORED, FAILURE])
    for smoothing in ("shrinkage", "published", "none"):
        fit = fit_homogeneous(sequences, smoothing=smoothing)
        assert fit.unidentified == ("b",)
        assert fit.success_ever.value is None
        assert fit.success_ever.status is Status.WITHHELD
        assert "'b'" in fit.success_ever.reasons[0]
        assert fit.mean_steps.value is None
        assert fit.value(0, 1) is None
        assert np.all(np.isfinite(fit.success_within(fit.horizon)))
        assert "'b'" in str(fit)
        json.dumps(fit.to_dict(), allow_nan=False)
    beside = runs([[0, 0], [1, 1], [0]], [SUCCESS, CENSORED, FAILURE])
    assert fit_homogeneous(beside).value(0) is not None


def test_a_row_without_exits_that_leads_to_exits_is_identified() -> None:
    fit = fit_homogeneous(runs([[0, 1], [0, 1]], [SUCCESS, FAILURE]), smoothing="none")
    assert fit.unidentified == ()
    assert fit.success_ever.value == pytest.approx(0.5)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("smoothing", ["shrinkage", "published", "none"])
@pytest.mark.parametrize("cut_step", ["unseen", "survived"])
def test_edges_are_sane_or_withheld(edge: str, smoothing: str, cut_step: str) -> None:
    sequences = EDGES[edge]
    fit = fit_homogeneous(sequences, smoothing=smoothing, cut_step=cut_step)
    success, failure = fit.success_within(6), fit.failure_within(6)
    for curve in (success, failure):
        assert np.all(np.isfinite(curve))
        assert np.all(np.diff(curve) >= 0.0)
    assert np.all(success + failure <= 1.0 + 1e-12)
    assert np.all(np.isfinite(fit.prior_share))
    assert np.all(np.isfinite(fit.log_score(sequences)))
    all_cut = np.all(sequences.event == CENSORED)
    assert (fit.success_ever.value is None) == all_cut
    if smoothing != "published" and not all_cut:
        rate = np.mean(sequences.event == SUCCESS)
        exact = smoothing == "none" and not np.any(sequences.event == CENSORED)
        assert fit.success_ever.value == pytest.approx(rate, abs=1e-12 if exact else 0.2)
    if smoothing != "published" and edge == "no success":
        assert success[-1] == 0.0
    json.dumps(fit.to_dict(), allow_nan=False)
    assert isinstance(fit, TraceProcess)


def test_starts_may_be_fixed_or_modal() -> None:
    sequences = runs([[0], [0, 1], [1]], [SUCCESS, FAILURE, FAILURE])
    np.testing.assert_allclose(fit_homogeneous(sequences).chain.initial, [2 / 3, 1 / 3])
    assert fit_homogeneous(sequences, start="modal").chain.initial.tolist() == [1.0, 0.0]
    assert fit_homogeneous(sequences, start=1).chain.initial.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "setting",
    [
        {"smoothing": "laplace"},
        {"kappa": 0.0},
        {"kappa": "guess"},
        {"alpha": -1.0},
        {"start": 7},
        {"cut_step": "lost"},
        {"allowed": np.ones((2, 2), dtype=bool)},
    ],
)
def test_bad_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|shape"):
        fit_homogeneous(EDGES["one state"], **setting)
    with pytest.raises(ValueError, match="no run"):
        fit_homogeneous(EDGES["one state"].select(np.array([], dtype=int)))


def test_free_parameters_are_the_observed_cells_less_one_a_row() -> None:
    # Start: one state. Row a: a, b, failure. Row b: success.
    fit = fit_homogeneous(runs([[0, 1], [0], [0, 0, 1]], [SUCCESS, FAILURE, SUCCESS]))
    assert fit.n_parameters == 0 + 2 + 0


def tau_bench(path: Path, *, cut: bool) -> StateSequences:
    """States R (respond), T (any tool), X (transfer) of the airline runs; cut runs by request."""
    paths, events, tasks = [], [], []
    for run in json.loads(path.read_text(encoding="utf-8")):
        steps = []
        for message in run["traj"]:
            if message["role"] == "assistant":
                calls = message.get("tool_calls")
                name = calls[0]["function"]["name"] if calls else None
                steps.append(0 if name is None else 2 if name == "transfer_to_human_agents" else 1)
        last = run["traj"][-1]
        stopped = last["role"] == "user" and "###STOP###" in (last["content"] or "")
        limit = not stopped and steps[-1] != 2
        failed = CENSORED if cut and limit else FAILURE
        paths.append(steps)
        events.append(SUCCESS if run["reward"] == 1.0 else failed)
        tasks.append(run["task_id"])
    return runs(paths, events, tasks)


@pytest.fixture(scope="module")
def airline(real_logs: Path) -> StateSequences:
    return tau_bench(real_logs / "tau-bench" / "gpt-4o-airline.json", cut=False)


def test_tau_bench_counts(airline: StateSequences) -> None:
    counts = count_transitions(airline)
    assert counts.starts.tolist() == [198, 2, 0]
    assert counts.transitions.tolist() == [[574, 521, 46], [518, 593, 2], [0, 0, 0]]
    assert counts.to_success.tolist() == [49, 0, 35]
    assert counts.to_failure.tolist() == [100, 3, 13]


def test_tau_bench_chain_has_the_pass_rate_and_the_wrong_timing(airline: StateSequences) -> None:
    fit = fit_homogeneous(airline, smoothing="none")
    assert fit.success_ever.value == pytest.approx(0.42, abs=1e-12)
    assert fit.mean_steps.value == pytest.approx(12.27, abs=1e-9)
    d = np.arange(31)
    won = airline.lengths[airline.event == SUCCESS]
    observed = np.array([np.sum(won <= k) for k in d]) / 200
    ended = np.array([np.sum(airline.lengths <= k) for k in d]) / 200
    assert np.max(np.abs(fit.success_within(30) - observed)) == pytest.approx(0.101, abs=5e-4)
    fitted_end = fit.success_within(30) + fit.failure_within(30)
    assert np.max(np.abs(fitted_end - ended)) == pytest.approx(0.281, abs=5e-4)
    # The default's prior is small beside the data.
    default = fit_homogeneous(airline)
    assert default.success_ever.value == pytest.approx(0.42, abs=2e-3)
    assert default.prior_share.max() < 0.03


def test_tau_bench_with_the_five_cut_runs_censored(real_logs: Path) -> None:
    sequences = tau_bench(real_logs / "tau-bench" / "gpt-4o-airline.json", cut=True)
    assert np.count_nonzero(sequences.event == CENSORED) == 5
    fit = fit_homogeneous(sequences, smoothing="none", cut_step="unseen")
    assert fit.success_ever.value == pytest.approx(0.4308, abs=5e-5)
    fit = fit_homogeneous(sequences, smoothing="none")
    assert fit.success_ever.value == pytest.approx(0.4309, abs=5e-5)
