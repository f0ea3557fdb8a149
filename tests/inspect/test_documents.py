"""The code of docs/inspect.md runs, and its figures are what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import SampleScore, Score

from scripted_inspect import MODEL, said
from sojourn.corpus import resolve
from sojourn.data import example_path
from sojourn.inspect_ai import pass_hat, success_rate
from sojourn.readers import read_traces

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "inspect.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def geographer() -> Any:
    """Return a model that knows Paris, and Canberra three times in four."""
    turns = iter(["Canberra", "Canberra", "Sydney", "Canberra"] * 2)

    def answer(messages: Any, *_: Any) -> ModelOutput:
        return said("Paris" if "France" in messages[-1].text else next(turns))

    return get_model(MODEL, custom_outputs=answer)


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    names = {"geographer": geographer(), "__name__": "capitals"}
    for block in BLOCKS:
        exec(block.replace('"openai/gpt-4o"', "geographer"), names)
    shown = capsys.readouterr().out
    figures = dict(re.findall(r"^(\w+) +([\d.]+)$", shown, re.MULTILINE))
    assert figures["accuracy"] == figures["success_rate"] == "0.875"
    assert figures["pass_hat_2"] == "0.750"
    assert figures["pass_hat_4"] == "0.500"
    assert "sojourn/pass_hat_4 {'fr': 1.0, 'au': 0.0}" in shown


def airline() -> Iterator[SampleScore]:
    runs = resolve(read_traces(example_path()))
    for task, success in zip(runs.task, runs.success, strict=True):
        yield SampleScore(score=Score(value="C" if success else "I"), sample_id=int(task))


def test_the_figures_of_the_page_are_those_of_the_example() -> None:
    told = dict(re.findall(r"^\| `(pass_hat_4\w*)` \| ([\d.]+) \|", PAGE, re.MULTILINE))
    given = list(airline())
    shown = pass_hat(4)(given)
    assert {name: float(value) for name, value in told.items()} == {
        name: np.round(value, 3) for name, value in shown.items()
    }
    rate = success_rate()(given)["success_rate"]
    assert f"{rate:.3f}"[1:] in PAGE
    assert f"{rate**4:.3f}"[1:] in PAGE
