"""A gate in the forms that pipelines read: text, Markdown, JUnit XML, annotations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.assess.gate import GateAnswer, RuleResult
from sojourn.estimates import Estimate
from sojourn.tables import clean, escape, text_table, wrapped
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
        "| answer | rule | group | figure | visible drop |",
        "|---|---|---|---|---|",
    ]
    for result in gate.results:
        cells = (
            str(result.answer),
            escape.markdown(result.rule),
            escape.markdown(result.group),
            escape.markdown(_figure(result.estimate)),
            _drop(result.smallest_drop),
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
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
    cases = [_case(result, inconclusive) for result in gate.results]
    failures = sum("<failure" in case for case in cases)
    errors = sum("<error" in case for case in cases)
    head = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites {head}><testsuite name="sojourn gate" {head}>',
            *cases,
            "</testsuite></testsuites>",
            "",
        ]
    )


def _case(result: RuleResult, inconclusive: str) -> str:
    told = "; ".join((_figure(result.estimate), *result.reasons))
    group, rule = escape.xml_text(result.group), escape.xml_text(result.rule)
    name = f'<testcase classname="{group}" name="{rule}"'
    answer = result.answer
    if answer is GateAnswer.INCONCLUSIVE and inconclusive != "error":
        answer = GateAnswer(inconclusive)
    if answer is GateAnswer.PASS:
        return f"{name}><system-out>{escape.xml_text(told)}</system-out></testcase>"
    kind = "failure" if answer is GateAnswer.FAIL else "error"
    return f'{name}><{kind} message="{escape.xml_text(f"{result.answer}: {told}")}"/></testcase>'


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
