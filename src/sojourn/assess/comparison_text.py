"""A comparison as plain text: the answer first, then what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.assess.comparison_results import Answer
from sojourn.assess.session_comparison import START_WORDS, SessionComparison
from sojourn.estimates import Estimate, Status
from sojourn.tables import clean, indent, n_of, p_is, p_text, text_table, wrapped

if TYPE_CHECKING:
    from sojourn.assess.comparison_results import Comparison, ComparisonFamily

__all__ = [
    "HEAD",
    "SESSION_HEAD",
    "describe",
    "describe_family",
    "describe_sessions",
    "doubts",
    "evidence",
    "row_cells",
    "session_cells",
    "signed",
]

SESSION_HEAD = ("domain", "start", "n", "A", "B", "B minus A", "B better")
HEAD = ("", "A", "B", "tasks like these", "these tasks again")
_MAX_FLIPS = 10
_WORDS = {
    Answer.BETTER: "{b} succeeds more often than {a}",
    Answer.WORSE: "{b} succeeds less often than {a}",
    Answer.EQUIVALENT: "{b} and {a} differ by less than {margin:g}",
    Answer.INCONCLUSIVE: "inconclusive: these runs do not tell {b} from {a}",
}
_ESTIMANDS = {"same_tasks": "for these tasks, run again", "population": "for tasks like these"}


def describe_family(family: ComparisonFamily) -> str:
    """Return all comparisons as text, an overview first where there are several."""
    parts = [describe(comparison) for comparison in family]
    if len(parts) > 1:
        rows = [
            (
                clean(c.name_b, limit=40),
                signed(c.decided_by),
                p_text(c.p_value),
                p_text(c.adjusted_p),
                str(c.answer),
            )
            for c in family
        ]
        head = (f"against {clean(family.comparisons[0].name_a, limit=40)}", "difference", "p")
        parts.insert(0, "\n".join(text_table((*head, "p (Holm)", "answer"), rows)))
    return "\n\n".join(parts)


def describe(result: Comparison) -> str:
    """Return one comparison as text of at most 100 columns."""
    a, b = clean(result.name_a), clean(result.name_b)
    verdict = _WORDS[result.answer].format(a=a, b=b, margin=result.margin)
    parts = [
        [f"A: {a}  ({n_of(result.n_runs_a, 'run')})", f"B: {b}  ({n_of(result.n_runs_b, 'run')})"],
        [f"{verdict} ({_ESTIMANDS[result.estimand]})", *indent(evidence(result))],
        ["Difference, B minus A", *indent(text_table(HEAD, row_cells(result)))],
        _flips(result),
        _transitions(result),
        [*doubts(result), *(f"- {note}" for note in result.notes)],
    ]
    return "\n\n".join("\n".join(wrapped(part, width=100)) for part in parts if part)


def describe_sessions(result: SessionComparison) -> str:
    """Return a comparison of sessions as text."""
    lines = [f"A: {clean(result.name_a)}", f"B: {clean(result.name_b)}", ""]
    lines += [
        f"{clean(domain)}: B against A is {answer} (next task in the long run)"
        for domain, answer in result.answers.items()
    ]
    rows = ((clean(domain, limit=24), *cells) for domain, *cells in session_cells(result))
    notes = wrapped([*doubts(result), *(f"- {note}" for note in result.notes)])
    return "\n".join([*lines, "", *text_table(SESSION_HEAD, rows, left=2), "", *notes])


def session_cells(result: SessionComparison) -> list[tuple[str, ...]]:
    """Return the cells of each compared figure of sessions."""
    return [
        (
            row.domain,
            START_WORDS[row.start],
            str(row.n),
            f"{row.a:.3f}",
            f"{row.b:.3f}",
            signed(row.difference),
            f"{row.chance_better:.3f}",
        )
        for row in result.rows
    ]


def doubts(result: Comparison | SessionComparison) -> list[str]:
    """Return why figures are marked, each reason once."""
    if isinstance(result, SessionComparison):
        estimates = [row.difference for row in result.rows]
    else:
        estimates = [row.population for row in result.rows]
        estimates += [row.same_tasks for row in result.rows if row.same_tasks is not None]
    reasons = [r for e in estimates if e.status is Status.INCONCLUSIVE for r in e.reasons]
    return [f"? {reason}" for reason in dict.fromkeys(reasons)]


def signed(estimate: Estimate) -> str:
    """Return a difference with its sign and interval, and a mark where it is not supported."""
    if estimate.value is None:
        return "-"
    text = _plus(estimate.value)
    if estimate.interval is not None:
        text += f" [{_plus(estimate.interval.low)}, {_plus(estimate.interval.high)}]"
    return text if estimate.status is Status.SUPPORTED else f"{text} ?"


def _plus(value: float) -> str:
    text = f"{value:+.3f}"
    return "0.000" if text in ("+0.000", "-0.000") else text


def evidence(result: Comparison) -> list[str]:
    """Return what the answer rests on, a line each."""
    pairing = (
        f"paired by {n_of(result.n_shared, 'task')}" if result.paired else "two samples of tasks"
    )
    lines = [
        f"success rate {signed(result.decided_by)}, {pairing}",
        f"no difference at any task: {p_is(result.p_value)} ({result.test})"
        + (
            f", {p_text(result.adjusted_p)} by Holm over the family"
            if result.adjusted_p != result.p_value
            else ""
        ),
        f"chance that B is better at tasks like these: {result.chance_better:.3f}",
    ]
    visible = result.smallest_visible
    if visible is not None:
        size = f"{visible:.3f}" if visible < 1.0 else "none"
        lines.append(f"smallest true difference that would have been seen in 80 % of cases: {size}")
    return lines


def row_cells(result: Comparison) -> list[tuple[str | None, ...]]:
    """Return the cells of each figure: its name, A, B, and the difference of either kind."""
    return [
        (
            row.name,
            None if row.a is None else f"{row.a:.3f}",
            None if row.b is None else f"{row.b:.3f}",
            signed(row.population),
            None if row.same_tasks is None else signed(row.same_tasks),
        )
        for row in result.rows
    ]


def _flips(result: Comparison) -> list[str]:
    if not result.flips:
        return []
    gains = sum(f.successes_b / f.attempts_b > f.successes_a / f.attempts_a for f in result.flips)
    head = (
        f"Tasks that differ: B does better at {gains}, worse at {len(result.flips) - gains} "
        f"of {result.n_shared}"
    )
    half = _MAX_FLIPS // 2
    shown = result.flips
    if len(shown) > _MAX_FLIPS:
        shown = (*shown[:half], *shown[-half:])
    rows = [
        (f.task, f"{f.successes_a}/{f.attempts_a}", f"{f.successes_b}/{f.attempts_b}")
        for f in shown
    ]
    lines = text_table(("task", "A", "B"), rows)
    if len(shown) < len(result.flips):
        lines.append(f"and {len(result.flips) - len(shown)} more between these")
    return [head, *indent(lines)]


def _transitions(result: Comparison) -> list[str]:
    if not result.transitions:
        return []
    rows = [
        (
            f"{clean(c.origin, limit=30)} -> {clean(c.target, limit=30)}",
            f"{c.a:.3f}",
            f"{c.b:.3f}",
            signed(c.difference),
            p_text(c.p_value),
        )
        for c in result.transitions
    ]
    return [
        "What follows a step: the changes least likely by chance",
        *indent(text_table(("step", "A", "B", "difference", "p (Holm)"), rows)),
    ]
