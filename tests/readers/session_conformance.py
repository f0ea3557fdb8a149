"""What every reader of sessions must keep; the shared suite with tasks in the place of runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance import DEPTH, ReaderConformance

from sojourn.corpus import TaskBatch
from sojourn.errors import ReaderError
from sojourn.readers import read_sessions, read_traces
from sojourn.readers.base import Reader, Record, Source, kind_of
from sojourn.readers.finding import find_sources
from sojourn.records import Skipped, TaskResult

KNOWN = TaskResult | TaskBatch | Skipped


def count_tasks(records: list[Record]) -> int:
    """Return the number of tasks among records."""
    return sum(
        record.n_tasks if isinstance(record, TaskBatch) else 1
        for record in records
        if not isinstance(record, Skipped)
    )


def tasks_of(path: Path, **options: object) -> list[TaskResult]:
    """Return every task of a path as a record."""
    log = read_sessions(path, **options)  # type: ignore[arg-type]
    return [log.task(row) for row in range(len(log))]


class SessionReaderConformance(ReaderConformance):
    """As `ReaderConformance`; `n_runs` counts the sample's tasks.

    Attributes
    ----------
    as_runs : bool
        Whether its tasks are attempts as well, so that it may be read as runs.
    """

    as_runs: bool = False

    def test_is_of_sessions(self, reader: Reader, source: Path) -> None:
        assert kind_of(reader) == "sessions"
        assert all(isinstance(s, Source) and s.kind == "sessions" for s in find_sources(source))
        if self.as_runs:
            assert len(read_traces(source)) == self.n_runs
            return
        with pytest.raises(ReaderError, match=r"holds sessions, .*--as sessions \(read_sessions"):
            read_traces(source)

    def test_reads_its_sample(self, source: Path) -> None:
        tasks = tasks_of(source, options=self.options)
        assert len(tasks) == self.n_runs
        for task in tasks:
            assert task.source_type == self.format
            assert Path(task.source_uri).exists()

    def test_records_say_what_they_are(self, source: Path) -> None:
        assert all(isinstance(record, KNOWN) for record in self.read_copy(source))

    def test_reads_the_same_twice(self, source: Path) -> None:
        assert tasks_of(source) == tasks_of(source)

    @pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
    def test_a_truncated_sample_is_an_error_or_a_counted_skip(
        self, tmp_path: Path, share: float
    ) -> None:
        def cut(data: bytes) -> bytes:
            whole = data.rstrip()
            return whole[: min(int(len(whole) * share), len(whole) - 1)].rstrip(b"\n") or whole[:1]

        for path, records in self.damage(tmp_path, cut):
            assert count_tasks(records) <= self.n_runs
            told = any(isinstance(record, Skipped) for record in records)
            assert told or self.unharmed(path), f"{path}: nothing said of the truncation"

    def test_random_bytes_never_crash(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(8)
        for size in (1, 10, 3000):
            noise = rng.bytes(size)
            for _, records in self.damage(tmp_path / str(size), lambda _, noise=noise: noise):
                assert all(isinstance(record, KNOWN) for record in records)

    def test_flipped_bytes_never_crash(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(9)

        def flip(data: bytes) -> bytes:
            letters = np.frombuffer(data, np.uint8).copy()
            places = rng.integers(letters.size, size=max(1, letters.size // 200))
            letters[places] = rng.integers(256, size=places.size)
            return letters.tobytes()

        for round_ in range(8):
            for _, records in self.damage(tmp_path / str(round_), flip):
                assert all(isinstance(record, KNOWN) for record in records)

    def test_letters_that_are_not_utf8_lose_no_run(self, tmp_path: Path) -> None:
        def break_letters(data: bytes) -> bytes:
            return data.replace("é".encode(), b"\xe9\xff")

        for path, records in self.damage(tmp_path, break_letters):
            assert count_tasks(records) == self.n_runs, path

    @pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
    def test_deep_nesting_never_crashes(self, tmp_path: Path, bracket: bytes) -> None:
        deep = bracket * DEPTH

        def nest_all(_: bytes) -> bytes:
            return deep

        def nest_a_value(data: bytes) -> bytes:
            value = deep + b"1" + (b"]" if bracket == b"[" else b"}") * DEPTH
            return data.replace(b'"deep"', value, 1)

        for number, change in enumerate((nest_all, nest_a_value)):
            for _, records in self.damage(tmp_path / str(number), change):
                assert all(isinstance(record, KNOWN) for record in records)
