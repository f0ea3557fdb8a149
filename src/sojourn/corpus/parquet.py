"""The canonical file: Parquet, a run a row, its steps as list columns.

Everything is spelled out (no codes), so that any tool can read or write such a file; labels are
dictionary columns, so that it costs little. Written in row groups and read one batch at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._files import replacing
from sojourn.corpus.builder import TraceBatch
from sojourn.corpus.columns import ACTORS, STEP_KINDS, Categorical, StepTypes, distinct
from sojourn.corpus.traces import ENDS, LABEL_COLUMNS, LIMIT_KINDS, OUTCOMES, TraceCorpus
from sojourn.errors import ReaderError
from sojourn.records import Skipped

__all__ = ["FORMAT_KEY", "is_canonical", "read_batches", "read_skipped", "write_corpus"]

FORMAT_KEY = b"sojourn.traces"
_SKIPPED_KEY = b"sojourn.skipped"
_VERSION = b"1"
_ENUMS = {"outcome": OUTCOMES, "end": ENDS, "limit_kind": LIMIT_KINDS}
_INTS = ("task_repeat", "position", "step_limit", "n_steps")
_ROW_GROUP = 1 << 16
_STEP_COLUMNS = ("step_name", "step_actor", "step_kind", "step_ok", "step_calls", "step_digest")


def write_corpus(corpus: TraceCorpus, path: str | os.PathLike[str]) -> None:
    """Write a corpus as one Parquet file, all or nothing.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs; what was skipped while reading them is kept in the file's metadata.
    path : path-like
        Where to; an existing file is replaced.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    skipped = [[s.source, s.reason, s.count, s.what] for s in corpus.skipped]
    metadata = {FORMAT_KEY: _VERSION, _SKIPPED_KEY: json.dumps(skipped).encode()}
    schema = _table(corpus, 0, min(len(corpus), 1)).schema.with_metadata(metadata)
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for start in range(0, max(len(corpus), 1), _ROW_GROUP):
            table = _table(corpus, start, min(start + _ROW_GROUP, len(corpus)))
            writer.write_table(pa.Table.from_arrays(table.columns, schema=schema))


def _table(corpus: TraceCorpus, start: int, stop: int) -> Any:
    """Return rows start .. stop - 1 as an Arrow table."""
    import pyarrow as pa

    rows = slice(start, stop)
    columns: dict[str, Any] = {}
    task = corpus.task[rows]
    columns["task_set"] = _dictionary(corpus.tasks.task_set.codes[task], corpus.tasks.task_set)
    ids = pa.array(corpus.tasks.task_id, pa.string())
    columns["task_id"] = ids.take(pa.array(task)) if len(ids) else ids
    for name, members in _ENUMS.items():
        labels = Categorical(codes=getattr(corpus, name), values=tuple(map(str, members)))
        columns[name] = _dictionary(labels.codes[rows], labels)
    for name in _INTS:
        values = getattr(corpus, name)[rows]
        columns[name] = pa.array(values, pa.int32(), mask=values < 0)
    score = corpus.score[rows]
    columns["score"] = pa.array(score, pa.float64(), mask=np.isnan(score))
    for name in LABEL_COLUMNS:
        column: Categorical = getattr(corpus, name)
        columns[name] = _dictionary(column.codes[rows], column)
    if corpus.has_steps:
        columns |= _step_columns(corpus, start, stop)
    return pa.table(columns)


def _dictionary(codes: npt.NDArray[np.int32], column: Categorical) -> Any:
    import pyarrow as pa

    indices = pa.array(codes, pa.int32(), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(column.values, pa.string()))


def _step_columns(corpus: TraceCorpus, start: int, stop: int) -> dict[str, Any]:
    import pyarrow as pa

    offsets = corpus.offsets[start : stop + 1]
    span = slice(int(offsets[0]), int(offsets[-1]))
    codes = corpus.steps[span]
    types = corpus.step_types
    lists = pa.array(offsets - offsets[0], pa.int32())

    def labelled(code: npt.NDArray[Any], values: tuple[str, ...]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(code, pa.int32()), pa.array(values))

    ok = types.ok[codes]
    columns = {
        "step_name": labelled(types.name[codes], types.names),
        "step_actor": labelled(types.actor[codes], tuple(map(str, ACTORS))),
        "step_kind": labelled(types.kind[codes], tuple(map(str, STEP_KINDS))),
        "step_ok": pa.array(ok > 0, pa.bool_(), mask=ok < 0),
        "step_calls": pa.array(types.n_calls[codes], pa.int32()),
    }
    if corpus.digests is not None:
        columns["step_digest"] = pa.array(corpus.digests[span], pa.uint64())
    return {name: pa.ListArray.from_arrays(lists, values) for name, values in columns.items()}


def is_canonical(path: Path) -> bool:
    """Return whether a Parquet file was written by `write_corpus`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata
    except (OSError, pa.ArrowException):
        return False
    return FORMAT_KEY in (metadata or {})


def read_skipped(path: Path) -> tuple[Skipped, ...]:
    """Return what had been skipped when the corpus in `path` was first read."""
    import pyarrow.parquet as pq

    raw = (pq.read_schema(path).metadata or {}).get(_SKIPPED_KEY, b"[]")
    try:
        rows = json.loads(raw)
        return tuple(Skipped(source=s, reason=r, count=int(c), what=w) for s, r, c, w in rows)
    except (ValueError, TypeError) as error:
        raise ReaderError(f"{path.name}: the record of skipped runs is damaged ({error})") from None


def read_batches(path: Path) -> Iterator[TraceBatch]:
    """Yield the runs of a canonical Parquet file, a batch at a time.

    Raises
    ------
    ReaderError
        If the file is damaged, or a label is not one of ours.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROW_GROUP):
                yield _batch(batch)
    except (OSError, pa.ArrowException) as error:
        raise ReaderError(f"{path.name}: damaged Parquet file ({error})") from None
    except (KeyError, ValueError) as error:
        raise ReaderError(f"{path.name}: not a corpus of ours after all ({error})") from None


def _batch(batch: Any) -> TraceBatch:
    numbers: dict[str, npt.NDArray[Any]] = {}
    names = set(batch.schema.names)
    for name, members in _ENUMS.items():
        numbers[name] = _enum_codes(batch.column(name), tuple(map(str, members)), name)
    for name in _INTS:
        numbers[name] = batch.column(name).fill_null(-1).to_numpy(zero_copy_only=False)
    numbers["score"] = batch.column("score").fill_null(np.nan).to_numpy(zero_copy_only=False)
    labels = {
        name: _categorical(batch.column(name)) for name in (*LABEL_COLUMNS, "task_set", "task_id")
    }
    if "step_name" not in names:
        return TraceBatch(n_runs=batch.num_rows, numbers=numbers, labels=labels)
    lists = {name: batch.column(name) for name in _STEP_COLUMNS if name in names}
    offsets = lists["step_name"].offsets.to_numpy().astype(np.int64)
    flat = {name: column.flatten() for name, column in lists.items()}
    steps, step_types = _step_codes(flat)
    digests = flat["step_digest"].to_numpy() if "step_digest" in flat else None
    return TraceBatch(
        n_runs=batch.num_rows,
        numbers=numbers,
        labels=labels,
        offsets=offsets - offsets[0],
        steps=steps,
        step_types=step_types,
        digests=digests,
    )


def _categorical(column: Any) -> Categorical:
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Categorical(codes=codes, values=tuple(column.dictionary.to_pylist()))


def _enum_codes(column: Any, members: tuple[str, ...], name: str) -> npt.NDArray[np.int8]:
    labels = _categorical(column)
    unknown = set(labels.values) - set(members)
    if unknown:
        raise ValueError(f"{name} must be one of {', '.join(members)}, not {sorted(unknown)[0]!r}")
    translated = [members.index(value) for value in labels.values]
    return np.array([*translated, -1], np.int8)[labels.codes]


def _step_codes(flat: dict[str, Any]) -> tuple[npt.NDArray[np.int32], StepTypes]:
    """Give numbers to the distinct combinations of a batch's step columns."""
    name = _categorical(flat["step_name"])
    ok = flat["step_ok"].cast("int8").fill_null(-1).to_numpy(zero_copy_only=False)
    calls = flat["step_calls"].to_numpy(zero_copy_only=False)
    parts = (
        _enum_codes(flat["step_actor"], tuple(map(str, ACTORS)), "step_actor"),
        _enum_codes(flat["step_kind"], tuple(map(str, STEP_KINDS)), "step_kind"),
        ok,
        np.minimum(calls, 2**16 - 1),
    )
    sizes = (len(ACTORS), len(STEP_KINDS), 3, 2**16)
    code = name.codes.astype(np.int64)
    for part, size in zip(parts, sizes, strict=True):
        code = code * size + part + (part is ok)
    combinations, steps = distinct(code)
    keys = []
    for value in combinations.tolist():
        rest, n_calls = divmod(value, 2**16)
        rest, ok_code = divmod(rest, 3)
        rest, kind = divmod(rest, len(STEP_KINDS))
        name_code, actor = divmod(rest, len(ACTORS))
        keys.append((name.values[name_code], actor, kind, ok_code - 1, n_calls))
    return steps.astype(np.int32), StepTypes.from_keys(keys)
