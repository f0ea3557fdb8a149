"""The metrics and the reducer inside real evaluations, against our reading of the same log."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from inspect_ai.log import EvalLog, read_eval_log, recompute_metrics
from inspect_ai.scorer import accuracy

from sojourn.assess import assess_traces
from sojourn.inspect_ai import pass_at, pass_hat, success_rate
from sojourn.readers import read_traces

Run = Callable[..., EvalLog]

UNEVEN = {
    "a1": ["C", "C", "C", "C"],
    "a2": ["C", "I", "C", "C"],
    "b1": ["I", "I", "I", "I"],
    "b2": ["C", math.nan, "C", "I"],
    "c1": ["C", "P", "error", "C"],
    "c2": ["limit", "C", "C", "C"],
    7: ["C", "error", "error", "error"],
}


def figures(log: EvalLog, reducer: str | None = None) -> dict[str, float]:
    assert log.results is not None
    (found,) = [score for score in log.results.scores if score.reducer == reducer]
    return {name: metric.value for name, metric in found.metrics.items()}


def same(shown: Any, estimate: Any, name: str) -> None:
    assert shown[name] == pytest.approx(estimate.value, abs=1e-12)
    assert shown[f"{name}_low"] == pytest.approx(estimate.interval.low, abs=1e-12)
    assert shown[f"{name}_high"] == pytest.approx(estimate.interval.high, abs=1e-12)


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_metrics_say_what_assess_says_of_the_log(run: Run, log_format: str) -> None:
    ks = [1, 2, 3, 4]
    metrics = [pass_hat(ks), pass_at(ks), success_rate()]
    log = run(UNEVEN, metrics=metrics, log_format=log_format)
    shown = figures(log)
    found = assess_traces(read_traces(log.location), chain=None, rng=0)
    for row in found.attempts[: len(ks)]:
        same(shown, row.all_succeed, f"pass_hat_{row.k}")
        same(shown, row.any_succeeds, f"pass_at_{row.k}")
        assert shown[f"pass_hat_{row.k}_tasks"] == row.n_tasks
    same(shown, found.rates.success_rate, "success_rate")
    # 4 of 4, 3 of 4, 0 of 4, 2 of 3, 2 of 3, 3 of 4, 1 of 1: by hand
    assert shown["pass_hat_3"] == pytest.approx((1 + 1 / 4 + 0 + 0 + 0 + 1 / 4) / 6)
    assert shown["pass_hat_4"] == pytest.approx(1 / 4)
    assert shown["pass_hat_4_tasks"] == 4
    assert shown["success_rate"] == pytest.approx(15 / 23)


def test_metrics_stand_in_the_log_under_their_registered_names(run: Run) -> None:
    log = run(UNEVEN, metrics=[accuracy(), pass_hat(2, ci_prob=0.9)])
    assert log.eval.metrics is not None
    named = {item.name: item.options for item in log.eval.metrics}
    assert named["sojourn/pass_hat"] == {"k": 2, "ci_prob": 0.9}
    before = figures(log)
    again = read_eval_log(log.location)
    again.results = None
    recompute_metrics(again)
    assert figures(again) == before


def test_the_reducer_is_found_by_its_name_and_agrees_with_the_metric(run: Run) -> None:
    log = run(
        UNEVEN,
        metrics=[accuracy(), pass_hat(3)],
        reducer=["mean", "sojourn/pass_hat_3"],
    )
    assert log.eval.config.epochs_reducer == ["mean", "sojourn/pass_hat_3"]
    reduced = figures(log, "sojourn/pass_hat_3")
    assert reduced["accuracy"] == pytest.approx(figures(log)["pass_hat_3"])
    assert log.reductions is not None
    (samples,) = [item.samples for item in log.reductions if item.reducer == "sojourn/pass_hat_3"]
    values = {item.sample_id: item.value for item in samples}
    assert values["a2"] == 1 / 4
    assert math.isnan(values[7])


def test_by_default_k_is_what_most_samples_have(run: Run) -> None:
    shown = figures(run(UNEVEN, metrics=[pass_hat()]))
    assert set(shown) == {f"pass_hat_4{end}" for end in ("", "_low", "_high", "_tasks")}


def test_an_evaluation_without_any_score_has_no_figure(run: Run) -> None:
    shown = figures(run({"a": [math.nan] * 2}, metrics=[pass_hat(2), success_rate()]))
    assert shown["pass_hat_2_tasks"] == shown["success_rate_tasks"] == 0
    assert math.isnan(shown["pass_hat_2"])
    assert math.isnan(shown["success_rate_high"])


def test_more_attempts_than_epochs_have_no_figure(run: Run) -> None:
    shown = figures(run({"a": ["C", "C"], "b": ["I", "C"]}, metrics=[pass_hat(3)]))
    assert math.isnan(shown["pass_hat_3"])
    assert math.isnan(shown["pass_hat_3_low"])
    assert shown["pass_hat_3_tasks"] == 0


def test_scores_of_several_values_take_a_metric_each(run: Run) -> None:
    table = {
        "a": [{"right": "C", "short": 1}, {"right": "C", "short": 0}],
        "b": [{"right": "I", "short": 1}, {"right": "C", "short": 1}],
    }
    log = run(table, metrics={"*": [pass_hat(2)]}, reducer="sojourn/pass_hat_2")
    assert log.results is not None
    shown = {
        score.name: score.metrics["sojourn/pass_hat_pass_hat_2"] for score in log.results.scores
    }
    assert shown["right"].value == 1 / 2
    assert shown["short"].value == 1 / 2


def test_an_errored_epoch_that_is_scored_counts_in_the_log_and_is_a_fault_to_assess(
    run: Run,
) -> None:
    log = run({"a": ["C", "error"], "b": ["I", "C"]}, metrics=[success_rate()], score_on_error=True)
    assert figures(log)["success_rate"] == 3 / 4
    found = assess_traces(read_traces(log.location), chain=None, rng=0)
    assert found.rates.success_rate.value == pytest.approx(2 / 3)
    assert found.rates.n_doubtful == (1, 0)
