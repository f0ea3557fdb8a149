"""Refits of the homogeneous chain, and the helpers that all refits share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from oracles.chains import count_by_hand
from oracles.runs import EDGES, runs
from sojourn.process._exit_odds import last_states, shifted_share
from sojourn.process._weighted import weighted_counts, weighted_tail
from sojourn.process.base import GeometricTail, RefittableProcess
from sojourn.process.counting import count_transitions
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.process.simulate import preset, with_exit_odds
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences


def random_runs(seed: int, n_runs: int, m: int) -> StateSequences:
    rng = np.random.default_rng(seed)
    paths = [rng.integers(0, m, size=rng.integers(0, 9)).tolist() for _ in range(n_runs)]
    events = rng.choice([SUCCESS, FAILURE, CENSORED], size=n_runs).tolist()
    return runs(paths, events, rng.integers(3, 12, size=n_runs).tolist(), n_states=m)


@pytest.mark.parametrize("edge", EDGES)
def test_weighted_counts_of_ones_are_the_counts(edge: str) -> None:
    sequences = EDGES[edge]
    ones = np.ones(sequences.n_runs)
    counts, plain = weighted_counts(sequences, ones), count_transitions(sequences)
    np.testing.assert_array_equal(counts.table, plain.table)
    assert counts.table.dtype == plain.table.dtype
    assert counts.longest == plain.longest
    assert weighted_tail(sequences, ones) == GeometricTail.of(sequences)


def test_fractional_weights_weigh_each_run() -> None:
    sequences = random_runs(2, 30, 3)
    weights = np.random.default_rng(3).uniform(0.0, 2.0, size=30)
    counts = weighted_counts(sequences, weights)
    table = np.zeros((3, 3))
    for r in range(30):
        table += weights[r] * count_by_hand(sequences.select(np.array([r])))["transitions"]
    np.testing.assert_allclose(counts.transitions, table)
    assert counts.n_runs == round(weights.sum())
    fit = fit_homogeneous(sequences)
    halved = fit.refit(sequences, weights=weights)
    assert halved.success_ever.value == pytest.approx(
        fit.refit(sequences, weights=weights).success_ever.value
    )
    again = HomogeneousFit.from_parameters(halved.parameters(), halved.state_names)
    np.testing.assert_array_equal(again.success_within(9), halved.success_within(9))


@pytest.mark.parametrize("smoothing", ["shrinkage", "published", "none"])
def test_doubled_weights_are_doubled_data_and_zero_weights_are_no_data(smoothing: str) -> None:
    sequences = random_runs(5, 40, 3)
    fit = fit_homogeneous(sequences, smoothing=smoothing, kappa=2.0)
    weights = np.random.default_rng(1).integers(0, 3, size=40).astype(float)
    chosen = np.repeat(np.arange(40), weights.astype(int))
    weighted, repeated = fit.refit(sequences, weights=weights), fit.refit(sequences.select(chosen))
    np.testing.assert_array_equal(weighted.counts.table, repeated.counts.table)
    np.testing.assert_array_equal(weighted.success_within(20), repeated.success_within(20))
    np.testing.assert_allclose(weighted.log_score(sequences), repeated.log_score(sequences))
    assert (weighted.n_tasks, weighted.n_units) == (repeated.n_tasks, repeated.n_units)
    same = fit.refit(sequences)
    np.testing.assert_array_equal(same.chain.transient, fit.chain.transient)
    assert same.tail == fit.tail
    assert isinstance(fit, RefittableProcess)


@pytest.mark.parametrize("start", ["empirical", "modal", 1])
def test_bootstrap_curves_are_those_of_refits(start: Any) -> None:
    sequences = random_runs(7, 50, 3)
    fit = fit_homogeneous(sequences, start=start)
    names, unit = np.unique(sequences.unit, return_inverse=True)
    weights = np.random.default_rng(2).multinomial(
        names.size, np.full(names.size, 1 / names.size), size=4
    )
    curves = fit.bootstrap_curves(sequences, weights, 15)
    assert curves.shape == (4, 2, 16)
    for b in range(4):
        refit = fit.refit(sequences, weights=weights[b][unit].astype(float))
        np.testing.assert_allclose(curves[b, 0], refit.success_within(15), atol=1e-13)
        np.testing.assert_allclose(curves[b, 1], refit.failure_within(15), atol=1e-13)


def test_a_model_file_holds_the_fit() -> None:
    sequences = random_runs(9, 30, 3)
    for setting in ({"start": "modal"}, {"start": 2}, {"smoothing": "none", "cut_step": "unseen"}):
        fit = fit_homogeneous(sequences, **setting)
        again = HomogeneousFit.from_parameters(fit.parameters(), fit.state_names)
        assert again.to_dict() == fit.to_dict()
        assert str(again) == str(fit)
        assert again.tail == fit.tail
        np.testing.assert_array_equal(again.refit(sequences).chain.transient, fit.chain.transient)


def test_runs_of_tasks_have_shifted_odds_and_unshifted_ends() -> None:
    fit = fit_homogeneous(preset("react").simulate(400, rng=1))
    n = 60_000
    task = np.arange(n, dtype=np.int32) // 3
    shift = np.where(np.arange(n) < n // 2, 1.2, -0.7)
    drawn = fit.simulate_tasks(task, log_odds=shift, rng=4)
    plain = fit.simulate_tasks(task, rng=4)
    np.testing.assert_array_equal(drawn.states, plain.states)
    np.testing.assert_array_equal(drawn.offsets, plain.offsets)
    np.testing.assert_array_equal(drawn.task, task)
    for half, log_odds in ((slice(0, n // 2), 1.2), (slice(n // 2, n), -0.7)):
        truth = with_exit_odds(fit.chain, log_odds).success_ever
        share = np.mean(drawn.event[half] == SUCCESS)
        assert share == pytest.approx(truth, abs=4 * 0.5 / np.sqrt(n // 2))
    capped = fit.simulate_tasks(task[:500], log_odds=shift[:500], max_steps=2, rng=4)
    assert np.all((capped.event == CENSORED) <= (capped.lengths == 2))
    assert np.any(capped.event == CENSORED)


def test_shifted_shares_are_shifted_log_odds() -> None:
    share = np.array([0.1, 0.5, 0.8])
    np.testing.assert_allclose(
        shifted_share(0.3 * share, 0.3 * (1 - share), 1.7), expit(logit(share) + 1.7)
    )
    assert shifted_share(0.0, 0.0, 3.0) == 0.0
    assert shifted_share(0.2, 0.0, -9.0) == 1.0
    assert shifted_share(1.0, 1.0, 1000.0) == 1.0


def test_last_states_are_minus_one_without_a_step() -> None:
    sequences = runs([[], [0, 1], [1, 0], []], [SUCCESS, FAILURE, FAILURE, CENSORED])
    assert last_states(sequences).tolist() == [-1, 1, 0, -1]


def test_a_refit_with_nothing_to_fit_is_refused() -> None:
    sequences = EDGES["one state"]
    fit = fit_homogeneous(sequences)
    for weights in (np.zeros(3), np.ones(2), np.array([1.0, -1.0, 1.0]), np.full(3, np.inf)):
        with pytest.raises(ValueError, match="weight"):
            fit.refit(sequences, weights=weights)
    with pytest.raises(ValueError, match="no run"):
        fit.refit(sequences.select(np.array([], dtype=int)))
    with pytest.raises(ValueError, match="states"):
        fit.refit(EDGES["no success"])
    with pytest.raises(ValueError, match="unit_weights"):
        fit.bootstrap_curves(sequences, np.ones(3), 4)
    with pytest.raises(ValueError, match="whole"):
        fit.simulate_tasks(np.zeros((2, 2), dtype=np.int32))
    with pytest.raises(ValueError, match="log_odds"):
        fit.simulate_tasks(np.zeros(2, dtype=np.int32), log_odds=np.zeros(3))
