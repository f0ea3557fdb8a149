"""Gibbs sampling of the session hidden Markov model, one kernel a conditional.

Symbols: each task carries one number o that stands for (subdomain, outcome), missing ones
included, so that one table E[o, s] holds its probability in state s and M[o] = A diag(E[o]) is one
whole step of the filter. The letters are those of the model: A transition rows, theta success
probabilities, delta initial distribution, (mu, nu) mean and concentration of the thetas.

Why it is fast: K is written out for 2, 3 and 4; the filter is rescaled only when its
total is small, looked at every 16 tasks (a probability is at least 1e-12, so nothing underflows);
where two-step products M[o] M[o'] are cheap, the filter's chain of dependencies is half as long;
and backward sampling has two phases. The first computes for every t, without dependence over t,
the map from the next state to this one that the uniform u_t implies, two bits a state; the second
only follows the maps. The u_t come from a counter (SplitMix64 of key + t), one fresh key a sweep.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sojourn._numba import kernel

__all__: list[str] = []

Array = Any  # arrays inside kernels: the functions that call them have checked what they are


@kernel
def uniform(key: Any, t: Any) -> float:
    """Return the t-th uniform number of the stream `key`, both uint64 (SplitMix64)."""
    x = key + (t + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.int64(x >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def fill_uniforms(key: Any, base: int, out: Array) -> None:
    """Fill out[i] = uniform(key, base + i)."""
    x = key + np.uint64(base) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(out.size):
        x += np.uint64(0x9E3779B97F4A7C15)
        y = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        y = (y ^ (y >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        y = y ^ (y >> np.uint64(31))
        out[i] = np.int64(y >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def new_key(rng: Any) -> Any:
    """Draw the key of a stream of uniforms."""
    return np.uint64(rng.random() * 9007199254740992.0) << np.uint64(11)


@kernel
def put(target: Array, source: Array) -> None:
    """Copy a row; a slice assignment would do, but takes seconds to compile for its error text."""
    for i in range(source.size):
        target[i] = source[i]


@kernel
def emission_table(
    theta: Array, shares: Array, symbol_label: Array, symbol_outcome: Array, E: Array
) -> None:
    """Fill E[o, s] = P(outcome of symbol o | state s).

    A missing outcome has probability one; a missing label averages theta over the shares.
    """
    J, K = theta.shape
    for o in range(symbol_label.size):
        j, y = symbol_label[o], symbol_outcome[o]
        for s in range(K):
            if y < 0:
                E[o, s] = 1.0
                continue
            p = 0.0
            if j >= 0:
                p = theta[j, s]
            else:
                for i in range(J):
                    p += shares[i] * theta[i, s]
            E[o, s] = p if y == 1 else 1.0 - p


@kernel
def step_tables(A: Array, E: Array, M: Array, P: Array) -> None:
    """Fill M[o] = A diag(E[o]) and, where P has room, P[o * S + o'] = M[o] M[o']."""
    S, K = E.shape
    for o in range(S):
        for i in range(K):
            for k in range(K):
                M[o, i, k] = A[i, k] * E[o, k]
    if P.shape[0] < S * S:
        return
    for o in range(S):
        for q in range(S):
            for i in range(K):
                for k in range(K):
                    total = 0.0
                    for h in range(K):
                        total += M[o, i, h] * M[q, h, k]
                    P[o * S + q, i, k] = total


@kernel
def forward_any(o: Array, offsets: Array, delta: Array, E: Array, M: Array, alpha: Array) -> float:
    """Filter forward for any K: fill alpha[s, t] up to a factor that depends on t, return log L."""
    K = delta.size
    x = np.empty(K)
    y = np.empty(K)
    log_likelihood = 0.0
    for r in range(offsets.size - 1):
        for t in range(offsets[r], offsets[r + 1]):
            k = o[t]
            total = 0.0
            for s in range(K):
                if t == offsets[r]:
                    y[s] = delta[s] * E[k, s]
                else:
                    y[s] = 0.0
                    for i in range(K):
                        y[s] += x[i] * M[k, i, s]
                total += y[s]
            log_likelihood += math.log(total)
            for s in range(K):
                x[s] = y[s] / total
                alpha[s, t] = x[s]
    return log_likelihood


@kernel
def forward2(
    o: Array, offsets: Array, delta: Array, E: Array, M: Array, P: Array, alpha: Array
) -> float:
    """Filter forward for K = 2; with P filled, two tasks at a time."""
    S = np.uint64(E.shape[0])
    paired = P.shape[0] == E.shape[0] * E.shape[0]
    a0, a1 = alpha[0], alpha[1]
    log_likelihood = 0.0
    for r in range(offsets.size - 1):
        first, last = offsets[r], offsets[r + 1]
        if first == last:
            continue
        k = o[first]
        x0 = delta[0] * E[k, 0]
        x1 = delta[1] * E[k, 1]
        a0[first], a1[first] = x0, x1
        pairs = (last - first - 1) >> 1 if paired else 0
        for h in range(pairs):
            u = np.uint64(first + 1 + 2 * h)
            v = u + np.uint64(1)
            k = o[u]
            q = np.uint64(k) * S + np.uint64(o[v])
            a0[u] = x0 * M[k, 0, 0] + x1 * M[k, 1, 0]
            a1[u] = x0 * M[k, 0, 1] + x1 * M[k, 1, 1]
            y0 = x0 * P[q, 0, 0] + x1 * P[q, 1, 0]
            y1 = x0 * P[q, 0, 1] + x1 * P[q, 1, 1]
            x0, x1 = y0, y1
            a0[v], a1[v] = x0, x1
            if h & 7 == 7:
                total = x0 + x1
                if total < 1e-60:
                    log_likelihood += math.log(total)
                    x0, x1 = x0 / total, x1 / total
        for t in range(first + 1 + 2 * pairs, last):
            u = np.uint64(t)
            k = o[u]
            y0 = x0 * M[k, 0, 0] + x1 * M[k, 1, 0]
            y1 = x0 * M[k, 0, 1] + x1 * M[k, 1, 1]
            x0, x1 = y0, y1
            a0[u], a1[u] = x0, x1
            if t & 15 == 15:
                total = x0 + x1
                if total < 1e-60:
                    log_likelihood += math.log(total)
                    x0, x1 = x0 / total, x1 / total
        log_likelihood += math.log(x0 + x1)
    return log_likelihood


@kernel
def forward3(
    o: Array, offsets: Array, delta: Array, E: Array, M: Array, P: Array, alpha: Array
) -> float:
    """Filter forward for K = 3."""
    S = np.uint64(E.shape[0])
    paired = P.shape[0] == E.shape[0] * E.shape[0]
    a0, a1, a2 = alpha[0], alpha[1], alpha[2]
    log_likelihood = 0.0
    for r in range(offsets.size - 1):
        first, last = offsets[r], offsets[r + 1]
        if first == last:
            continue
        k = o[first]
        x0 = delta[0] * E[k, 0]
        x1 = delta[1] * E[k, 1]
        x2 = delta[2] * E[k, 2]
        a0[first], a1[first], a2[first] = x0, x1, x2
        pairs = (last - first - 1) >> 1 if paired else 0
        for h in range(pairs):
            u = np.uint64(first + 1 + 2 * h)
            v = u + np.uint64(1)
            k = o[u]
            q = np.uint64(k) * S + np.uint64(o[v])
            a0[u] = x0 * M[k, 0, 0] + x1 * M[k, 1, 0] + x2 * M[k, 2, 0]
            a1[u] = x0 * M[k, 0, 1] + x1 * M[k, 1, 1] + x2 * M[k, 2, 1]
            a2[u] = x0 * M[k, 0, 2] + x1 * M[k, 1, 2] + x2 * M[k, 2, 2]
            y0 = x0 * P[q, 0, 0] + x1 * P[q, 1, 0] + x2 * P[q, 2, 0]
            y1 = x0 * P[q, 0, 1] + x1 * P[q, 1, 1] + x2 * P[q, 2, 1]
            y2 = x0 * P[q, 0, 2] + x1 * P[q, 1, 2] + x2 * P[q, 2, 2]
            x0, x1, x2 = y0, y1, y2
            a0[v], a1[v], a2[v] = x0, x1, x2
            if h & 7 == 7:
                total = x0 + x1 + x2
                if total < 1e-60:
                    log_likelihood += math.log(total)
                    x0, x1, x2 = x0 / total, x1 / total, x2 / total
        for t in range(first + 1 + 2 * pairs, last):
            u = np.uint64(t)
            k = o[u]
            y0 = x0 * M[k, 0, 0] + x1 * M[k, 1, 0] + x2 * M[k, 2, 0]
            y1 = x0 * M[k, 0, 1] + x1 * M[k, 1, 1] + x2 * M[k, 2, 1]
            y2 = x0 * M[k, 0, 2] + x1 * M[k, 1, 2] + x2 * M[k, 2, 2]
            x0, x1, x2 = y0, y1, y2
            a0[u], a1[u], a2[u] = x0, x1, x2
            if t & 15 == 15:
                total = x0 + x1 + x2
                if total < 1e-60:
                    log_likelihood += math.log(total)
                    x0, x1, x2 = x0 / total, x1 / total, x2 / total
        log_likelihood += math.log(x0 + x1 + x2)
    return log_likelihood


@kernel
def forward4(
    o: Array, offsets: Array, delta: Array, E: Array, M: Array, P: Array, alpha: Array
) -> float:
    """Filter forward for K = 4."""
    S = np.uint64(E.shape[0])
    paired = P.shape[0] == E.shape[0] * E.shape[0]
    a0, a1, a2, a3 = alpha[0], alpha[1], alpha[2], alpha[3]
    log_likelihood = 0.0
    for r in range(offsets.size - 1):
        first, last = offsets[r], offsets[r + 1]
        if first == last:
            continue
        k = o[first]
        x0 = delta[0] * E[k, 0]
        x1 = delta[1] * E[k, 1]
        x2 = delta[2] * E[k, 2]
        x3 = delta[3] * E[k, 3]
        a0[first], a1[first], a2[first], a3[first] = x0, x1, x2, x3
        pairs = (last - first - 1) >> 1 if paired else 0
        for h in range(pairs):
            u = np.uint64(first + 1 + 2 * h)
            v = u + np.uint64(1)
            k = o[u]
            q = np.uint64(k) * S + np.uint64(o[v])
            a0[u] = (x0 * M[k, 0, 0] + x1 * M[k, 1, 0]) + (x2 * M[k, 2, 0] + x3 * M[k, 3, 0])
            a1[u] = (x0 * M[k, 0, 1] + x1 * M[k, 1, 1]) + (x2 * M[k, 2, 1] + x3 * M[k, 3, 1])
            a2[u] = (x0 * M[k, 0, 2] + x1 * M[k, 1, 2]) + (x2 * M[k, 2, 2] + x3 * M[k, 3, 2])
            a3[u] = (x0 * M[k, 0, 3] + x1 * M[k, 1, 3]) + (x2 * M[k, 2, 3] + x3 * M[k, 3, 3])
            y0 = (x0 * P[q, 0, 0] + x1 * P[q, 1, 0]) + (x2 * P[q, 2, 0] + x3 * P[q, 3, 0])
            y1 = (x0 * P[q, 0, 1] + x1 * P[q, 1, 1]) + (x2 * P[q, 2, 1] + x3 * P[q, 3, 1])
            y2 = (x0 * P[q, 0, 2] + x1 * P[q, 1, 2]) + (x2 * P[q, 2, 2] + x3 * P[q, 3, 2])
            y3 = (x0 * P[q, 0, 3] + x1 * P[q, 1, 3]) + (x2 * P[q, 2, 3] + x3 * P[q, 3, 3])
            x0, x1, x2, x3 = y0, y1, y2, y3
            a0[v], a1[v], a2[v], a3[v] = x0, x1, x2, x3
            if h & 7 == 7:
                total = (x0 + x1) + (x2 + x3)
                if total < 1e-60:
                    log_likelihood += math.log(total)
                    x0, x1, x2, x3 = x0 / total, x1 / total, x2 / total, x3 / total
        for t in range(first + 1 + 2 * pairs, last):
            u = np.uint64(t)
            k = o[u]
            y0 = (x0 * M[k, 0, 0] + x1 * M[k, 1, 0]) + (x2 * M[k, 2, 0] + x3 * M[k, 3, 0])
            y1 = (x0 * M[k, 0, 1] + x1 * M[k, 1, 1]) + (x2 * M[k, 2, 1] + x3 * M[k, 3, 1])
            y2 = (x0 * M[k, 0, 2] + x1 * M[k, 1, 2]) + (x2 * M[k, 2, 2] + x3 * M[k, 3, 2])
            y3 = (x0 * M[k, 0, 3] + x1 * M[k, 1, 3]) + (x2 * M[k, 2, 3] + x3 * M[k, 3, 3])
            x0, x1, x2, x3 = y0, y1, y2, y3
            a0[u], a1[u], a2[u], a3[u] = x0, x1, x2, x3
            if t & 15 == 15:
                total = (x0 + x1) + (x2 + x3)
                if total < 1e-60:
                    log_likelihood += math.log(total)
                    x0, x1, x2, x3 = x0 / total, x1 / total, x2 / total, x3 / total
        log_likelihood += math.log((x0 + x1) + (x2 + x3))
    return log_likelihood


@kernel
def maps2(alpha: Array, A: Array, key: Any, maps: Array) -> None:
    """For K = 2 and each t: the state at t for each state at t + 1, given u_t, two bits each.

    P(z_t = s | z_{t+1} = k) is proportional to alpha_t(s) A_sk; comparing u times the total with
    the partial sums spares the division. The uniforms are made a block ahead: apart, both loops
    are vectorised by the compiler, together neither.
    """
    A00, A01 = A[0, 0], A[0, 1]
    A10, A11 = A[1, 0], A[1, 1]
    block = np.empty(512)
    for base in range(0, maps.size, 512):
        n = min(512, maps.size - base)
        fill_uniforms(key, base, block[:n])
        out = maps[base : base + n]
        a0 = alpha[0, base : base + n]
        a1 = alpha[1, base : base + n]
        for i in range(n):
            u = block[i]
            x0, x1 = a0[i], a1[i]
            w0 = x0 * A00
            v = u * (w0 + x1 * A10)
            m = 1 if v >= w0 else 0
            w0 = x0 * A01
            v = u * (w0 + x1 * A11)
            m += 4 if v >= w0 else 0
            out[i] = m


@kernel
def maps3(alpha: Array, A: Array, key: Any, maps: Array) -> None:
    """For K = 3: as `maps2`."""
    A00, A01, A02 = A[0, 0], A[0, 1], A[0, 2]
    A10, A11, A12 = A[1, 0], A[1, 1], A[1, 2]
    A20, A21, A22 = A[2, 0], A[2, 1], A[2, 2]
    block = np.empty(512)
    for base in range(0, maps.size, 512):
        n = min(512, maps.size - base)
        fill_uniforms(key, base, block[:n])
        out = maps[base : base + n]
        a0 = alpha[0, base : base + n]
        a1 = alpha[1, base : base + n]
        a2 = alpha[2, base : base + n]
        for i in range(n):
            u = block[i]
            x0, x1, x2 = a0[i], a1[i], a2[i]
            w0 = x0 * A00
            w1 = w0 + x1 * A10
            v = u * (w1 + x2 * A20)
            m = (1 if v >= w0 else 0) + (1 if v >= w1 else 0)
            w0 = x0 * A01
            w1 = w0 + x1 * A11
            v = u * (w1 + x2 * A21)
            m += (4 if v >= w0 else 0) + (4 if v >= w1 else 0)
            w0 = x0 * A02
            w1 = w0 + x1 * A12
            v = u * (w1 + x2 * A22)
            m += (16 if v >= w0 else 0) + (16 if v >= w1 else 0)
            out[i] = m


@kernel
def maps4(alpha: Array, A: Array, key: Any, maps: Array) -> None:
    """For K = 4: as `maps2`."""
    A00, A01, A02, A03 = A[0, 0], A[0, 1], A[0, 2], A[0, 3]
    A10, A11, A12, A13 = A[1, 0], A[1, 1], A[1, 2], A[1, 3]
    A20, A21, A22, A23 = A[2, 0], A[2, 1], A[2, 2], A[2, 3]
    A30, A31, A32, A33 = A[3, 0], A[3, 1], A[3, 2], A[3, 3]
    block = np.empty(512)
    for base in range(0, maps.size, 512):
        n = min(512, maps.size - base)
        fill_uniforms(key, base, block[:n])
        out = maps[base : base + n]
        a0 = alpha[0, base : base + n]
        a1 = alpha[1, base : base + n]
        a2 = alpha[2, base : base + n]
        a3 = alpha[3, base : base + n]
        for i in range(n):
            u = block[i]
            x0, x1, x2, x3 = a0[i], a1[i], a2[i], a3[i]
            w0 = x0 * A00
            w1 = w0 + x1 * A10
            w2 = w1 + x2 * A20
            v = u * (w2 + x3 * A30)
            m = (1 if v >= w0 else 0) + (1 if v >= w1 else 0) + (1 if v >= w2 else 0)
            w0 = x0 * A01
            w1 = w0 + x1 * A11
            w2 = w1 + x2 * A21
            v = u * (w2 + x3 * A31)
            m += (4 if v >= w0 else 0) + (4 if v >= w1 else 0) + (4 if v >= w2 else 0)
            w0 = x0 * A02
            w1 = w0 + x1 * A12
            w2 = w1 + x2 * A22
            v = u * (w2 + x3 * A32)
            m += (16 if v >= w0 else 0) + (16 if v >= w1 else 0) + (16 if v >= w2 else 0)
            w0 = x0 * A03
            w1 = w0 + x1 * A13
            w2 = w1 + x2 * A23
            v = u * (w2 + x3 * A33)
            m += (64 if v >= w0 else 0) + (64 if v >= w1 else 0) + (64 if v >= w2 else 0)
            out[i] = m


@kernel
def last_state(alpha: Array, t: int, u: float) -> int:
    """Draw z_t from the filter at t by inversion of `u`."""
    K = alpha.shape[0]
    total = 0.0
    for s in range(K):
        total += alpha[s, t]
    u *= total
    for s in range(K - 1):
        u -= alpha[s, t]
        if u < 0.0:
            return s
    return int(K - 1)


@kernel
def follow_maps(
    o: Array, offsets: Array, alpha: Array, key: Any, maps: Array, z: Array, lanes: Array
) -> None:
    """Draw the path z backwards through the maps and count (o_t, z_t, z_{t+1}) into four lanes.

    Each lane is a flat array over o * 16 + z_t * 4 + z_{t+1}; with four of them, the increments of
    neighbouring tasks do not wait for each other in memory.
    """
    l0, l1, l2, l3 = lanes[0], lanes[1], lanes[2], lanes[3]
    two = np.uint64(2)
    four = np.uint64(4)
    three = np.uint64(3)
    for r in range(offsets.size - 1):
        first, last = offsets[r], offsets[r + 1]
        if first == last:
            continue
        k = np.uint64(last_state(alpha, last - 1, uniform(key, np.uint64(last - 1))))
        z[last - 1] = k
        n = last - 1 - first
        u = np.uint64(last - 1)
        one = np.uint64(1)
        for _ in range(n >> 2):
            u -= one
            s = (np.uint64(maps[u]) >> (k + k)) & three
            z[u] = s
            l0[(np.uint64(o[u]) << four) + (s << two) + k] += 1
            u -= one
            k = (np.uint64(maps[u]) >> (s + s)) & three
            z[u] = k
            l1[(np.uint64(o[u]) << four) + (k << two) + s] += 1
            u -= one
            s = (np.uint64(maps[u]) >> (k + k)) & three
            z[u] = s
            l2[(np.uint64(o[u]) << four) + (s << two) + k] += 1
            u -= one
            k = (np.uint64(maps[u]) >> (s + s)) & three
            z[u] = k
            l3[(np.uint64(o[u]) << four) + (k << two) + s] += 1
        for _ in range(n & 3):
            u -= one
            s = (np.uint64(maps[u]) >> (k + k)) & three
            z[u] = s
            l0[(np.uint64(o[u]) << four) + (s << two) + k] += 1
            k = s


@kernel
def fold_lanes(lanes: Array, K: int, symbol_counts: Array, transitions: Array) -> None:
    """Add the four lanes up into counts of (o, z) and of transitions."""
    S = symbol_counts.shape[0]
    for o in range(S):
        for s in range(K):
            for k in range(K):
                i = o * 16 + s * 4 + k
                n = lanes[0, i] + lanes[1, i] + lanes[2, i] + lanes[3, i]
                symbol_counts[o, s] += n
                transitions[s, k] += n


@kernel
def backward_any(
    o: Array,
    offsets: Array,
    alpha: Array,
    A: Array,
    key: Any,
    z: Array,
    symbol_counts: Array,
    transitions: Array,
) -> None:
    """Draw the path z backwards for any K and count; only a session's last task is left out."""
    K = A.shape[0]
    for r in range(offsets.size - 1):
        first, last = offsets[r], offsets[r + 1]
        if first == last:
            continue
        k = last_state(alpha, last - 1, uniform(key, np.uint64(last - 1)))
        z[last - 1] = k
        for t in range(last - 2, first - 1, -1):
            total = 0.0
            for i in range(K):
                total += alpha[i, t] * A[i, k]
            u = uniform(key, np.uint64(t)) * total
            s = K - 1
            below = 0.0
            for i in range(K - 1):
                below += alpha[i, t] * A[i, k]
                if u < below:
                    s = i
                    break
            z[t] = s
            symbol_counts[o[t], s] += 1
            transitions[s, k] += 1
            k = s


@kernel
def forward(
    o: Array, offsets: Array, delta: Array, E: Array, M: Array, P: Array, alpha: Array
) -> float:
    """Filter forward by the kernel written for this K; return log L."""
    K = delta.size
    if K == 2:
        return forward2(o, offsets, delta, E, M, P, alpha)
    if K == 3:
        return forward3(o, offsets, delta, E, M, P, alpha)
    if K == 4:
        return forward4(o, offsets, delta, E, M, P, alpha)
    return forward_any(o, offsets, delta, E, M, alpha)


@kernel
def draw_states(
    o: Array,
    offsets: Array,
    alpha: Array,
    A: Array,
    key: Any,
    maps: Array,
    z: Array,
    lanes: Array,
    symbol_counts: Array,
    transitions: Array,
    starts: Array,
) -> None:
    """States given the rest: draw the whole path backwards, and count what the others need."""
    K = A.shape[0]
    symbol_counts[:] = 0
    transitions[:] = 0
    starts[:] = 0
    if 2 <= K <= 4:
        if K == 2:
            maps2(alpha, A, key, maps)
        elif K == 3:
            maps3(alpha, A, key, maps)
        else:
            maps4(alpha, A, key, maps)
        lanes[:] = 0
        follow_maps(o, offsets, alpha, key, maps, z, lanes)
        fold_lanes(lanes, K, symbol_counts, transitions)
    else:
        backward_any(o, offsets, alpha, A, key, z, symbol_counts, transitions)
    for r in range(offsets.size - 1):
        if offsets[r + 1] > offsets[r]:
            last = offsets[r + 1] - 1
            symbol_counts[o[last], z[last]] += 1
            starts[z[offsets[r]]] += 1


@kernel
def draw_labels(
    rng: Any,
    theta: Array,
    shares: Array,
    symbol_label: Array,
    symbol_outcome: Array,
    symbol_counts: Array,
    won: Array,
    lost: Array,
) -> None:
    """Missing labels given the rest; fill successes won[j, s] and failures lost[j, s]."""
    J, K = theta.shape
    won[:] = 0.0
    lost[:] = 0.0
    for o in range(symbol_label.size):
        j, y = symbol_label[o], symbol_outcome[o]
        if y < 0:
            continue
        table = won if y == 1 else lost
        for s in range(K):
            if j >= 0:
                table[j, s] += symbol_counts[o, s]
                continue
            total = 0.0
            for i in range(J):
                total += shares[i] * (theta[i, s] if y == 1 else 1.0 - theta[i, s])
            for _ in range(symbol_counts[o, s]):
                u = rng.random() * total
                chosen = J - 1
                for i in range(J - 1):
                    u -= shares[i] * (theta[i, s] if y == 1 else 1.0 - theta[i, s])
                    if u < 0.0:
                        chosen = i
                        break
                table[chosen, s] += 1.0


@kernel
def log_gamma(x: float) -> float:
    """Log of the gamma function, x > 0: Stirling's series from 12 on (error below 1e-12)."""
    if x < 12.0:
        return math.lgamma(x)
    y = 1.0 / x
    w = y * y
    series = y * (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0))))
    return (x - 0.5) * math.log(x) - x + 0.9189385332046727 + series


@kernel
def hyper_log_density(x: float, y: float, won: Array, lost: Array, prior: Array) -> float:
    """Log density of x = logit mu and y = log nu given states and outcomes, theta integrated out.

    sum over (j, s) of ln B(mu nu + S, (1 - mu) nu + F) - ln B(mu nu, (1 - mu) nu), plus
    a ln mu + b ln(1 - mu) + c ln nu - d nu: the prior with the Jacobians of both changes of
    variable.
    """
    if abs(x) > 500.0 or abs(y) > 500.0:
        return -np.inf
    nu = math.exp(y)
    log_mu = -math.log1p(math.exp(-x)) if x > 0.0 else x - math.log1p(math.exp(x))
    log_not = log_mu - x
    a, b = math.exp(log_mu + y), math.exp(log_not + y)
    total = prior[0] * log_mu + prior[1] * log_not + prior[2] * y - prior[3] * nu
    if a < 1e-300 or b < 1e-300:
        return -np.inf
    ga, gb, gn = log_gamma(a), log_gamma(b), log_gamma(nu)
    for j in range(won.shape[0]):
        for s in range(won.shape[1]):
            n, m = won[j, s], lost[j, s]
            if n > 0.0:
                total += log_gamma(a + n) - ga
            if m > 0.0:
                total += log_gamma(b + m) - gb
            if n + m > 0.0:
                total += gn - log_gamma(nu + n + m)
    return float(total)


@kernel
def draw_hyper(rng: Any, hyper: Array, won: Array, lost: Array, prior: Array) -> None:
    """Mean and concentration given states and outcomes: a slice update of each coordinate."""
    height = hyper_log_density(hyper[0], hyper[1], won, lost, prior)
    for c in range(2):
        level = height + math.log(1.0 - rng.random())
        start = hyper[c]
        low = start - 2.5 * rng.random()
        high = low + 2.5
        for side in range(2):
            for _ in range(40):
                edge = low if side == 0 else high
                hyper[c] = edge
                if hyper_log_density(hyper[0], hyper[1], won, lost, prior) <= level:
                    break
                if side == 0:
                    low -= 2.5
                else:
                    high += 2.5
        while True:
            hyper[c] = low + (high - low) * rng.random()
            height = hyper_log_density(hyper[0], hyper[1], won, lost, prior)
            if height > level or high - low < 1e-12:
                break
            if hyper[c] < start:
                low = hyper[c]
            else:
                high = hyper[c]


@kernel
def log_gamma_draw(rng: Any, shape: float) -> float:
    """Draw the log of a gamma variable: G(a) = G(a + 1) U^(1/a) does not underflow for small a."""
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    boost = math.log(1.0 - rng.random()) / shape
    return math.log(rng.standard_gamma(shape + 1.0)) + boost


@kernel
def draw_success(rng: Any, hyper: Array, won: Array, lost: Array, theta: Array) -> None:
    """Success probabilities given the rest: Beta(mu nu + S, (1 - mu) nu + F), kept off 0 and 1."""
    nu = math.exp(hyper[1])
    a = nu / (1.0 + math.exp(-hyper[0]))
    b = nu / (1.0 + math.exp(hyper[0]))
    for j in range(theta.shape[0]):
        for s in range(theta.shape[1]):
            gap = log_gamma_draw(rng, b + lost[j, s]) - log_gamma_draw(rng, a + won[j, s])
            p = 0.0 if gap > 700.0 else 1.0 / (1.0 + math.exp(gap))
            theta[j, s] = min(max(p, 1e-12), 1.0 - 1e-12)


@kernel
def draw_simplex(rng: Any, weights: Array, counts: Array, out: Array) -> None:
    """Draw a Dirichlet(weights + counts) vector from normalised log-gammas."""
    highest = -np.inf
    for s in range(out.size):
        out[s] = log_gamma_draw(rng, weights[s] + counts[s])
        highest = max(highest, out[s])
    total = 0.0
    for s in range(out.size):
        out[s] = math.exp(out[s] - highest)
        total += out[s]
    for s in range(out.size):
        out[s] /= total


@kernel
def draw_rows(rng: Any, lam: Array, transitions: Array, A: Array) -> None:
    """Transition rows given the rest: Dirichlet(lambda_s + N_s)."""
    for s in range(A.shape[0]):
        draw_simplex(rng, lam[s], transitions[s], A[s])


@kernel
def permute_states(rng: Any, theta: Array, A: Array, delta: Array) -> None:
    """Relabel the states at random: exact, since the prior does not know their names."""
    K = delta.size
    order = np.arange(K)
    for i in range(K - 1, 0, -1):
        k = int(rng.random() * (i + 1))
        order[i], order[k] = order[k], order[i]
    old_theta, old_A, old_delta = theta.copy(), A.copy(), delta.copy()
    for s in range(K):
        delta[s] = old_delta[order[s]]
        for j in range(theta.shape[0]):
            theta[j, s] = old_theta[j, order[s]]
        for k in range(K):
            A[s, k] = old_A[order[s], order[k]]


@kernel
def run_chain(
    rng: Any,
    o: Array,
    offsets: Array,
    symbol_label: Array,
    symbol_outcome: Array,
    shares: Array,
    lam: Array,
    eta: Array,
    prior: Array,
    theta: Array,
    A: Array,
    delta: Array,
    hyper: Array,
    thin: int,
    out_theta: Array,
    out_A: Array,
    out_delta: Array,
    out_hyper: Array,
    out_rho: Array,
    out_log_likelihood: Array,
) -> None:
    """Sweep ``n * thin`` times from (theta, A, delta, hyper), in place, recording every thin-th.

    A draw is recorded after the filter and before anything is redrawn, so that rho = P(state of the
    next task of the last session) and log L belong to the parameters beside them. With eta empty,
    delta stays as it is.
    """
    J, K = theta.shape
    S, T = symbol_label.size, o.size
    E = np.empty((S, K))
    M = np.empty((S, K, K))
    cheap = 1 < K < 5 and S * S * K * K * K < 2 * T
    P = np.empty((S * S if cheap else 0, K, K))
    alpha = np.empty((K, T))
    maps = np.empty(T if 1 < K < 5 else 0, np.uint8)
    z = np.zeros(T, np.uint16)
    lanes = np.empty((4, S * 16), np.int64)
    symbol_counts = np.zeros((S, K), np.int64)
    transitions = np.zeros((K, K), np.int64)
    starts = np.zeros(K, np.int64)
    won = np.empty((J, K))
    lost = np.empty((J, K))
    if K == 1:
        # With one state nothing is hidden: count once, and the filter is a product of powers.
        backward_any(o, offsets, alpha, A, np.uint64(0), z, symbol_counts, transitions)
        for r in range(offsets.size - 1):
            if offsets[r + 1] > offsets[r]:
                symbol_counts[o[offsets[r + 1] - 1], 0] += 1
                starts[0] += 1
    for i in range(out_log_likelihood.size * thin):
        emission_table(theta, shares, symbol_label, symbol_outcome, E)
        if K == 1:
            log_likelihood = 0.0
            for k in range(S):
                if symbol_counts[k, 0] > 0:
                    log_likelihood += symbol_counts[k, 0] * math.log(E[k, 0])
        else:
            step_tables(A, E, M, P)
            log_likelihood = forward(o, offsets, delta, E, M, P, alpha)
        if i % thin == thin - 1:
            d = i // thin
            put(out_delta[d], delta)
            put(out_hyper[d], hyper)
            for j in range(J):
                put(out_theta[d, j], theta[j])
            for s in range(K):
                put(out_A[d, s], A[s])
            out_log_likelihood[d] = log_likelihood
            next_state(offsets, alpha, A, delta, out_rho[d])
        if K > 1:
            key = new_key(rng)
            draw_states(
                o, offsets, alpha, A, key, maps, z, lanes, symbol_counts, transitions, starts
            )
        draw_labels(rng, theta, shares, symbol_label, symbol_outcome, symbol_counts, won, lost)
        draw_hyper(rng, hyper, won, lost, prior)
        draw_success(rng, hyper, won, lost, theta)
        draw_rows(rng, lam, transitions, A)
        if eta.size:
            draw_simplex(rng, eta, starts, delta)
        permute_states(rng, theta, A, delta)


@kernel
def next_state(offsets: Array, alpha: Array, A: Array, delta: Array, rho: Array) -> None:
    """Fill rho(k) = sum_s P(z_T = s | y) A_sk for the last session; delta before its first task."""
    K = delta.size
    R = offsets.size - 1
    if R == 0 or offsets[R] == offsets[R - 1] or K == 1:
        put(rho, delta)
        return
    last = offsets[R] - 1
    total = 0.0
    for s in range(K):
        total += alpha[s, last]
    for k in range(K):
        rho[k] = 0.0
        for s in range(K):
            rho[k] += alpha[s, last] / total * A[s, k]
