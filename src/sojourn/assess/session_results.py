"""The result of assessing the sessions of one group, and of several groups.

Fields come in the order in which a reader cares. Nothing here computes: `sojourn.assess.sessions`
does, and the reports only format what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import sojourn
from sojourn.assess.cautions import Caution
from sojourn.assess.results import SCHEMA_VERSION
from sojourn.corpus import Gaps, Group, Policy
from sojourn.estimates import Claim, Estimate, ReliabilityCurve, number
from sojourn.records import OperationalProfile, Skipped

if TYPE_CHECKING:
    from sojourn.session import (
        Dependence,
        HierarchicalFit,
        HMMPosterior,
        PriorPredictive,
        Selection,
        StateSummary,
    )

__all__ = [
    "DomainAssessment",
    "GroupedSessionAssessment",
    "PositionBins",
    "Reliability",
    "RunRow",
    "SessionAssessment",
    "SessionSummary",
    "SubdomainRow",
    "SystemRow",
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
    """

    start: str
    n: int
    estimate: Estimate
    independent: Estimate
    observed: float | None = None


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
class SubdomainRow:
    """One subdomain: its counts, its weight in the work ahead, its next task."""

    name: str
    n_observed: int
    n_success: int
    weight: float
    next_task: Estimate


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
    curve, independent_curve : ReliabilityCurve
        R(1..n_max) of the continuing session, and if tasks were independent.
    subdomains : tuple of SubdomainRow
        The next task by subdomain.
    """

    next_task: Estimate
    fresh_session: Estimate
    long_run: Estimate
    independent: Estimate
    observed: Estimate
    success_run: tuple[RunRow, ...]
    curve: ReliabilityCurve = field(repr=False)
    independent_curve: ReliabilityCurve = field(repr=False)
    subdomains: tuple[SubdomainRow, ...]

    def row(self, start: str, n: int) -> RunRow | None:
        """Return R(n) of one start, or None where it was not computed."""
        return next((r for r in self.success_run if r.start == start and r.n == n), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the form of the JSON contract."""
        return {
            "next_task": self.next_task.to_dict(),
            "fresh_session": self.fresh_session.to_dict(),
            "long_run": self.long_run.to_dict(),
            "independent": self.independent.to_dict(),
            "observed": self.observed.to_dict(),
            "success_run": [
                {"start": row.start, "n": row.n, **row.estimate.to_dict()}
                | {"independent": row.independent.to_dict(), "observed": number(row.observed)}
                for row in self.success_run
            ],
            "subdomains": [
                {"name": row.name, "n_observed": row.n_observed, "n_success": row.n_success}
                | {"weight": row.weight, "next_task": row.next_task.to_dict()}
                for row in self.subdomains
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DomainAssessment:
    """What the sessions of one domain say.

    Attributes
    ----------
    name : str
        The domain.
    n_tasks, n_observed, n_success : int
        Tasks in their places (unseen ones included), known outcomes, successes.
    n_sessions, n_outages : int
        Sessions, and those of at least five known outcomes that failed throughout.
    rate_without_outages : float or None
        Share of successes in the other sessions.
    longest_session : int
        Tasks of the longest session: how far R(n) is supported.
    gaps : Gaps
        Holes between positions.
    claims : tuple of Claim
        Which claims the data support.
    dependence : Dependence
        Exact tests of order and of session effects.
    selection : Selection
        Scores of one state and more, and the choice.
    model : HierarchicalFit or HMMPosterior
        The chosen model: independent tasks, or hidden states.
    independent : HierarchicalFit
        The independent model.
    prior : PriorPredictive
        What the chosen model says of R(1) and R(20) before any data.
    states : StateSummary or None
        The hidden states, ordered by success; None for one state.
    reliability : Reliability
        The figures.
    positions : PositionBins
        Success over the position in the session.
    """

    name: str
    n_tasks: int
    n_observed: int
    n_success: int
    n_sessions: int
    n_outages: int
    rate_without_outages: float | None
    longest_session: int
    gaps: Gaps
    claims: tuple[Claim, ...]
    dependence: Dependence
    selection: Selection = field(repr=False)
    model: HierarchicalFit | HMMPosterior = field(repr=False)
    independent: HierarchicalFit = field(repr=False)
    prior: PriorPredictive = field(repr=False)
    states: StateSummary | None = field(repr=False)
    reliability: Reliability
    positions: PositionBins = field(repr=False)

    @property
    def n_states(self) -> int:
        """Number of states of the chosen model; 1 for independent tasks."""
        return self.selection.chosen

    def to_dict(self) -> dict[str, Any]:
        """Return the domain in the form of the JSON contract."""
        return {
            "name": self.name,
            "n_tasks": self.n_tasks,
            "n_observed": self.n_observed,
            "n_success": self.n_success,
            "n_sessions": self.n_sessions,
            "n_outages": self.n_outages,
            "longest_session": self.longest_session,
            "gaps": self.gaps._asdict(),
            "subdomains": [row.name for row in self.reliability.subdomains],
            "claims": [claim.to_dict() for claim in self.claims],
            "selection": self._selection_dict(),
            "diagnostics": self._diagnostics(),
            "prior": [
                {"n": int(n), "value": number(m), "interval": [number(lo), number(hi)]}
                for n, m, lo, hi in zip(
                    self.prior.n, self.prior.mean, self.prior.low, self.prior.high, strict=True
                )
            ],
            "states": self._state_dicts(),
            "reliability": self.reliability.to_dict(),
            "positions": self.positions.to_dict(),
        }

    def _selection_dict(self) -> dict[str, Any]:
        gate = self.dependence
        names = {c.n_states: c.model for c in self.selection.candidates}
        return {
            "candidates": [
                {
                    "model": c.model,
                    "n_states": c.n_states,
                    "log_score": number(c.log_score),
                    "mcse": number(c.mcse),
                    "difference": number(c.difference),
                    "se_difference": number(c.se_difference),
                    "pareto_k": number(c.pareto_k),
                    "converged": c.converged,
                    "stacking_weight": number(float(weight)),
                }
                for c, weight in zip(
                    self.selection.candidates, self.selection.stacking, strict=True
                )
            ],
            "chosen": {"model": names[self.n_states], "n_states": self.n_states},
            "dependence": {
                "p_order": number(gate.p_order),
                "p_beyond_trend": number(gate.p_beyond_trend),
                "p_session_effect": number(gate.p_session_effect),
                "method": gate.method,
                "direction": gate.direction,
                "n_draws": gate.n_draws,
            },
        }

    def _diagnostics(self) -> dict[str, Any]:
        found = getattr(self.model, "diagnostics", None)
        if found is None:
            return {"r_hat": None, "ess_bulk": None, "ess_tail": None} | {
                "n_chains": 0, "n_draws": 0, "converged": True,
            }  # fmt: skip
        model: Any = self.model
        return {
            "r_hat": number(max(d.r_hat for d in found.values())),
            "ess_bulk": number(min(d.ess_bulk for d in found.values())),
            "ess_tail": number(min(d.ess_tail for d in found.values())),
            "n_chains": model.n_chains,
            "n_draws": model.n_draws,
            "converged": model.converged,
        }

    def _state_dicts(self) -> list[dict[str, Any]] | None:
        states = self.states
        if states is None:
            return None
        names = [row.name for row in self.reliability.subdomains]
        return [
            {
                "success": dict(zip(names, map(number, states.success_prob[:, s]), strict=True)),
                "dwell": number(states.dwell[s]),
                "long_run_share": number(states.long_run_share[s]),
                "transition": [number(p) for p in states.transition[s]],
            }
            for s in range(self.n_states)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """Counts of one group of sessions.

    Attributes
    ----------
    n_tasks, n_observed, n_success, n_sessions : int
        Tasks read, those with a verdict that counts, successes, sessions.
    n_unsorted : int
        Tasks that stood out of order and were put in their place.
    skipped : tuple of Skipped
        What the readers left out or mended, of the whole input.
    """

    n_tasks: int
    n_observed: int
    n_success: int
    n_sessions: int
    n_unsorted: int
    skipped: tuple[Skipped, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "n_tasks": self.n_tasks,
            "n_observed": self.n_observed,
            "n_success": self.n_success,
            "n_sessions": self.n_sessions,
            "n_unsorted": self.n_unsorted,
            "skipped": [
                {"source": s.source, "reason": s.reason, "what": s.what, "count": s.count}
                for s in self.skipped
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionAssessment:
    """What the sessions of one group say, and how far each figure may be believed.

    Attributes
    ----------
    group : Group
        The sessions that were assessed together.
    domains : tuple of DomainAssessment
        Each domain on its own, in the order in which they were met.
    system : tuple of SystemRow
        R(n) of the whole mix, by convention; empty where a domain of the profile has no figures.
    profile : OperationalProfile
        The work ahead: shares of domains and subdomains.
    corpus : SessionSummary
        What was counted and skipped.
    cautions : tuple of Caution
        What a reader must know.
    policy : Policy
        How tasks without a verdict were counted.
    seed : int or None
        Entropy of the random draws; None when the caller passed a Generator.
    ci_prob : float
        Probability of the intervals.
    """

    group: Group
    domains: tuple[DomainAssessment, ...]
    system: tuple[SystemRow, ...]
    profile: OperationalProfile
    corpus: SessionSummary
    cautions: tuple[Caution, ...]
    policy: Policy
    seed: int | None
    ci_prob: float

    def domain(self, name: str) -> DomainAssessment:
        """Return one domain by its name; KeyError if there is none."""
        for domain in self.domains:
            if domain.name == name:
                return domain
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the form of the JSON contract."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sojourn_version": sojourn.__version__,
            "kind": "sessions",
            "group": self.group.to_dict(),
            "seed": self.seed,
            "policy": self.policy.to_dict(),
            "warnings": [caution.to_dict() for caution in self.cautions],
            "corpus": self.corpus.to_dict(),
            "domains": [domain.to_dict() for domain in self.domains],
            "system": {
                "success_run": [
                    {"convention": row.convention, "n": row.n, **row.estimate.to_dict()}
                    | {"independent": row.independent.to_dict()}
                    for row in self.system
                ]
            },
            "profile": self.profile.to_dict(),
        }

    def __str__(self) -> str:
        from sojourn.assess.session_text import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class GroupedSessionAssessment:
    """One assessment a group of sessions, in the order in which the groups were read.

    Attributes
    ----------
    groups : tuple of SessionAssessment
        At least one.
    """

    groups: tuple[SessionAssessment, ...]

    def __iter__(self) -> Iterator[SessionAssessment]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the assessment itself with one group, else the list of them."""
        if len(self.groups) == 1:
            return self.groups[0].to_dict()
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "groups",
            "groups": [group.to_dict() for group in self.groups],
        }

    def __str__(self) -> str:
        return "\n\n".join(str(group) for group in self.groups)
