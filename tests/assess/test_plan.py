"""Plans against closed forms, enumeration, published boundaries and fresh simulation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from builders import corpus_of
from sojourn.assess.gate import two_sided
from sojourn.assess.plan import TaskLaw, fit_task_law, look_confidence, make_plan
from sojourn.assess.rules import GateAnswer, Rule
from sojourn.attempts import TaskCounts, success_rate
from sojourn.cli.main import main
from sojourn.data import example_path
from sojourn.errors import NothingUsableError, RuleError
from sojourn.readers import read_traces


def single(n_success: int, n: int) -> TaskCounts:
    return TaskCounts(
        successes=np.arange(n) < n_success,
        attempts=np.ones(n, int),
        unit=np.arange(n, dtype=np.int32),
    )


def test_power_of_single_attempts_is_a_binomial_sum() -> None:
    rule, law = Rule.parse("success_rate >= 0.6"), TaskLaw(mean=0.75, icc=0.0)
    found = make_plan(law, rule=rule, tasks=(60,), attempts=(1,), target=0.99, n_draws=2000, rng=1)
    exact = sum(
        stats.binom.pmf(c, 60, 0.75)
        for c in range(61)
        if rule.answer(success_rate(single(c, 60), ci_prob=two_sided(0.95))) is GateAnswer.PASS
    )
    power = found.rows[0].power
    assert power == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2000))


def test_values_under_the_law_are_its_moments() -> None:
    law = TaskLaw(mean=0.4, icc=0.3)
    size = 1 / 0.3 - 1
    beta = stats.beta(0.4 * size, 0.6 * size)
    for k in (1, 2, 5):
        all_ = beta.expect(lambda p, k=k: p**k)
        any_ = beta.expect(lambda p, k=k: 1 - (1 - p) ** k)
        assert law.value(Rule.parse(f"pass^{k} >= 0")) == pytest.approx(all_)
        assert law.value(Rule.parse(f"pass@{k} >= 0")) == pytest.approx(any_)
    drawn = law.draw(100_000, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(0.4, abs=4 * beta.std() / math.sqrt(100_000))
    assert drawn.var() == pytest.approx(0.3 * 0.24, rel=0.03)


def test_what_is_enough_reaches_its_power_again() -> None:
    law, rule = TaskLaw(mean=0.7, icc=0.2), Rule.parse("success_rate >= 0.6")
    found = make_plan(law, rule=rule, attempts=(2,), n_draws=1000, rng=1)
    assert len(found.enough) == 1
    best = found.enough[0]
    assert best.power >= 0.8
    again = make_plan(
        law, rule=rule, tasks=(best.n_tasks,), attempts=(2,), target=0.8, n_draws=4000, rng=2
    )
    assert again.rows[0].power == pytest.approx(best.power, abs=0.03)
    smaller = [row for row in found.rows if row.n_tasks < best.n_tasks]
    assert all(row.power < 0.8 for row in smaller)


def test_a_rule_on_the_wrong_side_never_passes_and_says_so() -> None:
    found = make_plan(TaskLaw(mean=0.5, icc=0.1), rule=Rule.parse("success_rate >= .6"), rng=1)
    assert found.enough == ()
    assert found.reason is not None
    assert found.reason.startswith("never")


@pytest.mark.parametrize(("n_looks", "constant"), [(2, 2.178), (3, 2.289), (5, 2.413)])
def test_looks_are_pococks(n_looks: int, constant: float) -> None:
    # Published two-sided constants at .05; one side at .025 differs in the fourth figure.
    found = stats.norm.ppf(look_confidence(0.975, n_looks))
    assert found == pytest.approx(constant, abs=0.012)
    assert look_confidence(0.95, 1) == 0.95


def test_a_gain_is_seen_as_often_as_a_paired_difference_can_be() -> None:
    law = TaskLaw(mean=0.5, icc=0.0)
    found = make_plan(law, gain=0.2, tasks=(100,), attempts=(1,), target=0.99, n_draws=1000, rng=1)
    error = math.sqrt((0.25 + 0.7 * 0.3) / 100)
    rough = stats.norm.sf(stats.norm.ppf(0.95) - 0.2 / error)
    assert found.rows[0].power == pytest.approx(rough, abs=0.05)


def test_the_law_of_an_event_within_steps_and_what_cannot_be_planned() -> None:
    corpus = corpus_of(["ss", "sf", "ff"] * 20, n_steps=5)
    assert fit_task_law(corpus).mean == pytest.approx(0.5, abs=0.02)
    assert fit_task_law(corpus, Rule.parse("success_within(4) >= .5")).mean < 0.05
    assert fit_task_law(corpus, Rule.parse("failure_within(5) >= .5")).mean == pytest.approx(
        0.5, abs=0.02
    )
    with pytest.raises(RuleError, match="not planned"):
        fit_task_law(corpus, Rule.parse("mean_steps <= 5"))
    with pytest.raises(NothingUsableError, match="cut before"):
        fit_task_law(corpus_of(["sl"] * 20), Rule.parse("success_within(9) >= .5"))
    with pytest.raises(ValueError, match="plan for one of"):
        make_plan(TaskLaw(mean=0.5, icc=0.1), width=0.1, gain=0.1)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "runs.jsonl"
    log.write_text(
        "".join(
            json.dumps({"task_id": f"t{n // 2}", "task_repeat": n % 2, "outcome": n % 3 > 0}) + "\n"
            for n in range(90)
        )
    )
    rule = "success_rate >= 0.5"
    small = ["--draws", "100", "--tasks", "30", "--tasks", "60", "--attempts", "1"]
    assert main(["plan", str(log), rule, *small, "--json", "-", "--looks", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "plan"
    assert 0.95 < document["confidence"] < 0.99
    assert document["rows"][0]["n_tasks"] == 30
    for arguments in (
        [str(log)],
        [str(log), rule, "success_rate >= .6"],
        [str(log), rule, "--gain", "0.1"],
        [str(log), "next_task >= .5"],
    ):
        assert main(["plan", *arguments]) == 2, arguments


@pytest.mark.parametrize("text", ["pass^4 >= 0.1", "pass@3 >= 0.5", "pass^2 >= 0.3"])
def test_the_law_has_the_rate_and_the_figure_of_the_pilot(text: str) -> None:
    rule, pilot = Rule.parse(text), read_traces(example_path())
    law = fit_task_law(pilot, rule)
    assert law.mean == pytest.approx(84 / 200)
    assert law.observed is not None
    assert law.value(rule) == pytest.approx(law.observed)
    figure = {"pass^4": 0.2, "pass@3": 0.66, "pass^2": 0.2733}[rule.figure]
    assert law.observed == pytest.approx(figure, abs=5e-5)


def test_a_figure_that_no_law_meets_is_told_beside_the_law() -> None:
    rule = Rule.parse("pass^3 >= 0.1")
    law = fit_task_law(corpus_of(["ssf", "sff", "sfs"] * 10), rule)
    assert law.observed == 0.0
    plan = make_plan(law, rule=rule, tasks=(20,), attempts=(3,), n_draws=20, rng=0)
    assert "(0.000 in the pilot itself)" in str(plan)
