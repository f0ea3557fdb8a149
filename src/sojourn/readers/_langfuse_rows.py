"""Rows of a Langfuse export: an observation, a score, and what of them becomes a span."""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec
from msgspec import structs

from sojourn._limits import ATTRIBUTE_LETTERS, ID_LETTERS
from sojourn.readers._answers import asked_tool
from sojourn.readers._json import Buffer, decode
from sojourn.readers._span_log import Evaluation
from sojourn.readers._spans import Kind, Span, nanoseconds
from sojourn.readers._steps import action_digest, tool_step

__all__ = [
    "Observation",
    "Score",
    "TraceInfo",
    "observation",
    "score",
    "span_of",
]

_KINDS = {
    "GENERATION": Kind.MODEL,
    "TOOL": Kind.TOOL,
    "RETRIEVER": Kind.TOOL,
    "AGENT": Kind.AGENT,
}
T = TypeVar("T", bound=msgspec.Struct)
_NOTHING = msgspec.Raw(b"null")


class Observation(msgspec.Struct):
    """An observation in the names of the storage export."""

    id: str = ""
    trace_id: str = ""
    parent_observation_id: str | None = None
    type: str | None = None
    name: str | None = None
    level: str | None = None
    start_time: str | None = None
    model: str | None = None
    provided_model_name: str | None = None
    session_id: str | None = None
    trace_name: str | None = None
    tool_call_names: list[str] | None = None
    input: msgspec.Raw = _NOTHING
    output: msgspec.Raw = _NOTHING


class Score(msgspec.Struct):
    """A score of a trace."""

    name: str = ""
    trace_id: str = ""
    value: float | str | bool | None = None
    string_value: str | None = None

    def evaluation(self) -> Evaluation:
        """Return it as a word and a number."""
        number = self.value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        return Evaluation(self.name, self.string_value or "", "" if number is None else str(number))


def _in_camel_case(form: type[T]) -> type[T]:
    """Return a form with the same fields in the names of the interface."""
    fields = [(f.name, f.type, msgspec.field(default=f.default)) for f in structs.fields(form)]
    return cast(
        "type[T]",
        msgspec.defstruct(f"{form.__name__}Api", fields, bases=(form,), rename="camel"),
    )


_ApiObservation = _in_camel_case(Observation)
_ApiScore = _in_camel_case(Score)


class TraceInfo(msgspec.Struct, rename="camel"):
    """What a document says of a trace."""

    id: str = ""
    name: str | None = None
    session_id: str | None = None
    scores: list[msgspec.Raw] | None = None
    observations: msgspec.Raw = _NOTHING


def _is_api(raw: Buffer) -> bool:
    return b'"traceId"' in bytes(raw)


def observation(raw: Buffer) -> Observation:
    """Return an observation, in either spelling of its fields.

    Raises
    ------
    BadRecordError
        If it is none.
    """
    return decode(raw, _ApiObservation if _is_api(raw) else Observation)


def score(raw: Buffer) -> Score:
    """Return a score, in either spelling of its fields.

    Raises
    ------
    BadRecordError
        If it is none.
    """
    return decode(raw, _ApiScore if _is_api(raw) else Score)


def span_of(row: Observation) -> Span:
    """Return what is kept of an observation."""
    kind = _KINDS.get((row.type or "").upper(), Kind.OTHER)
    name, digest = "", 0
    if kind is Kind.MODEL:
        asked = (row.tool_call_names or [""])[0] or asked_tool(row.output)
        name = tool_step([(asked, "")]).name if asked else ""
        digest = action_digest(_text(row.output)) if row.output != _NOTHING else 0
    elif kind is Kind.TOOL:
        step = tool_step([(row.name or "", _text(row.input))])
        name, digest = step.name, step.digest if row.input != _NOTHING else 0
    elif kind is Kind.AGENT:
        name = (row.name or "")[:ATTRIBUTE_LETTERS]
    parent = (row.parent_observation_id or "")[:ID_LETTERS]
    return Span(
        span_id=row.id[:ID_LETTERS],
        parent_id="" if parent == row.id else parent,
        start=nanoseconds(row.start_time or ""),
        kind=kind,
        name=name,
        model=(row.provided_model_name or row.model or "")[:ATTRIBUTE_LETTERS],
        failed=(row.level or "").upper() == "ERROR",
        digest=digest,
    )


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode("utf-8", "replace")
