from __future__ import annotations

import numpy as np
import pytest

from oracles.attempts import TAU_BENCH
from sojourn.attempts import TaskCounts


def test_runs_are_counted_by_task() -> None:
    counts = TaskCounts.from_runs(
        [True, False, True, True, False], task=[7, 3, 7, 9, 3], unit=[50, 40, 50, 40, 40]
    )
    assert counts.successes.tolist() == [0, 2, 1]
    assert counts.attempts.tolist() == [2, 2, 1]
    assert counts.unit.tolist() == [0, 1, 0]
    assert (counts.n_tasks, counts.n_runs, counts.n_units) == (3, 5, 2)
    assert counts.rate == pytest.approx(3 / 5)
    assert counts.max_attempts == 2
    assert counts.histogram().tolist() == [1, 0, 1]


def test_without_units_tasks_are_the_units() -> None:
    counts = TaskCounts.from_runs(np.ones(4, bool), np.array([1, 1, 0, 5]))
    assert counts.n_units == counts.n_tasks == 3


def test_sparse_and_negative_labels_are_ranked() -> None:
    task = np.array([10**12, -5, 10**12, 0])
    counts = TaskCounts.from_runs([True, True, False, False], task)
    assert counts.successes.tolist() == [1, 0, 1]
    assert counts.attempts.tolist() == [1, 1, 2]


def test_histogram_is_of_the_modal_number_of_attempts() -> None:
    counts = TaskCounts(successes=[1, 2, 5, 0], attempts=[2, 2, 9, 2], unit=[0, 1, 2, 3])
    assert counts.modal_attempts == 2
    assert counts.histogram().tolist() == [1, 1, 1]


def test_counting_agrees_with_a_dictionary(rng: np.random.Generator) -> None:
    task = rng.integers(0, 300, 5000) * 3
    success = rng.random(5000) < 0.4
    expected: dict[int, list[int]] = {}
    for t, s in zip(task.tolist(), success.tolist(), strict=True):
        pair = expected.setdefault(t, [0, 0])
        pair[0] += s
        pair[1] += 1
    counts = TaskCounts.from_runs(success, task, unit=task // 30)
    pairs = [expected[t] for t in sorted(expected)]
    assert counts.successes.tolist() == [c for c, _ in pairs]
    assert counts.attempts.tolist() == [n for _, n in pairs]
    values = rng.random(counts.n_tasks)
    sums = [values[counts.unit == u].sum() for u in range(counts.n_units)]
    np.testing.assert_allclose(counts.unit_sums(values), sums)


def test_flipped_counts_failures() -> None:
    successes = np.repeat(np.arange(5), TAU_BENCH)
    counts = TaskCounts(successes=successes, attempts=np.full(50, 4), unit=np.arange(50))
    assert counts.flipped().histogram().tolist() == list(TAU_BENCH)[::-1]


def test_arrays_are_read_only_copies() -> None:
    successes = np.array([1, 2])
    counts = TaskCounts(successes=successes, attempts=[2, 2], unit=[0, 1])
    successes[0] = 0
    assert counts.successes[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        counts.successes[0] = 0


@pytest.mark.parametrize(
    ("successes", "attempts", "unit", "message"),
    [
        ([], [], [], "no task"),
        ([1], [1, 2], [0], "differ in length"),
        ([3], [2], [0], "task 0 has 3 successes in 2"),
        ([0, -1], [2, 2], [0, 1], "task 1"),
        ([0], [0], [0], "at least 1"),
    ],
)
def test_impossible_counts_are_refused(
    successes: list[int], attempts: list[int], unit: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TaskCounts(successes=successes, attempts=attempts, unit=unit)


def test_runs_of_a_task_in_two_units_are_refused() -> None:
    with pytest.raises(ValueError, match="task 8 are of several units"):
        TaskCounts.from_runs([True, True, True], [4, 8, 8], [0, 1, 2])
    with pytest.raises(ValueError, match="shape"):
        TaskCounts.from_runs([True], [4, 8])
