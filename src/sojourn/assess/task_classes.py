"""Which tasks belong to which class of a mixture of chains, and how the classes differ.

Classes differ in the odds of success, in pace, or in both, so that each is shown with its share,
its success rate and its mean number of steps, all up to the longest observed run: beyond it nothing
was seen. What the process says of a class stands beside what the runs of its tasks did.

What it does not say: that the classes are natural kinds. They were made by looking at these very
outcomes, and a law of tasks that is continuous looks like two or three classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sojourn.estimates import Verdict, number
from sojourn.process.mixture import MixtureFit
from sojourn.sequences import SUCCESS, StateSequences

__all__ = ["TaskClassRow", "TaskClassTable", "TaskMember", "task_class_table"]

MAX_LISTED = 200
CLEAR = 0.9
CIRCULAR = (
    "classes were made by looking at these outcomes: the observed rates describe, they do not test"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMember:
    """A task and how surely it belongs to its class.

    Attributes
    ----------
    task_set, task_id : str
        The task.
    probability : float
        Posterior probability of the class given all runs of the task.
    """

    task_set: str
    task_id: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "task_set": self.task_set,
            "task_id": self.task_id,
            "probability": self.probability,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskClassRow:
    """A class of tasks.

    Attributes
    ----------
    share : float
        Share of all tasks, by the process.
    success : float or None
        P(success within the longest observed run) of a run at a task of the class; None where the
        timing of the process is rejected.
    mean_steps : float or None
        Expected number of steps up to the longest observed run; None likewise.
    n_tasks, n_clear : int
        Tasks whose most probable class this is, and those of them at 90 % or more.
    n_runs : int
        Runs of these tasks.
    observed_success, observed_steps : float or None
        Their success rate and mean number of steps, cut runs as they are; None without runs.
    members : tuple of TaskMember
        The tasks, the surest first, at most 200.
    """

    share: float
    success: float | None
    mean_steps: float | None
    n_tasks: int
    n_clear: int
    n_runs: int
    observed_success: float | None
    observed_steps: float | None
    members: tuple[TaskMember, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "share": self.share,
            "success": number(self.success),
            "mean_steps": number(self.mean_steps),
            "n_tasks": self.n_tasks,
            "n_clear": self.n_clear,
            "n_runs": self.n_runs,
            "observed_success": number(self.observed_success),
            "observed_mean_steps": number(self.observed_steps),
            "tasks": [member.to_dict() for member in self.members],
            "n_not_listed": self.n_tasks - len(self.members),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskClassTable:
    """The classes of tasks of a mixture of chains, the easiest first.

    Attributes
    ----------
    process : str
        Name of the process.
    horizon : int
        Steps of the longest observed run: figures of the process go so far.
    rows : tuple of TaskClassRow
        The classes.
    notes : tuple of str
        What a reader must know of them.
    """

    process: str
    horizon: int
    rows: tuple[TaskClassRow, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "process": self.process,
            "horizon": self.horizon,
            "classes": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }


def task_class_table(
    process: MixtureFit,
    sequences: StateSequences,
    tasks: Sequence[tuple[str, str]],
    *,
    timing: Verdict,
) -> TaskClassTable:
    """Tell the classes of a mixture and their tasks.

    Parameters
    ----------
    process : MixtureFit
        The process.
    sequences : StateSequences
        All runs; each task's class is told from all of its own.
    tasks : sequence of (str, str)
        Set and id of each task, by its number in the runs.
    timing : Verdict
        The verdict on the process's curves: the law's own figures are withheld when rejected.

    Notes
    -----
    With S(d) the chance that a run of the class still goes on after step d, the mean number of
    steps up to the horizon h is S(0) + ... + S(h - 1).
    """
    horizon = int(sequences.lengths.max(initial=1))
    classes = process.task_classes(sequences)
    kind_of = classes.most_probable
    place = np.searchsorted(classes.task, sequences.task)
    success = sequences.event == SUCCESS
    told = timing is not Verdict.REJECTED
    rows = []
    for c, (share, chain) in enumerate(zip(process.weights, process.chains, strict=True)):
        mine = np.flatnonzero(kind_of == c)
        mine = mine[np.argsort(-classes.probability[mine, c], kind="stable")]
        runs = kind_of[place] == c
        n_runs = int(runs.sum())
        curve = chain.success_within(horizon)
        going = 1.0 - curve - chain.failure_within(horizon)
        rows.append(
            TaskClassRow(
                share=float(share),
                success=min(1.0, float(curve[-1])) if told else None,
                mean_steps=float(going[:-1].sum()) if told else None,
                n_tasks=int(mine.size),
                n_clear=int((classes.probability[mine, c] >= CLEAR).sum()),
                n_runs=n_runs,
                observed_success=float(success[runs].mean()) if n_runs else None,
                observed_steps=float(sequences.lengths[runs].mean()) if n_runs else None,
                members=tuple(
                    TaskMember(
                        task_set=tasks[classes.task[t]][0],
                        task_id=tasks[classes.task[t]][1],
                        probability=float(classes.probability[t, c]),
                    )
                    for t in mine[:MAX_LISTED]
                ),
            )
        )
    withheld = () if told else ("the process's own figures are withheld: its timing is rejected",)
    return TaskClassTable(
        process=process.name, horizon=horizon, rows=tuple(rows), notes=(CIRCULAR, *withheld)
    )
