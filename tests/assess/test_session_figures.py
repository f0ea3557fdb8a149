"""Figures of the tasks ahead against closed forms; tables, draws and figures for other tools."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import betainc, comb
from scipy.stats import beta as beta_law

from assess.test_sessions import dependent, independent, log_of
from sojourn.assess.session_density import posterior_density
from sojourn.assess.session_figures import FunctionalRow
from sojourn.assess.session_reliability import tail_weight
from sojourn.assess.session_results import SessionAssessment
from sojourn.assess.session_stacking import stacked_runs
from sojourn.assess.session_text import median_text
from sojourn.assess.sessions import assess_session_groups, assess_sessions
from sojourn.estimates import Estimate, Status
from sojourn.records import OperationalProfile
from sojourn.session import HMMPosterior, HMMSpec, SamplerSettings, envelope, reliability, sample

QUICK = SamplerSettings(warmup=200, draws=400, max_draws=400)


@cache
def two_domains() -> SessionAssessment:
    log = log_of(["sfssfssf" * 9], domains=("easy", "hard"), subdomains=("p", "q", "q"))
    profile = OperationalProfile(domains={"easy": 0.25, "hard": 0.75})
    return assess_sessions(log, profile, rng=0, n_states=(1,), n_max=4, envelope=True)


def test_figures_of_independent_tasks_are_moments_of_their_posterior() -> None:
    domain = independent().domains[0]
    figures, m = domain.reliability, np.append(1.0, domain.independent.run_means(20))
    any_of = {n: -sum(comb(n, k) * (-1) ** k * m[k] for k in range(1, n + 1)) for n in (2, 3, 5)}
    exact = {
        ("decay_rate", None, None): m[1],
        ("hazard", 5, None): 1.0 - m[1],
        ("at_most_failures", 20, 1): 20 * m[19] - 19 * m[20],
        ("at_most_failures", 10, 2): 45 * (m[8] - 2 * m[9] + m[10]) + 10 * (m[9] - m[10]) + m[10],
    } | {("pass_at", n, None): value for n, value in any_of.items()}
    for (name, n, failures), value in exact.items():
        rows = [
            row
            for row in figures.functionals
            if (row.name, row.n, row.failures) == (name, n, failures)
        ]
        assert len(rows) == (1 if name == "decay_rate" else 3)
        for row in rows:
            assert row.mcse is not None
            assert row.mcse > 0.0
            assert row.estimate.value == pytest.approx(value, abs=4.5 * row.mcse)


def test_waiting_of_independent_tasks_is_that_of_the_beta_mixture() -> None:
    domain = independent().domains[0]
    fit = domain.independent
    a, b = fit.alpha + fit.success[0], fit.beta + fit.failure[0]
    row = domain.reliability.functional("expected_successes", start="continuing")
    assert row is not None
    assert row.mcse is not None
    # E[p / (1 - p)] of a Beta is a / (b - 1)
    assert row.estimate.value == pytest.approx(
        float(fit.cell_weight @ (a / (b - 1.0))), abs=4.5 * row.mcse
    )
    # The smallest n with p^n < .5 exceeds k when p^k >= .5.
    run = domain.reliability.functional("run_length", start="fresh", level=0.5)
    assert run is not None
    assert run.mcse is not None
    tail = [float(fit.cell_weight @ (1.0 - betainc(a, b, 0.5 ** (1.0 / k)))) for k in range(1, 80)]
    assert run.estimate.value == pytest.approx(1.0 + sum(tail), abs=4.5 * run.mcse)


def test_probabilities_are_the_posteriors_distribution_function() -> None:
    domain = independent().domains[0]
    fit, figures = domain.independent, domain.reliability
    a, b = fit.alpha + fit.success[0], fit.beta + fit.failure[0]
    for n, level in ((1, 0.8), (20, 0.01), (5, 0.4)):
        exact = 1.0 - float(fit.cell_weight @ betainc(a, b, level ** (1.0 / n)))
        error = 4.5 * np.sqrt(exact * (1.0 - exact) / 8000)
        for start in ("continuing", "fresh", "long_run"):
            assert figures.probability(start, n, at_least=level) == pytest.approx(exact, abs=error)
            below = figures.probability(start, n, at_most=level)
            assert below == pytest.approx(1.0 - exact, abs=error)
    assert figures.probability("continuing", 1, at_least=0.0, at_most=1.0) == 1.0
    assert figures.probability("continuing", 1, at_least=0.9, at_most=0.5) == 0.0
    with pytest.raises(ValueError, match="was not computed"):
        figures.probability("continuing", 7, at_least=0.5)
    with pytest.raises(ValueError, match="at_least"):
        figures.probability("continuing", 1)
    listed = {(p.start, p.n, p.at_least): p.value for p in figures.probabilities}
    assert listed["continuing", 20, 0.5] == figures.probability("continuing", 20, at_least=0.5)


def test_hidden_states_have_their_own_figures_by_start() -> None:
    domain = dependent().domains[0]
    figures, model = domain.reliability, domain.model
    assert isinstance(model, HMMPosterior)
    # Truth: states of .97 and .35, symmetric, stay .95; D A has this spectral radius.
    truth = np.abs(np.linalg.eigvals(np.diag([0.97, 0.35]) @ [[0.95, 0.05], [0.05, 0.95]])).max()
    decay = figures.functional("decay_rate")
    assert decay is not None
    assert decay.estimate.interval is not None
    assert decay.estimate.interval.low < truth < decay.estimate.interval.high
    for start in ("continuing", "fresh", "long_run"):
        row = figures.functional("expected_successes", start=start)
        assert row is not None
        law = model.start_law(start)
        draws = reliability.expected_successes(
            model.transition, model.success_prob, law, model.weights
        )
        assert row.estimate.value == pytest.approx(draws.mean(), rel=1e-12)
        assert row.median == pytest.approx(float(np.median(draws)), rel=1e-3)
        for n in (1, 5):
            hazard = figures.functional("hazard", start=start, n=n)
            assert hazard is not None
            exact = reliability.hazard(model.run_draws(n, start=start))[..., -1]
            assert hazard.estimate.value == pytest.approx(exact.mean(), rel=1e-10)
    for row in figures.success_run:
        assert row.mcse is not None
        assert 0.0 < row.mcse < 0.02
    # After many successes the session is in the good state, whatever it began with.
    hazards = [figures.functional("hazard", start=s, n=20) for s in ("continuing", "long_run")]
    assert None not in hazards
    values = [row.estimate.value for row in hazards if row is not None]
    assert values[0] == pytest.approx(values[1], abs=0.05)
    assert values[0] == pytest.approx(1.0 - truth, abs=0.05)


def test_subdomains_have_their_own_runs_and_baseline() -> None:
    domain = two_domains().domain("easy")
    fit = domain.independent
    for j, row in enumerate(domain.reliability.subdomains):
        only = np.eye(2)[j]
        for n, exact in enumerate(fit.run_means(4, weights=only), start=1):
            if n not in (1, 2, 3, 4):
                continue
            found = domain.reliability.functional("success_run", n=n, subdomain=row.name)
            assert found is not None
            assert found.mcse is not None
            assert found.estimate.value == pytest.approx(exact, abs=4.5 * found.mcse)
        k, n = row.n_success, row.n_observed
        law = beta_law(1 + k, 1 + n - k)
        assert row.beta_binomial.value == pytest.approx(law.mean())
        assert row.beta_binomial.interval is not None
        assert row.beta_binomial.interval.low == pytest.approx(law.ppf(0.025))
        assert row.beta_binomial.interval.high == pytest.approx(law.ppf(0.975))


def test_figures_without_a_mean_are_withheld_and_keep_their_median() -> None:
    # All 60 succeeded: p / (1 - p) has no posterior mean.
    figures = assess_sessions(log_of(["s" * 60]), rng=0, n_states=(1,)).domains[0].reliability
    row = figures.functional("expected_successes", start="continuing")
    assert row is not None
    assert row.estimate.value is None
    assert row.estimate.status is Status.WITHHELD
    assert row.mcse is None
    assert row.median is not None
    assert row.median > 20
    assert "see the median" in row.estimate.reasons[0]


def test_tail_weight_is_the_index_of_a_power_law(rng: np.random.Generator) -> None:
    # P(X > x) = x^(-1/k); Hill's error is k / sqrt(m) at m = 3 sqrt(n) = 424.
    for k in (0.3, 1.0):
        draws = rng.random(20_000) ** -k
        assert tail_weight(draws) == pytest.approx(k, abs=4.5 * k / np.sqrt(424))
    assert tail_weight(np.zeros(100)) == 0.0


def test_density_is_that_of_the_law(rng: np.random.Generator) -> None:
    draws = rng.beta(8, 4, 20_000)
    found = posterior_density(draws, label="d", level="domain")
    assert np.trapezoid(found.density, found.x) == pytest.approx(1.0, abs=0.01)
    assert np.abs(found.density - beta_law(8, 4).pdf(found.x)).max() < 0.25
    assert found.quantiles == pytest.approx(beta_law(8, 4).ppf(found.probs), abs=0.015)
    # Mass at the edge stays inside.
    edge = posterior_density(rng.beta(1, 30, 20_000), label="d", level="domain")
    assert edge.x[0] == 0.0
    assert np.trapezoid(edge.density, edge.x) == pytest.approx(1.0, abs=0.01)


def test_envelope_is_that_of_the_domains_and_their_weighted_sum() -> None:
    result = two_domains()
    assert result.system_envelope is not None
    by_domain = [result.domain(name).reliability.envelope for name in ("easy", "hard")]
    for i, row in enumerate(result.system_envelope):
        parts = [rows[i] for rows in by_domain if rows is not None]
        assert row.low == pytest.approx(0.25 * parts[0].low + 0.75 * parts[1].low)
        assert row.high == pytest.approx(0.25 * parts[0].high + 0.75 * parts[1].high)
        # The default prior is a corner of the box.
        estimate = result.domain("easy").reliability.row("continuing", row.n)
        assert estimate is not None
        assert estimate.estimate.value is not None
        assert parts[0].low <= estimate.estimate.value <= parts[0].high
    sequences = log_of(["sfssfssf" * 9], domains=("easy", "hard"), subdomains=("p", "q", "q"))
    weights = [row.weight for row in result.domain("easy").reliability.subdomains]
    exact = envelope(sequences.task_sequences("easy"), weights=weights, n=4)
    assert by_domain[0] is not None
    # Under threads of our own one thread of BLAS sums in another order.
    found = (by_domain[0][-1].low, by_domain[0][-1].high)
    assert found == pytest.approx((exact.low, exact.high), rel=1e-12)
    assert result.to_dict()["system"]["envelope"][0]["n"] == 1
    assert "over the box of priors" in str(result)


def test_system_density_is_that_of_the_weighted_sum() -> None:
    result = two_domains()
    density = result.system_density
    assert density is not None
    row = next(r for r in result.system if r.n == 1 and r.convention == "domain_once")
    mean = np.trapezoid(density.x * density.density, density.x)
    assert mean == pytest.approx(row.estimate.value, abs=0.01)


def test_stacked_runs_mix_the_posteriors_by_weight() -> None:
    domain = dependent().domains[0]
    model = domain.model
    assert isinstance(model, HMMPosterior)
    sequences = log_of(["ssssssssffffff" * 6] * 2).task_sequences("d")
    spec = HMMSpec(n_states=2)
    chosen = sample(sequences, spec, settings=QUICK, rng=0)
    three = domain.selection.candidates[1]
    selection = replace(
        domain.selection,
        candidates=(*domain.selection.candidates, replace(three, n_states=3)),
        stacking=np.array([0.0, 0.25, 0.75]),
    )
    found = stacked_runs(
        sequences, spec, selection, chosen, n_max=5, settings=QUICK, rng=np.random.default_rng(4)
    )
    assert found is not None
    other = sample(
        sequences,
        replace(spec, n_states=3),
        weights=chosen.weights,
        settings=QUICK,
        rng=np.random.default_rng(4).spawn(2)[1],
    )
    for start, draws in found.items():
        runs = [fit.run_draws(5, start=start).mean(axis=(0, 1)) for fit in (chosen, other)]
        assert draws.mean(axis=0) == pytest.approx(0.25 * runs[0] + 0.75 * runs[1], abs=0.01)
    alone = replace(selection, stacking=np.array([0.0, 1.0, 0.0]))
    rng = np.random.default_rng(0)
    assert stacked_runs(sequences, spec, alone, chosen, n_max=5, settings=QUICK, rng=rng) is None


def test_bootstrap_on_request_gives_a_p_value() -> None:
    log = log_of(["sssssffffff" * 4])
    result = assess_sessions(log, rng=0, n_states=(1, 2), bootstrap=3, settings=QUICK)
    test = result.domains[0].gain_test
    assert test is not None
    gain = result.domains[0].selection.candidates[1].difference
    assert test.p_value == (1 + sum(g >= gain for g in test.gains)) / 4
    assert "parametric bootstrap: p 0.250 (3 replicates" in str(result)
    assert result.to_dict()["domains"][0]["selection"]["gain_test"]["n_replicates"] == 3
    assert assess_sessions(log, rng=0, n_states=(1,)).domains[0].gain_test is None


def test_tables_hold_the_results_figures() -> None:
    pytest.importorskip("pandas")
    domain = dependent().domains[0]
    table = domain.reliability.to_pandas().set_index(["start", "n"])
    row = domain.reliability.row("fresh", 5)
    assert row is not None
    assert table.loc[("fresh", 5), "value"] == row.estimate.value
    assert table.loc[("fresh", 5), "independent_value"] == row.independent.value
    scores = domain.to_pandas("selection")
    assert scores["model"].tolist() == ["hierarchical", "hmm", "beta_binomial"]
    assert scores["chosen"].tolist() == [False, True, False]
    whole = two_domains().to_pandas()
    assert set(whole["domain"].dropna()) == {"easy", "hard"}
    assert whole["convention"].notna().sum() == 8
    assert len(two_domains().to_pandas("functionals")) == sum(
        len(d.reliability.functionals) for d in two_domains().domains
    )
    grouped = assess_session_groups(
        log_of(["sf" * 15] * 2, models=("a", "b")), rng=0, n_states=(1,)
    )
    assert grouped.to_pandas()["model"].value_counts().to_dict() == {"a": 18, "b": 18}
    with pytest.raises(ValueError, match="table"):
        domain.to_pandas("nothing")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_posterior_for_arviz_keeps_invariants_and_orders_states() -> None:
    pytest.importorskip("arviz")
    domain = dependent().domains[0]
    model = domain.model
    assert isinstance(model, HMMPosterior)
    data = domain.to_arviz()
    post = data.posterior
    assert post["success_prob"].dims == ("chain", "draw", "subdomain", "state")
    success = post["success_prob"].values[..., 0, :]
    assert (success[..., 0] >= success[..., 1]).all()
    np.testing.assert_array_equal(
        post["success_run_fresh"].values, model.run_draws(20, start="fresh")
    )
    np.testing.assert_allclose(post["transition"].values.sum(axis=-1), 1.0)
    # R(1) and R(2) from the ordered parameters: relabelling must not part A from theta.
    again = reliability.success_run(
        post["transition"].values,
        post["success_prob"].values,
        post["predictive_state"].values,
        model.weights,
        2,
    )
    np.testing.assert_allclose(again, model.run_draws(2), rtol=1e-12)
    assert data.sample_stats["lp"].shape == model.log_likelihood.shape
    one = independent().domains[0].to_arviz().posterior
    assert float(one["success_run"][..., 0].mean()) == pytest.approx(
        independent().domains[0].reliability.next_task.value, abs=0.005
    )


def test_missing_extras_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"sojourn\[arviz\]"):
        independent().domains[0].to_arviz()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas"):
        independent().to_pandas()


def test_results_draw_their_own_numbers() -> None:
    domain = dependent().domains[0]
    curve = domain.reliability.curve
    lines = {line.get_label(): line for line in domain.plot().lines}
    np.testing.assert_allclose(lines["continuing the session"].get_ydata(), curve.value)
    densities = domain.plot(kind="densities")
    np.testing.assert_allclose(
        densities.lines[-1].get_ydata(), domain.reliability.densities[0].density
    )
    trace = domain.plot(kind="trace")
    # Two states beneath each row, and the ticks of successes and failures above.
    n_rows = len(trace.get_yticks())
    assert len(trace.collections) == n_rows * 4
    from sojourn.plots import new_axes

    given = new_axes()
    assert domain.plot(given, kind="positions") is given
    assert dependent().plot().lines
    assert [line.get_label() for line in two_domains().plot().lines] == ["easy", "hard"]


def test_trace_has_the_outcomes_and_the_states_probabilities() -> None:
    trace = dependent().domains[0].trace
    assert trace.states is not None
    np.testing.assert_allclose(trace.states.sum(axis=1), 1.0)
    # Successes speak for the first state.
    assert trace.states[trace.success == 1, 0].mean() > trace.states[trace.success == 0, 0].mean()
    assert independent().domains[0].trace.states is None


def test_blocks_are_warned_of_in_text_and_result() -> None:
    words = "ssssssssffffffff" * 4
    log = log_of([words, words], subdomains=("a",) * 32 + ("b",) * 32)
    result = assess_sessions(log, rng=0, n_states=(1, 2), settings=QUICK)
    domain = result.domains[0]
    assert domain.n_states == 2
    assert domain.block_ordered
    assert "SJ206" in {caution.code for caution in result.cautions}
    assert "subdomains come in blocks" in str(result)
    assert json.loads(json.dumps(domain.to_dict()))["block_ordered"]
    blurred = replace(domain.states, ambiguous=True)
    mixed = replace(result, domains=(replace(domain, states=blurred),))
    assert "not told apart" in str(mixed)


def test_medians_carry_their_doubt_and_end_with_the_longest_session() -> None:
    doubtful = Estimate(value=0.5, status=Status.INCONCLUSIVE, reasons=("why",))
    sure = Estimate(value=0.5)
    none = Estimate(value=None, status=Status.WITHHELD, reasons=("why",))

    def shown(name: str, estimate: Estimate, median: float | None) -> str:
        row = FunctionalRow(name=name, start="fresh", estimate=estimate, median=median, mcse=None)
        return median_text(row, 30)

    assert shown("hazard", sure, 0.25) == "0.250"
    assert shown("hazard", doubtful, 0.25) == "0.250 ?"
    assert shown("run_length", doubtful, 12.0) == "12.0 ?"
    assert shown("expected_successes", none, 2_703_051.3) == "over 30"
    assert shown("expected_successes", none, None) == "-"
