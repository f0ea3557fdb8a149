"""What ``compare``, ``gate`` and ``plan`` write as JSON keeps the schema that ships."""

from __future__ import annotations

import json

import jsonschema
import pytest

from builders import corpus_of
from report.test_page import SCHEMA
from report.test_session_comparison_page import log_of
from sojourn.assess import assess_sessions, compare_many, compare_sessions, compare_traces
from sojourn.assess.gate import apply_rules, apply_session_rules
from sojourn.assess.plan import fit_task_law, make_plan
from sojourn.assess.rules import Rule
from sojourn.data import example_path
from sojourn.readers import read_traces
from sojourn.report import json_text

A, B = ["sf", "ff", "fs", "ss"] * 6, ["ss", "fs", "ss", "sf"] * 6


def check(result: object) -> dict[str, object]:
    document: dict[str, object] = json.loads(json_text(result))  # type: ignore[arg-type]
    jsonschema.validate(document, SCHEMA)
    return document


def test_a_comparison_of_logged_steps_keeps_the_schema() -> None:
    corpus = read_traces(example_path())
    first = corpus.task_repeat < 2
    found = check(
        compare_traces(
            corpus.select(first.nonzero()[0]), corpus.select((~first).nonzero()[0]), rng=0
        )
    )
    assert found["flips"]
    assert found["transitions"]


@pytest.mark.parametrize("a", [A, ["s"], ["ff"] * 30], ids=["plain", "one run", "none succeeds"])
def test_corners_keep_the_schema(a: list[str]) -> None:
    check(compare_traces(corpus_of(a), corpus_of(B), rng=0))
    check(compare_traces(corpus_of(a), corpus_of(B, task_set="other"), rng=0))


def test_several_comparisons_keep_the_schema() -> None:
    sets = {"a": corpus_of(A), "b": corpus_of(B), "c": corpus_of(A)}
    found = check(compare_many(sets, baseline="a", rng=0))
    assert found["kind"] == "comparisons"


def test_compared_sessions_keep_the_schema() -> None:
    found = check(compare_sessions(log_of(3), log_of(8), names=("a", "b"), n_max=5, rng=0))
    assert found["kind"] == "session_comparison"


def test_a_gate_keeps_the_schema() -> None:
    rules = [Rule.parse(text) for text in ("pass^2 >= 0.5", "median_steps <= 3", "pass^9 >= .1")]
    answered = check(apply_rules(corpus_of(A), rules, minimum=0.6, n_resamples=99, rng=0))
    assert {rule["answer"] for rule in answered["rules"]} >= {"fail", "inconclusive"}
    sessions = [assess_sessions(log_of(3), ci_prob=0.9, rng=0)]
    check(apply_session_rules(sessions, [Rule.parse("long_run >= .1")], confidence=0.95))


def test_a_plan_keeps_the_schema() -> None:
    rule = Rule.parse("pass^2 >= 0.3")
    law = fit_task_law(corpus_of(A), rule)
    plan = check(make_plan(law, rule=rule, attempts=(2,), tasks=(20, 40), n_draws=100, rng=0))
    assert plan["rows"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("answer", "splendid"), ("chance_better", 1.5), ("rows", []), ("p_value", None)],
)
def test_not_anything_keeps_the_schema(field: str, value: object) -> None:
    document = check(compare_traces(corpus_of(A), corpus_of(B), rng=0))
    broken = {**document, field: value}
    if value is None:
        del broken[field]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


@pytest.mark.parametrize(("field", "value"), [("rules", []), ("answer", "maybe"), ("kind", "door")])
def test_not_any_gate_keeps_the_schema(field: str, value: object) -> None:
    rules = [Rule.parse("pass^2 >= 0.5")]
    document = check(apply_rules(corpus_of(A), rules, n_resamples=99, rng=0))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, field: value}, SCHEMA)
