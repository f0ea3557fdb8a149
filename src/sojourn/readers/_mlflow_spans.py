"""A span and an assessment of MLflow, from its JSON in any of the schemas 2 to 4.

Attributes hold JSON in strings; the newest servers write them as a list of keys and typed values.
Names of spans that a trace has several times were numbered by the program (``find_1``,
``find_2``): the numbers are taken off again, or each call of a tool would be a tool of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS, ID_LETTERS
from sojourn.readers._answers import asked_tool, unquoted
from sojourn.readers._json import BadRecordError, Buffer, decode
from sojourn.readers._span_log import Evaluation
from sojourn.readers._spans import Kind, Span, nanoseconds
from sojourn.readers._steps import EDITORS, SHELL_TOOLS, action_digest, tool_name

__all__ = ["Assessment", "RawSpan", "plain", "unnumbered"]

_NOTHING = msgspec.Raw(b"null")
_TYPE = "mlflow.spanType"
_INPUTS = "mlflow.spanInputs"
_OUTPUTS = "mlflow.spanOutputs"
_MODELS = ("mlflow.llm.model", "gen_ai.request.model", "gen_ai.response.model")
_KINDS = {
    "LLM": Kind.MODEL,
    "CHAT_MODEL": Kind.MODEL,
    "TOOL": Kind.TOOL,
    "RETRIEVER": Kind.TOOL,
    "AGENT": Kind.AGENT,
}
_NUMBERED = re.compile(r"(.+)_(\d{1,6})\Z", re.DOTALL)


class _Status(msgspec.Struct):
    code: str | int | None = None
    status_code: str | None = None


class _Context(msgspec.Struct):
    trace_id: str | None = None
    span_id: str | None = None


class _Value(msgspec.Struct):
    string_value: str | None = None
    int_value: int | str | None = None
    double_value: float | None = None
    bool_value: bool | None = None


class _Attribute(msgspec.Struct):
    key: str
    value: _Value | None = None


class _Arguments(msgspec.Struct):
    command: str | None = None
    model: str | None = None


class RawSpan(msgspec.Struct):
    """What is read of a span."""

    span_id: str | None = None
    trace_id: str | None = None
    context: _Context | None = None
    parent_span_id: str | None = None
    parent_id: str | None = None
    name: str | None = None
    start_time_unix_nano: int | str | None = None
    start_time_ns: int | str | None = None
    start_time: int | str | None = None
    status: _Status | str | None = None
    status_code: str | None = None
    attributes: dict[str, msgspec.Raw] | list[_Attribute] | None = None

    def identity(self) -> str:
        """Return the span's id, "" where it has none."""
        inner = self.context.span_id if self.context is not None else None
        return (self.span_id or inner or "")[:ID_LETTERS]

    def trace(self) -> str:
        """Return the id of the trace that the span's attributes, or the span, name."""
        stated = plain(self.values().get("mlflow.traceRequestId", b"null"))
        return (stated or self.trace_id or "")[:ID_LETTERS]

    def values(self) -> Mapping[str, Buffer]:
        """Return the attributes as JSON."""
        if isinstance(self.attributes, list):
            return {item.key: _json(item.value) for item in self.attributes}
        return self.attributes or {}

    def failed(self) -> bool:
        """Return whether the span ended by an exception."""
        status = self.status
        code = (status.code or status.status_code) if isinstance(status, _Status) else status
        code = code or self.status_code
        return code == 2 or (isinstance(code, str) and code.upper().endswith("ERROR"))

    def span(self, names: frozenset[str]) -> Span:
        """Return what is kept of it, given the names of all spans of its trace.

        Raises
        ------
        BadRecordError
            If it has no id.
        """
        span_id = self.identity()
        if not span_id:
            raise BadRecordError("a span without an id")
        values = self.values()
        kind = _KINDS.get(plain(values.get(_TYPE, b"null")).upper(), Kind.OTHER)
        name, digest = unnumbered(self.name or "", names)[:ATTRIBUTE_LETTERS], 0
        if kind is Kind.TOOL:
            name = _tool_name(name, values)
            digest = _digest(values, _INPUTS, name)
        elif kind is Kind.MODEL:
            asked = asked_tool(_json_of(values, _OUTPUTS))
            name = tool_name(asked) if asked else ""
            digest = _digest(values, _OUTPUTS)
        parent = (self.parent_span_id or self.parent_id or "")[:ID_LETTERS]
        times = (self.start_time_unix_nano, self.start_time_ns, self.start_time)
        return Span(
            span_id=span_id,
            parent_id="" if parent == span_id else parent,
            start=nanoseconds(str(next((time for time in times if time is not None), ""))),
            kind=kind,
            name="" if kind is Kind.OTHER else name,
            model=_model(values) if kind is Kind.MODEL else "",
            failed=self.failed(),
            digest=digest,
        )


class _Feedback(msgspec.Struct):
    value: Any = None


class _Source(msgspec.Struct):
    source_type: str | None = None


class Assessment(msgspec.Struct):
    """An assessment of a trace; an expectation has no feedback, and one replaced is not valid."""

    assessment_name: str | None = None
    name: str | None = None
    feedback: _Feedback | None = None
    value: Any = None
    source: _Source | None = None
    span_id: str | None = None
    valid: bool | None = None

    def counts(self) -> bool:
        """Return whether it is a verdict on a whole trace that nothing has replaced."""
        return self.feedback is not None and self.valid is not False and not self.span_id

    def is_human(self) -> bool:
        """Return whether a person gave it."""
        return self.source is not None and (self.source.source_type or "").upper() == "HUMAN"

    def evaluation(self) -> Evaluation:
        """Return it as a name and a value; what is neither word nor number has no value."""
        value = self.feedback.value if self.feedback is not None else None
        text = str(value) if isinstance(value, str | int | float | bool) else ""
        return Evaluation(self.assessment_name or self.name or "", "", text[:ATTRIBUTE_LETTERS])


def unnumbered(name: str, names: frozenset[str]) -> str:
    """Return a span's name without the number that tells it from others of that name.

    Parameters
    ----------
    name : str
        The name.
    names : frozenset of str
        Those of all spans of the trace; numbers begin with 1, and are given to two at least.
    """
    found = _NUMBERED.match(name)
    if found is None or not {f"{found[1]}_1", f"{found[1]}_2"} <= names:
        return name
    return found[1]


def plain(raw: Buffer) -> str:
    """Return a word or a number as text, from JSON or from JSON in a string; "" for others."""
    value: Any = None
    try:
        value = decode(raw, str | int | float | bool | None)  # type: ignore[arg-type]
        if isinstance(value, str) and value[:1] == '"':
            value = decode(value.encode("utf-8", "replace"), str)
    except BadRecordError:
        return value if isinstance(value, str) else ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def _json(value: _Value | None) -> bytes:
    if value is None:
        return b"null"
    values = (value.string_value, value.int_value, value.double_value, value.bool_value)
    return msgspec.json.encode(next((v for v in values if v is not None), None))


def _json_of(values: Mapping[str, Buffer], key: str) -> Buffer:
    """Return the JSON that an attribute holds, null where it is not there or broken."""
    try:
        return unquoted(values.get(key, b"null"))
    except BadRecordError:
        return b"null"


def _digest(values: Mapping[str, Buffer], key: str, *parts: str) -> int:
    if key not in values:
        return 0
    return action_digest(*parts, bytes(values[key]).decode("utf-8", "replace"))


def _arguments(values: Mapping[str, Buffer]) -> _Arguments:
    try:
        found: _Arguments | None = decode(_json_of(values, _INPUTS), _Arguments | None)  # type: ignore[arg-type]
    except BadRecordError:
        return _Arguments()
    return found or _Arguments()


def _tool_name(name: str, values: Mapping[str, Buffer]) -> str:
    command = _arguments(values).command if name in SHELL_TOOLS | EDITORS else None
    return tool_name(name, command)


def _model(values: Mapping[str, Buffer]) -> str:
    stated: Iterable[str] = (plain(values[key]) for key in _MODELS if key in values)
    return (next(filter(None, stated), "") or _arguments(values).model or "")[:ATTRIBUTE_LETTERS]
