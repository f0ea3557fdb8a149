"""What can be said of k attempts when fewer were made, without a model of how tasks differ.

n attempts at a task fix the first n moments of the law of task success probabilities and nothing
more. The bounds are the smallest and the largest E[p^k] over *all* laws that agree with what was
seen: over a grid of p it is a linear programme. With one attempt there is only Jensen's inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int
from sojourn.attempts.beta_binomial import BetaBinomialPosterior, fit_beta_binomial
from sojourn.attempts.counts import TaskCounts
from sojourn.estimates import Estimate, Interval, Status
from sojourn.stats import clopper_pearson, effective_size, ratio_mean, t_quantile

__all__ = [
    "AttemptBounds",
    "Beyond",
    "SingleAttemptBounds",
    "pass_at_beyond",
    "pass_at_bounds",
    "pass_hat_beyond",
    "pass_hat_bounds",
    "single_attempt_bounds",
]

FloatArray = npt.NDArray[np.float64]

_MOST_ATTEMPTS = 16
_N_GRID = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBounds:
    """Bounds that hold whatever the law of task success probabilities.

    Attributes
    ----------
    quantity : str
        ``pass_hat`` or ``pass_at``.
    k : int
        Number of attempts.
    low, high : float
        The bounds. From a single attempt they are those at the estimated rate; else they already
        allow for sampling error and equal those of the interval.
    interval : Interval
        Bounds that also allow for sampling error; kind ``mixing_bounds`` or ``jensen``.
    n_attempts : int
        Attempts a task whose successes were used.
    reasons : tuple of str
        What a reader must know.
    """

    quantity: str
    k: int
    low: float
    high: float
    interval: Interval
    n_attempts: int
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"between {self.low:.3f} and {self.high:.3f}"


class SingleAttemptBounds(NamedTuple):
    """What one attempt per task says of k: bounds for pass^k and for pass@k."""

    pass_hat: AttemptBounds
    pass_at: AttemptBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """A figure for more attempts than were made: the model's, and the bounds beside it.

    Attributes
    ----------
    quantity : str
        ``pass_hat`` or ``pass_at``.
    k : int
        Number of attempts.
    estimate : Estimate
        The beta-binomial figure, never more than inconclusive; withheld with one attempt per task.
    bounds : AttemptBounds
        What holds without a model.
    """

    quantity: str
    k: int
    estimate: Estimate
    bounds: AttemptBounds


def single_attempt_bounds(rate: Estimate, k: int) -> SingleAttemptBounds:
    """Return R^k <= pass^k <= R and R <= pass@k <= 1 - (1 - R)^k for a success rate R.

    Parameters
    ----------
    rate : Estimate
        The success rate with its interval, for instance of `success_rate`.
    k : int
        Number of attempts at the same task.

    Returns
    -------
    SingleAttemptBounds
        Reached when all tasks are alike and when each always ends the same way.

    Raises
    ------
    ValueError
        If the rate has no value or no interval.
    """
    k = check_positive_int(k, name="k")
    if rate.value is None or rate.interval is None:
        raise ValueError("bounds from a rate need its value and its interval")
    given = rate.interval
    reasons = ("one attempt per task: nothing between the bounds is more likely",)

    def bounds(
        quantity: str, value: tuple[float, float], limit: tuple[float, float]
    ) -> AttemptBounds:
        interval = Interval(low=limit[0], high=limit[1], ci_prob=given.ci_prob, kind="jensen")
        return AttemptBounds(
            quantity=quantity,
            k=k,
            low=value[0],
            high=value[1],
            interval=interval,
            n_attempts=1,
            reasons=reasons,
        )

    R = rate.value
    return SingleAttemptBounds(
        pass_hat=bounds("pass_hat", (R**k, R), (given.low**k, given.high)),
        pass_at=bounds("pass_at", (R, 1 - (1 - R) ** k), (given.low, 1 - (1 - given.high) ** k)),
    )


def pass_hat_bounds(counts: TaskCounts, k: int, *, ci_prob: float = 0.95) -> AttemptBounds:
    """Return the bounds of pass^k over all laws inside a confidence region of the counts.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts of each task.
    k : int
        Number of attempts at the same task, as a rule more than were made.
    ci_prob : float
        Probability of the region.

    Returns
    -------
    AttemptBounds
        [0, 1] with a reason when no law is inside the region: then attempts at a task do not vary
        as independent ones must.

    Notes
    -----
    With n attempts, pi_c = E[C(n, c) p^c (1 - p)^(n-c)], c = 0 .. n, is what the data estimate; n
    is the largest number that half of the tasks reach (at most 16), and tasks with more contribute
    the hypergeometric probabilities of n of their attempts. The region is the box of
    Clopper-Pearson intervals for the n + 1 shares, at (1 - ci_prob) / (n + 1) each, at the
    effective number of tasks where units hold several. The programme: min and max of
    sum_g w_g p_g^k subject to low_c <= sum_g w_g C(n, c) p_g^c (1 - p_g)^(n-c) <= high_c,
    w >= 0, sum w = 1, over a grid p_g.

    References
    ----------
    F. M. Lord and N. Cressie (1975), Sankhya B 37, 453-462 (moments and bounds from a binomial
    mixture).
    """
    from scipy.optimize import linprog

    k = check_positive_int(k, name="k")
    n = _used_attempts(counts)
    low, high = _share_region(counts, n, check_fraction(ci_prob, name="ci_prob"))
    p = np.square(np.sin(np.linspace(0, np.pi / 2, _N_GRID)))
    shares = _binomial_shares(p, n)
    limits: list[float] = []
    for sign in (1.0, -1.0):
        solved = linprog(
            sign * p**k,
            A_ub=np.vstack([shares, -shares]),
            b_ub=np.concatenate([high, -low]),
            A_eq=np.ones((1, p.size)),
            b_eq=[1.0],
            method="highs",
        )
        if solved.success:
            limits.append(float(np.clip(sign * solved.fun, 0.0, 1.0)))
    reasons: tuple[str, ...] = ()
    if len(limits) < 2:
        limits = [0.0, 1.0]
        reasons = (
            "successes per task vary less than those of independent attempts can; "
            "are some attempts copies, or do they share their randomness?",
        )
    bottom, top = min(limits), max(limits)
    interval = Interval(low=bottom, high=top, ci_prob=ci_prob, kind="mixing_bounds")
    return AttemptBounds(
        quantity="pass_hat",
        k=k,
        low=bottom,
        high=top,
        interval=interval,
        n_attempts=n,
        reasons=reasons,
    )


def pass_at_bounds(counts: TaskCounts, k: int, *, ci_prob: float = 0.95) -> AttemptBounds:
    """Return the bounds of pass@k over all laws inside a confidence region of the counts.

    See `pass_hat_bounds`: one minus its bounds with failures for successes.
    """
    mirrored = pass_hat_bounds(counts.flipped(), k, ci_prob=ci_prob)
    interval = Interval(
        low=1 - mirrored.high, high=1 - mirrored.low, ci_prob=ci_prob, kind="mixing_bounds"
    )
    return AttemptBounds(
        quantity="pass_at",
        k=k,
        low=interval.low,
        high=interval.high,
        interval=interval,
        n_attempts=mirrored.n_attempts,
        reasons=mirrored.reasons,
    )


def pass_hat_beyond(
    counts: TaskCounts,
    k: int,
    *,
    ci_prob: float = 0.95,
    posterior: BetaBinomialPosterior | None = None,
) -> Beyond:
    """Return pass^k for more attempts than were made: never more than inconclusive.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts of each task.
    k : int
        Number of attempts at the same task.
    ci_prob : float
        Probability of interval and region.
    posterior : BetaBinomialPosterior, optional
        The fit to `counts`, where there is one already.

    Returns
    -------
    Beyond
        The beta-binomial figure with the model-free bounds in its reasons and as data.
    """
    return _beyond(counts, k, ci_prob, posterior, "pass_hat")


def pass_at_beyond(
    counts: TaskCounts,
    k: int,
    *,
    ci_prob: float = 0.95,
    posterior: BetaBinomialPosterior | None = None,
) -> Beyond:
    """Return pass@k for more attempts than were made; see `pass_hat_beyond`."""
    return _beyond(counts, k, ci_prob, posterior, "pass_at")


def _beyond(
    counts: TaskCounts,
    k: int,
    ci_prob: float,
    posterior: BetaBinomialPosterior | None,
    quantity: str,
) -> Beyond:
    hat = quantity == "pass_hat"
    bounds = (pass_hat_bounds if hat else pass_at_bounds)(counts, k, ci_prob=ci_prob)
    words = f"whatever the law of tasks: {bounds}"
    if counts.max_attempts < 2:
        estimate = Estimate(
            value=None,
            status=Status.WITHHELD,
            reasons=("one attempt per task: only bounds", words, *bounds.reasons),
            estimand="population",
        )
        return Beyond(quantity=quantity, k=k, estimate=estimate, bounds=bounds)
    fit = fit_beta_binomial(counts) if posterior is None else posterior
    modelled = (fit.pass_hat if hat else fit.pass_at)(k, ci_prob=ci_prob)
    estimate = Estimate(
        value=modelled.value,
        interval=modelled.interval,
        status=Status.INCONCLUSIVE,
        reasons=(
            f"{k} attempts at a task: at most {counts.max_attempts} were made, "
            "the figure rests on a beta-binomial law",
            words,
            *bounds.reasons,
        ),
        estimand="population",
    )
    return Beyond(quantity=quantity, k=k, estimate=estimate, bounds=bounds)


def _used_attempts(counts: TaskCounts) -> int:
    """Return the largest number of attempts that half of the tasks have, at most 16."""
    descending = np.sort(counts.attempts)[::-1]
    return min(int(descending[(counts.n_tasks + 1) // 2 - 1]), _MOST_ATTEMPTS)


def _binomial_shares(p: FloatArray, n: int) -> FloatArray:
    """Return C(n, c) p^c (1 - p)^(n - c), shape (n + 1, n_grid)."""
    from scipy.special import comb

    c = np.arange(n + 1)[:, None]
    return np.asarray(comb(n, c) * p**c * (1 - p) ** (n - c))


def _share_region(counts: TaskCounts, n: int, ci_prob: float) -> tuple[FloatArray, FloatArray]:
    """Return simultaneous bounds of the shares of tasks with 0 .. n successes in n attempts."""
    enough = counts.attempts >= n
    kept = TaskCounts(
        successes=counts.successes[enough],
        attempts=counts.attempts[enough],
        unit=counts.unit[enough],
    )
    each = 1 - (1 - ci_prob) / (n + 1)
    tasks = kept.unit_sums(np.ones(kept.n_tasks))
    clustered = kept.n_units < kept.n_tasks
    low, high = np.empty(n + 1), np.empty(n + 1)
    for c, share in enumerate(_hypergeometric_shares(kept, n)):
        size = float(kept.n_tasks)
        if clustered:
            mean = ratio_mean(kept.unit_sums(share), tasks)
            size = float(
                effective_size(
                    mean.value, mean.variance, mean.n_effective_units, float(kept.n_tasks)
                )
            )
            freedom = max(mean.n_effective_units - 1, 1.0)
            size *= float(np.square(t_quantile(each, kept.n_tasks - 1) / t_quantile(each, freedom)))
        low[c], high[c] = clopper_pearson(size * float(share.mean()), size, each)
    return low, high


def _hypergeometric_shares(counts: TaskCounts, n: int) -> FloatArray:
    """Return P(c successes among n of a task's attempts), shape (n + 1, n_tasks)."""
    from scipy.special import gammaln

    total = counts.attempts.astype(float)
    good = counts.successes.astype(float)

    def log_choose(a: FloatArray, b: float) -> FloatArray:
        possible = a >= b
        held = np.where(possible, a, b)
        value = gammaln(held + 1) - gammaln(b + 1) - gammaln(held - b + 1)
        return np.where(possible, value, -np.inf)

    shares = np.empty((n + 1, counts.n_tasks))
    for c in range(n + 1):
        ways = log_choose(good, float(c)) + log_choose(total - good, float(n - c))
        shares[c] = np.exp(ways - log_choose(total, float(n)))
    return shares
