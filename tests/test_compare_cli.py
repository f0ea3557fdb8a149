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
