"""The refitted parametric bootstrap: its statistics by hand, its caps, its size and its power."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oracles.corpora import sequences_of
from sojourn.estimates import Verdict
from sojourn.process import fit_test, simulate
from sojourn.process.cap_law import cap_law, cut_after
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.process.incidence import fit_incidence
from sojourn.process.progress import fit_progress
from sojourn.process.task_effect import match_task_effect, outcome_correlation
from sojourn.sequences import CENSORED, SUCCESS, StateSequences


def corpus(seed: int, n_tasks: int = 25, **departure: float) -> StateSequences:
    return simulate.simulate_tasks(simulate.preset("react"), n_tasks, 4, rng=seed, **departure)


def naive_second_order(runs: StateSequences, edges: list[int]) -> float:
    """G2 of the state before and the next event in each state and step band, cell by cell."""
    seen: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
    m = runs.n_states
    for r in range(runs.n_runs):
        path = runs.states[runs.offsets[r] : runs.offsets[r + 1]].tolist()
        for t in range(1, len(path)):
            last = t + 1 == len(path)
            if last and runs.event[r] == CENSORED:
                continue
            following = m - 1 + int(runs.event[r]) if last else path[t + 1]
            band = sum(t >= edge for edge in edges)
            table = seen.setdefault((band, path[t]), {})
            table[path[t - 1], following] = table.get((path[t - 1], following), 0) + 1
    total = 0.0
    for table in seen.values():
        n = sum(table.values())
        for (before, after), count in table.items():
            row = sum(k for (b, _), k in table.items() if b == before)
            column = sum(k for (_, a), k in table.items() if a == after)
            total += 2 * count * np.log(count * n / (row * column))
    return total


def test_second_order_statistic_is_the_naive_one() -> None:
    runs = simulate.censor_uniformly(corpus(1), 0.3, rng=2)
    for edges in ([], [2, 5]):
        assert fit_test._second_order(runs, np.array(edges, dtype=np.int64)) == pytest.approx(
            naive_second_order(runs, edges)
        )


def test_large_tables_are_counted_without_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = corpus(1)
    edges = np.array([2, 5])
    dense = fit_test._second_order(runs, edges)
    monkeypatch.setattr(fit_test, "_DENSE", 0)
    assert fit_test._second_order(runs, edges) == pytest.approx(dense)


def test_distances_are_those_from_aalen_johansen() -> None:
    runs = simulate.censor_uniformly(corpus(3), 0.2, rng=2)
    fit = fit_homogeneous(runs)
    found = fit_test.test_fit(fit, runs, n_draws=3, rng=0)
    curves = fit_incidence(runs.lengths, runs.event, runs.unit, n_resamples=99, rng=0)
    n = curves.horizon
    values = {s.name: s.value for s in found.statistics}
    beyond = 2 * n - n  # the observed curve stays as it is after the longest run
    observed = np.append(curves.success.value, np.full(beyond, curves.success.value[-1]))
    distance = np.abs(fit.success_within(2 * n) - observed).max()
    assert values["success_curve"] == pytest.approx(distance, abs=1e-9)
    assert values["length_spread"] == pytest.approx(runs.lengths.var())


def test_simulated_runs_are_cut_at_a_step_cap_and_never_beyond() -> None:
    runs = corpus(4, max_steps=6)
    assert np.any(runs.event == CENSORED)
    design = fit_test._design(runs)
    assert design.max_steps == 6
    assert design.caps is not None
    caps = design.caps.draw(design.max_steps, np.random.default_rng(0))
    assert np.all(caps == 6)


def test_caps_follow_the_product_limit_law_of_the_cuts() -> None:
    paths = [([0] * n, e) for n, e in [(2, 0), (3, 1), (4, 0), (5, 2), (1, 1), (6, 1)]]
    caps = cap_law(sequences_of(paths))
    assert caps is not None
    # After 2 steps one of five runs that were still going was cut, after 4 one of three.
    np.testing.assert_allclose(caps.survival, [4 / 5, 4 / 5 * 2 / 3])
    draws = np.array([caps.draw(99, np.random.default_rng(s)) for s in range(4000)])
    assert np.all(draws[:, 0] == 2)
    assert np.all(draws[:, 2] == 4)
    error = 4 * np.sqrt(0.25 / 4000)
    assert np.mean(draws[:, 4] == 2) == pytest.approx(1 / 5, abs=error)
    assert np.mean(draws[:, 4] == 4) == pytest.approx(4 / 15, abs=error)
    assert set(np.unique(draws[:, 1])) == {4, 99}
    assert np.mean(draws[:, 1] == 4) == pytest.approx(1 / 3, abs=error)
    assert np.all(draws[:, 5] == 99)


def test_cutting_keeps_the_steps_before_the_cap() -> None:
    runs = sequences_of([([0, 1, 0], 1), ([1, 1], 2), ([0, 0, 1], 2)])
    cut = cut_after(runs, np.array([3, 1, 2]))
    assert cut.lengths.tolist() == [3, 1, 2]
    assert cut.event.tolist() == [1, 0, 0]
    assert cut.states.tolist() == [0, 1, 0, 1, 0, 0]


@pytest.mark.parametrize("icc", [0.1, 0.4, 0.7])
def test_the_task_effect_reaches_the_correlation_and_keeps_the_rate(icc: float) -> None:
    fit = fit_homogeneous(simulate.simulate_runs(simulate.preset("ss7"), 240, rng=5))
    effect = match_task_effect(fit, icc, max_steps=1000, rng=np.random.default_rng(1))
    task = np.repeat(np.arange(4000, dtype=np.int32), 4)
    rng = np.random.default_rng(2)
    drawn = fit.simulate_tasks(task, log_odds=effect.draw(task, rng), rng=rng)
    rate = np.mean(drawn.event == SUCCESS)
    # The standard error of a mean of tasks is at most .5 / sqrt(4000) = .008.
    assert rate == pytest.approx(fit.success_within(1000)[-1], abs=0.03)
    assert outcome_correlation(drawn) == pytest.approx(icc, abs=0.05)
    assert effect.reached == pytest.approx(icc, abs=0.01)


def test_where_ends_are_not_open_the_correlation_is_bounded_and_it_is_said() -> None:
    runs = corpus(5, n_tasks=60)  # most states of this chain can end in one way only
    found = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=3, icc=0.9, rng=0)
    assert found.effect is not None
    assert found.effect.reached < 0.6
    assert any("cannot differ as much" in reason for reason in found.reasons)


def test_no_correlation_needs_no_effect() -> None:
    fit = fit_homogeneous(corpus(5))
    assert match_task_effect(fit, 0.0, max_steps=99, rng=np.random.default_rng(1)).sd == 0.0


def test_outcome_correlation_by_hand() -> None:
    runs = sequences_of(
        [([0], 1), ([0], 1), ([0], 1), ([0], 2), ([0], 2), ([0], 2), ([0], 1)],
        task=[0, 0, 1, 1, 2, 2, 3],
    )
    # Of the three tasks with two runs P1 = 1/2 and P2 = 1/3, so (1/3 - 1/4) / (1/4) = 1/3.
    assert outcome_correlation(runs) == pytest.approx(1 / 3)
    assert outcome_correlation(sequences_of([([0], 1), ([0], 2)])) == 0.0


def test_delayed_exits_are_found_and_the_progress_process_passes() -> None:
    runs = simulate.simulate_runs(
        simulate.preset("react"), 160, rng=9, exit_factor=0.1, exit_steps=6
    )
    chain = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=99, rng=0)
    progress = fit_test.test_fit(fit_progress(runs), runs, n_draws=99, rng=0)
    assert chain.p_timing == pytest.approx(0.01)
    assert chain.timing is Verdict.REJECTED
    assert progress.p_timing is not None
    assert progress.p_timing > 0.05


def test_memory_is_found_by_the_second_order_statistic() -> None:
    found = fit_test.test_fit(
        fit_homogeneous(runs := corpus(10, memory=0.5)), runs, n_draws=99, rng=0
    )
    assert found.order is Verdict.REJECTED
    assert found.order_gain is not None
    assert found.order_gain > 0.02


def test_the_result_says_whether_the_choice_was_repeated() -> None:
    runs = corpus(11, n_tasks=20)
    held = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=5, rng=0)
    full = fit_test.test_fit(
        fit_homogeneous(runs), runs, n_draws=3, full=True, candidates=("homogeneous",), rng=0
    )
    named = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=5, chosen=False, rng=0)
    assert "held" in held.reasons[0]
    assert named.reasons == held.reasons[1:]
    assert "repeated" in full.reasons[0]
    assert full.full
    assert full.to_dict()["full"] is True


def test_same_seed_same_answer_whatever_the_workers() -> None:
    runs = corpus(12, odds_sd=1.0)
    fit = fit_homogeneous(runs)
    alone = fit_test.test_fit(fit, runs, n_draws=19, rng=3)
    with ThreadPoolExecutor(2) as threads:
        together = fit_test.test_fit(fit, runs, n_draws=19, executor=threads, rng=3)
    assert alone.to_dict() == together.to_dict()
    assert alone.effect is not None
    assert alone.effect.sd > 0.0


@pytest.mark.parametrize("paths", [[([0, 0], 0), ([0], 0)], [([], 1), ([], 2)]])
def test_nothing_to_test_is_inconclusive(paths: list[tuple[list[int], int]]) -> None:
    runs = sequences_of(paths, n_states=1)
    found = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=9, rng=0)
    assert found.p_value is None
    assert found.timing is found.order is Verdict.INCONCLUSIVE
    assert found.reasons


def test_corpora_that_cannot_be_fitted_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = corpus(13, n_tasks=20)
    given = iter(range(99))

    def sometimes(process: object, horizon: int) -> object:
        def refit(simulated: StateSequences, _rng: object) -> np.ndarray:
            if next(given) % 3 == 0:
                raise ArithmeticError("did not settle")
            fit = fit_homogeneous(simulated)
            return np.stack([fit.success_within(horizon), fit.failure_within(horizon)])

        return refit

    monkeypatch.setattr(fit_test, "_refitting", sometimes)
    found = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=9, rng=0)
    assert found.n_draws == 6
    assert found.reasons[0] == "3 of 9 simulated corpora could not be fitted"


def test_settings_are_checked() -> None:
    runs = corpus(1, n_tasks=3)
    with pytest.raises(ValueError, match="icc"):
        fit_test.test_fit(fit_homogeneous(runs), runs, icc=1.5, rng=0)


@pytest.mark.statistical
@pytest.mark.parametrize(("odds_sd", "cap"), [(0.0, 1_000_000), (1.5, 1_000_000), (1.5, 7)])
def test_size_is_nominal_with_and_without_a_task_effect_and_a_cap(odds_sd: float, cap: int) -> None:
    source = np.random.default_rng(77)
    n, rejected = 200, np.zeros(3)
    for _ in range(n):
        runs = simulate.simulate_tasks(
            simulate.preset("react"), 40, 4, rng=source, odds_sd=odds_sd, max_steps=cap
        )
        found = fit_test.test_fit(fit_homogeneous(runs), runs, n_draws=99, rng=source)
        assert found.p_value is not None
        assert found.p_timing is not None
        assert found.p_order is not None
        rejected += np.array([found.p_value, found.p_timing, found.p_order]) <= 0.05
    error = 3 * np.sqrt(0.05 * 0.95 / n)
    assert np.all(rejected / n <= 0.05 + error), rejected / n
