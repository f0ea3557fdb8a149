"""Read one line of a gigabyte: what it costs, and that it ends in a record or a clear error.

    python benchmarks/one_line.py              # 1 GB, made in a temporary folder
    python benchmarks/one_line.py --megabytes 100

Four lines: a run whose text is endless, one whose array is, one that never closes its string, and
one that is all brackets. Prints what came of each, its speed and the peak of memory, as JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEGABYTE = 1 << 20
HEAD = b'{"task_id": "t1", "outcome": 1, "x": '
FORMS = {
    "text": (HEAD + b'"', b"x" * MEGABYTE, b'"}\n'),
    "array": (HEAD + b"[0", b", 0" * (MEGABYTE // 3), b"]}\n"),
    "open string": (HEAD + b'"', b"x" * MEGABYTE, b"\n"),
    "brackets": (HEAD, b"[" * MEGABYTE, b"\n"),
}


def write(path: Path, form: str, megabytes: int) -> None:
    """Write a line of a form, a megabyte at a time, after an honest one."""
    head, piece, tail = FORMS[form]
    with path.open("wb") as file:
        file.write(b'{"task_id": "t0", "outcome": 0}\n' + head)
        for _ in range(megabytes):
            file.write(piece)
        file.write(tail)


def read(path: Path) -> dict[str, object]:
    """Read a file in this process and tell what came of it."""
    from sojourn.errors import SojournError
    from sojourn.readers import read_traces

    start = time.process_time()
    try:
        corpus = read_traces(path, format="sojourn-jsonl")
        found = f"{len(corpus)} runs; " + "; ".join(item.reason[:80] for item in corpus.skipped)
    except SojournError as error:
        found = f"{type(error).__name__}: {str(error)[-120:]}"
    return {
        "found": found,
        "cpu_seconds": round(time.process_time() - start, 2),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def main() -> None:
    """Measure each form in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1023)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read is not None:
        print(json.dumps(read(arguments.read)))
        return
    for form in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "line.jsonl"
            write(path, form, arguments.megabytes)
            command = [sys.executable, __file__, "--read", str(path)]
            shown = subprocess.run(command, capture_output=True, text=True, check=False)
            result = json.loads(shown.stdout) if shown.returncode == 0 else shown.stderr[-300:]
            print(json.dumps({"form": form, "megabytes": arguments.megabytes, "result": result}))


if __name__ == "__main__":
    main()
