"""Every Eval Ever: lines of one sample are attempts, and an error is no failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader
from sojourn.readers.base import ReadOptions
from sojourn.records import End, Outcome


class TestConformance(ReaderConformance):
    format = "every-eval-ever"
    sample = "every-eval-ever/e1_samples.jsonl"
    n_runs = 4


def test_the_sample_is_what_it_was_written_to_be() -> None:
    runs = traces_of(DATA / "every-eval-ever")
    assert [(t.task_id, t.task_repeat, t.outcome, t.n_steps) for t in runs] == [
        ("q1", 0, Outcome.SUCCESS, 1),
        ("q1", 1, Outcome.FAILURE, 1),
        ("q2", 0, Outcome.SUCCESS, 2),
        ("q3", 0, Outcome.FAILURE, 0),
    ]
    assert [step.name for step in runs[2].steps] == ["search", "respond"]
    assert [trace.end for trace in runs] == [End.UNKNOWN] * 3 + [End.INFRA_ERROR]
    assert {(t.task_set, t.model, t.job_id) for t in runs} == {("sums", "lab/model-a", "e1")}


def read(folder: Path, *lines: dict[str, Any], **options: Any) -> list[Any]:
    base = {"evaluation_id": "e", "model_id": "m", "interaction_type": "single_turn"}
    path = folder / "e.jsonl"
    path.write_text("".join(json.dumps({**base, **line}) + "\n" for line in lines))
    return read_all(load_reader("every-eval-ever"), path, ReadOptions(**options))


def line(sample: str, metric: str, correct: bool) -> dict[str, Any]:
    return {
        "sample_id": sample,
        "evaluation_result_id": metric,
        "evaluation": {"score": float(correct), "is_correct": correct},
    }


def test_lines_of_several_metrics_are_no_attempts(tmp_path: Path) -> None:
    lines = [line("q", "exact", False), line("q", "fuzzy", True), line("q", "exact", True)]
    *runs, note = read(tmp_path, *lines)
    assert [(run.task_repeat, run.outcome) for run in runs] == [
        (0, Outcome.FAILURE),
        (1, Outcome.SUCCESS),
    ]
    assert (note.what, note.count) == ("key", 1)
    run, note = read(tmp_path, *lines, scorer="fuzzy")
    assert (run.outcome, note.count) == (Outcome.SUCCESS, 2)


def test_a_metric_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (refused,) = read(tmp_path, line("q", "exact", True), scorer="moon")
    assert "there are: exact" in refused.reason
