"""The readers' protocol, their table, and how a path becomes a corpus.

A reader is one file behind two questions and one job: does it claim a source, which siblings does
it consume, and what records stand in it. A source is a file, or a folder for formats that are
folders. No reader is imported until a source looks like it might be asked about, none guesses
silently against another, and whatever is left out comes back as `Skipped` with its reason.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sojourn._limits import FIRST_RECORD_BYTES, FOLDER_FILES, HEAD_BYTES
from sojourn._redaction import redacted
from sojourn.corpus import CorpusBuilder, TaskBatch, TraceBatch, TraceCorpus
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers._json import opens_with_long_object, read_head
from sojourn.records import Skipped, TaskResult, Trace

__all__ = [
    "READERS",
    "Builder",
    "ReadOptions",
    "Reader",
    "Record",
    "Source",
    "find_sources",
    "kind_of",
    "load_reader",
    "nothing_read",
    "read_source",
    "read_traces",
    "reader_names",
    "skip",
    "sources_of_runs",
]

Record = Trace | TraceBatch | TaskResult | TaskBatch | Skipped

# Name of a format -> where its reader stands; alphabetical, imported when first asked.
READERS: dict[str, str] = {
    "agbenchmark": "sojourn.readers.agbenchmark:AgbenchmarkReader",
    "atif": "sojourn.readers.atif:AtifReader",
    "claude-code": "sojourn.readers.claude_code:ClaudeCodeReader",
    "dynamic-cheatsheet": "sojourn.readers.dynamic_cheatsheet:DynamicCheatsheetReader",
    "every-eval-ever": "sojourn.readers.every_eval_ever:EveryEvalEverReader",
    "harbor": "sojourn.readers.harbor:HarborReader",
    "inspect": "sojourn.readers.inspect_ai:InspectReader",
    "inspect-scout": "sojourn.readers.inspect_scout:InspectScoutReader",
    "langfuse": "sojourn.readers.langfuse:LangfuseReader",
    "langsmith": "sojourn.readers.langsmith:LangSmithReader",
    "lm-eval": "sojourn.readers.lm_eval:LmEvalReader",
    "metr-runs": "sojourn.readers.metr_runs:MetrRunsReader",
    "mini-swe-agent": "sojourn.readers.mini_swe_agent:MiniSweAgentReader",
    "mint": "sojourn.readers.mint:MintReader",
    "mlflow": "sojourn.readers.mlflow:MlflowReader",
    "openai-agents": "sojourn.readers.openai_agents:OpenAIAgentsReader",
    "openhands": "sojourn.readers.openhands:OpenHandsReader",
    "otel": "sojourn.readers.otel:OtelReader",
    "promptfoo": "sojourn.readers.promptfoo:PromptfooReader",
    "reflexion": "sojourn.readers.reflexion:ReflexionReader",
    "session-table": "sojourn.readers.session_table:SessionTableReader",
    "sojourn-jsonl": "sojourn.readers.sojourn_jsonl:SojournJsonlReader",
    "sojourn-parquet": "sojourn.readers.sojourn_parquet:SojournParquetReader",
    "swe-agent": "sojourn.readers.swe_agent:SweAgentReader",
    "swe-bench-report": "sojourn.readers.swe_bench_report:SweBenchReportReader",
    "table": "sojourn.readers.table:TableReader",
    "tau-bench": "sojourn.readers.tau_bench:TauBenchReader",
    "tau2-bench": "sojourn.readers.tau2_bench:Tau2BenchReader",
}
# Sessions whose tasks are attempts as well, and their readers of runs: for ``--as traces``.
_AS_RUNS: dict[str, str] = {
    "agbenchmark": "sojourn.readers.agbenchmark_runs:AgbenchmarkRunsReader",
}
_IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a user may tell the readers.

    Attributes
    ----------
    columns : mapping of str to str
        For tables: our field -> the column that holds it (``--map``).
    scorer : str or None
        For logs with several verdicts a run: which one counts.
    verdicts_elsewhere : bool
        Whether rows without a verdict are runs, since a second file holds the verdicts.
    optional : frozenset of str
        Fields of `columns` whose column need not be there, since a second file has it.
    """

    def without_optional(self, names: Iterable[str], *, folded: bool = False) -> dict[str, str]:
        """Return `columns` but for optional ones that are not among `names`."""
        there = set(names)
        plain = {name.strip().casefold() for name in there} if folded else there
        return {
            ours: theirs
            for ours, theirs in self.columns.items()
            if ours not in self.optional
            or theirs in there
            or (folded and theirs.strip().casefold() in plain)
        }

    columns: Mapping[str, str] = field(default_factory=dict)
    scorer: str | None = None
    verdicts_elsewhere: bool = False
    optional: frozenset[str] = frozenset()


@runtime_checkable
class Reader(Protocol):
    """What a format's reader offers.

    Attributes
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    description : str
        One line for ``sojourn formats``.
    carries : str
        What one file holds, for ``sojourn formats``: outcome, steps, attempts.

    Notes
    -----
    A reader of sessions says so by an attribute ``kind = "sessions"`` and yields tasks; without
    it, or with ``"traces"``, the records are runs. One that has no use for some of what a user may
    tell names what it heeds by an attribute ``heeds``, of ``columns`` and ``scorer``; without it,
    both are taken to be heeded.
    """

    name: str
    description: str
    carries: str

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether `source` is of this format.

        `head` holds a file's first bytes without a byte order mark; it is empty for a folder.
        """
        ...

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return other files that `read` consumes, so that they are not reported as unknown."""
        ...

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the records of a source.

        Raises
        ------
        ReaderError
            If nothing can be read at all; single bad records become `Skipped`.
        """
        ...


class Builder(Protocol):
    """What collects the records of readers: a `CorpusBuilder` or a `SessionLogBuilder`."""

    def add(self, record: Any, /) -> None:
        """Add one record."""

    def add_batch(self, batch: Any, /) -> None:
        """Add a batch of columns."""

    def skip(self, item: Skipped, /) -> None:
        """Count something that was left out."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder and the reader that claims it."""

    path: Path
    reader: Reader

    @property
    def kind(self) -> str:
        """What is in it: ``traces`` or ``sessions``."""
        return kind_of(self.reader)


_SWITCHES = {"columns": "--map", "scorer": "--scorer"}


def unheeded(reader: Reader, options: ReadOptions) -> list[str]:
    """Say which of the things that a user told are of no account to a reader."""
    told = {
        "columns": bool(options.columns.keys() - options.optional),
        "scorer": options.scorer is not None,
    }
    heeds: frozenset[str] = getattr(reader, "heeds", frozenset(told))
    return [
        f"{_SWITCHES[name]} is of no account to logs of {reader.name}, and was not used"
        for name, is_told in told.items()
        if is_told and name not in heeds
    ]


def kind_of(reader: Reader) -> str:
    """Return what a reader yields by default: ``traces`` or ``sessions``."""
    kind: str = getattr(reader, "kind", "traces")
    return kind


def reader_names() -> list[str]:
    """Return the names of all formats, those of installed plug-ins included."""
    return sorted({*READERS, *(point.name for point in entry_points(group="sojourn.readers"))})


def load_reader(name: str) -> Reader:
    """Return the reader of a format by its name.

    Raises
    ------
    UnknownFormatError
        If no reader has that name.
    """
    if name in READERS:
        reader = _made(READERS[name])
    else:
        points = entry_points(group="sojourn.readers", name=name)
        if not points:
            raise UnknownFormatError(
                f"no format is called {name!r}; there are {', '.join(reader_names())}"
            )
        reader = next(iter(points)).load()()
    if not isinstance(reader, Reader):
        raise TypeError(f"the plug-in for {name!r} does not follow the readers' protocol")
    return reader


def _made(place: str) -> Any:
    """Return a reader by its module and class."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)()


def find_sources(
    path: Path, *, format: str | None = None, loosely: bool = False
) -> Iterator[Source | Skipped]:  # `format` is the command's word
    """Yield the sources below a path with their readers, and what nobody claims.

    Parameters
    ----------
    path : Path
        A file or a folder; links inside a folder are not followed, but counted.
    format : str, optional
        Force this reader.
    loosely : bool
        Whether what nobody claims may be rows of ours without a verdict: a file that is named,
        or the files of a folder in which there is nothing else to read.

    Raises
    ------
    ReaderError
        If the path does not exist or cannot be read.
    UnknownFormatError
        If a file that was named is claimed by no reader, or any source by more than one.
    """
    if not path.exists():
        raise ReaderError(f"{path}: no such file or folder")
    readers = [load_reader(name) for name in ([format] if format else reader_names())]
    if path.is_file():
        yield _claimed_file(path, readers, forced=format is not None, loosely=loosely)
    elif path.is_dir():
        yield from _walk(path, readers, loosely=loosely)
    else:
        raise ReaderError(f"{path}: neither a file nor a folder")


def _claimed_file(path: Path, readers: Sequence[Reader], *, forced: bool, loosely: bool) -> Source:
    try:
        head = read_head(path)
    except OSError as error:
        raise ReaderError(f"{path}: {error.strerror or error}") from None
    if not head.strip():
        raise EmptySourceError(f"{path}: the file is empty")
    if forced:
        return Source(path, readers[0])
    reader = _claimant(path, head, readers)
    if reader is None and loosely:
        reader = _reader_of_unjudged(path, head, readers)
    if reader is None:
        tried = ", ".join(reader.name for reader in readers)
        if opens_with_long_object(head):
            raise UnknownFormatError(
                f"{path}: the first record is longer than {HEAD_BYTES >> 10} KiB and is damaged, "
                f"or longer than {FIRST_RECORD_BYTES >> 20} MiB, and what is seen of it tells no "
                "format; name it with --format"
            )
        raise UnknownFormatError(
            f"{path}: no reader knows this format (tried {tried}); "
            "name one with --format, or write our JSON lines or a CSV"
        )
    return Source(path, reader)


def _reader_of_unjudged(path: Path, head: bytes, readers: Sequence[Reader]) -> Reader | None:
    accepting = [r for r in readers if getattr(r, "accepts_unjudged", _never)(path, head)]
    return accepting[0] if len(accepting) == 1 else None


def _never(source: Path, head: bytes) -> bool:
    return False


def _claimant(path: Path, head: bytes, readers: Sequence[Reader]) -> Reader | None:
    claiming = [reader for reader in readers if reader.claims(path, head)]
    if len(claiming) > 1:  # rows of ours are of few words, which a tool's own may hold too
        claiming = [reader for reader in claiming if reader.name not in _ROWS] or claiming
    if len(claiming) > 1:
        names = " and ".join(reader.name for reader in claiming)
        raise UnknownFormatError(f"{path}: claimed by {names}; choose one with --format")
    return claiming[0] if claiming else None


@dataclass(slots=True)
class _Walk:
    """What a walk through a folder has met so far."""

    found: list[Source] = field(default_factory=list)
    unknown: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    unreadable: list[Skipped] = field(default_factory=list)
    n_files: int = 0
    n_links: int = 0


def _walk(folder: Path, readers: Sequence[Reader], *, loosely: bool) -> Iterator[Source | Skipped]:
    walk = _Walk()
    stack = [folder]
    while stack:
        place = stack.pop()
        try:
            stack.extend(_visit(place, readers, walk))
        except OSError as error:
            walk.unreadable.append(_unreadable(place, error))
        if walk.n_files > FOLDER_FILES:
            raise ReaderError(f"{folder}: more than {FOLDER_FILES} files")
    if loosely and not walk.found:
        _claim_unjudged(walk, readers)
    for source in _reports_beside_runs(walk.found):
        walk.found.remove(source)
        advice = "" if loosely else "; join it with --outcomes FILE"
        yield Skipped(source=str(source.path), reason=f"{_BESIDE}{advice}", what="key")
    yield from walk.found
    yield from walk.unreadable
    if walk.n_links:
        yield Skipped(
            source=str(folder), reason="links are not followed", count=walk.n_links, what="file"
        )
    consumed = {
        sibling
        for source in walk.found
        for sibling in source.reader.siblings(source.path)
        if walk.unknown or walk.empty
    }
    for path in walk.empty:
        if path not in consumed:
            yield Skipped(source=str(path), reason="the file is empty", what="file")
    suffixes = Counter(path.suffix for path in walk.unknown if path not in consumed)
    for suffix, count in suffixes.items():
        kind = f"{suffix} files" if suffix else "files without a suffix"
        yield Skipped(
            source=str(folder), reason=f"no reader knows these {kind}", count=count, what="stranger"
        )


# Runs that hold no verdict of their own, and whose benchmark writes reports of verdicts.
_REPORTED = frozenset({"openhands", "swe-agent"})
_BESIDE = "a report of verdicts beside its runs is not read as runs of its own"


def _reports_beside_runs(found: Sequence[Source]) -> list[Source]:
    """Return the reports of verdicts on runs that lie beside or below them."""
    places = [source.path for source in found if source.reader.name in _REPORTED]
    return [
        source
        for source in found
        if source.reader.name == "swe-bench-report"
        and any(place.is_relative_to(source.path.parent) for place in places)
    ]


def _visit(place: Path, readers: Sequence[Reader], walk: _Walk) -> list[Path]:
    """Sort one folder's files, unless a reader claims it whole; return its folders, last first."""
    reader = _claimant(place, b"", readers)
    if reader is not None:
        walk.found.append(Source(place, reader))
        return []
    folders = []
    for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            walk.n_links += 1
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in _IGNORED_FOLDERS:
                folders.append(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            walk.n_files += 1
            _sort_file(Path(entry.path), readers, walk)
    return folders[::-1]


def _sort_file(path: Path, readers: Sequence[Reader], walk: _Walk) -> None:
    try:
        head = read_head(path)
        if not head.strip():
            walk.empty.append(path)
            return
        reader = _claimant(path, head, readers)
    except OSError as error:
        walk.unreadable.append(_unreadable(path, error))
        return
    if reader is None:
        walk.unknown.append(path)
    else:
        walk.found.append(Source(path, reader))


def _claim_unjudged(walk: _Walk, readers: Sequence[Reader]) -> None:
    """Take rows without a verdict.

    Only where nothing else is read in a folder: tables of tasks that lie beside logs of another
    format are no runs.
    """
    unknown = []
    for path in walk.unknown:
        try:
            reader = _reader_of_unjudged(path, read_head(path), readers)
        except OSError as error:
            walk.unreadable.append(_unreadable(path, error))
            continue
        if reader is None:
            unknown.append(path)
        else:
            walk.found.append(Source(path, reader))
    walk.unknown = unknown


def _unreadable(path: Path, error: OSError) -> Skipped:
    return Skipped(source=str(path), reason=error.strerror or "unreadable", what="file")


def read_traces(
    *paths: str | os.PathLike[str],
    format: str | None = None,
    options: ReadOptions | None = None,
    strict: bool = False,
    progress: Callable[[Path, int], None] | None = None,
) -> TraceCorpus:
    """Read runs from files and folders of any known format.

    Parameters
    ----------
    *paths : path-like
        Files or folders; formats are detected for each file.
    format : str, optional
        Force a reader by its name.
    options : ReadOptions, optional
        Column names of tables, the scorer that counts.
    strict : bool
        Raise on the first thing that would be skipped.
    progress : callable, optional
        Called with the source and the number of runs so far.

    Returns
    -------
    TraceCorpus
        The runs, and in `skipped` what was left out and why.

    Raises
    ------
    ReaderError
        If a path cannot be read, nothing in it could, or it holds sessions and no runs.
    """
    if not paths:
        raise ReaderError("no file or folder was named")
    options = ReadOptions() if options is None else options
    builder = CorpusBuilder()
    files = _Files()
    unused: Counter[tuple[Path, str]] = Counter()
    for name in paths:
        path = Path(name)
        for source in sources_of_runs(path, format=format, loosely=options.verdicts_elsewhere):
            if isinstance(source, Skipped):
                skip(builder, source, strict=strict)
                continue
            alone = source.path == path
            if (other := files.same_as(source)) is not None:
                reason = f"the same file stands at {other} too, and was read there"
                copy = Skipped(source=str(source.path), reason=reason, what="file")
                skip(builder, copy, strict=strict)
                continue
            if source.kind == "sessions":
                _refuse_sessions(source, builder, strict=strict, alone=alone)
                continue
            n_before = len(builder)
            unused.update((path, reason) for reason in unheeded(source.reader, options))
            read_source(source, options, builder, strict=strict, alone=alone)
            if len(builder) > n_before:
                files.note(source)
            if progress is not None:
                progress(source.path, len(builder))
    tell_unused(builder, unused)
    corpus = builder.build()
    if not len(corpus):
        raise nothing_read("run", paths, corpus.skipped)
    repeated = [item for item in corpus.skipped if item.what == "run"]
    if strict and repeated:  # what only the whole of the runs could show
        raise ReaderError(f"{repeated[0].source}: {repeated[0].reason} (--strict)")
    return corpus


def sources_of_runs(
    path: Path, *, format: str | None = None, loosely: bool = False
) -> list[Source | Skipped]:
    """Return the sources below a path; where all hold sessions of attempts, as runs."""
    found = list(find_sources(path, format=format, loosely=loosely))
    sources = [source for source in found if isinstance(source, Source)]
    if not all(source.reader.name in _AS_RUNS for source in sources):
        return found
    return [
        Source(item.path, _made(_AS_RUNS[item.reader.name])) if isinstance(item, Source) else item
        for item in found
    ]


# A row of these may be all that is known of a run, and two runs may well have equal ones; so may
# any file that is too short for a log.
_ROWS = frozenset({"session-table", "sojourn-jsonl", "table"})
_MIN_LOG_BYTES = 256


class _Files:
    """The files read so far, so that a copy of one is not taken for more runs."""

    def __init__(self) -> None:
        self._places: set[Path] = set()
        self._sizes: dict[int, list[Path]] = {}
        self._digests: dict[Path, bytes] = {}

    def same_as(self, source: Source) -> Path | None:
        """Return a file read before that is this one, or has its bytes and logs whole runs."""
        if source.path.resolve() in self._places:
            return source.path
        try:
            equal = self._sizes.get(self._size(source), ())
            # Equal bytes under another name may be another run: names of files are data to some.
            named = (p for p in equal if p.name == source.path.name)
            return next((p for p in named if self._digest(p) == self._digest(source.path)), None)
        except OSError:
            return None  # whoever reads it will say so

    def note(self, source: Source) -> None:
        """Remember a file or folder that gave runs."""
        self._places.add(source.path.resolve())
        size = self._size(source)
        if size >= _MIN_LOG_BYTES:
            self._sizes.setdefault(size, []).append(source.path)

    def _size(self, source: Source) -> int:
        """Return the size of a log, -1 for what may equal another by chance."""
        is_log = source.reader.name not in _ROWS and source.path.is_file()
        return source.path.stat().st_size if is_log else -1

    def _digest(self, path: Path) -> bytes:
        if path not in self._digests:
            with path.open("rb") as file:
                self._digests[path] = hashlib.file_digest(file, "blake2b").digest()
        return self._digests[path]


def nothing_read(
    unit: str, paths: Iterable[str | os.PathLike[str]], skipped: Iterable[Skipped]
) -> EmptySourceError:
    """Return the error that says that no run, or no task, was read, with the chief reasons."""
    counts: Counter[str] = Counter()
    for item in skipped:
        counts[item.reason] += item.count
    reasons = "; ".join(f"{reason} ({count})" for reason, count in list(counts.items())[:5])
    return EmptySourceError(
        f"no {unit} was read from {', '.join(map(str, paths))}"
        + (f": {reasons}" if reasons else "")
    )


def _refuse_sessions(source: Source, builder: CorpusBuilder, *, strict: bool, alone: bool) -> None:
    remedy = "read it with --as sessions (read_sessions in Python)"
    if alone:
        raise ReaderError(
            f"{source.path}: holds sessions, not runs ({source.reader.description}); {remedy}"
        )
    reason = f"the file holds sessions, not runs; {remedy}"
    skip(
        builder,
        Skipped(source=str(source.path), reason=reason, what="stranger"),
        strict=strict,
    )


def read_source(
    source: Source, options: ReadOptions, builder: Builder, *, strict: bool, alone: bool
) -> None:
    """Read one source into a builder; a source that fails among others is counted.

    Raises
    ------
    ReaderError
        If nothing in it can be read, and it stands `alone` or reading is `strict`.
    """
    if isinstance(builder, CorpusBuilder):
        builder.open_source(str(source.path))
    try:
        for record in source.reader.read(source.path, options):
            if isinstance(record, Skipped):
                skip(builder, record, strict=strict)
            elif isinstance(record, TraceBatch | TaskBatch):
                builder.add_batch(record)
            else:
                builder.add(record)
    except ReaderError as error:
        if alone or strict:
            raise type(error)(redacted(str(error))) from None
        builder.skip(Skipped(source=str(source.path), reason=str(error), what="file"))
    except OSError as error:
        if alone or strict:
            raise ReaderError(f"{source.path}: {error.strerror or error}") from None
        builder.skip(_unreadable(source.path, error))


def tell_unused(builder: Builder, unused: Mapping[tuple[Path, str], int]) -> None:
    """Count, once a path, the sources that took no account of what a user told."""
    for (path, reason), count in unused.items():
        builder.skip(Skipped(source=str(path), reason=reason, count=count, what="key"))


def skip(builder: Builder, item: Skipped, *, strict: bool) -> None:
    """Count what was left out, or raise ReaderError if reading is `strict`."""
    if strict and item.what not in ("key", "stranger"):
        raise ReaderError(f"{item.source}: {item.reason} (--strict)")
    builder.skip(item)
