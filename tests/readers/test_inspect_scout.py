"""Inspect Scout: a row is a run, its conversation a column, its verdict another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.errors import ReaderError
from sojourn.readers import load_reader, read_traces
from sojourn.readers.base import ReadOptions
from sojourn.readers.finding import find_sources
from sojourn.records import End, LimitKind, Outcome, Skipped

SAMPLE = DATA / "inspect-scout" / "transcripts.parquet"


class TestConformance(ReaderConformance):
    format = "inspect-scout"
    sample = "inspect-scout/transcripts.parquet"
    n_runs = 4
    binary = True


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "transcripts.parquet"
    pq.write_table(pa.Table.from_pylist([{"transcript_id": "t", **row} for row in rows]), path)
    return path


def read(folder: Path, *rows: dict[str, Any], **options: Any) -> list[Any]:
    return read_all(load_reader("inspect-scout"), write(folder, *rows), ReadOptions(**options))


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, second, third, last = traces_of(SAMPLE)
    assert (first.task_set, first.task_id, first.task_repeat) == ("sums", "1", 1)
    assert (first.agent, first.model, first.job_id) == ("react", "lab/model-a", "e1")
    assert (first.outcome, first.end, first.score) == (Outcome.SUCCESS, End.FINISHED, 1.0)
    assert [(s.name, s.ok) for s in first.steps] == [("ls", True), ("submit", True)]
    assert (second.outcome, second.end) == (Outcome.FAILURE, End.LIMIT)
    assert second.limit_kind is LimitKind.MESSAGES
    assert [(s.name, s.ok) for s in second.steps] == [("search", False), ("respond", None)]
    assert (third.outcome, third.score) == (Outcome.SUCCESS, 1.0)  # the first of its scores
    assert (last.task_id, last.outcome, last.end) == ("u4", Outcome.UNSCORED, End.INFRA_ERROR)
    reasons = [item.reason for item in read_traces(SAMPLE).skipped]
    assert [reason[:14] for reason in reasons] == ["several scores"]


def test_a_score_that_is_asked_for_counts_before_the_column(tmp_path: Path) -> None:
    row = {"success": True, "score": json.dumps({"a": 0, "b": 1})}
    for scorer, outcome in (("a", Outcome.FAILURE), ("b", Outcome.SUCCESS)):
        trace, _ = read(tmp_path, row, scorer=scorer)
        assert trace.outcome is outcome
    (refused,) = read(tmp_path, row, scorer="c")
    assert "no scorer is called c; there are: a, b" in refused.reason


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"success": True}, Outcome.SUCCESS),
        ({"success": None, "score": '"C"'}, Outcome.SUCCESS),
        ({"success": None, "score": "C"}, Outcome.SUCCESS),
        ({"success": None, "score": "0.5"}, Outcome.FAILURE),
        ({"success": None, "score": "NaN"}, Outcome.UNSCORED),
        ({"success": None, "score": None}, Outcome.UNSCORED),
        ({"success": False, "score": "1"}, Outcome.FAILURE),
        ({"success": 1.0}, Outcome.SUCCESS),
        ({"score": '"good"'}, Outcome.UNSCORED),
    ],
)
def test_verdicts(tmp_path: Path, row: dict[str, Any], outcome: Outcome) -> None:
    trace, *_ = read(tmp_path, row)
    assert trace.outcome is outcome


@pytest.mark.parametrize(
    ("row", "end", "limit_kind"),
    [
        ({"limit": "tokens"}, End.LIMIT, LimitKind.TOKENS),
        ({"limit": "time"}, End.LIMIT, LimitKind.TIME),
        ({"limit": "moon"}, End.LIMIT, LimitKind.CUSTOM),
        ({"limit": "operator"}, End.CANCELLED, None),
        ({"limit": "", "source_type": "weave"}, End.UNKNOWN, None),
        ({"error": "x", "limit": "time"}, End.INFRA_ERROR, None),
    ],
)
def test_ends(tmp_path: Path, row: dict[str, Any], end: End, limit_kind: LimitKind | None) -> None:
    trace, *_ = read(tmp_path, row)
    assert (trace.end, trace.limit_kind) == (end, limit_kind)


@pytest.mark.parametrize("messages", [None, "", "{", "7", '{"a": 1}', 7, "[7]"])
def test_messages_that_cannot_be_read_cost_the_steps_only(tmp_path: Path, messages: Any) -> None:
    trace, note = read(tmp_path, {"success": True, "messages": messages})
    assert (trace.n_steps, note.what, note.count) == (None, "key", 1)


def test_columns_of_metadata_may_be_named() -> None:
    runs = traces_of(SAMPLE, columns={"cluster": "lane", "task_id": "transcript_id"})
    assert [(run.task_id, run.cluster) for run in runs[:1]] == [("u1", "north")]
    with pytest.raises(ReaderError, match="no column is called 'moon'"):
        traces_of(SAMPLE, columns={"cluster": "moon"})


def test_an_index_is_no_second_set_of_runs(tmp_path: Path) -> None:
    index = tmp_path / "_index"
    index.mkdir()
    (index / "index_1.idx").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "a.parquet").write_bytes(SAMPLE.read_bytes())
    corpus = read_traces(tmp_path)
    assert len(corpus) == 4
    assert not [item for item in corpus.skipped if item.what == "stranger"]


def test_a_table_of_verdicts_on_transcripts_stays_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, {"task_id": "a", "outcome": "success"})
    (source,) = find_sources(path)
    assert source.reader.name == "table"  # type: ignore[union-attr]


def test_rows_that_are_no_runs_are_counted(tmp_path: Path) -> None:
    records = read(tmp_path, {"transcript_id": "", "success": True}, {"success": True})
    assert [isinstance(record, Skipped) for record in records] == [True, False, True]
