"""Forecasts and fixes inside an assessment: with their claim, on the page, and only where due."""

from __future__ import annotations

import json

import pytest

from sojourn.assess import TraceAssessment, assess_traces
from sojourn.assess.chain import ChainSettings
from sojourn.corpus.simulated import corpus_of_sequences
from sojourn.process import preset, simulate_tasks
from sojourn.report import json_text
from sojourn.report.html import html_text

SETTINGS = ChainSettings(n_draws=199, n_forecast=49, process="homogeneous")


def assessed(n_tasks: int, settings: ChainSettings) -> TraceAssessment:
    runs = simulate_tasks(preset("react"), n_tasks, 4, rng=3)
    return assess_traces(
        corpus_of_sequences(runs, model="react"), chain=settings, n_resamples=199, rng=0
    )


@pytest.fixture(scope="module")
def whole() -> TraceAssessment:
    return assessed(100, SETTINGS)


def test_the_claim_stands_among_the_others_and_carries_the_figures(whole: TraceAssessment) -> None:
    assert whole.chain is not None
    found = whole.chain.forecast
    assert found is not None
    assert found.claim in whole.claims
    document = json.loads(json_text(whole))
    assert document["forecast"]["verdict"] == str(found.claim.verdict)
    assert document["forecast"]["process"] == "homogeneous"
    states = [row["state"] for row in document["sensitivities"]]
    assert set(states) <= set(whole.chain.states.state_names)
    text = str(whole)
    assert "What becomes of a run under way?" in text
    assert "structural, not causal" in text


def test_shares_of_failures_are_those_counted(whole: TraceAssessment) -> None:
    assert whole.chain is not None
    assert whole.chain.forecast is not None
    fixes = {row.state: row.gain.value for row in whole.chain.forecast.fixes or ()}
    for row in whole.chain.rows:
        # The chain's share of runs that fail in a state is the counted one, up to smoothing.
        assert fixes[row.name] == pytest.approx(row.n_failure / 400, abs=0.01)


def test_the_page_asks_and_answers_both_questions(whole: TraceAssessment) -> None:
    page = html_text(whole)
    for words in ("What becomes of a run under way?", "Which step is worth fixing?", "Calibration"):
        assert words in page
    assert page.index("What becomes of a run") < page.index("What was counted")


@pytest.mark.parametrize(
    ("n_tasks", "settings"),
    [
        (60, ChainSettings(n_draws=199, quick=True)),
        (60, ChainSettings(n_draws=199, process="homogeneous", n_forecast=0)),
        (60, ChainSettings(method="published", process="homogeneous")),
    ],
)
def test_where_it_is_not_due_there_is_none(n_tasks: int, settings: ChainSettings) -> None:
    result = assessed(n_tasks, settings)
    assert result.chain is not None
    assert result.chain.forecast is None
    document = json.loads(json_text(result))
    assert document["forecast"] is None
    assert document["sensitivities"] is None
    assert "forecast" not in {claim.claim for claim in result.claims}


def test_too_few_tasks_are_told_in_the_claim() -> None:
    result = assessed(19, SETTINGS)
    assert result.chain is not None
    assert result.chain.forecast is None
    (claim,) = (claim for claim in result.claims if claim.claim == "forecast")
    assert claim.verdict == "inconclusive"
    assert claim.reasons == ("19 of the 20 tasks or clusters that are needed",)
    assert claim.next is not None
