"""Assessing sessions: from ordered outcomes to reliability that may depend on what went before.

Reads as a method section does: decide which tasks have an outcome, lay each domain out as
sequences, test whether order matters, choose between independent tasks and hidden states on later
tasks, take the posterior, read off it the next task (now, in a fresh session, in the long run) and
R(n) = P(the next n tasks all succeed) with the independent estimate beside it, combine the domains
by the operational profile, and say which claims the data support.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int
from sojourn.assess.cautions import Caution
from sojourn.assess.session_claims import (
    Doubts,
    can_vary,
    domain_cautions,
    domain_claims,
    doubts,
    outages,
)
from sojourn.assess.session_counts import observed_rate, observed_runs, position_bins
from sojourn.assess.session_results import (
    DomainAssessment,
    GroupedSessionAssessment,
    Reliability,
    RunRow,
    SessionAssessment,
    SessionSummary,
    SubdomainRow,
    SystemRow,
)
from sojourn.assess.traces import _seeded
from sojourn.corpus import Group, Policy, SessionLog
from sojourn.errors import NothingUsableError
from sojourn.estimates import Estimate, Interval, ReliabilityCurve, Status
from sojourn.records import OperationalProfile
from sojourn.session import (
    STARTS,
    HierarchicalFit,
    HMMPosterior,
    HMMSpec,
    SamplerSettings,
    assess_dependence,
    fit_hierarchical,
    is_block_ordered,
    prior_predictive,
    sample,
    select_n_states,
    system_success_run,
)
from sojourn.tables import clean
from sojourn.task_sequences import TaskSequences

__all__ = ["assess_session_groups", "assess_sessions"]

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_RUN_LENGTHS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_CONVENTIONS = ("domain_once", "domain_per_task")
# More draws than these seldom help chains that still disagree.
_SAMPLING = SamplerSettings(max_draws=8000)
# Draws of independent models, and of every domain when domains are combined.
_N_DRAWS = 8000
# With this many sessions the law of their first state is estimated, not assumed.
_MIN_STARTS = 5


def assess_session_groups(
    log: SessionLog,
    profile: OperationalProfile | None = None,
    *,
    by: Sequence[str] = ("agent", "model"),
    policy: Policy | None = None,
    ci_prob: float = 0.95,
    n_max: int = 20,
    n_states: Sequence[int] = (1, 2, 3, 4),
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: Rng = None,
    progress: Callable[[Group], None] | None = None,
) -> GroupedSessionAssessment:
    """Assess every group of sessions on its own.

    Parameters
    ----------
    log : SessionLog
        The sessions.
    profile : OperationalProfile, optional
        Shares of domains and subdomains in the work ahead; what it leaves open, and all of it by
        default, is taken from the data.
    by : sequence of {"agent", "model"}
        Fields whose values name a group; empty to pool all sessions.
    policy : Policy, optional
        By ``faults="failure"`` tasks without a verdict are failures; else their outcomes are
        unknown and they keep their places.
    ci_prob : float
        Probability of all intervals.
    n_max : int
        Largest n of R(n).
    n_states : sequence of int
        Numbers of hidden states to score, 1 among them.
    settings : SamplerSettings, optional
        How long to sample the chosen model.
    n_threads : int
        Threads; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of the random draws; an int or the entropy drawn for None is kept in the result.
    progress : callable, optional
        Called with each group before it is assessed.

    Returns
    -------
    GroupedSessionAssessment
        One assessment a group in which a task has an outcome.

    Raises
    ------
    ValueError
        If the profile names a domain or subdomain that a group does not hold.
    NothingUsableError
        If no task of any group has an outcome that counts.
    """
    check_fraction(ci_prob, name="ci_prob")
    check_positive_int(n_max, name="n_max")
    results, unusable = [], []
    for group, rows in log.groups(by):
        if progress is not None:
            progress(group)
        part = log if rows.size == len(log) else log.select(rows)
        whole = part.profile(profile)
        if not (part.success(policy) >= 0).any():
            unusable.append(f"{group}: none of {len(part)} tasks has a verdict that counts")
            continue
        generator, seed = _seeded(rng)
        settled = _Settings(
            policy or Policy(), ci_prob, n_max, tuple(n_states), settings, n_threads
        )
        results.append(_assess(part, group, whole, settled, generator, seed))
    if not results:
        reasons = "; ".join(unusable) or "there is no task"
        raise NothingUsableError(f"{reasons}; count them as failures with --faults failure")
    return GroupedSessionAssessment(tuple(results))


def assess_sessions(
    log: SessionLog,
    profile: OperationalProfile | None = None,
    *,
    policy: Policy | None = None,
    ci_prob: float = 0.95,
    n_max: int = 20,
    n_states: Sequence[int] = (1, 2, 3, 4),
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: Rng = None,
) -> SessionAssessment:
    """Assess the sessions of one agent and model.

    Parameters are those of `assess_session_groups`.

    Returns
    -------
    SessionAssessment
        For each domain the evidence of dependence, the chosen model and its reliability figures
        beside the independent ones; the system's reliability under the profile.

    Raises
    ------
    ValueError
        If the log holds several groups, or the profile names what it does not hold.
    NothingUsableError
        If no task has an outcome that counts.
    """
    groups = log.groups()
    if len(groups) > 1:
        raise ValueError(
            f"the log holds {len(groups)} groups ({groups[0][0]}; {groups[1][0]}; ...); use "
            "assess_session_groups(log), or assess_session_groups(log, by=()) to pool them"
        )
    return assess_session_groups(
        log,
        profile,
        policy=policy,
        ci_prob=ci_prob,
        n_max=n_max,
        n_states=n_states,
        settings=settings,
        n_threads=n_threads,
        rng=rng,
    ).groups[0]


class _Settings(NamedTuple):
    policy: Policy
    ci_prob: float
    n_max: int
    n_states: tuple[int, ...]
    sampler: SamplerSettings | None
    n_threads: int

    @property
    def run_lengths(self) -> list[int]:
        return sorted({n for n in _RUN_LENGTHS if n < self.n_max} | {self.n_max})


class _Assessed(NamedTuple):
    """A domain's result, and the draws that the system's figures are made of."""

    result: DomainAssessment
    cautions: tuple[Caution, ...]
    run: FloatArray  # (n_draws, n_max)
    independent_run: FloatArray
    doubt: Doubts


def _assess(
    log: SessionLog,
    group: Group,
    profile: OperationalProfile,
    settings: _Settings,
    generator: np.random.Generator,
    seed: int | None,
) -> SessionAssessment:
    success = log.success(settings.policy)
    names = log.domains
    children = generator.spawn(len(names))
    found, empty = [], []
    for name, child in zip(names, children, strict=True):
        if (log.task_sequences(name, policy=settings.policy).success >= 0).any():
            found.append(_assess_domain(log, name, profile, settings, child))
        else:
            empty.append(name)
    domains = tuple(item.result for item in found)
    weights = dict(zip(names, profile.domain_weights(names), strict=True))
    whole = not any(weights[name] > 0 for name in empty)
    cautions = [caution for item in found for caution in item.cautions]
    return SessionAssessment(
        group=group,
        domains=domains,
        system=tuple(_system(found, weights, settings)) if whole else (),
        profile=profile,
        corpus=SessionSummary(
            n_tasks=len(log),
            n_observed=int((success >= 0).sum()),
            n_success=int((success == 1).sum()),
            n_sessions=log.n_sessions,
            n_unsorted=log.n_unsorted,
            skipped=log.skipped,
        ),
        cautions=(*cautions, *_log_cautions(log, success, empty)),
        policy=settings.policy,
        seed=seed,
        ci_prob=settings.ci_prob,
    )


def _log_cautions(
    log: SessionLog, success: npt.NDArray[np.int8], empty: Sequence[str]
) -> Iterator[Caution]:
    n_unknown = int((success < 0).sum())
    if n_unknown:
        yield Caution(
            "SJ211", f"{n_unknown} of {len(log)} tasks; they keep their places as unknown outcomes"
        )
    if empty:
        yield Caution("SJ213", f"{len(empty)} of {len(log.domains)} domains")
    n_skipped = sum(s.count for s in log.skipped if s.what in ("run", "line", "file"))
    if n_skipped:
        yield Caution("SJ105", f"{n_skipped} tasks, lines or files were skipped while reading")


def _assess_domain(
    log: SessionLog,
    name: str,
    profile: OperationalProfile,
    settings: _Settings,
    rng: np.random.Generator,
) -> _Assessed:
    for_test, for_scores, for_model, for_draws, for_prior = rng.spawn(5)
    sequences = log.task_sequences(name, policy=settings.policy)
    weights = np.array(profile.subdomain_weights(name, sequences.subdomain_names))
    gate = assess_dependence(sequences, rng=for_test)
    several = int(np.count_nonzero(sequences.lengths)) >= _MIN_STARTS
    spec = HMMSpec(n_states=1, initial="estimated" if several else "uniform")
    # A prior that leaves a cell no chance of an outcome weighs it 0: its log is meant to be -inf.
    with np.errstate(divide="ignore"):
        selection = select_n_states(
            sequences,
            n_states=settings.n_states if can_vary(sequences) else (1,),
            spec=spec,
            dependence=gate,
            n_threads=settings.n_threads,
            rng=for_scores,
        )
    independent = fit_hierarchical(sequences, weights=weights)
    posterior = None
    if selection.chosen > 1:
        posterior = sample(
            sequences,
            replace(spec, n_states=selection.chosen),
            weights=weights,
            settings=settings.sampler or _SAMPLING,
            n_threads=settings.n_threads,
            rng=for_model,
        )
    doubt = doubts(sequences, gate, posterior)
    alone = _independent_draws(independent, settings.n_max, for_draws)
    draws = alone if posterior is None else _posterior_draws(posterior, settings.n_max)
    counts = log.session_counts(name, policy=settings.policy)
    n_outages, rate_without = outages(counts)
    result = DomainAssessment(
        name=name,
        n_tasks=sequences.n_tasks,
        n_observed=sequences.n_observed,
        n_success=int((sequences.success == 1).sum()),
        n_sessions=int(np.count_nonzero(sequences.lengths)),
        n_outages=n_outages,
        rate_without_outages=rate_without,
        longest_session=int(sequences.lengths.max()),
        gaps=log.gaps(name),
        claims=tuple(domain_claims(sequences, gate, doubt)),
        dependence=gate,
        selection=selection,
        model=independent if posterior is None else posterior,
        independent=independent,
        prior=prior_predictive(
            replace(spec, n_states=selection.chosen),
            sequences.n_subdomains,
            weights=weights,
            rng=for_prior,
        ),
        states=None if posterior is None else posterior.states(),
        reliability=_reliability(sequences, weights, draws, alone, doubt, settings),
        positions=position_bins(sequences, settings.ci_prob),
    )
    cautions = domain_cautions(
        result,
        sequences,
        block_ordered=is_block_ordered(sequences),
        several=len(log.domains) > 1,
    )
    run = draws.run["continuing"]
    return _Assessed(result, tuple(cautions), run, alone.run["continuing"], doubt)


class _Draws(NamedTuple):
    """R(1..n_max) by start and the next task by subdomain, draw by draw, and exact means."""

    run: dict[str, FloatArray]  # (n_draws, n_max)
    subdomain: FloatArray  # (n_draws, n_subdomains)
    run_mean: FloatArray | None  # where it is known without Monte Carlo error
    subdomain_mean: FloatArray | None


def _independent_draws(fit: HierarchicalFit, n_max: int, rng: np.random.Generator) -> _Draws:
    theta = fit.draw_success_prob(_N_DRAWS, rng=rng)
    run = (theta @ fit.weights)[:, None] ** np.arange(1, n_max + 1)
    mean = fit.run_means(n_max)
    return _Draws(dict.fromkeys(STARTS, run), theta, mean, fit.success_prob)


def _posterior_draws(posterior: HMMPosterior, n_max: int) -> _Draws:
    run = {start: posterior.run_draws(n_max, start=start).reshape(-1, n_max) for start in STARTS}
    n_subdomains = len(posterior.subdomain_names)
    law = posterior.start_law("continuing")
    next_task = np.einsum("cdjk,cdk->cdj", posterior.success_prob, law)
    return _Draws(run, next_task.reshape(-1, n_subdomains), None, None)


def _summary(
    draws: FloatArray, reasons: Sequence[str], ci_prob: float, mean: float | None = None
) -> Estimate:
    tail = 0.5 * (1.0 - ci_prob)
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return Estimate(
        value=float(draws.mean()) if mean is None else float(mean),
        interval=Interval(low=float(low), high=float(high), ci_prob=ci_prob, kind="eti"),
        status=Status.INCONCLUSIVE if reasons else Status.SUPPORTED,
        reasons=tuple(reasons),
        estimand="population",
    )


def _reliability(
    sequences: TaskSequences,
    weights: FloatArray,
    draws: _Draws,
    alone: _Draws,
    doubt: Doubts,
    settings: _Settings,
) -> Reliability:
    longest = int(sequences.lengths.max())
    stretches = observed_runs(sequences, settings.run_lengths)
    reasons = {"continuing": doubt.figures, "fresh": doubt.fresh, "long_run": doubt.long_run}

    def at(which: _Draws, start: str, n: int, reasons: Sequence[str]) -> Estimate:
        mean = None if which.run_mean is None else float(which.run_mean[n - 1])
        found = [*reasons, *_too_long(n, longest)]
        return _summary(which.run[start][:, n - 1], found, settings.ci_prob, mean)

    def of(start: str, n: int) -> Estimate:
        return at(draws, start, n, reasons[start])

    return Reliability(
        next_task=of("continuing", 1),
        fresh_session=of("fresh", 1),
        long_run=of("long_run", 1),
        independent=at(alone, "continuing", 1, doubt.independent),
        observed=observed_rate(sequences, settings.ci_prob),
        success_run=tuple(
            RunRow(
                start=start,
                n=n,
                estimate=of(start, n),
                independent=at(alone, start, n, doubt.independent),
                observed=stretches[n] if start == "long_run" else None,
            )
            for start in STARTS
            for n in settings.run_lengths
        ),
        curve=_curve(draws, doubt.figures, longest, settings),
        independent_curve=_curve(alone, doubt.independent, longest, settings),
        subdomains=tuple(_subdomains(sequences, weights, draws, doubt, settings.ci_prob)),
    )


def _too_long(n: int, longest: int) -> list[str]:
    if n <= longest:
        return []
    return [f"extrapolation: the longest session has {longest} tasks"]


def _curve(
    draws: _Draws, reasons: Sequence[str], longest: int, settings: _Settings
) -> ReliabilityCurve:
    run = draws.run["continuing"]
    tail = 0.5 * (1.0 - settings.ci_prob)
    low, high = np.quantile(run, [tail, 1.0 - tail], axis=0)
    return ReliabilityCurve(
        quantity="success_run",
        x=np.arange(1, settings.n_max + 1),
        value=run.mean(axis=0) if draws.run_mean is None else draws.run_mean,
        low=low,
        high=high,
        ci_prob=settings.ci_prob,
        kind="eti",
        n_supported=0 if reasons else min(longest, settings.n_max),
    )


def _subdomains(
    sequences: TaskSequences, weights: FloatArray, draws: _Draws, doubt: Doubts, ci_prob: float
) -> Iterator[SubdomainRow]:
    counts = sequences.counts()
    for j, name in enumerate(sequences.subdomain_names):
        n = int(counts.success[j] + counts.failure[j])
        unseen = () if n else ("no outcome of it is known: the figure is borrowed from the others",)
        mean = None if draws.subdomain_mean is None else float(draws.subdomain_mean[j])
        yield SubdomainRow(
            name=name,
            n_observed=n,
            n_success=int(counts.success[j]),
            weight=float(weights[j]),
            next_task=_summary(draws.subdomain[:, j], (*doubt.figures, *unseen), ci_prob, mean),
        )


def _system(
    found: Sequence[_Assessed], weights: dict[str, float], settings: _Settings
) -> Iterator[SystemRow]:
    """Combine the domains; they are independent a posteriori, so that draws pair at will."""
    used = [item for item in found if weights[item.result.name] > 0]
    share = np.array([weights[item.result.name] for item in used])
    share = share / share.sum()
    size = min(item.run.shape[0] for item in used)
    runs = [_thinned(item.run, size) for item in used]
    alone = [_thinned(item.independent_run, size) for item in used]
    reasons = _named(used, [item.doubt.figures for item in used])
    reasons_alone = _named(used, [item.doubt.independent for item in used])
    longest = min(item.result.longest_session for item in used)
    figures = [item.result.reliability for item in used]
    for convention in _CONVENTIONS:
        model = system_success_run(runs, share, convention=convention)
        independent = system_success_run(alone, share, convention=convention)
        # Domains are independent a posteriori and each enters linearly: means combine exactly.
        mean = system_success_run([f.curve.value for f in figures], share, convention=convention)
        mean_alone = system_success_run(
            [f.independent_curve.value for f in figures], share, convention=convention
        )
        for n in settings.run_lengths:
            far = _too_long(n, longest)
            yield SystemRow(
                convention=convention,
                n=n,
                estimate=_summary(model[:, n - 1], [*reasons, *far], settings.ci_prob, mean[n - 1]),
                independent=_summary(
                    independent[:, n - 1],
                    [*reasons_alone, *far],
                    settings.ci_prob,
                    mean_alone[n - 1],
                ),
            )


def _thinned(draws: FloatArray, size: int) -> FloatArray:
    keep = np.linspace(0, draws.shape[0] - 1, size).round().astype(int)
    return np.asarray(draws[keep])


def _named(used: Sequence[_Assessed], reasons: Sequence[Sequence[str]]) -> list[str]:
    if len(used) == 1:
        return list(reasons[0])
    return [
        f"{clean(item.result.name)}: {reason}"
        for item, given in zip(used, reasons, strict=True)
        for reason in given
    ]
