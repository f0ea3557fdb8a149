"""Writing files so that an interrupt leaves the old file or the new one, never half of it.

What cannot be written is an OSError that names the file that was asked for, whoever noticed it.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["append_text", "replacing", "write_text"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside `path`; rename it to `path` on success, remove it otherwise.

    Parameters
    ----------
    path : path-like
        The file to write. Its folder must exist.

    Raises
    ------
    OSError
        If it cannot be written; `filename` is `path`, not the temporary one.
    """
    with _named(path):
        target = Path(path)
        if target.exists() and not target.is_file():
            # A device or a pipe is written to, never put aside for a file.
            yield target
            return
        target = _resolved(target)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an error of writing name the file that a user knows."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None
        if error.errno is not None:  # Arrow's own words name the temporary file
            error.strerror = os.strerror(error.errno)
        raise


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # how Python says that links go in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 with unix line ends, all or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def append_text(path: str | os.PathLike[str], text: str) -> None:
    """Add `text` to the end of a file, all or nothing, beside whoever else adds to it."""
    data = memoryview(text.encode())
    with _named(path), Path(path).open("ab", buffering=0) as file:
        start = file.seek(0, os.SEEK_END)
        written = 0
        try:
            while written < len(data):
                written += file.write(data[written:])
        except BaseException:
            if file.seek(0, os.SEEK_END) == start + written:  # nobody has added more since
                file.truncate(start)
            raise
