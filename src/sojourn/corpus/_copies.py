"""Sources that hold the same runs: a copy of a file, or a log beside what it was converted to.

Two sources are the same when their runs agree, as a multiset, in task, agent, model, attempt,
outcome, end, number of steps and path. Few runs agree by chance, so the runs themselves must make
that unlikely: with frequencies p of the distinct runs inside a source of n runs, a second source
that merely looks like it would agree with probability of about (sum p^2)^n, the chance of n
collisions (Renyi's of order 2), and this must be small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.corpus.columns import combinations
from sojourn.corpus.traces import TraceCorpus

__all__ = ["Copy", "find_copies"]

_MAX_CHANCE = 1e-3


class Copy(NamedTuple):
    """A source whose runs are those of an earlier one; a guess is one that chance may explain."""

    source: int
    first: int
    is_certain: bool


def find_copies(corpus: TraceCorpus, origin: npt.NDArray[np.int32]) -> list[Copy]:
    """Return the sources that repeat an earlier one, in order.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs, in the order of their sources.
    origin : ndarray of shape (n_runs,)
        The number of each run's source, ascending; -1 for none.
    """
    starts = np.flatnonzero(np.diff(origin, prepend=-2))
    if starts.size < 2:
        return []
    path = _paths(corpus)
    content = (corpus.outcome, corpus.end, corpus.limit_kind, corpus.n_steps, path)
    named = (corpus.task, corpus.agent.codes, corpus.model.codes, corpus.task_repeat)
    _, content_code = combinations(content)
    _, code = combinations((*named, _stated_jobs(corpus), content_code))
    print_of = np.add.reduceat(_mixed(code.astype(np.uint64)), starts)
    ends = np.append(starts[1:], len(corpus))
    seen: dict[tuple[int, int], int] = {}
    found = []
    for place, source in enumerate(origin[starts].tolist()):
        span = slice(int(starts[place]), int(ends[place]))
        first = seen.setdefault((span.stop - span.start, int(print_of[place])), place)
        if first == place or source < 0 or origin[starts[first]] < 0:
            continue
        if _same_actions(corpus, span, slice(int(starts[first]), int(ends[first]))):
            certain = _chance(content_code[span]) <= _MAX_CHANCE
            found.append(Copy(source, int(origin[starts[first]]), certain))
    return found


def _mixed(code: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64 bits that look random for each code (the finisher of SplitMix64)."""
    z = (code + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _paths(corpus: TraceCorpus) -> npt.NDArray[Any]:
    """Return a number for the path of each run, as its steps' types and their order tell it."""
    lengths = np.diff(corpus.offsets)
    path = np.zeros(len(corpus), np.uint64)
    filled = np.flatnonzero(lengths)
    if filled.size:
        place = np.arange(corpus.steps.size) - np.repeat(corpus.offsets[:-1], lengths)
        mixed = _mixed(_mixed(corpus.steps.astype(np.uint64)) + place.astype(np.uint64))
        path[filled] = np.add.reduceat(mixed, corpus.offsets[:-1][filled])
    return np.unique(path, return_inverse=True)[1]


def _stated_jobs(corpus: TraceCorpus) -> npt.NDArray[np.int32]:
    """Return the codes of the jobs that the logs name; the file's own name is no job."""
    sources = {name: code for code, name in enumerate(corpus.source_uri.values)}
    same = np.array([*(sources.get(name, -2) for name in corpus.job_id.values), -2], np.int32)
    codes = corpus.job_id.codes
    stated: npt.NDArray[np.int32] = np.where(same[codes] == corpus.source_uri.codes, -1, codes)
    return stated


def _same_actions(corpus: TraceCorpus, one: slice, two: slice) -> bool:
    """Return whether no digest of a whole path speaks against it."""
    if corpus.digests is None:
        return True
    digests = []
    for span in (one, two):
        steps = corpus.digests[int(corpus.offsets[span.start]) : int(corpus.offsets[span.stop])]
        if not steps.size or not steps.all():
            return True  # a conversion may have left them out
        digests.append(np.sort(steps))
    return bool(np.array_equal(digests[0], digests[1]))


def _chance(content: npt.NDArray[np.int32]) -> float:
    """Return how probable it is that as many runs of the same frequencies all agree."""
    shares = np.unique(content, return_counts=True)[1] / content.size
    return float(np.sum(shares**2) ** content.size)
