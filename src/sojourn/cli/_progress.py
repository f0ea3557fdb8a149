"""Progress on stderr: one line that is rewritten, from the second on, and only on a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from sojourn.tables import clean

__all__ = ["Progress"]

_PATIENCE = 1.0
_INTERVAL = 0.1


class Progress:
    """A line on stderr that says what is being done; silent when it takes under a second.

    Parameters
    ----------
    quiet : bool
        Never say anything.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._silent = quiet or not sys.stderr.isatty()
        self._start = time.monotonic()
        self._last = self._start
        self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()

    def say(self, message: str) -> None:
        """Show `message` in place of the last one."""
        now = time.monotonic()
        if self._silent or now - self._start < _PATIENCE or now - self._last < _INTERVAL:
            return
        self._last = now
        line = clean(message)
        sys.stderr.write("\r" + line.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(line)
