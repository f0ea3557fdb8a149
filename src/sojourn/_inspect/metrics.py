"""Metrics of Inspect that see every epoch: pass^k, pass@k and the success rate, with intervals.

Inspect hands them one score for each sample and epoch. What a score says is decided as our reader
of Inspect's logs decides it, and the figures are those of `sojourn.attempts`; so a metric in a log
and ``sojourn assess`` on that log agree. They can differ only where Inspect does not hand over what
the reader sees: that a sample ended by an error, was invalidated, or hit a limit unscored.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from inspect_ai.scorer import Metric, SampleScore, Value, metric

from sojourn._validation import check_choice, check_fraction, check_positive_int
from sojourn.attempts import TaskCounts
from sojourn.attempts import pass_ats as _pass_ats
from sojourn.attempts import pass_hats as _pass_hats
from sojourn.attempts import success_rate as _success_rate
from sojourn.estimates import Estimate
from sojourn.readers._inspect_scores import verdict
from sojourn.records import Outcome

__all__ = ["pass_at", "pass_hat", "success_rate"]

_LOG = logging.getLogger(__name__)
_Estimator = Callable[..., tuple[Estimate, ...]]


@metric(scores="unreduced")
def pass_hat(
    k: int | list[int] | None = None,
    *,
    ci_prob: float = 0.95,
    estimand: str = "population",
    cluster: str | None = None,
) -> Metric:
    """Return the metric pass^k: k attempts at the same sample all succeed, averaged over samples.

    Parameters
    ----------
    k : int or list of int, optional
        Numbers of attempts; by default the number of epochs that most samples have.
    ci_prob : float
        Coverage of the interval.
    estimand : {"population", "same_tasks"}
        Samples like these, or these samples run again.
    cluster : str, optional
        Key of the samples' metadata that names a group of related samples, which are then the
        unit of resampling; a sample without it is a unit of its own.

    Returns
    -------
    Metric
        For each k four numbers: ``pass_hat_4``, ``pass_hat_4_low``, ``pass_hat_4_high`` and
        ``pass_hat_4_tasks``, the samples with at least k scored epochs, which are those that count.
        NaN where no figure is supported; then no sample was tried k times, or for ``same_tasks``
        fewer than half of them twice.

    Raises
    ------
    ValueError
        For a k below 1, an unknown estimand or a coverage outside (0, 1).

    Notes
    -----
    The mean over samples of C(c, k) / C(n, k), c of n scored epochs correct; samples may differ in
    n. See `sojourn.attempts.pass_hats` for the interval. A score counts as correct within 1e-6 of
    one after Inspect's own reading of words (``C`` is 1); partial credit is no success.
    """
    settings = _checked(k, ci_prob, estimand, cluster)

    def compute(scores: list[SampleScore]) -> Value:
        return _passes("pass_hat", _pass_hats, scores, settings)

    return compute


@metric(scores="unreduced")
def pass_at(
    k: int | list[int] | None = None,
    *,
    ci_prob: float = 0.95,
    estimand: str = "population",
    cluster: str | None = None,
) -> Metric:
    """Return the metric pass@k: one of k attempts at the same sample succeeds, at least.

    See `pass_hat`; the numbers are ``pass_at_4``, ``pass_at_4_low`` and so on.
    """
    settings = _checked(k, ci_prob, estimand, cluster)

    def compute(scores: list[SampleScore]) -> Value:
        return _passes("pass_at", _pass_ats, scores, settings)

    return compute


@metric(scores="unreduced")
def success_rate(
    *, ci_prob: float = 0.95, estimand: str = "population", cluster: str | None = None
) -> Metric:
    """Return the metric of the share of successful runs, all epochs of all samples weighing alike.

    See `pass_hat` for parameters; the numbers are ``success_rate``, ``success_rate_low``,
    ``success_rate_high`` and ``success_rate_tasks``.
    """
    settings = _checked(None, ci_prob, estimand, cluster)

    def compute(scores: list[SampleScore]) -> Value:
        counts = _counts("success_rate", scores, settings.cluster)
        if counts is None:
            return dict(_numbers("success_rate", None, 0))
        rate = _success_rate(counts, estimand=settings.estimand, ci_prob=settings.ci_prob)
        return dict(_numbers("success_rate", rate, counts.n_tasks))

    return compute


class _Settings(NamedTuple):
    ks: tuple[int, ...] | None
    ci_prob: float
    estimand: str
    cluster: str | None


def _checked(
    k: int | Sequence[int] | None, ci_prob: float, estimand: str, cluster: str | None
) -> _Settings:
    """Refuse wrong settings where the task is made, long before there is a score."""
    ks = None
    if k is not None:
        ks = tuple(check_positive_int(n, name="k") for n in ([k] if isinstance(k, int) else k))
        if not ks:
            raise ValueError("k is an empty list; name at least one number of attempts")
    return _Settings(
        ks,
        check_fraction(ci_prob, name="ci_prob"),
        check_choice(estimand, ("population", "same_tasks"), name="estimand"),
        cluster,
    )


def _passes(
    name: str, estimator: _Estimator, scores: list[SampleScore], settings: _Settings
) -> dict[str, float]:
    counts = _counts(name, scores, settings.cluster)
    ks = settings.ks
    if counts is None:
        return {key: number for k in ks or () for key, number in _numbers(f"{name}_{k}", None, 0)}
    ks = ks or (counts.modal_attempts,)
    estimates = estimator(counts, ks, estimand=settings.estimand, ci_prob=settings.ci_prob, rng=0)
    return {
        key: number
        for k, estimate in zip(ks, estimates, strict=True)
        for key, number in _numbers(f"{name}_{k}", estimate, int((counts.attempts >= k).sum()))
    }


def _numbers(name: str, estimate: Estimate | None, n_tasks: int) -> Iterator[tuple[str, float]]:
    """Yield a figure, its interval and its number of tasks; NaN is Inspect's mark of no number."""
    interval = None if estimate is None else estimate.interval
    value = None if estimate is None else estimate.value
    yield name, math.nan if value is None else value
    yield f"{name}_low", math.nan if interval is None else interval.low
    yield f"{name}_high", math.nan if interval is None else interval.high
    yield f"{name}_tasks", n_tasks


def _counts(name: str, scores: list[SampleScore], cluster: str | None) -> TaskCounts | None:
    """Count scored epochs and successes by sample, None where nothing is scored."""
    tasks: dict[str, int] = {}
    units: dict[Hashable, int] = {}
    success: list[bool] = []
    task: list[int] = []
    unit_of: list[int] = []
    unit: list[int] = []
    for item in scores:
        if item.sample_id is None:
            _warn_once(name, "a score names no sample and is left out")
            continue
        found = verdict(item.score.value)
        if found.odd is not None:
            _warn_once(name, f"{found.odd}; it counts as unscored")
        if found.outcome is Outcome.UNSCORED:
            continue
        sample = str(item.sample_id)
        if sample not in tasks:
            tasks[sample] = len(tasks)
            unit_of.append(units.setdefault(_unit(name, item, sample, cluster), len(units)))
        success.append(found.outcome is Outcome.SUCCESS)
        task.append(tasks[sample])
        unit.append(unit_of[tasks[sample]])
    return TaskCounts.from_runs(success, task, unit) if success else None


def _unit(name: str, item: SampleScore, sample: str, cluster: str | None) -> Hashable:
    """Return what a sample is resampled with: its cluster if it has one, else itself."""
    if cluster is None:
        return ("sample", sample)
    label = (item.sample_metadata or {}).get(cluster)
    if label is None:
        _warn_once(name, f"samples without {cluster!r} in their metadata are units of their own")
        return ("sample", sample)
    return ("cluster", str(label))


@cache
def _warn_once(name: str, message: str) -> None:
    # Metrics are computed again and again while an evaluation runs.
    _LOG.warning("sojourn/%s: %s", name, message)
