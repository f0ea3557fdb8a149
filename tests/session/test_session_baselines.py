"""The independent models against direct quadrature, simulation and hand-made numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln

from sojourn.session.beta_binomial import fit_beta_binomial
from sojourn.session.hierarchical import (
    PriorBox,
    envelope,
    fit_hierarchical,
    mix_cdf,
    moments_of_mix,
)
from sojourn.task_sequences import TaskSequences


def tasks(success, total):
    labels = np.repeat(np.arange(len(total)), total)
    outcomes = np.concatenate(
        [np.r_[np.ones(s), np.zeros(n - s)] for s, n in zip(success, total, strict=True)]
    )
    return TaskSequences.from_sessions([(labels, outcomes)], [f"s{j}" for j in range(len(total))])


def test_evidence_and_mean_equal_gauss_quadrature():
    seq, (a, b, c, d) = tasks([4, 9], [6, 10]), (2.0, 1.5, 3.0, 0.5)
    fit = fit_hierarchical(seq, prior=(a, b, c, d), weights=[0.3, 0.7])
    x, wx = np.polynomial.legendre.leggauss(160)
    mu, w_mu = 0.5 * (x + 1), 0.5 * wx
    nu, w_nu = 40 * (x + 1), 40 * wx  # beyond 80 the prior holds e^-40
    mu, nu = mu[:, None], nu[None, :]
    p, q = mu * nu, (1 - mu) * nu
    like = np.exp(betaln(p + 4, q + 2) + betaln(p + 9, q + 1) - 2 * betaln(p, q))
    like *= stats.beta.pdf(mu, a, b) * stats.gamma.pdf(nu, c, scale=1 / d)
    evidence = w_mu @ like @ w_nu
    mean = w_mu @ (like * (0.3 * (p + 4) / (nu + 6) + 0.7 * (p + 9) / (nu + 10))) @ w_nu
    assert fit.log_evidence == pytest.approx(np.log(evidence), abs=1e-7)
    assert fit.run_means(1)[0] == pytest.approx(mean / evidence, abs=1e-8)


def test_run_means_agree_with_draws():
    fit = fit_hierarchical(tasks([38, 39, 5], [80, 80, 5]), weights=[0.2, 0.7, 0.1])
    p = fit.rate_draws(100_000, rng=1)
    for n in (1, 5):
        error = (p**n).std() / np.sqrt(p.size)
        assert abs(fit.run_means(5)[n - 1] - (p**n).mean()) < 4 * error
    assert fit.success_prob @ fit.weights == pytest.approx(fit.run_means(1)[0], rel=1e-12)


def test_log_score_is_the_ratio_of_evidences():
    train, whole = tasks([7, 3], [9, 4]), tasks([9, 8], [12, 11])
    fit = fit_hierarchical(train, n_points=160)
    labels, outcomes = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1, 1, 1, 0, 0]
    labels, outcomes = np.array(labels), np.array(outcomes)
    total, pointwise = fit.log_score(labels, outcomes)
    both = TaskSequences.from_sessions(
        [(np.r_[train.subdomain, labels], np.r_[train.success, outcomes])], ["s0", "s1"]
    )
    np.testing.assert_array_equal(both.counts().success, whole.counts().success)
    expected = fit_hierarchical(both, n_points=160).log_evidence - fit.log_evidence
    assert total == pytest.approx(expected, abs=1e-8)
    assert pointwise.sum() == pytest.approx(total, rel=1e-12)
    order = np.random.default_rng(0).permutation(10)
    shuffled, _ = fit.log_score(labels[order], outcomes[order])
    assert shuffled == pytest.approx(total, rel=1e-10)


def test_moments_of_a_mix_against_closed_forms():
    a, b = np.array([[2.0], [3.0]]), np.array([[1.0], [4.0]])
    got = moments_of_mix(a, b, np.array([0.25, 0.75]), 3)[0]
    m = [[stats.beta.moment(k, x, y) for k in (1, 2, 3)] for x, y in ((2, 1), (3, 4))]
    u, v = 0.25, 0.75
    second = u * u * m[0][1] + 2 * u * v * m[0][0] * m[1][0] + v * v * m[1][1]
    third = u**3 * m[0][2] + 3 * u * u * v * m[0][1] * m[1][0]
    third += 3 * u * v * v * m[0][0] * m[1][1] + v**3 * m[1][2]
    np.testing.assert_allclose(got, [u * m[0][0] + v * m[1][0], second, third], rtol=1e-12)


def test_distribution_of_a_mix_against_quadrature():
    a, b, w = np.array([[12.0], [30.0]]), np.array([[5.0], [9.0]]), np.array([0.3, 0.7])
    for at in (0.6, 0.75, 0.85):
        exact, _ = integrate.quad(
            lambda x, at=at: stats.beta.pdf(x, 12, 5) * stats.beta.cdf((at - 0.3 * x) / 0.7, 30, 9),
            0,
            1,
        )
        assert mix_cdf(a, b, w, at)[0] == pytest.approx(exact, abs=1e-4)
        fine = mix_cdf(a, b, w, at, n_lattice=4096)[0]
        assert fine == pytest.approx(exact, abs=2e-6)
    one = mix_cdf(a, b, np.array([0.0, 1.0]), 0.7)[0]
    assert one == pytest.approx(stats.beta.cdf(0.7, 30, 9), rel=1e-12)


def test_envelope_holds_every_prior_of_the_box_and_is_attained(rng):
    seq, box = tasks([38, 39], [80, 80]), PriorBox()
    for options in ({"n": 1}, {"n": 20}, {"threshold": 0.48, "n_points": 24}):
        got = envelope(seq, box=box, weights=[0.2, 0.8], **options)
        for _ in range(12):
            h = tuple(rng.uniform(low, high) for low, high in box.bounds)
            fit = fit_hierarchical(seq, prior=h, weights=[0.2, 0.8], n_points=40)
            if "threshold" in options:
                cells = mix_cdf(
                    fit.alpha + fit.success[:, None],
                    fit.beta + fit.failure[:, None],
                    fit.weights,
                    0.48,
                )
                value = cells @ fit.cell_weight
            else:
                value = fit.run_means(options["n"])[-1]
            slack = 5e-3 * abs(value)
            assert got.low - slack <= value <= got.high + slack
        if "threshold" not in options:
            at = fit_hierarchical(seq, prior=tuple(got.high_prior), weights=[0.2, 0.8])
            assert at.run_means(options["n"])[-1] == pytest.approx(got.high, rel=1e-4)


def test_envelope_of_one_prior_is_a_point():
    box = PriorBox(a=(2, 2), b=(2, 2), c=(3, 3), d=(1, 1))
    got = envelope(tasks([3], [5]), box=box)
    exact = fit_hierarchical(tasks([3], [5]), prior=(2, 2, 3, 1)).run_means(1)[0]
    assert got.low == pytest.approx(got.high, rel=1e-12)
    assert got.low == pytest.approx(exact, abs=1e-8)


def test_public_counts_give_the_published_medians_and_wider_envelopes():
    """Four accuracies on 80 tasks each; the rebuild's medians come from 160 random priors."""
    coding, reasoning = tasks([38, 39], [80, 80]), tasks([73, 74], [80, 80])
    low = high = 0.0
    for seq, omega, w in (
        (coding, [0.204, 0.796], 0.149),
        (reasoning, [0.483, 0.517], 0.851),
    ):
        got = envelope(seq, weights=omega, n_points=48)
        low, high = low + w * got.low, high + w * got.high
    assert low < 0.830
    assert high > 0.856
    assert 0.80 < low < high < 0.89


@pytest.mark.parametrize("won", [0, 80])
def test_all_or_nothing_counts_stay_inside(won):
    fit = fit_hierarchical(tasks([won, won], [80, 80]))
    means = fit.run_means(20)
    assert np.all((means > 0.0) & (means < 1.0))
    assert (means[0] > 0.98) if won else (means[0] < 0.02)
    curve = fit.success_run(20)
    assert np.all(curve.low <= curve.high)


def test_beta_binomial_closed_forms():
    train, test = tasks([7, 3], [9, 4]), tasks([2, 5], [3, 7])
    fit = fit_beta_binomial(train, weights=[0.5, 0.5])
    np.testing.assert_allclose(fit.success_prob, [8 / 11, 4 / 6])
    expected = betaln(10, 4) - betaln(8, 3) + betaln(9, 4) - betaln(4, 2)
    assert fit.log_score(test) == pytest.approx(expected, rel=1e-12)
    p = fit.run_draws(3)[0]
    exact = fit.run_means(3)
    assert np.all(np.abs(p.mean(axis=0) - exact) < 4 * p.std(axis=0) / np.sqrt(p.shape[0]))
    informed = fit_beta_binomial(train, prior=[[8, 2], [1, 9]])
    np.testing.assert_allclose(informed.success_prob, [15 / 19, 4 / 14])
    with pytest.raises(ValueError, match="positive"):
        fit_beta_binomial(train, prior=(0.0, 1.0))


def test_published_widths_of_the_independent_models():
    """About 2,160 tasks at .8965: the published widths are .0244 to .0257 over four rows."""
    seq = tasks([1936], [2160])
    width = fit_hierarchical(seq).next_task()
    assert 0.0240 < width.high - width.low < 0.0262
