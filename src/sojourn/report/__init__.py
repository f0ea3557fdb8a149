"""Results on paper: the page and the JSON."""

from __future__ import annotations

from sojourn.report.html import html_text, write_report
from sojourn.report.json import json_text, write_json

__all__ = ["html_text", "json_text", "write_json", "write_report"]
