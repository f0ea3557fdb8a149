"""Slow and obvious versions of the session mathematics: every path, label and grid cell."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import betaln, gammaln, logsumexp


def emission(theta, label, outcome, shares):
    """P(outcome | state) of one task, shape (K,); -1 is missing."""
    theta = np.asarray(theta, dtype=float)
    if outcome < 0:
        return np.ones(theta.shape[1])
    p = theta[label] if label >= 0 else np.asarray(shares) @ theta
    return p if outcome == 1 else 1.0 - p


def paths_of(labels, outcomes, theta, A, delta, shares=None):
    """All state paths of one session with their joint probability with the outcomes."""
    K = len(delta)
    E = [emission(theta, j, y, shares) for j, y in zip(labels, outcomes, strict=True)]
    paths = list(itertools.product(range(K), repeat=len(labels)))
    weights = []
    for path in paths:
        p = delta[path[0]] * E[0][path[0]]
        for t in range(1, len(path)):
            p *= A[path[t - 1]][path[t]] * E[t][path[t]]
        weights.append(p)
    return paths, np.array(weights)


def log_filter(labels, outcomes, theta, A, delta, shares=None):
    """Log-space forward filter of one session: log likelihood, log alpha of shape (T, K)."""
    with np.errstate(divide="ignore"):
        log_A, x = np.log(A), np.log(delta)
        rows = []
        for t, (j, y) in enumerate(zip(labels, outcomes, strict=True)):
            if t:
                x = logsumexp(rows[-1][:, None] + log_A, axis=0)
            rows.append(x + np.log(emission(theta, j, y, shares)))
    return float(logsumexp(rows[-1])), np.array(rows)


def hyper_grid(prior, n=60, span=12.0):
    """Trapezoid grid over (logit mu, log nu) with its normalised prior weights."""
    a, b, c, d = prior
    x = np.linspace(-span, span, n)
    y = np.linspace(-span, np.log(60.0 / d + 60.0), n)
    X, Y = np.meshgrid(x, y, indexing="ij")
    mu, nu = 1 / (1 + np.exp(-X)), np.exp(Y)
    log_w = a * np.log(mu) - b * np.logaddexp(0, X) + c * Y - d * nu
    log_w += -betaln(a, b) + c * np.log(d) - gammaln(c) + np.log((x[1] - x[0]) * (y[1] - y[0]))
    return mu.ravel(), nu.ravel(), log_w.ravel()


def enumerated_posterior(labels, outcomes, K, lam, prior, omega, n=60):
    """Exact log evidence and E[R(1)] of one short session, summing over all K^T paths.

    Given a path, transition rows integrate to Dirichlet-multinomials and thetas to beta-binomials;
    (mu, nu) is on a grid. delta is uniform.
    """
    J, T = len(omega), len(labels)
    mu, nu, log_prior = hyper_grid(prior, n)
    a, b = mu * nu, (1 - mu) * nu
    lam = np.asarray(lam, dtype=float)
    logs, values = [], []
    cache: dict[tuple, tuple] = {}
    for path in itertools.product(range(K), repeat=T):
        N = np.zeros((K, K))
        for s, k in itertools.pairwise(path):
            N[s, k] += 1
        S, F = np.zeros((J, K)), np.zeros((J, K))
        for j, y, s in zip(labels, outcomes, path, strict=True):
            (S if y else F)[j, s] += 1
        log_p = -np.log(K)
        for s in range(K):
            log_p += gammaln(lam[s].sum()) - gammaln(lam[s].sum() + N[s].sum())
            log_p += (gammaln(lam[s] + N[s]) - gammaln(lam[s])).sum()
        key = (S.tobytes(), F.tobytes())
        if key not in cache:
            log_g = log_prior.copy()
            for j in range(J):
                for s in range(K):
                    log_g += betaln(a + S[j, s], b + F[j, s]) - betaln(a, b)
            top = logsumexp(log_g)
            w = np.exp(log_g - top)
            bar = np.zeros(K)
            for j in range(J):
                for s in range(K):
                    bar[s] += omega[j] * (w * (a + S[j, s]) / (nu + S[j, s] + F[j, s])).sum()
            cache[key] = (top, bar)
        top, bar = cache[key]
        last = path[-1]
        row = (lam[last] + N[last]) / (lam[last].sum() + N[last].sum())
        logs.append(log_p + top)
        values.append(row @ bar)
    log_evidence = float(logsumexp(logs))
    return log_evidence, float(np.exp(np.array(logs) - log_evidence) @ np.array(values))


def success_run(n, rho, A, theta, omega):
    """R(n) by summing over every state path and every sequence of labels."""
    K, J = len(rho), len(omega)
    total = 0.0
    for path in itertools.product(range(K), repeat=n):
        p = rho[path[0]]
        for s, k in itertools.pairwise(path):
            p *= A[s][k]
        for labels in itertools.product(range(J), repeat=n):
            total += p * np.prod(
                [omega[j] * theta[j][s] for j, s in zip(labels, path, strict=True)]
            )
    return float(total)
