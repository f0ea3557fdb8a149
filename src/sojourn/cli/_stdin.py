"""Standard input as a file, since readers look at the head of a source before they read it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.errors import ReaderError

__all__ = ["as_files", "plain", "spool_of"]

_PREFIX = "sojourn-"
_NAME = "standard input"


@contextmanager
def as_files(paths: list[str]) -> Iterator[list[str]]:
    """Give the paths, with ``-`` replaced by a temporary file of what stands on standard input.

    A ReaderError from inside names standard input and not the temporary file.
    """
    if "-" not in paths:
        yield paths
        return
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        spool = Path(folder) / _NAME
        with spool.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield [str(spool) if path == "-" else path for path in paths]
        except ReaderError as error:
            raise type(error)(plain(str(error), str(spool))) from None


def spool_of(files: list[str]) -> str | None:
    """Return which of the files holds what stood on standard input, if one does."""
    return next((file for file in files if Path(file).name == _NAME), None)


def plain(text: str, spool: str) -> str:
    """Return a text in which standard input is called by its name, not by its spool's path."""
    return text.replace(spool, _NAME)
