"""A result in a notebook: the page's headline and claims, escaped, without script or figures."""

from __future__ import annotations

import pytest

from builders import corpus_of
from report.test_page import structure_of
from sojourn.assess import assess_groups, compare_many, compare_sessions
from sojourn.assess.sessions import assess_sessions
from sojourn.corpus import CorpusBuilder, SessionLog, SessionLogBuilder, TraceCorpus
from sojourn.records import Outcome, TaskResult

EVIL = "<script>alert(1)</script>"


def log_of(seed: int) -> SessionLog:
    builder = SessionLogBuilder()
    for t in range(40):
        outcome = Outcome.SUCCESS if (t * seed) % 3 else Outcome.FAILURE
        builder.add(
            TaskResult(session_id="s", position=t, outcome=outcome, domain=EVIL, model=EVIL)
        )
    return builder.build()


def corpus_of_two() -> TraceCorpus:
    builder = CorpusBuilder()
    for model in ("a", EVIL):
        part = corpus_of(["ssf", "sff"] * 8, model=model)
        for k in range(len(part)):
            builder.add(part.trace(k))
    return builder.build()


def shown() -> list[tuple[str, object]]:
    corpus = corpus_of(["ssf", "sff", "fff"] * 8, model=EVIL)
    groups = assess_groups(corpus, chain=None, n_resamples=99, rng=0)
    other = corpus_of(["sss", "sff", "ssf"] * 8, model=EVIL)
    family = compare_many({"a": corpus, EVIL: other}, baseline="a", n_resamples=99, rng=0)
    return [
        ("groups", groups),
        ("one", groups.groups[0]),
        ("several", assess_groups(corpus_of_two(), chain=None, n_resamples=99, rng=0)),
        ("family", family),
        ("comparison", family.comparisons[0]),
        ("sessions", assess_sessions(log_of(1), rng=0, n_states=(1,))),
        ("two logs", compare_sessions(log_of(1), log_of(2), names=("a", EVIL), n_max=2, rng=0)),
    ]


RESULTS = shown()


@pytest.mark.parametrize(("name", "result"), RESULTS, ids=[name for name, _ in RESULTS])
def test_fragment_is_whole_escaped_and_without_script(name: str, result: object) -> None:
    text = result._repr_html_()  # type: ignore[attr-defined]
    parser = structure_of(text)
    assert not parser.tags & {"script", "svg", "html", "body", "h1"}
    assert parser.handlers == []
    assert parser.addresses == []  # what the page's links lead to is not in the cell
    assert "&lt;script&gt;" in text
    assert 'class="card' in text
    assert text.startswith('<div class="sojourn">')


def test_fragment_shows_the_headline_and_the_claims() -> None:
    text = dict(RESULTS)["one"]._repr_html_()  # type: ignore[attr-defined]
    assert "24 tasks, 3 attempts each" in text
    assert "<strong>0.333</strong>" in text
    assert "success rate <code>rate</code>" in text
