"""Assessing runs: from a corpus to the figures and claims that it supports.

Reads as a method section does: apply the policy, count runs by task, estimate the success rate and
what repeated attempts give, estimate how much tasks differ, estimate the curves in the number of
steps, and say which claims the data support. Groups are never pooled unless the caller says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from sojourn._threads import plain_blas
from sojourn._validation import check_fraction, check_positive_int
from sojourn.assess.certify import MIN_UNITS
from sojourn.assess.chain import DEFAULT_CHAIN, ChainSettings, assess_chain
from sojourn.assess.results import (
    GroupedAssessment,
    Heterogeneity,
    LawRow,
    PassRow,
    PolicyRow,
    Rates,
    TraceAssessment,
)
from sojourn.assess.summary import summarise
from sojourn.assess.trace_claims import trace_cautions, trace_claims
from sojourn.attempts import (
    AttemptBounds,
    TaskCounts,
    choose_mixing,
    fit_beta_binomial,
    icc,
    naive_rate,
    pass_at_beyond,
    pass_ats,
    pass_hat_beyond,
    pass_hats,
    predictive_check,
    success_rate,
    test_homogeneity,
)
from sojourn.attempts.beta_binomial import count_law
from sojourn.corpus import Group, Policy, ResolvedRuns, TraceCorpus, resolve
from sojourn.corpus.traces import DEFAULT_GROUPING, LIMIT_KINDS
from sojourn.errors import NothingUsableError
from sojourn.estimates import Estimate
from sojourn.process.incidence import Incidence, fit_incidence
from sojourn.records import LimitKind
from sojourn.sequences import CENSORED

__all__ = [
    "MIN_UNITS",
    "assess_groups",
    "assess_traces",
    "chain_generator",
    "observed_curves",
    "seeded",
]


_MAX_K = 8
_MAX_NAMED = 3
# Limits that cut at a step which does not depend on what a run did.
_STEP_LIMITS = [LIMIT_KINDS.index(kind) for kind in (LimitKind.STEPS, LimitKind.TURNS)]
_CHECK_LEVEL = 0.05
# Corpora drawn in the check of a law beyond the beta-binomial, and resamples of its intervals.
_LAW_RESAMPLES = 99
# Parts of an assessment with a source of chance of their own; the chain is the last.
_N_PARTS = 4


@plain_blas()
def assess_groups(
    corpus: TraceCorpus,
    *,
    by: Sequence[str] = DEFAULT_GROUPING,
    policy: Policy | None = None,
    ci_prob: float = 0.95,
    n_resamples: int = 1999,
    chain: ChainSettings | None = DEFAULT_CHAIN,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    progress: Callable[[Group], None] | None = None,
) -> GroupedAssessment:
    """Assess every group of a corpus on its own.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    by : sequence of str
        Fields whose values name a group; empty to pool all runs.
    policy : Policy, optional
        How limits and faults are counted.
    ci_prob : float
        Probability of all intervals.
    n_resamples : int
        Bootstrap replicates.
    chain : ChainSettings or None
        How the chain is made and certified where steps are logged; None to leave it out.
    rng : Generator, SeedSequence, int or None
        Source of the random draws; an int or the entropy drawn for None is kept in the result.
    progress : callable, optional
        Called with each group before it is assessed.

    Returns
    -------
    GroupedAssessment
        One assessment a group that has a run which counts.

    Raises
    ------
    NothingUsableError
        If no run counts in any group; the message says why and how to mend it.
    """
    results = []
    unusable = []
    for group, runs in corpus.groups(by):
        if progress is not None:
            progress(group)
        part = corpus if runs.size == len(corpus) else corpus.select(runs)
        try:
            results.append(
                _assess(
                    part,
                    group=group,
                    policy=policy or Policy(),
                    ci_prob=ci_prob,
                    n_resamples=n_resamples,
                    chain=chain,
                    rng=rng,
                )
            )
        except NothingUsableError as error:
            unusable.append((group, str(error)))
    if not results:
        why = "; ".join(f"{group}: {reason}" for group, reason in unusable[:_MAX_NAMED])
        more = len(unusable) - _MAX_NAMED
        raise NothingUsableError(f"{why}; and {more} more groups" if more > 0 else why)
    return GroupedAssessment(tuple(results), tuple(unusable))


def assess_traces(
    corpus: TraceCorpus,
    *,
    policy: Policy | None = None,
    ci_prob: float = 0.95,
    n_resamples: int = 1999,
    chain: ChainSettings | None = DEFAULT_CHAIN,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> TraceAssessment:
    """Assess the runs of one group: one task set, one agent, one model.

    Parameters are those of `assess_groups`.

    Returns
    -------
    TraceAssessment
        Rates, pass^k and pass@k, heterogeneity, curves, and the claims that they support.

    Raises
    ------
    ValueError
        If the corpus holds several groups; assess them by `assess_groups`, which can also pool.
    NothingUsableError
        If no run counts under the policy.
    """
    groups = corpus.groups()
    if len(groups) > 1:
        raise ValueError(
            f"the corpus holds {len(groups)} groups ({groups[0][0]}; {groups[1][0]}; ...); "
            "use assess_groups(corpus), or assess_groups(corpus, by=()) to pool them"
        )
    return assess_groups(
        corpus, policy=policy, ci_prob=ci_prob, n_resamples=n_resamples, chain=chain, rng=rng
    ).groups[0]


def _assess(
    corpus: TraceCorpus,
    *,
    group: Group,
    policy: Policy,
    ci_prob: float,
    n_resamples: int,
    chain: ChainSettings | None,
    rng: np.random.Generator | np.random.SeedSequence | int | None,
) -> TraceAssessment:
    check_fraction(ci_prob, name="ci_prob")
    check_positive_int(n_resamples, name="n_resamples")
    resolved = resolve(corpus, policy)
    summary = summarise(corpus, resolved)
    if not resolved.n_runs:
        raise NothingUsableError(why_unusable(resolved))
    generator, seed = seeded(rng)
    for_attempts, for_tests, for_curves, for_chain = generator.spawn(_N_PARTS)
    counts = TaskCounts.from_runs(resolved.success, resolved.task, resolved.unit)
    mixed = _mixed_attempts(corpus, resolved)
    doubt = _doubt(counts, mixed=mixed)
    attempts = tuple(
        _doubted(row, doubt) for row in _pass_rows(counts, ci_prob, n_resamples, for_attempts)
    )
    curves = observed_curves(corpus, resolved, ci_prob, n_resamples, for_curves)
    heterogeneity = _heterogeneity(counts, attempts, doubt, ci_prob, n_resamples, for_tests)
    found = None
    if chain is not None:
        found = assess_chain(
            corpus,
            resolved,
            settings=chain,
            ci_prob=ci_prob,
            n_resamples=n_resamples,
            icc=heterogeneity.icc.value,
            rng=for_chain,
        )
    return TraceAssessment(
        group=group,
        claims=tuple(trace_claims(resolved, counts, attempts, curves, found, mixed=mixed)),
        rates=_rates(corpus, resolved, counts, ci_prob),
        attempts=attempts,
        heterogeneity=heterogeneity,
        curves=curves,
        chain=found,
        corpus=summary,
        cautions=tuple(trace_cautions(resolved, counts, summary, curves, mixed=mixed)),
        policy=policy,
        seed=seed,
        n_resamples=n_resamples,
        ci_prob=ci_prob,
    )


def _mixed_attempts(corpus: TraceCorpus, resolved: ResolvedRuns) -> bool:
    """Tell whether any task's attempts differ in agent, model or step limit (pooled groups)."""
    who = np.stack(
        [
            resolved.task,
            corpus.agent.codes[resolved.index],
            corpus.model.codes[resolved.index],
            resolved.step_limit,
        ]
    )
    if np.all(who[1:] == who[1:, :1]):
        return False
    distinct = np.unique(who, axis=1)[0]
    return bool(np.unique(distinct).size < distinct.size)


def _doubt(counts: TaskCounts, *, mixed: bool) -> str | None:
    """Return why no figure of rates and attempts may be more than inconclusive, if so."""
    if counts.n_units < MIN_UNITS:
        return f"{counts.n_units} of the {MIN_UNITS} tasks or clusters that are needed"
    return "attempts come from different agents, models or limits" if mixed else None


def _doubted(row: PassRow, doubt: str | None) -> PassRow:
    return replace(
        row,
        all_succeed=row.all_succeed.doubted(doubt),
        any_succeeds=row.any_succeeds.doubted(doubt),
    )


def seeded(
    rng: np.random.Generator | np.random.SeedSequence | int | None,
) -> tuple[np.random.Generator, int | None]:
    """Return a generator that is the caller's to repeat, and the entropy to repeat it with."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    sequence = rng if isinstance(rng, np.random.SeedSequence) else np.random.SeedSequence(rng)
    entropy = sequence.entropy
    return np.random.default_rng(sequence), entropy if isinstance(entropy, int) else None


def chain_generator(
    rng: np.random.Generator | np.random.SeedSequence | int | None,
) -> np.random.Generator:
    """Return the source of chance that an assessment with this seed gives to its chain."""
    return seeded(rng)[0].spawn(_N_PARTS)[-1]


def why_unusable(resolved: ResolvedRuns) -> str:
    """Say why none of a group's runs counts, and how to mend it."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in resolved.excluded)
    advice = (
        "join verdicts with --outcomes FILE, or choose a score of the log with --scorer NAME"
        if any(reason == "no verdict" for reason, _ in resolved.excluded)
        else "count them as failures with --faults failure"
    )
    return f"no run counts ({reasons}); {advice}"


def _rates(
    corpus: TraceCorpus, resolved: ResolvedRuns, counts: TaskCounts, ci_prob: float
) -> Rates:
    return Rates(
        success_rate=success_rate(counts, ci_prob=ci_prob).doubted(_doubt(counts, mixed=False)),
        same_tasks=success_rate(counts, estimand="same_tasks", ci_prob=ci_prob),
        naive=naive_rate(counts, ci_prob=ci_prob).doubted("ignores tasks: for comparison only"),
        bracket=resolved.bracket,
        n_doubtful=(resolved.n_faults, resolved.n_cut),
        by_policy=tuple(_policy_rows(corpus, resolved.policy, ci_prob)),
    )


def _policy_rows(corpus: TraceCorpus, chosen: Policy, ci_prob: float) -> Iterator[PolicyRow]:
    """Yield the rate under every way of counting that changes it, the chosen one marked."""
    plain = resolve(corpus, Policy(faults="exclude"))
    any_faults, any_cut = plain.n_excluded > 0, plain.n_cut > 0
    for faults in ("exclude", "failure") if any_faults else (chosen.faults,):
        resolved = resolve(corpus, Policy(limits="censor", faults=faults))
        cut = resolved.event == CENSORED
        for limits, keep in (("failures", np.ones_like(cut)), ("left out", ~cut)):
            if not keep.any() or (limits == "left out" and not cut.any()):
                continue
            counts = TaskCounts.from_runs(
                resolved.success[keep], resolved.task[keep], resolved.unit[keep]
            )
            words = "left out" if faults == "exclude" else "failures"
            yield PolicyRow(
                name=_counting(limits if any_cut else None, words if any_faults else None),
                n_success=int(resolved.success[keep].sum()),
                n_runs=counts.n_runs,
                estimate=success_rate(counts, ci_prob=ci_prob),
                chosen=limits == "failures" and faults == chosen.faults,
            )


def _counting(limits: str | None, faults: str | None) -> str:
    """Name a way of counting by what it does with cut runs and with faults, where there are any."""
    parts = [
        None if limits is None else f"cut runs are {limits}",
        None if faults is None else f"faults and unscored are {faults}",
    ]
    return ", ".join(part for part in parts if part) or "every run counts"


class _Attempts(Protocol):
    """The common form of `pass_hats` and `pass_ats`."""

    def __call__(
        self,
        counts: TaskCounts,
        ks: Sequence[int],
        *,
        estimand: str,
        ci_prob: float,
        n_resamples: int,
        rng: np.random.Generator,
    ) -> tuple[Estimate, ...]: ...


def _pass_rows(
    counts: TaskCounts, ci_prob: float, n_resamples: int, rng: np.random.Generator
) -> Iterator[PassRow]:
    ks = _within_attempts(counts)
    seeds = iter(rng.spawn(4))

    def rows(estimator: _Attempts, estimand: str) -> tuple[Estimate, ...]:
        return estimator(
            counts, ks, estimand=estimand, ci_prob=ci_prob, n_resamples=n_resamples, rng=next(seeds)
        )

    columns = zip(
        ks,
        rows(pass_hats, "population"),
        rows(pass_ats, "population"),
        rows(pass_hats, "same_tasks"),
        rows(pass_ats, "same_tasks"),
        strict=True,
    )
    for k, all_succeed, any_succeeds, all_same, any_same in columns:
        yield PassRow(
            k=k,
            all_succeed=all_succeed,
            any_succeeds=any_succeeds,
            all_same_tasks=all_same,
            any_same_tasks=any_same,
            n_tasks=int((counts.attempts >= k).sum()),
            pooled_all=counts.rate**k,
            pooled_any=1 - (1 - counts.rate) ** k,
        )
    yield from _beyond_rows(counts, ks[-1], ci_prob)


def _within_attempts(counts: TaskCounts) -> list[int]:
    """Return the k to report: all small ones, then doublings, up to the most attempts at a task."""
    most = counts.max_attempts
    ks = list(range(1, min(most, _MAX_K) + 1))
    while ks[-1] * 2 <= most:
        ks.append(ks[-1] * 2)
    return ks if ks[-1] == most else [*ks, most]


def _beyond_rows(counts: TaskCounts, most: int, ci_prob: float) -> Iterator[PassRow]:
    for k in (2, 4, 8) if most == 1 else (2 * most,):
        all_succeed = pass_hat_beyond(counts, k, ci_prob=ci_prob)
        any_succeeds = pass_at_beyond(counts, k, ci_prob=ci_prob)
        yield PassRow(
            k=k,
            all_succeed=all_succeed.estimate,
            any_succeeds=any_succeeds.estimate,
            all_same_tasks=None,
            any_same_tasks=None,
            n_tasks=0,
            pooled_all=counts.rate**k,
            pooled_any=1 - (1 - counts.rate) ** k,
            bounds_all=_both_ends(all_succeed.bounds),
            bounds_any=_both_ends(any_succeeds.bounds),
        )


def _both_ends(bounds: AttemptBounds) -> tuple[float, float]:
    """Return model-free bounds that allow for sampling error too."""
    return bounds.interval.low, bounds.interval.high


def _heterogeneity(
    counts: TaskCounts,
    attempts: tuple[PassRow, ...],
    doubt: str | None,
    ci_prob: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> Heterogeneity:
    for_test, for_check, for_law = rng.spawn(3)
    test = test_homogeneity(counts, n_resamples=n_resamples, rng=for_test)
    posterior = fit_beta_binomial(counts)
    repeated = counts.max_attempts > 1
    check_p = predictive_check(counts, posterior, rng=for_check) if repeated else None
    observed = counts.histogram()
    n = observed.size - 1
    fits = None if check_p is None else bool(check_p > _CHECK_LEVEL)
    other = None
    if fits is False:
        other = choose_mixing(
            counts,
            posterior=posterior,
            check_p=check_p,
            alpha=_CHECK_LEVEL,
            n_resamples=_LAW_RESAMPLES,
            rng=for_law,
        )
    law = count_law(n, posterior.mean, posterior.icc)
    alike = count_law(n, np.array([counts.rate]), np.zeros(1))[0]
    return Heterogeneity(
        icc=icc(counts, ci_prob=ci_prob),
        p_value=test.p_value,
        tarone_p=test.tarone_p,
        fits=fits,
        check_p=check_p,
        observed=observed,
        expected=posterior.weight @ law * observed.sum(),
        alike=alike * observed.sum(),
        law=other,
        law_rows=()
        if other is None
        else tuple(
            LawRow(
                k=row.k,
                all_succeed=other.pass_hat(row.k, ci_prob=ci_prob).doubted(doubt),
                any_succeeds=other.pass_at(row.k, ci_prob=ci_prob).doubted(doubt),
            )
            for row in attempts
        ),
    )


def observed_curves(
    corpus: TraceCorpus,
    resolved: ResolvedRuns,
    ci_prob: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> Incidence | None:
    """Estimate the curves of the runs with known lengths; None where there are none.

    They are supported no further than the first cut that is not a limit of steps.
    """
    known = resolved.duration >= 0
    if not known.any():
        return None
    limits = resolved.step_limit[known]
    curves = fit_incidence(
        resolved.duration[known],
        resolved.event[known],
        resolved.unit[known],
        stratum=limits if np.unique(limits).size > 1 else None,
        ci_prob=ci_prob,
        n_resamples=n_resamples,
        rng=rng,
    )
    kind = corpus.limit_kind[resolved.index]
    telling = known & (resolved.event == CENSORED) & ~np.isin(kind, _STEP_LIMITS)
    if not telling.any():
        return curves
    return _supported_to(curves, int(resolved.duration[telling].min()))


def _supported_to(curves: Incidence, step: int) -> Incidence:
    """Return the curves, no longer supported from the first cut on that may tell of the run.

    A budget of tokens, time or money cuts runs at steps that depend on what they did, while the
    curves take a cut run to be like those that went on.
    """
    if curves.supported_to <= step:
        return curves
    return replace(
        curves,
        success=replace(curves.success, n_supported=step + 1),
        failure=replace(curves.failure, n_supported=step + 1),
        supported_to=step,
        support_reason=f"after step {step} a limit that is not one of steps cut runs; the curves "
        "hold only if it had nothing to do with how they were going",
    )
