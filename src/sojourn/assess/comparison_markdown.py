"""A comparison as Markdown, for a pipeline's summary or a comment: answers first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sojourn.assess.comparison_results import ComparisonFamily
from sojourn.assess.comparison_text import (
    HEAD,
    SESSION_HEAD,
    doubts,
    evidence,
    row_cells,
    session_cells,
)
from sojourn.assess.session_comparison import SessionComparison
from sojourn.tables import escape, markdown_table

__all__ = ["markdown"]


def markdown(found: ComparisonFamily | SessionComparison) -> str:
    """Return a comparison of runs or of sessions as Markdown, labels made harmless."""
    parts = _of_sessions(found) if isinstance(found, SessionComparison) else _of_runs(found)
    told = "A question mark stands beside an inconclusive figure."
    return "\n".join(["## Sojourn comparison", "", *parts, told, ""])


def _of_runs(family: ComparisonFamily) -> Iterator[str]:
    for result in family:
        a, b = escape.markdown(result.name_a), escape.markdown(result.name_b)
        yield from (f"### {b} against {a}: {result.answer}", "")
        yield from _bullets(evidence(result))
        rows = ([cell or "-" for cell in row] for row in row_cells(result))
        yield from markdown_table(("figure", *HEAD[1:]), rows)
        yield from _bullets((*doubts(result), *result.notes))


def _of_sessions(result: SessionComparison) -> Iterator[str]:
    a, b = escape.markdown(result.name_a), escape.markdown(result.name_b)
    for domain, answer in result.answers.items():
        name = f"{escape.markdown(domain)}: " if len(result.answers) > 1 else ""
        yield from (f"### {name}{b} against {a}: {answer}", "")
    yield from markdown_table(SESSION_HEAD, session_cells(result))
    yield from _bullets((*doubts(result), *result.notes))


def _bullets(notes: Iterable[str]) -> list[str]:
    lines = [f"- {escape.markdown(note)}" for note in notes]
    return [*lines, ""] if lines else []
