"""How two sets of runs differ: intervals of a difference, exact tests, the chance that B is better.

Where tasks are shared, each task is its own control. What the two sets have in common, the
difficulty of the tasks, then cancels: for ``population`` (tasks like these) through the correlation
of the task values, for ``same_tasks`` (these tasks run again) altogether.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.attempts.counts import TaskCounts
from sojourn.attempts.estimators import pass_ats, pass_hats, success_rate
from sojourn.attempts.values import task_values
from sojourn.estimates import Estimate, Interval, Status

__all__ = [
    "PairedCounts",
    "TaskFlip",
    "difference",
    "exact_paired_p",
    "mover",
    "pass_difference",
    "permuted_p",
    "probability_better",
    "rate_difference",
    "smallest_visible",
    "task_flips",
]

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_POWER_QUANTILE = 0.8416212335729143  # standard normal quantile at .80


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedCounts:
    """Successes and attempts of two sets of runs at the same tasks, in the same order.

    Attributes
    ----------
    a, b : TaskCounts
        Task t of `a` is task t of `b`, and of the same unit.

    Raises
    ------
    ValueError
        If the two do not hold equally many tasks or put a task into different units.
    """

    a: TaskCounts
    b: TaskCounts

    def __post_init__(self) -> None:
        if self.a.n_tasks != self.b.n_tasks:
            raise ValueError(
                f"pairs need the same tasks; there are {self.a.n_tasks} and {self.b.n_tasks}"
            )
        if not np.array_equal(self.a.unit, self.b.unit):
            raise ValueError("a task must be of the same unit in both sets")

    @property
    def mean_attempts(self) -> float:
        """Attempts at a task, on average over the tasks of both sets."""
        return float(np.sqrt(self.a.attempts.mean() * self.b.attempts.mean()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFlip:
    """A task at which the two sets do not do equally well.

    Attributes
    ----------
    task : int
        Its place in the counts.
    successes_a, attempts_a, successes_b, attempts_b : int
        What was counted.
    """

    task: int
    successes_a: int
    attempts_a: int
    successes_b: int
    attempts_b: int

    @property
    def gain(self) -> float:
        """Share of successes of B minus that of A."""
        return self.successes_b / self.attempts_b - self.successes_a / self.attempts_a


def mover(a: Estimate, b: Estimate, *, correlation: float = 0.0) -> Estimate:
    """Return b - a, its interval recovered from the two intervals and the correlation.

    Parameters
    ----------
    a, b : Estimate
        With intervals of the same probability.
    correlation : float
        Of the two estimators, -1 to 1.

    Returns
    -------
    Estimate
        Withheld if one of the two is; inconclusive if one is.

    Notes
    -----
    With d = b - a: low = d - sqrt(u^2 - 2 r u v + v^2) with u = b - low_b, v = high_a - a, and
    high alike with the other sides [1]_. It keeps what the single intervals are good at near 0
    and 1, where a difference of means has no usable standard error.

    References
    ----------
    .. [1] G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a
       general approach", Statistics in Medicine 27 (2008), 1693-1702.
    """
    estimand = a.estimand if a.estimand == b.estimand else None
    reasons = tuple(dict.fromkeys((*a.reasons, *b.reasons)))
    if a.value is None or b.value is None or a.interval is None or b.interval is None:
        return Estimate(
            value=None,
            status=Status.WITHHELD,
            reasons=reasons or ("one of the two has no interval",),
            estimand=estimand,
        )
    if a.interval.ci_prob != b.interval.ci_prob:
        raise ValueError("the two intervals differ in their probability")
    value = b.value - a.value
    below = _side(b.value - b.interval.low, a.interval.high - a.value, correlation)
    above = _side(b.interval.high - b.value, a.value - a.interval.low, correlation)
    doubtful = Status.INCONCLUSIVE in (a.status, b.status)
    return Estimate(
        value=value,
        interval=Interval(
            low=value - below, high=value + above, ci_prob=a.interval.ci_prob, kind="mover"
        ),
        status=Status.INCONCLUSIVE if doubtful else Status.SUPPORTED,
        reasons=reasons,
        estimand=estimand,
    )


def _side(u: float, v: float, correlation: float) -> float:
    return float(np.sqrt(max(u * u - 2.0 * correlation * u * v + v * v, 0.0)))


def rate_difference(
    a: TaskCounts, b: TaskCounts, *, estimand: str, paired: bool, ci_prob: float = 0.95
) -> Estimate:
    """Return the success rate of B minus that of A, runs weighted equally inside each.

    Parameters
    ----------
    a, b : TaskCounts
        The two sets; of the same tasks in the same order if they are paired.
    estimand : {"population", "same_tasks"}
        Tasks like these, or these tasks run again.
    paired : bool
        Whether the tasks are shared.
    ci_prob : float
        Coverage of the interval.
    """
    one = success_rate(a, estimand=estimand, ci_prob=ci_prob)
    two = success_rate(b, estimand=estimand, ci_prob=ci_prob)
    r = 0.0
    if paired and estimand == "population":
        pairs = PairedCounts(a=a, b=b)
        r = _correlation(pairs, _centred(a), _centred(b), slack=pairs.mean_attempts / 2.0)
    return mover(one, two, correlation=r)


def pass_difference(
    a: TaskCounts,
    b: TaskCounts,
    k: int,
    *,
    at_least_one: bool = False,
    estimand: str,
    paired: bool,
    ci_prob: float = 0.95,
) -> Estimate:
    """Return pass^k (pass@k with `at_least_one`) of B minus that of A.

    Parameters are those of `rate_difference`; tasks with fewer than k attempts in either set are
    left out of both when they are paired.
    """
    check_positive_int(k, name="k")
    if paired:
        enough = (a.attempts >= k) & (b.attempts >= k)
        if not enough.any():
            reason = f"no task has {k} attempts in both"
            return Estimate(
                value=None, status=Status.WITHHELD, reasons=(reason,), estimand=estimand
            )
        a, b = _only(a, enough), _only(b, enough)
    estimate = pass_ats if at_least_one else pass_hats
    one = estimate(a, (k,), estimand=estimand, ci_prob=ci_prob, rng=0)[0]
    two = estimate(b, (k,), estimand=estimand, ci_prob=ci_prob, rng=0)[0]
    r = 0.0
    if paired and estimand == "population":
        first, second = (c.flipped() if at_least_one else c for c in (a, b))
        values = [task_values(c.successes, c.attempts, k) for c in (first, second)]
        pairs = PairedCounts(a=a, b=b)
        slack = min(k / pairs.mean_attempts, 1.0) / 2.0
        r = _correlation(pairs, *(v - v.mean() for v in values), slack=slack)
    return mover(one, two, correlation=r)


def difference(
    a: FloatArray, b: FloatArray, unit: npt.NDArray[np.int32], *, ci_prob: float = 0.95
) -> Estimate:
    """Return the mean over tasks of b - a with a t interval over units; any paired quantity.

    Parameters
    ----------
    a, b : ndarray of shape (n_tasks,)
        One value a task.
    unit : ndarray of shape (n_tasks,)
        Unit of resampling of each task.
    ci_prob : float
        Coverage of the interval.
    """
    from sojourn.stats import ratio_mean, t_quantile

    index = np.unique(unit, return_inverse=True)[1]
    sums = np.bincount(index, weights=b - a)
    mean = ratio_mean(sums.astype(np.float64), np.bincount(index).astype(np.float64))
    if mean.n_units < 2:
        reason = "one unit of tasks does not tell how much others would differ"
        return Estimate(
            value=mean.value,
            status=Status.INCONCLUSIVE,
            reasons=(reason,),
            estimand="population",
        )
    half = float(np.sqrt(mean.variance) * t_quantile(ci_prob, max(mean.n_effective_units - 1, 1)))
    return Estimate(
        value=mean.value,
        interval=Interval(
            low=mean.value - half, high=mean.value + half, ci_prob=ci_prob, kind="paired_t"
        ),
        estimand="population",
    )


def exact_paired_p(pairs: PairedCounts) -> float:
    """Return the exact two-sided p that A and B do equally well at every task.

    Notes
    -----
    Given how many of a task's runs succeeded, which of them are A's is then a draw without
    replacement: the successes of A at a task are hypergeometric and their sum over tasks has a law
    found by convolution, no asymptotics. With one attempt each at every task this is McNemar's
    exact test [1]_. The p-value is twice the smaller tail, at most 1.

    References
    ----------
    .. [1] Q. McNemar (1947), Psychometrika 12, 153-157; D. R. Cox (1970), Analysis of binary data,
       for the exact conditional test in several 2 x 2 tables.
    """
    from scipy.stats import hypergeom

    a, b = pairs.a, pairs.b
    law = np.ones(1)
    tables, repeats = np.unique(
        np.stack((a.attempts, b.attempts, a.successes + b.successes), axis=1),
        axis=0,
        return_counts=True,
    )
    fixed = 0
    for (n_a, n_b, s), times in zip(tables.tolist(), repeats.tolist(), strict=True):
        lowest, highest = max(0, s - n_b), min(s, n_a)
        fixed += lowest * times
        if lowest == highest:
            continue
        support = np.arange(lowest, highest + 1)
        one = hypergeom.pmf(support, n_a + n_b, s, n_a)
        law = np.convolve(law, _power(one, times))
    observed = int(a.successes.sum()) - fixed
    lower, upper = float(law[: observed + 1].sum()), float(law[observed:].sum())
    return min(1.0, 2.0 * min(lower, upper))


def _power(law: FloatArray, times: int) -> FloatArray:
    """Return the law of the sum of `times` independent draws, by repeated squaring."""
    total = np.ones(1)
    base = law
    while times:
        if times & 1:
            total = np.convolve(total, base)
        times >>= 1
        if times:
            base = np.convolve(base, base)
    return total


def permuted_p(a: TaskCounts, b: TaskCounts, *, n_draws: int = 9999, rng: Rng = None) -> float:
    """Return the two-sided p that two sets of different tasks are alike: units are exchanged.

    Parameters
    ----------
    a, b : TaskCounts
        Sets that share no task.
    n_draws : int
        Random allotments of units to the two sets.
    rng : Generator, SeedSequence, int or None
        Source of the draws.
    """
    from sojourn.stats import monte_carlo_p

    source = generator(rng)
    won = np.concatenate([c.unit_sums(c.successes.astype(float)) for c in (a, b)])
    tried = np.concatenate([c.unit_sums(c.attempts.astype(float)) for c in (a, b)])
    n_a = a.n_units

    def gap(order: npt.NDArray[np.intp]) -> float:
        first, second = order[:n_a], order[n_a:]
        rates = [won[part].sum() / tried[part].sum() for part in (first, second)]
        return float(abs(rates[1] - rates[0]))

    observed = gap(np.arange(won.size))
    drawn = np.array([gap(source.permutation(won.size)) for _ in range(n_draws)])
    return monte_carlo_p(observed, drawn)


def probability_better(
    a: TaskCounts, b: TaskCounts, *, paired: bool, n_draws: int = 20_000, rng: Rng = None
) -> float:
    """Return the posterior probability that B succeeds more often than A at tasks like these.

    Parameters
    ----------
    a, b : TaskCounts
        The two sets; of the same tasks in the same order if they are paired.
    paired : bool
        Whether the tasks are shared.
    n_draws : int
        Posterior draws.
    rng : Generator, SeedSequence, int or None
        Source of the draws.

    Notes
    -----
    Bayesian bootstrap over units [1]_ with a prior of one imagined task: paired, half of it one
    that only A solves and half one that only B solves; unpaired, half a success and half a failure
    in each set. With paired single attempts it is P(q > 1/2), q ~ Beta(n_b + 1/2, n_a + 1/2), with
    n_a and n_b the tasks that only one of them solved.

    References
    ----------
    .. [1] D. B. Rubin, "The Bayesian bootstrap", Annals of Statistics 9 (1981), 130-134.
    """
    source = generator(rng)
    if paired:
        PairedCounts(a=a, b=b)
        gain = b.successes / b.attempts - a.successes / a.attempts
        values = np.concatenate((a.unit_sums(gain), (-1.0, 1.0)))
        shape = np.concatenate((np.ones(values.size - 2), (0.5, 0.5)))
        drawn = _gammas(shape, n_draws, source) @ values
        return float(np.mean(drawn > 0.0))
    rates = []
    for counts in (a, b):
        won = np.concatenate((counts.unit_sums(counts.successes.astype(float)), (1.0, 0.0)))
        tried = np.concatenate((counts.unit_sums(counts.attempts.astype(float)), (1.0, 1.0)))
        shape = np.concatenate((np.ones(won.size - 2), (0.5, 0.5)))
        weights = _gammas(shape, n_draws, source)
        rates.append((weights @ won) / (weights @ tried))
    return float(np.mean(rates[1] > rates[0]))


def _gammas(shape: FloatArray, n_draws: int, rng: np.random.Generator) -> FloatArray:
    return rng.standard_gamma(shape, size=(n_draws, shape.size))


def task_flips(pairs: PairedCounts) -> tuple[TaskFlip, ...]:
    """Return the tasks at which A and B differ, the largest gain of B first."""
    a, b = pairs.a, pairs.b
    gain = b.successes / b.attempts - a.successes / a.attempts
    order = np.argsort(-gain, kind="stable")
    return tuple(
        TaskFlip(
            task=int(t),
            successes_a=int(a.successes[t]),
            attempts_a=int(a.attempts[t]),
            successes_b=int(b.successes[t]),
            attempts_b=int(b.attempts[t]),
        )
        for t in order
        if gain[t] != 0.0
    )


def smallest_visible(estimate: Estimate) -> float | None:
    """Return the smallest true difference at which such an interval excludes 0 in 80 % of cases.

    The half width of the interval stands for 1.96 standard errors at 95 %; the answer is
    (z + .84) of them.
    """
    from sojourn.stats import normal_quantile

    if estimate.interval is None:
        return None
    z = normal_quantile(estimate.interval.ci_prob)
    return float(estimate.interval.width / 2 * (z + _POWER_QUANTILE) / z)


def _correlation(pairs: PairedCounts, a: FloatArray, b: FloatArray, *, slack: float) -> float:
    """Return the correlation of unit sums of two centred values; 0 where one does not vary.

    A positive one is less by what half a run could make of it, `slack` in the sum of products: else
    the difference of sets that agree at each of a few tasks would be known exactly. With single
    attempts it is the correction of R. G. Newcombe, Statistics in Medicine 17 (1998), 2635-2650,
    method 10.
    """
    x, y = pairs.a.unit_sums(a), pairs.b.unit_sums(b)
    size = float(np.sqrt((x @ x) * (y @ y)))
    if size == 0.0:
        return 0.0
    together = float(x @ y)
    if together > 0.0:
        together = max(together - slack, 0.0)
    return float(np.clip(together / size, -1.0, 1.0))


def _centred(counts: TaskCounts) -> FloatArray:
    """Return the successes of each task beyond what the overall rate would give it."""
    return np.asarray(counts.successes - counts.rate * counts.attempts, dtype=np.float64)


def _only(counts: TaskCounts, keep: npt.NDArray[np.bool_]) -> TaskCounts:
    return TaskCounts(
        successes=counts.successes[keep], attempts=counts.attempts[keep], unit=counts.unit[keep]
    )
