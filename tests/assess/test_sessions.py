"""Sessions assessed: figures against closed forms and simulations whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sojourn.assess.session_counts import observed_runs, position_bins
from sojourn.assess.session_results import SessionAssessment
from sojourn.assess.sessions import assess_session_groups, assess_sessions
from sojourn.corpus import Policy, SessionLog, SessionLogBuilder
from sojourn.errors import NothingUsableError
from sojourn.estimates import Status, Verdict
from sojourn.readers import read_sessions
from sojourn.records import OperationalProfile, Outcome, TaskResult
from sojourn.session import fit_hierarchical, simulate_sessions
from sojourn.task_sequences import TaskSequences

WORDS = {"s": Outcome.SUCCESS, "f": Outcome.FAILURE, "x": Outcome.UNSCORED}


def log_of(
    sessions: Sequence[str],
    *,
    domains: Sequence[str] = ("d",),
    subdomains: Sequence[str | None] = (None,),
    models: Sequence[str] = ("m",),
) -> SessionLog:
    """Return a log with a session a word and a task a letter; labels are dealt in turn."""
    builder = SessionLogBuilder()
    for r, word in enumerate(sessions):
        for t, letter in enumerate(word):
            builder.add(
                TaskResult(
                    session_id=f"session {r}",
                    position=t,
                    outcome=WORDS[letter],
                    domain=domains[t % len(domains)],
                    subdomain=subdomains[t % len(subdomains)],
                    model=models[r % len(models)],
                )
            )
    return builder.build()


def word_of(success: np.ndarray) -> str:
    return "".join("s" if y else "f" for y in success)


@cache
def dependent() -> SessionAssessment:
    """Eight sessions of 120 tasks in two sticky states of success .97 and .35."""
    drawn = simulate_sessions(
        np.full(8, 120),
        transition=[[0.95, 0.05], [0.05, 0.95]],
        success_prob=[[0.97, 0.35]],
        rng=3,
    ).sequences
    words = [word_of(part) for part in np.split(drawn.success, drawn.offsets[1:-1])]
    return assess_sessions(log_of(words), rng=0, n_states=(1, 2))


@cache
def independent() -> SessionAssessment:
    words = [word_of(row) for row in np.random.default_rng(5).random((4, 60)) < 0.8]
    return assess_sessions(log_of(words), rng=0, n_states=(1, 2))


def test_dependence_is_found_and_hidden_states_chosen() -> None:
    domain = dependent().domains[0]
    claims = {claim.claim: claim.verdict for claim in domain.claims}
    assert domain.n_states == 2
    assert claims["order_matters"] is Verdict.ACCEPTED
    assert claims["clustering"] is Verdict.ACCEPTED
    assert "SJ201" in {caution.code for caution in dependent().cautions}


def test_hidden_states_recover_the_long_run_and_the_tail_of_the_run() -> None:
    # Truth: stationary law (1/2, 1/2), so the long-run rate is .66 and R(10) a sum over two states.
    figures = dependent().domains[0].reliability
    row = figures.row("long_run", 10)
    assert row is not None
    A = np.array([[0.95, 0.05], [0.05, 0.95]])
    D = np.diag([0.97, 0.35])
    truth = np.array([0.5, 0.5]) @ np.linalg.matrix_power(D @ A, 9) @ D @ np.ones(2)
    for estimate, value in ((figures.long_run, 0.66), (row.estimate, truth)):
        assert estimate.interval is not None
        assert estimate.interval.low < value < estimate.interval.high
    # The independent estimate would claim .66^10 = .016 where .26 is true.
    assert row.independent.value is not None
    assert row.independent.value < 0.1 * truth
    assert row.independent.status is Status.INCONCLUSIVE
    assert row.observed == pytest.approx(truth, abs=0.12)


def test_independent_tasks_keep_one_state_and_equal_the_closed_form() -> None:
    domain = independent().domains[0]
    assert domain.n_states == 1
    assert {c.claim: c.verdict for c in domain.claims}["order_matters"] is Verdict.INCONCLUSIVE
    n, k = domain.n_observed, domain.n_success
    exact = fit_hierarchical(
        TaskSequences.from_sessions([([0] * n, [1] * k + [0] * (n - k))], ["d"])
    ).run_means(20)
    for row in domain.reliability.success_run:
        assert row.estimate.value == pytest.approx(exact[row.n - 1], rel=1e-12)
        assert row.estimate == row.independent
    assert domain.reliability.next_task.status is Status.SUPPORTED
    # With this many outcomes the prior's share is under one in a hundred.
    assert domain.reliability.next_task.value == pytest.approx(k / n, abs=0.01)


def test_two_domains_combine_by_the_profile_under_both_conventions() -> None:
    log = log_of(["sfss" * 15, "ssfs" * 15], domains=("easy", "hard"))
    profile = OperationalProfile(domains={"easy": 0.25, "hard": 0.75})
    result = assess_sessions(log, profile, rng=0, n_states=(1,), n_max=3)
    easy, hard = (result.domain(name).reliability for name in ("easy", "hard"))
    found = {(row.convention, row.n): row.estimate.value for row in result.system}
    r = {n: (easy.curve.value[n - 1], hard.curve.value[n - 1]) for n in (1, 2, 3)}
    for n in (1, 2, 3):
        assert found["domain_once", n] == pytest.approx(0.25 * r[n][0] + 0.75 * r[n][1])
    # Two tasks: both easy, both hard, or one of each; domains are independent.
    twice = 0.0625 * r[2][0] + 0.5625 * r[2][1] + 2 * 0.1875 * r[1][0] * r[1][1]
    assert found["domain_per_task", 2] == pytest.approx(twice)
    assert found["domain_per_task", 1] == found["domain_once", 1]


def test_profile_weights_subdomains() -> None:
    log = log_of(["sf" * 30], subdomains=("good", "bad"))
    rates = [
        assess_sessions(
            log,
            OperationalProfile(subdomains={"d": {"good": w, "bad": 1 - w}}),
            rng=0,
            n_states=(1,),
        )
        .domains[0]
        .reliability.next_task.value
        for w in (0.0, 0.5, 1.0)
    ]
    assert None not in rates
    # Linear in the weights, as R(1) is.
    assert rates[1] == pytest.approx((rates[0] + rates[2]) / 2, abs=1e-9)
    assert rates[0] < 0.1 < 0.9 < rates[2]


def test_profile_of_a_stranger_is_refused() -> None:
    with pytest.raises(ValueError, match="writing"):
        assess_sessions(log_of(["sf" * 20]), OperationalProfile(domains={"writing": 1.0}), rng=0)


def test_same_seed_gives_the_same_answer_whatever_the_threads() -> None:
    log = log_of(["ssssssssffffffff" * 6] * 2)
    first, second = (
        json.dumps(assess_sessions(log, rng=7, n_states=(1, 2), n_threads=n).to_dict())
        for n in (1, 3)
    )
    assert first == second
    assert json.loads(first)["seed"] == 7


@pytest.mark.parametrize(
    "sessions",
    [["s"], ["f"], ["s" * 60], ["f" * 60, "f" * 30], ["sfsf"], ["x" * 10 + "sf" * 15], ["s", "f"]],
)
def test_corners_are_sane_and_never_nan(sessions: list[str]) -> None:
    result = assess_sessions(log_of(sessions), rng=0, n_states=(1, 2))
    json.dumps(result.to_dict(), allow_nan=False)
    figures = result.domains[0].reliability
    for row in figures.success_run:
        assert row.estimate.value is not None
        assert row.estimate.interval is not None
        assert 0.0 <= row.estimate.interval.low <= row.estimate.interval.high <= 1.0
    known = "".join(sessions).replace("x", "")
    if len(known) < 20 or len(set(known)) == 1:
        assert figures.next_task.status is Status.INCONCLUSIVE
    assert str(result)


def test_beyond_the_longest_session_is_extrapolation() -> None:
    result = assess_sessions(log_of(["ssf" * 4] * 4), rng=0, n_states=(1,))
    by_n = {row.n: row.estimate for row in result.domains[0].reliability.success_run}
    assert any("extrapolation" in reason for reason in by_n[20].reasons)
    assert not any("extrapolation" in reason for reason in by_n[10].reasons)


def test_outages_are_reported_as_a_session_effect() -> None:
    result = assess_sessions(log_of(["s" * 30] * 3 + ["f" * 30]), rng=0, n_states=(1, 2))
    domain = result.domains[0]
    assert domain.n_outages == 1
    assert domain.rate_without_outages == 1.0
    # Nothing varies within a session, so that order cannot matter; sessions differ.
    assert not domain.dependence.order_matters()
    assert domain.n_states == 1
    claims = {claim.claim: claim.verdict for claim in domain.claims}
    assert claims["session_effect"] is Verdict.ACCEPTED
    assert claims["reliability"] is Verdict.INCONCLUSIVE
    assert {"SJ203", "SJ204"} <= {caution.code for caution in result.cautions}


def test_faults_keep_their_place_or_fail() -> None:
    log = log_of(["sx" * 20])
    kept = assess_sessions(log, rng=0, n_states=(1,)).domains[0]
    failed = assess_sessions(log, rng=0, policy=Policy(faults="failure"), n_states=(1,)).domains[0]
    assert (kept.n_tasks, kept.n_observed) == (40, 20)
    assert (failed.n_observed, failed.n_success) == (40, 20)


def test_no_verdict_at_all_is_an_error_that_says_how_to_mend_it() -> None:
    with pytest.raises(NothingUsableError, match="--faults failure"):
        assess_sessions(log_of(["xxx"]), rng=0)


def test_groups_are_not_pooled_silently() -> None:
    log = log_of(["sf" * 15, "ff" * 15], models=("a", "b"))
    with pytest.raises(ValueError, match="assess_session_groups"):
        assess_sessions(log, rng=0)
    grouped = assess_session_groups(log, rng=0, n_states=(1,))
    assert [group.group.to_dict()["model"] for group in grouped] == ["a", "b"]
    assert len(assess_session_groups(log, by=(), rng=0, n_states=(1,))) == 1


def test_a_domain_without_outcomes_leaves_no_figure_of_the_system() -> None:
    result = assess_sessions(log_of(["sx" * 20], domains=("a", "b")), rng=0)
    assert [domain.name for domain in result.domains] == ["a"]
    assert result.system == ()
    assert "SJ213" in {caution.code for caution in result.cautions}


def test_stretches_and_positions_are_counted_inside_sessions() -> None:
    sequences = TaskSequences.from_sessions([([0] * 4, [1, 1, 0, 1]), ([0] * 3, [1, -1, 1])], ["d"])
    assert observed_runs(sequences, [1, 2, 3, 5]) == {1: 5 / 6, 2: 1 / 3, 3: 0.0, 5: None}
    bins = position_bins(sequences, 0.95)
    assert bins.n_observed.tolist() == [2, 1, 2, 1]
    assert bins.value.tolist() == [1.0, 1.0, 0.5, 1.0]


def test_null_corpus_claims_no_dependence(real_logs: Path) -> None:
    grouped = assess_session_groups(
        read_sessions(real_logs / "dynamic-cheatsheet"), rng=0, n_states=(1, 2)
    )
    assert [group.corpus.n_success for group in grouped] == [107, 118]
    for group in grouped:
        assert group.domains[0].n_states == 1
        assert group.domains[0].reliability.next_task.status is Status.SUPPORTED


@pytest.mark.slow
def test_outages_of_a_benchmark_are_apart_from_memory(real_logs: Path) -> None:
    log = read_sessions(real_logs / "autogpt-benchmarks/reports/beebot")
    result = assess_sessions(log, rng=0, policy=Policy(faults="failure"), n_states=(1, 2))
    domain = result.domains[0]
    assert (domain.n_observed, domain.n_success) == (2436, 488)
    assert domain.n_outages == 19
    claims = {claim.claim: claim.verdict for claim in domain.claims}
    assert claims["session_effect"] is Verdict.ACCEPTED
    assert claims["reliability"] is Verdict.INCONCLUSIVE
