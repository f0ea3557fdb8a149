"""What ``compare --json`` writes keeps the schema that ships."""

from __future__ import annotations

import json

import jsonschema
import pytest

from builders import corpus_of
from report.test_page import SCHEMA
from report.test_session_comparison_page import log_of
from sojourn.assess import compare_many, compare_sessions, compare_traces
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
