"""A reducer of epochs: ``Epochs(4, "sojourn/pass_hat_4")`` makes a sample's score its pass^4.

The mean of reduced scores is pass^k itself; for its interval use the metric, which sees the epochs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from inspect_ai.scorer import Score, ScoreReducer, score_reducer

from sojourn._validation import check_positive_int
from sojourn.readers._inspect_scores import verdict
from sojourn.records import Outcome

__all__ = ["pass_hat"]


@score_reducer
def pass_hat(k: int) -> ScoreReducer:
    """Return a reducer of a sample's epochs to C(c, k) / C(n, k), c of n scored ones correct.

    Parameters
    ----------
    k : int
        Number of attempts that must all succeed.

    Returns
    -------
    ScoreReducer
        The reduced score is NaN, which Inspect leaves out, where fewer than k epochs are scored.
        Scores of several values (a dict, a list) are reduced value by value.

    Raises
    ------
    ValueError
        For a k below 1.
    """
    check_positive_int(k, name="k")

    def reduce(scores: list[Score]) -> Score:
        values = [score.value for score in scores]
        tables = [value for value in values if isinstance(value, Mapping)]
        if tables:
            keys = dict.fromkeys(key for table in tables for key in table)
            return Score(
                value={key: _all_succeed((table.get(key) for table in tables), k) for key in keys}
            )
        rows = [value for value in values if isinstance(value, list | tuple)]
        if rows:
            return Score(value=[_all_succeed(column, k) for column in zip_longest(*rows)])
        return Score(value=_all_succeed(values, k))

    return reduce


def _all_succeed(values: Iterable[Any], k: int) -> float:
    outcomes = [verdict(value).outcome for value in values]
    n = sum(outcome is not Outcome.UNSCORED for outcome in outcomes)
    c = sum(outcome is Outcome.SUCCESS for outcome in outcomes)
    return math.comb(c, k) / math.comb(n, k) if n >= k else math.nan
