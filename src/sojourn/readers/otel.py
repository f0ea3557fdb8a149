"""OpenTelemetry spans of agents: OTLP JSON lines, and other files of spans; a run is a trace.

Spans come in no order: each is written when it ends, children first, and those of one trace may lie
far apart. What is kept of a span is small and holds no text, and all of a file is gathered before
its runs are told, up to `MAX_SPANS` spans. In a longer file the traces that were quiet the longest
are then closed, those with their root and all parents first; a span that comes for a closed trace
is counted and left out. So memory stays flat whatever the size of the file.

A trace has no task and seldom a verdict: the task is the trace's id, for ``--outcomes FILE``, or an
attribute that ``--map task_id=ATTRIBUTE`` names; likewise ``outcome``, ``task_repeat`` and the
other labels of a run. The one standard verdict is ``gen_ai.evaluation.*``, on a span or an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

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
from sojourn.readers._otel_spans import (
    Evaluation,
    Found,
    ResourceSpans,
    flat_span,
    otlp_span,
    resource_name,
)
from sojourn.readers._rows import verdict_of_word
from sojourn.readers._spans import Forest, Kind, Span, forest, steps_of
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["OtelReader"]

MAX_SPANS = 400_000
_LABELS = ("task_set", "agent", "model", "cluster", "session_id", "job_id")
_UNSCORED = (Outcome.UNSCORED, None)
_FLAT = ({"trace_id", "span_id"}, {"context", "attributes"})


class _Line(msgspec.Struct, rename="camel"):
    resource_spans: list[ResourceSpans] | None = None


@dataclass(slots=True)
class _Open:
    """A trace that may still grow."""

    spans: list[Span] = field(default_factory=list)
    session_id: str = ""
    service: str = ""
    evaluations: list[Evaluation] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    has_root: bool = False


@dataclass(slots=True)
class _Log:
    """What is being gathered from one file."""

    source: Path
    options: ReadOptions
    open: dict[str, _Open] = field(default_factory=dict)  # the one touched last stands last
    closed: set[int] = field(default_factory=set)
    notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    positions: Counter[str] = field(default_factory=Counter)
    n_spans: int = 0

    def add(self, found: Found, service: str) -> None:
        """Take a span into its trace."""
        if hash(found.trace_id) in self.closed:
            self.note("spans that came after their trace was closed", "run")
            return
        trace = self.open.pop(found.trace_id, None) or _Open(service=service)
        self.open[found.trace_id] = trace
        trace.spans.append(found.span)
        trace.has_root = trace.has_root or not found.span.parent_id
        trace.session_id = trace.session_id or found.session_id
        trace.evaluations += found.evaluations[: 100 - len(trace.evaluations)]
        for key, value in found.labels.items():
            trace.labels.setdefault(key, value)
        self.n_spans += 1

    def note(self, reason: str, what: str = "key", count: int = 1) -> None:
        """Count something that is told at the end."""
        if count:
            self.notes[reason, what] += count


class OtelReader:
    """Reads files of OpenTelemetry spans."""

    name = "otel"
    description = "OpenTelemetry spans of agents (OTLP JSON lines, GenAI or OpenInference)"
    carries = "steps; outcome where it was evaluated"

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object holds spans, or is one."""
        found = sniff(head)
        if not found.kind:
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
        log = _Log(source, options)
        asked = frozenset(options.columns.values())
        for item in _spans(source, asked):
            if isinstance(item, Skipped):
                yield item
                continue
            log.add(*item)
            if log.n_spans > MAX_SPANS:
                yield from _close_some(log)
        yield from _tell(log, sorted(log.open, key=lambda key: _start(log.open[key])))
        for (reason, what), count in log.notes.items():
            yield Skipped(source=str(source), reason=reason, what=what, count=count)


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
        for line in json_lines(source):
            place = f"{source}, line {line.number}"
            yield from _item(line.text, asked, place)


def _is_document(source: Path, head: bytes) -> bool:
    """Return whether a file is one object over several lines, rather than an object a line."""
    if sniff(head).kind == "lines":
        return False
    first = next((line.text for line in json_lines(source)), b"")
    return not is_closed(first) or b'"spans"' in head[:64]


def _items(
    items: Iterator[Buffer | Skipped], asked: frozenset[str], source: Path
) -> Iterator[tuple[Found, str] | Skipped]:
    for number, item in enumerate(items, start=1):
        if isinstance(item, Skipped):
            yield item
        else:
            yield from _item(item, asked, f"{source}, item {number}")


def _item(raw: Buffer, asked: frozenset[str], place: str) -> Iterator[tuple[Found, str] | Skipped]:
    """Yield the spans of one line or item: an export, the spans of one program, or one span."""
    try:
        head = bytes(memoryview(raw)[:4096])
        if b'"resourceSpans"' in head:
            exports = decode(raw, _Line).resource_spans or []
        elif b'"scopeSpans"' in head or b'"resource"' in head[:64]:
            exports = [decode(raw, ResourceSpans)]
        else:
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


def _close_some(log: _Log) -> Iterator[Record]:
    """Close traces, the longest quiet ones first, until half of the room is free."""
    n_left = log.n_spans
    chosen: list[str] = []
    for complete in (True, False):
        for key, trace in log.open.items():
            if n_left <= MAX_SPANS // 2:
                break
            if _is_complete(trace) == complete:
                chosen.append(key)
                n_left -= len(trace.spans)
    chosen.sort(key=lambda key: _start(log.open[key]))
    log.closed.update(map(hash, chosen))
    yield from _tell(log, chosen)


def _is_complete(trace: _Open) -> bool:
    ids = {span.span_id for span in trace.spans}
    return trace.has_root and all(not s.parent_id or s.parent_id in ids for s in trace.spans)


def _start(trace: _Open) -> int:
    return min(span.start for span in trace.spans)


def _tell(log: _Log, keys: list[str]) -> Iterator[Record]:
    for key in keys:
        trace = log.open.pop(key)
        log.n_spans -= len(trace.spans)
        tree = forest(trace.spans)
        log.note(
            "spans with an id that their trace has twice; the first counts", "key", tree.n_repeated
        )
        log.note("spans whose parent is not in the log; they count as roots", "key", tree.n_orphans)
        if all(span.kind is Kind.OTHER for span in tree.spans):
            log.note("traces without a call of a model, tool or agent: they are no runs")
            continue
        try:
            yield _trace(key, trace, tree, log)
        except ValueError as error:
            yield Skipped(source=str(log.source), reason=str(error))


def _trace(key: str, trace: _Open, tree: Forest, log: _Log) -> Trace:
    said: dict[str, Any] = {
        ours: trace.labels[theirs]
        for ours, theirs in log.options.columns.items()
        if trace.labels.get(theirs)
    }
    labels = {ours: said[ours] for ours in _LABELS if ours in said}
    agents = [span.name for span in tree.spans if span.kind is Kind.AGENT and span.name]
    models = [span.model for span in tree.spans if span.model]
    labels.setdefault("agent", agents[0] if agents else trace.service)
    labels.setdefault("model", models[0] if models else "")
    session = labels.setdefault("session_id", trace.session_id or None)
    position = None
    if session is not None:
        position = log.positions[session]
        log.positions[session] += 1
    repeat = said.get("task_repeat", "")
    outcome, score = _verdict(said.get("outcome"), trace.evaluations, log)
    steps = tuple(steps_of(tree))
    broke = bool(tree.roots) and tree.roots[0].failed
    return Trace(
        task_id=said.get("task_id") or key,
        task_repeat=int(repeat) if repeat.isdecimal() and len(repeat) < 10 else None,
        outcome=outcome,
        score=score,
        end=End.INFRA_ERROR if broke else End.UNKNOWN,
        position=position,
        n_steps=len(steps),
        steps=steps,
        source_type=OtelReader.name,
        source_uri=str(log.source),
        **labels,
    )


def _verdict(
    stated: str | None, evaluations: list[Evaluation], log: _Log
) -> tuple[Outcome, float | None]:
    """Return the verdict of an attribute that was named, else of the evaluation that counts."""
    if stated is not None:
        evaluations = [Evaluation("", stated, "")]
    elif log.options.scorer is not None:
        evaluations = [one for one in evaluations if one.name == log.options.scorer]
    if not evaluations:
        return _UNSCORED
    if len({one.name for one in evaluations}) > 1:
        log.note("runs with several evaluations; choose one with --scorer NAME", "verdict")
        return _UNSCORED
    last = evaluations[-1]
    outcome = verdict_of_word(last.label or last.value)
    if outcome is None and last.label:
        outcome = verdict_of_word(last.value) if last.value else None
    if outcome is None:
        log.note("an evaluation is no verdict (neither a word of ours nor 0 or 1)", "verdict")
        return _UNSCORED
    return outcome, None
