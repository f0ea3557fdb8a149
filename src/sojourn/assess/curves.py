"""Curves and times of a result in the form of the JSON contract: the best supported figure first.

A row's own figure is the chosen process's where its timing is accepted, else the non-parametric
one; both stand beside it, and the homogeneous chain's too. Beyond the longest run only a process
can say anything, and what it says there is extrapolation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.estimates import Estimate, Status

if TYPE_CHECKING:
    from sojourn.assess.chain import ChainFindings
    from sojourn.process.incidence import Incidence

__all__ = ["best_within", "curve_dicts", "reported_steps"]

# Curves longer than this are thinned in the JSON; the result itself keeps every step.
_MAX_POINTS = 500


def best_within(d: int, outcome: str, curves: Incidence, chain: ChainFindings | None) -> Estimate:
    """Return the best supported figure for P(outcome within d steps)."""
    observed = curves.point(d, outcome=outcome)
    if chain is None:
        return observed
    fitted = chain.process_within(d, outcome)
    if fitted.status is Status.SUPPORTED or observed.value is None:
        return fitted
    return observed


def reported_steps(curves: Incidence, chain: ChainFindings | None) -> list[int]:
    """Return the steps that are reported: all up to the longest run, thinned, and two beyond it."""
    stride = max(1, -(-curves.horizon // _MAX_POINTS))
    steps = sorted({*range(0, curves.horizon + 1, stride), curves.horizon})
    if chain is None or chain.process_within(curves.horizon, "success").value is None:
        return steps
    return [*steps, *sorted({-(-3 * curves.horizon // 2), 2 * curves.horizon} - set(steps))]


def curve_dicts(curves: Incidence | None, chain: ChainFindings | None) -> dict[str, Any]:
    """Return success_within, failure_within, success_ever and steps_to_finish."""
    missing = Estimate(
        value=None, status=Status.WITHHELD, reasons=("no run has its number of steps",)
    ).to_dict()
    ever = Estimate(
        value=None,
        status=Status.WITHHELD,
        reasons=("needs a fitted process: the data end at the longest run",),
    )
    if chain is not None:
        ever = chain.success_ever()
    if curves is None:
        return {
            "success_within": [],
            "failure_within": [],
            "limit_check": None,
            "success_ever": ever.to_dict(),
            "steps_to_finish": {
                "restricted_mean": missing,
                "median": missing,
                "p90": missing,
                "given_success": {"restricted_mean": missing, "median": missing, "p90": missing},
            },
        }
    return {
        "success_within": _points(curves, chain, "success"),
        "failure_within": _points(curves, chain, "failure"),
        "limit_check": None if curves.limit_check is None else curves.limit_check.to_dict(),
        "success_ever": ever.to_dict(),
        "steps_to_finish": {
            "restricted_mean": curves.restricted_mean.to_dict(),
            "median": curves.median.to_dict(),
            "p90": curves.p90.to_dict(),
            "given_success": curves.given_success.to_dict(),
        },
    }


def _bracket(d: int, outcome: str, curves: Incidence) -> list[float] | None:
    """Return the share of successes within d steps if cut runs fare worst, and best."""
    if outcome != "success" or d > curves.horizon:
        return None
    low, high = curves.worst_best
    return [float(low[d]), float(high[d])]


def _points(curves: Incidence, chain: ChainFindings | None, outcome: str) -> list[dict[str, Any]]:
    return [
        {
            "d": d,
            **best_within(d, outcome, curves, chain).to_dict(),
            "nonparametric": curves.point(d, outcome=outcome).to_dict(),
            "process": None if chain is None else chain.process_within(d, outcome).to_dict(),
            "chain": None if chain is None else chain.within(d, outcome).to_dict(),
            "worst_best": _bracket(d, outcome, curves),
            "extrapolated": d > curves.horizon,
        }
        for d in reported_steps(curves, chain)
    ]
