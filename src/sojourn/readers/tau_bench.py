"""tau-bench result files: a JSON list of {task_id, trial, reward, info, traj}.

Two things stand only between the lines. An exception is written as reward 0 with ``info.error``
and an empty ``traj``: a fault of the harness, not a failure of the agent. And no field says how a
run ended: the last message does. A user's ``###STOP###`` or a hand-over to a human is an end of the
agent's or user's own; a run that just stops was cut by the limit of agent turns.
The domain is named in the system message; ids collide between domains. A file is of one domain, so
a run that left no path has that of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn.readers._json import BadRecordError, Buffer, array_items, decode, open_buffer, sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Step, Trace

__all__ = ["TauBenchReader"]

STOP = "###STOP###"
HANDOVER = "transfer_to_human_agents"
# Success is a reward within 1e-6 of one, as the benchmark itself counts it.
TOLERANCE = 1e-6


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Any = ""


class _Call(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    name: str | None = None
    tool_calls: list[_Call] | None = None


class _Run(msgspec.Struct):
    task_id: int | str
    reward: float | None = None
    trial: int | None = None
    info: Any = None
    traj: list[_Message] = []


class TauBenchReader:
    """Reads the result files of tau-bench."""

    name = "tau-bench"
    description = "tau-bench results (one JSON list a file)"
    carries = "outcome, steps, attempts"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is a list of objects with the benchmark's keys."""
        found = sniff(head)
        return found.kind == "array" and {"task_id", "reward", "info"} <= found.keys

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a run."""
        data = open_buffer(source)
        domain = _file_domain(data, source)
        for number, item in enumerate(array_items(data, source=str(source))):
            if isinstance(item, Skipped):
                yield item
                continue
            try:
                yield _trace(decode(item, _Run), domain, source)
            except ValueError as error:
                yield Skipped(source=f"{source}, item {number}", reason=str(error))


def _file_domain(data: Buffer, source: Path) -> str:
    """Return the domain of the first run that names one."""
    for item in array_items(data, source=str(source)):
        if isinstance(item, Skipped):
            continue
        try:
            domain = _domain(decode(item, _Run).traj)
        except BadRecordError:
            continue
        if domain:
            return domain
    return ""


def _trace(run: _Run, domain: str, source: Path) -> Trace:
    error = isinstance(run.info, dict) and run.info.get("error") is not None
    if error and not run.traj:
        outcome, end = Outcome.UNSCORED, End.INFRA_ERROR
    else:
        outcome, end = _outcome(run.reward), _end(run.traj, error=error)
    return Trace(
        task_id=str(run.task_id),
        task_set=_domain(run.traj) or domain,
        task_repeat=run.trial,
        model=source.stem,
        outcome=outcome,
        end=end,
        limit_kind=LimitKind.TURNS if end is End.LIMIT else None,
        score=run.reward,
        n_steps=sum(message.role == "assistant" for message in run.traj),
        steps=tuple(_steps(run.traj)),
        source_type=TauBenchReader.name,
        source_uri=str(source),
    )


def _outcome(reward: float | None) -> Outcome:
    if reward is None:
        return Outcome.UNSCORED
    return Outcome.SUCCESS if abs(reward - 1.0) <= TOLERANCE else Outcome.FAILURE


def _end(traj: list[_Message], *, error: bool) -> End:
    if error:
        return End.AGENT_ERROR
    if not traj:
        return End.UNKNOWN
    last = traj[-1]
    if last.role == "user" and STOP in str(last.content or ""):
        return End.FINISHED
    if last.name == HANDOVER:
        return End.FINISHED
    return End.LIMIT


def _domain(traj: list[_Message]) -> str:
    """Return the domain that the policy in the system message is about."""
    text = str(traj[0].content or "")[:200].lower() if traj and traj[0].role == "system" else ""
    return next((domain for domain in ("airline", "retail") if domain in text), "")


def _steps(traj: list[_Message]) -> Iterator[Step]:
    for position, message in enumerate(traj):
        if message.role != "assistant":
            continue
        if not message.tool_calls:
            yield respond(str(message.content or ""))
            continue
        calls = [(call.function.name, str(call.function.arguments)) for call in message.tool_calls]
        failed = [text.startswith("Error") for text in _answers(traj, position)]
        yield tool_step(calls, ok=not any(failed) if failed else None)


def _answers(traj: list[_Message], position: int) -> Iterator[str]:
    """Yield the tools' answers that stand directly after a message."""
    for index in range(position + 1, len(traj)):
        if traj[index].role != "tool":
            return
        yield str(traj[index].content or "")
