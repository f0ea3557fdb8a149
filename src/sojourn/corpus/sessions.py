"""`SessionLog`: the tasks of many sessions as columns, in the order in which they were done.

A session is an ordered sequence of tasks in one continuing context; its key is (session_id, agent,
model). A row is a task: its position, domain, subdomain, how it ended and whether it succeeded.
Domains are modelled apart, so that methods see a `TaskSequences` of one domain: tasks without a
verdict stay in their place, and holes between positions become tasks of which nothing is known.
Positions are taken to number tasks; where they leave more holes than there are tasks, as times or
ids would, they only order them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, frozen_array
from sojourn.corpus.columns import Categorical, combinations
from sojourn.corpus.policy import Policy
from sojourn.corpus.traces import ENDS, OUTCOMES, Group, TraceCorpus
from sojourn.records import End, OperationalProfile, Outcome, Skipped, TaskResult
from sojourn.task_sequences import MISSING, TaskSequences

__all__ = ["NO_DOMAIN", "Gaps", "SessionCounts", "SessionLog", "SessionTable"]

# The name of the one domain of a log that names none.
NO_DOMAIN = "all"
SESSION_GROUP_FIELDS = ("agent", "model")
GAP_RULES = ("unseen", "ignore")

NUMBER_COLUMNS = {
    "outcome": np.int8,
    "end": np.int8,
    "session": np.int32,
    "position": np.int32,
    "tokens": np.int32,
}
LABEL_COLUMNS = ("domain", "subdomain", "item")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionTable:
    """The sessions of a log, one row each.

    Attributes
    ----------
    name : tuple of str
        The session's id.
    agent, model : Categorical
        Who worked.
    started : ndarray of shape (n_sessions,), float64
        When it began, in seconds since 1970 (UTC); NaN where unknown.
    source_type, source_uri : Categorical
        The format and the file in which it was first met.
    """

    name: tuple[str, ...]
    agent: Categorical
    model: Categorical
    started: npt.NDArray[np.float64]
    source_type: Categorical
    source_uri: Categorical

    def __post_init__(self) -> None:
        started = frozen_array(self.started, np.float64, name="started")
        object.__setattr__(self, "started", started)
        for name in ("agent", "model", "started", "source_type", "source_uri"):
            if len(getattr(self, name)) != len(self.name):
                raise ValueError(f"{name} has another number of rows than name")

    def __len__(self) -> int:
        return len(self.name)


class SessionCounts(NamedTuple):
    """Tasks, known outcomes and successes of each session of the log, each (n_sessions,)."""

    n_tasks: Ints
    n_observed: Ints
    n_success: Ints

    @property
    def is_outage(self) -> npt.NDArray[np.bool_]:
        """Sessions in which every known outcome is a failure, shape (n_sessions,)."""
        return np.asarray((self.n_observed > 0) & (self.n_success == 0))


class Gaps(NamedTuple):
    """Holes between the positions of one domain's tasks.

    `n_gaps` gaps hold `n_unseen` unseen tasks, which a sequence gives as tasks of unknown outcome.
    `n_sessions_ordered` sessions have positions that only order their tasks, for there are more
    holes than tasks. `n_unplaced` holes lie between tasks of two domains and belong to neither.
    """

    n_gaps: int
    n_unseen: int
    n_sessions_ordered: int
    n_unplaced: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionLog:
    """Tasks of sessions as columns, sorted by session, position and domain.

    Attributes
    ----------
    outcome, end : ndarray of shape (n_tasks,), int8
        Index into `OUTCOMES` and `ENDS`.
    session : ndarray of shape (n_tasks,), int32
        Index into `sessions`.
    position : ndarray of shape (n_tasks,), int32
        Place in the session.
    tokens : ndarray of shape (n_tasks,), int32
        -1 where unknown.
    domain, subdomain, item : Categorical
        Labels; every task has a domain.
    sessions : SessionTable
        The sessions, in the order of their beginning where all of a log's sessions tell it, else
        as they were met; some may be unused after a selection.
    n_unsorted : int
        Tasks that stood behind one of a higher position, and were put in their place.
    skipped : tuple of Skipped
        What was left out while reading, and why.

    Raises
    ------
    ValueError
        If the columns do not fit each other.
    """

    outcome: npt.NDArray[np.int8]
    end: npt.NDArray[np.int8]
    session: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]
    tokens: npt.NDArray[np.int32]
    domain: Categorical
    subdomain: Categorical
    item: Categorical
    sessions: SessionTable
    n_unsorted: int = 0
    skipped: tuple[Skipped, ...] = ()

    def __post_init__(self) -> None:
        for name, dtype in NUMBER_COLUMNS.items():
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype, name=name))
        for name in (*NUMBER_COLUMNS, *LABEL_COLUMNS):
            if len(getattr(self, name)) != self.outcome.size:
                raise ValueError(f"{name} has another number of rows than outcome")
        if not self.outcome.size:
            return
        if self.session.min() < 0 or self.session.max() >= len(self.sessions):
            raise ValueError(f"session must lie in 0 .. {len(self.sessions) - 1}")
        if self.domain.codes.min() < 0:
            raise ValueError("every task must have a domain")
        step, move = np.diff(self.session), np.diff(self.position)
        if np.any(step < 0) or np.any((step == 0) & (move < 0)):
            raise ValueError("tasks must be sorted by session and position")

    def __len__(self) -> int:
        return int(self.outcome.size)

    @classmethod
    def from_traces(
        cls, corpus: TraceCorpus, *, domain: str = "task_set", subdomain: str = "cluster"
    ) -> SessionLog:
        """Return the runs that say which session they belong to, as tasks in order.

        Parameters
        ----------
        corpus : TraceCorpus
            The runs; those without a session_id or a position are left out and counted.
        domain, subdomain : str
            Which of `GROUP_FIELDS` names the domain and the subdomain of a task.

        Raises
        ------
        ValueError
            If no run has a session_id and a position.
        """
        # The builder makes logs, and so stands above this module.
        from sojourn.corpus.session_builder import log_of_traces

        return log_of_traces(corpus, domain=domain, subdomain=subdomain)

    @property
    def n_sessions(self) -> int:
        """Number of sessions that have a task."""
        return int(np.unique(self.session).size)

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains that have a task, in the order in which they are first met."""
        return _first_met(self.domain)

    def subdomains(self, domain: str | None = None) -> tuple[str, ...]:
        """Return the names of a domain's subdomains, as `task_sequences` numbers them.

        A domain whose tasks have no label at all is its own subdomain.
        """
        rows = self._rows(domain)
        names = _first_met(self.subdomain.select(rows))
        return names or (str(self.domain[int(rows[0])]),)

    def success(self, policy: Policy | None = None) -> npt.NDArray[np.int8]:
        """Return 1 for success, 0 for failure, -1 where no verdict counts, shape (n_tasks,).

        Parameters
        ----------
        policy : Policy, optional
            By ``faults="failure"`` tasks without a verdict of their own (cancelled, not attempted,
            broken infrastructure, unscored) are failures. A limit that cut a task is a failure
            to succeed within it, whatever `limits` says.
        """
        faults = (Policy() if policy is None else policy).faults
        unscored = self.outcome == OUTCOMES.index(Outcome.UNSCORED)
        own_fault = self._ended(End.LIMIT) | self._ended(End.AGENT_ERROR)
        is_fault = self._ended(End.INFRA_ERROR) | self._ended(End.CANCELLED)
        is_fault |= unscored & ~own_fault
        won = self.outcome == OUTCOMES.index(Outcome.SUCCESS)
        success = np.where(is_fault, 0 if faults == "failure" else MISSING, won)
        return success.astype(np.int8)

    def _ended(self, end: End) -> npt.NDArray[np.bool_]:
        return np.asarray(self.end == ENDS.index(end))

    def task_sequences(
        self, domain: str | None = None, *, policy: Policy | None = None, gaps: str = "unseen"
    ) -> TaskSequences:
        """Return the sessions of one domain as the mathematics sees them.

        Parameters
        ----------
        domain : str, optional
            Which domain; may be left out where there is only one.
        policy : Policy, optional
            How tasks without a verdict count, as in `success`.
        gaps : {"unseen", "ignore"}
            Whether a hole between positions is a task that was not seen, or none at all. Positions
            that other domains of the session fill are no holes; see `gaps` for the counts.

        Returns
        -------
        TaskSequences
            Sessions that have a task in the domain, in the log's order. Items are numbered across
            sessions; each task of an unknown item is an item of its own.

        Raises
        ------
        ValueError
            If there is no such domain, or none is named and there are several.
        """
        check_choice(gaps, GAP_RULES, name="gaps")
        rows = self._rows(domain)
        holes = self._holes(rows).before
        if gaps == "ignore":
            holes = np.zeros(rows.size, np.int64)
        place = np.arange(rows.size) + np.cumsum(holes)
        n_places = rows.size + int(holes.sum())
        names = self.subdomains(domain)
        label = self._labels(rows, names)
        subdomain = np.full(n_places, MISSING, np.int32)
        subdomain[place] = label
        success = np.full(n_places, MISSING, np.int8)
        success[place] = self.success(policy)[rows]
        first = np.flatnonzero(np.diff(self.session[rows], prepend=-1))
        return TaskSequences(
            subdomain=subdomain,
            success=success,
            offsets=np.append(place[first], n_places),
            subdomain_names=names,
            item=self._items(rows, place, n_places),
        )

    def gaps(self, domain: str | None = None) -> Gaps:
        """Count the holes between the positions of one domain's tasks."""
        holes = self._holes(self._rows(domain))
        return Gaps(
            n_gaps=int(np.count_nonzero(holes.before)),
            n_unseen=int(holes.before.sum()),
            n_sessions_ordered=holes.n_sessions_ordered,
            n_unplaced=holes.n_unplaced,
        )

    def _rows(self, domain: str | None) -> npt.NDArray[np.intp]:
        names = self.domains
        if domain is None:
            if len(names) != 1:
                raise ValueError(f"name one of the domains: {', '.join(names) or 'there is none'}")
            domain = names[0]
        check_choice(domain, names, name="domain")
        return np.flatnonzero(self.domain.codes == self.domain.values.index(domain))

    def _holes(self, rows: npt.NDArray[np.intp]) -> _Holes:
        """Find the unseen tasks before each of one domain's tasks."""
        session, position = self.session[rows], self.position[rows].astype(np.int64)
        before = np.diff(position, prepend=0) - 1
        first = np.diff(session, prepend=-1) != 0
        before[first] = 0
        # Two domains at one position: each domain counts for itself, others fill no holes.
        apart = np.zeros(len(self.sessions), bool)
        both = (np.diff(self.session) == 0) & (np.diff(self.position) == 0)
        apart[self.session[1:][both]] = True
        foreign = ~first & (np.diff(rows, prepend=-1) > 1) & ~apart[session]
        at = rows[foreign]
        n_unplaced = int((self.position[at].astype(np.int64) - self.position[at - 1] - 1).sum())
        before[foreign] = 0
        n_holes = np.bincount(session, before, minlength=len(self.sessions))
        leaps = n_holes > np.bincount(session, minlength=len(self.sessions))
        before[leaps[session]] = 0
        return _Holes(np.maximum(before, 0), int(leaps.sum()), n_unplaced)

    def _labels(self, rows: npt.NDArray[np.intp], names: tuple[str, ...]) -> npt.NDArray[np.int32]:
        codes = self.subdomain.codes[rows]
        if (codes < 0).all():
            return np.zeros(rows.size, np.int32)
        number = {name: place for place, name in enumerate(names)}
        table = [number.get(name, MISSING) for name in self.subdomain.values]
        return np.array([*table, MISSING], np.int32)[codes]

    def _items(
        self, rows: npt.NDArray[np.intp], place: npt.NDArray[Any], n_places: int
    ) -> npt.NDArray[np.int32] | None:
        codes = self.item.codes[rows]
        if (codes < 0).all():
            return None
        known = np.full(n_places, -1, np.int64)
        known[place] = codes
        unknown = np.flatnonzero(known < 0)
        known[unknown] = len(self.item.values) + np.arange(unknown.size)
        return combinations((known,))[1]

    def groups(
        self, by: Sequence[str] = SESSION_GROUP_FIELDS
    ) -> list[tuple[Group, npt.NDArray[np.intp]]]:
        """Return the groups of sessions that share the given fields, with the rows of their tasks.

        Groups come in the order of their first session. An empty `by` pools all sessions.

        Parameters
        ----------
        by : sequence of {"agent", "model"}
            The fields.
        """
        for name in by:
            check_choice(name, SESSION_GROUP_FIELDS, name="by")
        columns: list[Categorical] = [getattr(self.sessions, name) for name in by]
        used = np.unique(self.session)
        codes = [column.codes[used] for column in columns] or [np.zeros(used.size, np.int32)]
        first, code = combinations(codes)
        of_session = np.full(len(self.sessions), -1, np.int32)
        of_session[used] = code
        return [
            (
                Group(tuple((n, c[int(used[row])]) for n, c in zip(by, columns, strict=True))),
                np.flatnonzero(of_session[self.session] == number),
            )
            for number, row in enumerate(first.tolist())
        ]

    def select(self, tasks: npt.NDArray[Any]) -> SessionLog:
        """Return the tasks where a mask is true, or at the given rows; their order is kept."""
        mask = np.asarray(tasks)
        index = np.flatnonzero(mask) if mask.dtype == bool else np.unique(mask)
        return self.replace(
            **{name: getattr(self, name)[index] for name in NUMBER_COLUMNS},
            **{name: getattr(self, name).select(index) for name in LABEL_COLUMNS},
        )

    def select_sessions(self, sessions: npt.NDArray[Any]) -> SessionLog:
        """Return the tasks of the given sessions: a mask over `sessions`, or rows of it."""
        wanted = np.zeros(len(self.sessions), bool)
        wanted[sessions] = True
        return self.select(wanted[self.session])

    def replace(self, **columns: Any) -> SessionLog:
        """Return the log with some of its attributes exchanged."""
        return SessionLog(**{name: getattr(self, name) for name in self.__slots__} | columns)

    def session_counts(
        self, domain: str | None = None, *, policy: Policy | None = None
    ) -> SessionCounts:
        """Count tasks, known outcomes and successes of each session.

        Parameters
        ----------
        domain : str, optional
            Count this domain's tasks only.
        policy : Policy, optional
            How tasks without a verdict count, as in `success`.
        """
        rows = np.arange(len(self)) if domain is None else self._rows(domain)
        session, success = self.session[rows], self.success(policy)[rows]

        def count(which: npt.NDArray[np.int32]) -> Ints:
            return np.bincount(which, minlength=len(self.sessions)).astype(np.int64)

        return SessionCounts(
            count(session), count(session[success >= 0]), count(session[success == 1])
        )

    def profile(
        self, stated: OperationalProfile | None = None, *, uniform: bool = False
    ) -> OperationalProfile:
        """Return the operational profile to use with this log: complete, and of known names.

        Parameters
        ----------
        stated : OperationalProfile, optional
            What a user states; what it leaves open is filled in.
        uniform : bool
            Fill in equal weights, not the shares of the log's tasks.

        Raises
        ------
        ValueError
            If `stated` names a domain or subdomain that the log does not hold.
        """
        names = {domain: self.subdomains(domain) for domain in self.domains}
        own = OperationalProfile.uniform(names)
        if not uniform:
            labelled = {domain: self._task_counts(domain, inner) for domain, inner in names.items()}
            own = OperationalProfile(
                domains={domain: self._rows(domain).size / len(self) for domain in names},
                subdomains=OperationalProfile.from_counts(labelled).subdomains,
                source="data",
            )
        if stated is None:
            return own
        whole = stated.completed(own)
        whole.domain_weights(tuple(names))
        for domain in whole.subdomains:
            whole.subdomain_weights(domain, names[domain])
        return whole

    def _task_counts(self, domain: str, names: tuple[str, ...]) -> dict[str, int]:
        label = self._labels(self._rows(domain), names)
        counts = np.bincount(label[label >= 0], minlength=len(names))
        return dict(zip(names, counts.tolist(), strict=True))

    def task(self, row: int) -> TaskResult:
        """Return one task as a record, as a reader would have made it."""
        session, table = int(self.session[row]), self.sessions
        started, tokens = float(table.started[session]), int(self.tokens[row])
        return TaskResult(
            session_id=table.name[session],
            position=int(self.position[row]),
            outcome=OUTCOMES[self.outcome[row]],
            end=ENDS[self.end[row]],
            domain=self.domain[row] or "",
            subdomain=self.subdomain[row],
            item=self.item[row],
            agent=table.agent[session] or "",
            model=table.model[session] or "",
            tokens=None if tokens < 0 else tokens,
            started=None if np.isnan(started) else started,
            source_type=table.source_type[session] or "",
            source_uri=table.source_uri[session] or "",
        )


class _Holes(NamedTuple):
    """Unseen tasks before each task; sessions whose holes do not count; holes of no domain."""

    before: Ints
    n_sessions_ordered: int
    n_unplaced: int


def _first_met(column: Categorical) -> tuple[str, ...]:
    """Return the labels that occur, in the order in which they are first met."""
    first, _ = combinations((column.codes,))
    return tuple(label for row in np.sort(first) if (label := column[int(row)]) is not None)
