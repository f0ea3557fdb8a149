"""Kernels over finished draws: filters, runs of successes, predictive scores.

Each loops over draws in order and calls nothing in another file.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sojourn._numba import kernel

__all__: list[str] = []

Array = Any  # arrays inside kernels: the functions that call them have checked what they are


@kernel
def put(target: Array, source: Array) -> None:
    """Copy a row; a slice assignment would do, but takes seconds to compile for its error text."""
    for i in range(source.size):
        target[i] = source[i]


@kernel
def emissions(
    theta: Array, shares: Array, symbol_label: Array, symbol_outcome: Array, E: Array
) -> None:
    """Fill E[o, s] = P(outcome of symbol o | state s), as the sampler does."""
    for o in range(symbol_label.size):
        j, y = symbol_label[o], symbol_outcome[o]
        for s in range(theta.shape[1]):
            if y < 0:
                E[o, s] = 1.0
                continue
            p = 0.0
            if j >= 0:
                p = theta[j, s]
            else:
                for i in range(theta.shape[0]):
                    p += shares[i] * theta[i, s]
            E[o, s] = p if y == 1 else 1.0 - p


@kernel
def filter_step(x: Array, e: Array, A: Array, y: Array) -> float:
    """Turn x = P(Z_t | past) into P(Z_{t+1} | past, y_t); y gets P(Z_t | past, y_t); return c_t."""
    K = x.size
    c = 0.0
    for s in range(K):
        y[s] = x[s] * e[s]
        c += y[s]
    for s in range(K):
        y[s] /= c
    for k in range(K):
        x[k] = 0.0
        for s in range(K):
            x[k] += y[s] * A[s, k]
    return c


@kernel
def filter_all(
    o: Array,
    offsets: Array,
    symbol_label: Array,
    symbol_outcome: Array,
    shares: Array,
    theta: Array,
    A: Array,
    delta: Array,
    pi: Array,
    alpha: Array,
    gamma: Array,
    rho: Array,
) -> float:
    """Predictive, filtered and smoothed state probabilities; return log L."""
    K = delta.size
    E = np.empty((symbol_label.size, K))
    emissions(theta, shares, symbol_label, symbol_outcome, E)
    x = np.empty(K)
    y = np.empty(K)
    log_likelihood = 0.0
    for r in range(offsets.size - 1):
        put(x, delta)
        for t in range(offsets[r], offsets[r + 1]):
            put(pi[t], x)
            log_likelihood += math.log(filter_step(x, E[o[t]], A, y))
            put(alpha[t], y)
        put(rho[r], x)
        # beta_t = A E_{t+1} beta_{t+1}, rescaled freely
        x[:] = 1.0
        for t in range(offsets[r + 1] - 1, offsets[r] - 1, -1):
            total = 0.0
            for s in range(K):
                gamma[t, s] = alpha[t, s] * x[s]
                total += gamma[t, s]
            for s in range(K):
                gamma[t, s] /= total
            total = 0.0
            for s in range(K):
                y[s] = 0.0
                for k in range(K):
                    y[s] += A[s, k] * E[o[t], k] * x[k]
                total += y[s]
            for s in range(K):
                x[s] = y[s] / total
    return log_likelihood


@kernel
def smoothed_mean(
    o: Array,
    offsets: Array,
    symbol_label: Array,
    symbol_outcome: Array,
    shares: Array,
    theta: Array,
    A: Array,
    delta: Array,
    orders: Array,
    out: Array,
) -> None:
    """Average P(Z_t = s | y) over draws into out[t, s], states of draw d taken as orders[d]."""
    T, K = out.shape
    pi = np.empty((T, K))
    alpha = np.empty((T, K))
    gamma = np.empty((T, K))
    rho = np.empty((offsets.size - 1, K))
    out[:] = 0.0
    for d in range(delta.shape[0]):
        filter_all(
            o, offsets, symbol_label, symbol_outcome, shares,
            theta[d], A[d], delta[d], pi, alpha, gamma, rho,
        )  # fmt: skip
        for t in range(T):
            for s in range(K):
                out[t, s] += gamma[t, orders[d, s]] / delta.shape[0]


@kernel
def next_states(
    o: Array,
    offsets: Array,
    symbol_label: Array,
    symbol_outcome: Array,
    shares: Array,
    theta: Array,
    A: Array,
    delta: Array,
    out: Array,
) -> None:
    """Fill out[d] = P(state of the next task | the one session, draw d)."""
    K = delta.shape[1]
    E = np.empty((symbol_label.size, K))
    y = np.empty(K)
    for d in range(delta.shape[0]):
        emissions(theta[d], shares, symbol_label, symbol_outcome, E)
        put(out[d], delta[d])
        for t in range(offsets[0], offsets[1]):
            filter_step(out[d], E[o[t]], A[d], y)


@kernel
def score_streams(
    o: Array,
    first: Array,
    cut: Array,
    stop: Array,
    symbol_label: Array,
    symbol_outcome: Array,
    shares: Array,
    theta: Array,
    A: Array,
    delta: Array,
    peak: Array,
    total: Array,
    square: Array,
    final: Array,
) -> None:
    """Accumulate the test block's predictive terms over draws, without storing draws x tasks.

    For draw m let L_t be the log probability of the test outcomes up to the t-th, the filter having
    run through the training part. peak, total, square at t stream sum_m exp(L_t) and its squares
    as peak + log(total), 2 peak + log(square); final[m] is L at the end. Test task t follows its
    session's training part; sessions one after the other.
    """
    K = delta.shape[1]
    E = np.empty((symbol_label.size, K))
    x = np.empty(K)
    y = np.empty(K)
    B = np.empty((K, K))
    peak[:] = -np.inf
    total[:] = 0.0
    square[:] = 0.0
    for d in range(delta.shape[0]):
        emissions(theta[d], shares, symbol_label, symbol_outcome, E)
        for s in range(K):
            put(B[s], A[d, s])
        L = 0.0
        i = 0
        for r in range(first.size):
            if cut[r] == stop[r]:
                continue
            put(x, delta[d])
            for t in range(first[r], stop[r]):
                k = o[t]
                c = 0.0
                for s in range(K):
                    y[s] = x[s] * E[k, s]
                    c += y[s]
                scale = 1.0 / c
                for s in range(K):
                    x[s] = 0.0
                for j in range(K):
                    weight = y[j] * scale
                    for s in range(K):
                        x[s] += weight * B[j, s]
                if t < cut[r]:
                    continue
                L += math.log(c)
                if peak[i] < L:
                    shrink = math.exp(peak[i] - L)
                    total[i] = total[i] * shrink + 1.0
                    square[i] = square[i] * shrink * shrink + 1.0
                    peak[i] = L
                else:
                    grow = math.exp(L - peak[i])
                    total[i] += grow
                    square[i] += grow * grow
                i += 1
        final[d] = L


@kernel
def success_runs(A: Array, bar: Array, start: Array, out: Array) -> None:
    """Fill out[d, n - 1] = start' (D A)^(n - 1) D 1 with D = diag(bar[d])."""
    n_draws, n_max = out.shape
    K = bar.shape[1]
    x = np.empty(K)
    y = np.empty(K)
    for d in range(n_draws):
        put(x, start[d])
        for n in range(n_max):
            # x: P(state of the next task, all n before it succeeded)
            alive = 0.0
            for s in range(K):
                y[s] = x[s] * bar[d, s]
                alive += y[s]
            out[d, n] = alive
            for k in range(K):
                x[k] = 0.0
                for s in range(K):
                    x[k] += y[s] * A[d, s, k]


@kernel
def at_most_failures(A: Array, bar: Array, start: Array, r_max: int, out: Array) -> None:
    """Fill out[d, n - 1] = P(at most r_max failures in n tasks)."""
    n_draws, n_max = out.shape
    K = bar.shape[1]
    x = np.empty((r_max + 1, K))
    y = np.empty((r_max + 1, K))
    for d in range(n_draws):
        x[:] = 0.0
        put(x[0], start[d])
        for n in range(n_max):
            out[d, n] = 0.0
            for r in range(r_max + 1):
                for s in range(K):
                    y[r, s] = x[r, s] * bar[d, s]
                    if r > 0:
                        y[r, s] += x[r - 1, s] * (1.0 - bar[d, s])
                    out[d, n] += y[r, s]
            for r in range(r_max + 1):
                for k in range(K):
                    x[r, k] = 0.0
                    for s in range(K):
                        x[r, k] += y[r, s] * A[d, s, k]


@kernel
def stationary_laws(A: Array, out: Array) -> None:
    """Fill out[d] with the stationary law of A[d] (Grassmann-Taksar-Heyman: no subtraction)."""
    n_draws, K = out.shape
    B = np.empty((K, K))
    for d in range(n_draws):
        for i in range(K):
            put(B[i], A[d, i])
        for n in range(K - 1, 0, -1):
            leave = 0.0
            for k in range(n):
                leave += B[n, k]
            for i in range(n):
                B[i, n] /= leave
            for i in range(n):
                for k in range(n):
                    B[i, k] += B[i, n] * B[n, k]
        total = 1.0
        out[d, 0] = 1.0
        for n in range(1, K):
            out[d, n] = 0.0
            for i in range(n):
                out[d, n] += out[d, i] * B[i, n]
            total += out[d, n]
        for n in range(K):
            out[d, n] /= total
