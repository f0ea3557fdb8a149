"""Kernels of the cumulative incidence curves: Aalen-Johansen on cells, unit bootstrap, shuffles.

A cell counts the runs of one stratum that ended in one way at one step. Everything the curves need
of a corpus, or of a resampled corpus, is its table of cells, so that a replicate costs one pass
over the rows (unit, cell, count) and one over the cells.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = ["incidence_of_table", "permuted_scores", "resampled_curves"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@kernel
def incidence_of_table(table: Floats, success: Floats, failure: Floats, borrowed: Floats) -> None:
    """Fill both curves from a table of shape (n_strata, 3, n_knots): censored, success, failure.

    The Aalen-Johansen increment S(d-) e(d) / n(d) is written as e(d) / (N G(d-)), with G the
    product-limit curve of censoring: n(d) = N S(d-) G(d-) makes them equal, and without censoring
    the sums stay whole numbers, so that the curve is the empirical share to the last bit.
    A stratum with no run left at risk but not all its runs ended goes on with the hazards of all
    runs at risk; `borrowed` is the share of runs for which that is so.
    """
    n_strata, _, n_knots = table.shape
    at_risk = np.zeros(n_strata)
    uncut = np.ones(n_strata)
    done = np.zeros((n_strata, 2))
    total = 0.0
    for s in range(n_strata):
        at_risk[s] = table[s].sum()
        total += at_risk[s]
    size = at_risk.copy()
    for k in range(n_knots):
        pooled = 0.0
        e1 = 0.0
        e2 = 0.0
        for s in range(n_strata):
            pooled += at_risk[s]
            e1 += table[s, 1, k]
            e2 += table[s, 2, k]
        sum1 = 0.0
        sum2 = 0.0
        lent = 0.0
        for s in range(n_strata):
            if at_risk[s] > 0.0:
                done[s, 0] += table[s, 1, k] / uncut[s]
                done[s, 1] += table[s, 2, k] / uncut[s]
                stay = at_risk[s] - table[s, 1, k] - table[s, 2, k]
                if stay > 0.0:
                    uncut[s] *= 1.0 - table[s, 0, k] / stay
                at_risk[s] = stay - table[s, 0, k]
            else:
                left = size[s] - done[s, 0] - done[s, 1]
                if left > 1e-9 * size[s]:
                    lent += left
                    if pooled > 0.0:
                        done[s, 0] += left * e1 / pooled
                        done[s, 1] += left * e2 / pooled
            sum1 += done[s, 0]
            sum2 += done[s, 1]
        success[k] = min(sum1 / total, 1.0) if total > 0.0 else 0.0
        failure[k] = min(sum2 / total, 1.0) if total > 0.0 else 0.0
        borrowed[k] = lent / total if total > 0.0 else 0.0


@kernel
def resampled_curves(
    rng: np.random.Generator,
    row_offsets: Ints,
    row_cell: Ints,
    row_count: Floats,
    table: Floats,
    success: Floats,
    failure: Floats,
) -> None:
    """Fill one replicate a row of `success` and `failure`: units drawn with replacement.

    `table`, of shape (n_strata, 3, n_knots), is working space; unit u owns the rows
    ``row_offsets[u]:row_offsets[u + 1]``.
    """
    n_units = row_offsets.size - 1
    times = np.zeros(n_units, np.int32)
    flat = table.reshape(table.size)
    borrowed = np.empty(success.shape[1])
    for b in range(success.shape[0]):
        times[:] = 0
        flat[:] = 0.0
        for _ in range(n_units):
            times[int(rng.random() * n_units)] += 1
        for u in range(n_units):
            if times[u] > 0:
                for row in range(row_offsets[u], row_offsets[u + 1]):
                    flat[row_cell[row]] += times[u] * row_count[row]
        incidence_of_table(table, success[b], failure[b], borrowed)


@kernel
def permuted_scores(
    rng: np.random.Generator, offsets: Ints, label: Floats, score: Floats, out: Floats
) -> None:
    """Fill each row of `out` with sum(label * score) after shuffling `label` inside each group.

    `label` is overwritten; `score` has shape (n_items, n_columns).
    """
    for b in range(out.shape[0]):
        out[b, :] = 0.0
        for g in range(offsets.size - 1):
            start = offsets[g]
            for i in range(offsets[g + 1] - 1, start, -1):
                j = start + int(rng.random() * (i - start + 1))
                label[i], label[j] = label[j], label[i]
        for i in range(label.size):
            for c in range(score.shape[1]):
                out[b, c] += label[i] * score[i, c]
