"""Rows in, a table out: a leaf that knows nothing of where the rows come from."""

from __future__ import annotations

from sojourn.tables.text import clean, indent, p_text, text_table

__all__ = ["clean", "indent", "p_text", "text_table"]
