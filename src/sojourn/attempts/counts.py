"""What the methods on repeated attempts see: attempts and successes of every task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import frozen_array

__all__ = ["TaskCounts"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskCounts:
    """Successes and attempts of every task.

    Attributes
    ----------
    successes : ndarray of shape (n_tasks,), int64
        Successful runs of each task.
    attempts : ndarray of shape (n_tasks,), int64
        Counted runs of each task, at least one.
    unit : ndarray of shape (n_tasks,), int32
        Unit of resampling of each task: the cluster above it, or the task itself. Any numbers;
        equal numbers are one unit.

    Raises
    ------
    ValueError
        If there is no task, a task has no attempt, or its successes are not in 0 .. attempts.
    """

    successes: npt.NDArray[np.int64]
    attempts: npt.NDArray[np.int64]
    unit: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        for name, dtype in (("successes", np.int64), ("attempts", np.int64), ("unit", np.int32)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype, name=name))
        if not self.successes.shape == self.attempts.shape == self.unit.shape:
            raise ValueError(
                f"successes, attempts and unit differ in length: {self.successes.size}, "
                f"{self.attempts.size}, {self.unit.size}"
            )
        if self.attempts.size == 0:
            raise ValueError("there is no task to count")
        wrong = (self.attempts < 1) | (self.successes < 0) | (self.successes > self.attempts)
        if wrong.any():
            task = int(np.argmax(wrong))
            raise ValueError(
                f"task {task} has {self.successes[task]} successes in {self.attempts[task]} "
                "attempts; successes must lie in 0 .. attempts and attempts be at least 1"
            )

    @classmethod
    def from_runs(
        cls, success: npt.ArrayLike, task: npt.ArrayLike, unit: npt.ArrayLike | None = None
    ) -> TaskCounts:
        """Count runs by task.

        Parameters
        ----------
        success : array_like of shape (n_runs,), bool
            Whether each run succeeded.
        task : array_like of shape (n_runs,), int
            The task of each run, numbers of at least 0; those that no run has are left out.
        unit : array_like of shape (n_runs,), int, optional
            The unit of resampling of each run; by default its task.

        Returns
        -------
        TaskCounts
            Tasks in ascending order of their numbers, units numbered from 0.

        Raises
        ------
        ValueError
            If the lengths differ or the runs of a task are of several units.
        """
        outcome = np.asarray(success, dtype=bool)
        label = np.asarray(task, dtype=np.int64)
        if outcome.shape != label.shape or label.ndim != 1:
            raise ValueError(f"success has shape {outcome.shape}, task has {label.shape}")
        index, n_tasks = _compact(label)
        group = index
        if unit is not None:
            group, _ = _compact(np.asarray(unit, dtype=np.int64))
            if group.shape != label.shape:
                raise ValueError(f"unit has shape {group.shape}, task has {label.shape}")
        of_task = np.zeros(n_tasks, dtype=np.int64)
        of_task[index] = group
        if not np.array_equal(of_task[index], group):
            mixed = int(label[np.argmax(of_task[index] != group)])
            raise ValueError(f"the runs of task {mixed} are of several units; a task has one")
        return cls(
            successes=np.bincount(index[outcome], minlength=n_tasks),
            attempts=np.bincount(index, minlength=n_tasks),
            unit=of_task.astype(np.int32),
        )

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.attempts.size)

    @property
    def n_runs(self) -> int:
        """Number of runs of all tasks."""
        return int(self.attempts.sum())

    @property
    def n_units(self) -> int:
        """Number of units of resampling."""
        return _compact(self.unit.astype(np.int64))[1]

    @property
    def rate(self) -> float:
        """Share of successful runs."""
        return float(self.successes.sum() / self.attempts.sum())

    @property
    def max_attempts(self) -> int:
        """Most attempts at one task."""
        return int(self.attempts.max())

    @property
    def modal_attempts(self) -> int:
        """The number of attempts that most tasks have; the larger one of equals."""
        numbers, tasks = np.unique(self.attempts, return_counts=True)
        return int(numbers[tasks == tasks.max()].max())

    def histogram(self) -> npt.NDArray[np.int64]:
        """Return how many tasks have 0, 1, .. n successes, of those with `modal_attempts` n."""
        modal = self.modal_attempts
        return np.bincount(self.successes[self.attempts == modal], minlength=modal + 1)

    def unit_sums(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the sums over each unit's tasks of one value a task, shape (n_units,)."""
        index, n_units = _compact(self.unit.astype(np.int64))
        sums = np.bincount(index, weights=values, minlength=n_units)
        return sums.astype(np.float64, copy=False)

    def flipped(self) -> TaskCounts:
        """Return the counts with success and failure exchanged."""
        return TaskCounts(
            successes=self.attempts - self.successes, attempts=self.attempts, unit=self.unit
        )


def _compact(labels: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    """Return the labels as ranks 0, 1, .. and how many are distinct; dense ones cost no sort."""
    if labels.size == 0:
        return labels, 0
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high > 4 * labels.size + 1024:
        distinct, inverse = np.unique(labels, return_inverse=True)
        return inverse.astype(np.int64), int(distinct.size)
    seen = np.zeros(high + 1, dtype=np.int64)
    seen[labels] = 1
    number = np.cumsum(seen) - 1
    return number[labels], int(number[-1] + 1)
