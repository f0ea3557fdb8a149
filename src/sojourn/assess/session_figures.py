"""The figures of a domain of sessions, and of the mix of domains, as rows; nothing here computes.

`sojourn.assess.session_reliability` fills them from posterior draws; the reports format them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.estimates import Estimate, ReliabilityCurve, number

__all__ = [
    "Density",
    "EnvelopeRow",
    "FunctionalRow",
    "PositionBins",
    "ProbabilityRow",
    "Reliability",
    "RunRow",
    "SubdomainRow",
    "SystemRow",
    "TaskTrace",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """R(n) = P(the next n tasks all succeed) for one start and one n.

    Attributes
    ----------
    start : str
        ``continuing`` after the last session's last task, ``fresh`` in a new session, ``long_run``
        at some later time.
    n : int
        Number of tasks.
    estimate : Estimate
        By the chosen model.
    independent : Estimate
        As it would be if all tasks were independent.
    observed : float or None
        Without a model: the share of stretches of n tasks with known outcomes, of all sessions,
        in which all succeeded; None where there is none, or for another start than ``long_run``.
    mcse : float or None
        Monte Carlo standard error of the estimate; 0 where its mean is exact.
    stacked : Estimate or None
        By the stacked average of all numbers of states above one; None where one state was chosen
        or where the average is the chosen model itself.
    """

    start: str
    n: int
    estimate: Estimate
    independent: Estimate
    observed: float | None = None
    mcse: float | None = None
    stacked: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row in the form of the JSON contract."""
        return {
            "start": self.start,
            "n": self.n,
            **self.estimate.to_dict(),
            "independent": self.independent.to_dict(),
            "observed": number(self.observed),
            "mcse": number(self.mcse),
            "stacked": None if self.stacked is None else self.stacked.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRow:
    """R(n) of the whole mix of domains, under one convention.

    Attributes
    ----------
    convention : str
        ``domain_once``: a session stays in one domain, drawn once. ``domain_per_task``: a domain is
        drawn for every task.
    n : int
        Number of tasks.
    estimate, independent : Estimate
        By the chosen models of the domains, and if all tasks were independent.
    """

    convention: str
    n: int
    estimate: Estimate
    independent: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalRow:
    """One figure of the tasks ahead, of the domain's mix or of one subdomain.

    Attributes
    ----------
    name : str
        ``decay_rate``: the factor by which R(n) falls per task in the end. ``hazard``: P(task n
        fails | all before it succeeded). ``expected_successes``: before the first failure.
        ``run_length``: the smallest n with R(n) < level. ``at_most_failures``: P(at most
        ``failures`` of n tasks fail). ``pass_at``: P(at least one of n tasks succeeds).
        ``success_run``: P(all of n tasks succeed).
    start : str or None
        Where the tasks start; None where it does not matter.
    n : int or None
        Number of tasks.
    failures : int or None
        Failures allowed.
    level : float or None
        The reliability that a run length keeps.
    subdomain : str or None
        The subdomain that all tasks come from; None for the domain's mix.
    estimate : Estimate
        Posterior mean and interval; without a value where the mean is infinite or rests on too few
        draws.
    median : float or None
        Posterior median; None where it is infinite.
    mcse : float or None
        Monte Carlo standard error of the mean.
    """

    name: str
    start: str | None
    n: int | None = None
    failures: int | None = None
    level: float | None = None
    subdomain: str | None = None
    estimate: Estimate
    median: float | None
    mcse: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the row in the form of the JSON contract."""
        return {
            "name": self.name,
            "start": self.start,
            "n": self.n,
            "failures": self.failures,
            "level": self.level,
            "subdomain": self.subdomain,
            **self.estimate.to_dict(),
            "median": number(self.median),
            "mcse": number(self.mcse),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityRow:
    """P(R(n) >= at_least | data) for one start: a point of the posterior's distribution."""

    start: str
    n: int
    at_least: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRow:
    """The range of E[R(n)] of independent tasks over a box of priors.

    Attributes
    ----------
    n : int
        Number of tasks.
    low, high : float
        The bounds found: corners of the box, then bounded ascent.
    """

    n: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SubdomainRow:
    """One subdomain: its counts, its weight in the work ahead, its next task.

    Attributes
    ----------
    name : str
        The subdomain.
    n_observed, n_success : int
        Known outcomes, successes.
    weight : float
        Its share of the work ahead.
    next_task : Estimate
        Success of the next task if it is of this subdomain, continuing the last session.
    beta_binomial : Estimate
        The plainest baseline: Beta(1, 1) and this subdomain's own counts, nothing shared.
    """

    name: str
    n_observed: int
    n_success: int
    weight: float
    next_task: Estimate
    beta_binomial: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the row in the form of the JSON contract."""
        return {
            "name": self.name,
            "n_observed": self.n_observed,
            "n_success": self.n_success,
            "weight": self.weight,
            "next_task": self.next_task.to_dict(),
            "beta_binomial": self.beta_binomial.to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PositionBins:
    """Success over the position in the session.

    Attributes
    ----------
    first, last : ndarray of shape (n_bins,)
        Positions of each bin, counted from 1, both included.
    n_observed : ndarray of shape (n_bins,)
        Known outcomes.
    value, low, high : ndarray of shape (n_bins,)
        Share of successes with Wilson's interval, which takes outcomes as independent; NaN where
        no outcome is known.
    """

    first: IntArray
    last: IntArray
    n_observed: IntArray
    value: FloatArray
    low: FloatArray
    high: FloatArray

    def to_dict(self) -> list[dict[str, Any]]:
        """Return one entry a bin."""
        return [
            {"first": int(a), "last": int(b), "n": int(n), "value": number(v)}
            for a, b, n, v in zip(self.first, self.last, self.n_observed, self.value, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Density:
    """The posterior of a success probability as a smoothed density, with its quantiles.

    Attributes
    ----------
    label : str
        Whose next task: a subdomain's name, or the domain's or ``system``.
    level : str
        ``subdomain``, ``domain`` or ``system``.
    x, density : ndarray of shape (n_points,)
        The density.
    probs, quantiles : ndarray of shape (5,)
        The 5, 25, 50, 75 and 95 % quantiles of the draws.
    """

    label: str
    level: str
    x: FloatArray
    density: FloatArray
    probs: FloatArray
    quantiles: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskTrace:
    """The outcomes in their order, and what the chosen model says of the states beneath them.

    Attributes
    ----------
    success : ndarray of shape (n_tasks,)
        1, 0, or -1 where unknown; sessions one after the other.
    offsets : ndarray of shape (n_sessions + 1,)
        Where sessions begin and end.
    states : ndarray of shape (n_tasks, n_states) or None
        P(state of each task | all data), states by success; None for one state.
    """

    success: npt.NDArray[np.int8]
    offsets: IntArray
    states: FloatArray | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The figures of one domain.

    Attributes
    ----------
    next_task : Estimate
        Success of the next task of the last session.
    fresh_session : Estimate
        Success of the first task of a new session.
    long_run : Estimate
        Success at some later time.
    independent : Estimate
        Success of any task if all were independent.
    observed : Estimate
        Without a model: the success rate so far, with sessions as the sample.
    success_run : tuple of RunRow
        R(n) by start, n ascending.
    functionals : tuple of FunctionalRow
        Other figures of the tasks ahead, of the domain's mix and of its subdomains.
    probabilities : tuple of ProbabilityRow
        How probable it is that R(n) is at least so much, for a few n and levels.
    envelope : tuple of EnvelopeRow or None
        The independent figure over a box of priors, where it was asked for.
    curve, independent_curve : ReliabilityCurve
        R(1..n_max) of the continuing session, and if tasks were independent.
    subdomains : tuple of SubdomainRow
        The next task by subdomain.
    densities : tuple of Density
        Posterior of the next task's success: the domain's, then the subdomains'.
    sorted_draws : mapping of (start, n) to ndarray
        All draws of R(n), ascending: the posterior's distribution function.
    """

    next_task: Estimate
    fresh_session: Estimate
    long_run: Estimate
    independent: Estimate
    observed: Estimate
    success_run: tuple[RunRow, ...]
    functionals: tuple[FunctionalRow, ...] = ()
    probabilities: tuple[ProbabilityRow, ...] = ()
    envelope: tuple[EnvelopeRow, ...] | None = None
    curve: ReliabilityCurve = field(repr=False)
    independent_curve: ReliabilityCurve = field(repr=False)
    subdomains: tuple[SubdomainRow, ...]
    densities: tuple[Density, ...] = field(default=(), repr=False)
    sorted_draws: Mapping[tuple[str, int], FloatArray] = field(default_factory=dict, repr=False)

    def row(self, start: str, n: int) -> RunRow | None:
        """Return R(n) of one start, or None where it was not computed."""
        return next((r for r in self.success_run if r.start == start and r.n == n), None)

    def functional(
        self, name: str, *, start: str | None = None, subdomain: str | None = None, **where: float
    ) -> FunctionalRow | None:
        """Return the first functional that fits, or None.

        Parameters
        ----------
        name : str
            Its name, as `FunctionalRow` lists them.
        start : str, optional
            Where the tasks start; any by default.
        subdomain : str, optional
            The subdomain; the domain's mix by default.
        **where : float
            ``n``, ``failures`` or ``level``.
        """
        for row in self.functionals:
            if row.name != name or row.subdomain != subdomain:
                continue
            if start is not None and row.start != start:
                continue
            if all(getattr(row, key) == value for key, value in where.items()):
                return row
        return None

    def probability(
        self,
        start: str,
        n: int,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> float:
        """Return the posterior probability that R(n) lies where one asks.

        Parameters
        ----------
        start : str
            ``continuing``, ``fresh`` or ``long_run``.
        n : int
            Number of tasks, one of those in ``success_run``.
        at_least, at_most : float, optional
            One of them, or both for an interval, ends included.

        Returns
        -------
        float
            The share of posterior draws.

        Raises
        ------
        ValueError
            If no bound is given, or R(n) of this start was not computed.
        """
        if at_least is None and at_most is None:
            raise ValueError("give at_least, at_most, or both")
        draws = self.sorted_draws.get((start, n))
        if draws is None:
            known = sorted({m for s, m in self.sorted_draws if s == start})
            raise ValueError(f"R({n}) of start {start!r} was not computed; there are {known}")
        low = 0 if at_least is None else int(np.searchsorted(draws, at_least, side="left"))
        high = draws.size
        if at_most is not None:
            high = int(np.searchsorted(draws, at_most, side="right"))
        return max(high - low, 0) / draws.size

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the form of the JSON contract."""
        found: dict[str, Any] = {
            "next_task": self.next_task.to_dict(),
            "fresh_session": self.fresh_session.to_dict(),
            "long_run": self.long_run.to_dict(),
            "independent": self.independent.to_dict(),
            "observed": self.observed.to_dict(),
            "success_run": [row.to_dict() for row in self.success_run],
            "functionals": [row.to_dict() for row in self.functionals],
            "probabilities": [
                {"start": p.start, "n": p.n, "at_least": p.at_least, "value": number(p.value)}
                for p in self.probabilities
            ],
            "subdomains": [row.to_dict() for row in self.subdomains],
        }
        if self.envelope is not None:
            found["envelope"] = [
                {"n": row.n, "low": number(row.low), "high": number(row.high)}
                for row in self.envelope
            ]
        return found

    def to_pandas(self) -> Any:
        """Return R(n) as a table, one row a start and n; needs pandas."""
        from sojourn.assess.session_export import run_table

        return run_table(self)
