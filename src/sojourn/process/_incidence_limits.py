"""Are step limits informative? Runs with a high limit against runs with a low one, step by step.

Where all runs may still go on, up to the lowest limit, runs under different limits should end at
the same rate if limits were set without looking at difficulty. The statistic is the log-rank score
of both endings; its law under that hypothesis comes from permuting the limits over units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.process._incidence_cells import Runs
from sojourn.sequences import FAILURE, SUCCESS

__all__ = ["LimitCheck", "check_limits"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """Whether runs under a high limit end at another rate than runs under a low one.

    Attributes
    ----------
    p_value : float
        Permutation p value; small means that limits go with difficulty.
    statistic : float
        Quadratic form of the two log-rank scores (success, failure) of the runs' limit ranks.
    up_to : int
        Last step compared: the lowest limit.
    success_ratio, failure_ratio : float or None
        Observed over expected endings up to that step among the runs above the lowest limit;
        None where none is expected.
    n_low, n_high : int
        Runs at the lowest limit and above it.
    n_permutations : int
        Permutations drawn.
    """

    p_value: float
    statistic: float
    up_to: int
    success_ratio: float | None
    failure_ratio: float | None
    n_low: int
    n_high: int
    n_permutations: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


def _scores(runs: Runs, up_to: int) -> tuple[Floats, Floats]:
    """Return observed and expected endings of each run up to a step, shape (n_runs, 2) each."""
    time = np.minimum(runs.duration, up_to)
    at_risk = np.cumsum(np.bincount(time, minlength=up_to + 1)[::-1])[::-1]
    seen = np.empty((time.size, 2))
    expected = np.empty((time.size, 2))
    for column, ending in enumerate((SUCCESS, FAILURE)):
        seen[:, column] = (runs.event == ending) & (runs.duration <= up_to)
        ended = np.bincount(time, weights=seen[:, column], minlength=up_to + 1)
        expected[:, column] = np.cumsum(ended / np.maximum(at_risk, 1))[time]
    return seen, expected


def _permutable(
    runs: Runs, rank: Floats, score: Floats
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return labels, scores and group offsets of what may be exchanged.

    Units under one limit exchange their limits with each other, as wholes; inside a unit that has
    runs under several limits the runs do.
    """
    low = np.full(runs.n_units, np.inf)
    high = np.full(runs.n_units, -np.inf)
    np.minimum.at(low, runs.unit, rank)
    np.maximum.at(high, runs.unit, rank)
    pure = low == high
    whole = np.column_stack(
        [np.bincount(runs.unit, weights=score[:, c], minlength=runs.n_units) for c in (0, 1)]
    )
    inside = np.flatnonzero(~pure[runs.unit])
    inside = inside[np.argsort(runs.unit[inside], kind="stable")]
    sizes = np.bincount(runs.unit[inside], minlength=runs.n_units)
    return (
        np.concatenate([low[pure], rank[inside]]),
        np.concatenate([whole[pure], score[inside]]),
        np.concatenate([[0], np.cumsum(np.append(pure.sum(), sizes[~pure]))]).astype(np.int64),
    )


def _ratio(seen: Floats, expected: Floats, column: int) -> float | None:
    total = float(expected[:, column].sum())
    return float(seen[:, column].sum()) / total if total > 0 else None


def check_limits(runs: Runs, n_permutations: int, rng: np.random.Generator) -> LimitCheck:
    """Compare runs under different limits by permutation over units.

    Parameters
    ----------
    runs : Runs
        Checked runs of at least two strata.
    n_permutations : int
        Number of permutations.
    rng : Generator
        Source of the permutations.
    """
    from sojourn.process._incidence_kernels import permuted_scores

    rank = runs.stratum.astype(np.float64)
    up_to = min(runs.limits[0], int(runs.duration.max()))
    seen, expected = _scores(runs, up_to)
    label, score, offsets = _permutable(runs, rank, seen - expected)
    drawn = np.empty((n_permutations + 1, 2))
    drawn[0] = label @ score
    permuted_scores(rng, offsets, label, score, drawn[1:])
    sizes = np.maximum(np.diff(offsets), 1)
    mean = np.add.reduceat(np.append(label, 0.0), offsets[:-1]) / sizes
    expectation = np.repeat(mean, np.diff(offsets)) @ score
    # The covariance uses all rows alike, the observed one too, so that p is exact. Rounding keeps
    # scores that no permutation can move from passing for scores that differ.
    centred = np.round(drawn - expectation, 9)
    precision = np.linalg.pinv(centred.T @ centred / len(drawn), hermitian=True)
    statistic = np.einsum("bi,ij,bj->b", centred, precision, centred)
    as_large = np.count_nonzero(statistic >= statistic[0] * (1 - 1e-9))
    high = rank > 0
    return LimitCheck(
        p_value=float(as_large / len(drawn)),
        statistic=float(statistic[0]),
        up_to=up_to,
        success_ratio=_ratio(seen[high], expected[high], 0),
        failure_ratio=_ratio(seen[high], expected[high], 1),
        n_low=int(np.count_nonzero(~high)),
        n_high=int(np.count_nonzero(high)),
        n_permutations=n_permutations,
    )
