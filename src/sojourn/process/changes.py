"""The changes that a what-if may ask for, and how each is made to the tables of a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int
from sojourn.process.unrolled import UnrolledChain
from sojourn.tables import n_of

__all__ = ["CHANGE_TYPES", "Cap", "Change", "ChangedRow", "Remove", "Reroute", "apply_changes"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reroute:
    """A share of the failures out of one state goes elsewhere.

    Attributes
    ----------
    state : str
        The state.
    share : float
        Which part of them, 0 to 1.
    to : str
        ``success``; ``continue``, in proportion to what else follows the state; or a state.
    """

    state: str
    share: float
    to: str = "success"

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"a share must lie in 0 .. 1; got {self.share!r}")

    def __str__(self) -> str:
        return f"{self.share:.4g} of the failures in {self.state!r} become {self.to!r}"


@dataclass(frozen=True, slots=True)
class Remove:
    """A state is taken away: no run gets there.

    Attributes
    ----------
    state : str
        The state, for instance a tool.
    to : str or None
        Where its runs go instead: a state, ``success`` or ``failure``. None: what led there is
        shared out over what else followed.
    """

    state: str
    to: str | None = None

    def __str__(self) -> str:
        where = "" if self.to is None else f", its runs going to {self.to!r}"
        return f"{self.state!r} is removed{where}"


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """The next events of one state, at all steps, are what is given.

    Attributes
    ----------
    state : str
        The state.
    probabilities : tuple of float
        Of the next states in their order, of success, of failure; they sum to one.
    """

    state: str
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        row = np.asarray(self.probabilities, dtype=np.float64)
        if not np.all(np.isfinite(row)) or np.any(row < 0.0) or abs(row.sum() - 1.0) > 1e-9:
            raise ValueError("a row must hold probabilities that sum to 1")

    def __str__(self) -> str:
        return f"the row of {self.state!r} is changed"


@dataclass(frozen=True, slots=True)
class Cap:
    """Runs may take so many steps.

    Attributes
    ----------
    steps : int
        The cap.
    """

    steps: int

    def __post_init__(self) -> None:
        check_positive_int(self.steps, name="steps")

    def __str__(self) -> str:
        return f"runs may take {n_of(self.steps, 'step')}"


Change = Reroute | Remove | ChangedRow | Cap
CHANGE_TYPES = (Reroute, Remove, ChangedRow, Cap)


def apply_changes(chain: UnrolledChain, changes: Sequence[Change]) -> UnrolledChain:
    """Return the process with its tables changed; a cap changes no table.

    Raises
    ------
    ValueError
        If a change names no state, or cannot be made.
    """
    for change in changes:
        if isinstance(change, Reroute):
            chain = _reroute(chain, change)
        elif isinstance(change, Remove):
            chain = _remove(chain, change)
        elif isinstance(change, ChangedRow):
            chain = _change_row(chain, change)
    return chain


def _members(chain: UnrolledChain, name: str) -> npt.NDArray[np.intp]:
    if name not in chain.state_names:
        known = ", ".join(map(repr, chain.state_names))
        raise ValueError(f"no state is called {name!r}; there are {known}")
    return np.flatnonzero(chain.owner == chain.state_names.index(name))


def _target(chain: UnrolledChain, name: str, row: Floats, k: int | None) -> Floats:
    """Distribution over next events that stands for "goes to `name`" in a row.

    Where a state is several inner ones, the row itself says which of them it leads to; else it is
    the one at which runs that have been in inner state `k` enter that state.
    """
    n = chain.n_inner
    if name in chain.state_names:
        members = _members(chain, name)
        target = np.zeros(n + 2)
        if members.size == 1:
            target[members] = 1.0
            return target
        total = row[members].sum()
        if total <= 0.0:
            target[_entrance(chain, members, k, name)] = 1.0
            return target
        target[members] = row[members] / total
        return target
    if name in ("success", "failure"):
        return np.asarray(np.eye(n + 2)[n + ("success", "failure").index(name)], dtype=np.float64)
    known = ", ".join(map(repr, chain.state_names))
    raise ValueError(f"{name!r} is neither success, failure nor a state; there are {known}")


def _entrance(chain: UnrolledChain, members: npt.NDArray[np.intp], k: int | None, name: str) -> int:
    """Find the one inner state at which runs from `k` enter a state, from whatever other state."""
    n = chain.n_inner
    moves: npt.NDArray[np.bool_] = np.max(chain.rows[:, :, :n], axis=0) > 0.0
    reached = np.zeros(n, dtype=np.bool_)
    if k is not None:
        reached[k] = True
    while True:
        wider = reached | moves[reached].any(axis=0)
        if np.array_equal(wider, reached):
            break
        reached = wider
    others = reached & (chain.owner != chain.owner[members[0]])
    entered = members[moves[others][:, members].any(axis=0)]
    if entered.size != 1:
        raise ValueError(f"this process does not say how a run there would get to {name!r}")
    return int(entered[0])


def _reroute(chain: UnrolledChain, change: Reroute) -> UnrolledChain:
    members = _members(chain, change.state)
    rows: Any = chain.rows.copy()
    for t in range(chain.n_layers):
        for k in members:
            row = rows[t, k]
            moved = change.share * row[-1]
            if moved == 0.0:
                continue
            if change.to == "continue" and change.to not in chain.state_names:
                rest = np.append(row[:-1], 0.0)
                if rest.sum() <= 0.0:
                    raise ValueError(f"nothing but failure follows {change.state!r}; name a target")
                target = rest / rest.sum()
            else:
                target = _target(chain, change.to, row, int(k))
            row[-1] -= moved
            rows[t, k] = row + moved * target
    return chain.with_rows(rows)


def _remove(chain: UnrolledChain, change: Remove) -> UnrolledChain:
    members = _members(chain, change.state)
    if change.to == change.state:
        raise ValueError(f"{change.state!r} cannot be replaced by itself")

    def without(row: Floats, k: int | None) -> Floats:
        moved = row[members].sum()
        if moved == 0.0:
            return row
        if change.to is not None:
            target = _target(chain, change.to, row, k)
        else:
            target = row.copy()
            target[members] = 0.0
            if target.sum() <= 0.0:
                raise ValueError(
                    f"somewhere only {change.state!r} follows; say where its runs go instead"
                )
            target /= target.sum()
        kept = row.copy()
        kept[members] = 0.0
        return np.asarray(kept + moved * target, dtype=np.float64)

    rows = chain.rows.copy()
    # A state that no run gets to keeps its own row, which then matters to nothing.
    others = np.setdiff1d(np.arange(chain.n_inner), members)
    for t in range(chain.n_layers):
        for k in others:
            rows[t, k] = without(rows[t, k], int(k))
    return chain.with_rows(rows, without(chain.start, None))


def _change_row(chain: UnrolledChain, change: ChangedRow) -> UnrolledChain:
    members = _members(chain, change.state)
    m = chain.n_states
    if len(change.probabilities) != m + 2:
        raise ValueError(f"a row has {m + 2} probabilities, not {len(change.probabilities)}")
    events = (*chain.state_names, None, None)
    rows = chain.rows.copy()
    for t in range(chain.n_layers):
        for k in members:
            made = np.zeros(chain.n_inner + 2)
            made[-2:] = change.probabilities[m:]
            for name, share in zip(events[:m], change.probabilities[:m], strict=True):
                if share > 0.0 and name is not None:
                    made += share * _target(chain, name, rows[t, k], int(k))
            rows[t, k] = made
    return chain.with_rows(rows)
