"""What the mathematics sees of sessions: outcomes in order, flat arrays and offsets.

A session is an ordered sequence of tasks done in one continuing context. A `TaskSequences` holds
the sessions of one domain: which subdomain each task belongs to and whether it succeeded. Either
may be missing. A gap of g unseen tasks between two observed ones is g tasks with both missing:
time passes, nothing is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import frozen_array

__all__ = ["MISSING", "OutcomeCounts", "TaskSequences"]

MISSING = -1


class OutcomeCounts(NamedTuple):
    """Successes and failures of each subdomain, each of shape (n_subdomains,)."""

    success: npt.NDArray[np.int64]
    failure: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskSequences:
    """Sessions of one domain as sequences of (subdomain, success).

    Attributes
    ----------
    subdomain : ndarray of shape (n_tasks,), int32
        Subdomain of each task in 0 .. n_subdomains - 1, or `MISSING` (-1).
    success : ndarray of shape (n_tasks,), int8
        1 success, 0 failure, `MISSING` (-1) unknown; the task took place all the same.
    offsets : ndarray of shape (n_sessions + 1,), int64
        Session r is ``subdomain[offsets[r]:offsets[r + 1]]``; a session may be empty.
    subdomain_names : tuple of str
        One readable name a subdomain.
    item : ndarray of shape (n_tasks,), int32, or None
        Which task it is, where several sessions share tasks; None when unknown.

    Raises
    ------
    ValueError
        If the arrays do not fit each other or a value is out of range.
    """

    subdomain: npt.NDArray[np.int32]
    success: npt.NDArray[np.int8]
    offsets: npt.NDArray[np.int64]
    subdomain_names: tuple[str, ...]
    item: npt.NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for name, dtype in (("subdomain", np.int32), ("success", np.int8), ("offsets", np.int64)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype, name=name))
        object.__setattr__(self, "subdomain_names", tuple(self.subdomain_names))
        n_tasks = self.subdomain.size
        if self.success.size != n_tasks:
            raise ValueError(f"{n_tasks} subdomains, but {self.success.size} outcomes")
        if self.item is not None:
            object.__setattr__(self, "item", frozen_array(self.item, np.int32, name="item"))
            if self.item.size != n_tasks:
                raise ValueError(f"{n_tasks} subdomains, but {self.item.size} items")
        if self.offsets.size < 1 or self.offsets[0] != 0 or self.offsets[-1] != n_tasks:
            raise ValueError("offsets must start at 0 and end at the number of tasks")
        if np.any(np.diff(self.offsets) < 0):
            raise ValueError("offsets must not decrease")
        if not self.subdomain_names:
            raise ValueError("at least one subdomain must be named")
        if n_tasks and not (
            MISSING <= self.subdomain.min() <= self.subdomain.max() < self.n_subdomains
        ):
            raise ValueError(f"subdomain must lie in 0 .. {self.n_subdomains - 1}, or be -1")
        if n_tasks and not MISSING <= self.success.min() <= self.success.max() <= 1:
            raise ValueError("success must be 1, 0 or -1 (missing)")

    @classmethod
    def from_sessions(
        cls,
        sessions: Iterable[tuple[Sequence[int], Sequence[int]]],
        subdomain_names: Sequence[str],
    ) -> TaskSequences:
        """Build from one (subdomain numbers, outcomes) pair a session.

        Parameters
        ----------
        sessions : iterable of (sequence of int, sequence of int)
            Subdomain numbers and outcomes of each session, of equal length.
        subdomain_names : sequence of str
            One name a subdomain.
        """
        pairs = [(np.asarray(j, np.int32), np.asarray(y, np.int8)) for j, y in sessions]
        for number, (j, y) in enumerate(pairs):
            if j.shape != y.shape:
                raise ValueError(f"session {number}: {j.size} subdomains, but {y.size} outcomes")
        empty: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
        return cls(
            subdomain=np.concatenate(empty + [j for j, _ in pairs]),
            success=np.concatenate([e.astype(np.int8) for e in empty] + [y for _, y in pairs]),
            offsets=np.concatenate(([0], np.cumsum([j.size for j, _ in pairs], dtype=np.int64))),
            subdomain_names=tuple(subdomain_names),
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks, missing ones included."""
        return int(self.subdomain.size)

    @property
    def n_sessions(self) -> int:
        """Number of sessions."""
        return int(self.offsets.size - 1)

    @property
    def n_subdomains(self) -> int:
        """Number of subdomains."""
        return len(self.subdomain_names)

    @property
    def n_observed(self) -> int:
        """Number of tasks whose outcome is known."""
        return int(np.count_nonzero(self.success != MISSING))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tasks of each session, shape (n_sessions,)."""
        return np.diff(self.offsets)

    @property
    def session(self) -> npt.NDArray[np.int64]:
        """Session of each task, shape (n_tasks,)."""
        return np.repeat(np.arange(self.n_sessions), self.lengths)

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of each subdomain among the labelled tasks; uniform when none is labelled."""
        labelled = self.subdomain[self.subdomain >= 0]
        counts = np.bincount(labelled, minlength=self.n_subdomains)
        total = counts.sum()
        if total == 0:
            return np.full(self.n_subdomains, 1.0 / self.n_subdomains)
        return np.asarray(counts / total, dtype=np.float64)

    def counts(self) -> OutcomeCounts:
        """Count successes and failures of each subdomain, of tasks with both parts known."""
        known = (self.subdomain >= 0) & (self.success >= 0)
        label, won = self.subdomain[known], self.success[known] == 1
        n = self.n_subdomains
        return OutcomeCounts(
            np.bincount(label[won], minlength=n).astype(np.int64),
            np.bincount(label[~won], minlength=n).astype(np.int64),
        )

    def select(self, sessions: npt.ArrayLike) -> TaskSequences:
        """Return the given sessions, in the given order, repetition allowed."""
        index = np.asarray(sessions, dtype=np.intp)
        return self._pieces(self.offsets[:-1][index], self.offsets[1:][index])

    def head(self, lengths: npt.ArrayLike) -> TaskSequences:
        """Return the first `lengths[r]` tasks of each session r (an int: the same of each)."""
        wanted = np.broadcast_to(np.asarray(lengths, dtype=np.int64), (self.n_sessions,))
        if np.any(wanted < 0):
            raise ValueError("lengths must not be negative")
        first = self.offsets[:-1]
        return self._pieces(first, first + np.minimum(wanted, self.lengths))

    def with_success(self, success: npt.ArrayLike) -> TaskSequences:
        """Return the same tasks with other outcomes."""
        return TaskSequences(
            subdomain=self.subdomain,
            success=np.asarray(success, dtype=np.int8),
            offsets=self.offsets,
            subdomain_names=self.subdomain_names,
            item=self.item,
        )

    def _pieces(self, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> TaskSequences:
        lengths = last - first
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        source = np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])
        return TaskSequences(
            subdomain=self.subdomain[source],
            success=self.success[source],
            offsets=offsets,
            subdomain_names=self.subdomain_names,
            item=None if self.item is None else self.item[source],
        )
