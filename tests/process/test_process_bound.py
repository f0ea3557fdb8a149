"""The bound of any process: agreement with the chain's own bound, and slow recomputation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oracles.corpora import sequences_of
from sojourn.estimates import Verdict
from sojourn.process import simulate
from sojourn.process.bound import fit_curves, misspecification_bound, unit_tables
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.incidence import fit_incidence
from sojourn.process.process_bound import BootstrappedProcess, bound_process
from sojourn.process.progress import fit_progress
from sojourn.process.unit_curves import observed_curves, resampled_weights
from sojourn.sequences import SUCCESS, StateSequences


def runs_of(seed: int, n_tasks: int = 30, **departure: float) -> StateSequences:
    return simulate.simulate_tasks(
        simulate.preset("react"), n_tasks, 4, rng=seed, max_steps=12, **departure
    )


def test_observed_curves_are_those_of_the_kernel_and_of_the_resampled_runs() -> None:
    runs = runs_of(1)
    tables = unit_tables(runs)
    weights = resampled_weights(tables.n_units, 7, np.random.default_rng(0))
    found = observed_curves(tables, weights)
    np.testing.assert_allclose(found, fit_curves(tables, weights).observed, atol=1e-12)
    again = runs.select(
        np.concatenate(
            [np.tile(np.flatnonzero(runs.unit == u), k) for u, k in enumerate(weights[3])]
        )
    )
    slow = fit_incidence(again.lengths, again.event, again.unit, n_resamples=99, rng=0)
    n = int(again.lengths.max()) + 1
    np.testing.assert_allclose(found[3, 0, :n], slow.success.value, atol=1e-12)
    np.testing.assert_allclose(found[3, 1, :n], slow.failure.value, atol=1e-12)


def test_of_the_unsmoothed_chain_it_is_the_bound_of_the_chain() -> None:
    runs = runs_of(2)
    fit = fit_homogeneous(runs, smoothing="none")
    assert isinstance(fit, BootstrappedProcess)
    mine = bound_process(fit, runs, n_resamples=99, rng=5).bound
    chain = misspecification_bound(runs, n_resamples=99, rng=5)
    assert mine.success is not None
    assert mine.failure is not None
    assert chain.success is not None
    assert chain.failure is not None
    assert mine.verdict is chain.verdict
    np.testing.assert_allclose(mine.success.delta, chain.success.delta, atol=1e-12)
    np.testing.assert_allclose(mine.failure.se, chain.failure.se, atol=1e-12)
    assert mine.success.upper == pytest.approx(chain.success.upper)


def test_replicates_are_refits_to_the_resampled_units() -> None:
    runs = runs_of(3, n_tasks=20)
    fit = fit_progress(runs)
    made = bound_process(fit, runs, n_resamples=12, horizon=16, rng=np.random.default_rng(8))
    weights = resampled_weights(20, 12, np.random.default_rng(8)).astype(float)
    curves = np.array(
        [
            (again.success_within(16), again.failure_within(16))
            for again in (fit.refit(runs, weights=w[runs.unit]) for w in weights)
        ]
    )
    assert made.success_within is not None
    assert made.failure_within is not None
    assert made.success_within.x[-1] == 16
    assert made.success_within.n_supported == 13
    for k, curve in enumerate((made.success_within, made.failure_within)):
        low, high = np.quantile(curves[:, k], [0.025, 0.975], axis=0)
        one_run = np.where(curve.x > 0, 1.959964 / runs.n_runs, 0.0)
        low = np.minimum(low, np.clip(curve.value - one_run, 0.0, 1.0))
        high = np.maximum(high, np.clip(curve.value + one_run, 0.0, 1.0))
        seen = observed_curves(unit_tables(runs), np.ones((1, 20)))[0, k]
        low[:13], high[:13] = np.minimum(low[:13], seen), np.maximum(high[:13], seen)
        np.testing.assert_allclose(curve.low, low, atol=1e-4)
        np.testing.assert_allclose(curve.high, high, atol=1e-4)
    delta = curves[:, :, :13] - observed_curves(unit_tables(runs), weights)
    assert made.bound.success is not None
    np.testing.assert_allclose(made.bound.success.se, delta[:, 0].std(axis=0, ddof=1), atol=1e-4)


def test_a_delayed_chain_is_rejected_and_the_progress_process_accepted() -> None:
    runs = simulate.simulate_runs(
        simulate.preset("react"), 240, rng=4, exit_factor=0.05, exit_steps=7
    )
    task = np.arange(240, dtype=np.int32) // 4
    runs = StateSequences(
        states=runs.states, offsets=runs.offsets, event=runs.event,
        task=task, unit=task, state_names=runs.state_names,
    )  # fmt: skip
    chain = bound_process(fit_homogeneous(runs), runs, n_resamples=99, rng=0).bound
    progress = bound_process(fit_progress(runs), runs, n_resamples=99, rng=0).bound
    assert chain.verdict is Verdict.REJECTED
    assert progress.verdict is Verdict.ACCEPTED
    assert chain.next is not None
    assert "Aalen-Johansen" in chain.next


def test_same_seed_same_answer_whatever_the_workers() -> None:
    runs = runs_of(6, n_tasks=20)
    fit = fit_progress(runs)
    alone = bound_process(fit, runs, n_resamples=20, rng=1)
    with ThreadPoolExecutor(2) as threads:
        together = bound_process(fit, runs, n_resamples=20, executor=threads, rng=1)
    assert alone.bound.to_dict() == together.bound.to_dict()


@pytest.mark.parametrize(
    "corpus", [[([0], 1), ([0], 2)], [([0, 0], 0), ([0, 0], 0)], [([0, 0], 1), ([], 0)]]
)
def test_where_nothing_can_be_compared_it_is_inconclusive(
    corpus: list[tuple[list[int], int]],
) -> None:
    runs = sequences_of(corpus)
    made = bound_process(fit_homogeneous(runs), runs, n_resamples=9, rng=0)
    assert made.bound.verdict is Verdict.INCONCLUSIVE
    assert made.success_within is None
    assert made.bound.reasons


def test_where_every_run_did_the_same_the_curves_are_no_surer_than_one_run() -> None:
    drawn = runs_of(3)
    alike = drawn.select(np.flatnonzero(drawn.event == SUCCESS))
    found = bound_process(fit_progress(alike), alike, n_resamples=99, rng=4)
    assert found.success_within is not None
    assert found.failure_within is not None
    longest = int(alike.lengths.max())
    assert found.success_within.high[longest] == 1.0
    np.testing.assert_array_equal(found.failure_within.value, 0.0)
    assert found.failure_within.high[0] == 0.0
    np.testing.assert_allclose(found.failure_within.high[1:], 1.959964 / alike.n_runs, rtol=1e-6)


def test_few_units_certify_nothing() -> None:
    runs = runs_of(7, n_tasks=12)
    made = bound_process(fit_progress(runs), runs, n_resamples=19, rng=0)
    assert made.bound.verdict is Verdict.INCONCLUSIVE
    assert "fewer than 20" in made.bound.reasons[0]
