"""`TraceCorpus`: many runs as columns, never as objects.

A run is a row of integer and category columns; its steps are one slice of a flat array of codes
into a table of distinct steps. Nothing of the log's text is kept. A corpus is made by a
`CorpusBuilder`, which readers feed; methods see the arrays that `policy.resolve` draws from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, frozen_array
from sojourn.corpus.columns import Categorical, StepTypes
from sojourn.records import End, LimitKind, Outcome, Skipped, Trace
from sojourn.tables import n_of

__all__ = [
    "ENDS",
    "GROUP_FIELDS",
    "LIMIT_KINDS",
    "OUTCOMES",
    "Group",
    "TaskTable",
    "TraceCorpus",
]

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
ENDS: tuple[End, ...] = tuple(End)
LIMIT_KINDS: tuple[LimitKind, ...] = tuple(LimitKind)

# Fields that runs may be grouped by, the default ones first.
GROUP_FIELDS = ("task_set", "agent", "model", "job_id", "source_type", "source_uri", "cluster")
DEFAULT_GROUPING = GROUP_FIELDS[:3]

INT_COLUMNS = {
    "outcome": np.int8,
    "end": np.int8,
    "limit_kind": np.int8,
    "task": np.int32,
    "task_repeat": np.int32,
    "position": np.int32,
    "step_limit": np.int32,
    "n_steps": np.int32,
}
LABEL_COLUMNS = (
    "agent",
    "model",
    "cluster",
    "session_id",
    "job_id",
    "source_type",
    "source_uri",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskTable:
    """The tasks of a corpus; a task's key is (task_set, task_id), since ids collide across sets.

    Attributes
    ----------
    task_set : Categorical
        The set of each task.
    task_id : tuple of str
        The id of each task inside its set.
    """

    task_set: Categorical
    task_id: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.task_id)


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that may be pooled, named by the fields that they share.

    Attributes
    ----------
    labels : tuple of (str, str or None)
        Field and value; None where the log names none.
    """

    labels: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        named = [value for _, value in self.labels if value]
        return " / ".join(named) if named else "all runs"

    def to_dict(self) -> dict[str, str | None]:
        """Return task_set, agent and model (None where pooled or unnamed) and what else grouped."""
        return dict.fromkeys(DEFAULT_GROUPING) | {k: v or None for k, v in self.labels}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TraceCorpus:
    """Runs as columns.

    Attributes
    ----------
    outcome, end, limit_kind : ndarray of shape (n_runs,), int8
        Index into `OUTCOMES`, `ENDS`, `LIMIT_KINDS`; limit_kind is -1 without one.
    score : ndarray of shape (n_runs,), float64
        NaN where there is none.
    task : ndarray of shape (n_runs,), int32
        Index into `tasks`.
    task_repeat, position, step_limit, n_steps : ndarray of shape (n_runs,), int32
        -1 where unknown.
    agent, model, cluster, session_id, job_id, source_type, source_uri : Categorical
        Labels.
    offsets : ndarray of shape (n_runs + 1,), int64
        The steps of run r are ``steps[offsets[r]:offsets[r + 1]]``; a run whose steps were not
        logged has none, and `n_steps` may still be known.
    steps : ndarray of shape (n_steps,), int32
        Codes into `step_types`.
    step_types : StepTypes
        The distinct steps.
    digests : ndarray of shape (n_steps,), uint64, or None
        Digest of each whole action, 0 where unknown; None when no step has one.
    tasks : TaskTable
        The tasks; some may be unused after a selection.
    skipped : tuple of Skipped
        What was left out while reading, and why.
    """

    outcome: npt.NDArray[np.int8]
    end: npt.NDArray[np.int8]
    limit_kind: npt.NDArray[np.int8]
    score: npt.NDArray[np.float64]
    task: npt.NDArray[np.int32]
    task_repeat: npt.NDArray[np.int32]
    position: npt.NDArray[np.int32]
    step_limit: npt.NDArray[np.int32]
    n_steps: npt.NDArray[np.int32]
    agent: Categorical
    model: Categorical
    cluster: Categorical
    session_id: Categorical
    job_id: Categorical
    source_type: Categorical
    source_uri: Categorical
    offsets: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int32]
    step_types: StepTypes
    digests: npt.NDArray[np.uint64] | None
    tasks: TaskTable
    skipped: tuple[Skipped, ...] = ()

    def __post_init__(self) -> None:
        columns: dict[str, Any] = {**INT_COLUMNS, "score": np.float64}
        for name, dtype in columns.items():
            array = frozen_array(getattr(self, name), dtype, name=name)
            object.__setattr__(self, name, array)
            if array.size != self.outcome.size:
                raise ValueError(f"{name} has {array.size} rows, outcome has {self.outcome.size}")
        for name in LABEL_COLUMNS:
            if len(getattr(self, name)) != self.outcome.size:
                raise ValueError(f"{name} has another number of rows than outcome")
        object.__setattr__(self, "offsets", frozen_array(self.offsets, np.int64, name="offsets"))
        object.__setattr__(self, "steps", frozen_array(self.steps, np.int32, name="steps"))
        if self.offsets.size != self.outcome.size + 1 or self.offsets[-1] != self.steps.size:
            raise ValueError("offsets do not fit the runs and steps")

    def __len__(self) -> int:
        return int(self.outcome.size)

    def __repr__(self) -> str:
        size = ((len(self), "run"), (self.n_tasks, "task"), (self.steps.size, "step"))
        return f"<TraceCorpus of {', '.join(n_of(n, noun) for n, noun in size)}>"

    @property
    def n_tasks(self) -> int:
        """Number of different tasks that have a run."""
        return int(np.unique(self.task).size)

    @property
    def has_steps(self) -> bool:
        """Whether any run has its steps."""
        return bool(self.steps.size)

    def label(self, field: str) -> Categorical:
        """Return a label column by name; `task_set` is looked up through the task.

        Raises
        ------
        ValueError
            If `field` is not one of `GROUP_FIELDS`.
        """
        check_choice(field, GROUP_FIELDS, name="field")
        if field == "task_set":
            return self.tasks.task_set.select(self.task)
        column: Categorical = getattr(self, field)
        return column

    def select(self, runs: npt.NDArray[Any]) -> TraceCorpus:
        """Return the runs at the given indices, or where a mask is true."""
        index = np.flatnonzero(runs) if np.asarray(runs).dtype == bool else np.asarray(runs)
        lengths = np.diff(self.offsets)[index]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        source = np.repeat(self.offsets[:-1][index] - offsets[:-1], lengths) + np.arange(
            offsets[-1]
        )
        return TraceCorpus(
            **{name: getattr(self, name)[index] for name in INT_COLUMNS},
            **{name: getattr(self, name).select(index) for name in LABEL_COLUMNS},
            score=self.score[index],
            offsets=offsets,
            steps=self.steps[source],
            step_types=self.step_types,
            digests=None if self.digests is None else self.digests[source],
            tasks=self.tasks,
            skipped=self.skipped,
        )

    def replace(self, **columns: Any) -> TraceCorpus:
        """Return the corpus with some of its attributes exchanged."""
        return TraceCorpus(**{name: getattr(self, name) for name in self.__slots__} | columns)

    def without_digests(self) -> TraceCorpus:
        """Return the corpus without hashes of actions, from which short texts can be guessed."""
        return self.replace(digests=None)

    def groups(
        self, by: Sequence[str] = DEFAULT_GROUPING
    ) -> list[tuple[Group, npt.NDArray[np.intp]]]:
        """Return the groups of runs that share the given fields, with the indices of their runs.

        Groups come in the order of their first run. An empty `by` pools all runs.
        """
        code = np.zeros(len(self), np.int64)
        columns = [self.label(field) for field in by]
        for column in columns:
            _, code = np.unique(
                code * (len(column.values) + 1) + column.codes + 1, return_inverse=True
            )
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        ends = np.cumsum(np.bincount(inverse, minlength=first.size))
        members = np.split(order, ends[:-1]) if first.size else []
        groups = []
        for position in np.argsort(first):
            run = int(first[position])
            labels = tuple((field, column[run]) for field, column in zip(by, columns, strict=True))
            groups.append((Group(labels), members[position]))
        return groups

    def run_digests(self) -> npt.NDArray[np.uint64]:
        """Return a digest of each run's whole path, shape (n_runs,); 0 where it is unknown."""
        digests = np.zeros(len(self), np.uint64)
        if self.digests is None or not self.steps.size:
            return digests
        lengths = np.diff(self.offsets)
        position = np.arange(self.steps.size) - np.repeat(self.offsets[:-1], lengths)
        multiplier = position.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
        mixed = (self.digests ^ (self.digests >> np.uint64(29))) * multiplier
        filled = np.flatnonzero(lengths)
        starts = self.offsets[:-1][filled]
        digests[filled] = np.add.reduceat(mixed, starts)
        digests[filled[np.logical_or.reduceat(self.digests == 0, starts)]] = 0
        return digests

    def trace(self, run: int) -> Trace:
        """Return one run as a record, as a reader would have made it."""
        span = slice(int(self.offsets[run]), int(self.offsets[run + 1]))
        codes = self.steps[span].tolist()
        digests = [0] * len(codes) if self.digests is None else self.digests[span].tolist()
        limit = int(self.limit_kind[run])
        score = float(self.score[run])
        task = int(self.task[run])

        def known(name: str) -> int | None:
            value = int(getattr(self, name)[run])
            return None if value < 0 else value

        return Trace(
            task_id=self.tasks.task_id[task],
            task_set=self.tasks.task_set[task] or "",
            outcome=OUTCOMES[self.outcome[run]],
            end=ENDS[self.end[run]],
            limit_kind=None if limit < 0 else LIMIT_KINDS[limit],
            score=None if np.isnan(score) else score,
            task_repeat=known("task_repeat"),
            position=known("position"),
            step_limit=known("step_limit"),
            n_steps=known("n_steps"),
            agent=self.agent[run] or "",
            model=self.model[run] or "",
            cluster=self.cluster[run],
            session_id=self.session_id[run],
            job_id=self.job_id[run] or "",
            source_type=self.source_type[run] or "",
            source_uri=self.source_uri[run] or "",
            steps=tuple(
                self.step_types.step(code, digest)
                for code, digest in zip(codes, digests, strict=True)
            ),
        )
