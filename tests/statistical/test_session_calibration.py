"""Is the sampler calibrated? Joint-distribution tests of every conditional, and rank statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sojourn.session import _kernels as kernels
from sojourn.session import reliability
from sojourn.session.dependence import assess_dependence
from sojourn.session.hmm import HMMSpec, log_likelihood
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.simulate import sample_prior, simulate_sessions
from sojourn.task_sequences import TaskSequences

# Every symbol of two subdomains: (label, outcome), -1 missing.
LABEL = np.array([0, 0, 1, 1, -1, -1, -1])
OUTCOME = np.array([0, 1, 0, 1, -1, 0, 1])
SHARES = np.array([0.3, 0.7])


def summaries(theta, A, delta, hyper):
    """Label-invariant functions of the parameters, first and second moments."""
    bar = SHARES @ theta
    run = reliability.success_run(A, theta, delta, SHARES, 3)
    mu = 1 / (1 + np.exp(-hyper[0]))
    f = [mu, min(np.exp(hyper[1]), 50.0), bar.mean(), (bar**2).mean(), bar.max(), np.trace(A)]
    f += [np.abs(A).max(), delta.max(), run[0], run[2], theta[0].max() - theta[1].max()]
    return np.array(f + [v * v for v in f])


def simulate(theta, A, delta, lengths, rng):
    K = delta.size
    codes = []
    for n in lengths:
        z = rng.choice(K, p=delta)
        for _ in range(n):
            j = int(rng.random() < SHARES[1])
            y = int(rng.random() < theta[j, z])
            u = rng.random()
            codes.append(4 if u < 0.15 else 5 + y if u < 0.35 else 2 * j + y)
            z = rng.choice(K, p=A[z])
    return np.array(codes, np.uint16)


@pytest.mark.statistical
@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_sweep_and_forward_simulation_agree_on_the_joint_law(K):
    """Alternate a sweep given data with data given parameters: the prior must be what remains."""
    rng = np.random.default_rng(90 + K)
    spec = HMMSpec(
        n_states=K, initial="estimated", mean_prior=(2, 1), concentration_prior=(2, 1), row_weight=5
    )
    lengths = [4, 1, 5]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    n = 20_000
    prior = sample_prior(spec, 2, n, rng=rng)
    eta = spec.initial_weights
    forward = np.array(
        [
            summaries(
                prior.success_prob[i],
                prior.transition[i],
                prior.initial[i],
                (np.log(prior.mean[i] / (1 - prior.mean[i])), np.log(prior.concentration[i])),
            )
            for i in range(n)
        ]
    )
    theta, A, delta = (
        prior.success_prob[0].copy(),
        prior.transition[0].copy(),
        prior.initial[0].copy(),
    )
    hyper = np.array([np.log(prior.mean[0] / (1 - prior.mean[0])), np.log(prior.concentration[0])])
    out = (
        np.empty((1, 2, K)), np.empty((1, K, K)), np.empty((1, K)), np.empty((1, 2)),
        np.empty((1, K)), np.empty(1),
    )  # fmt: skip
    chain = np.empty_like(forward)
    for i in range(n):
        codes = simulate(theta, A, delta, lengths, rng)
        kernels.run_chain(
            rng, codes, offsets, LABEL, OUTCOME, SHARES, spec.transition_weights, eta,
            spec.hyper_prior, theta, A, delta, hyper, 1, *out,
        )  # fmt: skip
        chain[i] = summaries(theta, A, delta, hyper)
    batches = chain.reshape(100, -1, chain.shape[1]).mean(axis=1)
    error = np.sqrt(batches.var(axis=0, ddof=1) / 100 + forward.var(axis=0) / n)
    z = (batches.mean(axis=0) - forward.mean(axis=0)) / np.maximum(error, 1e-12)
    fixed = forward.std(axis=0) < 1e-9
    assert np.abs(z[~fixed]).max() < 4.2, np.round(z, 1)


def rank(draws, truth, rng, n_kept=99):
    flat = draws.reshape(-1)
    kept = flat[np.linspace(0, flat.size - 1, n_kept).astype(int)]
    # Prior and sampler keep theta 1e-12 off the ends, where many sit: equal but for rounding.
    tied = np.abs(kept - truth) <= 1e-9
    return int(((kept < truth) & ~tied).sum() + rng.integers(0, tied.sum() + 1))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("K", "initial", "lengths", "missing"),
    [
        (1, "uniform", [80], 0.0),
        (2, "uniform", [80], 0.0),
        (3, "uniform", [80], 0.0),
        (1, "estimated", [30, 1, 25, 24], 0.15),
        (2, "estimated", [30, 1, 25, 24], 0.15),
        (3, "estimated", [30, 1, 25, 24], 0.15),
    ],
)
def test_ranks_of_the_truth_are_uniform(K, initial, lengths, missing):
    rng = np.random.default_rng(1000 + K)
    spec = HMMSpec(n_states=K, initial=initial)
    settings = SamplerSettings(warmup=200, draws=1000, max_draws=1000, thin=2)
    n = 200
    prior = sample_prior(spec, 2, n, rng=rng)
    ranks = {name: [] for name in ("R(1)", "R(20)", "long run", "fresh", "log likelihood")}
    for i in range(n):
        truth = {
            "transition": prior.transition[i],
            "success_prob": prior.success_prob[i],
            "initial": prior.initial[i],
        }
        seq = simulate_sessions(
            lengths,
            weights=SHARES,
            missing_outcomes=missing,
            missing_labels=missing,
            rng=rng,
            **truth,
        ).sequences
        fit = sample(seq, spec, weights=SHARES, label_shares=SHARES, settings=settings, rng=rng)
        from sojourn.session.hmm import filter_states

        known = filter_states(seq, label_shares=SHARES, **truth)
        run = reliability.success_run(
            prior.transition[i], prior.success_prob[i], known.next_state[-1], SHARES, 20
        )
        draws = fit.run_draws(20)
        ranks["R(1)"].append(rank(draws[..., 0], run[0], rng))
        ranks["R(20)"].append(rank(draws[..., 19], run[19], rng))
        long_run = reliability.long_run_rate(prior.transition[i], prior.success_prob[i], SHARES)
        ranks["long run"].append(
            rank(fit.run_draws(1, start="long_run")[..., 0], float(long_run), rng)
        )
        fresh = float(prior.initial[i] @ (SHARES @ prior.success_prob[i]))
        ranks["fresh"].append(rank(fit.run_draws(1, start="fresh")[..., 0], fresh, rng))
        ranks["log likelihood"].append(
            rank(fit.log_likelihood, log_likelihood(seq, label_shares=SHARES, **truth), rng)
        )
    for name, values in ranks.items():
        counts = np.bincount(np.array(values) // 10, minlength=10)
        assert stats.chisquare(counts).pvalue > 1e-3, (name, counts)


@pytest.mark.statistical
def test_dependence_tests_have_their_nominal_size():
    rng = np.random.default_rng(5)
    n = 400
    p = np.array([0.9, 0.6])
    strata, margins = [], []
    for _ in range(n):
        labels = rng.integers(0, 2, 150)
        y = (rng.random(150) < p[labels]).astype(int)
        seq = TaskSequences.from_sessions(
            [(labels[:70], y[:70]), (labels[70:], y[70:])], ["a", "b"]
        )
        got = assess_dependence(seq, n_draws=199, rng=rng)
        strata.append((got.p_order, got.p_beyond_trend, got.p_session_effect))
        R, C = 8, 25
        hard = np.repeat([0.85, 0.35, 0.85, 0.35, 0.85], 5)
        skill = rng.uniform(-0.14, 0.14, (R, 1))
        y = (rng.random((R, C)) < hard + skill).astype(np.int8)
        shared = TaskSequences(
            subdomain=np.zeros(R * C),
            success=y.ravel(),
            offsets=np.arange(R + 1) * C,
            subdomain_names=("a",),
            item=np.tile(np.arange(C), R),
        )
        got = assess_dependence(shared, n_draws=199, rng=rng)
        margins.append((got.p_order, got.p_beyond_trend))
    limit = 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
    for name, p_values in (("strata", strata), ("margins", margins)):
        rates = np.mean(np.array(p_values) <= 0.05, axis=0)
        assert np.all(rates <= limit), (name, rates)
        assert np.all(rates >= 0.05 - 3 * np.sqrt(0.05 * 0.95 / n)), (name, rates)
