"""Strata of runs, and the runs that a step cap cuts, laid out for the two samplers.

A run that is cut by a step cap has exactly the length of the cap, and no run is longer. Given the
counts, all corpora that respect this are equally likely under one first-order chain, but the
uniform sampler does not know about lengths. Tail swaps do: they exchange what follows two visits
of one state and are kept only if every run stays within its cap and every cut run ends at it.
The corpora reached from one hub in equally many swaps, the observed one among them, are
exchangeable (Besag and Clifford 1989), so the p-value is exact even where swaps cannot reach
every member of the family. A stratum of a single run keeps its length whatever its order, and is
drawn by the uniform sampler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process._exact_kernels import Chain, Design
from sojourn.sequences import CENSORED, StateSequences

__all__ = ["CapCheck", "check_cap", "make_chain", "make_design", "movable_strata"]

_FAR = np.iinfo(np.int64).max // 4


class CapCheck(NamedTuple):
    """The cap of each run, or the reason why there is none."""

    cap: npt.NDArray[np.int64] | None
    reason: str | None


def check_cap(
    sequences: StateSequences, cap: int | npt.NDArray[np.int64] | None, *, within: bool
) -> CapCheck:
    """Find the cap of every run, given or read off the cut runs.

    Parameters
    ----------
    sequences : StateSequences
        Runs without empty ones.
    cap : int, ndarray of shape (n_runs,) or None
        The largest number of steps a run may have; None reads it off the cut runs, which must
        then all have the length of the longest run.
    within : bool
        Whether strata are tasks; single runs then need no cap.

    Returns
    -------
    CapCheck
        ``cap`` None and ``reason`` None: nothing is cut.

    Raises
    ------
    ValueError
        If a run is longer than its cap.
    """
    lengths = sequences.lengths
    cut = sequences.event == CENSORED
    if cap is None and not cut.any():
        return CapCheck(None, None)
    if cap is None:
        sizes = np.unique(lengths[cut])
        longest = int(lengths.max())
        if within and np.unique(sequences.task).size == sequences.n_runs:
            return CapCheck(None, None)
        if sizes.size > 1 or sizes[0] != longest:
            shortest = int(sizes[0])
            return CapCheck(
                None,
                f"runs were cut after {shortest} steps while others went on to {longest}: "
                "not one step cap, so the exact test has no family to draw from",
            )
        cap = longest
    caps = np.broadcast_to(np.asarray(cap, dtype=np.int64), lengths.shape).copy()
    if np.any(lengths > caps):
        run = int(np.flatnonzero(lengths > caps)[0])
        raise ValueError(f"run {run} has {lengths[run]} steps, more than its cap of {caps[run]}")
    if np.any(lengths[cut] < caps[cut]):
        return CapCheck(None, "some cut runs are shorter than the cap: another limit cut them")
    return CapCheck(caps, None)


def make_design(
    sequences: StateSequences, stratum: npt.NDArray[np.int64], direct: npt.NDArray[np.bool_]
) -> Design:
    """Lay out the stacks of edges; the runs must be sorted by `stratum`."""
    m, n_strata = sequences.n_states, direct.size
    offsets = np.array(sequences.offsets)
    states = sequences.states.astype(np.int64)
    following = np.append(states[1:], 0)
    ends = offsets[1:] - 1
    following[ends] = np.array([m + 2, m, m + 1])[sequences.event]
    key = np.repeat(stratum, sequences.lengths) * m + states
    order = np.argsort(key, kind="stable")
    sizes = np.bincount(key, minlength=n_strata * m)
    return Design(
        n_states=m,
        strata=np.concatenate(([0], np.cumsum(np.bincount(stratum, minlength=n_strata)))),
        offsets=offsets,
        starts=states[offsets[:-1]],
        edge_offsets=np.concatenate(([0], np.cumsum(sizes))),
        edges=following[order],
        direct=np.array(direct),
    )


def make_chain(
    sequences: StateSequences,
    stratum: npt.NDArray[np.int64],
    direct: npt.NDArray[np.bool_],
    cap: npt.NDArray[np.int64] | None,
    swaps_per_step: int,
) -> Chain:
    """Lay out the runs as linked nodes; only strata that are not `direct` have members."""
    n_runs, n_steps, m = sequences.n_runs, sequences.states.size, sequences.n_states
    offsets, lengths = sequences.offsets, sequences.lengths
    run = np.concatenate((np.arange(n_runs), np.repeat(np.arange(n_runs), lengths)))
    steps = np.arange(n_steps) - np.repeat(offsets[:-1], lengths) + 1
    successor = np.concatenate((n_runs + offsets[:-1], n_runs + np.arange(1, n_steps + 1)))
    successor[n_runs + offsets[1:] - 1] = -1
    state = np.concatenate((np.full(n_runs, m), sequences.states)).astype(np.int64)
    key = stratum[run] * (m + 1) + state
    nodes = np.flatnonzero(~direct[stratum[run]])
    members = nodes[np.argsort(key[nodes], kind="stable")]
    _, inverse, sizes = np.unique(key[members], return_inverse=True, return_counts=True)
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    return Chain(
        successor=successor.astype(np.int64),
        run=run.astype(np.int64),
        position=np.concatenate((np.zeros(n_runs), steps)).astype(np.int64),
        state=state,
        length=np.array(lengths, dtype=np.int64),
        event=np.array(sequences.event),
        cap=np.full(n_runs, _FAR) if cap is None else np.array(cap, dtype=np.int64),
        stratum=np.array(stratum, dtype=np.int64),
        members=members.astype(np.int64),
        low=bounds[:-1][inverse].astype(np.int64),
        high=bounds[1:][inverse].astype(np.int64),
        n_swaps=swaps_per_step * members.size,
    )


def movable_strata(sequences: StateSequences, design: Design) -> npt.NDArray[np.bool_]:
    """Which strata admit another multiset of runs with the same starts and counts.

    The number of ordered corpora is ``n! / prod s_i! * prod_i c_i! / prod_j c_ij! * det(I - P)``
    with P = c_ij / c_i (Whittle's formula, from the tree theorem); it exceeds the number of
    orders of the observed runs exactly when another multiset exists. Caps are not looked at.
    """
    from scipy.special import gammaln

    m, n_strata = design.n_states, design.direct.size
    rows = np.repeat(np.arange(n_strata * m), np.diff(design.edge_offsets))
    sizes = np.diff(design.strata)
    stratum = np.repeat(np.arange(n_strata), sizes)
    log_corpora = gammaln(sizes + 1.0)
    starts = np.bincount(stratum * m + design.starts, minlength=n_strata * m)
    log_corpora -= gammaln(starts + 1.0).reshape(n_strata, m).sum(axis=1)
    chunk = max(1, 4_000_000 // (m * (m + 3)))
    for low in range(0, n_strata, chunk):
        high = min(low + chunk, n_strata)
        here = (rows >= low * m) & (rows < high * m)
        flat = (rows[here] - low * m) * (m + 3) + design.edges[here]
        counts = np.bincount(flat, minlength=(high - low) * m * (m + 3)).astype(np.float64)
        counts = counts.reshape(high - low, m, m + 3)
        totals = counts.sum(axis=2)
        log_corpora[low:high] += (gammaln(totals + 1) - gammaln(counts + 1).sum(axis=2)).sum(axis=1)
        P = counts[:, :, :m] / np.maximum(totals, 1.0)[:, :, None]
        log_corpora[low:high] += np.linalg.slogdet(np.eye(m) - P)[1]
    return np.asarray(log_corpora - _log_orders(sequences, design) > 1e-6)


def _log_orders(sequences: StateSequences, design: Design) -> npt.NDArray[np.float64]:
    """Logarithm of the number of different orders of the runs of each stratum."""
    from scipy.special import gammaln

    result = np.asarray(gammaln(np.diff(design.strata) + 1.0), dtype=np.float64)
    offsets = sequences.offsets
    for s in np.flatnonzero(np.diff(design.strata) > 1):
        alike: dict[tuple[bytes, int], int] = {}
        for run in range(design.strata[s], design.strata[s + 1]):
            path = sequences.states[offsets[run] : offsets[run + 1]].tobytes()
            key = (path, int(sequences.event[run]))
            alike[key] = alike.get(key, 0) + 1
        result[s] -= gammaln(np.array(list(alike.values())) + 1.0).sum()
    return result
