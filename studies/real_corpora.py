"""Assess public agent logs and tabulate which claims about their chains the data support.

The argument is a folder that holds one folder a source (`tau-bench`, `tau2-bench`,
`mini-swe-agent`, `mint-bench`, `inspect`), each with its logs and a `SOURCE.md` that names the
repository and the licence. The logs themselves are not part of this project.

    python studies/real_corpora.py DATA --out docs/studies/real-corpora.md
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sojourn
from sojourn.assess import TraceAssessment, assess_groups
from sojourn.assess.chain import DEFAULT_CHAIN, ChainSettings
from sojourn.assess.state_making import StateSettings
from sojourn.estimates import Estimate
from sojourn.process._exact_result import ExactTest

SEED = 20260417
SOURCES = ("tau-bench", "tau2-bench", "mini-swe-agent", "mint-bench", "inspect")
FEWEST_RUNS = 15
COARSE = {"respond": "respond", "transfer_to_human_agents": "transfer", "*": "tool"}


class Source(NamedTuple):
    """Where logs come from."""

    name: str
    repository: str
    licence: str


class Row(NamedTuple):
    """One assessed group."""

    label: str
    found: TraceAssessment


def source_of(folder: Path) -> Source:
    """Read repository and licence off the source's own note.

    Raises
    ------
    ValueError
        If the note names no repository or no licence.
    """
    text = (folder / "SOURCE.md").read_text(encoding="utf-8")
    repository = re.search(r"repo: ([\w.-]+/[\w.-]+)", text)
    licence = re.search(r"licence:? +([\w.-]+\w)", text)
    if repository is None or licence is None:
        raise ValueError(f"{folder / 'SOURCE.md'} names no repository or no licence")
    return Source(folder.name, repository.group(1), licence.group(1))


class Assessed(NamedTuple):
    """The groups of one source, and the runs with steps of those left out."""

    source: Source
    rows: list[Row]
    left_out: list[int]


def assess_source(folder: Path) -> Assessed:
    """Assess every group of a source that has enough runs with logged steps."""
    corpus = sojourn.read_traces(folder)
    rows, left_out = [], []
    for group, runs in corpus.groups():
        part = corpus.select(runs)
        n_logged = int(np.count_nonzero(np.diff(part.offsets)))
        if n_logged < FEWEST_RUNS:
            left_out.append(n_logged)
            continue
        name = f"{folder.name}: {group}"
        settings = {name: DEFAULT_CHAIN}
        if folder.name == "tau-bench":
            settings[f"{name}, three states"] = ChainSettings(states=StateSettings(table=COARSE))
        for label, chain in settings.items():
            rows.append(Row(label, assess_groups(part, chain=chain, rng=SEED).groups[0]))
            print(label, flush=True)
    return Assessed(source_of(folder), rows, left_out)


def table(head: str, rows: list[list[str]]) -> list[str]:
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    return lines + ["| " + " | ".join(cells) + " |" for cells in rows]


def figure(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else f"{value:{form}}"


def interval(estimate: Estimate) -> str:
    """Show the value with its interval."""
    shown = figure(estimate.value)
    if estimate.interval is None:
        return shown
    return f"{shown} [{estimate.interval.low:.3f}, {estimate.interval.high:.3f}]"


def rate_cells(row: Row) -> list[str]:
    """Design, success rate and pass^k."""
    found = row.found
    passes = [r for r in found.attempts if not r.is_beyond]
    most = passes[-1].k
    repeated = ["-", "-"]
    if most > 1:
        repeated = [" ".join(figure(r.all_succeed.value) for r in passes)]
        repeated.append(figure(passes[-1].pooled_all))
    assert found.chain is not None
    fit = found.chain.fit
    design = [str(fit.counts.n_runs), f"{fit.n_tasks} x {most}", str(fit.horizon)]
    return [row.label, *design, interval(found.rates.success_rate), *repeated]


CLAIMS = ("rate", "attempts", "order", "timing", "horizon")


def claim_cells(row: Row) -> list[str]:
    """Show the verdict on every claim."""
    verdicts = {claim.claim: str(claim.verdict) for claim in row.found.claims}
    return [row.label, *(verdicts.get(name, "-") for name in CLAIMS)]


def evidence_cells(row: Row) -> list[str]:
    """P-values of the exact test and the bounds on the curves' errors."""
    chain = row.found.chain
    assert chain is not None
    evidence = chain.certificate
    assert evidence.bound is not None
    curves = [evidence.bound.success, evidence.bound.failure]
    return [
        row.label,
        str(chain.fit.counts.n_states),
        p_value(evidence.pooled, "order"),
        p_value(evidence.within, "order"),
        p_value(evidence.pooled, "timing"),
        p_value(evidence.within, "timing"),
        *("-" if c is None else f"{c.lower:.3f} to {c.upper:.3f}" for c in curves),
    ]


def p_value(test: ExactTest | None, family: str) -> str:
    return "-" if test is None else figure(getattr(test, f"p_{family}"))


INTRODUCTION = """# Public agent logs: which claims hold

Is a first-order chain of an agent's steps good enough for real agents? Every public log at hand
whose runs have both steps and verdicts, each group (task set, agent, model) on its own, by
`sojourn.assess_groups` with its defaults.

```
python studies/real_corpora.py DATA --out docs/studies/real-corpora.md
```

DATA holds one folder a source, as published, with a note of repository and licence; only figures
are given here. Seed {seed}, 999 draws of the exact test, 1999 resamples; {seconds:.0f} seconds of
CPU time. Groups with fewer than {fewest} runs with steps are left out.

{sources}

States are step names; a second row of tau-bench uses three: any reply, any tool, transfer to a
person. Runs that were cut by a step limit count as failures in rates and as cut in curves and
chain. A rate's interval is for tasks like these.

## Runs, success, repeated success

*Tasks x attempts*: most attempts at one task. *Longest*: steps of the longest run. *pass^k* for k
= 1, 2, ...; *alike*: what the last of them would be if all tasks were alike.

{rates}

## Claims

With fewer than 20 tasks nothing is certified. *Rate* and *attempts* are counted and need no chain;
*order*: one step of memory is enough; *timing*: the chain's curves are off by less than .10;
*horizon*: the curves may be used beyond the longest run.

{claims}

## Evidence

Exact test, *pooled* and *within tasks* (one attempt a task: within runs). *Error of R(d)*: lower to
upper bound on the largest error of the chain's success curve; *of failure*: the same for failure.
The upper bound is U. A p-value is 1 too where the counts leave nothing to move, as in short runs.

{evidence}
"""

READING = """
**Reading.** Of {n} groups, {certifiable} have at least 20 tasks and runs of more than one step. In
those, order is rejected in {order_rejected}, not settled in {order_open} and accepted in
{order_accepted}; timing is rejected in {timing_rejected}, not settled in {timing_open} and accepted
in {timing_accepted}. Accepted are:

{accepted}

In these a step limit leaves the chain little to be wrong about: of two steps the curves are nearly
its own, and where hardly a step can move within runs, order was hardly tested. In no group are both
accepted. Where runs have room, in tau-bench and in the larger group of tau2-bench, both are
rejected. Runs of one step (Inspect's questions, MINT with a budget of one) have no chain to test.

Where tasks were repeated, pass^k is far above the power of the pooled rate: tasks differ, and no
chain fitted to pooled runs could have said so. Rates and pass^k need no chain; with 20 tasks or
more they stand whatever becomes of it.

The budgets of MINT are separate runs of the same tasks, so that its rows are related. P-values are
not adjusted for the number of rows.
"""


def reading(rows: list[Row]) -> str:
    tested = []
    for row in rows:
        assert row.found.chain is not None
        fit = row.found.chain.fit
        if fit.n_units >= 20 and fit.horizon > 1 and not row.label.endswith("three states"):
            tested.append(row)
    verdicts = {
        name: [str(claim.verdict) for row in tested for claim in row.found.claims
               if claim.claim == name]
        for name in ("order", "timing")
    }  # fmt: skip
    accepted = [
        f"{name} of {row.label}"
        for name, found in verdicts.items()
        for row, verdict in zip(tested, found, strict=True)
        if verdict == "accepted"
    ]
    counts = {
        f"{name}_{word}": found.count(verdict)
        for name, found in verdicts.items()
        for word, verdict in (
            ("rejected", "rejected"), ("open", "inconclusive"), ("accepted", "accepted")
        )
    }  # fmt: skip
    n = sum(not row.label.endswith("three states") for row in rows)
    return READING.format(
        n=n,
        certifiable=len(tested),
        accepted="\n".join(f"- {item}" for item in accepted or ["none"]),
        **counts,
    )


def text(assessed: list[Assessed], seconds: float) -> str:
    rows = [row for each in assessed for row in each.rows]
    sources = table(
        "| source | repository | licence | left out |",
        [
            [*e.source, f"{len(e.left_out)} groups, {sum(e.left_out)} runs" if e.left_out else "-"]
            for e in assessed
        ],
    )
    rates = table(
        "| group | runs | tasks x attempts | longest | success rate | pass^k | alike |",
        [rate_cells(row) for row in rows],
    )
    claims = table(
        "| group | " + " | ".join(CLAIMS) + " |",
        [claim_cells(row) for row in rows],
    )
    evidence = table(
        "| group | states | order: pooled | within tasks | timing: pooled | within tasks "
        "| error of R(d) | of failure |",
        [evidence_cells(row) for row in rows],
    )
    introduction = INTRODUCTION.format(
        seed=SEED,
        seconds=seconds,
        fewest=FEWEST_RUNS,
        sources="\n".join(sources),
        rates="\n".join(rates),
        claims="\n".join(claims),
        evidence="\n".join(evidence),
    )
    return introduction + reading(rows)


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
