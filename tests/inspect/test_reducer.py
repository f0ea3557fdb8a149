"""The reducer against Inspect's own for the same estimator, and where ours goes further."""

from __future__ import annotations

import math

import pytest
from inspect_ai import Epochs
from inspect_ai.scorer import Score, pass_k

from sojourn.inspect_ai import pass_hat_reducer


def given(*values: object) -> list[Score]:
    return [Score(value=value) for value in values]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_it_agrees_with_inspect_on_right_and_wrong(k: int) -> None:
    ours, theirs = pass_hat_reducer(k), pass_k(k)
    for n in range(1, 7):
        for c in range(n + 1):
            epochs = given(*["C"] * c, *["I"] * (n - c), math.nan)
            expected = theirs(epochs).as_float()
            assert ours(epochs).as_float() == pytest.approx(expected, nan_ok=True)
            assert math.isnan(expected) == (n < k)


def test_words_without_a_verdict_and_partial_credit_are_no_success() -> None:
    assert pass_hat_reducer(1)(given("C", "perhaps", "P")).as_float() == 1 / 2
    assert math.isnan(pass_hat_reducer(1)(given("perhaps", math.nan)).as_float())


def test_scores_of_several_values_are_reduced_value_by_value() -> None:
    table = pass_hat_reducer(2)(given({"x": "C", "y": 1}, math.nan, {"x": "C", "y": 0}, {"x": "I"}))
    assert table.as_dict() == {"x": 1 / 3, "y": 0.0}
    row = pass_hat_reducer(2)(given(["C", 1], ["C", math.nan], math.nan))
    assert row.as_list()[0] == 1.0
    assert math.isnan(row.as_list()[1])


def test_it_is_made_from_its_name() -> None:
    epochs = Epochs(4, ["sojourn/pass_hat_2", "mean"])
    assert epochs.reducer is not None
    assert epochs.reducer[0](given("C", "C", "I")).as_float() == pytest.approx(1 / 3)


def test_a_number_of_attempts_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="k"):
        pass_hat_reducer(0)
