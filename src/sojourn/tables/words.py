"""Small words: plurals, and lines that are not too long."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

__all__ = ["at_least", "at_most", "n_of", "percent", "shortened", "wrapped"]


def n_of(count: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun: ``1 run``, ``2 runs``, ``1,000 tasks``.

    `several` is the plural where it is not the noun with an s.
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def shortened(label: str, limit: int) -> str:
    """Leave out the middle of a long label: files and models differ in their ends."""
    if len(label) <= limit:
        return label
    end = (limit - 1) // 2
    return f"{label[: limit - 1 - end]}…{label[-end:]}"


def at_most(bound: float) -> str:
    """Return an upper bound with three digits, rounded up: what is printed still holds."""
    return f"{math.ceil(round(bound * 1000.0, 6)) / 1000.0:.3f}"


def at_least(bound: float) -> str:
    """Return a lower bound with three digits, rounded down: what is printed still holds."""
    return f"{math.floor(round(bound * 1000.0, 6)) / 1000.0:.3f}"


def percent(share: float) -> str:
    """Return a level of confidence, never rounded up to all: ``95%``, ``99.9%``."""
    return f"{100.0 * share:.10g}%"


def wrapped(lines: Iterable[str], *, width: int = 98) -> list[str]:
    """Return the lines, long ones broken at blanks and continued under their text.

    A line whose last column is a sentence goes on inside that column.
    """
    found: list[str] = []
    for line in lines:
        start = len(line) - len(line.lstrip())
        gap = line.rfind("  ", start)
        column = start if gap < 0 else gap + 2
        if column > width // 2 or len(line) - column <= width // 2:
            column = start
        margin = column + 4
        found += textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * margin,
            break_long_words=False,
            drop_whitespace=True,
            replace_whitespace=False,
        ) or [""]
    return found
