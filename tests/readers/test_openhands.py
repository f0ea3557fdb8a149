"""OpenHands: a stream of events, of which the agent's actions are steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import traces
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, Skipped, StepKind, Trace

SAMPLE = DATA / "openhands" / "output.jsonl"


class TestConformance(ReaderConformance):
    format = "openhands"
    sample = "openhands/output.jsonl"
    n_runs = 4


def read(folder: Path, **line: Any) -> list[Any]:
    path = folder / "output.jsonl"
    path.write_text(json.dumps({"instance_id": "i", "history": [], **line}) + "\n")
    return read_all(load_reader("openhands"), path)


def action(name: str, /, number: int = 1, source: str = "agent", **args: Any) -> dict[str, Any]:
    return {"id": number, "source": source, "action": name, "args": args}


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, cut, old, new = traces_of(SAMPLE)
    assert (first.task_id, first.task_set, first.agent, first.model) == (
        "cart-1",
        "shop",
        "CodeActAgent",
        "model-a",
    )
    assert (first.outcome, first.end, first.step_limit) == (Outcome.UNSCORED, End.FINISHED, 4)
    assert [(step.name, step.ok) for step in first.steps] == [
        ("ls", True),
        ("edit", False),
        ("bad call", False),
        ("finish", None),
    ]
    assert (cut.outcome, cut.end, cut.limit_kind) == (Outcome.FAILURE, End.LIMIT, LimitKind.STEPS)
    assert [(step.name, step.ok) for step in cut.steps] == [("respond", None), ("make", False)]
    assert (old.outcome, old.end) == (Outcome.SUCCESS, End.FINISHED)
    assert [(step.name, step.ok) for step in old.steps] == [("pytest", True), ("finish", True)]
    assert (new.model, new.outcome, new.end) == ("model-b", Outcome.UNSCORED, End.FINISHED)
    assert [(step.name, step.ok) for step in new.steps] == [("make", False), ("finish", None)]


@pytest.mark.parametrize(
    ("error", "end", "limit_kind"),
    [
        ("Agent reached maximum iteration", End.LIMIT, LimitKind.STEPS),
        ("RuntimeError: Agent reached maximum budget for conversation", End.LIMIT, LimitKind.COST),
        ("litellm.ContextWindowExceededError: too long", End.LIMIT, LimitKind.CONTEXT),
        ("AgentStuckInLoopError: Agent got stuck in a loop", End.AGENT_ERROR, None),
        ("ConnectionError: gone", End.INFRA_ERROR, None),
        ("", End.UNKNOWN, None),
        (None, End.UNKNOWN, None),
    ],
)
def test_ends(tmp_path: Path, error: Any, end: End, limit_kind: LimitKind | None) -> None:
    (trace,) = read(tmp_path, error=error)
    assert (trace.end, trace.limit_kind, trace.n_steps) == (end, limit_kind, 0)


@pytest.mark.parametrize(
    ("result", "outcome", "end"),
    [
        (None, Outcome.UNSCORED, End.UNKNOWN),
        ({"report": {"resolved": True}}, Outcome.SUCCESS, End.UNKNOWN),
        ({"report": {"resolved": False, "test_timeout": True}}, Outcome.FAILURE, End.UNKNOWN),
        ({"report": {"resolved": False, "error_eval": True}}, Outcome.UNSCORED, End.INFRA_ERROR),
        ({"report": 7}, Outcome.UNSCORED, End.UNKNOWN),
        ("text", Outcome.UNSCORED, End.UNKNOWN),
    ],
)
def test_verdicts_of_the_harness(tmp_path: Path, result: Any, outcome: Outcome, end: End) -> None:
    (trace,) = read(tmp_path, test_result=result)
    assert (trace.outcome, trace.end) == (outcome, end)


def test_what_others_do_is_no_step(tmp_path: Path) -> None:
    history = [
        action("message", source="user"),
        action("recall", source="user"),
        action("system"),
        action("delegate", agent="browser"),
        action("call_tool_mcp", name="search"),
        action("browse", url="u"),
    ]
    (trace,) = read(tmp_path, history=history)
    assert [(step.name, step.kind) for step in trace.steps] == [
        ("delegate", StepKind.HANDOFF),
        ("search", StepKind.TOOL),
        ("browse", StepKind.TOOL),
    ]


@pytest.mark.parametrize("event", [7, "x", None, [3], {"id": []}])
def test_a_history_that_cannot_be_read_costs_the_steps_only(tmp_path: Path, event: Any) -> None:
    note, trace = read(tmp_path, history=[action("finish"), event])
    assert isinstance(note, Skipped)
    assert isinstance(trace, Trace)
    assert trace.n_steps is None


@pytest.mark.parametrize("args", [None, 7, [], "text", {"command": 3}])
def test_arguments_of_another_form_cost_the_name_only(tmp_path: Path, args: Any) -> None:
    (trace,) = read(tmp_path, history=[{"id": 1, "source": "agent", "action": "run", "args": args}])
    assert trace.n_steps == 1


def act(call: str, tool: str, answer: str = "r", /, **action: Any) -> dict[str, Any]:
    return {
        "kind": "ActionEvent",
        "id": f"id {call}",
        "source": "agent",
        "tool_name": tool,
        "tool_call_id": call,
        "llm_response_id": answer,
        "action": action or None,
    }


def answer(call: str, **observation: Any) -> dict[str, Any]:
    event = {"kind": "ObservationEvent", "source": "environment", "tool_call_id": call}
    return {**event, "observation": {"kind": "TerminalObservation", **observation}}


def test_events_of_the_newer_kit(tmp_path: Path) -> None:
    history = [
        {"kind": "SystemPromptEvent", "source": "agent"},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"content": []}},
        act("a", "terminal", "r1", command="cd /x && pytest -q"),
        answer("a", exit_code=1),
        act("b", "file_editor", "r2", command="view", path="a.py"),
        act("c", "terminal", "r2", command="ls"),
        answer("b"),
        answer("c", exit_code=0),
        {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "lost", "error": "no tool"},
        act("d", "terminal", "r3"),
        {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "d", "error": "bad"},
        {"kind": "CondensationEvent", "source": "environment"},
        {"kind": "MessageEvent", "source": "agent", "llm_message": {"content": [{"text": "so"}]}},
        act("e", "finish", "r5", message="done"),
        answer("e", is_error=False),
    ]
    metadata = {"llm": {"model": "m"}, "dataset": "d", "eval_output_dir": "/x/run-7/"}
    (trace,) = read(tmp_path, history=history, metadata=metadata, attempt=1)
    assert (trace.model, trace.job_id, trace.task_repeat) == ("m", "run-7", 0)
    assert [(step.name, step.ok, step.n_calls) for step in trace.steps] == [
        ("pytest", False, 1),
        ("file_editor view", True, 2),
        ("bad call", False, 1),
        ("terminal", False, 1),
        ("respond", None, 0),
        ("finish", True, 1),
    ]
    assert trace.end is End.FINISHED


@pytest.mark.parametrize(
    ("last", "error", "end", "limit_kind"),
    [
        (act("z", "terminal"), None, End.UNKNOWN, None),
        (act("z", "finish"), None, End.FINISHED, None),
        (act("z", "finish"), "agent reached maximum iteration", End.LIMIT, LimitKind.STEPS),
        ({"kind": "MessageEvent", "source": "agent"}, None, End.FINISHED, None),
        ({"kind": "ConversationIterationLimitEvent"}, None, End.LIMIT, LimitKind.STEPS),
        (
            {"kind": "ConversationErrorEvent", "code": "MaxIterationsReached", "detail": "x"},
            None,
            End.LIMIT,
            LimitKind.STEPS,
        ),
        ({"kind": "ConversationErrorEvent", "code": "Gone"}, None, End.INFRA_ERROR, None),
        (
            {"kind": "ConversationStateUpdateEvent", "key": "execution_status", "value": "stuck"},
            None,
            End.AGENT_ERROR,
            None,
        ),
    ],
)
def test_ends_of_the_newer_kit(
    tmp_path: Path, last: Any, error: Any, end: End, limit_kind: LimitKind | None
) -> None:
    (trace,) = read(tmp_path, history=[act("a", "terminal"), last], error=error)
    assert (trace.end, trace.limit_kind) == (end, limit_kind)


def test_attempts_that_a_critic_asked_for_are_told(tmp_path: Path) -> None:
    trace, note = read(tmp_path, history=[act("a", "finish")], attempt=2)
    assert trace.task_repeat == 1
    assert (note.what, note.count) == ("key", 1)


@pytest.mark.parametrize("event", [7, "x", {"kind": []}, {"kind": "ActionEvent", "tool_name": 3}])
def test_an_event_of_the_kit_that_is_none_costs_the_steps_only(tmp_path: Path, event: Any) -> None:
    note, trace = read(tmp_path, history=[act("a", "finish"), event])
    assert (note.what, trace.n_steps) == ("key", None)


@pytest.mark.parametrize("part", [7, [], "text"])
def test_parts_of_an_event_of_another_form_cost_no_step(tmp_path: Path, part: Any) -> None:
    events = [{**act("a", "terminal"), "action": part}, {**answer("a"), "observation": part}]
    (trace,) = read(tmp_path, history=events)
    assert [(step.name, step.ok) for step in trace.steps] == [("terminal", True)]


def test_real_output(real_logs: Path) -> None:
    corpus = read_traces(real_logs / "openhands")
    path = real_logs / "openhands" / "multi_swe_bench_examples_output.jsonl"
    histories = [json.loads(line)["history"] for line in path.read_text().splitlines()]
    assert [len(history) for history in histories] == [49, 70, 103]
    # The agent's actions but for the system's, and the calls that could not be understood.
    assert [trace.n_steps for trace in traces(corpus)] == [23, 34, 50]
    assert [trace.end for trace in traces(corpus)] == [End.FINISHED, End.FINISHED, End.LIMIT]
    assert {trace.step_limit for trace in traces(corpus)} == {50}
    assert {trace.outcome for trace in traces(corpus)} == {Outcome.UNSCORED}
