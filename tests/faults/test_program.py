"""The program as a shell meets it: signals, closed and full outputs, its exit codes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ENVIRONMENT = os.environ | {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SOJOURN = (sys.executable, "-m", "sojourn")


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*SOJOURN, *map(str, arguments)], text=True, env=ENVIRONMENT, **streams)


def long_assessment(log: Path, folder: Path) -> subprocess.Popen[str]:
    """Start what would take minutes, on a log whose reading takes seconds."""
    rows = "".join(f"t{n % 50_000},{n // 50_000},success,5\n" for n in range(200_000))
    log.write_text("task_id,task_repeat,outcome,n_steps\n" + rows)
    page = ("--json", folder / "r.json", "--html", folder / "r.html")
    return start("assess", log, *page, "--resamples", 999_999)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGTERM, "ended by SIGTERM"), (signal.SIGINT, "interrupted")]
)
def test_a_signal_ends_a_command_with_one_line_and_nothing_half_written(
    number: signal.Signals, word: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    process = long_assessment(tmp_path / "runs.csv", folder)
    time.sleep(4)
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()  # what did not end would take a processor for hours
    assert process.returncode == 128 + number, err
    assert err == f"sojourn: {word}\n"
    assert out == ""
    assert list(folder.iterdir()) == []


# Importing `sojourn` itself takes some milliseconds, before which Python is not ours.
PROBE = """
import sys, signal, os
{when}
sys.argv = ["sojourn", "formats"]
from sojourn.__main__ import run
run()
"""
IN_IMPORTS = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.{signal})
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("name", ["sojourn.cli.main", "typer", "sojourn.readers.base"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_while_imports_run_shows_no_traceback(name: str, number: str) -> None:
    when = IN_IMPORTS.format(name=name, signal=number)
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(when=when)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
    )
    assert done.returncode == 128 + getattr(signal, number), done
    assert re.fullmatch(r"sojourn: (interrupted|ended by SIGTERM)\n", done.stderr)


def test_an_output_that_nobody_reads_is_no_pass_and_no_traceback() -> None:
    process = start("formats")
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert err == ""


def test_a_full_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = start("formats", stdout=full)
        _, err = done.communicate(timeout=60)
        assert done.returncode == 3
        assert err == "sojourn: No space left on device\n"
        done = start("assess", "nowhere", stderr=full)
        out, _ = done.communicate(timeout=60)
        assert (done.returncode, out) == (3, "")


def test_a_gate_writes_its_files_whoever_reads_its_text(tmp_path: Path) -> None:
    from faults.conftest import write_log

    log, report = write_log(tmp_path / "a.jsonl"), tmp_path / "g.xml"
    gate = start("gate", log, "success_rate >= 0.1", "--resamples", 99, "--junit", report)
    gate.stdout.close()
    err = gate.stderr.read()
    gate.stderr.close()
    assert gate.wait(60) == 141, err
    assert report.read_text().rstrip().endswith("</testsuites>")


def test_it_runs_where_nothing_can_be_kept() -> None:
    """No folder for compiled code: neither beside the source nor in a home."""
    code = (
        "import numba.core.caching as c\n"
        "def refuse(*_): raise OSError('read-only')\n"
        "for cls in c.CacheImpl._locator_classes: cls.ensure_cache_path = refuse\n"
        "from sojourn.session._kernels import *\n"
        "import sojourn.session._kernels as k\n"
        "from numba.core.dispatcher import Dispatcher\n"
        "print(sum(isinstance(v, Dispatcher) for v in vars(k).values()))"
    )
    environment = ENVIRONMENT | {"HOME": "/proc/none"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
