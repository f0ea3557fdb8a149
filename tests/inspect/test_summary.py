"""Summaries beside logs: what is written, where, and that nothing of it stops an evaluation."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from inspect_ai.log import EvalLog, list_eval_logs

from sojourn._inspect import hooks as module
from sojourn._inspect.summary import local_path, parse_kinds
from sojourn.assess import assess_groups
from sojourn.readers import read_traces
from sojourn.report import json_text

TABLE = {"a": ["C", "I"], "b": ["C", "C"], "c": ["I", "error"]}
Run = Callable[..., EvalLog]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, "json,html")
    module.register()


def warned(caplog: pytest.LogCaptureFixture, location: str) -> str:
    """Let the hook run on a log at a place and return its only warning."""
    data: Any = SimpleNamespace(log=SimpleNamespace(location=location))
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        anyio.run(module.Summary().on_task_end, data)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    return record.getMessage()


@pytest.mark.usefixtures("asked")
def test_the_summary_is_that_of_assess_and_no_log_of_inspect(run: Run) -> None:
    log = run(TABLE, metrics=[])
    path = local_path(log.location)
    written = path.with_name(f"sojourn_{path.stem}.json").read_text()
    assert written == json_text(assess_groups(read_traces(path), chain=None, rng=0))
    page = path.with_name(f"sojourn_{path.stem}.html").read_text()
    assert "sojourn assess" in page
    assert [local_path(info.name) for info in list_eval_logs(str(path.parent))] == [path]
    assert len(read_traces(path.parent)) == len(read_traces(path)) == 6


@pytest.mark.usefixtures("asked")
def test_nothing_is_written_once_it_is_no_longer_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(module.VARIABLE)
    log = run(TABLE, metrics=[])
    assert [path.suffix for path in local_path(log.location).parent.iterdir()] == [".eval"]


@pytest.mark.usefixtures("asked")
def test_a_fault_of_ours_is_told_and_stops_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(module, "write_summary", broken)
    log = run(TABLE, metrics=[])
    assert log.status == "success"
    caplog.clear()
    assert "a fault in Sojourn" in warned(caplog, log.location)
    assert caplog.records[0].exc_info is not None


@pytest.mark.usefixtures("asked")
def test_tasks_that_end_together_are_summarised_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Path] = []
    done: list[Path] = []

    def slow(log: Path, _: object) -> list[Path]:
        assert len(started) == len(done)
        started.append(log)
        time.sleep(0.05)
        done.append(log)
        return []

    async def end_together() -> None:
        async with anyio.create_task_group() as group:
            for name in "abc":
                data: Any = SimpleNamespace(log=SimpleNamespace(location=f"/logs/{name}.eval"))
                group.start_soon(module.Summary().on_task_end, data)

    monkeypatch.setattr(module, "write_summary", slow)
    anyio.run(end_together)
    assert sorted(path.stem for path in done) == ["a", "b", "c"]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("location", "message"),
    [
        (
            "s3://bucket/logs/a.eval",
            "lies at s3://..., and summaries are only written beside local",
        ),
        ("/nowhere/a.eval", "a.eval"),
    ],
)
def test_a_log_that_cannot_be_read_is_told(
    caplog: pytest.LogCaptureFixture, location: str, message: str
) -> None:
    shown = warned(caplog, location)
    assert shown.startswith("no Sojourn summary of this log: ")
    assert message in shown
    assert caplog.records[0].exc_info is None


@pytest.mark.usefixtures("asked")
def test_a_log_without_samples_is_told(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    log = run(TABLE, metrics=[], log_samples=False)
    caplog.clear()
    assert "holds no samples" in warned(caplog, log.location)


def test_a_setting_that_names_nothing_is_told_before_the_evaluation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(module.VARIABLE, "pdf")
    data: Any = None
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        anyio.run(module.Summary().on_run_start, data)
    assert "'pdf' is none of json, html and html,json" in caplog.text


def test_settings_and_places() -> None:
    assert parse_kinds("HTML, json,html") == ("html", "json")
    for wrong in ("", ",", "1", "json;html"):
        with pytest.raises(ValueError, match="none of"):
            parse_kinds(wrong)
    assert local_path("/logs/a b.eval") == Path("/logs/a b.eval")
    assert local_path("file:///logs/a%20b.eval") == Path("/logs/a b.eval")
    assert local_path("logs/a#1.eval") == Path("logs/a#1.eval")
    assert local_path(r"C:\logs\a.eval") == Path(r"C:\logs\a.eval")


def inspect(folder: Path, *words: str, **variables: str) -> str:
    environment = {**os.environ, "INSPECT_LOG_DIR": str(folder / "logs"), **variables}
    shown = subprocess.run(
        [sys.executable, "-m", "inspect_ai", *words, "--display", "plain"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return shown.stdout


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, mean, scorer

@scorer(metrics=[mean()])
def constant() -> Scorer:
    async def score(state, target) -> Score:
        return Score(value=1 if state.sample_id == 1 else 0)
    return score

@task
def two():
    samples = [Sample(id=1, input="?"), Sample(id=2, input="?")]
    return Task(dataset=samples, solver=[], scorer=constant(), epochs=2)
"""


def test_inspect_finds_metrics_reducer_and_hook_by_itself(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TASK)
    variables = {module.VARIABLE: "json"}
    words = ("eval", "two.py", "--model", "mockllm/model", "--epochs-reducer", "sojourn/pass_hat_2")
    shown = inspect(tmp_path, *words, **variables)
    assert "sojourn/summary" in shown
    (summary,) = (tmp_path / "logs").glob("sojourn_*.json")
    assert json.loads(summary.read_text())["corpus"]["n_traces"] == 4
    (log,) = (tmp_path / "logs").glob("*.eval")
    again = ("score", str(log), "--scorer", "two.py@constant", "--metric", "sojourn/pass_hat")
    shown = inspect(tmp_path, *again, "--action", "overwrite", "--overwrite")
    assert "hooks enabled" not in shown
    (score,) = read_results(log)
    assert score["metrics"]["pass_hat_2"]["value"] == 0.5


def read_results(log: Path) -> list[dict[str, Any]]:
    from inspect_ai.log import read_eval_log

    results = read_eval_log(str(log), header_only=True).results
    assert results is not None
    return [score.model_dump() for score in results.scores]


def test_without_inspect_the_remedy_is_named_and_the_rest_works() -> None:
    code = """
import sys
sys.modules["inspect_ai"] = None
import sojourn
sojourn.read_traces, sojourn.assess_groups
try:
    import sojourn.inspect_ai
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == (
        'inspect_ai sojourn.inspect_ai needs Inspect: pip install "sojourn[inspect]"'
    )
