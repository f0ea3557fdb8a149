"""What every reader must keep, asked of its own small sample: subclass and name the sample.

class TestConformance(ReaderConformance):
    format = "tau-bench"
    sample = "tau-bench/results.json"
    n_runs = 4

The sample is a file or a folder below ``tests/data``. Damage is done to copies of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn.corpus import TraceBatch
from sojourn.errors import ReaderError
from sojourn.readers.base import (
    Reader,
    ReadOptions,
    Record,
    Source,
    kind_of,
    load_reader,
    reader_names,
)
from sojourn.readers.finding import find_sources
from sojourn.readers.reading import read_traces
from sojourn.readers.sessions import read_sessions
from sojourn.records import Skipped, Trace

DATA = Path(__file__).resolve().parent.parent / "data"
DEPTH = 100_000


def read_all(reader: Reader, source: Path, options: ReadOptions | None = None) -> list[Record]:
    """Return all records of a source; the reader's refusal is one that skips the file."""
    records: list[Record] = []
    try:
        records.extend(reader.read(source, options or ReadOptions()))
    except ReaderError as error:
        records.append(Skipped(source=str(source), reason=str(error), what="file"))
    return records


def count_runs(records: list[Record]) -> int:
    """Return the number of runs among records."""
    return sum(
        record.n_runs if isinstance(record, TraceBatch) else 1
        for record in records
        if not isinstance(record, Skipped)
    )


def traces_of(path: Path, format: str | None = None, **options: object) -> list[Trace]:
    """Return every run of a path as a record."""
    corpus = read_traces(path, format=format, options=ReadOptions(**options))  # type: ignore[arg-type]
    return [corpus.trace(run) for run in range(len(corpus))]


class ReaderConformance:
    """The shared suite.

    Attributes
    ----------
    format : str
        The reader's name.
    sample : str
        File or folder below ``tests/data``.
    n_runs : int
        Runs in the sample.
    steps_known : bool
        Whether every run of the sample logs its steps or their number.
    binary : bool
        Whether the format is no text, so that broken letters are broken containers.
    options : ReadOptions
        What the reader is told.

    A text sample holds an "é" in some string, and the string "deep" as some value that is not
    needed: the first is broken, the second replaced by 10^5 brackets.
    """

    format: str
    sample: str
    n_runs: int
    steps_known: bool = True
    binary: bool = False
    options: ReadOptions = ReadOptions()

    # What a subclass may override

    def damaged_files(self, folder: Path) -> Iterator[Path]:
        """Yield the files of a copied sample that are to be damaged, one after the other."""
        root = folder / Path(self.sample).name
        yield from (
            sorted(path for path in root.rglob("*") if path.is_file())
            if (root.is_dir())
            else [root]
        )

    # Helpers

    @pytest.fixture
    def reader(self) -> Reader:
        return load_reader(self.format)

    @pytest.fixture
    def source(self) -> Path:
        return DATA / self.sample

    def copied(self, folder: Path) -> Path:
        """Copy the sample below a folder and return the copy."""
        source, target = DATA / self.sample, folder / Path(self.sample).name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        return target

    def damage(
        self, folder: Path, change: Callable[[bytes], bytes]
    ) -> Iterator[tuple[Path, list[Record]]]:
        """Damage each file of a fresh copy in turn; yield it and what the reader makes of it."""
        names = [
            path.relative_to(folder / "0")
            for path in self.damaged_files(self._fresh(folder, 0).parent)
        ]
        for number, name in enumerate(names, start=1):
            target = self._fresh(folder, number)
            path = folder / str(number) / name
            path.write_bytes(change(path.read_bytes()))
            yield path, self.read_copy(target)

    def _fresh(self, folder: Path, number: int) -> Path:
        return self.copied(folder / str(number))

    def read_copy(self, target: Path) -> list[Record]:
        """Read a damaged copy: a file by the forced reader, a folder as a walk through it would."""
        reader = load_reader(self.format)
        if target.is_file():
            return read_all(reader, target, self.options)
        records: list[Record] = []
        try:
            for item in find_sources(target):
                if isinstance(item, Skipped):
                    records.append(item)
                else:
                    records += read_all(item.reader, item.path, self.options)
        except ReaderError as error:
            records.append(Skipped(source=str(target), reason=str(error), what="file"))
        return records

    # The suite

    @pytest.mark.parametrize("told", ["columns", "scorer"])
    def test_what_a_user_tells_is_heeded_or_said_to_be_of_no_account(
        self, told: str, source: Path, tmp_path: Path
    ) -> None:
        absent = {"columns": {"task_id": "absent"}} if told == "columns" else {"scorer": "absent"}
        options = replace(self.options, **absent)  # type: ignore[arg-type]
        read = read_sessions if kind_of(load_reader(self.format)) == "sessions" else read_traces
        try:
            reasons = [s.reason for s in read(source, format=self.format, options=options).skipped]
        except ReaderError as error:
            reasons = [str(error)]
        switch = {"columns": "--map", "scorer": "--scorer"}[told]
        assert any("absent" in r or f"{switch} is of no account" in r for r in reasons), reasons

    def test_is_in_the_table_and_describes_itself(self, reader: Reader) -> None:
        assert self.format in reader_names()
        assert reader.name == self.format
        assert reader.description.strip()
        assert reader.carries.strip()
        assert isinstance(reader, Reader)

    def test_claims_its_sample_and_nobody_else_does(self, source: Path) -> None:
        found = list(find_sources(source))
        assert found
        for item in found:
            assert isinstance(item, Source), item
            assert item.reader.name == self.format

    def test_reads_its_sample(self, source: Path) -> None:
        corpus = read_traces(source, options=self.options)
        assert len(corpus) == self.n_runs
        for run in range(len(corpus)):
            trace = corpus.trace(run)  # checks itself
            assert trace.source_type == self.format
            assert Path(trace.source_uri).exists()
            if self.steps_known:
                assert trace.n_steps is not None

    def test_records_say_what_they_are(self, source: Path) -> None:
        for record in self.read_copy(source):
            assert isinstance(record, Trace | TraceBatch | Skipped)

    def test_reads_the_same_twice(self, source: Path) -> None:
        first, second = (
            [record for record in self.read_copy(source) if not isinstance(record, TraceBatch)]
            for _ in range(2)
        )
        assert first == second
        corpora = [read_traces(source, options=self.options) for _ in range(2)]
        assert [corpora[0].trace(run) for run in range(self.n_runs)] == [
            corpora[1].trace(run) for run in range(self.n_runs)
        ]

    @pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
    def test_a_truncated_sample_is_an_error_or_a_counted_skip(
        self, tmp_path: Path, share: float
    ) -> None:
        def cut(data: bytes) -> bytes:
            whole = data.rstrip()
            return whole[: min(int(len(whole) * share), len(whole) - 1)].rstrip(b"\n") or whole[:1]

        for path, records in self.damage(tmp_path, cut):
            assert count_runs(records) <= self.n_runs
            told = any(isinstance(record, Skipped) for record in records)
            assert told or self.unharmed(path), f"{path}: nothing said of the truncation"

    def unharmed(self, path: Path) -> bool:
        """Return whether a file may be truncated without a word; by default none may."""
        return False

    def test_random_bytes_never_crash(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(8)
        for size in (1, 10, 3000):
            noise = rng.bytes(size)
            for _, records in self.damage(tmp_path / str(size), lambda _, noise=noise: noise):
                assert all(isinstance(r, Trace | TraceBatch | Skipped) for r in records)

    def test_flipped_bytes_never_crash(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(9)

        def flip(data: bytes) -> bytes:
            letters = np.frombuffer(data, np.uint8).copy()
            places = rng.integers(letters.size, size=max(1, letters.size // 200))
            letters[places] = rng.integers(256, size=places.size)
            return letters.tobytes()

        for round_ in range(8):
            for _, records in self.damage(tmp_path / str(round_), flip):
                assert all(isinstance(r, Trace | TraceBatch | Skipped) for r in records)

    def test_letters_that_are_not_utf8_lose_no_run(self, tmp_path: Path) -> None:
        if self.binary:
            pytest.skip("no text format")

        def break_letters(data: bytes) -> bytes:
            return data.replace("é".encode(), b"\xe9\xff")

        for path, records in self.damage(tmp_path, break_letters):
            assert count_runs(records) == self.n_runs, path

    @pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
    def test_deep_nesting_never_crashes(self, tmp_path: Path, bracket: bytes) -> None:
        if self.binary:
            pytest.skip("no text format")
        deep = bracket * DEPTH

        def nest_all(_: bytes) -> bytes:
            return deep

        def nest_a_value(data: bytes) -> bytes:
            value = deep + b"1" + (b"]" if bracket == b"[" else b"}") * DEPTH
            return data.replace(b'"deep"', value, 1)

        for number, change in enumerate((nest_all, nest_a_value)):
            for _, records in self.damage(tmp_path / str(number), change):
                assert all(isinstance(r, Trace | TraceBatch | Skipped) for r in records)
