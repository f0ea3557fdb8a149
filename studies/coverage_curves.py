"""Measure how often the bands of R(d) hold the truth.

Corpora of tasks with 4 attempts each are simulated from a law whose curves are known; each is
fitted twice, once with tasks as units of resampling, as the library does, and once with runs as
units, as if attempts at a task were unrelated. The table is the share of corpora whose band holds
the true curve.

    python studies/coverage_curves.py --out docs/studies/coverage-curves.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sojourn.process.incidence import Incidence, fit_incidence
from sojourn.sequences import CENSORED, FAILURE, SUCCESS

Floats = npt.NDArray[np.float64]

LIMIT = 25
ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Tasks differ in their odds of success and in their pace, both on the logit scale.

    At step d a run of a task with effects (a, b) ends with probability logistic(pace(d) + b), and
    then in success with probability logistic(odds + a). `cut` is the chance a step that a run is
    cut for another reason than the limit of 25 steps.
    """

    odds: float = 0.4
    spread: float = 1.5
    pace_spread: float = 0.5
    cut: float = 0.0

    def hazard(self, effect: Floats) -> Floats:
        """Return the chance to end at steps 1 .. LIMIT, shape (n_effects, LIMIT)."""
        steps = np.arange(1, LIMIT + 1)
        pace = -3.2 + 2.0 * steps / (steps + 4.0)
        return np.asarray(1 / (1 + np.exp(-(pace + effect[:, None]))))

    def simulate(self, n_tasks: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.int64]]:
        """Draw a corpus: duration, event and unit of each run."""
        n = n_tasks * ATTEMPTS
        a = np.repeat(rng.normal(0, self.spread, n_tasks), ATTEMPTS)
        b = np.repeat(rng.normal(0, self.pace_spread, n_tasks), ATTEMPTS)
        ends = rng.random((n, LIMIT)) < self.hazard(b)
        end = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, LIMIT + 1)
        cut = rng.geometric(self.cut, n) if self.cut > 0 else np.full(n, LIMIT)
        cut = np.minimum(cut, LIMIT)
        won = rng.random(n) < 1 / (1 + np.exp(-(self.odds + a)))
        return {
            "duration": np.minimum(end, cut),
            "event": np.where(end > cut, CENSORED, np.where(won, SUCCESS, FAILURE)),
            "unit": np.repeat(np.arange(n_tasks), ATTEMPTS),
        }

    def truth(self) -> tuple[Floats, Floats]:
        """Return P(success within d) and P(still running after d), d = 0 .. LIMIT."""
        x, w = np.polynomial.hermite_e.hermegauss(60)
        w = w / w.sum()
        win = float(w @ (1 / (1 + np.exp(-(self.odds + self.spread * x)))))
        going = np.cumprod(1 - self.hazard(self.pace_spread * x), axis=1)
        running = np.append(1.0, w @ going)
        return win * (1 - running), running


def holds(fit: Incidence, world: World) -> dict[str, float]:
    """Return which bands and intervals of one fit hold the truth; pointwise, the share of steps."""
    success, running = world.truth()
    success = success[: fit.horizon + 1]
    inside = (fit.success.low <= success) & (success <= fit.success.high)
    band = fit.simultaneous.success
    wide = (success > 0.1) & (success < 0.9)
    sure = wide & (np.arange(success.size) <= fit.supported_to)
    mean, median = fit.restricted_mean, fit.median
    true_mean = float(running[: fit.horizon].sum())
    true_median = int(np.flatnonzero(running <= 0.5)[0])
    found = {
        "pointwise": float(inside[wide].mean()),
        "pointwise, supported": float(inside[sure].mean()) if sure.any() else np.nan,
        "simultaneous": float(np.all((band.low <= success) & (success <= band.high))),
        "half-width": fit.simultaneous.success_half_width,
    }
    for name, estimate, true in (("mean", mean, true_mean), ("median", median, true_median)):
        interval = estimate.interval
        found[name] = np.nan if interval is None else float(interval.low <= true <= interval.high)
    return found


def one_chunk(
    world: World, n_tasks: int, n_corpora: int, n_resamples: int, seed: np.random.SeedSequence
) -> list[tuple[dict[str, float], dict[str, float], float]]:
    """Fit `n_corpora` corpora by task and by run."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_corpora):
        runs = world.simulate(n_tasks, rng)
        by_task = fit_incidence(**runs, rng=rng, n_resamples=n_resamples)
        by_run = fit_incidence(
            runs["duration"],
            runs["event"],
            np.arange(runs["unit"].size),
            rng=rng,
            n_resamples=n_resamples,
        )
        rows.append(
            (holds(by_task, world), holds(by_run, world), by_task.n_censored / by_task.n_runs)
        )
    return rows


CUTS = {"limit only": 0.0, "light": 0.012, "heavy": 0.048}
COLUMNS = ("pointwise", "pointwise, supported", "simultaneous", "half-width", "mean", "median")


def table(
    tasks: list[int], n_corpora: int, n_resamples: int, seed: int, workers: int
) -> Iterator[str]:
    """Yield the lines of the table, one cell of the design after the other."""
    yield (
        "| tasks x 4 | cut | pointwise | supported steps | simultaneous | half-width | mean steps "
        "| median steps | by run: pointwise | by run: simultaneous |"
    )
    yield "|---" * 10 + "|"
    chunks = 20
    streams = iter(np.random.SeedSequence(seed).spawn(len(CUTS) * len(tasks) * chunks))
    with ProcessPoolExecutor(workers) as pool:
        for cut in CUTS.values():
            for n_tasks in tasks:
                jobs = [
                    pool.submit(
                        one_chunk,
                        World(cut=cut),
                        n_tasks,
                        n_corpora // chunks,
                        n_resamples,
                        next(streams),
                    )
                    for _ in range(chunks)
                ]
                rows = [row for job in jobs for row in job.result()]
                by_task, by_run = (
                    {c: float(np.nanmean([row[i][c] for row in rows])) for c in COLUMNS}
                    for i in (0, 1)
                )
                share = np.mean([row[2] for row in rows])
                figures = [f"{by_task[c]:.3f}" for c in COLUMNS]
                figures += [f"{by_run[c]:.3f}" for c in ("pointwise", "simultaneous")]
                yield f"| {n_tasks} | {share:.0%} | " + " | ".join(figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=399)
    parser.add_argument("--seed", type=int, default=20260417)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()
    lines = []
    for line in table(
        options.tasks, options.corpora, options.resamples, options.seed, options.workers
    ):
        print(line, flush=True)
        lines.append(line)
    print(f"{time.perf_counter() - started:.0f} s")
    if options.out is not None:
        text = options.out.read_text(encoding="utf-8") if options.out.exists() else TEMPLATE
        head, _, rest = text.partition("<!-- table -->\n")
        _, _, tail = rest.partition("<!-- end of table -->\n")
        block = "\n".join(lines)
        options.out.write_text(
            f"{head}<!-- table -->\n{block}\n<!-- end of table -->\n{tail}", encoding="utf-8"
        )


TEMPLATE = """# Coverage of the curves

<!-- table -->
<!-- end of table -->
"""

if __name__ == "__main__":
    main()
