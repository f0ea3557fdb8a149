"""`read_sessions`: files and folders of any format that holds ordered outcomes, as a session log.

Formats of sessions are read by their own readers. Formats of runs feed sessions too where their
runs say which session they belong to; a table that is both is read as a table of sessions here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sojourn.corpus import CorpusBuilder, SessionLog, SessionLogBuilder
from sojourn.corpus.session_builder import NO_PLACE, batch_of_traces
from sojourn.errors import ReaderError
from sojourn.readers._json import read_head
from sojourn.readers.base import ReadOptions, Source, load_reader, unheeded
from sojourn.readers.finding import find_sources
from sojourn.readers.reading import nothing_read, read_source, skip, tell_unused
from sojourn.records import Skipped

__all__ = ["as_sessions", "read_sessions"]

# The reader that also takes what others claim first, if its rows say session and position.
_TABLES = "session-table"


def read_sessions(
    *paths: str | os.PathLike[str],
    format: str | None = None,
    options: ReadOptions | None = None,
    strict: bool = False,
    progress: Callable[[Path, int], None] | None = None,
) -> SessionLog:
    """Read sessions, ordered tasks with their outcomes, from files and folders.

    Parameters
    ----------
    *paths : path-like
        Files or folders; formats are detected for each file.
    format : str, optional
        Force a reader by its name.
    options : ReadOptions, optional
        Column names of tables (`success` names the verdict), the scorer that counts.
    strict : bool
        Raise on the first thing that would be skipped.
    progress : callable, optional
        Called with the source and the number of tasks so far.

    Returns
    -------
    SessionLog
        The tasks, and in `skipped` what was left out and why.

    Raises
    ------
    ReaderError
        If a path cannot be read, nothing in it could, or it holds runs of no session.
    """
    if not paths:
        raise ReaderError("no file or folder was named")
    options = ReadOptions() if options is None else options
    builder = SessionLogBuilder()
    runs = CorpusBuilder()
    unused: Counter[tuple[Path, str]] = Counter()
    for name in paths:
        path = Path(name)
        for source in find_sources(path, format=format):
            if isinstance(source, Skipped):
                skip(builder, source, strict=strict)
                continue
            source = as_sessions(source) if format is None else source
            sink = builder if source.kind == "sessions" else runs
            unused.update((path, reason) for reason in unheeded(source.reader, options))
            read_source(source, options, sink, strict=strict, alone=source.path == path)
            if progress is not None:
                progress(source.path, len(builder) + len(runs))
    _add_runs(builder, runs, strict=strict)
    tell_unused(builder, unused)
    log = builder.build()
    if not len(log):
        raise nothing_read("task of a session", paths, log.skipped)
    if strict and len(log) < len(builder):
        raise ReaderError(f"{log.skipped[-1].source}: {log.skipped[-1].reason} (--strict)")
    return log


def as_sessions(source: Source) -> Source:
    """Return the source with the reader of sessions that takes it, if there is one."""
    if source.kind == "sessions" or not source.path.is_file():
        return source
    reader = load_reader(_TABLES)
    accepts: Callable[[Path, bytes], bool] = getattr(reader, "accepts", reader.claims)
    return Source(source.path, reader) if accepts(source.path, read_head(source.path)) else source


def _add_runs(builder: SessionLogBuilder, runs: CorpusBuilder, *, strict: bool) -> None:
    """Add the runs that say which session they belong to, as tasks."""
    corpus = runs.build()
    for item in corpus.skipped:
        skip(builder, item, strict=strict)
    batch, n_unplaced = batch_of_traces(corpus)
    if n_unplaced and not batch.n_tasks and not len(builder):
        raise ReaderError(
            f"{corpus.source_uri[0] or 'the source'}: holds runs, none of which says which session "
            "it belongs to (session_id and position); read it with --as traces (read_traces in "
            "Python)"
        )
    if n_unplaced:
        source = corpus.source_uri[0] or ""
        skip(builder, Skipped(source=source, reason=NO_PLACE, count=n_unplaced), strict=strict)
    builder.add_batch(batch)
