"""Differences of sessions against closed forms; one mix of work for both; doubts are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn.assess import Answer, compare_sessions
from sojourn.assess.session_comparison import SessionRow
from sojourn.assess.session_comparison import _answer as answer_of
from sojourn.cli.main import main
from sojourn.corpus import SessionLog, write_sessions
from sojourn.corpus.simulated import log_of_sequences
from sojourn.errors import NothingUsableError
from sojourn.estimates import Estimate, Interval, Status
from sojourn.session.simulate import simulate_sessions


def log(
    success: list[float], n: int = 400, *, rng: int, names: tuple[str, ...] = ("x",)
) -> SessionLog:
    drawn = simulate_sessions(
        [n],
        transition=[[1.0]],
        success_prob=[[p] for p in success],
        subdomain_names=names,
        rng=rng,
    )
    return log_of_sequences(drawn.sequences, domain="d")


def test_independent_logs_differ_as_two_betas_do() -> None:
    a, b = log([0.6], rng=1), log([0.72], rng=2)
    found = compare_sessions(a, b, rng=0)
    row = found.row("d", "continuing")
    assert row is not None
    draws = np.random.default_rng(5)
    parts = []
    for one in (a, b):
        won = int((one.success() == 1).sum())
        parts.append(draws.beta(1 + won, 1 + len(one) - won, 200_000))
    gap = parts[1] - parts[0]
    assert row.difference.value == pytest.approx(gap.mean(), abs=0.004)
    assert row.difference.interval is not None
    low, high = np.quantile(gap, [0.025, 0.975])
    assert row.difference.interval.low == pytest.approx(low, abs=0.006)
    assert row.difference.interval.high == pytest.approx(high, abs=0.006)
    assert row.chance_better == pytest.approx(float(np.mean(gap > 0)), abs=0.01)
    assert found.answers == {"d": Answer.BETTER}


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.01, 0.2, Answer.BETTER),
        (-0.2, -0.01, Answer.WORSE),
        (-0.01, 0.015, Answer.EQUIVALENT),
        (-0.1, 0.1, Answer.INCONCLUSIVE),
    ],
)
def test_the_interval_of_the_long_run_answers(low: float, high: float, answer: Answer) -> None:
    estimate = Estimate(value=(low + high) / 2, interval=Interval(low=low, high=high, kind="eti"))
    row = SessionRow(
        domain="d", start="long_run", n=1, a=0.5, b=0.6, difference=estimate, chance_better=0.9
    )
    assert answer_of([row], 0.02) is answer
    doubtful = replace(estimate, status=Status.INCONCLUSIVE, reasons=("why",))
    assert answer_of([replace(row, difference=doubtful)], 0.02) is Answer.INCONCLUSIVE


def test_other_shares_of_the_same_kinds_are_no_difference() -> None:
    names = ("easy", "hard")
    few, many = (
        log_of_sequences(
            simulate_sessions(
                [600],
                transition=[[1.0]],
                success_prob=[[0.95], [0.3]],
                weights=weights,
                subdomain_names=names,
                rng=seed,
            ).sequences,
            domain="d",
        )
        for seed, weights in ((1, (0.2, 0.8)), (2, (0.8, 0.2)))
    )
    row = compare_sessions(few, many, rng=0).row("d", "long_run")
    assert row is not None
    assert row.difference.interval is not None
    assert row.difference.interval.low < 0.0 < row.difference.interval.high
    assert abs(row.b - row.a) < 0.1


def test_kinds_of_one_log_only_have_no_weight_and_nothing_shared_is_an_error() -> None:
    a, b = log([0.6, 0.9], rng=1, names=("x", "y")), log([0.6], rng=2, names=("x",))
    found = compare_sessions(a, b, rng=0)
    assert any("1 of 2" in note for note in found.notes)
    row = found.row("d", "continuing")
    assert row is not None
    assert row.a == pytest.approx(0.6, abs=0.1)
    with pytest.raises(NothingUsableError, match="share no domain"):
        compare_sessions(log([0.5], rng=1, names=("x",)), log([0.5], rng=1, names=("z",)))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, p, seed in (("a", 0.6, 1), ("b", 0.75, 2)):
        paths.append(str(tmp_path / f"{name}.csv"))
        write_sessions(log([p], rng=seed), paths[-1])
    assert main(["compare", *paths, "--json", "-", "--n-max", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "session_comparison"
    assert document["answers"] == {"d": "better"}
    assert {row["n"] for row in document["rows"]} == {1, 2, 3}
    assert main(["compare", *paths, "--baseline", "a.csv"]) == 2
    assert main(["compare", *paths, "--limits", "failure"]) == 2
