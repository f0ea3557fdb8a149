"""Results as tables, flat numbers and figures: what is in them is what the JSON says."""

from __future__ import annotations

import importlib
import math
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import corpus_of
from sojourn.assess import (
    Comparison,
    ComparisonFamily,
    Gate,
    GroupedAssessment,
    GroupedSessionAssessment,
    Rule,
    SessionComparison,
    TraceAssessment,
    apply_rules,
    assess_groups,
    assess_session_groups,
    assess_traces,
    compare_many,
    compare_sessions,
    not_worse,
)
from sojourn.assess.result_tables import rows
from sojourn.corpus.session_builder import SessionLogBuilder
from sojourn.estimates import Estimate, Status
from sojourn.records import Outcome, TaskResult

pytestmark = pytest.mark.thorough

WORDS = ["ssss", "sssf", "sssf", "ssff", "sfff"] * 6
NAME = re.compile(r"[a-z][a-z0-9_]*")


def log_of(shift: int, *, model: str = "m") -> Any:
    builder = SessionLogBuilder()
    for session in range(6):
        for place in range(12):
            builder.add(
                TaskResult(
                    session_id=f"s{session}",
                    position=place,
                    domain="web shop" if place % 2 else "web-shop",
                    model=model,
                    outcome=Outcome.SUCCESS
                    if (session * 5 + place * 3 + shift) % 4
                    else Outcome.FAILURE,
                )
            )
    return builder.build()


@pytest.fixture(scope="module")
def assessed() -> TraceAssessment:
    return assess_traces(corpus_of(WORDS, n_steps=4), n_resamples=99, chain=None, rng=0)


@pytest.fixture(scope="module")
def groups() -> GroupedAssessment:
    runs = [
        assess_groups(corpus_of(WORDS, model=m), n_resamples=99, chain=None, rng=0) for m in "AB"
    ]
    return GroupedAssessment(groups=tuple(group for found in runs for group in found))


@pytest.fixture(scope="module")
def sessions() -> GroupedSessionAssessment:
    return assess_session_groups(log_of(0), n_max=5, n_states=(1,), rng=0)


@pytest.fixture(scope="module")
def family() -> ComparisonFamily:
    arms = {
        name: corpus_of(WORDS[i:10] + ["ffff"] * i, model=name, n_steps=None)
        for i, name in enumerate("ABC")
    }
    return compare_many(arms, n_resamples=99, rng=0)


@pytest.fixture(scope="module")
def between() -> SessionComparison:
    return compare_sessions(log_of(0), log_of(1), n_max=3, rng=0)


@pytest.fixture(scope="module")
def gate(family: ComparisonFamily) -> Gate:
    texts = ("pass^2 >= 0.1", "success_rate >= 0.99", "mean_steps <= 9", "success_rate >= 0.5")
    asked = [Rule.parse(text) for text in texts]
    found = apply_rules(corpus_of(WORDS), asked, minimum=0.5, n_resamples=99, rng=0)
    worse = not_worse(family.comparisons[0], tolerance=0.02)
    return replace(found, results=(*found.results, worse))


@pytest.fixture(scope="module")
def everything(
    assessed: TraceAssessment,
    groups: GroupedAssessment,
    sessions: GroupedSessionAssessment,
    family: ComparisonFamily,
    between: SessionComparison,
    gate: Gate,
) -> list[Any]:
    several = GroupedSessionAssessment(groups=sessions.groups * 2)
    own = sessions.groups[0]
    pair = family.comparisons[0]
    return [
        *(assessed, groups, own.domains[0], own, sessions, several),
        *(pair, family, ComparisonFamily(comparisons=(pair,)), between, gate),
    ]


def test_estimates_are_those_of_the_json(assessed: TraceAssessment) -> None:
    told = assessed.to_dict()
    frame = assessed.to_pandas()
    hat = frame[(frame.name == "pass_hat") & (frame.estimand == "population")]
    assert hat.argument.tolist() == [row["k"] for row in told["estimates"]["pass_hat"]]
    assert hat.value.tolist() == [row["value"] for row in told["estimates"]["pass_hat"]]
    assert hat.low.tolist() == [row["interval"][0] for row in told["estimates"]["pass_hat"]]
    (rate,) = frame[frame.name == "success_rate"].itertuples()
    assert (rate.value, rate.status) == (0.65, "supported")
    (ever,) = frame[frame.name == "success_ever"].itertuples()
    assert math.isnan(ever.value)
    assert ever.status == "withheld"
    assert "needs a fitted process" in ever.reasons


def test_curves_and_claims_are_those_of_the_result(assessed: TraceAssessment) -> None:
    curves = assessed.to_pandas("curves")
    assert curves.d.tolist() == [0, 1, 2, 3, 4]
    assert assessed.curves is not None
    for outcome, curve in (
        ("success", assessed.curves.success),
        ("failure", assessed.curves.failure),
    ):
        assert curves[f"{outcome}_value"].tolist() == pytest.approx(curve.value.tolist())
        assert curves[f"{outcome}_high"].tolist() == pytest.approx(curve.high.tolist())
    claims = assessed.to_pandas("claims").set_index("claim")
    assert claims.verdict.to_dict() == {c.claim: str(c.verdict) for c in assessed.claims}
    assert claims.next["horizon"] is None


def test_tables_of_groups_name_their_group(groups: GroupedAssessment) -> None:
    frame = groups.to_pandas("claims")
    assert frame.model.unique().tolist() == ["A", "B"]
    assert len(frame) == sum(len(group.claims) for group in groups)


def test_claims_of_sessions_name_their_domain(sessions: GroupedSessionAssessment) -> None:
    frame = sessions.to_pandas("claims")
    domains = sessions.groups[0].domains
    assert frame.domain.tolist() == [d.name for d in domains for _ in d.claims]
    assert frame.verdict.tolist() == [str(c.verdict) for d in domains for c in d.claims]
    figures = sessions.to_pandas()
    assert set(figures.columns) >= {"model", "domain", "start", "n", "value"}
    # Only the rows of the whole mix, which stand last, have a convention.
    n_mix = len(sessions.groups[0].system)
    assert figures.convention.notna().tolist() == [False] * (len(figures) - n_mix) + [True] * n_mix


def test_tables_of_comparisons(family: ComparisonFamily, between: SessionComparison) -> None:
    pair: Comparison = family.comparisons[1]
    frame = pair.to_pandas()
    assert frame.name.tolist() == [row.name for row in pair.rows]
    assert frame.value.tolist() == [row.population.value for row in pair.rows]
    same = pair.rows[0].same_tasks
    assert same is not None
    assert same.interval is not None
    assert frame.same_tasks_low[0] == same.interval.low
    flips = pair.to_pandas("tasks")
    assert flips.to_dict("records") == [flip.to_dict() for flip in pair.flips]
    assert family.to_pandas().name_b.unique().tolist() == ["B", "C"]
    moves = between.to_pandas()
    assert moves.chance_better.tolist() == [row.chance_better for row in between.rows]


def test_the_rules_of_a_gate(gate: Gate) -> None:
    frame = gate.to_pandas()
    assert frame.rule.tolist() == [item.rule for item in gate.results]
    assert frame.answer.tolist() == [str(item.answer) for item in gate.results]
    assert np.isnan(frame.value[4])  # no estimate of single tasks


def test_every_first_table_is_a_frame_of_either_library(everything: list[Any]) -> None:
    polars = pytest.importorskip("polars")
    for result in everything:
        ours, theirs = result.to_pandas(), result.to_polars()
        assert isinstance(theirs, polars.DataFrame)
        assert theirs.columns == ours.columns.tolist()
        assert theirs.height == len(ours) > 0
        values = np.array([np.nan if v is None else v for v in theirs["value"].to_list()])
        np.testing.assert_array_equal(values, ours["value"].to_numpy(dtype=float))


def test_a_table_that_is_not_there_is_named(everything: list[Any]) -> None:
    for result in everything:
        with pytest.raises(ValueError, match=r"table must be one of .*; got 'nothing'"):
            rows(result, "nothing")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_asked_for(
    library: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"to_{library}.. needs {library}.*pip install {library}"):
        getattr(gate, f"to_{library}")()


def test_numbers_are_plain_and_their_names_are_what_trackers_take(everything: list[Any]) -> None:
    for result in everything:
        found = result.flat_metrics()
        assert found
        for name, value in found.items():
            assert NAME.fullmatch(name), name
            assert type(value) is float
            assert math.isfinite(value)
            if name.endswith("_low") and not name.endswith("bracket_low"):
                assert value <= found[name.removesuffix("_low")]


def test_numbers_of_runs(assessed: TraceAssessment, groups: GroupedAssessment) -> None:
    found = assessed.flat_metrics()
    row = assessed.pass_row(4)
    assert row is not None
    assert row.all_succeed.interval is not None
    assert found["success_rate"] == 0.65
    assert found["pass_hat_4"] == row.all_succeed.value
    assert found["pass_hat_4_high"] == row.all_succeed.interval.high
    assert found["pass_hat_4_supported"] == 1.0
    assert (found["n_runs"], found["n_tasks"]) == (120.0, 30.0)
    assert found["success_within_2"] == 0.0
    assert "success_within_5" not in found
    assert found["steps_median"] == 4.0
    assert found["claim_rate"] == 1.0
    assert found["claim_horizon"] == 0.0
    missing = Estimate(value=None, status=Status.WITHHELD, reasons=("no repeats",))
    less = replace(assessed, rates=replace(assessed.rates, same_tasks=missing)).flat_metrics()
    gone = {f"success_rate_same_tasks{end}" for end in ("", "_low", "_high", "_supported")}
    assert found.keys() - less.keys() == gone
    assert "success_ever" not in found
    both = groups.flat_metrics()
    assert both["group_set_agent_a_success_rate"] == groups.groups[0].rates.success_rate.value
    assert GroupedAssessment(groups=groups.groups[:1]).flat_metrics()["n_runs"] == 120.0


def test_numbers_of_sessions_keep_domains_apart_that_are_spelt_alike(
    sessions: GroupedSessionAssessment,
) -> None:
    found = sessions.flat_metrics()
    one, other = sessions.groups[0].domains
    assert found["domain_web_shop_next_task"] == one.reliability.next_task.value
    assert found["domain_web_shop_2_next_task"] == other.reliability.next_task.value
    run = one.reliability.row("continuing", 5)
    assert run is not None
    assert found["domain_web_shop_success_run_5"] == run.estimate.value
    assert found["domain_web_shop_success_run_5_independent"] == run.independent.value
    (row,) = (r for r in sessions.groups[0].system if (r.n, r.convention) == (5, "domain_once"))
    assert found["system_domain_once_success_run_5"] == row.estimate.value


def test_numbers_of_decisions(
    family: ComparisonFamily, between: SessionComparison, gate: Gate
) -> None:
    pair = family.comparisons[0]
    found = pair.flat_metrics()
    assert found["difference_success_rate"] == pair.rows[0].population.value
    assert found["difference_pass_hat_2"] == next(
        row.population.value for row in pair.rows if row.name == "pass^2"
    )
    assert found[f"answer_{pair.answer}"] == 1.0
    assert sum(found[name] for name in found if name.startswith("answer_")) == 1.0
    assert family.flat_metrics()["set_b_p_value"] == pair.p_value
    moves = between.flat_metrics()
    row = between.row("web-shop", "long_run", 1)
    assert row is not None
    assert moves["domain_web_shop_difference_long_run_success_run_1"] == row.difference.value
    told = gate.flat_metrics()
    assert set(told) == set(replace(gate, results=gate.results[::-1]).flat_metrics())
    assert [told["pass_hat_2_ge_0_1_answer"], told["success_rate_ge_0_99_answer"]] == [1.0, -1.0]
    assert told["success_rate_ge_0_5"] == 0.65
    assert told["answer"] == -1.0
    assert told["n_passed"] + told["n_failed"] + told["n_inconclusive"] == len(gate.results)


def test_a_rule_on_several_groups_names_the_group(gate: Gate) -> None:
    two = replace(gate, results=(gate.results[0], replace(gate.results[0], group="other / é")))
    found = two.flat_metrics()
    assert found["group_set_agent_model_pass_hat_2_ge_0_1_answer"] == 1.0
    assert found["group_other_pass_hat_2_ge_0_1"] == gate.flat_metrics()["pass_hat_2_ge_0_1"]
    assert [tick.get_text()[:16] for tick in two.plot().get_yticklabels()] == [
        *("pass^2 >= 0.1, s", "pass^2 >= 0.1, o")
    ]


def test_every_result_is_drawn_on_axes_of_ones_own_too(everything: list[Any]) -> None:
    from matplotlib.figure import Figure

    for result in everything:
        assert result.plot().figure is not None
        ax = Figure().subplots()
        assert result.plot(ax) is ax
        assert ax.get_xlabel()


def test_a_gate_is_drawn_with_its_thresholds(gate: Gate) -> None:
    ax = gate.plot()
    ax.figure.canvas.draw()
    dots, marks = (line.get_xdata() for line in ax.lines)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        *("pass^2 >= 0.1", "success_rate >= 0.99", "success_rate >= 0.5")
    ]
    assert list(marks) == [0.1, 0.99, 0.5]
    shown = [gate.results[i].estimate for i in (0, 1, 3)]
    assert list(dots) == [None if e is None else e.value for e in shown]
    with pytest.raises(ValueError, match="nothing in this result has a value"):
        replace(gate, results=gate.results[2:3]).plot()


def test_differences_are_drawn_as_they_are_told(
    family: ComparisonFamily, between: SessionComparison, groups: GroupedAssessment
) -> None:
    ax = family.plot()
    assert list(ax.lines[-1].get_xdata()) == [pair.decided_by.value for pair in family]
    ax = between.plot()
    assert list(ax.lines[-1].get_xdata()) == [row.difference.value for row in between.rows]
    ax = groups.plot()
    rates = [group.rates.success_rate.value for group in groups]
    assert list(ax.lines[-1].get_xdata()) == rates


def test_results_load_nothing_of_this_before_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, assessed: TraceAssessment
) -> None:
    wanted: list[str] = []
    real = importlib.import_module

    def noted(name: str, *rest: Any) -> Any:
        wanted.append(name)
        return real(name, *rest)

    monkeypatch.setattr("sojourn.assess.exported.import_module", noted)
    assessed.flat_metrics()
    assert wanted == []
    assessed.to_pandas()
    assert wanted == ["pandas"]
