"""Refits of the progress-dependent chain: many gradients, one curvature.

A bootstrap fits the same chain to hundreds of corpora that hardly differ. Its log posterior (see
`_progress_posterior`) is climbed by L-BFGS, and the inverse curvature that L-BFGS starts from is
that of the first fit in all but one part. With the parameters ordered intercepts a, splines by
state d, common splines c, the curvature factors as

    H = T' diag(A, D, S) T,   T unit triangular:

A that of the intercepts, D that of d with a eliminated, S that of c with both eliminated. T, D and
S are taken over from the first fit, since they change little. A is the corpus's own: an event that
was seen once is seen not at all, or three times, in a resample, and its curvature goes with it.
Whatever A, the product is positive, so every step goes up.

The compiled loop holds no lock, and touches nothing but its own arrays: threads share a `Shared`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = ["Problem", "Shared", "climb", "slope"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_TINY = 1e-200
_EPSILON = 1e-15
_SHORT = 0.01
_MAX_HALVINGS = 12


class Problem(NamedTuple):
    """A corpus and its penalties, as the compiled loops take them: contiguous and writable."""

    basis: Floats  # (G, q)
    total: Floats  # (m, G)
    went_on: Floats  # (m, G)
    events: Floats  # (m, w), w = m + 2
    moments: Floats  # (m, w, q)
    prior: Floats  # (m, w)
    active: Mask  # (m, w)
    move: float  # precisions of the splines, as in `Penalty`, but finite
    end: float
    state: float


class Shared(NamedTuple):
    """What many corpora take over of one curvature; r = q with splines by state, else 0."""

    between: Floats  # (m, w, w r): A^-1 times the cross curvature of a and d
    own: Floats  # (m, w r, w r): D^-1
    solved: Floats  # (m (w + w r), w q): what is eliminated from c, a before d in each state
    common: Floats  # (w q, w q): S^-1


@kernel
def _dot(x: Floats, y: Floats) -> float:
    """Add up products, in four sums that do not wait for one another."""
    n = x.size - x.size % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for k in range(0, n, 4):
        a += x[k] * y[k]
        b += x[k + 1] * y[k + 1]
        c += x[k + 2] * y[k + 2]
        d += x[k + 3] * y[k + 3]
    for k in range(n, x.size):
        a += x[k] * y[k]
    return (a + b) + (c + d)


@kernel
def _add(x: Floats, share: float, y: Floats) -> None:
    """Add a share of `y` to `x`."""
    for k in range(x.size):
        x[k] += share * y[k]


@kernel
def _copy(x: Floats, y: Floats) -> None:
    """Copy `y` to `x`; plain loops compile several times faster than slices."""
    for k in range(x.size):
        x[k] = y[k]


@kernel
def _event_law(eta: Floats, active: Mask, m: int, p: Floats, among: Floats) -> tuple[float, float]:
    """Fill the law of the next event and of the next move; return the logs of their norms.

    Where no move is possible the second norm is minus infinity and `among` is zero.
    """
    peak, peak_move = -math.inf, -math.inf
    for j in range(eta.size):
        if active[j]:
            peak = max(peak, eta[j])
            if j < m:
                peak_move = max(peak_move, eta[j])
    total, moves = 0.0, 0.0
    for j in range(eta.size):
        p[j], among[j] = 0.0, 0.0
        if active[j]:
            p[j] = math.exp(eta[j] - peak)
            total += p[j]
            if j < m:
                among[j] = math.exp(eta[j] - peak_move)
                moves += among[j]
    for j in range(eta.size):
        p[j] /= total
        if moves > 0.0:
            among[j] /= moves
    if moves > 0.0:
        return peak + math.log(total), peak_move + math.log(moves)
    return peak + math.log(total), -math.inf


@kernel
def _common_penalty(c: Floats, at: Problem, gradient: Floats) -> float:
    """Take the slope of the common splines' penalty off `gradient`; return the penalty.

    By differences from the mean of the moves: a precision that holds them at zero is so large that
    products would leave nothing but rounding.
    """
    w, q = at.events.shape[1], at.basis.shape[1]
    m = w - 2
    value = 0.0
    for b in range(q):
        mean, total, pull = 0.0, 0.0, 0.0
        for j in range(m):
            mean += c[j * q + b] / m
        for j in range(w):
            total += c[j * q + b]
        for j in range(m, w):
            off = c[j * q + b] - mean
            pull += at.end * off
            value += 0.5 * at.end * off * off
            gradient[j * q + b] -= at.end * off + total
        for j in range(m):
            off = c[j * q + b] - mean
            value += 0.5 * at.move * off * off
            gradient[j * q + b] -= at.move * off - pull / m + total
        value += 0.5 * total * total
    return value


@kernel
def slope(x: Floats, at: Problem, gradient: Floats) -> tuple[float, float]:
    """Fill the gradient of the log posterior; return its value and the size of what was added up.

    `x` holds intercepts, splines by state and common splines, flattened, those of impossible
    events being whatever they are. Without splines by state an odds is a product of one factor of
    the state and one of the level, and takes no exponential of its own.
    """
    m, w = at.events.shape
    n_levels, q = at.basis.shape
    low = m * w
    high = x.size - w * q
    r = (high - low) // low
    for k in range(x.size):
        gradient[k] = 0.0
    value, size = 0.0, 0.0
    by_level = np.zeros((n_levels, w))
    factor = np.empty((n_levels, w))
    top = np.empty(n_levels)
    for g in range(n_levels):
        top[g] = -math.inf
        for j in range(w):
            for b in range(q):
                by_level[g, j] += at.basis[g, b] * x[high + j * q + b]
            top[g] = max(top[g], by_level[g, j])
        for j in range(w):
            factor[g, j] = math.exp(by_level[g, j] - top[g])
    expected = np.zeros((n_levels, w))  # less what cut steps hold, over all states
    odds, eta, p, among = np.zeros(w), np.zeros(w), np.zeros(w), np.zeros(w)
    missing = np.zeros(w)
    for i in range(m):
        peak = -math.inf
        for j in range(w):
            if at.active[i, j]:
                peak = max(peak, x[i * w + j])
        if peak == -math.inf:
            continue
        norm, mass = 0.0, 0.0
        for j in range(w):
            odds[j] = math.exp(x[i * w + j] - peak) if at.active[i, j] else 0.0
            norm += odds[j]
            mass += at.prior[i, j]
        for j in range(w):
            if at.active[i, j]:
                k = i * w + j
                value += at.prior[i, j] * (x[k] - peak - math.log(norm)) + at.events[i, j] * x[k]
                size += abs(at.events[i, j] * x[k])
                gradient[k] += at.prior[i, j] - mass * odds[j] / norm + at.events[i, j]
        for g in range(n_levels):
            n, cut = at.total[i, g], at.went_on[i, g]
            if n == 0.0:
                continue
            ends, stay, log_stay = 0.0, 0.0, 0.0
            if r == 0:
                for j in range(w):
                    p[j] = odds[j] * factor[g, j]
                for j in range(m):
                    stay += p[j]
                ends = p[m] + p[m + 1]
            if ends + stay > _TINY and (cut == 0.0 or stay > _TINY):
                log_norm = peak + top[g] + math.log(ends + stay)
                each = n / (ends + stay)
                for j in range(w):
                    missing[j] = each * p[j]
                if cut > 0.0:
                    log_stay = peak + top[g] + math.log(stay)
                    for j in range(m):
                        missing[j] -= cut / stay * p[j]
            else:
                for j in range(w):
                    eta[j] = x[i * w + j] + by_level[g, j]
                    for b in range(r):
                        eta[j] += at.basis[g, b] * x[low + (i * w + j) * r + b]
                log_norm, log_stay = _event_law(eta, at.active[i], m, p, among)
                for j in range(w):
                    missing[j] = n * p[j]
                if cut > 0.0:
                    for j in range(m):
                        missing[j] -= cut * among[j]
            value -= n * log_norm
            size += abs(n * log_norm)
            if cut > 0.0:
                value += cut * log_stay
                size += abs(cut * log_stay)
            for j in range(w):
                gradient[i * w + j] -= missing[j]
                expected[g, j] += missing[j]
            for j in range(w if r else 0):
                for b in range(r):
                    gradient[low + (i * w + j) * r + b] -= missing[j] * at.basis[g, b]
        for j in range(w):
            for b in range(q):
                value += at.moments[i, j, b] * x[high + j * q + b]
                size += abs(at.moments[i, j, b] * x[high + j * q + b])
                gradient[high + j * q + b] += at.moments[i, j, b]
            for b in range(r):
                k = low + (i * w + j) * r + b
                value += at.moments[i, j, b] * x[k] - 0.5 * at.state * x[k] * x[k]
                size += abs(at.moments[i, j, b] * x[k])
                gradient[k] += at.moments[i, j, b] - at.state * x[k]
    for g in range(n_levels):
        for j in range(w):
            for b in range(q):
                gradient[high + j * q + b] -= expected[g, j] * at.basis[g, b]
    return value - _common_penalty(x[high:], at, gradient[high:]), size


@kernel
def _factor(matrix: Floats) -> bool:
    """Replace a matrix by its Cholesky factor; False where it is not positive to rounding."""
    n = matrix.shape[0]
    for j in range(n):
        whole = matrix[j, j]
        rest = whole
        for k in range(j):
            rest -= matrix[j, k] * matrix[j, k]
        if not rest > 1e-10 * whole:
            return False
        matrix[j, j] = math.sqrt(rest)
        for i in range(j + 1, n):
            inner = matrix[i, j]
            for k in range(j):
                inner -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = inner / matrix[j, j]
    return True


@kernel
def _own_curvature(x: Floats, at: Problem, ridge: float, lower: Floats) -> None:
    """Fill Cholesky factors of the curvature of each state's intercepts at `x`.

    A row's curvature has a null direction, a constant added to it; ones hold it. Cut steps lessen
    the curvature; where they leave it short of positive they count as spread over the moves. The
    ridge is for events that have all but vanished.
    """
    m, w = at.events.shape
    n_levels, q = at.basis.shape
    low = m * w
    high = x.size - w * q
    r = (high - low) // low
    by_level = np.zeros((n_levels, w))
    for g in range(n_levels):
        for j in range(w):
            for b in range(q):
                by_level[g, j] += at.basis[g, b] * x[high + j * q + b]
    eta, p, among = np.zeros(w), np.zeros(w), np.zeros(w)
    less = np.empty((w, w))
    for i in range(m):
        full = lower[i]
        some, mass = False, 0.0
        for j in range(w):
            mass += at.prior[i, j]
            some = some or at.active[i, j]
            eta[j] = x[i * w + j]
            for k in range(w):
                full[j, k], less[j, k] = 0.0, 0.0
        if some:
            _event_law(eta, at.active[i], m, p, among)
            for j in range(w):
                full[j, j] += mass * p[j]
                for k in range(j + 1):
                    full[j, k] -= mass * p[j] * p[k]
        for g in range(n_levels):
            n, cut = at.total[i, g], at.went_on[i, g]
            if n == 0.0 or not some:
                continue
            for j in range(w):
                eta[j] = x[i * w + j] + by_level[g, j]
                for b in range(r):
                    eta[j] += at.basis[g, b] * x[low + (i * w + j) * r + b]
            _event_law(eta, at.active[i], m, p, among)
            for j in range(w):
                full[j, j] += n * p[j]
                for k in range(j + 1):
                    full[j, k] -= n * p[j] * p[k]
            if cut > 0.0:
                for j in range(m):
                    less[j, j] += cut * among[j]
                    for k in range(j + 1):
                        less[j, k] -= cut * among[j] * among[k]
        for j in range(w):
            full[j, j] += ridge if at.active[i, j] else 1.0
            for k in range(j + 1):
                if at.active[i, j] and at.active[i, k]:
                    full[j, k] += 1.0
        for j in range(w):
            for k in range(w):
                less[j, k] = full[j, k] - less[j, k]
        more = 0.0
        while not _factor(less):
            for j in range(w):
                for k in range(w):
                    less[j, k] = full[j, k]
                less[j, j] += more
            more = max(1e-8, 10.0 * more)
        for j in range(w):
            for k in range(w):
                full[j, k] = less[j, k]


@kernel
def _solve(lower: Floats, x: Floats) -> None:
    """Solve L L' y = x in place."""
    n = x.size
    for j in range(n):
        for k in range(j):
            x[j] -= lower[j, k] * x[k]
        x[j] /= lower[j, j]
    for j in range(n - 1, -1, -1):
        x[j] /= lower[j, j]
        for k in range(j):
            x[k] -= lower[j, k] * x[j]


@kernel
def _precondition(g: Floats, lower: Floats, by: Shared, step: Floats) -> None:
    """Multiply by the inverse T^-1 diag(A, D, S)^-1 T'^-1; `g` is overwritten."""
    m, w = lower.shape[0], lower.shape[1]
    wr, n_common = by.own.shape[1], by.common.shape[0]
    low = m * w
    high = low + m * wr
    size = w + wr
    common = g[high:]
    for i in range(m):
        for j in range(w):
            _add(common, -g[i * w + j], by.solved[i * size + j])
        for j in range(wr):
            _add(common, -g[low + i * wr + j], by.solved[i * size + w + j])
    moved = step[high:]
    for k in range(high):
        step[k] = 0.0
    for k in range(n_common):
        moved[k] = 0.0
    for k in range(n_common):
        _add(moved, common[k], by.common[k])
    for i in range(m):
        a = g[i * w : (i + 1) * w]
        d = g[low + i * wr : low + (i + 1) * wr]
        to = step[low + i * wr : low + (i + 1) * wr]
        for j in range(w):
            _add(d, -a[j], by.between[i, j])
        for k in range(wr):
            _add(to, d[k], by.own[i, k])
        _solve(lower[i], a)
        for j in range(w):
            known = _dot(by.between[i, j], to) + _dot(by.solved[i * size + j], moved)
            step[i * w + j] = a[j] - known
        for j in range(wr):
            to[j] -= _dot(by.solved[i * size + w + j], moved)


@kernel
def climb(
    x: Floats, at: Problem, by: Shared, ridge: float, tolerance: float, max_slopes: int
) -> tuple[float, int, float]:
    """Climb from `x`, in place, by L-BFGS; ends at a step that would gain less than `tolerance`.

    That step is taken, unless it is long and leads down. Returns the gain of the last step, below
    `tolerance` where the climb has settled, the number of steps taken before it, and the size of
    what the value is a sum of. It gives up after `max_slopes` gradients, and where rounding hides
    any way up.
    """
    n, memory = x.size, 12
    m, w = at.events.shape
    lower = np.empty((m, w, w))
    _own_curvature(x, at, ridge, lower)
    moves, turns = np.zeros((memory, n)), np.zeros((memory, n))
    scale, share = np.zeros(memory), np.zeros(memory)
    here, there = np.empty(n), np.empty(n)
    work, step, new = np.empty(n), np.zeros(n), np.empty(n)
    value, size = slope(x, at, here)
    n_slopes, taken, stored = 1, 0, 0
    gain = math.inf
    while n_slopes < max_slopes:
        _copy(work, here)
        for back in range(min(stored, memory)):
            k = (stored - 1 - back) % memory
            share[k] = scale[k] * _dot(moves[k], work)
            _add(work, -share[k], turns[k])
        _precondition(work, lower, by, step)
        for back in range(min(stored, memory) - 1, -1, -1):
            k = (stored - 1 - back) % memory
            _add(step, share[k] - scale[k] * _dot(turns[k], step), moves[k])
        rise = _dot(here, step)
        if not rise >= 0.0:
            gain = math.inf
            break
        gain = 0.5 * rise
        if gain < tolerance or gain < _EPSILON * size:
            longest = 0.0
            for k in range(n):
                new[k] = x[k] + step[k]
                longest = max(longest, abs(step[k]))
            if longest < _SHORT or slope(new, at, there)[0] >= value:
                _copy(x, new)
            gain = min(gain, 0.5 * tolerance)
            break
        length, higher = 1.0, False
        for _ in range(_MAX_HALVINGS):
            _copy(new, x)
            _add(new, length, step)
            found, size = slope(new, at, there)
            n_slopes += 1
            if found >= value + 1e-4 * length * rise - _EPSILON * size:
                higher = True
                break
            bend = value + length * rise - found  # half the curvature of the parabola through both
            best = 0.5 * rise * length * length / bend if bend > 0.0 else 0.0
            length = min(max(best, 0.1 * length), 0.5 * length)
        if not higher:
            break
        taken += 1
        k = stored % memory
        for j in range(n):
            moves[k, j] = new[j] - x[j]
            turns[k, j] = here[j] - there[j]
        bend = _dot(moves[k], turns[k])
        if bend > 1e-12 * math.sqrt(_dot(moves[k], moves[k]) * _dot(turns[k], turns[k])):
            scale[k] = 1.0 / bend
            stored += 1
        _copy(x, new)
        _copy(here, there)
        value = found
    return gain, taken, size
