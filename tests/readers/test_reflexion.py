"""Reflexion: cumulative states of trials as first passages, not as independent attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import group, n_success, success_within, traces
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, Skipped, Trace

SAMPLE = DATA / "reflexion"
SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE


class TestConformance(ReaderConformance):
    format = "reflexion"
    sample = "reflexion"
    n_runs = 5


def write(folder: Path, *trials: dict[str, Any] | None) -> list[Any]:
    for number, states in enumerate(trials):
        if states is not None:
            items = [{"name": n, "memory": [], "is_success": s} for n, s in states.items()]
            (folder / f"env_results_trial_{number}.json").write_text(json.dumps(items))
    return read_all(load_reader("reflexion"), folder)


def found(records: list[Any]) -> dict[str, tuple[Outcome, int | None]]:
    return {r.task_id: (r.outcome, r.n_steps) for r in records if isinstance(r, Trace)}


def notes(records: list[Any]) -> dict[str, int]:
    return {record.reason: record.count for record in records if isinstance(record, Skipped)}


def test_the_sample_is_what_it_was_written_to_be() -> None:
    runs = {trace.task_id: trace for trace in traces_of(SAMPLE)}
    assert {name: (t.outcome, t.n_steps, t.end) for name, t in runs.items()} == {
        "env_0": (SUCCESS, 1, End.FINISHED),
        "env_1": (SUCCESS, 2, End.FINISHED),
        "env_2": (FAILURE, 3, End.LIMIT),
        "sum/0": (SUCCESS, 1, End.FINISHED),
        "sum/1": (FAILURE, 3, End.UNKNOWN),
    }
    assert (runs["env_2"].limit_kind, runs["env_2"].step_limit) == (LimitKind.ATTEMPTS, 3)
    assert [(s.name, s.ok) for s in runs["env_1"].steps] == [("trial", None)] * 2
    assert {(t.agent, t.task_set) for t in runs.values()} == {
        ("reflexion", "env_run"),
        ("reflexion", "sums_pass_at_1"),
    }


def test_one_file_tells_who_but_not_when() -> None:
    path = SAMPLE / "env_run" / "env_results_trial_1.json"
    assert [(t.outcome, t.n_steps) for t in traces_of(path)] == [
        (SUCCESS, None), (SUCCESS, None), (FAILURE, None),
    ]  # fmt: skip
    assert any("name the folder" in item.reason for item in read_traces(path).skipped)


def test_missing_trials_are_told(tmp_path: Path) -> None:
    records = write(tmp_path, {"a": False}, None, None, {"a": True})
    assert found(records) == {"a": (SUCCESS, 4)}
    assert list(notes(records).values()) == [2]


def test_who_is_solved_stays_solved(tmp_path: Path) -> None:
    records = write(tmp_path, {"a": True, "b": False}, {"a": False, "b": False})
    assert found(records) == {"a": (SUCCESS, 1), "b": (FAILURE, 2)}
    assert list(notes(records).values()) == [1]


@pytest.mark.parametrize("item", [7, {}, {"name": "b"}, {"name": 3, "is_success": True}, []])
def test_what_is_no_environment_is_counted(tmp_path: Path, item: Any) -> None:
    good = {"name": "a", "is_success": True}
    (tmp_path / "env_results_trial_0.json").write_text(json.dumps([good, item]))
    records = read_all(load_reader("reflexion"), tmp_path)
    assert found(records) == {"a": (SUCCESS, 1)}
    assert len(notes(records)) == 1


def test_a_name_cannot_ask_for_endless_trials(tmp_path: Path) -> None:
    (tmp_path / "env_results_trial_99999.json").write_text('[{"name": "a", "is_success": true}]')
    (refused,) = read_all(load_reader("reflexion"), tmp_path)
    assert "more than" in refused.reason


def test_real_environments(real_logs: Path) -> None:
    corpus = read_traces(real_logs / "reflexion")
    environments = group(corpus, task_set="reflexion_run_logs")
    solved = [84, 103, 111, 113, 117, 118, 123, 126, 128, 129, 130, 130, 131, 133, 134]
    assert len(environments) == 134
    assert [round(134 * success_within(environments, d)) for d in range(1, 16)] == solved
    problems = group(corpus, task_set="reflexion_humaneval_py_pass_at_1")
    assert (len(problems), n_success(problems)) == (164, 150)
    assert sum(t.n_steps == 1 and t.outcome is SUCCESS for t in traces(problems)) == 134
