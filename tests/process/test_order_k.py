"""Chains of order k: rows and curves by enumeration of histories, recovery, weights, the edges."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from oracles.runs import EDGES, runs
from sojourn.process.base import RefittableProcess
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.order_k import OrderFit, fit_order
from sojourn.process.simulate import preset, simulate_runs
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

START = "^"


def random_runs(seed: int, n_runs: int, m: int, *, cut: float = 0.2) -> StateSequences:
    rng = np.random.default_rng(seed)
    paths = [rng.integers(0, m, size=rng.integers(0, 7)).tolist() for _ in range(n_runs)]
    done = rng.choice([SUCCESS, FAILURE], size=n_runs)
    events = np.where(rng.random(n_runs) < cut, CENSORED, done).tolist()
    return runs(paths, events, rng.integers(0, 9, size=n_runs).tolist(), n_states=m)


class SlowChain:
    """The interpolated chain straight from its formula, one history at a time."""

    def __init__(
        self,
        sequences: StateSequences,
        order: int,
        kappa: list[float],
        allowed: Any,
        survived: bool,
    ) -> None:
        self.m, self.order, self.kappa, self.survived = sequences.n_states, order, kappa, survived
        m = self.m
        self.counts: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(m + 3))
        for r in range(sequences.n_runs):
            path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]].tolist()
            for t in range(len(path)):
                last = (m + 2, m, m + 1)[sequences.event[r]]
                then = path[t + 1] if t + 1 < len(path) else last
                past = (START, *path[: t + 1])
                for level in range(1, min(order, len(past)) + 1):
                    self.counts[past[-level:]][then] += 1
        single = np.array([self.spread((s,), None) for s in range(m)])
        mean = single.sum(axis=0)
        base = mean * allowed
        base = base / np.maximum(base.sum(axis=1, keepdims=True), 1e-300)
        mass = kappa[0] * base
        self.single = (single + mass) / (single + mass).sum(axis=1, keepdims=True)

    def spread(self, context: tuple, back: np.ndarray | None) -> np.ndarray:
        m, count = self.m, self.counts[context]
        seen = count[: m + 2].copy()
        moves = count[:m]
        if moves.sum() == 0.0:
            moves = sum(self.counts[(s,)][:m] for s in range(m)) if back is None else back[:m]
        if self.survived and np.sum(moves) > 0.0:
            seen[:m] += count[m + 2] * moves / np.sum(moves)
        return seen

    def row(self, past: tuple) -> np.ndarray:
        """Row given the whole past, ``START`` first."""
        past = past[-self.order :]
        if len(past) == 1:
            return self.single[past[0]]
        back = self.row(past[1:])
        if past not in self.counts:
            return back
        seen = self.spread(past, back)
        mass = self.kappa[len(past) - 1]
        return (seen + mass * back) / (seen.sum() + mass)

    def curves(self, start: np.ndarray, horizon: int) -> np.ndarray:
        m = self.m
        law = np.zeros((2, horizon + 1))
        law[:, 0] = start[m:]
        for length in range(1, horizon + 1):
            for path in product(range(m), repeat=length):
                probability = start[path[0]]
                for t in range(1, length):
                    probability *= self.row((START, *path[:t]))[path[t]]
                law[:, length] += probability * self.row((START, *path))[m:]
        return np.cumsum(law, axis=1)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("cut_step", ["survived", "unseen"])
def test_curves_equal_the_sum_over_every_path(order: int, cut_step: str) -> None:
    # 12 runs of 3 states: at order 3 and 4 most contexts were never seen, and back off.
    sequences = random_runs(7, 12, 3)
    kappa = [0.7, 1.9, 0.4, 3.0][:order]
    fit = fit_order(sequences, order, kappa=kappa, cut_step=cut_step)
    slow = SlowChain(sequences, order, kappa, fit.allowed, cut_step == "survived")
    curves = slow.curves(fit.start, 7)
    np.testing.assert_allclose(fit.success_within(7), curves[0], atol=1e-13)
    np.testing.assert_allclose(fit.failure_within(7), curves[1], atol=1e-13)
    assert fit.contexts.shape[0] <= 3 + (order - 1) * sequences.states.size


def test_value_after_a_history_is_the_chance_of_success_from_there() -> None:
    sequences = random_runs(3, 15, 2, cut=0.0)
    fit = fit_order(sequences, 3, kappa=1.0)
    slow = SlowChain(sequences, 3, [1.0] * 3, fit.allowed, True)

    def chance(past: tuple, left: int) -> float:
        if left == 0:
            return 0.0
        row = slow.row(past)
        return row[2] + sum(row[j] * chance((*past, j), left - 1) for j in range(2))

    # Histories are followed far enough that hardly any run is still going.
    def far(past: tuple) -> float:
        mass, won = {past[-3:]: 1.0}, 0.0
        for _ in range(300):
            further: dict[tuple, float] = defaultdict(float)
            for h, p in mass.items():
                row = slow.row(h)
                won += p * row[2]
                for j in range(2):
                    further[(*h, j)[-3:]] += p * row[j]
            mass = further
        return won

    assert chance((START, 0), 4) < far((START, 0))
    for history in ((0,), (1,), (0, 1), (1, 1), (0, 1, 0), (1, 0, 1)):
        assert fit.value_after(history, from_start=True) == pytest.approx(
            far((START, *history)), abs=1e-10
        )
    for history in ((0, 1, 0), (1, 1, 1), (0, 0, 1, 0)):
        assert fit.value_after(history) == pytest.approx(far(history[-3:]), abs=1e-10)
    # The value at a step is the mean over the histories that lead there.
    for step, state in ((1, 0), (2, 1), (4, 0)):
        total = won = 0.0
        for path in product(range(2), repeat=step):
            if path[-1] != state:
                continue
            p = fit.start[path[0]]
            for t in range(1, step):
                p *= slow.row((START, *path[:t]))[path[t]]
            total += p
            won += p * far((START, *path))
        assert fit.value(state, step) == pytest.approx(won / total, abs=1e-10)


@pytest.mark.parametrize("kappa", [0.3, 5.0, "empirical_bayes"])
@pytest.mark.parametrize("cut_step", ["survived", "unseen"])
def test_order_one_is_the_homogeneous_fit(kappa: Any, cut_step: str) -> None:
    sequences = random_runs(11, 60, 4)
    one = fit_order(sequences, 1, kappa=kappa, cut_step=cut_step)
    plain = fit_homogeneous(sequences, kappa=kappa, cut_step=cut_step)
    np.testing.assert_allclose(one.rows[:, :4], plain.chain.transient, atol=1e-14)
    np.testing.assert_allclose(one.success_within(30), plain.success_within(30), atol=1e-13)
    np.testing.assert_allclose(one.failure_within(30), plain.failure_within(30), atol=1e-13)
    np.testing.assert_allclose(one.log_score(sequences), plain.log_score(sequences), atol=1e-12)
    assert one.n_parameters == plain.n_parameters
    assert one.horizon == plain.horizon
    assert one.value(2, 5) == pytest.approx(plain.value(2, 5), abs=1e-13)
    assert one.mean_steps.value == pytest.approx(plain.mean_steps.value, rel=1e-12)
    assert one.success_ever.value == pytest.approx(plain.success_ever.value, abs=1e-13)


def test_the_mass_is_the_most_probable_one() -> None:
    sequences = simulate_runs(preset("react"), 300, rng=5, memory=0.2)
    fit = fit_order(sequences, 2)
    order_one = fit_order(sequences, 1, kappa=float(fit.kappa[0]))
    m = sequences.n_states
    pairs: dict[tuple, np.ndarray] = defaultdict(lambda: np.zeros(m + 2))
    for r in range(300):
        path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]].tolist()
        after = [*path[1:], m + int(sequences.event[r]) - 1]
        for before, here, then in zip([START, *path[:-1]], path, after, strict=True):
            pairs[(before, here)][then] += 1

    def score(k: float) -> float:
        total = 0.0
        for (_, here), count in pairs.items():
            base = k * order_one.rows[here]
            ok = count > 0
            total += gammaln(k) - gammaln(k + count.sum())
            total += np.sum(gammaln(base[ok] + count[ok]) - gammaln(base[ok]))
        return total

    grid = np.exp(np.linspace(np.log(0.01), np.log(1e4), 1000))
    best = grid[int(np.argmax([score(k) for k in grid]))]
    assert fit.kappa[1] == pytest.approx(best, rel=0.02)


def test_a_second_order_chain_is_recovered_and_a_first_order_one_stays_first_order() -> None:
    chain, memory = preset("react"), 0.35
    sequences = simulate_runs(chain, 20_000, rng=2, memory=memory)
    two = fit_order(sequences, 2)
    row = {tuple(c): r for c, r in zip(two.contexts.tolist(), two.rows, strict=True)}
    # From `before` the run is in `here`: with probability `memory` it goes back.
    for before, here in ((0, 1), (1, 2), (2, 4), (4, 3)):
        truth = np.append(chain.transient[here], [chain.to_success[here], chain.to_failure[here]])
        truth = (1.0 - memory) * truth
        truth[before] += memory
        last, prior = sequences.states[1:], sequences.states[:-1]
        n = np.count_nonzero((prior == before) & (last == here))
        error = np.sqrt(truth * (1.0 - truth) / n)
        assert np.all(np.abs(row[before, here] - truth) < 4.0 * error + 10.0 / n)
    # Its curve is the true one, which order 1 misses.
    truth = simulate_runs(chain, 200_000, rng=3, memory=memory)
    d = np.arange(41)
    won = np.sort(truth.lengths[truth.event == SUCCESS])
    curve = np.searchsorted(won, d, side="right") / truth.n_runs
    assert np.max(np.abs(two.success_within(40) - curve)) < 4 * 0.5 / np.sqrt(20_000)
    first = fit_order(chain.simulate(2000, rng=4), 2)
    assert first.kappa[1] > 100.0


def test_simulation_and_curves_agree_and_values_too() -> None:
    fit = fit_order(simulate_runs(preset("cot_agent"), 150, rng=8, memory=0.3), 2)
    n = 100_000
    drawn = fit.simulate(n, rng=6)
    d = np.arange(31)
    for event, curve in ((SUCCESS, fit.success_within(30)), (FAILURE, fit.failure_within(30))):
        ends = np.sort(drawn.lengths[drawn.event == event])
        share = np.searchsorted(ends, d, side="right") / n
        assert np.all(np.abs(share - curve) < 4.5 * np.sqrt(curve * (1 - curve) / n) + 1e-9)
    for state, step in ((1, 2), (4, 3)):
        long = np.flatnonzero(drawn.lengths >= step)
        there = long[drawn.states[drawn.offsets[long] + step - 1] == state]
        share = np.mean(drawn.event[there] == SUCCESS)
        assert fit.value(state, step) == pytest.approx(share, abs=4 * 0.5 / np.sqrt(there.size))
    assert fit.success_ever.value == pytest.approx(np.mean(drawn.event == SUCCESS), abs=0.007)
    spread = drawn.lengths.std() / np.sqrt(n)
    assert fit.mean_steps.value == pytest.approx(drawn.lengths.mean(), abs=4.5 * spread)
    capped = fit.simulate(1000, rng=6, max_steps=3)
    assert capped.lengths.max() == 3
    assert np.all(capped.lengths[capped.event == CENSORED] == 3)


def test_odds_move_outcomes_and_not_ends() -> None:
    fit = fit_order(simulate_runs(preset("react"), 150, rng=8, memory=0.3), 2)
    task = np.arange(40_000, dtype=np.int32) // 4
    plain = fit.simulate_tasks(task, rng=1)
    up = fit.simulate_tasks(task, rng=1, log_odds=np.full(task.size, 1.0))
    np.testing.assert_array_equal(up.states, plain.states)
    np.testing.assert_array_equal(up.unit, task)
    same = fit.simulate_tasks(task, rng=1, log_odds=np.zeros(task.size))
    rate = np.mean(plain.event == SUCCESS)
    assert np.mean(same.event == SUCCESS) == pytest.approx(rate, abs=0.012)
    assert np.mean(up.event == SUCCESS) > rate + 0.05


def test_doubled_weights_are_doubled_data_and_zero_weights_are_no_data() -> None:
    sequences = random_runs(13, 40, 3)
    fit = fit_order(sequences, 3, kappa=[1.0, 2.0, 3.0])
    weights = np.random.default_rng(1).integers(0, 3, size=40).astype(float)
    chosen = np.repeat(np.arange(40), weights.astype(int))
    weighted, repeated = fit.refit(sequences, weights=weights), fit.refit(sequences.select(chosen))
    np.testing.assert_allclose(weighted.success_within(20), repeated.success_within(20), atol=1e-13)
    np.testing.assert_allclose(
        weighted.log_score(sequences), repeated.log_score(sequences), atol=1e-12
    )
    assert (weighted.n_runs, weighted.n_tasks, weighted.horizon) == (
        repeated.n_runs,
        repeated.n_tasks,
        repeated.horizon,
    )
    assert weighted.n_parameters == repeated.n_parameters
    np.testing.assert_allclose(fit.refit(sequences).rows, fit.rows, atol=1e-15)


def test_bootstrap_curves_are_those_of_refits() -> None:
    sequences = random_runs(17, 50, 3)
    fit = fit_order(sequences, 2)
    names, unit = np.unique(sequences.unit, return_inverse=True)
    weights = np.random.default_rng(2).multinomial(
        names.size, np.full(names.size, 1 / names.size), size=5
    )
    curves = fit.bootstrap_curves(sequences, np.vstack((np.ones(names.size), weights)), 15)
    assert curves.shape == (6, 2, 16)
    np.testing.assert_allclose(curves[0, 0], fit.success_within(15), atol=1e-13)
    for b in range(5):
        refit = fit.refit(sequences, weights=weights[b][unit].astype(float))
        np.testing.assert_allclose(curves[b + 1, 0], refit.success_within(15), atol=1e-13)
        np.testing.assert_allclose(curves[b + 1, 1], refit.failure_within(15), atol=1e-13)


def test_runs_capped_at_a_step_give_the_same_chain() -> None:
    chain = preset("react")
    whole = simulate_runs(chain, 30_000, rng=9, memory=0.3)
    capped = simulate_runs(chain, 30_000, rng=9, memory=0.3, max_steps=4)
    assert np.mean(capped.event == CENSORED) > 0.3
    one, other = fit_order(whole, 2), fit_order(capped, 2)
    assert np.max(np.abs(one.success_within(40) - other.success_within(40))) < 0.012
    unseen = fit_order(capped, 2, cut_step="unseen")
    assert np.max(np.abs(one.success_within(40)[:6] - unseen.success_within(40)[:6])) > 0.012


def test_a_model_file_holds_the_fit() -> None:
    sequences = random_runs(19, 30, 3)
    fit = fit_order(sequences, 3)
    again = OrderFit.from_parameters(fit.parameters(), fit.state_names)
    np.testing.assert_array_equal(again.success_within(30), fit.success_within(30))
    assert again.to_dict() == fit.to_dict()
    assert again.value(1, 3) == fit.value(1, 3)
    assert str(again) == str(fit)
    np.testing.assert_array_equal(again.refit(sequences).rows, fit.refit(sequences).rows)
    broken = fit.parameters() | {"contexts": fit.contexts[::-1]}
    with pytest.raises(ValueError, match="contexts"):
        OrderFit.from_parameters(broken, fit.state_names)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("order", [2, 3])
def test_edges_are_sane_or_withheld(edge: str, order: int) -> None:
    sequences = EDGES[edge]
    fit = fit_order(sequences, order)
    success, failure = fit.success_within(9), fit.failure_within(9)
    assert np.all(np.diff(success) >= 0.0)
    assert np.all(np.diff(failure) >= 0.0)
    assert np.all(success + failure <= 1.0 + 1e-12)
    assert np.all(np.isfinite(fit.log_score(sequences)))
    assert np.all(np.isfinite(fit.rows))
    np.testing.assert_allclose(fit.rows.sum(axis=1), 1.0)
    all_cut = np.all(sequences.event == CENSORED)
    assert (fit.success_ever.value is None) == all_cut
    for state in range(sequences.n_states):
        for step in (1, 2, 50):
            value = fit.value(state, step)
            assert value is None or 0.0 <= value <= 1.0
    if edge == "no success":
        assert success[-1] == 0.0
    assert fit.simulate(20, rng=1, max_steps=30).n_runs == 20
    weights = np.ones((1, np.unique(sequences.unit).size))
    curves = fit.bootstrap_curves(sequences, weights, 9)
    np.testing.assert_allclose(curves[0, 0], success, atol=1e-13)
    json.dumps(fit.to_dict(), allow_nan=False)
    assert str(fit)
    assert isinstance(fit, RefittableProcess)
    assert fit.name == f"order-{order}"
    assert fit.extrapolates


@pytest.mark.parametrize(
    "setting",
    [
        {"order": 0},
        {"order": 1.5},
        {"kappa": 0.0},
        {"kappa": "guess"},
        {"kappa": [1.0, 2.0, 3.0]},
        {"cut_step": "lost"},
        {"allowed": np.ones((2, 2), dtype=bool)},
    ],
)
def test_bad_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|shape"):
        fit_order(EDGES["one state"], **setting)


def test_no_runs_and_bad_weights_are_refused() -> None:
    sequences = EDGES["one state"]
    with pytest.raises(ValueError, match="no run"):
        fit_order(sequences.select(np.array([], dtype=int)))
    fit = fit_order(sequences)
    for weights in (np.zeros(3), np.ones(2), np.array([1.0, -1.0, 1.0]), np.full(3, np.nan)):
        with pytest.raises(ValueError, match="weight"):
            fit.refit(sequences, weights=weights)
    with pytest.raises(ValueError, match="unit_weights"):
        fit.bootstrap_curves(sequences, np.ones((2, 9)), 5)
    with pytest.raises(ValueError, match="states"):
        fit.refit(EDGES["no success"])
    with pytest.raises(ValueError, match="log_odds"):
        fit.simulate_tasks(np.zeros(3, dtype=np.int32), log_odds=np.zeros(2))
