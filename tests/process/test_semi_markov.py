"""Semi-Markov chains: curves by enumeration of paths, laws against SciPy, recovery, the edges."""

from __future__ import annotations

import json
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import nbinom

from oracles.chains import random_chain
from oracles.runs import EDGES, runs
from sojourn.process import _renewal_kernels as kernels
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import RefittableProcess
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.semi_markov import SemiMarkovFit, fit_semi_markov
from sojourn.process.simulate import preset, simulate_runs
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

LAWS = ("hazard", "negative_binomial", "discrete_weibull")


def random_runs(seed: int, n_runs: int, m: int, *, cut: float = 0.2) -> StateSequences:
    rng = np.random.default_rng(seed)
    paths = [
        np.repeat(rng.integers(0, m, size=k), rng.integers(1, 4, size=k)).tolist()
        for k in rng.integers(0, 5, size=n_runs)
    ]
    done = rng.choice([SUCCESS, FAILURE], size=n_runs)
    events = np.where(rng.random(n_runs) < cut, CENSORED, done).tolist()
    return runs(paths, events, rng.integers(0, 9, size=n_runs).tolist(), n_states=m)


def given(hazard: Any, rows: Any, start: Any) -> SemiMarkovFit:
    """Return a chain with given laws, by way of a model file."""
    m = np.shape(rows)[0]
    some = fit_semi_markov(runs([[0]], [SUCCESS], n_states=m))
    return SemiMarkovFit.from_parameters(
        some.parameters()
        | {
            "hazard": np.asarray(hazard, dtype=float),
            "rows": np.asarray(rows, dtype=float),
            "start": np.asarray(start, dtype=float),
            "identified": np.ones(m, dtype=bool),
        },
        some.state_names,
    )


def path_probability(fit: SemiMarkovFit, path: tuple[int, ...], end: int) -> float:
    """P(this path, then this end), visit by visit from the definition."""
    m, ages = fit.n_states, fit.hazard.shape[1]
    visits = [(s, len(list(g))) for s, g in groupby(path)]
    probability = fit.start[visits[0][0]]
    for k, (state, length) in enumerate(visits):
        for a in range(1, length):
            probability *= 1.0 - fit.hazard[state, min(a, ages) - 1]
        probability *= fit.hazard[state, min(length, ages) - 1]
        then = visits[k + 1][0] if k + 1 < len(visits) else m + end
        probability *= fit.rows[state, then]
    return float(probability)


@pytest.mark.parametrize("ages", [1, 2, 3, 9])
def test_curves_equal_the_sum_over_every_path(ages: int) -> None:
    rng = np.random.default_rng(ages)
    rows = rng.dirichlet(np.ones(5), size=3)
    rows[np.arange(3), np.arange(3)] = 0.0
    rows /= rows.sum(axis=1, keepdims=True)
    fit = given(rng.uniform(0.1, 0.9, size=(3, ages)), rows, rng.dirichlet(np.ones(5)))
    law = np.zeros((2, 8))
    law[:, 0] = fit.start[3:]
    for length in range(1, 8):
        for path in product(range(3), repeat=length):
            for end in (0, 1):
                law[end, length] += path_probability(fit, path, end)
    np.testing.assert_allclose(fit.success_within(7), np.cumsum(law[0]), atol=1e-13)
    np.testing.assert_allclose(fit.failure_within(7), np.cumsum(law[1]), atol=1e-13)


def test_constant_hazards_are_the_homogeneous_chain() -> None:
    chain = AbsorbingChain(**random_chain(np.random.default_rng(1), 4, atoms=True))
    stay = np.diagonal(chain.transient)
    rows = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    rows[np.arange(4), np.arange(4)] = 0.0
    start = np.append(chain.initial, [chain.initial_success, chain.initial_failure])
    for ages in (1, 5):
        hazard = np.tile((1.0 - stay)[:, None], (1, ages))
        fit = given(hazard, rows / (1.0 - stay)[:, None], start)
        np.testing.assert_allclose(fit.success_within(200), chain.success_within(200), atol=1e-10)
        np.testing.assert_allclose(fit.failure_within(200), chain.failure_within(200), atol=1e-10)
        np.testing.assert_allclose([fit.value(i, 3) for i in range(4)], chain.values, atol=1e-10)
        assert fit.mean_steps.value == pytest.approx(chain.mean_steps, rel=1e-10)
        assert fit.success_ever.value == pytest.approx(chain.success_ever, abs=1e-10)
        np.testing.assert_allclose(fit.mean_visit, 1.0 / (1.0 - stay), rtol=1e-12)


@pytest.mark.parametrize(("r", "mean"), [(1.0, 3.0), (0.4, 2.0), (6.0, 4.0), (90.0, 9.0)])
def test_the_negative_binomial_law_is_that_of_scipy(r: float, mean: float) -> None:
    ages = np.arange(1, 41)
    hazard = np.empty((1, 1, 40))
    kernels.law_hazards(0, np.log([[[r, mean]]]), hazard)
    law = nbinom(r, r / (r + mean), loc=1)
    left = law.sf(ages - 1)
    sound = left > 1e-6
    np.testing.assert_allclose(hazard[0, 0, sound], (law.pmf(ages) / left)[sound], rtol=1e-8)
    going = np.concatenate(([1.0], np.cumprod(1.0 - hazard[0, 0])))[:-1]
    np.testing.assert_allclose(hazard[0, 0] * going, law.pmf(ages), atol=1e-11)


@pytest.mark.parametrize(("beta", "scale"), [(1.0, 3.0), (0.5, 2.0), (2.5, 4.0), (9.0, 6.5)])
def test_the_discrete_weibull_law_is_its_formula(beta: float, scale: float) -> None:
    ages = np.arange(41)
    hazard = np.empty((1, 1, 40))
    kernels.law_hazards(1, np.log([[[beta, scale]]]), hazard)
    left = np.exp(-((ages / scale) ** beta))
    sound = left[:-1] > 1e-250
    expected = -np.expm1((ages[:-1] / scale) ** beta - (ages[1:] / scale) ** beta)
    np.testing.assert_allclose(hazard[0, 0, sound], expected[sound], rtol=1e-10)
    going = np.concatenate(([1.0], np.cumprod(1.0 - hazard[0, 0])))
    np.testing.assert_allclose(going, left, atol=1e-13)


@pytest.mark.parametrize("kind", [0, 1])
def test_laws_are_fitted_to_the_maximum_of_the_penalised_likelihood(kind: int) -> None:
    rng = np.random.default_rng(kind)
    ended = rng.integers(0, 9, size=(1, 3, 12)).astype(float)
    stay = ended[..., ::-1].cumsum(axis=2)[..., ::-1] - ended + 2.0
    theta = np.zeros((1, 3, 2))
    kernels.fit_laws(kind, ended, stay, theta)

    def loss(x: np.ndarray, i: int) -> float:
        a = np.arange(1, 13)
        if kind == 0:
            r, mean = np.exp(x)
            law = nbinom(r, r / (r + mean), loc=1)
            end, left = law.logpmf(a) - law.logsf(a - 1), law.logsf(a) - law.logsf(a - 1)
        else:
            steps = np.diff((np.arange(13) / np.exp(x[1])) ** np.exp(x[0]))
            end, left = np.log(-np.expm1(-steps)), -steps
        return float(0.5 * x[0] ** 2 - ended[0, i] @ end - stay[0, i] @ left)

    for i in range(3):
        found = loss(theta[0, i], i)
        grid = product(np.linspace(-2.0, 3.0, 26), np.linspace(-1.0, 3.0, 21))
        assert found <= min(loss(np.array(x), i) for x in grid)
        best = minimize(loss, theta[0, i] + 0.1, args=(i,), method="Nelder-Mead", tol=1e-7)
        assert found <= best.fun + 1e-8
        np.testing.assert_allclose(theta[0, i], best.x, atol=2e-3)


def test_hazards_are_shares_of_visits_drawn_to_the_geometric_one() -> None:
    # Visits to a: 2, 2, 1 and one cut after 2; to b: 1, 1.
    paths = [[0, 0, 1], [0, 0], [0, 1], [0, 0]]
    sequences = runs(paths, [SUCCESS, FAILURE, SUCCESS, CENSORED])
    fit = fit_semi_markov(sequences, kappa=2.0, cut_step="unseen")
    mean = 5 / 8  # 5 visits ended in 8 steps whose end was seen
    a, b = (3 + mean) / (6 + 1), (2 + mean) / (2 + 1)
    np.testing.assert_allclose(fit.hazard[0, :2], [(1 + 2 * a) / 6, (2 + 2 * a) / 4])
    np.testing.assert_allclose(fit.hazard[1, :2], [(2 + 2 * b) / 4, b])
    # After a visit to a: b twice, failure once; mean row: b 2, success 2, failure 1.
    row = np.array([0.0, 2.0, 0.0, 1.0]) + np.array([0.0, 2 / 5, 2 / 5, 1 / 5])
    np.testing.assert_allclose(fit.rows[0], row / 4)
    np.testing.assert_allclose(fit.start, [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("law", LAWS)
def test_a_cut_that_was_survived_is_fitted_to_the_maximum_of_its_likelihood(law: str) -> None:
    # One state, so that the run either stays or ends: a survived cut is one more step stayed.
    sequences = runs([[0], [0, 0], [0, 0, 0], [0, 0]], [SUCCESS, FAILURE, SUCCESS, CENSORED])
    longer = runs([[0], [0, 0], [0, 0, 0], [0, 0, 0]], [SUCCESS, FAILURE, SUCCESS, CENSORED])
    survived = fit_semi_markov(sequences, law, kappa=0.5)
    unseen = fit_semi_markov(longer, law, kappa=0.5, cut_step="unseen")
    np.testing.assert_allclose(survived.hazard, unseen.hazard, atol=1e-7)


def test_the_filled_in_moves_of_cut_runs_maximise_the_likelihood() -> None:
    sequences = random_runs(5, 60, 2, cut=0.5)
    fit = fit_semi_markov(sequences, kappa=1e-9, row_kappa=1e-9)
    m, ages = 2, fit.hazard.shape[1]

    def loss(hazard: np.ndarray, rows: np.ndarray) -> float:
        total = 0.0
        for r in range(sequences.n_runs):
            path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]].tolist()
            visits = [(s, len(list(g))) for s, g in groupby(path)]
            for k, (state, length) in enumerate(visits):
                h = hazard[state]
                total -= np.sum(np.log1p(-h[: length - 1]))
                end = h[length - 1]
                if k + 1 < len(visits):
                    total -= np.log(end * rows[state, visits[k + 1][0]])
                elif sequences.event[r] == CENSORED:
                    total -= np.log(1.0 - end * rows[state, m:].sum())
                else:
                    total -= np.log(end * rows[state, m + sequences.event[r] - 1])
        return float(total)

    here = loss(fit.hazard, fit.rows)
    rng = np.random.default_rng(0)
    inside = (fit.hazard > 1e-6) & (fit.hazard < 1.0 - 1e-6)
    for _ in range(60):
        logit = np.log(fit.hazard / (1.0 - fit.hazard), where=inside, out=np.zeros((m, ages)))
        moved = 1.0 / (1.0 + np.exp(-logit - rng.normal(0.0, 0.02, size=(m, ages))))
        rows = fit.rows * np.exp(rng.normal(0.0, 0.02, size=fit.rows.shape))
        rows /= rows.sum(axis=1, keepdims=True)
        assert loss(np.where(inside, moved, fit.hazard), rows) >= here - 1e-6


def test_fixed_sojourns_are_recovered_where_the_homogeneous_chain_fails() -> None:
    chain = preset("react")
    sequences = simulate_runs(chain, 3000, rng=3, sojourn=3)
    truth = simulate_runs(chain, 200_000, rng=4, sojourn=3)
    won = np.sort(truth.lengths[truth.event == SUCCESS])
    curve = np.searchsorted(won, np.arange(61), side="right") / truth.n_runs
    error = 4.0 * 0.5 / np.sqrt(3000)
    fit = fit_semi_markov(sequences)
    assert np.max(np.abs(fit.success_within(60) - curve)) < error
    assert np.max(np.abs(fit_homogeneous(sequences).success_within(60) - curve)) > error
    # Without transitions to itself, a state is left after three steps exactly.
    np.testing.assert_allclose(fit.hazard[0, :3], [0.0, 0.0, 1.0], atol=2e-3)
    homogeneous = fit_homogeneous(sequences)
    assert fit.log_score(sequences).sum() > homogeneous.log_score(sequences).sum() + 100.0


@pytest.mark.parametrize("law", LAWS)
def test_geometric_sojourns_are_found_to_be_so(law: str) -> None:
    chain = preset("cot_agent")
    sequences = chain.simulate(4000, rng=6)
    fit = fit_semi_markov(sequences, law)
    error = 4.0 * 0.5 / np.sqrt(4000)
    assert np.max(np.abs(fit.success_within(40) - chain.success_within(40))) < error
    if law == "hazard":
        # The state's own geometric hazard keeps most of the weight at ages seldom reached.
        stay = np.diagonal(chain.transient)
        np.testing.assert_allclose(fit.hazard[0, :2], 1.0 - stay[0], atol=0.04)
    else:
        visited = np.diagonal(chain.transient) > 0.1
        np.testing.assert_allclose(np.log(fit.shape[visited]), 0.0, atol=0.5)


@pytest.mark.parametrize("law", LAWS)
def test_runs_capped_at_a_step_give_the_same_chain(law: str) -> None:
    truth = fit_semi_markov(simulate_runs(preset("react"), 400, rng=9, sojourn=2), law)
    capped = truth.simulate(12_000, rng=1, max_steps=8)
    assert np.mean(capped.event == CENSORED) > 0.15
    fit = fit_semi_markov(capped, law)
    # Beyond the cap the error of the fit is the larger one of an extrapolation.
    for horizon, factor in ((8, 4.0), (40, 8.0)):
        error = factor * 0.5 / np.sqrt(12_000)
        for outcome in ("success_within", "failure_within"):
            distance = getattr(fit, outcome)(horizon) - getattr(truth, outcome)(horizon)
            assert np.max(np.abs(distance)) < error


def test_simulation_and_curves_agree() -> None:
    fit = fit_semi_markov(simulate_runs(preset("autogpt"), 150, rng=8, sojourn=2))
    n = 100_000
    drawn = fit.simulate(n, rng=6)
    d = np.arange(41)
    for event, curve in ((SUCCESS, fit.success_within(40)), (FAILURE, fit.failure_within(40))):
        ends = np.sort(drawn.lengths[drawn.event == event])
        share = np.searchsorted(ends, d, side="right") / n
        assert np.all(np.abs(share - curve) < 4.5 * np.sqrt(curve * (1 - curve) / n) + 1e-9)
    for state, step in ((1, 4), (4, 7)):
        long = np.flatnonzero(drawn.lengths >= step)
        there = long[drawn.states[drawn.offsets[long] + step - 1] == state]
        share = np.mean(drawn.event[there] == SUCCESS)
        assert fit.value(state, step) == pytest.approx(share, abs=4 * 0.5 / np.sqrt(there.size))
    spread = drawn.lengths.std() / np.sqrt(n)
    assert fit.mean_steps.value == pytest.approx(drawn.lengths.mean(), abs=4.5 * spread)
    assert fit.success_ever.value == pytest.approx(np.mean(drawn.event == SUCCESS), abs=0.007)
    capped = fit.simulate(1000, rng=6, max_steps=3)
    assert capped.lengths.max() == 3
    assert np.all(capped.lengths[capped.event == CENSORED] == 3)


def test_age_tells_when_a_run_ends_and_not_how() -> None:
    fit = fit_semi_markov(simulate_runs(preset("autogpt"), 300, rng=8, sojourn=3))
    drawn = fit.simulate(100_000, rng=7)
    state, age, within = 4, 2, 3
    first = np.flatnonzero(drawn.lengths >= 6)
    at = drawn.offsets[first]
    # Runs that entered the state with their fifth step and are there for the second time.
    entered = (drawn.states[at + 3] != state) & (drawn.states[at + 4] == state)
    there = first[entered & (drawn.states[at + 5] == state)]
    soon = (drawn.event[there] == SUCCESS) & (drawn.lengths[there] <= 6 + within)
    error = 4 * 0.5 / np.sqrt(there.size)
    assert fit.value_at_age(state, age, within=within) == pytest.approx(np.mean(soon), abs=error)
    assert fit.value_at_age(state, age) == fit.value(state, 9)
    late = [fit.value_at_age(state, a, within=0) for a in (1, 2, 3)]
    np.testing.assert_allclose(late, fit.hazard[state, :3] * fit.rows[state, fit.n_states])
    assert fit.value_at_age(state, 2, within=5000) == pytest.approx(fit.value(state), abs=1e-9)
    np.testing.assert_allclose(
        fit.visit_law(state, 400) @ np.arange(1, 401), fit.mean_visit[state], rtol=1e-8
    )


def test_odds_move_outcomes_and_not_ends() -> None:
    fit = fit_semi_markov(simulate_runs(preset("react"), 150, rng=8, sojourn=2))
    task = np.arange(40_000, dtype=np.int32) // 4
    plain = fit.simulate_tasks(task, rng=1)
    up = fit.simulate_tasks(task, rng=1, log_odds=np.full(task.size, 1.0))
    np.testing.assert_array_equal(up.states, plain.states)
    np.testing.assert_array_equal(up.task, task)
    same = fit.simulate_tasks(task, rng=1, log_odds=np.zeros(task.size))
    rate = np.mean(plain.event == SUCCESS)
    assert np.mean(same.event == SUCCESS) == pytest.approx(rate, abs=0.012)
    assert np.mean(up.event == SUCCESS) > rate + 0.05


@pytest.mark.parametrize("law", LAWS)
def test_doubled_weights_are_doubled_data_and_zero_weights_are_no_data(law: str) -> None:
    sequences = random_runs(13, 40, 3)
    fit = fit_semi_markov(sequences, law)
    weights = np.random.default_rng(1).integers(0, 3, size=40).astype(float)
    chosen = np.repeat(np.arange(40), weights.astype(int))
    weighted, repeated = fit.refit(sequences, weights=weights), fit.refit(sequences.select(chosen))
    np.testing.assert_allclose(weighted.success_within(20), repeated.success_within(20), atol=1e-9)
    assert weighted.n_parameters == repeated.n_parameters
    assert (weighted.n_runs, weighted.n_tasks) == (repeated.n_runs, repeated.n_tasks)
    np.testing.assert_allclose(fit.refit(sequences).hazard, fit.hazard, atol=1e-4)


@pytest.mark.parametrize("law", LAWS)
def test_bootstrap_curves_are_those_of_refits(law: str) -> None:
    sequences = random_runs(17, 50, 3)
    fit = fit_semi_markov(sequences, law, max_age=2)
    names, unit = np.unique(sequences.unit, return_inverse=True)
    weights = np.random.default_rng(2).multinomial(
        names.size, np.full(names.size, 1 / names.size), size=5
    )
    curves = fit.bootstrap_curves(sequences, np.vstack((np.ones(names.size), weights)), 15)
    assert curves.shape == (6, 2, 16)
    np.testing.assert_allclose(curves[0, 0], fit.success_within(15), atol=1e-5)
    for b in range(5):
        refit = fit.refit(sequences, weights=weights[b][unit].astype(float))
        np.testing.assert_allclose(curves[b + 1, 0], refit.success_within(15), atol=1e-6)
        np.testing.assert_allclose(curves[b + 1, 1], refit.failure_within(15), atol=1e-6)


def test_ages_above_the_greatest_share_a_hazard() -> None:
    sequences = runs([[0] * 7, [0] * 4, [0]], [SUCCESS, FAILURE, CENSORED])
    fit = fit_semi_markov(sequences, kappa=1.0, max_age=2, cut_step="unseen")
    g = (2 + 2 / 11) / 12
    # Age 1: none of 2 ended; age 2: none of 2; later: 2 in 5 + 2 steps.
    np.testing.assert_allclose(fit.hazard[0], [g / 3, g / 3, (2 + g) / 8])


def test_a_model_file_holds_the_fit() -> None:
    sequences = random_runs(19, 30, 3)
    for law in LAWS:
        fit = fit_semi_markov(sequences, law)
        again = SemiMarkovFit.from_parameters(fit.parameters(), fit.state_names)
        np.testing.assert_array_equal(again.success_within(30), fit.success_within(30))
        assert again.to_dict() == fit.to_dict()
        assert str(again) == str(fit)
        np.testing.assert_array_equal(again.refit(sequences).rows, fit.refit(sequences).rows)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cut_step", ["survived", "unseen"])
def test_edges_are_sane_or_withheld(edge: str, law: str, cut_step: str) -> None:
    sequences = EDGES[edge]
    fit = fit_semi_markov(sequences, law, cut_step=cut_step)
    success, failure = fit.success_within(9), fit.failure_within(9)
    assert np.all(np.diff(success) >= 0.0)
    assert np.all(np.diff(failure) >= 0.0)
    assert np.all(success + failure <= 1.0 + 1e-12)
    assert np.all(np.isfinite(fit.log_score(sequences)))
    assert np.all((fit.hazard >= 0.0) & (fit.hazard <= 1.0))
    np.testing.assert_allclose(fit.rows.sum(axis=1), 1.0)
    all_cut = np.all(sequences.event == CENSORED)
    assert (fit.success_ever.value is None) == all_cut
    assert fit.mean_steps.value is None or np.isfinite(fit.mean_steps.value)
    for state in range(sequences.n_states):
        value = fit.value_at_age(state, 3, within=4)
        assert 0.0 <= value <= 1.0
        value = fit.value(state, 2)
        assert value is None or 0.0 <= value <= 1.0
    if edge == "no success":
        assert success[-1] == 0.0
    if all_cut:
        assert success[-1] == failure[-1] == 0.0
    assert fit.simulate(20, rng=1, max_steps=30).n_runs == 20
    curves = fit.bootstrap_curves(sequences, np.ones((1, np.unique(sequences.unit).size)), 9)
    np.testing.assert_allclose(curves[0, 0], success, atol=1e-4)
    json.dumps(fit.to_dict(), allow_nan=False)
    assert str(fit)
    assert isinstance(fit, RefittableProcess)
    assert fit.name == "semi-markov"
    assert fit.extrapolates


def test_free_parameters_are_cells_of_rows_and_of_laws() -> None:
    sequences = runs([[0, 0, 1], [0], [0, 1]], [SUCCESS, FAILURE, SUCCESS])
    # Start: one. After a: b or failure. After b: success. Ages: a 1 and 2, b 1.
    assert fit_semi_markov(sequences).n_parameters == 1 + 3
    assert fit_semi_markov(sequences, "discrete_weibull").n_parameters == 1 + 4


@pytest.mark.parametrize(
    "setting",
    [
        {"sojourn": "gamma"},
        {"kappa": 0.0},
        {"kappa": "guess"},
        {"row_kappa": -1.0},
        {"max_age": 0},
        {"cut_step": "lost"},
        {"allowed": np.ones((2, 2), dtype=bool)},
    ],
)
def test_bad_settings_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|shape"):
        fit_semi_markov(EDGES["one state"], **setting)


def test_bad_questions_are_refused() -> None:
    sequences = EDGES["one state"]
    with pytest.raises(ValueError, match="no run"):
        fit_semi_markov(sequences.select(np.array([], dtype=int)))
    fit = fit_semi_markov(sequences)
    with pytest.raises(ValueError, match="weight"):
        fit.refit(sequences, weights=np.zeros(3))
    with pytest.raises(ValueError, match="states"):
        fit.refit(EDGES["no success"])
    with pytest.raises(ValueError, match="step"):
        fit.value_at_age(0, 0)
    with pytest.raises(ValueError, match="within"):
        fit.value_at_age(0, 1, within=-1)
    with pytest.raises(ValueError, match="horizon"):
        fit.success_within(-1)
