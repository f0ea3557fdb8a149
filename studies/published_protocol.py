"""Repeat the published held-out experiment on seven synthetic chains, many times.

The published study draws 400 runs once from each of seven typed chains, fits on half of them and
reports distances on the other half. Here the whole protocol is repeated over many seeds, so that
each published figure can be seen in the law it was drawn from; beside it stands what the exact
certificate finds on the same runs.

    python studies/published_protocol.py --out docs/studies/published-protocol.md
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.assess.certify import certificate_under_way
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.exact import test_exact
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.published import certify_published
from sojourn.process.simulate import noisy_one_hot, preset, simulate_runs
from sojourn.sequences import CENSORED, SUCCESS, StateSequences
from sojourn.states.cluster import cut_tree, mean_silhouettes, ward_linkage

SEED = 20260417
N_RUNS = 400
HORIZON = 50
N_DRAWS = 199
N_RESAMPLES = 399
Floats = npt.NDArray[np.float64]


class Published(NamedTuple):
    """One row of the published table; the facts, typed."""

    m: int
    ks: float
    p: float
    curve_error: float
    ended: int


PUBLISHED = {
    "react": Published(5, 0.020, 1.000, 0.0476, 194),
    "reflexion": Published(5, 0.033, 0.984, 0.0525, 197),
    "cot_agent": Published(5, 0.023, 1.000, 0.0184, 197),
    "toolformer": Published(5, 0.030, 0.994, 0.0523, 198),
    "babyagi": Published(6, 0.045, 0.827, 0.0535, 198),
    "autogpt": Published(6, 0.036, 0.960, 0.0387, 196),
    "agentbench": Published(5, 0.030, 0.995, 0.0212, 195),
}


class Found(NamedTuple):
    """What one repetition gives for one chain; all numbers, so that they stack."""

    m: float
    true_labels: float
    ended: float
    ks: float
    p: float
    curve_error: float
    true_chain_error: float
    fit_error: float
    smoothed_bias: float
    unsmoothed_bias: float
    ks_accepts: float
    aic_accepts: float
    accepts: float
    success_p: float
    exact_order: float
    exact_timing: float
    within_order: float
    order_rejected: float
    timing_accepted: float
    timing_rejected: float
    upper: float
    lower: float


def censor_as_published(
    runs: StateSequences, probability: float, rng: np.random.Generator
) -> StateSequences:
    """Stop a run, with the given probability, at a step uniform in 2 .. 9, its end there unseen.

    A run that would end right after that very step is stopped too, so that the cut tells nothing
    of what follows.
    """
    at = rng.integers(2, 9, size=runs.n_runs, endpoint=True)
    cut = (rng.random(runs.n_runs) < probability) & (runs.lengths >= at)
    lengths = np.where(cut, at, runs.lengths)
    step = np.arange(runs.states.size)
    kept = step < np.repeat(runs.offsets[:-1] + lengths, runs.lengths)
    return StateSequences(
        states=runs.states[kept],
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        event=np.where(cut, CENSORED, runs.event),
        task=runs.task,
        unit=runs.unit,
        state_names=runs.state_names,
    )


def relabel(runs: StateSequences, states: npt.NDArray[np.intp], m: int) -> StateSequences:
    return StateSequences(
        states=states,
        offsets=runs.offsets,
        event=runs.event,
        task=runs.task,
        unit=runs.unit,
        state_names=tuple(f"cluster {k + 1}" for k in range(m)),
    )


class Clusters(NamedTuple):
    """Clusters of the fit half: a label a step, and the means."""

    labels: npt.NDArray[np.intp]
    centroids: Floats


def cluster(points: Floats) -> Clusters:
    """Ward's tree cut where the mean silhouette is largest among 3 .. 6 clusters."""
    tree = ward_linkage(points)
    sizes = np.arange(3, 7)
    best = int(sizes[np.argmax(mean_silhouettes(points, tree, sizes))])
    labels = cut_tree(tree, best)
    member = np.eye(best)[labels]
    return Clusters(labels, member.T @ points / member.sum(axis=0)[:, None])


def nearest(points: Floats, centroids: Floats) -> npt.NDArray[np.intp]:
    # |x - c|^2 without the term that is the same for all centroids.
    return np.argmin((centroids**2).sum(axis=1) - 2.0 * points @ centroids.T, axis=1)


def same_partition(labels: npt.NDArray[np.intp], states: npt.NDArray[np.int32]) -> bool:
    pairs = np.unique(np.column_stack((labels, states)), axis=0)
    return pairs.shape[0] == np.unique(labels).size == np.unique(states).size


def chain_error(chain: AbsorbingChain, test: StateSequences) -> float:
    """Distance of the true R(d) from the test runs' curve: what a perfect fit would score."""
    times = np.sort(test.lengths[test.event == SUCCESS])
    shares = np.searchsorted(times, np.arange(1, HORIZON + 1), side="right") / test.n_runs
    return float(np.abs(chain.success_within(HORIZON)[1:] - shares).max())


def repeat_once(name: str, seed: tuple[int, ...]) -> Found:
    """Draw, split, make states, fit, test; then certify the same runs with their true states."""
    rng = np.random.default_rng(seed)
    chain = preset(name)
    runs = censor_as_published(simulate_runs(chain, N_RUNS, rng=rng), 0.05, rng)
    order = rng.permutation(N_RUNS)
    fit, test = (runs.select(np.sort(part)) for part in np.split(order, 2))
    points = [noisy_one_hot(half.states, chain.n_states, sd=0.08, rng=rng) for half in (fit, test)]
    made = cluster(points[0])
    m = made.centroids.shape[0]
    other = nearest(points[1], made.centroids)
    halves = relabel(fit, made.labels, m), relabel(test, other, m)
    both = certify_published(*halves, rng=rng)
    success = certify_published(*halves, times="success", rng=rng)
    assert both.ks_statistic is not None
    assert both.ks_p is not None
    assert both.aic_difference is not None
    assert both.max_curve_error is not None
    assert success.ks_p is not None
    truth = chain.success_within(HORIZON)
    # Cut before its end could be seen, a run is not known to have survived its last step.
    smoothed = fit_homogeneous(halves[0], smoothing="published", cut_step="unseen")
    plain = fit_homogeneous(halves[0], smoothing="none", cut_step="unseen")
    off = smoothed.success_within(HORIZON) - truth
    ended = runs.select(np.flatnonzero(runs.event != CENSORED))
    exact = test_exact(ended, n_draws=N_DRAWS, rng=rng)
    # One run a task: inside tasks the order of steps is shuffled within each run, cut or not.
    with certificate_under_way(
        runs, n_draws=N_DRAWS, n_resamples=N_RESAMPLES, rng=rng
    ) as under_way:
        whole = under_way.result()
    assert exact.p_order is not None
    assert exact.p_timing is not None
    assert whole.within is not None
    assert whole.within.p_order is not None
    assert whole.bound is not None
    bounds = [b for b in (whole.bound.success, whole.bound.failure) if b is not None]
    return Found(
        m=m,
        true_labels=same_partition(made.labels, fit.states) and same_partition(other, test.states),
        ended=np.count_nonzero(test.event != CENSORED),
        ks=both.ks_statistic,
        p=both.ks_p,
        curve_error=both.max_curve_error,
        true_chain_error=chain_error(chain, test),
        fit_error=float(np.abs(off).max()),
        smoothed_bias=float(off[-1]),
        unsmoothed_bias=float(plain.success_within(HORIZON)[-1] - truth[-1]),
        ks_accepts=both.ks_p > 0.05,
        aic_accepts=both.aic_difference < 0,
        accepts=both.verdict == "accepted",
        success_p=success.ks_p,
        exact_order=exact.p_order,
        exact_timing=exact.p_timing,
        within_order=whole.within.p_order,
        order_rejected=whole.claim("order").verdict == "rejected",
        timing_accepted=whole.claim("timing").verdict == "accepted",
        timing_rejected=whole.claim("timing").verdict == "rejected",
        upper=max(b.upper for b in bounds),
        lower=max(b.lower for b in bounds),
    )


def repeat(n_seeds: int, *, names: tuple[str, ...] = tuple(PUBLISHED)) -> Found:
    """Repeat for every chain; each field becomes an array of shape (n_chains, n_seeds)."""
    rows = []
    for k, name in enumerate(names):
        rows.append([repeat_once(name, (SEED, k, b)) for b in range(n_seeds)])
        print(f"{name}: {n_seeds} repetitions", flush=True)
    return Found(*np.moveaxis(np.array(rows, dtype=np.float64), 2, 0))


def spread(values: Floats, form: str = ".3f") -> str:
    """5, 50 and 95 % points."""
    return " / ".join(f"{x:{form}}" for x in np.quantile(values, (0.05, 0.5, 0.95)))


def below(values: Floats, figure: float, rounding: float = 5e-4) -> float:
    """Share of repetitions at or below a published figure, which was rounded."""
    return float(np.mean(values <= figure + rounding))


def above(values: Floats, figure: float, rounding: float = 5e-4) -> float:
    """Share of repetitions at or above a published figure, which was rounded."""
    return float(np.mean(values >= figure - rounding))


def table(head: str, rows: list[list[object]]) -> list[str]:
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for cells in rows:
        shown = [f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells]
        lines.append("| " + " | ".join(shown) + " |")
    return lines


def times_table(found: Found) -> list[str]:
    return table(
        "| chain | D, published | D 5 / 50 / 95 % | at or below | p, published "
        "| p 5 / 50 / 95 % | at or above |",
        [
            [
                name,
                was.ks,
                spread(found.ks[k]),
                below(found.ks[k], was.ks),
                was.p,
                spread(found.p[k]),
                above(found.p[k], was.p),
            ]
            for k, (name, was) in enumerate(PUBLISHED.items())
        ],
    )


def curve_table(found: Found) -> list[str]:
    return table(
        "| chain | published | 5 / 50 / 95 % | at or below | true chain on the test half "
        "| fitted from true curve | bias of R(50), with pseudo-counts | without |",
        [
            [
                name,
                f"{was.curve_error:.4f}",
                spread(found.curve_error[k], ".4f"),
                below(found.curve_error[k], was.curve_error, 5e-5),
                spread(found.true_chain_error[k], ".4f"),
                spread(found.fit_error[k], ".4f"),
                f"{found.smoothed_bias[k].mean():+.4f}",
                f"{found.unsmoothed_bias[k].mean():+.4f}",
            ]
            for k, (name, was) in enumerate(PUBLISHED.items())
        ],
    )


def decisions_table(found: Found) -> list[str]:
    return table(
        "| chain | states | m chosen: 3, 4, 5, 6 | true states found "
        "| test runs ended, published | 5 / 50 / 95 % | KS accepts | AIC prefers order 1 "
        "| both accept | KS given success accepts |",
        [
            [
                name,
                was.m,
                ", ".join(f"{np.mean(found.m[k] == m):.3f}" for m in range(3, 7)),
                float(found.true_labels[k].mean()),
                was.ended,
                spread(found.ended[k], ".0f"),
                float(found.ks_accepts[k].mean()),
                float(found.aic_accepts[k].mean()),
                float(found.accepts[k].mean()),
                float(np.mean(found.success_p[k] > 0.05)),
            ]
            for k, (name, was) in enumerate(PUBLISHED.items())
        ],
    )


def together_table(found: Found) -> list[str]:
    together = [
        ("largest error of R(d)", 0.0535, found.curve_error.max(axis=0), ".4f", 5e-5),
        ("median error of R(d)", 0.0476, np.median(found.curve_error, axis=0), ".4f", 5e-5),
        ("largest D", 0.045, found.ks.max(axis=0), ".3f", 5e-4),
        ("smallest p", 0.827, found.p.min(axis=0), ".3f", 5e-4),
        ("median p", 0.994, np.median(found.p, axis=0), ".3f", 5e-4),
        ("chains that KS accepts", 7, found.ks_accepts.sum(axis=0), ".0f", 0.0),
        ("chains that both accept", 7, found.accepts.sum(axis=0), ".0f", 0.0),
    ]
    return table(
        "| figure | published | 5 / 50 / 95 % | at or below | at or above |",
        [
            [
                name,
                f"{was:{form}}",
                spread(values, form),
                below(values, was, rounding),
                above(values, was, rounding),
            ]
            for name, was, values, form, rounding in together
        ],
    )


def exact_table(found: Found) -> list[str]:
    return table(
        "| chain | order: p <= .05 | timing: p <= .05 | order within runs: p <= .05 "
        "| order claim rejected | U 5 / 50 / 95 % | timing claim accepted | rejected |",
        [
            [
                name,
                float(np.mean(found.exact_order[k] <= 0.05)),
                float(np.mean(found.exact_timing[k] <= 0.05)),
                float(np.mean(found.within_order[k] <= 0.05)),
                float(found.order_rejected[k].mean()),
                spread(found.upper[k]),
                float(found.timing_accepted[k].mean()),
                float(found.timing_rejected[k].mean()),
            ]
            for k, name in enumerate(PUBLISHED)
        ],
    )


INTRODUCTION = """# The published held-out experiment, repeated

The published study of agent chains (Tran-Truong and Le, TraceToChain) fits chains to 200 runs each
of seven agents, compares them with 200 held-out runs, and reports that all seven are accepted, with
p-values of .83 to 1.00 and a largest error of R(d) of .0535. The runs are simulated: the seven are
chains typed by the authors and named after agent frameworks, of which no run is involved. The
experiment was done once. What would it have shown another time?

```
python studies/published_protocol.py --out docs/studies/published-protocol.md
```

Seed {seed}, {n} repetitions of each chain; {minutes:.0f} minutes of CPU time in one process. Monte
Carlo error of a share p: the root of p (1-p) / {n}, {error:.3f} at .05.

**The protocol.** 400 runs of the chain; each is stopped with probability .05 at a step uniform in
2 .. 9, if it gets there. Half of the runs at random fit, the others test. Steps become the one-hot
vector of their state plus normal noise (sd .08); the fit half is clustered by Ward's method, the
number of states in 3 .. 6 by the mean silhouette, and steps of the test half go to the nearest
centroid. The chain has one pseudo-count a cell and the fit half's first states. KS compares the
steps to either end, pooled, of the test runs with 8,000 of the chain; AIC is that of the fit half.
The error of R(d) is the largest at d up to 50, with cut runs in the denominator.

*At or below*, *at or above*: share of repetitions at or beyond the published figure.

"""

READING = """
**Reading: what was tested.** The truth is a chain in its own states, and the noise is so small that
these are found in {found:.1%} of repetitions. So the experiment asks whether a true chain can be
estimated from 200 runs. It says nothing of whether agents are chains, and acceptance is what a test
of level .05 gives: KS accepts {ks:.1%} of true chains and AIC {aic:.1%}; all seven at once are
accepted in {seven:.1%} of repetitions. "7 of 7" is the common outcome. What these tests find when
the truth is no chain is in [published-power.md](published-power.md) and
[exact-size-power.md](exact-size-power.md).

**The error of R(d).** A share of 200 runs near .45 has a standard error of {se:.3f}, so that .0535
is {times:.1f} of them. The true chain itself, not fitted at all, is off from the test half by
{true_error:.3f} in the median; the fitted curve is off from the true one by {fit_error:.3f}. The
figure is noise of the test half and of the fit half, and with 200 test runs it can neither show nor
deny an accuracy of .05. The seven published errors lie at shares of {low:.2f} to {high:.2f} of
their laws; that the largest of seven is no more than .0535 happens in {largest:.1%} of repetitions,
that their median is no more than .0476 in {median:.1%}. Pseudo-counts hardly matter with so many
runs a state: R(50) is off by {bias:+.3f} on average, by {unbiased:+.3f} without them.

**The p-values.** Under a true chain the held-out p-value has a median of {p_median:.2f}. All seven
at .827 or more, as published, happen in {all_p:.0f} of {n} repetitions; by the shares of the
single chains, about once in {odds} draws of seven. The published draw is a rare one under its own
protocol as described. We know no reason; it is none to trust the chains more, since a p-value near
one is no better evidence than one of .5.

**The exact certificate** uses all 400 runs. Its two families reject a true chain in {order:.1%} and
{timing:.1%} of repetitions (nominal .05; runs that ended). Cut at steps of all sizes, the runs as
they are have no one step cap, so that the pooled test is not made on them: the order claim is then
inconclusive, unless the test within runs rejects. Leaving cut runs out is harmless here, as few are
cut whatever they do. The bound on the error is made on all runs (it takes a cut run to have
outlived its last step, which is nearly so here): with 95 % confidence the curves are off by at
most U, {upper:.3f} in the median, and timing is certified at a margin of .10 in {certified:.1%} of
repetitions. That is a statement on accuracy, which the held-out figures are not. That runs of a
true chain are certified shows no power; for that see the two pages named above.
"""


def text(found: Found, minutes: float) -> str:
    n = found.p.shape[1]
    introduction = INTRODUCTION.format(
        seed=SEED, n=n, minutes=minutes, error=(0.05 * 0.95 / n) ** 0.5
    )
    parts = {
        "Times of held-out runs": times_table(found),
        "Largest error of R(d)": curve_table(found),
        "States and decisions": decisions_table(found),
        "The seven together, one draw of each": together_table(found),
        "The exact certificate on the same runs, in their true states": exact_table(found),
    }
    tables = "\n\n".join("\n".join([f"## {head}", "", *rows]) for head, rows in parts.items())
    return introduction + tables + "\n" + reading(found)


def reading(found: Found) -> str:
    se = (0.45 * 0.55 / 200) ** 0.5
    places = [
        below(found.curve_error[k], was.curve_error, 5e-5)
        for k, was in enumerate(PUBLISHED.values())
    ]
    by_chain = np.prod([above(p, 0.827) for p in found.p])
    return READING.format(
        found=found.true_labels.mean(),
        ks=found.ks_accepts.mean(),
        aic=found.aic_accepts.mean(),
        seven=np.mean(found.accepts.sum(axis=0) == len(PUBLISHED)),
        se=se,
        times=0.0535 / se,
        true_error=np.median(found.true_chain_error),
        fit_error=np.median(found.fit_error),
        low=min(places),
        high=max(places),
        largest=below(found.curve_error.max(axis=0), 0.0535, 5e-5),
        median=below(np.median(found.curve_error, axis=0), 0.0476, 5e-5),
        bias=found.smoothed_bias.mean(),
        unbiased=found.unsmoothed_bias.mean(),
        p_median=np.median(found.p),
        n=found.p.shape[1],
        all_p=np.sum(found.p.min(axis=0) >= 0.8265),
        odds="very many" if by_chain == 0.0 else f"{1 / by_chain:,.0f}",
        order=np.mean(found.exact_order <= 0.05),
        timing=np.mean(found.exact_timing <= 0.05),
        upper=np.median(found.upper),
        certified=found.timing_accepted.mean(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=200, help="repetitions of each chain")
    arguments = parser.parse_args()
    began = time.process_time()
    found = repeat(arguments.seeds)
    shown = text(found, (time.process_time() - began) / 60)
    print(shown)
    if arguments.out is not None:
        arguments.out.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    main()
