"""Compiled loops of the chain of order k and of the semi-Markov chain.

Both are run forward on a larger state than the one a log shows: the observed context (the last k
states, or as many of them as were seen together), or the state with the age of the visit. The
kernels check nothing; their callers do. Columns of rows are the m next states, success, failure.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = [
    "backoff_rows",
    "fit_laws",
    "law_hazard",
    "law_hazards",
    "machine_curves",
    "simulate_machine",
    "simulate_visits",
    "visit_curves",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
States = npt.NDArray[np.int32]
Events = npt.NDArray[np.int8]


@kernel
def backoff_rows(
    tables: Floats, parent: States, depth: States, kappa: Floats, survived: bool, rows: Floats
) -> None:
    """Fill the rows of contexts deeper than 1, parents before children.

    p(. | h) = (c(h, .) + kappa p(. | h')) / (c(h) + kappa), h' without the oldest state. A cut is
    spread over the moves that were seen from the context; where none was, as its parent moves.
    Shapes: tables (B, n, m + 3), rows (B, n, m + 2) with the rows of depth 1 in place.
    """
    m = rows.shape[2] - 2
    for b in range(tables.shape[0]):
        for u in range(tables.shape[1]):
            if depth[u] < 2:
                continue
            mass = kappa[depth[u] - 1]
            back = parent[u]
            moves = 0.0
            total = mass
            for j in range(m + 2):
                total += tables[b, u, j]
                if j < m:
                    moves += tables[b, u, j]
            cut = tables[b, u, m + 2] if survived else 0.0
            seen = moves > 0.0
            if not seen:
                for j in range(m):
                    moves += rows[b, back, j]
            if moves <= 0.0:
                cut = 0.0
            total += cut
            for j in range(m + 2):
                value = tables[b, u, j] + mass * rows[b, back, j]
                if j < m and cut > 0.0:
                    value += cut * (tables[b, u, j] if seen else rows[b, back, j]) / moves
                rows[b, u, j] = value / total


@kernel
def machine_curves(
    start: Floats, entry: States, following: States, rows: Floats, curves: Floats
) -> None:
    """Run machines over contexts forward; curves (B, 2, horizon + 1) are filled.

    A run starts in context entry[s] with probability start[b, s], ends at once with the last two
    columns of start; from context u it moves to following[u, j] with probability rows[b, u, j].
    """
    n_corpora, n, width = rows.shape
    m = width - 2
    horizon = curves.shape[2] - 1
    mass = np.empty(n)
    further = np.empty(n)
    for b in range(n_corpora):
        mass[:] = 0.0
        for s in range(m):
            mass[entry[s]] += start[b, s]
        success = start[b, m]
        failure = start[b, m + 1]
        curves[b, 0, 0] = success
        curves[b, 1, 0] = failure
        for d in range(1, horizon + 1):
            further[:] = 0.0
            for u in range(n):
                here = mass[u]
                if here == 0.0:
                    continue
                success += here * rows[b, u, m]
                failure += here * rows[b, u, m + 1]
                for j in range(m):
                    further[following[u, j]] += here * rows[b, u, j]
            curves[b, 0, d] = success
            curves[b, 1, d] = failure
            mass, further = further, mass


@kernel
def _draw(rng: np.random.Generator, row: Floats) -> int:
    """Draw a column by the inverse of its distribution; rounding falls on the last positive one."""
    u = rng.random()
    last = 0
    for j in range(row.size):
        if row[j] > 0.0:
            u -= row[j]
            last = j
            if u < 0.0:
                return j
    return last


@kernel
def _append(path: States, n: int, state: int) -> States:
    if n == path.size:
        wider = np.empty(2 * n, dtype=np.int32)
        wider[:n] = path
        path = wider
    path[n] = state
    return path


@kernel
def simulate_machine(
    rng: np.random.Generator,
    start: Floats,
    entry: States,
    following: States,
    rows: Floats,
    n_runs: int,
    max_steps: int,
) -> tuple[States, Integers, Events, Integers]:
    """Draw runs of one machine; also the context in which each ended, -1 without a step."""
    m = rows.shape[1] - 2
    offsets = np.zeros(n_runs + 1, dtype=np.int64)
    event = np.zeros(n_runs, dtype=np.int8)
    last = np.full(n_runs, -1, dtype=np.int64)
    path = np.empty(16 + 16 * n_runs, dtype=np.int32)
    n = 0
    for r in range(n_runs):
        length = 0
        context = -1
        while True:
            j = _draw(rng, start) if context < 0 else _draw(rng, rows[context])
            if j >= m:
                event[r] = j - m + 1
                break
            if length >= max_steps:
                break
            context = entry[j] if context < 0 else following[context, j]
            path = _append(path, n, j)
            n += 1
            length += 1
        last[r] = context
        offsets[r + 1] = n
    return path[:n].copy(), offsets, event, last


@kernel
def visit_curves(start: Floats, hazard: Floats, rows: Floats, curves: Floats) -> None:
    """Run semi-Markov chains forward on (state, age); curves (B, 2, horizon + 1) are filled.

    hazard[b, i, a - 1] is the probability that a visit to i which has lasted a steps is over, its
    last column that of all greater ages; rows[b, i] is what follows a visit, start[b] the start.
    """
    n_corpora, m, ages = hazard.shape
    horizon = curves.shape[2] - 1
    mass = np.empty((m, ages))
    entries = np.empty(m)
    over = np.empty(m)
    for b in range(n_corpora):
        mass[:] = 0.0
        success = start[b, m]
        failure = start[b, m + 1]
        for i in range(m):
            mass[i, 0] = start[b, i]
        curves[b, 0, 0] = success
        curves[b, 1, 0] = failure
        for d in range(1, horizon + 1):
            entries[:] = 0.0
            oldest = min(d, ages)
            for i in range(m):
                ended = 0.0
                # From old to young, so that each age moves up before the next takes its place.
                stays = 0.0
                if oldest == ages:
                    ended = mass[i, ages - 1] * hazard[b, i, ages - 1]
                    stays = mass[i, ages - 1] - ended
                for a in range(min(oldest, ages - 1) - 1, -1, -1):
                    leaves = mass[i, a] * hazard[b, i, a]
                    mass[i, a + 1] = mass[i, a] - leaves
                    ended += leaves
                if oldest == ages:
                    if ages == 1:
                        mass[i, 0] = stays
                    else:
                        mass[i, ages - 1] += stays
                if ages > 1:
                    mass[i, 0] = 0.0
                over[i] = ended
            for i in range(m):
                ended = over[i]
                if ended == 0.0:
                    continue
                success += ended * rows[b, i, m]
                failure += ended * rows[b, i, m + 1]
                for j in range(m):
                    entries[j] += ended * rows[b, i, j]
            for i in range(m):
                mass[i, 0] += entries[i]
            curves[b, 0, d] = success
            curves[b, 1, d] = failure


@kernel
def simulate_visits(
    rng: np.random.Generator,
    start: Floats,
    hazard: Floats,
    rows: Floats,
    n_runs: int,
    max_steps: int,
) -> tuple[States, Integers, Events]:
    """Draw runs of one semi-Markov chain, visit by visit."""
    m, ages = hazard.shape
    offsets = np.zeros(n_runs + 1, dtype=np.int64)
    event = np.zeros(n_runs, dtype=np.int8)
    path = np.empty(16 + 16 * n_runs, dtype=np.int32)
    n = 0
    for r in range(n_runs):
        length = 0
        j = _draw(rng, start)
        while j < m and length < max_steps:
            i = j
            age = 0
            going = True
            while going and length < max_steps:
                path = _append(path, n, i)
                n += 1
                length += 1
                going = rng.random() >= hazard[i, min(age, ages - 1)]
                age += 1
            if going:
                break
            j = _draw(rng, rows[i])
        if j >= m:
            event[r] = j - m + 1
        offsets[r + 1] = n
    return path[:n].copy(), offsets, event


@kernel
def law_hazard(kind: int, shape: float, level: float, log_end: Floats, log_stay: Floats) -> None:
    """Fill log h(a) and log(1 - h(a)) at ages 1 .. A of a sojourn law.

    kind 0, negative binomial from 1: `shape` = log r, `level` = log of the mean less one.
    kind 1, discrete Weibull of type I: `shape` = log beta, `level` = log of the scale, so that
    P(D > a) = exp(-(a / scale)^beta).
    """
    ages = log_end.size
    if kind == 1:
        beta = math.exp(shape)
        before = 0.0
        for a in range(ages):
            reached = math.exp(beta * (math.log(a + 1.0) - level))
            step = reached - before
            before = reached
            log_stay[a] = -step
            log_end[a] = math.log(max(-math.expm1(-step), 1e-300))
        return
    r = math.exp(shape)
    mean = math.exp(level)
    log_p = math.log(r) - math.log(r + mean)
    go = mean / (r + mean)
    density = math.exp(r * log_p)
    # Where hardly anything is left the difference is noise, and the last hazard is kept.
    left = 1.0
    h = density
    for a in range(ages):
        if left > 1e-9:
            h = min(max(density / left, 1e-300), 1.0 - 1e-15)
            left -= density
            density *= go * (a + r) / (a + 1.0)
        log_end[a] = math.log(h)
        log_stay[a] = math.log1p(-h)


@kernel
def _law_loss(
    kind: int,
    shape: float,
    level: float,
    ended: Floats,
    stay: Floats,
    log_end: Floats,
    log_stay: Floats,
) -> float:
    """Penalised negative log likelihood; log shape has a standard normal prior."""
    if abs(shape) > 5.0 or abs(level) > 12.0 or (kind == 1 and (abs(shape) > 3.0 or level < -3.0)):
        return np.inf
    law_hazard(kind, shape, level, log_end, log_stay)
    loss = 0.5 * shape * shape
    for a in range(ended.size):
        loss -= ended[a] * log_end[a] + stay[a] * log_stay[a]
    return loss


@kernel
def fit_laws(kind: int, ended: Floats, stay: Floats, theta: Floats) -> None:
    """Newton's method for the two parameters of each law, from theta (B, m, 2), in place.

    Derivatives are central differences; a direction that does not descend is replaced by the
    gradient, and steps are halved until the loss falls.
    """
    n_corpora, m, ages = ended.shape
    log_end = np.empty(ages)
    log_stay = np.empty(ages)
    e = 1e-4
    for b in range(n_corpora):
        for i in range(m):
            n = ended[b, i]
            c = stay[b, i]
            x = theta[b, i, 0]
            y = theta[b, i, 1]
            here = _law_loss(kind, x, y, n, c, log_end, log_stay)
            for _ in range(60):
                right = _law_loss(kind, x + e, y, n, c, log_end, log_stay)
                left = _law_loss(kind, x - e, y, n, c, log_end, log_stay)
                up = _law_loss(kind, x, y + e, n, c, log_end, log_stay)
                down = _law_loss(kind, x, y - e, n, c, log_end, log_stay)
                corner = _law_loss(kind, x + e, y + e, n, c, log_end, log_stay)
                other = _law_loss(kind, x - e, y - e, n, c, log_end, log_stay)
                gx = (right - left) / (2.0 * e)
                gy = (up - down) / (2.0 * e)
                if not (math.isfinite(gx) and math.isfinite(gy)):
                    break
                xx = (right - 2.0 * here + left) / (e * e)
                yy = (up - 2.0 * here + down) / (e * e)
                xy = (corner + other - right - left - up - down + 2.0 * here) / (2.0 * e * e)
                det = xx * yy - xy * xy
                if xx > 0.0 and det > 1e-8 * abs(xx * yy):
                    dx = -(yy * gx - xy * gy) / det
                    dy = -(xx * gy - xy * gx) / det
                else:
                    dx = -gx / max(abs(xx), 1.0)
                    dy = -gy / max(abs(yy), 1.0)
                size = math.sqrt(dx * dx + dy * dy)
                if size > 2.0:
                    dx *= 2.0 / size
                    dy *= 2.0 / size
                step = 1.0
                moved = False
                while step > 1e-9:
                    there = _law_loss(kind, x + step * dx, y + step * dy, n, c, log_end, log_stay)
                    if there < here:
                        moved = True
                        break
                    step *= 0.5
                if not moved:
                    break
                x += step * dx
                y += step * dy
                fell = here - there
                here = there
                if fell < 1e-12 * (1.0 + abs(here)):
                    break
            theta[b, i, 0] = x
            theta[b, i, 1] = y


@kernel
def law_hazards(kind: int, theta: Floats, hazard: Floats) -> None:
    """Fill the hazards (B, m, ages) of laws with parameters theta (B, m, 2)."""
    ages = hazard.shape[2]
    log_end = np.empty(ages)
    log_stay = np.empty(ages)
    for b in range(hazard.shape[0]):
        for i in range(hazard.shape[1]):
            law_hazard(kind, theta[b, i, 0], theta[b, i, 1], log_end, log_stay)
            for a in range(ages):
                hazard[b, i, a] = math.exp(log_end[a])
