"""What stands on the page, as rows and paragraphs; the templates only lay it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sojourn.assess import TraceAssessment
from sojourn.assess.results import PassRow
from sojourn.assess.text import limit_words
from sojourn.estimates import Claim, Estimate, Status
from sojourn.records import by_reason
from sojourn.report.chain import chain_sections
from sojourn.report.figures import page_figures
from sojourn.report.forecast import forecast_sections
from sojourn.report.parts import Cell, Figure, Rows, Section, estimate_cell, only
from sojourn.tables import clean, n_of, round_steps
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from sojourn.process._incidence_limits import LimitCheck
    from sojourn.process.incidence import Incidence

__all__ = ["Card", "cards", "claim_rows", "clean_deep", "overview_rows", "sections"]

_N_CURVE_ROWS = 14
_CLAIMS = {
    "rate": "success rate",
    "attempts": "k attempts at the same task",
    "attempts_beyond": "more attempts than were made",
    "order": "the process remembers enough",
    "timing": "the process's curves are right within the margin",
    "forecast": "states foretell what becomes of a run",
    "horizon": "beyond the longest run",
}
_MAX_SKIPPED_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One headline figure."""

    name: str
    value: str
    interval: str
    note: str
    status: str


def clean_deep(value: dict[str, str]) -> dict[str, str]:
    """Return a mapping with its texts made fit for a page."""
    return {key: clean(text, limit=500) for key, text in value.items()}


def cards(result: TraceAssessment) -> list[Card]:
    """Return the headline figures, at most four."""
    rate = result.rates.success_rate
    low, high = result.rates.bracket
    bracket = f"bracket {low:.3f} to {high:.3f}" if high > low else "no doubtful runs"
    found = [_card("Success rate", rate, f"tasks like these; {bracket}")]
    within = [row for row in result.attempts if not row.is_beyond]
    if within[-1].k > 1:
        last = within[-1]
        note = f"the pooled rate would claim {last.pooled_all:.3f} ({rate.value:.3f}^{last.k})"
        found.append(_card(f"All of {last.k} attempts (pass^{last.k})", last.all_succeed, note))
        note = f"the pooled rate would claim {last.pooled_any:.3f}"
        found.append(_card(f"At least one of {last.k} (pass@{last.k})", last.any_succeeds, note))
    curves = result.curves
    if curves is not None:
        note = "success or failure, whichever ends the run"
        if curves.median.value is not None:
            found.append(_card("Median steps to finish", curves.median, note, digits=0))
        else:
            found.append(_card("Mean steps to finish", curves.restricted_mean, note, digits=1))
    return found


def _card(name: str, estimate: Estimate, note: str, digits: int = 3) -> Card:
    interval = estimate.interval
    supported = estimate.status is Status.SUPPORTED
    return Card(
        name=name,
        value="withheld" if estimate.value is None else f"{estimate.value:.{digits}f}",
        interval=""
        if interval is None
        else f"{percent(interval.ci_prob)}: "
        f"{interval.low:.{digits}f} to {interval.high:.{digits}f}",
        note=note if supported else "; ".join([note, *estimate.reasons]),
        status=str(estimate.status),
    )


def claim_rows(result: TraceAssessment) -> Rows:
    """Return the table of claims, what to do next beside each."""
    return Rows(
        caption="Claim by claim: accepted figures may be used, inconclusive ones with the caution.",
        header=("claim", "verdict", "why", "what to do next"),
        rows=[
            (
                Cell(text=_CLAIMS.get(claim.claim, claim.claim), code=claim.claim),
                _verdict(claim),
                "; ".join(claim.reasons),
                claim.next or "",
            )
            for claim in result.claims
        ],
        left=4,
    )


def _verdict(claim: Claim) -> Cell:
    # Nobody claims what lies beyond the longest run: nothing was tested there.
    if claim.claim == "horizon":
        return Cell(text=str(claim.verdict), mark="unclaimed")
    return Cell(text=str(claim.verdict), mark=str(claim.verdict))


def overview_rows(groups: Sequence[TraceAssessment]) -> Rows:
    """Return one row a group, each leading to its part of the page."""
    repeated = any(_last(result).k > 1 for result in groups)
    rows: list[tuple[object, ...]] = []
    for number, result in enumerate(groups):
        corpus, last = result.corpus, _last(result)
        row = [
            Cell(text=clean(result.group), href=f"#group-{number}"),
            estimate_cell(result.rates.success_rate),
            *(_verdict(claim) for claim in result.claims if claim.claim == "rate"),
            f"{corpus.n_counted:,}",
            f"{corpus.n_traces - corpus.n_counted:,}",
            f"{corpus.n_tasks:,}",
        ]
        if repeated:
            row.append(f"{last.k}: {estimate_cell(last.all_succeed)}" if last.k > 1 else "-")
        rows.append(tuple(row))
    return Rows(
        caption="One row a group (task set, agent, model).",
        header=("group", "success rate", "verdict", "runs", "left out", "tasks")
        + (("k: all of k attempts",) if repeated else ()),
        rows=rows,
    )


def _last(result: TraceAssessment) -> PassRow:
    return [row for row in result.attempts if not row.is_beyond][-1]


def sections(result: TraceAssessment, *, with_figures: bool) -> list[Section]:
    """Return the sections of a group in the order of a user's questions."""
    figures = page_figures(result) if with_figures else {}
    found = [
        _rate_section(result),
        _attempt_section(result, figures),
        _task_section(result, figures),
        _curve_section(result, figures),
        *chain_sections(result, figures),
        *forecast_sections(result, figures),
        _corpus_section(result, figures),
    ]
    return [section for section in found if section is not None]


def _rate_section(result: TraceAssessment) -> Section:
    rates = result.rates
    faults, cut = rates.n_doubtful
    rows: list[tuple[object, ...]] = [
        ("tasks like these", estimate_cell(rates.success_rate)),
        ("the same tasks run again", estimate_cell(rates.same_tasks)),
        ("naive, ignores tasks", estimate_cell(rates.naive)),
    ]
    low, high = rates.bracket
    notes = [
        f"Bracket: {low:.3f} if all {faults} left out and {n_of(cut, 'cut run')} failed, "
        f"{high:.3f} if all of them succeeded."
        if faults or cut
        else "No run was a fault or cut by a limit: the bracket has no width."
    ]
    notes += [f"The same tasks: {reason}." for reason in rates.same_tasks.reasons]
    tables = [Rows(caption="Success rate of runs.", header=("question", "rate"), rows=rows)]
    if len(rates.by_policy) > 1:
        tables.append(
            Rows(
                caption="The same runs under other ways of counting; * marks this page's.",
                header=("counting", "runs", "rate"),
                rows=[
                    (
                        f"{row.name} *" if row.chosen else row.name,
                        f"{row.n_success:,} of {row.n_runs:,}",
                        estimate_cell(row.estimate),
                    )
                    for row in rates.by_policy
                ],
            )
        )
    return Section(question="How often does it succeed?", tables=tables, notes=notes)


def _attempt_section(result: TraceAssessment, figures: dict[str, Figure]) -> Section:
    within = [row for row in result.attempts if not row.is_beyond]
    beyond = [row for row in result.attempts if row.is_beyond]
    same = len({row.n_tasks for row in within}) == 1
    table = Rows(
        caption="All k attempts at the same task, or at least one of them; averaged over "
        + (n_of(within[0].n_tasks, "task") if same else "tasks")
        + ", drawn without replacement. R^k and 1-(1-R)^k: what the pooled rate R would claim.",
        header=("k", *(() if same else ("tasks",)), "pass^k", "R^k", "pass@k", "1-(1-R)^k"),
        rows=[
            (
                row.k,
                *(() if same else (f"{row.n_tasks:,}",)),
                estimate_cell(row.all_succeed),
                f"{row.pooled_all:.3f}",
                estimate_cell(row.any_succeeds),
                f"{row.pooled_any:.3f}",
            )
            for row in within
        ],
        left=0,
    )
    return Section(
        question="Will it succeed k times in a row on the same task? At least once in k?",
        figures=only(figures, "attempts"),
        tables=[table, *_beyond_tables(beyond)],
        notes=sorted({reason for row in within for reason in row.all_succeed.reasons}),
    )


def _beyond_tables(rows: Sequence[PassRow]) -> list[Rows]:
    if not rows:
        return []
    cells: list[tuple[object, ...]] = []
    for row in rows:
        for name, estimate, bounds in (
            ("pass^", row.all_succeed, row.bounds_all),
            ("pass@", row.any_succeeds, row.bounds_any),
        ):
            span = "-" if bounds is None else f"{bounds[0]:.3f} to {bounds[1]:.3f}"
            cells.append((f"{name}{row.k}", span, estimate_cell(estimate)))
    return [
        Rows(
            caption="Beyond the attempts that were made: never more than inconclusive.",
            header=("", "without a model", "beta-binomial"),
            rows=cells,
        )
    ]


def _task_section(result: TraceAssessment, figures: dict[str, Figure]) -> Section | None:
    tasks = result.heterogeneity
    if tasks.p_value is None:
        return None
    p = "below .001" if tasks.p_value < 0.001 else f"{tasks.p_value:.3f}"
    verdict = (
        "Tasks differ: some are hard for this agent, some easy"
        if tasks.p_value < 0.05
        else "There is no evidence that tasks differ"
    )
    fits = "passes" if tasks.fits else "fails"
    n = tasks.observed.size - 1
    table = Rows(
        caption=f"Tasks by their number of successes in {n} attempts.",
        header=("successes", "tasks", "beta-binomial", "if all alike"),
        rows=[
            (j, int(tasks.observed[j]), f"{tasks.expected[j]:.1f}", f"{tasks.alike[j]:.1f}")
            for j in range(n + 1)
        ]
        if n <= 20
        else [],
        left=0,
    )
    return Section(
        question="How much do tasks differ?",
        paragraphs=[
            f"{verdict} (permutation p {p}). Intraclass correlation "
            f"{estimate_cell(tasks.icc)}. The beta-binomial law {fits} its check.",
            *(f"{line[:1].upper()}{line[1:]}." for line in tasks.law_lines()),
        ],
        figures=only(figures, "tasks"),
        tables=[table] if table.rows else [],
    )


def _curve_section(result: TraceAssessment, figures: dict[str, Figure]) -> Section:
    question = "What would more steps buy? How long does it take?"
    curves = result.curves
    if curves is None:
        return Section(question=question, paragraphs=["The logs give no number of steps."])
    points = Rows(
        caption="Share of runs within d steps; ? where fewer than ten tasks are left.",
        header=("d", "success", "failure", "still going", "tasks left"),
        rows=_curve_rows(curves),
        left=0,
    )
    times = Rows(
        caption="Steps to finish.",
        header=("", "either end", "given success"),
        rows=[
            (
                f"mean, up to step {curves.horizon}",
                estimate_cell(curves.restricted_mean, 1),
                estimate_cell(curves.given_success.restricted_mean, 1),
            ),
            (
                "median",
                estimate_cell(curves.median, 0),
                estimate_cell(curves.given_success.median, 0),
            ),
            (
                "90 % have finished by",
                estimate_cell(curves.p90, 0),
                estimate_cell(curves.given_success.p90, 0),
            ),
        ],
    )
    notes = [
        (
            f"Supported to step {curves.supported_to}."
            if curves.supported_to >= 0
            else "Too few tasks: no step is supported."
        )
        + f" Nothing is known beyond the longest run "
        f"({n_of(curves.horizon, 'step')}), and the curves hold for the budget that was run.",
        *(f"{reason}." for reason in curves.reasons),
        *_missing_times(curves),
    ]
    return Section(
        question=question,
        figures=only(figures, "success_within"),
        tables=[points, *_beside(result, curves), times],
        notes=notes if curves.limit_check is None else [*notes, _limit_note(curves.limit_check)],
    )


def _limit_note(check: LimitCheck) -> str:
    words = limit_words(check)
    return f"{words[0].upper()}{words[1:]}."


def _beside(result: TraceAssessment, curves: Incidence) -> list[Rows]:
    """Return the chosen process's curves and the worst and best case of cut runs, as one table."""
    chain = result.chain
    process = chain is not None and chain.accepted
    low, high = curves.worst_best
    doubtful = bool(np.any(high > low))
    if not process and not doubtful:
        return []
    steps = [int(str(row[0])) for row in _curve_rows(curves)]
    name = "" if chain is None else clean(chain.chosen)
    caption, header = [], ["d"]
    if process:
        caption.append(f"Curves of the {name} process, whose timing is accepted.")
        header += [f"success ({name})", f"failure ({name})"]
    if doubtful:
        caption.append("Success if cut runs never succeed, and if they do right after the cut.")
        header.append("worst to best")
    rows: list[tuple[object, ...]] = []
    for d in steps:
        row: list[object] = [d]
        if process and chain is not None:
            row += [estimate_cell(chain.process_within(d, o)) for o in ("success", "failure")]
        if doubtful:
            row.append(f"{low[d]:.3f} to {high[d]:.3f}")
        rows.append(tuple(row))
    return [Rows(caption=" ".join(caption), header=tuple(header), rows=rows, left=0)]


def _curve_rows(curves: Incidence) -> list[tuple[object, ...]]:
    """Return the curves at round steps, rows left out that repeat the one above."""
    ended = curves.success.value + curves.failure.value
    first = int(np.argmax(ended > 0)) if (ended > 0).any() else min(1, curves.horizon)
    steps = {*round_steps(first, curves.horizon, _N_CURVE_ROWS - 1)}
    if first <= curves.supported_to:
        steps.add(curves.supported_to)
    rows: list[tuple[object, ...]] = []
    for d in sorted(steps):
        row = (
            d,
            estimate_cell(curves.point(d)),
            estimate_cell(curves.point(d, outcome="failure")),
            f"{curves.still_running[d]:.3f}",
            int(curves.units_at_risk[d]),
        )
        if not rows or row[1:] != rows[-1][1:] or d in (curves.supported_to, curves.horizon):
            rows.append(row)
    return rows


def _missing_times(curves: Incidence) -> list[str]:
    """Say why a time to finish is not given."""
    given = curves.given_success
    return [
        f"{name} is not given: {'; '.join(time.reasons)}."
        for name, time in (
            ("The median", curves.median),
            ("The step by which 90 % have finished", curves.p90),
            ("The median given success", given.median),
            ("The step by which 90 % of successes have finished", given.p90),
        )
        if time.value is None
    ]


def _corpus_section(result: TraceAssessment, figures: dict[str, Figure]) -> Section:
    corpus = result.corpus
    tables = [
        Rows(
            caption="Runs by outcome and end, with their numbers of steps.",
            header=("outcome", "end", "runs", "min", "25 %", "50 %", "75 %", "max"),
            rows=[
                (row.outcome, row.end, f"{row.n_runs:,}", *(row.quantiles or ("-",) * 5))
                for row in corpus.lengths
            ],
            left=2,
        )
    ]
    if corpus.excluded:
        tables.append(
            Rows(
                caption="Runs that do not count under the policy.",
                header=("reason", "runs"),
                rows=list(corpus.excluded),
            )
        )
    reasons = by_reason(corpus.skipped)
    if reasons:
        tables.append(
            Rows(
                caption="What the readers left out of the whole input, and why.",
                header=("source", "reason", "what", "count"),
                rows=[
                    (clean(s.source), clean(s.reason, limit=300), s.what, f"{s.count:,}")
                    for s in reasons[:_MAX_SKIPPED_ROWS]
                ],
                left=3,
            )
        )
    more = len(reasons) - _MAX_SKIPPED_ROWS
    return Section(
        question="What was counted, what was not?",
        figures=only(figures, "lengths"),
        tables=tables,
        notes=[f"{more} more reasons stand in the JSON."] if more > 0 else [],
    )
