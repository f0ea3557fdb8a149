"""Gates: rules such as ``pass^4 >= 0.5``, answered on the bound of an interval.

A rule passes when the figure is on its right side with the stated confidence, fails when it is on
the wrong side with it, and is inconclusive between: a gate that answers on the point estimate is
a coin near its threshold. Repeated looks at growing data are not allowed for here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import sojourn
from sojourn._threads import plain_blas
from sojourn._validation import check_choice, check_fraction
from sojourn.assess.certify import MIN_UNITS
from sojourn.assess.comparison_results import Comparison
from sojourn.assess.exported import SCHEMA_VERSION, Exported
from sojourn.assess.rules import GateAnswer, Rule
from sojourn.assess.session_results import DomainAssessment, SessionAssessment
from sojourn.assess.traces import observed_curves, seeded, why_unusable
from sojourn.attempts import TaskCounts, pass_at, pass_hat, success_rate
from sojourn.corpus import Policy, ResolvedRuns, TraceCorpus, resolve
from sojourn.corpus.traces import DEFAULT_GROUPING
from sojourn.errors import NothingUsableError, RuleError
from sojourn.estimates import Estimate, Interval, Status, number
from sojourn.process.incidence import Incidence
from sojourn.tables import n_of

__all__ = [
    "Gate",
    "RuleResult",
    "apply_rules",
    "apply_session_rules",
    "not_worse",
    "two_sided",
]

_POWER_QUANTILE = 0.8416212335729143  # standard normal quantile at .80
_MAX_NAMED = 10
_LOOKS = "looking again as data grow raises the chance of a wrong answer; it is not allowed for"
Rng = np.random.Generator | np.random.SeedSequence | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule on one group.

    Attributes
    ----------
    rule : str
        The rule.
    group : str
        The group of runs or sessions, and the domain of the latter.
    answer : GateAnswer
        Pass, fail or inconclusive.
    estimate : Estimate or None
        The figure with the interval whose bound decided; None for rules on single tasks.
    smallest_drop : float or None
        The smallest shift of the figure beyond the threshold that fails in 80 % of cases;
        infinite where even a figure of 0 (1, for an upper threshold) would not; None where it is
        not known (steps, runs of tasks, thresholds of 0 or 1).
    reasons : tuple of str
        Why it is not answered, or what a reader must know.
    """

    rule: str
    group: str
    answer: GateAnswer
    estimate: Estimate | None
    smallest_drop: float | None
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "rule": self.rule,
            "group": self.group,
            "answer": str(self.answer),
            "estimate": None if self.estimate is None else self.estimate.to_dict(),
            "smallest_drop": number(self.smallest_drop),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(Exported):
    """The answers to all rules.

    Attributes
    ----------
    results : tuple of RuleResult
        At least one.
    confidence : float
        One-sided confidence of each pass and of each fail.
    notes : tuple of str
        What a reader must know.
    seed : int
        Seed of the random draws.
    """

    results: tuple[RuleResult, ...]
    confidence: float
    notes: tuple[str, ...] = ()
    seed: int | None = field(default=None)

    @property
    def answer(self) -> GateAnswer:
        """Fail if any rule fails, else inconclusive if any is, else pass."""
        answers = {result.answer for result in self.results}
        for answer in (GateAnswer.FAIL, GateAnswer.INCONCLUSIVE):
            if answer in answers:
                return answer
        return GateAnswer.PASS

    def to_dict(self) -> dict[str, Any]:
        """Return the gate as plain values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sojourn_version": sojourn.__version__,
            "kind": "gate",
            "answer": str(self.answer),
            "confidence": self.confidence,
            "rules": [result.to_dict() for result in self.results],
            "notes": list(self.notes),
            "seed": self.seed,
        }

    def __str__(self) -> str:
        from sojourn.assess.gate_text import describe

        return describe(self)


def two_sided(confidence: float) -> float:
    """Return the probability of the two-sided interval whose bounds each hold with `confidence`.

    Raises
    ------
    ValueError
        If the confidence is not between 1/2 and 1.
    """
    check_fraction(confidence, name="confidence")
    if confidence <= 0.5:
        raise ValueError(f"confidence must exceed 0.5; got {confidence}")
    return 2.0 * confidence - 1.0


@plain_blas()
def apply_rules(
    corpus: TraceCorpus,
    rules: Sequence[Rule],
    *,
    by: Sequence[str] = DEFAULT_GROUPING,
    policy: Policy | None = None,
    confidence: float = 0.95,
    estimand: str = "same_tasks",
    minimum: float | None = None,
    n_resamples: int = 1999,
    rng: Rng = None,
) -> Gate:
    """Answer rules on the figures of every group of runs.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    rules : sequence of Rule
        What is asked.
    by : sequence of str
        Fields whose values name a group; empty to pool all runs.
    policy : Policy, optional
        How limits and faults are counted.
    confidence : float
        One-sided confidence of a pass and of a fail.
    estimand : {"same_tasks", "population"}
        Which interval of rates and repeated attempts decides; where the first does not exist (one
        attempt a task) the other does, with a word.
    minimum : float, optional
        Share of successes that every task must have been seen to reach.
    n_resamples : int
        Bootstrap replicates.
    rng : Generator, SeedSequence, int or None
        Source of the random draws.

    Returns
    -------
    Gate
        One result a rule and group.

    Raises
    ------
    RuleError
        If a rule asks for a figure of sessions, or there is none.
    NothingUsableError
        If no run counts in any group; one of several is inconclusive.
    """
    check_choice(estimand, ("same_tasks", "population"), name="estimand")
    if not rules and minimum is None:
        raise RuleError("there is no rule to answer")
    for rule in rules:
        if rule.of_sessions:
            raise RuleError(
                f"{rule.figure} is a figure of sessions, and these are runs (--as sessions reads "
                "runs that carry session_id and position as sessions)"
            )
    results: list[RuleResult] = []
    entropy = None
    unusable: list[str] = []
    groups = corpus.groups(by)
    for group, runs in groups:
        generator, entropy = seeded(rng)
        part = corpus.select(runs)
        resolved = resolve(part, policy)
        if not resolved.n_runs:
            unusable.append(f"{group}: {why_unusable(resolved)}")
            asked = [str(rule) for rule in rules]
            asked += [] if minimum is None else [_minimum_words(minimum)]
            results += [_unanswered(rule, str(group), why_unusable(resolved)) for rule in asked]
            continue
        figures = _Figures(
            corpus=part,
            resolved=resolved,
            counts=TaskCounts.from_runs(resolved.success, resolved.task, resolved.unit),
            ci_prob=two_sided(confidence),
            estimand=estimand,
            n_resamples=n_resamples,
            rng=generator,
        )
        results += [_result(rule, str(group), figures.of(rule)) for rule in rules]
        if minimum is not None:
            results.append(_per_task(part, resolved, str(group), minimum))
    if len(unusable) == len(groups):
        raise NothingUsableError("; ".join(unusable[:_MAX_NAMED]) or "there is no run")
    return Gate(results=tuple(results), confidence=confidence, notes=(_LOOKS,), seed=entropy)


@plain_blas()
def apply_session_rules(
    assessments: Iterable[SessionAssessment], rules: Sequence[Rule], *, confidence: float
) -> Gate:
    """Answer rules on the figures of sessions, one result a rule, group and domain.

    Parameters
    ----------
    assessments : iterable of SessionAssessment
        Made with ``ci_prob=two_sided(confidence)``; what a grouped one calls unusable is
        inconclusive.
    rules : sequence of Rule
        What is asked.
    confidence : float
        One-sided confidence of a pass and of a fail.

    Raises
    ------
    RuleError
        If a rule asks for a figure of runs.
    """
    results = []
    seed = None
    for rule in rules:
        if not rule.of_sessions:
            raise RuleError(
                f"{rule.figure} is a figure of runs, and these are sessions: ask for next_task, "
                "long_run, fresh_session or success_run(N)"
            )
    for assessment in assessments:
        seed = assessment.seed
        several = len(assessment.domains) > 1
        for domain in assessment.domains:
            name = f"{assessment.group}: {domain.name}" if several else str(assessment.group)
            results += [_result(rule, name, _of_domain(rule, domain)) for rule in rules]
    for group, reason in getattr(assessments, "unusable", ()):
        results += [_unanswered(str(rule), str(group), reason) for rule in rules]
    return Gate(results=tuple(results), confidence=confidence, notes=(_LOOKS,), seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The figures of one group, computed as rules ask for them."""

    corpus: TraceCorpus
    resolved: ResolvedRuns
    counts: TaskCounts
    ci_prob: float
    estimand: str
    n_resamples: int
    rng: np.random.Generator

    def of(self, rule: Rule) -> Estimate:
        """Return the estimate that a rule is about."""
        n = rule.argument or 0
        if rule.name == "success_rate":
            return self._preferred(
                lambda estimand: success_rate(self.counts, estimand=estimand, ci_prob=self.ci_prob)
            )
        if rule.name in ("pass^", "pass@"):
            estimate = pass_hat if rule.name == "pass^" else pass_at
            return self._preferred(
                lambda estimand: estimate(
                    self.counts, n, estimand=estimand, ci_prob=self.ci_prob, rng=0
                )
            )
        curves = observed_curves(
            self.corpus, self.resolved, self.ci_prob, self.n_resamples, self.rng.spawn(1)[0]
        )
        if curves is None:
            return _none("no run has its number of steps")
        if rule.name == "mean_steps":
            return curves.restricted_mean
        if rule.name == "median_steps":
            return curves.median
        return _within(curves, n, rule.name.removesuffix("_within"))

    def _preferred(self, estimate: Callable[[str], Estimate]) -> Estimate:
        if self.estimand == "same_tasks":
            same = estimate("same_tasks")
            if same.value is not None:
                return same
        found = estimate("population")
        if found.value is None:
            return found
        n_units = self.counts.n_units
        few = f"{n_units} of the {MIN_UNITS} tasks that are needed"
        found = found.doubted(few if n_units < MIN_UNITS else None)
        if self.estimand == "population":
            return found
        told = "for tasks like these: these attempts do not tell how these tasks would go again"
        return replace(found, reasons=(*found.reasons, told))


def _within(curves: Incidence, d: int, outcome: str) -> Estimate:
    """Return P(outcome within d steps), past its support by bounds that need no run of d steps.

    The share cannot fall with d, nor can it exceed what has not ended otherwise. Past the longest
    run this holds only where no run was cut: under a larger limit an agent may act otherwise.
    """
    found = curves.point(d, outcome=outcome)
    last = curves.supported_to
    if found.status is Status.SUPPORTED or last < 0 or (d > curves.horizon and curves.n_censored):
        return found
    other = "failure" if outcome == "success" else "success"
    ours, theirs = curves.point(last, outcome=outcome), curves.point(last, outcome=other)
    if ours.interval is None or theirs.interval is None:
        return found
    value = curves.point(min(d, curves.horizon), outcome=outcome).value
    return Estimate(
        value=value,
        interval=Interval(
            low=ours.interval.low,
            high=1.0 - theirs.interval.low,
            ci_prob=curves.ci_prob,
            kind="monotone",
        ),
        reasons=(
            *curves.reasons,
            f"bounded by what is known at step {last}: the share cannot fall later, nor exceed "
            "what has not ended otherwise",
        ),
        estimand="population",
    )


def _result(rule: Rule, group: str, estimate: Estimate) -> RuleResult:
    answer = rule.answer(estimate)
    reasons = list(estimate.reasons)
    if rule.empty is not None:
        reasons.insert(0, rule.empty)
    elif answer is GateAnswer.INCONCLUSIVE and estimate.status is Status.SUPPORTED:
        reasons.insert(0, "the interval holds the threshold: more tasks or attempts are needed")
    return RuleResult(
        rule=str(rule),
        group=group,
        answer=answer,
        estimate=estimate,
        smallest_drop=_drop_at(rule, estimate),
        reasons=tuple(reasons),
    )


def _unanswered(rule: str, group: str, reason: str) -> RuleResult:
    return RuleResult(
        rule=rule,
        group=group,
        answer=GateAnswer.INCONCLUSIVE,
        estimate=None,
        smallest_drop=None,
        reasons=(reason,),
    )


def _drop_at(rule: Rule, estimate: Estimate) -> float | None:
    """Return the smallest visible drop below a threshold on a share of runs.

    The standard error is carried from the estimate to the threshold by sqrt(p (1 - p)). None where
    either is 0 or 1, and for figures that are no share.
    """
    value, bound = estimate.value, rule.bound
    if rule.name in ("mean_steps", "median_steps", "success_run"):
        return None
    here = _smallest_drop(estimate)
    if here is None or value is None or not (0.0 < value < 1.0 and 0.0 < bound < 1.0):
        return None
    drop = here * float(np.sqrt(bound * (1.0 - bound) / (value * (1.0 - value))))
    return drop if drop <= rule.room else math.inf


def _smallest_drop(estimate: Estimate) -> float | None:
    """Return (z + .84) standard errors, the interval's half width being z of them."""
    from sojourn.stats import normal_quantile

    if estimate.interval is None:
        return None
    z = normal_quantile(estimate.interval.ci_prob)
    return estimate.interval.width / 2 * (z + _POWER_QUANTILE) / z


def _of_domain(rule: Rule, domain: DomainAssessment) -> Estimate:
    figures = domain.reliability
    if rule.name != "success_run":
        found: Estimate = getattr(figures, rule.name)
        return found
    row = figures.row("continuing", rule.argument or 0)
    return _none(f"R({rule.argument}) was not computed") if row is None else row.estimate


def _none(reason: str) -> Estimate:
    return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))


def not_worse(comparison: Comparison, *, tolerance: float) -> RuleResult:
    """Answer whether B succeeds at most `tolerance` less often than A, by its interval.

    Parameters
    ----------
    comparison : Comparison
        Made with ``ci_prob=two_sided(confidence)``.
    tolerance : float
        The loss that is of no matter.
    """
    estimate = comparison.decided_by
    rule = Rule(name="success_rate", argument=None, sign=">=", bound=-tolerance)
    few = any(f"fewer than {MIN_UNITS}" in note for note in comparison.notes)
    answer = GateAnswer.INCONCLUSIVE if few else rule.answer(estimate)
    return RuleResult(
        rule=f"not worse than {comparison.name_a} by more than {tolerance:g}",
        group=comparison.name_b,
        answer=answer,
        estimate=estimate,
        smallest_drop=_smallest_drop(estimate),
        reasons=(*estimate.reasons, *comparison.notes),
    )


def _minimum_words(minimum: float) -> str:
    return f"every task >= {minimum:g}, as observed"


def _per_task(
    corpus: TraceCorpus, resolved: ResolvedRuns, group: str, minimum: float
) -> RuleResult:
    """Answer whether every task's observed share of successes reaches a minimum.

    The answer is on what was observed, not inferred: a few attempts say little of one task.
    """
    counts = TaskCounts.from_runs(resolved.success, resolved.task)
    short = np.flatnonzero(counts.successes < minimum * counts.attempts)
    names = [
        f"{corpus.tasks.task_id[int(resolved.task_row[t])]} "
        f"({counts.successes[t]} of {counts.attempts[t]})"
        for t in short[:_MAX_NAMED].tolist()
    ]
    more = f" and {short.size - len(names)} more" if short.size > len(names) else ""
    return RuleResult(
        rule=_minimum_words(minimum),
        group=group,
        answer=GateAnswer.FAIL if short.size else GateAnswer.PASS,
        estimate=None,
        smallest_drop=None,
        reasons=(f"{n_of(short.size, 'task')} below it: {', '.join(names)}{more}",)
        if short.size
        else (),
    )
