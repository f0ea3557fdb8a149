"""promptfoo: repeats regrouped by their test, and errors that are no failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, Outcome, Skipped, Trace

SAMPLE = DATA / "promptfoo" / "results.json"


class TestConformance(ReaderConformance):
    format = "promptfoo"
    sample = "promptfoo/results.json"
    n_runs = 5
    steps_known = False


def read(folder: Path, *rows: Any) -> list[Any]:
    path = folder / "results.json"
    path.write_text(json.dumps({"evalId": "e", "results": {"results": list(rows)}}))
    return read_all(load_reader("promptfoo"), path)


def test_repeats_are_attempts_at_one_task() -> None:
    runs = traces_of(SAMPLE)
    assert [(t.task_id == runs[0].task_id, t.task_repeat, t.agent) for t in runs] == [
        (True, 0, "prompt 0"),
        (True, 1, "prompt 0"),
        (False, 0, "prompt 0"),
        (False, 1, "prompt 0"),
        (True, 0, "prompt 1"),
    ]
    assert [(t.outcome, t.end) for t in runs] == [
        (Outcome.SUCCESS, End.FINISHED),
        (Outcome.FAILURE, End.FINISHED),
        (Outcome.SUCCESS, End.FINISHED),
        (Outcome.UNSCORED, End.INFRA_ERROR),
        (Outcome.SUCCESS, End.FINISHED),
    ]
    assert {t.model for t in runs} == {"lab:model-a"}
    assert [item.count for item in read_traces(SAMPLE).skipped] == [1]  # from the cache


def test_the_name_of_a_task_does_not_hang_on_the_order_of_keys(tmp_path: Path) -> None:
    tests = [{"vars": {"a": 1, "b": 2}}, {"vars": {"b": 2, "a": 1}}, {"vars": {"a": 1, "b": 3}}]
    runs = read(tmp_path, *({"success": True, "testCase": test} for test in tests))
    assert runs[0].task_id == runs[1].task_id != runs[2].task_id


@pytest.mark.parametrize(
    ("row", "outcome", "end"),
    [
        ({"success": False, "failureReason": 1, "error": "no"}, Outcome.FAILURE, End.FINISHED),
        ({"success": False, "failureReason": 2}, Outcome.UNSCORED, End.INFRA_ERROR),
        ({"success": False, "error": "x"}, Outcome.UNSCORED, End.INFRA_ERROR),
        ({"success": False, "error": "x", "gradingResult": {}}, Outcome.FAILURE, End.FINISHED),
        ({}, Outcome.UNSCORED, End.UNKNOWN),
    ],
)
def test_verdicts(tmp_path: Path, row: dict[str, Any], outcome: Outcome, end: End) -> None:
    (trace,) = read(tmp_path, {"vars": {"a": 1}, **row})
    assert (trace.outcome, trace.end) == (outcome, end)


@pytest.mark.parametrize("row", [7, None, [], {"success": []}, {"provider": 3}, {"testIdx": "a"}])
def test_what_is_no_result_is_counted(tmp_path: Path, row: Any) -> None:
    records = read(tmp_path, row, {"success": True, "testIdx": 1})
    assert [type(record) for record in records] == [Skipped, Trace]
    assert records[1].task_id == "test 1"


def test_a_list_of_old_is_read_and_no_list_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": [{"success": True, "vars": {"a": 1}}]}))
    assert len(read_all(load_reader("promptfoo"), path)) == 1
    path.write_text(json.dumps({"results": {"table": 3}}))
    (refused,) = read_all(load_reader("promptfoo"), path)
    assert refused.what == "file"
