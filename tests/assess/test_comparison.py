"""Comparisons whose answer is known: pairing, answers, flips, and three models on 100 questions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar

from builders import corpus_of
from sojourn.assess import Answer, compare_many, compare_traces
from sojourn.corpus import TraceCorpus
from sojourn.errors import NothingUsableError
from sojourn.estimates import Status
from sojourn.readers import read_traces
from sojourn.report import json_text
from sojourn.report.html import html_text


def test_clear_gains_losses_and_ties_are_told_apart() -> None:
    base = corpus_of(["sf", "ff", "fs"] * 20)
    better = corpus_of(["ss", "fs", "ss"] * 20)
    found = compare_traces(base, better, rng=0)
    assert found.answer is Answer.BETTER
    assert "no difference at any task: p < .001 (" in str(found)
    assert compare_traces(better, base, rng=0).answer is Answer.WORSE
    assert compare_traces(base, base, rng=0, margin=0.5).answer is Answer.EQUIVALENT
    same = compare_traces(base, base, rng=0, margin=0.001)
    assert same.answer is Answer.INCONCLUSIVE
    assert any("same outcomes" in note for note in same.notes)


def test_figures_are_those_counted_by_hand() -> None:
    found = compare_traces(
        corpus_of(["ss", "sf", "ff", "sf"] * 6), corpus_of(["ss", "ss", "sf", "ff"] * 6), rng=0
    )
    rate, hat = found.row("success rate"), found.row("pass^2")
    assert rate is not None
    assert hat is not None
    assert (rate.a, rate.b, rate.population.value) == pytest.approx((0.5, 0.625, 0.125))
    assert (hat.a, hat.b, hat.population.value) == pytest.approx((0.25, 0.5, 0.25))
    assert found.paired
    assert found.n_shared == 24
    assert found.estimand == "same_tasks"
    gains = [flip.successes_b - flip.successes_a for flip in found.flips]
    assert gains == [1] * 12 + [-1] * 6


def test_tasks_of_one_set_only_are_left_out_and_counted() -> None:
    found = compare_traces(corpus_of(["s"] * 30), corpus_of(["s"] * 40), rng=0)
    assert (found.n_shared, found.n_only_a, found.n_only_b) == (30, 0, 10)
    assert any("10 tasks" in note for note in found.notes)
    assert found.n_runs_b == 30


def test_other_task_sets_are_samples_unless_ids_are_said_to_match() -> None:
    a, b = corpus_of(["s", "f"] * 20), corpus_of(["s", "s"] * 20, task_set="other")
    apart = compare_traces(a, b, rng=0)
    assert not apart.paired
    assert any("--match-ids" in note for note in apart.notes)
    assert apart.flips == ()
    together = compare_traces(a, b, rng=0, by_id=True)
    assert together.paired
    assert len(together.flips) == 20


def test_few_tasks_decide_nothing() -> None:
    found = compare_traces(corpus_of(["ff"] * 19), corpus_of(["ss"] * 19), rng=0)
    assert found.answer is Answer.INCONCLUSIVE
    assert found.p_value < 1e-6
    assert {row.population.status for row in found.rows} == {Status.INCONCLUSIVE}
    assert "? 19 of the 20 tasks or clusters that are needed" in str(found)
    enough = compare_traces(corpus_of(["ff"] * 20), corpus_of(["ss"] * 20), rng=0)
    assert enough.answer is Answer.BETTER
    assert enough.rows[0].population.status is Status.SUPPORTED


def test_a_set_without_runs_that_count_is_named() -> None:
    with pytest.raises(NothingUsableError, match="new: no run counts"):
        compare_traces(corpus_of(["s"]), corpus_of(["x"]), names=("old", "new"))


def test_a_family_is_adjusted_and_needs_two() -> None:
    arms = {
        "a": corpus_of(["sf"] * 30),
        "b": corpus_of(["ss"] * 30),
        "c": corpus_of(["sf", "ss"] * 15),
    }
    family = compare_many(arms, rng=0)
    p = [comparison.p_value for comparison in family]
    assert [comparison.adjusted_p for comparison in family] == pytest.approx([2 * p[0], p[1]])
    with pytest.raises(ValueError, match="two sets"):
        compare_many({"a": arms["a"]})
    with pytest.raises(ValueError, match="no set is called 'z'"):
        compare_many(arms, baseline="z")


def test_same_seed_same_answer_and_the_json_has_no_nan() -> None:
    arms = {"a": corpus_of(["sf", "ff"] * 20), "b": corpus_of(["ss", "sf"] * 20)}
    first, second = (json_text(compare_many(arms, rng=3)) for _ in range(2))
    assert first == second
    assert json.loads(first)["kind"] == "comparison"


def test_the_page_says_the_answer_and_escapes_names() -> None:
    hostile = '<script>alert("x")</script>'
    arms = {hostile: corpus_of(["sf", "ff"] * 20), "b": corpus_of(["ss", "sf"] * 20)}
    page = html_text(compare_many(arms, rng=3))
    assert "<script" not in page
    assert "Which tasks flipped?" in page
    assert ">better<" in page


@pytest.fixture(scope="module")
def popularity(real_logs: Path) -> dict[str, TraceCorpus]:
    corpus = read_traces(real_logs / "inspect")
    found = {}
    for group, runs in corpus.groups(("task_set", "model")):
        if dict(group.labels)["task_set"] == "popularity" and runs.size == 100:
            found[dict(group.labels)["model"] or ""] = corpus.select(runs)
    return found


def test_three_models_on_the_same_hundred_questions(popularity: dict[str, TraceCorpus]) -> None:
    arms = dict(sorted(popularity.items(), key=lambda item: int((item[1].outcome == 0).sum())))
    rates = {}
    outcomes = {}
    family = compare_many(arms, rng=0, baseline="openai/gpt-5")
    for comparison in family:
        row = comparison.rows[0]
        rates[comparison.name_a], rates[comparison.name_b] = row.a, row.b
    assert sorted(rates.values()) == pytest.approx([0.52, 0.57, 0.66])
    from sojourn.corpus import resolve

    for name, corpus in arms.items():
        runs = resolve(corpus)
        ids = [corpus.tasks.task_id[int(row)] for row in runs.task_row[runs.task]]
        outcomes[name] = dict(zip(ids, runs.success.tolist(), strict=True))
    for comparison in family:
        a, b = outcomes[comparison.name_a], outcomes[comparison.name_b]
        assert set(a) == set(b)
        table = np.zeros((2, 2), int)
        for task in a:
            table[int(a[task]), int(b[task])] += 1
        assert comparison.p_value == pytest.approx(mcnemar(table, exact=True).pvalue)
        assert len(comparison.flips) == table[0, 1] + table[1, 0]


def singles(n_both: int, n_lost: int, n_gained: int, n_tasks: int = 100) -> TraceCorpus:
    """Return single attempts at tasks of which the baseline solves the first n_both + n_lost."""
    rest = n_tasks - n_both - n_lost - n_gained
    return corpus_of(["s"] * n_both + ["f"] * n_lost + ["s"] * n_gained + ["f"] * rest)


def test_of_several_sets_an_answer_holds_with_all_in_view() -> None:
    baseline = singles(60, 0, 0)
    arms = {"base": baseline, "one": singles(50, 10, 2), "two": singles(52, 8, 1)}
    alone = compare_traces(baseline, arms["one"], rng=0)
    assert alone.answer is Answer.WORSE
    family = compare_many({**arms, "three": singles(51, 9, 1)}, rng=0)
    assert {c.answer for c in family} == {Answer.INCONCLUSIVE}
    told = "inconclusive with all 3 comparisons in view, worse by itself"
    assert all(told in c.notes for c in family)
    assert family.comparisons[0].smallest_visible > alone.smallest_visible
    assert family.comparisons[0].rows[0].population == alone.rows[0].population
    sure = compare_many({**arms, "three": singles(20, 40, 1)}, rng=0)
    assert [c.answer for c in sure] == [Answer.INCONCLUSIVE, Answer.INCONCLUSIVE, Answer.WORSE]


@pytest.mark.statistical
def test_no_set_is_called_better_or_worse_more_often_than_stated() -> None:
    rng = np.random.default_rng(3)
    wrong, n_sets = 0, 200
    for _ in range(n_sets):
        easy = rng.beta(1.0, 1.0, 60)
        words = [
            ["".join("s" if hit else "f" for hit in rng.random(2) < p) for p in easy]
            for _ in range(5)
        ]
        arms = {str(k): corpus_of(word) for k, word in enumerate(words)}
        family = compare_many(arms, n_resamples=99, rng=0)
        wrong += any(c.answer in (Answer.BETTER, Answer.WORSE) for c in family)
    # Four comparisons; one by one the share would be about .15. Monte Carlo error 1.6 points.
    assert wrong / n_sets <= 0.05 + 2 * 0.016
