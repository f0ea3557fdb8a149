"""Forecasts of runs under way: tables, the monitor, skill on held-out tasks, when to stop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sojourn.estimates import Estimate, Interval, Status, Verdict
from sojourn.process import skill as skill_module
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.changes import Cap
from sojourn.process.draws import interval_of_draws, percentiles, refitted_draws
from sojourn.process.forecast import (
    Monitor,
    blind_values,
    forecast_tables,
    path_values,
    state_values,
)
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.mixture import fit_mixture
from sojourn.process.order_k import fit_order
from sojourn.process.phases import fit_phases
from sojourn.process.progress import fit_progress
from sojourn.process.semi_markov import fit_semi_markov
from sojourn.process.simulate import preset, simulate_runs, simulate_tasks
from sojourn.process.skill import forecast_skill
from sojourn.process.stopping import stop_rule, worth_of_going_on
from sojourn.process.unrolled import UnrolledChain, unroll
from sojourn.process.whatif import most_valuable_fixes, what_if
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

HAND = AbsorbingChain(
    transient=[[0.5, 0.3, 0.0], [0.0, 0.4, 0.3], [0.0, 0.0, 0.6]],
    to_success=[0.1, 0.2, 0.3],
    to_failure=[0.1, 0.1, 0.1],
    initial=[1.0, 0.0, 0.0],
    state_names=("plan", "act", "answer"),
)

FITS = {
    "homogeneous": fit_homogeneous,
    "progress": fit_progress,
    "order-2": lambda runs: fit_order(runs, order=2),
    "semi-markov": fit_semi_markov,
    "mixture-2": lambda runs: fit_mixture(runs, n_classes=2, rng=0),
    "phases-2": lambda runs: fit_phases(runs, n_phases=2, rng=0),
}


@pytest.fixture(scope="module")
def runs() -> StateSequences:
    return simulate_tasks(preset("react"), 40, 3, rng=5, odds_sd=0.8, max_steps=30)


def timed_chain() -> UnrolledChain:
    """Two states; three tables, the last of which holds for ever."""
    rows = np.array(
        [
            [[0.6, 0.3, 0.05, 0.05], [0.2, 0.5, 0.2, 0.1]],
            [[0.3, 0.3, 0.3, 0.1], [0.1, 0.4, 0.1, 0.4]],
            [[0.5, 0.1, 0.1, 0.3], [0.0, 0.7, 0.25, 0.05]],
        ]
    )
    return UnrolledChain(
        rows=rows,
        start=np.array([0.7, 0.2, 0.06, 0.04]),
        owner=np.arange(2, dtype=np.int32),
        state_names=("a", "b"),
    )


def followed(chain: UnrolledChain, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Follow every run forward, one step at a time: curves, and P(in a state at step t)."""
    n = chain.n_inner
    mass = chain.start[:n].copy()
    success, failure = [chain.start[n]], [chain.start[n + 1]]
    masses = []
    for t in range(last):
        masses.append(mass)
        table = chain.rows[min(t, chain.n_layers - 1)]
        success.append(success[-1] + mass @ table[:, n])
        failure.append(failure[-1] + mass @ table[:, n + 1])
        mass = mass @ table[:, :n]
    return np.array(success), np.array(failure), np.array(masses)


def test_unrolled_values_solve_the_forward_equations() -> None:
    chain = timed_chain()
    success, failure, masses = followed(chain, 400)
    np.testing.assert_allclose(chain.success_within(30), success[:31], atol=1e-14)
    np.testing.assert_allclose(chain.failure_within(30), failure[:31], atol=1e-14)
    assert chain.success_ever == pytest.approx(success[-1], abs=1e-12)
    assert chain.failure_ever == pytest.approx(failure[-1], abs=1e-12)
    # The mean of T is the sum over t of P(the run has a step t).
    assert chain.mean_steps == pytest.approx(masses.sum(), abs=1e-10)
    for t in range(1, 6):
        for state in range(2):
            alone = UnrolledChain(
                rows=chain.rows[min(t - 1, 2) :],
                start=np.eye(4)[state],
                owner=chain.owner,
                state_names=chain.state_names,
            )
            later, _, steps = followed(alone, 400)
            row = min(t, 3) - 1
            assert chain.values[row, state] == pytest.approx(later[-1], abs=1e-12)
            assert chain.steps_left[row, state] == pytest.approx(steps.sum() - 1.0, abs=1e-10)
            within = chain.values_within(9)[t - 1, state]
            assert within == pytest.approx(later[9 - t + 1], abs=1e-12)
    visits = chain.visits()
    np.testing.assert_allclose(visits[:2], masses[:2], atol=1e-14)
    np.testing.assert_allclose(visits[2], masses[2:].sum(axis=0), atol=1e-10)


def test_blind_value_is_what_the_curves_say() -> None:
    horizon = 12
    success, failure = HAND.success_within(horizon), HAND.failure_within(horizon)
    blind = blind_values(HAND, horizon)
    assert blind[0] == pytest.approx(0.625)
    expected = (0.625 - success[:-1]) / (1.0 - success[:-1] - failure[:-1])
    np.testing.assert_allclose(blind[1:], expected, atol=1e-12)
    np.testing.assert_allclose(state_values(HAND, horizon), HAND.values[None], atol=1e-15)


@pytest.mark.parametrize("name", FITS)
def test_every_process_has_its_tables(name: str, runs: StateSequences) -> None:
    fit = FITS[name](runs)
    horizon = int(runs.lengths.max())
    chain = unroll(fit)
    np.testing.assert_allclose(chain.success_within(60), fit.success_within(60), atol=1e-11)
    np.testing.assert_allclose(chain.failure_within(60), fit.failure_within(60), atol=1e-11)
    values = state_values(fit, horizon)
    for step in (1, 2, 5, horizon):
        for state in range(runs.n_states):
            asked, found = fit.value(state, step), values[min(step, values.shape[0]) - 1, state]
            if not np.isnan(found):
                assert asked == pytest.approx(found, abs=1e-9)
    tables = forecast_tables(fit, horizon=horizon)
    # E[T] by the curves: the sum of P(T > d).
    going = 1.0 - fit.success_within(4000) - fit.failure_within(4000)
    assert tables.blind_left[0] == pytest.approx(going.sum(), rel=1e-6)


def test_steps_left_agree_with_simulation() -> None:
    drawn = simulate_runs(HAND, 20_000, rng=3)
    third = drawn.lengths >= 3
    state = drawn.states[drawn.offsets[:-1][third] + 2]
    left = drawn.lengths[third] - 3
    tables = forecast_tables(HAND, horizon=20)
    for k in range(3):
        mean, spread = left[state == k].mean(), left[state == k].std()
        error = spread / np.sqrt(np.count_nonzero(state == k))
        assert abs(tables.steps_left[0, k] - mean) < 4 * error
    won = drawn.event[third] == SUCCESS
    error = 0.5 / np.sqrt(third.sum())
    assert abs(tables.blind_success[3] - won.mean()) < 4 * error
    assert abs(tables.blind_left[3] - left.mean()) < 4 * left.std() / np.sqrt(third.sum())


def test_monitor_follows_a_run_to_its_end(runs: StateSequences) -> None:
    fit = fit_homogeneous(runs)
    draws = refitted_draws(fit, runs, 40, rng=1)
    tables = forecast_tables(fit, horizon=int(runs.lengths.max()), draws=draws, n_units=40)
    monitor = Monitor(tables)
    assert monitor.forecast.success.value == pytest.approx(fit.chain.success_ever)
    seen = monitor.feed(4)
    assert seen.step == 1
    assert seen.state == runs.state_names[4]
    assert seen.success.value == pytest.approx(fit.chain.values[4])
    assert seen.success.interval is not None
    assert seen.success.interval.low < seen.success.value < seen.success.interval.high
    unknown = monitor.feed("what is this")
    assert (unknown.known, unknown.state) == (False, None)
    assert unknown.success.status is Status.INCONCLUSIVE
    assert unknown.success.value == pytest.approx(tables.blind_success[2])
    over = monitor.finish("failure")
    assert (over.success.value, over.steps_left.value, over.outcome) == (0.0, 0.0, "failure")
    assert over.to_dict()["success"]["value"] == 0.0
    with pytest.raises(ValueError, match="over"):
        monitor.feed(0)


@pytest.mark.parametrize("name", ["order-2", "phases-2"])
def test_a_run_is_forecast_from_all_its_steps_where_the_process_remembers(
    name: str, runs: StateSequences
) -> None:
    fit = FITS[name](runs)
    tables = forecast_tables(fit, horizon=int(runs.lengths.max()))
    more = {"from_start": True} if name == "order-2" else {}
    differs = False
    values = path_values(fit, runs, (1, 2, 4))
    for run in range(8):
        path = runs.states[runs.offsets[run] : runs.offsets[run + 1]].tolist()
        monitor = Monitor(tables)
        for t, state in enumerate(path, start=1):
            seen = monitor.feed(state).success.value
            assert seen == pytest.approx(fit.value_after(path[:t], **more), abs=1e-10)
            differs |= abs(seen - tables.at(state, t)[0].value) > 1e-6
            if t in (1, 2, 4):
                assert values[run, (1, 2, 4).index(t)] == pytest.approx(seen, abs=1e-12)
        assert np.isnan(values[run, 2]) == (len(path) < 4)
        over = monitor.finish("success" if run % 2 else "failure")
        assert (over.success.value, over.steps_left.value) == (float(run % 2), 0.0)
        assert over.success.reasons == ()
    assert differs


def test_beliefs_of_a_mixture_are_those_of_bayes(runs: StateSequences) -> None:
    fit = FITS["mixture-2"](runs)
    monitor = Monitor(forecast_tables(fit, horizon=20))
    longest = int(np.argmax(runs.lengths))
    path = runs.states[runs.offsets[longest] :][:5].tolist()
    for state in path:
        seen = monitor.feed(state)
    joint = [
        weight
        * chain.initial[path[0]]
        * np.prod([chain.transient[a, b] for a, b in itertools.pairwise(path)])
        for weight, chain in zip(fit.weights, fit.chains, strict=True)
    ]
    values = [chain.values[path[-1]] for chain in fit.chains]
    assert seen.success.value == pytest.approx(np.average(values, weights=joint), abs=1e-12)


class Given:
    """A process that is its tables."""

    name = "given"

    def __init__(self, chain: UnrolledChain) -> None:
        self.chain, self.state_names = chain, chain.state_names

    def unrolled(self) -> UnrolledChain:
        return self.chain

    def value(self, state: int, step: int) -> float:
        return 0.5


def test_a_way_that_the_process_never_goes_is_flagged() -> None:
    chain = UnrolledChain(
        rows=np.array([[[0, 0.5, 0, 0.5, 0], [0, 0, 0.5, 0, 0.5], [0, 0, 0, 0.4, 0.6]]]),
        start=np.array([1.0, 0, 0, 0, 0]),
        owner=np.array([0, 1, 1], dtype=np.int32),
        state_names=("a", "b"),
    )
    other = Monitor(forecast_tables(Given(chain), horizon=3))
    other.feed(0)
    assert "never goes this way" not in str(other.forecast.success.reasons)
    lost = other.feed(0)
    assert lost.known
    assert lost.success.value == pytest.approx(chain.values[0, 0])
    assert "never goes this way" in lost.success.reasons[-1]
    # It is followed again from there on.
    again = other.feed(1)
    assert again.success.value == pytest.approx(chain.values[0, 1])
    assert "never goes this way" not in str(again.success.reasons)


def test_unknown_states_go_to_the_rare_state_when_there_is_one() -> None:
    monitor = Monitor(forecast_tables(HAND, horizon=5), rare_state=1)
    seen = monitor.feed(17)
    assert (seen.known, seen.state) == (False, "act")
    assert seen.success.value == pytest.approx(HAND.values[1])
    with pytest.raises(ValueError, match="rare_state"):
        Monitor(forecast_tables(HAND, horizon=5), rare_state=3)


def test_steps_beyond_the_longest_run_are_extrapolation() -> None:
    tables = forecast_tables(HAND, horizon=3)
    assert tables.at(0, 3)[0].reasons == ("there are no draws to make an interval of",)
    assert "beyond the longest" in tables.at(0, 4)[0].reasons[0]


def test_a_state_without_a_fate_has_no_forecast() -> None:
    stuck = StateSequences(
        states=[0, 1, 1, 0, 0],
        offsets=[0, 3, 4, 5],
        event=[CENSORED, SUCCESS, FAILURE],
        task=[0, 1, 2],
        unit=[0, 1, 2],
        state_names=("go", "loop"),
    )
    fit = fit_homogeneous(stuck, smoothing="none")
    assert fit.unidentified == ("loop",)
    tables = forecast_tables(fit, horizon=3)
    success, left = tables.at(1, 2)
    assert success.status is Status.WITHHELD
    assert tables.at(None, 1)[0].status is Status.WITHHELD
    assert left.status is Status.WITHHELD


def test_bootstrap_values_have_the_spread_of_their_binomial() -> None:
    # One state, one step, one run a task: the value is a proportion of independent tasks.
    n, won = 400, 120
    flat = StateSequences(
        states=np.zeros(n),
        offsets=np.arange(n + 1),
        event=np.where(np.arange(n) < won, SUCCESS, FAILURE),
        task=np.arange(n),
        unit=np.arange(n),
        state_names=("only",),
    )
    fit = fit_homogeneous(flat, smoothing="none")
    draws = refitted_draws(fit, flat, 800, rng=2)
    values = [draw.value(0, 1) for draw in draws]
    expected = np.sqrt(0.3 * 0.7 / n)
    assert np.std(values) == pytest.approx(expected, rel=4 / np.sqrt(2 * 800))
    low, high = percentiles(np.array(values), ci_prob=0.95, n_units=n)
    assert high - low == pytest.approx(2 * 1.96 * expected, rel=0.15)


def test_certain_draws_leave_the_exact_bound() -> None:
    none = interval_of_draws(0.0, np.zeros(99), ci_prob=0.95, n_units=10, proportion=True)
    assert none.interval is not None
    assert none.interval.high == pytest.approx(1 - 0.025 ** (1 / 10))
    missing = interval_of_draws(float("nan"), [], ci_prob=0.95, n_units=10)
    assert missing.value is None


def test_one_task_cannot_be_resampled(runs: StateSequences) -> None:
    one = runs.select(np.flatnonzero(runs.unit == 0))
    assert len(refitted_draws(fit_homogeneous(one), one, 10, rng=0)) == 0


class Brittle:
    """A process that can be fitted again but for every third time."""

    def __init__(self, fit: object) -> None:
        self.fit, self.asked = fit, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.fit, name)

    def refit(self, sequences: StateSequences, *, weights: object = None) -> object:
        self.asked += 1
        if self.asked % 3 == 0:
            raise ArithmeticError("did not settle")
        return self.fit.refit(sequences, weights=weights)


def test_resamples_that_cannot_be_fitted_are_counted_and_told(runs: StateSequences) -> None:
    fit = fit_homogeneous(runs)
    brittle = Brittle(fit)
    draws = refitted_draws(brittle, runs, 30, rng=1)
    assert (len(draws), draws.n_lost) == (20, 10)
    assert draws.note == ("10 of 30 refits to resampled tasks could not be fitted (did not settle)")
    whole = refitted_draws(fit, runs, 30, rng=1)
    assert whole.note is None
    # The others are the draws that they were.
    kept = [k for k in range(30) if k % 3 != 2]
    assert [d.value(0, 1) for d in draws] == [whole[k].value(0, 1) for k in kept]
    tables = forecast_tables(fit, horizon=20, draws=draws, n_units=40)
    for estimate in (tables.at(0, 2)[0], tables.at(None, 2)[1]):
        assert estimate.status is Status.INCONCLUSIVE
        assert estimate.reasons == ("10 of 30 refits have no such figure",)
        assert estimate.interval is not None
    (fix, *_) = most_valuable_fixes(fit, horizon=20, draws=draws, n_units=40)
    assert fix.gain.reasons == ("10 of 30 refits have no such figure",)
    changed = what_if(fit, [Cap(9)], horizon=20, draws=draws, n_units=40)
    assert changed.success_within.difference.reasons == ("10 of 30 refits have no such figure",)


def split_states(n_tasks: int, odds: float, *, seed: int) -> StateSequences:
    """Runs of 4 steps; the state at each step is the outcome's with probability `odds`."""
    rng = np.random.default_rng(seed)
    won = rng.random(2 * n_tasks) < 0.5
    told = np.where(rng.random((2 * n_tasks, 4)) < odds, won[:, None], ~won[:, None])
    return StateSequences(
        states=told.astype(np.int32).ravel(),
        offsets=np.arange(2 * n_tasks + 1) * 4,
        event=np.where(won, SUCCESS, FAILURE),
        task=np.repeat(np.arange(n_tasks), 2),
        unit=np.repeat(np.arange(n_tasks), 2),
        state_names=("bad", "good"),
    )


class Knows:
    """The true law of runs of 4 steps: the state tells the outcome with probability .8."""

    name, state_names = "knows", ("bad", "good")

    def value(self, state: int, step: int) -> float:
        return 0.8 if state else 0.2

    def success_within(self, horizon: int) -> np.ndarray:
        return 0.5 * (np.arange(horizon + 1) >= 4)

    failure_within = success_within


def test_skill_is_the_information_of_the_state() -> None:
    told = split_states(400, 0.8, seed=1)
    skill = forecast_skill(told, lambda _: Knows(), rng=0)
    information = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
    assert skill.steps == (4,)
    assert skill.verdict is Verdict.ACCEPTED
    interval = skill.gain.interval
    assert interval is not None
    assert interval.low < information < interval.high
    assert skill.brier_gain.value == pytest.approx(0.25 - 0.16, abs=0.03)
    assert {round(bin_.forecast, 1) for bin_ in skill.calibration} == {0.2, 0.8}
    for bin_ in skill.calibration:
        error = (bin_.observed_high - bin_.observed_low) / 3.9
        assert abs(bin_.observed - bin_.forecast) < 4 * error
    assert str(skill).startswith("forecast accepted")
    assert skill.to_dict()["n_forecasts"] == 800


@pytest.mark.statistical
def test_interval_of_the_gain_covers_and_no_skill_is_found_at_its_rate() -> None:
    information = np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2)
    covered, found = 0, 0
    for seed in range(300):
        gain = forecast_skill(split_states(40, 0.8, seed=seed), lambda _: Knows(), rng=seed).gain
        covered += gain.interval.low <= information <= gain.interval.high
        # States without information: an accepted skill is a false one.
        none = forecast_skill(split_states(40, 0.5, seed=seed), fit_homogeneous, rng=seed)
        found += none.verdict is Verdict.ACCEPTED
    error = np.sqrt(0.95 * 0.05 / 300)
    assert 0.95 - 4 * error <= covered / 300
    assert found / 300 <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / 300)


def test_states_that_say_nothing_are_told_so() -> None:
    skill = forecast_skill(split_states(600, 0.5, seed=2), fit_homogeneous, rng=0)
    assert skill.verdict is Verdict.REJECTED
    interval = skill.gain.interval
    assert interval is not None
    assert interval.high < 0.01


def test_an_open_gain_says_what_is_open() -> None:
    gain = Estimate(value=0.01, interval=Interval(low=-0.01, high=0.03, ci_prob=0.95, kind="x"))
    verdict, reasons = skill_module._verdict(gain, 50, 0, 200)
    assert verdict is Verdict.INCONCLUSIVE
    assert "better than the step alone is open" in reasons[0]


def test_few_tasks_leave_skill_open() -> None:
    skill = forecast_skill(split_states(12, 0.9, seed=3), fit_homogeneous, rng=0)
    assert skill.verdict is Verdict.INCONCLUSIVE
    assert "too few" in skill.reasons[0]


def test_gain_interval_is_that_of_task_totals() -> None:
    told = split_states(40, 0.7, seed=4)
    skill = forecast_skill(told, fit_homogeneous, steps=(1, 3), rng=7)
    again = forecast_skill(told, fit_homogeneous, steps=(1, 3), rng=7)
    assert skill.to_dict() == again.to_dict()
    assert skill.n_forecasts == 160
    gains = [row["gain"]["value"] for row in skill.by_step]
    assert skill.gain.value == pytest.approx(np.mean(gains))


def test_the_blind_forecast_knows_other_folds_only() -> None:
    # Task 0 always succeeds, task 1 always fails: each is forecast by the other.
    runs = StateSequences(
        states=np.zeros(6),
        offsets=np.arange(7),
        event=[SUCCESS] * 3 + [FAILURE] * 3,
        task=[0] * 3 + [1] * 3,
        unit=[0] * 3 + [1] * 3,
        state_names=("only",),
    )
    skill = forecast_skill(runs, fit_homogeneous, rng=0)
    assert skill.n_folds == 2
    assert skill.blind_log_score == pytest.approx(np.log(0.5 / 4))
    assert skill.verdict is Verdict.INCONCLUSIVE


def test_skill_needs_two_units_and_a_run_that_ended() -> None:
    told = split_states(5, 0.7, seed=4)
    with pytest.raises(ValueError, match="one is few"):
        forecast_skill(told.select(np.array([0, 1])), fit_homogeneous)
    with pytest.raises(ValueError, match="nothing can be forecast"):
        forecast_skill(told, fit_homogeneous, steps=(9,))


def brute_worth(chain: UnrolledChain, cost: float, last: int) -> np.ndarray:
    """Optimal stopping by plain recursion over a long finite horizon."""
    n = chain.n_inner
    being = np.zeros(n)
    worth = np.zeros((last + 1, n))
    for t in range(last, 0, -1):
        table = chain.layer(t)
        going = table[:, :n].sum(axis=1)
        worth[t] = table[:, :n] @ being / going - cost
        being = table[:, n] + going * np.maximum(worth[t], 0.0)
    return worth


@pytest.mark.parametrize("cost", [0.01, 0.15, 0.3, 0.6])
def test_worth_of_going_on_is_the_long_recursion(cost: float) -> None:
    chain = timed_chain()
    expected = brute_worth(chain, cost, 600)
    np.testing.assert_allclose(worth_of_going_on(chain, cost), expected[1:4], atol=1e-10)


def test_stop_rule_of_one_state_is_its_odds() -> None:
    # Success .2, failure .1 a step: the next step is worth .2 of a success, so .2 is the price.
    chain = AbsorbingChain(
        transient=[[0.7]],
        to_success=[0.2],
        to_failure=[0.1],
        initial=[1.0],
        state_names=("only",),
    )
    cheap = stop_rule(chain, cost=0.19, horizon=10)
    assert cheap.stop_after is None
    assert cheap.stops(0, 3) is False
    # W = s + q G, G = W - c: W = (s - q c) / (1 - q).
    assert cheap.worth is not None
    assert cheap.worth[0, 0] == pytest.approx((0.2 - 0.7 * 0.19) / 0.3 - 0.19)
    np.testing.assert_allclose(cheap.blind_worth, cheap.worth[0, 0], atol=1e-4)
    dear = stop_rule(chain, cost=0.21, horizon=10)
    assert dear.stop_after == 0
    assert dear.stops(0, 1) is True
    assert "stop after step 0" in str(dear)


@pytest.mark.parametrize("cost", [0.05, 0.2, 0.3])
def test_stopping_by_the_step_alone_is_stopping_of_the_hazards(cost: float) -> None:
    chain = timed_chain()
    rule = stop_rule(chain, cost=cost, horizon=20)
    success, failure = chain.success_within(80), chain.failure_within(80)
    # The law of a run of which the step alone is known: one state, the hazards of the curves.
    at_risk = 1.0 - success[:-1] - failure[:-1]
    hazards = np.column_stack((np.diff(success), np.diff(failure))) / at_risk[:, None]
    rows = np.column_stack((1.0 - hazards.sum(axis=1), hazards))[:, None, :]
    alone = UnrolledChain(
        rows=rows, start=np.array([0.9, 0.06, 0.04]), owner=np.zeros(1), state_names=("any",)
    )
    expected = brute_worth(alone, cost, 80)[1:, 0]
    np.testing.assert_allclose(rule.blind_worth[1:], expected[:20], atol=1e-9)
    stops = rule.blind_worth <= 0.0
    assert rule.stop_after == (int(np.argmax(stops)) if stops.any() else None)


def test_stop_rule_says_how_sure_it_is(runs: StateSequences) -> None:
    fit = fit_homogeneous(runs)
    draws = refitted_draws(fit, runs, 50, rng=1)
    rule = stop_rule(fit, cost=0.2, horizon=int(runs.lengths.max()), draws=draws, n_units=40)
    assert rule.stop_share is not None
    assert np.all((rule.stop_share >= 0) & (rule.stop_share <= 1))
    assert rule.stop_after_interval is not None
    assert rule.to_dict()["states"][0]["name"] == runs.state_names[0]


def test_hidden_processes_have_the_rule_by_step_only(runs: StateSequences) -> None:
    fit = fit_mixture(runs, n_classes=2, rng=0)
    rule = stop_rule(fit, cost=0.2, horizon=int(runs.lengths.max()))
    assert rule.worth is None
    assert rule.stops(0, 1) is None


def test_a_trap_is_never_paid_for() -> None:
    chain = AbsorbingChain(
        transient=[[0.5, 0.2], [0.0, 1.0]],
        to_success=[0.3, 0.0],
        to_failure=[0.0, 0.0],
        initial=[1.0, 0.0],
        state_names=("work", "loop"),
    )
    worth = worth_of_going_on(unroll(chain), 0.01)
    assert worth[0, 1] == pytest.approx(-0.01)
    assert np.isnan(forecast_tables(chain, horizon=4).steps_left).all()
