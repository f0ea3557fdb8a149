"""Curves of many chains at once, and draws of their coefficients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.process._progress_posterior import Coefficients, Data, Design, Penalty, curvature

__all__ = ["draw_coefficients", "forward"]

Floats = npt.NDArray[np.float64]


def forward(initial: Floats, rows: Floats, horizon: int) -> Floats:
    """Cumulative incidence by forward recursion, one curve pair a chain.

    initial: (n, m + 2), rows: (n, n_levels, m, m + 2); returns (n, 2, horizon + 1).
    """
    m = rows.shape[2]
    ended = np.zeros((initial.shape[0], 2, horizon + 1))
    ended[:, :, 0] = initial[:, m:]
    mass = initial[:, None, :m]
    for d in range(horizon):
        mass = mass @ rows[:, min(d, rows.shape[1] - 1)]
        ended[:, :, d + 1] = mass[:, 0, m:]
        mass = mass[:, :, :m]
    return np.minimum(np.cumsum(ended, axis=2), 1.0)


def draw_coefficients(
    at: Coefficients,
    data: Data,
    design: Design,
    penalty: Penalty,
    n_draws: int,
    source: np.random.Generator,
) -> list[Coefficients]:
    """Draw common splines, then those by state given them, then intercepts given both."""
    m, width = at.intercept.shape
    q, r = at.spline.shape[1], at.state_spline.shape[2]
    now = curvature(at, data, design, penalty, exact=True)
    solved = np.linalg.solve(now.local, now.cross)
    schur = now.common - np.einsum("mlc,mld->cd", now.cross, solved)
    common = np.zeros((n_draws, width * q))
    if q and penalty.has_splines:
        common = _normal(schur, n_draws, source)
    shift = -common @ np.swapaxes(solved, 1, 2)  # (m, n_draws, L)
    shape = np.maximum(data.masses, 1e-300)
    noise = source.standard_gamma(shape + 1.0, size=(n_draws, m, width))
    # log of a gamma of small shape a: that of shape a + 1, plus log(uniform) / a.
    uniform = source.random(size=(n_draws, m, width))
    log_noise = np.log(noise) + np.log1p(-uniform) / shape - np.log(shape)
    index = np.arange(width * (1 + r)).reshape(width, 1 + r)
    intercepts = np.where(
        data.active, at.intercept + np.where(data.active, log_noise, 0.0), -np.inf
    )
    splines = np.tile(at.state_spline, (n_draws, 1, 1, 1))
    for i in range(m):
        moved = shift[i]
        if r:
            own, each = index[:, 0], index[:, 1:].ravel()
            between = np.linalg.solve(
                now.local[i][np.ix_(own, own)], now.local[i][np.ix_(own, each)]
            )
            rest = now.local[i][np.ix_(each, each)] - now.local[i][np.ix_(each, own)] @ between
            extra = _normal(rest, n_draws, source)
            splines[:, i] += (moved[:, each] + extra).reshape(n_draws, width, r)
            moved = moved[:, own] - extra @ between.T
        intercepts[:, i] += moved
    common = common.reshape(n_draws, width, q) + at.spline
    return [Coefficients(intercepts[k], common[k], splines[k]) for k in range(n_draws)]


def _normal(precision: Floats, n_draws: int, source: np.random.Generator) -> Floats:
    """Draw from the normal law of mean zero with this precision, shape (n_draws, size)."""
    lower = np.linalg.cholesky(precision)
    noise = source.standard_normal((n_draws, precision.shape[0]))
    return np.asarray(np.linalg.solve(lower.T, noise.T).T)
