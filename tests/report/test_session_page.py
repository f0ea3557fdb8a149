"""The page and the JSON of sessions: whole, safe, and of the result's own figures."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from report.test_page import structure_of
from sojourn.assess.session_results import GroupedSessionAssessment, SessionAssessment
from sojourn.assess.sessions import assess_session_groups, assess_sessions
from sojourn.corpus import SessionLog, SessionLogBuilder
from sojourn.records import Outcome, TaskResult
from sojourn.report import html_text, json_text
from sojourn.session import SamplerSettings

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "src/sojourn/report/schema.json").read_text(encoding="utf-8")
)
EVIL = "<script>alert(1)</script>\x1b[31m‮"
# Long stretches of successes and of failures, so that hidden states are chosen.
CLUSTERED = ("s" * 20 + "f" * 12) * 4


def log_of(words: list[str], *, label: str = "d", domains: int = 1) -> SessionLog:
    builder = SessionLogBuilder()
    for r, word in enumerate(words):
        for t, letter in enumerate(word):
            builder.add(
                TaskResult(
                    session_id=f"{label} {r}",
                    position=t,
                    outcome=Outcome.SUCCESS if letter == "s" else Outcome.FAILURE,
                    domain=f"{label} {t % domains}",
                    subdomain=f"{label} {t % 3}",
                    model=label,
                )
            )
    return builder.build()


@pytest.fixture(scope="module")
def clustered() -> SessionAssessment:
    return assess_sessions(log_of([CLUSTERED, CLUSTERED[7:]]), rng=0, n_states=(1, 2))


def test_page_is_whole_loads_nothing_and_runs_nothing(clustered: SessionAssessment) -> None:
    text = html_text(clustered)
    parser = structure_of(text)
    assert "script" not in parser.tags
    assert parser.handlers == []
    assert all(address.startswith("#") for address in parser.addresses)
    assert text == html_text(clustered)


def test_page_gives_dependence_first_and_the_results_figures(clustered: SessionAssessment) -> None:
    text = html_text(clustered)
    assert clustered.domains[0].n_states == 2
    questions = ("order of outcomes matter", "next task succeed", "next n tasks", "hidden states?")
    places = [text.index(question) for question in questions]
    assert places == sorted(places)
    figures = clustered.domains[0].reliability
    for value in (figures.next_task.value, figures.long_run.value, figures.independent.value):
        assert f"{value:.3f}" in text
    assert text.count('<svg role="img"') == 4


def test_json_keeps_the_schema(clustered: SessionAssessment) -> None:
    document = json.loads(json_text(clustered))
    jsonschema.validate(document, SCHEMA)
    assert document["domains"][0]["selection"]["chosen"] == {"model": "hmm", "n_states": 2}
    document["domains"][0]["reliability"]["next_task"]["status"] = "certain"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize("words", [["s"], ["f" * 30], ["sfs" * 20, "s"]])
def test_corners_have_a_page_and_valid_json(words: list[str]) -> None:
    result = assess_sessions(log_of(words), rng=0, n_states=(1,))
    structure_of(html_text(result))
    jsonschema.validate(json.loads(json_text(result)), SCHEMA)


def test_several_domains_show_the_mix_under_both_conventions() -> None:
    result = assess_sessions(log_of(["sfss" * 20], domains=2), rng=0, n_states=(1,))
    text = html_text(result)
    structure_of(text)
    assert "mix of work" in text
    assert "domain per task" in text
    jsonschema.validate(json.loads(json_text(result)), SCHEMA)


def test_groups_stand_on_one_page_and_in_one_json() -> None:
    builder = SessionLogBuilder()
    for model in ("first", "second"):
        for t in range(30):
            outcome = Outcome.SUCCESS if t % 3 else Outcome.FAILURE
            builder.add(TaskResult(session_id="a", position=t, outcome=outcome, model=model))
    result = assess_session_groups(builder.build(), rng=0, n_states=(1,))
    assert isinstance(result, GroupedSessionAssessment)
    structure_of(html_text(result))
    assert "2 groups of sessions" in html_text(result)
    jsonschema.validate(json.loads(json_text(result)), SCHEMA)


def test_hostile_labels_reach_neither_terminal_nor_page_unescaped() -> None:
    result = assess_sessions(log_of(["sfs" * 10], label=EVIL, domains=2), rng=0, n_states=(1,))
    for text in (str(result), html_text(result)):
        assert "\x1b" not in text
        assert "‮" not in text
    assert "<script" not in html_text(result)


def test_claims_stand_in_words_with_their_codes(clustered: SessionAssessment) -> None:
    text = html_text(clustered)
    assert "the order of outcomes matters <code>order_matters</code>" in text
    assert '<td data-label="verdict" class="word unclaimed">inconclusive</td>' in text
    assert text.index("depend on one another") < text.index("What may be believed")


def test_every_figure_has_its_table(clustered: SessionAssessment) -> None:
    text = html_text(clustered)
    for caption in (
        "The sessions drawn",
        "Success by position",
        "Quantiles of the densities drawn",
        "R(n) = P(the next n tasks all succeed)",
        "Continuing the last session: posterior mean",
        "All of the next n tasks succeed, if all are of one subdomain",
        "Chains: R-hat",
    ):
        assert caption in text
    row = clustered.domains[0].reliability.functional("pass_at", start="continuing", n=3)
    assert row is not None
    assert f"{row.estimate.value:.3f}" in text
    assert "beta-binomial" in text


def test_asked_for_extras_reach_page_and_json() -> None:
    settings = SamplerSettings(warmup=100, draws=200, max_draws=200)
    log = log_of(["sffsss" * 10], domains=2)
    result = assess_sessions(
        log, rng=0, n_states=(1, 2), settings=settings, bootstrap=2, envelope=True
    )
    text = html_text(result)
    structure_of(text)
    # Two domains and the system, each caption three times (seen, and two labels).
    assert text.count("over the whole box of priors") == 9
    assert "parametric bootstrap: p" in text
    assert text.count('<svg role="img"') == 9
    jsonschema.validate(json.loads(json_text(result)), SCHEMA)
