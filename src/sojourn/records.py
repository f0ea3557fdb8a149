"""The nouns of one row: what a reader makes of one record of a log.

A *run* is one attempt at a *task*; its record is a `Trace` of `Step`. How a run ended (`End`) and
whether it succeeded (`Outcome`) are two axes and never folded into one: a run may be cut by a limit
and still succeed, or finish by itself and fail. Records check themselves when they are made, so a
bad one cannot exist. They are what readers speak; mathematics sees arrays only (see `corpus`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "Actor",
    "End",
    "LimitKind",
    "Outcome",
    "Skipped",
    "Step",
    "StepKind",
    "Trace",
]


class Outcome(StrEnum):
    """Whether a run reached its goal."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNSCORED = "unscored"


class End(StrEnum):
    """How a run came to its end."""

    FINISHED = "finished"
    LIMIT = "limit"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class LimitKind(StrEnum):
    """Which budget ended a run whose `End` is ``limit``."""

    STEPS = "steps"
    MESSAGES = "messages"
    TURNS = "turns"
    TOKENS = "tokens"
    TIME = "time"
    COST = "cost"
    CONTEXT = "context"
    ATTEMPTS = "attempts"
    CUSTOM = "custom"


class StepKind(StrEnum):
    """What sort of action a step is."""

    TOOL = "tool"
    MODEL = "model"
    USER = "user"
    ENV = "env"
    HANDOFF = "handoff"


class Actor(StrEnum):
    """Who acted."""

    AGENT = "agent"
    USER = "user"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action of the agent; the observation that follows it is an attribute of the step.

    Attributes
    ----------
    name : str
        The first tool called; for a shell tool its first command word; ``respond`` without a tool.
    kind : StepKind
        ``tool`` when something was called, ``model`` when the agent only spoke.
    actor : Actor
        Who acted.
    ok : bool or None
        Whether the observation reported no error; None where the log does not tell.
    n_calls : int
        Number of tools called in this step (0 for a message).
    digest : int
        64-bit digest of the whole action (name and arguments, or the text); 0 where unknown.
    """

    name: str
    kind: StepKind = StepKind.TOOL
    actor: Actor = Actor.AGENT
    ok: bool | None = None
    n_calls: int = 1
    digest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One run: which task, by whom, how it ended, whether it succeeded, and its steps.

    Attributes
    ----------
    task_id : str
        Name of the task inside its `task_set`.
    outcome : Outcome
        Verdict of the run.
    end : End
        How the run ended.
    limit_kind : LimitKind or None
        Which budget ended it; only with ``end="limit"``.
    task_set : str
        The benchmark or data set; a task's key is (task_set, task_id).
    task_repeat : int or None
        The attempt number that the log states; None where it states none.
    agent, model : str
        Who ran. With `task_set` they name the group in which runs may be pooled.
    score : float or None
        The verdict's number; None when there is none (a NaN in a log is none).
    cluster : str or None
        A unit above the task (family, document, user), for resampling.
    session_id, position : str, int or None
        Only where one context really continues over several tasks.
    step_limit : int or None
        The budget in steps that the run was given, where the log states it.
    n_steps : int or None
        Number of steps where it is known; taken from `steps` when these are given.
    steps : tuple of Step
        The actions, in order; may be empty where only their number is known.
    job_id, source_type, source_uri : str
        The evaluation that produced the run, the format it was read from, and the file.

    Raises
    ------
    ValueError
        If a field contradicts another or is out of range.
    """

    task_id: str
    outcome: Outcome
    end: End = End.UNKNOWN
    limit_kind: LimitKind | None = None
    task_set: str = ""
    task_repeat: int | None = None
    agent: str = ""
    model: str = ""
    score: float | None = None
    cluster: str | None = None
    session_id: str | None = None
    position: int | None = None
    step_limit: int | None = None
    n_steps: int | None = None
    steps: tuple[Step, ...] = ()
    job_id: str = ""
    source_type: str = ""
    source_uri: str = ""

    def __post_init__(self) -> None:
        if not self.task_id:
            raise ValueError("task_id is empty")
        if self.limit_kind is not None and self.end is not End.LIMIT:
            raise ValueError(f"limit_kind is {self.limit_kind} but end is {self.end}")
        if self.score is not None and not math.isfinite(self.score):
            raise ValueError(f"score is {self.score}, which is not a number; leave it out")
        for name in ("task_repeat", "position", "step_limit", "n_steps"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 2**31:
                raise ValueError(f"{name} is {value}, outside 0 to 2**31 - 1")
        if self.steps:
            if self.n_steps is None:
                object.__setattr__(self, "n_steps", len(self.steps))
            elif self.n_steps != len(self.steps):
                raise ValueError(f"n_steps is {self.n_steps} but {len(self.steps)} steps are given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something a reader left out or had to mend, with the reason; nothing is lost silently.

    Attributes
    ----------
    source : str
        The file, and the place inside it where that helps.
    reason : str
        Why, in words that do not quote the log's text.
    count : int
        How many such items.
    what : str
        The kind of item: ``run``, ``line``, ``file``, ``key`` or ``bytes``. Only ``run``, ``line``
        and ``file`` may have cost a run.
    """

    source: str
    reason: str
    count: int = 1
    what: str = "run"
