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
    n_runs = 3


def read(folder: Path, **line: Any) -> list[Any]:
    path = folder / "output.jsonl"
    path.write_text(json.dumps({"instance_id": "i", "history": [], **line}) + "\n")
    return read_all(load_reader("openhands"), path)


def action(name: str, /, number: int = 1, source: str = "agent", **args: Any) -> dict[str, Any]:
    return {"id": number, "source": source, "action": name, "args": args}


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, cut, old = traces_of(SAMPLE)
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


@pytest.mark.parametrize("event", [7, "x", None, [3], {"id": []}, {"kind": "ActionEvent"}])
def test_a_history_that_cannot_be_read_costs_the_steps_only(tmp_path: Path, event: Any) -> None:
    note, trace = read(tmp_path, history=[action("finish"), event])
    assert isinstance(note, Skipped)
    assert isinstance(trace, Trace)
    assert trace.n_steps is None


@pytest.mark.parametrize("args", [None, 7, [], "text", {"command": 3}])
def test_arguments_of_another_form_cost_the_name_only(tmp_path: Path, args: Any) -> None:
    (trace,) = read(tmp_path, history=[{"id": 1, "source": "agent", "action": "run", "args": args}])
    assert trace.n_steps == 1


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
