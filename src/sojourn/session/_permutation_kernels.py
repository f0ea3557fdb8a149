"""Kernels of the dependence tests: shuffles within strata, swaps that keep both margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn._numba import kernel

__all__: list[str] = []

Array = Any  # arrays inside kernels: the functions that call them have checked what they are


@kernel
def memory_statistics(e: Array, offsets: Array, decays: Array, out: Array) -> None:
    """Fill out[i] = sum_t e_t h_t, h_{t+1} = decay_i h_t + e_t, starting anew in each session."""
    for i in range(decays.size):
        total = 0.0
        for r in range(offsets.size - 1):
            h = 0.0
            for t in range(offsets[r], offsets[r + 1]):
                total += e[t] * h
                h = decays[i] * h + e[t]
        out[i] = total


@kernel
def detrend(e: Array, trend: Array, stratum: Array, slope: Array, out: Array) -> None:
    """Fill out with e less its projection on `trend`, which has unit length in each stratum."""
    slope[:] = 0.0
    for t in range(e.size):
        if stratum[t] >= 0:
            slope[stratum[t]] += e[t] * trend[t]
    for t in range(e.size):
        out[t] = e[t] - slope[stratum[t]] * trend[t] if stratum[t] >= 0 else 0.0


@kernel
def session_statistic(e: Array, offsets: Array, known: Array) -> float:
    """Return sum over sessions of (sum of residuals)^2 / number of known outcomes."""
    total = 0.0
    for r in range(offsets.size - 1):
        part, n = 0.0, 0
        for t in range(offsets[r], offsets[r + 1]):
            part += e[t]
            n += known[t]
        if n:
            total += part * part / n
    return total


@kernel
def shuffle_units(
    rng: Any,
    e: Array,
    members: Array,
    unit_first: Array,
    unit_size: Array,
    bounds: Array,
    order: Array,
    out: Array,
) -> None:
    """Permute units within strata and lay their values out over the stratum's places in order.

    Stratum k holds units bounds[k]:bounds[k + 1]; unit i holds ``members[unit_first[i]:]`` for
    unit_size[i] places. Without groups every unit is one task.
    """
    for k in range(bounds.size - 1):
        low, high = bounds[k], bounds[k + 1]
        for i in range(high - 1, low, -1):
            j = low + int(rng.random() * (i - low + 1))
            order[i], order[j] = order[j], order[i]
        place = unit_first[low] if high > low else 0
        for i in range(low, high):
            unit = order[i]
            for m in range(unit_size[unit]):
                out[members[place]] = e[members[unit_first[unit] + m]]
                place += 1


@kernel
def permutation_draws(
    rng: Any,
    e: Array,
    offsets: Array,
    members: Array,
    unit_first: Array,
    unit_size: Array,
    bounds: Array,
    stratum: Array,
    trend: Array,
    decays: Array,
    plain: Array,
    beyond: Array,
) -> None:
    """Fill row 0 with the observed statistics, the others with those of shuffled residuals."""
    n_strata = bounds.size - 1
    order = np.arange(unit_first.size)
    shuffled = e.copy()
    work = np.empty_like(e)
    slope = np.empty(n_strata)
    for d in range(plain.shape[0]):
        if d:
            shuffle_units(rng, e, members, unit_first, unit_size, bounds, order, shuffled)
        memory_statistics(shuffled, offsets, decays, plain[d])
        detrend(shuffled, trend, stratum, slope, work)
        memory_statistics(work, offsets, decays, beyond[d])


@kernel
def session_draws(
    rng: Any,
    e: Array,
    offsets: Array,
    known: Array,
    members: Array,
    unit_first: Array,
    unit_size: Array,
    bounds: Array,
    out: Array,
) -> None:
    """Fill out with the session statistic of the data and of outcomes shuffled across sessions."""
    order = np.arange(unit_first.size)
    shuffled = e.copy()
    for d in range(out.size):
        if d:
            shuffle_units(rng, e, members, unit_first, unit_size, bounds, order, shuffled)
        out[d] = session_statistic(shuffled, offsets, known)


@kernel
def swap_margins(rng: Any, Y: Array, rows: Array, columns: Array, n_steps: int) -> None:
    """Try n_steps checkerboard swaps: both margins and the unknown cells stay as they are.

    Two known cells (rows[i], columns[i]) are drawn as opposite corners. Which cells are known never
    changes, so a swap and its reverse are equally likely.
    """
    n = rows.size
    for _ in range(n_steps):
        i = int(rng.random() * n)
        j = int(rng.random() * n)
        r, c, q, k = rows[i], columns[i], rows[j], columns[j]
        a = Y[r, c]
        if Y[q, k] != a or Y[r, k] != 1 - a or Y[q, c] != 1 - a:
            continue
        Y[r, c], Y[q, k] = 1 - a, 1 - a
        Y[r, k], Y[q, c] = a, a


@kernel
def matrix_statistics(
    Y: Array,
    offsets: Array,
    column: Array,
    expected: Array,
    trend: Array,
    decays: Array,
    plain: Array,
    beyond: Array,
) -> None:
    """Memory statistics of the residuals Y - expected, each session in its own order.

    Task t of session r is the cell Y[r, column[t]]; `trend` has unit length in each session.
    """
    plain[:] = 0.0
    beyond[:] = 0.0
    e = np.zeros(column.size)
    for r in range(offsets.size - 1):
        slope = 0.0
        for t in range(offsets[r], offsets[r + 1]):
            c = column[t]
            if Y[r, c] >= 0:
                e[t] = Y[r, c] - expected[r, c]
                slope += e[t] * trend[t]
        for i in range(decays.size):
            h, g = 0.0, 0.0
            for t in range(offsets[r], offsets[r + 1]):
                # Unknown outcomes have no residual and no trend: time passes, nothing is added.
                f = e[t] - slope * trend[t]
                plain[i] += e[t] * h
                beyond[i] += f * g
                h = decays[i] * h + e[t]
                g = decays[i] * g + f


@kernel
def margin_draws(
    rng: Any,
    Y: Array,
    rows: Array,
    columns: Array,
    offsets: Array,
    column: Array,
    expected: Array,
    trend: Array,
    decays: Array,
    n_steps: int,
    plain: Array,
    beyond: Array,
) -> None:
    """Row 0: the data; the others: swaps from a common centre, itself swapped from the data.

    The chain of swaps is reversible, so data and draws are exchangeable under the null however few
    the steps are (Besag and Clifford 1989, the parallel method).
    """
    matrix_statistics(Y, offsets, column, expected, trend, decays, plain[0], beyond[0])
    centre = Y.copy()
    swap_margins(rng, centre, rows, columns, n_steps)
    for d in range(1, plain.shape[0]):
        drawn = centre.copy()
        swap_margins(rng, drawn, rows, columns, n_steps)
        matrix_statistics(drawn, offsets, column, expected, trend, decays, plain[d], beyond[d])
