"""ATIF trajectories, as `atif` and `harbor` read them (fields of ATIF v1.0 to v1.8).

A step of ours is a step of source ``agent``. One that was copied from an earlier trajectory
(``is_copied_context``) was counted there and is left out. Observations carry text and no mark of
an error, so whether a step went well is unknown. Trajectories of subagents are not part of the run.
One that grew too long for its context goes on in another file beside it
(``continued_trajectory_ref``): its steps are the run's too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._json import BadRecordError, decode, open_buffer, sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.records import Skipped, Step

__all__ = ["Trajectory", "continuations", "is_continuation", "is_trajectory", "read_whole"]

_CONTINUED = re.compile(r"(.+)\.cont-\d{1,6}\Z", re.DOTALL)
_LOST = "the trajectory goes on in another file, which is not there; its steps are not known"
_COMMANDS = ("command", "cmd", "keystrokes")


class _Call(msgspec.Struct):
    function_name: str | None = None
    arguments: Any = None


class _Step(msgspec.Struct):
    source: str = ""
    model_name: str | None = None
    message: Any = None
    tool_calls: list[_Call] | None = None
    is_copied_context: bool | None = None


class _Agent(msgspec.Struct):
    name: str | None = None
    model_name: str | None = None


class Trajectory(msgspec.Struct):
    """What is read of a trajectory."""

    steps: list[_Step]
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: _Agent = msgspec.field(default_factory=_Agent)
    subagent_trajectories: list[msgspec.Raw] | None = None
    continued_trajectory_ref: Any = None

    def model(self) -> str:
        """Return the agent's model, that of its first step where the agent names none."""
        stated = (step.model_name for step in self.steps if step.source == "agent")
        return self.agent.model_name or next(filter(None, stated), "")


def is_trajectory(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a trajectory."""
    found = sniff(head)
    return found.kind == "object" and "schema_version" in found.keys and b'"ATIF-v' in head


def is_continuation(path: Path) -> bool:
    """Return whether a file continues one that stands beside it."""
    found = _CONTINUED.match(path.stem)
    return found is not None and path.with_name(f"{found[1]}{path.suffix}").is_file()


def continuations(path: Path) -> list[Path]:
    """Return the files beside a trajectory that are named as its continuations."""
    named = (path.with_name(f"{path.stem}.cont-{n}{path.suffix}") for n in count(1))
    return list(takewhile(Path.is_file, named))


def read_whole(path: Path) -> Iterator[tuple[Trajectory, tuple[Step, ...]] | Skipped]:
    """Yield what of a trajectory is no part of its run, then the first part and all steps.

    Raises
    ------
    BadRecordError
        If the file is no trajectory.
    ReaderError, OSError
        If it cannot be read.
    """
    first = run = decode(open_buffer(path), Trajectory)
    steps = list(_own_steps(run))
    yield from _dropped(run, str(path))
    seen = {path.name}
    while run.continued_trajectory_ref:
        name = run.continued_trajectory_ref
        further = path.with_name(Path(name).name) if isinstance(name, str) else path
        if further.name in seen or further.is_symlink() or not further.is_file():
            yield Skipped(source=str(path), reason=_LOST, what="key")
            break
        seen.add(further.name)
        try:
            run = decode(open_buffer(further), Trajectory)
        except (BadRecordError, ReaderError, OSError) as error:
            yield Skipped(source=str(further), reason=f"the steps that follow: {error}", what="key")
            break
        steps += _own_steps(run)
        yield from _dropped(run, str(further))
    yield first, tuple(steps)


def _own_steps(run: Trajectory) -> tuple[Step, ...]:
    """Return the agent's own steps."""
    return tuple(
        _step(step) for step in run.steps if step.source == "agent" and not step.is_copied_context
    )


def _step(step: _Step) -> Step:
    if not step.tool_calls:
        return respond(str(step.message or ""))
    first = step.tool_calls[0].arguments
    command = None
    if isinstance(first, dict):
        found = next((first[k] for k in _COMMANDS if first.get(k)), None)
        command = " ".join(map(str, found)) if isinstance(found, list) else found
    calls = [(call.function_name or "", str(call.arguments)) for call in step.tool_calls]
    return tool_step(calls, command=command if isinstance(command, str) else None)


def _dropped(run: Trajectory, source: str) -> Iterator[Skipped]:
    """Yield what of a trajectory is no part of the run."""
    counts = {
        "steps copied from an earlier trajectory": sum(
            bool(s.is_copied_context) for s in run.steps
        ),
        "trajectories of subagents; their steps are not the agent's": len(
            run.subagent_trajectories or ()
        ),
    }
    for reason, number in counts.items():
        if number:
            yield Skipped(source=source, reason=reason, count=number, what="key")
