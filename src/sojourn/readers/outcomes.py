"""Verdicts from a second file, for logs that hold none, and their join to the runs.

The file may be a SWE-bench report, of a run or of instances; a JSON object of id -> verdict; or
whatever our own JSON lines and tables may be, with a task and an outcome a row. A verdict is for
one run: where several runs fit it, or several verdicts that contradict each other fit a run,
nothing is joined. What found no partner is counted on both sides.

Logs of traces and of sessions know no tasks: the id of such a run is its own, and stands as its
task's. A row that names the run (``run_id``, ``trace_id`` or ``session_id``) beside a task says
which task it was, and which attempt at it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from sojourn.corpus import Categorical, CorpusBuilder, TraceBatch, TraceCorpus
from sojourn.corpus.columns import Interner
from sojourn.corpus.traces import ENDS, OUTCOMES, TaskTable
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers._columns import TASK_NAMES
from sojourn.readers._json import BadRecordError, decode, open_buffer, read_head, sniff
from sojourn.readers._rows import verdict_of_word
from sojourn.readers._swebench import Finding, is_run_report, run_findings
from sojourn.readers.base import Reader, ReadOptions, load_reader
from sojourn.readers.table import column_names
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["Outcomes", "join_outcomes", "read_outcomes"]

# Readers of rows that may hold verdicts, in the order in which they are asked.
_ROW_FORMATS = ("sojourn-parquet", "sojourn-jsonl", "table")
# Beside the task's id, what may tell runs apart; each counts only where the file fills it.
_LABELS = ("task_set", "agent", "model", "job_id")
# Columns that name a run by the id that its own log gives it; read as its session.
_RUN_COLUMNS = ("run_id", "trace_id")
_INFRA = ENDS.index(End.INFRA_ERROR)
_UNSCORED = OUTCOMES.index(Outcome.UNSCORED)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcomes:
    """Verdicts on runs, as they stand in a file.

    Attributes
    ----------
    source : str
        The file.
    verdicts : TraceCorpus
        One row a verdict: its task, whatever else names the run, the outcome and the score. The
        attempt stands in `position`, so that two verdicts on one attempt are both kept. The end is
        ``infra_error`` where the file blames the infrastructure, and else of no account.
    mapped : frozenset of str
        Those of our fields whose column was named and stands in the file.
    """

    source: str
    verdicts: TraceCorpus
    mapped: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.verdicts)


class _Report(msgspec.Struct):
    """A verdict that stands inside an object, as in the SWE-bench report of one instance."""

    outcome: bool | float | str | None = None
    success: bool | float | str | None = None
    resolved: bool | float | str | None = None
    infra_failure: bool = False


def read_outcomes(
    path: str | os.PathLike[str], *, columns: Mapping[str, str] | None = None
) -> Outcomes:
    """Read verdicts from a file.

    Parameters
    ----------
    path : path-like
        A SWE-bench report of a run (of its first or second version) or of instances; a JSON
        object of task id -> verdict (true, false, 1, 0, null, ``success``, ``failure``,
        ``unscored``); or JSON lines, CSV or Parquet with a task (``task_id``, ``instance_id``,
        ``id``) and a verdict (``outcome``, ``success``, ``resolved``) a row, and optionally
        ``task_repeat``, ``task_set``, ``agent``, ``model``, ``job_id``, ``score``; and the run
        itself (``run_id``, ``trace_id``, ``session_id``), where its log knows no tasks.
    columns : mapping of str to str, optional
        For rows: our field -> the column that holds it; one that is not there is left to the
        file of the runs.

    Returns
    -------
    Outcomes
        The verdicts, and in ``verdicts.skipped`` what of the file was left out.

    Raises
    ------
    ReaderError
        If the file is missing, empty, damaged as a whole, or of another form.
    """
    path = Path(path)
    if not path.is_file():
        raise ReaderError(f"{path}: no such file")
    try:
        head = read_head(path)
        if not head.strip():
            raise EmptySourceError(f"{path}: the file is empty")
        mapping = _there(path, head, columns or {})
        verdicts = _read(path, head, mapping)
    except BadRecordError as error:
        raise ReaderError(f"{path}: {error}") from None
    except OSError as error:
        raise ReaderError(f"{path}: {error.strerror or error}") from None
    if not len(verdicts):
        raise EmptySourceError(f"{path}: there is no verdict in it")
    return Outcomes(source=str(path), verdicts=verdicts, mapped=frozenset(mapping))


def _there(path: Path, head: bytes, columns: Mapping[str, str]) -> dict[str, str]:
    """Return those of the named columns that stand in the file."""
    names = column_names(path, head) if not sniff(head).kind else frozenset[str]()
    return {
        ours: theirs
        for ours, theirs in columns.items()
        if theirs in sniff(head).keys or theirs.strip().casefold() in names
    }


def _with_run(path: Path, head: bytes, mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the mapping with the column that names the run, and with it as task where none is."""
    keys = sniff(head).keys if sniff(head).kind else column_names(path, head)
    found = dict(mapping)
    columns = [name for name in _RUN_COLUMNS if name in keys]
    if len(columns) == 1 and "session_id" not in keys:
        found.setdefault("session_id", columns[0])
        if "task_id" not in found and not keys & TASK_NAMES:
            found["task_id"] = columns[0]
    return found


def _read(path: Path, head: bytes, mapping: Mapping[str, str]) -> TraceCorpus:
    if is_run_report(head):
        return _corpus(run_findings(open_buffer(path)))
    mapping = _with_run(path, head, mapping)
    for name in _ROW_FORMATS:
        reader = load_reader(name)
        if reader.claims(path, head):
            return _rows(path, reader, mapping)
    if mapping:
        return _rows(path, load_reader("sojourn-jsonl" if sniff(head).kind else "table"), mapping)
    if sniff(head).kind != "object":
        raise UnknownFormatError(
            f"{path}: no file of verdicts; it may be a SWE-bench report, a JSON object of "
            "id -> verdict, or JSON lines or a CSV with task_id and outcome (other names with "
            "--map task_id=COLUMN --map outcome=COLUMN)"
        )
    findings: dict[str, Finding] = {}
    skipped: list[Skipped] = []
    form = dict[str, bool | float | str | _Report | list[Any] | None]
    for task_id, value in decode(open_buffer(path), form).items():
        finding = _finding(value)
        if finding is None:
            skipped.append(Skipped(source=str(path), reason="the value is no verdict", what="line"))
        else:
            findings[task_id] = finding
    return _corpus(findings, skipped)


def _rows(path: Path, reader: Reader, mapping: Mapping[str, str]) -> TraceCorpus:
    """Return the rows of a table, each of them: two that name one run are for the join to judge."""
    builder = CorpusBuilder()
    for record in reader.read(path, ReadOptions(columns=mapping)):
        if isinstance(record, Skipped):
            builder.skip(record)
        elif isinstance(record, TraceBatch):
            # A corpus keeps one run an attempt, but as many as there are at one position.
            numbers = {k: v for k, v in record.numbers.items() if k != "position"}
            if (attempt := numbers.pop("task_repeat", None)) is not None:
                numbers["position"] = attempt
            labels = {k: v for k, v in record.labels.items() if not k.startswith("source_")}
            builder.add_batch(replace(record, numbers=numbers, labels=labels))
    return builder.build()


def _finding(value: bool | float | str | _Report | list[Any] | None) -> Finding | None:
    """Return the verdict that a value is, None where it is none."""
    if isinstance(value, _Report):
        stated = [v for v in (value.outcome, value.success, value.resolved) if v is not None]
        inner = _finding(stated[0]) if stated else Finding(Outcome.UNSCORED)
        return Finding(Outcome.UNSCORED, infra=True) if value.infra_failure else inner
    if value is None:
        return Finding(Outcome.UNSCORED)
    if isinstance(value, str):
        outcome = verdict_of_word(value)
        return None if outcome is None else Finding(outcome)
    if value in (0, 1):
        return Finding(Outcome.SUCCESS if value else Outcome.FAILURE)
    return None  # another number, or a list


def _corpus(findings: Mapping[str, Finding], skipped: list[Skipped] | None = None) -> TraceCorpus:
    builder = CorpusBuilder()
    for item in skipped or ():
        builder.skip(item)
    for task_id, (outcome, infra) in findings.items():
        if task_id.strip():
            end = End.INFRA_ERROR if infra else End.UNKNOWN
            builder.add(Trace(task_id=task_id, outcome=outcome, end=end))
    return builder.build()


def join_outcomes(corpus: TraceCorpus, outcomes: Outcomes) -> TraceCorpus:
    """Return the runs with the verdicts of a file.

    A run takes the verdict whose task id is its own and which agrees with it in whatever else the
    file fills in: attempt (where the runs state theirs), task set, agent, model, job. A verdict
    replaces the run's own, unless it is none (``unscored``); where it blames the infrastructure,
    the run's end becomes ``infra_error``.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    outcomes : Outcomes
        The verdicts.

    Returns
    -------
    TraceCorpus
        The same runs in the same order. In `skipped`, counted: runs without a verdict, verdicts
        without a run, verdicts that fit several runs or contradict each other, and verdicts that
        replaced another.

    Raises
    ------
    ReaderError
        If no verdict fits any run: the ids are of two kinds, or the file is the wrong one.
    """
    verdicts = outcomes.verdicts
    by_run = _names_runs(corpus, verdicts)
    run_key, verdict_key = _keys(corpus, verdicts, by_run=by_run)
    match = _match(run_key, verdict_key, _codes(verdicts))
    joined = match.verdict >= 0
    if not joined.any() and not match.is_ambiguous.any() and not match.is_contradicted.any():
        raise ReaderError(
            f"{outcomes.source}: none of its {len(verdicts)} verdicts fits any of the "
            f"{len(corpus)} runs; its first task is {_first_task(verdicts)}, that of the runs "
            f"{_first_task(corpus)}"
        )
    source = np.where(joined, match.verdict, 0)
    told = verdicts.outcome[source]
    blamed = joined & (verdicts.end[source] == _INFRA)
    takes = joined & (told != _UNSCORED)
    replaced = takes & (corpus.outcome != _UNSCORED) & (corpus.outcome != told)
    score = np.where(takes, verdicts.score[source], corpus.score)
    score = np.where(takes & ~replaced & np.isnan(score), corpus.score, score)
    counts = {
        ("no verdict on the run", "key"): ~joined & ~match.is_ambiguous & ~match.is_contradicted,
        ("a verdict fits several runs, and none was given it; name the attempt "
         "(task_repeat), agent, model or job_id", "key"): match.is_ambiguous,
        ("verdicts on one run contradict each other, and none was taken", "key"):
            match.is_contradicted,
        ("the run's own verdict was replaced", "key"): replaced,
        ("a verdict fits no run", "line"): match.is_unused,
    }  # fmt: skip
    told_of = tuple(
        Skipped(source=outcomes.source, reason=reason, what=what, count=int(mask.sum()))
        for (reason, what), mask in counts.items()
        if mask.any()
    )
    if by_run:
        corpus, n_unnumbered = _with_tasks(corpus, verdicts, match.verdict)
        if n_unnumbered:
            reason = "runs that are given one attempt of a task; their attempts are not numbered"
            told_of += (
                Skipped(source=outcomes.source, reason=reason, count=n_unnumbered, what="key"),
            )
    return replace(
        corpus,
        outcome=np.where(takes, told, corpus.outcome),
        score=score,
        end=np.where(blamed, _INFRA, corpus.end),
        limit_kind=np.where(blamed, -1, corpus.limit_kind),
        skipped=(*corpus.skipped, *verdicts.skipped, *told_of),
    )


def _first_task(corpus: TraceCorpus) -> str:
    return repr(corpus.tasks.task_id[int(corpus.task[0])][:40]) if len(corpus) else "missing"


def _codes(verdicts: TraceCorpus) -> Ints:
    """Return a number for what each verdict says; equal numbers do not contradict each other."""
    codes: Ints = verdicts.outcome.astype(np.int64) * 2 + (verdicts.end == _INFRA)
    return codes


def _names_runs(corpus: TraceCorpus, verdicts: TraceCorpus) -> bool:
    """Return whether more verdicts fit by the run that they name than by its task.

    An id such as ``1`` may well be that of a session and of a task.
    """
    known = {corpus.tasks.task_id[task] for task in np.unique(corpus.task)}
    sessions = verdicts.session_id
    by_run = np.array([*(value in known for value in sessions.values), False])
    by_task = np.array([task_id in known for task_id in verdicts.tasks.task_id], bool)
    fits = int(by_run[sessions.codes].sum()), int(by_task[verdicts.task].sum())
    return fits[0] > fits[1]


def _with_tasks(
    corpus: TraceCorpus, verdicts: TraceCorpus, verdict: Ints
) -> tuple[TraceCorpus, int]:
    """Return runs with the tasks, attempts and labels of their verdicts (-1: none).

    The number tells how many runs have no number of an attempt, since others were given the same.
    """
    joined = verdict >= 0
    row = np.where(joined, verdict, 0)
    tasks: Interner[tuple[str, str]] = Interner()
    code = np.empty(len(corpus), np.int32)
    for run in range(len(corpus)):
        task = int(corpus.task[run])
        task_set, task_id = corpus.tasks.task_set[task], corpus.tasks.task_id[task]
        if joined[run]:
            given = int(verdicts.task[row[run]])
            task_set = verdicts.tasks.task_set[given] or task_set
            task_id = verdicts.tasks.task_id[given]
        code[run] = tasks.code((task_set or "", task_id))
    repeat = np.where(joined & (verdicts.position[row] >= 0), verdicts.position[row], -1)
    repeat = np.where(joined, repeat, corpus.task_repeat).astype(np.int32)
    labels = {
        name: _news(corpus.label(name), verdicts.label(name), row, joined)
        for name in ("agent", "model", "cluster")
    }
    key = np.stack([code, labels["agent"].codes, labels["model"].codes, repeat])
    _, place, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
    clashes = (count[place.ravel()] > 1) & (repeat >= 0)
    sets: Interner[str] = Interner()
    table = TaskTable(
        task_set=Categorical(
            codes=np.array([sets.code(s) if s else -1 for s, _ in tasks.values], np.int32),
            values=sets.values,
        ),
        task_id=tuple(task_id for _, task_id in tasks.values),
    )
    numbered = np.where(clashes, np.int32(-1), repeat)
    return corpus.replace(task=code, tasks=table, task_repeat=numbered, **labels), int(
        np.count_nonzero(clashes)
    )


def _news(own: Categorical, told: Categorical, row: Ints, joined: Bools) -> Categorical:
    """Return a label as the verdicts tell it, the run's own where they do not."""
    values = (*own.values, *told.values)
    codes = np.where(joined & (told.codes[row] >= 0), told.codes[row] + len(own.values), own.codes)
    distinct: Interner[str] = Interner()
    table = np.array([*(distinct.code(value) for value in values), -1], np.int32)
    return Categorical(codes=table[codes], values=distinct.values)


def _keys(corpus: TraceCorpus, verdicts: TraceCorpus, *, by_run: bool) -> tuple[Ints, Ints]:
    """Return a number for each run and each verdict; they fit where the numbers are equal."""
    both = np.zeros(len(corpus) + len(verdicts), np.int64)
    for run_column, verdict_column in _compared(corpus, verdicts, by_run=by_run):
        column = np.concatenate((run_column, verdict_column)).astype(np.int64)
        _, both = np.unique(
            both * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True
        )
    return both[: len(corpus)], both[len(corpus) :]


def _compared(
    corpus: TraceCorpus, verdicts: TraceCorpus, *, by_run: bool
) -> Iterator[tuple[Any, Any]]:
    """Yield the columns that are compared, as codes of one table each."""
    runs = Categorical(codes=corpus.task, values=corpus.tasks.task_id)
    if by_run:  # whatever else a verdict says of a run is news
        yield _shared_codes(runs, verdicts.session_id)
        return
    yield _shared_codes(runs, Categorical(codes=verdicts.task, values=verdicts.tasks.task_id))
    if (corpus.task_repeat >= 0).any() and (verdicts.position >= 0).any():
        yield corpus.task_repeat, verdicts.position
    for name in _LABELS:
        label = verdicts.label(name)
        if any(label.used()):
            yield _shared_codes(corpus.label(name), label)


def _shared_codes(first: Categorical, second: Categorical) -> tuple[Ints, Ints]:
    """Return the codes of two label columns in one table; a missing label and "" are -1."""
    table: dict[str, int] = {}
    codes: list[Ints] = []
    for column in (first, second):
        values = [table.setdefault(v, len(table)) if v else -1 for v in column.values]
        code: Ints = np.array([*values, -1], np.int64)
        codes.append(code[column.codes])
    return codes[0], codes[1]


class _Match(NamedTuple):
    """Which verdict each run gets (-1: none), and what went without."""

    verdict: Ints
    is_ambiguous: Bools
    is_contradicted: Bools
    is_unused: Bools


def _match(run_key: Ints, verdict_key: Ints, code: Ints) -> _Match:
    n_keys = int(max(run_key.max(initial=-1), verdict_key.max(initial=-1))) + 1
    n_runs = np.bincount(run_key, minlength=n_keys)
    lowest = np.full(n_keys, np.iinfo(np.int64).max)
    highest = np.full(n_keys, -1, np.int64)
    np.minimum.at(lowest, verdict_key, code)
    np.maximum.at(highest, verdict_key, code)
    first = np.full(n_keys, -1, np.int64)
    first[verdict_key[::-1]] = np.arange(verdict_key.size)[::-1]  # the first one is written last
    has_verdict = first >= 0
    contradicted = has_verdict & (lowest != highest)
    ambiguous = has_verdict & ~contradicted & (n_runs > 1)
    first[contradicted | ambiguous] = -1
    return _Match(
        verdict=first[run_key],
        is_ambiguous=ambiguous[run_key],
        is_contradicted=contradicted[run_key],
        is_unused=n_runs[verdict_key] == 0,
    )
