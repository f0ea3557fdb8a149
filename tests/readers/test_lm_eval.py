"""lm-evaluation-harness: one filter, one metric, and only 0 and 1 are verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import traces
from sojourn.readers import load_reader, read_traces
from sojourn.readers.base import ReadOptions
from sojourn.records import End, Outcome, Skipped, Trace

SAMPLE = DATA / "lm-eval"
SUCCESS, FAILURE, UNSCORED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNSCORED


class TestConformance(ReaderConformance):
    format = "lm-eval"
    sample = "lm-eval"
    n_runs = 3


def read(folder: Path, *lines: dict[str, Any], **options: Any) -> list[Any]:
    path = folder / "samples_sums.jsonl"
    path.write_text("".join(json.dumps({"doc_id": 0, **line}) + "\n" for line in lines))
    return read_all(load_reader("lm-eval"), path, ReadOptions(**options))


def verdict(records: list[Any]) -> tuple[Outcome, float | None]:
    (trace,) = [record for record in records if isinstance(record, Trace)]
    return trace.outcome, trace.score


def notes(records: list[Any]) -> dict[str, int]:
    return {record.reason: record.count for record in records if isinstance(record, Skipped)}


def test_the_sample_is_what_it_was_written_to_be() -> None:
    runs = traces_of(SAMPLE)
    assert [trace.task_id for trace in runs] == ["0", "1", "2"]
    assert [trace.outcome for trace in runs] == [SUCCESS, FAILURE, FAILURE]
    assert {(t.task_set, t.model, t.end, t.n_steps) for t in runs} == {
        ("sums", "lab/model-a", End.FINISHED, 1)
    }
    assert [item.count for item in read_traces(SAMPLE).skipped] == [3]


@pytest.mark.parametrize(
    ("scorer", "outcomes"),
    [
        ("exact_match,flexible", [SUCCESS, SUCCESS, FAILURE]),
        (",flexible", [SUCCESS, SUCCESS, FAILURE]),
        ("exact_match", [SUCCESS, FAILURE, FAILURE]),
        ("bleu", [UNSCORED] * 3),
    ],
)
def test_metric_and_filter_can_be_chosen(scorer: str, outcomes: list[Outcome]) -> None:
    assert [trace.outcome for trace in traces_of(SAMPLE, scorer=scorer)] == outcomes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, (SUCCESS, 1.0)),
        (0.0, (FAILURE, 0.0)),
        (True, (SUCCESS, 1.0)),
        (0.5, (UNSCORED, 0.5)),
        (None, (UNSCORED, None)),
        ([1, 0], (UNSCORED, None)),
        ({"a": 1}, (UNSCORED, None)),
        (float("nan"), (UNSCORED, None)),
        (float("inf"), (UNSCORED, None)),
    ],
)
def test_only_nought_and_one_are_verdicts(tmp_path: Path, value: Any, expected: Any) -> None:
    assert verdict(read(tmp_path, {"resps": [["x"]], "metrics": ["acc"], "acc": value})) == expected


def test_old_files_do_not_list_their_metrics(tmp_path: Path) -> None:
    line = {"doc": {}, "target": 1, "arguments": [], "resps": [], "filtered_resps": [], "acc": 1.0}
    assert verdict(read(tmp_path, line)) == (SUCCESS, 1.0)


def test_of_several_metrics_the_first_counts_and_is_told(tmp_path: Path) -> None:
    line = {"resps": [], "metrics": ["acc", "acc_norm"], "acc": 0.0, "acc_norm": 1.0}
    records = read(tmp_path, line)
    assert verdict(records) == (FAILURE, 0.0)
    assert any("--scorer" in reason for reason in notes(records))
    assert verdict(read(tmp_path, line, scorer="acc_norm")) == (SUCCESS, 1.0)


def test_repeats_inside_a_line_are_one_run_and_told(tmp_path: Path) -> None:
    records = read(tmp_path, {"resps": [["a", "b", "c"]], "metrics": ["acc"], "acc": 1})
    assert verdict(records) == (SUCCESS, 1.0)
    assert any("sampled several times" in reason for reason in notes(records))


@pytest.mark.parametrize("doc_id", [None, [], {}, ""])
def test_a_document_without_an_id_is_no_run(tmp_path: Path, doc_id: Any) -> None:
    (skipped,) = [r for r in read(tmp_path, {"doc_id": doc_id, "acc": 1}) if r.what == "line"]
    assert "line 1" in skipped.source


def test_real_samples(real_logs: Path) -> None:
    runs = traces(read_traces(real_logs / "lm-eval"))
    assert len(runs) == 10
    assert {(trace.outcome, trace.score) for trace in runs} == {(FAILURE, 0.0)}
    assert {trace.task_set for trace in runs} == {"math_perturbed_full"}
    assert {trace.model.rpartition("/")[0] for trace in runs} == {"RylanSchaeffer"}
