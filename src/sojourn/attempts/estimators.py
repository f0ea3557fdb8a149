"""How often it succeeds, k times in a row, at least once in k: counted, not modelled.

pass^k and pass@k are averages over tasks of the unbiased estimators C(c, k) / C(n, k) and
1 - C(n - c, k) / C(n, k): all k attempts are at the same task, drawn without replacement from those
made. The pooled rate to the k answers another question and is not offered here.

Two estimands: ``population`` (tasks like these; units of tasks are the sample) and ``same_tasks``
(these tasks, run again; only attempts within a task are).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_fraction, check_positive_int, generator
from sojourn.attempts.beta_binomial import BetaBinomialPosterior, fit_beta_binomial
from sojourn.attempts.counts import TaskCounts
from sojourn.attempts.values import alike_variance, attempt_variance, task_values
from sojourn.estimates import Estimate, Interval, Status
from sojourn.stats import (
    effective_size,
    normal_quantile,
    ratio_mean,
    resampled_sums,
    t_quantile,
    wilson,
)
from sojourn.tables import n_of

__all__ = ["naive_rate", "pass_at", "pass_ats", "pass_hat", "pass_hats", "success_rate"]

FloatArray = npt.NDArray[np.float64]
Generatable = np.random.Generator | np.random.SeedSequence | int | None

FEW = 10
_ESTIMANDS = ("population", "same_tasks")
_ENDS = ("above 0", "below 1")
_METHODS = ("auto", "wilson_effective", "beta_binomial", "bootstrap")


def success_rate(
    counts: TaskCounts, *, estimand: str = "population", ci_prob: float = 0.95
) -> Estimate:
    """Return the share of successful runs with an interval that respects tasks.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts of each task.
    estimand : {"population", "same_tasks"}
        Tasks like these, or these tasks run again (needs two attempts at half of the tasks).
    ci_prob : float
        Coverage of the interval.

    Returns
    -------
    Estimate
        The rate weights runs equally. Inconclusive with a single unit of resampling.

    Notes
    -----
    Wilson's interval at n_eff = m (1 - m) / se^2 outcomes, se clustered by unit, n_eff kept within
    [equal units, runs], with the t quantile on units - 1. See `pass_hats` for few successes or few
    failures, and for ``same_tasks``.
    """
    sample = _Sample(
        counts=counts,
        k=1,
        values=counts.successes / counts.attempts,
        weights=counts.attempts.astype(float),
    )
    settings = _Settings(
        check_choice(estimand, _ESTIMANDS, name="estimand"),
        check_fraction(ci_prob, name="ci_prob"),
        "auto",
        0,
        generator(0),
        partial(fit_beta_binomial, counts),
        _ENDS,
    )
    return _estimate(sample, settings)


def naive_rate(counts: TaskCounts, *, ci_prob: float = 0.95) -> Estimate:
    """Return the share of successful runs with Wilson's interval as if runs were independent.

    Shown to be compared with `success_rate`: with task effects it is too narrow.
    """
    bounds = wilson(counts.rate, counts.n_runs, normal_quantile(ci_prob))
    interval = Interval(
        low=float(bounds.low), high=float(bounds.high), ci_prob=ci_prob, kind="wilson"
    )
    return Estimate(value=counts.rate, interval=interval, estimand="population")


def pass_hat(
    counts: TaskCounts,
    k: int,
    *,
    estimand: str = "population",
    ci_prob: float = 0.95,
    method: str = "auto",
    n_resamples: int = 1999,
    rng: Generatable = None,
) -> Estimate:
    """Return pass^k: all of k attempts at the same task succeed, averaged over tasks.

    See `pass_hats` for parameters, method and references.
    """
    return pass_hats(
        counts,
        (k,),
        estimand=estimand,
        ci_prob=ci_prob,
        method=method,
        n_resamples=n_resamples,
        rng=rng,
    )[0]


def pass_at(
    counts: TaskCounts,
    k: int,
    *,
    estimand: str = "population",
    ci_prob: float = 0.95,
    method: str = "auto",
    n_resamples: int = 1999,
    rng: Generatable = None,
) -> Estimate:
    """Return pass@k: at least one of k attempts at the same task succeeds, averaged over tasks.

    See `pass_hats` for parameters, method and references.
    """
    return pass_ats(
        counts,
        (k,),
        estimand=estimand,
        ci_prob=ci_prob,
        method=method,
        n_resamples=n_resamples,
        rng=rng,
    )[0]


def pass_hats(
    counts: TaskCounts,
    ks: Sequence[int],
    *,
    estimand: str = "population",
    ci_prob: float = 0.95,
    method: str = "auto",
    n_resamples: int = 1999,
    rng: Generatable = None,
) -> tuple[Estimate, ...]:
    """Return pass^k for several k.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts of each task; attempts may differ.
    ks : sequence of int
        Numbers of attempts, each at least 1.
    estimand : {"population", "same_tasks"}
        Tasks like these, or these tasks run again.
    ci_prob : float
        Coverage of the interval.
    method : {"auto", "wilson_effective", "beta_binomial", "bootstrap"}
        The interval for ``population``; see Notes. For ``same_tasks`` only ``auto``.
    n_resamples : int
        Resamples of the bootstrap.
    rng : Generator, int, SeedSequence or None
        For the bootstrap; all k share the resamples.

    Returns
    -------
    tuple of Estimate
        One for each k: withheld where no task has k attempts, inconclusive where fewer than half
        of the tasks have or where they make a single unit of resampling.

    Raises
    ------
    ValueError
        For a k below 1 or an unknown estimand or method.

    Notes
    -----
    Value: mean over tasks with n >= k attempts of C(c, k) / C(n, k).

    ``auto``: Wilson's interval at n_eff = m (1 - m) / se^2 outcomes, se clustered by unit, with the
    t quantile on units - 1, n_eff at least the number of equal units, se^2 at least what it would
    be if all tasks were alike (for k = 1: n_eff at most the runs). Where fewer than 10 tasks
    have a value above 0, or below 1, se is badly known: if tasks are the units, each bound is then
    the mean of this one and of the beta-binomial posterior's (kind ``wilson_beta_binomial``). The
    two err in opposite ways; the coverage study compares them with the percentile bootstrap.

    ``same_tasks``: the same form with the variance of attempts alone (`attempt_variance`), n_eff at
    least the number of disjoint sets of k attempts, since tasks that differ only make it larger.

    References
    ----------
    M. Chen et al. (2021), arXiv:2107.03374 (pass@k); S. Yao et al. (2024), arXiv:2406.12045
    (pass^k); W. Hoeffding (1956), Ann. Math. Statist. 27, 713-721 (unequal probabilities).
    """
    rng = generator(rng)
    return _all_succeed(counts, ks, (estimand, ci_prob, method, n_resamples), rng, _ENDS)


def pass_ats(
    counts: TaskCounts,
    ks: Sequence[int],
    *,
    estimand: str = "population",
    ci_prob: float = 0.95,
    method: str = "auto",
    n_resamples: int = 1999,
    rng: Generatable = None,
) -> tuple[Estimate, ...]:
    """Return pass@k for several k: one minus pass^k of the counts with failures for successes.

    See `pass_hats` for parameters, method and references.
    """
    options = (estimand, ci_prob, method, n_resamples)
    failing = _all_succeed(counts.flipped(), ks, options, generator(rng), _ENDS[::-1])
    return tuple(_complement(estimate) for estimate in failing)


def _all_succeed(
    counts: TaskCounts,
    ks: Sequence[int],
    options: tuple[str, float, str, int],
    rng: np.random.Generator,
    ends: tuple[str, str],
) -> tuple[Estimate, ...]:
    """Return pass^k for several k; `ends` name the sides of a value in the reasons."""
    estimand, ci_prob, method, n_resamples = options
    settings = _Settings(
        check_choice(estimand, _ESTIMANDS, name="estimand"),
        check_fraction(ci_prob, name="ci_prob"),
        check_choice(method, _METHODS, name="method"),
        check_positive_int(n_resamples, name="n_resamples"),
        rng,
        cache(partial(fit_beta_binomial, counts)),
        ends,
    )
    if estimand == "same_tasks" and method != "auto":
        raise ValueError(f"method {method!r} resamples tasks; same_tasks takes method='auto'")
    numbers = [check_positive_int(k, name="k") for k in ks]
    draws = None
    if method == "bootstrap":
        draws = _bootstrap_means(counts, numbers, settings)
    estimates = []
    for position, k in enumerate(numbers):
        sample = _sample(counts, k)
        if sample is None:
            estimates.append(_no_task(counts, k, estimand))
        else:
            estimates.append(
                _estimate(sample, settings, None if draws is None else draws[:, position])
            )
    return tuple(estimates)


class _Settings(NamedTuple):
    estimand: str
    ci_prob: float
    method: str
    n_resamples: int
    rng: np.random.Generator
    law: Callable[[], BetaBinomialPosterior]
    ends: tuple[str, str]


class _Sample(NamedTuple):
    """The tasks that say something on k, their values, and the weight of each in the mean."""

    counts: TaskCounts
    k: int
    values: FloatArray
    weights: FloatArray
    n_left_out: int = 0


def _sample(counts: TaskCounts, k: int) -> _Sample | None:
    enough = counts.attempts >= k
    if not enough.any():
        return None
    kept = counts
    if not enough.all():
        kept = TaskCounts(
            successes=counts.successes[enough],
            attempts=counts.attempts[enough],
            unit=counts.unit[enough],
        )
    values = task_values(kept.successes, kept.attempts, k)
    return _Sample(kept, k, values, np.ones(kept.n_tasks), counts.n_tasks - kept.n_tasks)


def _no_task(counts: TaskCounts, k: int, estimand: str) -> Estimate:
    return Estimate(
        value=None,
        status=Status.WITHHELD,
        reasons=(
            f"no task has {k} attempts, the most is {counts.max_attempts}; "
            f"beyond the attempts there are only bounds",
        ),
        estimand=estimand,
    )


def _estimate(sample: _Sample, settings: _Settings, draws: FloatArray | None = None) -> Estimate:
    """Return the estimate of one sample: value, interval by the settings, status and reasons."""
    reasons = []
    status = Status.SUPPORTED
    n_all = sample.counts.n_tasks + sample.n_left_out
    if sample.n_left_out:
        reasons.append(
            f"{sample.n_left_out} of {n_all} tasks have fewer than {sample.k} attempts "
            "and are left out"
        )
        if 2 * sample.n_left_out > n_all:
            status = Status.INCONCLUSIVE
    if settings.estimand == "same_tasks":
        repeated = int(np.count_nonzero(sample.counts.attempts >= 2))
        if 2 * repeated < sample.counts.n_tasks:
            reason = (
                f"{repeated} of {n_of(sample.counts.n_tasks, 'task')} tried twice or more: running "
                "the same tasks again varies by an amount these data do not show"
            )
            return Estimate(
                value=None,
                status=Status.WITHHELD,
                reasons=(reason, *reasons),
                estimand="same_tasks",
            )
        value, interval = _same_tasks_interval(sample, settings)
    else:
        value, interval, caution = _population_interval(sample, settings, draws)
        if caution is not None:
            reasons.insert(0, caution)
        if sample.counts.n_units < 2:
            status = Status.INCONCLUSIVE
            reasons.insert(0, "one unit of tasks does not tell how much others would differ")
    return Estimate(
        value=value,
        interval=interval,
        status=status,
        reasons=tuple(reasons),
        estimand=settings.estimand,
    )


def _population_interval(
    sample: _Sample, settings: _Settings, draws: FloatArray | None
) -> tuple[float, Interval, str | None]:
    counts, k = sample.counts, sample.k
    mean = ratio_mean(
        counts.unit_sums(sample.weights * sample.values), counts.unit_sums(sample.weights)
    )
    variance = np.inf
    if mean.n_units > 1:
        least = alike_variance(counts, k, sample.weights, mean.value)
        variance = max(mean.variance, least)
    size = effective_size(mean.value, variance, mean.n_effective_units, np.inf)
    quantile = t_quantile(settings.ci_prob, max(mean.n_effective_units - 1, 1.0))
    bounds = wilson(mean.value, size, quantile)
    low, high = float(bounds.low), float(bounds.high)
    kind, caution = "wilson_effective", None
    method = settings.method
    if method == "auto" and counts.n_units == counts.n_tasks:
        some = int(np.count_nonzero(sample.values > 0))
        flawed = int(np.count_nonzero(sample.values < 1))
        if min(some, flawed) < FEW:
            method = "blend"
            side = settings.ends[0 if some <= flawed else 1]
            caution = (
                f"{n_of(min(some, flawed), 'task')} with a value {side}, fewer than {FEW}: "
                "the interval leans on a beta-binomial law"
            )
    if draws is not None:
        tail = (1 - settings.ci_prob) / 2
        low, high = (float(q) for q in np.quantile(draws, (tail, 1 - tail)))
        kind = "bootstrap"
    elif method in ("beta_binomial", "blend"):
        posterior = settings.law()
        modelled = posterior.interval(posterior.success_moment(k), ci_prob=settings.ci_prob)
        share = 1.0 if method == "beta_binomial" else 0.5
        low = share * min(modelled.low, mean.value) + (1 - share) * low
        high = share * max(modelled.high, mean.value) + (1 - share) * high
        kind = "beta_binomial" if method == "beta_binomial" else "wilson_beta_binomial"
    interval = Interval(
        low=min(low, mean.value), high=max(high, mean.value), ci_prob=settings.ci_prob, kind=kind
    )
    return mean.value, interval, caution


def _same_tasks_interval(sample: _Sample, settings: _Settings) -> tuple[float, Interval]:
    counts, k, weights = sample.counts, sample.k, sample.weights
    value = float(np.clip(weights @ sample.values / weights.sum(), 0.0, 1.0))
    smallest = float(np.sum(counts.attempts // k))
    size = effective_size(value, attempt_variance(counts, k, weights), smallest, np.inf)
    freedom = max(float(np.sum(counts.attempts - 1)), 1.0)
    bounds = wilson(value, size, t_quantile(settings.ci_prob, freedom))
    interval = Interval(
        low=float(bounds.low),
        high=float(bounds.high),
        ci_prob=settings.ci_prob,
        kind="wilson_within",
    )
    return value, interval


def _bootstrap_means(counts: TaskCounts, ks: list[int], settings: _Settings) -> FloatArray:
    """Return means of all k over resamples of units, shape (n_resamples, n_ks), NaN-free.

    Each unit adds the sum of its values and the number of its tasks with k attempts; a resample
    without such a task repeats the estimate.
    """
    columns = []
    for k in ks:
        enough = counts.attempts >= k
        values = np.zeros(counts.n_tasks)
        values[enough] = task_values(counts.successes[enough], counts.attempts[enough], k)
        columns += [counts.unit_sums(values), counts.unit_sums(enough.astype(float))]
    rows = np.column_stack(columns)
    sums = resampled_sums(rows, settings.n_resamples, settings.rng)
    whole = rows.sum(axis=0)
    top, bottom = sums[:, 0::2], sums[:, 1::2]
    fallback = whole[0::2] / np.maximum(whole[1::2], 1.0)
    return np.where(bottom > 0, top / np.maximum(bottom, 1.0), fallback)


def _complement(estimate: Estimate) -> Estimate:
    """Return one minus the estimate."""
    interval = estimate.interval
    if estimate.value is None or interval is None:
        return estimate
    return Estimate(
        value=1.0 - estimate.value,
        interval=Interval(
            low=1.0 - interval.high,
            high=1.0 - interval.low,
            ci_prob=interval.ci_prob,
            kind=interval.kind,
        ),
        status=estimate.status,
        reasons=estimate.reasons,
        estimand=estimate.estimand,
    )
