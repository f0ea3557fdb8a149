"""The figures of results as plain numbers by name, for trackers of experiments.

Names are of letters, digits and underscores, which every tracker takes, and stay the same from run
to run: steps and tasks of curves are taken at 1, 2, 5, 10, 20, 50 and so on. Names from a log are
spelt in the same letters; two that would be spelt alike get numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import singledispatch
from itertools import takewhile
from typing import Any

from sojourn.assess.comparison_results import Answer, Comparison, ComparisonFamily
from sojourn.assess.gate import Gate
from sojourn.assess.results import GroupedAssessment, TraceAssessment
from sojourn.assess.rules import GateAnswer
from sojourn.assess.session_comparison import SessionComparison
from sojourn.assess.session_results import (
    DomainAssessment,
    GroupedSessionAssessment,
    SessionAssessment,
)
from sojourn.estimates import Claim, Estimate, Status, Verdict, number

__all__ = ["metrics"]

Numbers = dict[str, float]
_VERDICTS = {Verdict.ACCEPTED: 1.0, Verdict.INCONCLUSIVE: 0.0, Verdict.REJECTED: -1.0}
_ANSWERS = {GateAnswer.PASS: 1.0, GateAnswer.INCONCLUSIVE: 0.0, GateAnswer.FAIL: -1.0}
_SIGNS = (
    ("pass^", "pass_hat_"),
    ("pass@", "pass_at_"),
    (">=", " ge "),
    ("<=", " le "),
    (">", " gt "),
    ("<", " lt "),
)
_LETTERS = 60


@singledispatch
def metrics(result: Any) -> Numbers:
    """Return the figures of a result by name; those without a value are left out."""
    raise TypeError(f"{type(result).__name__} has no metrics")


@metrics.register
def _(result: TraceAssessment) -> Numbers:
    rates, corpus = result.rates, result.corpus
    found: Numbers = {
        "n_runs": float(corpus.n_counted),
        "n_tasks": float(corpus.n_tasks),
        "n_cautions": float(len(result.cautions)),
        **_figure("success_rate", rates.success_rate),
        **_figure("success_rate_same_tasks", rates.same_tasks),
        "bracket_low": float(rates.bracket[0]),
        "bracket_high": float(rates.bracket[1]),
        **_figure("icc", result.heterogeneity.icc),
    }
    for row in result.attempts:
        found |= _figure(f"pass_hat_{row.k}", row.all_succeed)
        found |= _figure(f"pass_at_{row.k}", row.any_succeeds)
    curves = result.curves
    if curves is not None:
        for d in _round(curves.horizon):
            found |= _figure(f"success_within_{d}", curves.point(d))
        found |= _figure("steps_mean", curves.restricted_mean)
        found |= _figure("steps_median", curves.median)
        found |= _figure("steps_p90", curves.p90)
    if result.chain is not None:
        found |= _figure("success_ever", result.chain.success_ever())
    return found | _claims(result.claims)


@metrics.register
def _(result: DomainAssessment) -> Numbers:
    figures = result.reliability
    found: Numbers = {
        "n_tasks": float(result.n_tasks),
        "n_sessions": float(result.n_sessions),
        "n_states": float(result.n_states),
        "p_order": float(result.dependence.p_order),
    }
    for name in ("next_task", "fresh_session", "long_run", "independent", "observed"):
        found |= _figure(name, getattr(figures, name))
    for n in _round(max(row.n for row in figures.success_run)):
        row = figures.row("continuing", n)
        if row is not None:
            found |= _figure(f"success_run_{n}", row.estimate)
            found |= _figure(f"success_run_{n}_independent", row.independent)
    return found | _claims(result.claims)


@metrics.register
def _(result: SessionAssessment) -> Numbers:
    found = _joined("domain", [(d.name, metrics(d)) for d in result.domains])
    if len(result.domains) > 1:
        for row in result.system:
            found |= _figure(f"system_{row.convention}_success_run_{row.n}", row.estimate)
    return found


@metrics.register
def _(result: GroupedAssessment) -> Numbers:
    return _joined("group", [(str(group.group), metrics(group)) for group in result])


@metrics.register
def _(result: GroupedSessionAssessment) -> Numbers:
    return _joined("group", [(str(group.group), metrics(group)) for group in result])


@metrics.register
def _(result: Comparison) -> Numbers:
    found: Numbers = {
        "n_shared_tasks": float(result.n_shared),
        "p_value": float(result.p_value),
        "adjusted_p_value": float(result.adjusted_p),
        "chance_better": float(result.chance_better),
        **_answers(result.answer),
    }
    for row in result.rows:
        name = _spelt(row.name)
        found |= _figure(f"difference_{name}", row.population)
        if row.same_tasks is not None:
            found |= _figure(f"difference_{name}_same_tasks", row.same_tasks)
    visible = number(result.smallest_visible)
    return found if visible is None else found | {"smallest_visible": visible}


@metrics.register
def _(result: ComparisonFamily) -> Numbers:
    return _joined("set", [(pair.name_b, metrics(pair)) for pair in result])


@metrics.register
def _(result: SessionComparison) -> Numbers:
    parts = []
    for domain, answer in result.answers.items():
        found = _answers(answer)
        for row in (row for row in result.rows if row.domain == domain):
            name = f"{row.start}_success_run_{row.n}"
            found |= _figure(f"difference_{name}", row.difference)
            found[f"chance_better_{name}"] = float(row.chance_better)
        parts.append((domain, found))
    return _joined("domain", parts)


@metrics.register
def _(result: Gate) -> Numbers:
    groups: dict[str, Numbers] = {}
    several = len({item.rule for item in result.results}) < len(result.results)
    for item in result.results:
        name = _spelt(item.rule)
        found = groups.setdefault(item.group if several else "", {})
        found[f"{name}_answer"] = _ANSWERS[item.answer]
        if item.estimate is not None:
            found |= _figure(name, item.estimate)
    answers = [item.answer for item in result.results]
    counts = {
        f"n_{word}": float(answers.count(answer))
        for word, answer in (
            ("passed", GateAnswer.PASS),
            ("failed", GateAnswer.FAIL),
            ("inconclusive", GateAnswer.INCONCLUSIVE),
        )
    }
    return {"answer": _ANSWERS[result.answer], **counts, **_joined("group", groups.items())}


def _figure(name: str, estimate: Estimate) -> Numbers:
    """Return a figure with its bounds and whether it is supported; nothing if it has no value."""
    if estimate.value is None:
        return {}
    found = {name: float(estimate.value)}
    bounds = estimate.interval
    if bounds is not None:
        ends = ((f"{name}_low", number(bounds.low)), (f"{name}_high", number(bounds.high)))
        found |= {end: value for end, value in ends if value is not None}
    return found | {f"{name}_supported": float(estimate.status is Status.SUPPORTED)}


def _claims(claims: Iterable[Claim]) -> Numbers:
    return {f"claim_{claim.claim}": _VERDICTS[claim.verdict] for claim in claims}


def _answers(answer: Answer) -> Numbers:
    return {f"answer_{one}": float(one is answer) for one in Answer}


def _joined(kind: str, parts: Iterable[tuple[str, Numbers]]) -> Numbers:
    """Return the numbers of the one part as they are, those of several with its name in front."""
    named = list(parts)
    if len(named) == 1:
        return dict(named[0][1])
    found: Numbers = {}
    taken: set[str] = set()
    for name, numbers in named:
        front = _untaken(f"{kind}_{_spelt(name)}", taken)
        found |= {f"{front}_{key}": value for key, value in numbers.items()}
    return found


def _untaken(name: str, taken: set[str]) -> str:
    count, found = 1, name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


def _spelt(name: str) -> str:
    """Return a name in plain letters: ``pass^4 >= 0.5`` is ``pass_hat_4_ge_0_5``."""
    text = name.lower()
    for sign, word in _SIGNS:
        text = text.replace(sign, word)
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_")[:_LETTERS].rstrip("_") or "unnamed"


def _round(last: int) -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50 and so on up to `last`."""
    return takewhile(
        lambda n: n <= last, (lead * 10**power for power in range(12) for lead in (1, 2, 5))
    )
