"""The certificate on 400 runs: the exact test with 999 draws and the misspecification bound.

    python benchmarks/certificate.py

400 runs of a five-state chain (3.9 steps on average), one thread, kernels warm, CPU seconds, the
median of five. The same for runs cut by a cap (tail swaps) and for 100 tasks with 4 attempts each
within tasks. For comparison a plain Python version of one draw by the same sampler, extrapolated.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable

from _record import pin_threads, write

pin_threads()

import numpy as np  # noqa: E402

from sojourn.process.bound import misspecification_bound  # noqa: E402
from sojourn.process.detectable import simulate_alternative  # noqa: E402
from sojourn.process.exact import test_exact  # noqa: E402
from sojourn.sequences import StateSequences  # noqa: E402

START = np.array([0.70, 0.15, 0.05, 0.05, 0.05])
CHAIN = np.array(
    [
        [0.00, 0.75, 0.00, 0.05, 0.10, 0.00, 0.10],
        [0.00, 0.10, 0.72, 0.00, 0.00, 0.00, 0.18],
        [0.00, 0.25, 0.00, 0.30, 0.30, 0.05, 0.10],
        [0.15, 0.30, 0.00, 0.00, 0.35, 0.05, 0.15],
        [0.00, 0.00, 0.00, 0.15, 0.00, 0.65, 0.20],
    ]
)
N_RUNS, N_DRAWS = 400, 999


def corpus(cap: int = 1_000_000) -> StateSequences:
    return simulate_alternative(
        START,
        CHAIN,
        np.repeat(np.arange(N_RUNS // 4, dtype=np.int32), 4),
        alternative="memory",
        effect=0.0,
        cap=cap,
        state_names=("plan", "tool", "observe", "reflect", "answer"),
        rng=np.random.default_rng(1),
    )


def cpu_seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    work()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def plain_draw(runs: StateSequences, source: random.Random) -> list[list[int]]:
    """Draw one corpus with lists and dictionaries: the same sampler, no kernels."""
    m = runs.n_states
    stacks: dict[int, list[int]] = {i: [] for i in range(m)}
    starts = []
    states, offsets = runs.states.tolist(), runs.offsets.tolist()
    for r, event in enumerate(runs.event.tolist()):
        path = states[offsets[r] : offsets[r + 1]]
        starts.append(path[0])
        for i, j in zip(path, [*path[1:], m - 1 + event], strict=True):
            stacks[i].append(j)
    last: dict[int, int] = {}
    for i in range(m):
        if i in last or not stacks[i]:
            continue
        walk: dict[int, int] = {}
        u = i
        while u < m and u not in last:
            walk[u] = source.choice(stacks[u])
            u = walk[u]
        u = i
        while u < m and u not in last:
            last[u] = walk[u]
            u = walk[u]
    for i, stack in stacks.items():
        if stack:
            stack.remove(last[i])
            source.shuffle(stack)
            stack.append(last[i])
            stack.reverse()
    source.shuffle(starts)
    drawn = []
    for start in starts:
        path, u = [], start
        while u < m:
            path.append(u)
            u = stacks[u].pop()
        drawn.append([*path, u])
    return drawn


def main() -> None:
    runs, cut = corpus(), corpus(cap=8)
    measured = {
        "n_runs": N_RUNS,
        "n_steps": int(runs.states.size),
        "n_draws": N_DRAWS,
        "cut_share": float(np.mean(cut.event == 0)),
        "cpu_seconds": {
            "exact_pooled": cpu_seconds(lambda: test_exact(runs, n_draws=N_DRAWS, rng=1)),
            "exact_within_tasks": cpu_seconds(
                lambda: test_exact(runs, n_draws=N_DRAWS, within_tasks=True, rng=1)
            ),
            "exact_capped": cpu_seconds(lambda: test_exact(cut, n_draws=N_DRAWS, rng=1), repeats=3),
            "bound": cpu_seconds(lambda: misspecification_bound(runs, n_resamples=999, rng=1)),
            "plain_python_draws_only": cpu_seconds(
                lambda: [plain_draw(runs, random.Random(b)) for b in range(20)]
            )
            * N_DRAWS
            / 20,
        },
    }
    times = measured["cpu_seconds"]
    measured["certificate_cpu_seconds"] = sum(
        times[name] for name in ("exact_pooled", "exact_within_tasks", "bound")
    )
    print(json.dumps(measured, indent=2))
    print(write("certificate", measured, "scipy"))


if __name__ == "__main__":
    main()
