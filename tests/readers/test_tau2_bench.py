"""tau2-bench: a file or a folder, two parties that act, and what is nobody's failure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import ends, group, lengths, n_success, pass_hat, traces
from sojourn.corpus import TraceCorpus
from sojourn.errors import ReaderError
from sojourn.readers import ReadOptions, load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, Skipped, StepKind, Trace


class TestFile(ReaderConformance):
    format = "tau2-bench"
    sample = "tau2-bench/telecom.json"
    n_runs = 4


class TestFolder(ReaderConformance):
    format = "tau2-bench"
    sample = "tau2-bench/voice"
    n_runs = 2


INFO = {
    "num_trials": 1,
    "user_info": {},
    "agent_info": {"implementation": "a", "llm": "m"},
    "environment_info": {"domain_name": "d"},
}


def simulation(**fields: Any) -> dict[str, Any]:
    return {
        "id": "s",
        "task_id": "t",
        "trial": 0,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0},
        "messages": [],
    } | fields


def read(path: Path, *simulations: dict[str, Any]) -> list[Any]:
    path.write_text(json.dumps({"info": INFO, "tasks": [], "simulations": simulations}))
    return read_all(load_reader("tau2-bench"), path)


def test_the_sample_is_what_it_was_written_to_be() -> None:
    good, bad, cut, faulty = traces_of(DATA / "tau2-bench/telecom.json")
    assert (good.task_set, good.agent, good.model) == ("telecom", "llm_agent", "model-a")
    assert (good.task_id, good.task_repeat, good.outcome) == ("line café", 0, Outcome.SUCCESS)
    assert good.job_id == "telecom 2026-01-01T00:00:00"
    # The user's own call, and the answer to it, belong to no step of the agent.
    assert [(s.name, s.kind, s.ok, s.n_calls) for s in good.steps] == [
        ("respond", StepKind.MODEL, None, 0),
        ("get_line", StepKind.TOOL, True, 1),
        ("respond", StepKind.MODEL, None, 0),
    ]
    # Answers may come nested in one message; one of these is an error.
    assert [(s.name, s.ok, s.n_calls) for s in bad.steps] == [
        ("respond", None, 0),
        ("get_line", False, 2),
        ("respond", None, 0),
    ]
    assert (cut.end, cut.limit_kind, cut.step_limit) == (End.LIMIT, LimitKind.MESSAGES, None)
    assert (faulty.outcome, faulty.end, faulty.n_steps) == (Outcome.UNSCORED, End.INFRA_ERROR, 0)


@pytest.mark.parametrize(
    ("reason", "end", "limit_kind"),
    [
        ("user_stop", End.FINISHED, None),
        ("agent_stop", End.FINISHED, None),
        ("max_steps", End.LIMIT, LimitKind.MESSAGES),
        ("timeout", End.LIMIT, LimitKind.TIME),
        ("context_window_exceeded", End.LIMIT, LimitKind.CONTEXT),
        ("too_many_errors", End.AGENT_ERROR, None),
        ("agent_error", End.AGENT_ERROR, None),
        ("user_error", End.INFRA_ERROR, None),
        ("infrastructure_error", End.INFRA_ERROR, None),
        ("unexpected_error", End.INFRA_ERROR, None),
        ("something_new", End.UNKNOWN, None),
        (None, End.UNKNOWN, None),
    ],
)
def test_ends(tmp_path: Path, reason: str | None, end: End, limit_kind: LimitKind | None) -> None:
    (trace,) = read(tmp_path / "r.json", simulation(termination_reason=reason))
    assert (trace.end, trace.limit_kind) == (end, limit_kind)


@pytest.mark.parametrize(
    ("reward", "outcome"),
    [
        ({"reward": 1.0}, Outcome.SUCCESS),
        ({"reward": 1 - 9e-7}, Outcome.SUCCESS),
        ({"reward": 0.5}, Outcome.FAILURE),
        ({"reward": None}, Outcome.UNSCORED),
        ({}, Outcome.UNSCORED),
        (None, Outcome.UNSCORED),
    ],
)
def test_outcomes(tmp_path: Path, reward: Any, outcome: Outcome) -> None:
    (trace,) = read(tmp_path / "r.json", simulation(reward_info=reward))
    assert trace.outcome is outcome


def test_what_the_user_asked_for_is_no_call_of_the_agent(tmp_path: Path) -> None:
    messages = [
        {"role": "assistant", "tool_calls": [{"name": "restart", "requestor": "user"}]},
        {"role": "tool", "requestor": "user", "error": True},
        {"role": "assistant", "tool_calls": [{"name": "look", "requestor": "assistant"}]},
        {"role": "tool", "requestor": "assistant", "error": False},
        {"role": "tool", "requestor": "user", "error": True},
    ]
    (trace,) = read(tmp_path / "r.json", simulation(messages=messages))
    assert [(step.name, step.ok) for step in trace.steps] == [("respond", None), ("look", True)]


def test_a_voice_run_has_unknown_steps_and_says_so(tmp_path: Path) -> None:
    trace, note = read(tmp_path / "r.json", simulation(messages=None, ticks=[{"a": 1}]))
    assert isinstance(trace, Trace)
    assert (trace.n_steps, trace.steps) == (None, ())
    assert isinstance(note, Skipped)
    assert note.what == "key"


def test_a_folder_tells_which_simulations_are_missing(tmp_path: Path) -> None:
    folder = shutil.copytree(DATA / "tau2-bench/voice", tmp_path / "voice")
    (folder / "simulations" / "v1.json").unlink()
    corpus = read_traces(folder)
    assert len(corpus) == 1
    assert [(item.count, item.what) for item in corpus.skipped] == [(1, "run")]


def test_the_results_file_of_a_folder_leads_to_its_simulations() -> None:
    assert traces_of(DATA / "tau2-bench/voice/results.json") == traces_of(DATA / "tau2-bench/voice")


def test_two_jobs_of_one_name_keep_their_attempts(tmp_path: Path) -> None:
    for number in (1, 2):
        job = {"timestamp": f"day {number}", "info": INFO, "tasks": []}
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "results.json").write_text(json.dumps(job | {"simulations": [simulation()]}))
    assert len(read_traces(tmp_path)) == 2


def test_a_copy_of_a_job_is_no_second_attempt(tmp_path: Path) -> None:
    for name in ("1", "2"):
        shutil.copytree(DATA / "tau2-bench", tmp_path / name)
    corpus = read_traces(tmp_path)
    assert len(corpus) == 6
    # The file is not read again; of the folder all runs are repeats.
    assert sorted((s.what, s.count) for s in corpus.skipped) == [("file", 1), *[("run", 1)] * 2]


def test_a_file_without_simulations_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"info": INFO, "tasks": []}))
    with pytest.raises(ReaderError, match="no simulations"):
        list(load_reader("tau2-bench").read(path, ReadOptions()))


def test_nan_in_one_simulation_costs_none(tmp_path: Path) -> None:
    records = read(
        tmp_path / "r.json",
        simulation(),
        simulation(trial=1, duration=float("nan"), reward_info={"reward": float("nan")}),
    )
    assert [record.outcome for record in records] == [Outcome.SUCCESS, Outcome.UNSCORED]


@pytest.fixture(scope="module")
def corpus(real_logs: Path) -> TraceCorpus:
    return read_traces(*sorted((real_logs / "tau2-bench").glob("*.json")))


class TestRealRuns:
    @pytest.mark.parametrize(
        ("domain", "n_runs", "n_tasks", "wins", "steps"),
        [
            ("telecom", 20, 5, 16, (8, 11.0, 13)),
            ("airline", 20, 20, 10, (6, 10.5, 19)),
            ("retail", 40, 40, 34, (8, 13.0, 21)),
        ],
    )
    def test_counts(
        self,
        corpus: TraceCorpus,
        domain: str,
        n_runs: int,
        n_tasks: int,
        wins: int,
        steps: tuple[int, float, int],
    ) -> None:
        runs = group(corpus, task_set=domain)
        assert (len(runs), runs.n_tasks, n_success(runs)) == (n_runs, n_tasks, wins)
        assert lengths(runs) == steps
        assert ends(runs) == {End.FINISHED: n_runs}

    def test_four_telecom_tasks_always_succeed_and_one_never(self, corpus: TraceCorpus) -> None:
        telecom = group(corpus, task_set="telecom")
        assert [pass_hat(telecom, k) for k in (1, 2, 3, 4)] == pytest.approx([0.8] * 4)
        assert {trace.task_repeat for trace in traces(telecom)} == {0, 1, 2, 3}
