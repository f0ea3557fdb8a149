"""Small words: plurals, and lines that are not too long."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

__all__ = ["n_of", "percent", "wrapped"]


def n_of(count: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun: ``1 run``, ``2 runs``, ``1,000 tasks``.

    `several` is the plural where it is not the noun with an s.
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def percent(share: float) -> str:
    """Return a level of confidence, never rounded up to all: ``95%``, ``99.9%``."""
    return f"{100.0 * share:.10g}%"


def wrapped(lines: Iterable[str], *, width: int = 98) -> list[str]:
    """Return the lines, long ones broken at blanks and continued under their text."""
    found: list[str] = []
    for line in lines:
        margin = len(line) - len(line.lstrip()) + 4
        found += textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * margin,
            break_long_words=False,
            drop_whitespace=True,
            replace_whitespace=False,
        ) or [""]
    return found
