"""promptfoo: repeats regrouped by their test, and errors that are no failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader, read_traces
from sojourn.readers.finding import find_sources
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


def row(test: int, prompt: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "testIdx": test,
        "promptIdx": prompt,
        "promptId": f"rendered {test}",
        "prompt": {"raw": f"q {test}", "label": f"template {prompt % 2}"},
        "provider": {"id": "lab:model-a"},
        "vars": {"a": 1},
        "success": True,
        **more,
    }


def test_lines_are_results(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    # An id and a success are words of our own rows too.
    lines = [row(0, evalId="e", id="r1"), 7, row(1, evalId="e", id="r2", success=False)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (source,) = find_sources(path)
    assert source.reader.name == "promptfoo"  # type: ignore[union-attr]
    first, second = traces_of(path)
    assert first.task_id == second.task_id
    assert [(t.task_repeat, t.outcome, t.job_id) for t in (first, second)] == [
        (0, Outcome.SUCCESS, "e"),
        (1, Outcome.FAILURE, "e"),
    ]
    assert [item.what for item in read_traces(path).skipped] == ["run"]


def test_a_prompt_is_told_by_its_template(tmp_path: Path) -> None:
    one = read(tmp_path, row(0), row(1), row(2, vars={"a": 2}))
    assert {trace.agent for trace in one} == {""}
    two = read(tmp_path, row(0), row(0, 1), row(1), row(1, 1))
    assert [trace.agent for trace in two] == ["prompt 0", "prompt 1"] * 2


def test_the_newer_groups_of_repeats_tell_the_attempts(tmp_path: Path) -> None:
    rows = [
        row(n, repeatGroupId=group, repeatIndex=repeat, vars={"clock": n})
        for n, (group, repeat) in enumerate([("g", 1), ("h", 0), ("g", 0)])
    ]
    runs = read(tmp_path, *rows)
    assert [(run.task_id, run.task_repeat) for run in runs] == [("g", 1), ("h", 0), ("g", 0)]


def test_a_retry_replaces_what_it_tried_again(tmp_path: Path) -> None:
    rows = [row(0, success=False, failureReason=2), row(1, success=False), row(0)]
    *runs, note = read(tmp_path, *rows)
    assert [run.outcome for run in runs] == [Outcome.FAILURE, Outcome.SUCCESS]
    assert (note.what, note.count) == ("key", 1)
    assert "replaced" in note.reason


def test_a_judgement_from_the_cache_tells_of_a_cached_answer(tmp_path: Path) -> None:
    cached = row(0, gradingResult={"metadata": {"cachedResponse": True}})
    odd = row(1, gradingResult={"metadata": 7})
    *_, note = read(tmp_path, cached, odd)
    assert (note.count, note.reason[:22]) == (1, "answers from the cache")


def test_a_list_of_old_is_read_and_no_list_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": [{"success": True, "vars": {"a": 1}}]}))
    assert len(read_all(load_reader("promptfoo"), path)) == 1
    path.write_text(json.dumps({"results": {"table": 3}}))
    (refused,) = read_all(load_reader("promptfoo"), path)
    assert refused.what == "file"
