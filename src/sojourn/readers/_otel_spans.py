"""One OpenTelemetry span from its JSON, in whichever of three shapes and four vocabularies.

The shapes: OTLP (``traceId``, attributes as a list of keys and typed values), the console
exporter's (``context``, ``parent_id``), and flat rows (``trace_id``, ``parent_span_id``). The
vocabularies: GenAI (``gen_ai.*``), OpenInference (``openinference.span.kind``), Traceloop's and the
older ``llm.*``. Of a span's attributes only the named ones are decoded: prompts and answers, which
are most of a log, are passed over but for the digest of what was done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS, ID_LETTERS
from sojourn.readers._json import BadRecordError, Buffer, decode
from sojourn.readers._span_log import Evaluation, Found
from sojourn.readers._spans import Kind, Span, nanoseconds
from sojourn.readers._steps import EDITORS, SHELL_TOOLS, action_digest, tool_name

__all__ = ["ResourceSpans", "flat_span", "otlp_span", "resource_name"]

_NOTHING = msgspec.Raw(b"null")

_KIND_KEYS = (
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
    "llm.request.type",
    "mlflow.spanType",
)
_KINDS = {
    **dict.fromkeys(
        ("chat", "generate_content", "text_completion", "call_llm", "completion", "llm"), Kind.MODEL
    ),
    "chat_model": Kind.MODEL,
    **dict.fromkeys(("execute_tool", "tool", "retrieval", "retriever"), Kind.TOOL),
    **dict.fromkeys(("invoke_agent", "agent"), Kind.AGENT),
}
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_AGENT_NAMES = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name")
_MODELS = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")
_SESSIONS = ("gen_ai.conversation.id", "session.id")
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "gen_ai.tool.args", "input.value"),
    "mlflow.spanInputs",
)
_ANSWERS = ("gen_ai.output.messages", "gen_ai.output", "output.value", "mlflow.spanOutputs")
_EVALUATION = "gen_ai.evaluation."
_EVALUATION_KEYS = tuple(_EVALUATION + key for key in ("name", "score.label", "score.value"))
_WANTED = frozenset(
    {
        *(*_KIND_KEYS, *_TOOL_NAMES, *_AGENT_NAMES, *_MODELS, *_SESSIONS),
        *(*_ARGUMENTS, *_ANSWERS, *_EVALUATION_KEYS, "error.type"),
    }
)


class _KeyValue(msgspec.Struct, gc=False):
    key: str
    value: msgspec.Raw = _NOTHING


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | None = None
    bool_value: bool | None = None


class _Status(msgspec.Struct):
    code: int | str | None = None
    status_code: int | str | None = None

    def is_error(self) -> bool:
        """Return whether the span failed; OTLP writes the number or the name of the code."""
        code = self.code if self.code is not None else self.status_code
        return code == 2 or (isinstance(code, str) and code.upper().endswith("ERROR"))


class _Event(msgspec.Struct):
    name: str | None = None
    attributes: msgspec.Raw = _NOTHING


class _OtlpSpan(msgspec.Struct, rename="camel"):
    trace_id: msgspec.Raw
    span_id: msgspec.Raw
    parent_span_id: msgspec.Raw = _NOTHING
    name: str | None = None
    start_time_unix_nano: msgspec.Raw = _NOTHING
    attributes: list[_KeyValue] | None = None
    status: _Status | None = None
    events: list[_Event] | None = None


class _Scope(msgspec.Struct):
    spans: list[msgspec.Raw] | None = None


class _Resource(msgspec.Struct):
    attributes: list[_KeyValue] | None = None


class ResourceSpans(msgspec.Struct, rename="camel"):
    """The spans of one program, undecoded."""

    resource: _Resource | None = None
    scope_spans: list[_Scope] | None = None


class _Context(msgspec.Struct):
    trace_id: msgspec.Raw = _NOTHING
    span_id: msgspec.Raw = _NOTHING


class _FlatSpan(msgspec.Struct):
    trace_id: msgspec.Raw = _NOTHING
    span_id: msgspec.Raw = _NOTHING
    context: _Context | None = None
    parent_span_id: msgspec.Raw = _NOTHING
    parent_id: msgspec.Raw = _NOTHING
    parent: _Context | str | None = None
    name: str | None = None
    start_time: msgspec.Raw = _NOTHING
    attributes: dict[str, msgspec.Raw] | None = None
    status: _Status | str | None = None
    events: list[_Event] | None = None
    span_events: list[_Event] | None = None


def resource_name(resource: _Resource | None) -> str:
    """Return the name of the program that wrote the spans."""
    for item in (resource.attributes if resource is not None else None) or ():
        if item.key == "service.name":
            return _label(_plain(item.value))
    return ""


def otlp_span(raw: Buffer, asked: frozenset[str]) -> Found:
    """Return a span of OTLP.

    Raises
    ------
    BadRecordError
        If it is none.
    """
    span = decode(raw, _OtlpSpan)
    wanted = _WANTED | asked if asked else _WANTED
    attributes = {item.key: item.value for item in span.attributes or () if item.key in wanted}
    return _found(
        (_word(span.trace_id), _word(span.span_id), _word(span.parent_span_id)),
        _word(span.start_time_unix_nano),
        span.name or "",
        attributes,
        failed=span.status is not None and span.status.is_error(),
        events=span.events or (),
        asked=asked,
    )


def flat_span(raw: Buffer, asked: frozenset[str]) -> Found:
    """Return a span of a flat row or of the console exporter.

    Raises
    ------
    BadRecordError
        If it is none.
    """
    span = decode(raw, _FlatSpan)
    context = span.context or _Context(span.trace_id, span.span_id)
    parent = _word(span.parent_span_id) or _word(span.parent_id)
    if not parent and span.parent is not None:
        parent = span.parent if isinstance(span.parent, str) else _word(span.parent.span_id)
    status = span.status
    failed = (
        status.is_error()
        if isinstance(status, _Status)
        else status is not None and status.upper().endswith("ERROR")
    )
    return _found(
        (_word(context.trace_id), _word(context.span_id), parent),
        _word(span.start_time),
        span.name or "",
        span.attributes or {},
        failed=failed,
        events=span.events or span.span_events or (),
        asked=asked,
    )


def _found(
    ids: tuple[str, str, str],
    start: str,
    name: str,
    attributes: Mapping[str, msgspec.Raw],
    *,
    failed: bool,
    events: Any,
    asked: frozenset[str],
) -> Found:
    trace_id, span_id, parent_id = ids
    if not trace_id or not span_id:
        raise BadRecordError("a span without a trace or an id")
    kind = _kind(attributes)
    label, digest = "", 0
    if kind is Kind.TOOL:
        label, digest = _tool(_first(attributes, _TOOL_NAMES) or _label(name), attributes)
    elif kind is Kind.AGENT:
        label = _first(attributes, _AGENT_NAMES) or _label(name)
    elif kind is Kind.MODEL:
        digest = _digest(attributes, _ANSWERS)
    span = Span(
        span_id=span_id,
        parent_id="" if parent_id == span_id else parent_id,
        start=nanoseconds(start),
        kind=kind,
        name=label,
        model=_first(attributes, _MODELS) if kind is not Kind.OTHER else "",
        failed=failed or "error.type" in attributes,
        digest=digest,
    )
    evaluations = list(_evaluations(attributes, events))
    labels = {key: _label(_plain(attributes[key])) for key in asked if key in attributes}
    return Found(trace_id, span, _first(attributes, _SESSIONS), evaluations, labels)


def _kind(attributes: Mapping[str, msgspec.Raw]) -> Kind:
    for key in _KIND_KEYS:
        if key in attributes:
            word = _plain(attributes[key]).strip('"')  # MLflow writes JSON in a string
            return _KINDS.get(word.lower(), Kind.OTHER)
    if "gen_ai.tool.name" in attributes or "tool.name" in attributes:
        return Kind.TOOL
    return Kind.MODEL if "llm.model_name" in attributes else Kind.OTHER


def _tool(name: str, attributes: Mapping[str, msgspec.Raw]) -> tuple[str, int]:
    """Return what a call of a tool is named, and its digest."""
    command = None
    if name in SHELL_TOOLS or name in EDITORS:
        try:
            arguments = decode(_plain(_raw(attributes, _ARGUMENTS)).encode(), _Arguments)
        except BadRecordError:
            arguments = _Arguments()
        command = arguments.command
    return tool_name(name, command), _digest(attributes, _ARGUMENTS, name)


class _Arguments(msgspec.Struct):
    command: str | None = None


def _digest(attributes: Mapping[str, msgspec.Raw], keys: tuple[str, ...], *parts: str) -> int:
    """Return the digest of the first of some attributes, 0 where none is there."""
    raw = _raw(attributes, keys)
    if raw is _NOTHING:
        return 0
    return action_digest(*parts, _plain(raw) or bytes(raw).decode("utf-8", "replace"))


def _evaluations(attributes: Mapping[str, msgspec.Raw], events: Any) -> Iterator[Evaluation]:
    places = [attributes]
    for event in events:
        if (event.name or "").startswith(_EVALUATION):
            places.append(_event_attributes(event.attributes))
    for place in places:
        name, label, value = (
            _label(_plain(place[key])) if key in place else "" for key in _EVALUATION_KEYS
        )
        if label or value:
            yield Evaluation(name, label, value)


def _event_attributes(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        if bytes(memoryview(raw)[:1]) == b"[":
            return {item.key: item.value for item in decode(raw, list[_KeyValue])}
        return decode(raw, dict[str, msgspec.Raw])
    except BadRecordError:
        return {}


def _raw(attributes: Mapping[str, msgspec.Raw], keys: tuple[str, ...]) -> msgspec.Raw:
    return next((attributes[key] for key in keys if key in attributes), _NOTHING)


def _first(attributes: Mapping[str, msgspec.Raw], keys: tuple[str, ...]) -> str:
    """Return the first of some attributes that holds a word."""
    for key in keys:
        if key in attributes and (word := _label(_plain(attributes[key]))):
            return word
    return ""


_PLAIN: Any = _Value | str | float | bool | None


def _plain(raw: msgspec.Raw) -> str:
    """Return a value as text: that of an OTLP value, or a plain one; "" for lists and objects."""
    try:
        value: Any = decode(raw, _PLAIN)
    except BadRecordError:
        return ""
    if isinstance(value, _Value):
        if value.string_value is not None:
            return value.string_value
        values = (value.int_value, value.double_value, value.bool_value)
        value = next((v for v in values if v is not None), None)
    elif isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _label(text: str) -> str:
    return text[:ATTRIBUTE_LETTERS]


def _word(raw: msgspec.Raw) -> str:
    """Return an id or a time as its digits or letters, without decoding: ids have 128 bits."""
    text = bytes(raw).strip()
    return "" if text == b"null" else text.strip(b'"').decode("utf-8", "replace")[:ID_LETTERS]
