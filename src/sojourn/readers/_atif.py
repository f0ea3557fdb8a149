"""ATIF trajectories, as `atif` and `harbor` read them (fields of ATIF v1.0 to v1.8).

A step of ours is a step of source ``agent``. One that was copied from an earlier trajectory
(``is_copied_context``) was counted there and is left out. Observations carry text and no mark of
an error, so whether a step went well is unknown. Trajectories of subagents are not part of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sojourn.readers._json import sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.records import Skipped, Step

__all__ = ["Trajectory", "dropped", "is_trajectory", "steps_of"]

_COMMANDS = ("command", "cmd", "keystrokes")


class _Call(msgspec.Struct):
    function_name: str | None = None
    arguments: Any = None


class _Step(msgspec.Struct):
    source: str = ""
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


def is_trajectory(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a trajectory."""
    found = sniff(head)
    return found.kind == "object" and "schema_version" in found.keys and b'"ATIF-v' in head


def steps_of(run: Trajectory) -> tuple[Step, ...]:
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
        command = next((first[k] for k in _COMMANDS if isinstance(first.get(k), str)), None)
    calls = [(call.function_name or "", str(call.arguments)) for call in step.tool_calls]
    return tool_step(calls, command=command)


def dropped(run: Trajectory, source: str) -> Iterator[Skipped]:
    """Yield what of a trajectory is no part of the run."""
    counts = {
        "steps copied from an earlier trajectory": sum(
            bool(s.is_copied_context) for s in run.steps
        ),
        "trajectories of subagents; their steps are not the agent's": len(
            run.subagent_trajectories or ()
        ),
        "the trajectory goes on in another file; the steps there are not known here": int(
            bool(run.continued_trajectory_ref)
        ),
    }
    for reason, count in counts.items():
        if count:
            yield Skipped(source=source, reason=reason, count=count, what="key")
