"""Building a corpus one record, or one batch of columns, at a time.

Readers of documents yield `Trace` records; readers of tables yield `TraceBatch`, whole columns,
since a Python object for each of 10^6 runs is what makes tables slow. Both end in the same chunks.
A (task, attempt) that one job logs twice is kept once, a source that holds the runs of another not
at all, and what was dropped is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._redaction import screened
from sojourn.corpus._copies import find_copies
from sojourn.corpus.columns import (
    Categorical,
    Interner,
    ScreenedInterner,
    StepTypes,
    combinations,
    count_skipped,
    label_interner,
    note_altered,
    step_key,
)
from sojourn.corpus.traces import (
    ENDS,
    INT_COLUMNS,
    LABEL_COLUMNS,
    LIMIT_KINDS,
    OUTCOMES,
    TaskTable,
    TraceCorpus,
)
from sojourn.records import End, Skipped, Trace

__all__ = ["CorpusBuilder", "TraceBatch"]

_OUTCOME_CODE = {value: code for code, value in enumerate(OUTCOMES)}
_END_CODE = {value: code for code, value in enumerate(ENDS)}
_LIMIT_CODE = {value: code for code, value in enumerate(LIMIT_KINDS)}
_OPTIONAL_INTS = ("task_repeat", "position", "step_limit", "n_steps")
_NUMBERS = tuple(name for name in INT_COLUMNS if name != "task")
_CHUNK = 1 << 16
_StepKey = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceBatch:
    """Runs as columns, as a reader of tables yields them.

    Attributes
    ----------
    n_runs : int
        Number of runs.
    numbers : mapping of str to ndarray of shape (n_runs,)
        Any of outcome, end, limit_kind (codes), score, task_repeat, position, step_limit,
        n_steps; what is absent takes its default (end unknown, else missing). `outcome` must
        be there.
    labels : mapping of str to Categorical
        ``task_id`` must be there; any of task_set, agent, model, cluster, session_id, job_id,
        source_type, source_uri.
    offsets, steps, step_types, digests
        The steps as in `TraceCorpus`; None when no steps are known.
    """

    n_runs: int
    numbers: Mapping[str, npt.NDArray[Any]]
    labels: Mapping[str, Categorical]
    offsets: npt.NDArray[np.int64] | None = None
    steps: npt.NDArray[np.int32] | None = None
    step_types: StepTypes | None = None
    digests: npt.NDArray[np.uint64] | None = None


@dataclass(slots=True)
class _Pending:
    """Runs added one by one, waiting to become a chunk."""

    columns: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: [] for name in (*INT_COLUMNS, *LABEL_COLUMNS, "score", "origin")
        }
    )
    lengths: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)


class CorpusBuilder:
    """Collects records into a `TraceCorpus`.

    Examples
    --------
    >>> from sojourn.records import Outcome, Trace
    >>> builder = CorpusBuilder()
    >>> builder.add(Trace(task_id="a", outcome=Outcome.SUCCESS, n_steps=3))
    >>> len(builder.build())
    1
    """

    def __init__(self) -> None:
        self._labels = {name: label_interner(name) for name in LABEL_COLUMNS}
        self._task_sets = label_interner("task_set")
        self._tasks: ScreenedInterner[tuple[int, str]] = ScreenedInterner(_screened_task)
        self._types: ScreenedInterner[_StepKey] = ScreenedInterner(_screened_step)
        self._chunks: list[dict[str, npt.NDArray[Any]]] = []
        self._pending = _Pending()
        self._skipped: dict[tuple[str, str, str], int] = {}
        self._sources: list[str] = []
        self._n_runs = 0

    def __len__(self) -> int:
        return self._n_runs

    def open_source(self, name: str) -> None:
        """Say that the runs to come stand in another file or folder than those before."""
        self._sources.append(name)

    def skip(self, item: Skipped) -> None:
        """Count something that was left out; equal reasons at one source are added up."""
        count_skipped(self._skipped, item)

    def add(self, trace: Trace) -> None:
        """Add one run."""
        pending = self._pending
        columns = pending.columns
        columns["outcome"].append(_OUTCOME_CODE[trace.outcome])
        columns["end"].append(_END_CODE[trace.end])
        columns["limit_kind"].append(
            -1 if trace.limit_kind is None else _LIMIT_CODE[trace.limit_kind]
        )
        columns["score"].append(np.nan if trace.score is None else trace.score)
        columns["task"].append(
            self._tasks.code((self._task_sets.code(trace.task_set), trace.task_id))
        )
        for name in _OPTIONAL_INTS:
            value = getattr(trace, name)
            columns[name].append(-1 if value is None else value)
        for name, interner in self._labels.items():
            label = getattr(trace, name)
            columns[name].append(-1 if not label else interner.code(label))
        if not trace.job_id and trace.source_uri:
            columns["job_id"][-1] = self._labels["job_id"].code(trace.source_uri)
        columns["origin"].append(len(self._sources) - 1)
        pending.lengths.append(len(trace.steps))
        for step in trace.steps:
            pending.steps.append(self._types.code(step_key(step)))
            pending.digests.append(step.digest)
        self._n_runs += 1
        if len(pending.lengths) >= _CHUNK:
            self._flush()

    def add_batch(self, batch: TraceBatch) -> None:
        """Add the runs of a batch of columns.

        Raises
        ------
        ValueError
            If a column is missing, unknown or has the wrong length.
        """
        self._flush()
        n = batch.n_runs
        _check_batch(batch)
        defaults = {"end": _END_CODE[End.UNKNOWN]}
        chunk: dict[str, npt.NDArray[Any]] = {
            name: np.asarray(batch.numbers.get(name, np.full(n, defaults.get(name, -1))), dtype)
            for name, dtype in INT_COLUMNS.items()
            if name != "task"
        }
        chunk["origin"] = np.full(n, len(self._sources) - 1, np.int32)
        chunk["score"] = np.asarray(batch.numbers.get("score", np.full(n, np.nan)), np.float64)
        chunk["task"] = self._translate_tasks(batch)
        for name, interner in self._labels.items():
            column = batch.labels.get(name)
            chunk[name] = np.full(n, -1, np.int32) if column is None else _recode(column, interner)
        if "source_uri" in batch.labels and (chunk["job_id"] < 0).any():
            source = _recode(batch.labels["source_uri"], self._labels["job_id"])
            chunk["job_id"] = np.where(chunk["job_id"] < 0, source, chunk["job_id"])
        if batch.steps is None or batch.step_types is None or batch.offsets is None:
            chunk["lengths"] = np.zeros(n, np.int64)
            chunk["steps"] = np.zeros(0, np.int32)
        else:
            translated = self._types.translate(batch.step_types.keys())
            chunk["lengths"] = np.diff(batch.offsets)
            chunk["steps"] = translated[batch.steps] if batch.steps.size else batch.steps
            if batch.digests is not None:
                chunk["digests"] = batch.digests
        self._chunks.append(chunk)
        self._n_runs += n

    def _translate_tasks(self, batch: TraceBatch) -> npt.NDArray[np.int32]:
        ids = batch.labels["task_id"]
        sets = batch.labels.get("task_set", Categorical.missing(batch.n_runs))
        first, code = combinations((sets.codes, ids.codes))
        set_names, id_names = (*sets.values, ""), ids.values
        tasks = [
            self._tasks.code((self._task_sets.code(set_names[set_code]), id_names[id_code]))
            for set_code, id_code in zip(
                sets.codes[first].tolist(), ids.codes[first].tolist(), strict=True
            )
        ]
        return np.array(tasks, np.int32)[code]

    def _flush(self) -> None:
        pending = self._pending
        if not pending.lengths:
            return
        dtypes = {**INT_COLUMNS, "score": np.float64, "origin": np.int32}
        dtypes |= dict.fromkeys(LABEL_COLUMNS, np.int32)
        chunk = {name: np.array(pending.columns[name], dtype) for name, dtype in dtypes.items()}
        chunk["lengths"] = np.array(pending.lengths, np.int64)
        chunk["steps"] = np.array(pending.steps, np.int32)
        chunk["digests"] = np.array(pending.digests, np.uint64)
        self._chunks.append(chunk)
        self._pending = _Pending()

    def build(self) -> TraceCorpus:
        """Return the corpus of all that was added, without what stands there twice."""
        self._flush()
        origins = [chunk.pop("origin") for chunk in self._chunks]
        origin = np.concatenate([np.zeros(0, np.int32), *origins])
        corpus = self._assemble()
        repeated = _repeated_attempts(corpus)
        if repeated.any():
            self._count_repeated(corpus, repeated)
            corpus, origin = corpus.select(~repeated), origin[~repeated]
        copied = self._copied(corpus, origin)
        if copied.any():
            corpus = corpus.select(~copied)
        first = self._sources[0] if self._sources else ""
        interners: tuple[ScreenedInterner[Any], ...] = (
            *self._labels.values(),
            self._task_sets,
            self._tasks,
            self._types,
        )
        for item in note_altered(interners, first):
            self.skip(item)
        skipped = tuple(
            Skipped(source=source, reason=reason, what=what, count=count)
            for (source, reason, what), count in self._skipped.items()
        )
        return corpus.replace(skipped=skipped)

    def _copied(self, corpus: TraceCorpus, origin: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Mark the runs of sources that hold the runs of an earlier one, and count them."""
        copies = find_copies(corpus, origin)
        for copy in copies:
            count = int(np.count_nonzero(origin == copy.source))
            where = f"the same runs stand in {self._sources[copy.first]} too"
            self.skip(
                Skipped(
                    source=self._sources[copy.source],
                    reason=f"{where}; if they are other runs, name their job (job_id)",
                    count=count,
                )
                if copy.is_certain
                else Skipped(
                    source=self._sources[copy.first],
                    reason="as many runs of another source equal these; they are too few to tell "
                    "a copy, and were kept",
                    count=count,
                    what="key",
                )
            )
        return np.isin(origin, [copy.source for copy in copies if copy.is_certain])

    def _assemble(self) -> TraceCorpus:
        dtypes: dict[str, Any] = {**INT_COLUMNS, "score": np.float64}
        dtypes |= dict.fromkeys(LABEL_COLUMNS, np.int32)
        dtypes |= {"lengths": np.int64, "steps": np.int32}
        digests = self._digests()
        whole = {
            name: np.concatenate([np.zeros(0, dtype), *(chunk[name] for chunk in self._chunks)])
            for name, dtype in dtypes.items()
        }
        self._chunks = []
        tasks = self._tasks.values
        task_set = Categorical(
            codes=np.array([key[0] for key in tasks], np.int32), values=self._task_sets.values
        )
        columns: dict[str, Any] = {name: whole[name] for name in (*INT_COLUMNS, "score")}
        for name, interner in self._labels.items():
            columns[name] = Categorical(codes=whole[name], values=interner.values)
        return TraceCorpus(
            **columns,
            offsets=np.concatenate(([0], np.cumsum(whole["lengths"]))),
            steps=whole["steps"],
            step_types=StepTypes.from_keys(self._types.values),
            digests=digests,
            tasks=TaskTable(task_set=task_set, task_id=tuple(key[1] for key in tasks)),
        )

    def _digests(self) -> npt.NDArray[np.uint64] | None:
        """Return the digests of all steps, 0 where unknown; None where there is none at all."""
        if not any("digests" in chunk and chunk["digests"].any() for chunk in self._chunks):
            return None
        return np.concatenate(
            [
                chunk["digests"] if "digests" in chunk else np.zeros(chunk["steps"].size, np.uint64)
                for chunk in self._chunks
            ]
        )

    def _count_repeated(self, corpus: TraceCorpus, repeated: npt.NDArray[np.bool_]) -> None:
        key = (
            corpus.task,
            corpus.job_id.codes,
            corpus.agent.codes,
            corpus.model.codes,
            corpus.task_repeat,
        )
        first, code = combinations(key)
        kept = first[code]
        differs = np.zeros(len(corpus), bool)
        for column in (corpus.outcome, corpus.end, corpus.n_steps):
            differs |= column != column[kept]
        for run in np.flatnonzero(repeated).tolist():
            fault = "and contradicts itself" if differs[run] else "alike"
            self.skip(
                Skipped(
                    source=corpus.source_uri[run] or "",
                    reason="the same (task, attempt) of the same job stands there twice "
                    f"{fault}; the first was kept",
                )
            )


def _check_batch(batch: TraceBatch) -> None:
    """Raise ValueError if a batch's columns are not those of as many runs as it says."""
    columns: dict[str, npt.NDArray[Any] | Categorical] = {**batch.numbers, **batch.labels}
    known = {*_NUMBERS, "score", *LABEL_COLUMNS, "task_set", "task_id"}
    if unknown := columns.keys() - known:
        raise ValueError(f"unknown columns in a batch: {', '.join(sorted(unknown))}")
    if missing := {"outcome", "task_id"} - columns.keys():
        raise ValueError(f"a batch lacks {' and '.join(sorted(missing))}")
    for name, column in columns.items():
        if len(column) != batch.n_runs:
            raise ValueError(f"{name} has {len(column)} rows in a batch of {batch.n_runs} runs")
    if batch.n_runs and batch.labels["task_id"].codes.min() < 0:
        raise ValueError("a run of a batch has no task_id")
    if batch.offsets is not None and batch.offsets.size != batch.n_runs + 1:
        raise ValueError(f"{batch.offsets.size} offsets in a batch of {batch.n_runs} runs")


def _screened_task(key: tuple[int, str]) -> tuple[int, str]:
    return key[0], screened(key[1], is_id=True)


def _screened_step(key: _StepKey) -> _StepKey:
    return screened(key[0]), *key[1:]


def _recode(column: Categorical, interner: Interner[str]) -> npt.NDArray[np.int32]:
    """Translate a column's codes into those of `interner`; an empty label is a missing one."""
    codes = [interner.code(value) if value else -1 for value in column.values]
    return np.array([*codes, -1], np.int32)[column.codes]


def _repeated_attempts(corpus: TraceCorpus) -> npt.NDArray[np.bool_]:
    """Mark every run but the first of each stated (job, agent, model, task, attempt)."""
    first, _ = combinations(
        (
            corpus.task,
            corpus.job_id.codes,
            corpus.agent.codes,
            corpus.model.codes,
            corpus.task_repeat,
        )
    )
    repeated = np.ones(len(corpus), bool)
    repeated[first] = False
    return repeated & (corpus.task_repeat >= 0)
