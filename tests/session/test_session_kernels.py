"""The sampler's kernels against enumeration, against each other, and against hmmlearn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

from oracles import hmm as oracle
from sojourn.session import _kernels as kernels
from sojourn.session import hmm
from sojourn.task_sequences import TaskSequences


def random_model(rng, J, K):
    theta = rng.uniform(0.05, 0.95, (J, K))
    return theta, rng.dirichlet(np.ones(K), K), rng.dirichlet(np.ones(K))


def sessions(rng, lengths, J, missing=0.0):
    pairs = []
    for n in lengths:
        j, y = rng.integers(0, J, n), rng.integers(0, 2, n)
        y[rng.random(n) < missing] = -1
        j[rng.random(n) < missing] = -1
        pairs.append((j, y))
    return TaskSequences.from_sessions(pairs, [f"s{j}" for j in range(J)])


def tables(seq, theta, A, paired):
    symbols = hmm.encode(seq)
    S, K = symbols.label.size, A.shape[0]
    E, M = np.empty((S, K)), np.empty((S, K, K))
    P = np.empty((S * S if paired else 0, K, K))
    kernels.emission_table(theta, seq.shares, symbols.label, symbols.outcome, E)
    kernels.step_tables(A, E, M, P)
    return symbols, E, M, P


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("paired", [False, True])
def test_filter_equals_the_sum_over_all_paths(rng, K, paired):
    seq = sessions(rng, [5, 0, 1, 4], 2, missing=0.2)
    theta, A, delta = random_model(rng, 2, K)
    symbols, E, M, P = tables(seq, theta, A, paired)
    alpha = np.empty((K, seq.n_tasks))
    got = kernels.forward(symbols.code, seq.offsets, delta, E, M, P, alpha)
    expected = 0.0
    for r in range(seq.n_sessions):
        part = slice(seq.offsets[r], seq.offsets[r + 1])
        if part.start == part.stop:
            continue
        j, y = seq.subdomain[part], seq.success[part]
        paths, weights = oracle.paths_of(j, y, theta, A, delta, seq.shares)
        expected += np.log(weights.sum())
        last = np.bincount([p[-1] for p in paths], weights, K)
        column = alpha[:, part.stop - 1]
        np.testing.assert_allclose(column / column.sum(), last / last.sum(), rtol=1e-12)
    assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_scaled_and_log_filters_agree_on_a_long_hard_sequence(rng, K):
    seq = sessions(rng, [3000, 700], 2)
    theta, A, delta = random_model(rng, 2, K)
    theta[0] = 1e-9  # half the successes are nearly impossible: the likelihood is about 1e-7000
    expected, logs = 0.0, []
    for r in range(2):
        part = slice(seq.offsets[r], seq.offsets[r + 1])
        log_l, rows = oracle.log_filter(seq.subdomain[part], seq.success[part], theta, A, delta)
        expected += log_l
        logs.append(rows)
    log_alpha = np.concatenate(logs)
    for paired in (False, True):
        symbols, E, M, P = tables(seq, theta, A, paired)
        alpha = np.empty((K, seq.n_tasks))
        got = kernels.forward(symbols.code, seq.offsets, delta, E, M, P, alpha)
        assert got == pytest.approx(expected, rel=1e-11)
        p = np.exp(log_alpha - log_alpha.max(axis=1, keepdims=True))
        np.testing.assert_allclose(
            (alpha / alpha.sum(axis=0)).T, p / p.sum(axis=1, keepdims=True), atol=1e-9
        )
    whole = hmm.filter_states(seq, transition=A, success_prob=theta, initial=delta)
    assert whole.log_likelihood == pytest.approx(expected, rel=1e-11)


def test_smoothed_states_equal_enumeration(rng):
    K = 3
    seq = sessions(rng, [6], 2, missing=0.2)
    theta, A, delta = random_model(rng, 2, K)
    got = hmm.filter_states(seq, transition=A, success_prob=theta, initial=delta)
    paths, weights = oracle.paths_of(seq.subdomain, seq.success, theta, A, delta, seq.shares)
    for t in range(6):
        expected = np.bincount([p[t] for p in paths], weights, K) / weights.sum()
        np.testing.assert_allclose(got.smoothed[t], expected, rtol=1e-12)
    last = np.bincount([p[-1] for p in paths], weights, K) / weights.sum()
    np.testing.assert_allclose(got.next_state[0], last @ A, rtol=1e-12)


def test_filter_and_smoother_agree_with_hmmlearn(rng):
    from hmmlearn.hmm import CategoricalHMM

    K, T = 3, 400
    seq = sessions(rng, [T, 150], 1)
    theta, A, delta = random_model(rng, 1, K)
    peer = CategoricalHMM(n_components=K, implementation="log")
    peer.startprob_, peer.transmat_ = delta, A
    peer.emissionprob_ = np.column_stack([1 - theta[0], theta[0]])
    log_l, smoothed = peer.score_samples(seq.success.reshape(-1, 1).astype(int), [T, 150])
    got = hmm.filter_states(seq, transition=A, success_prob=theta, initial=delta)
    assert got.log_likelihood == pytest.approx(log_l, rel=1e-12)
    np.testing.assert_allclose(got.smoothed, smoothed, atol=1e-10)


def draw_paths(seq, theta, A, delta, n, rng):
    symbols, E, M, P = tables(seq, theta, A, True)
    K, T, S = A.shape[0], seq.n_tasks, symbols.label.size
    alpha, maps = np.empty((K, T)), np.empty(T, np.uint8)
    z, lanes = np.zeros(T, np.uint16), np.empty((4, S * 16), np.int64)
    counts, moves = np.empty((S, K), np.int64), np.empty((K, K), np.int64)
    starts = np.empty(K, np.int64)
    kernels.forward(symbols.code, seq.offsets, delta, E, M, P, alpha)
    out = []
    for _ in range(n):
        kernels.draw_states(
            symbols.code, seq.offsets, alpha, A, np.uint64(kernels.new_key(rng)), maps, z, lanes,
            counts, moves, starts,
        )  # fmt: skip
        out.append((z.copy(), counts.copy(), moves.copy(), starts.copy()))
    return symbols, out


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_sampled_paths_have_the_exact_posterior_frequencies(rng, K):
    T, n = 4, 40_000
    seq = sessions(rng, [T], 2)
    theta, A, delta = random_model(rng, 2, K)
    paths, weights = oracle.paths_of(seq.subdomain, seq.success, theta, A, delta)
    _, drawn = draw_paths(seq, theta, A, delta, n, rng)
    index = {p: i for i, p in enumerate(paths)}
    observed = np.bincount([index[tuple(z.tolist())] for z, *_ in drawn], minlength=len(paths))
    expected = n * weights / weights.sum()
    keep = expected >= 5.0
    observed = np.append(observed[keep], observed[~keep].sum())
    expected = np.append(expected[keep], expected[~keep].sum())
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    assert stats.chi2.sf(statistic, observed.size - 1) > 1e-4


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_counts_are_those_of_the_path(rng, K):
    seq = sessions(rng, [37, 1, 0, 6, 90], 2, missing=0.1)
    theta, A, delta = random_model(rng, 2, K)
    symbols, drawn = draw_paths(seq, theta, A, delta, 3, rng)
    for z, counts, moves, starts in drawn:
        by_symbol, pairs, first = np.zeros_like(counts), np.zeros_like(moves), np.zeros_like(starts)
        np.add.at(by_symbol, (symbols.code, z), 1)
        for r in range(seq.n_sessions):
            part = z[seq.offsets[r] : seq.offsets[r + 1]]
            for s, k in itertools.pairwise(part.tolist()):
                pairs[s, k] += 1
            if part.size:
                first[part[0]] += 1
        np.testing.assert_array_equal(counts, by_symbol)
        np.testing.assert_array_equal(moves, pairs)
        np.testing.assert_array_equal(starts, first)


def test_uniforms_are_uniform_and_the_two_ways_to_make_them_agree(rng):
    key = np.uint64(kernels.new_key(rng))
    block = np.empty(50_000)
    kernels.fill_uniforms(key, 100, block)
    assert stats.kstest(block, "uniform").pvalue > 1e-4
    lag = np.corrcoef(block[:-1], block[1:])[0, 1]
    assert abs(lag) < 4 / np.sqrt(block.size)
    for i in (0, 1, 777):
        assert kernels.uniform(key, np.uint64(100 + i)) == block[i]


def test_log_gamma_is_accurate():
    x = np.concatenate([np.geomspace(1e-8, 12, 200), np.geomspace(12, 1e8, 200)])
    got = np.array([kernels.log_gamma(v) for v in x])
    np.testing.assert_allclose(got, gammaln(x), rtol=1e-13, atol=1e-12)


def test_hyper_density_equals_the_formula(rng):
    won, lost = rng.integers(0, 40, (2, 3)).astype(float), rng.integers(0, 9, (2, 3)).astype(float)
    won[0, 0] = lost[0, 0] = 0.0
    prior = np.array([1.5, 2.0, 1.2, 0.7])

    def exact(x, y):
        mu, nu = 1 / (1 + np.exp(-x)), np.exp(y)
        a, b = mu * nu, (1 - mu) * nu
        total = (betaln(a + won, b + lost) - betaln(a, b)).sum()
        return (
            total
            + stats.beta.logpdf(mu, 1.5, 2.0)
            + stats.gamma.logpdf(nu, 1.2, scale=1 / 0.7)
            + (np.log(mu * (1 - mu)) + np.log(nu))
        )

    points = [(0.3, 1.0), (-2.0, -1.5), (3.0, 2.5)]
    got = np.array([kernels.hyper_log_density(x, y, won, lost, prior) for x, y in points])
    want = np.array([exact(x, y) for x, y in points])
    np.testing.assert_allclose(np.diff(got), np.diff(want), rtol=1e-9)


def test_slice_update_leaves_its_target_alone(rng):
    won, lost = np.array([[9.0, 1.0]]), np.array([[2.0, 3.0]])
    prior = np.array([1.0, 1.0, 1.0, 1.0])
    hyper, draws = np.zeros(2), np.empty((20_000, 2))
    for i in range(draws.shape[0]):
        kernels.draw_hyper(rng, hyper, won, lost, prior)
        draws[i] = hyper
    x, y = np.linspace(-12, 12, 400), np.linspace(-12, 5, 400)
    grid = np.array([[kernels.hyper_log_density(a, b, won, lost, prior) for b in y] for a in x])
    w = np.exp(grid - grid.max())
    w /= w.sum()
    for column, nodes, axis in ((0, x, 1), (1, y, 0)):
        mean = w.sum(axis=axis) @ nodes
        batches = draws[:, column].reshape(100, -1).mean(axis=1)
        assert abs(batches.mean() - mean) < 4 * batches.std() / 10
        second = w.sum(axis=axis) @ nodes**2
        batches = (draws[:, column] ** 2).reshape(100, -1).mean(axis=1)
        assert abs(batches.mean() - second) < 4 * batches.std() / 10


@pytest.mark.parametrize(("a", "b"), [(0.002, 0.004), (0.6, 0.3), (30.0, 4.0)])
def test_success_draws_follow_the_beta_law_without_reaching_the_ends(rng, a, b):
    nu = a + b
    hyper = np.array([np.log(a / b), np.log(nu)])
    theta = np.empty((1, 20_000))
    zero = np.zeros_like(theta)
    kernels.draw_success(rng, hyper, zero, zero, theta)
    assert 0.0 < theta.min() < theta.max() < 1.0
    sd = np.sqrt(a * b / (nu**2 * (nu + 1)) / theta.size)
    assert abs(theta.mean() - a / nu) < 4 * sd
    inner = (theta > 1e-9) & (theta < 1 - 1e-9)
    expected = np.diff(stats.beta.cdf([1e-9, 1 - 1e-9], a, b))[0]
    assert abs(inner.mean() - expected) < 4 * np.sqrt(0.25 / theta.size)


def test_row_draws_have_dirichlet_moments(rng):
    lam = np.full((3, 3), 0.05) + np.diag([2.0, 2.0, 2.0])
    counts = np.array([[5, 1, 0], [0, 0, 0], [2, 8, 3]])
    A = np.empty((3, 3))
    draws = np.empty((20_000, 3, 3))
    for i in range(draws.shape[0]):
        kernels.draw_rows(rng, lam, counts, A)
        draws[i] = A
    w = lam + counts
    mean = w / w.sum(axis=1, keepdims=True)
    var = mean * (1 - mean) / (w.sum(axis=1, keepdims=True) + 1)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-12)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(var / draws.shape[0]))


def test_missing_labels_are_drawn_by_bayes_rule(rng):
    theta = np.array([[0.9], [0.3]])
    shares = np.array([0.25, 0.75])
    label, outcome = np.array([-1, -1, 0]), np.array([1, 0, 1])
    counts = np.array([[20_000], [10_000], [7]])
    won, lost = np.empty((2, 1)), np.empty((2, 1))
    kernels.draw_labels(rng, theta, shares, label, outcome, counts, won, lost)
    p = 0.25 * 0.9 / (0.25 * 0.9 + 0.75 * 0.3)
    q = 0.25 * 0.1 / (0.25 * 0.1 + 0.75 * 0.7)
    assert abs(won[0, 0] - 7 - 20_000 * p) < 4 * np.sqrt(20_000 * p * (1 - p))
    assert abs(lost[0, 0] - 10_000 * q) < 4 * np.sqrt(10_000 * q * (1 - q))
    assert won.sum() == 20_007
    assert lost.sum() == 10_000


def test_permuting_states_changes_no_likelihood(rng):
    seq = sessions(rng, [60], 2)
    theta, A, delta = random_model(rng, 2, 4)
    before = hmm.log_likelihood(seq, transition=A, success_prob=theta, initial=delta)
    bar = np.sort(theta[0])
    seen = set()
    for _ in range(40):
        kernels.permute_states(rng, theta, A, delta)
        after = hmm.log_likelihood(seq, transition=A, success_prob=theta, initial=delta)
        assert after == pytest.approx(before, rel=1e-12)
        seen.add(tuple(np.argsort(theta[0])))
    np.testing.assert_array_equal(np.sort(theta[0]), bar)
    assert len(seen) > 10
