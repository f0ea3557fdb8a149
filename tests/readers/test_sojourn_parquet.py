from __future__ import annotations

from pathlib import Path

import pytest

from builders import corpus_of
from readers.conformance import ReaderConformance
from sojourn.corpus import write_corpus
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers import read_traces
from sojourn.readers._json import read_head
from sojourn.readers.sojourn_parquet import SojournParquetReader
from sojourn.readers.table import TableReader
from sojourn.records import Skipped


class TestConformance(ReaderConformance):
    format = "sojourn-parquet"
    sample = "own/corpus.parquet"
    n_runs = 4
    binary = True

    def test_reads_its_sample(self, source: Path) -> None:
        corpus = read_traces(source)
        assert len(corpus) == self.n_runs
        # A run keeps the format that it was first read from.
        assert corpus.source_type.used() == ("sojourn-jsonl",)


def test_a_converted_corpus_is_the_corpus(tmp_path: Path) -> None:
    corpus = corpus_of(["sflx", "ssss"], n_steps=4)
    skipped = (Skipped(source="log", reason="broken", count=2, what="line"),)
    write_corpus(corpus.replace(skipped=skipped), tmp_path / "c.parquet")
    again = read_traces(tmp_path / "c.parquet")
    assert again.skipped == skipped
    assert [again.trace(r) for r in range(8)] == [corpus.trace(r) for r in range(8)]


def test_own_jsonl_and_its_conversion_are_the_same(tmp_path: Path) -> None:
    data = Path(__file__).parent.parent / "data" / "own"
    first = read_traces(data / "runs.jsonl")
    write_corpus(first, tmp_path / "c.parquet")
    again = read_traces(tmp_path / "c.parquet")
    assert [again.trace(r) for r in range(4)] == [first.trace(r) for r in range(4)]
    assert again.skipped == first.skipped


def test_the_same_runs_from_log_and_corpus_count_once(tmp_path: Path) -> None:
    log = tmp_path / "runs.jsonl"
    log.write_text('{"task_id": "a", "task_repeat": 0, "outcome": true}\n')
    write_corpus(read_traces(log), tmp_path / "c.parquet")
    corpus = read_traces(tmp_path)
    assert len(corpus) == 1
    assert [item.count for item in corpus.skipped] == [1]


def test_claims_are_told_apart_from_tables(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    write_corpus(corpus_of(["s"]), path)
    head = read_head(path)
    assert SojournParquetReader().claims(path, head)
    assert not TableReader().claims(path, head)


def test_a_truncated_corpus_is_an_error_either_way(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    write_corpus(corpus_of(["s"] * 100), path)
    path.write_bytes(path.read_bytes()[:1000])
    for name in (None, "sojourn-parquet"):
        with pytest.raises(ReaderError, match="damaged or truncated Parquet"):
            read_traces(path, format=name)


def test_a_corpus_of_no_runs_is_an_error(tmp_path: Path) -> None:
    write_corpus(corpus_of([]), tmp_path / "c.parquet")
    with pytest.raises(EmptySourceError, match="no run was read"):
        read_traces(tmp_path / "c.parquet")
