"""Tables for a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sojourn.tables.escape import clean, markdown
from sojourn.tables.words import shortened

__all__ = ["indent", "markdown_table", "p_is", "p_text", "text_table"]

# What fits on a line of a report beside its margin, and the least room for a label.
_WIDTH = 94
_LABEL = 24


def p_text(p: float | None) -> str:
    """Return a p-value as people print it, and a dash where there is none."""
    if p is None:
        return "-"
    return "< .001" if p < 0.001 else f"{p:.3f}"


def p_is(p: float | None) -> str:
    """Return a p-value with its letter: ``p = 0.012``, ``p < .001``, ``p -`` where none is."""
    shown = p_text(p)
    return f"p {shown}" if p is None or shown.startswith("<") else f"p = {shown}"


def text_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1, gap: str = "  "
) -> list[str]:
    """Return the lines of a table with aligned columns.

    Parameters
    ----------
    header : sequence of str
        Names of the columns; all empty for a table without a header.
    rows : iterable of sequences
        Cells; None is shown as ``-``.
    left : int
        Number of leading columns that are aligned to the left; the others are to the right.
    gap : str
        What stands between two columns.
    """
    cells = [["-" if cell is None else clean(cell) for cell in row] for row in rows]
    head = [list(header)] if any(header) else []
    table = _narrowed(head + cells, gap) if head and left else head + cells
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return [
        gap.join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _narrowed(table: list[list[str]], gap: str) -> list[list[str]]:
    """Shorten long labels of the first column where a row would not fit on a line."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    over = sum(widths) + len(gap) * (len(widths) - 1) - _WIDTH
    if over <= 0 or widths[0] <= _LABEL:
        return table
    limit = max(_LABEL, widths[0] - over)
    return [[shortened(row[0], limit), *row[1:]] for row in table]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table in Markdown and an empty one; nothing where there are no rows."""
    body = [f"| {' | '.join(map(markdown, row))} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(header)} |", "|---" * len(header) + "|", *body, ""]


def indent(lines: Iterable[str], by: str = "  ") -> list[str]:
    """Return the lines moved to the right."""
    return [f"{by}{line}" if line else line for line in lines]
