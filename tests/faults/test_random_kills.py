"""Commands ended at random moments of their life: nothing half-written, and the next run works."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from faults.test_writing import CASES, OLD, is_whole, visible, words

pytestmark = pytest.mark.slow

N_KILLS = 5
ENVIRONMENT = os.environ | {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def start(arguments: list[object], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sojourn", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | environment,
    )


def finish(arguments: list[object], **environment: str) -> None:
    process = start(arguments, **environment)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err


def end_at_random(
    process: subprocess.Popen[str], number: signal.Signals, moment: float
) -> tuple[int, str]:
    time.sleep(moment)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_command_ended_at_random_leaves_whole_files(
    case: str, number: signal.Signals, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    arguments, files = words(case, logs, tmp_path), CASES[case][1]
    began = time.monotonic()
    finish(arguments)
    whole = time.monotonic() - began
    # Not of Python's own start, before which no code of ours has run.
    moments = random.Random(zlib.crc32(f"{case} {number}".encode()))
    for _ in range(N_KILLS):
        for name in files:
            (tmp_path / name).write_bytes(OLD)
        code, err = end_at_random(start(arguments), number, moments.uniform(0.15, whole))
        assert code in (0, -number, 128 + number), err
        assert "Traceback" not in err
        assert code != 128 + number or err.count("\n") <= 2
        for name in files:
            path = tmp_path / name
            assert path.read_bytes() == OLD or is_whole(path)
        assert len(visible(tmp_path)) == len(files)
    finish(arguments)
    assert all(is_whole(tmp_path / name) for name in files)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_command_ended_while_it_compiles_leaves_a_cache_that_works(
    number: signal.Signals, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    arguments = ["gate", logs[0], "success_rate >= 0.1", "--resamples", 99]
    moments = random.Random(int(number))
    for _ in range(N_KILLS):
        process = start(arguments, NUMBA_CACHE_DIR=str(cache))
        code, err = end_at_random(process, number, moments.uniform(1, 8))
        assert code in (0, -number, 128 + number), err
        assert "Traceback" not in err
    finish(arguments, NUMBA_CACHE_DIR=str(cache))
    finish(arguments, NUMBA_CACHE_DIR=str(cache))
