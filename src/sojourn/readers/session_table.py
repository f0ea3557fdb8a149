"""Tables of sessions: CSV, TSV, Parquet or JSON lines, with a task of a session a row.

``session_id``, ``position`` and ``success`` are needed; ``domain``, ``subdomain``, ``item``,
``agent``, ``model`` and ``tokens`` may be there. Columns go by these names or their synonyms
(``session``, ``t``, ``y``); ``--map success=won`` names the rest. A task whose verdict is none of
true, false, 1, 0 keeps its place, without a verdict, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.corpus import Categorical, TaskBatch
from sojourn.corpus.traces import OUTCOMES
from sojourn.errors import ReaderError
from sojourn.readers._columns import SESSION_FIELDS, column_of, holds_sessions, shown
from sojourn.readers._json import read_head, sniff
from sojourn.readers._json_rows import Plans, json_rows, token_text
from sojourn.readers._rows import (
    NESTED,
    Complaints,
    Rows,
    Texts,
    blame,
    understand,
    verdicts,
    whole_numbers,
)
from sojourn.readers.base import ReadOptions, Record
from sojourn.readers.table import Frame, column_names, note_unused, open_table
from sojourn.records import Outcome

__all__ = ["SessionTableReader"]

_CHUNK_ROWS = 1 << 16
_NEEDED = ("session_id", "position", "outcome")
_UNSCORED = OUTCOMES.index(Outcome.UNSCORED)
_BAD_SUCCESS = "success is none of true, false, 1, 0; the task was kept without a verdict"
_BAD_TOKENS = "tokens is no whole number and was left out"
_NO_SUCCESS = "success is missing (null says that there is no verdict)"
_LABELS = ("session_id", "domain", "subdomain", "item", "agent", "model")


class SessionTableReader:
    """Reads tables of sessions."""

    name = "session-table"
    kind = "sessions"
    description = "a table of sessions, CSV, Parquet or JSON lines: session_id, position, success"
    carries = "outcomes in order"
    heeds = frozenset({"columns"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether a row has a session, a position and a verdict, and is no run."""
        return self._holds_sessions(source, head, loosely=False)

    def accepts(self, source: Path, head: bytes) -> bool:
        """Return whether a row is a task of a session, whatever else it is.

        It may have a task's id or steps, and so be a run by default, if it has a domain or a
        subdomain: these a reader of runs would lose.
        """
        return self._holds_sessions(source, head, loosely=True)

    def _holds_sessions(self, source: Path, head: bytes, *, loosely: bool) -> bool:
        text = head.lstrip()
        if not text:
            return False
        if text[:1] in b"[{":
            return holds_sessions(sniff(head).keys, loosely=loosely)
        if b"\0" in head and not head.startswith(b"PAR1"):
            return False
        return holds_sessions(column_names(source, head), loosely=loosely)

    def columns(self, source: Path) -> tuple[str, ...]:
        """Return the columns of a CSV or Parquet table, or the keys of the first JSON object."""
        head = read_head(source)
        if head.lstrip()[:1] in (b"[", b"{"):
            return tuple(sorted(sniff(head).keys))
        return tuple(open_table(source).names)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a table stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield batches of tasks."""
        mapping = {_OURS.get(name, name): column for name, column in options.columns.items()}
        first = read_head(source).lstrip()[:1]
        complaints = Complaints(str(source), unit=_unit(first))
        if first in (b"[", b"{"):
            frames = _json_frames(source, mapping, complaints, is_array=first == b"[")
        else:
            frames = _table_frames(source, mapping, complaints)
        yield from _batches(frames, source, complaints)
        yield from complaints.items()


# A user calls the verdict of a task success; inside it is the outcome, as a run's.
_OURS = {"success": "outcome"}


def _unit(first: bytes) -> str:
    return {b"[": "item", b"{": "line"}.get(first, "row")


def _table_frames(
    source: Path, mapping: Mapping[str, str], complaints: Complaints
) -> Iterator[Frame]:
    table = open_table(source)
    columns = column_of(
        table.names, mapping, source=source.name, folded=True, fields=SESSION_FIELDS
    )
    for name in _NEEDED:
        if name not in columns:
            word = "success" if name == "outcome" else name
            raise ReaderError(
                f"{source.name}: no column is {word}; the columns are {shown(table.names)}; "
                f"name it with --map {word}=COLUMN"
            )
    note_unused(table.names, columns, complaints)
    yield from table.frames(columns, complaints)


class _Tokens:
    """The fields of some JSON objects, undecoded: codes into the distinct tokens of each field."""

    def __init__(self) -> None:
        self._known: list[dict[bytes, int]] = [{} for _ in SESSION_FIELDS]
        self._codes: list[list[int]] = []
        self._places: list[int] = []

    def __len__(self) -> int:
        return len(self._codes)

    def add(
        self, fields: Mapping[str, Any], columns: Iterable[tuple[int, str]], place: int
    ) -> None:
        codes = [-1] * len(SESSION_FIELDS)
        for index, key in columns:
            known = self._known[index]
            codes[index] = known.setdefault(bytes(fields[key]), len(known))
        self._codes.append(codes)
        self._places.append(place)

    def frame(self, complaints: Complaints) -> Frame:
        codes: npt.NDArray[np.int32] = np.array(self._codes, np.int32)
        texts = {
            name: Texts(codes[:, index], [token_text(token, complaints) for token in known])
            for index, (name, known) in enumerate(zip(SESSION_FIELDS, self._known, strict=True))
            if known or name in _NEEDED
        }
        return Frame(texts, len(codes), np.array(self._places, np.int64))


def _json_frames(
    source: Path, mapping: Mapping[str, str], complaints: Complaints, *, is_array: bool
) -> Iterator[Frame]:
    plans = Plans(source.name, mapping, SESSION_FIELDS)
    tokens = _Tokens()
    is_checked = False
    for row in json_rows(source, complaints, is_array=is_array):
        plan = plans.of(tuple(row.fields))
        if plan.fault:
            complaints.add(plan.fault, place=row.place)
            continue
        if not plan.has("outcome"):
            complaints.add(_NO_SUCCESS, what="key", place=row.place)
        tokens.add(row.fields, plan.columns, row.place)
        if len(tokens) >= _CHUNK_ROWS:
            if not is_checked:
                plans.check_mapped()
            is_checked = True
            yield tokens.frame(complaints)
            tokens = _Tokens()
    if not is_checked:
        plans.check_mapped()
    if len(tokens):
        yield tokens.frame(complaints)
    plans.complain(complaints)


def _batches(frames: Iterator[Frame], source: Path, complaints: Complaints) -> Iterator[TaskBatch]:
    n_rows = n_verdicts = 0
    held = []
    for frame in frames:
        texts = dict(frame.texts)
        outcome = verdicts(texts.pop("outcome"))
        tokens = whole_numbers(texts.pop("tokens")) if "tokens" in texts else None
        rows = understand(texts, frame.n_rows, as_tasks=True)
        _blame_nested(rows, texts)
        complaints.add_rows(rows.reason, frame.places)
        keep = np.flatnonzero(rows.reason == 0)
        _complain(complaints, _BAD_SUCCESS, outcome[keep] == -2, frame.places[keep])
        if tokens is not None:
            _complain(complaints, _BAD_TOKENS, tokens[keep] == -2, frame.places[keep])
        n_rows += frame.n_rows
        n_verdicts += int(np.count_nonzero(outcome >= 0))
        held.append(_batch(rows, keep, outcome, tokens, source))
        if n_verdicts:
            # Nothing is given out before the column has shown that it holds verdicts.
            yield from held
            held = []
    if n_rows and not n_verdicts:
        raise ReaderError(
            f"{source.name}: no row has a verdict: success is never true, false, 1 or 0; "
            "name the column that holds it with --map success=COLUMN"
        )
    yield from held


def _blame_nested(rows: Rows, texts: Mapping[str, Texts]) -> None:
    """Refuse rows in which a list or an object stands for a label; numbers refuse them anyway."""
    for name in _LABELS:
        if name in texts:
            codes = [code for code, text in enumerate(texts[name].values) if text in ("[", "{")]
            if codes:
                blame(rows, np.isin(texts[name].codes, codes), NESTED)


def _complain(
    complaints: Complaints,
    reason: str,
    bad: npt.NDArray[np.bool_],
    places: npt.NDArray[np.int64],
) -> None:
    if bad.any():
        what, first = "key", int(places[np.argmax(bad)])
        complaints.add(reason, count=int(bad.sum()), what=what, place=first)


def _batch(
    rows: Rows,
    keep: npt.NDArray[np.intp],
    outcome: npt.NDArray[np.int32],
    tokens: npt.NDArray[np.int32] | None,
    source: Path,
) -> TaskBatch:
    numbers = {
        "outcome": np.where(outcome[keep] < 0, _UNSCORED, outcome[keep]),
        "position": rows.numbers["position"][keep] if keep.size else np.zeros(0, np.int32),
    }
    if tokens is not None:
        numbers["tokens"] = np.maximum(tokens[keep], -1)
    labels = {name: rows.labels[name].select(keep) for name in _LABELS if name in rows.labels}
    labels["source_type"] = Categorical.constant(SessionTableReader.name, keep.size)
    labels["source_uri"] = Categorical.constant(str(source), keep.size)
    return TaskBatch(n_tasks=keep.size, numbers=numbers, labels=labels)
