"""A result in a cell of a notebook: the page's headline, claims and cautions, without script.

The style is bound to the cell's own class, for a notebook has a style of its own; figures and the
other tables are on the page.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

from sojourn.report.html import Result, environment_of, page_of
from sojourn.report.parts import Cell, Rows

__all__ = ["notebook_text"]


def notebook_text(result: Result) -> str:
    """Return a result as a fragment of HTML; see `write_report` for the whole page."""
    from markupsafe import Markup

    style = files("sojourn.report").joinpath("templates/notebook.css").read_text(encoding="utf-8")
    template = environment_of().get_template("notebook.html")
    page = page_of(result, whole=False)
    page = replace(page, overview=_unlinked(page.overview))
    return template.render(page=page, style=Markup(style))


def _unlinked(table: Rows) -> Rows:
    """Return a table without links: the anchors they lead to stand on the page only."""
    return replace(
        table,
        rows=[
            tuple(replace(cell, href="") if isinstance(cell, Cell) else cell for cell in row)
            for row in table.rows
        ],
    )
