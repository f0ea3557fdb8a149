"""Time the choice of a process with its certificate, and the progress fit beside the chain's.

    python benchmarks/climb.py

200 runs (50 tasks x 4 attempts) of a three-state chain whose ends come late, and, with ``--large``,
10^5 runs of 20 steps on average. Each is one process: all candidates by 5-fold cross-validation,
the bound on the chosen one's error (199 refits), the refitted test of fit with 499 corpora and the
exchange of futures with 999 draws, as ``sojourn assess`` does it, in a thread a core. The first
time kernels are loaded from numba's cache counts. Then the progress fit to 10^4 and 10^6 runs: the
first needs the cells n(step, state, next event), which a second fit of the same runs needs too.
BLAS is pinned to one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _record import RESULTS, write

PINNED = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
N_DRAWS = 499


def runs_of(n_tasks: int, *, mean_steps: float = 8.5, seed: int = 20260417) -> Any:
    """Draw four attempts a task; ends are rare at first, their odds rise up to mean_steps."""
    import numpy as np

    from sojourn.sequences import StateSequences

    rng = np.random.default_rng(seed)
    n, m = 4 * n_tasks, 3
    moves = np.array([[0.35, 0.55, 0.10], [0.20, 0.45, 0.35], [0.25, 0.40, 0.35]])
    odds = np.array([0.3, 1.0, 2.0])
    chance = np.array([0.2, 0.4, 0.7])
    alive, here = np.arange(n), np.zeros(n, dtype=np.int64)
    event = np.zeros(n, dtype=np.int8)
    found_runs, found_states = [], []
    step = 0
    while alive.size:
        found_runs.append(alive)
        found_states.append(here)
        step += 1
        hazard = np.minimum(0.9, odds[here] * 1.5 / mean_steps * min(step / mean_steps, 2.0))
        over = rng.random(alive.size) < hazard
        won = rng.random(alive.size) < chance[here]
        event[alive[over]] = np.where(won[over], 1, 2)
        upper = np.cumsum(moves[here], axis=1)
        following = (rng.random(alive.size)[:, None] > upper).sum(axis=1).clip(max=m - 1)
        alive, here = alive[~over], following[~over]
    run = np.concatenate(found_runs)
    order = np.argsort(run, kind="stable")
    task = np.arange(n) // 4
    return StateSequences(
        states=np.concatenate(found_states)[order],
        offsets=np.concatenate(([0], np.cumsum(np.bincount(run, minlength=n)))),
        event=event,
        task=task,
        unit=task,
        state_names=("plan", "act", "check"),
    )


def climb_once(n_tasks: int, mean_steps: float) -> dict[str, Any]:
    """Choose and certify; to be run in a process of its own."""
    import resource

    import numpy as np

    from sojourn.assess.climb import climb

    runs = runs_of(n_tasks, mean_steps=mean_steps)
    before, began = time.process_time(), time.perf_counter()
    found = climb(runs, n_draws=N_DRAWS, rng=np.random.default_rng(1))
    wall, cpu = time.perf_counter() - began, time.process_time() - before
    assert found.choice is not None
    richer = found.found
    return {
        "n_runs": runs.n_runs,
        "n_steps": int(runs.states.size),
        "looked_at": found.choice.n_runs,
        "chosen": found.choice.chosen,
        "certified": None if richer is None else richer.name,
        "timing": None if richer is None else str(richer.bound.verdict),
        "n_draws": None if richer is None else richer.fit_test.n_draws,
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }


def fits(n_tasks: int) -> dict[str, Any]:
    """Time the progress fit; to be run in a process of its own."""
    import resource

    from sojourn.process.homogeneous import fit_homogeneous
    from sojourn.process.progress import fit_progress

    runs = runs_of(n_tasks)
    fit_progress(runs_of(100))

    def seconds(work: Any) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return round(statistics.median(times), 3)

    fitted = fit_progress(runs)
    return {
        "n_runs": runs.n_runs,
        "n_steps": int(runs.states.size),
        "longest": int(runs.lengths.max()),
        "progress_cpu_s": seconds(lambda: fit_progress(runs)),
        "progress_refit_cpu_s": seconds(lambda: fitted.refit(runs)),
        "homogeneous_cpu_s": seconds(lambda: fit_homogeneous(runs)),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }


def in_process(*arguments: str) -> dict[str, Any]:
    """Run this file with the arguments in a process of its own and read what it prints."""
    environment = {**os.environ, **dict.fromkeys(PINNED, "1")}
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="10^5 runs too, once (minutes)")
    parser.add_argument("--only", nargs=3, metavar=("WHAT", "TASKS", "STEPS"), help="for itself")
    options = parser.parse_args()
    if options.only:
        what, tasks, steps = options.only
        n_tasks = int(tasks)
        print(json.dumps(climb_once(n_tasks, float(steps)) if what == "climb" else fits(n_tasks)))
        return
    in_process("--only", "climb", "50", "8.5")  # fills numba's cache
    measured: dict[str, Any] = {"unit": "seconds", "n_draws": N_DRAWS}
    measured["200 runs"] = [in_process("--only", "climb", "50", "8.5") for _ in range(3)]
    measured["progress fit"] = [in_process("--only", "fit", n, "8.5") for n in ("2500", "250000")]
    path = Path(RESULTS / "climb.json")
    if options.large:
        measured["10^5 runs"] = in_process("--only", "climb", "25000", "21")
    elif path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        measured |= {key: before[key] for key in ("10^5 runs",) if key in before}
    print(json.dumps(measured, indent=2))
    print(write("climb", measured, "scipy"))


if __name__ == "__main__":
    main()
