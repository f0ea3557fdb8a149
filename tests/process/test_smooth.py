"""The smooth twin of Aalen-Johansen: near it, blind to states, never minus infinity."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.runs import EDGES, runs
from sojourn.process.base import RefittableProcess
from sojourn.process.incidence import aalen_johansen
from sojourn.process.smooth import SmoothIncidence, fit_smooth_incidence
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences


def hazards(step: np.ndarray) -> np.ndarray:
    """Success and failure after each step: nothing at first, a wave, then a level."""
    wave = np.exp(-0.5 * ((step - 10.0) / 3.0) ** 2)
    return np.stack([0.02 + 0.15 * wave, 0.03 + 0.05 * step / 20.0], axis=1)


def drawn(n_runs: int, seed: int, *, cap: int = 60) -> StateSequences:
    """Draw run by run with plain NumPy; states are noise."""
    rng = np.random.default_rng(seed)
    table = hazards(np.arange(1.0, cap + 1.0))
    paths, events = [], []
    for _ in range(n_runs):
        u = rng.random(cap)
        ended = np.flatnonzero(u < table.sum(axis=1))
        length = int(ended[0]) + 1 if ended.size else cap
        event = CENSORED
        if ended.size:
            event = SUCCESS if u[length - 1] < table[length - 1, 0] else FAILURE
        paths.append(rng.integers(0, 3, size=length).tolist())
        events.append(event)
    return runs(paths, events, [r // 4 for r in range(n_runs)], n_states=3)


def true_curves(horizon: int) -> np.ndarray:
    table = hazards(np.arange(1.0, horizon + 1.0))
    going = np.concatenate(([1.0], np.cumprod(1.0 - table.sum(axis=1))))
    return np.concatenate((np.zeros((2, 1)), np.cumsum(table * going[:-1, None], axis=0).T), axis=1)


def curves(fit: SmoothIncidence, horizon: int) -> np.ndarray:
    return np.stack([fit.success_within(horizon), fit.failure_within(horizon)])


def test_it_is_a_refittable_process() -> None:
    fit = fit_smooth_incidence(drawn(40, 1))
    assert isinstance(fit, RefittableProcess)
    assert fit.state_names == ("running",)
    assert fit.horizon == drawn(40, 1).lengths.max()


def test_curves_come_as_near_the_truth_as_aalen_johansen() -> None:
    truth = true_curves(40)
    off = []
    for seed in range(5):
        sequences = drawn(200, seed)
        observed = np.stack(aalen_johansen(sequences.lengths, sequences.event, horizon=40))
        fit = fit_smooth_incidence(sequences)
        off.append([np.abs(x - truth).max() for x in (curves(fit, 40), observed)])
        assert np.abs(curves(fit, 40) - observed).max() < 0.05
    smooth, rough = np.mean(off, axis=0)
    assert smooth < rough + 0.005


def test_hazards_under_a_hard_cap_are_those_of_the_truth() -> None:
    cap = 9
    sequences = drawn(8000, 2, cap=cap)
    assert np.mean(sequences.event == CENSORED) > 0.2
    fit = fit_smooth_incidence(sequences)
    wanted = hazards(np.arange(1.0, cap + 1.0))
    at_risk = np.array([np.sum(sequences.lengths >= d) for d in range(1, cap + 1)])
    se = np.sqrt(wanted * (1 - wanted) / at_risk[:, None])
    found = fit.hazards[np.minimum(np.arange(cap), fit.hazards.shape[0] - 1)]
    assert np.all(np.abs(found - wanted) < 4 * se + 0.003)


def test_constant_hazards_are_those_of_a_geometric_law() -> None:
    sequences = drawn(60, 3)
    fit = fit_smooth_incidence(sequences, penalty=np.inf)
    steps = sequences.states.size
    shares = [np.sum(sequences.event == e) / steps for e in (SUCCESS, FAILURE)]
    np.testing.assert_allclose(fit.hazards, np.tile(shares, (fit.hazards.shape[0], 1)), atol=1e-10)


def test_its_value_is_blind_to_the_state_and_right() -> None:
    fit = fit_smooth_incidence(drawn(100, 4))
    assert fit.value(0, 5) == fit.value(2, 5)
    horizon = 3000
    success = fit.success_within(horizon)
    going = 1.0 - success - fit.failure_within(horizon)
    for step in (1, 4, 12):
        # Running at its step number d: it had not ended with d - 1 steps.
        ahead = success[-1] - success[step - 1]
        assert fit.value(0, step) == pytest.approx(ahead / going[step - 1], abs=1e-10)


def test_states_do_not_matter() -> None:
    sequences = drawn(50, 5)
    other = StateSequences(
        states=np.zeros(sequences.states.size, dtype=np.int32),
        offsets=sequences.offsets,
        event=sequences.event,
        task=sequences.task,
        unit=sequences.unit,
        state_names=("only",),
    )
    a, b = fit_smooth_incidence(sequences), fit_smooth_incidence(other)
    np.testing.assert_array_equal(curves(a, 30), curves(b, 30))
    np.testing.assert_array_equal(a.log_score(sequences), b.log_score(other))
    np.testing.assert_allclose(curves(a.refit(other), 30), curves(a, 30), atol=1e-8)


def test_weights_and_resamples_follow_the_runs(rng: np.random.Generator) -> None:
    sequences = drawn(60, 6)
    fit = fit_smooth_incidence(sequences)
    n_units = np.unique(sequences.unit).size
    weights = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=4)
    fast = fit.bootstrap_curves(sequences, weights, 25)
    for b in range(4):
        again = fit.refit(sequences, weights=weights[b][sequences.unit].astype(float))
        np.testing.assert_allclose(fast[b], curves(again, 25), atol=1e-4)


def test_no_score_is_minus_infinity_where_aalen_johansen_has_zero() -> None:
    sequences = drawn(40, 7)
    fit = fit_smooth_incidence(sequences)
    gaps = np.setdiff1d(np.arange(1, 30), sequences.lengths)
    unseen = runs([[0] * int(d) for d in [*gaps, 200]], [SUCCESS] * (gaps.size + 1))
    assert np.isfinite(fit.log_score(unseen)).all()


def test_draws_have_the_curves_and_parameters_the_fit() -> None:
    fit = fit_smooth_incidence(drawn(80, 8))
    n = 20_000
    again = fit.simulate(n, rng=1)
    share = [np.mean((again.event == SUCCESS) & (again.lengths <= d)) for d in range(31)]
    assert np.abs(share - fit.success_within(30)).max() < 4 * np.sqrt(0.25 / n)
    other = SmoothIncidence.from_parameters(fit.parameters())
    np.testing.assert_array_equal(curves(other, 30), curves(fit, 30))
    assert str(other) == str(fit)
    assert str(fit).startswith("smooth incidence")
    assert fit.coefficient_draws(10, 30, rng=2).shape == (10, 2, 31)
    assert fit.simulate_tasks(np.zeros(3, dtype=np.int32), rng=3).n_tasks == 1


@pytest.mark.parametrize("name", EDGES)
def test_edges_give_sane_curves(name: str) -> None:
    fit = fit_smooth_incidence(EDGES[name])
    found = curves(fit, 30)
    assert np.isfinite(found).all()
    assert np.all(np.diff(found, axis=1) >= -1e-12)
    assert found.sum(axis=0).max() < 1 + 1e-9
    assert np.isfinite(fit.log_score(EDGES[name])).all()
