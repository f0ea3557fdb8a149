"""Plain-text tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sojourn.tables.escape import clean

__all__ = ["indent", "p_is", "p_text", "text_table"]


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
    table = head + cells
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return [
        gap.join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def indent(lines: Iterable[str], by: str = "  ") -> list[str]:
    """Return the lines moved to the right."""
    return [f"{by}{line}" if line else line for line in lines]
