"""OpenAI Agents SDK: a run is a trace, its turns are the calls of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader
from sojourn.readers.base import ReadOptions
from sojourn.readers.finding import find_sources
from sojourn.records import Outcome, Skipped, StepKind, Trace


class TestConformance(ReaderConformance):
    format = "openai-agents"
    sample = "openai-agents/t.jsonl"
    n_runs = 1


def test_the_sample_is_what_it_was_written_to_be() -> None:
    (trace,) = traces_of(DATA / "openai-agents")
    assert (trace.task_id, trace.agent, trace.model) == ("trace_1", "robo", "model-a")
    assert trace.outcome is Outcome.UNSCORED
    assert [(s.name, s.ok) for s in trace.steps] == [("search", False), ("respond", None)]


def span(number: int = 1, **data: Any) -> dict[str, Any]:
    own = {"object": "trace.span", "id": f"s{number}", "trace_id": "t", "parent_id": None}
    return {**own, "started_at": f"2026-01-01T00:00:0{number}Z", "span_data": data, "error": None}


def read(folder: Path, *lines: Any, **options: Any) -> list[Any]:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_all(load_reader("openai-agents"), path, ReadOptions(**options))


SAID = span(type="generation", model="m", output=[{"role": "assistant", "content": "so"}])
WHOLE = {
    "object": "trace",
    "id": "t",
    "workflow_name": "desk",
    "group_id": "chat-1",
    "metadata": {"ticket": "refund", "attempt": 2},
}


@pytest.mark.parametrize("lines", [(WHOLE, SAID), (SAID, WHOLE)])
def test_the_record_of_a_trace_may_stand_on_either_side(tmp_path: Path, lines: Any) -> None:
    (run,) = read(tmp_path, *lines)
    assert (run.agent, run.session_id, run.position, run.n_steps) == ("desk", "chat-1", 0, 1)


@pytest.mark.parametrize(
    ("column", "task"), [("ticket", "refund"), ("workflow_name", "desk"), ("model", "m")]
)
def test_the_trace_and_its_spans_may_name_the_task(tmp_path: Path, column: str, task: str) -> None:
    columns = {"task_id": column, "task_repeat": "attempt"}
    (run,) = read(tmp_path, SAID, WHOLE, columns=columns)
    assert (run.task_id, run.task_repeat) == (task, 2)


def test_a_trace_without_spans_is_no_run(tmp_path: Path) -> None:
    (note,) = read(tmp_path, WHOLE)
    assert isinstance(note, Skipped)
    assert "no runs" in note.reason


def test_an_array_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([WHOLE, SAID, 7]))
    (source,) = find_sources(path)
    assert source.reader.name == "openai-agents"  # type: ignore[union-attr]
    records = read_all(load_reader("openai-agents"), path)
    assert [type(record) for record in records] == [Skipped, Trace]


def test_an_answer_names_the_tool_it_asks_for(tmp_path: Path) -> None:
    output = [{"role": "assistant", "tool_calls": [{"function": {"name": "find"}}]}]
    (run,) = read(tmp_path, span(type="generation", output=output))
    assert [(s.name, s.kind) for s in run.steps] == [("find", StepKind.TOOL)]


def test_turns_tasks_and_guardrails_are_no_steps(tmp_path: Path) -> None:
    """Spans of turns and tasks are exported as custom ones."""
    others = [
        span(2, type="custom", name="task", data={"sdk_span_type": "task"}),
        span(3, type="custom", name="turn", data={"sdk_span_type": "turn"}),
        span(4, type="guardrail", name="safe", triggered=False),
        span(5, type="mcp_tools", server="s", result=[]),
        span(6, type="handoff", from_agent="a", to_agent="b"),
    ]
    (run,) = read(tmp_path, SAID, *others)
    assert [s.name for s in run.steps] == ["handoff"]
