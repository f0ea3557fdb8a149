"""Hidden phases: enumerated phase paths, another library's filter, weights, and the edges."""

from __future__ import annotations

import json
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from oracles.runs import EDGES, runs
from sojourn.process import _phase_kernels
from sojourn.process._phase_em import climb_from, prior_of
from sojourn.process.base import RefittableProcess, run_scores, task_scores
from sojourn.process.phases import PhaseFit, fit_phases
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

Law = tuple[np.ndarray, np.ndarray, np.ndarray]


def random_law(rng: np.random.Generator, K: int, m: int) -> Law:
    """Start (K + 2), rows (K, K + 2), emission (K, m)."""
    return (
        rng.dirichlet(np.ones(K + 2)),
        rng.dirichlet(np.ones(K + 2), size=K),
        rng.dirichlet(np.ones(m), size=K),
    )


def fit_of(law: Law, names: tuple[str, ...]) -> PhaseFit:
    start, rows, emission = law
    given: dict[str, Any] = {
        "start": start,
        "rows": rows,
        "emission": emission,
        "left_to_right": np.array(False),
        "prior_mass": np.array(1.0),
        "emission_weight": np.array(1.0),
        "tail": np.array([0.1, 0.1, 0.01]),
        "horizon": np.array(5),
        "n_parameters": np.array(3),
        "log_posterior": np.array(0.0),
        "fitted_on": np.array([1, 1, 1, 1]),
        "optima": np.array([0.0]),
        "n_open": np.array(0),
    }
    return PhaseFit.from_parameters(given, state_names=names)


def phase_paths(law: Law, path: list[int], event: int) -> list[tuple[tuple[int, ...], float]]:
    """Every path of phases with its joint probability with what was seen."""
    start, rows, emission = law
    K = emission.shape[0]
    joint = []
    for phases in product(range(K), repeat=len(path)):
        p = start[phases[0]] * np.prod([emission[z, o] for z, o in zip(phases, path, strict=True)])
        for here, there in pairwise(phases):
            p *= rows[here, there]
        last = rows[phases[-1]]
        p *= last[:K].sum() if event == CENSORED else last[K + event - 1]
        joint.append((phases, float(p)))
    return joint


def expect(data: StateSequences, law: Law, weight: np.ndarray) -> tuple[float, Law]:
    K, m = law[2].shape
    counts = (np.empty(K + 2), np.empty((K, K + 3)), np.empty((K, m)))
    longest = max(1, int(data.lengths.max()))
    value = _phase_kernels.expect(
        data.states,
        data.offsets,
        data.event,
        weight,
        *law,
        np.empty((longest, K)),
        np.empty(longest),
        *counts,
    )
    return value, counts


def small() -> StateSequences:
    return runs(
        [[0, 1, 1], [1], [2, 0, 1, 0], [], [0, 0], []],
        [SUCCESS, FAILURE, CENSORED, FAILURE, SUCCESS, CENSORED],
        [0, 0, 1, 1, 2, 2],
    )


def test_likelihood_and_expected_counts_are_those_of_all_phase_paths(
    rng: np.random.Generator,
) -> None:
    data, law = small(), random_law(rng, 2, 3)
    weight = np.array([1.0, 2.0, 0.5, 3.0, 0.0, 1.0])
    value, (n_start, n_rows, n_emission) = expect(data, law, weight)
    log_likelihood = 3.0 * np.log(law[0][3])
    e_start, e_rows, e_emission = np.zeros(4), np.zeros((2, 5)), np.zeros((2, 3))
    e_start[3] = 3.0
    for r in (0, 1, 2, 4):
        path = data.states[data.offsets[r] : data.offsets[r + 1]].tolist()
        event = int(data.event[r])
        joint = phase_paths(law, path, event)
        total = sum(p for _, p in joint)
        log_likelihood += weight[r] * np.log(total)
        for phases, p in joint:
            share = weight[r] * p / total
            e_start[phases[0]] += share
            for here, there in pairwise(phases):
                e_rows[here, there] += share
            e_rows[phases[-1], 4 if event == CENSORED else 1 + event] += share
            for z, o in zip(phases, path, strict=True):
                e_emission[z, o] += share
    assert value == pytest.approx(log_likelihood, rel=1e-12)
    np.testing.assert_allclose(n_start, e_start, atol=1e-12)
    np.testing.assert_allclose(n_rows, e_rows, atol=1e-12)
    np.testing.assert_allclose(n_emission, e_emission, atol=1e-12)


def test_likelihood_agrees_with_hmmlearn_where_ends_are_absorbing_states(
    rng: np.random.Generator,
) -> None:
    from hmmlearn.hmm import CategoricalHMM

    K, m = 3, 4
    start, rows, emission = random_law(rng, K, m)
    start[K:] = 0.0
    start /= start.sum()
    model = CategoricalHMM(n_components=K + 2, n_features=m + 2)
    model.startprob_ = start
    model.transmat_ = np.vstack((rows, np.eye(K + 2)[K:]))
    shown = np.zeros((K + 2, m + 2))
    shown[:K, :m] = emission
    shown[[K, K + 1], [m, m + 1]] = 1.0
    model.emissionprob_ = shown
    paths = [rng.integers(0, m, size=n).tolist() for n in (1, 4, 9, 300)]
    events = [SUCCESS, FAILURE, FAILURE, SUCCESS]
    data = runs(paths, events, n_states=m)
    value, _ = expect(data, (start, rows, emission), np.ones(4))
    whole = [[*path, m + event - 1] for path, event in zip(paths, events, strict=True)]
    expected = model.score(np.concatenate(whole)[:, None], [len(path) for path in whole])
    assert value == pytest.approx(expected, rel=1e-10)


def test_compiled_and_plain_loops_agree(rng: np.random.Generator) -> None:
    data, law = small(), random_law(rng, 3, 3)
    value, counts = expect(data, law, np.ones(6))
    again = [np.empty_like(table) for table in counts]
    plain = _phase_kernels.expect.py_func(  # type: ignore[attr-defined]
        data.states,
        data.offsets,
        data.event,
        np.ones(6),
        *law,
        np.empty((4, 3)),
        np.empty(4),
        *again,
    )
    assert plain == pytest.approx(value)
    for one, other in zip(counts, again, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_counts_from_ends_alone_are_those_from_runs(rng: np.random.Generator) -> None:
    data = small()
    start, rows, _ = random_law(rng, 3, 3)
    weight = np.array([1.0, 2.0, 0.5, 3.0, 0.0, 1.0])
    value, (n_start, n_rows, _) = expect(data, (start, rows, np.ones((3, 3))), weight)
    ends = np.zeros((3, 5))
    np.add.at(ends, (data.event, data.lengths), weight)
    counts = np.empty(5), np.empty((3, 6))
    room = np.empty((5, 3)), np.empty(5), np.empty((5, 3))
    alone = _phase_kernels.expect_ends(ends, start, rows, *room, *counts)
    assert alone == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(counts[0], n_start, atol=1e-12)
    np.testing.assert_allclose(counts[1], n_rows, atol=1e-12)


def test_very_long_runs_do_not_underflow() -> None:
    ends = np.zeros((3, 5001))
    ends[:, 5000] = 1.0, 2.0, 1.0
    start, rows = np.array([1.0, 0.0, 0.0]), np.array([[0.2, 0.5, 0.3]])
    counts = np.empty(3), np.empty((1, 4))
    room = np.empty((5001, 1)), np.empty(5001), np.empty((5001, 3))
    value = _phase_kernels.expect_ends(ends, start, rows, *room, *counts)
    expected = 4 * 4999 * np.log(0.2) + np.log(0.2) + 2 * np.log(0.5) + np.log(0.3)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(counts[1], [[4 * 4999, 2.0, 1.0, 1.0]], rtol=1e-9)


@pytest.mark.parametrize("topology", ["general", "left_to_right"])
@pytest.mark.parametrize("emission_weight", [0.0, 0.3, 1.0])
def test_log_posterior_never_falls(
    rng: np.random.Generator, topology: str, emission_weight: float
) -> None:
    data = simulate_tasks(preset("react"), 20, 3, rng=rng, max_steps=5)
    assert np.any(data.event == CENSORED)
    weights = rng.uniform(0.0, 2.0, size=data.n_runs)
    prior = prior_of(data, weights, 3, topology, 1.0)
    begin = [rng.dirichlet(np.ones(table.shape[-1]), size=table.shape[:-1]) for table in prior]
    begin[1][prior.rows == 0.0] = 0.0
    begin[1] /= begin[1].sum(axis=1, keepdims=True)
    reached = [
        climb_from(data, weights, prior, begin, emission_weight, n, tolerance=-np.inf).log_posterior
        for n in range(30)
    ]
    assert np.all(np.diff(reached) > -1e-9)
    assert reached[-1] > reached[0] + 1.0


@pytest.mark.parametrize("emission_weight", [0.0, 0.3, 1.0])
def test_log_posterior_is_the_enumerated_one(emission_weight: float) -> None:
    data = small()
    fit = fit_phases(data, 2, emission_weight=emission_weight, n_starts=2, n_long=1, rng=1)
    given = fit.parameters()
    law = (given["start"], given["rows"], given["emission"])
    tempered = (law[0], law[1], law[2] ** emission_weight)
    total = float(np.log(law[0][3]))  # a run that failed before its first step
    for r in np.flatnonzero(data.lengths > 0):
        path = data.states[data.offsets[r] : data.offsets[r + 1]].tolist()
        total += np.log(sum(p for _, p in phase_paths(tempered, path, int(data.event[r]))))
    prior = prior_of(data, np.ones(data.n_runs), 2, "general", 1.0)
    for weight, mass, table in zip((1.0, 1.0, emission_weight), prior, law, strict=True):
        total += weight * float((mass[mass > 0] * np.log(table[mass > 0])).sum())
    assert fit.log_posterior == pytest.approx(total, rel=1e-10)


def test_one_phase_has_constant_hazards() -> None:
    data = runs([[0], [0, 1], [1, 0, 1], [1, 1]], [SUCCESS, FAILURE, SUCCESS, CENSORED])
    fit = fit_phases(data, 1)
    chain = fit.phase_chain
    # 8 steps, 2 successes, 1 failure; the prior adds one step with hazards 2/9 and 1/9.
    assert chain.to_success[0] == pytest.approx((2 + 2 / 9) / 9, rel=1e-6)
    assert chain.to_failure[0] == pytest.approx((1 + 1 / 9) / 9, rel=1e-6)
    assert fit.emission[0, 0] == pytest.approx((3 + 3.5 / 9) / 9, rel=1e-6)


def test_values_are_those_of_all_phase_paths(rng: np.random.Generator) -> None:
    law = random_law(rng, 2, 3)
    fit = fit_of(law, ("a", "b", "c"))
    values = fit.phase_chain.values
    for path in ([0], [1, 2], [2, 0, 0]):
        # What a step shows is known, whether the run ends with it is not.
        open_law = (law[0], np.column_stack((law[1][:, :2], np.ones(2), np.zeros(2))), law[2])
        joint = phase_paths(open_law, path, SUCCESS)
        total = sum(p for _, p in joint)
        expected = sum(p * values[phases[-1]] for phases, p in joint) / total
        assert fit.value_after(path) == pytest.approx(expected, rel=1e-10)
    for state, step in ((0, 1), (2, 3)):
        there, won = 0.0, 0.0
        for path in product(range(3), repeat=step):
            if path[-1] == state:
                for phases, p in phase_paths(open_law, list(path), SUCCESS):
                    there += p
                    won += p * values[phases[-1]]
        assert fit.value(state, step) == pytest.approx(won / there, rel=1e-10)
    far = fit.value(0, 3000)
    assert far is not None
    assert 0.0 <= far <= 1.0
    with pytest.raises(ValueError, match="states must lie"):
        fit.value_after([3])
    with pytest.raises(ValueError, match="one state or more"):
        fit.value_after([])


def test_what_cannot_be_seen_has_no_value() -> None:
    start, rows, emission = (
        np.array([1.0, 0.0, 0.0]),
        np.array([[0.5, 0.5, 0.0]]),
        np.array([[1.0, 0.0]]),
    )
    fit = fit_of((start, rows, emission), ("a", "b"))
    assert fit.value(1, 1) is None
    assert fit.value_after([0, 1]) is None
    assert fit.value(0, 2) == pytest.approx(1.0)


def test_score_is_that_of_the_phase_chain(rng: np.random.Generator) -> None:
    fit, data = fit_of(random_law(rng, 3, 3), ("a", "b", "c")), small()
    chain = fit.phase_chain
    alone = run_scores(data, chain.success_within(4), chain.failure_within(4), tail=fit.tail)
    np.testing.assert_allclose(fit.log_score(data), task_scores(data, alone))


def test_weight_two_is_every_run_twice(rng: np.random.Generator) -> None:
    data = simulate_tasks(preset("react"), 20, 3, rng=rng, max_steps=6)
    fit = fit_phases(data, 3, n_starts=4, n_long=2, rng=rng)
    some = rng.integers(0, 3, size=20)[data.task]
    resampled = data.select(np.repeat(np.arange(data.n_runs), some))
    one = fit.refit(data, weights=some.astype(float), max_iterations=200)
    other = fit.refit(resampled, max_iterations=200)
    np.testing.assert_allclose(one.success_within(9), other.success_within(9), atol=1e-9)
    np.testing.assert_allclose(one.emission, other.emission, atol=1e-7)
    assert one.tail.weight == pytest.approx(other.tail.weight)


def test_bootstrap_curves_are_those_of_refits(rng: np.random.Generator) -> None:
    data = simulate_tasks(preset("react"), 20, 3, rng=rng)
    fit = fit_phases(data, 3, n_starts=4, n_long=2, rng=rng)
    weights = rng.multinomial(20, np.full(20, 1 / 20), size=4).astype(float)
    curves = fit.bootstrap_curves(data, weights, 12, max_iterations=9)
    assert curves.shape == (4, 2, 13)
    for b in range(4):
        again = fit.refit(data, weights=weights[b][data.unit], max_iterations=9)
        np.testing.assert_allclose(curves[b, 0], again.success_within(12), atol=1e-9)
        np.testing.assert_allclose(curves[b, 1], again.failure_within(12), atol=1e-9)


def staged(n_runs: int, rng: np.random.Generator) -> StateSequences:
    """Runs that pass four phases one after the other: times are concentrated about 20 steps."""
    stay = 0.8
    rows = np.zeros((4, 6))
    rows[np.arange(4), np.arange(4)] = stay
    rows[np.arange(3), np.arange(1, 4)] = 1.0 - stay
    rows[3, 4:] = 0.13, 0.07
    emission = np.array([[0.6, 0.3, 0.1]] * 2 + [[0.1, 0.3, 0.6]] * 2)
    start = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return fit_of((start, rows, emission), ("a", "b", "c")).simulate(n_runs, rng=rng)


@pytest.mark.parametrize(
    ("topology", "emission_weight"), [("left_to_right", 0.0), ("general", 1.0)]
)
def test_concentrated_times_are_followed(
    rng: np.random.Generator, topology: str, emission_weight: float
) -> None:
    data = staged(400, rng)
    fit = fit_phases(data, 4, topology=topology, emission_weight=emission_weight, rng=rng)
    horizon = int(data.lengths.max())
    for curve, event in (
        (fit.success_within(horizon), SUCCESS),
        (fit.failure_within(horizon), FAILURE),
    ):
        lengths = data.lengths[data.event == event]
        observed = np.searchsorted(np.sort(lengths), np.arange(horizon + 1), side="right") / 400
        # Both are within the sampling error of 400 runs (DKW at .05) of the truth.
        assert np.max(np.abs(curve - observed)) < 1.36 / np.sqrt(400)
    if topology == "left_to_right":
        assert np.all(np.tril(fit.phase_chain.transient, -1) == 0.0)
    geometric = fit_phases(data, 1)
    assert np.max(np.abs(geometric.success_within(horizon) - fit.success_within(horizon))) > 0.07


def test_without_weight_of_states_only_ends_count(rng: np.random.Generator) -> None:
    data = staged(100, rng)
    shuffled = StateSequences(
        states=rng.permutation(data.states),
        offsets=data.offsets,
        event=data.event,
        task=data.task,
        unit=data.unit,
        state_names=data.state_names,
    )
    one = fit_phases(data, 3, emission_weight=0.0, n_starts=3, rng=1)
    other = fit_phases(shuffled, 3, emission_weight=0.0, n_starts=3, rng=1)
    np.testing.assert_allclose(one.success_within(40), other.success_within(40), atol=1e-10)
    assert one.name == "phases-3-timing"
    # The states show the phase all the same: late steps show c.
    late = [phase[2] for phase in one.emission]
    assert late[-1] > late[0]
    assert np.ptp(other.emission[:, 2]) < np.ptp(late)


def test_simulated_runs_follow_the_law(rng: np.random.Generator) -> None:
    fit = fit_of(random_law(rng, 3, 3), ("a", "b", "c"))
    n = 20_000
    drawn = fit.simulate(n, rng=rng)
    for d in (0, 1, 3):
        p = float(fit.success_within(3)[d])
        share = float(np.mean((drawn.event == SUCCESS) & (drawn.lengths <= d)))
        assert abs(share - p) < 4.0 * np.sqrt(p * (1 - p) / n)
    first = drawn.states[drawn.offsets[:-1][drawn.lengths > 0]]
    initial = fit.phase_chain.initial / fit.phase_chain.initial.sum()
    for state in range(3):
        p = float(initial @ fit.emission[:, state])
        assert abs(np.mean(first == state) - p) < 4.0 * np.sqrt(p * (1 - p) / first.size)
    sure = fit.simulate_tasks(
        np.arange(200, dtype=np.int32), log_odds=np.full(200, -900.0), max_steps=50, rng=rng
    )
    assert not np.any(sure.event == SUCCESS)


def test_a_refit_takes_up_an_end_that_was_never_seen() -> None:
    fit = fit_phases(runs([[0, 1], [1]], [SUCCESS, SUCCESS]), 2, n_starts=3, rng=1)
    assert fit.failure_within(50)[-1] == 0.0
    other = fit.refit(runs([[0, 1], [1]], [SUCCESS, FAILURE]), max_iterations=400)
    assert 0.2 < other.failure_within(50)[-1] < 0.8


def test_large_corpora_are_fitted_on_a_stated_part(rng: np.random.Generator) -> None:
    data = simulate_tasks(preset("react"), 50, 4, rng=rng)
    fit = fit_phases(data, 2, n_starts=2, n_long=1, max_runs=80, rng=1)
    assert fit.fitted_on == (80, 20, 200, 50)
    assert "80 of 200 runs" in str(fit)
    assert fit.refit(data).fitted_on == fit.fitted_on


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("n_phases", [1, 3])
def test_edges_give_numbers_and_no_nan(name: str, n_phases: int) -> None:
    data = EDGES[name]
    for topology, weight in (("general", 1.0), ("left_to_right", 0.0)):
        fit = fit_phases(
            data, n_phases, topology=topology, emission_weight=weight, n_starts=3, n_long=2, rng=3
        )
        assert isinstance(fit, RefittableProcess)
        for one in (fit, fit.refit(data)):
            total = one.success_within(9) + one.failure_within(9)
            assert np.all(np.isfinite(total))
            assert np.all(total <= 1.0 + 1e-9)
            assert np.all(np.isfinite(one.log_score(data)))
            assert np.isfinite(one.log_posterior)
            assert np.all(np.isfinite(one.emission))
            value = one.value(0, 2)
            assert value is None or 0.0 <= value <= 1.0
    units = np.unique(data.unit).size
    assert np.all(np.isfinite(fit.bootstrap_curves(data, np.ones((2, units)), 5)))
    back = PhaseFit.from_parameters(fit.parameters(), state_names=fit.state_names)
    np.testing.assert_array_equal(back.log_score(data), fit.log_score(data))
    assert back.to_dict() == fit.to_dict()
    assert json.loads(json.dumps(fit.to_dict()))["name"] == fit.name
    assert str(back) == str(fit)


def test_bad_settings_are_refused() -> None:
    data = small()
    with pytest.raises(ValueError, match="topology"):
        fit_phases(data, 2, topology="ring")
    with pytest.raises(ValueError, match="emission_weight"):
        fit_phases(data, 2, emission_weight=-1.0)
    with pytest.raises(ValueError, match="prior_mass"):
        fit_phases(data, 2, prior_mass=0.0)
    with pytest.raises(ValueError, match="same states"):
        fit_phases(data, 2, n_starts=1, n_long=1).refit(runs([[0]], [SUCCESS]))
