"""A process that has imported everything and forks, so that a command with a fault costs little.

It reads jobs as JSON lines, runs each in a child of its own, and answers with the exit code (minus
the signal that killed it) and what the child wrote. Run as a program by `Nursery`.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["Nursery", "Outcome"]

SOURCE = Path(__file__).resolve().parents[2] / "src"


class Outcome(NamedTuple):
    """How a command ended: its exit code, negative for a signal, and its two outputs."""

    code: int
    out: str
    err: str


class Nursery:
    """The parent's end; a context manager."""

    def __enter__(self) -> Nursery:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"PYTHONPATH": str(SOURCE), "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, *arguments: object, **fault: Any) -> Outcome:
        """Run a command in a child.

        Parameters
        ----------
        *arguments
            The command line.
        bytes_a_file : int, optional
            No file can grow beyond this; the write that tries fails, or with ``kill=True`` ends the
            process there, or with ``interrupt=True`` meets an interrupt.
        powerless : bool, optional
            The rights of files are for the superuser as well.
        environment : dict, optional
            Variables to set.
        """
        job = {"arguments": [str(argument) for argument in arguments], **fault}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Outcome(*json.loads(self._process.stdout.readline()))


def _child(job: dict[str, Any]) -> int:
    from sojourn.cli.main import main

    os.environ.update(job.get("environment", {}))
    if job.get("powerless"):
        _give_up_power()
    limit = job.get("bytes_a_file")
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if job.get("kill"):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        elif job.get("interrupt"):
            signal.signal(signal.SIGXFSZ, signal.default_int_handler)
    return main(job["arguments"])


def _give_up_power() -> None:
    """Drop the superuser's powers to pass by the rights of files, if we are that user."""
    if os.geteuid():
        return
    # struct of <linux/capability.h>: version 3 and this process, then effective, permitted and
    # inheritable of either half; the powers of numbers 1 and 2 are those over files.
    header = struct.pack("Ii", 0x20080522, 0)
    left = 0xFFFFFFFF & ~(1 << 1 | 1 << 2)
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(24)
    if libc.capget(header, held):
        raise OSError(ctypes.get_errno(), "capget")
    words = [word & (left if place < 2 else word) for place, word in enumerate(_words(held))]
    if libc.capset(header, struct.pack("6I", *words)):
        raise OSError(ctypes.get_errno(), "capset")


def _words(held: Any) -> tuple[int, ...]:
    return struct.unpack("6I", held.raw)


def _answer(job: dict[str, Any], folder: Path) -> list[object]:
    # Pipes and not files, since the limit on files is not about them.
    reads, writes = zip(os.pipe(), os.pipe(), strict=True)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.chdir(folder)
            os.dup2(writes[0], 1)
            os.dup2(writes[1], 2)
            code = _child(job)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for end in writes:
        os.close(end)
    texts = [open(end, encoding="utf-8").read() for end in reads]  # noqa: PTH123, SIM115
    _, status = os.waitpid(child, 0)
    return [os.waitstatus_to_exitcode(status), *texts]


def _serve() -> None:
    from sojourn.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        # Once through all of it, so that nothing is left to import or to compile: under a limit on
        # bytes this Python would leave half a file of bytecode, and stumble over it.
        warm = Path(folder) / "warm.jsonl"
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        main(["simulate", "react", "--tasks", "6", "-o", str(warm)])
        main(["simulate", "sessions", "-o", f"{folder}/w.csv"])
        main(["convert", str(warm), "-o", f"{folder}/w.parquet"])
        quick = ["--resamples", "99"]
        page = ["--html", f"{folder}/w.html", "--json", f"{folder}/w.json"]
        summary = ["--markdown", f"{folder}/w.md"]
        report = ["--junit", f"{folder}/w.xml"]
        main(["assess", str(warm), "--no-chain", *quick, *page, *summary, *report])
        rule = [str(warm), "success_rate >= 0.1"]
        main(["gate", *rule, *quick, *report, *summary])
        main(["plan", *rule, "--draws", "100", "--tasks", "9"])
        main(["fit", str(warm), "--no-certificate", "--draws", "19", "-o", f"{folder}/w.model"])
        main(["compare", str(warm), str(warm), *quick, *summary, "-q"])
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        for line in sys.stdin:
            print(json.dumps(_answer(json.loads(line), Path(folder))), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE))
    _serve()
