"""No command writes over what it reads, or two outputs into one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.cli.main import main


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    rows = ({"task_id": f"t{n % 20}", "outcome": n % 3 > 0, "n_steps": 2} for n in range(40))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


RULE = "success_rate >= 0.1"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["assess", "IN", "--no-chain", "--html", "IN"], "--html"),
        (["assess", "IN", "--no-chain", "--json", "IN"], "--json"),
        (["gate", "IN", RULE, "--junit", "IN"], "--junit"),
        (["gate", "IN", RULE, "--baseline", "OTHER", "--markdown", "OTHER"], "--markdown"),
        (["gate", "IN", RULE, "--junit", "LINK"], "--junit"),
        (["gate", "IN", RULE, "--junit", "OUT", "--markdown", "OUT"], "--markdown"),
        (["gate", "IN", RULE, "--junit", "-"], "--junit"),
        (["compare", "IN", "OTHER", "--html", "OTHER"], "--html"),
        (["compare", "IN", "OTHER", "--html", "OUT", "--json", "OUT"], "--json"),
        (["plan", "IN", RULE, "--json", "IN"], "--json"),
        (["convert", "IN", "-o", "IN"], "--output"),
        (["assess", "FOLDER", "--no-chain", "--markdown", "OTHER"], "--markdown"),
        (["assess", "FOLDER", "--no-chain", "--json", "OTHER"], "--json"),
        (["gate", "FOLDER", RULE, "--junit", "OTHER"], "--junit"),
        (["gate", "IN", RULE, "--baseline", "FOLDER", "--json", "OTHER"], "--json"),
        (["plan", "FOLDER", RULE, "--json", "OTHER"], "--json"),
        (["fit", "FOLDER", "-o", "OTHER"], "--output"),
        (["convert", "FOLDER", "-o", "OTHER"], "--output"),
        (["assess", "IN", "--states", "OTHER", "--json", "OTHER"], "--json"),
        (["fit", "IN", "--states", "OTHER", "-o", "OTHER"], "--output"),
        (["fit", "IN", "-o", "IN"], "--output"),
        (["fit", "IN", "--outcomes", "OTHER", "-o", "OTHER"], "--output"),
        (["export", "IN", "--to", "dot", "-o", "IN"], "--output"),
        (["export", "LABELS", "--to", "tra", "-o", "LINES"], "--output"),
        (["forecast", "IN", "OTHER", "--json", "IN"], "--json"),
        (["forecast", "IN", "OTHER", "--json", "OTHER"], "--json"),
        (["whatif", "IN", "--top", "--json", "LINK"], "--json"),
    ],
)
def test_what_is_read_is_not_written_over(
    words: list[str], option: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("b.jsonl", "l.jsonl", "out", "model.lab", "model.tra")
    other, link, out, labels, lines = (runs.with_name(name) for name in files)
    labels.symlink_to(runs)
    other.write_bytes(runs.read_bytes())
    link.symlink_to(runs)
    before = runs.read_bytes()
    names = {"IN": runs, "OTHER": other, "LINK": link, "OUT": out}
    names |= {"LABELS": labels, "LINES": lines, "FOLDER": runs.parent}
    assert main([str(names.get(word, word)) for word in words]) == 2
    assert option in capsys.readouterr().err
    assert runs.read_bytes() == other.read_bytes() == before
    assert not out.exists()


def test_a_report_may_stand_beside_logs_and_be_written_again(runs: Path) -> None:
    report, figures = runs.with_name("gate.xml"), runs.with_name("gate.json")
    for _ in range(2):
        words = ["gate", str(runs.parent), RULE, "--junit", str(report), "--json", str(figures)]
        assert main(words) == 0
    assert report.read_text().startswith("<?xml")
    null = ["--junit", "/dev/null", "--markdown", "/dev/null"]
    assert main(["gate", str(runs), RULE, *null]) == 0
