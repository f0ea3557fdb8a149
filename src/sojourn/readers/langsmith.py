"""LangSmith run exports (JSON lines, an array, or ``{runs: []}``): a run is a trace.

The task is ``reference_example_id``, else the trace's id, or what ``--map task_id=NAME`` names: a
field of a run or a key of its metadata. What a feedback means is the user's: its average, or the
one value that all gave, is a verdict only where ``--scorer`` names it. ``session_id`` is the
project, no session; a conversation is the ``thread_id`` of the metadata, under one of the three
names that LangSmith knows. Runs may stand in their parents' ``child_runs``. Fields are those of the
documented run data format and of the library's own schema; the Parquet export is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from sojourn.readers._labels import inner_fields, labels_of
from sojourn.readers._span_log import Evaluation, Found, SpanLog
from sojourn.readers._spans import Kind, Span, nanoseconds
from sojourn.readers._steps import action_digest, tool_name
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Skipped

__all__ = ["LangSmithReader"]

_KINDS = {"llm": Kind.MODEL, "tool": Kind.TOOL, "retriever": Kind.TOOL}
_TASK, _PROJECT = "reference_example_id", "session_id"
_KEYS = {"task_id": _TASK, "job_id": _PROJECT}
_MARKS = {"trace_id", "run_type"}


# Where metadata stands, and the names there of a conversation and of a model.
_INSIDE = (("extra", "metadata"), ("metadata",))
_THREADS = ("thread_id", "session_id", "conversation_id")
_MODELS = frozenset({"ls_model_name"})
_INVOCATIONS = frozenset({"model", "model_name"})


class _Feedback(msgspec.Struct):
    avg: float | None = None
    values: Any = None

    def evaluation(self, name: str) -> Evaluation | None:
        """Return the average, or the value where all gave the same; None where there is none."""
        if self.avg is not None:
            return Evaluation(name, "", f"{self.avg:g}")
        if isinstance(self.values, dict) and len(self.values) == 1:
            return Evaluation(name, str(next(iter(self.values)))[:ATTRIBUTE_LETTERS], "")
        return None


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
    outputs: msgspec.Raw = msgspec.Raw(b"null")
    child_runs: list[msgspec.Raw] | None = None
    reference_example_id: str | None = None
    session_id: str | None = None
    feedback_stats: dict[str, _Feedback] | None = None


class LangSmithReader:
    """Reads exported runs of LangSmith."""

    name = "langsmith"
    description = "LangSmith runs (JSON lines, an array, or {runs: []})"
    carries = "steps, attempts; outcome by --scorer"
    heeds = frozenset({"columns", "scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object is a run, or holds runs."""
        keys = sniff(head).keys
        return keys >= _MARKS or ("runs" in keys and b'"run_type"' in head)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace with a call of a model, tool or agent."""
        asked = frozenset(options.columns.values())
        log = SpanLog(source, self.name, options, only_chosen=True, keys=_KEYS)
        yield from log.records(_items(source, asked))


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


def _items(source: Path, asked: frozenset[str]) -> Iterator[tuple[Found, str] | Skipped]:
    for place, raw in _texts(source):
        if isinstance(raw, Skipped):
            yield raw
            continue
        stack: list[Buffer] = [raw]
        while stack:
            text = stack.pop()
            try:
                run = decode(text, _Run)
                fields = object_fields(text, source=str(source))
            except BadRecordError as error:
                yield Skipped(source=f"{source}, {place}", reason=str(error), what="line")
                continue
            stack.extend(reversed(run.child_runs or ()))
            yield _found(run, fields, asked), ""


def _found(run: _Run, fields: Mapping[str, Buffer], asked: frozenset[str]) -> Found:
    is_root = not run.parent_run_id
    metadata = [inner_fields(fields, *path) for path in _INSIDE]
    words: dict[str, str] = {}
    for place in metadata:
        words = labels_of(place, _MODELS.union(_THREADS)) | words
    labels = labels_of(fields, asked, inside=_INSIDE) if asked else {}
    if run.reference_example_id and is_root:
        labels.setdefault(_TASK, run.reference_example_id)
    if run.session_id and is_root:
        labels.setdefault(_PROJECT, run.session_id)
    scores = [one.evaluation(name) for name, one in (run.feedback_stats or {}).items()]
    return Found(
        trace_id=run.trace_id,
        span=_span(run, words.get("ls_model_name") or _invoked(fields)),
        session_id=next((words[key] for key in _THREADS if words.get(key)), ""),
        evaluations=[one for one in scores if one is not None and is_root],
        labels=labels,
    )


def _invoked(fields: Mapping[str, Buffer]) -> str:
    """Return the model that a call's parameters name."""
    words = labels_of(inner_fields(fields, "extra", "invocation_params"), _INVOCATIONS)
    return words.get("model") or words.get("model_name") or ""


def _span(run: _Run, model: str) -> Span:
    kind = _KINDS.get(run.run_type, Kind.OTHER if run.parent_run_id else Kind.AGENT)
    name, digest = (run.name or "")[:ATTRIBUTE_LETTERS], 0
    if kind is Kind.TOOL:
        name = tool_name(name)
        digest = action_digest(name, bytes(run.inputs).decode("utf-8", "replace"))
    elif kind is Kind.MODEL:
        asked = asked_tool(run.outputs)
        name = tool_name(asked) if asked else ""
    return Span(
        span_id=run.id,
        parent_id=run.parent_run_id or "",
        start=nanoseconds(str(run.start_time or "")),
        kind=kind,
        name=name,
        model=model if kind is Kind.MODEL else "",
        failed=bool(run.error) or run.status == "error",
        digest=digest,
    )
