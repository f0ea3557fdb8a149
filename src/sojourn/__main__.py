"""The program: ``sojourn``, or ``python -m sojourn``; it ends quietly when it is told to."""

from __future__ import annotations

import signal
import sys
from types import FrameType

__all__ = ["run"]


def run() -> None:
    """Run the command as a program, and leave with its exit code.

    An interrupt, or the wish of the system that it ends, is answered from the first import on: what
    was half-written is removed, and a line on stderr says why there is no result.
    """
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        from sojourn.cli.main import main

        code = main()
    except KeyboardInterrupt:
        print("sojourn: interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    # What is left to do takes no time; an interrupt now would only show where Python stood.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    """Leave as an exception, so that files that are being written are put away."""
    signal.signal(number, signal.SIG_IGN)
    print(f"sojourn: ended by {signal.Signals(number).name}", file=sys.stderr)
    sys.exit(128 + number)


if __name__ == "__main__":
    run()
