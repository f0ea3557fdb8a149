"""Repeat the published power and censoring experiments, and put the exact test beside them.

The first part draws runs of a five-state chain, or of the same chain with memory, and applies the
published rule as it was applied there, to the very runs that were fitted, and to held-out runs. The
second part cuts runs of another five-state chain, at random or by a step cap, and shows what each
way of counting a cut run makes of the probability of success.

    python studies/published_power.py --out docs/studies/published-power.md
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.exact import test_exact
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.published import certify_published
from sojourn.process.simulate import event_rows, preset, simulate_runs
from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

SEED = 20260417
N_DRAWS = 199
N_SIMULATED = 5000
MEMORIES = (0.0, 0.05, 0.15, 0.3, 0.6)
LEVELS = (0.0, 0.05, 0.10, 0.20, 0.30, 0.40, 0.50)
CAPS = (8, 5, 3)
Floats = npt.NDArray[np.float64]


def second_order(
    chain: AbsorbingChain, memory: float, n_runs: int, rng: np.random.Generator
) -> StateSequences:
    """Draw runs that go back to the state before with probability `memory`, as published.

    The state before the first one is taken to be the first one itself.
    """
    table = event_rows(chain)
    cumulated = np.cumsum(table, axis=1)
    m = chain.n_states
    now = np.argmax(rng.random(n_runs)[:, None] < cumulated[0], axis=1)
    before, going = now.copy(), np.arange(n_runs)
    event = np.zeros(n_runs, dtype=np.int8)
    runs, states = [], []
    while going.size:
        runs.append(going)
        states.append(now)
        drawn = np.argmax(rng.random(going.size)[:, None] < cumulated[1 + now], axis=1)
        following = np.where(rng.random(going.size) < memory, before, drawn)
        event[going[following == m]] = SUCCESS
        event[going[following == m + 1]] = FAILURE
        on = following < m
        before, now, going = now[on], following[on], going[on]
    run = np.concatenate(runs)
    order = np.argsort(run, kind="stable")
    return StateSequences(
        states=np.concatenate(states)[order],
        offsets=np.concatenate(([0], np.cumsum(np.bincount(run, minlength=n_runs)))),
        event=event,
        task=np.arange(n_runs, dtype=np.int32),
        unit=np.arange(n_runs, dtype=np.int32),
        state_names=chain.state_names,
    )


class Judged(NamedTuple):
    """What the rules say of one corpus; all numbers, so that they stack."""

    p_same_runs: float
    p_held_out: float
    aic_difference: float
    exact_order: float
    exact_timing: float


def judge(runs: StateSequences, rng: np.random.Generator) -> Judged:
    """Judge runs by KS on the same runs, KS on held-out runs, AIC of all runs, the exact test."""
    half = runs.n_runs // 2
    fit, test = runs.select(np.arange(half)), runs.select(np.arange(half, runs.n_runs))
    same = certify_published(runs, runs, start="modal", n_simulated=N_SIMULATED, rng=rng)
    held_out = certify_published(fit, test, n_simulated=N_SIMULATED, rng=rng)
    exact = test_exact(runs, n_draws=N_DRAWS, rng=rng)
    values = (same.ks_p, held_out.ks_p, same.aic_difference, exact.p_order, exact.p_timing)
    return Judged(*(np.nan if x is None else x for x in values))


def power(memory: float, n_corpora: int, *, n_runs: int = 300) -> Judged:
    """Judge many corpora; each field becomes an array of shape (n_corpora,)."""
    chain = preset("ss7")
    rows = []
    for b in range(n_corpora):
        rng = np.random.default_rng((SEED, 7, round(1000 * memory), b))
        rows.append(judge(second_order(chain, memory, n_runs, rng), rng))
    return Judged(*np.array(rows, dtype=np.float64).T)


def censoring_chain() -> AbsorbingChain:
    """Return the published chain of the censoring experiment, rows scaled to sum to one."""
    rows = np.array(
        [
            [0.05, 0.70, 0.00, 0.05, 0.00, 0.15, 0.05],
            [0.00, 0.05, 0.75, 0.05, 0.00, 0.10, 0.05],
            [0.10, 0.10, 0.05, 0.40, 0.20, 0.10, 0.05],
            [0.20, 0.05, 0.05, 0.05, 0.40, 0.20, 0.05],
            [0.05, 0.05, 0.05, 0.05, 0.10, 0.60, 0.05],
        ]
    )
    rows /= rows.sum(axis=1, keepdims=True)
    return AbsorbingChain(
        transient=rows[:, :5],
        to_success=rows[:, 5],
        to_failure=rows[:, 6],
        initial=np.array([1.0, 0.0, 0.0, 0.0, 0.0]),
        state_names=("plan", "tool", "observe", "reflect", "answer"),
    )


def cut_share(runs: StateSequences, share: float, rng: np.random.Generator) -> StateSequences:
    """Cut a share of the runs as published: each at a step uniform before its last."""
    chosen = np.zeros(runs.n_runs, dtype=np.bool_)
    chosen[rng.choice(runs.n_runs, size=round(share * runs.n_runs), replace=False)] = True
    chosen &= runs.lengths >= 2
    at = rng.integers(1, np.maximum(runs.lengths, 2))
    return _shortened(runs, np.where(chosen, at, runs.lengths), chosen)


def cut_at(runs: StateSequences, cap: int, *, end_seen: bool) -> StateSequences:
    """Cut every run at a cap; whether an end right after the last step allowed is seen or not."""
    cut = runs.lengths > cap if end_seen else runs.lengths >= cap
    return _shortened(runs, np.where(cut, cap, runs.lengths), cut)


def _shortened(
    runs: StateSequences, lengths: npt.NDArray[np.int64], cut: npt.NDArray[np.bool_]
) -> StateSequences:
    step = np.arange(runs.states.size)
    short = StateSequences(
        states=runs.states[step < np.repeat(runs.offsets[:-1] + lengths, runs.lengths)],
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        event=runs.event,
        task=runs.task,
        unit=runs.unit,
        state_names=runs.state_names,
    )
    return _with_events(short, np.where(cut, CENSORED, runs.event))


def _with_events(runs: StateSequences, event: npt.NDArray[np.int8]) -> StateSequences:
    return StateSequences(
        states=runs.states,
        offsets=runs.offsets,
        event=event,
        task=runs.task,
        unit=runs.unit,
        state_names=runs.state_names,
    )


class Estimated(NamedTuple):
    """P(success ever) by each way of counting cut runs; nan where it is withheld."""

    cut: float
    published: float
    likelihood: float
    survived: float
    as_failure: float
    dropped: float


def estimate(runs: StateSequences) -> Estimated:
    """Fit the chain with cut runs counted in each of the ways."""
    failed = _with_events(runs, np.where(runs.event == CENSORED, FAILURE, runs.event))
    ended = runs.select(np.flatnonzero(runs.event != CENSORED))
    fits = (
        fit_homogeneous(runs, smoothing="published", start="modal", cut_step="unseen"),
        fit_homogeneous(runs, smoothing="none", cut_step="unseen"),
        fit_homogeneous(runs, smoothing="none", cut_step="survived"),
        fit_homogeneous(failed, smoothing="none"),
        fit_homogeneous(ended, smoothing="none"),
    )
    values = [fit.success_ever.value for fit in fits]
    # The published rule gives a figure whatever was seen.
    values[0] = fits[0].chain.success_ever
    cut = float(np.mean(runs.event == CENSORED))
    return Estimated(cut, *(np.nan if x is None else x for x in values))


def censoring(n_corpora: int, *, n_runs: int = 600) -> dict[str, Estimated]:
    """Cut many corpora in every way; each field becomes an array of shape (n_corpora,)."""
    chain = censoring_chain()
    found: dict[str, list[Estimated]] = {}
    for b in range(n_corpora):
        rng = np.random.default_rng((SEED, 12, b))
        runs = simulate_runs(chain, n_runs, rng=rng)
        ways = {f"{level:.0%} at random": cut_share(runs, level, rng) for level in LEVELS}
        for cap in CAPS:
            for end_seen in (True, False):
                words = f"cap {cap}, end at the cap {'seen' if end_seen else 'unseen'}"
                ways[words] = cut_at(runs, cap, end_seen=end_seen)
        for name, cut in ways.items():
            found.setdefault(name, []).append(estimate(cut))
    return {name: Estimated(*np.array(rows).T) for name, rows in found.items()}


def table(head: str, rows: list[list[object]]) -> list[str]:
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for cells in rows:
        shown = [f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells]
        lines.append("| " + " | ".join(shown) + " |")
    return lines


def spread(values: Floats, form: str = ".3f") -> str:
    """5, 50 and 95 % points."""
    return " / ".join(f"{x:{form}}" for x in np.quantile(values, (0.05, 0.5, 0.95)))


def blocks(values: Floats, size: int) -> Floats:
    """Group corpora as the published study had them, shape (n_blocks, size)."""
    size = min(size, values.size)
    return values[: values.size // size * size].reshape(-1, size)


def rejects(p: Floats) -> float:
    return float(np.mean(p <= 0.05))


def power_tables(found: dict[float, Judged]) -> list[str]:
    lines = ["## Power: 300 runs with memory", ""]
    lines += table(
        "| memory | KS, same runs: mean p | smallest p | rejects | KS, held-out: mean p | rejects "
        "| AIC of order 1 minus order 2: 5 / 50 / 95 % | AIC rejects | KS (same runs) or AIC "
        "| exact order | exact timing |",
        [
            [
                f"{memory:g}",
                float(f.p_same_runs.mean()),
                float(f.p_same_runs.min()),
                rejects(f.p_same_runs),
                float(f.p_held_out.mean()),
                rejects(f.p_held_out),
                spread(f.aic_difference, "+.0f"),
                float(np.mean(f.aic_difference > 0)),
                float(np.mean((f.p_same_runs <= 0.05) | (f.aic_difference > 0))),
                rejects(f.exact_order),
                rejects(f.exact_timing),
            ]
            for memory, f in found.items()
        ],
    )
    none, strong = found[0.0], found[0.6]
    thirty, fifteen = blocks(none.p_same_runs, 30), blocks(strong.aic_difference, 15)
    rejected = (blocks(strong.p_same_runs, 15) <= 0.05).sum(axis=1)
    rows: list[list[object]] = [
        ["no memory: mean p of 30 corpora", "0.958", spread(thirty.mean(axis=1))],
        ["no memory: smallest p of 30", "0.594", spread(thirty.min(axis=1))],
        ["no memory: KS accepts, of 30", "30", spread((thirty > 0.05).sum(axis=1), ".0f")],
        ["memory .6: KS rejects, of 15", "0", spread(rejected, ".0f")],
        ["memory .6: AIC rejects, of 15", "15", spread((fifteen > 0).sum(axis=1), ".0f")],
        ["memory .6: smallest AIC difference of 15", "+979", spread(fifteen.min(axis=1), "+.0f")],
        ["memory .6: largest AIC difference of 15", "+1614", spread(fifteen.max(axis=1), "+.0f")],
    ]
    return [*lines, "", *table("| figure | published | here, 5 / 50 / 95 % |", rows)]


def mean_sd(values: Floats) -> str:
    """Mean (sd) over the corpora where the figure was given, and the share where it was not."""
    given = values[np.isfinite(values)]
    if given.size == 0:
        return "withheld"
    shown = f"{given.mean():.3f} ({given.std():.3f})"
    withheld = 1 - given.size / values.size
    return shown if withheld == 0 else f"{shown}, withheld in {withheld:.0%}"


PUBLISHED = (0.7581, 0.7555, 0.7555, 0.7639, 0.7551, 0.7518, 0.7562)


def censoring_table(found: dict[str, Estimated]) -> list[str]:
    published = [f"{x:.4f}" for x in PUBLISHED] + ["-"] * (2 * len(CAPS))
    lines = ["## Censoring: 600 runs, P(success ever) = " + f"{true_value():.4f}", ""]
    return lines + table(
        "| cut | runs cut | published figure | published rule | likelihood | step survived "
        "| cut = failure | cut runs dropped |",
        [
            [name, f"{f.cut.mean():.3f}", figure, *map(mean_sd, f[1:])]
            for (name, f), figure in zip(found.items(), published, strict=True)
        ],
    )


def true_value() -> float:
    return censoring_chain().success_ever


INTRODUCTION = """# The published power and censoring experiments, repeated

The published study of agent chains (Tran-Truong and Le, TraceToChain) supports its certificate by
two experiments. In one, runs of a true chain are all accepted and runs with strong memory all
rejected. In the other, a chain is fitted to runs of which up to half were cut, with little change.
What do these designs measure?

```
python studies/published_power.py --out docs/studies/published-power.md
```

Seed {seed}, {n} corpora a row, {draws} draws of the exact test; {seconds:.0f} seconds of CPU time
in one process. Monte Carlo error of a share near .05: {error:.3f}.

**Power.** Five states, each leading to later ones only; 300 runs, true states. *Memory w*: with
probability w a step goes back to the state before. As published, KS compares the times of the very
300 runs that made the chain with 5,000 simulated ones (*same runs*), successes and failures pooled,
and AIC counts steps across the ends of runs. *Held-out*: 150 runs fit, the other 150 test. *Exact
order* and *exact timing* are the two families of the exact test on all 300, rejected at .05. The
published experiment's third part, seven more chains on the same runs that made them, has the design
of the first and is not repeated.

**Censoring.** Five states, 600 runs. *At random*: so many of the runs are chosen and each is cut
at a step uniform before its last, as published; runs of one step cannot be cut. *Cap*: no run goes
on after so many steps; the end of a run that ends right after the last step allowed is either seen
or not. *Published rule*: one pseudo-count a cell, the seen steps of cut runs counted. *Likelihood*:
the same without pseudo-counts. *Step survived* (the default of `fit_homogeneous`): moreover a cut
run is known not to have ended with its last step. Mean (standard deviation) over corpora; the
published figures are of one corpus.

"""

READING = """
**Reading: power.** The published figures are reproduced, and they are what the design gives. On
the runs that made the chain, KS accepts whatever the truth: without memory its p-value is
{mean_p:.2f} on average, where a test's is .5, and with a memory of .6 it still rejects only
{ks_strong:.1%} of corpora. So "30 of 30 retained" says nothing of the chain, and all of the power
reported is AIC's, against a memory of .6. At .15 AIC finds {aic_moderate:.0%} of corpora, at .05
{aic_weak:.0%}, and without memory none: it has no level that could be set. Held-out KS keeps its
size and finds {held_strong:.0%} even at .6, since going back changes when runs end but little. The
exact test keeps its size and finds memory of .05 in {exact_weak:.0%} and of .15 in
{exact_moderate:.0%} of corpora.

**Reading: censoring.** With cuts at random nothing much happens, and that the published figures
hardly change from level to level is what one must expect: they come from one corpus. Most of their
distance from the truth ({distance:+.3f} without any cut) is the luck of that corpus (standard
deviation {sd:.3f}); the pseudo-counts account for {bias:+.3f}. Cutting after the fact, before a
step that is known to come, is not how step limits work, and there the ways of counting matter.
With a cap of 5 a cut run counted as a failure takes the estimate to {failed:.2f}, which is the
success within the cap and not ever, and leaving cut runs out to {dropped:.2f}. The two likelihoods
differ by what they hold of the last step of a cut run, and little: where an end at a cap of 5 is
not seen, *step survived* is off by {assumed:+.3f}. At a cap of 3 no way is right: no run is seen to
go on from "observe" or "answer", so that nothing is known of what follows them. Where their ends
are not seen either, the figure is withheld; where they are, `fit_homogeneous` gives one that rests
on the mean row ({filled:.2f}), and the published rule gives one always. The curve up to the cap
needs no such guess.
"""


def text(judged: dict[float, Judged], cut: dict[str, Estimated], seconds: float) -> str:
    n = judged[0.0].p_same_runs.size
    introduction = INTRODUCTION.format(
        seed=SEED, n=n, draws=N_DRAWS, seconds=seconds, error=(0.05 * 0.95 / n) ** 0.5
    )
    whole = cut["0% at random"]
    reading = READING.format(
        mean_p=judged[0.0].p_same_runs.mean(),
        ks_strong=rejects(judged[0.6].p_same_runs),
        aic_moderate=np.mean(judged[0.15].aic_difference > 0),
        aic_weak=np.mean(judged[0.05].aic_difference > 0),
        held_strong=rejects(judged[0.6].p_held_out),
        exact_weak=rejects(judged[0.05].exact_order),
        exact_moderate=rejects(judged[0.15].exact_order),
        distance=PUBLISHED[0] - true_value(),
        sd=whole.published.std(),
        bias=np.mean(whole.published - whole.likelihood),
        failed=cut["cap 5, end at the cap seen"].as_failure.mean(),
        dropped=cut["cap 5, end at the cap seen"].dropped.mean(),
        assumed=np.nanmean(cut["cap 5, end at the cap unseen"].survived) - true_value(),
        filled=np.nanmean(cut["cap 3, end at the cap seen"].survived),
    )
    lines = [*power_tables(judged), "", *censoring_table(cut)]
    return introduction + "\n".join(lines) + "\n" + reading


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--corpora", type=int, default=600, help="corpora a row")
    arguments = parser.parse_args()
    began = time.process_time()
    judged = {memory: power(memory, arguments.corpora) for memory in MEMORIES}
    cut = censoring(arguments.corpora)
    shown = text(judged, cut, time.process_time() - began)
    print(shown)
    if arguments.out is not None:
        arguments.out.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    main()
