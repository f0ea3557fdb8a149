"""How two sets of runs differ in time: their curves, their mean steps, their transitions.

Both sets are resampled together: where they share tasks, a task that is drawn counts in both, so
that what tasks have in common cancels; else each has draws of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, generator
from sojourn.estimates import Estimate, Interval, Status
from sojourn.process.counting import share_survivals
from sojourn.process.incidence import aalen_johansen
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = [
    "CurveDifference",
    "RunEnds",
    "TransitionChange",
    "curve_difference",
    "transition_changes",
]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_MAX_DRAWN_RUNS = 100_000_000
_MIN_DRAWS = 199
_MIN_UNITS = 20


class RunEnds(NamedTuple):
    """When and how the runs of one set ended, arrays of shape (n_runs,).

    `duration` in steps, `event` 0 cut, 1 success, 2 failure, `unit` the unit of resampling; where
    tasks are shared, equal numbers in both sets are one unit.
    """

    duration: npt.NDArray[np.int64]
    event: npt.NDArray[np.int8]
    unit: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveDifference:
    """Curves of B minus curves of A, at steps 0 .. horizon.

    Attributes
    ----------
    success, failure : ndarray of shape (horizon + 1,)
        Differences of P(success within d) and P(failure within d).
    success_low, success_high, failure_low, failure_high : ndarray of shape (horizon + 1,)
        Pointwise t intervals from the bootstrap's standard errors.
    band : float
        Half width in standard errors of a band that holds a whole curve.
    a, b : ndarray of shape (2, horizon + 1)
        The curves themselves, success and failure.
    mean_steps : Estimate
        Difference of the mean number of steps within the horizon.
    ci_prob : float
        Probability of the intervals.
    """

    success: Floats
    failure: Floats
    success_low: Floats
    success_high: Floats
    failure_low: Floats
    failure_high: Floats
    band: float
    a: Floats = field(repr=False)
    b: Floats = field(repr=False)
    mean_steps: Estimate
    ci_prob: float

    @property
    def horizon(self) -> int:
        """Last step at which both sets have runs."""
        return int(self.success.size - 1)

    def at(self, d: int, outcome: str = "success") -> Estimate:
        """Return the difference of P(outcome within d steps); withheld beyond the horizon."""
        if not 0 <= d <= self.horizon:
            reason = f"one of the two has no run beyond step {self.horizon}"
            return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
        low, high = getattr(self, f"{outcome}_low")[d], getattr(self, f"{outcome}_high")[d]
        return Estimate(
            value=float(getattr(self, outcome)[d]),
            interval=Interval(
                low=float(low), high=float(high), ci_prob=self.ci_prob, kind="paired_bootstrap_t"
            ),
            status=self.mean_steps.status,
            reasons=self.mean_steps.reasons,
            estimand="population",
        )


def curve_difference(
    a: RunEnds,
    b: RunEnds,
    *,
    paired: bool,
    ci_prob: float = 0.95,
    n_resamples: int = 999,
    rng: Rng = None,
) -> CurveDifference:
    """Compare two pairs of Aalen-Johansen curves.

    Parameters
    ----------
    a, b : RunEnds
        The two sets; each has a run.
    paired : bool
        Whether equal unit numbers are the same unit.
    ci_prob : float
        Probability of the intervals.
    n_resamples : int
        Bootstrap replicates; fewer where the sets are very large.
    rng : Generator, SeedSequence, int or None
        Source of the draws.

    Returns
    -------
    CurveDifference
        Up to the last step at which both sets have runs.
    """
    from sojourn.stats import t_quantile

    check_fraction(ci_prob, name="ci_prob")
    horizon = int(min(a.duration.max(), b.duration.max()))
    n_runs = a.duration.size + b.duration.size
    wanted = check_positive_int(n_resamples, name="n_resamples")
    n_draws = min(wanted, max(_MIN_DRAWS, _MAX_DRAWN_RUNS // n_runs))
    both = [np.stack(aalen_johansen(ends.duration, ends.event, horizon=horizon)) for ends in (a, b)]
    weights = _joint_weights(a.unit, b.unit, n_draws, generator(rng), paired=paired)
    drawn = np.empty((n_draws, 2, horizon + 1))
    for r in range(n_draws):
        curves = [
            np.stack(aalen_johansen(ends.duration, ends.event, w[r, index].astype(float), horizon))
            for ends, (w, index) in zip((a, b), weights, strict=True)
        ]
        drawn[r] = curves[1] - curves[0]
    value = both[1] - both[0]
    n_units = min(w.shape[1] for w, _ in weights)
    quantile = float(t_quantile(ci_prob, max(n_units - 1, 1)))
    error = drawn.std(axis=0, ddof=1)
    few = n_of(n_units, "task or cluster", "tasks or clusters")
    reasons = () if n_units >= _MIN_UNITS else (f"only {few}",)
    status = Status.INCONCLUSIVE if reasons else Status.SUPPORTED
    steps = -value[:, :horizon].sum()
    steps_error = float((-drawn[:, :, :horizon].sum(axis=(1, 2))).std(ddof=1))
    low = np.maximum(value - quantile * error, -1.0)
    high = np.minimum(value + quantile * error, 1.0)
    return CurveDifference(
        success=value[0],
        failure=value[1],
        success_low=low[0],
        success_high=high[0],
        failure_low=low[1],
        failure_high=high[1],
        band=_band(drawn, value, error, ci_prob),
        a=both[0],
        b=both[1],
        mean_steps=Estimate(
            value=float(steps),
            interval=Interval(
                low=float(steps) - quantile * steps_error,
                high=float(steps) + quantile * steps_error,
                ci_prob=ci_prob,
                kind="paired_bootstrap_t",
            ),
            status=status,
            reasons=reasons,
            estimand="population",
        ),
        ci_prob=ci_prob,
    )


def _joint_weights(
    a: npt.NDArray[np.int64],
    b: npt.NDArray[np.int64],
    n_draws: int,
    rng: np.random.Generator,
    *,
    paired: bool,
) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]], ...]:
    """Return, for each set, how often its units are drawn (n_draws, n_units) and its runs' units.

    Draws in which a set is left without a run are drawn again.
    """
    if not paired:
        found = []
        for unit in (a, b):
            names, index = np.unique(unit, return_inverse=True)
            found.append((_multinomial(names.size, n_draws, rng), index))
        return tuple(found)
    names, index = np.unique(np.concatenate((a, b)), return_inverse=True)
    weights = _multinomial(names.size, n_draws, rng)
    first, second = index[: a.size], index[a.size :]
    bare = [np.flatnonzero(~_has_run(weights, part)) for part in (first, second)]
    for row in np.unique(np.concatenate(bare)):
        while not all(_has_run(weights[row : row + 1], part)[0] for part in (first, second)):
            weights[row] = _multinomial(names.size, 1, rng)[0]
    return (weights, first), (weights, second)


def _has_run(weights: npt.NDArray[np.int64], index: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    return np.asarray(weights[:, np.unique(index)].any(axis=1))


def _multinomial(n_units: int, n_draws: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    return rng.multinomial(n_units, np.full(n_units, 1.0 / n_units), size=n_draws)


def _band(drawn: Floats, value: Floats, error: Floats, ci_prob: float) -> float:
    """Return the quantile of the largest studentised deviation over both curves and all steps."""
    moves = error > 0.0
    if not moves.any():
        return 0.0
    deviation = np.abs(drawn[:, moves] - value[moves]) / error[moves]
    return float(np.quantile(deviation.max(axis=1), ci_prob))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionChange:
    """How one transition probability differs between two sets.

    Attributes
    ----------
    origin, target : str
        State, and next state, ``success`` or ``failure``.
    a, b : float
        Probability of the step in each set.
    n_a, n_b : int
        Steps out of the state that each rests on.
    difference : Estimate
        b - a.
    p_value : float
        Of no difference, by the normal law, adjusted by Holm over all transitions looked at.
    """

    origin: str
    target: str
    a: float
    b: float
    n_a: int
    n_b: int
    difference: Estimate
    p_value: float


def transition_changes(
    a: StateSequences,
    b: StateSequences,
    *,
    paired: bool,
    min_visits: int = 10,
    ci_prob: float = 0.95,
    n_resamples: int = 499,
    rng: Rng = None,
) -> tuple[TransitionChange, ...]:
    """Return the transitions that differ, those least likely by chance first.

    Parameters
    ----------
    a, b : StateSequences
        The two sets, over the same states.
    paired : bool
        Whether equal unit numbers are the same unit.
    min_visits : int
        Rows that rest on fewer steps in either set are left out.
    ci_prob : float
        Probability of the intervals.
    n_resamples : int
        Bootstrap replicates.
    rng : Generator, SeedSequence, int or None
        Source of the draws.

    Raises
    ------
    ValueError
        If the two sets differ in their states.
    """
    from scipy.special import ndtr

    from sojourn.process.counting import count_by_unit
    from sojourn.stats import holm, t_quantile

    if a.state_names != b.state_names:
        raise ValueError("the two sets differ in their states")
    counts = [count_by_unit(x) for x in (a, b)]
    first, second = (np.unique(x.unit).astype(np.int64) for x in (a, b))
    weights = _joint_weights(first, second, n_resamples, generator(rng), paired=paired)
    rows, visits, drawn = [], [], []
    for x, (w, index) in zip(counts, weights, strict=True):
        whole = share_survivals(x.resample(np.ones((1, x.n_units)))[:, 1:])[0]
        visits.append(whole.sum(axis=1))
        rows.append(_rows(whole))
        drawn.append(_rows(share_survivals(x.resample(w[:, index].astype(float))[:, 1:])))
    value = rows[1] - rows[0]
    error = (drawn[1] - drawn[0]).std(axis=0, ddof=1)
    used = np.minimum(*visits) >= min_visits
    cells = np.argwhere((error > 0.0) & used[:, None])
    z = np.array([abs(value[i, j]) / error[i, j] for i, j in cells])
    p = holm(2.0 * (1.0 - ndtr(z)))
    half = float(t_quantile(ci_prob, max(min(x.n_units for x in counts) - 1, 1)))
    targets = (*a.state_names, "success", "failure")
    changes = [
        TransitionChange(
            origin=a.state_names[i],
            target=targets[j],
            a=float(rows[0][i, j]),
            b=float(rows[1][i, j]),
            n_a=round(float(visits[0][i])),
            n_b=round(float(visits[1][i])),
            difference=Estimate(
                value=float(value[i, j]),
                interval=Interval(
                    low=max(float(value[i, j] - half * error[i, j]), -1.0),
                    high=min(float(value[i, j] + half * error[i, j]), 1.0),
                    ci_prob=ci_prob,
                    kind="paired_bootstrap_t",
                ),
                estimand="population",
            ),
            p_value=float(p[place]),
        )
        for place, (i, j) in enumerate(cells.tolist())
    ]
    order = np.lexsort((-np.abs([c.difference.value or 0.0 for c in changes]), -z))
    return tuple(changes[i] for i in order)


def _rows(table: Floats) -> Floats:
    total = table.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(table, total, out=np.zeros_like(table), where=total > 0.0))
