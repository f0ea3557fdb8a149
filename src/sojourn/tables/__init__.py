"""Rows in, a table out: a leaf that knows nothing of where the rows come from."""

from __future__ import annotations

from sojourn.tables.escape import clean
from sojourn.tables.steps import round_steps
from sojourn.tables.text import indent, markdown_table, p_is, p_text, text_table
from sojourn.tables.words import at_least, at_most, n_of, wrapped

__all__ = [
    "at_least",
    "at_most",
    "clean",
    "indent",
    "markdown_table",
    "n_of",
    "p_is",
    "p_text",
    "round_steps",
    "text_table",
    "wrapped",
]
