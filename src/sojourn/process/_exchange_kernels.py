"""Compiled loops of the test of memory given state and step: deal next events anew, and count.

The runs of a stratum that are in state i after step t form a group. A draw shuffles the next
events of every group, group after group in the order of steps, so that the pasts which meet in a
group are those that the draw itself has made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._numba import kernel

__all__ = ["Layout", "draw_tables", "lay_out", "tables_of"]

Ints = npt.NDArray[np.int64]
Seeds = npt.NDArray[np.uint64]


class Layout(NamedTuple):
    """Steps of a corpus, sorted by stratum, step number and state.

    ``events`` holds what followed each step: a state, or m (cut), m + 1 (success), m + 2
    (failure). Block b, one step number of one stratum, is ``[blocks[b], blocks[b + 1])``;
    ``first[b]`` says whether its steps are first steps. The step at place k came after the step
    at place ``origin[k]`` in the observed corpus (-1 for a first step), and ``state`` is the state
    it is in. ``coarse`` maps states, the three ends and "none" (last) to rows and columns of the
    tables.
    """

    state: Ints
    events: Ints
    origin: Ints
    blocks: Ints
    first: npt.NDArray[np.bool_]
    coarse: Ints


@kernel
def _below(stream: Seeds, n: int) -> int:
    """Draw a whole number below n by SplitMix64 (Steele, Lea & Flood 2014)."""
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    x = stream[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return int(np.float64(x >> np.uint64(11)) * 2.0**-53 * n)


@kernel
def tables_of(layout: Layout, events: Ints, origin: Ints, one: Ints, two: Ints) -> None:
    """Count (state before, state, next) and (state two before, state, next) of one corpus.

    ``one`` and ``two`` have shape (c + 1, c, c + 3) for c coarse states; the last row of the
    first index stands for "none".
    """
    one[:] = 0
    two[:] = 0
    none = layout.coarse.size - 1
    for k in range(events.size):
        before = none
        earlier = none
        if origin[k] >= 0:
            before = layout.state[origin[k]]
            if origin[origin[k]] >= 0:
                earlier = layout.state[origin[origin[k]]]
        i = layout.coarse[layout.state[k]]
        j = layout.coarse[events[k]]
        one[layout.coarse[before], i, j] += 1
        two[layout.coarse[earlier], i, j] += 1


@kernel
def _deal(layout: Layout, stream: Seeds, events: Ints, origin: Ints, free: Ints) -> None:
    """Draw a corpus: shuffle next events in each group and hand each run on to its next group."""
    events[:] = layout.events
    n_blocks = layout.blocks.size - 1
    for b in range(n_blocks):
        low, high = layout.blocks[b], layout.blocks[b + 1]
        start = low
        while start < high:
            stop = start + 1
            while stop < high and layout.state[stop] == layout.state[start]:
                stop += 1
            for k in range(stop - 1, start, -1):
                other = start + _below(stream, k - start + 1)
                events[k], events[other] = events[other], events[k]
            start = stop
        if b + 1 == n_blocks or layout.first[b + 1]:
            continue
        # The next block is sorted by state: its places of a state are filled as runs arrive.
        place = layout.blocks[b + 1]
        end = layout.blocks[b + 2]
        for k in range(place, end):
            if k == place or layout.state[k] != layout.state[k - 1]:
                free[layout.state[k]] = k
        for k in range(low, high):
            if events[k] < free.size:
                origin[free[events[k]]] = k
                free[events[k]] += 1


@kernel
def draw_tables(seeds: Seeds, layout: Layout, n_states: int, one: Ints, two: Ints) -> None:
    """Draw a corpus for each seed and fill its tables, ``one[b]`` and ``two[b]``."""
    stream = np.empty(1, dtype=np.uint64)
    events = np.empty_like(layout.events)
    origin = layout.origin.copy()
    free = np.empty(n_states, dtype=np.int64)
    for b in range(seeds.size):
        stream[0] = seeds[b]
        _deal(layout, stream, events, origin, free)
        tables_of(layout, events, origin, one[b], two[b])


@kernel
def lay_out(place: Ints, run: Ints, origin: Ints) -> None:
    """Fill the places of the steps before, from each step's run and its sorted place.

    ``place[k]`` is the sorted place of step k, steps standing run after run.
    """
    for k in range(place.size):
        origin[place[k]] = place[k - 1] if k > 0 and run[k - 1] == run[k] else -1
