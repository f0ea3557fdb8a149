"""Traces of the OpenAI Agents SDK (exports of ``Span`` and ``Trace``, a line each; SDK 0.24).

The SDK writes no file of itself: a trace processor that writes ``span.export()`` and
``trace.export()`` as JSON lines makes one. A run is a trace; its task is the trace's id, for
``--outcomes FILE``: there is no verdict. The line of a trace gives its workflow's name, as the
agent's where no agent is named. A response's model is not exported. Spans of turns, tasks,
guardrails and lists of tools are no steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS
from sojourn.readers._json import BadRecordError, decode, json_lines, sniff
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


class _Data(msgspec.Struct):
    type: str = ""
    name: str | None = None
    input: Any = None
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


class OpenAIAgentsReader:
    """Reads the traces of the OpenAI Agents SDK."""

    name = "openai-agents"
    description = "OpenAI Agents SDK traces (JSON lines of span.export())"
    carries = "steps; outcome with --outcomes"

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line is a span, or a trace, of the SDK."""
        keys = sniff(head).keys
        is_span = {"object", "trace_id", "span_data"} <= keys
        return sniff(head).kind != "array" and (is_span or {"object", "workflow_name"} <= keys)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace with a call of a model, tool or agent."""
        yield from SpanLog(source, self.name, options).records(_items(source))


def _items(source: Path) -> Iterator[tuple[Found, str] | Skipped]:
    workflows: dict[str, str] = {}
    for line in json_lines(source):
        try:
            found = decode(line.text, _Line)
            if found.object == "trace":
                workflows[found.id] = (found.workflow_name or "")[:ATTRIBUTE_LETTERS]
                continue
            if not found.trace_id:
                raise BadRecordError("a span without a trace")
        except BadRecordError as error:
            yield Skipped(source=f"{source}, line {line.number}", reason=str(error), what="line")
            continue
        yield (
            Found(found.trace_id, _span(found), "", [], {}),
            workflows.get(found.trace_id, ""),
        )


def _span(line: _Line) -> Span:
    data = line.span_data or _Data()
    kind = _KINDS.get(data.type, Kind.OTHER)
    name, digest = data.name or "", 0
    if kind is Kind.TOOL:
        name = name or data.type
        name = tool_step([(name, "")]).name
        digest = action_digest(name, str(data.input or data.to_agent or ""))
    return Span(
        span_id=line.id,
        parent_id=line.parent_id or "",
        start=nanoseconds(line.started_at or ""),
        kind=kind,
        name="" if kind is Kind.MODEL else name[:ATTRIBUTE_LETTERS],
        model=(data.model or "")[:ATTRIBUTE_LETTERS],
        failed=line.error is not None,
        digest=digest,
    )
