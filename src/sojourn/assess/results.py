"""The result of assessing one group of runs, and of several.

Fields come in the order in which a reader cares. Nothing here computes: `traces` does, and the
reports only format what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import sojourn
from sojourn.assess.cautions import Caution
from sojourn.assess.curves import curve_dicts
from sojourn.assess.exported import SCHEMA_VERSION, Exported, unusable_dicts
from sojourn.assess.summary import CorpusSummary
from sojourn.attempts import MixingChoice
from sojourn.corpus import Group, Policy
from sojourn.estimates import Claim, Estimate, number
from sojourn.tables import n_of, p_text

if TYPE_CHECKING:
    from sojourn.assess.certify import Check
    from sojourn.assess.chain import ChainFindings
    from sojourn.process.incidence import Incidence

__all__ = [
    "SCHEMA_VERSION",
    "Assessment",
    "GroupedAssessment",
    "Heterogeneity",
    "LawRow",
    "PassRow",
    "PolicyRow",
    "Rates",
    "TraceAssessment",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """The success rate as it would read under one way of counting limits and faults.

    Attributes
    ----------
    name : str
        The way of counting, in words.
    n_success, n_runs : int
        Numerator and denominator.
    estimate : Estimate
        The rate with its interval.
    chosen : bool
        Whether it is the policy of this result.
    """

    name: str
    n_success: int
    n_runs: int
    estimate: Estimate
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The success rate, all the ways a careful reader asks for it.

    Attributes
    ----------
    success_rate : Estimate
        Run-weighted, for tasks like these (population of tasks).
    same_tasks : Estimate
        The same rate for these very tasks run again; withheld with one attempt a task.
    naive : Estimate
        The interval that ignores tasks, for comparison only.
    bracket : (float, float)
        The rate when all doubtful runs fail, and when all succeed.
    n_doubtful : (int, int)
        Faults and unscored runs, and runs cut by a limit, that the bracket moves.
    by_policy : tuple of PolicyRow
        The rate under the other ways of counting.
    """

    success_rate: Estimate
    same_tasks: Estimate
    naive: Estimate
    bracket: tuple[float, float]
    n_doubtful: tuple[int, int]
    by_policy: tuple[PolicyRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRow:
    """pass^k and pass@k for one k: all, or at least one, of k attempts at the same task succeed.

    Attributes
    ----------
    k : int
        Number of attempts.
    all_succeed, any_succeeds : Estimate
        pass^k and pass@k, averaged over tasks, attempts drawn without replacement while k is
        within the attempts; for tasks like these.
    all_same_tasks, any_same_tasks : Estimate or None
        The same for these very tasks run again; None beyond the attempts.
    n_tasks : int
        Tasks that have k attempts; 0 beyond the attempts.
    pooled_all, pooled_any : float
        R^k and 1 - (1 - R)^k of the pooled rate R, which ignore tasks: for comparison only.
    bounds_all, bounds_any : (float, float) or None
        Beyond the attempts: what the data bound the two to without any model.
    """

    k: int
    all_succeed: Estimate
    any_succeeds: Estimate
    all_same_tasks: Estimate | None
    any_same_tasks: Estimate | None
    n_tasks: int
    pooled_all: float
    pooled_any: float
    bounds_all: tuple[float, float] | None = None
    bounds_any: tuple[float, float] | None = None

    @property
    def is_beyond(self) -> bool:
        """Whether k exceeds the attempts that tasks have."""
        return self.n_tasks == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LawRow:
    """pass^k and pass@k of the law that stands in for the beta-binomial, for one k.

    Attributes
    ----------
    k : int
        Number of attempts.
    all_succeed, any_succeeds : Estimate
        pass^k and pass@k of the law; never more than inconclusive beyond the attempts.
    """

    k: int
    all_succeed: Estimate
    any_succeeds: Estimate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heterogeneity:
    """How much tasks differ in their chance of success.

    Attributes
    ----------
    icc : Estimate
        Intraclass correlation: 0 when all tasks are alike, 1 when each always or never succeeds.
    p_value : float or None
        Exact permutation test that all tasks are alike; None without repeated attempts.
    tarone_p : float or None
        Tarone's test of the same, asymptotic.
    fits : bool or None
        Whether the beta-binomial law passes its predictive check (p > .05); None without repeats.
    check_p : float or None
        The p-value of that check.
    observed, expected : ndarray of shape (n + 1,)
        Tasks with 0 .. n successes, of those with the most common number n of attempts; expected
        under the fitted law.
    alike : ndarray of shape (n + 1,)
        Expected if all tasks were alike.
    law : MixingChoice or None
        The law of tasks that stands in where the beta-binomial fails its check; None elsewhere.
    law_rows : tuple of LawRow
        What that law says of k attempts, ascending in k; empty without it.
    """

    icc: Estimate
    p_value: float | None
    tarone_p: float | None
    fits: bool | None
    check_p: float | None
    observed: npt.NDArray[np.int64]
    expected: npt.NDArray[np.float64]
    alike: npt.NDArray[np.float64]
    law: MixingChoice | None = None
    law_rows: tuple[LawRow, ...] = ()

    def law_lines(self) -> list[str]:
        """Say which law stands in for the beta-binomial, and what it says of the largest k."""
        if self.law is None:
            return []
        names = {
            "inflated": "a beta law with atoms at 0 and 1",
            "nonparametric": "a law without a form",
        }
        p = self.law.checks.get(self.law.kind)
        fits = "fits" if self.law.fits else "is the nearest, and does not fit either"
        shown = "" if p is None else f" (p {p_text(p)})"
        last = self.law_rows[-1]
        return [f"{names[self.law.kind]} {fits}{shown}: pass^{last.k} is then {last.all_succeed}"]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in the form of the JSON contract."""
        return {
            "icc": self.icc.to_dict(),
            "p_value": number(self.p_value),
            "tarone_p_value": number(self.tarone_p),
            "model": "beta_binomial",
            "fits": self.fits,
            "check_p_value": number(self.check_p),
            "successes_per_task": self.observed.tolist(),
            "law": None
            if self.law is None
            else {
                "kind": self.law.kind,
                "fits": self.law.fits,
                "checks": {name: number(p) for name, p in self.law.checks.items()},
                "reasons": list(self.law.reasons),
                "pass_hat": [{"k": row.k, **row.all_succeed.to_dict()} for row in self.law_rows],
                "pass_at": [{"k": row.k, **row.any_succeeds.to_dict()} for row in self.law_rows],
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TraceAssessment(Exported):
    """What the runs of one group say, and how far each figure may be believed.

    Attributes
    ----------
    group : Group
        The runs that were assessed together.
    claims : tuple of Claim
        Which claims the data support.
    rates : Rates
        The success rate.
    attempts : tuple of PassRow
        pass^k and pass@k, ascending in k.
    heterogeneity : Heterogeneity
        How much tasks differ.
    curves : Incidence or None
        Success and failure within d steps, time to finish; None without step counts.
    chain : ChainFindings or None
        The fitted chain, its certificate, where runs get lost; None without logged steps, or
        when it was not asked for.
    corpus : CorpusSummary
        What was counted, excluded and skipped.
    cautions : tuple of Caution
        What a reader must know.
    policy : Policy
        How limits and faults were counted.
    seed : int or None
        Entropy of the random draws; None when the caller passed a Generator.
    n_resamples : int
        Bootstrap replicates behind the intervals.
    ci_prob : float
        Probability of the intervals.
    """

    group: Group
    claims: tuple[Claim, ...]
    rates: Rates
    attempts: tuple[PassRow, ...]
    heterogeneity: Heterogeneity
    curves: Incidence | None = field(repr=False)
    chain: ChainFindings | None = field(repr=False)
    corpus: CorpusSummary = field(repr=False)
    cautions: tuple[Caution, ...]
    policy: Policy
    seed: int | None
    n_resamples: int
    ci_prob: float

    def pass_row(self, k: int) -> PassRow | None:
        """Return the row of one k, or None where it was not computed."""
        return next((row for row in self.attempts if row.k == k), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the form of the JSON contract."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sojourn_version": sojourn.__version__,
            "kind": "traces",
            "group": self.group.to_dict(),
            "seed": self.seed,
            "policy": {**self.policy.to_dict(), "n_resamples": self.n_resamples},
            "warnings": [caution.to_dict() for caution in self.cautions],
            "corpus": self.corpus.to_dict(),
            "estimates": self._estimates(),
            "heterogeneity": self.heterogeneity.to_dict(),
            "states": None if self.chain is None else self.chain.states_dict(),
            "process": None if self.chain is None else self.chain.process_dict(),
            "certificate": self._certificate(),
            **self._forecast(),
        }

    def _forecast(self) -> dict[str, Any]:
        found = None if self.chain is None else self.chain.forecast
        return {
            "forecast": None if found is None else found.forecast_dict(),
            "sensitivities": None if found is None else found.sensitivities_dict(),
        }

    def _certificate(self) -> dict[str, Any]:
        certificate = None if self.chain is None else self.chain.certificate
        return {
            "method": None if certificate is None else certificate.method,
            "alpha": None if certificate is None else certificate.alpha,
            "margin": None if certificate is None else certificate.margin,
            "claims": [
                {**claim.to_dict(), "process": self._process_of(claim)} for claim in self.claims
            ],
            "checks": [check.to_dict() for check in self._checks()],
            "evidence": None if certificate is None else certificate.evidence(),
        }

    def _process_of(self, claim: Claim) -> str | None:
        """Return the process that a claim is about; None where it needs none."""
        about = self.chain is not None and claim.claim in ("order", "timing", "forecast")
        return self.chain.chosen if about and self.chain is not None else None

    def _checks(self) -> tuple[Check, ...]:
        if self.chain is None:
            return ()
        richer = self.chain.richer
        return (*self.chain.certificate.checks, *(() if richer is None else richer.checks))

    def _estimates(self) -> dict[str, Any]:
        return {
            "success_rate": self.rates.success_rate.to_dict(),
            "success_rate_same_tasks": self.rates.same_tasks.to_dict(),
            "success_rate_naive": self.rates.naive.to_dict(),
            "bracket": list(self.rates.bracket),
            "rates_by_policy": [
                {"policy": row.name, "n_success": row.n_success, "n_runs": row.n_runs}
                | {"chosen": row.chosen, **row.estimate.to_dict()}
                for row in self.rates.by_policy
            ],
            "pass_hat": [
                _pass_dict(row, row.all_succeed, row.all_same_tasks, row.bounds_all, row.pooled_all)
                for row in self.attempts
            ],
            "pass_at": [
                _pass_dict(
                    row, row.any_succeeds, row.any_same_tasks, row.bounds_any, row.pooled_any
                )
                for row in self.attempts
            ],
            **curve_dicts(self.curves, self.chain),
        }

    def __str__(self) -> str:
        from sojourn.assess.text import describe

        return describe(self)

    def __repr__(self) -> str:
        return f"<TraceAssessment of {self.group}: {n_of(self.corpus.n_counted, 'run')}>"

    def _repr_html_(self) -> str:
        from sojourn.assess.notebook import notebook_html

        return notebook_html(self)


def _pass_dict(
    row: PassRow,
    estimate: Estimate,
    same_tasks: Estimate | None,
    bounds: tuple[float, float] | None,
    pooled: float,
) -> dict[str, Any]:
    return {
        "k": row.k,
        **estimate.to_dict(),
        "n_tasks": row.n_tasks,
        "same_tasks": None if same_tasks is None else same_tasks.to_dict(),
        "bounds": None if bounds is None else list(bounds),
        "pooled": pooled,
    }


@dataclass(frozen=True, slots=True)
class GroupedAssessment(Exported):
    """One assessment a group, in the order in which the groups were read.

    Attributes
    ----------
    groups : tuple of TraceAssessment
        At least one.
    unusable : tuple of (Group, str)
        Groups of which no run counts, and why.
    """

    groups: tuple[TraceAssessment, ...]
    unusable: tuple[tuple[Group, str], ...] = ()

    def __iter__(self) -> Iterator[TraceAssessment]:
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
        from sojourn.assess.text import describe_groups

        return describe_groups(self)


Assessment = TraceAssessment | GroupedAssessment
