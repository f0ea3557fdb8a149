"""The k-step check against plain loops, matrix powers and the algebra of cut runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from oracles.corpora import all_corpora, corpus_of, sequences_of
from sojourn.process import fit_homogeneous
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.chapman_kolmogorov import _draw_tables, chapman_kolmogorov
from sojourn.process.counting import count_transitions
from sojourn.sequences import StateSequences

CHAIN = AbsorbingChain(
    transient=[[0.5, 0.2], [0.3, 0.3]],
    to_success=[0.1, 0.25],
    to_failure=[0.2, 0.15],
    initial=[0.7, 0.2],
    initial_success=0.04,
    initial_failure=0.06,
    state_names=("a", "b"),
)


def naive(sequences: StateSequences, lag: int) -> np.ndarray:
    """Count pairs of moments of complete runs by hand."""
    m = sequences.n_states
    table = np.zeros((m + 1, m + 2))
    for r in range(sequences.n_runs):
        path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]].tolist()
        moments = [0, *[s + 1 for s in path]]
        for t, origin in enumerate(moments):
            ends = t + lag >= len(moments)
            target = m + sequences.event[r] - 1 if ends else moments[t + lag] - 1
            table[origin, target] += 1
    return table


def test_complete_runs_are_counted_as_by_hand(rng: np.random.Generator) -> None:
    runs = CHAIN.simulate(60, rng=rng)
    check = chapman_kolmogorov(runs, n_lags=4, n_boot=1, n_draws=1, rng=1)
    for k in range(4):
        table = naive(runs, k + 1)
        np.testing.assert_allclose(check.observed[k], table / table.sum(axis=1, keepdims=True))
    # At lag one the chain is fitted, and so it is at the start.
    np.testing.assert_allclose(check.observed[0], check.predicted[0], atol=1e-12)


def test_predictions_are_powers_of_the_fitted_table(rng: np.random.Generator) -> None:
    runs = CHAIN.simulate(60, rng=rng)
    fit = fit_homogeneous(runs)
    check = chapman_kolmogorov(runs, n_lags=5, fit=fit, n_boot=1, n_draws=1, rng=1)
    chain = fit.chain
    full = np.zeros((4, 4))
    full[:2] = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    full[2, 2] = full[3, 3] = 1.0
    start = np.array([*chain.initial, chain.initial_success, chain.initial_failure])
    for k in range(5):
        power = np.linalg.matrix_power(full, k + 1)
        np.testing.assert_allclose(check.predicted[k, 1:], power[:2])
        np.testing.assert_allclose(
            check.predicted[k, 0], start @ np.linalg.matrix_power(full, k), atol=1e-12
        )
    # The ends from the start are the chain's own curves.
    np.testing.assert_allclose(check.predicted[:, 0, 2], fit.success_within(4))


def test_a_chain_meets_its_own_powers_in_the_end(rng: np.random.Generator) -> None:
    n = 40_000
    check = chapman_kolmogorov(CHAIN.simulate(n, rng=rng), n_lags=4, n_boot=1, n_draws=1, rng=1)
    assert np.abs(check.observed - check.predicted).max() < 4 * 0.5 / math.sqrt(n / 5)


def cut_at(runs: StateSequences, caps: np.ndarray) -> StateSequences:
    """Cut each run that is longer than its cap, or as long and goes on."""
    paths = []
    for r in range(runs.n_runs):
        path = runs.states[runs.offsets[r] : runs.offsets[r + 1]].tolist()
        cut = len(path) > caps[r]
        paths.append((path[: caps[r]], 0 if cut else int(runs.event[r])))
    return sequences_of(paths, n_states=runs.n_states)


@pytest.mark.parametrize("caps", ["one cap", "many caps"])
def test_cut_runs_are_weighed_and_not_left_out(caps: str, rng: np.random.Generator) -> None:
    n = 40_000
    runs = CHAIN.simulate(n, rng=rng)
    cap = np.full(n, 4) if caps == "one cap" else rng.integers(0, 9, size=n)
    cut = cut_at(runs, cap)
    whole = chapman_kolmogorov(runs, n_lags=3, n_boot=1, n_draws=1, rng=1)
    check = chapman_kolmogorov(cut, n_lags=3, n_boot=1, n_draws=1, rng=1)
    # Both see the same law; leaving cut runs out would show far more ends (by about .1).
    assert np.abs(check.observed - whole.observed).max() < 4 * 0.5 / math.sqrt(n / 12)
    assert np.abs(check.observed - check.predicted).max() < 4 * 0.5 / math.sqrt(n / 12)


def test_under_one_cap_only_moments_that_can_be_followed_are_origins() -> None:
    # Cap 3. At lag 2 only the start and the first step are followed all the way.
    runs = sequences_of([((0, 1, 0), 0), ((0, 0), 1), ((1, 1, 1), 0), ((0,), 2)])
    check = chapman_kolmogorov(runs, n_lags=2, n_boot=1, n_draws=1, rng=1)
    np.testing.assert_allclose(check.observed[1, 1], [1 / 3, 0, 1 / 3, 1 / 3])
    np.testing.assert_allclose(check.observed[1, 2], [0, 1, 0, 0])
    np.testing.assert_allclose(check.observed[1, 0], [1 / 4, 1 / 2, 0, 1 / 4])
    assert check.n_units[1].tolist() == [4, 3, 1]
    # The drawn corpora are looked at in the same way.
    nobody = runs.select(np.array([], dtype=int))
    cap = np.full(4, 3)
    table = _draw_tables(runs, nobody, cap, False, 2, 1, np.random.default_rng(1))[0, 1]
    np.testing.assert_allclose(table / table.sum(axis=1, keepdims=True), check.observed[1])


def test_bands_are_those_of_a_plain_bootstrap(rng: np.random.Generator) -> None:
    runs = CHAIN.simulate(50, rng=rng)
    check = chapman_kolmogorov(runs, n_lags=3, n_boot=4_000, n_draws=1, rng=2)
    again = []
    for seed in range(1_000):
        chosen = np.random.default_rng(seed).integers(50, size=50)
        table = naive(runs.select(chosen), 3)
        again.append(table[1] / table[1].sum())
    low, high = np.quantile(again, (0.025, 0.975), axis=0)
    # The Monte Carlo error of a 2.5 % quantile of 1,000 draws is about .08 of a deviation.
    deviation = np.std(again, axis=0)
    assert np.all(np.abs(check.low[2, 1] - low) < 0.4 * deviation)
    assert np.all(np.abs(check.high[2, 1] - high) < 0.4 * deviation)


def second_order(n: int, weight: float, rng: np.random.Generator) -> StateSequences:
    """Draw runs that go back to where they were two steps before with a certain weight."""
    paths = []
    for _ in range(n):
        path = [int(rng.integers(3))]
        while rng.random() < 0.85:
            back = len(path) > 1 and rng.random() < weight
            path.append(path[-2] if back else int(rng.integers(3)))
        paths.append((path, int(rng.integers(1, 3))))
    return sequences_of(paths, n_states=3)


def reject_rate(weight: float, n_runs: int, n_corpora: int) -> float:
    rejected = 0
    for rng in np.random.default_rng(4).spawn(n_corpora):
        runs = second_order(n_runs, weight, rng)
        check = chapman_kolmogorov(runs, n_lags=4, n_boot=1, n_draws=199, rng=rng)
        rejected += check.p_value is not None and check.p_value <= 0.05
    return rejected / n_corpora


def test_memory_is_found_and_a_chain_is_left_alone() -> None:
    assert reject_rate(0.6, 60, 20) > 0.8
    n = 200
    assert reject_rate(0.0, 30, n) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / n)


def test_drawn_tables_are_those_of_all_corpora_with_these_counts() -> None:
    paths = [((0, 1, 0, 0), 1), ((1, 0, 1), 2), ((0, 0), 1)]
    runs = sequences_of(paths, n_states=2)
    empty = sequences_of([((), 1)], n_states=2)
    n = 4_000
    rng = np.random.default_rng(5)
    tables = _draw_tables(runs, empty, None, False, 3, n, rng)
    family = all_corpora(corpus_of(runs))
    every = []
    for corpus in family:
        with_empty = sequences_of([*corpus, ((), 1)], n_states=2)
        every.append([naive(with_empty, k) for k in (1, 2, 3)])
    exact = np.array(every)
    np.testing.assert_array_equal(
        tables[0], [naive(sequences_of([*paths, ((), 1)], n_states=2), k) for k in (1, 2, 3)]
    )
    deviation = exact.std(axis=0)
    assert (deviation > 0).sum() > 10
    error = np.abs(tables[1:].mean(axis=0) - exact.mean(axis=0))
    assert np.all(error <= 4 * deviation / math.sqrt(n) + 1e-12)
    np.testing.assert_allclose(tables[1:].std(axis=0), deviation, rtol=0.1)


def test_pace_of_tasks_is_seen_over_all_runs_and_not_within_tasks() -> None:
    rng = np.random.default_rng(9)
    paths = [([0] * int(rng.geometric((0.1, 0.6)[r % 2])), 1) for r in range(80)]
    runs = sequences_of(paths, task=[r % 2 for r in range(80)])
    pooled = chapman_kolmogorov(runs, n_lags=4, n_boot=1, n_draws=199, rng=1)
    within = chapman_kolmogorov(runs, n_lags=4, within_tasks=True, n_boot=1, n_draws=199, rng=1)
    assert pooled.p_value == pytest.approx(1 / 200)
    assert within.p_value is None or within.p_value > 0.05


def test_one_step_cap_has_a_p_value_and_other_cuts_have_a_reason() -> None:
    n, rejected = 60, 0
    for rng in np.random.default_rng(6).spawn(n):
        runs = cut_at(second_order(40, 0.0, rng), np.full(40, 8))
        p = chapman_kolmogorov(runs, n_lags=3, n_boot=1, n_draws=99, rng=rng).p_value
        assert p is not None
        rejected += p <= 0.05
    assert rejected / n < 0.05 + 3 * math.sqrt(0.05 * 0.95 / n)
    rng = np.random.default_rng(7)
    odd = cut_at(second_order(40, 0.0, rng), rng.integers(1, 9, size=40))
    check = chapman_kolmogorov(odd, n_lags=3, n_boot=9, n_draws=9, rng=1)
    assert check.p_value is None
    assert "not one step cap" in str(check)
    assert len(check.largest(2)) == 2


def test_the_null_band_is_about_the_prediction_and_holds_the_chain(
    rng: np.random.Generator,
) -> None:
    check = chapman_kolmogorov(CHAIN.simulate(300, rng=rng), n_boot=1, n_lags=4, rng=1)
    judged = ~np.isnan(check.null_low)
    assert judged[1:].any()
    assert not judged[0].any()
    inside = (check.null_low <= check.observed) & (check.observed <= check.null_high)
    assert (check.p_value > 0.05) == bool(inside[judged].all())
    middle = (check.null_low + check.null_high) / 2
    assert np.abs(middle - check.predicted)[judged].max() < 0.02


def test_the_worst_pairs_are_named(rng: np.random.Generator) -> None:
    check = chapman_kolmogorov(second_order(300, 0.7, rng), n_lags=4, n_boot=9, n_draws=99, rng=1)
    pairs = check.largest(3)
    assert len(pairs) == len(set(pairs)) == 3
    # Going back is seen as being where it was two steps before.
    assert pairs[0][0] == pairs[0][1]
    assert check.p_value == pytest.approx(0.01)
    assert "widest apart" in str(check)
    assert pairs[0][0] in str(check)
    json.dumps(check.to_dict(), allow_nan=False)


def test_units_are_resampled_whole(rng: np.random.Generator) -> None:
    runs = CHAIN.simulate(40, rng=rng)
    four = StateSequences(
        states=np.tile(runs.states, 4),
        offsets=np.concatenate(([0], np.cumsum(np.tile(runs.lengths, 4)))),
        event=np.tile(runs.event, 4),
        task=np.tile(runs.task, 4),
        unit=np.tile(runs.unit, 4),
        state_names=runs.state_names,
    )
    one = chapman_kolmogorov(runs, n_lags=2, n_boot=99, n_draws=9, rng=5)
    same = chapman_kolmogorov(four, n_lags=2, n_boot=99, n_draws=9, rng=5)
    # Four equal runs a task tell no more than one.
    np.testing.assert_allclose(one.low, same.low)
    np.testing.assert_allclose(one.high, same.high)


def test_small_and_odd_corpora() -> None:
    empty = sequences_of([((), 1), ((), 2)], n_states=2)
    check = chapman_kolmogorov(empty, n_lags=2, n_boot=5, n_draws=9, rng=1)
    assert check.p_value is None
    assert check.observed[1, 0].tolist() == [0, 0, 0.5, 0.5]
    assert np.isnan(check.observed[:, 1:]).all()
    assert check.largest(3) == ()
    assert "p -" in str(check)
    json.dumps(check.to_dict(), allow_nan=False)
    cut = sequences_of([((0,), 0), ((0, 0), 0)])
    assert np.isnan(
        chapman_kolmogorov(cut, n_lags=3, n_boot=5, n_draws=9, rng=1).observed[2, 1:]
    ).all()
    with pytest.raises(ValueError, match="no run"):
        chapman_kolmogorov(empty.select(np.array([], dtype=int)))
    for setting in ({"n_lags": 0}, {"n_boot": 0}, {"n_draws": 0}, {"ci_prob": 1.0}):
        with pytest.raises(ValueError, match="must"):
            chapman_kolmogorov(empty, **setting)  # type: ignore[arg-type]
    assert count_transitions(cut).cut.tolist() == [2]
