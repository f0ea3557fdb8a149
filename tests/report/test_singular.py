"""One run, one task, one step: what is counted is named in the singular."""

from __future__ import annotations

import re

import pytest

from builders import corpus_of
from sojourn.assess import assess_traces
from sojourn.attempts import TaskCounts, fit_beta_binomial
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.incidence import fit_incidence
from sojourn.process.order_k import fit_order
from sojourn.process.semi_markov import fit_semi_markov
from sojourn.report.html import html_text
from sojourn.sequences import SUCCESS, StateSequences

SEVERAL = re.compile(
    r"(?<![\d.,#])1 (?:runs|tasks|units|states|steps|draws|sessions|visits|contexts|attempts)\b"
)


@pytest.fixture(scope="module")
def one() -> StateSequences:
    """A single run of one task, of a single step."""
    return StateSequences(
        states=[0], offsets=[0, 1], event=[SUCCESS], task=[0], unit=[0], state_names=("look",)
    )


def test_fits_of_one_run(one: StateSequences) -> None:
    told = [
        str(result)
        for result in (
            fit_homogeneous(one),
            fit_order(one, 2),
            fit_semi_markov(one),
            fit_incidence([1], [SUCCESS], [0], n_resamples=99, rng=0),
            fit_beta_binomial(TaskCounts(successes=[1], attempts=[1], unit=[0])),
        )
    ]
    assert [SEVERAL.findall(text) for text in told] == [[]] * len(told)
    assert "1 state, 1 run, 1 task" in told[0]


def test_a_page_and_a_text_of_one_run() -> None:
    result = assess_traces(corpus_of(["s"], n_steps=1), n_resamples=99, rng=0)
    text, page = str(result), html_text(result)
    assert SEVERAL.findall(text) == []
    assert SEVERAL.findall(page) == []
    assert "only 1 task or cluster" in text
