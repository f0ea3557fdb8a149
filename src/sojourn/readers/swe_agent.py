"""SWE-agent trajectories (``<instance>.traj``): steps and an end, never a verdict.

Whether the submitted patch resolves the issue stands in the report of another tool; join it with
``--outcomes FILE``. ``exit_status`` is free text: ``submitted``, ``exit_cost`` and its kin, and
``submitted (exit_cost)`` for a run that a budget or an error ended and whose work was submitted
for it: what is in brackets is the end. Each step repeats the whole prompt in ``query``, which is
passed over. A step is one entry of ``trajectory``; the log does not tell whether it went well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._json import BadRecordError, decode, open_buffer, sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Step, Trace

__all__ = ["SweAgentReader"]

SUFFIX = ".traj"
AGENT = "SWE-agent"

_ENDS: dict[str, tuple[End, LimitKind | None]] = {
    "submitted": (End.FINISHED, None),
    "exit_forfeit": (End.FINISHED, None),  # the agent gave up: a failure of its own
    "exit_command": (End.FINISHED, None),
    "exit_cost": (End.LIMIT, LimitKind.COST),
    "exit_context": (End.LIMIT, LimitKind.CONTEXT),
    "exit_total_execution_time": (End.LIMIT, LimitKind.TIME),
    "exit_format": (End.AGENT_ERROR, None),
    "exit_command_timeout": (End.AGENT_ERROR, None),
    "exit_api": (End.INFRA_ERROR, None),
    "exit_environment_error": (End.INFRA_ERROR, None),
    "exit_error": (End.INFRA_ERROR, None),
}
_BRACKETED = re.compile(r"\(([a-z_ ]{1,40})\)")


class _Turn(msgspec.Struct):
    action: str | None = None
    response: str | None = None


class _Info(msgspec.Struct):
    exit_status: str | None = None


class _Model(msgspec.Struct):
    name: str | None = None


class _Agent(msgspec.Struct):
    model: _Model = msgspec.field(default_factory=_Model)


class _Replay(msgspec.Struct):
    agent: _Agent = msgspec.field(default_factory=_Agent)


class _Trajectory(msgspec.Struct):
    trajectory: list[_Turn] | None = None
    info: _Info | None = None
    # An object, or a string that holds one.
    replay_config: msgspec.Raw = msgspec.Raw(b"null")


class SweAgentReader:
    """Reads the trajectories of SWE-agent."""

    name = "swe-agent"
    description = "SWE-agent trajectories (.traj)"
    carries = "steps; outcome with --outcomes"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is named as a trajectory and is an object with its keys."""
        if source.suffix != SUFFIX or not head:
            return False
        found = sniff(head)
        keys = {"trajectory", "history", "environment", "info"}
        return found.kind == "object" and not found.keys.isdisjoint(keys)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the run.

        Raises
        ------
        ReaderError
            If the file is not one such trajectory.
        """
        try:
            run = decode(open_buffer(source), _Trajectory)
            yield _trace(run, source)
        except ValueError as error:
            raise ReaderError(f"{source}: {error}") from None


def _trace(run: _Trajectory, source: Path) -> Trace:
    end, limit_kind = _end(run.info)
    steps = tuple(_step(turn) for turn in run.trajectory or ())
    return Trace(
        task_id=source.stem,
        agent=AGENT,
        model=_model(run.replay_config),
        outcome=Outcome.UNSCORED,
        end=end,
        limit_kind=limit_kind,
        n_steps=len(steps),
        steps=steps,
        # One folder an instance, or all instances in one folder: the run is the folder above.
        job_id=str(source.parent.parent if source.parent.name == source.stem else source.parent),
        source_type=SweAgentReader.name,
        source_uri=str(source),
    )


def _end(info: _Info | None) -> tuple[End, LimitKind | None]:
    if info is None:
        return End.UNKNOWN, None
    if not info.exit_status:
        return End.CANCELLED, None  # saved after every step, and stopped from outside
    bracketed = _BRACKETED.search(info.exit_status[:200])
    status = bracketed.group(1) if bracketed else info.exit_status
    return _ENDS.get(status.strip(), (End.UNKNOWN, None))


def _model(config: msgspec.Raw) -> str:
    """Return the model's name from the configuration, "" where there is none to be read."""
    try:
        if bytes(memoryview(config)[:16]).lstrip()[:1] == b'"':
            config = msgspec.Raw(decode(config, str).encode())
        replay = decode(config, _Replay | None)  # type: ignore[arg-type]
    except BadRecordError:
        return ""
    return "" if replay is None else replay.agent.model.name or ""


def _step(turn: _Turn) -> Step:
    action = (turn.action or "").strip()
    if not action:
        return respond(turn.response or "")
    return tool_step([("bash", action)], command=action)
