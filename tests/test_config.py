"""Settings files: the command line wins, unknown keys are errors, other folders do not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.cli.main import main


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    logs = tmp_path / "logs"
    logs.mkdir()
    path = logs / "runs.jsonl"
    path.write_text(
        "".join(
            json.dumps({"task_id": f"t{n}", "outcome": n % 4 > 0, "n_steps": 3}) + "\n"
            for n in range(40)
        )
    )
    return path


def seed_of(log: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> int:
    capsys.readouterr()
    assert main(["assess", str(log), "--json", "-", "--resamples", "99", *arguments]) == 0
    seed: int = json.loads(capsys.readouterr().out)["seed"]
    return seed


def test_command_line_over_own_file_over_pyproject(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert seed_of(log, capsys) == 0
    Path("pyproject.toml").write_text("[tool.other]\nx = 1\n[tool.sojourn.assess]\nseed = 5\n")
    assert seed_of(log, capsys) == 5
    Path("sojourn.toml").write_text("[assess]\nseed = 7\n")
    assert seed_of(log, capsys) == 7
    assert seed_of(log, capsys, "--seed", "9") == 9


def test_settings_beside_the_logs_do_not_count(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log.parent / "sojourn.toml").write_text("[assess]\nseed = 7\n")
    assert seed_of(log, capsys) == 0


def test_rules_of_a_gate_come_from_the_project(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text(
        '[tool.sojourn.gate]\nrule = ["success_rate >= 0.1", "success_rate >= 0.99"]\n'
        "confidence = 0.9\n"
    )
    assert main(["gate", str(log)]) == 1
    shown = capsys.readouterr().out
    assert "90% confidence" in shown
    assert "success_rate >= 0.99" in shown


def test_one_text_is_a_list_of_one(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sojourn.toml").write_text('[gate]\nrule = "success_rate >= 0.99"\n')
    assert main(["gate", str(log)]) == 1
    assert "success_rate >= 0.99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[assess]\nspeed = 3\n", "no option --speed"),
        ("[asses]\nseed = 3\n", "no command is called 'asses'"),
        ("seed = 3\n", "seed stands under no command; write it into a table, such as [assess]"),
        ("[assess]\njson = 3\n", "sojourn.toml: [assess] json: takes a text; there is 3"),
        ("[assess]\nseed = true\n", "[assess] seed: takes a whole number"),
        ("[assess]\nseed = 1.5\n", "[assess] seed: takes a whole number"),
        ("[assess]\nci = true\n", "[assess] ci: takes a number"),
        ('[assess]\nquick = "yes"\n', "[assess] quick: takes true or false"),
        ("[assess]\ndry-run = 1\n", "[assess] dry-run: takes true or false"),
        ('[assess]\nby = ["model", 3]\n', "[assess] by: takes a text or a list of texts"),
        ("assess = 3\n", "no table of options"),
        ("[assess.seed]\nx = 3\n", "is a table"),
        ("[assess\n", "sojourn.toml"),
        ('[assess]\nseed = "x"\n', "seed"),
        ("x = " + "[" * 5000, "sojourn.toml"),
    ],
)
def test_what_means_nothing_is_an_error(
    text: str, words: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sojourn.toml").write_text(text)
    assert main(["assess", str(log)]) == 2
    assert words in capsys.readouterr().err
