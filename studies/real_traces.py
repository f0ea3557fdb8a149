"""Choose and certify processes on public agent logs, and hold them against unseen tasks.

The argument is a folder that holds one folder a source (`tau-bench`, `tau2-bench`,
`mini-swe-agent`, `mint-bench`), each with its logs and a `SOURCE.md` that names the repository and
the licence. The logs themselves are not part of this project.

    python studies/real_traces.py DATA --out docs/studies/real-traces.md
"""

from __future__ import annotations

import argparse
import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import time  # noqa: E402
from dataclasses import replace  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NamedTuple  # noqa: E402

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from real_corpora import COARSE, FEWEST_RUNS, Source, figure, source_of, table  # noqa: E402

import sojourn  # noqa: E402
from sojourn.assess import TraceAssessment, assess_groups  # noqa: E402
from sojourn.assess.certify import MIN_UNITS, Certificate, certify_as_published  # noqa: E402
from sojourn.assess.chain import DEFAULT_CHAIN, ChainSettings  # noqa: E402
from sojourn.assess.forecast import measured_skill  # noqa: E402
from sojourn.assess.state_making import StateSettings  # noqa: E402
from sojourn.corpus import Policy, TraceCorpus, resolve  # noqa: E402
from sojourn.process.base import TraceProcess  # noqa: E402
from sojourn.process.bound import MisspecificationBound  # noqa: E402
from sojourn.process.candidates import BASELINE, CANDIDATES, fit_candidate  # noqa: E402
from sojourn.process.incidence import aalen_johansen  # noqa: E402
from sojourn.process.skill import ForecastSkill  # noqa: E402
from sojourn.sequences import StateSequences  # noqa: E402

Floats = npt.NDArray[np.float64]

SEED = 20260417
SOURCES = ("tau-bench", "tau2-bench", "mini-swe-agent", "mint-bench")
N_SPLITS = 20


class Row(NamedTuple):
    """One group with everything that was found."""

    label: str
    refits: bool  # whether all processes could be refitted to all resampled corpora
    found: TraceAssessment
    published: Certificate
    errors: dict[str, Floats]  # (N_SPLITS,) of R(d) on unseen tasks
    skill: ForecastSkill | None
    unskilled: str | None

    @property
    def few(self) -> bool:
        """Whether there are too few tasks to certify anything."""
        assert self.found.chain is not None
        return self.found.chain.fit.n_units < MIN_UNITS

    @property
    def shown(self) -> str:
        """The label, with a word where tasks are few."""
        assert self.found.chain is not None
        n = self.found.chain.fit.n_units
        return f"{self.label} (only {n} tasks)" if self.few else self.label

    @property
    def chosen(self) -> str:
        """The process that the claims are about."""
        assert self.found.chain is not None
        return self.found.chain.chosen


def chosen_process(found: TraceAssessment) -> TraceProcess:
    assert found.chain is not None
    return found.chain.fit if found.chain.richer is None else found.chain.richer.process


def split_errors(runs: StateSequences, process: TraceProcess) -> dict[str, Floats]:
    """Fit to half of the tasks; largest error of R(d) on the others, up to the longest run."""
    longest = int(runs.lengths.max())
    units = np.unique(runs.unit)
    errors: dict[str, list[float]] = {"homogeneous": [], process.name: [], "other half": []}
    for split in range(N_SPLITS):
        rng = np.random.default_rng((SEED, split))
        inside = np.isin(runs.unit, rng.permutation(units)[: units.size // 2])
        train, test = (runs.select(np.flatnonzero(part)) for part in (inside, ~inside))
        truth = aalen_johansen(test.lengths, test.event, horizon=longest).success
        for name, own in errors.items():
            if name == "other half":
                curve = aalen_johansen(train.lengths, train.event, horizon=longest).success
            else:
                try:
                    curve = fit_candidate(name, train, rng=rng).success_within(longest)
                except (ArithmeticError, np.linalg.LinAlgError):  # shown by its number of splits
                    curve = np.full(longest + 1, np.nan)
            own.append(float(np.abs(curve - truth).max()))
    return {name: np.array(values) for name, values in errors.items()}


def assess_one(
    label: str, part: TraceCorpus, chain: ChainSettings, policy: Policy | None
) -> Row | None:
    """Assess one group; None where no run has more than one step."""
    refits = True
    try:
        found = assess_groups(part, chain=chain, policy=policy, rng=SEED).groups[0]
    except (
        np.linalg.LinAlgError
    ):  # a resampled corpus that the progress chain cannot be refitted to
        chain = replace(chain, candidates=tuple(name for name in CANDIDATES if name != "progress"))
        found = assess_groups(part, chain=chain, policy=policy, rng=SEED).groups[0]
        refits = False
    if found.chain is None or found.chain.fit.horizon < 2:
        return None
    notes = () if found.chain.climb is None else found.chain.climb.notes
    resolved = resolve(part, policy or Policy())
    runs = found.chain.states.transform(part, resolved)
    process = chosen_process(found)
    skill, why = measured_skill(runs, process, rng=SEED)
    return Row(
        label=label,
        refits=refits and not any("could not be refitted" in note for note in notes),
        found=found,
        published=certify_as_published(part, resolved, table=chain.states.table, rng=SEED),
        errors=split_errors(runs, process),
        skill=skill,
        unskilled=why,
    )


class Assessed(NamedTuple):
    """The groups of one source, and how many were left out."""

    source: Source
    rows: list[Row]
    left_out: int


def assess_source(folder: Path) -> Assessed:
    """Assess every group of a source that has enough runs with logged steps."""
    corpus = sojourn.read_traces(folder)
    rows: list[Row] = []
    left_out = 0
    for group, runs in corpus.groups():
        part = corpus.select(runs)
        if np.count_nonzero(np.diff(part.offsets)) < FEWEST_RUNS:
            left_out += 1
            continue
        name = f"{folder.name}: {group}"
        settings: list[tuple[str, ChainSettings, Policy | None]] = [(name, DEFAULT_CHAIN, None)]
        if folder.name == "tau-bench":
            coarse = ChainSettings(states=StateSettings(table=COARSE))
            settings.append((f"{name}, R/T/X", coarse, Policy(limits="failure")))
        for label, chain, policy in settings:
            began = time.process_time()
            row = assess_one(label, part, chain, policy)
            if row is None:
                left_out += 1
                continue
            rows.append(row)
            seconds = time.process_time() - began
            print(f"{label}: {row.chosen}, {seconds:.0f} CPU seconds", flush=True)
    return Assessed(source_of(folder), rows, left_out)


def score_cells(row: Row) -> list[str]:
    """Differences of all candidates to the best with standard errors, the chosen one in bold."""
    assert row.found.chain is not None
    chain = row.found.chain
    names = (*CANDIDATES, BASELINE)
    if chain.climb is None or chain.climb.choice is None:
        why = "too few tasks" if row.few else "the homogeneous chain was accepted"
        return [row.shown, *["-"] * len(names), f"no choice: {why}"]
    scores = {score.name: score for score in chain.climb.choice.scores}
    cells = [row.shown]
    for name in names:
        if name not in scores:
            cells.append("no refits")
            continue
        score = scores[name]
        if score.difference is None:
            cells.append("not fitted")
            continue
        shown = f"{score.difference:.3f} ({score.se_difference:.3f})"
        cells.append(f"**{shown}**" if name == row.chosen else shown)
    kept = chain.climb.choice.chosen
    return [*cells, row.chosen if kept == row.chosen else f"{row.chosen}; by score {kept}"]


def published_cells(row: Row) -> list[str]:
    result = row.published.published
    assert result is not None
    return [
        row.shown,
        str(result.verdict),
        figure(result.ks_statistic),
        figure(result.ks_p, ".2g"),
        figure(result.aic_difference, ".0f"),
        "; ".join(result.reasons) or "-",
    ]


def both(bound: MisspecificationBound | None) -> str:
    """Show U on the success and on the failure curve."""
    if bound is None or bound.success is None or bound.failure is None:
        return "-"
    return f"{bound.success.upper:.3f} / {bound.failure.upper:.3f}"


def certificate_cells(row: Row) -> list[str]:
    assert row.found.chain is not None
    chain = row.found.chain
    verdicts = {claim.claim: str(claim.verdict) for claim in chain.claims}
    richer = chain.richer
    own, tests = chain.certificate.bound, ["-", "-", "-"]
    if richer is not None:
        tests = [
            figure(richer.fit_test.p_value),
            figure(richer.pooled.p_value),
            figure(richer.within.p_value),
        ]
    return [
        row.shown,
        row.chosen,
        verdicts["order"],
        verdicts["timing"],
        both(own),
        "-" if richer is None else both(richer.bound),
        *tests,
    ]


def unseen_cells(row: Row) -> list[str]:
    chosen = row.errors[row.chosen]
    fitted = int(np.count_nonzero(np.isfinite(chosen)))
    return [
        row.shown,
        f"{np.nanmean(row.errors['homogeneous']):.3f}",
        row.chosen,
        f"{np.nanmean(chosen):.3f}",
        f"{row.errors['other half'].mean():.3f}",
        f"{np.count_nonzero(chosen < row.errors['homogeneous'])} of {fitted}"
        if row.chosen != "homogeneous"
        else "-",
    ]


def skill_cells(row: Row) -> list[str]:
    skill = row.skill
    if skill is None:
        return [row.shown, row.chosen, "-", "-", "-", "-", row.unskilled or "-"]
    gain = skill.gain
    shown = figure(gain.value)
    if gain.interval is not None:
        shown += f" [{gain.interval.low:.3f}, {gain.interval.high:.3f}]"
    return [
        row.shown,
        row.chosen,
        " ".join(map(str, skill.steps)),
        shown,
        f"{skill.log_score:.3f}",
        f"{skill.blind_log_score:.3f}",
        str(skill.verdict),
    ]


def pass_rows(row: Row) -> list[list[str]]:
    """One line a k: observed, all tasks alike, and the mixture's."""
    assert row.found.chain is not None
    chain = row.found.chain
    mixture = None
    if chain.climb is not None and chain.climb.choice is not None:
        mixture = chain.climb.choice.fits.get("mixture-2")
    lines = []
    for each in row.found.attempts:
        if each.is_beyond:
            continue
        interval = each.all_succeed.interval
        observed = figure(each.all_succeed.value)
        if interval is not None:
            observed += f" [{interval.low:.3f}, {interval.high:.3f}]"
        modelled = "-"
        if mixture is not None:
            modelled = f"{mixture.pass_hat(each.k):.3f}"  # type: ignore[attr-defined]
        lines.append([row.shown, str(each.k), observed, f"{each.pooled_all:.3f}", modelled])
    return lines


TEXT = """# Public agent logs: which process tracks them

Where the homogeneous chain's timing is not accepted, does a richer process do better, on the same
runs and on unseen tasks, and do its states foretell success? Every public log at hand whose runs
have steps, each group (task set, agent, model) on its own, by `sojourn.assess_groups` with its
defaults.

```
python studies/real_traces.py DATA --out docs/studies/real-traces.md
```

DATA holds one folder a source, as published, with a note of repository and licence; only figures
are given here. Seed {seed}, 499 simulated corpora a test of fit, 999 draws of the exchange test,
199 refits a bound; {seconds:.0f} seconds of CPU time. Groups with fewer than {fewest} runs with
steps, or whose runs have one step, are left out. Groups of fewer than {min_units} tasks say so and
are not certified.

{sources}

Runs that a limit cut are cut in curves and processes. *R/T/X*: tau-bench with any reply, any tool
and transfer to a person as states, and with limits counted as failures.

## What is learnt

{learnt}

## Candidates

Held-out log score of end and outcome, less the best candidate's, nats a task, with the standard
error of the difference. Bold: the process that was certified. *No refits*: the progress chain
cannot be refitted to every resampled corpus, so that it is left out. *By score*: where the simplest
within one standard error is another (the homogeneous chain when its timing is rejected, or one
whose own timing was not accepted).

{scores}

## The published rule

KS distance of the times on the other half of the tasks and its p, and AIC of the first order less
that of the second (the first is preferred below 0). *Rejected*: the rule withholds the chain.

{published}

## The certificate

U, on the success and on the failure curve: at most so much are they off, each with 95 %. *Fit*: p
of the refitted simulation, choice held; *exchange*: memory given state and step, p pooled and
within tasks.

{certificates}

## Unseen tasks

Largest error of R(d), fitted to half of the tasks, on the other half; mean over {n_splits} splits.
*Other half's own curve*: the Aalen-Johansen curve of the half that the processes were fitted to.
*Better*: splits in which the chosen process is nearer than the homogeneous chain.

{unseen}

## Forecasts

Gain in log score of P(success | state, step) over P(success | step), nats a forecast, on held-out
tasks, with its 95 % interval; *accepted*: states foretell success; *rejected*: they surely gain
less than .01.

{skills}

## Repeated attempts

pass^k: all of k attempts at the same task succeed, observed (for tasks like these, 95 % interval);
what it would be if all tasks were alike; and what the mixture of two kinds of tasks says.

{passes}
"""


def median_of(rows: list[Row], name: str) -> float:
    return float(
        np.median(
            [np.nanmean(row.errors[row.chosen if name == "chosen" else name]) for row in rows]
        )
    )


def learnt(rows: list[Row]) -> str:
    """Say in sentences what the tables show."""
    ample = [row for row in rows if not row.few]
    richer = [row for row in ample if row.chosen != "homogeneous"]
    verdicts: dict[str, list[str]] = {"order": [], "timing": []}
    for row in ample:
        assert row.found.chain is not None
        for claim in row.found.chain.claims:
            if claim.claim in verdicts:
                verdicts[claim.claim].append(str(claim.verdict))
    own = [
        str(row.found.chain.certificate.claim("timing").verdict)
        for row in ample
        if row.found.chain is not None
    ]
    passed = [
        row.label
        for row, order, timing in zip(ample, verdicts["order"], verdicts["timing"], strict=True)
        if order == timing == "accepted"
    ]
    withheld = [
        row
        for row in rows
        if row.published.published is not None
        and str(row.published.published.verdict) != "accepted"
    ]
    skilled = [row.label for row in ample if row.skill and str(row.skill.verdict) == "accepted"]
    unskilled = [row.label for row in ample if row.skill and str(row.skill.verdict) == "rejected"]
    lines = [
        f"- {len(rows)} rows, {len(ample)} of them with at least {MIN_UNITS} tasks. In those the "
        f"homogeneous chain's timing is accepted in {own.count('accepted')}, rejected in "
        f"{own.count('rejected')} and open in {own.count('inconclusive')}; of the process that "
        f"was certified in the end it is accepted in {verdicts['timing'].count('accepted')}, "
        f"rejected in {verdicts['timing'].count('rejected')} and open in "
        f"{verdicts['timing'].count('inconclusive')}.",
        f"- A process other than the homogeneous chain stands in {len(richer)} rows: "
        + ("; ".join(f"{row.chosen} in {row.label}" for row in richer) or "none")
        + ".",
        f"- Order of the certified process: accepted in {verdicts['order'].count('accepted')}, "
        f"rejected in {verdicts['order'].count('rejected')}, open in "
        f"{verdicts['order'].count('inconclusive')}.",
        "- Both order and timing are accepted in: " + ("; ".join(passed) or "no row") + ".",
        f"- The published rule does not accept {len(withheld)} of {len(rows)}.",
    ]
    if richer:
        lines.append(
            "- On unseen tasks, median over the rows with a richer process: error of R(d) "
            f"{median_of(richer, 'homogeneous'):.3f} for the homogeneous chain, "
            f"{median_of(richer, 'chosen'):.3f} for the chosen process, "
            f"{median_of(richer, 'other half'):.3f} for the other half's own curve, which no model "
            "can be expected to beat by much."
        )
    misfit = [
        row.label
        for row in richer
        if row.found.chain is not None
        and row.found.chain.richer is not None
        and row.found.chain.richer.accepted
        and (row.found.chain.richer.fit_test.p_value or 1.0) <= 0.05
    ]
    if misfit:
        lines.append(
            f"- In {len(misfit)} rows the test of fit rejects a process whose timing is accepted: "
            f"it is not the truth, but its curves are off by less than .10 ({'; '.join(misfit)})."
        )
    compared = [
        {score.name: score for score in row.found.chain.climb.choice.scores}[BASELINE]
        for row in ample
        if row.found.chain is not None
        and row.found.chain.climb is not None
        and row.found.chain.climb.choice is not None
    ]
    level = [score for score in compared if (score.difference or 0.0) >= 0.0]
    lines.append(
        f"- Smooth curves without any states foretell ends as well as the best process, or better, "
        f"in {len(level)} of the {len(compared)} rows with a choice."
    )
    failing = [row.label for row in rows if not row.refits]
    if failing:
        lines.append(
            f"- In {len(failing)} rows a process cannot be refitted to every resampled corpus (the "
            "progress chain's iteration does not settle or meets a singular matrix) and is left "
            f"out: {'; '.join(failing)}."
        )
    lines.append(
        "- States foretell success beyond the step in: "
        + ("; ".join(skilled) or "no row")
        + "; surely not in: "
        + ("; ".join(unskilled) or "no row")
        + "; elsewhere it is open. A chain that tracks when runs end is not yet one whose states "
        "tell how they will end."
    )
    lines.append(
        "- Where tasks were repeated, pass^k is far above the power of the pooled rate; no process "
        "that takes all tasks to be alike can say so. The mixture's is beside it below."
    )
    return "\n".join(lines)


def text(assessed: list[Assessed], seconds: float) -> str:
    rows = [row for each in assessed for row in each.rows]
    repeated = [row for row in rows if row.found.pass_row(2) is not None]
    repeated = [row for row in repeated if not row.found.attempts[1].is_beyond]
    names = " | ".join((*CANDIDATES, BASELINE))
    return TEXT.format(
        seed=SEED,
        seconds=seconds,
        fewest=FEWEST_RUNS,
        min_units=MIN_UNITS,
        n_splits=N_SPLITS,
        learnt=learnt(rows),
        sources="\n".join(
            table(
                "| source | repository | licence | groups left out |",
                [[*e.source, str(e.left_out)] for e in assessed],
            )
        ),
        scores="\n".join(
            table(f"| group | {names} | chosen |", [score_cells(row) for row in rows])
        ),
        published="\n".join(
            table(
                "| group | verdict | KS | p | AIC difference | why |",
                [published_cells(row) for row in rows],
            )
        ),
        certificates="\n".join(
            table(
                "| group | process | order | timing | U: homogeneous | U: certified | fit "
                "| exchange: pooled | within tasks |",
                [certificate_cells(row) for row in rows],
            )
        ),
        unseen="\n".join(
            table(
                "| group | homogeneous | chosen process | its error | other half's own curve "
                "| better |",
                [unseen_cells(row) for row in rows],
            )
        ),
        skills="\n".join(
            table(
                "| group | process | at steps | gain | log score | state-blind | verdict |",
                [skill_cells(row) for row in rows],
            )
        ),
        passes="\n".join(
            table(
                "| group | k | observed | alike | mixture |",
                [line for row in repeated for line in pass_rows(row)],
            )
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with one folder a source")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began = time.process_time()
    assessed = [assess_source(arguments.data / name) for name in SOURCES]
    shown = text(assessed, time.process_time() - began)
    print(shown)
    if arguments.out is not None:
        arguments.out.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    main()
