"""Traces of the OpenAI Agents SDK (exports of ``Span`` and ``Trace``; SDK 0.24).

The SDK writes no file of itself: a trace processor that writes ``span.export()`` and
``trace.export()`` as JSON lines, or as an array, makes one. A run is a trace; its task is the
trace's id, for ``--outcomes FILE``, or what ``--map task_id=NAME`` names: a field of the trace, a
key of its metadata, or a field of a span's data. There is no verdict. The record of a trace, which
may stand before its spans or after them, gives its group as the session, and its workflow's name as
the agent's where no agent is named. A response's model is not exported. Spans of turns, tasks,
guardrails and lists of tools are no steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS
from sojourn.readers._answers import asked_tool
from sojourn.readers._json import (
    BadRecordError,
    Buffer,
    array_items,
    decode,
    json_lines,
    object_fields,
    open_buffer,
    read_head,
    sniff,
)
from sojourn.readers._labels import labels_of
from sojourn.readers._span_log import Found, SpanLog
from sojourn.readers._spans import Kind, Span, nanoseconds
from sojourn.readers._steps import action_digest, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Skipped

__all__ = ["OpenAIAgentsReader"]

_KINDS = {
    "agent": Kind.AGENT,
    "generation": Kind.MODEL,
    "response": Kind.MODEL,
    "function": Kind.TOOL,
    "handoff": Kind.TOOL,
}


_NOTHING = msgspec.Raw(b"null")


class _Data(msgspec.Struct):
    type: str = ""
    name: str | None = None
    input: Any = None
    output: msgspec.Raw = _NOTHING
    model: str | None = None
    to_agent: str | None = None


class _Line(msgspec.Struct):
    object: str
    id: str
    trace_id: str | None = None
    parent_id: str | None = None
    started_at: str | None = None
    span_data: _Data | None = None
    error: Any = None
    workflow_name: str | None = None
    group_id: str | None = None


class OpenAIAgentsReader:
    """Reads the traces of the OpenAI Agents SDK."""

    name = "openai-agents"
    description = "OpenAI Agents SDK traces (JSON of span.export())"
    carries = "steps; outcome with --outcomes"
    heeds = frozenset({"columns"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line is a span, or a trace, of the SDK."""
        keys = sniff(head).keys
        is_span = {"object", "trace_id", "span_data"} <= keys
        return is_span or {"object", "workflow_name"} <= keys

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace with a call of a model, tool or agent."""
        asked = frozenset(options.columns.values())
        yield from SpanLog(source, self.name, options).records(_items(source, asked))


def _texts(source: Path) -> Iterator[tuple[str, Buffer | Skipped]]:
    if sniff(read_head(source)).kind != "array":
        yield from ((f"line {line.number}", line.text) for line in json_lines(source))
        return
    for number, item in enumerate(array_items(open_buffer(source), source=str(source)), start=1):
        yield f"item {number}", item


def _items(source: Path, asked: frozenset[str]) -> Iterator[tuple[Found, str] | Skipped]:
    for place, raw in _texts(source):
        if isinstance(raw, Skipped):
            yield raw
            continue
        try:
            line = decode(raw, _Line)
            fields = object_fields(raw, source=str(source)) if asked else {}
            labels = labels_of(fields, asked, inside=(("metadata",), ("span_data",)))
            if line.object == "trace":
                session = (line.group_id or "")[:ATTRIBUTE_LETTERS]
                found = Found(line.id, None, session, [], labels)
            elif line.trace_id:
                found = Found(line.trace_id, _span(line), "", [], labels)
            else:
                raise BadRecordError("a span without a trace")
        except BadRecordError as error:
            yield Skipped(source=f"{source}, {place}", reason=str(error), what="line")
            continue
        yield found, (line.workflow_name or "")[:ATTRIBUTE_LETTERS]


def _span(line: _Line) -> Span:
    data = line.span_data or _Data()
    kind = _KINDS.get(data.type, Kind.OTHER)
    name, digest = data.name or "", 0
    if kind is Kind.TOOL:
        name = name or data.type
        name = tool_step([(name, "")]).name
        digest = action_digest(name, str(data.input or data.to_agent or ""))
    elif kind is Kind.MODEL:
        asked = asked_tool(data.output)
        name = tool_step([(asked, "")]).name if asked else ""
    return Span(
        span_id=line.id,
        parent_id=line.parent_id or "",
        start=nanoseconds(line.started_at or ""),
        kind=kind,
        name=name[:ATTRIBUTE_LETTERS],
        model=(data.model or "")[:ATTRIBUTE_LETTERS],
        failed=line.error is not None,
        digest=digest,
    )
