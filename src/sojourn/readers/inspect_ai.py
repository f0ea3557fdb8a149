"""Inspect AI evaluation logs: ``.eval`` archives and ``.json`` documents, versions 2 and 3.

An archive holds one member a sample beside a header; a document holds all in one object. Either way
one sample is looked at at a time and only a few of its fields are decoded: events and attachments,
which are most of a log, stay unread. A running or broken-off log has no header yet; what it was
about then stands in its journal. Samples that were planned but never run are no runs.

What is read of a sample stands in `_inspect_samples`, what its scores mean in `_inspect_scores`. A
sample that was invalidated afterwards has no verdict, whatever its scores.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from sojourn._limits import CONVERSATION_BYTES, MESSAGES
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers._archive import Archive, BudgetError, MemberError, is_zip
from sojourn.readers._inspect_samples import (
    Message,
    Sample,
    end_of,
    identity,
    score_values,
    steps_of,
    turn_limit,
    unseen_steps,
)
from sojourn.readers._inspect_scores import ScoreChooser, Verdict, flatten, printable
from sojourn.readers._json import (
    BadRecordError,
    Buffer,
    array_items,
    decode,
    object_fields,
    open_buffer,
    read_head,
    sniff,
)
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["InspectReader"]

_OWN_MEMBERS = re.compile(r"header\.json|summaries\.json|reductions\.json|_journal/.*", re.DOTALL)
_CHUNK = re.compile(
    r"samples/(.+_epoch_\d+)/(?:(messages|events|calls|attachments)/(\d{1,15}|stats|uuids)"
    r"|(sample|metadata|skeleton))\.json",
    re.DOTALL | re.ASCII,
)
_SAMPLE = re.compile(r"samples/.+\.json", re.DOTALL)
_TAIL = 4096
_MAX_NAMED = 20  # bad samples that are named one by one; more are counted together

T = TypeVar("T", bound=msgspec.Struct)


class _Config(msgspec.Struct):
    epochs: int | None = None
    turn_limit: int | None = None


class _Dataset(msgspec.Struct):
    sample_ids: list[Any] | None = None


class _Headline(msgspec.Struct):
    scorer: str | None = None
    score: str | None = None
    metric: str | None = None


class _Spec(msgspec.Struct):
    task: str = ""
    task_id: str = ""
    eval_id: str = ""
    run_id: str = ""
    model: str = ""
    solver: str | None = None
    config: _Config | None = None
    dataset: _Dataset | None = None
    headline_metric: _Headline | None = None


class _Result(msgspec.Struct):
    scorer: str = ""
    name: str = ""
    metrics: dict[str, Any] = {}


class _Results(msgspec.Struct):
    scores: list[_Result] | None = None
    headline: _Headline | None = None


class _Header(msgspec.Struct):
    eval: _Spec
    status: str = "unknown"
    results: _Results | None = None


class _Part(NamedTuple):
    """One sample that is not read yet: its place in the log, and how to read it."""

    place: str
    load: Callable[[], Sample]


@dataclass(slots=True)
class _Log:
    """What holds for a whole log, and what is to be told at its end."""

    source: str
    header: _Header
    chooser: ScoreChooser
    notes: Counter[str] = field(default_factory=Counter)
    n_samples: int = 0
    n_bad: int = 0

    def bad(self, place: str, reason: str, count: int = 1) -> Skipped:
        """Return the note of a sample that could not be read."""
        self.n_bad += 1
        named = self.n_bad <= _MAX_NAMED
        return Skipped(
            source=f"{self.source}, {place}" if named else self.source, reason=reason, count=count
        )


class InspectReader:
    """Reads the logs of Inspect AI."""

    name = "inspect"
    description = "Inspect AI logs (.eval and .json)"
    carries = "outcome, steps, attempts"
    heeds = frozenset({"scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is an Inspect archive or document."""
        if source.suffix.lower() == ".eval":
            return bool(head)
        if is_zip(head):
            return head[30:].startswith((b"_journal/start.json", b"header.json", b"samples/"))
        found = sniff(head)
        return found.kind == "object" and {"status", "eval"} <= found.keys

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a log stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a sample, and what was left out or chosen.

        Raises
        ------
        ReaderError
            If the log cannot be read at all, or holds no sample.
        """
        if is_zip(read_head(source)):
            yield from _read_archive(source, options)
        else:
            yield from _read_document(source, options)


def _read_document(source: Path, options: ReadOptions) -> Iterator[Record]:
    data = open_buffer(source)
    values = object_fields(data, source=str(source))
    try:
        header = _only(values, _Header)
    except BadRecordError as error:
        raise ReaderError(f"{source}: no Inspect log, its header cannot be read: {error}") from None
    log = _log(source, header, options)
    samples = values.get("samples", b"null")
    if bytes(memoryview(samples)[:16]).strip() == b"null":
        raise _empty(log)
    items = enumerate(array_items(samples, source=str(source)), start=1)
    yield from _records(
        log,
        (
            item if isinstance(item, Skipped) else _Part(f"sample {number}", _reading(item))
            for number, item in items
        ),
    )
    if not bytes(memoryview(data)[-_TAIL:]).rstrip().endswith(b"}"):
        yield Skipped(source=str(source), reason="the document is cut off", what="bytes")


def _read_archive(source: Path, options: ReadOptions) -> Iterator[Record]:
    with Archive(source) as archive:
        contents = _contents(archive)
        header, remark = _archive_header(archive, source)
        log = _log(source, header, options)
        if not contents.samples:
            raise _empty(log)
        parts = (
            _Part(_place(name, number), _loading(archive, name, chunks))
            for number, (name, chunks) in enumerate(contents.samples.items(), start=1)
        )
        yield from _records(log, parts)
        for reason, count in (
            (remark, bool(remark)),
            (
                "archive members whose name stands there twice; the last was read",
                archive.n_repeated,
            ),
            ("archive members that are no part of a log, left unread", contents.n_foreign),
        ):
            if count:
                yield Skipped(source=str(source), reason=reason, count=count, what="key")


class _Contents(NamedTuple):
    """The sample members, each with its chunks of messages, and the number of strange members."""

    samples: dict[str, list[str]]
    n_foreign: int


def _contents(archive: Archive) -> _Contents:
    samples: dict[str, list[str]] = {}
    chunks: dict[str, list[tuple[int, str]]] = {}
    n_foreign = 0
    for name in archive.members:
        chunk = _CHUNK.fullmatch(name)
        if chunk is not None:
            if chunk[2] == "messages" and chunk[3].isdigit():
                chunks.setdefault(chunk[1], []).append((int(chunk[3]), name))
            elif chunk[4] == "sample":
                samples[name] = []
        elif _SAMPLE.fullmatch(name):
            samples[name] = []
        elif not _OWN_MEMBERS.fullmatch(name):
            n_foreign += 1
    for key, found in chunks.items():
        if (shell := f"samples/{key}/sample.json") in samples:
            samples[shell] = [name for _, name in sorted(found)]
        else:
            n_foreign += len(found)
    return _Contents(samples, n_foreign)


def _archive_header(archive: Archive, source: Path) -> tuple[_Header, str]:
    """Return the header, or what the journal knows of it, with a remark in that case."""
    remark = ""
    for name in ("header.json", "_journal/start.json"):
        if name not in archive.members:
            remark = "no header.json: the log is of a running or broken-off evaluation"
            continue
        try:
            return _decode(memoryview(archive.read(name)), _Header), remark
        except ValueError as error:
            remark = f"header.json could not be read ({error})"
    raise ReaderError(
        f"{source}: no Inspect log: neither header.json nor _journal/start.json can be read "
        f"({remark})"
    )


def _reading(item: Buffer) -> Callable[[], Sample]:
    return lambda: _decode(item, Sample)


def _loading(archive: Archive, name: str, chunks: list[str]) -> Callable[[], Sample]:
    def load() -> Sample:
        sample = _decode(memoryview(archive.read(name)), Sample)
        if sample.message_refs is not None:
            sample.messages = list(_referred(sample.message_refs, _pool(archive, chunks)))
        return sample

    return load


def _pool(archive: Archive, chunks: list[str]) -> list[Message]:
    pool: list[Message] = []
    n_bytes = 0
    for name in chunks:
        data = archive.read(name)
        n_bytes += len(data)
        if n_bytes > CONVERSATION_BYTES:
            raise MemberError(f"its messages inflate to more than {CONVERSATION_BYTES} bytes")
        for item in array_items(memoryview(data), source=name):
            if isinstance(item, Skipped):
                raise BadRecordError(f"its messages are damaged: {item.reason}")
            pool.append(_decode(item, Message))
    return pool


def _referred(ranges: list[tuple[int, int]], pool: list[Message]) -> Iterator[Message]:
    """Yield the messages of half-open ranges of indices."""
    n_messages = 0
    for start, stop in ranges:
        if not 0 <= start <= stop <= len(pool):
            raise BadRecordError("refers to messages that are not there")
        n_messages += stop - start
        if n_messages > MESSAGES:
            raise BadRecordError(f"has more than {MESSAGES} messages")
        yield from pool[start:stop]


def _place(name: str, number: int) -> str:
    return name if printable(name) == name else f"sample {number}"


def _empty(log: _Log) -> EmptySourceError:
    return EmptySourceError(
        f"{log.source}: the log holds no samples (status {printable(log.header.status)}): none "
        "is finished yet, or it was written without them"
    )


def _decode(data: Buffer, form: type[T]) -> T:
    """Decode the fields that a form names; of a text with oddities these fields alone."""
    try:
        return msgspec.json.decode(data, type=form, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        values = object_fields(data, source="")
    except ReaderError:
        raise BadRecordError("not a JSON object") from None
    return _only(values, form)


def _only(values: Mapping[str, Buffer], form: type[T]) -> T:
    wanted = {name: bytes(values[name]) for name in form.__struct_fields__ if name in values}
    if wanted.get("id", b"").strip().lstrip(b"-").isdigit():
        wanted["id"] = b'"%b"' % wanted["id"].strip()  # a name: no digit of it may be lost
    text = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in wanted.items())
    return decode(b"{%b}" % text, form)


def _log(source: Path, header: _Header, options: ReadOptions) -> _Log:
    results = header.results.scores or [] if header.results is not None else []
    declared = header.results.headline if header.results is not None else None
    headline = _headline(declared or header.eval.headline_metric, results)
    return _Log(
        source=str(source),
        header=header,
        chooser=ScoreChooser(
            options.scorer,
            headline,
            _names(results[0].scorer, results[0].name) if results else (),
            [name for result in results for name in _names(result.scorer, result.name)],
        ),
    )


def _headline(declared: _Headline | None, results: list[_Result]) -> Sequence[str]:
    """Return the names under which a sample may carry the score that the log declares."""
    if declared is None:
        return ()
    for result in results:
        if (
            declared.scorer in (None, result.scorer)
            and declared.score in (None, result.name)
            and (declared.metric is None or declared.metric in result.metrics)
        ):
            return _names(result.scorer, result.name)
    return _names(declared.scorer or "", declared.score or "") if not results else ()


def _names(scorer: str, name: str) -> Sequence[str]:
    return (name, f"{scorer}.{name}", scorer)


def _records(log: _Log, parts: Iterator[_Part | Skipped]) -> Iterator[Record]:
    """Yield the traces of a log's samples, then what is to be told about them."""
    damaged = False
    for part in parts:
        if isinstance(part, Skipped):
            damaged = True
            yield part
            continue
        log.n_samples += 1
        try:
            yield _trace(part.load(), log)
        except BudgetError as error:
            yield log.bad(part.place, str(error), count=1 + sum(1 for _ in parts))
        except ValueError as error:
            yield log.bad(part.place, str(error))
        except RecursionError:
            yield log.bad(part.place, "nests too deep")
    if not log.n_samples and not damaged:
        raise _empty(log)
    yield from _remarks(log)


def _remarks(log: _Log) -> Iterator[Skipped]:
    spec = log.header.eval
    n_ids = len(spec.dataset.sample_ids or ()) if spec.dataset is not None else 0
    n_epochs = (spec.config.epochs if spec.config is not None else None) or 1
    missing = n_ids * n_epochs - log.n_samples
    if missing > 0:
        log.notes[
            "planned samples that the log does not hold: they were not run or not finished "
            f"(status {printable(log.header.status)})"
        ] = missing
    if log.chooser.note is not None:
        log.notes[log.chooser.note] = 1
    for reason, count in log.notes.items():
        yield Skipped(source=log.source, reason=reason, count=count, what="key")


def _trace(sample: Sample, log: _Log) -> Trace:
    spec = log.header.eval
    end, limit_kind = end_of(sample)
    found = log.chooser.pick(flatten(score_values(sample)))
    if sample.invalidation is not None:
        # Without a verdict a run cut by a limit would count as a failure; this one is void.
        end, limit_kind = (End.UNKNOWN, None) if end is End.LIMIT else (end, None)
        found = Verdict(Outcome.UNSCORED, odd="invalidated after the run: it counts as unscored")
    if found.odd is not None:
        log.notes[found.odd] += 1
    steps = tuple(steps_of(sample.messages or []))
    return Trace(
        task_id=identity(sample.id),
        task_set=spec.task,
        task_repeat=sample.epoch,
        agent=spec.solver or "",
        model=spec.model,
        outcome=found.outcome,
        end=end,
        limit_kind=limit_kind,
        score=found.score,
        step_limit=turn_limit(sample, spec.config.turn_limit if spec.config is not None else None),
        n_steps=len(steps) if steps else unseen_steps(sample),
        steps=steps,
        # Logs before eval_id: one run may hold several tasks, each with an id of its own.
        job_id=spec.eval_id or ":".join(filter(None, (spec.run_id, spec.task_id))),
        source_type=InspectReader.name,
        source_uri=log.source,
    )
