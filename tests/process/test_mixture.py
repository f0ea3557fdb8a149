"""Classes of tasks: enumerated likelihoods, nesting, recovery, weights, and the edges."""

from __future__ import annotations

import json
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from oracles.chains import end_law_by_paths, random_chain
from oracles.runs import EDGES, runs
from sojourn.process._mixture_em import climb, tabulate
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import GeometricTail, RefittableProcess, run_scores, task_scores
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.mixture import MixtureFit, fit_mixture
from sojourn.process.simulate import event_rows, simulate_tasks
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

ENDS = {SUCCESS: "success", FAILURE: "failure"}


def mixture_of(chains: list[AbsorbingChain], weights: list[float], tail: GeometricTail) -> Any:
    """A mixture given by its chains."""
    m = chains[0].n_states
    return MixtureFit.from_parameters(
        {
            "weights": np.array(weights),
            "rows": np.stack([event_rows(chain) for chain in chains]),
            "allowed": np.ones((m, m + 2), dtype=bool),
            "masses": np.array([1.0, 1.0, 0.5, 0.0]),
            "tail": np.array([tail.success_hazard, tail.failure_hazard, tail.weight]),
            "horizon": np.array(9),
            "n_parameters": np.array(1),
            "log_posterior": np.array(0.0),
            "fitted_on": np.array([1, 1, 1, 1]),
            "optima": np.array([0.0]),
            "n_open": np.array(0),
            "task": np.array([0]),
            "task_probability": np.full((1, len(chains)), 1.0 / len(chains)),
        },
        state_names=chains[0].state_names,
    )


def two_chains(rng: np.random.Generator, m: int = 2) -> list[AbsorbingChain]:
    return [AbsorbingChain(**random_chain(rng, m, atoms=True)) for _ in range(2)]


def mixed_runs() -> StateSequences:
    return runs(
        [[0, 1], [1], [0, 0, 1], [], [1, 1], [0], [0, 1, 0]],
        [SUCCESS, FAILURE, CENSORED, SUCCESS, FAILURE, CENSORED, SUCCESS],
        [0, 0, 0, 1, 1, 4, 4],
    )


def varied(rng: np.random.Generator, n_tasks: int = 30, cut: bool = True) -> StateSequences:
    """Tasks of two kinds, some runs cut."""
    easy, hard = (AbsorbingChain(**random_chain(rng, 3)) for _ in range(2))
    fit = mixture_of([easy, hard], [0.5, 0.5], GeometricTail.of(mixed_runs()))
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), 4)
    drawn = fit.simulate_tasks(task, max_steps=6 if cut else 1000, rng=rng)
    assert isinstance(drawn, StateSequences)
    return drawn


def with_tasks(sequences: StateSequences, task: np.ndarray, unit: np.ndarray) -> StateSequences:
    return StateSequences(
        states=sequences.states,
        offsets=sequences.offsets,
        event=sequences.event,
        task=task,
        unit=unit,
        state_names=sequences.state_names,
    )


def doubled(sequences: StateSequences) -> StateSequences:
    """Every task twice, under two numbers."""
    index = np.arange(sequences.n_runs)
    twice = sequences.select(np.concatenate((index, index)))
    shift = np.repeat([0, sequences.task.max() + 1], sequences.n_runs)
    return with_tasks(twice, twice.task + shift, twice.unit)


def test_joint_score_of_a_task_is_the_sum_over_classes_of_products_over_runs(
    rng: np.random.Generator,
) -> None:
    chains, weights = two_chains(rng), [0.3, 0.7]
    data = mixed_runs()
    tail = GeometricTail.of(data)
    laws = [end_law_by_paths(chain, 3) for chain in chains]
    expected = []
    for task in (0, 1, 4):
        total = 0.0
        for weight, law in zip(weights, laws, strict=True):
            joint = weight
            for r in np.flatnonzero(data.task == task):
                length, event = int(data.lengths[r]), int(data.event[r])
                if event == CENSORED:
                    p = 1.0 - sum(v for (d, _), v in law.items() if d <= length)
                else:
                    p = law[(length, ENDS[event])]
                g = tail.probability(data.lengths[[r]], data.event[[r]])[0]
                joint *= (1.0 - tail.weight) * p + tail.weight * g
            total += joint
        expected.append(np.log(total))
    np.testing.assert_allclose(
        mixture_of(chains, weights, tail).log_score(data), expected, rtol=1e-12
    )


def test_identical_classes_are_one_chain(rng: np.random.Generator) -> None:
    chain = two_chains(rng)[0]
    data = mixed_runs()
    tail = GeometricTail.of(data)
    fit = mixture_of([chain, chain, chain], [0.2, 0.3, 0.5], tail)
    np.testing.assert_allclose(fit.success_within(9), chain.success_within(9), rtol=1e-12)
    np.testing.assert_allclose(fit.failure_within(9), chain.failure_within(9), rtol=1e-12)
    alone = run_scores(data, chain.success_within(3), chain.failure_within(3), tail=tail)
    np.testing.assert_allclose(fit.log_score(data), task_scores(data, alone), rtol=1e-12)
    assert fit.pass_hat(3) == pytest.approx(chain.success_ever**3)
    for state, step in product(range(2), (1, 2, 7)):
        assert fit.value(state, step) == pytest.approx(chain.value(state))


def test_value_averages_the_classes_by_how_likely_they_are_there(rng: np.random.Generator) -> None:
    chains, weights = two_chains(rng), [0.4, 0.6]
    fit = mixture_of(chains, weights, GeometricTail.of(mixed_runs()))
    for state, step in product(range(2), (1, 2, 4)):
        there, won = 0.0, 0.0
        for weight, chain in zip(weights, chains, strict=True):
            for path in product(range(2), repeat=step):
                if path[-1] != state:
                    continue
                p = weight * chain.initial[path[0]]
                for here, then in pairwise(path):
                    p *= chain.transient[here, then]
                there += p
                won += p * chain.values[state]
        assert fit.value(state, step) == pytest.approx(won / there, rel=1e-10)
    far = fit.value(0, 5000)
    assert far is not None
    assert 0.0 <= far <= 1.0


@pytest.mark.parametrize("move_weight", [0.0, 0.4, 1.0])
def test_log_posterior_never_falls(rng: np.random.Generator, move_weight: float) -> None:
    data = varied(rng)
    assert np.any(data.event == CENSORED)
    prior, tasks = fit_homogeneous(data).prior, tabulate(data)
    start = rng.dirichlet([0.5, 0.5, 0.5], size=(4, tasks.numbers.size))
    weight = rng.uniform(0.0, 2.0, size=(4, tasks.numbers.size))
    reached = [
        climb(
            tasks,
            weight,
            start,
            prior,
            row_mass=1.0,
            class_mass=0.5,
            move_weight=move_weight,
            max_iterations=n,
            tolerance=-np.inf,
        ).log_posterior
        for n in range(40)
    ]
    assert np.all(np.diff(reached, axis=0) > -1e-9)
    assert np.all(reached[-1] > reached[0] + 1.0)


def test_log_posterior_is_the_enumerated_one(rng: np.random.Generator) -> None:
    data = varied(rng, 8)
    fit = fit_mixture(data, 2, move_weight=1.0, rng=rng)
    rows = [event_rows(chain) for chain in fit.chains]
    total = 0.0
    for task in np.unique(data.task):
        joint = np.zeros(2)
        for c, table in enumerate(rows):
            joint[c] = fit.weights[c]
            for r in np.flatnonzero(data.task == task):
                row = 0
                for s in data.states[data.offsets[r] : data.offsets[r + 1]]:
                    joint[c] *= table[row, s]
                    row = s + 1
                if data.event[r] == CENSORED:
                    joint[c] *= table[row, :3].sum()
                else:
                    joint[c] *= table[row, 2 + data.event[r]]
        total += np.log(joint.sum())
    base = event_rows(fit_homogeneous(data).chain)
    total += sum((base[t > 0] * np.log(t[t > 0])).sum() for t in rows)
    total += 0.5 * np.log(fit.weights).sum()
    assert fit.log_posterior == pytest.approx(total, rel=1e-10)


def test_one_class_is_the_homogeneous_chain_up_to_the_prior(rng: np.random.Generator) -> None:
    data = varied(rng, 100)
    alone, fit = fit_homogeneous(data), fit_mixture(data, 1, rng=rng)
    # The prior adds one event a row to hundreds.
    np.testing.assert_allclose(fit.success_within(20), alone.success_within(20), atol=0.01)
    np.testing.assert_allclose(fit.value(1, 3), alone.value(1), atol=0.02)


def test_cut_runs_count_as_not_ended() -> None:
    data = runs(
        [[0]] * 10 + [[0, 0]] * 10, [SUCCESS] * 10 + [CENSORED] * 10, list(range(20)), n_states=1
    )
    chain = fit_mixture(data, 1).chains[0]
    # 30 steps, 10 successes; one more step by the prior, in the same proportion.
    assert chain.to_success[0] == pytest.approx(1 / 3, abs=0.01)


def test_two_kinds_of_tasks_are_found(rng: np.random.Generator) -> None:
    easy = AbsorbingChain(
        transient=[[0.3, 0.4], [0.2, 0.3]],
        to_success=[0.27, 0.45],
        to_failure=[0.03, 0.05],
        initial=[1.0, 0.0],
        state_names=("look", "act"),
    )
    hard = AbsorbingChain(
        transient=[[0.5, 0.4], [0.5, 0.4]],
        to_success=[0.01, 0.01],
        to_failure=[0.09, 0.09],
        initial=[1.0, 0.0],
        state_names=("look", "act"),
    )
    truth = mixture_of([easy, hard], [0.4, 0.6], GeometricTail.of(mixed_runs()))
    task = np.repeat(np.arange(100, dtype=np.int32), 4)
    data = truth.simulate_tasks(task, rng=rng)
    fit = fit_mixture(data, 2, rng=rng)
    assert fit.optima.share_at_best > 0.5
    share_se = np.sqrt(0.4 * 0.6 / 100)
    assert abs(fit.weights[0] - 0.4) < 3.0 * share_se
    for kind, p, n_runs in zip(fit.kinds, (0.9, 0.1), (160, 240), strict=True):
        assert abs(kind.success_ever - p) < 4.0 * np.sqrt(p * (1 - p) / n_runs)
    # The truth's classes differ in pace: a mean of 2 steps against 10, exits geometric.
    assert fit.kinds[0].mean_steps == pytest.approx(easy.mean_steps, rel=0.35)
    assert fit.kinds[1].mean_steps == pytest.approx(hard.mean_steps, rel=0.35)
    rate = float(np.mean(data.event == SUCCESS))
    assert fit.pass_hat(4) > 3.0 * rate**4
    assert fit.pass_hat(1) == pytest.approx(fit.success_ever)
    assert 1.0 - fit.pass_at(4) > (1.0 - rate) ** 4
    found = fit.task_classes(data)
    np.testing.assert_allclose(found.probability, fit.classes.probability, atol=1e-6)
    solved = np.bincount(data.task, weights=data.event == SUCCESS)
    assert solved[fit.members(0)].mean() > 3.0
    assert solved[fit.members(1)].mean() < 1.0
    assert fit.members(0).size + fit.members(1).size == 100


def test_weight_two_is_every_task_twice(rng: np.random.Generator) -> None:
    data = varied(rng)
    fit = fit_mixture(data, 2, n_starts=4, rng=rng)
    weighted = fit.refit(data, weights=np.full(data.n_runs, 2.0), max_iterations=400)
    twice = fit.refit(doubled(data), max_iterations=400)
    np.testing.assert_allclose(weighted.weights, twice.weights, atol=1e-8)
    np.testing.assert_allclose(weighted.success_within(9), twice.success_within(9), atol=1e-8)
    assert weighted.tail == twice.tail
    some = rng.integers(0, 3, size=30)[data.task]
    resampled = data.select(np.repeat(np.arange(data.n_runs), some))
    copy = np.concatenate([np.arange(n) for n in some])
    renamed = with_tasks(resampled, resampled.task + 100 * copy, resampled.unit)
    np.testing.assert_allclose(
        fit.refit(data, weights=some.astype(float), max_iterations=50).success_within(9),
        fit.refit(renamed, max_iterations=50).success_within(9),
        atol=1e-8,
    )


def test_attempts_may_count_unequally_within_a_task(rng: np.random.Generator) -> None:
    data = varied(rng, 12)
    fit = fit_mixture(data, 2, n_starts=4, rng=rng)
    times = np.tile([2.0, 1.0, 1.0, 0.0], 12)
    again = data.select(np.repeat(np.arange(data.n_runs), times.astype(int)))
    np.testing.assert_allclose(
        fit.refit(data, weights=times).success_within(9), fit.refit(again).success_within(9)
    )


def test_bootstrap_curves_are_those_of_refits(rng: np.random.Generator) -> None:
    data = varied(rng)
    fit = fit_mixture(data, 2, rng=rng)
    weights = rng.multinomial(30, np.full(30, 1 / 30), size=5).astype(float)
    curves = fit.bootstrap_curves(data, weights, 12)
    assert curves.shape == (5, 2, 13)
    for b in range(5):
        again = fit.refit(data, weights=weights[b][data.unit])
        np.testing.assert_allclose(curves[b, 0], again.success_within(12), atol=1e-9)
        np.testing.assert_allclose(curves[b, 1], again.failure_within(12), atol=1e-9)
    with pytest.raises(ValueError, match="unit_weights"):
        fit.bootstrap_curves(data, weights[:, 1:], 12)


def test_runs_of_a_task_share_their_class(rng: np.random.Generator) -> None:
    rows: dict[str, Any] = {
        "transient": [[0.5]],
        "initial": [1.0],
        "state_names": ("a",),
    }
    sure = AbsorbingChain(to_success=[0.5], to_failure=[0.0], **rows)
    never = AbsorbingChain(to_success=[0.0], to_failure=[0.5], **rows)
    fit = mixture_of([sure, never], [0.5, 0.5], GeometricTail.of(mixed_runs()))
    task = np.repeat(np.arange(200, dtype=np.int32), 3)
    drawn = fit.simulate_tasks(task, rng=rng)
    solved = np.bincount(task, weights=drawn.event == SUCCESS)
    assert set(solved.tolist()) == {0.0, 3.0}
    np.testing.assert_array_equal(drawn.task, task)
    np.testing.assert_array_equal(drawn.unit, task)
    assert fit.pass_hat(3) == pytest.approx(0.5)
    assert fit.simulate_tasks(task, max_steps=0, rng=rng).states.size == 0
    alone = fit.simulate(400, rng=rng)
    assert abs(np.mean(alone.event == SUCCESS) - 0.5) < 4 * 0.025


def test_log_odds_move_outcomes_and_leave_lengths(rng: np.random.Generator) -> None:
    fit = mixture_of(two_chains(rng), [0.5, 0.5], GeometricTail.of(mixed_runs()))
    task = np.arange(4000, dtype=np.int32)
    plain = fit.simulate_tasks(task, rng=1)
    sure = fit.simulate_tasks(task, log_odds=np.full(4000, 800.0), rng=2)
    assert np.all(sure.event == SUCCESS)
    se = np.sqrt(2.0 * plain.lengths.var() / 4000)
    assert abs(plain.lengths.mean() - sure.lengths.mean()) < 4.0 * se
    same = fit.simulate_tasks(task, log_odds=np.zeros(4000), rng=3)
    p = float(fit.success_ever)
    assert abs(np.mean(same.event == SUCCESS) - p) < 4.0 * np.sqrt(p * (1 - p) / 4000)
    with pytest.raises(ValueError, match="log_odds"):
        fit.simulate_tasks(task, log_odds=np.zeros(3))


def test_large_corpora_are_fitted_on_the_same_units_each_time(rng: np.random.Generator) -> None:
    data = simulate_tasks(two_chains(rng)[0], 50, 4, rng=rng)
    fit = fit_mixture(data, 2, max_runs=80, n_starts=3, rng=1)
    assert fit.fitted_on == (80, 20, 200, 50)
    assert "80 of 200 runs" in str(fit)
    assert fit.classes.task.size == 20
    again = fit_mixture(data, 2, max_runs=80, n_starts=3, rng=1)
    np.testing.assert_array_equal(fit.classes.task, again.classes.task)
    np.testing.assert_array_equal(fit.refit(data).classes.task, fit.classes.task)
    weights = rng.multinomial(50, np.full(50, 1 / 50), size=2).astype(float)
    curves = fit.bootstrap_curves(data, weights, 9)
    for b in range(2):
        once = fit.refit(data, weights=weights[b][data.unit])
        np.testing.assert_allclose(curves[b, 0], once.success_within(9), atol=1e-9)


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_edges_give_numbers_and_no_nan(name: str, n_classes: int) -> None:
    data = EDGES[name]
    for move_weight in (0.0, 1.0):
        fit = fit_mixture(data, n_classes, n_starts=5, move_weight=move_weight, rng=3)
        assert isinstance(fit, RefittableProcess)
        check_numbers(fit, data)
        check_numbers(fit.refit(data), data)
    units = np.unique(data.unit).size
    curves = fit.bootstrap_curves(data, np.ones((2, units)), 5)
    assert np.all(np.isfinite(curves))
    back = MixtureFit.from_parameters(fit.parameters(), state_names=fit.state_names)
    np.testing.assert_array_equal(back.log_score(data), fit.log_score(data))
    assert back.to_dict() == fit.to_dict()
    assert json.loads(json.dumps(fit.to_dict()))["name"] == fit.name
    assert str(back) == str(fit)


def check_numbers(fit: MixtureFit, data: StateSequences) -> None:
    total = fit.success_within(9) + fit.failure_within(9)
    assert np.all(np.isfinite(total))
    assert np.all(total <= 1.0 + 1e-9)
    scores = fit.log_score(data)
    assert scores.shape == (data.n_tasks,)
    assert np.all(np.isfinite(scores))
    assert np.isfinite(fit.log_posterior)
    np.testing.assert_allclose(fit.classes.probability.sum(axis=1), 1.0)
    for state in range(data.n_states):
        value = fit.value(state, 2)
        assert value is None or 0.0 <= value <= 1.0
    assert 0.0 <= fit.pass_hat(2) <= fit.pass_at(2) <= 1.0


def test_bad_settings_are_refused(rng: np.random.Generator) -> None:
    data = mixed_runs()
    with pytest.raises(ValueError, match="n_classes"):
        fit_mixture(data, 0)
    with pytest.raises(ValueError, match="move_weight"):
        fit_mixture(data, 2, move_weight=2.0)
    with pytest.raises(ValueError, match="no run"):
        fit_mixture(data.select(np.zeros(0, dtype=np.intp)), 2)
    fit = fit_mixture(data, 2, rng=rng)
    with pytest.raises(ValueError, match="weights"):
        fit.refit(data, weights=np.zeros(data.n_runs))
    with pytest.raises(ValueError, match="numbered from 1"):
        fit.value(0, 0)
