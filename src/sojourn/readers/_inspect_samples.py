"""One sample of an Inspect log: the few fields that are read of it, how it ended, and its steps.

A step is one assistant message of the sample's own conversation; messages that came with the
sample's input are not the agent's doing. An error is an exception while the sample ran, a fault of
the harness; a limit cuts a run that may still have been scored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from sojourn.readers._json import BadRecordError
from sojourn.readers._steps import EDITORS, respond, tool_step
from sojourn.records import End, LimitKind, Step

__all__ = [
    "Message",
    "Sample",
    "end_of",
    "identity",
    "score_values",
    "steps_of",
    "turn_limit",
    "unseen_steps",
]

LIMITS = {
    "context": LimitKind.CONTEXT,
    "cost": LimitKind.COST,
    "message": LimitKind.MESSAGES,
    "time": LimitKind.TIME,
    "token": LimitKind.TOKENS,
    "turn": LimitKind.TURNS,
    "working": LimitKind.TIME,
}
_EDITORS = EDITORS | {"text_editor"}
_COMMAND_KEYS = ("cmd", "command", "input")
_CANCELLED = ("CancelledError", "Cancelled(")


class _Call(msgspec.Struct):
    function: Any = ""
    arguments: Any = None
    parse_error: Any = None


class Message(msgspec.Struct):
    """What is read of a message of a conversation."""

    role: Any = ""
    source: Any = None
    content: Any = None
    tool_calls: list[_Call] | None = None
    error: Any = None
    tool_error: Any = None


class _Score(msgspec.Struct):
    value: Any = None


class _Choice(msgspec.Struct):
    pass


class _Output(msgspec.Struct):
    choices: list[_Choice] | None = None


class _Limit(msgspec.Struct):
    type: Any = None
    limit: Any = None


class Sample(msgspec.Struct):
    """What is read of a sample; `message_refs` stands where the messages are kept apart."""

    id: Any = None
    epoch: int | None = None
    messages: list[Message] | None = None
    message_refs: list[tuple[int, int]] | None = None
    output: _Output | None = None
    scores: dict[str, _Score] | None = None
    score: _Score | None = None
    error: Any = None
    limit: _Limit | None = None
    invalidation: Any = None
    turn_count: int | None = None


def identity(value: Any) -> str:
    """Return a sample's id as text.

    Raises
    ------
    BadRecordError
        If it has none.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise BadRecordError("the sample has no id")
    return str(value)


def score_values(sample: Sample) -> dict[str, Any]:
    """Return the values of a sample's scores by the scorers' names."""
    if sample.scores is not None:
        return {name: score.value for name, score in sample.scores.items()}
    return {} if sample.score is None else {"score": sample.score.value}


def end_of(sample: Sample) -> tuple[End, LimitKind | None]:
    """Return how a sample ended, and by which limit."""
    if sample.error is not None:
        message = sample.error.get("message") if isinstance(sample.error, dict) else sample.error
        cancelled = isinstance(message, str) and message.startswith(_CANCELLED)
        return (End.CANCELLED if cancelled else End.INFRA_ERROR), None
    if sample.limit is None:
        return End.FINISHED, None
    if sample.limit.type == "operator":  # a person ended it
        return End.CANCELLED, None
    return End.LIMIT, LIMITS.get(str(sample.limit.type), LimitKind.CUSTOM)


def turn_limit(sample: Sample, planned: int | None) -> int | None:
    """Return the limit of turns, which are steps; limits of messages and tokens are not."""
    limit: Any = planned
    if sample.limit is not None and sample.limit.type == "turn":
        limit = sample.limit.limit or limit
    return int(limit) if isinstance(limit, int | float) and 0 < limit < 2**31 else None


def unseen_steps(sample: Sample) -> int | None:
    """Return the number of steps where no message shows them, None if that is unknown."""
    if sample.turn_count is not None:
        return sample.turn_count
    answered = sample.output is not None and sample.output.choices
    return None if answered else 0


def steps_of(messages: list[Message]) -> Iterator[Step]:
    """Yield a step for each of the agent's messages, with the errors of the tools it called."""
    spoken: Message | None = None
    answers: list[bool] = []
    for message in messages:
        if message.role == "assistant" and message.source not in ("input", "operator"):
            if spoken is not None:
                yield _step(spoken, answers)
            spoken, answers = message, []
        elif message.role == "tool":
            answers.append(message.error is None and not message.tool_error)
    if spoken is not None:
        yield _step(spoken, answers)


def _step(message: Message, answers: list[bool]) -> Step:
    calls = message.tool_calls
    if not calls:
        return respond(_text(message.content))
    named = [(str(call.function), _text(call.arguments)) for call in calls]
    ok = all(answers) if answers else None
    if any(call.parse_error is not None for call in calls):
        ok = False
    command = _command(calls[0].arguments)
    if command is not None and named[0][0] in _EDITORS:
        named[0] = (f"{named[0][0]} {command.split(None, 1)[0]}", named[0][1])
    return tool_step(named, ok=ok, command=command)


def _command(arguments: Any) -> str | None:
    if isinstance(arguments, dict):
        for key in _COMMAND_KEYS:
            value = arguments.get(key)
            if isinstance(value, str) and value.strip():
                return value
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
