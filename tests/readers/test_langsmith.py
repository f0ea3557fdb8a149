"""LangSmith: the example is the task, and feedback is a verdict only where it is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader
from sojourn.readers.base import ReadOptions
from sojourn.records import Outcome, StepKind


class TestConformance(ReaderConformance):
    format = "langsmith"
    sample = "langsmith/runs.jsonl"
    n_runs = 1


def test_the_sample_is_what_it_was_written_to_be() -> None:
    (trace,) = traces_of(DATA / "langsmith")
    assert (trace.task_id, trace.agent, trace.outcome) == ("ex1", "robo", Outcome.UNSCORED)
    assert [step.name for step in trace.steps] == ["search", "respond"]
    (judged,) = traces_of(DATA / "langsmith", scorer="correct")
    assert judged.outcome is Outcome.SUCCESS


def read(folder: Path, *runs: Any, **options: Any) -> list[Any]:
    path = folder / "runs.json"
    path.write_text(json.dumps(list(runs)))
    return read_all(load_reader("langsmith"), path, ReadOptions(**options))


def run(number: int, run_type: str = "llm", **more: Any) -> dict[str, Any]:
    parent = None if number == 1 else "1"
    own = {"id": str(number), "trace_id": "1", "parent_run_id": parent, "run_type": run_type}
    return {**own, "start_time": f"2026-01-01T00:00:0{number}", **more}


@pytest.mark.parametrize("column", ["ticket", "lane", "name"])
def test_fields_and_metadata_may_name_the_task(tmp_path: Path, column: str) -> None:
    root = run(1, "chain", name="seven", reference_example_id="ex", metadata={"lane": "seven"})
    root["extra"] = {"metadata": {"ticket": "seven"}}
    (trace,) = read(tmp_path, root, run(2), columns={"task_id": column})
    assert trace.task_id == "seven"


def test_other_labels_may_be_named_and_the_example_stays_the_task(tmp_path: Path) -> None:
    root = run(1, "chain", reference_example_id="ex", extra={"metadata": {"lane": "north"}})
    (trace,) = read(tmp_path, root, run(2), columns={"cluster": "lane"})
    assert (trace.task_id, trace.cluster) == ("ex", "north")


@pytest.mark.parametrize("key", ["thread_id", "session_id", "conversation_id"])
def test_a_thread_is_a_session_and_a_project_is_none(tmp_path: Path, key: str) -> None:
    root = run(1, session_id="project", extra={"metadata": {key: "s"}})
    assert read(tmp_path, root)[0].session_id == "s"
    assert read(tmp_path, run(1, session_id="project"))[0].session_id is None


@pytest.mark.parametrize(
    "extra",
    [
        {"metadata": {"ls_model_name": "model-a"}},
        {"invocation_params": {"model": "model-a"}},
        {"invocation_params": {"model_name": "model-a"}},
    ],
)
def test_the_model_stands_in_the_metadata_or_the_parameters(tmp_path: Path, extra: Any) -> None:
    (trace,) = read(tmp_path, run(1, "chain"), run(2, extra=extra))
    assert trace.model == "model-a"


@pytest.mark.parametrize(
    "outputs",
    [
        {"generations": [[{"message": {"kwargs": {"tool_calls": [{"name": "find"}]}}}]]},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": "find"}}]}}]},
        {"message": {"content": [{"type": "text"}, {"type": "tool_use", "name": "find"}]}},
        {"output": [{"type": "reasoning"}, {"type": "function_call", "name": "find"}]},
    ],
)
def test_an_answer_names_the_tool_it_asks_for(tmp_path: Path, outputs: Any) -> None:
    (trace,) = read(tmp_path, run(1, outputs=outputs))
    assert [(s.name, s.kind) for s in trace.steps] == [("find", StepKind.TOOL)]


def test_runs_inside_their_parents_are_read(tmp_path: Path) -> None:
    inner = run(2, "chain", child_runs=[run(3, "tool", name="find"), 7])
    root = run(1, "chain", name="robo", child_runs=[inner])
    skipped, trace = read(tmp_path, root)
    assert (trace.agent, [s.name for s in trace.steps]) == ("robo", ["find"])
    assert skipped.what == "line"


@pytest.mark.parametrize(
    ("feedback", "outcome"),
    [
        ({"n": 2, "avg": 1}, Outcome.SUCCESS),
        ({"n": 2, "avg": 0.5}, Outcome.UNSCORED),
        ({"n": 2, "avg": None, "values": {"correct": 2}}, Outcome.SUCCESS),
        ({"n": 2, "avg": None, "values": {"correct": 1, "wrong": 1}}, Outcome.UNSCORED),
        ({"n": 0}, Outcome.UNSCORED),
    ],
)
def test_feedback(tmp_path: Path, feedback: Any, outcome: Outcome) -> None:
    trace, *_ = read(tmp_path, run(1, feedback_stats={"ok": feedback}), scorer="ok")
    assert trace.outcome is outcome


def test_a_project_is_a_job_and_several_are_told(tmp_path: Path) -> None:
    roots = [
        {**run(1, "chain"), "id": f"r{k}", "trace_id": f"t{k}", "session_id": f"project-{k // 2}"}
        for k in range(4)
    ]
    found = read(tmp_path, *roots)
    assert [trace.job_id for trace in found[:4]] == ["project-0"] * 2 + ["project-1"] * 2
    assert [item.reason for item in found[4:]] == [
        "runs of several jobs in one log; --by job_id keeps them apart"
    ]
    assert len(read(tmp_path, *roots[:2])) == 2


def test_a_run_without_the_attribute_that_was_named_keeps_its_example(tmp_path: Path) -> None:
    trace, note = read(tmp_path, run(1, reference_example_id="ex"), columns={"task_id": "ticket"})
    assert trace.task_id == "ex"
    assert note.reason == "runs without ticket, which --map names for task_id"
