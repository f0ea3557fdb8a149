"""Results as JSON: the contract that scripts rely on; a number that does not exist is null."""

from __future__ import annotations

import json
import os
from typing import Protocol

from sojourn._files import write_text

__all__ = ["json_text", "write_json"]


class _HasDict(Protocol):
    def to_dict(self) -> dict[str, object]: ...


def json_text(result: _HasDict) -> str:
    """Return a result as JSON text with a line end.

    Raises
    ------
    ValueError
        If a figure is NaN or infinite, which no result may hold.
    """
    return json.dumps(result.to_dict(), indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def write_json(result: _HasDict, path: str | os.PathLike[str]) -> None:
    """Write a result as JSON, all or nothing."""
    write_text(path, json_text(result))
