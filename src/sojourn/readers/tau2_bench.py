"""tau2-bench results: one file, or a folder of ``results.json`` and ``simulations/``.

The file is ``{info, tasks, simulations}``; a folder holds the same with one file a simulation, and
an index that tells which should be there. Both the agent and the simulated user may call tools:
only the agent's messages are steps. ``max_steps`` counts messages of all parties, so a run that it
cut has no budget in steps. A fault of the simulated user or of the harness is not the agent's.
Full-duplex (voice) runs log slices of time instead of turns; their steps are left unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._json import (
    BadRecordError,
    Buffer,
    array_items,
    decode,
    object_fields,
    open_buffer,
    read_head,
    sniff,
)
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Step, Trace

__all__ = ["Tau2BenchReader"]

RESULTS = "results.json"
SIMULATIONS = "simulations"
# Success is a reward within 1e-6 of one, as the benchmark itself counts it.
TOLERANCE = 1e-6

_ENDS: dict[str, tuple[End, LimitKind | None]] = {
    "user_stop": (End.FINISHED, None),
    "agent_stop": (End.FINISHED, None),
    "max_steps": (End.LIMIT, LimitKind.MESSAGES),
    "timeout": (End.LIMIT, LimitKind.TIME),
    "context_window_exceeded": (End.LIMIT, LimitKind.CONTEXT),
    "too_many_errors": (End.AGENT_ERROR, None),
    "agent_error": (End.AGENT_ERROR, None),
    "user_error": (End.INFRA_ERROR, None),
    "infrastructure_error": (End.INFRA_ERROR, None),
    "unexpected_error": (End.INFRA_ERROR, None),
}


class _Agent(msgspec.Struct):
    implementation: str | None = None
    llm: str | None = None


class _Environment(msgspec.Struct):
    domain_name: str | None = None


class _Info(msgspec.Struct):
    agent_info: _Agent = msgspec.field(default_factory=_Agent)
    environment_info: _Environment = msgspec.field(default_factory=_Environment)


class _Call(msgspec.Struct):
    name: str | None = None
    arguments: Any = None
    requestor: str | None = None


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[_Call] | None = None
    requestor: str | None = None
    error: bool | None = None
    tool_messages: list[_Message] | None = None


class _Reward(msgspec.Struct):
    reward: float | None = None


class _Simulation(msgspec.Struct):
    task_id: int | str
    trial: int | None = None
    termination_reason: str | None = None
    reward_info: _Reward | None = None
    messages: list[_Message] | None = None
    # Undecoded: whether there are any is all that is asked.
    ticks: msgspec.Raw = msgspec.Raw(b"null")


class _Entry(msgspec.Struct):
    id: str


class _Job(msgspec.Struct):
    """What all simulations of one evaluation share."""

    job_id: str
    task_set: str
    agent: str
    model: str


class Tau2BenchReader:
    """Reads the results of tau2-bench."""

    name = "tau2-bench"
    description = "tau2-bench results (a file, or results.json with simulations/)"
    carries = "outcome, steps, attempts"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file, or a folder's ``results.json``, describes such an evaluation."""
        if not head:
            results = source / RESULTS
            if not (source / SIMULATIONS).is_dir() or not results.is_file():
                return False
            head = read_head(results)
        marks = (b'"num_trials"', b'"user_info"')
        return "info" in sniff(head).keys and all(mark in head for mark in marks)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone, a folder is taken whole."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a simulation."""
        results = source / RESULTS if source.is_dir() else source
        data = open_buffer(results)
        fields = object_fields(data, source=str(results))
        job, problem = _job(fields, results)
        if problem is not None:
            yield problem
        simulations = fields.get(SIMULATIONS)
        if simulations is not None and bytes(memoryview(simulations)[:16]).strip() != b"[]":
            for number, item in enumerate(array_items(simulations, source=str(results))):
                place = f"{results}, simulation {number}"
                yield from [item] if isinstance(item, Skipped) else _run(item, job, results, place)
        elif (folder := results.parent / SIMULATIONS).is_dir():
            if not bytes(memoryview(data)[-64:]).rstrip().endswith(b"}"):
                yield Skipped(source=str(results), reason="the file is truncated", what="bytes")
            yield from _read_folder(folder, fields, job)
        elif simulations is None:
            raise ReaderError(f"{results}: no simulations in it; is the file complete?")


def _job(fields: dict[str, Buffer], results: Path) -> tuple[_Job, Skipped | None]:
    """Return the labels of the evaluation, and what is wrong with them."""
    info, problem = _Info(), None
    try:
        info = decode(fields.get("info", b"{}"), _Info)
        timestamp = decode(fields.get("timestamp", b"null"), str | None)  # type: ignore[arg-type]
    except BadRecordError as error:
        problem = Skipped(source=str(results), reason=f"info: {error}", what="key")
        timestamp = None
    job = _Job(
        # The moment at which the evaluation began names it better than a file that may be copied.
        job_id=f"{results.stem} {timestamp}" if timestamp else str(results),
        task_set=info.environment_info.domain_name or "",
        agent=info.agent_info.implementation or "",
        model=info.agent_info.llm or "",
    )
    return job, problem


def _read_folder(folder: Path, fields: dict[str, Buffer], job: _Job) -> Iterator[Record]:
    """Yield the simulations that stand one a file, and count those that the index misses."""
    files = sorted(folder.glob("*.json"))
    for path in files:
        try:
            yield from _run(open_buffer(path), job, path, str(path))
        except (ReaderError, OSError) as error:
            yield Skipped(source=str(path), reason=str(error))
    try:
        index = decode(fields.get("simulation_index", b"null"), list[_Entry] | None)  # type: ignore[arg-type]
    except BadRecordError as error:
        yield Skipped(source=str(folder.parent / RESULTS), reason=f"the index: {error}", what="key")
        return
    missing = {entry.id for entry in index or ()} - {path.stem for path in files}
    if missing:
        yield Skipped(
            source=str(folder),
            reason="the index names a simulation whose file is not there",
            count=len(missing),
        )


def _run(raw: Buffer, job: _Job, path: Path, place: str) -> Iterator[Record]:
    try:
        simulation = decode(raw, _Simulation)
        yield _trace(simulation, job, path)
    except ValueError as error:
        yield Skipped(source=place, reason=str(error))
        return
    if simulation.messages is None and bytes(simulation.ticks) != b"null":
        yield Skipped(
            source=str(path),
            reason="a full-duplex run logs slices of time, not turns: its steps are unknown",
            what="key",
        )


def _trace(run: _Simulation, job: _Job, source: Path) -> Trace:
    reward = None if run.reward_info is None else run.reward_info.reward
    end, limit_kind = _ENDS.get(run.termination_reason or "", (End.UNKNOWN, None))
    steps = None if run.messages is None else tuple(_steps(run.messages))
    return Trace(
        task_id=str(run.task_id),
        task_set=job.task_set,
        task_repeat=run.trial,
        agent=job.agent,
        model=job.model,
        outcome=_outcome(reward),
        end=end,
        limit_kind=limit_kind,
        score=reward,
        n_steps=None if steps is None else len(steps),
        steps=steps or (),
        job_id=job.job_id,
        source_type=Tau2BenchReader.name,
        source_uri=str(source),
    )


def _outcome(reward: float | None) -> Outcome:
    if reward is None:
        return Outcome.UNSCORED
    return Outcome.SUCCESS if abs(reward - 1.0) <= TOLERANCE else Outcome.FAILURE


def _steps(messages: list[_Message]) -> Iterator[Step]:
    """Yield the agent's turns; what the simulated user says or calls is no step of the agent."""
    for position, message in enumerate(messages):
        if message.role != "assistant":
            continue
        calls = [
            (call.name or "", str(call.arguments))
            for call in message.tool_calls or ()
            if call.requestor != "user"
        ]
        if calls:
            failed = list(_answers(messages, position))
            yield tool_step(calls, ok=not any(failed) if failed else None)
        else:
            yield respond(str(message.content or ""))


def _answers(messages: list[_Message], position: int) -> Iterator[bool]:
    """Yield for each answer to the agent's calls whether it is an error; answers may nest once."""
    for index in range(position + 1, len(messages)):
        message = messages[index]
        if message.role != "tool":
            return
        for answer in message.tool_messages or (message,):
            if answer.requestor != "user":
                yield bool(answer.error)
