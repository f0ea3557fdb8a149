"""The nouns of one row: what a reader makes of one record of a log.

A *run* is one attempt at a *task*; its record is a `Trace` of `Step`. How a run ended (`End`) and
whether it succeeded (`Outcome`) are two axes and never folded into one: a run may be cut by a limit
and still succeed, or finish by itself and fail. Records check themselves when they are made, so a
bad one cannot exist. They are what readers speak; mathematics sees arrays only (see `corpus`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

__all__ = [
    "Actor",
    "End",
    "LimitKind",
    "OperationalProfile",
    "Outcome",
    "Skipped",
    "Step",
    "StepKind",
    "TaskResult",
    "Trace",
    "by_reason",
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
        if not self.task_id.strip():
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
class TaskResult:
    """One task of a session: where it stood in it, what sort of task it was, whether it succeeded.

    Attributes
    ----------
    session_id : str
        Name of the session; with `agent` and `model` its key.
    position : int
        Place of the task in the session; only the order and the gaps count.
    outcome : Outcome
        Verdict; ``unscored`` where there is none.
    end : End
        How the task ended. One that was ``cancelled`` or met an ``infra_error`` has no verdict
        that counts, whatever `outcome` says.
    domain : str
        The field of work, with a reliability of its own; "" where the log has only one.
    subdomain : str or None
        The sort of task inside the domain; None where it is unknown.
    item : str or None
        Which task it is, where several sessions share tasks.
    agent, model : str
        Who worked. They name the group in which sessions may be pooled.
    tokens : int or None
        Tokens used by the task, where known.
    started : float or None
        When the session began, in seconds since 1970 (UTC).
    source_type, source_uri : str
        The format it was read from, and the file.

    Raises
    ------
    ValueError
        If a field is out of range.
    """

    session_id: str
    position: int
    outcome: Outcome
    end: End = End.UNKNOWN
    domain: str = ""
    subdomain: str | None = None
    item: str | None = None
    agent: str = ""
    model: str = ""
    tokens: int | None = None
    started: float | None = None
    source_type: str = ""
    source_uri: str = ""

    def __post_init__(self) -> None:
        if not self.session_id:
            raise ValueError("session_id is empty")
        for name in ("position", "tokens"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 2**31:
                raise ValueError(f"{name} is {value}, outside 0 to 2**31 - 1")
        if self.started is not None and not math.isfinite(self.started):
            raise ValueError(f"started is {self.started}, which is no time; leave it out")


_SUM_TOLERANCE = 1e-6
_PROFILE_SOURCES = ("data", "file", "uniform")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalProfile:
    """What share of the work each domain has, and each subdomain inside its domain.

    Attributes
    ----------
    domains : mapping of str to float
        Weight of each domain; empty where none is stated.
    subdomains : mapping of str to (mapping of str to float)
        Domain -> weight of each of its subdomains; a domain may be absent.
    source : {"data", "file", "uniform"}
        Where the weights come from.

    Raises
    ------
    ValueError
        If a weight is no number of 0 to 1, the weights of one key do not sum to one within 1e-6,
        or subdomains are given for a domain without a weight; the message names the key.

    Examples
    --------
    >>> profile = OperationalProfile(domains={"coding": 0.15, "reasoning": 0.85})
    >>> profile.domain_weights(("reasoning", "coding"))
    (0.85, 0.15)
    """

    domains: Mapping[str, float] = field(default_factory=dict)
    subdomains: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    source: str = "file"

    def __post_init__(self) -> None:
        if self.source not in _PROFILE_SOURCES:
            raise ValueError(f"source must be one of {', '.join(_PROFILE_SOURCES)}")
        # Copies, since a caller's dict may change after the check.
        object.__setattr__(self, "domains", dict(self.domains))
        inner = {domain: dict(weights) for domain, weights in self.subdomains.items()}
        object.__setattr__(self, "subdomains", inner)
        if self.domains:
            _check_weights("domains", self.domains)
        for domain, weights in self.subdomains.items():
            if self.domains and domain not in self.domains:
                raise ValueError(f"subdomains.{domain}: there is no weight for it in domains")
            _check_weights(f"subdomains.{domain}", weights)

    @classmethod
    def from_counts(cls, counts: Mapping[str, Mapping[str, int]]) -> OperationalProfile:
        """Return the shares of observed tasks.

        Parameters
        ----------
        counts : mapping of str to (mapping of str to int)
            Domain -> tasks of each subdomain. A domain without any is given equal weights inside.
        """
        totals = {domain: sum(inner.values()) for domain, inner in counts.items()}
        return cls(
            domains=_shares(totals),
            subdomains={domain: _shares(inner) for domain, inner in counts.items()},
            source="data",
        )

    @classmethod
    def uniform(cls, names: Mapping[str, Iterable[str]]) -> OperationalProfile:
        """Return equal weights of domains, and of subdomains inside each domain.

        Parameters
        ----------
        names : mapping of str to iterable of str
            Domain -> its subdomains.
        """
        subdomains = {domain: _shares(dict.fromkeys(inner, 1)) for domain, inner in names.items()}
        return cls(
            domains=_shares(dict.fromkeys(names, 1)), subdomains=subdomains, source="uniform"
        )

    def completed(self, other: OperationalProfile) -> OperationalProfile:
        """Return this profile with what it does not state taken from another.

        The domains count as stated when any has a weight, or when subdomains of one domain only
        are given; subdomains by domain.
        """
        domains = self.domains
        if not domains:
            domains = dict.fromkeys(self.subdomains, 1.0) if len(self.subdomains) == 1 else {}
        domains = domains or other.domains
        filled = {
            domain: self.subdomains.get(domain, other.subdomains.get(domain, {}))
            for domain in {**domains, **self.subdomains}
        }
        return OperationalProfile(
            domains=domains,
            subdomains={domain: weights for domain, weights in filled.items() if weights},
            source=self.source,
        )

    def domain_weights(self, names: Sequence[str]) -> tuple[float, ...]:
        """Return the weights of the given domains, which sum to one.

        A domain that the profile does not name has weight 0.

        Raises
        ------
        ValueError
            If the profile states no weights of domains, or names one that is not among `names`.
        """
        return _weights_of(self.domains, names, key="domains")

    def subdomain_weights(self, domain: str, names: Sequence[str]) -> tuple[float, ...]:
        """Return the weights of the given subdomains of a domain, which sum to one.

        A subdomain that the profile does not name has weight 0.

        Raises
        ------
        ValueError
            If the profile states none for the domain, or names one that is not among `names`.
        """
        return _weights_of(self.subdomains.get(domain, {}), names, key=f"subdomains.{domain}")

    def to_dict(self) -> dict[str, object]:
        """Return the weights and where they come from."""
        return {
            "domain_weights": dict(self.domains),
            "subdomain_weights": {domain: dict(w) for domain, w in self.subdomains.items()},
            "source": self.source,
        }


def _shares(counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    if not total:
        return dict.fromkeys(counts, 1.0 / len(counts)) if counts else {}
    return {name: count / total for name, count in counts.items()}


def _check_weights(key: str, weights: Mapping[str, float]) -> None:
    if not weights:
        raise ValueError(f"{key}: no weight is given")
    for name, weight in weights.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (is_number and 0.0 <= weight <= 1.0 + _SUM_TOLERANCE):
            raise ValueError(f"{key}.{name} is {weight!r}; a weight is a number from 0 to 1")
    total = math.fsum(weights.values())
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"{key}: the weights sum to {total:.7g}, not to 1")


def _weights_of(
    weights: Mapping[str, float], names: Sequence[str], *, key: str
) -> tuple[float, ...]:
    if not weights:
        raise ValueError(f"{key}: the profile states no weights")
    for name in weights:
        if name not in names:
            raise ValueError(
                f"{key}.{name}: the data hold no {name!r}; they hold {', '.join(names)}"
            )
    total = math.fsum(weights.values())
    return tuple(weights.get(name, 0.0) / total for name in names)


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
        The kind of item: ``run``, ``line``, ``file`` (one that could not be read), ``stranger`` (a
        file of no known format), ``key``, ``bytes``, or ``verdict`` (one that could not be
        understood; its run is kept as unscored). Only the first three may have cost a run.
    """

    source: str
    reason: str
    count: int = 1
    what: str = "run"


def by_reason(skipped: Sequence[Skipped]) -> list[Skipped]:
    """Return what was left out, added up over the sources that gave one reason.

    The first of them stands for all, with the number of the others.
    """
    found: dict[tuple[str, str], list[Skipped]] = {}
    for item in skipped:
        found.setdefault((item.reason, item.what), []).append(item)
    return [
        items[0]
        if len(items) == 1
        else replace(
            items[0],
            source=f"{items[0].source} and {len(items) - 1} more",
            count=sum(item.count for item in items),
        )
        for items in found.values()
    ]
