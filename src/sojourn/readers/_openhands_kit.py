"""Events of the newer OpenHands kit (each with a ``kind``), as `openhands` reads them.

A step is one answer of the model: a message of the agent, or the actions that one answer asked for
(they share ``llm_response_id``). What a tool answered names the call that it answers; an error of
the agent that answers no action is a call that could not be understood, and took a turn. Events of
the user, the system's prompt, condensations and changes of state are no steps. Fields are those of
the kit's events up to version 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sojourn.readers._json import BadRecordError, decode
from sojourn.readers._steps import EDITORS, SHELL_TOOLS, respond, tool_step
from sojourn.records import End, LimitKind, Step

__all__ = ["BAD_CALL", "KitEvent", "is_kit", "kit_end", "kit_steps"]

BAD_CALL = "bad call"
_NOTHING = msgspec.Raw(b"null")
_ANSWERS = frozenset({"ObservationEvent", "UserRejectObservation", "AgentErrorEvent"})
_FINISH = frozenset({"finish", "FinishTool"})
_STATUS = "execution_status"


class _Call(msgspec.Struct):
    arguments: Any = None


class _Message(msgspec.Struct):
    content: msgspec.Raw = _NOTHING


class _Arguments(msgspec.Struct):
    command: str | None = None


class _Observation(msgspec.Struct):
    is_error: bool | None = None
    error: Any = None
    exit_code: int | None = None
    metadata: Any = None

    def ok(self) -> bool:
        """Return whether it reports no error."""
        code = self.exit_code
        if code is None and isinstance(self.metadata, dict):
            code = self.metadata.get("exit_code")
        return not self.is_error and not self.error and code in (None, 0, -1)


class KitEvent(msgspec.Struct):
    """What is read of an event."""

    kind: str = ""
    id: str | int | None = None
    source: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    llm_response_id: str | None = None
    action: msgspec.Raw = _NOTHING
    tool_call: _Call | None = None
    observation: msgspec.Raw = _NOTHING
    llm_message: _Message | None = None
    code: Any = None
    detail: Any = None
    key: Any = None
    value: Any = None


class _Mark(msgspec.Struct):
    kind: msgspec.Raw = _NOTHING


def is_kit(events: Iterable[msgspec.Raw]) -> bool:
    """Return whether events are the newer kit's: the first of them has a kind."""
    first = next(iter(events), _NOTHING)
    try:
        return decode(first, _Mark).kind != _NOTHING
    except BadRecordError:
        return False


def kit_steps(events: list[KitEvent]) -> list[Step]:
    """Return the agent's steps."""
    answers = _answers(events)
    turns: dict[str, list[KitEvent]] = {}
    for place, event in enumerate(events):
        if event.kind == "ActionEvent" and event.source in ("agent", None):
            turns.setdefault(event.llm_response_id or f"event {place}", []).append(event)
        elif event.kind == "MessageEvent" and event.source == "agent":
            turns.setdefault(f"event {place}", []).append(event)
        elif event.kind == "AgentErrorEvent" and event.tool_call_id not in answers:
            turns[f"event {place}"] = [event]
    return [_step(turn, answers) for turn in turns.values()]


def _answers(events: list[KitEvent]) -> dict[str, bool | None]:
    """Return for each call of an action whether its answers report no error, None without one."""
    found: dict[str, bool | None] = {
        event.tool_call_id: None
        for event in events
        if event.kind == "ActionEvent" and event.tool_call_id
    }
    for event in events:
        if event.kind in _ANSWERS and event.tool_call_id in found:
            found[event.tool_call_id] = event.kind == "ObservationEvent" and _is_ok(event)
    return found


def _is_ok(event: KitEvent) -> bool:
    try:
        found: _Observation | None = decode(event.observation, _Observation | None)  # type: ignore[arg-type]
    except BadRecordError:
        return True  # an answer of another form reports no error
    return found is None or found.ok()


def _step(turn: list[KitEvent], answers: dict[str, bool | None]) -> Step:
    first = turn[0]
    if first.kind == "AgentErrorEvent":
        return Step(name=BAD_CALL, ok=False)
    if first.kind == "MessageEvent":
        content = first.llm_message.content if first.llm_message is not None else _NOTHING
        return respond(bytes(content).decode("utf-8", "replace"))
    known = [answers.get(event.tool_call_id or "") for event in turn]
    ok = None if None in known and False not in known else all(known)
    name = _name(first)
    command = _command(first) if name in SHELL_TOOLS | EDITORS else None
    return tool_step([(_name(event), _text(event)) for event in turn], ok=ok, command=command)


def _name(event: KitEvent) -> str:
    return event.tool_name or "tool"


def _text(event: KitEvent) -> str:
    """Return an action's arguments, those of the call where it was never carried out."""
    if event.action != _NOTHING:
        return bytes(event.action).decode("utf-8", "replace")
    return str(event.tool_call.arguments) if event.tool_call is not None else ""


def _command(event: KitEvent) -> str | None:
    try:
        return decode(event.action, _Arguments).command
    except BadRecordError:
        return None


def kit_end(events: list[KitEvent]) -> tuple[End, LimitKind | None, str]:
    """Return how a run ended as far as its events say, and the words of an error that ended it."""
    for event in reversed(events):
        if event.kind == "ConversationIterationLimitEvent":
            return End.LIMIT, LimitKind.STEPS, ""
        if event.kind == "ConversationErrorEvent":
            return End.INFRA_ERROR, None, f"{event.code} {event.detail}"
        if event.kind == "ConversationStateUpdateEvent" and event.key == _STATUS:
            if event.value == "stuck":
                return End.AGENT_ERROR, None, ""
        elif event.kind == "ActionEvent" and event.source in ("agent", None):
            finished = event.tool_name in _FINISH
            return (End.FINISHED if finished else End.UNKNOWN), None, ""
        elif event.kind == "MessageEvent" and event.source == "agent":
            return End.FINISHED, None, ""  # a message without a call ends a conversation
    return End.UNKNOWN, None, ""
