"""What the exact conditional test returns: p-values, verdicts, effect sizes and null draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.estimates import Verdict, number
from sojourn.tables import n_of

__all__ = ["ExactStatistic", "ExactTest"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactStatistic:
    """One statistic of the exact test with its null draws.

    Attributes
    ----------
    name : str
        ``second_order`` (with starts and ends), ``second_order_moves`` (between states only),
        ``stays``, ``incidence``, ``step_index`` or ``length_spread``.
    family : str
        ``order`` or ``timing``.
    value : float
        The statistic of the observed corpus.
    p_value : float
        Its own exact p-value, ``(1 + #{draws >= value}) / (n_draws + 1)``, two-sided for
        ``length_spread`` (each tail counted, the smaller doubled).
    n_distinct : int
        Different values among the draws.
    draws : ndarray of shape (n_draws,)
        The statistic of each drawn corpus.
    """

    name: str
    family: str
    value: float
    p_value: float
    n_distinct: int
    draws: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the statistic without its draws."""
        return {
            "name": self.name,
            "family": self.family,
            "value": number(self.value),
            "p_value": number(self.p_value),
            "n_distinct": self.n_distinct,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactTest:
    """What the exact conditional test finds on a corpus.

    Attributes
    ----------
    p_order, p_timing, p_joint : float or None
        Exact p-values of the two families and of all statistics together; None when the corpus
        cannot be tested.
    order, timing : Verdict
        ``rejected`` at `alpha`, ``accepted`` (not rejected) or ``inconclusive`` with `reasons`.
    within_tasks : bool
        Whether runs were drawn inside tasks.
    alpha : float
        Size of each family's test.
    order_gain : float or None
        Gain of a second-order chain in nats per step, over what chance alone gives.
    success_distance, failure_distance : float or None
        Largest distance of each incidence curve from what the counts let expect.
    stay_dispersion : dict of str to float
        For each state the sum of squared stays over its mean among the draws: below one, stays
        are more alike than under the chain.
    length_dispersion : float or None
        The same for the squared lengths of the runs, about their mean.
    statistics : tuple of ExactStatistic
        All statistics with their draws.
    n_runs, n_steps, n_strata : int
        What was tested; runs without a step are left out.
    movable_strata, movable_steps : float
        Share of the strata (tasks, or the whole corpus) and of the steps that can move: strata
        that admit only one corpus do not count.
    n_draws : int
        Corpora drawn.
    sampler : str
        ``uniform`` or ``tail_swap`` (runs cut by a step cap).
    exactness : str
        ``exact`` or ``approximate``, as the caller knows how the states were made.
    conditions : tuple of str
        Under which the p-values are as exact as `exactness` says.
    reasons : tuple of str
        Why a verdict is inconclusive, and what else a reader must know.
    """

    p_order: float | None
    p_timing: float | None
    p_joint: float | None
    order: Verdict
    timing: Verdict
    within_tasks: bool
    alpha: float
    order_gain: float | None
    success_distance: float | None
    failure_distance: float | None
    stay_dispersion: dict[str, float]
    length_dispersion: float | None
    statistics: tuple[ExactStatistic, ...] = field(repr=False)
    n_runs: int
    n_steps: int
    n_strata: int
    movable_strata: float
    movable_steps: float
    n_draws: int
    sampler: str
    exactness: str
    conditions: tuple[str, ...] = field(repr=False)
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        where = "within tasks" if self.within_tasks else "pooled"
        lines = [
            f"{self.exactness} test of the first-order chain, {where}: "
            f"{n_of(self.n_draws, 'draw')}, "
            f"{self.movable_strata:.0%} of strata and {self.movable_steps:.0%} of steps can move"
        ]
        for family in ("order", "timing"):
            p = getattr(self, f"p_{family}")
            shown = "-" if p is None else f"{p:.4g}"
            lines.append(f"  {family:8} p = {shown:8} {getattr(self, family)}")
            lines += [
                f"    {s.name:18} {s.value:10.4g}  p = {s.p_value:.4g}"
                for s in self.statistics
                if s.family == family
            ]
        return "\n".join(lines + [f"  {reason}" for reason in self.reasons])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, without the draws."""
        return {
            "p_order": number(self.p_order),
            "p_timing": number(self.p_timing),
            "p_joint": number(self.p_joint),
            "order": str(self.order),
            "timing": str(self.timing),
            "within_tasks": self.within_tasks,
            "alpha": self.alpha,
            "order_gain": number(self.order_gain),
            "success_distance": number(self.success_distance),
            "failure_distance": number(self.failure_distance),
            "stay_dispersion": {k: number(v) for k, v in self.stay_dispersion.items()},
            "length_dispersion": number(self.length_dispersion),
            "statistics": [s.to_dict() for s in self.statistics],
            "n_runs": self.n_runs,
            "n_steps": self.n_steps,
            "n_strata": self.n_strata,
            "movable_strata": self.movable_strata,
            "movable_steps": self.movable_steps,
            "n_draws": self.n_draws,
            "sampler": self.sampler,
            "exactness": self.exactness,
            "conditions": list(self.conditions),
            "reasons": list(self.reasons),
        }
