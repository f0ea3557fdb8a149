"""Tables with a step a row, put together to runs.

The rows of a run share (task_set, agent, model, job_id, task_id, task_repeat), stand anywhere in
the table and are ordered by their step number. What they say about the whole run must agree; a run
whose rows contradict each other, or whose path has a hole, is left out and counted, since half a
path is another path. Kept per row: the run, the step number and a code of the step (16 bytes).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.corpus import Categorical, StepTypes, TraceBatch
from sojourn.corpus.columns import ACTORS, STEP_KINDS, Interner, combinations
from sojourn.readers._columns import INTS
from sojourn.readers._rows import REASONS, UNPLACED, WRONG_COUNT, Complaints, Rows, run_batch
from sojourn.readers._steps import RESPOND
from sojourn.records import Actor, StepKind

__all__ = ["StepRows", "default_step"]

_KEY_LABELS = ("task_set", "agent", "model", "job_id", "task_id")
_RUN_NUMBERS = ("outcome", "end", "limit_kind", "score", *(n for n in INTS if n != "task_repeat"))
_RUN_LABELS = ("cluster", "session_id")
_FACTS = (*_RUN_NUMBERS, *_RUN_LABELS)
_TOOL = STEP_KINDS.index(StepKind.TOOL)
_MODEL = STEP_KINDS.index(StepKind.MODEL)
_AGENT = ACTORS.index(Actor.AGENT)

_NO_NAME = "a step has no name"
_NO_NUMBER = "a step has a name but no number"
_TWICE = "two rows have the same step number (are several attempts mixed? see --map task_repeat)"
_DISAGREE = tuple(f"its rows disagree about {name}" for name in _FACTS)
# Faults of a run: those of a single row first, so that both share one numbering.
_FAULTS = (*REASONS, _NO_NAME, _NO_NUMBER, _TWICE, *_DISAGREE)
_FAULT = {fault: code for code, fault in enumerate(_FAULTS)}


def default_step(
    name: str, kind: int = -1, actor: int = -1, ok: int = -1, n_calls: int = -1
) -> tuple[str, int, int, int, int]:
    """Return the row of `StepTypes` for a step of which only some is said (-1 for the rest)."""
    if kind < 0:
        kind = _MODEL if name == RESPOND else _TOOL
    if n_calls < 0:
        n_calls = 0 if kind == _MODEL else 1
    return (name, _AGENT if actor < 0 else actor, kind, ok, n_calls)


class _Runs(NamedTuple):
    """The distinct runs of one batch of rows: their codes, and where their rows begin."""

    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    codes: npt.NDArray[np.int32]


class StepRows:
    """Collects rows of single steps; `batch` gives the runs once all rows are in."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self._keys: Interner[tuple[str | int, ...]] = Interner()
        self._types: Interner[tuple[str, int, int, int, int]] = Interner()
        self._labels: dict[str, Interner[str]] = {name: Interner() for name in _RUN_LABELS}
        self._low: npt.NDArray[np.float64] = np.full((len(_FACTS), 0), np.nan)
        self._high = self._low
        self._fault: npt.NDArray[np.int16] = np.zeros(0, np.int16)
        self._place: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._run: list[npt.NDArray[np.int32]] = []
        self._step: list[npt.NDArray[np.float64]] = []
        self._type: list[npt.NDArray[np.int32]] = []

    def add(self, rows: Rows, places: npt.NDArray[np.int64]) -> None:
        """Add rows; `places` holds their numbers in the file."""
        unplaced = np.isin(rows.reason, UNPLACED)
        self._complaints.add_rows(np.where(unplaced, rows.reason, 0).astype(np.int8), places)
        at = np.flatnonzero(~unplaced)
        if not at.size:
            return
        run, runs = self._code_runs(rows, at)
        self._note_facts(rows, at, runs)
        step = rows.numbers["step"][at]
        name = rows.labels["name"].codes[at]
        fault = rows.reason[at].astype(np.int16)
        fault[(fault == 0) & (name < 0) & ~np.isnan(step)] = _FAULT[_NO_NAME]
        fault[(fault == 0) & (name >= 0) & np.isnan(step)] = _FAULT[_NO_NUMBER]
        self._blame(run[fault > 0], fault[fault > 0], places[at][fault > 0])
        sound = (fault == 0) & (name >= 0)
        self._run.append(run[sound])
        self._step.append(step[sound])
        self._type.append(self._code_steps(rows, at[sound]))

    def _code_runs(
        self, rows: Rows, at: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.int32], _Runs]:
        columns = [rows.labels[name].codes[at] for name in _KEY_LABELS if name in rows.labels]
        names = [name for name in _KEY_LABELS if name in rows.labels]
        repeat = rows.numbers.get("task_repeat", np.full(rows.n_rows, -1))[at]
        first, inverse = combinations([*columns, repeat])
        parts: list[list[Any]] = [[""] * first.size] * len(_KEY_LABELS)
        for name, column in zip(names, columns, strict=True):
            values = (*rows.labels[name].values, "")
            parts[_KEY_LABELS.index(name)] = [values[code] for code in column[first].tolist()]
        keys = list(zip(*parts, repeat[first].tolist(), strict=True))
        codes = self._keys.translate(keys)
        self._grow(len(self._keys))
        order = np.argsort(inverse, kind="stable")
        starts = np.searchsorted(inverse[order], np.arange(first.size))
        return codes[inverse], _Runs(order, starts, codes)

    def _grow(self, n_runs: int) -> None:
        old = self._fault.size
        if n_runs <= old:
            return
        more = max(n_runs, 2 * old) - old
        blank = np.full((len(_FACTS), more), np.nan)
        self._low = np.concatenate([self._low, blank], axis=1)
        self._high = np.concatenate([self._high, blank], axis=1)
        self._fault = np.concatenate([self._fault, np.zeros(more, np.int16)])
        self._place = np.concatenate([self._place, np.zeros(more, np.int64)])

    def _note_facts(self, rows: Rows, at: npt.NDArray[np.intp], runs: _Runs) -> None:
        """Keep the least and greatest of what the rows of each run say of the whole run."""
        for fact, name in enumerate(_FACTS):
            if name in rows.numbers:
                values = rows.numbers[name][at].astype(np.float64)
            elif name in rows.labels:
                column = rows.labels[name]
                table = np.array([*self._labels[name].translate(column.values), -1])
                values = table[np.where(column.codes < 0, -1, column.codes)][at].astype(np.float64)
            else:
                continue
            values[(values < 0) & (name != "score")] = np.nan
            values = values[runs.order]
            low = np.fmin.reduceat(values, runs.starts)
            high = np.fmax.reduceat(values, runs.starts)
            self._low[fact, runs.codes] = np.fmin(self._low[fact, runs.codes], low)
            self._high[fact, runs.codes] = np.fmax(self._high[fact, runs.codes], high)

    def _blame(
        self,
        run: npt.NDArray[np.int32],
        fault: npt.NDArray[np.int16],
        place: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Note the first fault of each run."""
        run, first = np.unique(run, return_index=True)
        new = self._fault[run] == 0
        self._fault[run[new]] = fault[first[new]]
        if place is not None:
            self._place[run[new]] = place[first[new]]

    def _code_steps(self, rows: Rows, at: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
        name = rows.labels["name"]
        columns = [name.codes[at]]
        for part in ("kind", "actor", "ok", "n_calls"):
            column = rows.numbers.get(part)
            columns.append(np.full(at.size, -1) if column is None else column[at])
        first, inverse = combinations(columns)
        keys = [
            default_step(name.values[code], *rest)
            for code, *rest in zip(*(column[first].tolist() for column in columns), strict=True)
        ]
        return self._types.translate(keys)[inverse]

    def batch(self, *, source_type: str, source_uri: str) -> TraceBatch | None:
        """Return the runs, each with its steps in order, and complain of those left out.

        None when no run is left.
        """
        n_runs = len(self._keys)
        if not n_runs:
            return None
        run = np.concatenate([np.zeros(0, np.int32), *self._run])
        step = np.concatenate([np.zeros(0), *self._step])
        types = np.concatenate([np.zeros(0, np.int32), *self._type])
        self._run, self._step, self._type = [], [], []
        ahead = np.diff(run)
        if (ahead < 0).any() or ((ahead == 0) & (np.diff(step) < 0)).any():
            order = np.lexsort((step, run))
            run, step, types = run[order], step[order], types[order]
        twice = (np.diff(run) == 0) & (np.diff(step) == 0)
        self._fill_fault(run[1:][twice], _TWICE)
        lengths = np.bincount(run, minlength=n_runs)
        facts = self._facts(lengths)
        keep = self._fault[:n_runs] == 0
        self._complain(n_runs)
        if not keep.any():
            return None
        offsets = np.concatenate(([0], np.cumsum(lengths[keep])))
        return run_batch(
            facts,
            keep,
            source_type=source_type,
            source_uri=source_uri,
            steps=(offsets, types[keep[run]], StepTypes.from_keys(self._types.values)),
        )

    def _fill_fault(self, run: npt.NDArray[Any], fault: str) -> None:
        self._blame(run, np.full(run.size, _FAULT[fault], np.int16))

    def _facts(self, lengths: npt.NDArray[np.intp]) -> Rows:
        """Return what is known of each run, as rows of a table with a run a row."""
        n_runs = lengths.size
        low, high = self._low[:, :n_runs], self._high[:, :n_runs]
        for fact, fault in enumerate(_DISAGREE):
            self._fill_fault(np.flatnonzero(high[fact] > low[fact]), fault)
        numbers: dict[str, npt.NDArray[Any]] = {}
        for fact, name in enumerate(_FACTS):
            known = low[fact]
            numbers[name] = (
                known if name == "score" else np.where(np.isnan(known), -1, known).astype(np.int32)
            )
        stated = numbers["n_steps"]
        self._fill_fault(
            np.flatnonzero((stated >= 0) & (lengths > 0) & (stated != lengths)), WRONG_COUNT
        )
        numbers["n_steps"] = np.where(stated >= 0, stated, lengths)
        keys = list(zip(*self._keys.values, strict=True))
        numbers["task_repeat"] = np.array(keys[-1], np.int32)
        labels = {
            name: _interned([str(value) for value in column])
            for name, column in zip(_KEY_LABELS, keys, strict=False)
        }
        if not any(labels["job_id"].codes >= 0):
            del labels["job_id"]
        for name in _RUN_LABELS:
            labels[name] = Categorical(codes=numbers.pop(name), values=self._labels[name].values)
        return Rows(n_rows=n_runs, reason=np.zeros(n_runs, np.int8), numbers=numbers, labels=labels)

    def _complain(self, n_runs: int) -> None:
        fault, place = self._fault[:n_runs], self._place[:n_runs]
        for code in np.unique(fault[fault > 0]).tolist():
            runs = np.flatnonzero(fault == code)
            self._complaints.add(_FAULTS[code], count=runs.size, place=int(place[runs].min()))


def _interned(values: list[str]) -> Categorical:
    """Return a column of labels; an empty one is none."""
    interner: Interner[str] = Interner()
    codes = interner.translate(values)
    empty = [code for code, value in enumerate(interner.values) if not value]
    return Categorical(codes=np.where(np.isin(codes, empty), -1, codes), values=interner.values)
