"""Building a session log one task, or one batch of columns, at a time.

Sessions are told apart by (session_id, agent, model). The same name in several files is one
session that goes on, unless the files contradict each other about a position: then they are kept
apart, each under its file's name. A position that a domain of a session holds twice is kept once.
Whatever is mended is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice
from sojourn.corpus.columns import (
    Categorical,
    combinations,
    count_skipped,
    label_interner,
    note_altered,
)
from sojourn.corpus.sessions import (
    LABEL_COLUMNS,
    NO_DOMAIN,
    NUMBER_COLUMNS,
    SessionLog,
    SessionTable,
)
from sojourn.corpus.traces import ENDS, GROUP_FIELDS, OUTCOMES, TraceCorpus
from sojourn.records import End, Skipped, TaskResult

__all__ = ["NO_PLACE", "SessionLogBuilder", "TaskBatch", "batch_of_traces", "log_of_traces"]

_SESSION_LABELS = ("session_id", "agent", "model", "source_type", "source_uri")
_LABELS = (*LABEL_COLUMNS, *_SESSION_LABELS)
_NUMBERS: dict[str, Any] = {
    **{name: dtype for name, dtype in NUMBER_COLUMNS.items() if name != "session"},
    "started": np.float64,
}
_DEFAULTS: dict[str, Any] = {"end": ENDS.index(End.UNKNOWN), "tokens": -1, "started": np.nan}
_OUTCOME_CODE = {value: code for code, value in enumerate(OUTCOMES)}
_END_CODE = {value: code for code, value in enumerate(ENDS)}
_CHUNK = 1 << 16

_TWICE = "the same task stands there twice; it was kept once"
_CONTRADICTED = "two different tasks claim one position of a session; the first was kept"
_APART = "files contradict each other about a session of one name; it was kept as one a file"
NO_PLACE = "the run has no session_id or no position"

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskBatch:
    """Tasks as columns, as a reader of tables yields them.

    Attributes
    ----------
    n_tasks : int
        Number of tasks.
    numbers : mapping of str to ndarray of shape (n_tasks,)
        ``outcome`` (codes) and ``position`` must be there; any of end (codes), tokens, started.
    labels : mapping of str to Categorical
        ``session_id`` must be there; any of domain, subdomain, item, agent, model, source_type,
        source_uri. A task without a domain belongs to the domain ``all``.
    """

    n_tasks: int
    numbers: Mapping[str, npt.NDArray[Any]]
    labels: Mapping[str, Categorical]


class SessionLogBuilder:
    """Collects tasks into a `SessionLog`.

    Examples
    --------
    >>> from sojourn.records import Outcome, TaskResult
    >>> builder = SessionLogBuilder()
    >>> builder.add(TaskResult(session_id="a", position=0, outcome=Outcome.SUCCESS))
    >>> builder.build().task_sequences().success
    array([1], dtype=int8)
    """

    def __init__(self) -> None:
        self._labels = {name: label_interner(name) for name in _LABELS}
        self._chunks: list[Columns] = []
        self._pending: list[tuple[Any, ...]] = []
        self._skipped: dict[tuple[str, str, str], int] = {}
        self._n_tasks = 0

    def __len__(self) -> int:
        return self._n_tasks

    def skip(self, item: Skipped) -> None:
        """Count something that was left out; equal reasons at one source are added up."""
        count_skipped(self._skipped, item)

    def add(self, result: TaskResult) -> None:
        """Add one task."""
        labels = [
            interner.code(label) if (label := getattr(result, name)) else -1
            for name, interner in self._labels.items()
        ]
        numbers = (
            _OUTCOME_CODE[result.outcome],
            _END_CODE[result.end],
            result.position,
            -1 if result.tokens is None else result.tokens,
            np.nan if result.started is None else result.started,
        )
        self._pending.append((*numbers, *labels))
        self._n_tasks += 1
        if len(self._pending) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            columns = zip(*self._pending, strict=True)
            names: dict[str, Any] = {**_NUMBERS, **dict.fromkeys(_LABELS, np.int32)}
            self._chunks.append(
                {
                    name: np.array(column, dtype)
                    for (name, dtype), column in zip(names.items(), columns, strict=True)
                }
            )
            self._pending = []

    def add_batch(self, batch: TaskBatch) -> None:
        """Add the tasks of a batch of columns.

        Raises
        ------
        ValueError
            If a column is missing, unknown or has the wrong length.
        """
        self._flush()
        _check_batch(batch)
        chunk: Columns = {
            name: np.asarray(
                batch.numbers.get(name, np.full(batch.n_tasks, _DEFAULTS.get(name))), dtype
            )
            for name, dtype in _NUMBERS.items()
        }
        for name, interner in self._labels.items():
            column = batch.labels.get(name, Categorical.missing(batch.n_tasks))
            codes = [interner.code(value) if value else -1 for value in column.values]
            chunk[name] = np.array([*codes, -1], np.int32)[column.codes]
        self._chunks.append(chunk)
        self._n_tasks += batch.n_tasks

    def build(self) -> SessionLog:
        """Return the log of all that was added, in order, positions that stand twice kept once."""
        self._flush()
        columns = self._whole()
        table = self._settle_sessions(columns)
        arrived = {name: columns[name] for name in ("session", "domain", "position")}
        arrival = np.arange(columns["session"].size)
        order = np.lexsort((arrival, columns["domain"], columns["position"], columns["session"]))
        columns = {name: column[order] for name, column in columns.items()}
        repeated = _repeated(columns)
        for reason, mask in ((_TWICE, repeated.is_equal), (_CONTRADICTED, repeated.is_other)):
            self._count(reason, columns["source_uri"][mask])
        first = "".join(self._labels["source_uri"].values[:1])
        for item in note_altered(self._labels.values(), first):
            self.skip(item)
        kept = ~(repeated.is_equal | repeated.is_other)
        # A row that is dropped was not put in its place.
        stays = np.zeros(kept.size, bool)
        stays[order[kept]] = True
        n_unsorted = _count_unsorted({name: column[stays] for name, column in arrived.items()})
        kept_columns: dict[str, Any] = {name: columns[name][kept] for name in NUMBER_COLUMNS}
        for name in LABEL_COLUMNS:
            kept_columns[name] = self._column(name, columns[name][kept])
        return SessionLog(
            **kept_columns,
            sessions=table,
            n_unsorted=n_unsorted,
            skipped=tuple(
                Skipped(source=source, reason=reason, what=what, count=count)
                for (source, reason, what), count in self._skipped.items()
            ),
        )

    def _whole(self) -> Columns:
        dtypes: dict[str, Any] = {**_NUMBERS, **dict.fromkeys(_LABELS, np.int32)}
        whole = {
            name: np.concatenate([np.zeros(0, dtype), *(chunk[name] for chunk in self._chunks)])
            for name, dtype in dtypes.items()
        }
        self._chunks = [dict(whole)]
        if (whole["domain"] < 0).any():
            unnamed = self._labels["domain"].code(NO_DOMAIN)
            whole["domain"] = np.where(whole["domain"] < 0, unnamed, whole["domain"])
        return whole

    def _column(self, name: str, codes: npt.NDArray[Any]) -> Categorical:
        return Categorical(codes=codes, values=self._labels[name].values)

    def _settle_sessions(self, columns: Columns) -> SessionTable:
        """Add the column of sessions, in the order in which they began, and return their table."""
        named = combinations([columns[name] for name in ("session_id", "agent", "model")])[1]
        apart = _contradicting(named, columns)
        source = np.where(apart[named], columns["source_uri"], -1)
        first, session = combinations((named, source))
        started = np.full(first.size, np.inf)
        np.minimum.at(started, session, np.nan_to_num(columns["started"], nan=np.inf))
        order = np.arange(first.size)
        if np.isfinite(started).all():
            order = np.argsort(started, kind="stable")
        rank = np.empty(first.size, np.int32)
        rank[order] = np.arange(first.size)
        columns["session"] = rank[session]
        first, started = first[order], started[order]
        self._count(_APART, columns["source_uri"][first[apart[named[first]]]], what="key")
        ids, uris = (self._labels[name].values for name in ("session_id", "source_uri"))
        names = [ids[code] for code in columns["session_id"][first].tolist()]
        for row in np.flatnonzero(apart[named[first]]).tolist():
            uri = int(columns["source_uri"][first[row]])
            names[row] += f" ({uris[uri]})" if uri >= 0 else ""
        return SessionTable(
            name=tuple(names),
            started=np.where(np.isfinite(started), started, np.nan),
            **{
                name: self._column(name, columns[name][first])
                for name in ("agent", "model", "source_type", "source_uri")
            },
        )

    def _count(self, reason: str, source: npt.NDArray[Any], *, what: str = "line") -> None:
        """Count rows, given by the code of the file that each came from."""
        uris = (*self._labels["source_uri"].values, "")
        for code, count in zip(*np.unique(source, return_counts=True), strict=True):
            self.skip(Skipped(source=uris[code], reason=reason, what=what, count=int(count)))


def _check_batch(batch: TaskBatch) -> None:
    """Raise ValueError if a batch's columns are not those of as many tasks as it says."""
    columns: dict[str, Any] = {**batch.numbers, **batch.labels}
    if unknown := columns.keys() - {*_NUMBERS, *_LABELS}:
        raise ValueError(f"unknown columns in a batch: {', '.join(sorted(unknown))}")
    if missing := {"outcome", "position", "session_id"} - columns.keys():
        raise ValueError(f"a batch lacks {' and '.join(sorted(missing))}")
    for name, column in columns.items():
        if len(column) != batch.n_tasks:
            raise ValueError(f"{name} has {len(column)} rows in a batch of {batch.n_tasks} tasks")
    if batch.n_tasks and batch.labels["session_id"].codes.min() < 0:
        raise ValueError("a task of a batch has no session_id")
    if batch.n_tasks and np.min(batch.numbers["position"]) < 0:
        raise ValueError("a task of a batch has no position")


def _content(columns: Columns) -> npt.NDArray[np.int32]:
    """Return a number for what each row says of its task."""
    return combinations([columns[name] for name in ("outcome", "end", "subdomain", "item")])[1]


def _contradicting(named: npt.NDArray[np.int32], columns: Columns) -> npt.NDArray[np.bool_]:
    """Mark the sessions about whose positions two files say different things."""
    apart = np.zeros(int(named.max(initial=-1)) + 1, bool)
    source = columns["source_uri"]
    if not source.size or (source == source[0]).all():
        return apart
    keys = (columns["position"], columns["domain"], named)
    order = np.lexsort((np.arange(named.size), *keys))
    same = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
    differs = np.diff(_content(columns)[order]) != 0
    foreign = np.diff(source[order]) != 0
    apart[named[order[1:][same & differs & foreign]]] = True
    return apart


class _Repeated(NamedTuple):
    """Rows at a place that is taken: those that say the same as the first there, and others."""

    is_equal: npt.NDArray[np.bool_]
    is_other: npt.NDArray[np.bool_]


def _repeated(columns: Columns) -> _Repeated:
    """Mark, in sorted columns, every row but the first of each (session, position, domain)."""
    repeats = np.zeros(columns["session"].size, bool)
    repeats[1:] = np.logical_and.reduce(
        [np.diff(columns[name]) == 0 for name in ("session", "position", "domain")]
    )
    first = np.maximum.accumulate(np.where(repeats, 0, np.arange(repeats.size)))
    content = _content(columns)
    is_equal = repeats & (content == content[first])
    return _Repeated(is_equal, repeats & ~is_equal)


def _count_unsorted(columns: Columns) -> int:
    """Count the tasks that come after one of their session and domain with a higher position."""
    _, group = combinations((columns["session"], columns["domain"]))
    order = np.argsort(group, kind="stable")
    place = (group[order].astype(np.int64) << 32) + columns["position"][order]
    return int(np.count_nonzero(place < np.maximum.accumulate(place)))


def batch_of_traces(
    corpus: TraceCorpus, *, domain: str = "task_set", subdomain: str = "cluster"
) -> tuple[TaskBatch, int]:
    """Return the runs of a corpus that say which session they belong to, as tasks.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    domain, subdomain : str
        Which of `GROUP_FIELDS` names the domain and the subdomain of a task.

    Returns
    -------
    batch : TaskBatch
        The tasks; a run's task (task_set, task_id) is the task's item.
    n_unplaced : int
        Runs that have no session_id or no position.
    """
    placed = (corpus.session_id.codes >= 0) & (corpus.position >= 0)
    rows = np.flatnonzero(placed)
    sets, ids = corpus.tasks.task_set, corpus.tasks.task_id
    items = [f"{sets[row]}/{ids[row]}" if sets[row] else ids[row] for row in range(len(ids))]
    labels = {
        "domain": corpus.label(domain).select(rows),
        "subdomain": corpus.label(subdomain).select(rows),
        "item": Categorical(codes=corpus.task[rows], values=tuple(items)),
        **{name: getattr(corpus, name).select(rows) for name in _SESSION_LABELS},
    }
    numbers = {name: getattr(corpus, name)[rows] for name in ("outcome", "end", "position")}
    batch = TaskBatch(n_tasks=rows.size, numbers=numbers, labels=labels)
    return batch, int(len(corpus) - rows.size)


def log_of_traces(corpus: TraceCorpus, *, domain: str, subdomain: str) -> SessionLog:
    """Return the sessions of a corpus; see `SessionLog.from_traces`."""
    check_choice(domain, GROUP_FIELDS, name="domain")
    check_choice(subdomain, GROUP_FIELDS, name="subdomain")
    batch, n_unplaced = batch_of_traces(corpus, domain=domain, subdomain=subdomain)
    if not batch.n_tasks:
        raise ValueError("no run says which session it belongs to (session_id and position)")
    builder = SessionLogBuilder()
    for item in corpus.skipped:
        builder.skip(item)
    builder.add_batch(batch)
    if n_unplaced:
        builder.skip(Skipped(source="", reason=NO_PLACE, count=n_unplaced))
    return builder.build()
