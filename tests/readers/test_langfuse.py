"""Langfuse: observations as turns, and scores that mean what the user says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import traces
from sojourn.readers import load_reader, read_traces
from sojourn.readers.base import ReadOptions
from sojourn.records import End, Outcome, Skipped, StepKind, Trace

SAMPLE = DATA / "langfuse"


class TestConformance(ReaderConformance):
    format = "langfuse"
    sample = "langfuse"
    n_runs = 3
    options = ReadOptions(scorer="correct")


def read(folder: Path, document: Any, **options: Any) -> list[Any]:
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return read_all(load_reader("langfuse"), path, ReadOptions(**options))


def document(*observations: dict[str, Any], **trace: Any) -> dict[str, Any]:
    return {"trace": {"id": "t", **trace}, "observations": list(observations)}


def test_the_sample_is_what_it_was_written_to_be() -> None:
    runs = {trace.task_id: trace for trace in traces_of(SAMPLE, scorer="correct")}
    rows_lost, rows, whole = runs["t-2"], runs["t-3"], runs["t-1"]
    assert (rows_lost.task_id, rows_lost.agent, rows_lost.model) == ("t-2", "desk", "model-b")
    assert (rows_lost.outcome, rows_lost.end) == (Outcome.FAILURE, End.UNKNOWN)
    assert [(s.name, s.kind, s.ok) for s in rows_lost.steps] == [("sell", StepKind.TOOL, None)]
    # Half a point is no verdict, and an error at the root is a fault.
    assert (rows.task_id, rows.outcome, rows.end) == ("t-3", Outcome.UNSCORED, End.INFRA_ERROR)
    assert (whole.task_id, whole.agent, whole.model) == ("t-1", "clerk", "model-a")
    assert (whole.outcome, whole.session_id) == (Outcome.SUCCESS, "s-1")
    assert [(s.name, s.ok, s.n_calls) for s in whole.steps] == [
        ("find", False, 1),
        ("respond", None, 0),
    ]


def test_without_a_name_no_score_is_a_verdict() -> None:
    assert {trace.outcome for trace in traces_of(SAMPLE)} == {Outcome.UNSCORED}
    (note,) = [r for r in read_all(load_reader("langfuse"), SAMPLE / "trace.json")
               if isinstance(r, Skipped)]  # fmt: skip
    assert "--scorer" in note.reason


def test_one_score_alone_is_no_verdict_either(tmp_path: Path) -> None:
    row = {"id": "1", "type": "GENERATION", "traceId": "t"}
    scores = [{"name": "toxicity", "value": 1}]
    trace, note = read(tmp_path, document(row, scores=scores))
    assert (trace.outcome, note.count) == (Outcome.UNSCORED, 1)
    (judged,) = read(tmp_path, document(row, scores=scores), scorer="toxicity")
    assert judged.outcome is Outcome.SUCCESS


def test_a_list_of_traces_is_read(tmp_path: Path) -> None:
    rows = [{"id": "1", "type": "GENERATION", "traceId": t, "metadata": {"observations": 3}}
            for t in ("t", "u")]  # fmt: skip
    assert len(read(tmp_path, rows)) == 2
    whole = [{"id": t, "observations": [{"id": "1", "type": "TOOL", "traceId": t}]} for t in "tu"]
    assert len(read(tmp_path, whole)) == 2


def test_the_metadata_may_name_the_task() -> None:
    runs = traces_of(SAMPLE / "export" / "observations_v2" / "1.jsonl", columns={"task_id": "task"})
    assert [trace.task_id for trace in runs] == ["refund", "refund"]


def test_ids_in_names_make_no_state_and_no_group(tmp_path: Path) -> None:
    ids = [f"0b9f3c1e-6a51-4c7e-9d57-3f1f6d1c2b{n}" for n in (10, 11)]
    found = []
    for name in ids:
        rows = [{"id": "1", "type": "TOOL", "traceId": "t", "name": f"find_{name}"}]
        found += read(tmp_path, document(*rows, name=f"session-{name}"))
    assert [(run.agent, [s.name for s in run.steps]) for run in found] == [
        ("session", ["find"]),
        ("session", ["find"]),
    ]


def test_the_trace_itself_may_name_the_task(tmp_path: Path) -> None:
    row = {"id": "1", "type": "TOOL", "traceId": "t"}
    whole = document(row, metadata={"task": "refund"}, release="r1")
    for column, task in (("task", "refund"), ("release", "r1")):
        (run,) = read(tmp_path, whole, columns={"task_id": column})
        assert (run.task_id, run.n_steps) == (task, 1)


def test_what_an_export_holds_beside_observations_is_no_stranger() -> None:
    assert not [item for item in read_traces(SAMPLE).skipped if item.what == "stranger"]


@pytest.mark.parametrize(
    "output",
    [
        {"tool_calls": [{"function": {"name": "find"}}]},
        {"tool_calls": [{"name": "find"}]},
        {"additional_kwargs": {"tool_calls": [{"function": {"name": "find"}}]}},
        [{"role": "assistant", "parts": [{"type": "text"}, {"type": "tool_call", "name": "find"}]}],
    ],
)
def test_an_answer_names_the_tool_it_asks_for(tmp_path: Path, output: Any) -> None:
    for logged in (output, json.dumps(output)):
        row = {"id": "1", "type": "GENERATION", "traceId": "t", "output": logged}
        (trace,) = read(tmp_path, document(row))
        assert [(s.name, s.kind) for s in trace.steps] == [("find", StepKind.TOOL)]


@pytest.mark.parametrize("output", [None, "text", "{", 7, [], {"tool_calls": 3}, {"parts": [{}]}])
def test_an_answer_that_asks_for_nothing_is_spoken(tmp_path: Path, output: Any) -> None:
    row = {"id": "1", "type": "GENERATION", "traceId": "t", "output": output}
    (trace,) = read(tmp_path, document(row))
    assert [s.name for s in trace.steps] == ["respond"]


@pytest.mark.parametrize(
    "row", [7, {}, {"id": ""}, {"id": 3, "traceId": "t"}, {"id": "1", "type": 2}]
)
def test_what_is_no_observation_is_counted(tmp_path: Path, row: Any) -> None:
    good = {"id": "g", "type": "GENERATION", "traceId": "t"}
    records = read(tmp_path, document(good, row))
    assert sum(isinstance(record, Trace) for record in records) == 1
    assert sum(isinstance(record, Skipped) for record in records) == 1


def test_circles_of_parents_end(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "parentObservationId": "b", "type": "SPAN", "traceId": "t"},
        {"id": "b", "parentObservationId": "a", "type": "TOOL", "name": "find", "traceId": "t"},
    ]
    trace, note = read(tmp_path, document(*rows))
    assert [s.name for s in trace.steps] == ["find"]
    assert note.reason == "circles of parents; each was cut open"


def test_real_traces(real_logs: Path) -> None:
    corpus = read_traces(real_logs / "langfuse")
    assert [[s.name for s in trace.steps] for trace in traces(corpus)] == [
        ["respond"],
        ["Web-Search", "respond"],
        ["get_weather", "respond"],
    ]
    assert {trace.outcome for trace in traces(corpus)} == {Outcome.UNSCORED}
    judged = read_traces(real_logs / "langfuse", options=ReadOptions(scorer="correctness"))
    assert [t.outcome for t in traces(judged)] == [Outcome.UNSCORED] * 2 + [Outcome.SUCCESS]


def test_scores_beside_the_runs_are_pointed_to() -> None:
    wanted = "scores stand beside; choose the one that is the verdict with --scorer NAME"
    skipped = read_traces(DATA / "langfuse" / "export").skipped
    assert wanted in {item.reason for item in skipped}
    chosen = read_traces(DATA / "langfuse" / "export", options=ReadOptions(scorer="correct"))
    assert wanted not in {item.reason for item in chosen.skipped}
