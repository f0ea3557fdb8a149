"""Standard errors of a chain's figures by linearisation: the closed form that checks the draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.absorbing import AbsorbingChain

__all__ = ["DeltaErrors", "delta_errors"]

Floats = npt.NDArray[np.float64]


class DeltaErrors(NamedTuple):
    """Standard errors of a chain's figures by linearisation."""

    success_within: Floats
    failure_within: Floats
    success_ever: float
    failure_ever: float
    mean_steps: float
    restricted_mean: float


def delta_errors(
    chain: AbsorbingChain,
    row_totals: Floats,
    n_runs: int,
    horizon: int,
    *,
    observed: int | None = None,
) -> DeltaErrors:
    """Give the standard errors of figures when row i rests on so many independent events.

    Parameters
    ----------
    chain : AbsorbingChain
        The chain; every state that runs can be in leads to an exit.
    row_totals : ndarray of shape (n_states,)
        Events behind each row; a row without any is taken as known.
    n_runs : int
        Runs behind the start.
    horizon : int
        Last d of the curves.
    observed : int, optional
        Limit of the restricted mean; the horizon by default.

    Notes
    -----
    A figure f of the table has var f = sum_i var_i, where row i gives
    (sum_j p_ij g_ij^2 - (sum_j p_ij g_ij)^2) / c_i with g = df/dp, and the start likewise. For
    R_inf, g_i = v_i (h, 1, 0) with v = initial' N the visits and h = N R+ the values; for R(d),
    g_i = sum_{a<d} (initial' Q^a)_i (r_{d-1-a}, 1, 0) with r_k the success within k steps.
    """
    m = chain.n_states
    rows = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    start = np.concatenate((chain.initial, [chain.initial_success, chain.initial_failure]))

    def error(gradient: Floats, first: Floats) -> float:
        spread = (rows * gradient**2).sum(axis=1) - (rows * gradient).sum(axis=1) ** 2
        variance = np.divide(spread, row_totals, out=np.zeros(m), where=row_totals > 0.0).sum()
        variance += (start @ first**2 - (start @ first) ** 2) / max(n_runs, 1)
        return float(np.sqrt(max(variance, 0.0)))

    last = max(horizon, observed or 0)
    masses = np.empty((last + 1, m))
    masses[0] = chain.initial
    for a in range(last):
        masses[a + 1] = masses[a] @ chain.transient

    def curve(exits: Floats, column: int) -> list[float]:
        within = np.zeros((horizon + 1, m))
        for k in range(horizon):
            within[k + 1] = exits + chain.transient @ within[k]
        atom = np.zeros(2)
        atom[column] = 1.0
        errors = []
        for d in range(horizon + 1):
            gradient = np.zeros((m, m + 2))
            gradient[:, :m] = masses[:d].T @ within[:d][::-1]
            gradient[:, m + column] = masses[:d].sum(axis=0)
            errors.append(error(gradient, np.concatenate((within[d], atom))))
        return errors

    def forever(values: Floats, ends: tuple[float, float]) -> float:
        gradient = chain.expected_visits[:, None] * np.concatenate((values, ends))
        return error(gradient, np.concatenate((values, ends)))

    limit = horizon if observed is None else observed
    lasting = np.zeros((limit + 1, m))
    for k in range(limit):
        lasting[k + 1] = 1.0 + chain.transient @ lasting[k]
    gradient = np.zeros((m, m + 2))
    gradient[:, :m] = masses[:limit].T @ lasting[:limit][::-1]
    return DeltaErrors(
        success_within=np.array(curve(chain.to_success, 0)),
        failure_within=np.array(curve(chain.to_failure, 1)),
        success_ever=forever(chain.values, (1.0, 0.0)),
        failure_ever=forever(chain.fundamental @ chain.to_failure, (0.0, 1.0)),
        mean_steps=forever(chain.fundamental.sum(axis=1), (0.0, 0.0)),
        restricted_mean=error(gradient, np.append(lasting[limit], [0.0, 0.0])),
    )
