"""How a path becomes a corpus: sources are found, read and counted, and so is what is left out."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sojourn._redaction import redacted
from sojourn.corpus import CorpusBuilder, TaskBatch, TraceBatch, TraceCorpus
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers.base import ROWS, Builder, ReadOptions, Source, unheeded
from sojourn.readers.finding import sources_of_runs, unreadable
from sojourn.records import Skipped

__all__ = ["nothing_read", "read_source", "read_traces", "skip", "tell_unused"]


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


_MIN_LOG_BYTES = 256  # a shorter file may well have an equal one


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
        is_log = source.reader.name not in ROWS and source.path.is_file()
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
        builder.skip(unreadable(source.path, error))


def tell_unused(builder: Builder, unused: Mapping[tuple[Path, str], int]) -> None:
    """Count, once a path, the sources that took no account of what a user told."""
    for (path, reason), count in unused.items():
        builder.skip(Skipped(source=str(path), reason=reason, count=count, what="key"))


def skip(builder: Builder, item: Skipped, *, strict: bool) -> None:
    """Count what was left out, or raise ReaderError if reading is `strict`."""
    if strict and item.what not in ("key", "stranger"):
        raise ReaderError(f"{item.source}: {item.reason} (--strict)")
    builder.skip(item)
