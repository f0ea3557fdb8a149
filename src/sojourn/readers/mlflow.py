"""MLflow traces as JSON: a trace, a list, JSON lines, or ``{traces: []}``; a run is a trace.

Read are ``trace.to_json()`` and ``to_dict()``, what ``mlflow traces get`` and ``search --output
json`` print, rows of ``search_traces()``, and the ``traces.json`` of a store of artifacts. The task
is the trace's id, or what ``--map task_id=NAME`` names: a tag, a key of the metadata, a field of
the info or an attribute of a span. ``state: OK`` says that no exception came, not that the run
succeeded: a verdict is the feedback that ``--scorer NAME`` names. Of several of that name the last
counts, a person's before any other's; those replaced, and those on one span, do not. Traces that a
scorer left while it judged are no runs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS, ID_LETTERS
from sojourn.errors import ReaderError
from sojourn.readers._json import (
    BadRecordError,
    Buffer,
    array_items,
    decode,
    is_closed,
    json_lines,
    object_fields,
    open_buffer,
    read_head,
    sniff,
)
from sojourn.readers._mlflow_spans import Assessment, RawSpan, plain
from sojourn.readers._span_log import Evaluation, Found, SpanLog
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Skipped

__all__ = ["MlflowReader", "is_mlflow"]

_NOTHING = msgspec.Raw(b"null")
_SESSION = "mlflow.trace.session"
_NAME = "mlflow.traceName"
_OF_SCORER = "mlflow.trace.sourceScorer"
_INFO_MARKS = (b'"trace_metadata"', b'"request_metadata"', b'"trace_location"', b'"mlflow.')
_Words = dict[str, msgspec.Raw] | None


class _Info(msgspec.Struct):
    trace_id: str | None = None
    request_id: str | None = None
    trace_metadata: _Words = None
    request_metadata: _Words = None
    tags: _Words = None
    assessments: list[msgspec.Raw] | None = None

    def words(self) -> dict[str, msgspec.Raw]:
        """Return the tags and the metadata."""
        return (self.tags or {}) | (self.request_metadata or {}) | (self.trace_metadata or {})


class MlflowReader:
    """Reads traces of MLflow."""

    name = "mlflow"
    description = "MLflow traces (JSON: a trace, a list, lines, or {traces: []})"
    carries = "steps; outcome by --scorer"
    heeds = frozenset({"columns", "scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object is a trace, a row of one, or holds MLflow's spans."""
        return is_mlflow(head)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace with a call of a model, tool or agent.

        Raises
        ------
        ReaderError
            If the file holds no such JSON at all.
        """
        log = SpanLog(source, self.name, options, only_chosen=True)
        yield from log.records(_items(source, frozenset(options.columns.values())))


def is_mlflow(head: bytes) -> bool:
    """Return whether a file that begins with `head` holds traces or spans of MLflow."""
    keys = sniff(head).keys
    if "resourceSpans" in keys or not any(mark in head for mark in _INFO_MARKS):
        return False
    if keys >= {"info", "data"} or "traces" in keys or keys & {"trace_info", "trace"}:
        return b'"trace_id"' in head or b'"request_id"' in head
    if keys & {"trace_metadata", "request_metadata"} and "spans" in keys:
        return True
    return bool(keys & {"spans", "span_id", "context"}) and b'"mlflow.traceRequestId"' in head


def _items(source: Path, asked: frozenset[str]) -> Iterator[tuple[Found, str] | Skipped]:
    for place, raw in _texts(source):
        if isinstance(raw, Skipped):
            yield raw
            continue
        try:
            yield from _trace(raw, asked, f"{source}{place}")
        except (BadRecordError, ReaderError) as error:
            reason = str(error).removeprefix(f"{source}{place}: ")
            yield Skipped(source=f"{source}{place}", reason=reason, what="line")


def _texts(source: Path) -> Iterator[tuple[str, Buffer | Skipped]]:
    """Yield each trace of a file undecoded, with its place."""
    head = read_head(source)
    found = sniff(head)
    if found.kind == "array":
        for number, item in enumerate(array_items(open_buffer(source), source=str(source)), 1):
            yield f", item {number}", item
        return
    lines = json_lines(source)
    first = next(lines, None)
    if found.kind == "lines" or (first is not None and is_closed(first.text)):
        yield from ((f", line {line.number}", line.text) for line in json_lines(source))
        return
    data: Buffer = open_buffer(source)
    if not is_closed(data):
        reason = "the document is cut off"
        yield "", Skipped(source=str(source), reason=reason, what="bytes")
    yield "", data


def _trace(raw: Buffer, asked: frozenset[str], place: str) -> Iterator[tuple[Found, str] | Skipped]:
    """Yield the spans of a trace, or of each trace in a document of several."""
    fields = object_fields(raw, source=place)
    if "traces" in fields:
        for number, item in enumerate(array_items(fields["traces"], source=place), 1):
            if isinstance(item, Skipped):
                yield item
            else:
                yield from _whole(item, asked, f"{place}, trace {number}")
        return
    if fields.keys() >= {"span_id"} or fields.keys() >= {"context", "parent_id"}:
        yield from _spans([raw], _Info(), {}, asked, place)
        return
    yield from _whole(raw, asked, place)


def _whole(raw: Buffer, asked: frozenset[str], place: str) -> Iterator[tuple[Found, str] | Skipped]:
    """Yield the spans of a trace in one of the shapes in which it is written."""
    fields = object_fields(raw, source=place)
    if "trace" in fields:  # the server's answer, or a column that holds all of it as a string
        fields = object_fields(_inner(fields["trace"]), source=place) | {
            key: value for key, value in fields.items() if key != "trace"
        }
    info_raw = fields.get("info", fields.get("trace_info"))
    outer = fields if info_raw is None else object_fields(_inner(info_raw), source=place)
    info = _info(outer, place)
    if isinstance(info, Skipped):
        yield info
        info = _Info()
    if _OF_SCORER in (info.tags or {}):
        reason = "traces that a scorer left while it judged; they are no runs"
        yield Skipped(source=place, reason=reason, what="key")
        return
    spans = fields.get("spans")
    data = fields.get("data", fields.get("trace_data"))
    if spans is None and data is not None:
        spans = object_fields(_inner(data), source=place).get("spans")
    inside = b"" if spans is None else _inner(spans)
    if bytes(memoryview(inside)[:1]) != b"[":
        yield Skipped(source=place, reason="a trace without spans")
        return
    yield from _spans(array_items(inside, source=place), info, outer, asked, place)


def _inner(raw: Buffer) -> Buffer:
    """Return JSON, taken out of a string where a table held it as one."""
    text = bytes(memoryview(raw)[:1])
    return decode(raw, str).encode("utf-8", "replace") if text == b'"' else raw


def _info(fields: dict[str, Buffer], place: str) -> _Info | Skipped:
    """Return what is read of a trace's info; rows of tables may hold fields as strings."""
    found = {}
    for name in _Info.__struct_fields__:
        if name in fields:
            raw = fields[name]
            found[name] = raw if name.endswith("_id") else _inner(raw)
    text = b",".join(b'"%s":%s' % (name.encode(), bytes(raw)) for name, raw in found.items())
    try:
        return decode(b"{%s}" % text, _Info)
    except BadRecordError as error:
        return Skipped(source=place, reason=f"the info: {error}", what="key")


def _spans(
    items: Iterable[Buffer | Skipped],
    info: _Info,
    outer: dict[str, Buffer],
    asked: frozenset[str],
    place: str,
) -> Iterator[tuple[Found, str] | Skipped]:
    rows: list[RawSpan] = []
    for item in items:
        try:
            if isinstance(item, Skipped):
                yield item
            else:
                rows.append(decode(item, RawSpan))
        except BadRecordError as error:
            yield Skipped(source=place, reason=f"a span: {error}", what="line")
    if not rows:
        yield Skipped(source=place, reason="a trace without spans")
        return
    words = info.words()
    labels = _labels({**outer, **words}, asked)
    session = plain(words.get(_SESSION, _NOTHING))[:ATTRIBUTE_LETTERS]
    verdicts = yield from _evaluations(info, place)
    names = frozenset(row.name or "" for row in rows)
    for row in rows:
        try:
            span = row.span(names)
            trace_id = (info.trace_id or info.request_id or row.trace())[:ID_LETTERS]
            if not trace_id:
                raise BadRecordError("it names no trace")
        except BadRecordError as error:
            yield Skipped(source=place, reason=f"a span: {error}", what="line")
            continue
        own = _labels(row.values(), asked - labels.keys())
        found = Found(trace_id, span, session, verdicts, labels | own)
        yield found, plain(words.get(_NAME, _NOTHING))[:ATTRIBUTE_LETTERS]
        verdicts = []  # once is enough


def _labels(fields: Any, asked: frozenset[str]) -> dict[str, str]:
    found = {key: plain(fields[key])[:ATTRIBUTE_LETTERS] for key in asked if key in fields}
    return {key: value for key, value in found.items() if value}


def _evaluations(info: _Info, place: str) -> Generator[Skipped, None, list[Evaluation]]:
    """Return the verdicts of a trace, the one that counts last; yield what is none."""
    found: list[Assessment] = []
    for raw in info.assessments or ():
        try:
            found.append(decode(raw, Assessment))
        except BadRecordError as error:
            yield Skipped(source=place, reason=f"an assessment: {error}", what="verdict")
    verdicts = sorted((one for one in found if one.counts()), key=Assessment.is_human)
    return [one.evaluation() for one in verdicts]
