"""A result in a cell of a notebook: the page's headline, claims and cautions, without script.

The style is bound to the cell's own class, for a notebook has a style of its own; figures and the
other tables are on the page.
"""

from __future__ import annotations

from importlib.resources import files

from sojourn.report.html import Result, environment_of, page_of

__all__ = ["notebook_text"]


def notebook_text(result: Result) -> str:
    """Return a result as a fragment of HTML; see `write_report` for the whole page."""
    from markupsafe import Markup

    style = files("sojourn.report").joinpath("templates/notebook.css").read_text(encoding="utf-8")
    template = environment_of().get_template("notebook.html")
    return template.render(page=page_of(result, whole=False), style=Markup(style))
