"""Detectable effects: the simulated departures are what they say, the search finds the crossing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oracles.corpora import sequences_of
from sojourn.process import detectable
from sojourn.process._exact_kernels import count_corpus
from sojourn.process.detectable import detectable_effects, simulate_alternative
from sojourn.process.exact import plain_arrays
from sojourn.sequences import StateSequences

START = np.array([0.7, 0.3])
CHAIN = np.array([[0.3, 0.4, 0.2, 0.1], [0.2, 0.4, 0.1, 0.3]])
N = 20_000


def corpus(alternative: str, effect: float, *, n: int = N, seed: int = 1, cap: int = 10**6):
    return simulate_alternative(
        START,
        CHAIN,
        np.arange(n, dtype=np.int32) // 2,
        alternative=alternative,
        effect=effect,
        early_steps=2,
        cap=cap,
        state_names=("A", "B"),
        rng=np.random.default_rng(seed),
    )


def shares(sequences: StateSequences) -> np.ndarray:
    _, counts = count_corpus(*plain_arrays(sequences), 2)
    return counts / counts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("alternative", "effect"), [("memory", 0.0), ("pace", 1.0)])
def test_no_effect_is_the_chain(alternative: str, effect: float) -> None:
    sequences = corpus(alternative, effect)
    # Each row is seen about 20,000 times: four standard errors of a share are .014.
    np.testing.assert_allclose(shares(sequences), CHAIN, atol=0.014)
    first = sequences.states[sequences.offsets[:-1]]
    assert np.mean(first == 0) == pytest.approx(0.7, abs=0.014)


def test_memory_goes_back_to_the_state_before() -> None:
    sequences = corpus("memory", 0.5)
    x, offsets = sequences.states, sequences.offsets
    inside = np.ones(x.size, dtype=bool)
    inside[offsets[:-1]] = False
    inside[np.minimum(offsets[:-1] + 1, x.size - 1)] = False
    third = np.flatnonzero(inside)
    after_ab = third[(x[third - 2] == 0) & (x[third - 1] == 1)]
    from_ab = np.mean(x[after_ab] == 0)
    # Given that the run goes on: half the steps go back, the others as the chain does.
    expected = (0.5 + 0.5 * 0.2) / (0.5 + 0.5 * 0.6)
    assert from_ab == pytest.approx(expected, abs=4 * 0.5 / after_ab.size**0.5)


def test_early_exits_are_rarer_by_the_effect() -> None:
    sequences = corpus("early_exit", 0.7)
    ended_at_once = np.mean(sequences.lengths == 1)
    assert ended_at_once == pytest.approx(0.3 * (0.7 * 0.3 + 0.3 * 0.4), abs=0.01)
    going = sequences.lengths >= 3
    third = sequences.states[sequences.offsets[:-1][going] + 2]
    ended = np.mean(sequences.lengths[going] == 3)
    expected = np.mean(np.where(third == 0, 0.3, 0.4))
    assert ended == pytest.approx(expected, abs=0.015)


def test_half_of_the_tasks_are_slower() -> None:
    sequences = corpus("pace", 3.0)
    by_task = np.add.reduceat(sequences.lengths, np.arange(0, N, 2))
    mean = corpus("pace", 1.0, seed=2).lengths.mean()
    assert sequences.lengths.mean() == pytest.approx(2 * mean, rel=0.03)
    # Attempts at a task share their pace, so lengths within a task are correlated.
    assert np.var(by_task) > 2.3 * np.var(sequences.lengths)


def test_stays_spread_both_ways() -> None:
    def stays(sequences: StateSequences) -> np.ndarray:
        change = np.ones(sequences.states.size, dtype=bool)
        change[1:] = np.diff(sequences.states) != 0
        change[sequences.offsets[:-1]] = True
        return np.diff(np.append(np.flatnonzero(change), change.size))

    plain, spread = stays(corpus("stay_spread", 0.0)), stays(corpus("stay_spread", 2.0))
    odds = np.array([0.3 / 0.7, 0.4 / 0.6])
    alone = np.mean(1 / (1 + np.outer([np.exp(2), np.exp(-2)], odds)), axis=0)
    assert alone.min() - 0.02 < np.mean(spread == 1) < alone.max() + 0.02
    assert np.var(spread) > 1.5 * np.var(plain)


def test_cap_cuts() -> None:
    sequences = corpus("memory", 0.0, cap=3)
    assert sequences.lengths.max() == 3
    assert set(sequences.lengths[sequences.event == 0]) == {3}


def test_search_finds_the_weakest_sufficient_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    sequences = corpus("memory", 0.0, n=60)
    monkeypatch.setattr(detectable, "ALTERNATIVES", {"memory": (0.02, 0.1, 0.3, 0.6, 0.9)})
    alone = detectable_effects(sequences, n_corpora=20, n_draws=39, rng=3)
    with ThreadPoolExecutor(2) as pool:
        many = detectable_effects(sequences, n_corpora=20, n_draws=39, rng=3, executor=pool)
    assert alone.to_dict() == many.to_dict()
    curve = alone.curves[0]
    assert curve.family == "order"
    assert curve.power[-1] >= 0.8
    assert curve.power[0] < 0.8
    assert 0.1 < alone.of("order")["memory"] <= 0.9
    json.dumps(alone.to_dict(), allow_nan=False)


def test_edges() -> None:
    for runs in ([], [((0,), 1)], [((0, 1), 0)] * 5):
        result = detectable_effects(sequences_of(runs, n_states=2), rng=0)
        assert result.curves == ()
        assert result.reasons
    with pytest.raises(ValueError, match="draw more"):
        detectable_effects(sequences_of([((0,), 1)] * 5), n_draws=10)
