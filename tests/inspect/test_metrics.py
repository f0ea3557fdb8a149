"""The metrics by themselves: what counts, units, and settings refused before an evaluation."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score

from sojourn._inspect import metrics as module
from sojourn.attempts import TaskCounts
from sojourn.attempts import pass_hat as estimate_pass_hat
from sojourn.inspect_ai import pass_at, pass_hat, success_rate

ROWS = {"x": "CCIC", "y": "IIC", "z": "CC", "w": "I"}


@pytest.fixture(autouse=True)
def _warn_anew() -> Iterator[None]:
    module._warn_once.cache_clear()
    yield
    module._warn_once.cache_clear()


def scores(rows: dict[str, Sequence[Any]], **metadata: dict[str, Any]) -> list[SampleScore]:
    return [
        SampleScore(score=Score(value=value), sample_id=id, sample_metadata=metadata.get(id))
        for id, row in rows.items()
        for value in row
    ]


def every_draw(k: int, *, quantifier: Any) -> float:
    """Return the mean over samples of the share of draws of k epochs that all, or any, succeed."""
    shares = [
        np.mean([quantifier(value == "C" for value in draw) for draw in combinations(row, k)])
        for row in ROWS.values()
        if len(row) >= k
    ]
    return float(np.mean(shares))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_figure_is_the_mean_over_all_draws_of_k_epochs(k: int) -> None:
    shown = pass_hat(k)(scores(ROWS)) | pass_at(k)(scores(ROWS))
    assert shown[f"pass_hat_{k}"] == pytest.approx(every_draw(k, quantifier=all))
    assert shown[f"pass_at_{k}"] == pytest.approx(every_draw(k, quantifier=any))
    assert shown[f"pass_hat_{k}_tasks"] == sum(len(row) >= k for row in ROWS.values())


def test_the_order_of_epochs_and_samples_is_of_no_matter(rng: np.random.Generator) -> None:
    given = scores(ROWS)
    mixed = [given[place] for place in rng.permutation(len(given))]
    assert pass_hat([1, 2])(mixed) == pytest.approx(pass_hat([1, 2])(given))


def test_what_a_score_says_is_what_the_reader_says() -> None:
    good = ["C", 1, 1.0, True, "yes", "1.0", 1 + 1e-9]
    bad = ["I", 0, "P", 0.5, False, "no", "N", 2, 0.999]
    unscored = [math.nan, "perhaps", math.inf, [1, 1]]
    shown = success_rate()(scores({"a": good, "b": bad, "c": unscored}))
    assert shown["success_rate"] == pytest.approx(len(good) / (len(good) + len(bad)))
    assert shown["success_rate_tasks"] == 2


def test_scores_that_say_nothing_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    given = scores({"a": ["C", {"x": 1}, "perhaps"], "b": ["perhaps"]})
    given.append(SampleScore(score=Score(value="C")))
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        pass_hat(1)(given)
        pass_hat(1)(given)
    assert sorted(record.getMessage() for record in caplog.records) == [
        "sojourn/pass_hat: a score names no sample and is left out",
        "sojourn/pass_hat: the score holds no single value; it counts as unscored",
        "sojourn/pass_hat: the score is a word that names no verdict; it counts as unscored",
    ]


def test_clusters_are_the_units_and_samples_without_one_stand_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = {name: ["C", "I" if number % 3 else "C"] for number, name in enumerate("abcdefghij")}
    pages = {name: {"page": number // 2} for number, name in enumerate("abcdefgh")}
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        shown = pass_hat(2, cluster="page")(scores(rows, **pages))
    counts = TaskCounts(
        successes=np.array([1 if number % 3 else 2 for number in range(10)]),
        attempts=np.full(10, 2),
        unit=np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5]),
    )
    expected = estimate_pass_hat(counts, 2)
    assert expected.interval is not None
    assert shown["pass_hat_2_low"] == pytest.approx(expected.interval.low)
    assert shown["pass_hat_2_high"] == pytest.approx(expected.interval.high)
    assert shown["pass_hat_2_low"] != pytest.approx(pass_hat(2)(scores(rows))["pass_hat_2_low"])
    assert "samples without 'page'" in caplog.text


def test_the_same_samples_again_vary_less_than_others_like_them() -> None:
    rows = {f"s{number}": ["C"] * 4 if number % 2 else ["I"] * 4 for number in range(30)}
    rows["s0"] = ["C", "I", "C", "C"]
    others, same = (
        pass_hat(2, estimand=estimand)(scores(rows)) for estimand in ("population", "same_tasks")
    )
    assert others["pass_hat_2"] == pytest.approx(same["pass_hat_2"])
    assert (
        same["pass_hat_2_high"] - same["pass_hat_2_low"]
        < (others["pass_hat_2_high"] - others["pass_hat_2_low"]) / 2
    )


def test_a_figure_that_is_withheld_is_no_number() -> None:
    once = scores({"a": "C", "b": "I", "c": "C"})
    shown = success_rate(estimand="same_tasks")(once)
    assert math.isnan(shown["success_rate"])
    assert math.isnan(shown["success_rate_low"])
    assert pass_hat([2, 3])([]).keys() == pass_hat([2, 3])(scores(ROWS)).keys()
    assert pass_hat()([]) == {}


@pytest.mark.parametrize("make", [pass_hat, pass_at])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k"),
        ({"k": [2, -1]}, "k"),
        ({"k": []}, "empty"),
        ({"k": 1, "ci_prob": 1.0}, "ci_prob"),
        ({"k": 1, "estimand": "all"}, "estimand"),
    ],
)
def test_wrong_settings_are_refused_when_the_task_is_made(
    make: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)
