"""The published rule against values worked out by hand and against scipy."""

from __future__ import annotations

import json
from math import exp, log

import numpy as np
import pytest
from scipy.stats import kstwobign

from oracles.corpora import sequences_of
from sojourn.estimates import Verdict
from sojourn.process.published import certify_published, ks_p_value, order_aic

FIT = [((0, 1), 1), ((0, 0, 1), 2), ((0,), 1), ((0, 1), 0)]
TEST = [((0,), 1), ((0, 1), 1), ((0, 1, 1), 2), ((0, 0), 0)]


def test_aic_on_runs_put_one_after_the_other() -> None:
    # 0 1 0 0 1 0 0 1: from 0 to 0 twice, to 1 three times; from 1 to 0 twice.
    # 01 -> 0 twice; 10 -> 0 twice; 00 -> 1 twice: the second order is certain of every step.
    aic = order_aic(sequences_of(FIT))
    assert aic.first == pytest.approx(2 * 2 - 2 * (2 * log(2 / 5) + 3 * log(3 / 5)))
    assert aic.second == pytest.approx(2 * 4)


def test_aic_inside_runs_with_their_ends() -> None:
    # Steps with a predecessor: (0,1)->success, (0,0)->1, (0,1)->failure; (0,1) cut: no step.
    aic = order_aic(sequences_of(FIT), counts="per_run")
    assert aic.first == pytest.approx(2 * 6 - 2 * (2 * log(1 / 2)))
    assert aic.second == pytest.approx(2 * 12 - 2 * (2 * log(1 / 2)))


def test_aic_needs_three_steps() -> None:
    assert order_aic(sequences_of([((0, 0), 1)])) is None
    assert order_aic(sequences_of([((0,), 1)] * 9), counts="per_run") is None


def test_ks_p_value_by_hand_and_by_scipy() -> None:
    # r^2 = 100 * 100 / 200 = 50, x = (7.0710678 + .12 + .0155563) * .15 = 1.0809937.
    x = (50**0.5 + 0.12 + 0.11 / 50**0.5) * 0.15
    by_hand = 2 * (exp(-2 * x**2) - exp(-8 * x**2) + exp(-18 * x**2))
    assert ks_p_value(0.15, 100, 100) == pytest.approx(by_hand, abs=1e-9)
    assert ks_p_value(0.15, 100, 100) == pytest.approx(kstwobign.sf(x), abs=1e-9)
    assert ks_p_value(0.0, 100, 100) == 1.0
    assert ks_p_value(1.0, 1000, 1000) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("times", ["both", "success"])
def test_ks_distance_from_the_smoothed_chain(times: str) -> None:
    # Counts of FIT: 0 -> (0: 1, 1: 3, success: 1), 1 -> (success 1, failure 1); one more in each
    # of the four cells of a row: 0 -> (2, 4, 2, 1) / 9, 1 -> (1, 1, 2, 2) / 6; all start in 0.
    P = np.array([[2, 4, 2, 1], [1.5, 1.5, 3, 3]]) / 9
    now, law = np.array([1.0, 0.0]), []
    for _ in range(200):
        law.append(now @ P[:, 2:])
        now = now @ P[:, :2]
    law = np.array(law)
    result = certify_published(
        sequences_of(FIT), sequences_of(TEST), times=times, n_simulated=400_000, rng=1
    )
    by_time = law[:, 0] / law[:, 0].sum() if times == "success" else law.sum(axis=1)
    share = [1 / 2, 1.0, 1.0] if times == "success" else [1 / 3, 2 / 3, 1.0]
    distance = np.abs(np.cumsum(by_time)[:3] - share).max()
    assert result.n_test == (2 if times == "success" else 3)
    # 3 standard errors of a share among 400,000 (success: about half of them)
    assert result.ks_statistic == pytest.approx(distance, abs=3 * 0.5 / 430)
    observed = np.r_[1 / 4, np.full(49, 2 / 4)]
    assert result.max_curve_error == pytest.approx(
        np.abs(np.cumsum(law[:50, 0]) - observed).max(), abs=1e-12
    )


def test_modal_start_begins_every_run_alike() -> None:
    fit = [((0, 1), 1), ((0, 1), 2), ((1,), 1)]
    results = {
        start: certify_published(
            sequences_of(fit), sequences_of(fit), start=start, curve_horizon=1, rng=1
        )
        for start in ("modal", "empirical")
    }
    # One step: state 0 succeeds in 1/6, state 1 in 3/7; observed share 1/3.
    assert results["modal"].max_curve_error == pytest.approx(abs(1 / 6 - 1 / 3))
    mixed = 2 / 3 / 6 + 1 / 3 * 3 / 7
    assert results["empirical"].max_curve_error == pytest.approx(abs(mixed - 1 / 3))


def test_both_parts_decide(rng: np.random.Generator) -> None:
    geometric = [
        (rng.integers(0, 2, n).tolist(), int(rng.integers(1, 3))) for n in rng.geometric(0.2, 400)
    ]
    halves = sequences_of(geometric[:200], n_states=2), sequences_of(geometric[200:], n_states=2)
    accepted = certify_published(*halves, rng=rng)
    assert accepted.verdict is Verdict.ACCEPTED
    assert accepted.reasons == ()
    clockwork = sequences_of([((0, 1, 0, 1, 0, 1), 1)] * 200)
    rejected = certify_published(halves[0], clockwork, rng=rng)
    assert rejected.verdict is Verdict.REJECTED
    assert rejected.reasons[0].startswith("times")
    memory = sequences_of([((0, 0, 1, 1) * 3, 1), ((1, 0, 0, 1) * 3, 1)] * 30)
    assert certify_published(memory, memory, rng=rng).reasons[-1].startswith("order")


@pytest.mark.parametrize(
    ("fit", "test"),
    [
        ([], [((0,), 1)]),
        ([((0, 0), 1)], []),
        ([((0, 0, 0), 0)], [((0,), 0)]),
        ([((0,), 1)], [((0,), 1)]),
        ([((), 1)], [((), 2)]),
    ],
)
def test_edges_are_inconclusive_with_a_reason(fit: list, test: list) -> None:
    result = certify_published(sequences_of(fit, n_states=1), sequences_of(test, n_states=1), rng=0)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reasons
    json.dumps(result.to_dict(), allow_nan=False)


def test_arguments_are_checked() -> None:
    runs = sequences_of(FIT)
    with pytest.raises(ValueError, match="same states"):
        certify_published(runs, sequences_of(FIT, n_states=3))
    with pytest.raises(ValueError, match="times must be one of"):
        certify_published(runs, runs, times="failure")
    with pytest.raises(ValueError, match="smoothing"):
        certify_published(runs, runs, smoothing=-1.0)
