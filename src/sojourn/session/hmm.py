"""The session hidden Markov model: its prior, its likelihood, its filter.

A session moves among K hidden states; each task succeeds with a probability that depends on its
subdomain and on the state it meets, and the state moves on after the task::

    Z_1 ~ delta,  Z_{t+1} | Z_t = s ~ A_s,  Y_t | Z_t = s, j_t = j ~ Bernoulli(theta_js)
    theta_js ~ Beta(mu nu, (1 - mu) nu),  A_s ~ Dirichlet(lambda_s),  mu ~ Beta,  nu ~ Gamma

The likelihood is delta' E_1 A E_2 A ... A E_T 1 with E_t = diag P(y_t | state, j_t). Missing
outcomes contribute the identity, a missing label averages theta over the data's shares. Several
sessions share all parameters and each starts from delta.

Fitting is in `sojourn.session.sampler`; what a fit means for the next tasks, in
`sojourn.session.reliability`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.task_sequences import TaskSequences

__all__ = [
    "FilteredStates",
    "HMMSpec",
    "PriorPredictive",
    "filter_states",
    "log_likelihood",
    "prior_predictive",
]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class HMMSpec:
    """The model to fit: number of states and priors.

    Attributes
    ----------
    n_states : int
        K. One state is the hierarchical independent model.
    expected_dwell : float
        Expected stay in a state, in tasks, that the transition prior states: its mean
        self-transition is 1 - 1 / expected_dwell.
    row_weight : float
        Total Dirichlet weight of a transition row: how firmly the dwell is believed.
    mean_prior : tuple of float
        mu ~ Beta(a, b).
    concentration_prior : tuple of float
        nu ~ Gamma(shape c, rate d).
    initial : str
        ``uniform``: delta fixed at 1 / K; ``estimated``: delta ~ Dirichlet(initial_weight).
    initial_weight : float
        Dirichlet weight of each state when the initial distribution is estimated.
    transition_prior : tuple of tuple of float, or None
        Dirichlet weights of the rows, instead of those from dwell and weight. States must stay
        exchangeable: one value on the diagonal, one off it.
    """

    n_states: int
    expected_dwell: float = 10.0
    row_weight: float = 20.0
    mean_prior: tuple[float, float] = (1.0, 1.0)
    concentration_prior: tuple[float, float] = (1.0, 1.0)
    initial: str = "uniform"
    initial_weight: float = 1.0
    transition_prior: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        check_positive_int(self.n_states, name="n_states")
        check_choice(self.initial, ("uniform", "estimated"), name="initial")
        positive = (*self.mean_prior, *self.concentration_prior)
        for value in (*positive, self.row_weight, self.initial_weight):
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"prior weights must be positive and finite; got {value!r}")
        if not (math.isfinite(self.expected_dwell) and self.expected_dwell > 1.0):
            raise ValueError(f"expected_dwell must exceed 1 task; got {self.expected_dwell!r}")
        if self.transition_prior is not None:
            self._check_transition_prior(np.asarray(self.transition_prior, dtype=np.float64))

    def _check_transition_prior(self, lam: FloatArray) -> None:
        K = self.n_states
        if lam.shape != (K, K) or not np.all(np.isfinite(lam)) or np.any(lam <= 0.0):
            raise ValueError(f"transition_prior must be {K} x {K} and positive")
        off = lam[~np.eye(K, dtype=bool)]
        if np.ptp(np.diag(lam)) > 0.0 or (off.size and np.ptp(off) > 0.0):
            raise ValueError(
                "transition_prior must have one value on the diagonal and one off it: "
                "states have no names before the data"
            )

    @property
    def transition_weights(self) -> FloatArray:
        """Dirichlet weights lambda of the transition rows, shape (n_states, n_states)."""
        K = self.n_states
        if self.transition_prior is not None:
            return np.asarray(self.transition_prior, dtype=np.float64)
        if K == 1:
            return np.ones((1, 1))
        leave = 1.0 / self.expected_dwell
        off = self.row_weight * leave / (K - 1)
        lam = np.full((K, K), off)
        np.fill_diagonal(lam, self.row_weight * (1.0 - leave))
        return lam

    @property
    def initial_weights(self) -> FloatArray:
        """Dirichlet weights of the initial distribution; empty when it is fixed."""
        if self.initial == "uniform" or self.n_states == 1:
            return np.empty(0)
        return np.full(self.n_states, self.initial_weight)

    @property
    def hyper_prior(self) -> FloatArray:
        """The four numbers (a, b, c, d) of the priors of mean and concentration."""
        return np.array((*self.mean_prior, *self.concentration_prior), dtype=np.float64)


class Symbols(NamedTuple):
    """Tasks as one number each, and what the numbers mean."""

    code: npt.NDArray[np.uint16]  # (n_tasks,)
    label: npt.NDArray[np.int64]  # (n_symbols,), -1 missing
    outcome: npt.NDArray[np.int64]  # (n_symbols,), -1 missing


def encode(sequences: TaskSequences) -> Symbols:
    """Give each (subdomain, outcome) pair that occurs a number; without outcome no label counts."""
    label = sequences.subdomain.astype(np.int64)
    outcome = sequences.success.astype(np.int64)
    key = np.where(outcome < 0, -1, 2 * (label + 1) + outcome)
    symbols, code = np.unique(key, return_inverse=True)
    if symbols.size > np.iinfo(np.uint16).max:
        raise ValueError(f"{symbols.size} different (subdomain, outcome) pairs; at most 65535")
    return Symbols(
        code.astype(np.uint16),
        np.where(symbols < 0, -1, symbols // 2 - 1),
        np.where(symbols < 0, -1, symbols % 2),
    )


def sequences_shares(sequences: TaskSequences, shares: npt.ArrayLike | None) -> FloatArray:
    """Return the label shares that stand in for a missing label: the data's unless given."""
    if shares is None:
        return sequences.shares
    return check_weights(shares, sequences.n_subdomains, name="label_shares")


def check_weights(weights: npt.ArrayLike, n: int, *, name: str) -> FloatArray:
    """Return `weights` as an array of n non-negative numbers that sum to one within 1e-6."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have {n} entries; got shape {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array < 0.0):
        raise ValueError(f"{name} must be finite and not negative; got {array.tolist()}")
    total = float(array.sum())
    if abs(total - 1.0) > 1e-6:
        raise ValueError(f"{name} must sum to one; the sum is {total:.8g}")
    return array / total


def check_model(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    initial: npt.ArrayLike,
    n_subdomains: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the parameters as arrays after checking shapes, ranges and sums."""
    A = np.ascontiguousarray(transition, dtype=np.float64)
    theta = np.ascontiguousarray(success_prob, dtype=np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.shape[0] == 0:
        raise ValueError(f"transition must be square; got shape {A.shape}")
    K = A.shape[0]
    if theta.shape != (n_subdomains, K):
        raise ValueError(f"success_prob must have shape {(n_subdomains, K)}; got {theta.shape}")
    if not np.all((theta >= 0.0) & (theta <= 1.0)):
        raise ValueError("success_prob must lie in [0, 1]")
    for s in range(K):
        check_weights(A[s], K, name=f"transition row {s}")
    return A, theta, check_weights(initial, K, name="initial")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilteredStates:
    """State probabilities of every task under given parameters.

    Attributes
    ----------
    log_likelihood : float
        Log likelihood of all sessions.
    predictive : ndarray of shape (n_tasks, n_states)
        P(Z_t | outcomes before t in the session).
    filtered : ndarray of shape (n_tasks, n_states)
        P(Z_t | outcomes up to t).
    smoothed : ndarray of shape (n_tasks, n_states)
        P(Z_t | all outcomes of the session).
    next_state : ndarray of shape (n_sessions, n_states)
        P(state of the task after the last | all outcomes of the session).
    """

    log_likelihood: float
    predictive: FloatArray
    filtered: FloatArray
    smoothed: FloatArray
    next_state: FloatArray


def filter_states(
    sequences: TaskSequences,
    *,
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    initial: npt.ArrayLike,
    label_shares: npt.ArrayLike | None = None,
) -> FilteredStates:
    """Run the scaled forward and backward filters under given parameters.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    transition : array_like of shape (n_states, n_states)
        A.
    success_prob : array_like of shape (n_subdomains, n_states)
        theta.
    initial : array_like of shape (n_states,)
        delta.
    label_shares : array_like of shape (n_subdomains,), optional
        Shares by which a missing label is averaged; by default those of the data.

    Returns
    -------
    FilteredStates

    Raises
    ------
    ValueError
        If shapes, ranges or sums are wrong, or the data have probability zero.
    """
    from sojourn.session import _curve_kernels

    A, theta, delta = check_model(transition, success_prob, initial, sequences.n_subdomains)
    symbols = encode(sequences)
    shares = sequences_shares(sequences, label_shares)
    T, K = sequences.n_tasks, A.shape[0]
    pi, alpha, gamma = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    rho = np.empty((sequences.n_sessions, K))
    total = _curve_kernels.filter_all(
        symbols.code, sequences.offsets, symbols.label, symbols.outcome, shares,
        theta, A, delta, pi, alpha, gamma, rho,
    )  # fmt: skip
    if not math.isfinite(total):
        raise ValueError("the sequences have probability zero under these parameters")
    return FilteredStates(
        log_likelihood=total, predictive=pi, filtered=alpha, smoothed=gamma, next_state=rho
    )


def log_likelihood(
    sequences: TaskSequences,
    *,
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    initial: npt.ArrayLike,
    label_shares: npt.ArrayLike | None = None,
) -> float:
    """Return log L, the log of delta' E_1 A E_2 ... A E_T 1 summed over sessions."""
    return filter_states(
        sequences,
        transition=transition,
        success_prob=success_prob,
        initial=initial,
        label_shares=label_shares,
    ).log_likelihood


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriorPredictive:
    """What the prior alone says of the next n tasks.

    Attributes
    ----------
    n : ndarray of shape (n_points,), int
        Numbers of tasks.
    mean, low, high : ndarray of shape (n_points,)
        Prior mean of R(n) and the ends of its 95 % interval.
    """

    n: npt.NDArray[np.int64]
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    def __str__(self) -> str:
        return ", ".join(
            f"R({n}) {m:.3f} [{lo:.3f}, {hi:.3f}]"
            for n, m, lo, hi in zip(self.n, self.mean, self.low, self.high, strict=True)
        )


class Parameters(NamedTuple):
    """Draws of the parameters: theta (n, J, K), A (n, K, K), delta (n, K), mu (n,), nu (n,)."""

    success_prob: FloatArray
    transition: FloatArray
    initial: FloatArray
    mean: FloatArray
    concentration: FloatArray


def prior_draws(
    spec: HMMSpec, n_subdomains: int, n_draws: int, rng: np.random.Generator
) -> Parameters:
    """Draw parameters from the prior."""
    K = spec.n_states
    a, b = spec.mean_prior
    c, d = spec.concentration_prior
    tiny = 1e-12
    mean = np.clip(rng.beta(a, b, n_draws), tiny, 1.0 - tiny)
    concentration = np.maximum(rng.gamma(c, 1.0 / d, n_draws), tiny)
    shape = (n_draws, n_subdomains, K)
    p = np.broadcast_to((mean * concentration)[:, None, None], shape)
    q = np.broadcast_to(((1.0 - mean) * concentration)[:, None, None], shape)
    gap = _log_gammas(q, rng) - _log_gammas(p, rng)
    theta = np.clip(1.0 / (1.0 + np.exp(np.minimum(gap, 700.0))), tiny, 1.0 - tiny)
    rows = _log_gammas(np.broadcast_to(spec.transition_weights, (n_draws, K, K)), rng)
    rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
    A = rows / rows.sum(axis=-1, keepdims=True)
    eta = spec.initial_weights
    delta = rng.dirichlet(eta, n_draws) if eta.size else np.full((n_draws, K), 1.0 / K)
    return Parameters(theta, A, delta, mean, concentration)


def _log_gammas(shape: FloatArray, rng: np.random.Generator) -> FloatArray:
    # G(a) = G(a + 1) U^(1/a): the log does not underflow where the gamma would.
    boost = np.log1p(-rng.random(shape.shape)) / shape
    return np.log(rng.standard_gamma(shape + 1.0)) + boost


def prior_predictive(
    spec: HMMSpec,
    n_subdomains: int,
    *,
    n: tuple[int, ...] = (1, 20),
    weights: npt.ArrayLike | None = None,
    n_draws: int = 4000,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> PriorPredictive:
    """Return what the prior says of R(n) in a fresh session, before any data.

    Parameters
    ----------
    spec : HMMSpec
        The model.
    n_subdomains : int
        Number of subdomains.
    n : tuple of int
        Numbers of tasks.
    weights : array_like of shape (n_subdomains,), optional
        Shares of the subdomains in the work ahead; uniform by default.
    n_draws : int
        Prior draws.
    rng : Generator, int, SeedSequence or None
        Source of randomness.
    """
    from sojourn.session import _curve_kernels

    J = check_positive_int(n_subdomains, name="n_subdomains")
    omega = np.full(J, 1.0 / J) if weights is None else check_weights(weights, J, name="weights")
    draws = prior_draws(spec, J, n_draws, generator(rng))
    points = np.array([check_positive_int(k, name="n") for k in n], dtype=np.int64)
    run = np.empty((n_draws, int(points.max())))
    bar = np.ascontiguousarray(np.einsum("j,njk->nk", omega, draws.success_prob))
    _curve_kernels.success_runs(draws.transition, bar, draws.initial, run)
    values = run[:, points - 1]
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    return PriorPredictive(n=points, mean=values.mean(axis=0), low=low, high=high)
