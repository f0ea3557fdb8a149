"""Measure how often intervals of next-task and long-run reliability cover the truth.

Sessions of 1,000 tasks from three states (stay .90), two subdomains, in blocks or interleaved. The
truth for the next task is what the filter says at the true parameters; for the long run, the
stationary success rate. Compared: the three-state model, the independent hierarchical model, and
whichever of the two the gate of `select_n_states` would report.
"""

from __future__ import annotations

import argparse

import numpy as np
from session_designs import (
    average,
    dependent,
    dependent_success,
    independent,
    share,
    transition,
    write,
)

from sojourn.session import reliability
from sojourn.session.dependence import assess_dependence
from sojourn.session.hierarchical import fit_hierarchical
from sojourn.session.hmm import HMMSpec, filter_states
from sojourn.session.sampler import SamplerSettings, sample

SETTINGS = SamplerSettings(warmup=500, draws=1500, max_draws=3000)
WEIGHTS = np.array([0.483, 0.517])


def replicate(order: str, rng: np.random.Generator, n_tasks: int) -> dict[str, float]:
    data = dependent(n_tasks, order, rng).sequences
    A, theta = transition(), dependent_success()
    at_truth = filter_states(data, transition=A, success_prob=theta, initial=np.full(3, 1 / 3))
    truth = float(at_truth.next_state[0] @ (WEIGHTS @ theta))
    long_run = float(reliability.long_run_rate(A, theta, WEIGHTS))
    gate = assess_dependence(data, n_draws=999, rng=rng).order_matters()
    fit = sample(data, HMMSpec(n_states=3), weights=WEIGHTS, settings=SETTINGS, rng=rng)
    hmm_next, hmm_long = fit.next_task(), fit.next_task(start="long_run")
    hip = fit_hierarchical(data, weights=WEIGHTS).next_task()
    chosen = hmm_long if gate else hip
    return {
        "converged": fit.converged,
        "gate": gate,
        "hmm_next": hmm_next.low <= truth <= hmm_next.high,
        "hip_next": hip.low <= truth <= hip.high,
        "hmm_long": hmm_long.low <= long_run <= hmm_long.high,
        "hip_long": hip.low <= long_run <= hip.high,
        "chosen_long": chosen.low <= long_run <= chosen.high,
        "hmm_width": hmm_next.high - hmm_next.low,
        "hip_width": hip.high - hip.low,
        "hmm_error": hmm_next.mean - truth,
        "hip_error": hip.mean - truth,
    }


def null_replicate(order: str, rng: np.random.Generator, n_tasks: int) -> dict[str, float]:
    data = independent(n_tasks, order, rng).sequences
    gate = assess_dependence(data, n_draws=999, rng=rng).order_matters()
    hip = fit_hierarchical(data, weights=WEIGHTS).next_task()
    width = hip.high - hip.low
    if gate:
        fit = sample(data, HMMSpec(n_states=3), weights=WEIGHTS, settings=SETTINGS, rng=rng)
        shown = fit.next_task()
        return {"kept": False, "ratio": (shown.high - shown.low) / width}
    return {"kept": True, "ratio": 1.0}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    lines = [
        "| order | model | next task covered | long run covered | mean width | mean error |",
        "|---|---|---|---|---|---|",
    ]
    notes = []
    for order in ("blocks", "interleaved"):
        children = np.random.default_rng(options.seed).spawn(options.replicates)
        rows = [replicate(order, child, options.tasks) for child in children]
        column = {k: [r[k] for r in rows] for k in rows[0]}
        for model, name in (("hmm", "three states"), ("hip", "independent")):
            lines.append(
                f"| {order} | {name} | {share(column[model + '_next'])} | "
                f"{share(column[model + '_long'])} | {average(column[model + '_width'])} | "
                f"{average(column[model + '_error'])} |"
            )
        lines.append(f"| {order} | after the gate | | {share(column['chosen_long'])} | | |")
        notes.append(
            f"In {order}: dependence found in {share(column['gate'])}; "
            f"chains settled in {share(column['converged'])}."
        )
    null = [
        "| order | one state kept | mean width over the independent model's |",
        "|---|---|---|",
    ]
    for order in ("blocks", "interleaved"):
        children = np.random.default_rng(options.seed + 1).spawn(options.replicates)
        rows = [null_replicate(order, child, options.tasks) for child in children]
        kept, ratio = [r["kept"] for r in rows], [r["ratio"] for r in rows]
        null.append(f"| {order} | {share(kept)} | {average(ratio)} |")
    body = (
        f"{options.replicates} sessions of {options.tasks} tasks a row, 95 % intervals.\n\n"
        + "## Outcomes that depend\n\n"
        + "\n".join(lines)
        + "\n\n"
        + " ".join(notes)
        + "\n\n## Independent outcomes\n\n"
        + "\n".join(null)
    )
    command = (
        f"python studies/session_coverage.py --replicates {options.replicates} "
        f"--tasks {options.tasks} --seed {options.seed}"
    )
    write(
        "session-coverage.md", "Coverage under dependence, and restraint without it", command, body
    )


if __name__ == "__main__":
    main()
