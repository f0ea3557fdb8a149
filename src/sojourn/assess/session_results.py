"""The result of assessing the sessions of one group, and of several groups.

Fields come in the order in which a reader cares. Nothing here computes: `sojourn.assess.sessions`
does, and the reports only format what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sojourn
from sojourn.assess.cautions import Caution
from sojourn.assess.exported import SCHEMA_VERSION, Exported, unusable_dicts
from sojourn.assess.session_figures import (
    Density,
    EnvelopeRow,
    PositionBins,
    Reliability,
    RunRow,
    SubdomainRow,
    SystemRow,
    TaskTrace,
)
from sojourn.corpus import Gaps, Group, Policy
from sojourn.estimates import Claim, number
from sojourn.records import OperationalProfile, Skipped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    "EnvelopeRow",
    "GainTest",
    "GroupedSessionAssessment",
    "PositionBins",
    "Reliability",
    "RunRow",
    "SessionAssessment",
    "SessionSummary",
    "SubdomainRow",
    "SystemRow",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GainTest:
    """A parametric-bootstrap test of "more than one state".

    Attributes
    ----------
    p_value : float
        Share of replicates of independent tasks that gain as much.
    gains : tuple of float
        The largest gain in log score of each replicate.
    """

    p_value: float
    gains: tuple[float, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the test in the form of the JSON contract."""
        return {"p_value": number(self.p_value), "n_replicates": len(self.gains)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DomainAssessment(Exported):
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
    trace : TaskTrace
        The outcomes in order, with the states beneath them.
    gain_test : GainTest or None
        The bootstrap test of more than one state, where it was asked for.
    block_ordered : bool
        Whether subdomains come in blocks, so that states of one hardly match another's.
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
    trace: TaskTrace = field(repr=False)
    gain_test: GainTest | None = None
    block_ordered: bool = False

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
            "ambiguous_states": None if self.states is None else self.states.ambiguous,
            "block_ordered": self.block_ordered,
        }

    def to_arviz(self) -> Any:
        """Return the posterior as ArviZ's InferenceData; see `HMMPosterior.to_arviz`.

        Of independent tasks it holds one chain of independent draws of theta and of R(1..n).
        """
        from sojourn.assess.session_export import domain_inference_data

        return domain_inference_data(self)

    def plot(self, ax: Axes | None = None, *, kind: str = "success_run") -> Axes:
        """Draw one figure of the domain and return its axes.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; new axes by default.
        kind : str
            ``success_run``: R(n) with its band, beside independent tasks. ``densities``: the
            posterior of the next task's success. ``trace``: outcomes in order with the states
            beneath them. ``positions``: success by position in the session.
        """
        from sojourn.assess.session_export import draw_domain

        return draw_domain(self, ax, kind)

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
            "baselines": [
                {
                    "model": b.model,
                    "log_score": number(b.log_score),
                    "difference": number(b.difference),
                    "se_difference": number(b.se_difference),
                }
                for b in self.selection.baselines
            ],
            "gain_test": None if self.gain_test is None else self.gain_test.to_dict(),
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
class SessionAssessment(Exported):
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
    system_density : Density or None
        Posterior of the next task's success for the whole mix; None where there is one domain.
    system_envelope : tuple of EnvelopeRow or None
        The system's independent figure over a box of priors a domain, by the convention
        ``domain_once``, where it was asked for.
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
    system_density: Density | None = field(default=None, repr=False)
    system_envelope: tuple[EnvelopeRow, ...] | None = None

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
                ],
                "envelope": None
                if self.system_envelope is None
                else [
                    {"n": row.n, "low": number(row.low), "high": number(row.high)}
                    for row in self.system_envelope
                ],
            },
            "profile": self.profile.to_dict(),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw R(n) of the one domain, or of every domain, and return the axes."""
        from sojourn.assess.session_export import draw_whole

        return draw_whole(self, ax)

    def __str__(self) -> str:
        from sojourn.assess.session_text import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from sojourn.assess.notebook import notebook_html

        return notebook_html(self)


@dataclass(frozen=True, slots=True)
class GroupedSessionAssessment(Exported):
    """One assessment a group of sessions, in the order in which the groups were read.

    Attributes
    ----------
    groups : tuple of SessionAssessment
        At least one.
    unusable : tuple of (Group, str)
        Groups of which no task counts, and why.
    """

    groups: tuple[SessionAssessment, ...]
    unusable: tuple[tuple[Group, str], ...] = ()

    def __iter__(self) -> Iterator[SessionAssessment]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the assessment itself with one group, else the list of them."""
        unusable = unusable_dicts(self.unusable)
        if len(self.groups) == 1:
            return {**self.groups[0].to_dict(), "unusable_groups": unusable}
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": "groups",
            "groups": [group.to_dict() for group in self.groups],
            "unusable_groups": unusable,
        }

    def _repr_html_(self) -> str:
        from sojourn.assess.notebook import notebook_html

        return notebook_html(self)

    def __str__(self) -> str:
        from sojourn.assess.text import unusable_lines

        parts = [str(group) for group in self.groups]
        return "\n\n".join([*parts, *unusable_lines(self.unusable, "task")])
