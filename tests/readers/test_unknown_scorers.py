"""Whoever asks for a scorer that is not there is told which are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sojourn.cli.main import main

DATA = Path(__file__).resolve().parent.parent / "data"


def told(path: Path, scorer: str, capsys: pytest.CaptureFixture[str]) -> str:
    main(["validate", str(path), "--scorer", scorer])
    shown = capsys.readouterr()
    return shown.out + shown.err


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("langfuse/export/observations_v2/1.jsonl", "no scorer is called absent; there are: "),
        ("langsmith/runs.jsonl", "no scorer is called absent; there are: correct"),
        ("mlflow", "no scorer is called absent; there are: "),
        ("lm-eval", "no metric is called absent; there are: "),
        ("inspect", "no scorer is called absent; there are: "),
    ],
)
def test_the_scorers_that_are_there_are_named(
    name: str, known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert known in told(DATA / name, "absent", capsys)


def test_so_are_the_filters_of_lm_eval(capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(DATA / "lm-eval", "exact_match,absent", capsys)
    assert "no filter is called absent; there are: " in shown


def test_so_are_rewards_of_harbor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA / "harbor", tmp_path / "harbor")
    for path in (tmp_path / "harbor").rglob("result.json"):
        trial = json.loads(path.read_text(encoding="utf-8"))
        if trial.get("verifier_result"):
            trial["verifier_result"]["rewards"] = {"style": 1.0, "tests": 0.0}
            path.write_text(json.dumps(trial), encoding="utf-8")
    shown = told(tmp_path / "harbor", "absent", capsys)
    assert "no reward is called absent; there are: style, tests" in shown


def test_nothing_is_said_where_the_scorer_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no scorer" not in told(DATA / "langsmith/runs.jsonl", "correct", capsys)
    assert "no scorer" not in told(DATA / "langfuse", "correct", capsys)
