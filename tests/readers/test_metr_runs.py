"""METR runs: families are clusters, and a fatal error has an author."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader
from sojourn.records import End, LimitKind, Outcome, Skipped


class TestConformance(ReaderConformance):
    format = "metr-runs"
    sample = "metr-runs/runs.jsonl"
    n_runs = 4
    steps_known = False


def read(folder: Path, **line: Any) -> list[Any]:
    path = folder / "runs.jsonl"
    path.write_text(json.dumps({"task_id": "a", "score_binarized": 1, **line}) + "\n")
    return read_all(load_reader("metr-runs"), path)


def test_the_sample_is_what_it_was_written_to_be() -> None:
    runs = traces_of(DATA / "metr-runs")
    assert [(t.task_id, t.task_repeat, t.model, t.cluster) for t in runs] == [
        ("shop/a", 0, "m1", "shop"),
        ("shop/a", 1, "m1", "shop"),
        ("shop/b", 0, "m1", "shop"),
        ("maze/é", 0, "human", "maze"),
    ]
    assert [(t.outcome, t.score, t.end) for t in runs] == [
        (Outcome.SUCCESS, 1.0, End.FINISHED),
        (Outcome.FAILURE, 0.0, End.LIMIT),
        (Outcome.FAILURE, 0.0, End.INFRA_ERROR),
        (Outcome.SUCCESS, 1.0, End.FINISHED),
    ]


@pytest.mark.parametrize(
    ("source", "end", "limit_kind"),
    [
        (None, End.FINISHED, None),
        ("agent", End.AGENT_ERROR, None),
        ("usageLimits", End.LIMIT, LimitKind.CUSTOM),
        ("user", End.CANCELLED, None),
        ("server", End.INFRA_ERROR, None),
        ("serverOrTask", End.INFRA_ERROR, None),
        ("of tomorrow", End.INFRA_ERROR, None),
    ],
)
def test_fatal_errors(tmp_path: Path, source: Any, end: End, limit_kind: Any) -> None:
    (trace,) = read(tmp_path, fatal_error_from=source)
    assert (trace.end, trace.limit_kind) == (end, limit_kind)


@pytest.mark.parametrize("line", [{"score_binarized": 0.5}, {"score_binarized": []}, {"task_id": 3},
                                  {"task_id": ""}])  # fmt: skip
def test_what_is_no_run_is_counted(tmp_path: Path, line: dict[str, Any]) -> None:
    (skipped,) = read(tmp_path, **line)
    assert isinstance(skipped, Skipped)


@pytest.mark.parametrize("score", [None, float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_none(tmp_path: Path, score: Any) -> None:
    (trace,) = read(tmp_path, score_cont=score, score_binarized=None)
    assert (trace.score, trace.outcome) == (None, Outcome.UNSCORED)
