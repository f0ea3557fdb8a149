"""Contexts of runs: which stretches of states were seen, what followed them, and their rows.

See `sojourn.process.order_k` for why the seen contexts form an exact chain of first order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process._row_prior import RowPrior
from sojourn.process._weighted import most_probable_mass
from sojourn.sequences import StateSequences

__all__ = [
    "Machine",
    "Places",
    "context_rows",
    "event_cells",
    "find_places",
    "link_contexts",
    "mean_steps",
    "probable_masses",
    "single_prior",
    "unit_cells",
    "until_end",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
States = npt.NDArray[np.int32]
_START, _NONE = -1, -2


class Machine(NamedTuple):
    """Seen contexts, short ones first: the m single states, then the longer ones by depth.

    `contexts` (n, order) holds the states of a context, oldest first, flush right; -1 marks the
    start of the run, -2 fills up. `following` (n, m) is the context after a further state, `entry`
    (m,) that after the first one.
    """

    contexts: States
    parent: States
    depth: States
    following: States
    entry: States


class Places(NamedTuple):
    """Where each step is counted: its context at depth l, for l = 1 .. order (-1: none of its own).

    `at` has shape (order, n_steps).
    """

    machine: Machine
    at: npt.NDArray[np.int64]


def single_prior(kappa: Floats, allowed: Mask, cut_step: str) -> RowPrior:
    return RowPrior(
        smoothing="shrinkage",
        kappa=float(kappa[0]),
        alpha=1.0,
        allowed=np.asarray(allowed, dtype=np.bool_),
        cut_step=cut_step,
    )


def context_rows(tables: Floats, machine: Machine, prior: RowPrior, kappa: Floats) -> Floats:
    """Rows of all contexts from tables (B, n + 1, m + 3), the start on top."""
    from sojourn.process import _renewal_kernels as kernels

    m = tables.shape[2] - 3
    rows = np.zeros((tables.shape[0], machine.depth.size, m + 2))
    rows[:, :m] = prior.rows(tables[:, : m + 1])
    kernels.backoff_rows(
        tables[:, 1:], machine.parent, machine.depth, kappa, prior.cut_step == "survived", rows
    )
    return rows


def probable_masses(
    table: Floats, machine: Machine, allowed: Mask, cut_step: str, order: int
) -> Floats:
    """Most probable masses, depth by depth, each given the rows of the depth before."""
    kappa = np.ones(order)
    m = table.shape[2] - 3
    events = table[0, 1:, : m + 2]
    mean_row = events[:m].sum(axis=0) / max(float(events[:m].sum()), 1.0)
    kappa[0] = most_probable_mass(events[:m], mean_row)
    for level in range(2, order + 1):
        rows = context_rows(table, machine, single_prior(kappa, allowed, cut_step), kappa)[0]
        here = machine.depth == level
        kappa[level - 1] = most_probable_mass(events[here], rows[machine.parent[here]])
    return kappa


def find_places(sequences: StateSequences, order: int) -> Places:
    """Find the contexts of all steps, depth by depth, and number the distinct ones.

    A context of depth l at a step is the one of depth l - 1 at the step before, and the state. At
    the step number t of a run the deepest one has depth min(order, t + 1): start mark and t states.
    """
    states, m = sequences.states.astype(np.int64), sequences.n_states
    n_steps = states.size
    lengths = sequences.lengths
    number = np.arange(n_steps) - np.repeat(sequences.offsets[:-1], lengths) + 1
    at = np.full((order, n_steps), -1, dtype=np.int64)
    at[0] = states
    contexts = np.full((m, order), _NONE, dtype=np.int32)
    contexts[:, -1] = np.arange(m)
    for level in range(2, order + 1):
        inside = np.flatnonzero(number + 1 >= level)
        # The context before the first step is the start mark, numbered behind all others.
        before = np.full(inside.size, contexts.shape[0], dtype=np.int64)
        later = number[inside] > 1
        before[later] = at[level - 2, inside[later] - 1]
        code, first, place = np.unique(
            before * m + states[inside], return_index=True, return_inverse=True
        )
        longer = np.full((code.size, order), _NONE, dtype=np.int32)
        longer[:, -1] = code % m
        known = before[first] < contexts.shape[0]
        longer[known, :-1] = contexts[before[first][known], 1:]
        longer[~known, -2] = _START
        at[level - 1, inside] = contexts.shape[0] + place
        contexts = np.concatenate((contexts, longer))
    return Places(machine=link_contexts(contexts, m), at=at)


def link_contexts(contexts: States, m: int) -> Machine:
    """Link contexts to their suffixes and to what follows them."""
    n, order = contexts.shape
    filled = contexts != _NONE
    depth = filled.sum(axis=1).astype(np.int32)
    number = {
        tuple(row[-d:]): k for k, (row, d) in enumerate(zip(contexts.tolist(), depth, strict=True))
    }
    keys = list(number)
    parent = np.full(n, -1, dtype=np.int32)
    following = np.empty((n, m), dtype=np.int32)
    following[:m] = np.arange(m)
    if keys[:m] != [(s,) for s in range(m)]:
        raise ValueError("contexts must begin with the single states in their order")
    for k in range(m, n):
        if keys[k][1:] not in number or number[keys[k][1:]] >= k:
            raise ValueError(f"context {keys[k]} stands before its suffix, or without it")
        parent[k] = number[keys[k][1:]]
    for k in range(n):
        if k >= m:
            following[k] = following[parent[k]]
        if depth[k] < order:
            for s in range(m):
                following[k, s] = number.get((*keys[k], s), following[k, s])
    entry = [number.get((_START, s), s) if order > 1 else s for s in range(m)]
    return Machine(
        contexts=contexts,
        parent=parent,
        depth=depth,
        following=following,
        entry=np.array(entry, dtype=np.int32),
    )


def event_cells(
    sequences: StateSequences, places: Places, owner: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Flat cells of the table (n + 1, m + 3) that each event counts in, and whose event it is."""
    m, width = sequences.n_states, sequences.n_states + 3
    lengths, n_steps = sequences.lengths, sequences.states.size
    ends = np.array([m + 2, m, m + 1])[sequences.event]
    some = lengths > 0
    column = np.empty(n_steps, dtype=np.int64)
    column[:-1] = sequences.states[1:]
    column[sequences.offsets[1:][some] - 1] = ends[some]
    of = np.repeat(owner, lengths)
    first = ends.astype(np.int64)
    first[some] = sequences.states[sequences.offsets[:-1][some]]
    cells, owners = [first], [np.asarray(owner)]
    for at in places.at:
        own = at >= 0
        cells.append((at[own] + 1) * width + column[own])
        owners.append(of[own])
    return np.concatenate(cells), np.concatenate(owners).astype(np.int64)


def unit_cells(
    sequences: StateSequences, places: Places, unit: npt.NDArray[Any], n_units: int
) -> Any:
    """Count by unit in a sparse matrix, shape (n_units, (n + 1)(m + 3))."""
    from scipy.sparse import coo_array

    cell, owner = event_cells(sequences, places, unit)
    width = (places.machine.depth.size + 1) * (sequences.n_states + 3)
    return coo_array((np.ones(cell.size), (owner, cell)), shape=(n_units, width)).tocsr()


def until_end(rows: Floats, machine: Machine, gain: Floats) -> Floats:
    """Smallest solution of h = Q h + gain: what is gained from each context on until the end."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import spsolve

    m, n = rows.shape[1] - 2, rows.shape[0]
    moves, following = rows[:, :m], machine.following
    inside = _leads_to(rows, machine, gain > 0.0)
    solved = np.zeros(n)
    if np.any(inside):
        pointer = np.arange(0, n * m + 1, m)
        Q = csr_array((moves.ravel(), following.ravel(), pointer), shape=(n, n))
        Q = Q[inside][:, inside]
        system = eye_array(Q.shape[0], format="csr") - Q
        solved[inside] = spsolve(system.tocsc(), gain[inside])
    return solved


def mean_steps(rows: Floats, machine: Machine, start: Floats) -> float:
    """Mean number of steps of a run.

    Raises
    ------
    ValueError
        If a run may get to where no path leads to an end.
    """
    m = rows.shape[1] - 2
    reached = np.zeros(rows.shape[0], dtype=np.bool_)
    reached[machine.entry[start[:m] > 0.0]] = True
    while True:
        wider = reached.copy()
        wider[machine.following[reached[:, None] & (rows[:, :m] > 0.0)]] = True
        if np.array_equal(wider, reached):
            break
        reached = wider
    if np.any(reached & ~_leads_to(rows, machine, rows[:, m:].sum(axis=1) > 0.0)):
        raise ValueError("a run may get to where no path leads to an end: it has no mean length")
    # Contexts that runs never get to may lead nowhere, and would make the system singular.
    return float(start[:m] @ until_end(rows, machine, reached.astype(np.float64))[machine.entry])


def _leads_to(rows: Floats, machine: Machine, inside: Mask) -> Mask:
    """Contexts from which some path leads to the given ones."""
    possible = rows[:, :-2] > 0.0
    while True:
        wider = inside | (possible & inside[machine.following]).any(axis=1)
        if np.array_equal(wider, inside):
            return inside
        inside = wider
