"""LangSmith run exports (JSON lines, an array, or ``{runs: []}``): a run is a trace.

The task is ``reference_example_id``, else the trace's id; ``--map task_id=NAME`` names no other
field here. What a feedback means is the user's: its average is a verdict only where ``--scorer``
names it, and only if it is 0 or 1. ``session_id`` is the project, no session. Fields are those of
the documented run data format; its Parquet export is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS
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
from sojourn.readers._span_log import Evaluation, Found, SpanLog
from sojourn.readers._spans import Kind, Span, nanoseconds
from sojourn.readers._steps import action_digest, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Skipped

__all__ = ["LangSmithReader"]

_KINDS = {"llm": Kind.MODEL, "tool": Kind.TOOL, "retriever": Kind.TOOL}
_TASK = "reference_example_id"
_MARKS = {"trace_id", "run_type"}


class _Feedback(msgspec.Struct):
    avg: float | None = None


class _Run(msgspec.Struct):
    id: str
    trace_id: str
    run_type: str = ""
    name: str | None = None
    parent_run_id: str | None = None
    start_time: Any = None
    error: Any = None
    status: str | None = None
    inputs: msgspec.Raw = msgspec.Raw(b"null")
    reference_example_id: str | None = None
    feedback_stats: dict[str, _Feedback] | None = None


class LangSmithReader:
    """Reads exported runs of LangSmith."""

    name = "langsmith"
    description = "LangSmith runs (JSON lines, an array, or {runs: []})"
    carries = "steps, attempts; outcome by --scorer"

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object is a run, or holds runs."""
        keys = sniff(head).keys
        return keys >= _MARKS or ("runs" in keys and b'"run_type"' in head)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace with a call of a model, tool or agent."""
        options = replace(options, columns={"task_id": _TASK})
        yield from SpanLog(source, self.name, options, only_chosen=True).records(_items(source))


def _texts(source: Path) -> Iterator[tuple[str, Buffer | Skipped]]:
    head = read_head(source)
    if head.lstrip()[:1] != b"[" and "runs" not in sniff(head).keys:
        yield from ((f"line {line.number}", line.text) for line in json_lines(source))
        return
    data: Buffer = open_buffer(source)
    if head.lstrip()[:1] != b"[":
        data = object_fields(data, source=str(source)).get("runs", b"null")
    for number, item in enumerate(array_items(data, source=str(source)), start=1):
        yield f"item {number}", item


def _items(source: Path) -> Iterator[tuple[Found, str] | Skipped]:
    for place, raw in _texts(source):
        if isinstance(raw, Skipped):
            yield raw
            continue
        try:
            run = decode(raw, _Run)
        except BadRecordError as error:
            yield Skipped(source=f"{source}, {place}", reason=str(error), what="line")
            continue
        is_root = not run.parent_run_id
        scores = [
            Evaluation(name, "", f"{one.avg:g}")
            for name, one in (run.feedback_stats or {}).items()
            if is_root and one.avg is not None
        ]
        labels = {_TASK: run.reference_example_id} if run.reference_example_id and is_root else {}
        yield Found(run.trace_id, _span(run), "", scores, labels), ""


def _span(run: _Run) -> Span:
    kind = _KINDS.get(run.run_type, Kind.OTHER if run.parent_run_id else Kind.AGENT)
    name, digest = (run.name or "")[:ATTRIBUTE_LETTERS], 0
    if kind is Kind.TOOL:
        name = tool_step([(name, "")]).name
        digest = action_digest(name, bytes(run.inputs).decode("utf-8", "replace"))
    return Span(
        span_id=run.id,
        parent_id=run.parent_run_id or "",
        start=nanoseconds(str(run.start_time or "")),
        kind=kind,
        name="" if kind is Kind.MODEL else name,
        failed=bool(run.error) or run.status == "error",
        digest=digest,
    )
