"""Inspect Scout transcript databases (Parquet): a run a row, with its conversation as JSON.

A row says in ``success`` whether the run succeeded; where that is empty, its ``score`` is read as
Inspect reads one, and where the score is a table of scores, ``--scorer`` chooses among them, else
the first is taken and the choice reported. ``error`` is a fault of the infrastructure, ``limit``
the budget that cut the run. The task is ``task_id``, else the transcript's id; further columns, in
which a database keeps metadata, may be named with ``--map``. Steps are the assistant's messages;
events and timelines, which are most of such a file, stay unread. Columns are those of the
documented schema (Scout 0.6).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sojourn._limits import ATTRIBUTE_LETTERS
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.readers._inspect_samples import LIMITS, Message, steps_of
from sojourn.readers._inspect_scores import ScoreChooser, Verdict, flatten, verdict
from sojourn.readers._json import BadRecordError, decode
from sojourn.readers._rows import verdict_of_word
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Step, Trace

__all__ = ["InspectScoutReader", "is_scout"]

_MAGIC = b"PAR1"
_MARK = "transcript_id"
_INDEX = "_index"
_ROWS = 32  # conversations are long
# Our field -> the schema's column; --map may name others.
_FIELDS = {
    "task_id": "task_id",
    "task_set": "task_set",
    "task_repeat": "task_repeat",
    "agent": "agent",
    "model": "model",
    "outcome": "success",
    "job_id": "source_id",
}
_MAPPED = (*_FIELDS, "cluster", "session_id", "position")
_OTHERS = (_MARK, "source_type", "score", "error", "limit", "messages")
_OF_INSPECT = frozenset({"eval_log"})
_SEVERAL = "messages that are no list of messages; the steps are unknown"


def is_scout(names: Iterable[str]) -> bool:
    """Return whether a table of these columns holds transcripts."""
    found = frozenset(names)
    return _MARK in found and "outcome" not in found


class InspectScoutReader:
    """Reads the transcript databases of Inspect Scout."""

    name = "inspect-scout"
    description = "Inspect Scout transcripts (Parquet)"
    carries = "outcome, steps, attempts"
    heeds = frozenset({"columns", "scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is Parquet with transcripts, and no index of them."""
        return (
            head.startswith(_MAGIC)
            and source.parent.name != _INDEX
            and is_scout(name.strip().casefold() for name in _names(source))
        )

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return the indices of the database."""
        return sorted((source.parent / _INDEX).glob("*.idx"))

    def columns(self, source: Path) -> tuple[str, ...]:
        """Return the columns that stand there."""
        return tuple(_names(source))

    def fields(self, source: Path, options: ReadOptions) -> dict[str, str]:
        """Return the column of each of our fields that has one."""
        return _fields(_names(source), options, source)

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace a row, then what is to be told of the scores and messages.

        Raises
        ------
        ReaderError
            If the file is no sound Parquet, or a column that was named is not there.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = _names(source)
        fields = _fields(names, options, source)
        wanted = [name for name in dict.fromkeys((*fields.values(), *_OTHERS)) if name in names]
        chooser = ScoreChooser(options.scorer, (), ())
        notes: Counter[tuple[str, str]] = Counter()
        n_rows = 0
        try:
            with pq.ParquetFile(source, page_checksum_verification=True) as file:
                for batch in file.iter_batches(batch_size=_ROWS, columns=wanted):
                    for row in batch.to_pylist():
                        n_rows += 1
                        place = f"{source}, row {n_rows}"
                        try:
                            yield _trace(row, fields, options, chooser, notes, source)
                        except ValueError as error:
                            yield Skipped(source=place, reason=str(error))
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise _damaged(source, error) from None
        if not n_rows:
            raise EmptySourceError(f"{source}: a schema, but no transcript")
        if chooser.note:
            notes[chooser.note, "key"] += 1
        for (reason, what), count in notes.items():
            yield Skipped(source=str(source), reason=reason, what=what, count=count)


def _names(source: Path) -> list[str]:
    """Return the columns of a Parquet file; none if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(source).names)
    except (OSError, pa.ArrowException, ValueError):
        return []


def _damaged(source: Path, error: Exception) -> ReaderError:
    return ReaderError(f"{source}: damaged or truncated Parquet file ({str(error)[:120]})")


def _fields(names: list[str], options: ReadOptions, source: Path) -> dict[str, str]:
    if not names:
        raise ReaderError(f"{source}: damaged or truncated Parquet file")
    mapped = options.without_optional(names)
    for ours, theirs in mapped.items():
        if theirs not in names:
            raise ReaderError(f"{source}: no column is called {theirs[:40]!r} (--map {ours}=...)")
    found = {ours: column for ours, column in _FIELDS.items() if column in names}
    return found | {ours: mapped[ours] for ours in _MAPPED if ours in mapped}


def _trace(
    row: Mapping[str, Any],
    fields: Mapping[str, str],
    options: ReadOptions,
    chooser: ScoreChooser,
    notes: Counter[tuple[str, str]],
    source: Path,
) -> Trace:
    values = {ours: row[column] for ours, column in fields.items()}
    labels = {ours: _text(value) for ours, value in values.items()}
    found = _verdict(row, values.get("outcome"), chooser, scorer=options.scorer)
    if found.odd:
        notes[found.odd, "verdict"] += 1
    steps = _steps(row.get("messages"), notes)
    end, limit_kind = _end(row)
    repeat, position = values.get("task_repeat"), values.get("position")
    return Trace(
        task_id=labels.get("task_id") or _text(row.get(_MARK)),
        task_set=labels.get("task_set", ""),
        task_repeat=_count(repeat),
        agent=labels.get("agent", ""),
        model=labels.get("model", ""),
        cluster=labels.get("cluster") or None,
        session_id=labels.get("session_id") or None,
        position=_count(position),
        job_id=labels.get("job_id", ""),
        outcome=found.outcome,
        score=found.score,
        end=end,
        limit_kind=limit_kind,
        n_steps=None if steps is None else len(steps),
        steps=steps or (),
        source_type=InspectScoutReader.name,
        source_uri=str(source),
    )


def _text(value: Any) -> str:
    """Return a label of a row, "" where it is none."""
    return str(value)[:ATTRIBUTE_LETTERS] if isinstance(value, str | int | float) else ""


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value < 2**31 and value == int(value) else None


def _verdict(
    row: Mapping[str, Any], stated: Any, chooser: ScoreChooser, *, scorer: str | None
) -> Verdict:
    """Return the verdict of a row: what its column says, unless a score is asked for by name."""
    score = _json(row.get("score"))
    if scorer is not None and isinstance(score, dict):
        return chooser.pick(flatten(score))
    if stated is not None:
        outcome = verdict_of_word(str(stated).lower())
        number = verdict(score).score if not isinstance(score, dict | list) else None
        if outcome is None:
            return Verdict(Outcome.UNSCORED, odd="the outcome is a word that names no verdict")
        return Verdict(outcome, number)
    return chooser.pick(flatten(score)) if isinstance(score, dict) else verdict(score)


def _json(text: Any) -> Any:
    """Return the value of a column that holds JSON; text that is none stays text."""
    if not isinstance(text, str):
        return text
    try:
        return decode(text.encode("utf-8", "replace"), Any)
    except BadRecordError:
        return text


def _steps(messages: Any, notes: Counter[tuple[str, str]]) -> tuple[Step, ...] | None:
    """Return the steps of a conversation, None where there is none."""
    if not isinstance(messages, str):
        notes["no messages; the steps are unknown", "key"] += 1
        return None
    try:
        return tuple(steps_of(decode(messages.encode("utf-8", "replace"), list[Message])))
    except BadRecordError:
        notes[_SEVERAL, "key"] += 1
        return None


def _end(row: Mapping[str, Any]) -> tuple[End, LimitKind | None]:
    """Return how a run ended; without a word of it only Inspect's runs are known to be finished."""
    if row.get("error"):
        return End.INFRA_ERROR, None
    limit = row.get("limit")
    if isinstance(limit, str) and limit:
        if limit == "operator":  # a person ended it
            return End.CANCELLED, None
        return End.LIMIT, LIMITS.get(limit.removesuffix("s"), LimitKind.CUSTOM)
    return (End.FINISHED if row.get("source_type") in _OF_INSPECT else End.UNKNOWN), None
