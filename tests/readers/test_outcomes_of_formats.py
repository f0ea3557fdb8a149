"""Verdicts from a second file, for each format that holds none: every run finds its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from readers.conformance import DATA
from sojourn.readers import ReadOptions, read_traces
from sojourn.readers.outcomes import join_outcomes, read_outcomes
from sojourn.records import Outcome

SAMPLES = {
    "atif": "atif",
    "claude-code": "claude-code",
    "inspect-scout": "inspect-scout",
    "langfuse": "langfuse",
    "langsmith": "langsmith",
    "mlflow": "mlflow",
    "openai-agents": "openai-agents",
    "openhands": "openhands/output.jsonl",
    "otel": "otel",
    "swe-agent": "swe-agent",
}


@pytest.mark.parametrize("suffix", ["json", "csv"])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_each_run_takes_the_verdict_with_its_id(tmp_path: Path, name: str, suffix: str) -> None:
    corpus = read_traces(DATA / SAMPLES[name], options=ReadOptions(verdicts_elsewhere=True))
    runs = [corpus.trace(run) for run in range(len(corpus))]
    assert {run.source_type for run in runs} == {name}
    ids = list(dict.fromkeys(run.task_id for run in runs))
    verdicts = {task: place % 2 == 0 for place, task in enumerate([*ids, "of nobody"])}
    path = tmp_path / f"verdicts.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(verdicts))
    else:
        rows = [f"{task},{int(passed)}" for task, passed in verdicts.items()]
        path.write_text("\n".join(["task_id,outcome", *rows]) + "\n")
    joined = join_outcomes(corpus, read_outcomes(path))
    alone = {task for task in ids if sum(run.task_id == task for run in runs) == 1}
    assert alone
    for place, run in enumerate(runs):
        expected = Outcome.SUCCESS if verdicts[run.task_id] else Outcome.FAILURE
        found = joined.trace(place)
        assert found.outcome is (expected if run.task_id in alone else run.outcome)
        assert [step.name for step in found.steps] == [step.name for step in run.steps]
    reasons = {item.reason: item.count for item in joined.skipped}
    assert reasons["a verdict fits no run"] == 1
    assert "no verdict on the run" not in reasons
