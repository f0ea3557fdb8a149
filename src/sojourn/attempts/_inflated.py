"""A beta law of task success probabilities with some tasks that never and some that always succeed.

Maximum likelihood of the weights of both atoms and of the mean m and the intraclass correlation r
of the beta part, by a quasi-Newton method with exact derivatives from several starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, frozen_array, generator
from sojourn.attempts._mixing_parts import (
    Pairs,
    estimate_of,
    pairs_of,
    refitted_check,
    resampled_pairs,
)
from sojourn.attempts.beta_binomial import count_law, rising_moments
from sojourn.attempts.counts import TaskCounts
from sojourn.estimates import Estimate
from sojourn.tables import n_of

__all__ = ["InflatedFit", "fit_inflated"]

FloatArray = npt.NDArray[np.float64]
Generatable = np.random.Generator | np.random.SeedSequence | int | None

# Log weights of the atoms against the beta part, logit of the mean, logit of the correlation. A
# correlation over .95 would be two atoms once more.
_BOUNDS = ((-20.0, 20.0), (-20.0, 20.0), (-15.0, 15.0), (-12.0, 3.0))
_REFIT_PRECISION = 1e-9
_INNER = np.array([[-4.0, -4.0, -5.0, -4.0], [4.0, 4.0, 5.0, 1.5]])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InflatedFit:
    """A zero-one-inflated beta law fitted to the successes of tasks.

    Attributes
    ----------
    share_at_best : float
        Share of the starts that came within 0.1 nat of the best.
    log_likelihood : float
        At the maximum, binomial coefficients included.
    never, always : float
        Shares of tasks that never and that always succeed.
    mean, icc : float
        Mean and intraclass correlation of the other tasks.
    n_parameters : int
        Four.
    is_identified : bool
        Whether the histogram of successes has at least as many free cells as the law parameters:
        some task with four attempts or more.
    counts : TaskCounts
        What it was fitted to.
    resampled : ndarray of shape (n_resamples, 4)
        never, always, mean and icc of fits to resampled units.
    """

    share_at_best: float
    log_likelihood: float
    never: float
    always: float
    mean: float
    icc: float
    n_parameters: int = 4
    is_identified: bool
    counts: TaskCounts = field(repr=False)
    resampled: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        resampled = frozen_array(self.resampled, float, ndim=2, name="resampled")
        object.__setattr__(self, "resampled", resampled)

    def __str__(self) -> str:
        note = "" if self.is_identified else " (not identified by so few attempts)"
        return (
            f"zero-one-inflated beta law of {n_of(self.counts.n_tasks, 'task')}{note}: "
            f"never {self.never:.3f}, always {self.always:.3f}, "
            f"the others mean {self.mean:.3f}, ICC {self.icc:.3f}"
        )

    def pass_hat(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass^k = always + (1 - never - always) E_beta[p^k].

        The interval resamples units; inconclusive beyond the attempts that were made.
        """
        return self._estimate(k, "pass_hat", ci_prob)

    def pass_at(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass@k = 1 - never - (1 - never - always) E_beta[(1 - p)^k]."""
        return self._estimate(k, "pass_at", ci_prob)

    def count_law(self, n: int) -> FloatArray:
        """Return P(c successes in n attempts), c = 0 .. n."""
        return _Law(self.never, self.always, self.mean, self.icc).counts(n)

    def expected_histogram(self) -> FloatArray:
        """Return how many tasks would have 0 .. n successes, of those with the modal n."""
        total = float(self.counts.histogram().sum())
        return np.asarray(total * self.count_law(self.counts.modal_attempts), dtype=np.float64)

    def predictive_check(self, *, n_resamples: int = 199, rng: Generatable = None) -> float:
        """Return the parametric bootstrap p of the histogram; see `refitted_check`."""
        start = _to_free(_Law(self.never, self.always, self.mean, self.icc))[None]

        def refit(pairs: Pairs) -> Callable[[int], FloatArray]:
            return _maximise(pairs, start, precision=_REFIT_PRECISION).law.counts

        return refitted_check(
            self.counts, self.count_law, refit, n_resamples=n_resamples, rng=generator(rng)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the law and what it rests on as plain values."""
        return {
            "never": self.never,
            "always": self.always,
            "mean": self.mean,
            "icc": self.icc,
            "log_likelihood": self.log_likelihood,
            "share_at_best": self.share_at_best,
            "is_identified": self.is_identified,
            "n_tasks": self.counts.n_tasks,
            "n_runs": self.counts.n_runs,
        }

    def _estimate(self, k: int, quantity: str, ci_prob: float) -> Estimate:
        check_positive_int(k, name="k")
        own = np.array([[self.never, self.always, self.mean, self.icc]])
        return estimate_of(
            self.counts,
            k,
            float(_figure(own, k, quantity)[0]),
            _figure(self.resampled, k, quantity),
            quantity=quantity,
            law="inflated",
            ci_prob=ci_prob,
        )


def fit_inflated(
    counts: TaskCounts, *, n_resamples: int = 199, rng: Generatable = None
) -> InflatedFit:
    """Fit a beta law with atoms at 0 and 1 by maximum likelihood.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts; units are resampled for the intervals.
    n_resamples : int
        Fits to resampled units, at least one.
    rng : Generator, int, SeedSequence or None
        Source of the resamples.

    Returns
    -------
    InflatedFit

    Notes
    -----
    P(c | n) = never [c = 0] + always [c = n] + (1 - never - always) BB(c | n, m, r), with BB the
    beta-binomial law of `fit_beta_binomial`.
    """
    n_resamples = check_positive_int(n_resamples, name="n_resamples")
    source = generator(rng)
    pairs = pairs_of(counts)
    found = _maximise(pairs, _starts(pairs))
    start = _to_free(found.law)[None]
    resampled = np.array(
        [
            _maximise(pairs.kept(tasks), start, precision=_REFIT_PRECISION).law
            for tasks in resampled_pairs(counts, n_resamples, source)
        ]
    )
    return InflatedFit(
        share_at_best=found.share_at_best,
        log_likelihood=found.log_likelihood,
        never=found.law.never,
        always=found.law.always,
        mean=found.law.mean,
        icc=found.law.icc,
        is_identified=counts.max_attempts >= 4,
        counts=counts,
        resampled=resampled,
    )


class _Law(NamedTuple):
    never: float
    always: float
    mean: float
    icc: float

    def counts(self, n: int) -> FloatArray:
        law = (1.0 - self.never - self.always) * count_law(
            n, np.array([self.mean]), np.array([self.icc])
        )[0]
        law[0] += self.never
        law[-1] += self.always
        return np.asarray(law / law.sum(), dtype=np.float64)


class _Found(NamedTuple):
    law: _Law
    log_likelihood: float
    share_at_best: float


def _figure(laws: FloatArray, k: int, quantity: str) -> FloatArray:
    never, always, mean, icc = laws.T
    between = 1.0 - never - always
    if quantity == "pass_hat":
        figure = always + between * rising_moments(mean, icc, k)[-1]
    else:
        figure = 1.0 - never - between * rising_moments(1.0 - mean, icc, k)[-1]
    return np.asarray(np.clip(figure, 0.0, 1.0), dtype=np.float64)


def _starts(pairs: Pairs) -> FloatArray:
    """Return few and many tasks at either end, and more and less spread between."""
    c, n, t = pairs.successes, pairs.attempts, pairs.tasks
    inside = (c > 0) & (c < n)
    mean = 0.5
    if inside.any():
        mean = float((t * c)[inside].sum() / (t * n)[inside].sum())
    middle = np.log(mean / (1.0 - mean))
    rate = float((t * c).sum() / (t * n).sum())
    overall = np.clip(np.log((rate + 1e-9) / (1.0 - rate + 1e-9)), -4.0, 4.0)
    starts = [
        (never, always, middle, spread)
        for never in (-3.0, 0.0)
        for always in (-3.0, 0.0)
        for spread in (-3.0, -1.0)
    ]
    starts += [(-4.0, -4.0, overall, -3.0), (-4.0, -4.0, overall, 0.0)]
    return np.array(starts)


def _maximise(pairs: Pairs, starts: FloatArray, *, precision: float = 1e-12) -> _Found:
    from scipy.optimize import minimize

    ends = [
        minimize(
            _loss,
            # At a bound the derivatives vanish; a start there would never leave.
            np.clip(start, *_INNER),
            args=(pairs,),
            jac=True,
            method="L-BFGS-B",
            bounds=_BOUNDS,
            options={"maxiter": 300, "ftol": precision, "gtol": 1e-7},
        )
        for start in starts
    ]
    values = np.array([-float(end.fun) for end in ends])
    best = int(values.argmax())
    share = float(np.mean(values >= values[best] - 0.1))
    return _Found(_from_free(ends[best].x), float(values[best]), share)


def _loss(free: FloatArray, pairs: Pairs) -> tuple[float, FloatArray]:
    """Minus the log likelihood and its derivatives by the free parameters."""
    law = _from_free(free)
    c, n = pairs.successes, pairs.attempts
    beta, by_mean, by_icc = _beta_part(pairs, law.mean, law.icc)
    between = max(1.0 - law.never - law.always, 0.0)
    none, all_ = (c == 0).astype(np.float64), (c == n).astype(np.float64)
    p = np.maximum(law.never * none + law.always * all_ + between * beta, 1e-300)
    scale = pairs.tasks / p
    inner = scale * between * beta
    gradient = np.array(
        [
            law.never * (scale @ (none - p)),
            law.always * (scale @ (all_ - p)),
            law.mean * (1.0 - law.mean) * (inner @ by_mean),
            law.icc * (1.0 - law.icc) * (inner @ by_icc),
        ]
    )
    return -float(pairs.tasks @ np.log(p)), -gradient


def _beta_part(pairs: Pairs, m: float, r: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Beta-binomial probabilities of the pairs, and derivatives of their logs by m and r."""
    i = np.arange(int(pairs.attempts.max()), dtype=np.float64)
    up, down, total = m * (1 - r) + i * r, (1 - m) * (1 - r) + i * r, 1 - r + i * r
    c, f, n = pairs.successes, pairs.attempts - pairs.successes, pairs.attempts

    def sums(values: FloatArray) -> FloatArray:
        return np.concatenate(([0.0], np.cumsum(values)))

    logs = sums(np.log(up))[c] + sums(np.log(down))[f] - sums(np.log(total))[n]
    by_mean = sums((1 - r) / up)[c] - sums((1 - r) / down)[f]
    by_icc = sums((i - m) / up)[c] + sums((i - 1 + m) / down)[f] - sums((i - 1) / total)[n]
    return np.exp(pairs.log_ways + logs), by_mean, by_icc


def _from_free(free: FloatArray) -> _Law:
    weights = np.exp(np.array([free[0], free[1], 0.0]) - max(free[0], free[1], 0.0))
    weights /= weights.sum()
    m, r = 1.0 / (1.0 + np.exp(-free[2:]))
    return _Law(float(weights[0]), float(weights[1]), float(m), float(r))


def _to_free(law: _Law) -> FloatArray:
    between = max(1.0 - law.never - law.always, 1e-300)
    logs = np.log(np.maximum([law.never, law.always], 1e-300) / between)
    m, r = np.clip([law.mean, law.icc], 1e-12, 1.0 - 1e-12)
    return np.array([*logs, np.log(m / (1.0 - m)), np.log(r / (1.0 - r))])
