"""Compiled loops of the hidden Markov model that absorbs: filter, smoother, and the iteration.

K phases and m observed states. `start` holds the first phase and the two ends before any step
(K + 2), `rows` what follows a step in each phase (K, K + 2), `emission` the state that a step in
each phase shows (K, m). Forward variables are rescaled at every step, so nothing underflows. The
kernels check nothing; their callers do.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = ["climb", "climb_ends", "expect", "expect_ends", "filter_path", "maximise"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
States = npt.NDArray[np.int32]


@kernel
def filter_path(path: States, start: Floats, rows: Floats, emission: Floats, mass: Floats) -> float:
    """Fill `mass` with the law of the phase at the last step of a path; return log P(path)."""
    K = emission.shape[0]
    before = np.empty(K)
    log_likelihood = 0.0
    for t in range(path.size):
        total = 0.0
        for j in range(K):
            before[j] = mass[j]
        for j in range(K):
            if t == 0:
                reached = start[j]
            else:
                reached = 0.0
                for i in range(K):
                    reached += before[i] * rows[i, j]
            mass[j] = reached * emission[j, path[t]]
            total += mass[j]
        log_likelihood += math.log(total) if total > 0.0 else -np.inf
        for j in range(K):
            mass[j] = mass[j] / total if total > 0.0 else 0.0
    return log_likelihood


@kernel
def expect(
    states: States,
    offsets: Integers,
    event: npt.NDArray[np.int8],
    weight: Floats,
    start: Floats,
    rows: Floats,
    emission: Floats,
    alpha: Floats,
    scale: Floats,
    n_start: Floats,
    n_rows: Floats,
    n_emission: Floats,
) -> float:
    """Add up expected counts given the runs; return the weighted log likelihood.

    `n_rows` has a last column for what followed the cut of a run, of which it is known only that
    it was a move. A run cut before its first step says nothing. `alpha` and `scale` are room for
    the longest run.
    """
    K = emission.shape[0]
    n_start[:] = 0.0
    n_rows[:] = 0.0
    n_emission[:] = 0.0
    end = np.empty(K)
    beta = np.empty(K)
    ahead = np.empty(K)
    log_likelihood = 0.0
    for r in range(event.size):
        w = weight[r]
        first, L = offsets[r], offsets[r + 1] - offsets[r]
        if w == 0.0:
            continue
        if L == 0:
            if event[r] > 0:
                n_start[K + event[r] - 1] += w
                log_likelihood += w * math.log(max(start[K + event[r] - 1], 1e-300))
            continue
        for t in range(L):
            o = states[first + t]
            total = 0.0
            for j in range(K):
                if t == 0:
                    reached = start[j]
                else:
                    reached = 0.0
                    for i in range(K):
                        reached += alpha[t - 1, i] * rows[i, j]
                alpha[t, j] = reached * emission[j, o]
                total += alpha[t, j]
            total = max(total, 1e-300)
            scale[t] = total
            log_likelihood += w * math.log(total)
            for j in range(K):
                alpha[t, j] /= total
        column = K + 2 if event[r] == 0 else K + event[r] - 1
        total = 0.0
        for i in range(K):
            if event[r] == 0:
                end[i] = 0.0
                for j in range(K):
                    end[i] += rows[i, j]
            else:
                end[i] = rows[i, column]
            total += alpha[L - 1, i] * end[i]
        total = max(total, 1e-300)
        log_likelihood += w * math.log(total)
        for i in range(K):
            beta[i] = end[i] / total
            share = w * alpha[L - 1, i] * beta[i]
            n_rows[i, column] += share
            n_emission[i, states[first + L - 1]] += share
            if L == 1:
                n_start[i] += share
        for t in range(L - 2, -1, -1):
            o = states[first + t + 1]
            for j in range(K):
                ahead[j] = emission[j, o] * beta[j] / scale[t + 1]
            for i in range(K):
                a = w * alpha[t, i]
                total = 0.0
                for j in range(K):
                    step = rows[i, j] * ahead[j]
                    total += step
                    n_rows[i, j] += a * step
                beta[i] = total
                share = a * total
                n_emission[i, states[first + t]] += share
                if t == 0:
                    n_start[i] += share
    return log_likelihood


@kernel
def maximise(
    n_start: Floats,
    n_rows: Floats,
    n_emission: Floats,
    a_start: Floats,
    a_rows: Floats,
    a_emission: Floats,
    start: Floats,
    rows: Floats,
    emission: Floats,
) -> None:
    """Fill the parameters that maximise the expected log posterior; a_* are imaginary counts.

    Within a row the moves share what followed cuts in proportion to their own mass.
    """
    K, m = emission.shape
    total = 0.0
    for j in range(K + 2):
        start[j] = n_start[j] + a_start[j]
        total += start[j]
    for j in range(K + 2):
        start[j] /= total
    for i in range(K):
        moves = 0.0
        for j in range(K):
            moves += n_rows[i, j] + a_rows[i, j]
        more = 1.0 + n_rows[i, K + 2] / moves if moves > 0.0 else 1.0
        total = 0.0
        for j in range(K + 2):
            rows[i, j] = n_rows[i, j] + a_rows[i, j]
            if j < K:
                rows[i, j] *= more
            total += rows[i, j]
        for j in range(K + 2):
            rows[i, j] /= total
        total = 0.0
        for o in range(m):
            emission[i, o] = n_emission[i, o] + a_emission[i, o]
            total += emission[i, o]
        for o in range(m):
            emission[i, o] /= total


@kernel
def log_prior(mass: Floats, probability: Floats) -> float:
    """Sum mass * log(probability) over flat arrays, cells without mass left out."""
    total = 0.0
    for i in range(mass.size):
        if mass[i] > 0.0:
            total += mass[i] * math.log(max(probability[i], 1e-300))
    return total


@kernel
def climb(
    states: States,
    offsets: Integers,
    event: npt.NDArray[np.int8],
    weight: Floats,
    a_start: Floats,
    a_rows: Floats,
    a_emission: Floats,
    start: Floats,
    rows: Floats,
    emission: Floats,
    emission_weight: float,
    tolerance: float,
    trace: Floats,
) -> int:
    """Iterate in place, at most ``trace.size - 1`` times, until the gain is below `tolerance`.

    What a step shows enters with its probability to the power `emission_weight`, the imaginary
    counts of states with that weight too, so that the maximising table stays (counts + imaginary
    counts) over their sum, whatever the weight.

    `trace` receives the log posterior before each iteration and after the last one. Returns how
    many entries were filled; fewer than it has room for, or a last gain below the tolerance, means
    that the iteration has come to rest.
    """
    K, m = emission.shape
    longest = 1
    for r in range(event.size):
        longest = max(longest, offsets[r + 1] - offsets[r])
    alpha = np.empty((longest, K))
    scale = np.empty(longest)
    n_start = np.empty(K + 2)
    n_rows = np.empty((K, K + 3))
    n_emission = np.empty((K, m))
    shown = np.empty((K, m))
    for k in range(trace.size):
        for i in range(K):
            for o in range(m):
                shown[i, o] = emission[i, o]
                if emission_weight != 1.0:
                    shown[i, o] = emission[i, o] ** emission_weight
        value = expect(
            states,
            offsets,
            event,
            weight,
            start,
            rows,
            shown,
            alpha,
            scale,
            n_start,
            n_rows,
            n_emission,
        )
        value += log_prior(a_start, start)
        value += log_prior(a_rows.ravel(), rows.ravel())
        value += emission_weight * log_prior(a_emission.ravel(), emission.ravel())
        trace[k] = value
        if k == trace.size - 1 or (k > 0 and value - trace[k - 1] < tolerance):
            return k + 1
        maximise(n_start, n_rows, n_emission, a_start, a_rows, a_emission, start, rows, emission)
    return 0


@kernel
def expect_ends(
    ends: Floats,
    start: Floats,
    rows: Floats,
    alpha: Floats,
    scale: Floats,
    share: Floats,
    n_start: Floats,
    n_rows: Floats,
) -> float:
    """Add up expected counts given how long runs lasted and how they ended, nothing else.

    ``ends[e, t]`` is the weight of the runs of t steps that were cut (e = 0), succeeded or failed.
    All runs share one pass forward, and one pass backward in which those that end at a step join
    those that went on: sum over runs of P(end | phase) / P(end). `alpha`, `scale` and `share` have
    a row for every step, from 0.
    """
    K = rows.shape[0]
    longest = ends.shape[1] - 1
    n_start[:] = 0.0
    n_rows[:] = 0.0
    column = (K + 2, K, K + 1)
    end = np.empty((3, K))
    for i in range(K):
        end[0, i] = 0.0
        for j in range(K):
            end[0, i] += rows[i, j]
        end[1, i] = rows[i, K]
        end[2, i] = rows[i, K + 1]
    log_likelihood = 0.0
    for e in range(1, 3):
        if ends[e, 0] > 0.0:
            n_start[K + e - 1] += ends[e, 0]
            log_likelihood += ends[e, 0] * math.log(max(start[K + e - 1], 1e-300))
    log_scale = 0.0
    for t in range(1, longest + 1):
        total = 0.0
        for j in range(K):
            reached = 0.0
            if t == 1:
                reached = start[j]
            else:
                for i in range(K):
                    reached += alpha[t - 1, i] * rows[i, j]
            alpha[t, j] = reached
            total += reached
        total = max(total, 1e-300)
        scale[t] = total
        log_scale += math.log(total)
        for j in range(K):
            alpha[t, j] /= total
        for e in range(3):
            share[t, e] = 0.0
            if ends[e, t] > 0.0:
                p = 0.0
                for i in range(K):
                    p += alpha[t, i] * end[e, i]
                p = max(p, 1e-300)
                log_likelihood += ends[e, t] * (log_scale + math.log(p))
                share[t, e] = ends[e, t] / p
    beta = np.zeros(K)
    fresh = np.empty(K)
    for t in range(longest, 0, -1):
        for i in range(K):
            total = 0.0
            if t < longest:
                for j in range(K):
                    step = rows[i, j] * beta[j] / scale[t + 1]
                    n_rows[i, j] += alpha[t, i] * step
                    total += step
            for e in range(3):
                step = share[t, e] * end[e, i]
                n_rows[i, column[e]] += alpha[t, i] * step
                total += step
            fresh[i] = total
        for i in range(K):
            beta[i] = fresh[i]
            if t == 1:
                n_start[i] += alpha[1, i] * beta[i]
    return log_likelihood


@kernel
def climb_ends(
    ends: Floats,
    a_start: Floats,
    a_rows: Floats,
    start: Floats,
    rows: Floats,
    tolerance: float,
    trace: Floats,
) -> int:
    """Iterate as `climb` does where what steps show has no weight; see `expect_ends`."""
    K = rows.shape[0]
    longest = ends.shape[1] - 1
    alpha = np.empty((longest + 1, K))
    scale = np.empty(longest + 1)
    share = np.empty((longest + 1, 3))
    n_start = np.empty(K + 2)
    n_rows = np.empty((K, K + 3))
    nothing = np.zeros((K, 1))
    shown = np.ones((K, 1))
    for k in range(trace.size):
        value = expect_ends(ends, start, rows, alpha, scale, share, n_start, n_rows)
        value += log_prior(a_start, start)
        value += log_prior(a_rows.ravel(), rows.ravel())
        trace[k] = value
        if k == trace.size - 1 or (k > 0 and value - trace[k - 1] < tolerance):
            return k + 1
        maximise(n_start, n_rows, nothing, a_start, a_rows, shown, start, rows, shown)
    return 0
