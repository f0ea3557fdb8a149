"""The command: what it prints where, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sojourn.cli.main import main

RUNS = [
    {"task_id": f"t{task}", "task_repeat": attempt, "model": "m", "n_steps": 3 + task}
    | {"outcome": "success" if (task + attempt) % 3 else "failure"}
    for task in range(6)
    for attempt in range(3)
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in RUNS))
    return path


def test_assess_prints_the_result_on_stdout_only(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["assess", str(log), "--resamples", "99"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Sojourn ")
    assert "What may be believed" in captured.out
    assert captured.err == ""


def test_assess_writes_json_and_page(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "r.html", tmp_path / "r.json"
    arguments = ["assess", str(log), "--html", str(page), "--json", str(figures)]
    assert main([*arguments, "--resamples", "99"]) == 0
    assert json.loads(figures.read_text())["corpus"]["n_traces"] == len(RUNS)
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert str(page) in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_json_to_stdout_is_nothing_but_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", str(log), "--json", "-", "--resamples", "99"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "traces"


@pytest.mark.thorough
def test_demo_runs_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", str(tmp_path / "demo.json")]) == 0
    assert "0.200" in capsys.readouterr().out
    assert json.loads((tmp_path / "demo.json").read_text())["corpus"]["n_traces"] == 200
    assert main(["demo", "--quiet", "--json", str(tmp_path / "demo.json")]) == 0
    assert capsys.readouterr().err == ""


def test_formats_lists_every_reader(capsys: pytest.CaptureFixture[str]) -> None:
    from sojourn.readers import reader_names

    assert main(["formats"]) == 0
    shown = capsys.readouterr().out
    for name in reader_names():
        assert f"\n{name} " in shown


def test_convert_then_assess_gives_the_same_figures(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.parquet"
    assert main(["convert", str(log), "-o", str(corpus)]) == 0
    capsys.readouterr()
    shown = []
    for path in (log, corpus):
        assert main(["assess", str(path), "--json", "-", "--resamples", "99"]) == 0
        shown.append(json.loads(capsys.readouterr().out)["estimates"])
    assert shown[0] == shown[1]


def test_dry_run_shows_format_groups_and_policy_and_reads_no_further(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["assess", str(log), "--dry-run", "--limits", "failure"]) == 0
    shown = capsys.readouterr().out
    assert "Policy: runs cut by a limit: failures" in shown
    assert "sojourn-jsonl" in shown
    assert "What may be believed" not in shown


def test_dry_run_shows_columns_totals_and_no_more_than_twenty_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(23):
        (tmp_path / f"{i}.csv").write_text(f"id,passed,note\nt{i},1,x\n")
    assert main(["assess", str(tmp_path), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("columns: task_id = id, outcome = passed") == 20
    assert shown.count("not used: note") == 20
    assert shown.endswith("and 3 more\nsources: 23 table\n")


def test_dry_run_shows_what_is_read_as_what_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reports = str(Path(__file__).parent / "data" / "agbenchmark")
    for kind, unit in (("traces", "runs"), ("sessions", "tasks")):
        assert main(["assess", reports, "--dry-run", "--as", kind]) == 0
        assert f"of the first 200 {unit}" in capsys.readouterr().out
    assert main(["assess", reports, "--dry-run", "--as", "moon"]) == 2


def test_dry_run_of_a_file_that_cannot_be_read_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.csv").write_text("id,note\na,x\n")
    assert main(["assess", str(tmp_path / "runs.csv"), "--dry-run"]) == 3
    assert "no column is outcome" in capsys.readouterr().out


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


def test_validate_counts_what_is_skipped(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with log.open("a") as file:
        file.write('{"task_id": "broken", "outc')
    assert main(["validate", str(log)]) == 0
    captured = capsys.readouterr()
    assert "skipped: 1 line" in captured.out
    assert main(["validate", str(log), "--strict"]) == 3


def test_an_unreadable_verdict_is_counted_and_not_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    rows = "".join(f"t{i},{'pass' if i < 8 else 'hm'}\n" for i in range(10))
    path.write_text("task_id,outcome\n" + rows)
    assert main(["assess", str(path), "--json", "-", "--resamples", "99"]) == 0
    corpus = json.loads(capsys.readouterr().out)["corpus"]
    assert corpus["n_traces"] == 10
    assert main(["validate", str(path), "--strict"]) == 3
    assert "'hm'" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_outcomes_with_other_names_join_runs_without_a_verdict(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, verdicts = tmp_path / f"runs.{form}", tmp_path / f"verdicts.{form}"
    rows = [{"task_id": f"t{i}", "n_steps": i} for i in range(6)]
    judged = [{"question": f"t{i}", "verdict": "pass" if i % 2 else "fail"} for i in range(6)]
    for path, lines in ((runs, rows), (verdicts, judged)):
        if form == "csv":
            table = [list(lines[0]), *(map(str, line.values()) for line in lines)]
            path.write_text("".join(",".join(line) + "\n" for line in table))
        else:
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    target = tmp_path / "out.jsonl"
    arguments = ["convert", str(runs), "--outcomes", str(verdicts), "-o", str(target)]
    assert main(arguments) == 3
    assert "--map task_id=COLUMN" in capsys.readouterr().err
    named = ["--map", "task_id=question", "--map", "outcome=verdict"]
    assert main([*arguments, *named]) == 0
    found = [json.loads(line)["outcome"] for line in target.read_text().splitlines()]
    assert found == ["failure", "success"] * 3
    assert main([*arguments, *named, "--map", "model=nowhere"]) == 3
    assert "model=nowhere" in capsys.readouterr().err


def test_a_file_in_utf16_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "runs.jsonl"
    log.write_text('{"task_id": "a", "outcome": 1}\n' * 3, encoding="utf-16")
    assert main(["assess", str(log)]) == 3
    assert "runs.jsonl: the file is UTF-16; save it as UTF-8" in capsys.readouterr().err


def test_a_folder_of_runs_without_a_verdict_is_read_where_verdicts_are_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, verdicts = tmp_path / "logs", tmp_path / "verdicts.csv"
    logs.mkdir()
    (logs / "a.jsonl").write_text('{"task_id": "a", "steps": ["go"]}\n')
    (logs / "b.jsonl").write_text('{"task_id": "b", "n_steps": 4}\n')
    verdicts.write_text("task_id,outcome\na,1\nb,0\n")
    joined = [str(logs), "--outcomes", str(verdicts)]
    assert main(["assess", *joined, "--dry-run"]) == 0
    assert "sources: 2 sojourn-jsonl" in capsys.readouterr().out
    target = tmp_path / "out.jsonl"
    assert main(["convert", *joined, "-o", str(target)]) == 0
    found = [json.loads(line)["outcome"] for line in target.read_text().splitlines()]
    assert found == ["success", "failure"]
    # Beside runs that are read, such rows are a table of tasks.
    (logs / "c.jsonl").write_text('{"task_id": "a", "outcome": 1, "steps": ["go"]}\n')
    assert main(["convert", *joined, "-o", str(target)]) == 0
    assert len(target.read_text().splitlines()) == 1
    assert main(["assess", str(logs / "a.jsonl"), "--dry-run"]) == 3


@pytest.mark.parametrize("content", [b"nonsense", b"", b"id,passed\na,0.5\n"])
def test_faults_of_standard_input_are_called_so(content: bytes) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "sojourn", "validate", "-"], input=content, capture_output=True
    )
    assert shown.returncode == 3
    assert b"standard input: " in shown.stderr
    assert b"/" not in shown.stderr.replace(b"0/1", b"")


def test_standard_input(log: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "sojourn", "assess", "-", "--json", "-", "--resamples", "99"],
        input=log.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert json.loads(shown.stdout)["corpus"]["n_traces"] == len(RUNS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["assess"], "PATH"),
        (["assess", "LOG", "--limits", "nonsense"], "censor, failure"),
        (["assess", "LOG", "--faults", "nonsense"], "exclude, failure"),
        (["assess", "LOG", "--format", "nonsense"], "tau-bench"),
        (["assess", "LOG", "--map", "nonsense"], "OURS=THEIRS"),
        (["assess", "LOG", "--by", "nonsense"], "task_set"),
        (["assess", "LOG", "--by", "model", "--pool"], "exclude each other"),
        (["assess", "LOG", "--ci", "1.5"], "between 0 and 1"),
        (["assess", "LOG", "--html", "no/such/folder/x.html"], "no folder"),
        (["assess", "LOG", "--json", "FOLDER"], "is a folder"),
        (["convert", "LOG", "-o", "no/such/folder/x.parquet"], "no folder"),
        (["nonsense"], "nonsense"),
        (["assess", "LOG", "--nonsense"], "nonsense"),
    ],
)
def test_usage_errors_exit_with_2_and_say_what_is_allowed(
    arguments: list[str], words: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"LOG": str(log), "FOLDER": str(log.parent)}
    assert main([places.get(word, word) for word in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file or folder"),
        (b"", "empty"),
        (b" \n\n ", "empty"),
        (b"complete nonsense", "no reader knows"),
        (b"\x00\x01\x02\xff\xfe", "no reader knows"),
        (b'{"task_id": "a", "outcome": ', ""),
    ],
)
def test_unreadable_input_exits_with_3(
    content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)
    assert main(["assess", str(path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_empty_folder_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["assess", str(tmp_path)]) == 3
    assert str(tmp_path) in capsys.readouterr().err


def test_wrong_format_forced_exits_with_3(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("tau-bench", "inspect", "tau2-bench", "sojourn-parquet"):
        assert main(["assess", str(log), "--format", name]) == 3, name
        assert "Traceback" not in capsys.readouterr().err


def test_output_that_cannot_be_written_is_one_line(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / ("x" * 250 + ".json")
    assert main(["assess", str(log), "--no-chain", "--resamples", "99", "--json", str(target)]) == 3
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "too long" in errors


def test_no_usable_run_exits_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"task_id": "a", "outcome": "unscored", "end": "finished"}\n')
    assert main(["assess", str(path)]) == 4
    assert "--outcomes" in capsys.readouterr().err


def test_strict_exits_with_3_on_the_first_skip(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with log.open("a") as file:
        file.write('{"task_id": "broken", "outc')
    assert main(["assess", str(log), "--resamples", "99"]) == 0
    assert "SJ105" in capsys.readouterr().out
    assert main(["assess", str(log), "--strict"]) == 3


def test_internal_error_is_one_line_and_70(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sojourn.assess

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("as a test")

    monkeypatch.setattr(sojourn.assess, "assess_groups", broken)
    assert main(["assess", str(log)]) == 70
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "ZeroDivisionError" in captured.err


def test_hostile_labels_reach_neither_terminal_nor_page_unescaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = tmp_path / "runs.jsonl", tmp_path / "r.html"
    evil = "<script>alert(1)</script>\x1b[31m\u202egnp.exe"
    path.write_text(
        "".join(
            json.dumps({"task_id": evil, "model": evil, "task_set": evil, "outcome": outcome})
            + "\n"
            for outcome in ("success", "failure")
        )
    )
    assert main(["assess", str(path), "--html", str(page), "--resamples", "99"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    text = page.read_text()
    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_interrupt_exits_with_130_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    log = tmp_path / "runs.csv"
    rows = "".join(f"t{n % 50000},{n // 50000},success,5\n" for n in range(400_000))
    log.write_text("task_id,task_repeat,outcome,n_steps\n" + rows)
    target = tmp_path / "out.parquet"
    process = subprocess.Popen(
        [sys.executable, "-m", "sojourn", "assess", log, "--json", target, "--resamples", "99999"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["runs.csv"]
