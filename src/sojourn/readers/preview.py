"""A look at the first records of each source, for ``--dry-run``: nothing is read to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sojourn.corpus import CorpusBuilder, Group, SessionLogBuilder, TaskBatch, TraceBatch
from sojourn.errors import ReaderError
from sojourn.readers.base import Builder, ReadOptions, Source, unheeded
from sojourn.readers.finding import find_sources, sources_of_runs
from sojourn.readers.sessions import as_sessions
from sojourn.records import Skipped

__all__ = ["Preview", "preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What the first records of one source show.

    Attributes
    ----------
    source : str
        The file or folder.
    format : str or None
        The reader that claims it; None where nobody does.
    kind : str
        What the source is read as: ``traces`` or ``sessions``.
    groups : tuple of (Group, int)
        Groups among the first runs or tasks, with their numbers.
    columns : tuple of str
        For tables: the columns that stand there.
    fields : tuple of (str, str)
        For tables: our fields and the columns that hold them.
    notes : tuple of str
        What was skipped among them, or why nothing could be read.
    failed : bool
        Whether nothing could be read.
    """

    source: str
    format: str | None
    kind: str = "traces"
    groups: tuple[tuple[Group, int], ...] = ()
    columns: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    failed: bool = False


def preview(
    path: Path,
    *,
    format: str | None = None,
    options: ReadOptions | None = None,
    n: int = 200,
    kind: str | None = None,
) -> Iterator[Preview]:
    """Yield a preview of every source below a path.

    Parameters
    ----------
    path : Path
        A file or folder.
    format : str, optional
        Force this reader.
    options : ReadOptions, optional
        As for `read_traces`.
    n : int
        Records to look at in each source; a table is looked at by one batch.
    kind : str, optional
        What to read sources as that can be read as either: ``traces`` or ``sessions``.
    """
    options = options or ReadOptions()
    sources = sources_of_runs if kind == "traces" else find_sources
    for found in sources(path, format=format, loosely=options.verdicts_elsewhere):
        if isinstance(found, Source) and kind == "sessions" and format is None:
            found = as_sessions(found)
        if isinstance(found, Skipped):
            yield Preview(
                source=found.source, format=None, notes=(f"{found.count} x {found.reason}",)
            )
        else:
            yield _look(found, options, n)


def _look(source: Source, options: ReadOptions, n: int) -> Preview:
    runs, tasks = CorpusBuilder(), SessionLogBuilder()
    builder: Builder = tasks if source.kind == "sessions" else runs
    notes: Counter[str] = Counter(unheeded(source.reader, options))
    name = source.reader.name
    try:
        columns = tuple(getattr(source.reader, "columns", lambda _: ())(source.path))
        fields: dict[str, str] = getattr(source.reader, "fields", lambda *_: {})(
            source.path, options
        )
        for record in islice(source.reader.read(source.path, options), n):
            if isinstance(record, Skipped):
                notes[record.reason] += record.count
            elif isinstance(record, TraceBatch | TaskBatch):
                builder.add_batch(record)
                break
            else:
                builder.add(record)
    except (ReaderError, OSError) as error:
        return Preview(
            source=str(source.path),
            format=name,
            kind=source.kind,
            notes=(str(error),),
            failed=True,
        )
    groups = tasks.build().groups() if source.kind == "sessions" else runs.build().groups()
    return Preview(
        source=str(source.path),
        format=name,
        kind=source.kind,
        groups=tuple((group, int(rows.size)) for group, rows in groups),
        columns=columns,
        fields=tuple(fields.items()),
        notes=tuple(f"{count} x {reason}" for reason, count in notes.items()),
    )
