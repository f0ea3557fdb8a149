"""Presets against their published figures, and simulated runs against the law they come from."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.chains import random_chain, within_by_paths
from sojourn.process import _kernels
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.simulate import (
    PRESETS,
    censor_uniformly,
    event_rows,
    noisy_one_hot,
    preset,
    simulate_runs,
    simulate_tasks,
    with_exit_odds,
    with_memory,
    with_pace,
)
from sojourn.sequences import CENSORED, FAILURE, SUCCESS

PUBLISHED = {
    "react": (0.4332, 3.91, 0.677),
    "reflexion": (0.4860, 4.03, 0.690),
    "cot_agent": (0.4503, 3.70, 0.675),
    "toolformer": (0.4808, 4.12, 0.686),
    "babyagi": (0.3829, 5.22, 0.789),
    "autogpt": (0.4303, 5.59, 0.795),
    "agentbench": (0.4127, 3.60, 0.664),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_the_published_figures(name: str) -> None:
    chain = preset(name)
    success_ever, mean_steps, rho = PUBLISHED[name]
    assert chain.success_ever == pytest.approx(success_ever, abs=5e-5)
    assert chain.mean_steps == pytest.approx(mean_steps, abs=6e-3)
    assert chain.spectral_radius == pytest.approx(rho, abs=5e-4)


def test_the_size_and_power_chain_starts_in_its_first_state() -> None:
    chain = preset("ss7")
    assert chain.spectral_radius == pytest.approx(0.5)
    # From the last state back: h5 = .4/.5, h4 = (.25 + .2 h5)/.5, and so on.
    h5 = 0.8
    h4 = (0.25 + 0.2 * h5) / 0.5
    h3 = (0.2 + 0.25 * h4 + 0.1 * h5) / 0.6
    h2 = (0.2 + 0.3 * h3 + 0.05 * h4) / 0.65
    assert chain.success_ever == pytest.approx((0.1 + 0.3 * h2 + 0.1 * h3) / 0.6)
    assert set(PRESETS) == {*PUBLISHED, "ss7"}
    with pytest.raises(ValueError, match="react"):
        preset("chatgpt")


@pytest.mark.parametrize("seed", [1, 2])
def test_alias_tables_hold_the_probabilities(seed: int) -> None:
    rows = event_rows(AbsorbingChain(**random_chain(np.random.default_rng(seed), 4, atoms=True)))
    rows[1] = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    rows[2] = [0.1, 0.0, 0.2, 0.0, 0.7, 0.0]
    accept, alias = _kernels.alias_rows(rows[None])
    width = rows.shape[1]
    implied = accept[0] / width
    for i in range(rows.shape[0]):
        for j in range(width):
            implied[i, alias[0, i, j]] += (1.0 - accept[0, i, j]) / width
    np.testing.assert_allclose(implied, rows, atol=1e-15)
    python = _kernels.alias_rows.py_func(rows[None])  # type: ignore[attr-defined]
    np.testing.assert_array_equal(python[0], accept)


def test_simulated_ends_follow_the_law_of_the_paths() -> None:
    chain = AbsorbingChain(**random_chain(np.random.default_rng(7), 3, atoms=True))
    n = 40_000
    sequences = chain.simulate(n, rng=11)
    for outcome, event in (("success", SUCCESS), ("failure", FAILURE)):
        law = np.diff(within_by_paths(chain, 6, outcome), prepend=0.0)
        ended = sequences.lengths[sequences.event == event]
        seen = np.bincount(ended, minlength=7)[:7] / n
        assert np.all(np.abs(seen - law) < 4.5 * np.sqrt(law * (1 - law) / n) + 1e-12)


def test_simulated_moves_follow_the_rows() -> None:
    chain = preset("babyagi")
    sequences = simulate_runs(chain, 20_000, rng=5)
    table = np.zeros((1, 7, 9), dtype=np.int64)
    unit = np.zeros(sequences.n_runs, dtype=np.int32)
    _kernels.count_by_unit(sequences.states, sequences.offsets, sequences.event, unit, table)
    rows, total = event_rows(chain), table[0].sum(axis=1, keepdims=True)
    error = np.sqrt(rows * (1 - rows) / total)
    assert np.all(np.abs(table[0, :, :8] / total - rows) <= 4.5 * error)


def test_the_same_seed_gives_the_same_runs_and_python_agrees_with_the_kernel() -> None:
    chain = preset("react")
    one, two = chain.simulate(50, rng=3), chain.simulate(50, rng=3)
    np.testing.assert_array_equal(one.states, two.states)
    accept, alias = _kernels.alias_rows(event_rows(chain)[None])
    states, offsets, event = _kernels.simulate_paths.py_func(  # type: ignore[attr-defined]
        np.random.default_rng(3),
        accept,
        alias,
        np.zeros(50, dtype=np.int64),
        np.full(50, 1_000_000),
        0.0,
        1,
        1.0,
        0,
    )
    np.testing.assert_array_equal(one.states, states)
    np.testing.assert_array_equal(one.offsets, offsets)
    np.testing.assert_array_equal(one.event, event)


def test_a_limit_cuts_only_runs_that_go_on() -> None:
    chain = preset("react")
    sequences = chain.simulate(20_000, rng=4, max_steps=3)
    assert sequences.lengths.max() == 3
    assert np.all(sequences.lengths[sequences.event == CENSORED] == 3)
    share = np.mean(sequences.event == CENSORED)
    going = chain.still_going(3)[3]
    assert abs(share - going) < 4 * np.sqrt(going / 20_000)
    limits = np.array([0, 1, 5] * 10)
    assert np.all(simulate_runs(chain, 30, rng=1, max_steps=limits).lengths <= limits)


def test_memory_goes_back_more_often_than_the_chain() -> None:
    sequences = simulate_runs(preset("ss7"), 5000, rng=6, memory=0.6)
    inner = sequences.lengths > 2
    back = total = 0
    for r in np.flatnonzero(inner):
        path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]]
        moved = (path[1:-1] != path[:-2]) & (path[:-2] < path[1:-1])
        back += np.count_nonzero(moved & (path[2:] == path[:-2]))
        total += np.count_nonzero(moved)
    # The chain alone never goes back; given that the run goes on, memory does at least .6.
    assert back / total > 0.6


def test_fixed_sojourns_double_every_visit() -> None:
    chain = AbsorbingChain(
        transient=[[0.0, 0.8], [0.7, 0.0]],
        to_success=[0.1, 0.2],
        to_failure=[0.1, 0.1],
        initial=[1.0, 0.0],
        state_names=("a", "b"),
    )
    sequences = simulate_runs(chain, 200, rng=9, sojourn=2)
    assert np.all(sequences.lengths % 2 == 0)
    assert np.all(sequences.states[::2] == sequences.states[1::2])


def test_delayed_exits_are_rarer_early_and_as_before_later() -> None:
    chain = AbsorbingChain(
        transient=[[0.6]], to_success=[0.3], to_failure=[0.1], initial=[1.0], state_names=("a",)
    )
    n = 40_000
    lengths = simulate_runs(chain, n, rng=12, exit_factor=0.3, exit_steps=2).lengths
    hazards = [0.12, 0.12, 0.4, 0.4]
    for step, hazard in enumerate(hazards, start=1):
        at_risk = np.count_nonzero(lengths >= step)
        seen = np.count_nonzero(lengths == step) / at_risk
        assert abs(seen - hazard) < 4 * np.sqrt(hazard * (1 - hazard) / at_risk)


def test_tasks_that_differ_in_odds_keep_the_law_of_time() -> None:
    chain = preset("toolformer")
    shifted = with_exit_odds(chain, 0.8)
    np.testing.assert_allclose(shifted.still_going(20), chain.still_going(20), atol=1e-15)
    odds = shifted.to_success / np.where(shifted.to_failure > 0, shifted.to_failure, 1)
    base = chain.to_success / np.where(chain.to_failure > 0, chain.to_failure, 1)
    np.testing.assert_allclose(odds, base * np.exp(0.8))
    sequences = simulate_tasks(chain, 400, 4, rng=1, odds_sd=2.5)
    assert sequences.task.tolist() == np.repeat(np.arange(400), 4).tolist()
    rate = (sequences.event == SUCCESS).reshape(400, 4).mean(axis=1)
    p = rate.mean()
    # Variance of task rates beyond the binomial p(1 - p)/4, whose standard error is about .006.
    assert rate.var() > p * (1 - p) / 4 + 0.02


def test_a_slower_pace_leaves_the_fate_and_stretches_time() -> None:
    chain = preset("react")
    slow = with_pace(chain, 0.5)
    assert slow.success_ever == pytest.approx(chain.success_ever)
    assert slow.mean_steps == pytest.approx(2 * chain.mean_steps)
    with pytest.raises(ValueError, match="pace"):
        with_pace(chain, 0.0)
    lengths = simulate_tasks(chain, 300, 4, rng=2, pace_sd=1.0).lengths.reshape(300, 4)
    between = lengths.mean(axis=1).var()
    assert between > 1.5 * lengths.var(axis=1, ddof=1).mean() / 4


def test_uniform_cuts_keep_the_head_of_a_run() -> None:
    whole = preset("autogpt").simulate(2000, rng=8)
    cut = censor_uniformly(whole, 0.5, rng=8)
    changed = (cut.event == CENSORED) & (whole.event != CENSORED)
    assert 0.1 < changed.mean() < 0.5
    assert np.all((cut.lengths[changed] >= 2) & (cut.lengths[changed] <= 9))
    assert np.all(cut.lengths[changed] < whole.lengths[changed])
    for r in range(300):
        head = whole.states[whole.offsets[r] :][: cut.lengths[r]]
        np.testing.assert_array_equal(cut.states[cut.offsets[r] : cut.offsets[r + 1]], head)
    np.testing.assert_array_equal(cut.event[~changed], whole.event[~changed])


def test_noisy_features_point_at_their_state() -> None:
    states = np.array([0, 2, 1, 1], dtype=np.int32)
    features = noisy_one_hot(states, 3, rng=1)
    assert features.shape == (4, 3)
    np.testing.assert_array_equal(features.argmax(axis=1), states)
    assert np.all(noisy_one_hot(states, 3, sd=0.0).sum(axis=1) == 1.0)


def test_bad_settings_are_refused() -> None:
    chain = preset("react")
    lasting = AbsorbingChain(
        transient=[[0.0]], to_success=[1.0], to_failure=[0.0], initial=[1.0], state_names=("a",)
    )
    for ask in (
        lambda: simulate_runs([], 3),
        lambda: simulate_runs([chain, lasting], 3),
        lambda: simulate_runs(chain, -1),
        lambda: simulate_runs(chain, 3, memory=1.0),
        lambda: simulate_runs(chain, 3, sojourn=0),
        lambda: simulate_runs(chain, 3, max_steps=-1),
        lambda: simulate_runs(lasting, 3, exit_factor=0.5, exit_steps=2),
        lambda: simulate_tasks(chain, 0, 2),
        lambda: censor_uniformly(chain.simulate(3, rng=0), 1.5),
        lambda: censor_uniformly(chain.simulate(3, rng=0), 0.5, low=5, high=2),
    ):
        with pytest.raises(ValueError, match=r"must|needs"):
            ask()
    assert simulate_runs(chain, 0).n_runs == 0


def by_paths_with_memory(chain: AbsorbingChain, memory: float, n_steps: int) -> float:
    """P(success within n_steps) of a run that goes back with this probability, path by path."""
    total = 0.0
    open_paths = [((i,), float(p)) for i, p in enumerate(chain.initial) if p]
    for _ in range(n_steps):
        longer = []
        for path, p in open_paths:
            stay = 0.0 if len(path) == 1 else memory
            total += p * (1.0 - stay) * float(chain.to_success[path[-1]])
            for j, q in enumerate(chain.transient[path[-1]]):
                back = stay if len(path) > 1 and path[-2] == j else 0.0
                move = (1.0 - stay) * float(q) + back
                if move:
                    longer.append(((*path, j), p * move))
        open_paths = longer
    return total


def test_a_chain_with_memory_is_a_chain_of_pairs() -> None:
    chain = AbsorbingChain(**random_chain(np.random.default_rng(5), 3, atoms=False))
    pairs = with_memory(chain, 0.4)
    for n in (1, 2, 6):
        assert pairs.success_within(n)[n] == pytest.approx(by_paths_with_memory(chain, 0.4, n))
    plain = with_memory(chain, 0.0)
    assert plain.success_ever == pytest.approx(chain.success_ever)
    assert plain.mean_steps == pytest.approx(chain.mean_steps)
    for wrong in (-0.1, 1.0):
        with pytest.raises(ValueError, match="memory"):
            with_memory(chain, wrong)


def test_runs_with_memory_have_the_figures_of_the_chain_of_pairs() -> None:
    chain, n = preset("react"), 40_000
    runs = simulate_runs(chain, n, rng=2, memory=0.4)
    truth = with_memory(chain, 0.4)
    rate = float(np.mean(runs.event == SUCCESS))
    assert abs(rate - truth.success_ever) < 4 * np.sqrt(rate * (1 - rate) / n)
    assert abs(runs.lengths.mean() - truth.mean_steps) < 4 * runs.lengths.std() / np.sqrt(n)
    assert abs(rate - chain.success_ever) > 0.05
