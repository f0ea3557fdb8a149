"""Measure how often the intervals of rates, pass^k and pass@k hold the truth.

Run: ``python studies/coverage_attempts.py`` (a few minutes on two cores). It writes
``docs/studies/coverage-attempts.md``.

Corpora of 5, 10, 20 and 50 tasks with 4 attempts each, task success probabilities drawn from laws
of several means and spreads. What an interval depends on is only how many tasks have 0, 1, .. 4
successes. Up to 20 tasks there are at most 10,626 such histograms: all are enumerated, and the
coverage of the population intervals is a sum of probabilities, without Monte Carlo error. With 50
tasks, and for the intervals that refer to the same tasks, corpora are drawn.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sojourn import attempts
from sojourn.attempts import TaskCounts
from sojourn.estimates import Estimate

N = 4
KS = (1, 2, 3, 4)
EXACT_UP_TO = 20
ALLOWANCE = 2000  # exact cells get the Monte Carlo error of that many draws as allowance
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Law:
    """A law of task success probabilities: a beta law, or two classes of tasks."""

    name: str
    mean: float = 0.0
    icc: float = 0.0
    classes: tuple[float, float, float] | None = None  # p of either class, share of the first

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw success probabilities of tasks."""
        if self.classes is not None:
            first, second, share = self.classes
            return np.where(rng.random(shape) < share, first, second)
        if self.icc == 0:
            return np.full(shape, self.mean)
        size = 1 / self.icc - 1
        return rng.beta(self.mean * size, (1 - self.mean) * size, shape)

    def histogram_law(self) -> FloatArray:
        """Return P(c successes in N attempts at a new task)."""
        if self.classes is not None:
            first, second, share = self.classes
            return share * _beta_binomial(first, 0.0) + (1 - share) * _beta_binomial(second, 0.0)
        return _beta_binomial(self.mean, self.icc)


def _beta_binomial(mean: float, icc: float) -> FloatArray:
    def rising(p: float, n: int) -> float:
        return math.prod(p * (1 - icc) + i * icc for i in range(n))

    return np.array(
        [math.comb(N, c) * rising(mean, c) * rising(1 - mean, N - c) for c in range(N + 1)]
    ) / rising(1.0, N)


LAWS = (
    *(
        Law(f"mean {mean}, ICC {icc}", mean=mean, icc=icc)
        for mean in (0.05, 0.1, 0.3, 0.5)
        for icc in (0.0, 0.1, 0.4, 0.8)
    ),
    Law("half at .1, half at .9", classes=(0.1, 0.9, 0.5)),
    Law("7 in 10 at .02, others at .7", classes=(0.02, 0.7, 0.7)),
    Law("6 in 10 at .3, others at 1", classes=(0.3, 1.0, 0.6)),
)
VALUES = {k: np.array([math.comb(c, k) / math.comb(N, k) for c in range(N + 1)]) for k in KS}


def counts_of(histogram: Iterable[int]) -> TaskCounts:
    successes = np.repeat(np.arange(N + 1), list(histogram))
    n_tasks = successes.size
    return TaskCounts(successes=successes, attempts=np.full(n_tasks, N), unit=np.arange(n_tasks))


def all_histograms(n_tasks: int) -> IntArray:
    bars = np.array(list(itertools.combinations(range(n_tasks + N), N)))
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n_tasks + N)])
    return np.diff(edges, axis=1) - 1


def intervals_of(histogram: IntArray, *, seed: int, compare: bool) -> FloatArray:
    """Bounds from the public functions, shape (rows, k, 2).

    Rows: naive, same_tasks, the default and, to compare, each other method.
    """
    counts = counts_of(histogram.tolist())
    default = attempts.pass_hats(counts, KS)
    rows = [
        bounds_of([attempts.naive_rate(counts)] * len(KS)),
        bounds_of(attempts.pass_hats(counts, KS, estimand="same_tasks")),
        bounds_of(default),
    ]
    if compare:
        rng = np.random.default_rng([seed, *histogram.tolist()])
        wilson = bounds_of(attempts.pass_hats(counts, KS, method="wilson_effective"))
        if all(e.interval.kind == "wilson_beta_binomial" for e in default):
            modelled = 2 * rows[2] - wilson  # the default is their mean: saves a second fit
        else:
            modelled = bounds_of(attempts.pass_hats(counts, KS, method="beta_binomial"))
        resampled = attempts.pass_hats(counts, KS, method="bootstrap", rng=rng)
        rows += [wilson, modelled, bounds_of(resampled)]
    return np.array(rows)


def bounds_of(estimates: Iterable[Estimate]) -> FloatArray:
    return np.array([(e.interval.low, e.interval.high) for e in estimates])


def evaluate(histograms: IntArray, seed: int, compare: bool, pool: Executor) -> FloatArray:
    work = partial(intervals_of, seed=seed, compare=compare)
    return np.stack(list(pool.map(work, histograms, chunksize=64)))


def covers(bounds: FloatArray, truth: FloatArray | float) -> npt.NDArray[np.bool_]:
    return (bounds[..., 0] <= truth + 1e-12) & (truth - 1e-12 <= bounds[..., 1])


@dataclass(frozen=True)
class Cell:
    """Coverage of one interval under one law, its Monte Carlo error (or allowance), mean width."""

    coverage: float
    error: float
    width: float

    def inside(self) -> bool:
        """Within three Monte Carlo errors of 93 to 97 %."""
        return 0.93 - 3 * self.error <= self.coverage <= 0.97 + 3 * self.error

    def __str__(self) -> str:
        mark = "" if self.inside() else ("-" if self.coverage < 0.95 else "+")
        return f"{self.coverage:.3f}{mark}"


def cell(held: FloatArray, width: FloatArray, weight: FloatArray, n_drawn: int | None) -> Cell:
    coverage = float(weight @ held)
    error = math.sqrt(max(coverage * (1 - coverage), 1e-4) / (n_drawn or ALLOWANCE))
    return Cell(coverage, error, float(weight @ width))


def population_cells(
    law: Law,
    table: dict[bytes, int],
    histograms: IntArray,
    bounds: FloatArray,
    sample: IntArray | None,
) -> dict[tuple[str, int, int], Cell]:
    """Cells by (quantity, k, row of `bounds`), exact when no sample of histograms is given."""
    shares = law.histogram_law()
    cells = {}
    for quantity in ("pass_hat", "pass_at"):
        mirrored = quantity == "pass_at"
        faced = shares[::-1] if mirrored else shares
        if sample is None:
            seen, n_drawn = histograms, None
            weight = _multinomial(histograms, faced)
            index = np.arange(len(histograms))
        else:
            seen = sample[:, ::-1] if mirrored else sample
            n_drawn = len(sample)
            weight = np.full(n_drawn, 1 / n_drawn)
            index = np.array([table[row.tobytes()] for row in np.ascontiguousarray(seen)])
        for k, (position, row) in itertools.product(KS, enumerate(range(bounds.shape[1]))):
            if row == 1:
                continue  # same_tasks has another truth
            limits = bounds[index, row, k - 1]
            held = covers(limits, float(faced @ VALUES[k])).astype(float)
            cells[quantity, k, position] = cell(held, limits[:, 1] - limits[:, 0], weight, n_drawn)
    return cells


def _multinomial(histograms: IntArray, shares: FloatArray) -> FloatArray:
    from scipy.special import gammaln, xlogy

    log = gammaln(histograms.sum(axis=1) + 1) - gammaln(histograms + 1).sum(axis=1)
    return np.exp(log + xlogy(histograms, shares).sum(axis=1))


def draw_corpora(
    law: Law, n_tasks: int, n_drawn: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Task probabilities (n_drawn, n_tasks) and histograms (n_drawn, N + 1)."""
    p = law.draw((n_drawn, n_tasks), rng)
    successes = rng.binomial(N, p)
    return p, np.stack([(successes == c).sum(axis=1) for c in range(N + 1)], axis=1)


def same_task_cells(
    p: FloatArray, index: IntArray, mirrored: IntArray, bounds: FloatArray
) -> dict[tuple[str, int], Cell]:
    cells = {}
    weight = np.full(len(p), 1 / len(p))
    for k in KS:
        for quantity, truth, where in (
            ("pass_hat", (p**k).mean(axis=1), index),
            ("pass_at", ((1 - p) ** k).mean(axis=1), mirrored),
        ):
            limits = bounds[where, 1, k - 1]
            held = covers(limits, truth).astype(float)
            cells[quantity, k] = cell(held, limits[:, 1] - limits[:, 0], weight, len(p))
    return cells


def study_size(
    n_tasks: int, n_drawn: int, seed: int, pool: Executor
) -> tuple[list[dict[tuple[str, int, int], Cell]], list[dict[tuple[str, int], Cell]], int]:
    """All cells of one number of tasks: population cells and same-task cells, one dict a law."""
    exact = n_tasks <= EXACT_UP_TO
    rng = np.random.default_rng([seed, n_tasks])
    drawn = [draw_corpora(law, n_tasks, n_drawn, rng) for law in LAWS]
    if exact:
        histograms = all_histograms(n_tasks)
    else:
        seen = np.concatenate([h for _, h in drawn])
        histograms = np.unique(np.concatenate([seen, seen[:, ::-1]]), axis=0)
    bounds = evaluate(histograms, seed, exact, pool)
    table = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(histograms))}

    def find(rows: IntArray) -> IntArray:
        return np.array([table[row.tobytes()] for row in np.ascontiguousarray(rows)])

    population = [
        population_cells(law, table, histograms, bounds, None if exact else h)
        for law, (_, h) in zip(LAWS, drawn, strict=True)
    ]
    same = [same_task_cells(p, find(h), find(h[:, ::-1]), bounds) for p, h in drawn]
    return population, same, len(histograms)


def clustered_cells(n_drawn: int, seed: int) -> list[tuple[str, list[Cell]]]:
    """Corpora beyond the grid: clusters of tasks, and unequal numbers of attempts."""
    rng = np.random.default_rng([seed, 1])
    rows = []
    for name, n_units, per_unit, icc in (("20 clusters of 3 tasks, 4 attempts", 20, 3, 0.3),):
        size = 1 / icc - 1
        p_unit = rng.beta(0.4 * size, 0.6 * size, (n_drawn, n_units))
        p = np.repeat(p_unit, per_unit, axis=1)
        c = rng.binomial(N, p)
        unit = np.repeat(np.arange(n_units), per_unit)
        truth = [_moment(0.4, icc, k) for k in KS]
        rows.append((name, _direct(c, np.full(c.shape, N), unit, truth)))
    n = rng.integers(2, 9, (n_drawn, 40))
    size = 1 / 0.4 - 1
    c = rng.binomial(n, rng.beta(0.4 * size, 0.6 * size, n.shape))
    truth = [_moment(0.4, 0.4, k) for k in KS]
    rows.append(("40 tasks, 2 to 8 attempts", _direct(c, n, np.arange(40), truth)))
    return rows


def _moment(mean: float, icc: float, k: int) -> float:
    return math.prod((mean * (1 - icc) + i * icc) / (1 - icc + i * icc) for i in range(k))


def _direct(c: IntArray, n: IntArray, unit: IntArray, truth: list[float]) -> list[Cell]:
    """Cells of the naive rate, the rate and pass^2..4, by the public functions on each corpus."""
    held, width = [], []
    for successes, tried in zip(c, n, strict=True):
        counts = TaskCounts(successes=successes, attempts=tried, unit=unit)
        estimates = [
            attempts.naive_rate(counts),
            attempts.success_rate(counts),
            *attempts.pass_hats(counts, KS[1:]),
        ]
        limits = np.array([(e.interval.low, e.interval.high) for e in estimates])
        held.append(covers(limits, np.array([truth[0], *truth])))
        width.append(limits[:, 1] - limits[:, 0])
    weight = np.full(len(c), 1 / len(c))
    return [
        cell(np.array(held)[:, i].astype(float), np.array(width)[:, i], weight, len(c))
        for i in range(5)
    ]


def informative(law: Law, n_tasks: int, quantity: str, k: int) -> float:
    """Return the expected number of tasks on the thinner side: value above 0, or below 1."""
    shares = law.histogram_law()
    faced = shares[::-1] if quantity == "pass_at" else shares
    values = VALUES[k]
    return n_tasks * float(min(faced[values > 0].sum(), faced[values < 1].sum()))


READING = (
    "The naive interval falls short wherever tasks differ. The percentile bootstrap falls "
    "short of 93 % in most thin cells, and gives [0, 0] where no task counts. Wilson at the "
    "effective size and the beta-binomial posterior err on opposite sides where few tasks "
    "count, and the second where the law is no beta law; the default, their mean there and "
    "Wilson elsewhere, has no cell below. What remains outside is above: pass^k so rare that "
    "most corpora show none or one, and corpora of 5 or 10 tasks.",
    "",
    "`same_tasks` is careful rather than sharp: it covers too much where every task nearly "
    "always ends alike (it imagines one that did not), and it can fall short where the "
    "expected number of tasks that count is well under one, since a single such task then "
    "excludes the truth.",
    "",
)
COLUMNS = (
    *(("pass_hat", k) for k in (2, 3, 4)),
    *(("pass_at", k) for k in (2, 3, 4)),
)


def markdown(text: list[str], header: list[str], rows: list[list[str]]) -> None:
    text.append("| " + " | ".join(header) + " |")
    text.append("|" + "---|" * len(header))
    text += ["| " + " | ".join(row) + " |" for row in rows]
    text.append("")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=20260417)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 10, 20, 50])
    parser.add_argument("--workers", type=int, default=2)
    default = Path(__file__).resolve().parent.parent / "docs/studies/coverage-attempts.md"
    parser.add_argument("--output", type=Path, default=default)
    args = parser.parse_args()

    started = time.perf_counter()
    results = {}
    with ProcessPoolExecutor(args.workers) as pool:
        for n_tasks in args.sizes:
            results[n_tasks] = study_size(n_tasks, args.draws, args.seed, pool)
            print(f"{n_tasks} tasks: {time.perf_counter() - started:.0f} s", flush=True)
    others = clustered_cells(args.draws, args.seed)
    text = report(results, others, args.seed, args.draws)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("\n".join(text), encoding="utf-8")


def report(results, others, seed: int, n_drawn: int) -> list[str]:
    text = [
        "# Coverage of the intervals for rates, pass^k and pass@k",
        "",
        f"Made by `python studies/coverage_attempts.py --seed {seed} --draws {n_drawn}`.",
        "",
        "Nominal 95 %. Corpora of 4 attempts a task; task success probabilities from a beta law "
        "(mean, intraclass correlation) or from two classes. Means above .5 are covered by "
        "symmetry: pass@k under mean m is pass^k under 1 - m. For up to "
        f"{EXACT_UP_TO} tasks the population columns are exact sums over all histograms of "
        f"successes per task; for 50 tasks, and for `same_tasks`, {n_drawn} corpora a law were "
        "drawn. `-` and `+` mark cells below 93 % or above 97 % by more than three Monte Carlo "
        f"errors; exact cells get the same allowance, that of {ALLOWANCE:,} draws. *Thin* is the "
        "number of tasks expected to have a pass^4 above 0, the rarest event in the row: where it "
        "is under about 3 the estimate takes few values, and the coverage of any interval is a "
        "sum of a few large probabilities.",
        "",
        "Population: the truth is the expectation over the law. Same tasks: the truth is the mean "
        "over the tasks of p^k, drawn anew for each corpus.",
        "",
    ]
    summary_rows = []
    for n_tasks, (population, same, n_hist) in results.items():
        exact = n_tasks <= EXACT_UP_TO
        text += [f"## {n_tasks} tasks x {N} attempts", ""]
        text += [
            f"Population, {'exact' if exact else 'drawn'} ({n_hist:,} histograms evaluated).",
            "",
        ]
        header = ["law", "thin", "naive rate", "rate"]
        header += [f"pass^{k}" if q == "pass_hat" else f"pass@{k}" for q, k in COLUMNS]
        rows = []
        for law, cells in zip(LAWS, population, strict=True):
            row = [law.name, f"{informative(law, n_tasks, 'pass_hat', 4):.1f}"]
            row += [str(cells["pass_hat", 1, 0]), str(cells["pass_hat", 1, 2])]
            row += [str(cells[q, k, 2]) for q, k in COLUMNS]
            rows.append(row)
        markdown(text, header, rows)
        text += ["Same tasks run again, drawn.", ""]
        header = ["law", "rate"]
        header += [f"pass^{k}" if q == "pass_hat" else f"pass@{k}" for q, k in COLUMNS]
        rows = [
            [law.name, str(cells["pass_hat", 1]), *(str(cells[q, k]) for q, k in COLUMNS)]
            for law, cells in zip(LAWS, same, strict=True)
        ]
        markdown(text, header, rows)
        summary_rows += summary(n_tasks, population, same)
    head = text.index(f"## {next(iter(results))} tasks x {N} attempts")
    lead: list[str] = ["## Summary", ""]
    lead += [
        "Cells: law x quantity (rate, pass^2..4, pass@2..4); *thick* cells expect at least 3 tasks "
        "on the thinner side. *In* counts those within three Monte Carlo errors of 93-97 %.",
        "",
    ]
    markdown(
        lead,
        [
            "tasks",
            "interval",
            "thick: in",
            "below",
            "above",
            "lowest",
            "all: in",
            "below",
            "above",
            "lowest",
            "mean width",
        ],
        summary_rows,
    )
    lead += READING
    text[head:head] = lead
    text += ["## Clusters and unequal attempts", "", f"{n_drawn} corpora each, drawn.", ""]
    markdown(
        text,
        ["corpora", "naive rate", "rate", "pass^2", "pass^3", "pass^4"],
        [[name, *(str(c) for c in cells)] for name, cells in others],
    )
    return text


def summary(n_tasks, population, same) -> list[list[str]]:
    """One row an interval: how many cells are inside the target, over all laws and quantities."""
    columns = [("pass_hat", 1), *COLUMNS]
    available = {row for _, _, row in population[0]}
    names = {
        0: "naive (rate only)",
        2: "**default**",
        3: "Wilson, effective size",
        4: "beta-binomial posterior",
        5: "percentile bootstrap",
    }
    groups = []
    for row, name in names.items():
        if row in available:
            used = columns[:1] if row == 0 else columns
            groups.append(
                (
                    name,
                    [
                        (cells[q, k, row], informative(law, n_tasks, q, k))
                        for law, cells in zip(LAWS, population, strict=True)
                        for q, k in used
                    ],
                )
            )
    groups.append(
        (
            "same_tasks",
            [
                (cells[q, k], informative(law, n_tasks, q, k))
                for law, cells in zip(LAWS, same, strict=True)
                for q, k in columns
            ],
        )
    )
    rows = []
    for name, pairs in groups:
        row = [str(n_tasks), name]
        for chosen in ([c for c, thick in pairs if thick >= 3], [c for c, _ in pairs]):
            below = sum(not c.inside() and c.coverage < 0.95 for c in chosen)
            above = sum(not c.inside() and c.coverage > 0.95 for c in chosen)
            lowest = f"{min(c.coverage for c in chosen):.3f}" if chosen else "-"
            row += [
                f"{len(chosen) - below - above} of {len(chosen)}",
                str(below),
                str(above),
                lowest,
            ]
        rows.append([*row, f"{np.mean([c.width for c, _ in pairs]):.3f}"])
    return rows


if __name__ == "__main__":
    main()
