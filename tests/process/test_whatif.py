"""What-ifs are exact; derivatives agree with finite differences; bounds hold."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.estimates import Status
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.changes import Cap, ChangedRow, Remove, Reroute, apply_changes
from sojourn.process.draws import refitted_draws
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.mixture import fit_mixture
from sojourn.process.order_k import fit_order
from sojourn.process.perturbation import perturbation_bound
from sojourn.process.phases import fit_phases
from sojourn.process.progress import fit_progress
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.process.unrolled import UnrolledChain, unroll
from sojourn.process.whatif import (
    WhatIf,
    most_valuable_fixes,
    sensitivities,
    what_if,
)
from sojourn.sequences import FAILURE, StateSequences

HAND = AbsorbingChain(
    transient=[[0.5, 0.3, 0.0], [0.0, 0.4, 0.3], [0.0, 0.0, 0.6]],
    to_success=[0.1, 0.2, 0.3],
    to_failure=[0.1, 0.1, 0.1],
    initial=[1.0, 0.0, 0.0],
    state_names=("plan", "act", "answer"),
)


@pytest.fixture(scope="module")
def runs() -> StateSequences:
    return simulate_tasks(preset("react"), 40, 3, rng=5, odds_sd=0.8, max_steps=30)


@pytest.fixture(scope="module")
def timed(runs: StateSequences) -> UnrolledChain:
    """A progress-dependent chain with rows that do differ by step."""
    chain = unroll(fit_progress(runs))
    rng = np.random.default_rng(3)
    rows = np.repeat(chain.rows[:1], 5, axis=0) * rng.uniform(0.5, 1.5, (5, 5, 7))
    return chain.with_rows(rows / rows.sum(axis=2, keepdims=True))


def test_hand_sized_fix() -> None:
    # N = [[2, 1, .75], [0, 5/3, 1.25], [0, 0, 2.5]]; runs fail out of plan .2, act .1, answer .075.
    found = sensitivities(HAND, 50)
    np.testing.assert_allclose(found.ever_by_fix, [0.2, 0.1, 0.075], atol=1e-12)
    result = what_if(HAND, [Reroute("plan", 0.5)], horizon=20)
    assert result.success_ever.before.value == pytest.approx(0.625)
    assert result.success_ever.difference.value == pytest.approx(0.1)
    assert result.linear == pytest.approx(0.1)
    assert result.success_ever.after.status is Status.INCONCLUSIVE
    assert "structural" in str(result)


def test_rerouting_to_a_state_is_the_changed_chain() -> None:
    changed = AbsorbingChain(
        transient=[[0.5, 0.3, 0.04], [0.0, 0.4, 0.3], [0.0, 0.0, 0.6]],
        to_success=[0.1, 0.2, 0.3],
        to_failure=[0.06, 0.1, 0.1],
        initial=[1.0, 0.0, 0.0],
        state_names=HAND.state_names,
    )
    result = what_if(HAND, [Reroute("plan", 0.4, "answer")], horizon=9)
    assert result.success_ever.after.value == pytest.approx(changed.success_ever)
    np.testing.assert_allclose(result.curve_after, changed.success_within(9), atol=1e-14)
    assert result.mean_steps.after.value == pytest.approx(changed.mean_steps)


def test_going_on_is_the_row_without_failure() -> None:
    row = np.array([0.5, 0.3, 0.0, 0.1, 0.0]) / 0.9
    again = apply_changes(unroll(HAND), [Reroute("plan", 1.0, "continue")])
    np.testing.assert_allclose(again.rows[0, 0], row)
    same = what_if(HAND, [ChangedRow("plan", tuple(row))], horizon=7)
    assert same.success_within.after.value == pytest.approx(again.success_within(7)[-1])


def test_a_removed_state_is_never_visited() -> None:
    gone = apply_changes(unroll(HAND), [Remove("act")])
    # Out of plan: .5 stay, .1 success, .1 failure, of what is left .7.
    np.testing.assert_allclose(gone.rows[0, 0], np.array([0.5, 0.0, 0.0, 0.1, 0.1]) / 0.7)
    assert gone.masses(10)[:, 1].max() == 0.0
    assert gone.success_ever == pytest.approx(0.5)
    led = apply_changes(unroll(HAND), [Remove("act", "answer")])
    np.testing.assert_allclose(led.rows[0, 0], [0.5, 0.0, 0.3, 0.1, 0.1])
    started = apply_changes(unroll(HAND), [Remove("plan", "success")])
    assert started.success_ever == pytest.approx(1.0)


def test_a_longer_cap_reads_the_curve_further() -> None:
    result = what_if(HAND, [Cap(12)], horizon=5)
    curve = HAND.success_within(12)
    assert result.success_within.before.value == pytest.approx(curve[5])
    assert result.success_within.after.value == pytest.approx(curve[12])
    assert result.success_within.after.status is Status.INCONCLUSIVE
    assert "beyond the longest" in result.success_within.after.reasons[0]
    assert (result.cap_before, result.cap) == (5, 12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Reroute("nowhere", 0.5), "no state is called"),
        (Reroute("plan", 0.5, "nowhere"), "neither success"),
        (Remove("plan"), "sums"),
        (Remove("act", "act"), "itself"),
        (ChangedRow("plan", (0.5, 0.5)), "5 probabilities"),
    ],
)
def test_what_cannot_be_changed_is_said(change: object, words: str) -> None:
    if isinstance(change, Remove) and change.to is None:
        words = "only 'plan' follows"
    with pytest.raises(ValueError, match=words):
        what_if(HAND, [change], horizon=5)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_are_shares(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Reroute("plan", share)


def moved(chain: UnrolledChain, state: int, event: int, by: float) -> UnrolledChain:
    """Move a little mass of a state's row, at all steps, from failure to another event."""
    rows = chain.rows.copy()
    rows[:, state, event] += by
    rows[:, state, -1] -= by
    return chain.with_rows(rows)


@pytest.mark.parametrize("kind", ["homogeneous", "timed"])
def test_derivatives_are_finite_differences(
    kind: str, runs: StateSequences, timed: UnrolledChain
) -> None:
    chain = unroll(fit_homogeneous(runs)) if kind == "homogeneous" else timed
    # Inside of the simplex, so that differences can be taken to both sides.
    chain = chain.with_rows(0.95 * chain.rows + 0.05 / 7)
    horizon, step = 8, 1e-6
    found = sensitivities(chain, horizon)
    assert found.ever is not None
    assert found.within is not None
    for state in range(chain.n_states):
        for event in range(chain.n_states + 1):
            up, down = moved(chain, state, event, step), moved(chain, state, event, -step)
            slope = (up.success_ever - down.success_ever) / (2 * step)
            assert found.ever[state, event] == pytest.approx(slope, abs=1e-7)
            slope = (up.success_within(horizon)[-1] - down.success_within(horizon)[-1]) / (2 * step)
            assert found.within[state, event] == pytest.approx(slope, abs=1e-7)
        fixed = apply_changes(chain, [Reroute(chain.state_names[state], step)])
        slope = (fixed.success_ever - chain.success_ever) / step
        assert found.ever_by_fix[state] == pytest.approx(slope, abs=1e-7)
        slope = (fixed.success_within(horizon)[-1] - chain.success_within(horizon)[-1]) / step
        assert found.within_by_fix[state] == pytest.approx(slope, abs=1e-7)


def test_first_order_effect_is_the_limit_of_the_exact_one(timed: UnrolledChain) -> None:
    name = timed.state_names[0]
    small = what_if_of(timed, Reroute(name, 1e-5, timed.state_names[1]))
    assert small.linear == pytest.approx(small.success_ever.difference.value, rel=1e-3)
    removed = what_if_of(timed, Remove(timed.state_names[2]))
    assert removed.bound is None


def what_if_of(chain: UnrolledChain, change: Reroute | Remove) -> WhatIf:
    return what_if(chain, [change], horizon=8)


def test_gain_per_share_is_the_share_of_runs_that_fail_there(runs: StateSequences) -> None:
    fit = fit_homogeneous(runs, smoothing="none")
    last = runs.states[runs.offsets[1:] - 1]
    for row in most_valuable_fixes(fit, horizon=int(runs.lengths.max())):
        state = runs.state_names.index(row.state)
        observed = np.mean((last == state) & (runs.event == FAILURE))
        assert row.gain_ever.value == pytest.approx(observed, abs=1e-10)


def test_bounds_hold_and_the_published_one_says_where_it_applies() -> None:
    rng = np.random.default_rng(11)
    before = unroll(HAND)
    for _ in range(200):
        rows = before.rows.copy()
        lost = rng.uniform(0, 0.08) * rng.random((3, 3)) * rows[0, :, :3]
        rows[0, :, :3] -= lost
        rows[0, :, -1] += lost.sum(axis=1)
        after = before.with_rows(rows)
        bound = perturbation_bound(before, after)
        if bound.published is not None:
            change = abs(after.success_ever - before.success_ever)
            assert change <= bound.norm + 1e-12 <= bound.published + 1e-9
    fixed = apply_changes(before, [Reroute("plan", 0.1)])
    bound = perturbation_bound(before, fixed)
    assert bound.published is None
    assert bound.reason == "it takes R+ to be unchanged"
    assert bound.norm is not None
    assert fixed.success_ever - before.success_ever <= bound.norm
    assert perturbation_bound(before, apply_changes(before, [Remove("plan", "act")])).norm is None


def test_published_bound_by_hand() -> None:
    # One state: Q .5 -> .4, N = 2, D = .1, R+ = .3: 4 x .1 x .3 + 8 x .01 x .3 / (1 - .2).
    chain = AbsorbingChain(
        transient=[[0.5]], to_success=[0.3], to_failure=[0.2], initial=[1.0], state_names=("s",)
    )
    result = what_if(chain, [ChangedRow("s", (0.4, 0.3, 0.3))], horizon=5)
    assert result.bound is not None
    assert result.bound.published == pytest.approx(0.12 + 0.024 / 0.8)
    assert result.success_ever.difference.value == pytest.approx(0.3 / 0.6 - 0.3 / 0.5)


def test_contexts_and_classes_change_by_observed_state(runs: StateSequences) -> None:
    order = fit_order(runs, order=1)
    chain = fit_homogeneous(runs)
    change = [Reroute("answer", 0.5), Remove("reflect")]
    one = what_if(order, change, horizon=15).success_within.after.value
    other = what_if(chain, change, horizon=15).success_within.after.value
    assert one == pytest.approx(other, abs=0.02)
    mixture = fit_mixture(runs, n_classes=2, rng=0)
    # Failures that become successes gain in each class what they do there.
    result = what_if(mixture, [Reroute("answer", 1.0)], horizon=15)
    by_class = sum(
        weight * what_if(part, [Reroute("answer", 1.0)], horizon=15).success_ever.difference.value
        for weight, part in zip(mixture.weights, mixture.chains, strict=True)
    )
    assert result.success_ever.difference.value == pytest.approx(by_class, abs=1e-10)
    to_state = what_if(mixture, [Reroute("answer", 1.0, "observe")], horizon=15)
    by_class = sum(
        weight
        * what_if(
            part, [Reroute("answer", 1.0, "observe")], horizon=15
        ).success_within.difference.value
        for weight, part in zip(mixture.weights, mixture.chains, strict=True)
    )
    assert to_state.success_within.difference.value == pytest.approx(by_class, abs=1e-10)


def test_phases_have_no_rows_to_change(runs: StateSequences) -> None:
    fit = fit_phases(runs, n_phases=2, rng=0)
    with pytest.raises(ValueError, match="no rows by observed state"):
        what_if(fit, [Reroute("answer", 0.5)], horizon=9)
    with pytest.raises(ValueError, match="no rows by observed state"):
        most_valuable_fixes(fit, horizon=9)


def test_intervals_are_of_paired_refits(runs: StateSequences) -> None:
    fit = fit_homogeneous(runs)
    horizon = int(runs.lengths.max())
    draws = refitted_draws(fit, runs, 60, rng=4)
    result = what_if(fit, [Reroute("answer", 0.5)], horizon=horizon, draws=draws, n_units=40)
    effect = result.success_within
    assert effect.difference.interval is not None
    assert effect.before.interval is not None
    assert effect.difference.interval.low > 0.0
    assert effect.difference.interval.width < effect.before.interval.width
    table = most_valuable_fixes(fit, horizon=horizon, draws=draws, n_units=40)
    gains = [row.gain.value for row in table]
    assert gains == sorted(gains, reverse=True)
    assert all(row.gain.interval is not None for row in table)
    assert result.to_dict()["n_draws"] == 60


@pytest.mark.parametrize("kind", ["chain", "by step", "order", "mixture"])
def test_the_gain_of_going_on_is_that_of_the_what_if(
    kind: str, runs: StateSequences, timed: UnrolledChain
) -> None:
    process = {
        "chain": lambda: fit_homogeneous(runs),
        "by step": lambda: timed,
        "order": lambda: fit_order(runs, order=2),
        "mixture": lambda: fit_mixture(runs, 2, rng=1),
    }[kind]()
    for row in most_valuable_fixes(process, horizon=12):
        told = what_if(process, [Reroute(row.state, 1.0, "continue")], horizon=12)
        assert row.gain_if_continued.value == pytest.approx(
            told.success_within.difference.value, abs=1e-12
        )


def test_a_state_where_every_run_fails_shows_no_way_on() -> None:
    chain = AbsorbingChain(
        transient=[[0.0, 0.5], [0.0, 0.0]],
        to_success=[0.5, 0.0],
        to_failure=[0.0, 1.0],
        initial=[1.0, 0.0],
        state_names=("try", "crash"),
    )
    first = most_valuable_fixes(chain, horizon=4)[0]
    assert first.state == "crash"
    assert first.gain.value == pytest.approx(0.5)
    assert first.gain_if_continued.value is None
    with pytest.raises(ValueError, match="nothing but failure"):
        what_if(chain, [Reroute("crash", 0.5, "continue")], horizon=4)


def test_a_long_curve_is_that_of_the_matrix_powers_and_costs_no_more_than_runs_last() -> None:
    chain = unroll(HAND)
    n = chain.n_inner
    whole = np.zeros((n + 2, n + 2))
    whole[:n], whole[n:, n:] = chain.rows[-1], np.eye(2)
    curve = chain.success_within(100_000)
    for d in (0, 1, 2, 7, 50, 300, 99_999):
        expected = (chain.start @ np.linalg.matrix_power(whole, d))[n]
        assert curve[d] == pytest.approx(expected, abs=1e-14)
    never = chain.rows.copy()
    never[:, 0] = np.eye(n + 2)[0]
    kept = chain.with_rows(never).success_within(100_000)
    whole[0] = np.eye(n + 2)[0]
    assert kept[-1] == pytest.approx((chain.start @ np.linalg.matrix_power(whole, 999))[n])


def test_numbers_of_steps_are_worded() -> None:
    assert str(Cap(1)) == "runs may take 1 step"
    answer = what_if(HAND, [Cap(1)], horizon=1)
    assert "P(success within 1 step) " in str(answer)
    with pytest.raises(ValueError, match="a cap of 100,001 steps is more than 100,000"):
        what_if(HAND, [Cap(100_001)], horizon=1)
