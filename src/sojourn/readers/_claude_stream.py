"""The stream of messages of Claude Code (``--output-format stream-json``) and of its Agent SDK.

A run is a session of the stream: a line a message, in the order in which they were spoken. Messages
with a ``parent_tool_use_id`` are of a subagent. The line of type ``result`` closes a run and says
how it ended, by its ``subtype``; it says that the agent was done, never that the task was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sojourn.errors import EmptySourceError
from sojourn.readers._claude_messages import Message, Spoken, steps_of
from sojourn.readers._json import BadRecordError, decode, json_lines, sniff
from sojourn.readers._steps import first_name
from sojourn.readers.base import Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Trace

__all__ = ["is_stream", "stream_records"]

_ENDS: dict[str, tuple[End, LimitKind | None]] = {
    "success": (End.FINISHED, None),
    "error_max_turns": (End.LIMIT, LimitKind.TURNS),
    "error_max_budget_usd": (End.LIMIT, LimitKind.COST),
    "error_max_structured_output_retries": (End.AGENT_ERROR, None),
}


class _Line(msgspec.Struct):
    type: str = ""
    subtype: str | None = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    message: msgspec.Raw = msgspec.Raw(b"null")
    model: str | None = None
    is_error: bool | None = None


@dataclass(slots=True)
class _Run:
    spoken: list[Spoken] = field(default_factory=list)
    model: str = ""
    end: tuple[End, LimitKind | None] | None = None


def is_stream(head: bytes) -> bool:
    """Return whether a file that begins with `head` is such a stream."""
    found = sniff(head)
    if found.kind not in ("object", "lines") or not found.keys >= {"type", "session_id"}:
        return False
    return not found.keys.isdisjoint({"subtype", "parent_tool_use_id"})


def stream_records(source: Path, *, agent: str, source_type: str) -> Iterator[Record]:
    """Yield a trace a session, then what of the stream is no part of one.

    Raises
    ------
    EmptySourceError
        If no message of a model is in it.
    """
    runs: dict[str, _Run] = {}
    n_side = 0
    for line in json_lines(source):
        try:
            found = decode(line.text, _Line)
            if found.type in ("assistant", "user") and found.parent_tool_use_id:
                n_side += 1
                continue
            _hear(found, runs.setdefault(first_name(found.session_id, source.stem), _Run()))
        except BadRecordError as error:
            place = f"{source}, line {line.number}"
            yield Skipped(source=place, reason=str(error), what="line")
    n_told = n_open = 0
    for session, run in runs.items():
        if not any(one.is_turn() for one in run.spoken):
            continue
        n_told += 1
        steps = tuple(steps_of(run.spoken))
        models = (one.message.model for one in run.spoken if one.is_turn())
        n_open += run.end is None
        end, limit_kind = run.end or (End.UNKNOWN, None)
        yield Trace(
            task_id=session,
            agent=agent,
            model=run.model or next(filter(None, models), ""),
            outcome=Outcome.UNSCORED,
            end=end,
            limit_kind=limit_kind,
            n_steps=len(steps),
            steps=steps,
            source_type=source_type,
            source_uri=str(source),
        )
    if not n_told:
        raise EmptySourceError(f"{source}: no message of a model in it")
    for reason, count in (
        ("sessions without a message of the model", len(runs) - n_told),
        ("sessions without a result: the stream broke off", n_open),
        ("messages of subagents; their steps are not the agent's", n_side),
    ):
        if count:
            yield Skipped(source=str(source), reason=reason, count=count, what="key")


def _hear(line: _Line, run: _Run) -> None:
    """Add a line to the run that it is of."""
    if line.type in ("assistant", "user"):
        run.spoken.append(Spoken(line.type, decode(line.message, Message)))
    elif line.type == "system" and line.subtype == "init":
        run.model = line.model or ""
    elif line.type == "result":
        known = _ENDS.get(line.subtype or "", (End.INFRA_ERROR, None))
        is_fault = line.is_error and known[0] is End.FINISHED  # an error of the interface
        run.end = (End.INFRA_ERROR, None) if is_fault else known
