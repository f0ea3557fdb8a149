"""From the posterior of one domain, or of the mix of domains, to its figures.

Every figure is computed for each draw and then summarised: posterior mean, equal-tailed interval,
Monte Carlo error. Independent tasks are the model with one state, so that one path leads from draws
to figures; what is known without Monte Carlo error (E[p^n], E[theta_j]) takes the place of a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.assess.session_claims import Doubts
from sojourn.assess.session_counts import observed_rate, observed_runs
from sojourn.assess.session_density import posterior_density
from sojourn.assess.session_figures import (
    Density,
    EnvelopeRow,
    FunctionalRow,
    ProbabilityRow,
    Reliability,
    RunRow,
    SubdomainRow,
)
from sojourn.estimates import Estimate, Interval, ReliabilityCurve, Status
from sojourn.session import STARTS, HierarchicalFit, HMMPosterior, reliability
from sojourn.stats.diagnostics import mcse_mean
from sojourn.task_sequences import TaskSequences

__all__ = [
    "Source",
    "domain_reliability",
    "independent_source",
    "posterior_source",
    "run_lengths",
    "summary",
    "tail_weight",
    "too_long",
]

FloatArray = npt.NDArray[np.float64]

# Draws of independent models, and of every domain when domains are combined.
N_DRAWS = 8000
_RUN_LENGTHS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_LEVELS = (0.5, 0.9)
_FAILURES = (1, 2)
_PASS_AT = (2, 3, 5)
_AT_LEAST = (0.5, 0.8, 0.9, 0.95)
# A mean whose draws have a heavier tail than this is not to be trusted.
_MAX_TAIL = 0.7
_ENDLESS = "the mean is infinite or rests on too few draws; see the median"


class Source(NamedTuple):
    """Draws of the parameters of one domain's model, and what follows for runs of tasks."""

    transition: FloatArray  # (chain, draw, K, K)
    success_prob: FloatArray  # (chain, draw, J, K)
    laws: Mapping[str, FloatArray]  # start -> (chain, draw, K)
    weights: FloatArray  # (J,)
    run: Mapping[str, FloatArray]  # start -> (chain, draw, n_max)
    run_mean: FloatArray | None  # where it is known without Monte Carlo error
    subdomain_mean: FloatArray | None

    @property
    def starts(self) -> tuple[str, ...]:
        """The starts that differ: with one state they are all alike."""
        return STARTS if self.transition.shape[-1] > 1 else STARTS[:1]

    def flat(self, start: str) -> FloatArray:
        """Return R(1..n_max) of one start, all chains in one row."""
        run = self.run[start]
        return np.asarray(run.reshape(-1, run.shape[-1]))


def run_lengths(n_max: int) -> list[int]:
    """Return the n of R(n) that are shown."""
    return sorted({n for n in _RUN_LENGTHS if n < n_max} | {n_max})


def independent_source(fit: HierarchicalFit, n_max: int, rng: np.random.Generator) -> Source:
    """Return independent draws of the independent model, as a model of one state."""
    theta = fit.draw_success_prob(N_DRAWS, rng=rng)[None, :, :, None]
    law = np.ones((1, N_DRAWS, 1))
    ones = np.ones((1, N_DRAWS, 1, 1))
    run = reliability.success_run(ones, theta, law, fit.weights, n_max)
    return Source(
        ones,
        theta,
        dict.fromkeys(STARTS, law),
        fit.weights,
        dict.fromkeys(STARTS, run),
        fit.run_means(n_max),
        fit.success_prob,
    )


def posterior_source(posterior: HMMPosterior, n_max: int) -> Source:
    """Return the draws of a hidden-state model."""
    return Source(
        posterior.transition,
        posterior.success_prob,
        {start: posterior.start_law(start) for start in STARTS},
        posterior.weights,
        {start: posterior.run_draws(n_max, start=start) for start in STARTS},
        None,
        None,
    )


def summary(
    draws: FloatArray, reasons: Sequence[str], ci_prob: float, mean: float | None = None
) -> Estimate:
    """Return the mean and equal-tailed interval of draws; `mean` where it is known exactly."""
    tail = 0.5 * (1.0 - ci_prob)
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return Estimate(
        value=float(draws.mean()) if mean is None else float(mean),
        interval=Interval(low=float(low), high=float(high), ci_prob=ci_prob, kind="eti"),
        status=Status.INCONCLUSIVE if reasons else Status.SUPPORTED,
        reasons=tuple(reasons),
        estimand="population",
    )


def too_long(n: float, longest: int) -> list[str]:
    """Return the reservation about n tasks where no session had as many."""
    if n <= longest:
        return []
    return [f"extrapolation: the longest session has {longest} tasks"]


class _Context(NamedTuple):
    """What every figure of a domain needs besides its draws."""

    reasons: Mapping[str, tuple[str, ...]]
    longest: int
    ci_prob: float
    ns: list[int]


def domain_reliability(
    sequences: TaskSequences,
    model: Source,
    alone: Source,
    doubt: Doubts,
    *,
    n_max: int,
    ci_prob: float,
    baseline: FloatArray,
    stacked: Mapping[str, FloatArray] | None = None,
    envelope: tuple[EnvelopeRow, ...] | None = None,
) -> Reliability:
    """Return the figures of a domain.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    model, alone : Source
        Draws of the chosen model and of the independent one.
    doubt : Doubts
        Why figures are not supported.
    n_max : int
        Largest n of R(n).
    ci_prob : float
        Probability of intervals.
    baseline : ndarray of shape (n_subdomains, 2)
        Beta parameters of the beta-binomial baseline.
    stacked : mapping of str to ndarray of shape (n_draws, n_max), optional
        Draws of the stacked average by start.
    envelope : tuple of EnvelopeRow, optional
        Passed on.
    """
    reasons = {"continuing": doubt.figures, "fresh": doubt.fresh, "long_run": doubt.long_run}
    longest = int(sequences.lengths.max())
    context = _Context(reasons, longest, ci_prob, run_lengths(n_max))
    runs = tuple(_runs(sequences, model, alone, doubt, context, stacked))
    found = {(row.start, row.n): row for row in runs}
    first = {start: found[start, 1] for start in STARTS}
    draws = {
        (start, n): np.sort(model.flat(start)[:, n - 1]) for start in STARTS for n in context.ns
    }
    names = sequences.subdomain_names
    return Reliability(
        next_task=first["continuing"].estimate,
        fresh_session=first["fresh"].estimate,
        long_run=first["long_run"].estimate,
        independent=first["continuing"].independent,
        observed=observed_rate(sequences, ci_prob),
        success_run=runs,
        functionals=tuple(_functionals(model, names, context)),
        probabilities=tuple(_probabilities(draws, n_max)),
        envelope=envelope,
        curve=_curve(model, doubt.figures, context, n_max),
        independent_curve=_curve(alone, doubt.independent, context, n_max),
        subdomains=tuple(_subdomains(sequences, model, doubt, context, baseline)),
        densities=tuple(_densities(model, names)),
        sorted_draws=draws,
    )


def _runs(
    sequences: TaskSequences,
    model: Source,
    alone: Source,
    doubt: Doubts,
    context: _Context,
    stacked: Mapping[str, FloatArray] | None,
) -> Iterator[RunRow]:
    stretches = observed_runs(sequences, context.ns)
    for start in STARTS:
        for n in context.ns:
            far = too_long(n, context.longest)
            reasons = [*context.reasons[start], *far]
            exact = model.run_mean is not None
            yield RunRow(
                start=start,
                n=n,
                estimate=_at(model, start, n, reasons, context.ci_prob),
                independent=_at(alone, start, n, [*doubt.independent, *far], context.ci_prob),
                observed=stretches[n] if start == "long_run" else None,
                mcse=0.0 if exact else mcse_mean(model.run[start][..., n - 1]),
                stacked=None
                if stacked is None
                else summary(stacked[start][:, n - 1], reasons, context.ci_prob),
            )


def _at(source: Source, start: str, n: int, reasons: Sequence[str], ci_prob: float) -> Estimate:
    mean = None if source.run_mean is None else float(source.run_mean[n - 1])
    return summary(source.run[start][..., n - 1], reasons, ci_prob, mean)


def _functionals(
    source: Source, names: Sequence[str], context: _Context
) -> Iterator[FunctionalRow]:
    """Yield the figures of the domain's mix by start, then those of each subdomain."""
    decay = reliability.decay_rate(source.transition, source.success_prob, source.weights)
    yield _functional(decay, "decay_rate", None, context)
    for start in source.starts:
        rows = [
            *_of_mix(source, start, context),
            *_waiting(source, start, source.weights, None, context),
        ]
        # With one state it does not matter where tasks start: the same figures stand for all.
        for other in STARTS if len(source.starts) == 1 else (start,):
            for row in rows:
                yield replace(row, start=other)
    if len(names) > 1:
        for j, name in enumerate(names):
            yield from _of_subdomain(source, j, name, context)


def _of_mix(source: Source, start: str, context: _Context) -> Iterator[FunctionalRow]:
    parameters = (source.transition, source.success_prob, source.laws[start], source.weights)
    law, at = source.laws[start], 1
    for n in context.ns:
        # From one n to the next: the law of the state after n - 1 successes.
        law = reliability.state_after_successes(*parameters[:2], law, source.weights, n - at)
        at = n
        draws = reliability.hazard_at(*parameters[:2], law, source.weights, 1)
        yield _functional(draws, "hazard", start, context, n=n)
    n_max = context.ns[-1]
    for failures in _FAILURES:
        curve = reliability.at_most_failures(*parameters, n_max, failures=failures)
        for n in context.ns:
            if n > failures:
                yield _functional(
                    curve[..., n - 1], "at_most_failures", start, context, n=n, failures=failures
                )
    longest = max(_PASS_AT)
    any_of = reliability.pass_at(*parameters, longest)
    for n in _PASS_AT:
        yield _functional(any_of[..., n - 1], "pass_at", start, context, n=n)


def _waiting(
    source: Source, start: str, weights: FloatArray, subdomain: str | None, context: _Context
) -> Iterator[FunctionalRow]:
    """Yield how long it goes well: successes before a failure, and the smallest n below levels."""
    parameters = (source.transition, source.success_prob, source.laws[start], weights)
    draws = reliability.expected_successes(*parameters)
    yield _functional(draws, "expected_successes", start, context, subdomain=subdomain)
    for level in _LEVELS:
        draws = reliability.run_length_draws(*parameters, level)
        yield _functional(draws, "run_length", start, context, level=level, subdomain=subdomain)


def _of_subdomain(source: Source, j: int, name: str, context: _Context) -> Iterator[FunctionalRow]:
    only = np.zeros(len(source.weights))
    only[j] = 1.0
    start = "continuing"
    run = reliability.success_run(
        source.transition, source.success_prob, source.laws[start], only, context.ns[-1]
    )
    for n in context.ns:
        yield _functional(run[..., n - 1], "success_run", start, context, n=n, subdomain=name)
    yield from _waiting(source, start, only, name, context)


def _functional(
    draws: FloatArray,
    name: str,
    start: str | None,
    context: _Context,
    *,
    n: int | None = None,
    failures: int | None = None,
    level: float | None = None,
    subdomain: str | None = None,
) -> FunctionalRow:
    tail = 0.5 * (1.0 - context.ci_prob)
    low, median, high = np.quantile(draws, [tail, 0.5, 1.0 - tail], method="inverted_cdf")
    far = n if n is not None else high if name in ("expected_successes", "run_length") else 0
    reasons = [*context.reasons[start or "long_run"], *too_long(far, context.longest)]
    unbounded = name in ("expected_successes", "run_length")
    known = not unbounded or _has_mean(draws)
    if not known:
        reasons = [_ENDLESS, *reasons]
    interval = Interval(low=float(low), high=float(high), ci_prob=context.ci_prob, kind="eti")
    status = Status.INCONCLUSIVE if reasons else Status.SUPPORTED
    return FunctionalRow(
        name=name,
        start=start,
        n=n,
        failures=failures,
        level=level,
        subdomain=subdomain,
        estimate=Estimate(
            value=float(draws.mean()) if known else None,
            interval=interval if np.isfinite(high) else None,
            status=status if known else Status.WITHHELD,
            reasons=tuple(reasons),
            estimand="population",
        ),
        median=float(median) if np.isfinite(median) else None,
        mcse=mcse_mean(draws) if known else None,
    )


def _has_mean(draws: FloatArray) -> bool:
    """Whether positive, unbounded draws are finite and their right tail is light enough."""
    return bool(np.isfinite(draws).all()) and tail_weight(draws) <= _MAX_TAIL


def tail_weight(draws: FloatArray) -> float:
    """Return Hill's estimate of how slowly P(X > x) ~ x^(-1/k) falls: k over the largest draws.

    The 3 sqrt(n) largest are used, as for Pareto-smoothed weights, but at most a fifth. A mean
    needs k < 1, and its Monte Carlo error is of use below 0.7. Ties do no harm, so that it holds
    for counts too.
    """
    ordered = np.sort(draws, axis=None)
    m = max(1, min(ordered.size // 5, int(3.0 * ordered.size**0.5)))
    threshold = ordered[-m - 1]
    if threshold <= 0.0:
        return 0.0
    return float(np.log(ordered[-m:] / threshold).mean())


def _probabilities(
    draws: Mapping[tuple[str, int], FloatArray], n_max: int
) -> Iterator[ProbabilityRow]:
    for start in STARTS:
        for n in sorted({1, n_max}):
            found = draws[start, n]
            for level in _AT_LEAST:
                share = 1.0 - int(np.searchsorted(found, level, side="left")) / found.size
                yield ProbabilityRow(start=start, n=n, at_least=level, value=share)


def _curve(
    source: Source, reasons: Sequence[str], context: _Context, n_max: int
) -> ReliabilityCurve:
    run = source.flat("continuing")
    tail = 0.5 * (1.0 - context.ci_prob)
    low, high = np.quantile(run, [tail, 1.0 - tail], axis=0)
    return ReliabilityCurve(
        quantity="success_run",
        x=np.arange(1, n_max + 1),
        value=run.mean(axis=0) if source.run_mean is None else source.run_mean,
        low=low,
        high=high,
        ci_prob=context.ci_prob,
        kind="eti",
        n_supported=0 if reasons else min(context.longest, n_max),
    )


def _next_by_subdomain(source: Source) -> FloatArray:
    """Return draws of the next task's success by subdomain, shape (n_draws, n_subdomains)."""
    draws = np.einsum("cdjk,cdk->cdj", source.success_prob, source.laws["continuing"])
    return np.asarray(draws.reshape(-1, draws.shape[-1]))


def _subdomains(
    sequences: TaskSequences,
    source: Source,
    doubt: Doubts,
    context: _Context,
    baseline: FloatArray,
) -> Iterator[SubdomainRow]:
    from scipy.special import betaincinv

    counts = sequences.counts()
    draws = _next_by_subdomain(source)
    tail = 0.5 * (1.0 - context.ci_prob)
    for j, name in enumerate(sequences.subdomain_names):
        n = int(counts.success[j] + counts.failure[j])
        unseen = () if n else ("no outcome of it is known: the figure is borrowed from the others",)
        mean = None if source.subdomain_mean is None else float(source.subdomain_mean[j])
        a, b = baseline[j]
        low, high = (float(betaincinv(a, b, p)) for p in (tail, 1.0 - tail))
        yield SubdomainRow(
            name=name,
            n_observed=n,
            n_success=int(counts.success[j]),
            weight=float(source.weights[j]),
            next_task=summary(draws[:, j], (*doubt.figures, *unseen), context.ci_prob, mean),
            beta_binomial=Estimate(
                value=float(a / (a + b)),
                interval=Interval(low=low, high=high, ci_prob=context.ci_prob, kind="eti"),
                status=Status.INCONCLUSIVE if doubt.independent or not n else Status.SUPPORTED,
                reasons=doubt.independent
                if n
                else ("no outcome of it is known", *doubt.independent),
                estimand="population",
            ),
        )


def _densities(source: Source, names: Sequence[str]) -> Iterator[Density]:
    yield posterior_density(source.flat("continuing")[:, 0], label="domain", level="domain")
    if len(names) > 1:
        draws = _next_by_subdomain(source)
        for j, name in enumerate(names):
            yield posterior_density(draws[:, j], label=name, level="subdomain")
