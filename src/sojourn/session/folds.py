"""Splits in time: train on the first tasks of each session, score those that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction
from sojourn.task_sequences import TaskSequences

__all__ = ["Fold", "default_folds", "is_block_ordered"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """A split in time: session r trains on its first `cut[r]` tasks, scores those up to `stop[r]`.

    Attributes
    ----------
    cut, stop : ndarray of shape (n_sessions,)
        Numbers of tasks, 0 <= cut <= stop <= length. Tasks after stop are not used.
    """

    cut: IntArray
    stop: IntArray

    def __post_init__(self) -> None:
        cut, stop = np.asarray(self.cut, np.int64), np.asarray(self.stop, np.int64)
        if cut.shape != stop.shape or np.any(cut < 0) or np.any(stop < cut):
            raise ValueError("a fold needs 0 <= cut <= stop for every session")
        object.__setattr__(self, "cut", cut)
        object.__setattr__(self, "stop", stop)

    def test_index(self, sequences: TaskSequences) -> IntArray:
        """Return the positions of the test tasks in the flat arrays."""
        first = sequences.offsets[:-1]
        pieces = [
            np.arange(a + c, a + s) for a, c, s in zip(first, self.cut, self.stop, strict=True)
        ]
        return np.concatenate([np.empty(0, np.int64), *pieces])


def is_block_ordered(sequences: TaskSequences) -> bool:
    """Whether subdomains come in blocks: label changes are under a tenth of a random order's.

    Then which state of one subdomain is which of another is hardly identified, and the tail of a
    session tests its last subdomain alone.
    """
    label, session = sequences.subdomain, sequences.session
    both = (label[1:] >= 0) & (label[:-1] >= 0) & (session[1:] == session[:-1])
    n = int(both.sum())
    if n == 0 or sequences.n_subdomains == 1:
        return False
    shares = sequences.shares
    expected = n * (1.0 - float(shares @ shares))
    changes = int((label[1:] != label[:-1])[both].sum())
    return changes < 0.1 * expected and expected >= 10.0


def default_folds(sequences: TaskSequences, *, test_fraction: float = 0.2) -> tuple[Fold, ...]:
    """Return how to score: whole later sessions, rolling origins by block, or the tails.

    With five sessions or more the last ones are held out whole. With fewer, and subdomains in
    blocks, each block's tail is scored by a fit to all before it. Otherwise the tail of every
    session.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    test_fraction : float
        Share of sessions, of each block or of each session that is scored.
    """
    check_fraction(test_fraction, name="test_fraction")
    lengths = sequences.lengths
    used = np.flatnonzero(lengths)
    if used.size >= 5:
        held = used[-max(1, round(test_fraction * used.size)) :]
        cut = lengths.copy()
        cut[held] = 0
        return (Fold(cut=cut, stop=lengths),)
    tails = Fold(cut=lengths - np.ceil(test_fraction * lengths).astype(np.int64), stop=lengths)
    if not is_block_ordered(sequences):
        return (tails,)
    folds = []
    for b in range(max(len(_blocks(sequences, r)) for r in range(sequences.n_sessions))):
        cut, stop = np.zeros_like(lengths), np.zeros_like(lengths)
        for r in range(sequences.n_sessions):
            ends = _blocks(sequences, r)
            if b >= len(ends):
                cut[r] = stop[r] = lengths[r]
                continue
            start = ends[b - 1] if b else 0
            stop[r] = ends[b]
            cut[r] = ends[b] - math.ceil(test_fraction * (ends[b] - start))
        if cut.sum() > 0:
            folds.append(Fold(cut=cut, stop=stop))
    return tuple(folds) if folds else (tails,)


def _blocks(sequences: TaskSequences, session: int, shortest: int = 10) -> list[int]:
    """Return the ends of a session's blocks of one label; short ones join the next."""
    first, last = sequences.offsets[session], sequences.offsets[session + 1]
    label = sequences.subdomain[first:last]
    ends = [*(np.flatnonzero(np.diff(label)) + 1).tolist(), int(last - first)]
    kept: list[int] = []
    for end in ends:
        if end - (kept[-1] if kept else 0) >= shortest:
            kept.append(end)
    if not kept:
        return [int(last - first)]
    kept[-1] = int(last - first)
    return kept
