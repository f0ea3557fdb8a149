"""The command on sessions: which stream a source is, its options, what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.cli.main import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_text(
        "".join(
            json.dumps({"task_id": f"t{n}", "outcome": n % 3 > 0, "n_steps": 3}) + "\n"
            for n in range(30)
        )
    )
    return path


@pytest.fixture
def session_table(tmp_path: Path) -> Path:
    path = tmp_path / "sessions.csv"
    rows = [f"s{r},{t},d,{'ab'[t % 2]},{(r + t) % 3 > 0}" for r in range(3) for t in range(30)]
    path.write_text("\n".join(["session_id,position,domain,subdomain,success", *rows]) + "\n")
    return path


def test_sessions_are_assessed_as_sessions(
    session_table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, page = tmp_path / "op.toml", tmp_path / "r.html"
    profile.write_text("[subdomains.d]\na = 1.0\nb = 0.0\n")
    arguments = ["assess", str(session_table), "--profile", str(profile), "--n-max", "7"]
    assert main([*arguments, "--json", "-", "--html", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "sessions"
    assert document["profile"]["subdomain_weights"]["d"] == {"a": 1.0, "b": 0.0}
    ns = {row["n"] for row in document["domains"][0]["reliability"]["success_run"]}
    assert ns == {1, 2, 3, 5, 7}
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_group_of_sessions_without_a_verdict_is_named_and_not_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page, gate = tmp_path / "sessions.csv", tmp_path / "r.html", tmp_path / "g.json"
    rows = [
        f"{m},s,{t},{t % 3 > 0 if m == 'good' else ''}" for m in ("good", "bad") for t in range(30)
    ]
    path.write_text("\n".join(["model,session_id,position,success", *rows]) + "\n")
    assert main(["assess", str(path), "--max-states", "1", "--html", str(page)]) == 0
    told = "bad: none of 30 tasks has a verdict that counts"
    assert f"Groups of which no task counts\n  {told}" in capsys.readouterr().out
    assert f"<li>{told}</li>" in page.read_text()
    assert main(["gate", str(path), "next_task >= 0.1", "--json", str(gate)]) == 6
    answers = {row["group"]: row["answer"] for row in json.loads(gate.read_text())["rules"]}
    assert answers == {"good": "pass", "bad": "inconclusive"}


def test_runs_with_positions_are_runs_by_default_and_sessions_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(
        "".join(
            json.dumps({"task_id": f"t{n}", "outcome": n % 3 > 0, "session_id": "s", "position": n})
            + "\n"
            for n in range(30)
        )
    )
    assert main(["assess", str(path), "--json", "-", "--resamples", "99"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["kind"] == "traces"
    assert captured.err.count("\n") == 1
    assert "--as sessions" in captured.err
    assert main(["assess", str(path), "--as", "sessions", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["kind"] == "sessions"
    assert captured.err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["TABLE", "--as", "nonsense"], "traces, sessions"),
        (["TABLE", "--limits", "failure"], "--limits is for runs"),
        (["TABLE", "--by", "task_set"], "agent, model"),
        (["TABLE", "--profile", "PROFILE"], "writing"),
        (["LOG", "--profile", "PROFILE"], "--profile is for sessions"),
        (["LOG", "--n-max", "5"], "--n-max is for sessions"),
    ],
)
def test_options_of_the_other_stream_are_usage_errors(
    arguments: list[str],
    words: str,
    log: Path,
    session_table: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile = log.parent / "op.toml"
    profile.write_text("[domains]\nwriting = 1.0\n")
    places = {"LOG": str(log), "TABLE": str(session_table), "PROFILE": str(profile)}
    assert main(["assess", *(places.get(word, word) for word in arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_sessions_forced_to_be_runs_exit_with_3(
    session_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["assess", str(session_table), "--as", "traces"]) == 3
    assert "--as sessions" in capsys.readouterr().err


def test_validate_counts_outcomes_and_names_what_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("success", "finished")] * 3 + [("failure", "limit")] * 2 + [("unscored", "unknown")]
    lines = "".join(f"t{i},{outcome},{end}\n" for i, (outcome, end) in enumerate(rows))
    (tmp_path / "runs.csv").write_text("task_id,outcome,end\n" + lines)
    assert main(["validate", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.err == "all read\n"
    head, row = (line.split() for line in shown.out.splitlines())
    assert head == ["group", "runs", "success", "failure", "unscored", "cut", "tasks", "steps"]
    assert row == ["all", "runs", "6", "3", "2", "1", "2", "6", "0"]
    for name in ("a.xyz", "b.xyz"):
        (tmp_path / name).write_text("nonsense")
    assert main(["validate", str(tmp_path), "--strict"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "not read: 2 files of no known format\n"
    assert "skipped: 2 files of no known format, no reader knows these .xyz files" in shown.out


@pytest.mark.slow
def test_demo_of_sessions_runs_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "demo.html", tmp_path / "demo.json"
    assert main(["demo", "--sessions", "--json", str(figures), "--html", str(page)]) == 0
    assert "716 successes" in capsys.readouterr().out
    document = json.loads(figures.read_text())
    assert (document["kind"], document["corpus"]["n_tasks"]) == ("sessions", 2475)


def test_sessions_convert_and_validate(
    session_table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    assert main(["validate", str(session_table)]) == 0
    shown.append(capsys.readouterr().out)
    for suffix in (".parquet", ".csv", ".jsonl"):
        target = tmp_path / f"again{suffix}"
        assert main(["convert", str(session_table), "-o", str(target)]) == 0
        assert "3 sessions, 90 tasks" in capsys.readouterr().out
        assert main(["validate", str(target)]) == 0
        shown.append(capsys.readouterr().out)
    assert len(set(shown)) == 1
    assert "90" in shown[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "TABLE", "-o", "out.csv", "--as", "traces"],
        ["convert", "TABLE", "-o", "out.xlsx"],
        ["convert", "TABLE", "-o", "out.csv", "--no-digests"],
        ["validate", "TABLE", "--outcomes", "x.csv", "--as", "sessions"],
    ],
)
def test_what_does_not_go_with_sessions_is_refused(
    arguments: list[str], session_table: Path, tmp_path: Path
) -> None:
    places = {"TABLE": str(session_table), "out.csv": str(tmp_path / "out.csv")}
    assert main([places.get(word, word) for word in arguments]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sessions.csv"]


def test_options_of_the_model_reach_it(
    session_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--uniform", "--max-states", "2", "--dwell", "5", "--envelope", "--n-max", "3"]
    assert main(["assess", str(session_table), *options, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["profile"]["source"] == "uniform"
    assert document["profile"]["subdomain_weights"]["d"] == {"a": 0.5, "b": 0.5}
    domain = document["domains"][0]
    hidden = {row["n_states"] for row in domain["selection"]["candidates"] if row["n_states"]}
    assert max(hidden) == 2
    assert domain["reliability"]["envelope"]
