"""MINT outputs: JSON lines of ``{state, task}``, one run a line, one folder a task set.

Two ends are told apart that look alike. A run that spent its last proposal of an answer
(``max_propose_steps``) is an honest failure; one that spent its turns (``max_steps``) was cut by
a limit. Ids are unique within a file only, so the folder of the domain is the task set. What was
evaluated stands in the path: ``<model>/F=<feedback>/max<K>_p<P>+<tools>/<area>/<domain>/``, where
K is the budget of turns; each budget is a run of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from sojourn.readers._json import json_lines, records
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Step, Trace

__all__ = ["MintReader"]

EXECUTE = "execute"
PROPOSE = "propose_solution"

_ENDS: dict[str, tuple[End, LimitKind | None]] = {
    "task_success": (End.FINISHED, None),
    "max_propose_steps": (End.FINISHED, None),
    "max_steps": (End.LIMIT, LimitKind.STEPS),
    "error": (End.AGENT_ERROR, None),
}
_HEAD = re.compile(rb'\s*+\{\s*+"state"\s*+:\s*+\{\s*+"history"\s*+:')
_SETTING = re.compile(r"max(\d{1,6})_p\d+")
_FEEDBACK = re.compile(r"F=|PHF=")
_NO_FEEDBACK = "F=None"
_REFUSED = ("Your answer is wrong", "I don't understand your input")
# The last line of a traceback, as the interpreter's answer shows it.
_EXCEPTION = re.compile(r"^[A-Za-z_.]{1,60}(?:Error|Exception|Interrupt)\b", re.MULTILINE)


class _Message(msgspec.Struct):
    role: str | None = None
    content: str | None = None


class _State(msgspec.Struct):
    history: list[_Message]
    success: bool | None = None
    terminate_reason: str | None = None


class _Task(msgspec.Struct):
    task_id: int | str
    task_name: str | None = None


class _Line(msgspec.Struct):
    state: _State
    task: _Task


class _Place(NamedTuple):
    """What the path says of all runs in a file."""

    task_set: str
    agent: str
    model: str
    step_limit: int | None


class MintReader:
    """Reads the outputs of MINT."""

    name = "mint"
    description = "MINT outputs (results.jsonl)"
    carries = "outcome, steps"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file's first line is an object that begins with a run's history."""
        return _HEAD.match(head) is not None

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a line."""
        place = _place(source)
        yield from records(
            json_lines(source),
            _Line,
            source=str(source),
            build=lambda line: _trace(line, place, source),
        )


def _place(source: Path) -> _Place:
    """Return what the path says; "" for what is not in it."""
    parts = source.resolve().parent.parts
    for position in range(len(parts) - 1, 0, -1):
        if setting := _SETTING.match(parts[position]):
            break
    else:
        return _Place("", "", "", None)
    first = position
    while _FEEDBACK.match(parts[first - 1]):
        first -= 1
    feedback = [part for part in parts[first:position] if part != _NO_FEEDBACK]
    return _Place(
        task_set=parts[-1] if position < len(parts) - 1 else "",
        agent="+".join([parts[position], *feedback]),
        model=parts[first - 1] if first > 1 else "",
        step_limit=int(setting.group(1)),
    )


def _trace(line: _Line, place: _Place, source: Path) -> Trace:
    state = line.state
    end, limit_kind = _ENDS.get(state.terminate_reason or "", (End.UNKNOWN, None))
    steps = tuple(_steps(state.history[1:]))  # the first message is the prompt
    return Trace(
        task_id=str(line.task.task_id),
        task_set=place.task_set or line.task.task_name or "",
        agent=place.agent,
        model=place.model,
        outcome=_outcome(state.success),
        end=end,
        limit_kind=limit_kind,
        step_limit=place.step_limit,
        n_steps=len(steps),
        steps=steps,
        source_type=MintReader.name,
        source_uri=str(source),
    )


def _outcome(success: bool | None) -> Outcome:
    if success is None:
        return Outcome.UNSCORED
    return Outcome.SUCCESS if success else Outcome.FAILURE


def _steps(history: list[_Message]) -> Iterator[Step]:
    for position, message in enumerate(history):
        if message.role != "assistant":
            continue
        text = message.content or ""
        answer = history[position + 1] if position + 1 < len(history) else None
        ok = None if answer is None or answer.role != "user" else _accepted(answer.content or "")
        if "<solution>" in text:
            yield tool_step([(PROPOSE, text)], ok=ok)
        elif "<execute>" in text:
            yield tool_step([(EXECUTE, text)], ok=ok)
        else:
            yield respond(text, ok=ok)


def _accepted(answer: str) -> bool:
    return not any(text in answer for text in _REFUSED) and _EXCEPTION.search(answer) is None
