"""Which claims a group of runs supports, and the cautions that stand beside its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sojourn.assess.cautions import Caution, skipped_words
from sojourn.assess.certify import MIN_UNITS
from sojourn.assess.chain import ChainFindings
from sojourn.assess.results import PassRow
from sojourn.assess.summary import CorpusSummary
from sojourn.attempts import TaskCounts
from sojourn.corpus import ResolvedRuns
from sojourn.estimates import Claim, Verdict
from sojourn.process.incidence import Incidence
from sojourn.tables import n_of

__all__ = ["trace_cautions", "trace_claims"]

# Share of tasks that may have fewer attempts than the others before pass^k rests on which.
_MAX_UNEQUAL = 0.05


def trace_claims(
    resolved: ResolvedRuns,
    counts: TaskCounts,
    attempts: Sequence[PassRow],
    curves: Incidence | None,
    chain: ChainFindings | None,
    *,
    mixed: bool,
) -> Iterator[Claim]:
    """Yield every claim on a group of runs, those on its process included.

    Parameters
    ----------
    resolved, counts, attempts, curves, chain
        What was found.
    mixed : bool
        Whether the attempts at some task were made by different agents, models or limits.
    """
    n_units = counts.n_units
    more = f"run at least {MIN_UNITS} tasks (there are {n_units})" if n_units < MIN_UNITS else None
    yield Claim(
        claim="rate",
        verdict=Verdict.INCONCLUSIVE if more else Verdict.ACCEPTED,
        reasons=("counted",)
        if more is None
        else (f"only {n_of(n_units, 'task or cluster', 'tasks or clusters')} to resample",),
        next=more,
    )
    within = [row.k for row in attempts if not row.is_beyond]
    single = within[-1] == 1
    unequal = float(np.mean(counts.attempts < counts.modal_attempts)) > _MAX_UNEQUAL
    unequal |= counts.max_attempts > counts.modal_attempts
    if single:
        why = "one attempt per task: nothing is repeated"
    elif unequal:
        why = (
            "tasks differ in their number of attempts: pass^k rests on those with k, and is biased "
            "if tries stopped at a success"
        )
    elif mixed:
        why = "attempts of different agents, models or limits are no repeats"
    else:
        why = f"unbiased for k = 1 .. {within[-1]}, attempts drawn without replacement"
    yield Claim(
        claim="attempts",
        verdict=Verdict.INCONCLUSIVE if more or single or mixed or unequal else Verdict.ACCEPTED,
        reasons=(why,),
        next="repeat each task: 4 attempts or more"
        if single
        else "give every task the same number of attempts"
        if unequal
        else "assess each agent, model and limit on its own"
        if mixed
        else more,
    )
    yield Claim(
        claim="attempts_beyond",
        verdict=Verdict.INCONCLUSIVE,
        reasons=(f"k > {within[-1]} was not observed: model-free bounds and a model beside them",),
        next=f"run k attempts per task to know pass^k for k > {within[-1]}",
    )
    if chain is not None:
        yield from chain.claims
        if chain.forecast is not None:
            yield chain.forecast.claim
        elif chain.no_forecast is not None:
            yield Claim(
                claim="forecast",
                verdict=Verdict.INCONCLUSIVE,
                reasons=(chain.no_forecast,),
                next=more,
            )
    if curves is not None:
        yield Claim(
            claim="horizon",
            verdict=Verdict.INCONCLUSIVE,
            reasons=(
                f"no run is longer than {n_of(curves.horizon, 'step')}: what lies beyond is never "
                "claimed",
            ),
            next="raise the step limit to learn what longer runs would give"
            if resolved.n_cut
            else None,
        )


def trace_cautions(
    resolved: ResolvedRuns,
    counts: TaskCounts,
    summary: CorpusSummary,
    curves: Incidence | None,
    *,
    mixed: bool,
) -> Iterator[Caution]:
    """Yield what a reader of the figures must know."""
    n_units = counts.n_units
    if counts.max_attempts == 1:
        yield Caution("SJ101", f"each of {n_of(counts.n_tasks, 'task')} was tried once")
    if n_units == 1:
        yield Caution("SJ112", "all runs belong to one task or cluster")
    elif n_units < MIN_UNITS:
        few = n_of(n_units, "task or cluster", "tasks or clusters")
        yield Caution("SJ102", f"{few}; {MIN_UNITS} are needed to certify")
    if counts.attempts.min() != counts.max_attempts:
        low, high = int(counts.attempts.min()), counts.max_attempts
        yield Caution("SJ103", f"tasks have {low} to {high} counted attempts")
    if summary.identical_attempts:
        yield Caution(
            "SJ104",
            f"{summary.identical_attempts} runs repeat an earlier attempt at their task byte for "
            "byte; if they are cached, they are no attempts",
        )
    if summary.n_skipped:
        yield Caution("SJ105", skipped_words(summary.n_skipped))
    if resolved.n_excluded:
        reasons = ", ".join(f"{n} {reason}" for reason, n in resolved.excluded)
        yield Caution("SJ106", f"excluded: {reasons}")
    if resolved.n_cut:
        yield Caution(
            "SJ107",
            f"{resolved.n_cut} of {resolved.n_runs} runs were cut by a limit: R(d) holds for the "
            "budget that was run, an agent told of another one may act differently",
        )
    limits = np.unique(resolved.step_limit)
    if limits.size > 1:
        yield Caution("SJ108", f"{limits.size} different step limits")
    if mixed:
        yield Caution("SJ113", "what is pooled here was run by different agents, models or limits")
    n_unknown = int((resolved.duration < 0).sum())
    if curves is None:
        yield Caution("SJ110", "the logs give no number of steps")
    elif n_unknown:
        yield Caution("SJ109", f"{n_of(n_unknown, 'run')} without their number of steps")
    if counts.rate in (0.0, 1.0):
        yield Caution(
            "SJ111",
            f"{'all ' if counts.n_runs > 1 else ''}{n_of(counts.n_runs, 'run')} "
            f"{'succeeded' if counts.rate else 'failed'}",
        )
