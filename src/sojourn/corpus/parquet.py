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
from sojourn.corpus.columns import ACTORS, STEP_KINDS, Categorical, StepTypes, combinations
from sojourn.corpus.traces import ENDS, LABEL_COLUMNS, LIMIT_KINDS, OUTCOMES, TraceCorpus
from sojourn.errors import ReaderError
from sojourn.records import End, Skipped

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
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, write_page_checksum=True) as writer,
    ):
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
    except (OSError, pa.ArrowException, ValueError):
        return False
    return FORMAT_KEY in (metadata or {})


def read_skipped(path: Path) -> tuple[Skipped, ...]:
    """Return what had been skipped when the corpus in `path` was first read.

    Raises
    ------
    ReaderError
        If the file is damaged.
    """
    raw = _metadata(path).get(_SKIPPED_KEY, b"[]")
    try:
        return tuple(
            Skipped(source=str(s), reason=str(r), count=int(c), what=str(w))
            for s, r, c, w in json.loads(raw)
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise ReaderError(f"{path.name}: the record of skipped runs is damaged ({error})") from None


def _metadata(path: Path) -> dict[bytes, bytes]:
    """Return the file's own metadata, once it is known to be ours and of a version we read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata: dict[bytes, bytes] = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException, ValueError) as error:
        raise _damaged(path, error) from None
    version = metadata.get(FORMAT_KEY)
    if version is None:
        raise ReaderError(
            f"{path.name}: this Parquet file is no corpus of ours; see --format table"
        )
    if version != _VERSION:
        raise ReaderError(
            f"{path.name}: a corpus of version {version[:20].decode('ascii', 'replace')}, "
            f"where version {_VERSION.decode()} is read; convert the logs anew"
        )
    return metadata


def read_batches(path: Path) -> Iterator[TraceBatch]:
    """Yield the runs of a canonical Parquet file, a batch at a time.

    Raises
    ------
    ReaderError
        If the file is damaged, or does not hold what a corpus of ours holds.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    _metadata(path)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=_ROW_GROUP):
                yield _batch(batch)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from None
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ReaderError(
            f"{path.name}: not a corpus of ours after all ({str(error)[:120]})"
        ) from None


def _damaged(path: Path, error: Exception) -> ReaderError:
    return ReaderError(f"{path.name}: damaged or truncated Parquet file ({str(error)[:120]})")


def _batch(batch: Any) -> TraceBatch:
    n_runs = batch.num_rows
    names = set(batch.schema.names)
    numbers: dict[str, npt.NDArray[Any]] = {
        name: _enum_codes(batch.column(name), tuple(map(str, members)), name)
        for name, members in _ENUMS.items()
    }
    for name in _INTS:
        numbers[name] = _whole_numbers(batch.column(name), name)
    numbers["score"] = _plain(batch.column("score"), np.nan)
    labels = {
        name: _categorical(batch.column(name)) for name in (*LABEL_COLUMNS, "task_set", "task_id")
    }
    _check_runs(numbers, labels)
    if "step_name" not in names:
        return TraceBatch(n_runs=n_runs, numbers=numbers, labels=labels)
    lists = {name: batch.column(name) for name in _STEP_COLUMNS if name in names}
    offsets = _plain(lists["step_name"].offsets).astype(np.int64)
    flat = {name: column.flatten() for name, column in lists.items()}
    n_steps = int(offsets[-1] - offsets[0])
    if any(len(column) != n_steps for column in flat.values()):
        raise ValueError("the step columns differ in length")
    steps, step_types = _step_codes(flat)
    digests = _plain(flat["step_digest"]) if "step_digest" in flat else None
    lengths = np.diff(offsets)
    if ((lengths > 0) & (numbers["n_steps"] != lengths)).any():
        raise ValueError("n_steps is not the number of steps")
    return TraceBatch(
        n_runs=n_runs,
        numbers=numbers,
        labels=labels,
        offsets=offsets - offsets[0],
        steps=steps,
        step_types=step_types,
        digests=digests,
    )


def _check_runs(numbers: dict[str, npt.NDArray[Any]], labels: dict[str, Categorical]) -> None:
    """Raise ValueError where a run is none: a file may come from any tool."""
    for name in ("outcome", "end"):
        if (numbers[name] < 0).any():
            raise ValueError(f"{name} is missing in a row")
    if (labels["task_id"].codes < 0).any() or "" in labels["task_id"].values:
        raise ValueError("task_id is missing in a row")
    limited = numbers["end"] == ENDS.index(End.LIMIT)
    if ((numbers["limit_kind"] >= 0) & ~limited).any():
        raise ValueError("limit_kind is given in a row whose end is not limit")
    if np.isinf(numbers["score"]).any():
        raise ValueError("score is infinite in a row")


def _plain(column: Any, missing: float | None = None) -> npt.NDArray[Any]:
    """Return a column of numbers as an array, `missing` where there is none.

    Not by ``to_numpy`` and ``fill_null``: they import pandas wherever it is installed, which
    takes longer than reading a corpus.
    """
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ValueError(f"{str(column.type)[:40]} stands where numbers are expected")
    if not column.null_count:
        return np.from_dlpack(column)
    if missing is None:
        raise ValueError("a number is missing")
    all_rows = [None, column.buffers()[1]]
    values = pa.Array.from_buffers(column.type, len(column), all_rows, offset=column.offset)
    there = np.from_dlpack(column.is_valid().cast("int8")) == 1
    return np.where(there, np.from_dlpack(values), missing)


def _whole_numbers(column: Any, name: str) -> npt.NDArray[np.int32]:
    import pyarrow as pa

    if not pa.types.is_integer(column.type):
        raise ValueError(f"{name} is {str(column.type)[:40]}, not a whole number")
    known = _plain(column.drop_null())
    if known.size and not 0 <= known.min() <= known.max() < 2**31:
        raise ValueError(f"{name} lies outside 0 to 2**31 - 1")
    return _plain(column.cast(pa.int32()), -1)


def _categorical(column: Any) -> Categorical:
    codes, values = _coded(column)
    return Categorical(codes=codes, values=values)


def _coded(column: Any) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return a label column as codes, -1 for none, into its distinct texts."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_string(column.dictionary.type) or column.dictionary.null_count:
        raise ValueError(f"a label is {str(column.dictionary.type)[:40]}, not a text")
    return _plain(column.indices, -1), tuple(column.dictionary.to_pylist())


def _enum_codes(column: Any, members: tuple[str, ...], name: str) -> npt.NDArray[np.int8]:
    codes, values = _coded(column)
    if set(values) - set(members):
        raise ValueError(f"{name} holds a value that is none of {', '.join(members)}")
    translated = [members.index(value) for value in values]
    return np.array([*translated, -1], np.int8)[codes]


def _step_codes(flat: dict[str, Any]) -> tuple[npt.NDArray[np.int32], StepTypes]:
    """Give numbers to the distinct combinations of a batch's step columns."""
    name, names = _coded(flat["step_name"])
    actor = _enum_codes(flat["step_actor"], tuple(map(str, ACTORS)), "step_actor")
    kind = _enum_codes(flat["step_kind"], tuple(map(str, STEP_KINDS)), "step_kind")
    ok = _plain(flat["step_ok"].cast("int8"), -1)
    n_calls = _whole_numbers(flat["step_calls"], "step_calls")
    for part in (name, actor, kind, n_calls):
        if part.size and part.min() < 0:
            raise ValueError("a step has no name, actor, kind or number of calls")
    first, steps = combinations((name, actor, kind, ok, n_calls))
    keys = [
        (names[code], *rest)
        for code, *rest in zip(
            *(part[first].tolist() for part in (name, actor, kind, ok, n_calls)), strict=True
        )
    ]
    return steps, StepTypes.from_keys(keys)
