"""MINT: two ends that look alike are told apart, and budgets are runs of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import group, lengths, n_success, traces
from sojourn.corpus import TraceCorpus
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, Skipped, StepKind

FOLDER = "mint-bench/model-a/F=None/max3_p2+tool+cd/reasoning"
SETTING = "max5_p2+tool+cd"


class TestConformance(ReaderConformance):
    format = "mint"
    sample = "mint-bench"
    n_runs = 5


def test_the_sample_is_what_it_was_written_to_be() -> None:
    won, gave_up, cut = traces_of(DATA / FOLDER / "gsm8k/results.jsonl")
    assert (won.task_set, won.agent, won.model, won.step_limit) == (
        "gsm8k",
        "max3_p2+tool+cd",
        "model-a",
        3,
    )
    assert (won.task_id, won.outcome, won.end) == ("0", Outcome.SUCCESS, End.FINISHED)
    assert [(s.name, s.kind, s.ok) for s in won.steps] == [
        ("execute", StepKind.TOOL, True),
        ("propose_solution", StepKind.TOOL, None),
    ]
    assert (gave_up.outcome, gave_up.end) == (Outcome.FAILURE, End.FINISHED)
    assert [s.ok for s in gave_up.steps] == [False, None]
    assert (cut.outcome, cut.end, cut.limit_kind) == (
        Outcome.FAILURE,
        End.LIMIT,
        LimitKind.STEPS,
    )
    assert [(s.name, s.kind, s.ok) for s in cut.steps] == [
        ("execute", StepKind.TOOL, False),
        ("respond", StepKind.MODEL, False),
        ("execute", StepKind.TOOL, None),
    ]
    broken, _ = traces_of(DATA / FOLDER / "mmlu/results.jsonl")
    assert (broken.outcome, broken.end) == (Outcome.FAILURE, End.AGENT_ERROR)


def test_equal_ids_in_two_domains_are_two_tasks() -> None:
    corpus = read_traces(DATA / "mint-bench")
    assert {(t.task_set, t.task_id) for t in traces(corpus)} == {
        ("gsm8k", "0"),
        ("gsm8k", "1"),
        ("gsm8k", "2"),
        ("mmlu", "0"),
        ("mmlu", "7"),
    }
    assert corpus.n_tasks == 5


def test_the_prompt_is_no_step(tmp_path: Path) -> None:
    turn = {"role": "assistant", "content": "<solution> 1 </solution>"}
    line = {"state": {"history": [turn, turn], "success": True}, "task": {"task_id": 1}}
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(line))
    (trace,) = read_all(load_reader("mint"), path)
    assert (trace.n_steps, trace.end) == (1, End.UNKNOWN)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("m/F=None/max4_p2+tool/area/gsm8k", ("gsm8k", "max4_p2+tool", "m", 4)),
        ("m/F=gpt-4/PHF=GT/max4_p2/a/b", ("b", "max4_p2+F=gpt-4+PHF=GT", "m", 4)),
        ("max4_p2+tool", ("reasoning", "max4_p2+tool", "", 4)),
        ("elsewhere", ("reasoning", "", "", None)),
    ],
)
def test_the_path_says_what_was_evaluated(
    tmp_path: Path, folder: str, expected: tuple[str, str, str, int | None]
) -> None:
    target = tmp_path / folder
    target.mkdir(parents=True)
    shutil.copy(DATA / FOLDER / "gsm8k/results.jsonl", target)
    trace = traces_of(target / "results.jsonl")[0]
    model = trace.model if expected[2] else ""
    assert (trace.task_set, trace.agent, model, trace.step_limit) == expected


def test_a_bad_line_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    good = (DATA / FOLDER / "gsm8k/results.jsonl").read_text().splitlines()
    path.write_text("\n".join([good[0], "{}", "not json", "", good[1], good[2][:-40]]))
    records = read_all(load_reader("mint"), path)
    skipped = [record for record in records if isinstance(record, Skipped)]
    assert len(records) - len(skipped) == 2
    assert [item.source.rpartition(" ")[2] for item in skipped] == ["2", "3", "6"]
    assert "incomplete" in skipped[-1].reason


@pytest.fixture(scope="module")
def corpus(real_logs: Path) -> TraceCorpus:
    return read_traces(real_logs / "mint-bench" / "gpt-3.5-turbo-0613")


def max5(corpus: TraceCorpus) -> TraceCorpus:
    return corpus.select(
        [run for run, trace in enumerate(traces(corpus)) if trace.agent == SETTING]  # type: ignore[arg-type]
    )


DOMAINS: dict[str, tuple[int, int, int, int, int]] = {
    # runs, successes, cut by max_steps, gave up their last proposal, errors
    "humaneval": (45, 17, 13, 13, 2),
    "mbpp": (91, 23, 32, 36, 0),
    "alfworld": (134, 56, 43, 28, 7),
    "gsm8k": (48, 21, 3, 24, 0),
    "mmlu": (76, 43, 12, 21, 0),
    "theoremqa": (49, 14, 13, 19, 3),
}


class TestRealRuns:
    def test_the_six_domains_together(self, corpus: TraceCorpus) -> None:
        runs = max5(corpus)
        assert (len(runs), runs.n_tasks, n_success(runs)) == (443, 443, 174)
        assert lengths(runs)[::2] == (1, 5)
        assert len({trace.task_id for trace in traces(runs)}) == 225
        assert sum(trace.end is End.LIMIT for trace in traces(runs)) == 116
        assert sum(trace.end is End.AGENT_ERROR for trace in traces(runs)) == 12
        gave_up = [
            t for t in traces(runs) if t.end is End.FINISHED and t.outcome is Outcome.FAILURE
        ]
        assert len(gave_up) == 141

    @pytest.mark.parametrize("domain", DOMAINS)
    def test_each_domain(self, corpus: TraceCorpus, domain: str) -> None:
        runs = group(corpus, task_set=domain, agent=SETTING)
        kinds = [(trace.outcome, trace.end) for trace in traces(runs)]
        assert (
            len(runs),
            kinds.count((Outcome.SUCCESS, End.FINISHED)),
            kinds.count((Outcome.FAILURE, End.LIMIT)),
            kinds.count((Outcome.FAILURE, End.FINISHED)),
            kinds.count((Outcome.FAILURE, End.AGENT_ERROR)),
        ) == DOMAINS[domain]
        assert {trace.step_limit for trace in traces(runs)} == {5}

    @pytest.mark.parametrize(
        ("domain", "wins"), [("gsm8k", [5, 11, 19, 19, 21]), ("humaneval", [0, 8, 10, 16, 17])]
    )
    def test_budgets_are_runs_of_their_own(
        self, corpus: TraceCorpus, domain: str, wins: list[int]
    ) -> None:
        budgets: dict[int | None, int] = dict.fromkeys(range(1, 6), 0)
        for trace in traces(corpus):
            if trace.task_set == domain:
                budgets[trace.step_limit] += trace.outcome is Outcome.SUCCESS
        assert list(budgets.values()) == wins

    @pytest.mark.parametrize(
        ("domain", "wins"), [("gsm8k", [2, 4, 7, 5, 3]), ("humaneval", [0, 2, 6, 5, 4])]
    )
    def test_when_success_came(self, corpus: TraceCorpus, domain: str, wins: list[int]) -> None:
        runs = traces(group(corpus, task_set=domain, agent=SETTING))
        steps = [trace.n_steps for trace in runs if trace.outcome is Outcome.SUCCESS]
        assert [steps.count(d) for d in range(1, 6)] == wins

    def test_actions_are_what_the_benchmark_counted_itself(
        self, corpus: TraceCorpus, real_logs: Path
    ) -> None:
        for path in sorted((real_logs / "mint-bench").rglob("*.jsonl")):
            for line, trace in zip(path.read_bytes().splitlines(), traces_of(path), strict=True):
                own: dict[str, Any] = json.loads(line)["state"]["agent_action_count"]
                names = [step.name for step in trace.steps]
                n_others = own["use_tool"] + own["invalid_action"]
                assert names.count("propose_solution") == own["propose_solution"]
                assert names.count("execute") + names.count("respond") == n_others
