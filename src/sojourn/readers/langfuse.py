"""Langfuse exports: a trace with its observations, or rows of observations; a run is a trace.

A document is ``{trace, observations}`` or the trace of the interface with both inside. Rows are
those of the storage export (``observations_v2/``, JSON lines) or of the interface; the scores then
stand in ``scores/`` beside it. A trace has no task: it is the trace's id, or a field, or a key of
the metadata, that ``--map task_id=NAME`` names. What a score means is the user's: it is a verdict
only where ``--scorer NAME`` names it. A dataset run shows one item a dataset item, so attempts are
to be joined by traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS, ID_LETTERS
from sojourn.readers._json import (
    HEAD_BYTES,
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
from sojourn.readers._langfuse_rows import (
    TraceInfo,
    observation,
    score,
    span_of,
)
from sojourn.readers._span_log import Evaluation, Found, SpanLog
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Skipped

__all__ = ["LangfuseReader"]

_INSIDE = (("metadata",),)


class LangfuseReader:
    """Reads exports of Langfuse."""

    name = "langfuse"
    description = "Langfuse traces with their observations, or rows of observations"
    carries = "steps; outcome by --scorer"
    heeds = frozenset({"columns", "scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first object is an observation, or a trace with observations."""
        keys = sniff(head).keys
        if {"trace_id", "parent_observation_id", "type"} <= keys:
            return True
        if {"traceId", "parentObservationId", "type"} <= keys:
            return True
        # The observations stand far behind a long trace.
        is_trace = "trace" in keys or {"projectId", "timestamp"} <= keys or "observations" in keys
        return is_trace and b'"parentObservationId"' in head and b'"traceId"' in head

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return the scores and traces that were exported beside observations."""
        if not source.parent.name.startswith("observations"):
            return []
        return [
            path
            for folder in ("scores", "traces")
            for path in sorted((source.parent.parent / folder).glob("*.json*"))
        ]

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace for each trace with a call of a model, tool or agent.

        Raises
        ------
        ReaderError
            If the file holds no such JSON at all.
        """
        log = SpanLog(source, self.name, options, only_chosen=True)
        yield from log.records(self._items(source, options, log))

    def _items(
        self, source: Path, options: ReadOptions, log: SpanLog
    ) -> Iterator[tuple[Found, str] | Skipped]:
        asked = frozenset(options.columns.values())
        head = read_head(source)
        keys = sniff(head).keys
        is_array = head.lstrip()[:1] == b"["
        if not is_array and not keys & {"parentObservationId", "parent_observation_id"}:
            yield from _document(open_buffer(source), asked, str(source))
            return
        scores = dict[str, list[Evaluation]]()
        beside = [path for path in self.siblings(source) if path.parent.name == "scores"]
        if options.scorer is not None:
            for path in beside:
                yield from _gather_scores(path, options.scorer, scores, log)
        elif beside and not options.verdicts_elsewhere:
            log.note("scores stand beside; choose the one that is the verdict with --scorer NAME")
        items: Iterator[tuple[str, Buffer | Skipped]] = (
            ((f"item {n}", item) for n, item in
             enumerate(array_items(open_buffer(source), source=str(source)), start=1))
            if is_array
            else ((f"line {line.number}", line.text) for line in json_lines(source))
        )  # fmt: skip
        for place, raw in items:
            if isinstance(raw, Skipped):
                yield raw
            elif _is_trace(bytes(raw)):
                yield from _document(raw, asked, f"{source}, {place}")
            else:
                yield from _row(raw, asked, f"{source}, {place}", TraceInfo(), scores)


def _labels(raw: Buffer, asked: frozenset[str]) -> dict[str, str]:
    return labels_of(decode(raw, dict[str, msgspec.Raw]), asked, inside=_INSIDE)


def _is_trace(raw: bytes) -> bool:
    return b'"observations"' in raw and "observations" in sniff(raw[:HEAD_BYTES]).keys


def _document(
    raw: Buffer, asked: frozenset[str], source: str
) -> Iterator[tuple[Found, str] | Skipped]:
    """Yield the observations of one trace with what is known of it."""
    fields = object_fields(raw, source=source)
    outer = fields.get("trace", raw)
    trace = TraceInfo()
    try:
        trace = decode(outer, TraceInfo)
    except BadRecordError as error:
        yield Skipped(source=source, reason=f"the trace: {error}", what="key")
    inside = fields.get("observations", trace.observations)
    if bytes(memoryview(inside)[:1]) != b"[":
        yield Skipped(source=source, reason="a trace without observations")
        return
    n_found = 0
    for item in array_items(inside, source=source):
        if isinstance(item, Skipped):
            yield item
            continue
        n_found += 1
        yield from _row(item, asked, f"{source}, observation {n_found}", trace, {})
    if asked and n_found and trace.id:  # what a trace says itself comes after what its parts say
        stated = labels_of(object_fields(outer, source=source), asked, inside=_INSIDE)
        yield Found(trace.id[:ID_LETTERS], None, "", [], stated), ""


def _row(
    raw: Buffer,
    asked: frozenset[str],
    place: str,
    trace: TraceInfo,
    scores: dict[str, list[Evaluation]],
) -> Iterator[tuple[Found, str] | Skipped]:
    try:
        row = observation(raw)
        trace_id = (row.trace_id or trace.id)[:ID_LETTERS]
        if not trace_id or not row.id:
            raise BadRecordError("an observation without a trace or an id")
        labels = _labels(raw, asked) if asked else {}
    except BadRecordError as error:
        yield Skipped(source=place, reason=str(error), what="line")
        return
    try:
        evaluations = [score(item).evaluation() for item in trace.scores or ()]
    except BadRecordError as error:
        evaluations = []
        yield Skipped(source=place, reason=f"a score: {error}", what="verdict")
    trace.scores = None  # once is enough
    found = Found(
        trace_id=trace_id,
        span=span_of(row),
        session_id=(row.session_id or trace.session_id or "")[:ATTRIBUTE_LETTERS],
        evaluations=evaluations + scores.pop(trace_id, []),
        labels=labels,
    )
    yield found, (row.trace_name or trace.name or "")[:ATTRIBUTE_LETTERS]


def _gather_scores(
    path: Path, scorer: str, scores: dict[str, list[Evaluation]], log: SpanLog
) -> Iterator[Skipped]:
    """Put the scores of one name into a table by traces; yield the lines that are no scores."""
    for line in json_lines(path):
        try:
            found = score(line.text)
        except BadRecordError as error:
            place = f"{path}, line {line.number}"
            yield Skipped(source=place, reason=f"a score: {error}", what="verdict")
            continue
        log.heard_of(found.name)
        if found.name == scorer and found.trace_id:
            scores.setdefault(found.trace_id[:ID_LETTERS], []).append(found.evaluation())
