"""Ask with many shuffles whether the order of a session's tasks matters to what is inferred.

The published study reorders one session's pairs of subdomain and outcome twice and compares means
and widths. Done many times this is a permutation test: where the figure of the order as it was lies
among the figures of the shuffles is a p-value. Three ways to shuffle: all pairs; blocks of 25 pairs
kept together; outcomes within their subdomain, labels left where they are. Only the last shuffles
nothing but dependence.

    python studies/session_ordering.py --shuffles 99 --seed 20260815
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from session_designs import RATES, dependent_success, transition, write

from sojourn.session.dependence import assess_dependence
from sojourn.session.hierarchical import fit_hierarchical
from sojourn.session.hmm import HMMSpec
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.simulate import simulate_sessions
from sojourn.task_sequences import TaskSequences

WEIGHTS = np.array([0.483, 0.517])
SETTINGS = SamplerSettings(warmup=500, draws=250, max_draws=250, thin=4)
N_TASKS = (507, 543)
SCHEMES = {
    "all pairs": "all pairs of subdomain and outcome shuffled",
    "blocks": "blocks of 25 pairs shuffled",
    "outcomes": "outcomes shuffled within their subdomain",
}


class Figures(NamedTuple):
    """What one order says."""

    mean: float  # of the next task, three states
    width: float
    fit: float  # mean log likelihood with three states less the independent log evidence


def draw(stay: float | None, labels: np.ndarray, rng: np.random.Generator) -> TaskSequences:
    """Draw a session with states kept with probability `stay`, or with independent outcomes."""
    A, theta = np.ones((1, 1)), RATES[:, None]
    if stay is not None:
        A, theta = transition(stay), dependent_success()
    return simulate_sessions(
        [labels.size], transition=A, success_prob=theta, subdomain=labels, rng=rng
    ).sequences


def shuffled(data: TaskSequences, scheme: str, rng: np.random.Generator) -> TaskSequences:
    """Return the session in another order."""
    index = np.arange(data.n_tasks)
    if scheme == "outcomes":
        success = data.success.copy()
        for j in range(data.n_subdomains):
            where = np.flatnonzero(data.subdomain == j)
            success[where] = rng.permutation(success[where])
        return data.with_success(success)
    if scheme == "blocks":
        blocks = np.array_split(index, round(data.n_tasks / 25))
        index = np.concatenate([blocks[b] for b in rng.permutation(len(blocks))])
    else:
        rng.shuffle(index)
    return TaskSequences.from_sessions(
        [(data.subdomain[index], data.success[index])], list(data.subdomain_names)
    )


def figures(data: TaskSequences, rng: np.random.Generator) -> Figures:
    fit = sample(data, HMMSpec(n_states=3), weights=WEIGHTS, settings=SETTINGS, rng=rng)
    following = fit.next_task()
    alone = fit_hierarchical(data).log_evidence
    return Figures(
        following.mean, following.high - following.low, float(fit.log_likelihood.mean()) - alone
    )


def two_sided(x: float, others: np.ndarray) -> float:
    """Permutation p of a distance from the shuffles' median."""
    middle = np.median(others)
    return float((1 + np.sum(np.abs(others - middle) >= abs(x - middle))) / (1 + others.size))


def session_rows(name: str, data: TaskSequences, n: int, rng: np.random.Generator) -> list[str]:
    """Return the rows of one session: its own order, then each way to shuffle it."""
    own = figures(data, rng)
    again = np.array([figures(data, rng) for _ in range(10)])
    gate = assess_dependence(data, rng=rng)
    noise = again.std(axis=0, ddof=1)
    rows = [
        f"| {name} | as it was | {own.mean:.4f} (seeds {noise[0]:.4f}) | | {own.width:.4f} "
        f"(seeds {noise[1]:.4f}) | | {own.fit:+.1f} (seeds {noise[2]:.1f}) | exact test "
        f"{gate.p_order:.3f} |"
    ]
    for scheme, words in SCHEMES.items():
        table = np.array([figures(shuffled(data, scheme, rng), rng) for _ in range(n)])
        mean, width, fit = table.T
        p_fit = (1 + int(np.sum(fit >= own.fit))) / (1 + n)
        low, high = np.quantile(table, [0.05, 0.95], axis=0)
        rows.append(
            f"| | {words} | {np.median(mean):.4f} [{low[0]:.4f}, {high[0]:.4f}] | "
            f"{two_sided(own.mean, mean):.2f} | {np.median(width):.4f} [{low[1]:.4f}, "
            f"{high[1]:.4f}] | {two_sided(own.width, width):.2f} | {np.median(fit):+.1f} "
            f"[{low[2]:+.1f}, {high[2]:+.1f}] | {p_fit:.2f} |"
        )
    print("\n".join(rows), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffles", type=int, default=99)
    parser.add_argument("--seed", type=int, default=20260815)
    options = parser.parse_args()
    lines = [
        "| outcomes | order | next task, mean | p | width | p | fit | p |",
        "|" + "---|" * 8,
    ]
    blocks = np.repeat([0, 1], N_TASKS)
    mixed = np.random.default_rng(options.seed).permutation(blocks)
    cases = (
        ("independent, in blocks", None, blocks),
        ("states kept with .90, in blocks", 0.90, blocks),
        ("states kept with .97, in blocks", 0.97, blocks),
        ("states kept with .90, interleaved", 0.90, mixed),
    )
    for i, (name, stay, labels) in enumerate(cases):
        rng = np.random.default_rng((options.seed, i))
        lines += session_rows(name, draw(stay, labels, rng), options.shuffles, rng)
    body = PROSE.format(n=options.shuffles, rows="\n".join(lines))
    command = (
        f"python studies/session_ordering.py --shuffles {options.shuffles} --seed {options.seed}"
    )
    write("session-ordering.md", "Does the order of a session's tasks matter?", command, body)


PROSE = """\
One session of 1,050 tasks a block of rows, 507 of BoolQ's difficulty and 543 of RACE-H's, fitted
with three states; {n} shuffles of each kind, median [5 %, 95 %]. *Seeds*: standard deviation over
ten refits of the same order. *Fit*: posterior mean of the log likelihood with three states, less
the log evidence of independence; it grows with what the states explain. p: of the order as it was
among the shuffles, two-sided from the median for mean and width, one-sided for the fit; *exact
test*: p of the test that gates the choice of states, which needs no fit.

{rows}

With nothing to find (independent outcomes), shuffles move the mean by up to .02 and the width by
.03: the published changes (.004, .014) are within that. With dependence, shuffling it away brings
the mean back to that of independent tasks, takes away nearly all of the fit and, in the two
sessions in blocks, narrows the interval (the published full shuffle widened it). The fit under
outcomes shuffled within their subdomain is the permutation test that the question asks for, and it
agrees with the exact test, which costs no fits. Blocks of 25 tasks keep most of the dependence
inside them, so that their p says little, and a single shuffle of either kind, as published, says
nothing."""


if __name__ == "__main__":
    main()
