"""What sessions show without a model: rates, stretches of successes, success by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.assess.session_results import PositionBins
from sojourn.attempts import TaskCounts, success_rate
from sojourn.estimates import Estimate
from sojourn.stats.intervals import normal_quantile, wilson
from sojourn.task_sequences import TaskSequences

__all__ = ["observed_rate", "observed_runs", "position_bins"]

_N_BINS = 20


def observed_rate(sequences: TaskSequences, ci_prob: float) -> Estimate:
    """Return the success rate so far; sessions are the units, or tasks where there is one."""
    known = np.flatnonzero(sequences.success >= 0)
    unit = sequences.session[known]
    one = unit[0] == unit[-1]
    counts = TaskCounts.from_runs(
        sequences.success[known] == 1, np.arange(known.size), None if one else unit
    )
    return success_rate(counts, ci_prob=ci_prob)


def observed_runs(sequences: TaskSequences, ns: Sequence[int]) -> dict[int, float | None]:
    """Return the share of stretches of n known outcomes inside a session that all succeeded."""
    won = np.concatenate(([0], np.cumsum(sequences.success == 1)))
    known = np.concatenate(([0], np.cumsum(sequences.success >= 0)))
    # Tasks from each one to the end of its session, itself included.
    left = np.repeat(sequences.offsets[1:], sequences.lengths) - np.arange(sequences.n_tasks)
    shares: dict[int, float | None] = {}
    for n in ns:
        first = np.flatnonzero(left >= n)
        first = first[known[first + n] - known[first] == n]
        shares[n] = float((won[first + n] - won[first] == n).mean()) if first.size else None
    return shares


def position_bins(sequences: TaskSequences, ci_prob: float) -> PositionBins:
    """Bin known outcomes by their place in the session, counted from one."""
    place = np.arange(sequences.n_tasks) - np.repeat(sequences.offsets[:-1], sequences.lengths)
    longest = int(sequences.lengths.max())
    edges = np.unique(np.linspace(0, longest, min(_N_BINS, longest) + 1).round().astype(np.int64))
    bins = np.searchsorted(edges, place, side="right") - 1
    known = sequences.success >= 0
    n_bins = edges.size - 1
    seen = np.bincount(bins[known], minlength=n_bins)
    won = np.bincount(bins[known], sequences.success[known], n_bins)
    value = np.divide(won, seen, out=np.full(n_bins, np.nan), where=seen > 0)
    bounds = wilson(np.nan_to_num(value), np.maximum(seen, 1), normal_quantile(ci_prob))
    none = seen == 0
    return PositionBins(
        first=edges[:-1] + 1,
        last=edges[1:],
        n_observed=seen.astype(np.int64),
        value=value,
        low=np.where(none, np.nan, bounds.low),
        high=np.where(none, np.nan, bounds.high),
    )
