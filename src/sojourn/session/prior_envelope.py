"""How far the figures of a hidden-state posterior move when its prior moves in a box.

The outcomes depend on theta and A only, and the priors of mean, concentration and dwell are
exponential families, so that draws under one prior h0 become draws under another h by the weights::

    log w = (h - h0) . phi,  phi = (log mu, log(1 - mu), log nu, -nu, row statistic of A)

and dE[f] / dh = Cov(f, phi). Corners of the box come first, then bounded ascent from the best of
them. Weights reach only so far: where Pareto k passes 0.7 a value is not to be trusted, and is
sampled anew under that prior if the data are given. The bounds are inner ones: no search over a box
is proved to be global.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int
from sojourn.session.hierarchical import PriorBox
from sojourn.session.hmm import HMMSpec
from sojourn.session.posterior import HMMPosterior
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.stats.diagnostics import pareto_smoothed
from sojourn.task_sequences import TaskSequences

__all__ = ["PriorBound", "PriorEnvelope", "prior_envelope"]

FloatArray = npt.NDArray[np.float64]

_MAX_PARETO_K = 0.7
_TINY = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorBound:
    """One end of an envelope.

    Attributes
    ----------
    value : float
        Posterior mean of the figure.
    spec : HMMSpec
        The prior that attains it.
    pareto_k : float
        Of the weights that lead there; -inf where the value was sampled anew.
    """

    value: float
    spec: HMMSpec = field(repr=False)
    pareto_k: float

    @property
    def reliable(self) -> bool:
        """Whether Pareto k is at most 0.7."""
        return self.pareto_k <= _MAX_PARETO_K


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorEnvelope:
    """The range of E[R(n)] over a box of priors; an inner approximation.

    Attributes
    ----------
    base : float
        The figure under the prior that was fitted.
    low, high : PriorBound
        The ends found.
    n_out_of_reach : int
        Corners of the box whose Pareto k is above 0.7, out of `n_corners`.
    n_corners : int
        Corners looked at.
    """

    base: float
    low: PriorBound
    high: PriorBound
    n_out_of_reach: int
    n_corners: int

    @property
    def reliable(self) -> bool:
        """Whether both ends may be trusted."""
        return self.low.reliable and self.high.reliable

    def __str__(self) -> str:
        state = "reliable" if self.reliable else "NOT reliable: weights too uneven"
        return (
            f"{state}; {self.n_out_of_reach} of {self.n_corners} corners out of reach; "
            f"{self.base:.3f} moves from {self.low.value:.3f} to {self.high.value:.3f}"
        )


class _Family(NamedTuple):
    """Draws as an exponential family of the prior."""

    phi: FloatArray  # (n_features, n_draws)
    figure: FloatArray  # (n_draws,)
    origin: FloatArray  # (n_features,)


def prior_envelope(
    posterior: HMMPosterior,
    *,
    box: PriorBox | None = None,
    dwell: tuple[float, float] | None = None,
    n: int = 1,
    start: str = "continuing",
    weights: npt.ArrayLike | None = None,
    sequences: TaskSequences | None = None,
    settings: SamplerSettings | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> PriorEnvelope:
    """Return the range of E[R(n)] over a box of priors.

    Parameters
    ----------
    posterior : HMMPosterior
        Draws under the prior in the middle of it all.
    box : PriorBox, optional
        Of the priors of mean and concentration; the published one by default.
    dwell : (low, high), optional
        Expected stays in a state, in tasks, that the transition prior may state; fixed by default.
        Not for a prior given as ``transition_prior``, nor for one state.
    n : int
        Number of tasks.
    start : str
        Where they start.
    weights : array_like of shape (n_subdomains,), optional
        Shares of the subdomains; the posterior's by default.
    sequences : TaskSequences, optional
        The data: with them an end whose weights are too uneven is sampled anew.
    settings : SamplerSettings, optional
        How long to sample then.
    rng : Generator, int, SeedSequence or None
        Source of randomness then.

    Returns
    -------
    PriorEnvelope

    Raises
    ------
    ValueError
        If `dwell` is no interval above 1, or does not apply.
    """
    chosen = PriorBox() if box is None else box
    bounds = [*chosen.bounds, *_leave_bounds(posterior.spec, dwell)]
    run = posterior.run_draws(check_positive_int(n, name="n"), start=start, weights=weights)
    family = _family(posterior, run[..., n - 1].ravel(), with_rows=dwell is not None)
    corners = [np.array(c) for c in itertools.product(*bounds)]
    at_corners = [_weighed(family, corner) for corner in corners]
    ends = []
    for sign in (1.0, -1.0):
        h = _search(family, corners, at_corners, bounds, sign)
        value, k = _weighed(family, h)
        spec = _spec_at(posterior.spec, h)
        if k > _MAX_PARETO_K and sequences is not None:
            anew = sample(
                sequences, spec, weights=posterior.weights, settings=settings, rng=rng
            ).run_draws(n, start=start, weights=weights)
            value, k = float(anew[..., n - 1].mean()), -math.inf
        ends.append(PriorBound(value=value, spec=spec, pareto_k=k))
    return PriorEnvelope(
        base=float(family.figure.mean()),
        low=ends[0],
        high=ends[1],
        n_out_of_reach=sum(k > _MAX_PARETO_K for _, k in at_corners),
        n_corners=len(corners),
    )


def _leave_bounds(spec: HMMSpec, dwell: tuple[float, float] | None) -> list[tuple[float, float]]:
    """Return the bounds of 1 / dwell: the transition prior is linear in it."""
    if dwell is None:
        return []
    if spec.n_states == 1 or spec.transition_prior is not None:
        raise ValueError("dwell needs more than one state and a prior stated by its dwell")
    low, high = dwell
    if not 1.0 < low <= high < math.inf:
        raise ValueError(f"dwell must be an interval above 1 task; got {dwell}")
    return [(1.0 / high, 1.0 / low)]


def _family(posterior: HMMPosterior, figure: FloatArray, *, with_rows: bool) -> _Family:
    mu, nu = posterior.mean.ravel(), posterior.concentration.ravel()
    phi = [
        np.log(np.maximum(mu, _TINY)),
        np.log(np.maximum(1.0 - mu, 1e-17)),
        np.log(np.maximum(nu, _TINY)),
        -nu,
    ]
    origin = list(posterior.spec.hyper_prior)
    if with_rows:
        spec = posterior.spec
        K = spec.n_states
        logs = np.log(np.maximum(posterior.transition.reshape(-1, K, K), _TINY))
        stay = np.trace(logs, axis1=1, axis2=2)
        leave = logs.sum(axis=(1, 2)) - stay
        phi.append(spec.row_weight * (leave / (K - 1) - stay))
        origin.append(1.0 / spec.expected_dwell)
    return _Family(np.stack(phi), figure, np.array(origin))


def _weighed(family: _Family, h: FloatArray) -> tuple[float, float]:
    """Return the figure's mean under prior h by smoothed weights, and their Pareto k."""
    weight, k = pareto_smoothed((h - family.origin) @ family.phi)
    return float(weight @ family.figure), k


def _raw(family: _Family, h: FloatArray) -> tuple[float, FloatArray]:
    """Return the figure's mean under prior h by raw weights, and its gradient Cov(f, phi)."""
    log_w = (h - family.origin) @ family.phi
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    mean = float(w @ family.figure)
    return mean, np.asarray(family.phi @ (w * family.figure) - mean * (family.phi @ w))


def _search(
    family: _Family,
    corners: list[FloatArray],
    at_corners: list[tuple[float, float]],
    bounds: list[tuple[float, float]],
    sign: float,
) -> FloatArray:
    """Return the prior with the smallest (sign 1) or largest (sign -1) figure found."""
    from scipy.optimize import minimize

    order = np.argsort([sign * value for value, _ in at_corners])
    best: FloatArray = corners[order[0]]
    best_value = sign * at_corners[order[0]][0]
    for i in order[:3]:
        found = minimize(
            lambda h: tuple(sign * part for part in _raw(family, h)),
            corners[i],
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
        )
        value = sign * _weighed(family, found.x)[0]
        if value < best_value:
            best, best_value = np.asarray(found.x, dtype=np.float64), value
    return best


def _spec_at(spec: HMMSpec, h: FloatArray) -> HMMSpec:
    a, b, c, d = (float(v) for v in h[:4])
    moved = replace(spec, mean_prior=(a, b), concentration_prior=(c, d))
    return replace(moved, expected_dwell=1.0 / float(h[4])) if h.size == 5 else moved
