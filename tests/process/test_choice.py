"""The choice of a process: scores by hand, the rule, and truths that it must find."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oracles.corpora import sequences_of
from sojourn.process import choice, simulate
from sojourn.process.candidates import (
    BASELINE,
    CANDIDATES,
    check_candidate,
    fit_candidate,
    place_of,
)
from sojourn.process.choice import choose_process
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.sequences import StateSequences


def of_tasks(runs: StateSequences, per_task: int) -> StateSequences:
    task = np.arange(runs.n_runs, dtype=np.int32) // per_task
    return StateSequences(
        states=runs.states,
        offsets=runs.offsets,
        event=runs.event,
        task=task,
        unit=task,
        state_names=runs.state_names,
    )


def delayed(rng: np.random.Generator, n_tasks: int) -> StateSequences:
    """Runs that hardly end before their sixth step: the next event depends on progress."""
    runs = simulate.simulate_runs(
        simulate.preset("react"), 4 * n_tasks, rng=rng, exit_factor=0.1, exit_steps=6
    )
    return of_tasks(runs, 4)


@pytest.fixture(scope="module")
def found() -> choice.ProcessChoice:
    runs = delayed(np.random.default_rng(1), 30)
    return choose_process(runs, candidates=("homogeneous", "progress"), rng=2)


def test_every_default_candidate_is_fitted_under_its_own_name() -> None:
    runs = delayed(np.random.default_rng(3), 12)
    for name in CANDIDATES:
        fit = fit_candidate(name, runs, rng=np.random.default_rng(0))
        assert fit.name == name
        assert fit.bootstrap_curves(runs, np.ones((1, 12)), 5).shape == (1, 2, 6)


@pytest.mark.parametrize(
    "name", ["nonsense", "order", "phases", "progress-2", "order-0", "order-x", "mixture-99", "-2"]
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no process is called|needs a number"):
        check_candidate(name)


def test_candidates_stand_in_the_order_of_simplicity() -> None:
    assert sorted(CANDIDATES, key=place_of) == list(CANDIDATES)
    assert place_of("phases-2") < place_of("phases-8") < place_of("mixture-2")


def test_scores_are_those_of_held_out_tasks_and_units() -> None:
    runs = delayed(np.random.default_rng(5), 9)
    unit = np.array([0, 0, 1, 1, 2, 3, 4, 4, 4], dtype=np.int32)[runs.task]
    runs = StateSequences(
        states=runs.states, offsets=runs.offsets, event=runs.event,
        task=runs.task, unit=unit, state_names=runs.state_names,
    )  # fmt: skip
    made = choose_process(
        runs, candidates=("homogeneous", "progress"), n_folds=5, rng=np.random.default_rng(1)
    )
    scores = {name: np.empty(9) for name in ("homogeneous", "progress")}
    for left in range(5):  # five units, five folds: each leaves one out, whatever the dealing
        inside = runs.select(np.flatnonzero(unit != left))
        out = runs.select(np.flatnonzero(unit == left))
        for name, score in scores.items():
            fit = fit_candidate(name, inside, rng=np.random.default_rng(0))
            score[np.unique(out.task)] = fit.log_score(out)
    rows = {row.name: row for row in made.scores}
    best = max(scores, key=lambda name: scores[name].mean())
    assert made.best == best
    of_task = np.array([0, 0, 1, 1, 2, 3, 4, 4, 4])
    for name, score in scores.items():
        gap = score - scores[best]
        sums = np.array([np.sum(gap[of_task == u] - gap.mean()) for u in range(5)])
        assert rows[name].log_score == pytest.approx(score.mean())
        assert rows[name].difference == pytest.approx(gap.mean())
        assert rows[name].se_difference == pytest.approx(np.sqrt(5 / 4 * np.sum(sums**2)) / 9)


def test_timing_that_depends_on_progress_is_found(found: choice.ProcessChoice) -> None:
    assert found.chosen == found.best == "progress"
    assert found.process.name == "progress"
    first, second, baseline = found.scores
    assert (first.name, second.name, baseline.name) == ("homogeneous", "progress", BASELINE)
    assert first.difference is not None
    assert first.se_difference is not None
    assert first.difference < -3 * first.se_difference
    assert [row.chosen for row in found.scores] == [False, True, False]


def test_the_table_reads_as_text_and_json(found: choice.ProcessChoice) -> None:
    rows = json.loads(json.dumps(found.to_dict()))["candidates"]
    assert {"name", "log_score", "difference", "se_difference", "n_parameters"} <= set(rows[0])
    lines = str(found).splitlines()
    assert "progress" in lines[0]
    assert lines[3].startswith("* progress")


def _rows(**values: tuple[float, float, int]) -> dict[str, choice._Compared]:
    return {
        name.replace("_", "-"): choice._Compared(name, 0.0, difference, se, n, ())
        for name, (difference, se, n) in values.items()
    }


def test_a_candidate_is_near_when_one_standard_error_reaches_the_best() -> None:
    rows = _rows(near=(-0.1, 0.11, 3), far=(-0.1, 0.09, 1), best=(0.0, 0.0, 9))
    assert [name for name, row in rows.items() if choice._is_near(row)] == ["near", "best"]


def test_the_homogeneous_chain_is_near_within_one_and_a_half() -> None:
    inside = _rows(homogeneous=(-0.149, 0.1, 3), other=(-0.149, 0.1, 3))
    assert [name for name, row in inside.items() if choice._is_near(row)] == ["homogeneous"]
    outside = _rows(homogeneous=(-0.151, 0.1, 3))
    assert not choice._is_near(outside["homogeneous"])


def test_the_homogeneous_chain_is_simpler_than_any_with_fewer_parameters() -> None:
    rows = _rows(homogeneous=(-0.1, 0.2, 90), progress=(0.0, 0.0, 40), phases_4=(0.0, 0.1, 30))
    order = sorted(rows, key=lambda name: choice._simplicity(name, rows[name]))
    assert order == ["homogeneous", "phases-4", "progress"]


def test_the_fewest_parameters_win_and_the_baseline_never() -> None:
    rng = np.random.default_rng(11)
    runs = simulate.simulate_tasks(simulate.preset("react"), 40, 4, rng=rng)
    made = choose_process(runs, candidates=("order-2", "progress", "homogeneous"), rng=0)
    rows = {row.name: row for row in made.scores}
    assert [row.name for row in made.scores] == ["homogeneous", "progress", "order-2", BASELINE]
    assert made.chosen == made.near[0]
    sizes = [rows[name].n_parameters for name in made.near if name != "homogeneous"]
    assert sizes == sorted(sizes)  # type: ignore[type-var]
    assert BASELINE not in made.near
    assert rows[BASELINE].baseline


def test_what_iterates_from_starts_says_what_they_came_to() -> None:
    runs = delayed(np.random.default_rng(7), 25)
    made = choose_process(runs, candidates=("homogeneous", "mixture-2"), rng=0)
    row = next(row for row in made.scores if row.name == "mixture-2")
    assert any("starts" in note for note in row.notes)


def test_same_seed_same_answer_whatever_the_workers() -> None:
    runs = delayed(np.random.default_rng(9), 20)
    names = ("homogeneous", "progress", "mixture-2")
    alone = choose_process(runs, candidates=names, rng=4)
    with ThreadPoolExecutor(2) as threads:
        together = choose_process(runs, candidates=names, executor=threads, rng=4)
    assert alone.to_dict() == together.to_dict()


def test_what_cannot_be_fitted_has_a_row_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str, runs: StateSequences, *, rng: np.random.Generator) -> object:
        if name == "progress":
            raise ValueError("too little to fit")
        return fit_homogeneous(runs)

    monkeypatch.setattr(choice, "fit_candidate", fails)
    runs = delayed(np.random.default_rng(9), 10)
    made = choose_process(runs, candidates=("homogeneous", "progress"), rng=0)
    assert made.chosen == "homogeneous"
    row = next(row for row in made.scores if row.name == "progress")
    assert row.log_score is None
    assert row.notes == ("too little to fit",)
    with pytest.raises(ValueError, match="no candidate could be fitted"):
        choose_process(runs, candidates=("progress",), rng=0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"candidates": ()}, "one or more"),
        ({"candidates": ("progress", "progress")}, "different"),
        ({"candidates": ("smooth incidence",)}, "no process is called"),
        ({"n_folds": 1}, "at least 2"),
    ],
)
def test_settings_are_checked(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        choose_process(delayed(np.random.default_rng(1), 6), rng=0, **arguments)  # type: ignore[arg-type]


def test_a_single_unit_cannot_be_cross_validated() -> None:
    with pytest.raises(ValueError, match="at least two"):
        choose_process(sequences_of([([0], 1), ([0], 2)], task=[0, 0]), rng=0)
