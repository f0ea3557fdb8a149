"""The algebra of the chain against the enumeration of all its paths, and against hand figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.chains import (
    end_law_by_paths,
    random_chain,
    steps_law,
    visits_by_series,
    within_by_paths,
)
from sojourn.process.absorbing import AbsorbingChain, leads_out
from sojourn.process.base import GeometricTail, TraceProcess, run_scores
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

THREE: dict[str, Any] = {
    "transient": [[0.5, 0.3, 0.0], [0.0, 0.4, 0.3], [0.0, 0.0, 0.6]],
    "to_success": [0.1, 0.2, 0.3],
    "to_failure": [0.1, 0.1, 0.1],
    "initial": [1.0, 0.0, 0.0],
    "state_names": ("a", "b", "c"),
}


@pytest.fixture
def three() -> AbsorbingChain:
    return AbsorbingChain(**THREE)


def ends(lengths: list[int], events: list[int], tasks: list[int]) -> StateSequences:
    return StateSequences(
        states=np.zeros(sum(lengths), dtype=int),
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        event=events,
        task=tasks,
        unit=tasks,
        state_names=("a", "b", "c"),
    )


def test_the_three_state_chain_has_its_published_figures(three: AbsorbingChain) -> None:
    # By hand: h_c = .3/.4, h_b = (.2 + .3 * .75)/.6, h_a = (.1 + .3 h_b)/.5.
    assert three.success_ever == pytest.approx(0.625, abs=1e-14)
    assert three.failure_ever == pytest.approx(0.375, abs=1e-14)
    np.testing.assert_allclose(three.values, [0.625, 0.425 / 0.6, 0.75], rtol=1e-14)
    assert three.spectral_radius == pytest.approx(0.6, abs=1e-14)
    # visits 2, then 2 * .3 / .6 = 1, then 1 * .3 / .4 = .75
    np.testing.assert_allclose(three.expected_visits, [2.0, 1.0, 0.75], rtol=1e-14)
    assert three.mean_steps == pytest.approx(3.75, abs=1e-13)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("outcome", ["success", "failure"])
@pytest.mark.parametrize("method", ["recursion", "closed"])
def test_curves_equal_the_sum_over_all_paths(seed: int, outcome: str, method: str) -> None:
    chain = AbsorbingChain(**random_chain(np.random.default_rng(seed), 3, atoms=True))
    curve = (chain.success_within if outcome == "success" else chain.failure_within)(
        8, method=method
    )
    np.testing.assert_allclose(curve, within_by_paths(chain, 8, outcome), atol=1e-13)


@given(seed=st.integers(0, 10_000), n_states=st.integers(1, 6), atoms=st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_algebra_agrees_with_the_law_of_the_end(seed: int, n_states: int, atoms: bool) -> None:
    chain = AbsorbingChain(**random_chain(np.random.default_rng(seed), n_states, atoms=atoms))
    horizon = 2500
    success, failure = steps_law(chain, horizon)
    steps = np.arange(horizon + 1)
    ended = np.cumsum(success + failure)
    assert chain.success_ever == pytest.approx(success.sum(), abs=1e-10)
    assert chain.failure_ever == pytest.approx(failure.sum(), abs=1e-10)
    assert chain.mean_steps == pytest.approx(steps @ (success + failure), rel=1e-9)
    assert chain.mean_steps_given_success == pytest.approx(
        steps @ success / success.sum(), rel=1e-9
    )
    assert chain.restricted_mean_steps(7) == pytest.approx(
        np.minimum(steps, 7) @ (success + failure) + 7 * (1 - ended[-1]), rel=1e-9
    )
    np.testing.assert_allclose(chain.expected_visits, visits_by_series(chain, 1000), rtol=1e-9)
    np.testing.assert_allclose(chain.fundamental.T @ chain.initial, chain.expected_visits)
    np.testing.assert_allclose(chain.still_going(9), 1 - ended[:10], atol=1e-12)
    shares = chain.exit_shares
    assert shares.success.sum() + chain.initial_success == pytest.approx(chain.success_ever)
    assert shares.failure.sum() + chain.initial_failure == pytest.approx(chain.failure_ever)
    for prob in (0.1, 0.5, 0.9):
        assert chain.quantile_steps(prob) == np.argmax(ended >= prob - 1e-13)
        for outcome, law in (("success", success), ("failure", failure)):
            wanted = np.argmax(np.cumsum(law) >= prob * law.sum() - 1e-13)
            assert chain.quantile_steps(prob, given=outcome) == wanted
    gap = chain.success_ever - np.cumsum(success)
    assert chain.horizon(1e-3) == np.argmax(gap <= 1e-3)
    assert chain.horizon(1e-3, method="bound") >= chain.horizon(1e-3)


def test_differences_are_those_of_the_curve(three: AbsorbingChain) -> None:
    curve = three.success_within(12)
    np.testing.assert_allclose(three.first_difference(12), np.diff(curve), atol=1e-15)
    np.testing.assert_allclose(three.second_difference(12), np.diff(curve, n=2), atol=1e-15)


def test_concavity_is_sufficient_and_fails_where_success_needs_a_first_step(
    three: AbsorbingChain,
) -> None:
    # Q R+ = (.11, .17, .18) against R+ = (.1, .2, .3): the condition fails in the first state.
    assert not three.is_concave
    concave = AbsorbingChain(
        **{**THREE, "to_success": [0.15, 0.2, 0.3], "to_failure": [0.05, 0.1, 0.1]}
    )
    assert concave.is_concave
    assert np.all(concave.second_difference(40) <= 0.0)


def test_goel_okumoto_is_the_limit_of_one_state_with_rare_exits() -> None:
    distances = []
    for hazard in (0.2, 0.1, 0.05, 0.01):
        chain = AbsorbingChain(
            transient=[[1 - hazard]],
            to_success=[0.9 * hazard],
            to_failure=[0.1 * hazard],
            initial=[1.0],
            state_names=("only",),
        )
        compared = chain.goel_okumoto(2000)
        assert compared.asymptote == pytest.approx(0.9)
        assert compared.rate == pytest.approx(hazard)
        distances.append(compared.sup_distance)
        # |(1 - h)^d - exp(-h d)| is largest near d = 1/h, where it is about h / (2 e).
        assert compared.sup_distance == pytest.approx(0.9 * hazard / (2 * math.e), rel=0.2)
    assert distances == sorted(distances, reverse=True)


def test_the_published_horizon_rule_by_hand() -> None:
    chain = AbsorbingChain(
        transient=[[0.5]], to_success=[0.4], to_failure=[0.1], initial=[1.0], state_names=("a",)
    )
    # kappa = 1, N R+ = .8, rho = .5: ceil(log2(.8 / .01)) = ceil(6.32) = 7.
    assert chain.horizon(0.01, method="bound") == 7
    assert chain.horizon(0.01) == 7
    assert chain.horizon(0.9) == chain.horizon(0.9, method="bound") == 0


def test_a_defective_chain_refuses_the_published_rule() -> None:
    chain = AbsorbingChain(
        transient=[[0.5, 0.4], [0.0, 0.5]],
        to_success=[0.05, 0.3],
        to_failure=[0.05, 0.2],
        initial=[1.0, 0.0],
        state_names=("a", "b"),
    )
    with pytest.raises(ValueError, match="eigenvectors"):
        chain.horizon(0.01, method="bound")
    gap = chain.success_ever - chain.success_within(60)
    assert chain.horizon(0.01) == np.argmax(gap <= 0.01)


def test_scores_are_the_log_probability_of_the_ends_of_each_task(three: AbsorbingChain) -> None:
    law = end_law_by_paths(three, 5)
    sequences = ends([2, 3, 4, 1], [SUCCESS, FAILURE, CENSORED, SUCCESS], [7, 2, 2, 7])
    going = 1.0 - sum(p for (length, _), p in law.items() if length <= 4)
    wanted = [
        math.log(law[(3, "failure")]) + math.log(going),
        math.log(law[(2, "success")]) + math.log(law[(1, "success")]),
    ]
    np.testing.assert_allclose(three.log_score(sequences), wanted, rtol=1e-12)


def test_an_impossible_end_scores_minus_infinity_and_a_tail_mends_it(
    three: AbsorbingChain,
) -> None:
    sequences = ends([0, 2], [SUCCESS, SUCCESS], [0, 1])
    assert three.log_score(sequences)[0] == -np.inf
    tail = GeometricTail.of(sequences)
    scores = run_scores(sequences, three.success_within(2), three.failure_within(2), tail=tail)
    # 2 steps, 2 runs, 2 successes: hazards 2.5 / 5.5 and .5 / 5.5, weight 1/3.
    assert scores[0] == pytest.approx(math.log(2.5 / 5.5 / 3))
    law = three.success_within(2)[2] - three.success_within(2)[1]
    assert scores[1] == pytest.approx(math.log(2 / 3 * law + 2.5 / 5.5 * (2.5 / 5.5) ** 2 / 3))


def test_the_tail_is_a_probability_law() -> None:
    sequences = ends([3, 2], [SUCCESS, CENSORED], [0, 1])
    tail = GeometricTail.of(sequences)
    length = np.arange(400)
    total = sum(
        tail.probability(length, np.full(400, event, dtype=np.int8)).sum()
        for event in (SUCCESS, FAILURE)
    )
    assert total == pytest.approx(1.0, abs=1e-10)
    going = tail.probability(np.array([4]), np.array([CENSORED], dtype=np.int8))[0]
    ended = sum(
        tail.probability(length[:5], np.full(5, event, dtype=np.int8)).sum()
        for event in (SUCCESS, FAILURE)
    )
    assert going == pytest.approx(1.0 - ended)


def test_relabelling_the_states_changes_nothing(three: AbsorbingChain) -> None:
    order = [2, 0, 1]
    turned = AbsorbingChain(
        transient=three.transient[np.ix_(order, order)],
        to_success=three.to_success[order],
        to_failure=three.to_failure[order],
        initial=three.initial[order],
        state_names=("c", "a", "b"),
    )
    np.testing.assert_allclose(turned.success_within(20), three.success_within(20), atol=1e-15)
    assert turned.quantile_steps(0.5) == three.quantile_steps(0.5)


def test_a_trap_is_named_and_success_ever_is_still_the_probability() -> None:
    chain = AbsorbingChain(
        transient=[[0.0, 0.5], [0.0, 1.0]],
        to_success=[0.5, 0.0],
        to_failure=[0.0, 0.0],
        initial=[1.0, 0.0],
        state_names=("work", "loop"),
    )
    assert not chain.is_absorbing
    assert leads_out(chain.transient, chain.to_success).tolist() == [True, False]
    assert chain.success_ever == pytest.approx(0.5)
    assert chain.success_within(30)[-1] == pytest.approx(0.5)
    assert "0.5000" in str(chain)
    for ask in (
        lambda: chain.mean_steps,
        lambda: chain.fundamental,
        lambda: chain.quantile_steps(0.5),
    ):
        with pytest.raises(ValueError, match="'loop'"):
            ask()


def test_a_chain_without_success_says_so(three: AbsorbingChain) -> None:
    lost = AbsorbingChain(**{**THREE, "to_success": [0, 0, 0], "to_failure": [0.2, 0.3, 0.4]})
    assert lost.success_ever == 0.0
    assert np.all(lost.success_within(10) == 0.0)
    with pytest.raises(ValueError, match="succeeds"):
        _ = lost.mean_steps_given_success
    with pytest.raises(ValueError, match="success"):
        lost.quantile_steps(0.5, given="success")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"to_success": [0.1, 0.2, 0.4]}, "'c' sums to 1.1"),
        ({"initial": [0.5, 0.0, 0.0]}, "initial probabilities sum to 0.5"),
        ({"to_failure": [0.1, -0.1, 0.1]}, "negative"),
        ({"to_failure": [0.1, math.nan, 0.1]}, "non-finite"),
        ({"transient": [[0.5, 0.3], [0.0, 0.4]]}, "shape"),
        ({"state_names": ("a", "b", "a")}, "different"),
        ({"initial": [1.0, 0.0]}, "shape"),
        ({"initial_success": -0.1, "initial_failure": 0.1}, "negative"),
    ],
)
def test_bad_tables_cannot_be_built(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AbsorbingChain(**{**THREE, **change})


def test_bad_questions_are_refused(three: AbsorbingChain) -> None:
    for ask in (
        lambda: three.success_within(-1),
        lambda: three.success_within(3, method="guess"),
        lambda: three.quantile_steps(1.0),
        lambda: three.quantile_steps(0.5, given="luck"),
        lambda: three.horizon(0.0),
    ):
        with pytest.raises(ValueError, match="must"):
            ask()


def test_the_tables_are_read_only_and_it_keeps_the_protocol(three: AbsorbingChain) -> None:
    with pytest.raises(ValueError, match="read-only"):
        three.transient[0, 0] = 1.0
    assert isinstance(three, TraceProcess)
    # Rows with 4, 4 and 3 positive entries; the start is fixed.
    assert three.n_parameters == 3 + 3 + 2
    assert AbsorbingChain(**three.to_dict()).success_ever == three.success_ever
