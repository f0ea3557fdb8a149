"""MLflow: spans as turns, in each of the shapes in which traces are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader, read_traces
from sojourn.readers.base import ReadOptions
from sojourn.readers.finding import find_sources
from sojourn.records import End, Outcome, Skipped, StepKind, Trace

SAMPLE = DATA / "mlflow" / "traces.json"


class TestConformance(ReaderConformance):
    format = "mlflow"
    sample = "mlflow/traces.json"
    n_runs = 2
    options = ReadOptions(scorer="correct")


def write(folder: Path, document: Any) -> Path:
    path = folder / "traces.json"
    path.write_text(json.dumps(document))
    return path


def read(folder: Path, document: Any, **options: Any) -> list[Any]:
    return read_all(load_reader("mlflow"), write(folder, document), ReadOptions(**options))


def span(number: int, kind: str, name: str = "x", parent: Any = "1", **more: Any) -> dict[str, Any]:
    return {
        "trace_id": "t",
        "span_id": str(number),
        "parent_span_id": None if number == 1 else parent,
        "name": name,
        "start_time_unix_nano": number,
        "status": {"code": "STATUS_CODE_OK"},
        "attributes": {"mlflow.spanType": json.dumps(kind), "mlflow.traceRequestId": '"t"'},
        **more,
    }


def trace(*spans: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"trace_id": "t", "trace_metadata": {}, **info}, "data": {"spans": list(spans)}}


def feedback(name: str, value: Any, source: str = "CODE", **more: Any) -> dict[str, Any]:
    return {
        "assessment_name": name,
        "feedback": {"value": value},
        "source": {"source_type": source},
        **more,
    }


CHAT = span(1, "CHAT_MODEL")


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, second = traces_of(SAMPLE, scorer="correct")
    assert (first.task_id, first.agent, first.model) == ("tr-1", "clerk", "model-a")
    assert (first.outcome, first.end, first.session_id) == (Outcome.SUCCESS, End.UNKNOWN, "s-1")
    # The second call of the tool is no other tool, though its span has a number of its own.
    assert [(s.name, s.ok) for s in first.steps] == [
        ("find", True),
        ("find", False),
        ("respond", None),
    ]
    assert (second.task_id, second.agent, second.model) == ("tr-2", "desk", "model-b")
    assert (second.outcome, second.end) == (Outcome.FAILURE, End.INFRA_ERROR)
    assert [(s.name, s.kind) for s in second.steps] == [("sell", StepKind.TOOL)]


def test_what_a_scorer_left_is_no_run() -> None:
    corpus = read_traces(SAMPLE)
    assert len(corpus) == 2
    assert sum("scorer" in item.reason and item.what == "key" for item in corpus.skipped) == 2


def test_without_a_name_no_feedback_is_a_verdict() -> None:
    corpus = read_traces(SAMPLE)
    assert {corpus.trace(run).outcome for run in range(2)} == {Outcome.UNSCORED}
    assert any("--scorer" in item.reason and item.count == 2 for item in corpus.skipped)


@pytest.mark.parametrize(
    ("column", "task"),
    [("ticket", "refund"), ("lane", "7"), ("client_request_id", "c-1"), ("mine", "seven")],
)
def test_tags_metadata_info_and_attributes_may_name_the_task(
    tmp_path: Path, column: str, task: str
) -> None:
    own = span(1, "LLM")
    own["attributes"]["mine"] = '"seven"'
    document = trace(
        own, tags={"ticket": "refund"}, trace_metadata={"lane": 7}, client_request_id="c-1"
    )
    (run,) = read(tmp_path, document, columns={"task_id": column})
    assert run.task_id == task


def shapes() -> dict[str, Any]:
    whole = trace(CHAT)
    info, spans = whole["info"], whole["data"]["spans"]
    row = {**info, "spans": spans, "request": "q"}
    return {
        "one": whole,
        "list": [whole],
        "search": {"traces": [whole], "next_page_token": None},
        "row": [row],
        "row of strings": [{**info, "trace": json.dumps(whole), "spans": json.dumps(spans)}],
        "server": {"trace": {"trace_info": info, "spans": spans}},
        "server, with data": {"trace": {"trace_info": info, "trace_data": {"spans": spans}}},
        "artifact": {"spans": spans},
        "spans": spans,
        "schema 2": {
            "info": {"request_id": "t", "status": "OK", "request_metadata": {}},
            "data": {
                "spans": [
                    {
                        "name": "x",
                        "context": {"trace_id": "0x1", "span_id": "0x2"},
                        "parent_id": None,
                        "start_time": 5,
                        "status_code": "OK",
                        "attributes": CHAT["attributes"],
                    }
                ]
            },
        },
        "attributes in a list": trace(
            {
                **CHAT,
                "attributes": [{"key": "mlflow.spanType", "value": {"string_value": '"LLM"'}}],
            }
        ),
    }


@pytest.mark.parametrize("shape", list(shapes()))
def test_every_shape_is_claimed_and_read(tmp_path: Path, shape: str) -> None:
    path = write(tmp_path, shapes()[shape])
    (source,) = find_sources(path)
    assert source.reader.name == "mlflow"  # type: ignore[union-attr]
    (run,) = traces_of(path)
    assert (run.task_id, [s.name for s in run.steps]) == ("t", ["respond"])


def test_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    lines = [trace(CHAT, trace_id=name) for name in ("t", "u")]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, 7]))
    runs = read_all(load_reader("mlflow"), path)
    assert [type(run) for run in runs] == [Skipped, Trace, Trace]


@pytest.mark.parametrize(
    ("assessments", "outcome"),
    [
        ([feedback("ok", "yes"), feedback("ok", "no")], Outcome.FAILURE),
        ([feedback("ok", "yes", "HUMAN"), feedback("ok", "no", "LLM_JUDGE")], Outcome.SUCCESS),
        ([feedback("ok", True), feedback("ok", False, valid=False)], Outcome.SUCCESS),
        ([feedback("ok", 1.0), feedback("ok", 0.0, span_id="1")], Outcome.SUCCESS),
        ([feedback("other", True)], Outcome.UNSCORED),
        ([{"assessment_name": "ok", "expectation": {"value": True}}], Outcome.UNSCORED),
        ([{"name": "ok", "feedback": {"value": True}}], Outcome.SUCCESS),  # of old
    ],
)
def test_verdicts(tmp_path: Path, assessments: list[Any], outcome: Outcome) -> None:
    run, *notes = read(tmp_path, trace(CHAT, assessments=assessments), scorer="ok")
    assert run.outcome is outcome
    said = ["no scorer is called ok; there are: other"] if "other" in str(assessments) else []
    assert [note.reason for note in notes] == said


@pytest.mark.parametrize("value", [0.5, [1], {"a": 1}, "perhaps"])
def test_a_feedback_that_is_no_verdict_is_counted(tmp_path: Path, value: Any) -> None:
    run, *notes = read(tmp_path, trace(CHAT, assessments=[feedback("ok", value)]), scorer="ok")
    assert run.outcome is Outcome.UNSCORED
    assert [note.what for note in notes] == (["verdict"])


def test_numbers_are_names_where_nothing_was_numbered(tmp_path: Path) -> None:
    names = ["step_1", "step_2", "gpt_4", "find_2", "find_3"]
    spans = [span(n, "TOOL", name) for n, name in enumerate(names, start=2)]
    (run,) = read(tmp_path, trace(span(1, "AGENT"), *spans))
    assert [s.name for s in run.steps] == ["step", "step", "gpt_4", "find_2", "find_3"]


@pytest.mark.parametrize(
    "row", [7, {}, {"info": 7, "data": {"spans": []}}, {"info": {"trace_id": "t"}}]
)
def test_what_is_no_trace_is_counted(tmp_path: Path, row: Any) -> None:
    records = read(tmp_path, [row, trace(CHAT)])
    assert sum(isinstance(record, Trace) for record in records) == 1
    assert any(isinstance(record, Skipped) for record in records)


@pytest.mark.parametrize("bad", [7, {}, {"span_id": []}, {"span_id": "2", "attributes": 7}])
def test_what_is_no_span_is_counted(tmp_path: Path, bad: Any) -> None:
    skipped, run = read(tmp_path, trace(CHAT, bad))
    assert isinstance(skipped, Skipped)
    assert run.n_steps == 1
