"""The progress-dependent chain: nested fit, independent fits, curves by paths, draws, the edges."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta, kstest

from oracles.chains import random_chain
from oracles.progress import fit_by_steps, within_by_paths
from oracles.runs import EDGES, runs
from sojourn.process import _progress_maximum as maximum
from sojourn.process import _progress_posterior as posterior
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import GeometricTail, RefittableProcess, run_scores, task_scores
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.progress import ProgressFit, fit_progress, homogeneity_statistic
from sojourn.process.simulate import preset, simulate_runs, simulate_tasks
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

Floats = npt.NDArray[np.float64]

CHAIN = AbsorbingChain(
    transient=[[0.30, 0.45, 0.10], [0.15, 0.40, 0.30], [0.20, 0.30, 0.20]],
    to_success=[0.05, 0.07, 0.20],
    to_failure=[0.10, 0.08, 0.10],
    initial=[0.7, 0.2, 0.05],
    initial_failure=0.05,
    state_names=("a", "b", "c"),
)


def drifting(chain: AbsorbingChain = CHAIN) -> ProgressFit:
    """Return a truth: ends are rare at first, and from step 12 on four times as likely."""
    m = chain.n_states
    step = np.arange(1, 13)
    factor = np.exp(np.linspace(-3.0, np.log(4.0), step.size))
    empty = fit_progress(simulate_runs(chain, 50, rng=1), penalty=np.inf)
    start = np.concatenate((chain.initial, [chain.initial_success, chain.initial_failure]))
    ends = np.column_stack((chain.to_success, chain.to_failure))
    spline = np.zeros((m + 2, 1))
    spline[m:] = 1.0
    return replace(
        empty,
        intercept=np.log(np.column_stack((chain.transient, ends))),
        spline=spline,
        state_spline=np.zeros((m, m + 2, 0)),
        basis=np.log(factor)[:, None],
        initial=start,
    )


def corpus(n_tasks: int, seed: int, *, max_steps: int = 1_000_000) -> StateSequences:
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), 4)
    return drifting().simulate_tasks(task, rng=seed, max_steps=max_steps)


def curves(fit: Any, horizon: int = 40) -> Floats:
    return np.stack([fit.success_within(horizon), fit.failure_within(horizon)])


def test_it_is_a_refittable_process() -> None:
    assert isinstance(fit_progress(corpus(10, 1)), RefittableProcess)


@pytest.mark.parametrize("smoothing", ["shrinkage", "published", "none"])
@pytest.mark.parametrize("max_steps", [6, 1_000_000])
def test_without_splines_it_is_the_homogeneous_fit(smoothing: str, max_steps: int) -> None:
    sequences = corpus(40, 2, max_steps=max_steps)
    flat = fit_progress(sequences, penalty=np.inf, smoothing=smoothing)
    chain = fit_homogeneous(sequences, smoothing=smoothing)
    # The homogeneous rows share cut steps out as the seen moves, not as the smoothed ones.
    tolerance = 2e-3 if max_steps == 6 and smoothing != "none" else 1e-8
    np.testing.assert_allclose(curves(flat), curves(chain), atol=tolerance, rtol=0)
    assert flat.freedom == 0.0
    assert flat.n_parameters == chain.n_parameters
    assert homogeneity_statistic(flat) < 1e-8


@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize("max_steps", [5, 1_000_000])
def test_it_equals_a_fit_step_by_step(by_state: bool, max_steps: int) -> None:
    chain = AbsorbingChain(**random_chain(np.random.default_rng(4), 2))
    sequences = simulate_tasks(chain, 6, 2, rng=3, max_steps=max_steps)
    fit = fit_progress(
        sequences, penalty=(0.5, 0.2), by_state=by_state, state_penalty=2.0, n_knots=1
    )
    assert np.isfinite(fit.intercept).all()
    np.testing.assert_allclose(fit.rows, fit_by_steps(sequences, fit), atol=2e-5)


@pytest.mark.parametrize("by_state", [False, True])
def test_derivatives_agree_with_finite_differences(
    by_state: bool, rng: np.random.Generator
) -> None:
    fit = fit_progress(corpus(8, 5, max_steps=6), penalty=1.0, by_state=by_state, n_knots=1)
    data = posterior.data_of(fit.cells, fit.starts, fit.basis, fit.prior)
    design = posterior.design_of(fit.basis, by_state)
    penalty = posterior.Penalty(0.7, 0.3, 2.0 if by_state else np.inf)
    shapes = [fit.intercept.shape, fit.spline.shape, fit.state_spline.shape]
    m, width = fit.intercept.shape

    def at(theta: Floats) -> posterior.Coefficients:
        a, c, d = np.split(theta, np.cumsum([np.prod(s) for s in shapes])[:2])
        parts = [x.reshape(s) for x, s in zip((a, c, d), shapes, strict=True)]
        parts[0] = np.where(data.active, parts[0], -np.inf)
        return posterior.Coefficients(*parts)

    def whole_gradient(theta: Floats) -> Floats:
        now = posterior.curvature(at(theta), data, design, penalty)
        local = now.local_gradient.reshape(m, width, -1)
        parts = [local[:, :, 0].ravel(), now.common_gradient, local[:, :, 1:].ravel()]
        return np.concatenate(parts)

    theta = rng.normal(0.0, 0.5, size=sum(int(np.prod(s)) for s in shapes))
    direction = rng.normal(size=theta.size)
    h = 1e-5
    up, down = (
        posterior.log_posterior(at(theta + s * h * direction), data, design, penalty)
        for s in (1, -1)
    )
    assert (up - down) / (2 * h) == pytest.approx(whole_gradient(theta) @ direction, rel=1e-6)
    now = posterior.curvature(at(theta), data, design, penalty, exact=True)
    slope = (whole_gradient(theta + h * direction) - whole_gradient(theta - h * direction)) / (
        2 * h
    )
    a, c, d = np.split(direction, np.cumsum([np.prod(s) for s in shapes])[:2])
    local = np.concatenate((a.reshape(m, width, 1), d.reshape(m, width, -1)), axis=2)
    local = local.reshape(m, -1)
    common = now.common @ c + np.einsum("mlc,ml->c", now.cross, local)
    # The ones that keep the blocks invertible are no part of the curvature.
    both = data.active[:, :, None] & data.active[:, None, :]
    ones = np.einsum(
        "mjk,mk->mj", both + np.eye(width) * ~data.active[:, :, None], a.reshape(m, -1)
    )
    blocks = np.einsum("mlk,mk->ml", now.local, local) + np.einsum("mlc,c->ml", now.cross, c)
    blocks = blocks.reshape(m, width, -1)
    blocks[:, :, 0] -= ones
    n_a = m * width
    np.testing.assert_allclose(-slope[:n_a], blocks[:, :, 0].ravel(), atol=1e-5)
    np.testing.assert_allclose(-slope[n_a : n_a + c.size], common, atol=1e-5)
    np.testing.assert_allclose(-slope[n_a + c.size :], blocks[:, :, 1:].ravel(), atol=1e-5)


def test_penalties_chosen_are_near_the_top_of_the_laplace_marginal_likelihood() -> None:
    fit = fit_progress(corpus(50, 6))
    data = posterior.data_of(fit.cells, fit.starts, fit.basis, fit.prior)
    design = posterior.design_of(fit.basis, False)
    start = posterior.Coefficients(fit.intercept, fit.spline, fit.state_spline)
    m, q = len(fit.state_names), fit.basis.shape[1]

    def marginal(move: float, end: float) -> float:
        penalty = posterior.Penalty(move, end, np.inf)
        found = maximum.maximise(start, data, design, penalty)
        now = posterior.curvature(found, data, design, penalty)
        size = now.local.shape[1]
        whole = np.zeros((m * size + now.common.shape[0],) * 2)
        for i in range(m):
            own = slice(i * size, (i + 1) * size)
            whole[own, own] = now.local[i]
            whole[own, m * size :] = now.cross[i]
            whole[m * size :, own] = now.cross[i].T
        whole[m * size :, m * size :] = now.common
        scale = 0.5 * q * ((m - 1) * np.log(move) + 2 * np.log(end))
        return now.value + scale - 0.5 * float(np.linalg.slogdet(whole)[1])

    move, end, _ = fit.penalty
    best = marginal(move, end)
    for factors in ((3, 1), (1 / 3, 1), (1, 3), (1, 1 / 3)):
        assert best > marginal(move * factors[0], end * factors[1])


def test_curves_equal_the_sum_over_all_paths() -> None:
    fit = fit_progress(corpus(20, 7))
    np.testing.assert_allclose(
        curves(fit, 6), within_by_paths(fit.initial, fit.rows, 6), atol=1e-13
    )


def test_the_value_at_the_start_is_the_limit_of_the_curve() -> None:
    fit = fit_progress(corpus(30, 8))
    first = [fit.value(i, 1) for i in range(3)]
    limit = fit.success_within(2000)[-1]
    assert fit.initial[:3] @ first + fit.initial[3] == pytest.approx(limit, abs=1e-10)
    assert fit.success_ever.value == pytest.approx(limit, abs=1e-10)
    assert fit.value(1, 500) == fit.value(1, fit.basis.shape[0])


def test_values_and_curves_agree_with_simulation() -> None:
    fit = drifting()
    n = 40_000
    drawn = fit.simulate(n, rng=9)
    for event, curve in ((SUCCESS, fit.success_within(40)), (FAILURE, fit.failure_within(40))):
        share = [np.mean((drawn.event == event) & (drawn.lengths <= d)) for d in range(41)]
        assert np.abs(share - curve).max() < 4 * np.sqrt(0.25 / n)
    for step, state in ((1, 0), (6, 2), (15, 1)):
        there = np.flatnonzero(drawn.lengths >= step)
        there = there[drawn.states[drawn.offsets[there] + step - 1] == state]
        p = fit.value(state, step)
        assert p is not None
        share = np.mean(drawn.event[there] == SUCCESS)
        assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / there.size)


def test_log_odds_move_outcomes_and_not_lengths() -> None:
    fit = drifting()
    task = np.zeros(20_000, dtype=np.int32)
    plain = fit.simulate_tasks(task, rng=10)
    moved = fit.simulate_tasks(task, log_odds=np.full(task.size, 1.0), rng=10)
    np.testing.assert_array_equal(plain.lengths, moved.lengths)
    np.testing.assert_array_equal(plain.states, moved.states)
    last = plain.states[plain.offsets[1:][plain.lengths > 0] - 1]
    for state in range(3):
        ends = (
            plain.event[plain.lengths > 0][last == state],
            moved.event[plain.lengths > 0][last == state],
        )
        odds = [np.sum(e == SUCCESS) / np.sum(e == FAILURE) for e in ends]
        n = ends[0].size
        assert abs(np.log(odds[1] / odds[0]) - 1.0) < 4 * np.sqrt(2 / (n * 0.15))
    certain = fit.simulate_tasks(task[:100], log_odds=np.full(100, 1000.0), rng=1)
    assert np.all(certain.event[certain.lengths > 0] == SUCCESS)


def test_cut_simulations_have_the_cap() -> None:
    drawn = drifting().simulate(500, rng=2, max_steps=7)
    assert drawn.lengths.max() == 7
    assert np.all(drawn.lengths[drawn.event == CENSORED] == 7)
    assert np.any(drawn.event[drawn.lengths == 7] != CENSORED)


def test_weights_of_two_are_the_data_twice() -> None:
    sequences = corpus(20, 11)
    fit = fit_progress(sequences)
    n = sequences.n_runs
    doubled = fit.refit(sequences.select(np.tile(np.arange(n), 2)))
    weighted = fit.refit(sequences, weights=np.full(n, 2.0))
    np.testing.assert_allclose(curves(weighted), curves(doubled), atol=1e-9)
    np.testing.assert_allclose(weighted.cells, doubled.cells)
    assert weighted.tail == doubled.tail
    assert np.abs(curves(weighted) - curves(fit)).max() > 1e-4


def test_a_refit_to_its_own_runs_changes_nothing() -> None:
    sequences = corpus(20, 12)
    fit = fit_progress(sequences)
    np.testing.assert_allclose(curves(fit.refit(sequences)), curves(fit), atol=1e-8)
    assert fit.tail == GeometricTail.of(sequences)


def test_bootstrap_curves_are_those_of_refits(rng: np.random.Generator) -> None:
    sequences = corpus(25, 13, max_steps=9)
    sequences = sequences.select(rng.permutation(sequences.n_runs))
    fit = fit_progress(sequences)
    weights = rng.multinomial(25, np.full(25, 1 / 25), size=6)
    fast = fit.bootstrap_curves(sequences, weights, 20)
    place = np.unique(sequences.unit, return_inverse=True)[1]
    for b in range(6):
        again = fit.refit(sequences, weights=weights[b][place].astype(float))
        np.testing.assert_allclose(fast[b], curves(again, 20), atol=1e-4)
    assert np.ptp(fast[:, 0, 10]) > 0.01


def test_a_hard_cap_does_not_bias_the_hazards() -> None:
    truth = drifting()
    cap = 8
    drawn = truth.simulate(6000, rng=14, max_steps=cap)
    assert np.mean(drawn.event == CENSORED) > 0.2
    fit = fit_progress(drawn)
    ends = fit.rows[:cap, :, 3:].sum(axis=2)
    wanted = truth.rows[:cap, :, 3:].sum(axis=2)
    at_risk = np.maximum(fit.cells[:, :cap].sum(axis=2).T, 1.0)
    se = np.sqrt(wanted * (1 - wanted) / at_risk)
    assert np.abs(ends - wanted).max() < 0.03
    assert np.mean(np.abs(ends - wanted) < 3 * se) > 0.9
    np.testing.assert_allclose(curves(fit, cap), curves(truth, cap), atol=0.02)
    # Taken as unseen, the last steps of cut runs make ends at the cap look certain.
    unseen = fit_progress(drawn, cut_step="unseen")
    assert np.abs(unseen.rows[cap - 1, :, 3:].sum(axis=1) - wanted[-1]).max() > 0.05


def test_many_cuts_and_hardly_a_move_are_no_trouble() -> None:
    """What the cut steps went on to is nearly unknown: a plain EM would crawl."""
    paths = [[0, 1]] * 200 + [[0, 1, 0], [0, 1, 1, 0], [0], [1, 2, 0, 2]]
    sequences = runs(paths, [CENSORED] * 200 + [SUCCESS, FAILURE, SUCCESS, FAILURE])
    fit = fit_progress(sequences)
    assert np.all(fit.rows[:, 1, 3:] < 0.01)
    assert np.all(fit.rows[1, 1, :3] > 0.05)


def test_a_move_never_made_from_a_busy_state_stays_impossible() -> None:
    chain = AbsorbingChain(
        transient=[[0.2, 0.5, 0.2], [0.0, 0.4, 0.4], [0.3, 0.3, 0.2]],
        to_success=[0.0, 0.1, 0.1],
        to_failure=[0.1, 0.1, 0.1],
        initial=[1.0, 0.0, 0.0],
        state_names=("a", "b", "c"),
    )
    fit = fit_progress(simulate_tasks(chain, 100, 4, rng=15))
    assert np.all(fit.rows[:, 1, 0] == 0.0)
    assert np.all(fit.rows[:, 0, 3] == 0.0)
    assert np.all(fit.rows[:, 2] > 0.0)
    np.testing.assert_allclose(fit.rows.sum(axis=2), 1.0, atol=1e-12)


def test_a_drift_is_found_that_the_homogeneous_chain_misses() -> None:
    truth = drifting()
    sequences = corpus(200, 16)
    fit = fit_progress(sequences)
    off = np.abs(curves(fit) - curves(truth)).max()
    flat = np.abs(curves(fit_homogeneous(sequences)) - curves(truth)).max()
    # Two standard errors of a share of 800 runs; the chain is off by far more.
    assert off < 2 * np.sqrt(0.25 / 800)
    assert flat > 0.08
    assert homogeneity_statistic(fit) > 100.0
    assert 3 < fit.freedom < 30


def test_under_a_homogeneous_truth_the_splines_fade() -> None:
    found = [fit_progress(simulate_tasks(CHAIN, 50, 4, rng=seed)) for seed in range(6)]
    assert np.mean([fit.freedom for fit in found]) < 4.0
    assert np.mean([homogeneity_statistic(fit) for fit in found]) < 8.0


def test_laplace_draws_spread_as_resampled_runs_do(rng: np.random.Generator) -> None:
    sequences = drifting().simulate(300, rng=17)
    fit = fit_progress(sequences)
    drawn = fit.coefficient_draws(400, 20, rng=rng)
    weights = rng.multinomial(300, np.full(300, 1 / 300), size=300)
    again = fit.bootstrap_curves(sequences, weights, 20)
    ratio = drawn.std(axis=0)[:, 5:] / again.std(axis=0)[:, 5:]
    assert ratio.min() > 0.75
    assert ratio.max() < 1.35
    assert np.abs(drawn.mean(axis=0) - curves(fit, 20)).max() < 0.02


def test_draws_of_a_single_row_are_those_of_its_dirichlet(rng: np.random.Generator) -> None:
    sequences = runs(
        [[0, 0], [0], [0, 0, 0], [0], [0]], [SUCCESS, FAILURE, SUCCESS, FAILURE, FAILURE]
    )
    fit = fit_progress(sequences, penalty=np.inf)
    drawn = fit.coefficient_draws(4000, 1, rng=rng)[:, 0, 1]
    # Two successes among eight steps, and a prior mass of one in the same proportions.
    assert kstest(drawn, beta(2.25, 6.75).cdf).pvalue > 0.01


def test_scores_are_those_of_the_curves_with_a_tail() -> None:
    sequences = corpus(10, 18, max_steps=12)
    fit = fit_progress(sequences)
    longest = int(sequences.lengths.max())
    by_run = run_scores(sequences, *curves(fit, longest), tail=fit.tail)
    np.testing.assert_allclose(fit.log_score(sequences), task_scores(sequences, by_run))
    assert np.isfinite(fit.log_score(runs([[0] * 300], [SUCCESS], n_states=3))).all()


@pytest.mark.parametrize("by_state", [False, True])
def test_parameters_make_the_same_fit(by_state: bool) -> None:
    sequences = corpus(15, 19, max_steps=9)
    fit = fit_progress(sequences, by_state=by_state)
    file = io.BytesIO()
    np.savez(file, **fit.parameters())
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        again = ProgressFit.from_parameters(dict(arrays))
    np.testing.assert_array_equal(curves(again), curves(fit))
    np.testing.assert_array_equal(again.log_score(sequences), fit.log_score(sequences))
    other = corpus(15, 20)
    np.testing.assert_array_equal(curves(again.refit(other)), curves(fit.refit(other)))
    assert str(again) == str(fit)
    assert again.start == fit.start
    json.dumps(fit.to_dict(), allow_nan=False)


def test_splines_by_state_find_states_that_drift_apart() -> None:
    """State a ends ever later, state b ever sooner: common splines cannot say so."""
    base = drifting()
    own = np.zeros((3, 5, 1))
    own[0, 3:] = 0.8
    own[1, 3:] = -0.8
    truth = replace(base, spline=np.zeros((5, 1)), state_spline=own)
    drawn = truth.simulate_tasks(np.arange(1500, dtype=np.int32), rng=21)
    off = [
        float(
            np.mean(
                (fit.rows[:12, :, 3:].sum(2) - truth.rows[: fit.rows.shape[0], :, 3:].sum(2)[:12])
                ** 2
            )
        )
        for fit in (fit_progress(drawn), fit_progress(drawn, by_state=True))
    ]
    assert off[1] < 0.5 * off[0]


LONG = runs([[0, 1] * 1000], [SUCCESS])
ALIKE = {
    "a single long run": LONG,
    "a long run among short ones": runs([[0, 1] * 1000] + [[0]] * 30, [1] + [2, 1] * 15),
    "a cap": runs([[0] * 10] * 20 + [[0, 1]] * 3, [CENSORED] * 20 + [1, 2, 1]),
}


@pytest.mark.parametrize("name", [*EDGES, *ALIKE])
@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize("smoothing", ["shrinkage", "none"])
def test_edges_give_sane_curves(name: str, by_state: bool, smoothing: str) -> None:
    sequences = (EDGES | ALIKE)[name]
    fit = fit_progress(sequences, by_state=by_state, smoothing=smoothing)
    found = curves(fit, 60)
    assert np.isfinite(found).all()
    assert np.all(np.diff(found, axis=1) >= -1e-12)
    assert found.sum(axis=0).max() < 1 + 1e-9
    assert np.isfinite(fit.log_score(sequences)).all()
    assert fit.unidentified == fit_homogeneous(sequences).unidentified
    for state in range(sequences.n_states):
        value = fit.value(state, 3)
        assert value is None or 0.0 <= value <= 1.0
    assert str(fit)
    fit.simulate(5, rng=1, max_steps=50)
    n = np.unique(sequences.unit).size
    again = fit.bootstrap_curves(sequences, np.ones((1, n)), 60)
    np.testing.assert_allclose(again[0], found, atol=1e-4)
    assert np.isfinite(fit.coefficient_draws(3, 20, rng=1)).all()


def test_where_all_succeed_all_succeed() -> None:
    fit = fit_progress(EDGES["no failure"])
    assert fit.failure_within(50)[-1] == 0.0
    assert fit.success_ever.value == pytest.approx(1.0)
    assert fit_progress(EDGES["no success"]).success_within(50)[-1] == 0.0


def test_an_unseen_fate_is_not_claimed() -> None:
    fit = fit_progress(EDGES["every run cut"])
    assert fit.unidentified == ("a", "b")
    assert fit.value(0, 1) is None
    assert fit.success_ever.value is None


def test_cells_do_not_grow_with_the_number_of_runs() -> None:
    sequences = corpus(20, 22)
    many = sequences.select(np.tile(np.arange(sequences.n_runs), 50))
    few, more = fit_progress(sequences), fit_progress(many)
    np.testing.assert_array_equal(more.cells, 50 * few.cells)


def test_bad_settings_are_refused() -> None:
    sequences = corpus(5, 23)
    fit = fit_progress(sequences)
    with pytest.raises(ValueError, match="penalty must be positive"):
        fit_progress(sequences, penalty=0.0)
    with pytest.raises(ValueError, match="penalty must be one of laplace"):
        fit_progress(sequences, penalty="gcv")
    with pytest.raises(ValueError, match="no run"):
        fit_progress(sequences.select(np.zeros(0, dtype=np.intp)))
    with pytest.raises(ValueError, match="n_knots"):
        fit_progress(sequences, n_knots=0)
    with pytest.raises(ValueError, match="not negative"):
        fit.refit(sequences, weights=-np.ones(20))
    with pytest.raises(ValueError, match="weights has shape"):
        fit.refit(sequences, weights=np.ones(3))
    with pytest.raises(ValueError, match="the runs have states"):
        fit.refit(runs([[0]], [SUCCESS]))
    with pytest.raises(ValueError, match="weights has shape"):
        fit.bootstrap_curves(sequences, np.ones((2, 3)), 5)
    with pytest.raises(ValueError, match="log_odds has shape"):
        fit.simulate_tasks(np.zeros(3, dtype=np.int32), log_odds=np.zeros(2))
    with pytest.raises(ValueError, match="horizon must not be negative"):
        fit.success_within(-1)
    with pytest.raises(ValueError, match="step"):
        fit.value(0, 0)


def test_resamples_in_which_events_all_but_vanish_settle() -> None:
    # A twentieth of the runs of a wide chain: many events are left with next to no mass, where the
    # curvature is flat to rounding.
    runs = simulate_tasks(preset("autogpt"), 20, 1, rng=4)
    fit = fit_progress(runs)
    weights = np.random.default_rng(0).multinomial(20, np.full(20, 0.05), size=200)
    horizon = int(runs.lengths.max())
    curves = fit.bootstrap_curves(runs, weights, horizon)
    assert np.all(np.isfinite(curves))
    assert np.all(np.diff(curves, axis=2) >= -1e-12)
    assert np.all(curves.sum(axis=1) <= 1 + 1e-9)
