"""Mutations that keep a log's form: of JSON, JSON lines, tables, archives and Parquet files.

Bytes changed at random seldom get past a parser. These change one value, key, row, cell, member or
column and write the file anew, with words taken from the reader's own source and sample, so that
what is tried is what the reader has branches for.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["mutate", "words_of"]

_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 1e308, -0.0, 1 << 31, 1 << 63, -(1 << 63), 10**30),
    *(float("nan"), float("inf"), "", " ", "0", "1", "-1", "1.0", "nan", "1e999", "true", "null"),
    *("\ud800", "\0", "\x1b[31m", "é" * 300, "x" * 5000, "../../x", "a\nb", "2026-01-01T00:00:00Z"),
    *("9999-99-99", "{}", "[]", '{"a": [1]}', "\u0661", "1_000"),
    *([], {}, [[]], [{}], [None], [1, "a", None], {"": None}, {"a": {"a": {"a": 1}}}),
)


def words_of(sources: list[Path], samples: list[Path]) -> list[str]:
    """Return the strings that stand in some modules, and the keys and strings of some samples."""
    found: set[str] = set()
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    for path in samples:
        for document in _documents(path.read_bytes()):
            for parent, key in _places(document):
                if isinstance(parent, dict):
                    found.add(key)
                if isinstance(parent[key], str):
                    found.add(parent[key])
    return sorted(word for word in found if 0 < len(word) < 60)


def _documents(data: bytes) -> list[Any]:
    """Return the JSON documents of a file: one, or one a line, or none."""
    try:
        return [json.loads(data)]
    except (ValueError, RecursionError):
        pass
    documents = []
    for line in data.splitlines():
        try:
            documents.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return documents


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) below a document."""
    places: list[tuple[Any, Any]] = []
    stack = [document]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            places += [(node, key) for key in node]
            stack += node.values()
        elif isinstance(node, list):
            places += [(node, place) for place in range(len(node))]
            stack += node
    return places


def mutate(data: bytes, words: list[str], rng: random.Random) -> bytes:
    """Return a file of the same form as `data` with a few things changed."""
    if data[:4] == b"PK\x03\x04":
        return _zip(data, words, rng)
    if data[:4] == b"PAR1":
        return _parquet(data, words, rng)
    if data.lstrip(b"\xef\xbb\xbf \r\n")[:1] in (b"{", b"["):
        return _json(data, words, rng)
    return _table(data, words, rng)


def _json(data: bytes, words: list[str], rng: random.Random) -> bytes:
    documents = _documents(data)
    if not documents:
        return _bytes(data, words, rng)
    lines = len(documents) > 1 or b"\n" not in data.strip()
    root: Any = [documents] if lines else [[documents[0]]]
    try:
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change(root[0], words, rng)
        texts = [json.dumps(document, ensure_ascii=rng.random() < 0.7) for document in root[0]]
    except RecursionError:  # nested deep, over and over
        return _bytes(data, words, rng)
    return ("\n".join(texts) + "\n").encode("utf-8", "surrogatepass")


def _change(document: Any, words: list[str], rng: random.Random) -> None:
    """Change one place of a document."""
    places = _places(document)
    if not places:
        return
    parent, key = rng.choice(places)
    kind = rng.randrange(11)
    if kind == 0:
        parent[key] = rng.choice(_ODD)
    elif kind == 1:
        parent[key] = rng.choice(words) if words else ""
    elif kind == 2:
        del parent[key]
    elif kind == 3:
        other, place = rng.choice(places)
        parent[key] = json.loads(json.dumps(other[place]))
    elif kind == 4:
        parent[key] = rng.choice(([parent[key]], {"a": parent[key]}, str(parent[key])[:200]))
    elif kind == 5 and isinstance(parent, dict) and words:
        parent[rng.choice(words)] = parent.pop(key)
    elif kind == 6 and isinstance(parent, dict) and words:
        parent[rng.choice(words)] = rng.choice((*_ODD, *words[:40]))
    elif kind == 7 and isinstance(parent, list):
        parent.insert(key, json.loads(json.dumps(parent[key])))
    elif kind == 8 and isinstance(parent, list):
        rng.shuffle(parent)
    elif kind == 9 and isinstance(parent[key], int | float):
        parent[key] = rng.choice((parent[key] + 1, -parent[key], str(parent[key]), parent[key] / 3))
    else:
        deep: Any = rng.choice((1, "x", None))
        for _ in range(rng.choice((3, 50, 190, 210, 400))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        parent[key] = deep


def _bytes(data: bytes, words: list[str], rng: random.Random) -> bytes:
    """Change letters, or cut the file."""
    letters = bytearray(data)
    for _ in range(rng.choice((1, 2, 8))):
        place = rng.randrange(len(letters) + 1)
        kind = rng.randrange(4)
        if kind == 0 and place < len(letters):
            letters[place] = rng.randrange(256)
        elif kind == 1:
            del letters[place : place + rng.choice((1, 4, 100))]
        elif kind == 2:
            word = rng.choice(words) if words else "x"
            letters[place:place] = word.encode("utf-8", "surrogatepass")
        else:
            token = rng.choice((b'"', b"{", b"]", b"\r", b"\\", b"NaN", b"1e999", b"\xff", b"\0"))
            letters[place:place] = token
    return bytes(letters)


def _table(data: bytes, words: list[str], rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=False))
    except csv.Error:
        rows = []
    if not rows or rng.random() < 0.15:
        return _bytes(data, words, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        row = rng.choice(rows)
        kind = rng.randrange(7)
        if kind == 0 and row:
            odd = rng.choice(_ODD)
            row[rng.randrange(len(row))] = odd if isinstance(odd, str) else json.dumps(odd)
        elif kind == 1 and row and words:
            row[rng.randrange(len(row))] = rng.choice(words)
        elif kind == 2 and rows[0] and words:
            rows[0][rng.randrange(len(rows[0]))] = rng.choice(words)
        elif kind == 3 and row:
            del row[rng.randrange(len(row))]
        elif kind == 4:
            row.append(rng.choice(words) if words else "")
        elif kind == 5:
            rows.insert(rng.randrange(len(rows) + 1), list(row))
        elif len(rows) > 2:
            rows.remove(row)
    out = io.StringIO(newline="")
    end, mark = rng.choice(("\n", "\r\n", "\n")), rng.choice((",", ",", ",", ";", "\t"))
    csv.writer(out, lineterminator=end, delimiter=mark).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _zip(data: bytes, words: list[str], rng: random.Random) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, struct.error):
        return _bytes(data, words, rng)
    except Exception as error:  # zlib.error and whatever else a broken archive makes of zipfile
        if type(error).__name__ not in ("error", "RuntimeError", "LZMAError"):
            raise
        return _bytes(data, words, rng)
    if not members or rng.random() < 0.15:
        return _bytes(data, words, rng)
    place = rng.randrange(len(members))
    name, content = members[place]
    kind = rng.randrange(8)
    if kind == 0:
        del members[place]
    elif kind == 1:
        members.append((rng.choice(words) + ".json" if words else "x.json", content))
    elif kind == 2:
        members[place] = (rng.choice(("samples/", "_journal/", "")) + name, content)
    else:
        members[place] = (name, _json(content, words, rng))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in dict(members).items():
            archive.writestr(name, content)
    return out.getvalue()


def _parquet(data: bytes, words: list[str], rng: random.Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(data))
        if not table.num_columns or rng.random() < 0.1:
            return _bytes(data, words, rng)
        place = rng.randrange(table.num_columns)
        name = table.column_names[place]
        values = table.column(place).to_pylist()
    except (pa.ArrowException, OSError, ValueError, LookupError):
        return _bytes(data, words, rng)
    kind = rng.randrange(6)
    if kind == 0:
        table = table.drop_columns([name])
    elif kind == 1 and words:
        names = list(table.column_names)
        names[place] = rng.choice(words)
        table = table.rename_columns(names)
    elif kind == 2:
        table = table.replace_schema_metadata(
            {key: rng.choice((value, b"", b"[1]", b"9")) for key, value in _metadata(table).items()}
        )
    elif kind == 3 and values:
        values = [rng.choice(values) for _ in values]
        table = _with(table, place, values)
    else:
        odd = [rng.choice((*_ODD, *words[:30])) if rng.random() < 0.4 else v for v in values]
        table = _with(table, place, odd)
    out = io.BytesIO()
    try:
        pq.write_table(table, out)
    except (pa.ArrowException, ValueError):
        return _bytes(data, words, rng)
    return out.getvalue()


def _metadata(table: Any) -> dict[bytes, bytes]:
    return dict(table.schema.metadata or {})


def _with(table: Any, place: int, values: list[Any]) -> Any:
    """Return the table with a column of other values, of the first type that takes them."""
    import pyarrow as pa

    for kind in (table.schema.field(place).type, None, pa.float64(), pa.string()):
        try:
            column = pa.array(values, kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError):
            continue
        return table.set_column(place, table.column_names[place], column)
    texts = [ascii(value) for value in values]
    return table.set_column(place, table.column_names[place], pa.array(texts))
