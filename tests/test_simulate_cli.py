"""``sojourn simulate``: what is written is what was drawn, and the certificate knows the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sojourn.cli.main import main
from sojourn.corpus import write_jsonl
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.process import preset, simulate_tasks
from sojourn.process.simulate import mislabel, with_memory
from sojourn.readers import read_sessions, read_traces


def assessed(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    capsys.readouterr()
    assert (
        main(["assess", str(path), "--json", "-", "--resamples", "199", "--quick", *arguments]) == 0
    )
    claims = json.loads(capsys.readouterr().out)["certificate"]["claims"]
    return {claim["claim"]: claim["verdict"] for claim in claims}


def test_a_true_chain_is_accepted_and_memory_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    true, memory = tmp_path / "true.parquet", tmp_path / "memory.jsonl"
    assert main(["simulate", "react", "-o", str(true)]) == 0
    assert "0.4332" in capsys.readouterr().out
    assert main(["simulate", "react", "-o", str(memory), "--memory", "0.3"]) == 0
    accepted = assessed(true, capsys)
    assert accepted["order"] == accepted["timing"] == "accepted"
    assert assessed(memory, capsys)["order"] == "rejected"


def test_required_certificate_sets_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    true, memory = tmp_path / "true.parquet", tmp_path / "memory.parquet"
    main(["simulate", "react", "-o", str(true)])
    main(["simulate", "react", "-o", str(memory), "--memory", "0.3"])
    few = tmp_path / "few.parquet"
    main(["simulate", "react", "-o", str(few), "--tasks", "5"])
    codes = [
        main(["assess", str(path), "--require-certificate", "--resamples", "199"])
        for path in (true, memory, few)
    ]
    assert codes == [0, 5, 6]
    assert main(["assess", str(true), "--require-certificate", "--no-chain"]) == 2


def test_published_method_gives_its_own_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    true = tmp_path / "true.parquet"
    main(["simulate", "toolformer", "-o", str(true)])
    verdicts = assessed(true, capsys, "--method", "published")
    assert verdicts["order"] == "accepted"
    assert verdicts["timing"] == "accepted"


def test_presets_are_listed_and_an_unknown_one_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "list"]) == 0
    assert len(capsys.readouterr().out.split()) == 9
    assert main(["simulate", "nonsense", "-o", str(tmp_path / "x.jsonl")]) == 2
    assert main(["simulate", "react", "-o", str(tmp_path / "x.txt")]) == 2
    assert main(["simulate", "react"]) == 2


def test_json_lines_hold_the_drawn_runs(tmp_path: Path) -> None:
    runs = simulate_tasks(preset("ss7"), 20, 3, rng=1, max_steps=6)
    corpus = corpus_of_sequences(runs, model="ss7")
    path = tmp_path / "runs.jsonl"
    write_jsonl(corpus, path)
    again = read_traces(path)
    assert len(again) == 60
    for run in range(60):
        wrote, read = corpus.trace(run), again.trace(run)
        assert (wrote.task_id, wrote.task_repeat, wrote.outcome, wrote.end, wrote.limit_kind) == (
            read.task_id,
            read.task_repeat,
            read.outcome,
            read.end,
            read.limit_kind,
        )
        assert [step.name for step in wrote.steps] == [step.name for step in read.steps]


def test_mislabelled_steps_are_as_many_as_asked_for_and_ends_stay() -> None:
    runs = simulate_tasks(preset("react"), 500, 2, rng=2)
    noisy = mislabel(runs, 0.2, rng=3)
    share = float(np.mean(noisy.states != runs.states))
    assert abs(share - 0.2) < 4 * np.sqrt(0.2 * 0.8 / runs.states.size)
    assert np.array_equal(noisy.event, runs.event)
    assert np.array_equal(mislabel(runs, 0.0, rng=3).states, runs.states)
    with pytest.raises(ValueError, match="share"):
        mislabel(runs, 1.5)


@pytest.mark.thorough
def test_users_states_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, table = tmp_path / "r.parquet", tmp_path / "states.json"
    main(["simulate", "react", "-o", str(log)])
    table.write_text('{"plan": "think", "reflect": "think", "*": "act"}')
    capsys.readouterr()
    arguments = ["assess", str(log), "--states", str(table), "--resamples", "99"]
    assert main([*arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["states"]["names"] == ["think", "act"]
    table.write_text("name,state\nplan,think\n*,act\n")
    assert main([*arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["states"]["names"] == ["think", "act"]
    for content, words in (
        ("", "no state"),
        ('{"a": 1}', "object of step name"),
        ('{"a": "x", "a": "y"}', "twice"),
        ('{"plan": "x"', "not valid JSON"),
        ("a,b,c\n", "two columns"),
    ):
        table.write_text(content)
        assert main(arguments) == 3, content
        assert words in capsys.readouterr().err
    table.write_text('{"plan": "x"}')
    assert main(arguments) == 2
    assert "--states: the table has no state for 'tool'" in capsys.readouterr().err


def test_sessions_are_drawn_as_asked_and_their_truth_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "s.csv"
    assert (
        main(["simulate", "sessions", "-o", str(table), "--sessions", "5", "--tasks", "400"]) == 0
    )
    shown = capsys.readouterr().out
    # Three states at equal shares: (.985 + .955 + .76) / 3.
    assert "long-run success 0.9000" in shown
    assert "independent tasks: 0.1216" in shown
    log = read_sessions(table)
    assert (log.n_sessions, len(log)) == (5, 2000)
    # The states' variance of .01 with a correlation of .85 a task: one standard error is .01.
    assert abs(log.success().mean() - 0.9) < 0.04


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", "--memory", "0.2", "-o", "S"],
        ["react", "--stay", "0.2", "-o", "R"],
        ["sessions", "--state-success", ".9,two", "-o", "S"],
        ["sessions", "--stay", "1.0", "-o", "S"],
        ["sessions"],
    ],
)
def test_options_of_the_other_kind_and_nonsense_are_refused(
    arguments: list[str], tmp_path: Path
) -> None:
    places = {"S": str(tmp_path / "s.csv"), "R": str(tmp_path / "r.jsonl")}
    assert main(["simulate", *(places.get(word, word) for word in arguments)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_truth_that_is_printed_is_of_what_was_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "runs.jsonl")
    shown = {}
    for name, options in {
        "plain": [],
        "memory": ["--memory", "0.4"],
        "odds": ["--odds-sd", "1"],
        "both": ["--odds-sd", "1", "--pace-sd", "0.5", "--memory", "0.4"],
        "cut": ["--censored", "0.2"],
    }.items():
        assert main(["simulate", "react", "-o", out, *options]) == 0
        shown[name] = capsys.readouterr().out.splitlines()[-1]
    assert shown["plain"] == "true chain: P(success) 0.4332, mean steps 3.91"
    truth = with_memory(preset("react"), 0.4)
    assert shown["memory"] == (
        f"true chain with memory: P(success) {truth.success_ever:.4f}, "
        f"mean steps {truth.mean_steps:.2f}"
    )
    assert shown["odds"].endswith("3.91, of a task of average odds")
    assert shown["both"].endswith(", of a task of average odds and full pace")
    assert shown["cut"].endswith("3.91, were no run cut")
