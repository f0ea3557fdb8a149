"""Draws and intervals: exact Dirichlet marginals, gradients by differences, coverage, the edges."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from oracles.chains import random_chain
from oracles.runs import EDGES
from sojourn.estimates import Status
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.chain_draws import (
    ChainDraws,
    bootstrap_draws,
    posterior_draws,
    resimulate,
)
from sojourn.process.counting import count_transitions
from sojourn.process.delta import delta_errors
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.intervals import chain_intervals
from sojourn.process.simulate import preset, simulate_tasks
from sojourn.sequences import CENSORED, SUCCESS


def chain_of(draws: ChainDraws, k: int) -> AbsorbingChain:
    m = draws.n_states
    return AbsorbingChain(
        transient=draws.rows[k, :, :m],
        to_success=draws.rows[k, :, m],
        to_failure=draws.rows[k, :, m + 1],
        initial=draws.start[k, :m],
        initial_success=draws.start[k, m],
        initial_failure=draws.start[k, m + 1],
        state_names=tuple(f"s{i}" for i in range(m)),
    )


def test_a_batch_answers_as_each_of_its_chains_does() -> None:
    sequences = preset("autogpt").simulate(60, rng=1)
    draws = posterior_draws(fit_homogeneous(sequences), 20, rng=2)
    success, failure = draws.success_within(30), draws.failure_within(30)
    for k in range(20):
        chain = chain_of(draws, k)
        np.testing.assert_allclose(success[k], chain.success_within(30), atol=1e-13)
        np.testing.assert_allclose(failure[k], chain.failure_within(30), atol=1e-13)
        assert draws.ends_in("success")[k] == pytest.approx(chain.success_ever)
        assert draws.ends_in("failure")[k] == pytest.approx(chain.failure_ever)
        assert draws.mean_steps[k] == pytest.approx(chain.mean_steps)
        assert draws.mean_steps_given_success[k] == pytest.approx(chain.mean_steps_given_success)
        assert draws.restricted_mean_steps(9)[k] == pytest.approx(chain.restricted_mean_steps(9))
        assert draws.quantile_steps(0.9)[k] == chain.quantile_steps(0.9)
        given = chain.quantile_steps(0.5, given="success")
        assert draws.quantile_steps(0.5, given="success")[k] == given


def test_a_bootstrap_draw_is_the_fit_of_the_resampled_runs() -> None:
    sequences = simulate_tasks(preset("react"), 12, 3, rng=4, max_steps=5)
    for settings in ({}, {"smoothing": "published"}, {"cut_step": "survived"}):
        fit = fit_homogeneous(sequences, **settings)
        draws = bootstrap_draws(fit, sequences, 3, rng=7)
        weights = np.random.default_rng(7).multinomial(12, np.full(12, 1 / 12), size=3)
        for k in range(3):
            runs = np.concatenate(
                [
                    np.flatnonzero(sequences.unit == u)
                    for u in range(12)
                    for _ in range(weights[k, u])
                ]
            )
            refit = fit_homogeneous(sequences.select(runs), allowed=fit.prior.allowed, **settings)
            np.testing.assert_allclose(chain_of(draws, k).transient, refit.chain.transient)
            np.testing.assert_allclose(chain_of(draws, k).initial, refit.chain.initial)


def test_posterior_rows_have_beta_marginals() -> None:
    sequences = preset("react").simulate(80, rng=3)
    fit = fit_homogeneous(sequences, smoothing="published")
    draws = posterior_draws(fit, 4000, rng=5)
    counts = fit.counts.table[1:, :7] + 1.0
    total = counts.sum(axis=1)
    for i in range(5):
        for j in range(7):
            law = stats.beta(counts[i, j], total[i] - counts[i, j])
            # KS distance of 4,000 draws exceeds 2.2 / sqrt(n) once in 8,000.
            distance = stats.kstest(draws.rows[:, i, j], law.cdf).statistic
            assert distance < 2.2 / np.sqrt(4000)
    start = stats.beta(fit.counts.starts[0], fit.counts.n_runs - fit.counts.starts[0])
    assert stats.kstest(draws.start[:, 0], start.cdf).statistic < 2.2 / np.sqrt(4000)
    entries = chain_intervals(fit, sequences, method="posterior", n_draws=4000, rng=5)
    law = stats.beta(counts[0, 1], total[0] - counts[0, 1])
    error = 4 * np.sqrt(0.025 * 0.975 / 4000)
    assert law.cdf(entries.rows_low[0, 1]) == pytest.approx(0.025, abs=error)
    assert law.cdf(entries.rows_high[0, 1]) == pytest.approx(0.975, abs=error)


@pytest.mark.parametrize("seed", [1, 2])
def test_delta_errors_are_those_of_numerical_gradients(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = random_chain(rng, 3, atoms=True)
    chain = AbsorbingChain(**tables)
    rows = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    start = np.append(chain.initial, [chain.initial_success, chain.initial_failure])
    totals, n_runs = np.array([40.0, 70.0, 25.0]), 60

    def figures(rows: np.ndarray, start: np.ndarray) -> dict[str, Any]:
        # Free functions of the table, so that a gradient may leave the simplex.
        Q, win, lose = rows[:, :3], rows[:, 3], rows[:, 4]
        N = np.linalg.inv(np.eye(3) - Q)
        within = {"success_within": [start[3]], "failure_within": [start[4]]}
        mass, lasting = start[:3], 0.0
        for d in range(6):
            within["success_within"].append(within["success_within"][-1] + mass @ win)
            within["failure_within"].append(within["failure_within"][-1] + mass @ lose)
            lasting += mass.sum() if d < 4 else 0.0
            mass = mass @ Q
        return within | {
            "success_ever": start[:3] @ N @ win + start[3],
            "failure_ever": start[:3] @ N @ lose + start[4],
            "mean_steps": start[:3] @ N.sum(axis=1),
            "restricted_mean": lasting,
        }

    def gradient(name: str, where: tuple[int, ...] | int, *, first: bool) -> np.ndarray:
        values = []
        for sign in (1, -1):
            changed = {"rows": rows.copy(), "start": start.copy()}
            changed["start" if first else "rows"][where] += sign * 1e-6
            values.append(np.asarray(figures(**changed)[name]))
        return (values[0] - values[1]) / 2e-6

    errors = delta_errors(chain, totals, n_runs, 6, observed=4)
    for name in errors._fields:
        variance: Any = 0.0
        for i in range(3):
            g = np.array([gradient(name, (i, j), first=False) for j in range(5)])
            variance = variance + (rows[i] @ g**2 - (rows[i] @ g) ** 2) / totals[i]
        g = np.array([gradient(name, j, first=True) for j in range(5)])
        variance = variance + (start @ g**2 - (start @ g) ** 2) / n_runs
        np.testing.assert_allclose(
            getattr(errors, name), np.sqrt(np.maximum(variance, 0)), rtol=1e-5, atol=1e-8
        )


def test_the_three_methods_agree_on_independent_runs_of_a_chain() -> None:
    sequences = preset("reflexion").simulate(1500, rng=21)
    fit = fit_homogeneous(sequences)
    made = {
        method: chain_intervals(fit, sequences, method=method, n_draws=4000, rng=1)
        for method in ("bootstrap", "posterior", "delta")
    }
    # A width from 4,000 percentile pairs has a relative standard error of about 2 %.
    for name in ("success_ever", "failure_ever", "mean_steps", "restricted_mean"):
        widths = [getattr(m, name).interval.width for m in made.values()]
        np.testing.assert_allclose(widths, widths[-1], rtol=0.09)
    d = slice(2, 12)
    widths = [(m.success_within.high - m.success_within.low)[d] for m in made.values()]
    np.testing.assert_allclose(widths[0], widths[2], rtol=0.10)
    np.testing.assert_allclose(widths[1], widths[2], rtol=0.10)
    # R_inf on complete runs is the pass rate, so its error is that of a proportion.
    p = fit.chain.success_ever
    wald = 2 * 1.96 * np.sqrt(p * (1 - p) / 1500)
    assert made["delta"].success_ever.interval.width == pytest.approx(wald, rel=0.02)
    assert made["bootstrap"].success_ever.interval.width == pytest.approx(wald, rel=0.08)


def test_tasks_that_differ_widen_the_bootstrap_over_tasks_only() -> None:
    sequences = simulate_tasks(preset("toolformer"), 100, 4, rng=3, odds_sd=2.0)
    fit = fit_homogeneous(sequences)
    by_task = chain_intervals(fit, sequences, rng=1).success_ever
    by_run = chain_intervals(fit, sequences, by="run", rng=1).success_ever
    assert by_task.interval is not None
    assert by_run.interval is not None
    assert by_task.interval.width > 1.1 * by_run.interval.width
    rate = (sequences.event == SUCCESS).reshape(100, 4).mean(axis=1)
    error = rate.std(ddof=1) / 10
    assert by_task.interval.width == pytest.approx(2 * 1.984 * error, rel=0.1)
    assert by_task.estimand == "population"


def test_the_same_seed_gives_the_same_intervals_and_a_drawn_seed_is_kept() -> None:
    sequences = preset("react").simulate(40, rng=2)
    fit = fit_homogeneous(sequences)
    one = chain_intervals(fit, sequences, n_draws=200, rng=9)
    assert one.to_dict() == chain_intervals(fit, sequences, n_draws=200, rng=9).to_dict()
    drawn = chain_intervals(fit, sequences, n_draws=200)
    assert drawn.seed is not None
    again = chain_intervals(fit, sequences, n_draws=200, rng=np.random.SeedSequence(drawn.seed))
    np.testing.assert_array_equal(drawn.rows_low, again.rows_low)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("smoothing", ["shrinkage", "none"])
@pytest.mark.parametrize("method", ["bootstrap", "posterior"])
def test_edges_are_sane_or_withheld(edge: str, smoothing: str, method: str) -> None:
    sequences = EDGES[edge]
    fit = fit_homogeneous(sequences, smoothing=smoothing)
    made = chain_intervals(fit, sequences, method=method, n_draws=99, horizon=6, rng=1)
    json.dumps(made.to_dict(), allow_nan=False)
    assert str(made).count("\n") == 8
    for curve in (made.success_within, made.failure_within):
        assert np.all((curve.low <= curve.value) & (curve.value <= curve.high))
        assert np.all((curve.low >= 0.0) & (curve.high <= 1.0 + 1e-12))
    assert np.all(np.isfinite(made.rows_low) & np.isfinite(made.rows_high))
    if fit.unidentified:
        assert made.success_ever.status is Status.WITHHELD
    if edge == "no success":
        assert made.success_ever.value == 0.0
        assert made.success_ever.interval is not None
        # Two units: the exact bound is 1 - .025^(1/2).
        assert made.success_ever.interval.high == pytest.approx(1 - 0.025**0.5)
        assert made.mean_steps_given_success.reasons == ("no run succeeded",)
    if edge == "one run" and method == "bootstrap":
        assert made.success_ever.interval is None
        assert made.success_ever.status is Status.INCONCLUSIVE


def test_quantiles_beyond_the_longest_run_carry_the_caution() -> None:
    sequences = preset("autogpt").simulate(300, rng=6, max_steps=4)
    fit = fit_homogeneous(sequences)
    made = chain_intervals(fit, sequences, n_draws=199, horizon=10, rng=1)
    assert made.median_steps.status is Status.SUPPORTED
    assert made.p90_steps.status is Status.INCONCLUSIVE
    assert "longest observed run of 4" in made.p90_steps.reasons[0]
    assert made.success_within.n_supported == 5


def test_refits_without_a_way_out_are_left_out_and_told() -> None:
    # One run of the only task with state b shows its exit; most resamples of few tasks lose it.
    sequences = EDGES["a state with one exit"]
    fit = fit_homogeneous(sequences, smoothing="none")
    made = chain_intervals(fit, sequences, n_draws=500, rng=1)
    assert made.success_ever.status is Status.INCONCLUSIVE
    assert "refits have no such figure" in made.success_ever.reasons[0]


def test_simulated_corpora_are_counted_as_their_paths_would_be() -> None:
    sequences = preset("react").simulate(300, rng=1)
    fit = fit_homogeneous(sequences)
    made = resimulate(fit, 200, max_steps=6, rng=3)
    assert np.all(made.tables[:, 0].sum(axis=1) == 300)
    assert np.all(made.ends.sum(axis=(1, 2)) == 300)
    np.testing.assert_array_equal(made.tables[:, :, 7].sum(axis=1), made.ends[:, 0].sum(axis=1))
    np.testing.assert_array_equal(made.tables[:, :, 5].sum(axis=1), made.ends[:, 1].sum(axis=1))
    within = np.cumsum(made.ends[:, 1], axis=1).mean(axis=0) / 300
    error = np.sqrt(0.25 / (300 * 200))
    np.testing.assert_allclose(within, fit.success_within(6), atol=4.5 * error)
    rows = made.tables[:, 1:, :7].sum(axis=0)
    table = np.column_stack((fit.chain.transient, fit.chain.to_success, fit.chain.to_failure))
    # Runs cut at step 6 are known to have gone on; their hidden moves are spread as the seen ones.
    survived = fit.prior.masses(made.tables.sum(axis=0))[0]
    cut = made.tables[:, 1:, 7].sum(axis=0)
    np.testing.assert_allclose(survived.sum(axis=1), rows.sum(axis=1) + cut)
    np.testing.assert_allclose(survived[:, 5:], rows[:, 5:])
    early = rows / rows.sum(axis=1, keepdims=True)
    assert np.all(np.abs(early - table)[:, :5] < 0.05)


@pytest.mark.parametrize(
    "setting", [{"method": "jackknife"}, {"ci_prob": 1.0}, {"n_draws": 0}, {"by": "step"}]
)
def test_bad_settings_are_refused(setting: dict[str, Any]) -> None:
    sequences = EDGES["one state"]
    with pytest.raises(ValueError, match="must"):
        chain_intervals(fit_homogeneous(sequences), sequences, **setting)


def test_delta_refuses_an_unidentified_chain() -> None:
    sequences = EDGES["every run cut"]
    with pytest.raises(ValueError, match="lead to an end"):
        chain_intervals(fit_homogeneous(sequences), sequences, method="delta")


@pytest.mark.statistical
def test_the_bootstrap_over_tasks_covers_where_tasks_differ() -> None:
    """100 tasks x 4 that differ in the odds at their exits; d with .1 < R(d) < .9."""
    chain = preset("toolformer")
    n_corpora, odds_sd = 300, 1.5
    truth = simulate_tasks(chain, 200_000, 1, rng=1, odds_sd=odds_sd)
    won = truth.lengths[truth.event == SUCCESS]
    within = np.array([np.count_nonzero(won <= d) for d in range(16)]) / truth.n_runs
    checked = np.flatnonzero((within > 0.1) & (within < 0.9))
    covered = np.zeros(checked.size)
    for seed in range(n_corpora):
        sequences = simulate_tasks(chain, 100, 4, rng=1000 + seed, odds_sd=odds_sd)
        fit = fit_homogeneous(sequences)
        band = chain_intervals(fit, sequences, n_draws=499, horizon=15, rng=seed).success_within
        covered += (band.low[checked] <= within[checked]) & (within[checked] <= band.high[checked])
    # The wanted range, widened by one standard error of a share over 300 corpora.
    assert np.all(covered / n_corpora > 0.92 - 0.01)
    assert np.all(covered / n_corpora < 0.97 + 0.01)


def test_cut_runs_give_moves_and_no_exit_to_the_draws_too() -> None:
    sequences = preset("react").simulate(50, rng=1, max_steps=2)
    assert np.any(sequences.event == CENSORED)
    fit = fit_homogeneous(sequences)
    table = count_transitions(sequences).table
    masses = fit.prior.masses(table)[0]
    assert masses.sum() == pytest.approx(table[1:].sum())
    np.testing.assert_allclose(masses[:, 5:], table[1:, 5:7])
