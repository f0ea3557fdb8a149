"""The sampler against exact enumeration and quadrature; reproducible; honest about convergence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oracles import hmm as oracle
from sojourn.session.hierarchical import fit_hierarchical
from sojourn.session.hmm import HMMSpec, prior_predictive
from sojourn.session.sampler import PUBLISHED, SamplerSettings, sample
from sojourn.session.simulate import simulate_sessions
from sojourn.task_sequences import TaskSequences

Y = [int(c) for c in "1101110010"]
J = [int(c) for c in "0000011111"]
SMALL = TaskSequences.from_sessions([(J, Y)], ["a", "b"])
LONG = SamplerSettings(draws=20_000, max_draws=20_000)


def test_enumeration_gives_the_published_check_values():
    evidence, next_task = oracle.enumerated_posterior(
        J, Y, 2, np.ones((2, 2)), (2, 2, 2, 0.5), [0.4, 0.6], n=90
    )
    assert evidence == pytest.approx(-7.6197, abs=2e-3)
    assert next_task == pytest.approx(0.56647, abs=2e-4)


def test_sampler_reaches_the_enumerated_next_task_reliability():
    spec = HMMSpec(
        n_states=2,
        mean_prior=(2, 2),
        concentration_prior=(2, 0.5),
        transition_prior=((1.0, 1.0), (1.0, 1.0)),
    )
    got = sample(SMALL, spec, weights=[0.4, 0.6], settings=LONG, rng=5).next_task()
    _, expected = oracle.enumerated_posterior(
        J, Y, 2, np.ones((2, 2)), (2, 2, 2, 0.5), [0.4, 0.6], n=90
    )
    assert got.mcse < 1e-3
    assert abs(got.mean - expected) < 4 * got.mcse


def test_one_state_equals_quadrature(rng):
    seq = simulate_sessions(
        [200, 50], transition=[[1.0]], success_prob=[[0.8], [0.95]], rng=rng
    ).sequences
    got = sample(seq, HMMSpec(n_states=1), settings=LONG, weights=[0.3, 0.7], rng=2)
    exact = fit_hierarchical(seq, weights=[0.3, 0.7])
    summary = got.next_task()
    assert abs(summary.mean - exact.run_means(1)[0]) < 4 * summary.mcse
    run = got.run_draws(20)[..., 19]
    error = run.std() / np.sqrt(run.size / 3)
    assert abs(run.mean() - exact.run_means(20)[19]) < 4 * error


def test_same_seed_same_draws_whatever_runs_the_chains():
    spec = HMMSpec(n_states=3, initial="estimated")
    short = SamplerSettings(warmup=20, draws=50, max_draws=50)
    one = sample(SMALL, spec, settings=short, n_threads=1, rng=3)
    four = sample(SMALL, spec, settings=short, n_threads=4, rng=3)
    with ThreadPoolExecutor(3) as pool:
        given = sample(SMALL, spec, settings=short, executor=pool, rng=3)
    other = sample(SMALL, spec, settings=short, rng=4)
    for name in ("transition", "success_prob", "initial", "predictive_state", "log_likelihood"):
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))
        np.testing.assert_array_equal(getattr(one, name), getattr(given, name))
    assert not np.array_equal(one.transition, other.transition)


def test_rounds_go_on_until_settled_and_the_ceiling_is_confessed():
    spec = HMMSpec(n_states=2)
    settled = sample(SMALL, spec, rng=0)
    assert settled.converged
    assert settled.reasons == ()
    assert settled.estimate(settled.next_task()).status == "supported"
    for d in settled.diagnostics.values():
        assert d.r_hat < 1.01
        assert min(d.ess_bulk, d.ess_tail) > 400
    cut = sample(SMALL, spec, settings=SamplerSettings(draws=20, max_draws=20), rng=0)
    assert not cut.converged
    estimate = cut.estimate(cut.next_task())
    assert estimate.status == "inconclusive"
    assert any("effective draws" in r for r in estimate.reasons)
    assert cut.success_run(5).n_supported == 0


def test_what_has_not_settled_is_named_as_the_log_names_it():
    names = ["travel \x1b[31m", "mail", "mail"]
    log = TaskSequences.from_sessions([([0, 1, 2, 0, 1], [1, 0, 1, 1, 1])], names)
    short = SamplerSettings(draws=20, max_draws=20)
    found = sample(log, HMMSpec(n_states=2), settings=short, rng=0).diagnostics
    assert {key for key in found if "subdomain" in key} == {
        "R(1), subdomain travel ?[31m",
        "R(1), subdomain mail",
        "R(1), subdomain mail (number 2)",
    }


def test_published_preset_keeps_five_thousand_draws_of_one_chain():
    got = sample(SMALL, HMMSpec(n_states=2), settings=PUBLISHED, rng=0)
    assert got.log_likelihood.shape == (1, 5000)


def test_draws_are_parameters_and_the_recorded_state_law_belongs_to_them():
    seq = TaskSequences.from_sessions([(J, Y), (J[3:], Y[3:])], ["a", "b"])
    short = SamplerSettings(warmup=50, draws=30, max_draws=30)
    got = sample(seq, HMMSpec(n_states=3, initial="estimated"), settings=short, rng=1)
    assert got.transition.shape == (4, 30, 3, 3)
    np.testing.assert_allclose(got.transition.sum(axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(got.initial.sum(axis=-1), 1.0, rtol=1e-12)
    from sojourn.session.hmm import filter_states

    for c, d in ((0, 0), (3, 17)):
        exact = filter_states(
            seq,
            transition=got.transition[c, d],
            success_prob=got.success_prob[c, d],
            initial=got.initial[c, d],
        )
        assert got.log_likelihood[c, d] == pytest.approx(exact.log_likelihood, rel=1e-10)
        np.testing.assert_allclose(got.predictive_state[c, d], exact.next_state[1], rtol=1e-9)
    again = got.after(seq.select([1]))
    np.testing.assert_allclose(again.predictive_state, got.predictive_state, rtol=1e-9)
    first = got.after(seq.select([0]))
    assert not np.allclose(first.predictive_state, got.predictive_state)


def test_states_are_ordered_by_success_and_found_again(rng):
    truth = np.array([[0.98, 0.4], [0.95, 0.3]])
    seq = simulate_sessions(
        [1500], transition=[[0.95, 0.05], [0.08, 0.92]], success_prob=truth, rng=rng
    )
    got = sample(seq.sequences, HMMSpec(n_states=2), rng=2)
    table = got.states()
    assert not table.ambiguous
    assert np.all(np.abs(table.success_prob - truth) < 4 * table.success_prob_sd)
    assert table.transition[0, 0] == pytest.approx(0.95, abs=0.04)
    p = got.state_probabilities(seq.sequences)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    assert np.mean(p.argmax(axis=1) == seq.states) > 0.8


@pytest.mark.parametrize("outcome", [0, 1, -1])
@pytest.mark.parametrize("n", [1, 40])
def test_corners_give_sane_figures(outcome, n):
    seq = TaskSequences.from_sessions([([0] * n, [outcome] * n)], ["a", "never seen"])
    short = SamplerSettings(warmup=100, draws=300, max_draws=300)
    got = sample(seq, HMMSpec(n_states=3), weights=[0.5, 0.5], settings=short, rng=0)
    for start in ("continuing", "fresh", "long_run"):
        value = got.next_task(start=start)
        assert 0.0 <= value.low <= value.mean <= value.high <= 1.0
        assert value.high - value.low > 0.01
    if n == 40 and outcome >= 0:
        seen = got.subdomain_next_task(0).mean
        assert seen > 0.9 if outcome else seen < 0.1


def test_twenty_subdomains_and_missing_everything_run(rng):
    seq = simulate_sessions(
        [300, 1, 40],
        transition=[[0.9, 0.1], [0.1, 0.9]],
        success_prob=rng.uniform(0.2, 0.9, (20, 2)),
        missing_outcomes=0.2,
        missing_labels=0.2,
        rng=rng,
    ).sequences
    short = SamplerSettings(warmup=100, draws=200, max_draws=200)
    got = sample(seq, HMMSpec(n_states=3), settings=short, rng=0)
    assert np.all(np.isfinite(got.run_draws(30)))


def test_prior_predictive_is_symmetric_and_falls():
    prior = prior_predictive(HMMSpec(n_states=3), 2, n=(1, 20), rng=0)
    assert prior.mean[0] == pytest.approx(0.5, abs=0.03)
    assert prior.mean[1] < prior.mean[0]
    assert "R(20)" in str(prior)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_states": 0}, "n_states"),
        ({"expected_dwell": 1.0}, "expected_dwell"),
        ({"initial": "stationary"}, "initial must be one of"),
        ({"mean_prior": (0.0, 1.0)}, "positive"),
        ({"transition_prior": ((1.0, 2.0), (1.0, 1.0))}, "no names"),
        ({"transition_prior": ((1.0,),)}, "2 x 2"),
    ],
)
def test_bad_specs_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        HMMSpec(**{"n_states": 2, **change})


def test_stated_dwell_makes_the_rows():
    lam = HMMSpec(n_states=3).transition_weights
    np.testing.assert_allclose(lam, [[18, 1, 1], [1, 18, 1], [1, 1, 18]])


def test_bad_data_and_weights_are_refused():
    empty = TaskSequences.from_sessions([], ["a"])
    with pytest.raises(ValueError, match="no task"):
        sample(empty, HMMSpec(n_states=2), rng=0)
    with pytest.raises(ValueError, match=r"sum to one; the sum is 0\.9"):
        sample(SMALL, HMMSpec(n_states=2), weights=[0.4, 0.5], rng=0)
