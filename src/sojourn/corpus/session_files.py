"""Sessions as one file that any tool can read: Parquet, CSV or JSON lines, a task a row.

The columns are those of the table of sessions that readers take, so that a file goes in again as
it came out; in a CSV an apostrophe stands before what a spreadsheet would take for a formula, and
is taken off again. A task whose outcome is unknown by the default policy has no `success`: what
``faults="failure"`` makes of it is the same as before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._files import replacing
from sojourn.corpus.columns import Categorical
from sojourn.corpus.sessions import SessionLog
from sojourn.tables.escape import csv_cell

__all__ = ["SESSION_SUFFIXES", "write_sessions"]

SESSION_SUFFIXES = (".parquet", ".csv", ".jsonl")
_CHUNK_ROWS = 1 << 16


def write_sessions(log: SessionLog, path: str | os.PathLike[str]) -> None:
    """Write the tasks of a log as one table, all or nothing.

    Parameters
    ----------
    log : SessionLog
        The sessions; sessions of one id and different agents or models stay apart.
    path : path-like
        Where to; its suffix (.parquet, .csv, .jsonl) names the form. An existing file is replaced.

    Raises
    ------
    ValueError
        If the suffix is none of these.
    """
    suffix = Path(path).suffix
    if suffix not in SESSION_SUFFIXES:
        raise ValueError(f"{Path(path).name} must end in one of {', '.join(SESSION_SUFFIXES)}")
    write = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}[suffix]
    with replacing(path) as temporary:
        write(log, Path(temporary))


def _tables(log: SessionLog) -> Iterator[Any]:
    """Yield the rows as Arrow tables of bounded size, at least one."""
    for start in range(0, max(len(log), 1), _CHUNK_ROWS):
        yield _table(log, slice(start, start + _CHUNK_ROWS))


def _table(log: SessionLog, rows: slice) -> Any:
    import pyarrow as pa

    session = log.session[rows]
    success = log.success()[rows]
    tokens = log.tokens[rows]
    columns: dict[str, Any] = {
        "session_id": pa.array(log.sessions.name, pa.string()).take(pa.array(session)),
        "position": pa.array(log.position[rows], pa.int32()),
        "success": pa.array(success == 1, pa.bool_(), mask=success < 0),
    }
    for name in ("domain", "subdomain", "item"):
        column: Categorical = getattr(log, name)
        columns[name] = _labels(column.codes[rows], column)
    for name in ("agent", "model"):
        column = getattr(log.sessions, name)
        columns[name] = _labels(column.codes[session], column)
    columns["tokens"] = pa.array(tokens, pa.int32(), mask=tokens < 0)
    return pa.table(columns)


def _labels(codes: npt.NDArray[np.int32], column: Categorical) -> Any:
    import pyarrow as pa

    values = pa.array(column.values, pa.string())
    return values.take(pa.array(codes, pa.int32(), mask=codes < 0))


def _write_parquet(log: SessionLog, path: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, _table(log, slice(0, 0)).schema, write_page_checksum=True) as file:
        for table in _tables(log):
            file.write_table(table)


def _write_csv(log: SessionLog, path: Path) -> None:
    from pyarrow import csv

    with csv.CSVWriter(path, _table(log, slice(0, 0)).schema) as file:
        for table in _tables(log):
            file.write_table(_without_formulas(table))


def _without_formulas(table: Any) -> Any:
    """Return a table whose texts no spreadsheet takes for formulas."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            found = table.column(place).combine_chunks().dictionary_encode()
            cells = [csv_cell(text) for text in found.dictionary.to_pylist()]
            column = pa.array(cells, pa.string()).take(found.indices)
            table = table.set_column(place, field, column)
    return table


def _write_jsonl(log: SessionLog, path: Path) -> None:
    import msgspec

    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for table in _tables(log):
            file.writelines(encoder.encode(row) + b"\n" for row in table.to_pylist())
