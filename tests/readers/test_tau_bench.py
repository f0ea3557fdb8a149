"""tau-bench: its ends are read between the lines, and its real figures are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import (
    ended_within,
    ends,
    lengths,
    n_success,
    pass_hat,
    success_within,
    traces,
)
from sojourn.corpus import TraceCorpus
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, Skipped, StepKind, Trace

SAMPLE = "tau-bench/results.json"


class TestConformance(ReaderConformance):
    format = "tau-bench"
    sample = SAMPLE
    n_runs = 4


def read(path: Path, runs: list[dict[str, Any]]) -> list[Any]:
    path.write_text(json.dumps(runs))
    return read_all(load_reader("tau-bench"), path)


def test_the_sample_is_what_it_was_written_to_be() -> None:
    stopped, handed_over, cut, faulty = traces_of(DATA / SAMPLE)
    assert (stopped.task_id, stopped.task_repeat, stopped.task_set) == ("0", 0, "airline")
    assert (stopped.outcome, stopped.end, stopped.score) == (Outcome.SUCCESS, End.FINISHED, 1.0)
    assert (stopped.model, stopped.agent) == ("results", "")
    assert [(s.name, s.kind, s.ok, s.n_calls) for s in stopped.steps] == [
        ("find_trip", StepKind.TOOL, True, 1),
        ("cancel_trip", StepKind.TOOL, False, 2),
        ("respond", StepKind.MODEL, None, 0),
    ]
    assert (handed_over.outcome, handed_over.end) == (Outcome.FAILURE, End.FINISHED)
    assert (cut.end, cut.limit_kind, cut.n_steps) == (End.LIMIT, LimitKind.TURNS, 1)
    assert (faulty.outcome, faulty.end, faulty.n_steps) == (Outcome.UNSCORED, End.INFRA_ERROR, 0)
    assert faulty.task_set == "airline"  # as the others: it left no message that would say so


def test_an_error_that_left_no_path_is_no_failure_whatever_its_reward(tmp_path: Path) -> None:
    for reward in (0.0, 1.0, None):
        run = {"task_id": 1, "reward": reward, "info": {"error": "lost"}, "traj": []}
        (trace,) = read(tmp_path / "r.json", [run])
        assert (trace.outcome, trace.end) == (Outcome.UNSCORED, End.INFRA_ERROR)


@pytest.mark.parametrize(
    ("reward", "outcome"),
    [
        (1.0, Outcome.SUCCESS),
        (1 + 9e-7, Outcome.SUCCESS),
        (1 - 9e-7, Outcome.SUCCESS),
        (1 + 2e-6, Outcome.FAILURE),
        (0.999, Outcome.FAILURE),
        (0.0, Outcome.FAILURE),
        (None, Outcome.UNSCORED),
    ],
)
def test_success_is_a_reward_of_one(tmp_path: Path, reward: float | None, outcome: Outcome) -> None:
    traj = [{"role": "user", "content": "bye ###STOP###"}]
    run = {"task_id": 1, "reward": reward, "info": {}, "traj": traj}
    (trace,) = read(tmp_path / "r.json", [run])
    assert (trace.outcome, trace.end) == (outcome, End.FINISHED)


def test_odd_numbers_are_no_verdict_and_odd_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(
        '[{"task_id": 1, "reward": NaN, "info": {}, "traj": []},'
        ' {"task_id": 2, "reward": 1e999, "info": {}, "traj": []},'
        ' {"task_id": 123456789012345678901234567890, "reward": 1.0, "info": {}, "traj": []},'
        ' {"task_id": 3, "reward": 1.0, "trial": -1, "info": {}, "traj": []},'
        ' {"reward": 1.0, "info": {}, "traj": []}, 7]'
    )
    records = read_all(load_reader("tau-bench"), path)
    assert [(r.task_id, r.outcome) for r in records if isinstance(r, Trace)] == [
        ("1", Outcome.UNSCORED),
        ("2", Outcome.UNSCORED),
        ("123456789012345678901234567890", Outcome.SUCCESS),
    ]
    assert [r.source.rpartition(" ")[2] for r in records if isinstance(r, Skipped)] == [*"345"]


def test_a_long_path_is_read_in_linear_time(tmp_path: Path) -> None:
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    answer = {"role": "tool", "content": "ok"}
    run = {"task_id": 1, "reward": 0.0, "info": {}, "traj": [call, answer] * 50_000}
    (trace,) = read(tmp_path / "r.json", [run])
    assert trace.n_steps == 50_000


@pytest.fixture(scope="module")
def corpus(real_logs: Path) -> TraceCorpus:
    return read_traces(*sorted((real_logs / "tau-bench").glob("*.json")))


class TestRealRuns:
    def test_runs_tasks_and_successes(self, corpus: TraceCorpus) -> None:
        assert (len(corpus), corpus.n_tasks, n_success(corpus)) == (200, 50, 84)
        assert lengths(corpus) == (2, 11.0, 30)
        assert [pass_hat(corpus, k) for k in (1, 2, 3, 4)] == pytest.approx(
            [0.42, 0.27333, 0.22, 0.20], abs=5e-5
        )

    def test_each_attempt_is_one_of_four(self, corpus: TraceCorpus) -> None:
        wins = [0, 0, 0, 0]
        for trace in traces(corpus):
            assert trace.task_repeat is not None
            wins[trace.task_repeat] += trace.outcome is Outcome.SUCCESS
        assert wins == [21, 22, 20, 21]

    def test_five_were_cut_and_all_failed(self, corpus: TraceCorpus) -> None:
        assert ends(corpus) == {End.FINISHED: 195, End.LIMIT: 5}
        cut = [trace for trace in traces(corpus) if trace.end is End.LIMIT]
        assert {(int(t.task_id), t.task_repeat) for t in cut} == {
            (33, 0),
            (2, 1),
            (9, 2),
            (9, 3),
            (46, 3),
        }
        assert {t.outcome for t in cut} == {Outcome.FAILURE}
        assert {t.n_steps for t in cut} == {30}

    def test_curves(self, corpus: TraceCorpus) -> None:
        d = (3, 5, 8, 10, 12, 15, 20, 25, 30)
        assert [success_within(corpus, k) for k in d] == pytest.approx(
            [0.010, 0.090, 0.210, 0.255, 0.310, 0.345, 0.415, 0.420, 0.420]
        )
        assert [ended_within(corpus, k) for k in d] == pytest.approx(
            [0.015, 0.145, 0.350, 0.440, 0.580, 0.715, 0.910, 0.955, 1.0]
        )

    def test_transitions_of_answers_tools_and_hand_overs(self, corpus: TraceCorpus) -> None:
        letter = {"respond": "R", "transfer_to_human_agents": "X"}
        counts: dict[str, int] = {}
        for trace in traces(corpus):
            path = "".join(letter.get(step.name, "T") for step in trace.steps)
            end = "+" if trace.outcome is Outcome.SUCCESS else "-"
            for pair in map("".join, zip("^" + path, path + end, strict=True)):
                counts[pair] = counts.get(pair, 0) + 1
        assert counts == {
            "^R": 198, "^T": 2,
            "RR": 574, "RT": 521, "RX": 46, "TR": 518, "TT": 593, "TX": 2,
            "R+": 49, "X+": 35, "R-": 100, "T-": 3, "X-": 13,
        }  # fmt: skip
