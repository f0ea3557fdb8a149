"""An assessment in the forms that pipelines read: Markdown, and JUnit XML with a case a claim.

A claim that is accepted passes, one that is rejected fails, and an inconclusive one is skipped with
its reason: nothing is wrong with the agent where the data do not say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sojourn.assess.cautions import Caution
from sojourn.assess.results import GroupedAssessment, TraceAssessment
from sojourn.assess.session_results import (
    DomainAssessment,
    GroupedSessionAssessment,
    SessionAssessment,
)
from sojourn.assess.text import estimate_text
from sojourn.corpus import Group
from sojourn.estimates import Claim, Estimate, Verdict
from sojourn.tables import escape, markdown_table, n_of, round_steps
from sojourn.tables.junit import Case, Mark, junit_document
from sojourn.tables.words import percent

__all__ = ["junit", "markdown"]

Result = GroupedAssessment | GroupedSessionAssessment
_N_ROWS = 5
_NO_CLAIM = "a run counts"


class _Part(NamedTuple):
    """What is claimed of one group of runs, or of one domain of a group of sessions."""

    name: str
    claims: Sequence[Claim]
    figures: list[tuple[str, str]]


def markdown(result: Result) -> str:
    """Return an assessment as Markdown, labels made harmless: a section a group."""
    lines = ["## Sojourn assessment", ""]
    for group in result:
        lines += [f"### {escape.markdown(group.group)}", "", _counted(group), ""]
        for part in _parts(group):
            if part.name != str(group.group):
                lines += [f"#### {escape.markdown(part.name)}", ""]
            lines += markdown_table(("figure", "estimate"), part.figures)
            rows = [(c.claim, str(c.verdict), _told(c)) for c in part.claims]
            lines += markdown_table(("claim", "verdict", "why"), rows)
        lines += _bullets(group.cautions)
    for name, reason in _unusable(result):
        lines += [f"- {escape.markdown(name)}: {escape.markdown(reason)}", ""]
    return "\n".join([*lines, "A question mark stands beside an inconclusive figure.", ""])


def junit(result: Result) -> str:
    """Return an assessment as JUnit XML: a suite a group, a case a claim.

    An accepted claim passes, a rejected one is a ``failure``, an inconclusive one ``skipped``; so
    is a group of which no run counts.
    """
    suites = [
        (str(group.group), [_case(part.name, c) for part in _parts(group) for c in part.claims])
        for group in result
    ]
    suites += [
        (name, [Case(name, _NO_CLAIM, Mark.SKIPPED, f"inconclusive: {why}")])
        for name, why in _unusable(result)
    ]
    return junit_document(suites)


def _counted(group: TraceAssessment | SessionAssessment) -> str:
    if isinstance(group, SessionAssessment):
        told = group.corpus
        return (
            f"{n_of(told.n_tasks, 'task')} in {n_of(told.n_sessions, 'session')}, "
            f"{n_of(told.n_observed, 'outcome')} known; intervals of {percent(group.ci_prob)}."
        )
    corpus = group.corpus
    return (
        f"{corpus.n_counted:,} of {n_of(corpus.n_traces, 'run')} count, "
        f"{n_of(corpus.n_tasks, 'task')}; intervals of {percent(group.ci_prob)}."
    )


def _parts(group: TraceAssessment | SessionAssessment) -> Iterator[_Part]:
    name = str(group.group)
    if isinstance(group, TraceAssessment):
        yield _Part(name, group.claims, _run_figures(group))
        return
    several = len(group.domains) > 1
    for domain in group.domains:
        where = f"{name}: {domain.name}" if several else name
        yield _Part(where, domain.claims, _domain_figures(domain))
    if group.system and several:
        last = max(row.n for row in group.system)
        rows = [
            (f"R({row.n}), {row.convention.replace('_', ' ')}", estimate_text(row.estimate))
            for row in group.system
            if row.n in (1, last)
        ]
        yield _Part(f"{name}: the whole mix", (), rows)


def _run_figures(group: TraceAssessment) -> list[tuple[str, str]]:
    rates = group.rates
    found: list[tuple[str, Estimate]] = [
        ("success rate, tasks like these", rates.success_rate),
        ("success rate, the same tasks again", rates.same_tasks),
    ]
    within = [row for row in group.attempts if row.k > 1 and not row.is_beyond]
    for row in within if len(within) <= _N_ROWS else (*within[: _N_ROWS - 1], within[-1]):
        found += [(f"pass^{row.k}", row.all_succeed), (f"pass@{row.k}", row.any_succeeds)]
    curves = group.curves
    rows = [(name, estimate_text(estimate)) for name, estimate in found]
    if curves is None:
        return rows
    for d in round_steps(min(1, curves.horizon), curves.horizon, _N_ROWS):
        rows.append((f"success within {n_of(d, 'step')}", estimate_text(curves.point(d))))
    return [*rows, ("median steps to finish", estimate_text(curves.median, 0))]


def _domain_figures(domain: DomainAssessment) -> list[tuple[str, str]]:
    figures = domain.reliability
    last = max(row.n for row in figures.success_run)
    run = figures.row("continuing", last)
    found = [
        ("next task", figures.next_task),
        ("first task of a fresh session", figures.fresh_session),
        ("long run", figures.long_run),
        ("if tasks were independent", figures.independent),
        *([] if run is None else [(f"next {n_of(last, 'task')} all succeed", run.estimate)]),
    ]
    return [(name, estimate_text(estimate)) for name, estimate in found]


def _bullets(cautions: Sequence[Caution]) -> list[str]:
    return [*(f"- {escape.markdown(caution)}" for caution in cautions), *([""] if cautions else [])]


def _unusable(result: Result) -> list[tuple[str, str]]:
    groups: Sequence[tuple[Group, str]] = getattr(result, "unusable", ())
    return [(str(group), reason) for group, reason in groups]


def _told(claim: Claim) -> str:
    return "; ".join([*claim.reasons, *([f"next: {claim.next}"] if claim.next else [])])


def _case(where: str, claim: Claim) -> Case:
    told = _told(claim)
    if claim.verdict is Verdict.ACCEPTED:
        return Case(where, claim.claim, Mark.PASS, told)
    mark = Mark.FAILURE if claim.verdict is Verdict.REJECTED else Mark.SKIPPED
    return Case(where, claim.claim, mark, f"{claim.verdict}: {told}")
