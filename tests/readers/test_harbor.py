"""Harbor and ATIF: a timeout keeps its reward, another exception is no failure of the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader, read_traces
from sojourn.readers.base import ReadOptions
from sojourn.records import End, LimitKind, Outcome, Skipped, Trace


class TestAtif(ReaderConformance):
    format = "atif"
    sample = "atif"
    n_runs = 2


class TestHarbor(ReaderConformance):
    format = "harbor"
    sample = "harbor"
    n_runs = 4

    def unharmed(self, path: Path) -> bool:
        return path.parent.name == "job"  # the summary of the job, which is not read


def test_copied_steps_are_not_counted_twice() -> None:
    first, second = traces_of(DATA / "atif")
    assert (first.task_id, first.agent, first.model) == ("s-1", "robo", "model-a")
    assert [step.name for step in first.steps] == ["make", "respond"]
    assert [step.name for step in second.steps] == ["search"]
    assert {trace.outcome for trace in (first, second)} == {Outcome.UNSCORED}
    assert [item.count for item in read_traces(DATA / "atif").skipped] == [1, 1]


def test_the_trials() -> None:
    runs = {Path(trace.source_uri).parent.name: trace for trace in traces_of(DATA / "harbor")}
    assert [(n, t.outcome, t.end, t.n_steps) for n, t in sorted(runs.items())] == [
        ("sort__a", Outcome.SUCCESS, End.LIMIT, 1),
        ("sort__b", Outcome.UNSCORED, End.INFRA_ERROR, 1),
        ("sum__a", Outcome.SUCCESS, End.FINISHED, 2),
        ("sum__b", Outcome.FAILURE, End.LIMIT, 1),
    ]
    assert runs["sum__b"].limit_kind is LimitKind.TIME
    assert {(t.task_set, t.agent, t.model) for t in runs.values()} == {
        ("tiny-bench", "robo", "model-a")
    }


@pytest.mark.parametrize(
    ("rewards", "scorer", "outcome"),
    [
        ({"reward": 1, "style": 0}, None, Outcome.SUCCESS),
        ({"reward": 1, "style": 0}, "style", Outcome.FAILURE),
        ({"style": 0.999}, None, Outcome.FAILURE),
        ({"style": 1, "speed": 1}, None, Outcome.UNSCORED),
        ({"reward": None}, None, Outcome.UNSCORED),
        (None, None, Outcome.UNSCORED),
    ],
)
def test_rewards(tmp_path: Path, rewards: Any, scorer: str | None, outcome: Outcome) -> None:
    document = {"task_name": "t", "trial_name": "t__1", "verifier_result": {"rewards": rewards}}
    (tmp_path / "result.json").write_text(json.dumps(document))
    found = read_all(load_reader("harbor"), tmp_path, ReadOptions(scorer=scorer))
    (trace,) = [record for record in found if isinstance(record, Trace)]
    assert (trace.outcome, trace.n_steps) == (outcome, None)
    assert any(isinstance(record, Skipped) for record in found)


def test_a_timeout_inside_a_step_is_found(tmp_path: Path) -> None:
    fault = {"exception_info": {"exception_type": "AgentTimeoutError"}}
    document = {"task_name": "t", "trial_name": "t__1", "step_results": [fault]}
    (tmp_path / "result.json").write_text(json.dumps(document))
    (trace,) = traces_of(tmp_path)
    assert (trace.end, trace.limit_kind) == (End.LIMIT, LimitKind.TIME)


def trajectory(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"source": "agent", **step} for step in steps],
        **more,
    }


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function_name": name, "arguments": arguments}]}


def write(folder: Path, name: str, document: Any) -> None:
    (folder / name).write_text(json.dumps(document))


def test_a_trajectory_goes_on_in_the_files_beside_it(tmp_path: Path) -> None:
    ref = {"continued_trajectory_ref": "trajectory.cont-1.json"}
    write(tmp_path, "trajectory.json", trajectory(call("find"), **ref))
    again = trajectory({**call("find"), "is_copied_context": True}, call("sell"))
    write(tmp_path, "trajectory.cont-1.json", again)
    corpus = read_traces(tmp_path)
    assert [[s.name for s in corpus.trace(n).steps] for n in range(len(corpus))] == [
        ["find", "sell"]
    ]
    assert [(item.what, item.count) for item in corpus.skipped] == [("key", 1)]


@pytest.mark.parametrize("ref", ["trajectory.json", "gone.json", "../other.json", 7, ["x"]])
def test_a_trajectory_that_goes_on_nowhere_says_so(tmp_path: Path, ref: Any) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write(tmp_path, "other.json", trajectory(call("sell")))
    write(inner, "trajectory.json", trajectory(call("find"), continued_trajectory_ref=ref))
    note, run = read_all(load_reader("atif"), inner / "trajectory.json")
    assert isinstance(note, Skipped)
    assert "which is not there" in note.reason
    assert run.n_steps == 1  # type: ignore[union-attr]


def test_a_damaged_continuation_costs_its_own_steps(tmp_path: Path) -> None:
    ref = {"continued_trajectory_ref": "trajectory.cont-1.json"}
    write(tmp_path, "trajectory.json", trajectory(call("find"), **ref))
    (tmp_path / "trajectory.cont-1.json").write_text("{")
    note, run = read_all(load_reader("atif"), tmp_path / "trajectory.json")
    assert isinstance(note, Skipped)
    assert (note.what, run.n_steps) == ("key", 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash_command", {"keystrokes": "make test\n", "duration": 1.0}),
        ("exec_command", {"cmd": "cd /x && make"}),
        ("shell", {"command": ["bash", "-lc", "make all"]}),
    ],
)
def test_shells_of_the_known_agents_name_their_command(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    step = {**call(name, **arguments), "model_name": "m"}
    write(tmp_path, "t.json", trajectory(step))
    (run,) = traces_of(tmp_path)
    assert ([s.name for s in run.steps], run.model) == (["make"], "m")
