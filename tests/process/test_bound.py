"""The misspecification bound against slow recomputation and closed forms."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from oracles.corpora import sequences_of
from oracles.tau_bench import read_tau_bench
from sojourn.estimates import Verdict
from sojourn.process import bound
from sojourn.process.bound import (
    bound_from_replicates,
    fit_curves,
    misspecification_bound,
    resampled_weights,
    unit_tables,
)
from sojourn.process.unit_curves import CurveReplicates
from sojourn.sequences import StateSequences


def naive_curves(sequences: StateSequences, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Fit and Aalen-Johansen, counted run by run; a cut run moved on as others did from there."""
    m, n = sequences.n_states, sequences.n_runs
    counts, start, cut = np.zeros((m, m + 2)), np.zeros(m), np.zeros(m)
    fitted, observed = np.zeros((2, n_steps + 1)), np.zeros((2, n_steps + 1))
    lengths, event = sequences.lengths, sequences.event
    for run in range(n):
        path = sequences.states[sequences.offsets[run] : sequences.offsets[run + 1]]
        if path.size == 0:
            fitted[event[run] - 1, 0] += 1 / n
            continue
        start[path[0]] += 1 / n
        for i, j in pairwise(path):
            counts[i, j] += 1
        if event[run]:
            counts[path[-1], m + event[run] - 1] += 1
        else:
            cut[path[-1]] += 1
    moves = counts[:, :m].copy()
    for i in range(m):
        seen = moves[i] if moves[i].any() else moves.sum(axis=0)
        counts[i, :m] += cut[i] * seen / max(seen.sum(), 1)
    P = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for d in range(1, n_steps + 1):
        fitted[:, d] = fitted[:, d - 1] + start @ P[:, m:]
        start = start @ P[:, :m]
    going = 1.0
    for d in range(n_steps + 1):
        at_risk = np.sum(lengths >= d)
        before = observed[:, d - 1] if d else np.zeros(2)
        ends = np.array([np.sum((lengths == d) & (event == k)) for k in (1, 2)])
        observed[:, d] = before + (going * ends / at_risk if at_risk else 0)
        going *= 1 - ends.sum() / at_risk if at_risk else 1
    return fitted, observed


def random_corpus(rng: np.random.Generator, n_runs: int, *, per_unit: int = 2) -> StateSequences:
    corpus = [
        (rng.integers(0, 3, rng.integers(0, 7)).tolist(), int(rng.choice(3, p=[0.15, 0.45, 0.4])))
        for _ in range(n_runs)
    ]
    corpus = [(p, e if p else max(e, 1)) for p, e in corpus]
    return sequences_of(corpus, task=[r // per_unit for r in range(n_runs)], n_states=3)


def test_weighted_curves_are_those_of_the_resampled_runs(rng: np.random.Generator) -> None:
    sequences = random_corpus(rng, 40)
    tables = unit_tables(sequences)
    weights = resampled_weights(20, 5, rng)
    np.testing.assert_array_equal(weights.sum(axis=1), 20)
    curves = fit_curves(tables, weights)
    for b, weight in enumerate(weights):
        runs = np.concatenate(
            [np.tile(np.flatnonzero(sequences.unit == u), k) for u, k in enumerate(weight)]
        )
        fitted, observed = naive_curves(sequences.select(runs), tables.n_steps)
        np.testing.assert_allclose(curves.fitted[b], fitted, atol=1e-12)
        np.testing.assert_allclose(curves.observed[b], observed, atol=1e-12)


def test_fit_reaches_the_success_rate_of_complete_runs(rng: np.random.Generator) -> None:
    corpus = [([0] * int(n), 1 + int(rng.random() < 0.4)) for n in rng.geometric(0.4, 60)]
    sequences = sequences_of(corpus)
    result = misspecification_bound(sequences, n_resamples=99, rng=rng)
    n_steps = int(sequences.lengths.sum())
    exits = np.bincount(sequences.event, minlength=3)[1:] / n_steps
    d = np.arange(result.success.n_steps + 1)
    expected = exits[0] / exits.sum() * (1 - (1 - exits.sum()) ** d)
    np.testing.assert_allclose(result.success_curve.fitted, expected, atol=1e-12)


def test_bounds_follow_their_formulas(rng: np.random.Generator) -> None:
    replicates = rng.normal(0, [0.01, 0.02, 0.03], size=(400, 3))
    delta = np.array([0.0, -0.12, 0.05])
    bound = bound_from_replicates(delta, replicates, margin=0.2)
    se = replicates.std(axis=0, ddof=1)
    assert bound.upper == pytest.approx(max(abs(delta) + norm.ppf(0.95) * se))
    assert bound.lower == pytest.approx(max(abs(delta) - norm.ppf(1 - 0.05 / 2) * se))
    assert bound.step == 1
    # With `factor` times the units the upper bound would just meet the margin.
    shrunk = max(abs(delta) + norm.ppf(0.95) * se / np.sqrt(bound.factor))
    assert shrunk == pytest.approx(0.2)
    assert bound_from_replicates(delta, replicates, margin=0.1).factor == np.inf


def test_verdicts(rng: np.random.Generator) -> None:
    geometric = [([0] * int(n), 1) for n in rng.geometric(0.5, 400)]
    accepted = misspecification_bound(sequences_of(geometric), n_resamples=199, rng=0)
    assert accepted.verdict is Verdict.ACCEPTED
    assert accepted.failure.upper == 0.0
    clockwork = sequences_of([([0] * 5, 1)] * 40, task=range(40))
    rejected = misspecification_bound(clockwork, n_resamples=199, rng=0)
    assert rejected.verdict is Verdict.REJECTED
    assert rejected.success.lower == pytest.approx(1 - 0.8**4)
    few = misspecification_bound(sequences_of(geometric[:25]), margin=0.15, n_resamples=199, rng=0)
    assert few.verdict is Verdict.INCONCLUSIVE
    assert few.units_needed > 25
    assert str(few.units_needed) in str(few.next)
    tiny = misspecification_bound(sequences_of(geometric[:19]), n_resamples=99, rng=0)
    assert tiny.verdict is Verdict.INCONCLUSIVE
    assert "fewer than 20" in tiny.reasons[0]


def test_bands_hold_both_whole_curves_in_their_share_of_replicates(
    rng: np.random.Generator,
) -> None:
    sequences = random_corpus(rng, 200)
    tables = unit_tables(sequences)
    weights = resampled_weights(tables.n_units, 400, np.random.default_rng(3))
    whole = fit_curves(tables, np.ones((1, tables.n_units)))
    again = fit_curves(tables, weights)
    # As if the observed curve were the fitted one, and known.
    known = CurveReplicates(whole.fitted, whole.fitted)
    still = CurveReplicates(again.fitted, np.repeat(whole.fitted, 400, axis=0))
    alone = bound._with_bands(known, still, tables, 0.9)
    inside = np.ones(400, dtype=bool)
    for k, pair in enumerate(alone):
        curve = again.fitted[:, k]
        inside &= ((curve >= pair.low - 1e-9) & (curve <= pair.high + 1e-9)).all(axis=1)
    assert inside.sum() == pytest.approx(np.ceil(401 * 0.9), abs=1)
    result = misspecification_bound(sequences, n_resamples=400, ci_prob=0.9, rng=3)
    n = tables.n_units
    for k, (pair, narrow) in enumerate(
        zip((result.success_curve, result.failure_curve), alone, strict=True)
    ):
        se = again.observed[:, k].std(axis=0, ddof=1) * np.sqrt(n / (n - 1))
        reach = 1.6448536 * np.maximum(se, 1 / tables.n_runs)
        low = np.clip(np.minimum(narrow.low, pair.observed - reach), 0, 1)
        high = np.clip(np.maximum(narrow.high, pair.observed + reach), 0, 1)
        assert_allclose(pair.low[1:], low[1:])
        assert_allclose(pair.high[1:], high[1:])


def test_band_is_never_narrower_than_one_run_allows() -> None:
    tables = unit_tables(sequences_of([((0,), 1), ((0, 0), 2)] * 50))
    assert tables.n_units == tables.n_runs == 100
    curves = np.array([[[0.0, 1e-4, 0.4], [0.0, 0.1, 0.5]]])
    noise = np.random.default_rng(1).normal(0.0, 1.0, (400, 1, 1))
    again = curves + noise * np.array([[0.0, 1e-5, 0.02], [0.0, 0.0, 0.02]])
    whole = CurveReplicates(curves, curves)
    success, failure = bound._with_bands(whole, CurveReplicates(again, again), tables, 0.95)
    assert success.high[1] > 1.6 / 100  # the bootstrap alone would say 1e-4 -+ 2e-5
    assert failure.low[1] < 0.1 - 1.6 / 100
    assert success.high[2] == pytest.approx(0.4 + 1.96 * 0.02, abs=0.005)
    assert success.high[0] == 0.0


EDGES = {
    "no_runs": [],
    "no_steps": [((), 1)] * 30,
    "cut_before_the_first_step": [((), 0)] * 30,
    "one_step_each": [((0,), 1), ((1,), 2)] * 30,
    "all_cut": [((0, 1), 0)] * 30,
    "one_run": [((0, 1, 0), 1)],
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_inconclusive_with_a_reason(name: str) -> None:
    result = misspecification_bound(sequences_of(EDGES[name], n_states=2), n_resamples=20, rng=0)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reasons
    assert result.success is None
    json.dumps(result.to_dict(), allow_nan=False)


def test_same_seed_same_answer(rng: np.random.Generator) -> None:
    sequences = random_corpus(rng, 60)
    first, second = (misspecification_bound(sequences, n_resamples=99, rng=5) for _ in range(2))
    assert first.to_dict() == second.to_dict()


@pytest.mark.parametrize(("censor", "failure", "lower"), [(False, 0.21, 0.13), (True, 0.20, 0.125)])
def test_tau_bench_is_rejected_on_timing(
    real_logs: Path, censor: bool, failure: float, lower: float
) -> None:
    result = misspecification_bound(read_tau_bench(real_logs, censor=censor), rng=0)
    assert result.verdict is Verdict.REJECTED
    assert result.success.upper == pytest.approx(0.13, abs=0.005)
    assert result.failure.upper == pytest.approx(failure, abs=0.005)
    assert result.failure.lower == pytest.approx(lower, abs=0.01)
    assert np.abs(result.success.delta).max() == pytest.approx(0.101, abs=0.001)
