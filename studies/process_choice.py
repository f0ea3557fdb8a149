"""Measure how the choice of a process and its bound behave on runs whose law is known.

Corpora of 100 tasks with 4 attempts come from each law of `process_designs`. In each the process
is chosen among the default candidates, and the error of the chosen one is bounded. The truth is
the curve of very many runs; what the chosen process is wrong by is the error of the same kind of
process fitted to very many runs.

    python studies/process_choice.py --out docs/studies/process-choice.md
"""

from __future__ import annotations

import argparse
import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pickle  # noqa: E402
import time  # noqa: E402
from collections import Counter  # noqa: E402
from concurrent.futures import ProcessPoolExecutor  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NamedTuple  # noqa: E402

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from process_designs import CHAIN, DESIGNS, Design, concentrated  # noqa: E402

from sojourn.process.candidates import fit_candidate  # noqa: E402
from sojourn.process.choice import choose_process  # noqa: E402
from sojourn.process.incidence import aalen_johansen  # noqa: E402
from sojourn.process.process_bound import bound_process  # noqa: E402
from sojourn.sequences import SUCCESS, StateSequences  # noqa: E402

Floats = npt.NDArray[np.float64]

SEED = 20260417
N_TASKS, N_ATTEMPTS = 100, 4
N_TRUTH, N_LIMIT = 100_000, 25_000  # tasks
HORIZON = 1000  # longer than any run of a corpus
N_RESAMPLES = 199
N_CORPORA = (200, 200, 200, 200)  # by law
N_SPLITS = 10
ORDERS = ("homogeneous", "order-2", "order-3")


class Replicate(NamedTuple):
    """What one corpus gives: arrays are (success, failure)."""

    chosen: str
    best: str
    verdict: str
    upper: Floats
    low: Floats
    high: Floats
    seconds: float


class Limit(NamedTuple):
    """A law's curves, those of its fits to very many runs, and their largest errors."""

    truth: Floats
    fitted: dict[str, Floats]

    def error(self, name: str, n_steps: int) -> Floats:
        """Largest error of both curves up to a step."""
        gap = np.abs(self.fitted[name] - self.truth)[:, : n_steps + 1]
        return np.asarray(gap.max(axis=1))


def judge(keep: Path | None, job: tuple[int, int]) -> Replicate:
    """Choose a process for one corpus and bound its error, or read what was kept of it."""
    law, corpus = job
    path = None if keep is None else keep / f"{law}-{corpus}.pickle"
    if path is not None and path.exists():
        kept: Replicate = pickle.loads(path.read_bytes())
        return kept
    found = measured(law, corpus)
    if path is not None:
        path.write_bytes(pickle.dumps(found))
    return found


def measured(law: int, corpus: int) -> Replicate:
    began = time.process_time()
    rng = np.random.default_rng((SEED, law, corpus))
    runs = DESIGNS[law].draw(N_TASKS, N_ATTEMPTS, rng)
    choice = choose_process(runs, rng=rng)
    bound = bound_process(choice.process, runs, n_resamples=N_RESAMPLES, rng=rng).bound
    assert bound.success is not None
    assert bound.failure is not None
    assert bound.success_curve is not None
    assert bound.failure_curve is not None
    pair = (bound.success_curve, bound.failure_curve)
    return Replicate(
        chosen=choice.chosen,
        best=choice.best,
        verdict=str(bound.verdict),
        upper=np.array([bound.success.upper, bound.failure.upper]),
        low=np.stack([curve.low for curve in pair]),
        high=np.stack([curve.high for curve in pair]),
        seconds=time.process_time() - began,
    )


def curves(process: object) -> Floats:
    return np.stack([process.success_within(HORIZON), process.failure_within(HORIZON)])  # type: ignore[attr-defined]


def limit_of(law: int, names: tuple[str, ...]) -> Limit:
    """Draw the truth and fit the named kinds of process to very many runs."""
    design = DESIGNS[law]
    many = design.draw(N_TRUTH, N_ATTEMPTS, np.random.default_rng((SEED, law, 1_000_000)))
    found = aalen_johansen(many.lengths, many.event, horizon=HORIZON)
    part = many.select(np.arange(N_LIMIT * N_ATTEMPTS))
    fitted = {
        name: curves(fit_candidate(name, part, rng=np.random.default_rng((SEED, law))))
        for name in names
    }
    return Limit(np.stack([found.success, found.failure]), fitted)


def share(hits: npt.NDArray[np.bool_] | list[bool]) -> str:
    """Show a share with its Monte Carlo standard error (that of one miss where all agree)."""
    found = np.asarray(hits, dtype=float)
    p = float(found.mean())
    safe = min(max(p, 1.0 / found.size), 1.0 - 1.0 / found.size)
    return f"{p:.3f} ({(safe * (1 - safe) / found.size) ** 0.5:.3f})"


def inside(replicate: Replicate, target: Floats) -> npt.NDArray[np.bool_]:
    """Tell whether each band holds the whole of a curve."""
    target = target[:, : replicate.low.shape[1]]
    held = (replicate.low <= target + 1e-9) & (target <= replicate.high + 1e-9)
    return np.asarray(held.all(axis=1))


def outside(replicate: Replicate, target: Floats) -> float:
    """Return how far the curves leave their bands at most."""
    target = target[:, : replicate.low.shape[1]]
    return float(np.maximum(replicate.low - target, target - replicate.high).max(initial=0.0))


class Row(NamedTuple):
    """One law's corpora with the limits of what was chosen."""

    design: Design
    found: list[Replicate]
    limit: Limit


def replicates(
    n_corpora: tuple[int, ...], keep: Path | None, executor: ProcessPoolExecutor
) -> list[list[Replicate]]:
    """Judge the corpora of all laws in turn, so that all advance alike."""
    jobs = [(law, corpus) for law, n in enumerate(n_corpora) for corpus in range(n)]
    jobs.sort(key=lambda job: (job[1] + 0.5) / N_CORPORA[job[0]])
    done = dict(zip(jobs, executor.map(partial(judge, keep), jobs), strict=True))
    return [[done[law, corpus] for corpus in range(n)] for law, n in enumerate(n_corpora)]


def row_of(law: int, found: list[Replicate]) -> Row:
    names = {"homogeneous", *(replicate.chosen for replicate in found)}
    return Row(DESIGNS[law], found, limit_of(law, tuple(sorted(names))))


def choice_lines(rows: list[Row]) -> list[str]:
    lines = [
        "| truth | corpora | homogeneous chain off by | homogeneous kept | richer chosen "
        "| chosen |",
        "|---|---|---|---|---|---|",
    ]
    for design, found, limit in rows:
        kept = [replicate.chosen == "homogeneous" for replicate in found]
        counted = Counter(replicate.chosen for replicate in found).most_common()
        lines.append(
            f"| {design.name} | {len(found)} | {limit.error('homogeneous', HORIZON).max():.3f} | "
            f"{share(kept)} | {share([not one for one in kept])} | "
            + ", ".join(f"{name} {n}" for name, n in counted)
            + " |"
        )
    return lines


def bound_lines(rows: list[Row]) -> list[str]:
    lines = [
        "| truth | error of the chosen kind | U 50 % | U 95 % | error at most U | accepted "
        "| truth in band: success | failure | leaves it by, 95 % |",
        "|---" * 9 + "|",
    ]
    for design, found, limit in rows:
        n_steps = [replicate.low.shape[1] - 1 for replicate in found]
        errors = np.array([limit.error(r.chosen, n) for r, n in zip(found, n_steps, strict=True)])
        upper = np.stack([replicate.upper for replicate in found])
        held = np.stack([inside(replicate, limit.truth) for replicate in found])
        middle, most = np.quantile(upper.max(axis=1), [0.5, 0.95])
        lines.append(
            f"| {design.name} | {np.median(errors.max(axis=1)):.3f} | {middle:.3f} | {most:.3f} | "
            f"{share((errors <= upper).all(axis=1))} | "
            f"{share([replicate.verdict == 'accepted' for replicate in found])} | "
            f"{share(held[:, 0])} | {share(held[:, 1])} | "
            f"{np.quantile([outside(r, limit.truth) for r in found], 0.95):.3f} |"
        )
    return lines


def limit_lines(rows: list[Row]) -> list[str]:
    lines = ["| truth | kind | corpora that chose it | success | failure |", "|---" * 5 + "|"]
    for design, found, limit in rows:
        for name in sorted(limit.fitted):
            success, failure = limit.error(name, HORIZON)
            n = sum(replicate.chosen == name for replicate in found)
            lines.append(f"| {design.name} | {name} | {n} | {success:.3f} | {failure:.3f} |")
    return lines


def time_distance(law: Floats, runs: StateSequences) -> float:
    """Largest distance of a law of success times from those of the runs that succeeded."""
    times = runs.lengths[runs.event == SUCCESS]
    shares = np.searchsorted(np.sort(times), np.arange(law.size), side="right") / times.size
    return float(np.abs(law - shares).max())


def split_distances(
    runs: StateSequences, names: tuple[str, ...], split: int
) -> list[tuple[float, float]]:
    """Fit to one half of the runs; distance of success times and error of R(d) on the other."""
    rng = np.random.default_rng((SEED, 77, split))
    order = rng.permutation(runs.n_runs)
    train, test = (runs.select(np.sort(half)) for half in np.array_split(order, 2))
    longest = int(runs.lengths.max())
    truth = aalen_johansen(test.lengths, test.event, horizon=longest).success
    found = []
    for name in names:
        if name == "other half":
            curve = aalen_johansen(train.lengths, train.event, horizon=8 * longest).success
        else:
            curve = fit_candidate(name, train, rng=rng).success_within(8 * longest)
        distance = time_distance(curve / curve[-1], test)
        found.append((distance, float(np.abs(curve[: longest + 1] - truth).max())))
    return found


class Concentrated(NamedTuple):
    """What the concentrated corpus gives."""

    table: str
    chosen: str
    lines: list[str]
    distance: dict[str, tuple[float, float]]  # fitted to all runs; mean over unseen halves


def concentrated_rows(executor: ProcessPoolExecutor) -> Concentrated:
    rng = np.random.default_rng((SEED, 479))
    runs = concentrated(rng=rng)
    choice = choose_process(runs, rng=rng)
    names = (*dict.fromkeys((choice.chosen, *ORDERS)), "other half")
    jobs = executor.map(partial(split_distances, runs, names), range(N_SPLITS))
    found = np.array(list(jobs))  # (splits, names, 2)
    lines = [
        "| process | success times, fit to all | halves: mean | lowest to highest "
        "| R(d), halves: mean |",
        "|---" * 5 + "|",
    ]
    longest = int(runs.lengths.max())
    distances = {}
    for k, name in enumerate(names):
        own, inside = "-", float("nan")
        if name != "other half":
            curve = fit_candidate(name, runs, rng=np.random.default_rng(SEED)).success_within(
                8 * longest
            )
            inside = time_distance(curve / curve[-1], runs)
            own = f"{inside:.3f}"
        label = f"{name} (chosen)" if name == choice.chosen else name
        distance = found[:, k, 0]
        distances[name] = (inside, float(distance.mean()))
        lines.append(
            f"| {label} | {own} | {distance.mean():.3f} | {distance.min():.3f} to "
            f"{distance.max():.3f} | {found[:, k, 1].mean():.3f} |"
        )
    return Concentrated(str(choice), choice.chosen, lines, distances)


def matrix() -> list[str]:
    """Show the homogeneous law."""
    lines = ["| from | plan | act | check | success | failure | start |", "|---" * 7 + "|"]
    table = np.column_stack((CHAIN.transient, CHAIN.to_success, CHAIN.to_failure, CHAIN.initial))
    return lines + [
        f"| {name} | " + " | ".join(f"{value:.2f}" for value in row) + " |"
        for name, row in zip(CHAIN.state_names, table, strict=True)
    ]


def describe(rows: list[Row]) -> list[str]:
    """Say in a line each what the laws are."""
    lines = []
    for design, _, limit in rows:
        words = " ".join((design.draw.__doc__ or "").split())
        words = words.replace("`CHAIN`", "the homogeneous law")
        lines.append(f"- **{design.name}** (R_inf {limit.truth[0, -1]:.2f}): {words}")
    return lines


TEXT = """# The choice of a process, on runs whose law is known

Does `choose_process` keep the homogeneous chain where it is the truth, does it leave it where it is
wrong, and do the bound and the band of what it chose hold?

```
python studies/process_choice.py --corpora {corpora} --out docs/studies/process-choice.md
```

Seed {seed}; {n_tasks} tasks with {n_attempts} attempts a corpus, {n_resamples} resamples a bound.
They took {seconds:.0f} CPU seconds. Of the last three laws 100 corpora were drawn at first: the
rule of the bands was settled on them, and with it one aim was still missed (`--corpora 200 100 100
100` prints what they give). The other 100 were drawn because of that miss, and no rule was changed
after them; they alone are free of both. In brackets the Monte Carlo standard error of a share
(where all corpora agree, that of one that does not).

**The laws.** Three states, plan, act and check. Rows of the homogeneous law, with the
probabilities of success and failure last:

{matrix}

{laws}

The truth is the Aalen-Johansen curve of {n_truth} runs; what a kind of process is wrong by in the
limit is the error of one fitted to {n_limit} runs (phases and mixtures take 5,000 of them, as the
library does).

## What is chosen

Aim: the homogeneous chain kept in 95 % where it is true; a richer process in 90 % elsewhere.

{choice}

## Whether the bound and the band hold

*Error of the chosen kind*: median over corpora of its error in the limit, on the worse curve, up to
the corpus's longest run. *Error at most U*: on both curves; aim 95 %. *Truth in band*: the whole
true curve lies in the simultaneous 95 % band of the chosen process; aim 93 %. *Leaves it by*: 95 %
quantile over corpora of the largest distance outside the band.

{bounds}

## Errors in the limit

{limits}

## A corpus whose successes are concentrated in time

{concentrated_words}

```
{table}
```

Largest distance of the law of success times from the observed ones: of a process fitted to all
runs, and of one fitted to a random half on the other half, over {n_splits} splits; and the error of
R(d) on the other half. *Other half*: the Aalen-Johansen curve of the half that the processes were
fitted to, which shows how far chance alone goes. Aim: the chosen process under .10, orders 1 to 3
over .25.

{concentrated}
{reading}"""


def reading(rows: list[Row], found: Concentrated) -> str:
    """Say which aims were met, and by how much the others were missed."""
    lines = ["", "## Aims", ""]

    def judged(what: str, hits: npt.NDArray[np.bool_], aim: float) -> None:
        p = float(np.mean(hits))
        words = "met" if p >= aim else f"missed by {aim - p:.3f}"
        lines.append(f"- {what}: {share(hits)}, aim {aim:.2f}: {words}.")

    for design, replicates, limit in rows:
        kept = np.array([r.chosen == "homogeneous" for r in replicates])
        if design.name == "homogeneous":
            judged("homogeneous: the chain is kept", kept, 0.95)
        else:
            judged(f"{design.name}: a richer process is chosen", ~kept, 0.90)
        errors = np.array([limit.error(r.chosen, r.low.shape[1] - 1) for r in replicates])
        upper = np.stack([r.upper for r in replicates])
        judged(f"{design.name}: the error is at most U", (errors <= upper).all(axis=1), 0.95)
        held = np.stack([inside(r, limit.truth) for r in replicates])
        for k, curve in enumerate(("success", "failure")):
            judged(f"{design.name}: the {curve} curve is in the band", held[:, k], 0.93)
    seen, unseen = found.distance[found.chosen]
    by_order = min(found.distance[name][0] for name in ORDERS)
    lines.append(
        f"- concentrated success times: {found.chosen} is off by {seen:.3f}, aim under .10, "
        f"orders 1 to 3 by at least {by_order:.3f}, aim over .25: "
        + ("met." if seen < 0.10 and by_order > 0.25 else "missed.")
        + f" On unseen halves it is off by {unseen:.3f} where the other half's own curve is off by "
        f"{found.distance['other half'][1]:.3f}: what is left is chance."
    )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--corpora", type=int, nargs=4, default=N_CORPORA, help="number of corpora of each law"
    )
    parser.add_argument("--keep", type=Path, help="folder that keeps each corpus's results")
    arguments = parser.parse_args()
    n_corpora = tuple(arguments.corpora)
    if arguments.keep is not None:
        arguments.keep.mkdir(exist_ok=True)
    with ProcessPoolExecutor(arguments.workers) as executor:
        everything = replicates(n_corpora, arguments.keep, executor)
        special = concentrated_rows(executor)
    rows = [row_of(law, found) for law, found in enumerate(everything)]
    seconds = sum(replicate.seconds for row in rows for replicate in row.found)
    text = TEXT.format(
        seed=SEED,
        n_tasks=N_TASKS,
        n_attempts=N_ATTEMPTS,
        n_resamples=N_RESAMPLES,
        seconds=seconds,
        corpora=" ".join(map(str, n_corpora)),
        matrix="\n".join(matrix()),
        laws="\n".join(describe(rows)),
        n_truth=f"{N_TRUTH * N_ATTEMPTS:,}",
        n_limit=f"{N_LIMIT * N_ATTEMPTS:,}",
        choice="\n".join(choice_lines(rows)),
        bounds="\n".join(bound_lines(rows)),
        limits="\n".join(limit_lines(rows)),
        concentrated_words=" ".join((concentrated.__doc__ or "").split()),
        table=special.table,
        n_splits=N_SPLITS,
        concentrated="\n".join(special.lines),
        reading=reading(rows, special),
    )
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
