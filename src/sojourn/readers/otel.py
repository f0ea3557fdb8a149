"""OpenTelemetry spans of agents: OTLP JSON lines, and other files of spans; a run is a trace.

Spans come in no order: each is written when it ends, children first, and those of one trace may lie
far apart; `_span_log` gathers them, in memory that stays flat whatever the size of the file.

A trace has no task and seldom a verdict: the task is the trace's id, for ``--outcomes FILE``, or an
attribute that ``--map task_id=ATTRIBUTE`` names; likewise ``outcome``, ``task_repeat`` and the
other labels of a run. The one standard verdict is ``gen_ai.evaluation.*``, on a span or an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn._limits import DOCUMENT_LINES
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
from sojourn.readers._otel_spans import ResourceSpans, flat_span, otlp_span, resource_name
from sojourn.readers._span_log import Found, SpanLog
from sojourn.readers.base import ReadOptions, Record
from sojourn.readers.mlflow import is_mlflow
from sojourn.records import Skipped

__all__ = ["OtelReader"]

_FLAT = ({"trace_id", "span_id"}, {"context", "attributes"})


class _Line(msgspec.Struct, rename="camel"):
    resource_spans: list[ResourceSpans] | None = None


class OtelReader:
    """Reads files of OpenTelemetry spans."""

    name = "otel"
    description = "OpenTelemetry spans of agents (OTLP JSON lines, GenAI or OpenInference)"
    carries = "steps; outcome where it was evaluated"
    heeds = frozenset({"columns", "scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object holds spans, or is one."""
        found = sniff(head)
        if not found.kind or is_mlflow(head):
            return False
        if "resourceSpans" in found.keys or any(found.keys >= keys for keys in _FLAT):
            return True
        return "spans" in found.keys and b'"trace_id"' in head and b'"span_id"' in head

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace of an agent, then what was left out or is odd.

        Raises
        ------
        ReaderError
            If the file holds no JSON of spans at all.
        """
        asked = frozenset(options.columns.values())
        yield from SpanLog(source, self.name, options).records(_spans(source, asked))


def _spans(source: Path, asked: frozenset[str]) -> Iterator[tuple[Found, str] | Skipped]:
    """Yield each span of a file with the name of the program that wrote it."""
    head = read_head(source)
    if head.lstrip()[:1] == b"[":
        yield from _items(array_items(open_buffer(source), source=str(source)), asked, source)
    elif _is_document(source, head):
        fields = object_fields(open_buffer(source), source=str(source))
        for key in ("resourceSpans", "spans"):
            if key in fields:
                items = array_items(fields[key], source=str(source))
                yield from _items(items, asked, source)
                break
        else:
            yield Skipped(source=str(source), reason="no spans in it", what="file")
    else:
        for number, text in _texts(source):
            yield from _item(text, asked, f"{source}, line {number}")


def _texts(source: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers; objects over several lines, as one text.

    The console exporter writes such objects, one after the other.
    """
    parts: list[bytes] = []
    for line in json_lines(source):
        if not parts and line.text.strip() != b"{":
            yield line.number, line.text
            continue
        parts.append(line.text)
        if line.text.rstrip() == b"}" or len(parts) >= DOCUMENT_LINES:
            yield line.number, b"".join(parts)
            parts = []
    if parts:
        yield line.number, b"".join(parts)


def _is_document(source: Path, head: bytes) -> bool:
    """Return whether a file is one object over several lines, rather than an object a line."""
    found = sniff(head)
    if found.kind == "lines" or found.keys.isdisjoint({"spans", "resourceSpans"}):
        return False
    first = next((line.text for line in json_lines(source)), b"")
    return "spans" in found.keys or not is_closed(first)


def _items(
    items: Iterator[Buffer | Skipped], asked: frozenset[str], source: Path
) -> Iterator[tuple[Found, str] | Skipped]:
    for number, item in enumerate(items, start=1):
        if isinstance(item, Skipped):
            yield item
        else:
            yield from _item(item, asked, f"{source}, item {number}")


def _exports(raw: Buffer) -> list[ResourceSpans] | None:
    """Return what one line or item exports, or None where it is a span itself.

    The key that tells may stand behind any other, and be a word of a span's own: where the text
    holds it, the object is asked for it.
    """
    if _holds(raw, b'"resourceSpans"'):
        line = decode(raw, _Line)
        if line.resource_spans is not None:
            return line.resource_spans
    if _holds(raw, b'"scopeSpans"'):
        export = decode(raw, ResourceSpans)
        if export.scope_spans is not None:
            return [export]
    return None


def _holds(raw: Buffer, key: bytes) -> bool:
    """Return whether a text holds a key; most do in their first letters, or nowhere."""
    text = memoryview(raw)
    return key in bytes(text[:4096]) or (len(text) > 4096 and key in bytes(text))


def _item(raw: Buffer, asked: frozenset[str], place: str) -> Iterator[tuple[Found, str] | Skipped]:
    """Yield the spans of one line or item: an export, the spans of one program, or one span."""
    try:
        exports = _exports(raw)
        if exports is None:
            yield flat_span(raw, asked), ""
            return
    except BadRecordError as error:
        yield Skipped(source=place, reason=str(error), what="line")
        return
    for export in exports:
        service = resource_name(export.resource)
        for scope in export.scope_spans or ():
            for span in scope.spans or ():
                try:
                    yield otlp_span(span, asked), service
                except BadRecordError as error:
                    yield Skipped(source=place, reason=f"a span: {error}", what="line")
