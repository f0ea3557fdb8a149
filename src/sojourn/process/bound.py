"""How far a fitted curve may be off: the misspecification bound and the verdict on timing.

A model is always wrong a little, and with enough data every test says so. What a reader of R(d)
needs is the size of the error. The fitted curve is compared with the Aalen-Johansen estimate from
the same runs, and both are recomputed from the same resampled tasks, so that what they share, the
noise of the success rate, cancels:

    delta(d) = R_fit(d) - R_AJ(d)
    U        = max_d ( |delta(d)| + 1.645 se(d) )
    L        = max_d ( |delta(d)| - z se(d) ),   z the normal quantile at .05 / (number of steps)

U exceeds the true sup error with 95 % confidence (an intersection-union test), L falls short of
it. Both curves count, success and failure. U is misspecification only; the sampling error of the
curve is the simultaneous band beside it, over both whole curves at once. It never leaves out what
the observed curve allows: it holds that curve's pointwise interval of the same level as well, and
no standard error counts as less than one run, since where next to nothing has been seen a bootstrap
sees no variation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, frozen_array, generator
from sojourn.estimates import Verdict, number
from sojourn.process.unit_curves import (
    CurveReplicates,
    UnitTables,
    fit_curves,
    resampled_weights,
    unit_tables,
)
from sojourn.sequences import CENSORED, StateSequences
from sojourn.tables import at_least, at_most, n_of

__all__ = [
    "CurveBound",
    "CurvePair",
    "MisspecificationBound",
    "UnitTables",
    "bound_from_replicates",
    "bound_of_curves",
    "fit_curves",
    "misspecification_bound",
    "nothing_to_compare",
    "resampled_weights",
    "unit_tables",
    "without_bounds",
]

Floats = npt.NDArray[np.float64]

_MIN_UNITS = 20
_ONE_SIDED = 1.6448536269514722  # normal quantile at .95


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveBound:
    """Bounds on the error of one curve.

    Attributes
    ----------
    upper, lower : float
        The largest error is under `upper` and over `lower`, each with 95 % confidence; `lower`
        is at least 0.
    step : int
        Where `upper` is attained.
    n_steps : int
        Steps looked at: up to the longest observed run.
    factor : float
        How many times as many units bring `upper` under the margin; infinite where the error
        itself exceeds it, at most 1 where it already is.
    delta, se : ndarray of shape (n_steps + 1,)
        Fitted minus observed curve at steps 0 .. n_steps, and its standard error.
    """

    upper: float
    lower: float
    step: int
    n_steps: int
    factor: float
    delta: Floats = field(repr=False)
    se: Floats = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurvePair:
    """A fitted curve, its simultaneous band and the observed curve, at steps 0 .. n_steps.

    Attributes
    ----------
    fitted, low, high : ndarray of shape (n_steps + 1,)
        The fitted curve and its simultaneous band by unit bootstrap, widened where the observed
        curve's pointwise interval of the same level reaches further.
    observed : ndarray of shape (n_steps + 1,)
        The Aalen-Johansen estimate.
    ci_prob : float
        Probability that both whole curves lie in their bands.
    """

    fitted: Floats
    low: Floats
    high: Floats
    observed: Floats
    ci_prob: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MisspecificationBound:
    """Whether the fitted curves are off by less than a margin.

    Attributes
    ----------
    verdict : Verdict
        ``accepted``: both upper bounds are under the margin; ``rejected``: a lower bound exceeds
        it; else ``inconclusive``.
    margin : float
        The largest error that is of no matter.
    success, failure : CurveBound or None
        The bounds on both curves; None when there is nothing to compare.
    success_curve, failure_curve : CurvePair or None
        The curves with their simultaneous bands.
    n_units, n_runs : int
        Units resampled (clusters or tasks) and runs used.
    n_resamples : int
        Bootstrap replicates.
    units_needed : int or None
        Units that would bring both upper bounds under the margin, when the verdict is
        inconclusive and any number would do.
    reasons : tuple of str
        Why, in words.
    next : str or None
        What to do next when the verdict is not ``accepted``.
    """

    verdict: Verdict
    margin: float
    success: CurveBound | None
    failure: CurveBound | None
    success_curve: CurvePair | None = field(repr=False)
    failure_curve: CurvePair | None = field(repr=False)
    n_units: int
    n_runs: int
    n_resamples: int
    units_needed: int | None
    reasons: tuple[str, ...]
    next: str | None

    def __str__(self) -> str:
        lines = [f"timing: {self.verdict} (margin {self.margin:g}, {n_of(self.n_units, 'unit')})"]
        for name in ("success", "failure"):
            bound = getattr(self, name)
            if bound is not None:
                lines.append(
                    f"  {name} curve: off by at most {at_most(bound.upper)} "
                    f"(at step {bound.step}), at least {at_least(bound.lower)}"
                )
        lines += [f"  {reason}" for reason in self.reasons]
        return "\n".join(lines if self.next is None else [*lines, f"  next: {self.next}"])

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as plain values, without the curves."""
        bounds = {
            name: None
            if bound is None
            else {"upper": number(bound.upper), "lower": number(bound.lower), "step": bound.step}
            for name, bound in (("success", self.success), ("failure", self.failure))
        }
        return {
            "verdict": str(self.verdict),
            "margin": self.margin,
            **bounds,
            "n_units": self.n_units,
            "n_runs": self.n_runs,
            "n_resamples": self.n_resamples,
            "units_needed": self.units_needed,
            "reasons": list(self.reasons),
            "next": self.next,
        }


def bound_from_replicates(delta: Floats, replicates: Floats, *, margin: float) -> CurveBound:
    """Bound the largest error of a curve from its bootstrap replicates; any process.

    Parameters
    ----------
    delta : ndarray of shape (n_steps + 1,)
        Fitted minus observed curve at steps 0 .. n_steps.
    replicates : ndarray of shape (n_resamples, n_steps + 1)
        The same, with both curves recomputed from the same resampled units.
    margin : float
        The largest error that is of no matter.

    Returns
    -------
    CurveBound
        ``upper = max(|delta| + 1.645 se)`` and ``lower = max(|delta| - z se)``.
    """
    from scipy.special import ndtri

    delta = np.asarray(delta, dtype=np.float64)
    replicates = np.asarray(replicates, dtype=np.float64)
    n_steps = max(1, delta.size - 1)
    se = replicates.std(axis=0, ddof=1)
    size = np.abs(delta)
    z = float(ndtri(1.0 - 0.05 / n_steps))
    reach = size + _ONE_SIDED * se
    room = margin - size
    # se falls as one over the root of the number of units, so each step needs (1.645 se / room)^2.
    needed = np.where(room > 0, (_ONE_SIDED * se / np.where(room > 0, room, 1.0)) ** 2, np.inf)
    return CurveBound(
        upper=float(reach.max()),
        lower=max(0.0, float((size - z * se).max())),
        step=int(reach.argmax()),
        n_steps=delta.size - 1,
        factor=float(needed.max()),
        delta=frozen_array(delta, np.float64, name="delta"),
        se=frozen_array(se, np.float64, name="se"),
    )


def misspecification_bound(
    sequences: StateSequences,
    *,
    margin: float = 0.10,
    n_resamples: int = 999,
    ci_prob: float = 0.95,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> MisspecificationBound:
    """Bound the error of the homogeneous chain's success and failure curves.

    Parameters
    ----------
    sequences : StateSequences
        The runs; units are resampled.
    margin : float
        The largest error that is of no matter.
    n_resamples : int
        Bootstrap replicates, at least 2.
    ci_prob : float
        Probability of the curves' simultaneous bands (not of the bounds, which are 95 %).
    rng : Generator, SeedSequence, int or None
        Source of the resamples.

    Returns
    -------
    MisspecificationBound
        Bounds, verdict and what would settle it.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    check_fraction(margin, name="margin")
    check_fraction(ci_prob, name="ci_prob")
    if check_positive_int(n_resamples, name="n_resamples") < 2:
        raise ValueError("n_resamples must be at least 2")
    tables = unit_tables(sequences)
    nothing = nothing_to_compare(sequences, tables)
    if nothing is not None:
        return without_bounds(tables, margin, nothing)
    weights = resampled_weights(tables.n_units, n_resamples, generator(rng))
    whole = fit_curves(tables, np.ones((1, tables.n_units)))
    return bound_of_curves(
        tables, whole, fit_curves(tables, weights), margin=margin, ci_prob=ci_prob
    )


def bound_of_curves(
    tables: UnitTables,
    whole: CurveReplicates,
    again: CurveReplicates,
    *,
    margin: float,
    ci_prob: float = 0.95,
    richer: str = "use a process whose steps depend on progress, or the Aalen-Johansen curve",
) -> MisspecificationBound:
    """Bound the error of any process's curves, from its curves on all and on resampled units.

    Parameters
    ----------
    tables : UnitTables
        The corpus by units.
    whole, again : CurveReplicates
        The curves on all runs (one corpus), and on the resampled units.
    margin, ci_prob : float
        As in `misspecification_bound`.
    richer : str
        What to do where the error itself exceeds the margin.
    """
    delta = whole.fitted[0] - whole.observed[0]
    deltas = again.fitted - again.observed
    bounds = [bound_from_replicates(delta[k], deltas[:, k], margin=margin) for k in (0, 1)]
    pairs = _with_bands(whole, again, tables, ci_prob)
    judged = _judge(bounds, tables.n_units, margin, richer)
    return MisspecificationBound(
        verdict=judged.verdict,
        margin=margin,
        success=bounds[0],
        failure=bounds[1],
        success_curve=pairs[0],
        failure_curve=pairs[1],
        n_units=tables.n_units,
        n_runs=tables.n_runs,
        n_resamples=again.fitted.shape[0],
        units_needed=judged.units_needed,
        reasons=judged.reasons,
        next=judged.next,
    )


def nothing_to_compare(sequences: StateSequences, tables: UnitTables) -> str | None:
    """Say why curves of these runs cannot be compared, or None."""
    if tables.n_runs == 0 or tables.n_steps == 0:
        return "no run has a step"
    if not np.any(sequences.event != CENSORED):
        return "no run ended: every one was cut"
    if tables.n_steps == 1:
        return "no run is longer than one step, so every chain has the observed curve"
    if tables.n_units < 2:
        return "a single unit cannot be resampled"
    return None


def without_bounds(tables: UnitTables, margin: float, reason: str) -> MisspecificationBound:
    """Return the answer where curves cannot be compared: inconclusive, with the reason."""
    return MisspecificationBound(
        verdict=Verdict.INCONCLUSIVE,
        margin=margin,
        success=None,
        failure=None,
        success_curve=None,
        failure_curve=None,
        n_units=tables.n_units,
        n_runs=tables.n_runs,
        n_resamples=0,
        units_needed=None,
        reasons=(reason,),
        next="collect complete runs of more than one step on at least 20 tasks",
    )


def _with_bands(
    whole: CurveReplicates, again: CurveReplicates, tables: UnitTables, ci_prob: float
) -> list[CurvePair]:
    """Widen the pointwise standard errors until the bands hold both whole curves (sup-t)."""
    from scipy.special import ndtri

    fitted, observed = whole.fitted[0], whole.observed[0]
    se = _standard_errors(again.fitted, tables)
    scale = np.where(se > 0.0, se, np.inf)
    excess = (np.abs(again.fitted - fitted) / scale).max(axis=(1, 2))
    n_resamples = excess.size
    rank = min(n_resamples, math.ceil((n_resamples + 1) * ci_prob))
    critical = float(np.partition(excess, rank - 1)[rank - 1])
    pointwise = float(ndtri((1.0 + ci_prob) / 2.0))
    reach = pointwise * _standard_errors(again.observed, tables)
    low = np.clip(np.minimum(fitted - critical * se, observed - reach), 0.0, 1.0)
    high = np.clip(np.maximum(fitted + critical * se, observed + reach), 0.0, 1.0)
    return [
        CurvePair(
            fitted=frozen_array(fitted[k], np.float64, name="fitted"),
            low=frozen_array(low[k], np.float64, name="low"),
            high=frozen_array(high[k], np.float64, name="high"),
            observed=frozen_array(observed[k], np.float64, name="observed"),
            ci_prob=ci_prob,
        )
        for k in (0, 1)
    ]


def _standard_errors(replicates: Floats, tables: UnitTables) -> Floats:
    """Return standard errors of no less than one run, but at step 0, where chance has no part.

    A resample of n units varies by (n - 1) / n too little.
    """
    n_units = tables.n_units
    se: Floats = replicates.std(axis=0, ddof=1) * math.sqrt(n_units / (n_units - 1))
    se[se <= 1e-12] = 0.0
    se[:, 1:] = np.maximum(se[:, 1:], 1.0 / tables.n_runs)
    return se


class _Judged(NamedTuple):
    verdict: Verdict
    units_needed: int | None
    reasons: tuple[str, ...]
    next: str | None


def _judge(bounds: list[CurveBound], n_units: int, margin: float, richer: str) -> _Judged:
    upper, lower = max(b.upper for b in bounds), max(b.lower for b in bounds)
    if n_units < _MIN_UNITS:
        return _Judged(
            Verdict.INCONCLUSIVE,
            _MIN_UNITS,
            (f"{n_of(n_units, 'unit')}, fewer than {_MIN_UNITS}: nothing is certified",),
            f"collect runs on at least {_MIN_UNITS} tasks",
        )
    if upper < margin:
        reason = f"the curves are off by at most {at_most(upper)}, under the margin of {margin:g}"
        return _Judged(Verdict.ACCEPTED, None, (reason,), None)
    if lower > margin:
        reason = f"a curve is off by at least {at_least(lower)}, over the margin of {margin:g}"
        return _Judged(Verdict.REJECTED, None, (reason,), richer)
    reason = f"the curves may be off by {at_most(upper)}, over the margin of {margin:g}"
    factor = max(b.factor for b in bounds)
    if not math.isfinite(factor):
        return _Judged(
            Verdict.INCONCLUSIVE,
            None,
            (reason, "the observed error itself exceeds the margin: more tasks will not help"),
            richer,
        )
    needed = max(n_units + 1, math.ceil(n_units * factor))
    return _Judged(Verdict.INCONCLUSIVE, needed, (reason,), f"about {needed} tasks would settle it")
