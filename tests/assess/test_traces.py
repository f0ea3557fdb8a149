"""The pipeline on corpora whose answers are counted by hand, and on the real example."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import corpus_of
from sojourn.assess import TraceAssessment, assess_groups, assess_traces
from sojourn.assess.cautions import CAUTIONS
from sojourn.assess.chain import ChainSettings
from sojourn.assess.gate import apply_rules
from sojourn.assess.rules import Rule
from sojourn.corpus import CorpusBuilder, Policy, TraceCorpus
from sojourn.data import example_path
from sojourn.errors import NothingUsableError
from sojourn.estimates import Status, Verdict
from sojourn.readers import read_traces
from sojourn.records import End, LimitKind, Outcome, Trace
from sojourn.report.html import html_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example() -> TraceCorpus:
    return read_traces(example_path())


@pytest.fixture(scope="module")
def assessed(example: TraceCorpus) -> TraceAssessment:
    return assess_traces(
        example, chain=ChainSettings(n_simulated=39, n_refits=99, n_forecast=19), rng=0
    )


def test_example_has_the_published_counts(assessed: TraceAssessment) -> None:
    assert assessed.corpus.n_traces == 200
    assert assessed.corpus.n_tasks == 50
    assert assessed.corpus.attempts == (4, 4, 4)
    assert assessed.corpus.outcomes == {"success": 84, "failure": 116}
    assert assessed.corpus.ends == {"finished": 195, "limit": 5}
    assert assessed.heterogeneity.observed.tolist() == [14, 12, 10, 4, 10]
    assert assessed.heterogeneity.p_value is not None
    assert assessed.heterogeneity.p_value < 0.001


@pytest.mark.parametrize(
    ("k", "all_succeed", "any_succeeds"),
    [(1, 0.42, 0.42), (2, 0.2733, 0.5667), (3, 0.22, 0.66), (4, 0.2, 0.72)],
)
def test_example_has_the_published_attempts(
    assessed: TraceAssessment, k: int, all_succeed: float, any_succeeds: float
) -> None:
    row = assessed.pass_row(k)
    assert row is not None
    assert row.all_succeed.value == pytest.approx(all_succeed, abs=5e-5)
    assert row.any_succeeds.value == pytest.approx(any_succeeds, abs=5e-5)


def test_pooled_rate_to_the_fourth_is_wrong_by_six(assessed: TraceAssessment) -> None:
    row = assessed.pass_row(4)
    assert row is not None
    assert row.pooled_all == pytest.approx(0.42**4)
    assert row.all_succeed.value is not None
    assert row.all_succeed.value / row.pooled_all == pytest.approx(6.43, abs=0.01)


def test_limits_are_censored_in_curves_and_failures_in_rates(example: TraceCorpus) -> None:
    failure = Policy(limits="failure")
    censored = assess_traces(example, chain=None, rng=0, n_resamples=99)
    failed = assess_traces(example, policy=failure, chain=None, rng=0, n_resamples=99)
    assert censored.curves is not None
    assert failed.curves is not None
    assert censored.curves.success.value[30] == pytest.approx(0.420)
    assert censored.curves.failure.value[30] == pytest.approx(0.555)
    assert failed.curves.failure.value[30] == pytest.approx(0.580)
    assert censored.rates.success_rate.value == failed.rates.success_rate.value == 0.42
    assert censored.rates.bracket == (0.42, 0.445)
    assert censored.curves.supported_to == 22


def test_beyond_the_attempts_is_never_more_than_inconclusive(assessed: TraceAssessment) -> None:
    row = assessed.pass_row(8)
    assert row is not None
    assert row.is_beyond
    assert row.all_succeed.status is Status.INCONCLUSIVE
    assert row.bounds_all == pytest.approx((0.009, 0.38), abs=0.005)
    assert row.all_succeed.value == pytest.approx(0.108, abs=0.005)


@pytest.mark.thorough
def test_same_seed_same_answer_and_another_seed_another(example: TraceCorpus) -> None:
    settings = ChainSettings(n_draws=99, n_simulated=9, n_refits=19, n_forecast=9)
    first, again, other = (
        json.dumps(assess_traces(example, chain=settings, rng=seed, n_resamples=199).to_dict())
        for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


@pytest.mark.thorough
def test_entropy_of_no_seed_repeats_the_result(example: TraceCorpus) -> None:
    settings = ChainSettings(quick=True)
    drawn = assess_traces(example, chain=settings, n_resamples=99)
    assert drawn.seed is not None
    again = assess_traces(example, chain=settings, n_resamples=99, rng=drawn.seed)
    assert drawn.to_dict() == again.to_dict()


def test_several_groups_are_never_pooled_silently() -> None:
    builder = CorpusBuilder()
    for model in ("a", "b", "c"):
        for task in range(3):
            builder.add(Trace(task_id=str(task), model=model, outcome=Outcome.SUCCESS, n_steps=1))
    corpus = builder.build()
    with pytest.raises(ValueError, match="3 groups"):
        assess_traces(corpus)
    groups = assess_groups(corpus, rng=0, n_resamples=99)
    assert [dict(group.group.labels)["model"] for group in groups] == ["a", "b", "c"]
    assert all(group.corpus.attempts == (1, 1, 1) for group in groups)
    pooled = assess_groups(corpus, by=(), rng=0, n_resamples=99)
    assert len(pooled) == 1
    assert pooled.groups[0].corpus.attempts == (3, 3, 3)


@pytest.mark.parametrize(
    "tasks",
    [
        ["s"],
        ["f"],
        ["l"],
        ["s", "f"],
        ["ssss"],
        ["ssss"] * 30,
        ["ffff"] * 30,
        ["llll"] * 30,
        ["sxxx", "xxxx", "ffff"],
        ["s", "ff", "sfs", "llll"],
    ],
)
@pytest.mark.parametrize("n_steps", [None, 0, 1, 7])
def test_every_corner_gives_sane_figures(tasks: list[str], n_steps: int | None) -> None:
    result = assess_traces(corpus_of(tasks, n_steps=n_steps), rng=0, n_resamples=199)
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert "NaN" not in text
    assert str(result)
    interval = result.rates.success_rate.interval
    assert interval is not None
    assert 0 <= interval.low <= interval.high <= 1
    assert interval.width > 0
    for estimate in _estimates(result.to_dict()):
        if estimate["interval"] is not None and estimate["value"] is not None:
            low, high = estimate["interval"]
            assert low - 1e-9 <= estimate["value"] <= high + 1e-9


def _estimates(node: Any) -> list[dict[str, Any]]:
    found = []
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if "value" in item and "interval" in item:
                found.append(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return found


def test_no_usable_run_says_why_and_what_to_do() -> None:
    with pytest.raises(NothingUsableError, match=r"2 infrastructure error.*--faults failure"):
        assess_traces(corpus_of(["xx"]))
    builder = CorpusBuilder()
    builder.add(Trace(task_id="a", outcome=Outcome.UNSCORED, end=End.FINISHED))
    with pytest.raises(NothingUsableError, match=r"1 no verdict.*--outcomes"):
        assess_traces(builder.build())


def test_faults_move_the_rates_as_the_policy_says() -> None:
    corpus = corpus_of(["sxsl", "sfff"])
    excluded = assess_traces(corpus, rng=0, n_resamples=99)
    failed = assess_traces(corpus, policy=Policy(faults="failure"), rng=0, n_resamples=99)
    assert excluded.rates.success_rate.value == pytest.approx(3 / 7)
    assert failed.rates.success_rate.value == pytest.approx(3 / 8)
    assert excluded.rates.bracket == failed.rates.bracket == (3 / 8, 5 / 8)
    rows = {row.name: (row.n_success, row.n_runs) for row in excluded.rates.by_policy}
    assert rows == {
        "cut runs are failures, faults and unscored are left out": (3, 7),
        "cut runs are left out, faults and unscored are left out": (3, 6),
        "cut runs are failures, faults and unscored are failures": (3, 8),
        "cut runs are left out, faults and unscored are failures": (3, 7),
    }
    assert [row.name for row in failed.rates.by_policy if row.chosen] == [
        "cut runs are failures, faults and unscored are failures"
    ]


def test_identical_attempts_are_flagged() -> None:
    builder = CorpusBuilder()
    for task in range(2):
        for attempt in range(3):
            builder.add(
                corpus_of(["s"]).trace(0)
                if task == attempt == 0
                else corpus_of(["s" * 3] * 2).trace(task * 3 + attempt)
            )
    repeated = CorpusBuilder()
    trace = corpus_of(["s"]).trace(0)
    for attempt in range(3):
        repeated.add(
            Trace(task_id="t0", task_repeat=attempt, outcome=Outcome.SUCCESS, steps=trace.steps)
        )
    codes = {c.code for c in assess_traces(repeated.build(), rng=0, n_resamples=99).cautions}
    assert "SJ104" in codes
    codes = {c.code for c in assess_traces(builder.build(), rng=0, n_resamples=99).cautions}
    assert "SJ104" not in codes


def test_runs_of_several_limits_are_stratified() -> None:
    builder = CorpusBuilder()
    generator = np.random.default_rng(1)
    for run in range(60):
        limit = 5 if run % 2 else 10
        length = min(int(generator.integers(1, 13)), limit)
        cut = length == limit
        builder.add(
            Trace(
                task_id=str(run),
                outcome=Outcome.FAILURE if cut or run % 3 else Outcome.SUCCESS,
                end=End.LIMIT if cut else End.FINISHED,
                limit_kind=LimitKind.STEPS if cut else None,
                step_limit=limit,
                n_steps=length,
            )
        )
    result = assess_traces(builder.build(), rng=0, n_resamples=99)
    assert result.curves is not None
    assert [limit for limit, _ in result.curves.by_stratum] == [5, 10]
    # The worst and best case of cut runs, and whether the limits tell, stand in the output.
    assert "limits: up to step 5 the" in str(result)
    assert "cut runs worst to best" in str(result)
    assert result.to_dict()["estimates"]["limit_check"]["up_to"] == 5
    assert "SJ108" in {caution.code for caution in result.cautions}


def test_few_tasks_make_no_supported_rate() -> None:
    few = assess_traces(corpus_of(["sf"] * 19), rng=0, n_resamples=99)
    enough = assess_traces(corpus_of(["sf"] * 20), rng=0, n_resamples=99)
    for result, status in ((few, Status.INCONCLUSIVE), (enough, Status.SUPPORTED)):
        assert result.rates.success_rate.status is status
        row = result.pass_row(2)
        assert row is not None
        assert row.all_succeed.status is status


def test_unequal_attempts_are_not_called_unbiased() -> None:
    tasks = ["s"] * 20 + ["fs"] * 10 + ["ffff"] * 10
    claims = {
        claim.claim: claim
        for claim in assess_traces(corpus_of(tasks), rng=0, n_resamples=99).claims
    }
    assert str(claims["attempts"].verdict) == "inconclusive"
    assert "number of attempts" in claims["attempts"].reasons[0]


def test_curves_are_not_supported_past_a_cut_that_may_tell_of_the_run() -> None:
    for kind, supported in ((LimitKind.COST, 4), (LimitKind.STEPS, 9)):
        builder = CorpusBuilder()
        for run in range(60):
            cut = run % 2 == 0
            builder.add(
                Trace(
                    task_id=str(run),
                    outcome=Outcome.FAILURE if cut else Outcome.SUCCESS,
                    end=End.LIMIT if cut else End.FINISHED,
                    limit_kind=kind if cut else None,
                    n_steps=4 if cut else 9,
                )
            )
        curves = assess_traces(builder.build(), rng=0, n_resamples=99).curves
        assert curves is not None
        assert curves.supported_to == supported
        assert str(curves.point(9).status) == (
            "inconclusive" if kind is LimitKind.COST else "supported"
        )


def test_pooled_models_are_no_repeats() -> None:
    builder = CorpusBuilder()
    for model in ("a", "b"):
        part = corpus_of(["s", "f"] * 12, model=model)
        for run in range(len(part)):
            builder.add(part.trace(run))
    result = assess_groups(builder.build(), by=(), rng=0, n_resamples=99).groups[0]
    claims = {claim.claim: claim for claim in result.claims}
    assert str(claims["attempts"].verdict) == "inconclusive"
    assert "SJ113" in {caution.code for caution in result.cautions}


def test_a_group_without_a_usable_run_is_named_and_not_dropped() -> None:
    builder = CorpusBuilder()
    for model, word in (("good", "sf"), ("bad", "xx")):
        part = corpus_of([word], model=model)
        for run in range(len(part)):
            builder.add(part.trace(run))
    corpus = builder.build()
    result = assess_groups(corpus, rng=0, n_resamples=99)
    assert len(result) == 1
    assert [str(group) for group, _ in result.unusable] == ["set / agent / bad"]
    assert "set / agent / bad: no run counts (2 infrastructure error)" in str(result)
    assert result.to_dict()["unusable_groups"][0]["group"]["model"] == "bad"
    assert "<li>set / agent / bad: no run counts (2 infrastructure error)" in html_text(result)
    rules = [Rule.parse("success_rate >= 0.1")]
    gate = apply_rules(corpus, rules, minimum=0.5, rng=0)
    answers = {(r.group.split()[-1], r.rule.split()[0]): str(r.answer) for r in gate.results}
    assert answers["bad", "success_rate"] == answers["bad", "every"] == "inconclusive"
    assert answers["good", "every"] == "pass"
    assert "no run counts (2 infrastructure error)" in str(gate)


def test_a_rejected_chain_leaves_no_figure_for_scripts(assessed: TraceAssessment) -> None:
    document = assessed.to_dict()
    assert document["process"]["intervals"] is None
    assert document["estimates"]["success_ever"]["value"] is None


def test_the_example_needs_a_process_that_depends_on_progress(assessed: TraceAssessment) -> None:
    assert assessed.chain is not None
    assert assessed.chain.timing is Verdict.REJECTED
    assert assessed.chain.chosen == "progress"
    claims = {claim.claim: claim for claim in assessed.claims}
    assert claims["timing"].verdict is Verdict.ACCEPTED
    assert claims["timing"].error_bound is not None
    assert max(claims["timing"].error_bound.values()) < 0.10
    assert claims["horizon"].verdict is Verdict.INCONCLUSIVE
    richer = assessed.chain.richer
    assert richer is not None
    assert richer.pooled.verdict is richer.within.verdict is Verdict.REJECTED


def test_text_has_no_line_over_100_columns(assessed: TraceAssessment) -> None:
    assert max(len(line) for line in str(assessed).splitlines()) <= 100


def test_cautions_stand_in_the_documentation() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    for code, meaning in CAUTIONS.items():
        assert f"| {code} | {meaning} |" in text
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src/sojourn/assess").glob("*.py")
    )
    for code in CAUTIONS:
        assert sources.count(f'"{code}"') >= 2, f"{code} is listed but never raised"


def test_values_are_finite_everywhere(assessed: TraceAssessment) -> None:
    for estimate in _estimates(assessed.to_dict()):
        if estimate["value"] is not None:
            assert math.isfinite(estimate["value"])


def test_where_no_beta_law_gives_the_counts_another_law_is_named() -> None:
    # Half of the tasks always succeed, half are coins: no beta law has this histogram.
    words = ["ssssssss"] * 40 + ["ssffsfsf", "sfsfssff", "ffssfssf", "sfsfsfsf"] * 10
    result = assess_traces(corpus_of(words), chain=None, rng=0, n_resamples=99)
    hetero = result.heterogeneity
    assert hetero.fits is False
    assert hetero.law is not None
    assert hetero.law.kind in ("inflated", "nonparametric")
    document = result.to_dict()["heterogeneity"]["law"]
    assert document["kind"] == hetero.law.kind
    # The check is the one that the text names, not another draw of it.
    assert document["checks"]["beta_binomial"] == hetero.check_p
    ks = [row.k for row in result.attempts]
    for name, figure in (("pass_hat", hetero.law.pass_hat), ("pass_at", hetero.law.pass_at)):
        assert [row["k"] for row in document[name]] == ks
        for row in document[name]:
            assert row["value"] == pytest.approx(figure(row["k"]).value)
    assert document["pass_hat"][-1]["status"] == "inconclusive"
    beyond = hetero.law.pass_hat(16)
    assert beyond.status is Status.INCONCLUSIVE
    assert beyond.value == pytest.approx(0.5, abs=0.02)
    assert "pass^16 is then" in str(result)
    plain = corpus_of(["ss", "sf", "fs", "ff"] * 10)
    assert assess_traces(plain, chain=None, rng=0, n_resamples=99).heterogeneity.law is None
