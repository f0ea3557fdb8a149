"""Which sources lie below a path, and which reader claims each.

None guesses silently against another, and what nobody claims comes back as `Skipped`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sojourn._limits import FIRST_RECORD_BYTES, FOLDER_FILES, HEAD_BYTES
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers._json import opens_with_long_object, read_head
from sojourn.readers.base import ROWS, Reader, Source, as_runs, load_reader, reader_names
from sojourn.records import Skipped

__all__ = ["find_sources", "sources_of_runs", "unreadable"]

_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # as PowerShell's > and some spreadsheets write
_IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules"})


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
        if head.startswith(_UTF16):
            raise UnknownFormatError(f"{path}: the file is UTF-16; save it as UTF-8")
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
        claiming = [reader for reader in claiming if reader.name not in ROWS] or claiming
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
            walk.unreadable.append(unreadable(place, error))
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
        walk.unreadable.append(unreadable(path, error))
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
            walk.unreadable.append(unreadable(path, error))
            continue
        if reader is None:
            unknown.append(path)
        else:
            walk.found.append(Source(path, reader))
    walk.unknown = unknown


def unreadable(path: Path, error: OSError) -> Skipped:
    """Return a file or folder that could not be opened as what was left out."""
    return Skipped(source=str(path), reason=error.strerror or "unreadable", what="file")


def sources_of_runs(
    path: Path, *, format: str | None = None, loosely: bool = False
) -> list[Source | Skipped]:
    """Return the sources below a path; where all hold sessions of attempts, as runs."""
    found = list(find_sources(path, format=format, loosely=loosely))
    sources = [source for source in found if isinstance(source, Source)]
    readers = {source.reader.name: as_runs(source.reader) for source in sources}
    if None in readers.values():
        return found
    return [
        Source(item.path, reader)
        if isinstance(item, Source) and (reader := readers[item.reader.name]) is not None
        else item
        for item in found
    ]
