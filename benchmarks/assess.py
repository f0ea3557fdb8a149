"""Time the whole command: the example with its page, the help, and a million runs from Parquet.

Run ``python benchmarks/assess.py`` on a quiet machine. Each workload is a process of its own, timed
from outside (CPU and wall seconds, peak memory), after one run that fills numba's cache. Prints a
table and writes ``benchmarks/results/assess.json``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _record import write

PINNED = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}


def write_million(
    path: Path, n_tasks: int = 250_000, n_attempts: int = 4, n_steps: int = 20
) -> None:
    """Write 10^6 runs of up to 20 steps, tasks of unequal difficulty, as our Parquet corpus."""
    from sojourn.corpus import Categorical, CorpusBuilder, StepTypes, TraceBatch, write_corpus

    rng = np.random.default_rng(0)
    n = n_tasks * n_attempts
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), n_attempts)
    success = rng.random(n) < rng.beta(1.2, 1.0, n_tasks)[task]
    lengths = np.minimum(rng.geometric(0.08, n), n_steps)
    lengths[:] = np.where(rng.random(n) < 0.3, lengths, n_steps)
    cut = (lengths == n_steps) & ~success
    steps = rng.integers(0, 12, int(lengths.sum())).astype(np.int32)
    batch = TraceBatch(
        n_runs=n,
        numbers={
            "outcome": np.where(success, 0, 1),
            "end": np.where(cut, 1, 0),
            "limit_kind": np.where(cut, 0, -1),
            "n_steps": lengths,
            "task_repeat": np.tile(np.arange(n_attempts), n_tasks),
        },
        labels={
            "task_id": Categorical(codes=task, values=tuple(f"task-{i}" for i in range(n_tasks))),
            "model": Categorical.constant("simulated", n),
        },
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        steps=steps,
        step_types=StepTypes.from_keys([(f"tool-{i}", 0, 0, 1, 1) for i in range(12)]),
    )
    builder = CorpusBuilder()
    builder.add_batch(batch)
    write_corpus(builder.build(), path)


def timed(arguments: list[str], runs: int) -> dict[str, float]:
    """Run a command several times after a warm-up; medians of CPU and wall seconds, peak MB."""
    environment = {**os.environ, **PINNED}
    cpu, wall, peak = [], [], []
    for _ in range(runs + 1):
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "sojourn", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{arguments} ended with status {status}")
        wall.append(time.perf_counter() - start)
        cpu.append(usage.ru_utime + usage.ru_stime)
        peak.append(usage.ru_maxrss / 1e3)
    return {
        "cpu_s": round(statistics.median(cpu[1:]), 3),
        "wall_s": round(statistics.median(wall[1:]), 3),
        "peak_mb": round(max(peak)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--skip-million", action="store_true")
    options = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "page.html")
        workloads = {
            "help": (["--help"], options.runs),
            "demo": (["demo"], options.runs),
            "demo with page": (["demo", "--html", page], options.runs),
        }
        if not options.skip_million:
            corpus = Path(folder) / "million.parquet"
            # In a process of its own: a child is charged with its parent's memory at the fork.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                pool.submit(write_million, corpus).result()
            results["million_file_mb"] = round(corpus.stat().st_size / 1e6, 1)
            workloads["10^6 runs"] = (["assess", str(corpus)], 1)
        for name, (arguments, runs) in workloads.items():
            results[name] = timed(arguments, runs)
            print(f"{name:<16} {results[name]}", flush=True)
    write("assess", results, "scipy", "matplotlib")


if __name__ == "__main__":
    main()
