"""The classes of a mixture: who is in them, what the process and the log say of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from sojourn.assess import TraceAssessment, assess_traces
from sojourn.assess.chain import ChainSettings
from sojourn.assess.process_text import class_cells, class_tasks
from sojourn.assess.task_classes import MAX_LISTED, TaskClassTable, task_class_table
from sojourn.corpus import CorpusBuilder
from sojourn.estimates import Verdict
from sojourn.process.mixture import fit_mixture
from sojourn.records import Outcome, Step, Trace
from sojourn.report import html_text, json_text
from sojourn.sequences import FAILURE, SUCCESS, StateSequences

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "src/sojourn/report/schema.json").read_text(encoding="utf-8")
)
ATTEMPTS = 6


def lengths_and_ends(n_tasks: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Odd tasks are slow and mostly succeed, even ones are quick and mostly fail."""
    rng = np.random.default_rng(seed)
    odd = np.repeat(np.arange(n_tasks), ATTEMPTS) % 2 == 1
    lengths = 1 + rng.geometric(np.where(odd, 0.12, 0.6))
    success = rng.random(odd.size) < np.where(odd, 0.9, 0.1)
    return lengths, success


def sequences_of(n_tasks: int) -> StateSequences:
    lengths, success = lengths_and_ends(n_tasks)
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), ATTEMPTS)
    return StateSequences(
        states=np.zeros(int(lengths.sum()), dtype=np.int32),
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        event=np.where(success, SUCCESS, FAILURE).astype(np.int8),
        task=task,
        unit=task,
        state_names=("work",),
    )


@pytest.fixture(scope="module")
def runs() -> StateSequences:
    return sequences_of(40)


def table_of(runs: StateSequences, timing: Verdict = Verdict.ACCEPTED) -> TaskClassTable:
    fit = fit_mixture(runs, 2, n_starts=6, rng=0)
    n_tasks = int(runs.task.max()) + 1
    names = [("set", f"task {t}") for t in range(n_tasks)]
    return task_class_table(fit, runs, names, timing=timing)


def test_classes_differ_in_odds_and_pace_and_hold_their_tasks(runs: StateSequences) -> None:
    table = table_of(runs)
    easy, hard = table.rows
    for row, parity in ((easy, 1), (hard, 0)):
        numbers = [int(task.task_id.split()[1]) for task in row.members]
        assert len(numbers) == row.n_tasks
        assert np.mean([number % 2 == parity for number in numbers]) > 0.9
        assert [t.probability for t in row.members] == sorted(
            (t.probability for t in row.members), reverse=True
        )
        # Counted again by hand from the runs of the tasks that are listed.
        mine = np.isin(runs.task, numbers)
        assert row.n_runs == mine.sum() == ATTEMPTS * row.n_tasks
        assert row.observed_success == pytest.approx((runs.event[mine] == SUCCESS).mean())
        assert row.observed_steps == pytest.approx(runs.lengths[mine].mean())
        assert row.n_clear == sum(task.probability >= 0.9 for task in row.members)
    assert easy.n_tasks + hard.n_tasks == 40
    assert easy.share + hard.share == pytest.approx(1.0)
    assert easy.success is not None
    assert hard.success is not None
    assert easy.success > 0.8 > 0.2 > hard.success
    assert easy.mean_steps is not None
    assert hard.mean_steps is not None
    assert easy.mean_steps > 2 * hard.mean_steps


def test_mean_steps_are_the_restricted_mean_of_the_class(runs: StateSequences) -> None:
    fit = fit_mixture(runs, 2, n_starts=6, rng=0)
    table = table_of(runs)
    horizon = int(runs.lengths.max())
    for row, chain in zip(table.rows, fit.chains, strict=True):
        # One state: it ends with the same chance after each step, and the mean is a sum by hand.
        stay = float(chain.transient[0, 0])
        assert row.mean_steps == pytest.approx(sum(stay**d for d in range(horizon)))
        assert row.success == pytest.approx(
            chain.to_success[0] * sum(stay**d for d in range(horizon))
        )


def test_a_rejected_law_keeps_its_figures_to_itself(runs: StateSequences) -> None:
    table = table_of(runs, Verdict.REJECTED)
    for row in table.rows:
        assert row.success is None
        assert row.mean_steps is None
        assert row.observed_success is not None
        assert class_cells(1, row)[3:5] == ("-", "-")
    assert any("withheld" in note for note in table.notes)
    assert not any("withheld" in note for note in table_of(runs).notes)


def test_long_lists_are_cut_and_counted() -> None:
    table = table_of(sequences_of(2 * MAX_LISTED + 30))
    document = table.to_dict()
    for row, plain in zip(table.rows, document["classes"], strict=True):
        assert len(plain["tasks"]) == min(MAX_LISTED, row.n_tasks)
        assert plain["n_not_listed"] == row.n_tasks - len(plain["tasks"])
        assert class_tasks(row, 3).endswith(f"and {row.n_tasks - 3:,} more")
    assert any(plain["n_not_listed"] for plain in document["classes"])


@pytest.fixture(scope="module")
def assessed() -> TraceAssessment:
    lengths, success = lengths_and_ends(40)
    builder = CorpusBuilder()
    for r, (length, won) in enumerate(zip(lengths, success, strict=True)):
        builder.add(
            Trace(
                task_id=f"<b>{r // ATTEMPTS}",
                task_set="set",
                task_repeat=r % ATTEMPTS,
                outcome=Outcome.SUCCESS if won else Outcome.FAILURE,
                n_steps=int(length),
                steps=tuple(Step(name="work") for _ in range(length)),
            )
        )
    settings = ChainSettings(
        process="mixture-2", n_simulated=19, n_refits=19, n_draws=19, n_forecast=0
    )
    return assess_traces(builder.build(), chain=settings, n_resamples=99, rng=0)


def test_text_json_and_page_show_the_classes(assessed: TraceAssessment) -> None:
    assert assessed.chain is not None
    table = assessed.chain.task_classes
    assert table is not None
    document: dict[str, Any] = json.loads(json_text(assessed))
    jsonschema.validate(document, SCHEMA)
    classes = document["process"]["task_classes"]["classes"]
    assert [row["n_tasks"] for row in classes] == [row.n_tasks for row in table.rows]
    assert {task["task_set"] for task in classes[0]["tasks"]} == {"set"}
    text, page = str(assessed), html_text(assessed)
    assert "classes of tasks of the mixture-2 process" in text
    assert "class 1: " in text
    assert "Tasks of each class" in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    for row in table.rows:
        assert f"{row.observed_success:.3f}" in text
        assert f"{row.observed_success:.3f}" in page


def test_a_process_without_classes_has_no_table() -> None:
    builder = CorpusBuilder()
    for r in range(40):
        steps = (Step(name="work"),) * (1 + r % 3)
        outcome = Outcome.SUCCESS if r % 2 else Outcome.FAILURE
        builder.add(Trace(task_id=str(r), outcome=outcome, n_steps=len(steps), steps=steps))
    settings = ChainSettings(quick=True, n_draws=19)
    result = assess_traces(builder.build(), chain=settings, n_resamples=99, rng=0)
    assert result.chain is not None
    assert result.chain.task_classes is None
    assert result.to_dict()["process"]["task_classes"] is None
