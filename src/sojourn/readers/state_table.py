"""A user's states: a file that names the state of each step, ``*`` for all others."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

from sojourn._limits import STATE_TABLE_BYTES
from sojourn.errors import ReaderError

__all__ = ["read_state_table"]


def read_state_table(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the state of each step name.

    Parameters
    ----------
    path : path-like
        A JSON object ``{"respond": "R", "*": "T"}``, or a CSV of two columns, name and state,
        with or without the header ``name,state``.

    Raises
    ------
    ReaderError
        If the file is missing, holds no table, or names a step twice.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            raw = stream.read(STATE_TABLE_BYTES + 1)
    except OSError as error:
        raise ReaderError(f"{file}: {error.strerror or error}") from None
    if len(raw) > STATE_TABLE_BYTES:
        raise ReaderError(f"{file}: a table of states is not that large")
    text = raw.decode("utf-8-sig", "replace")
    rows = _json_rows(text, file) if text.lstrip().startswith("{") else _csv_rows(text, file)
    table: dict[str, str] = {}
    for name, state in rows:
        if not name or not state:
            raise ReaderError(f"{file}: a name or a state is empty")
        if name in table:
            raise ReaderError(f"{file}: {name!r} stands there twice")
        table[name] = state
    if not table:
        raise ReaderError(f"{file}: no state in it")
    return table


def _json_rows(text: str, file: Path) -> list[tuple[str, str]]:
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise ReaderError(f"{file}: not valid JSON") from None
    if not all(isinstance(state, str) for _, state in pairs):
        raise ReaderError(f"{file}: expected a JSON object of step name to state")
    return [(str(name), state) for name, state in pairs]


def _csv_rows(text: str, file: Path) -> list[tuple[str, str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise ReaderError(f"{file}: not a CSV ({error})") from None
    if any(len(row) != 2 for row in rows):
        raise ReaderError(f"{file}: expected two columns, the step's name and its state")
    if rows and [cell.strip().lower() for cell in rows[0]] == ["name", "state"]:
        rows = rows[1:]
    return [(row[0].strip(), row[1].strip()) for row in rows]
