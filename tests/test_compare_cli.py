"""``sojourn compare``: what it takes, what it refuses, what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.cli.main import main


def write(path: Path, outcomes: list[bool], *, model: str = "m") -> Path:
    path.write_text(
        "".join(
            json.dumps(
                {"task_id": f"t{n // 2}", "task_repeat": n % 2, "outcome": o, "model": model}
            )
            + "\n"
            for n, o in enumerate(outcomes)
        )
    )
    return path


def test_two_files_and_one_file_by_model_give_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a.jsonl", [True, False] * 30, model="old")
    b = write(tmp_path / "b.jsonl", [True, True] * 30, model="new")
    both = tmp_path / "both.jsonl"
    both.write_text(a.read_text() + b.read_text())
    page = tmp_path / "page.html"
    assert main(["compare", str(a), str(b), "--json", "-", "--html", str(page)]) == 0
    one = json.loads(capsys.readouterr().out)
    assert main(["compare", str(both), "--by", "model", "--json", "-"]) == 0
    two = json.loads(capsys.readouterr().out)
    assert (one["a"]["name"], one["b"]["name"]) == ("a.jsonl", "b.jsonl")
    assert (two["a"]["name"], two["b"]["name"]) == ("old", "new")
    for name in ("answer", "rows", "p_value", "chance_better", "flips"):
        assert one[name] == two[name]
    assert one["answer"] == "better"
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a.jsonl", [True, False] * 30)
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text(
        a.read_text() + write(tmp_path / "b.jsonl", [True] * 60, model="other").read_text()
    )
    for arguments, words in (
        ([str(a)], "--by model"),
        ([str(a), str(a), "--by", "model"], "--by model"),
        ([str(a), "--by", "nonsense"], "nonsense"),
        ([str(a), "--by", "model"], "same model"),
        ([str(a), str(mixed)], "2 agents or models"),
        ([str(a), str(a), "--baseline", "z"], "no set is called"),
    ):
        assert main(["compare", *arguments]) == 2, arguments
        assert words in capsys.readouterr().err.replace("\n", " "), arguments


def test_markdown_tells_what_the_json_does_and_is_added_to_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a.jsonl", [True, False] * 30, model="old")
    b = write(tmp_path / "b.jsonl", [True, True] * 30, model="new")
    text, figures, summary = (tmp_path / name for name in ("c.md", "c.json", "summary.md"))
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    words = ["compare", str(a), str(b), "--markdown", str(text), "--json", str(figures)]
    assert main(words) == 0
    row = json.loads(figures.read_text())["rows"][0]
    low, high = row["difference"]["interval"]
    lines = text.read_text().splitlines()
    assert lines[2] == "### b.jsonl against a.jsonl: better"
    rate = next(line for line in lines if line.startswith("| success rate"))
    assert f"| \\+{row['difference']['value']:.3f} \\[+{low:.3f}, +{high:.3f}\\] |" in rate
    assert summary.read_text() == "before\n" + text.read_text()
    assert "wrote" in capsys.readouterr().err


def test_markdown_of_compared_sessions(tmp_path: Path) -> None:
    text = tmp_path / "c.md"
    logs = []
    for name, period in (("a", 2), ("b", 5)):
        log = tmp_path / f"{name}.csv"
        rows = [f"s{r},{t},{(r + t) % period > 0}" for r in range(2) for t in range(40)]
        log.write_text("\n".join(["session_id,position,success", *rows]) + "\n")
        logs.append(str(log))
    assert main(["compare", *logs, "--n-max", "5", "--markdown", str(text)]) == 0
    lines = text.read_text().splitlines()
    assert lines[2].startswith("### b.csv against a.csv: ")
    assert "| domain | start | n | A | B | B minus A | B better |" in lines
