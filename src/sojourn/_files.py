"""Writing files so that an interrupt leaves the old file or the new one, never half of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "write_text"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` on success, remove it otherwise.

    Parameters
    ----------
    path : path-like
        The file to write. Its folder must exist.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        # A device or a pipe is written to, never put aside for a file.
        yield target
        return
    target = target.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 with unix line ends, all or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
