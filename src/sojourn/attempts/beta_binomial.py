"""Tasks that differ: success probabilities drawn from a beta law, fitted by quadrature.

The law has a mean m and an intraclass correlation r = 1 / (1 + a + b), where a = m (1/r - 1) and
b = (1 - m)(1/r - 1): r = 0 is "all tasks are alike", r = 1 "each task always or never succeeds".
The prior is m ~ U(0, 1) and, with probability one half each, r = 0 or r ~ U(0, 1); without the
point at 0 an interval for pass^k is too high when tasks are alike.

No sampling: the posterior is a weighted grid. The likelihood is a product of m (1 - r) + i r,
(1 - m)(1 - r) + j r and 1 - r + l r over attempts, so that it needs only how many tasks have more
than i successes, j failures and l attempts: its cost does not grow with the number of tasks, and it
is exact at r = 0, where the beta functions are not. Both axes are on the logit scale, where the
posterior is smooth and has light tails, and the grid closes in on it until it is resolved.

What it does not do: it cannot tell a beta law from another one with the same first n moments, so
figures beyond the attempts that were made stay inconclusive (see `sojourn.attempts.bounds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, frozen_array, generator
from sojourn.attempts.counts import TaskCounts
from sojourn.estimates import Estimate, Interval, Status
from sojourn.stats import monte_carlo_p, weighted_quantiles
from sojourn.tables import n_of

__all__ = ["BetaBinomialPosterior", "fit_beta_binomial", "icc", "moment_icc", "predictive_check"]

FloatArray = npt.NDArray[np.float64]
Generatable = np.random.Generator | np.random.SeedSequence | int | None

_LOGIT_RANGE = 30.0
_NEGLIGIBLE = 23.0
_FINE_TERMS = 64
_N_COARSE = 64
_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BetaBinomialPosterior:
    """A posterior of the law of task success probabilities, as a weighted grid.

    Attributes
    ----------
    mean : ndarray of shape (n_cells,)
        Mean success probability m of each cell.
    icc : ndarray of shape (n_cells,)
        Intraclass correlation r of each cell; 0 exactly in the cells of the homogeneous law.
    weight : ndarray of shape (n_cells,)
        Posterior probability of each cell, summing to one.
    n_tasks, n_runs, max_attempts : int
        What it was fitted to.
    """

    mean: FloatArray
    icc: FloatArray
    weight: FloatArray
    n_tasks: int
    n_runs: int
    max_attempts: int

    def __post_init__(self) -> None:
        for name in ("mean", "icc", "weight"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), float, name=name))

    def __str__(self) -> str:
        return (
            f"beta-binomial law of {n_of(self.n_tasks, 'task')} ({n_of(self.n_runs, 'run')}): "
            f"P(all tasks alike) {self.prob_homogeneous:.3f}, "
            f"mean {self.posterior_mean():.3f}, ICC {self.posterior_icc():.3f}"
        )

    @property
    def prob_homogeneous(self) -> float:
        """Posterior probability that all tasks are alike (ICC exactly 0), from one half before."""
        return float(self.weight[self.icc == 0.0].sum())

    def posterior_mean(self) -> float:
        """Return the posterior expectation of the mean success probability."""
        return float(self.weight @ self.mean)

    def posterior_icc(self) -> float:
        """Return the posterior expectation of the intraclass correlation."""
        return float(self.weight @ self.icc)

    def pass_hat(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass^k = E[p^k]: a new task succeeds in all of k attempts.

        Notes
        -----
        E[p^k] = prod_{i<k} (m (1 - r) + i r) / (1 - r + i r) in each cell.
        """
        return self._summary(self.success_moment(k), ci_prob)

    def pass_at(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass@k = 1 - E[(1 - p)^k]: a new task succeeds in at least one of k attempts."""
        return self._summary(1.0 - self.failure_moment(k), ci_prob)

    def correlation(self, *, ci_prob: float = 0.95) -> Estimate:
        """Return the intraclass correlation with its equal-tailed posterior interval."""
        return self._summary(self.icc, ci_prob)

    def success_moment(self, k: int) -> FloatArray:
        """Return E[p^k] of every cell."""
        return rising_moments(self.mean, self.icc, check_positive_int(k, name="k"))[-1]

    def failure_moment(self, k: int) -> FloatArray:
        """Return E[(1 - p)^k] of every cell."""
        return rising_moments(1.0 - self.mean, self.icc, check_positive_int(k, name="k"))[-1]

    def interval(self, values: FloatArray, *, ci_prob: float = 0.95) -> Interval:
        """Return the equal-tailed posterior interval of a quantity given in every cell."""
        tail = (1 - check_fraction(ci_prob, name="ci_prob")) / 2
        low, high = weighted_quantiles(values, self.weight, (tail, 1 - tail))
        return Interval(low=float(low), high=float(high), ci_prob=ci_prob, kind="beta_binomial")

    def _summary(self, values: FloatArray, ci_prob: float) -> Estimate:
        interval = self.interval(values, ci_prob=ci_prob)
        return Estimate(value=float(self.weight @ values), interval=interval, estimand="population")


def fit_beta_binomial(
    counts: TaskCounts, *, n_mean: int = 200, n_icc: int = 200
) -> BetaBinomialPosterior:
    """Fit the beta-binomial law to the successes of each task.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts; units above the task are not modelled.
    n_mean, n_icc : int
        Cells of the grid for the mean and for the intraclass correlation, each at least 200.

    Returns
    -------
    BetaBinomialPosterior

    Raises
    ------
    ValueError
        If a grid has fewer than 200 cells on a side.

    Notes
    -----
    P(c | n, m, r) = C(n, c) prod_{i<c} (m(1-r) + i r) prod_{j<n-c} ((1-m)(1-r) + j r)
    / prod_{l<n} (1 - r + l r).
    """
    if min(n_mean, n_icc) < 200:
        raise ValueError(f"the grid needs at least 200 x 200 cells; got {n_mean} x {n_icc}")
    terms = _Terms.of(counts)
    alike = _close_in(terms, n_mean, 1)
    differing = _close_in(terms, n_mean, n_icc)
    log_weight = np.concatenate([alike.log_weight, differing.log_weight])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    kept = weight > 1e-11 / weight.size
    return BetaBinomialPosterior(
        mean=np.concatenate([alike.mean, differing.mean])[kept],
        icc=np.concatenate([alike.icc, differing.icc])[kept],
        weight=weight[kept] / weight[kept].sum(),
        n_tasks=counts.n_tasks,
        n_runs=counts.n_runs,
        max_attempts=counts.max_attempts,
    )


def icc(counts: TaskCounts, *, ci_prob: float = 0.95) -> Estimate:
    """Return the intraclass correlation: the share of the variance of outcomes that tasks make.

    The value and the interval are the beta-binomial posterior's; the moment estimate stands beside
    them in the reasons. Withheld when no task was tried twice.
    """
    if counts.max_attempts < 2:
        return Estimate(
            value=None,
            status=Status.WITHHELD,
            reasons=("one attempt per task does not tell how much tasks differ",),
            estimand="population",
        )
    estimate = fit_beta_binomial(counts).correlation(ci_prob=ci_prob)
    moment = moment_icc(counts)
    words = (
        "moment estimate: none, all runs ended alike"
        if moment is None
        else f"moment estimate {moment:.3f}"
    )
    few = counts.n_tasks < 2 or moment is None
    return Estimate(
        value=estimate.value,
        interval=estimate.interval,
        status=Status.INCONCLUSIVE if few else Status.SUPPORTED,
        reasons=(words,),
        estimand="population",
    )


def moment_icc(counts: TaskCounts) -> float | None:
    """Return (P2 - P1^2) / (P1 (1 - P1)) over tasks with two attempts, or None where undefined.

    P1 is the mean over tasks of c/n and P2 that of c (c - 1) / (n (n - 1)). May be negative.
    """
    twice = counts.attempts >= 2
    if not twice.any():
        return None
    c, n = counts.successes[twice].astype(float), counts.attempts[twice].astype(float)
    first, second = float(np.mean(c / n)), float(np.mean(c * (c - 1) / (n * (n - 1))))
    if not 0.0 < first < 1.0:
        return None
    return (second - first**2) / (first * (1 - first))


def predictive_check(
    counts: TaskCounts,
    posterior: BetaBinomialPosterior,
    *,
    rng: Generatable = None,
    n_resamples: int = 1999,
) -> float:
    """Return the posterior predictive p of the histogram of successes per task.

    Small: the tasks' successes are not those of any beta law. Not small: nothing is proved about
    what lies beyond the attempts.

    Notes
    -----
    Tasks with the modal number of attempts. Discrepancy sum_c (sqrt(O_c) - sqrt(E_c))^2 of Freeman
    and Tukey, with E from the drawn cell, compared between replicated and observed histograms.

    References
    ----------
    A. Gelman, X.-L. Meng and H. Stern (1996), Statistica Sinica 6, 733-807.
    """
    rng = generator(rng)
    n = counts.modal_attempts
    observed = counts.histogram()
    total = int(observed.sum())
    cells = rng.choice(posterior.weight.size, size=n_resamples, p=posterior.weight)
    excess = np.empty(n_resamples)
    block = max(1, _BLOCK // (n + 1))
    for start in range(0, n_resamples, block):
        cell = cells[start : start + block]
        law = count_law(n, posterior.mean[cell], posterior.icc[cell])
        root = np.sqrt(total * law)
        replicated = np.square(np.sqrt(rng.multinomial(total, law)) - root).sum(axis=1)
        real = np.square(np.sqrt(observed) - root).sum(axis=1)
        excess[start : start + block] = replicated - real
    return monte_carlo_p(0.0, excess)


def count_law(n: int, mean: FloatArray, icc: FloatArray) -> FloatArray:
    """Return P(c successes in n attempts), c = 0 .. n, for each cell: shape (n_cells, n + 1)."""
    from scipy.special import gammaln

    step = np.arange(n)
    up = _log(mean[:, None] * (1 - icc[:, None]) + step * icc[:, None])
    down = _log((1 - mean[:, None]) * (1 - icc[:, None]) + step * icc[:, None])
    total = _log(1 - icc[:, None] + step * icc[:, None]).sum(axis=1, keepdims=True)
    zero = np.zeros((mean.size, 1))
    successes = np.hstack([zero, np.cumsum(up, axis=1)])
    failures = np.hstack([zero, np.cumsum(down, axis=1)])[:, ::-1]
    c = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1)
    law = np.exp(ways + successes + failures - total)
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def _log(values: FloatArray) -> FloatArray:
    """Return logarithms, with a floor so that 0 log 0 counts stay finite."""
    return np.log(np.maximum(values, 1e-300))


def rising_moments(mean: FloatArray, icc: FloatArray, k: int) -> list[FloatArray]:
    """Return E[p^0], .. E[p^k] of beta laws: prod_{i<k} (m (1 - r) + i r) / (1 - r + i r)."""
    moments = [np.ones(np.broadcast_shapes(mean.shape, icc.shape))]
    for i in range(k):
        moments.append(moments[-1] * (mean * (1 - icc) + i * icc) / (1 - icc + i * icc))
    return moments


class _Nodes(NamedTuple):
    """Points i and weights that stand for sum_i A_i f(i)."""

    point: FloatArray
    weight: FloatArray


class _Terms(NamedTuple):
    """The sufficient statistics: nodes for successes, failures and attempts."""

    successes: _Nodes
    failures: _Nodes
    attempts: _Nodes

    @classmethod
    def of(cls, counts: TaskCounts) -> _Terms:
        return cls(
            _nodes(counts.successes),
            _nodes(counts.attempts - counts.successes),
            _nodes(counts.attempts),
        )


def _nodes(numbers: npt.NDArray[np.int64]) -> _Nodes:
    """Return nodes for sum over tasks of sum_{i < number} f(i) = sum_i #{number > i} f(i).

    The first `_FINE_TERMS` points are kept. Later ones are joined in blocks that are short against
    i, where f is smooth: two nodes with the block's weight, mean and variance stand for each.
    """
    exceeding = (numbers.size - np.cumsum(np.bincount(numbers)))[:-1].astype(float)
    point = np.arange(exceeding.size, dtype=float)
    if exceeding.size <= _FINE_TERMS:
        return _Nodes(point, exceeding)
    edges = [_FINE_TERMS]
    while edges[-1] < exceeding.size:
        edges.append(min(edges[-1] + max(1, edges[-1] // 32), exceeding.size))
    start = np.array(edges[:-1])
    total = np.add.reduceat(exceeding, start)
    mean = np.add.reduceat(exceeding * point, start) / total
    spread = np.add.reduceat(exceeding * np.square(point), start) / total - np.square(mean)
    sd = np.sqrt(np.maximum(spread, 0.0))
    return _Nodes(
        np.concatenate([point[:_FINE_TERMS], mean - sd, mean + sd]),
        np.concatenate([exceeding[:_FINE_TERMS], total / 2, total / 2]),
    )


class _Grid(NamedTuple):
    """Cells of a part of the prior with their unnormalised log posterior."""

    mean: FloatArray
    icc: FloatArray
    log_weight: FloatArray


def _close_in(terms: _Terms, n_mean: int, n_icc: int) -> _Grid:
    """Narrow a coarse grid until the posterior fills it, then lay the fine one.

    One ICC column means the homogeneous law, r = 0. Each part carries prior weight one half.
    """
    box = np.array([[-_LOGIT_RANGE, _LOGIT_RANGE], [-_LOGIT_RANGE, _LOGIT_RANGE]])
    coarse = (_N_COARSE, min(n_icc, _N_COARSE))
    shrinks = True
    while shrinks:
        x, y, log_weight = _lay(terms, box, *coarse)
        alive = log_weight > log_weight.max() - _NEGLIGIBLE
        narrower = box.copy()
        narrower[0] = _extent(x, alive.any(axis=1), box[0])
        if n_icc > 1:
            narrower[1] = _extent(y, alive.any(axis=0), box[1])
        shrinks = bool((np.diff(narrower) < 0.7 * np.diff(box)).any())
        box = narrower
    x, y, log_weight = _lay(terms, box, n_mean, n_icc)
    m, r = _logistic(x)[0], _logistic(y)[0] if n_icc > 1 else np.zeros(1)
    mean, correlation = np.broadcast_arrays(m[:, None], r)
    return _Grid(mean.ravel(), correlation.ravel(), log_weight.ravel())


def _lay(
    terms: _Terms, box: FloatArray, n_mean: int, n_icc: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the logits of mean and ICC and the log of likelihood, prior and cell size."""
    x, y = _midpoints(box[0], n_mean), _midpoints(box[1], n_icc)
    (m, jacobian), not_m = _logistic(x), _logistic(-x)[0]
    area = jacobian[:, None] + np.log((box[0, 1] - box[0, 0]) / n_mean)
    r, not_r = np.zeros(1), np.ones(1)
    if n_icc > 1:
        (r, jacobian), not_r = _logistic(y), _logistic(-y)[0]
        area = area + jacobian + np.log((box[1, 1] - box[1, 0]) / n_icc)
    return x, y, area + _log_likelihood(terms, m[:, None], not_m[:, None], r, not_r)


def _midpoints(ends: FloatArray, n: int) -> FloatArray:
    """Return the middles of n equal cells."""
    cells = (np.arange(n, dtype=np.float64) + 0.5) / n
    return np.asarray(ends[0] + (ends[1] - ends[0]) * cells)


def _logistic(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logistic function and the log of its derivative, the Jacobian of the logit."""
    value = 1.0 / (1.0 + np.exp(-x))
    return value, -np.abs(x) - 2 * np.log1p(np.exp(-np.abs(x)))


def _extent(x: FloatArray, alive: npt.NDArray[np.bool_], old: FloatArray) -> FloatArray:
    """Return the range of the living cells with a margin of three cells, within the old one."""
    where = np.flatnonzero(alive)
    margin = 3.5 * (x[1] - x[0])
    return np.array([max(x[where[0]] - margin, old[0]), min(x[where[-1]] + margin, old[1])])


def _log_likelihood(
    terms: _Terms, m: FloatArray, not_m: FloatArray, r: FloatArray, not_r: FloatArray
) -> FloatArray:
    """Return the log likelihood on the grid m x r, up to the binomial coefficients."""
    up, down = m * not_r, not_m * not_r
    total = np.zeros(np.broadcast_shapes(m.shape, r.shape))
    for i, weight in zip(*terms.successes, strict=True):
        total += weight * _log(up + i * r)
    for i, weight in zip(*terms.failures, strict=True):
        total += weight * _log(down + i * r)
    for i, weight in zip(*terms.attempts, strict=True):
        total -= weight * _log(not_r + i * r)
    return total
