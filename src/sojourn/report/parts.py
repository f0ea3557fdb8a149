"""What a page is made of: tables, figures, sections; and how an estimate stands in a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.estimates import Estimate, Status

__all__ = ["Cell", "Figure", "Rows", "Section", "estimate_cell", "only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell with more than its text.

    Attributes
    ----------
    text : str
        What stands there.
    code : str
        The name that files and commands use for it, shown small after the text.
    href : str
        Where on the page it leads; only an anchor of ours.
    mark : str
        The class of a verdict, for its colour.
    """

    text: str
    code: str = ""
    href: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table: `left` columns are words, the others numbers; cells are texts or `Cell`."""

    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    left: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawn figure and what it says."""

    svg: Any
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The answer to one question of a user."""

    question: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Rows] = ()
    notes: Sequence[str] = ()


def estimate_cell(estimate: Estimate | None, digits: int = 3) -> str:
    """Return an estimate for a cell of a table; a question mark where it is not supported."""
    if estimate is None or estimate.value is None:
        return "-"
    text = f"{estimate.value:.{digits}f}"
    if estimate.interval is not None:
        # No break inside the interval: on a narrow screen it goes under the figure, whole.
        low, high = estimate.interval.low, estimate.interval.high
        text += f" [{low:.{digits}f},\N{NO-BREAK SPACE}{high:.{digits}f}]"
    return text if estimate.status is Status.SUPPORTED else f"{text}\N{NO-BREAK SPACE}?"


def only(figures: dict[str, Figure], name: str) -> list[Figure]:
    """Return the figure of that name as a list, an empty one where it was not drawn."""
    return [figures[name]] if name in figures else []
