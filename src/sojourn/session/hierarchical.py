"""The hierarchical independent model (HIP) by quadrature, and its envelope over a box of priors.

Within a domain theta_j ~ Beta(mu nu, (1 - mu) nu), mu ~ Beta(a, b), nu ~ Gamma(c, rate d); outcomes
are independent given theta. On a grid over (logit mu, log nu) the posterior of theta is a finite
mixture of products of Betas, so that means, R(n) = E[p^n] with p = sum_j w_j theta_j, the evidence
and sequential predictions are sums over the grid, without Monte Carlo error. The trapezoid rule on
a smooth function that dies out at the edges converges faster than any power of the step.

Quantiles of p use draws from the mixture. The envelope moves (a, b, c, d) in a box, which touches
the weights of the grid only: corners first, then bounded ascent with the gradient
d E[f] / d h = Cov(f, d log prior / d h).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.estimates import ReliabilityCurve
from sojourn.session.base import DrawSummary, curve_from_draws, summarise
from sojourn.session.beta_mixtures import mix_cdf, moments_of_mix
from sojourn.session.hmm import check_weights
from sojourn.task_sequences import TaskSequences

__all__ = ["Envelope", "HierarchicalFit", "PriorBox", "envelope", "fit_hierarchical"]

FloatArray = npt.NDArray[np.float64]

# Cells whose weight is below this share of the largest cannot matter in double precision sums.
_NEGLIGIBLE = 35.0


class _Grid(NamedTuple):
    """Cells over (mu, nu): Beta parameters, prior-free log likelihood with the cell's area."""

    a: FloatArray  # mu nu
    b: FloatArray  # (1 - mu) nu
    log_mu: FloatArray
    log_not: FloatArray
    log_nu: FloatArray
    log_base: FloatArray  # log likelihood + log Jacobian + log area

    @property
    def features(self) -> FloatArray:
        """Sufficient statistics of the prior: log density = h . features + const, shape (4, G)."""
        return np.stack([self.log_mu, self.log_not, self.log_nu, -np.exp(self.log_nu)])


def _log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    from scipy.special import betaln

    return np.asarray(betaln(a, b))


def _cells(x: FloatArray, y: FloatArray, success: FloatArray, failure: FloatArray) -> _Grid:
    X, Y = (g.ravel() for g in np.meshgrid(x, y, indexing="ij"))
    log_mu, log_not = -np.logaddexp(0.0, -X), -np.logaddexp(0.0, X)
    a, b = np.exp(log_mu + Y), np.exp(log_not + Y)
    log_base = log_mu + log_not + Y + math.log((x[1] - x[0]) * (y[1] - y[0]))
    prior_part = _log_beta(a, b)
    for s, f in zip(success, failure, strict=True):
        if s + f > 0:
            log_base = log_base + _log_beta(a + s, b + f) - prior_part
    return _Grid(a, b, log_mu, log_not, Y, log_base)


def _log_weights(grid: _Grid, prior: FloatArray) -> FloatArray:
    """Return the log of likelihood x prior x area of each cell."""
    from scipy.special import gammaln

    a, b, c, d = prior
    log_norm = -float(_log_beta(a, b)) + c * math.log(d) - float(gammaln(c))
    # The prior densities are in mu and nu; the grid's base holds the Jacobian of both changes.
    h = np.array([a - 1.0, b - 1.0, c - 1.0, d])
    return np.asarray(grid.log_base + h @ grid.features + log_norm)


def _make_grid(
    success: FloatArray, failure: FloatArray, priors: list[FloatArray], n_points: int
) -> _Grid:
    """Find where any of the priors leaves weight, then lay the fine grid there."""
    x, y = np.linspace(-45.0, 45.0, 181), np.linspace(-45.0, 12.0, 172)
    coarse = _cells(x, y, success, failure)
    inside = np.zeros(coarse.a.size, dtype=bool)
    for prior in priors:
        w = _log_weights(coarse, prior)
        inside |= w > w.max() - _NEGLIGIBLE
    rows, columns = np.nonzero(inside.reshape(x.size, y.size))
    step_x, step_y = x[1] - x[0], y[1] - y[0]
    fine_x = np.linspace(x[rows.min()] - step_x, x[rows.max()] + step_x, n_points)
    fine_y = np.linspace(y[columns.min()] - step_y, y[columns.max()] + step_y, n_points)
    return _cells(fine_x, fine_y, success, failure)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HierarchicalFit:
    """Posterior of the hierarchical independent model as a mixture over a grid of (mu, nu).

    Attributes
    ----------
    subdomain_names : tuple of str
        Names of the subdomains.
    success, failure : ndarray of shape (n_subdomains,)
        The counts.
    weights : ndarray of shape (n_subdomains,)
        Shares of the subdomains in the work ahead, unless a method is given others.
    prior : ndarray of shape (4,)
        (a, b, c, d).
    log_evidence : float
        Log probability of the outcomes, in their order.
    longest_session : int
        Tasks of the longest session seen: how far R(n) is supported.
    cell_weight : ndarray of shape (n_cells,)
        Posterior weights of the grid, summing to one.
    alpha, beta : ndarray of shape (n_cells,)
        mu nu and (1 - mu) nu of the grid.
    """

    subdomain_names: tuple[str, ...]
    success: npt.NDArray[np.int64]
    failure: npt.NDArray[np.int64]
    weights: FloatArray
    prior: FloatArray
    log_evidence: float
    longest_session: int
    cell_weight: FloatArray = field(repr=False)
    alpha: FloatArray = field(repr=False)
    beta: FloatArray = field(repr=False)

    def _weights(self, weights: npt.ArrayLike | None) -> FloatArray:
        if weights is None:
            return self.weights
        return check_weights(weights, len(self.subdomain_names), name="weights")

    def _posterior_beta(self) -> tuple[FloatArray, FloatArray]:
        return (
            self.alpha[None, :] + self.success[:, None],
            self.beta[None, :] + self.failure[:, None],
        )

    @property
    def success_prob(self) -> FloatArray:
        """Posterior means of theta_j, shape (n_subdomains,)."""
        a, b = self._posterior_beta()
        return np.asarray((a / (a + b)) @ self.cell_weight)

    def run_means(self, n_max: int, *, weights: npt.ArrayLike | None = None) -> FloatArray:
        """Return the exact posterior mean of R(n) = p^n, n = 1..n_max."""
        a, b = self._posterior_beta()
        moments = moments_of_mix(
            a, b, self._weights(weights), check_positive_int(n_max, name="n_max")
        )
        return np.asarray(self.cell_weight @ moments)

    def draw_success_prob(
        self,
        n_draws: int,
        *,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    ) -> FloatArray:
        """Draw independent (theta_1, ..., theta_J) from the posterior, shape (n_draws, J)."""
        source = generator(rng)
        counts = source.multinomial(n_draws, self.cell_weight)
        cell = source.permutation(np.repeat(np.arange(counts.size), counts))
        a, b = self._posterior_beta()
        # Beta draws of tiny parameters may round to the ends; nothing here takes their logarithm.
        return source.beta(np.maximum(a[:, cell].T, 1e-300), np.maximum(b[:, cell].T, 1e-300))

    def rate_draws(
        self,
        n_draws: int = 20_000,
        *,
        weights: npt.ArrayLike | None = None,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    ) -> FloatArray:
        """Draw p = sum_j w_j theta_j, shape (n_draws,)."""
        return np.asarray(self.draw_success_prob(n_draws, rng=rng) @ self._weights(weights))

    def run_draws(
        self,
        n_max: int,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        n_draws: int = 20_000,
        rng: np.random.Generator | np.random.SeedSequence | int | None = 0,
    ) -> FloatArray:
        """Return independent draws of R(1..n_max), shape (1, n_draws, n_max); start is moot."""
        del start
        p = self.rate_draws(n_draws, weights=weights, rng=rng)
        return np.asarray(p[None, :, None] ** np.arange(1, n_max + 1))

    def success_run(
        self,
        n_max: int,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        ci_prob: float = 0.95,
    ) -> ReliabilityCurve:
        """Return R(n) = E[p^n] with the band of p^n; the mean is exact, the band from draws."""
        run = self.run_draws(n_max, start=start, weights=weights)
        curve = curve_from_draws(run, n_supported=self.longest_session, ci_prob=ci_prob)
        return ReliabilityCurve(
            quantity=curve.quantity,
            x=curve.x,
            value=self.run_means(n_max, weights=weights),
            low=curve.low,
            high=curve.high,
            ci_prob=ci_prob,
            kind=curve.kind,
            n_supported=curve.n_supported,
        )

    def next_task(
        self, *, weights: npt.ArrayLike | None = None, ci_prob: float = 0.95
    ) -> DrawSummary:
        """Return the probability that the next task succeeds."""
        return summarise(self.run_draws(1, weights=weights)[..., 0], ci_prob=ci_prob)

    def log_score(
        self, subdomain: npt.ArrayLike, success: npt.ArrayLike
    ) -> tuple[float, FloatArray]:
        """Return the log predictive probability of further outcomes, whole and one by one.

        Parameters
        ----------
        subdomain, success : array_like of shape (n_test,)
            The outcomes in order; -1 is missing. A missing label averages over the shares.

        Returns
        -------
        total : float
            Log probability of the block.
        pointwise : ndarray of shape (n_test,)
            Log of each outcome's probability given all before it; they sum to the total.
        """
        labels = np.asarray(subdomain, dtype=np.int64)
        outcomes = np.asarray(success, dtype=np.int64)
        a, b = self._posterior_beta()
        log_w = np.log(np.maximum(self.cell_weight, 1e-300))
        pointwise = np.zeros(labels.size)
        for t, (j, y) in enumerate(zip(labels, outcomes, strict=True)):
            if y < 0:
                continue
            # The chance of a failure as b / (a + b): 1 - p would round to 0 where b is tiny.
            won = (a if y == 1 else b) / (a + b)
            new = log_w + np.log(self.weights @ won if j < 0 else won[j])
            peak = new.max()
            pointwise[t] = peak + math.log(float(np.exp(new - peak).sum()))
            log_w = new - pointwise[t]
            if j >= 0:
                (a if y == 1 else b)[j] += 1.0
        return float(pointwise.sum()), pointwise


def fit_hierarchical(
    sequences: TaskSequences,
    *,
    prior: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0),
    weights: npt.ArrayLike | None = None,
    n_points: int = 96,
) -> HierarchicalFit:
    """Fit the hierarchical independent model.

    Parameters
    ----------
    sequences : TaskSequences
        The tasks; only the counts of each subdomain matter. Tasks with a missing part are left out.
    prior : tuple of float
        (a, b, c, d): mu ~ Beta(a, b), nu ~ Gamma(c, rate d).
    weights : array_like of shape (n_subdomains,), optional
        Shares of the subdomains in the work ahead; by default those of the data.
    n_points : int
        Grid points of each of mu and nu.

    Returns
    -------
    HierarchicalFit

    Raises
    ------
    ValueError
        If a prior parameter is not positive or the weights do not fit.
    """
    h = _check_prior(prior)
    counts = sequences.counts()
    S, F = counts.success.astype(np.float64), counts.failure.astype(np.float64)
    grid = _make_grid(S, F, [h], check_positive_int(n_points, name="n_points"))
    log_w = _log_weights(grid, h)
    peak = float(log_w.max())
    w = np.exp(log_w - peak)
    return HierarchicalFit(
        subdomain_names=sequences.subdomain_names,
        success=counts.success,
        failure=counts.failure,
        weights=(
            sequences.shares
            if weights is None
            else check_weights(weights, sequences.n_subdomains, name="weights")
        ),
        prior=h,
        log_evidence=peak + math.log(float(w.sum())),
        longest_session=int(sequences.lengths.max(initial=0)),
        cell_weight=w / w.sum(),
        alpha=grid.a,
        beta=grid.b,
    )


def _check_prior(prior: tuple[float, ...] | FloatArray) -> FloatArray:
    h = np.asarray(prior, dtype=np.float64)
    if h.shape != (4,) or not np.all(np.isfinite(h)) or np.any(h <= 0.0):
        raise ValueError(f"prior must be four positive numbers (a, b, c, d); got {prior!r}")
    return h


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorBox:
    """A box of priors (a, b, c, d), each between its bounds; the default is the published one."""

    a: tuple[float, float] = (1.0, 12.0)
    b: tuple[float, float] = (1.0, 12.0)
    c: tuple[float, float] = (1.0, 25.0)
    d: tuple[float, float] = (1.0, 25.0)

    def __post_init__(self) -> None:
        for name in ("a", "b", "c", "d"):
            low, high = getattr(self, name)
            if not 0.0 < low <= high < math.inf:
                raise ValueError(f"{name} must be an interval of positive numbers")

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The four intervals."""
        return [self.a, self.b, self.c, self.d]

    def corners(self) -> list[FloatArray]:
        """Return the sixteen corners."""
        import itertools

        return [np.array(c, dtype=np.float64) for c in itertools.product(*self.bounds)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Envelope:
    """Lower and upper values of a figure over a box of priors.

    Attributes
    ----------
    low, high : float
        The bounds found: corners, then bounded ascent from the best of them. Not proved global.
    low_prior, high_prior : ndarray of shape (4,)
        Where they are attained.
    """

    low: float
    high: float
    low_prior: FloatArray
    high_prior: FloatArray


def envelope(
    sequences: TaskSequences,
    *,
    box: PriorBox | None = None,
    weights: npt.ArrayLike | None = None,
    n: int = 1,
    threshold: float | None = None,
    n_points: int = 120,
) -> Envelope:
    """Return the range over a box of priors of E[R(n)], or of P(R(n) <= threshold).

    Parameters
    ----------
    sequences : TaskSequences
        The tasks.
    box : PriorBox, optional
        The priors; the published box by default.
    weights : array_like of shape (n_subdomains,), optional
        Shares of the subdomains; by default those of the data.
    n : int
        Number of tasks, for R(n) = p^n.
    threshold : float, optional
        With it the figure is P(R(n) <= threshold), else E[R(n)]. By a lattice of 512 points on p.
    n_points : int
        Grid points of each of mu and nu.

    Returns
    -------
    Envelope
    """
    from scipy.optimize import minimize

    chosen = PriorBox() if box is None else box
    omega = (
        sequences.shares
        if weights is None
        else check_weights(weights, sequences.n_subdomains, name="weights")
    )
    counts = sequences.counts()
    S, F = counts.success.astype(np.float64), counts.failure.astype(np.float64)
    corners = chosen.corners()
    grid = _make_grid(S, F, corners, n_points)
    a, b = grid.a[None, :] + S[:, None], grid.b[None, :] + F[:, None]
    check_positive_int(n, name="n")
    if threshold is None:
        f = moments_of_mix(a, b, omega, n)[:, n - 1]
    else:
        f = mix_cdf(a, b, omega, float(threshold) ** (1.0 / n))
    features = grid.features

    def value(h: FloatArray) -> tuple[float, FloatArray]:
        log_w = grid.log_base + (h - np.array([1.0, 1.0, 1.0, 0.0])) @ features
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        mean = float(w @ f)
        return mean, features @ (w * f) - mean * (features @ w)

    at_corners = [value(h)[0] for h in corners]
    found = []
    for sign in (1.0, -1.0):
        order = np.argsort(sign * np.asarray(at_corners))
        best_value, best_h = at_corners[order[0]], corners[order[0]]
        for start in order[:3]:
            result = minimize(
                lambda h, sign=sign: tuple(sign * part for part in value(h)),
                corners[start],
                jac=True,
                method="L-BFGS-B",
                bounds=chosen.bounds,
            )
            reached = value(result.x)[0]
            if sign * reached < sign * best_value:
                best_value, best_h = reached, np.asarray(result.x)
        found.append((best_value, best_h))
    (low, low_h), (high, high_h) = found
    return Envelope(low=low, high=high, low_prior=low_h, high_prior=high_h)
