"""A gate in the forms that pipelines read: text, Markdown, JUnit XML, annotations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.assess.gate import RuleResult
from sojourn.assess.rules import GateAnswer
from sojourn.estimates import Estimate
from sojourn.tables import clean, escape, markdown_table, text_table, wrapped
from sojourn.tables.junit import Case, Mark, junit_document
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from sojourn.assess.gate import Gate

__all__ = ["describe", "junit", "markdown", "workflow_commands"]


def describe(gate: Gate) -> str:
    """Return the gate as text: the answer, a table of rules, reasons under it."""
    rows = [
        (
            str(result.answer),
            clean(result.rule, limit=60),
            clean(result.group, limit=44),
            _figure(result.estimate),
            _drop(result.smallest_drop),
        )
        for result in gate.results
    ]
    lines = [
        f"gate: {gate.answer} (each answer with {percent(gate.confidence)} confidence)",
        "",
        *text_table(("answer", "rule", "group", "figure", "visible drop"), rows, left=3),
        "",
    ]
    told = [
        f"- {clean(result.rule, limit=60)}: {clean(reason, limit=500)}"
        for result in gate.results
        for reason in result.reasons
    ]
    told += [f"- {note}" for note in _notes(gate)]
    return "\n".join([*lines, *wrapped(told)])


def _notes(gate: Gate) -> list[str]:
    estimands = {result.estimate.estimand for result in gate.results if result.estimate}
    unseen = any(_drop(result.smallest_drop) == "none" for result in gate.results)
    notes = [
        "visible drop: how far on the wrong side of its threshold a figure must truly be for such "
        "data to fail it in 80 % of cases" + (", none: nowhere" if unseen else "")
    ]
    if "same_tasks" in estimands:
        notes.append("rates are for these tasks, run again; --estimand population: tasks like them")
    return [*notes, *gate.notes]


def _figure(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return "-"
    text = f"{estimate.value:.3f}"
    if estimate.interval is not None:
        text += f" [{estimate.interval.low:.3f}, {estimate.interval.high:.3f}]"
    return text


def _drop(drop: float | None) -> str:
    if drop is None:
        return "-"
    return f"{drop:.3f}" if math.isfinite(drop) else "none"


def markdown(gate: Gate) -> str:
    """Return the gate as a Markdown section, labels made harmless."""
    lines = [
        f"## Sojourn gate: {gate.answer}",
        "",
        f"Each answer with {percent(gate.confidence)} confidence.",
        "",
    ]
    rows = [
        (
            str(result.answer),
            result.rule,
            str(result.group),
            _figure(result.estimate),
            _drop(result.smallest_drop),
        )
        for result in gate.results
    ]
    lines += markdown_table(("answer", "rule", "group", "figure", "visible drop"), rows)
    for result in gate.results:
        lines += [
            f"- {escape.markdown(result.rule)}: {escape.markdown(reason)}"
            for reason in result.reasons
        ]
    return "\n".join([*lines, *(f"- {escape.markdown(note)}" for note in _notes(gate)), ""])


def junit(gate: Gate, *, inconclusive: str = "error") -> str:
    """Return the gate as JUnit XML, a test case a rule and group.

    Parameters
    ----------
    gate : Gate
        The answers.
    inconclusive : {"error", "pass", "fail"}
        What an inconclusive answer becomes.
    """
    return junit_document([("sojourn gate", [_case(one, inconclusive) for one in gate.results])])


_MARKS = {
    GateAnswer.PASS: Mark.PASS,
    GateAnswer.FAIL: Mark.FAILURE,
    GateAnswer.INCONCLUSIVE: Mark.ERROR,
}


def _case(result: RuleResult, inconclusive: str) -> Case:
    told = "; ".join((_figure(result.estimate), *result.reasons))
    answer = result.answer
    if answer is GateAnswer.INCONCLUSIVE and inconclusive != "error":
        answer = GateAnswer(inconclusive)
    if answer is not GateAnswer.PASS:
        told = f"{result.answer}: {told}"
    return Case(str(result.group), result.rule, _MARKS[answer], told)


def workflow_commands(gate: Gate) -> Sequence[str]:
    """Return workflow commands that mark rules which do not pass, one a line."""
    lines = []
    for result in gate.results:
        if result.answer is GateAnswer.PASS:
            continue
        level = "error" if result.answer is GateAnswer.FAIL else "warning"
        told = "; ".join((_figure(result.estimate), *result.reasons))
        title = escape.annotation_property(f"{result.answer}: {result.rule}")
        message = escape.annotation_data(f"{result.group}: {told}")
        lines.append(f"::{level} title={title}::{message}")
    return lines
