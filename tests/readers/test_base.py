"""How a path becomes a corpus: who claims what, what is counted, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sojourn.corpus import CorpusBuilder
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers import finding, load_reader, read_traces, reader_names
from sojourn.readers.base import READERS, ReadOptions, Record, Source
from sojourn.readers.finding import find_sources
from sojourn.records import Outcome, Skipped, Trace


class LetterReader:
    """Claims files that begin with its letter; each further one is a run, ? is skipped, ! fatal."""

    description = "letters"
    carries = "outcome"

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.name = f"letter-{letter}"
        self.asked: list[Path] = []

    def claims(self, source: Path, head: bytes) -> bool:
        self.asked.append(source)
        return head.startswith(self.letter.encode()) or source.name == f"folder-{self.letter}"

    def siblings(self, source: Path) -> Iterable[Path]:
        return [source.with_suffix(".side")]

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        text = "" if source.is_dir() else source.read_text()[1:]
        for letter in text:
            if letter == "!":
                raise ReaderError(f"{source}: broken")
            if letter == "?":
                yield Skipped(source=str(source), reason="a question")
            else:
                outcome = Outcome.SUCCESS if letter == "s" else Outcome.FAILURE
                yield Trace(task_id=letter, outcome=outcome, source_uri=str(source))


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> dict[str, LetterReader]:
    """Replace the table by two readers of letters."""
    table = {f"letter-{letter}": LetterReader(letter) for letter in "ab"}
    monkeypatch.setattr(finding, "reader_names", lambda: sorted(table))
    monkeypatch.setattr(finding, "load_reader", table.__getitem__)
    return table


def found_in(path: Path) -> tuple[list[tuple[str, str]], list[tuple[str, int]]]:
    sources, skipped = [], []
    for item in find_sources(path):
        if isinstance(item, Source):
            sources.append((item.path.name, item.reader.name))
        else:
            skipped.append((item.reason, item.count))
    return sources, skipped


def test_the_table_is_alphabetical_and_complete() -> None:
    assert list(READERS) == sorted(READERS)
    assert set(READERS) <= set(reader_names())
    for name in READERS:
        assert load_reader(name).name == name


def test_the_table_imports_nothing_until_asked() -> None:
    assert all(isinstance(place, str) for place in READERS.values())


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UnknownFormatError, match=r"'nonsense'; there are .*tau-bench"):
        load_reader("nonsense")


def test_a_stranger_that_keeps_no_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "object", "builtins:object")
    with pytest.raises(TypeError, match="does not follow"):
        load_reader("object")


@pytest.mark.usefixtures("readers")
class TestFiles:
    def test_a_file_goes_to_its_claimant(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("bsf")
        assert found_in(path) == ([("x", "letter-b")], [])
        corpus = read_traces(path)
        assert [corpus.trace(run).outcome for run in range(2)] == [Outcome.SUCCESS, Outcome.FAILURE]

    def test_a_format_may_be_forced(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("zs")
        assert len(read_traces(path, format="letter-a")) == 1

    def test_a_file_that_nobody_knows_lists_who_was_asked(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("zs")
        with pytest.raises(UnknownFormatError, match="tried letter-a, letter-b"):
            read_traces(path)

    def test_a_missing_path(self, tmp_path: Path) -> None:
        with pytest.raises(ReaderError, match="no such file"):
            read_traces(tmp_path / "none")
        with pytest.raises(ReaderError, match="no file or folder was named"):
            read_traces()

    @pytest.mark.parametrize("content", [b"", b" \n", b"\xef\xbb\xbf"])
    def test_an_empty_file(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(EmptySourceError, match="is empty"):
            read_traces(path)

    def test_neither_file_nor_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        with pytest.raises(ReaderError, match="neither a file nor a folder"):
            read_traces(path)

    def test_an_unreadable_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x"
        path.write_text("as")
        (tmp_path / "y").write_text("as")

        def refuse(path: Path) -> bytes:
            if path.name == "x":
                raise PermissionError(13, "Permission denied")
            return path.read_bytes()

        monkeypatch.setattr(finding, "read_head", refuse)
        with pytest.raises(ReaderError, match="x: Permission denied"):
            read_traces(path)
        corpus = read_traces(tmp_path)
        assert len(corpus) == 1
        assert [(s.reason, s.what) for s in corpus.skipped] == [("Permission denied", "file")]

    def test_a_broken_file_is_an_error_alone_and_a_count_among_others(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("as!")
        (tmp_path / "y").write_text("as")
        with pytest.raises(ReaderError, match="broken"):
            read_traces(path)
        corpus = read_traces(tmp_path)
        assert (len(corpus), [item.what for item in corpus.skipped]) == (2, ["file", "key"])
        with pytest.raises(ReaderError, match="broken"):
            read_traces(tmp_path, strict=True)

    def test_a_file_that_vanishes_is_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "x").write_text("as")
        (tmp_path / "y").write_text("as")
        real = LetterReader.read

        def vanish(self: LetterReader, source: Path, options: ReadOptions) -> Iterator[Record]:
            if source.name == "x":
                raise FileNotFoundError(2, "No such file or directory")
            return real(self, source, options)

        monkeypatch.setattr(LetterReader, "read", vanish)
        corpus = read_traces(tmp_path)
        assert len(corpus) == 1
        assert [item.reason for item in corpus.skipped] == ["No such file or directory"]
        with pytest.raises(ReaderError, match="No such file"):
            read_traces(tmp_path / "x")

    def test_strict_raises_on_the_first_thing_skipped(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("as?")
        corpus = read_traces(path)
        assert (len(corpus), corpus.skipped[0].reason) == (1, "a question")
        with pytest.raises(ReaderError, match=r"a question \(--strict\)"):
            read_traces(path, strict=True)

    def test_no_run_at_all_is_an_error_with_its_reasons(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("a??")
        with pytest.raises(EmptySourceError, match=r"no run was read .* a question \(2\)"):
            read_traces(path)

    def test_progress_is_told(self, tmp_path: Path) -> None:
        for name in "xy":
            (tmp_path / name).write_text("asf")
        told: list[tuple[str, int]] = []
        read_traces(tmp_path, progress=lambda path, n: told.append((path.name, n)))
        assert told == [("x", 2), ("y", 4)]


@pytest.mark.usefixtures("readers")
class TestFolders:
    def test_all_that_is_there_is_found_or_counted(self, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        (tmp_path / "c" / "deep").mkdir(parents=True)
        (tmp_path / "b" / "two.x").write_text("bs")
        (tmp_path / "b" / "two.side").write_text("side")
        (tmp_path / "c" / "deep" / "three").write_text("as")
        (tmp_path / "one").write_text("as")
        (tmp_path / "empty").write_text(" ")
        (tmp_path / "note.md").write_text("zz")
        (tmp_path / "c" / "note.md").write_text("zz")
        (tmp_path / "plain").write_text("zz")
        (tmp_path / ".hidden").write_text("as")
        (tmp_path / "__pycache__").mkdir()
        (tmp_path / "__pycache__" / "four").write_text("as")
        (tmp_path / "link").symlink_to(tmp_path / "one")
        sources, skipped = found_in(tmp_path)
        assert sources == [("one", "letter-a"), ("two.x", "letter-b"), ("three", "letter-a")]
        assert sorted(skipped) == [
            ("links are not followed", 1),
            ("no reader knows these .md files", 2),
            ("no reader knows these files without a suffix", 1),
            ("the file is empty", 1),
        ]

    def test_a_folder_may_be_claimed_whole(
        self, tmp_path: Path, readers: dict[str, LetterReader]
    ) -> None:
        (tmp_path / "folder-a").mkdir()
        (tmp_path / "folder-a" / "x").write_text("bs")
        assert found_in(tmp_path)[0] == [("folder-a", "letter-a")]
        assert tmp_path / "folder-a" / "x" not in readers["letter-b"].asked

    def test_two_that_claim_one_source_are_both_named(
        self, tmp_path: Path, readers: dict[str, LetterReader]
    ) -> None:
        readers["letter-b"].letter = "a"
        (tmp_path / "x").write_text("as")
        for path in (tmp_path, tmp_path / "x"):
            with pytest.raises(UnknownFormatError, match="letter-a and letter-b"):
                read_traces(path)
        assert len(read_traces(tmp_path / "x", format="letter-b")) == 1

    def test_an_empty_folder_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(EmptySourceError, match="no run was read"):
            read_traces(tmp_path)

    def test_a_folder_that_may_not_be_listed_is_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "x").write_text("as")
        (tmp_path / "closed").mkdir()
        real = os.scandir

        def scan(place: Path) -> object:
            if place.name == "closed":
                raise PermissionError(13, "Permission denied")
            return real(place)

        monkeypatch.setattr(os, "scandir", scan)
        corpus = read_traces(tmp_path)
        assert (len(corpus), corpus.skipped[0].reason) == (1, "Permission denied")

    def test_a_loop_of_links_ends(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_text("as")
        (tmp_path / "loop").symlink_to(tmp_path)
        assert found_in(tmp_path) == ([("x", "letter-a")], [("links are not followed", 1)])

    def test_too_many_files_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(finding, "FOLDER_FILES", 2)
        for name in "xyz":
            (tmp_path / name).write_text("as")
        with pytest.raises(ReaderError, match="more than 2 files"):
            read_traces(tmp_path)


def test_mixed_formats_in_one_folder_are_read_side_by_side(tmp_path: Path) -> None:
    data = Path(__file__).resolve().parent.parent / "data"
    names = ("tau-bench/results.json", "tau2-bench/telecom.json", "swe-agent/shop__cart-1.traj")
    for name in names:
        (tmp_path / Path(name).name).write_bytes((data / name).read_bytes())
    (tmp_path / "own.jsonl").write_text('{"task_id": "a", "outcome": "success"}\n')
    corpus = read_traces(tmp_path)
    kinds = [corpus.trace(run).source_type for run in range(len(corpus))]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "sojourn-jsonl": 1,
        "tau-bench": 4,
        "tau2-bench": 4,
        "swe-agent": 1,
    }
    assert len(corpus.groups()) == 4


def test_equal_attempts_of_one_job_are_counted_once() -> None:
    builder = CorpusBuilder()
    for _ in range(2):
        builder.add(Trace(task_id="a", task_repeat=0, outcome=Outcome.SUCCESS, job_id="j"))
    assert (len(builder.build()), builder.build().skipped[0].count) == (1, 1)


# Copies


def _rows(folder: Path, name: str = "runs.csv") -> Path:
    path = folder / name
    rows = "".join(f"t{i % 5},{i // 5},{i % 3 % 2},{3 + i % 7}\n" for i in range(15))
    path.write_text(f"task_id,task_repeat,outcome,n_steps\n{rows}")
    return path


@pytest.mark.parametrize("name", ["copy.csv", "copy.parquet", "copy.jsonl"])
def test_a_copy_of_a_table_is_read_once(tmp_path: Path, name: str) -> None:
    from sojourn.corpus import write_corpus, write_jsonl

    alone = read_traces(_rows(tmp_path))
    if name.endswith("csv"):
        _rows(tmp_path, name)
    else:
        (write_corpus if name.endswith("parquet") else write_jsonl)(alone, tmp_path / name)
    corpus = read_traces(tmp_path)
    assert len(corpus) == len(alone) == 15
    (copy,) = [item for item in corpus.skipped if item.what == "run"]
    assert copy.count == 15
    with pytest.raises(ReaderError, match="strict"):
        read_traces(tmp_path, strict=True)


def test_a_copy_of_a_log_is_not_read(tmp_path: Path) -> None:
    log = Path(__file__).parent.parent / "data" / "tau-bench" / "results.json"
    alone = read_traces(log)
    (tmp_path / "sub").mkdir()
    for place in (tmp_path, tmp_path / "sub"):
        (place / "results.json").write_bytes(log.read_bytes())
    corpus = read_traces(tmp_path)
    assert len(corpus) == len(alone)
    assert [(s.count, s.what) for s in corpus.skipped if "same file" in s.reason] == [(1, "file")]
    assert len(read_traces(log, log)) == len(alone)


def test_strict_minds_repeated_attempts(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("task_id,task_repeat,outcome\na,0,1\na,0,0\n")
    assert len(read_traces(path)) == 1
    with pytest.raises(ReaderError, match=r"contradicts itself.*--strict"):
        read_traces(path, strict=True)
