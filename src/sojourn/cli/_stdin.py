"""Standard input as a file, since readers look at the head of a source before they read it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["as_files"]


@contextmanager
def as_files(paths: list[str]) -> Iterator[list[str]]:
    """Give the paths, with ``-`` replaced by a temporary file of what stands on standard input."""
    if "-" not in paths:
        yield paths
        return
    with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
        spool = Path(folder) / "stdin"
        with spool.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [str(spool) if path == "-" else path for path in paths]
