"""Success and failure within d steps, without a model: Aalen-Johansen in discrete time.

A run ends in success or failure at a step, or is cut while still going. The cumulative incidence
curves give P(success within d steps) and P(failure within d steps) for a world without cutting,
as long as cutting says nothing about what would have come next. Tasks, or clusters of tasks, are
the unit of resampling, since runs of one task are alike. Inside the longest observed run the curves
are estimates; beyond it there are none.

Where the step limits of runs differ the curves are computed under each limit and combined by the
share of runs. Beyond a limit the runs under it go on with the hazards of the runs that still may:
that rests on limits having been set without looking at difficulty, is never supported, and is
what `LimitCheck` tests below the lowest limit.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, generator
from sojourn.process._incidence_bands import Band
from sojourn.process._incidence_cells import Runs, check_runs, knot_of_step, make_cells, resample
from sojourn.process._incidence_fit import fit_checked
from sojourn.process._incidence_limits import LimitCheck, check_limits
from sojourn.process._incidence_result import Incidence, SimultaneousBands, without_runs
from sojourn.process._incidence_times import TimeToFinish
from sojourn.sequences import CENSORED, FAILURE, SUCCESS

__all__ = [
    "Band",
    "CumulativeIncidence",
    "Incidence",
    "LimitCheck",
    "SimultaneousBands",
    "TimeToFinish",
    "aalen_johansen",
    "bootstrap_incidence",
    "fit_incidence",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rng = np.random.Generator | np.random.SeedSequence | int | None


class CumulativeIncidence(NamedTuple):
    """P(success within d) and P(failure within d), d = 0 .. horizon; of replicates, one a row."""

    success: Floats
    failure: Floats


def aalen_johansen(
    duration: npt.ArrayLike,
    event: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    horizon: int | None = None,
) -> CumulativeIncidence:
    """Estimate both cumulative incidence curves; the bare estimator, without intervals.

    Parameters
    ----------
    duration : array-like of shape (n_runs,), int
        Steps until the event or the cut. A run cut at step c is at risk at step c.
    event : array-like of shape (n_runs,), int
        0 censored, 1 success, 2 failure.
    weights : array-like of shape (n_runs,), optional
        Weight of each run, not negative, for instance how often its task was drawn.
    horizon : int, optional
        Last step of the curves; default the longest run.

    Returns
    -------
    CumulativeIncidence
        Two arrays of shape (horizon + 1,). After the last run at risk the curves stay level.

    Notes
    -----
    R(d) = sum over k <= d of S(k-1) e(k) / n(k) for the events e of one kind among n at risk, S
    the product-limit curve of either ending [1]_. It is computed as e(k) / (N G(k-1)), with G that
    of the cuts, which is the same since n(k) = N S(k-1) G(k-1).

    References
    ----------
    .. [1] O. O. Aalen and S. Johansen, "An empirical transition matrix for non-homogeneous Markov
       chains based on censored observations", Scandinavian Journal of Statistics 5 (1978).

    Examples
    --------
    >>> aalen_johansen([1, 2, 2, 3], [1, 0, 2, 1]).success
    array([0.  , 0.25, 0.25, 0.75])
    """
    steps, ends = np.asarray(duration, dtype=np.int64), np.asarray(event)
    longest = int(steps.max()) if steps.size else 0
    last = longest if horizon is None else int(horizon)
    width = max(longest, last) + 1
    size = None if weights is None else np.asarray(weights, dtype=np.float64)
    table = np.bincount(steps + width * ends.astype(np.int64), size, 3 * width).reshape(3, width)
    at_risk = np.cumsum(table.sum(axis=0)[::-1])[::-1].astype(np.float64)
    if at_risk[0] <= 0:
        return CumulativeIncidence(*np.zeros((2, last + 1)))
    stay = at_risk - table[SUCCESS] - table[FAILURE]
    cut = np.divide(table[CENSORED], stay, out=np.zeros(width), where=stay > 0)
    uncut = np.cumprod(np.maximum(1.0 - np.append(0.0, cut[:-1]), 0.0))
    share = np.divide(table[1:], uncut, out=np.zeros((2, width)), where=uncut > 0)
    share = np.minimum(np.cumsum(share, axis=1) / at_risk[0], 1.0)
    return CumulativeIncidence(share[0, : last + 1], share[1, : last + 1])


def bootstrap_incidence(
    duration: npt.ArrayLike,
    event: npt.ArrayLike,
    unit: npt.ArrayLike,
    n_resamples: int = 999,
    rng: Rng = None,
    *,
    stratum: npt.ArrayLike | None = None,
    horizon: int | None = None,
    executor: Executor | None = None,
) -> CumulativeIncidence:
    """Draw units with replacement and return the curves of each resampled corpus.

    Parameters
    ----------
    duration, event : array-like of shape (n_runs,), int
        As in `aalen_johansen`.
    unit : array-like of shape (n_runs,), int
        Unit of resampling of each run.
    n_resamples : int
        Number of resampled corpora.
    rng : Generator, SeedSequence, int or None
        Source of the draws; the answer does not depend on the number of workers.
    stratum : array-like of shape (n_runs,), int, optional
        Declared step limit of each run, as in `fit_incidence`.
    horizon : int, optional
        Last step of the curves; default the longest run.
    executor : concurrent.futures.Executor, optional
        Where the work is done; default two threads.

    Returns
    -------
    CumulativeIncidence
        Two arrays of shape (n_resamples, horizon + 1).

    Raises
    ------
    ValueError
        If there are no runs or the arrays do not fit each other.
    """
    runs = check_runs(duration, event, unit, stratum)
    if runs.n_units == 0:
        raise ValueError("there are no runs to resample")
    cells = make_cells(runs)
    drawn = resample(
        cells, check_positive_int(n_resamples, name="n_resamples"), generator(rng), executor
    )
    last = int(cells.knots[-1]) if horizon is None else int(horizon)
    steps = knot_of_step(cells.knots, last)
    return CumulativeIncidence(drawn.success[:, steps], drawn.failure[:, steps])


def fit_incidence(
    duration: npt.ArrayLike,
    event: npt.ArrayLike,
    unit: npt.ArrayLike,
    *,
    stratum: npt.ArrayLike | None = None,
    ci_prob: float = 0.95,
    n_resamples: int = 999,
    min_units_at_risk: int = 10,
    rng: Rng = None,
    executor: Executor | None = None,
) -> Incidence:
    """Fit the cumulative incidence of success and failure, with bands from resampled units.

    Parameters
    ----------
    duration : array-like of shape (n_runs,), int
        Steps until the event or the cut. A run cut at step c took c steps, had no event at step
        c, and is at risk there: events at c come before the cuts at c.
    event : array-like of shape (n_runs,), int
        0 censored, 1 success, 2 failure.
    unit : array-like of shape (n_runs,), int
        The task or cluster of each run, any whole numbers.
    stratum : array-like of shape (n_runs,), int, optional
        Declared step limit of each run where limits differ; negative: none declared.
    ci_prob : float
        Probability of intervals and bands.
    n_resamples : int
        Resampled corpora, and permutations of the limit check.
    min_units_at_risk : int
        Units that must have a run of d steps for the curve to be supported at d.
    rng : Generator, SeedSequence, int or None
        Source of the draws.
    executor : concurrent.futures.Executor, optional
        Where the resampling is done; default two threads. The answer does not depend on it.

    Returns
    -------
    Incidence
        Curves, bands and times; without runs everything in it is withheld.

    Raises
    ------
    ValueError
        If the arrays do not fit each other or hold values out of range.

    Notes
    -----
    Pointwise bands are Wilson intervals on the effective size R (1 - R) / se^2, at least the
    number of units (less where runs have been cut) and at most the number of runs, with Student's
    quantile on units - 1; the simultaneous band is R -+ the quantile of sup |R* - R|.
    """
    check_fraction(ci_prob, name="ci_prob")
    check_positive_int(n_resamples, name="n_resamples")
    check_positive_int(min_units_at_risk, name="min_units_at_risk")
    runs = check_runs(duration, event, unit, stratum)
    if runs.duration.size == 0:
        return without_runs(ci_prob, min_units_at_risk)
    bands_rng, check_rng, strata_rng = generator(rng).spawn(3)
    fit = fit_checked(runs, ci_prob, n_resamples, min_units_at_risk, bands_rng, executor)
    if len(runs.limits) == 1:
        return fit
    parts = []
    for index, stream in enumerate(strata_rng.spawn(len(runs.limits))):
        part = _one_stratum(runs, index)
        fitted = fit_checked(part, ci_prob, n_resamples, min_units_at_risk, stream, executor)
        parts.append((runs.limits[index], fitted))
    return replace(
        fit, by_stratum=tuple(parts), limit_check=check_limits(runs, n_resamples, check_rng)
    )


def _one_stratum(runs: Runs, index: int) -> Runs:
    """Return the runs under one limit, units numbered anew."""
    chosen = runs.stratum == index
    return check_runs(runs.duration[chosen], runs.event[chosen], runs.unit[chosen])
