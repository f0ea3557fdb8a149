"""Claude Code: one branch of the tree, several lines a step, and no verdict inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader, read_traces
from sojourn.readers.finding import find_sources
from sojourn.records import End, LimitKind, Outcome, Skipped


class TestConformance(ReaderConformance):
    format = "claude-code"
    sample = "claude-code/s-1.jsonl"
    n_runs = 1


class TestStreamConformance(ReaderConformance):
    format = "claude-code"
    sample = "claude-code-stream/s-2.jsonl"
    n_runs = 1


def test_the_branch_of_the_last_message_counts() -> None:
    (trace,) = traces_of(DATA / "claude-code")
    assert (trace.task_id, trace.model, trace.outcome) == ("s-1", "model-a", Outcome.UNSCORED)
    assert [(step.name, step.ok) for step in trace.steps] == [
        ("pytest", False),
        ("Edit", True),
        ("respond", None),
    ]
    assert [item.count for item in read_traces(DATA / "claude-code").skipped] == [1, 1]


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [
        {
            "type": "assistant",
            "uuid": own,
            "parentUuid": parent,
            "sessionId": "s",
            "message": {"id": own, "content": "é"},
        }
        for own, parent in (("a", "b"), ("b", "a"))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (trace,) = traces_of(path)
    assert trace.n_steps == 2


def turn(own: str, parent: str | None, message: str, *blocks: dict[str, Any], **more: Any) -> Any:
    line = {"type": "assistant", "uuid": own, "parentUuid": parent, "sessionId": "s"}
    return {**line, "message": {"id": message, "model": "m", "content": list(blocks)}, **more}


def said(own: str, parent: str | None, *blocks: dict[str, Any], **more: Any) -> Any:
    line = {"type": "user", "uuid": own, "parentUuid": parent, "sessionId": "s"}
    return {**line, "message": {"role": "user", "content": list(blocks)}, **more}


def call(name: str, number: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "id": number, "input": {}}


def result(number: str, *, failed: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": number, "is_error": failed}


def read(folder: Path, *lines: Any) -> list[Any]:
    path = folder / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_all(load_reader("claude-code"), path)


def test_tools_called_side_by_side_are_one_step(tmp_path: Path) -> None:
    (trace,) = read(
        tmp_path,
        said("u", None, {"type": "text", "text": "go"}),
        turn("a1", "u", "m1", call("Read", "c1")),
        turn("a2", "a1", "m1", call("Grep", "c2")),
        said("r2", "a2", result("c2", failed=True)),
        said("r1", "a1", result("c1")),
        turn("b", "r1", "m2", {"type": "text", "text": "so"}),
    )
    assert [(s.name, s.ok, s.n_calls) for s in trace.steps] == [
        ("Read", False, 2),
        ("respond", None, 0),
    ]


def test_a_compacted_conversation_is_one_run(tmp_path: Path) -> None:
    (trace,) = read(
        tmp_path,
        turn("a", None, "m1", call("Read", "c1")),
        said("r", "a", result("c1")),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "x",
            "parentUuid": None,
            "logicalParentUuid": "r",
            "sessionId": "s",
        },
        said("y", "x", {"type": "text", "text": "summary"}, isCompactSummary=True),
        turn("b", "y", "m2", call("Edit", "c2")),
    )
    assert [(s.name, s.ok) for s in trace.steps] == [("Read", True), ("Edit", None)]


def test_what_the_program_wrote_is_no_step_and_tells_the_end(tmp_path: Path) -> None:
    error = turn("b", "a", "m2", {"type": "text", "text": "API Error"}, isApiErrorMessage=True)
    error["message"]["model"] = "<synthetic>"
    trace, note = read(tmp_path, turn("a", None, "m1", call("Read", "c1")), error)
    assert (trace.model, trace.n_steps, trace.end) == ("m", 1, End.INFRA_ERROR)
    assert note.count == 1
    stop = {"type": "text", "text": "[Request interrupted by user for tool use]"}
    (stopped,) = read(tmp_path, turn("a", None, "m1", call("Read", "c1")), said("u", "a", stop))
    assert stopped.end is End.CANCELLED


def test_the_file_of_a_subagent_is_no_run(tmp_path: Path) -> None:
    (refused,) = read(tmp_path, turn("a", None, "m1", call("Read", "c1"), isSidechain=True))
    assert isinstance(refused, Skipped)
    assert "only messages of a subagent" in refused.reason


def heard(kind: str, *blocks: dict[str, Any], message: str = "m1", **more: Any) -> dict[str, Any]:
    own = {"type": kind, "session_id": "s", "parent_tool_use_id": None}
    spoken = {"id": message, "model": "m", "role": kind, "content": list(blocks)}
    return {**own, "message": spoken, **more}


INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "model-a", "tools": []}


def test_a_stream_of_messages_is_read(tmp_path: Path) -> None:
    bash = {**call("Bash", "c1"), "input": {"command": "cd /x && pytest"}}
    records = read(
        tmp_path,
        INIT,
        heard("assistant", {"type": "text", "text": "first"}),
        heard("assistant", bash),
        heard("user", result("c1", failed=True)),
        heard("assistant", call("Read", "c2"), message="x", parent_tool_use_id="c1"),
        heard("assistant", {"type": "text", "text": "so"}, message="m2"),
        {"type": "result", "subtype": "success", "is_error": False, "session_id": "s"},
        7,
    )
    skipped, trace, note = records
    assert (skipped.what, note.count) == ("line", 1)
    assert (trace.task_id, trace.model, trace.end) == ("s", "model-a", End.FINISHED)
    assert [(s.name, s.ok) for s in trace.steps] == [("pytest", False), ("respond", None)]
    (source,) = find_sources(tmp_path / "s.jsonl")
    assert source.reader.name == "claude-code"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("result", "end", "limit_kind"),
    [
        ({"subtype": "success"}, End.FINISHED, None),
        ({"subtype": "success", "is_error": True}, End.INFRA_ERROR, None),
        ({"subtype": "error_max_turns", "is_error": True}, End.LIMIT, LimitKind.TURNS),
        ({"subtype": "error_max_budget_usd"}, End.LIMIT, LimitKind.COST),
        ({"subtype": "error_during_execution"}, End.INFRA_ERROR, None),
        (None, End.UNKNOWN, None),
    ],
)
def test_ends_of_a_stream(
    tmp_path: Path, result: Any, end: End, limit_kind: LimitKind | None
) -> None:
    lines = [INIT, heard("assistant", {"type": "text", "text": "so"})]
    if result is not None:
        lines.append({"type": "result", "session_id": "s", **result})
    trace, *notes = read(tmp_path, *lines)
    assert (trace.end, trace.limit_kind) == (end, limit_kind)
    assert [note.reason[:25] for note in notes] == ["sessions without a result"] * (result is None)


def test_sessions_of_one_stream_are_runs(tmp_path: Path) -> None:
    other = heard("assistant", call("Edit", "c9"), session_id="t")
    lines = [INIT, heard("assistant", call("Read", "c1")), other, {**INIT, "session_id": "u"}]
    first, second, silent, open_ = read(tmp_path, *lines)
    assert [(t.task_id, t.steps[0].name) for t in (first, second)] == [("s", "Read"), ("t", "Edit")]
    assert (silent.count, open_.count) == (1, 2)
    (refused,) = read(tmp_path, INIT)
    assert refused.what == "file"
