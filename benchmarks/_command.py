"""Time the whole command from outside: CPU and wall seconds, and its peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Sequence

PINNED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}


def timed(
    arguments: Sequence[object], runs: int, *, codes: Collection[int] = (0,), **environment: str
) -> dict[str, float]:
    """Run a command several times after a warm-up; medians of CPU and wall seconds, peak MB.

    Parameters
    ----------
    arguments : sequence
        The command line.
    runs : int
        How often it is timed.
    codes : collection of int
        The exit codes that are answers.
    **environment : str
        Variables beside those that pin the threads.
    """
    cpu, wall, peak = [], [], []
    for _ in range(runs + 1):
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "sojourn", *map(str, arguments)],
            env={**os.environ, **PINNED, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in codes:
            raise RuntimeError(f"{arguments} ended with status {status}")
        wall.append(time.perf_counter() - start)
        cpu.append(usage.ru_utime + usage.ru_stime)
        peak.append(usage.ru_maxrss / 1e3)
    return {
        "cpu_s": round(statistics.median(cpu[1:]), 3),
        "least_cpu_s": round(min(cpu[1:]), 3),
        "wall_s": round(statistics.median(wall[1:]), 3),
        "peak_mb": round(max(peak)),
    }
