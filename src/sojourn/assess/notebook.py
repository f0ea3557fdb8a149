"""How a result shows itself in a notebook: by the report's own fragments, looked up when asked for.

The report stands above the assessments and knows them; they know only its name, as readers are
known by theirs, so that a result can be made and printed without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["notebook_html"]

_REPORT = "sojourn.report.notebook"


def notebook_html(result: Any) -> str:
    """Return a result as HTML for a notebook: headline, claims and cautions, without script."""
    return str(import_module(_REPORT).notebook_text(result))
