"""Results on paper: the page and the JSON."""

from __future__ import annotations

from sojourn.report.json import json_text, write_json

__all__ = ["json_text", "write_json"]
