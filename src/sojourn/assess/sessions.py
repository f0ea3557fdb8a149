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

from sojourn._threads import plain_blas
from sojourn._validation import check_fraction, check_positive_int
from sojourn.assess.cautions import Caution, skipped_words
from sojourn.assess.session_claims import (
    can_vary,
    domain_cautions,
    domain_claims,
    doubts,
    outages,
)
from sojourn.assess.session_counts import position_bins
from sojourn.assess.session_figures import EnvelopeRow, TaskTrace
from sojourn.assess.session_reliability import (
    domain_reliability,
    independent_source,
    posterior_source,
    run_lengths,
)
from sojourn.assess.session_results import (
    DomainAssessment,
    GainTest,
    GroupedSessionAssessment,
    SessionAssessment,
    SessionSummary,
)
from sojourn.assess.session_stacking import stacked_runs
from sojourn.assess.session_system import (
    Assessed,
    system_density,
    system_envelope,
    system_rows,
)
from sojourn.assess.traces import seeded
from sojourn.corpus import Group, Policy, SessionLog
from sojourn.errors import NothingUsableError
from sojourn.records import OperationalProfile
from sojourn.session import (
    HMMSpec,
    SamplerSettings,
    Selection,
    assess_dependence,
    bootstrap_gain,
    envelope,
    fit_beta_binomial,
    fit_hierarchical,
    is_block_ordered,
    prior_predictive,
    sample,
    select_n_states,
)
from sojourn.tables import n_of
from sojourn.task_sequences import TaskSequences

__all__ = ["assess_session_groups", "assess_sessions"]

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

# More draws than these seldom help chains that still disagree.
_SAMPLING = SamplerSettings(max_draws=8000)
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
    dwell: float = 10.0,
    uniform: bool = False,
    bootstrap: int = 0,
    envelope: bool = False,
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
    dwell : float
        Expected stay in a hidden state, in tasks, that the prior states; over 1.
    uniform : bool
        Whether what the profile leaves open has equal weights, not the data's shares.
    bootstrap : int
        Replicates of a parametric-bootstrap test of more than one state; 0 for none. Each is
        scored with all numbers of states: 99 take minutes.
    envelope : bool
        Whether to add the range of the independent figures over the published box of priors.
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
    if bootstrap:
        check_positive_int(bootstrap, name="bootstrap")
    results, unusable = [], []
    for group, rows in log.groups(by):
        if progress is not None:
            progress(group)
        part = log if rows.size == len(log) else log.select(rows)
        whole = part.profile(profile, uniform=uniform)
        if not (part.success(policy) >= 0).any():
            unusable.append((group, f"none of {n_of(len(part), 'task')} has a verdict that counts"))
            continue
        generator, seed = seeded(rng)
        settled = _Settings(
            policy or Policy(),
            ci_prob,
            n_max,
            tuple(n_states),
            dwell,
            bootstrap,
            envelope,
            settings,
            n_threads,
        )
        results.append(_assess(part, group, whole, settled, generator, seed))
    if not results:
        told = "; ".join(f"{group}: {reason}" for group, reason in unusable)
        reasons = told or "there is no task"
        raise NothingUsableError(f"{reasons}; count them as failures with --faults failure")
    return GroupedSessionAssessment(tuple(results), tuple(unusable))


@plain_blas()
def assess_sessions(
    log: SessionLog,
    profile: OperationalProfile | None = None,
    *,
    policy: Policy | None = None,
    ci_prob: float = 0.95,
    n_max: int = 20,
    n_states: Sequence[int] = (1, 2, 3, 4),
    dwell: float = 10.0,
    uniform: bool = False,
    bootstrap: int = 0,
    envelope: bool = False,
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
        dwell=dwell,
        uniform=uniform,
        bootstrap=bootstrap,
        envelope=envelope,
        settings=settings,
        n_threads=n_threads,
        rng=rng,
    ).groups[0]


class _Settings(NamedTuple):
    policy: Policy
    ci_prob: float
    n_max: int
    n_states: tuple[int, ...]
    dwell: float
    bootstrap: int
    envelope: bool
    sampler: SamplerSettings | None
    n_threads: int


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
    mixed = whole and sum(weights[item.result.name] > 0 for item in found) > 1
    return SessionAssessment(
        group=group,
        domains=domains,
        system=system_rows(found, weights, n_max=settings.n_max, ci_prob=settings.ci_prob)
        if whole
        else (),
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
        system_density=system_density(found, weights) if mixed else None,
        system_envelope=system_envelope(found, weights) if whole else None,
    )


def _log_cautions(
    log: SessionLog, success: npt.NDArray[np.int8], empty: Sequence[str]
) -> Iterator[Caution]:
    n_unknown = int((success < 0).sum())
    if n_unknown:
        yield Caution(
            "SJ211",
            f"{n_unknown:,} of {n_of(len(log), 'task')}, kept in place with an unknown outcome",
        )
    if empty:
        yield Caution("SJ213", f"{len(empty)} of {len(log.domains)} domains")
    n_skipped = sum(s.count for s in log.skipped if s.what in ("run", "line", "file"))
    n_noted = sum(s.count for s in log.skipped if s.what == "key")
    if n_skipped or n_noted:
        yield Caution("SJ105", skipped_words(n_skipped, n_noted))


def _assess_domain(
    log: SessionLog,
    name: str,
    profile: OperationalProfile,
    settings: _Settings,
    rng: np.random.Generator,
) -> Assessed:
    for_test, for_scores, for_model, for_draws, for_prior, for_stack, for_boot = rng.spawn(7)
    sequences = log.task_sequences(name, policy=settings.policy)
    weights = np.array(profile.subdomain_weights(name, sequences.subdomain_names))
    gate = assess_dependence(sequences, rng=for_test)
    several = int(np.count_nonzero(sequences.lengths)) >= _MIN_STARTS
    spec = HMMSpec(
        n_states=1,
        expected_dwell=settings.dwell,
        initial="estimated" if several else "uniform",
    )
    selection = select_n_states(
        sequences,
        n_states=settings.n_states if can_vary(sequences) else (1,),
        spec=spec,
        dependence=gate,
        n_threads=settings.n_threads,
        rng=for_scores,
    )
    independent = fit_hierarchical(sequences, weights=weights)
    baseline = fit_beta_binomial(sequences, weights=weights)
    posterior, stacked = None, None
    if selection.chosen > 1:
        posterior = sample(
            sequences,
            replace(spec, n_states=selection.chosen),
            weights=weights,
            settings=settings.sampler or _SAMPLING,
            n_threads=settings.n_threads,
            rng=for_model,
        )
        stacked = stacked_runs(
            sequences,
            spec,
            selection,
            posterior,
            n_max=settings.n_max,
            settings=settings.sampler,
            n_threads=settings.n_threads,
            rng=for_stack,
        )
    doubt = doubts(sequences, gate, posterior)
    alone = independent_source(independent, settings.n_max, for_draws)
    source = alone if posterior is None else posterior_source(posterior, settings.n_max)
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
        reliability=domain_reliability(
            sequences,
            source,
            alone,
            doubt,
            n_max=settings.n_max,
            ci_prob=settings.ci_prob,
            baseline=np.stack([baseline.alpha, baseline.beta], axis=1),
            stacked=stacked,
            envelope=_envelope(sequences, weights, settings),
        ),
        positions=position_bins(sequences, settings.ci_prob),
        trace=TaskTrace(
            success=sequences.success,
            offsets=sequences.offsets,
            states=None if posterior is None else posterior.state_probabilities(sequences),
        ),
        gain_test=_gain_test(sequences, selection, spec, settings, for_boot),
        block_ordered=is_block_ordered(sequences),
    )
    cautions = domain_cautions(result, sequences, several=len(log.domains) > 1)
    run, run_alone = source.flat("continuing"), alone.flat("continuing")
    return Assessed(result, tuple(cautions), run, run_alone, doubt)


def _envelope(
    sequences: TaskSequences, weights: FloatArray, settings: _Settings
) -> tuple[EnvelopeRow, ...] | None:
    if not settings.envelope:
        return None
    rows = []
    for n in run_lengths(settings.n_max):
        found = envelope(sequences, weights=weights, n=n)
        rows.append(EnvelopeRow(n=n, low=found.low, high=found.high))
    return tuple(rows)


def _gain_test(
    sequences: TaskSequences,
    selection: Selection,
    spec: HMMSpec,
    settings: _Settings,
    rng: np.random.Generator,
) -> GainTest | None:
    if not settings.bootstrap or len(selection.candidates) == 1:
        return None
    p_value, gains = bootstrap_gain(
        sequences,
        selection,
        spec=spec,
        n_boot=settings.bootstrap,
        n_threads=settings.n_threads,
        rng=rng,
    )
    return GainTest(p_value=p_value, gains=tuple(float(gain) for gain in gains))
