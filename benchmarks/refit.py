"""A parametric bootstrap with refit: 1,000 corpora simulated, counted, refitted and compared.

    python benchmarks/refit.py

A chain of 8 states, 2,000 runs of 16 steps on average. Each replicate simulates a corpus, refits
the chain, and takes the largest gap between its curve of R(d) and the corpus's own over 200 steps.
Ours simulates in a compiled loop that keeps only counts, and refits all corpora at once; the NumPy
version advances all runs of a corpus together, one vectorised step at a time, which is how one
would write it without a compiler. Same chain, interleaved, one thread, CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from _record import pin_threads, write

pin_threads()

import numpy as np  # noqa: E402

from sojourn.process import AbsorbingChain, HomogeneousFit, fit_homogeneous  # noqa: E402
from sojourn.process.chain_draws import ChainDraws, resimulate  # noqa: E402
from sojourn.process.homogeneous import start_row  # noqa: E402

N_STATES, N_RUNS, HORIZON = 8, 2000, 200


def chain() -> AbsorbingChain:
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(N_STATES), size=N_STATES) * (1 - 1 / 16)
    exits = np.full(N_STATES, 1 / 16)
    return AbsorbingChain(
        transient=rows,
        to_success=0.6 * exits,
        to_failure=0.4 * exits,
        initial=np.full(N_STATES, 1 / N_STATES),
        state_names=tuple(f"s{i}" for i in range(N_STATES)),
    )


def ours(fit: HomogeneousFit, n_refits: int, seed: int) -> np.ndarray:
    drawn = resimulate(fit, n_refits, max_steps=HORIZON, rng=seed)
    refits = ChainDraws(rows=fit.prior.rows(drawn.tables), start=start_row(drawn.tables, fit.start))
    observed = np.cumsum(drawn.ends[:, 1], axis=1) / fit.counts.n_runs
    return np.abs(refits.success_within(HORIZON) - observed).max(axis=1)


def vectorised(fit: HomogeneousFit, n_refits: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    model, n, m = fit.chain, fit.counts.n_runs, fit.counts.n_states
    rows = np.column_stack((model.transient, model.to_success, model.to_failure))
    cumulative = np.cumsum(rows, axis=1)[:, :-1]
    first = np.cumsum(model.initial)[:-1]
    gaps = np.empty(n_refits)
    for b in range(n_refits):
        counts = np.zeros(m * (m + 2), dtype=np.int64)
        won = np.zeros(HORIZON + 1, dtype=np.int64)
        state = np.searchsorted(first, rng.random(n), side="right")
        starts = np.bincount(state, minlength=m)
        for step in range(1, HORIZON + 1):
            following = (rng.random(state.size)[:, None] >= cumulative[state]).sum(axis=1)
            counts += np.bincount(state * (m + 2) + following, minlength=counts.size)
            won[step] = np.count_nonzero(following == m)
            state = following[following < m]
            if state.size == 0:
                break
        table = counts.reshape(m, m + 2).astype(float)
        table += table.sum(axis=0) / table.sum()
        table /= table.sum(axis=1, keepdims=True)
        Q, exits = table[:, :m], table[:, m]
        within, mass = np.zeros(HORIZON + 1), starts / n
        for d in range(HORIZON):
            within[d + 1] = within[d] + mass @ exits
            mass = mass @ Q
        gaps[b] = np.abs(within - np.cumsum(won) / n).max()
    return gaps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--refits", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    fit = fit_homogeneous(chain().simulate(N_RUNS, rng=1))
    ours(fit, 10, 1)
    times: dict[str, list[float]] = {"ours": [], "numpy": []}
    gaps: dict[str, np.ndarray] = {}
    for seed in range(options.repeats):
        for name, method in (("ours", ours), ("numpy", vectorised)):
            start = time.process_time()
            gaps[name] = method(fit, options.refits, seed)
            times[name].append(time.process_time() - start)
    middle = {name: statistics.median(values) for name, values in times.items()}
    # The two draw from the same law: their means agree within Monte Carlo error.
    means = {name: float(values.mean()) for name, values in gaps.items()}
    error = float(np.hypot(*(v.std() / np.sqrt(v.size) for v in gaps.values())))
    if abs(means["ours"] - means["numpy"]) > 5 * error:
        raise AssertionError(f"the two methods disagree: {means}, standard error {error}")
    measured = {
        "unit": "CPU seconds",
        "n_states": N_STATES,
        "n_runs": N_RUNS,
        "mean_steps": fit.chain.mean_steps,
        "horizon": HORIZON,
        "n_refits": options.refits,
        "median": middle,
        "all": times,
        "ratio_numpy_to_ours": middle["numpy"] / middle["ours"],
        "mean_gap": means,
    }
    print(write("refit", measured))
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
