"""Our reader of Inspect's logs against Inspect's own, on every log at hand and on fresh ones."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.scorer import value_to_float

from sojourn.readers.base import ReadOptions, load_reader
from sojourn.records import End, Outcome, Trace

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "inspect"
LOGS = sorted(path for path in FOLDER.glob("*") if path.suffix in (".eval", ".json"))
FAULTS = (End.INFRA_ERROR, End.CANCELLED)
TABLE = {
    "a1": ["C", "I", math.nan],
    "a2": ["error", "P", "C"],
    "b1": ["limit", "C", "N"],
    "b2": [0.25, 1.0, 0],
    "3": ["C", "C", "error"],
}


def read(path: str | Path) -> list[Trace]:
    records = load_reader("inspect").read(Path(path), ReadOptions())
    return [record for record in records if isinstance(record, Trace)]


def values_of(sample: EvalSample) -> list[Any]:
    """Return all values of a sample's scores, those in tables and lists one by one."""
    found: list[Any] = []
    for score in (sample.scores or {}).values():
        if isinstance(score.value, dict):
            found += score.value.values()
        else:
            found += score.value if isinstance(score.value, list) else [score.value]
    return found


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def agree(trace: Trace, sample: EvalSample) -> None:
    assert (trace.task_id, trace.task_repeat) == (str(sample.id), sample.epoch)
    if sample.error is not None:
        assert trace.end in FAULTS
    elif sample.limit is not None:
        assert trace.end is (End.CANCELLED if sample.limit.type == "operator" else End.LIMIT)
    else:
        assert trace.end is End.FINISHED
    values = values_of(sample)
    if trace.score is None:
        assert trace.outcome is Outcome.UNSCORED
        assert not values or any(map(is_nan, values))
    else:
        assert trace.score in [value_to_float()(value) for value in values if not is_nan(value)]
        assert (trace.outcome is Outcome.SUCCESS) == (abs(trace.score - 1) <= 1e-6)
    answers = [
        message
        for message in sample.messages
        if message.role == "assistant" and message.source not in ("input", "operator")
    ]
    if sample.messages:
        assert len(trace.steps) == len(answers)


def mean_score(traces: list[Trace]) -> float:
    """Return the mean over samples of the mean score of their epochs."""
    of_task = defaultdict(list)
    for trace in traces:
        if trace.score is not None and trace.end not in FAULTS:
            of_task[trace.task_id].append(trace.score)
    return fmean(map(fmean, of_task.values()))


def check(traces: list[Trace], log: EvalLog) -> None:
    samples = {(str(sample.id), sample.epoch): sample for sample in log.samples or []}
    assert len(traces) == len(samples) == len(log.samples or [])
    for trace in traces:
        assert (trace.model, trace.task_set) == (log.eval.model, log.eval.task)
        agree(trace, samples[(trace.task_id, trace.task_repeat or 1)])
    if log.results is None:
        return
    assert log.results.completed_samples == sum(trace.end not in FAULTS for trace in traces)
    if len(log.results.scores) == 1 and "accuracy" in log.results.scores[0].metrics:
        accuracy = log.results.scores[0].metrics["accuracy"].value
        assert mean_score(traces) == pytest.approx(accuracy)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_samples_epochs_ends_and_scores_agree(path: Path) -> None:
    check(read(path), read_eval_log(str(path)))


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_fresh_logs_agree_in_everything(run: Callable[..., EvalLog], log_format: str) -> None:
    log = run(TABLE, log_format=log_format)
    traces = read(log.location.removeprefix("file://"))
    check(traces, log)
    assert len(traces) == 15
    for trace in traces:
        planned = TABLE[trace.task_id][(trace.task_repeat or 1) - 1]
        assert (trace.end is End.INFRA_ERROR) == (planned == "error")
        assert (trace.end is End.LIMIT) == (planned == "limit")
        assert (trace.outcome is Outcome.UNSCORED) == (planned == "error" or is_nan(planned))
