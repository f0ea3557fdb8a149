"""Slow and obvious versions for the progress-dependent chain: per step, per path, per run."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from sojourn.sequences import CENSORED, StateSequences

Floats = npt.NDArray[np.float64]


def penalised_loss(
    sequences: StateSequences,
    intercept: Floats,
    spline: Floats,
    state_spline: Floats,
    *,
    basis: Floats,
    prior: Floats,
    move: float,
    end: float,
    by_state: float,
) -> float:
    """Minus the log posterior, one step of one run after the other; all events possible."""
    m = sequences.n_states
    total = 0.0
    for r in range(sequences.n_runs):
        path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]]
        for t, here in enumerate(path):
            x = basis[min(t, basis.shape[0] - 1)]
            eta = intercept[here] + spline @ x + state_spline[here] @ x
            p = np.exp(eta - eta.max())
            p /= p.sum()
            if t + 1 < path.size:
                total += np.log(p[path[t + 1]])
            elif sequences.event[r] == CENSORED:
                total += np.log(p[:m].sum())
            else:
                total += np.log(p[m + sequences.event[r] - 1])
    for i in range(m):
        p = np.exp(intercept[i]) / np.exp(intercept[i]).sum()
        total += float(prior[i] @ np.log(p))
    about = spline - spline[:m].mean(axis=0)
    total -= 0.5 * move * float((about[:m] ** 2).sum()) + 0.5 * end * float((about[m:] ** 2).sum())
    total -= 0.5 * by_state * float((state_spline**2).sum())
    return -total


def fit_by_steps(sequences: StateSequences, fit: Any) -> Floats:
    """Rows at all levels of the fit's basis, by a quasi-Newton search from zero."""
    m, q = sequences.n_states, fit.basis.shape[1]
    move, end, state = fit.penalty
    prior = fit.prior.masses(np.vstack((fit.starts, fit.cells.sum(axis=1))))[1]
    sizes = [m * (m + 2), (m + 2) * q, m * (m + 2) * q if fit.by_state else 0]

    def parts(theta: Floats) -> tuple[Floats, Floats, Floats]:
        a, c, d = np.split(theta, np.cumsum(sizes)[:2])
        own = d.reshape(m, m + 2, q) if fit.by_state else np.zeros((m, m + 2, q))
        return a.reshape(m, m + 2), c.reshape(m + 2, q), own

    def loss(theta: Floats) -> float:
        return penalised_loss(
            sequences,
            *parts(theta),
            basis=fit.basis,
            prior=prior,
            move=move,
            end=end,
            by_state=state if fit.by_state else 0.0,
        )

    found = minimize(loss, np.zeros(sum(sizes)), method="BFGS", options={"gtol": 1e-6})
    a, c, d = parts(found.x)
    eta = a + (fit.basis @ c.T)[:, None] + np.einsum("gq,ijq->gij", fit.basis, d)
    p = np.exp(eta - eta.max(axis=2, keepdims=True))
    return p / p.sum(axis=2, keepdims=True)


def within_by_paths(initial: Floats, rows: Floats, horizon: int) -> Floats:
    """Cumulative incidence of success and failure by enumeration of every path."""
    m = rows.shape[1]
    law = np.zeros((2, horizon + 1))
    law[:, 0] = initial[m:]
    for length in range(1, horizon + 1):
        for path in product(range(m), repeat=length):
            p = initial[path[0]]
            for t in range(1, length):
                p *= rows[min(t, rows.shape[0]) - 1, path[t - 1], path[t]]
            law[:, length] += p * rows[min(length, rows.shape[0]) - 1, path[-1], m:]
    return np.cumsum(law, axis=1)
