"""What a page is made of: tables, figures, sections; and how an estimate stands in a cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.estimates import Estimate, Status
from sojourn.tables import clean, p_text
from sojourn.tables.words import shortened

__all__ = ["Cell", "Figure", "Rows", "Section", "estimate_cell", "only", "p_cell", "short_name"]

# Letters that half of a wide page, and a phone, have room for; and what the gap of a column takes.
_HALF_PAGE = 60
_PHONE = 50
_GAP = 2.5
_PHONE_GAP = 1.0
# A name in a title: two of them, with a word between, are two or three lines of a phone.
_TITLE_NAME = 32
_LONGEST_NAME = 512
# The first column may be broken anywhere on a phone, down to this width.
_PHONE_NAME = 12
_PHONE_LINK = 18


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

    @property
    def wide(self) -> bool:
        """Whether its columns, unbroken, are too wide for half of the page."""
        widths = [max(map(len, column)) for column in self._columns()]
        return sum(widths) + _GAP * len(widths) > _HALF_PAGE

    @property
    def layout(self) -> str:
        """Class of its layout on a phone: sentences, figures one below the other, or a table."""
        if self.left == len(self.header):
            return "words"
        widths = [max(map(_longest_word, column)) for column in self._columns()]
        leads = any(isinstance(row[0], Cell) and row[0].href for row in self.rows)
        widths[0] = min(widths[0], _PHONE_LINK if leads else _PHONE_NAME)
        return "stack" if sum(widths) + _PHONE_GAP * len(widths) > _PHONE else ""

    def _columns(self) -> list[list[str]]:
        """Return the texts of each column, its head first."""
        rows = [self.header, *(tuple(_text(cell) for cell in row) for row in self.rows)]
        return [list(column) for column in zip(*rows, strict=True)]


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


def _text(cell: object) -> str:
    if isinstance(cell, Cell):
        return f"{cell.text} {cell.code}".rstrip()
    return str(cell)


def _longest_word(text: str) -> int:
    # Only at a plain blank may a line be broken.
    return max(map(len, text.split(" ")))


def estimate_cell(estimate: Estimate | None, digits: int = 3) -> str:
    """Return an estimate for a cell of a table; a question mark where it is not supported."""
    if estimate is None or estimate.value is None:
        return "-"
    text = f"{estimate.value:z.{digits}f}"
    if estimate.interval is not None:
        # No break inside the interval: on a narrow screen it goes under the figure, whole.
        low, high = estimate.interval.low, estimate.interval.high
        text += f" [{low:z.{digits}f},\N{NO-BREAK SPACE}{high:z.{digits}f}]"
    return text if estimate.status is Status.SUPPORTED else f"{text}\N{NO-BREAK SPACE}?"


def only(figures: dict[str, Figure], name: str) -> list[Figure]:
    """Return the figure of that name as a list, an empty one where it was not drawn."""
    return [figures[name]] if name in figures else []


def p_cell(p: float | None) -> str:
    """Return a p-value for a cell, never broken in two."""
    return p_text(p).replace(" ", "\N{NO-BREAK SPACE}")


def short_name(label: object) -> str:
    """Return a label for a title, two of which fit on a phone."""
    return shortened(clean(label, limit=_LONGEST_NAME), _TITLE_NAME)
