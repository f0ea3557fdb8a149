"""Every real corpus gives JSON that keeps the schema, and says nothing that the schema leaves out.

The page and the text are made too: labels, lengths and corners of real logs are what no made-up
corpus has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from report.test_page import structure_of
from sojourn.assess import assess_groups
from sojourn.assess.chain import ChainSettings
from sojourn.assess.sessions import assess_session_groups
from sojourn.corpus import Policy, TraceCorpus
from sojourn.readers import read_sessions, read_traces
from sojourn.report import html_text, json_text

pytestmark = pytest.mark.thorough

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "src/sojourn/report/schema.json").read_text(encoding="utf-8")
)
RUNS = (
    "inspect",
    "langfuse",
    "lm-eval",
    "mini-swe-agent/deepseek_chat_test_1-100",
    "mint-bench/gpt-3.5-turbo-0613/F=None/max5_p2+tool+cd",
    "openhands",
    "otel-spans",
    "reflexion",
    "swe-agent",
    "tau-bench/gpt-4o-airline.json",
    "tau2-bench",
)
# Few draws: what is tested is the form of the answer.
SETTINGS = ChainSettings(
    candidates=("homogeneous", "progress"),
    n_draws=19,
    n_simulated=19,
    n_refits=19,
    n_forecast=9,
)
TYPED = ("LawRow", "Heterogeneity", "TaskClasses", "Skill", "CalibrationBin", "Forecast", "Fix")


def undeclared(value: object, schema: dict[str, Any], where: str) -> Iterator[str]:
    """Yield the keys of a document that its schema does not name, below fully typed parts."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "oneOf" in schema:
        (schema,) = (part for part in schema["oneOf"] if part != {"type": "null"})
        yield from () if value is None else undeclared(value, schema, where)
    elif isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            if key not in schema["properties"]:
                yield f"{where}.{key}"
            else:
                yield from undeclared(inner, schema["properties"][key], f"{where}.{key}")
    elif isinstance(value, list) and "items" in schema:
        for inner in value:
            yield from undeclared(inner, schema["items"], f"{where}[]")


def check(document: dict[str, Any]) -> None:
    jsonschema.validate(document, SCHEMA)
    for group in document.get("groups", [document]):
        if group["kind"] != "traces":
            continue
        parts = {
            "heterogeneity": (group["heterogeneity"], "Heterogeneity"),
            "forecast": (group["forecast"], "Forecast"),
            "sensitivities": (group["sensitivities"], "Fix"),
            "task_classes": ((group["process"] or {}).get("task_classes"), "TaskClasses"),
        }
        for name, (value, definition) in parts.items():
            for item in value if isinstance(value, list) else [value]:
                if item is not None:
                    schema = SCHEMA["$defs"][definition]
                    assert list(undeclared(item, schema, name)) == []


def part_of(corpus: TraceCorpus) -> TraceCorpus:
    """Return some runs of the two largest groups: the form of an answer does not need more."""
    groups = sorted((runs for _, runs in corpus.groups()), key=len, reverse=True)[:2]
    return corpus.select(np.sort(np.concatenate([runs[:80] for runs in groups])))


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RUNS)
def test_runs(real_logs: Path, name: str, whole: bool) -> None:
    corpus = read_traces(real_logs / name)
    if not whole:
        corpus = part_of(corpus)
    # Some formats carry no verdict: counted as failures, their runs still make a whole document.
    result = assess_groups(
        corpus, chain=SETTINGS, policy=Policy(faults="failure"), n_resamples=99, rng=0
    )
    check(json.loads(json_text(result)))
    structure_of(html_text(result))
    assert max(len(line) for line in str(result).splitlines()) <= 160


@pytest.mark.parametrize("name", ["autogpt-benchmarks/reports/mini-agi", "dynamic-cheatsheet"])
def test_sessions(real_logs: Path, name: str) -> None:
    result = assess_session_groups(read_sessions(real_logs / name), rng=0, n_states=(1,))
    check(json.loads(json_text(result)))
    structure_of(html_text(result))


@pytest.mark.parametrize("name", TYPED)
def test_typed_parts_name_all_they_require(name: str) -> None:
    definition = SCHEMA["$defs"][name]
    assert set(definition["required"]) <= set(definition["properties"])
    for inner in definition["properties"].values():
        assert inner, "a property without a type says nothing"
