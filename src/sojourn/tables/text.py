"""Plain-text tables for a terminal, and the one place that makes a label safe to print there."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from sojourn._limits import SHOWN_LETTERS

__all__ = ["clean", "indent", "p_text", "text_table"]

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def clean(label: object, *, limit: int = SHOWN_LETTERS) -> str:
    """Return a label from a log as one short line without control characters.

    Control characters, escape sequences' first byte, line ends and the marks that turn the
    direction of text are replaced by ``?``: a log must not be able to write to a terminal.
    """
    text = "".join(
        "?"
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else character
        for character in str(label)[: limit + 1]
    )
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def p_text(p: float | None) -> str:
    """Return a p-value as people print it, and a dash where there is none."""
    if p is None:
        return "-"
    return "< .001" if p < 0.001 else f"{p:.3f}"


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
