"""Time a whole assessment of sessions, and the sampler on a million tasks; assert nothing.

    python benchmarks/sessions.py [--runs 3] [--skip-million]

Each workload is a process of its own, timed from outside (CPU and wall seconds, peak memory) after
one run that fills numba's cache: `sojourn assess sessions.csv --html` on one session of 2,000 tasks
whose outcomes depend, so that K = 1..4 are scored and the chosen one is sampled by four chains;
interleaved, in blocks (scored in two folds), and with four strong states; then one chain of three
states over 10^6 tasks, kept draws included.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _record
import numpy as np

from sojourn.session.simulate import simulate_sessions

SUCCESS = {
    2: np.array([[0.98, 0.75], [0.96, 0.72]]),
    4: np.array([[0.995, 0.85, 0.55, 0.15], [0.99, 0.80, 0.45, 0.10]]),
}
MILLION = """
import json, sys, time
import numpy as np
from sojourn.session.hmm import HMMSpec
from sojourn.session.sampler import (SamplerSettings, sample)
from sojourn.session.simulate import simulate_sessions
A = np.full((3, 3), 0.025); np.fill_diagonal(A, 0.95)
theta = [[0.97, 0.80, 0.40], [0.93, 0.65, 0.20]]
data = simulate_sessions([1_000_000], transition=A, success_prob=theta, rng=3).sequences
settings = SamplerSettings(n_chains=4, warmup=100, draws=200, max_draws=200)
cpu, wall = time.process_time(), time.perf_counter()
fit = sample(data, HMMSpec(n_states=3), settings=settings, rng=1)
json.dump(
    {
        "sampling_cpu_s": time.process_time() - cpu,
        "sampling_wall_s": time.perf_counter() - wall,
        "ns_per_task_and_iteration": (time.process_time() - cpu) / 4 / 300 * 1e3,
        "next_task": fit.next_task().mean,
    },
    sys.stdout,
)
"""


def write_session(path: Path, n_states: int, order: str, n_tasks: int = 2000) -> None:
    """Write one session of two subdomains as CSV."""
    rng = np.random.default_rng(5)
    A = np.full((n_states, n_states), 0.05 / (n_states - 1))
    np.fill_diagonal(A, 0.95)
    labels = np.repeat([0, 1], n_tasks // 2)
    if order == "interleaved":
        labels = rng.permutation(labels)
    data = simulate_sessions(
        [n_tasks], transition=A, success_prob=SUCCESS[n_states], subdomain=labels, rng=rng
    ).sequences
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["session_id", "position", "domain", "subdomain", "success"])
        for t in range(n_tasks):
            kind = ("BoolQ", "RACE-H")[int(data.subdomain[t])]
            rows.writerow(["s1", t, "reasoning", kind, int(data.success[t])])


def timed(arguments: list[str], runs: int) -> dict[str, Any]:
    """Run a command several times after a warm-up; medians of seconds, peak MB, its output."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    cpu, wall, peak, said = [], [], [], ""
    for _ in range(runs + 1):
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{arguments} ended with status {status}")
        wall.append(time.perf_counter() - start)
        cpu.append(usage.ru_utime + usage.ru_stime)
        peak.append(usage.ru_maxrss / 1e3)
    return {
        "cpu_s": round(statistics.median(cpu[1:] or cpu), 2),
        "wall_s": round(statistics.median(wall[1:] or wall), 2),
        "wall_s_best": round(min(wall), 2),
        "peak_mb": round(max(peak)),
        "said": said,
    }


def chosen(said: str) -> str:
    """Return what the command chose and whether its chains settled."""
    lines = [line.strip() for line in said.splitlines()]
    return "; ".join(x for x in lines if x.startswith(("chosen:", "posterior:")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-million", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "page.html")
        for n_states, order in ((2, "interleaved"), (2, "blocks"), (4, "interleaved")):
            table = Path(folder) / "sessions.csv"
            write_session(table, n_states, order)
            found = timed(["-m", "sojourn", "assess", str(table), "--html", page], options.runs)
            found["said"] = chosen(found["said"])
            results[f"2,000 tasks, {order}, {n_states} true states, with page"] = found
    if not options.skip_million:
        found = timed(["-c", MILLION], 0)
        said = json.loads(found.pop("said"))
        results["10^6 tasks, three states, four chains of 300 sweeps"] = {**found, **said}
    for name, row in results.items():
        print(name, row)
    print(f"wrote {_record.write('sessions', {'workloads': results}, 'arviz-stats', 'matplotlib')}")


if __name__ == "__main__":
    main()
