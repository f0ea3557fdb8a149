"""Of any bytes and of any changed sample a reader makes records, counted skips or a clear error.

Asked of every format in the table: nothing but an error of ours may come out, whatever is given
out survives being kept and written, and each reading ends within seconds.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sojourn.corpus import SessionLog, TraceCorpus, write_jsonl, write_sessions
from sojourn.errors import SojournError
from sojourn.readers import read_sessions, read_traces
from sojourn.readers._archive import Archive
from sojourn.readers.base import READERS, Source, kind_of, load_reader
from sojourn.readers.finding import find_sources
from sojourn.records import Skipped

pytestmark = pytest.mark.thorough

DATA = Path(__file__).resolve().parent.parent / "data"
SECONDS = 3.0  # of the processor; an honest sample takes milliseconds
DEEP = "[" * 100_000

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2, 0.5, 1e308, -0.0, 1 << 31, 1 << 63, -(1 << 63), 10**30, 10**400),
    *(float("nan"), float("inf"), "", " ", "0", "-1", "nan", "1e999", "true", "null", "None"),
    *(
        "\ud800",
        "\0",
        "\x1b[31m",
        "é" * 300,
        "x" * 70_000,
        "../../x",
        "a\nb",
        "=1+1",
        "\u0661",
        "1_000",
    ),
    *("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9999-99"),
    *("{}", "[]", '{"a": [1]}', '"', "{", "[1", "<script>", DEEP),
    *([], {}, [[]], [{}], [None], [1, "a", None], {"": None}, {"a": {"a": {"a": 1}}}),
)


@dataclass(frozen=True)
class Sample:
    """What a reader reads, and the files of it that may be changed."""

    root: Path
    files: tuple[Path, ...]


@cache
def samples() -> dict[str, list[Sample]]:
    """Return the samples of each format, found as a user's walk would find them."""
    found: dict[str, list[Sample]] = {}
    for folder in sorted(DATA.iterdir()):
        for item in find_sources(folder):
            if not isinstance(item, Source):
                continue
            path = item.path
            files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            if path.is_file():
                files += [p for p in item.reader.siblings(path) if p.is_file()]
            found.setdefault(item.reader.name, []).append(Sample(path, tuple(files)))
    return found


@contextmanager
def changed(sample: Sample, file: Path, data: bytes) -> Iterator[Path]:
    """Give a copy of the sample, and of what stands beside it, in which one file is another."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        base = Path(os.path.commonpath([path.parent for path in sample.files]))
        base = base.parent if base == sample.root else base
        for each in sample.files:
            copy = Path(folder) / each.relative_to(base)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data if each == file else each.read_bytes())
        yield Path(folder) / sample.root.relative_to(base)


def check_reading(path: Path, name: str) -> None:
    """Read a source to its end and use what comes out; raise if a promise is broken."""
    start = time.process_time()
    read: Callable[..., Any] = (
        read_sessions if kind_of(load_reader(name)) == "sessions" else read_traces
    )
    found: TraceCorpus | SessionLog | str
    try:
        found = read(path, format=name)
    except SojournError as error:
        found = str(error)
    check_kept(found)
    spent = time.process_time() - start
    assert spent < SECONDS, f"{spent:.1f} s"


def check_kept(found: TraceCorpus | SessionLog | str) -> None:
    """Make each record anew, which checks itself, and write all of them; or look at an error."""
    if isinstance(found, str):
        assert 0 < len(found.strip()) < 5_000
        return
    assert len(found)
    for item in found.skipped:
        assert isinstance(item, Skipped)
        assert item.reason.strip()
        assert item.count > 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        if isinstance(found, TraceCorpus):
            for run in range(min(len(found), 200)):
                found.trace(run)
            write_jsonl(found, Path(folder) / "out.jsonl")
        else:
            for row in range(min(len(found), 200)):
                found.task(row)
            write_sessions(found, Path(folder) / "out.csv")


class _Places:
    """All places inside a JSON document where something may be exchanged; a walk with a stack."""

    def __init__(self, document: Any) -> None:
        self.places: list[tuple[Any, Any]] = []
        stack = [document]
        while stack:
            node = stack.pop()
            items = node.items() if isinstance(node, dict) else enumerate(node)
            for key, value in list(items):
                self.places.append((node, key))
                if isinstance(value, dict | list):
                    stack.append(value)


def change_json(document: Any, place: int, value: Any, how: str) -> Any:
    """Return a document with one value exchanged, left out, doubled, wrapped or renamed."""
    root = [document]
    places = _Places(root).places
    node, key = places[place % len(places)]
    if how == "remove" and node is not root:
        del node[key]
    elif how == "wrap":
        node[key] = [node[key]]
    elif how == "double" and isinstance(node, list) and node is not root:
        node.insert(key, node[key])
    elif how == "rename" and isinstance(node, dict):
        node[value if isinstance(value, str) else str(value)[:20]] = node.pop(key)
    else:
        node[key] = value
    return root[0]


def _dump(document: Any) -> bytes:
    return json.dumps(document).replace(json.dumps(DEEP), DEEP + "]" * len(DEEP)).encode()


def change_text(data: bytes, line: int, place: int, value: Any, how: str) -> bytes | None:
    """Return JSON or JSON lines with one thing changed; None where it is neither."""
    try:
        return _dump(change_json(json.loads(data), place, value, how))
    except ValueError:
        pass
    lines = data.splitlines()
    chosen = line % max(len(lines), 1)
    try:
        lines[chosen] = _dump(change_json(json.loads(lines[chosen]), place, value, how))
    except (ValueError, IndexError):
        return None
    return b"\n".join(lines)


@cache
def members_of(path: Path) -> dict[str, bytes]:
    """Return the members of an archive; the standard library knows no Zstandard."""
    with Archive(path) as archive:
        return {name: bytes(archive.read(name)) for name in archive.members}


def change_archive(
    members: dict[str, bytes], member: int, place: int, value: Any, how: str
) -> bytes:
    """Return a ZIP archive in which one member's JSON is changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for number, (name, text) in enumerate(members.items()):
            if number == member % len(members):
                text = change_text(text, 0, place, value, how) or text
            new.writestr(name, text)
    return out.getvalue()


def change_bytes(data: bytes, place: int, length: int, value: bytes, how: str) -> bytes:
    """Return bytes with a piece exchanged, left out, doubled or all that follows cut off."""
    start = place % max(len(data), 1)
    piece = data[start : start + length]
    if how == "remove":
        return data[:start] + data[start + length :]
    if how == "double":
        return data[:start] + piece * 2 + data[start + length :]
    if how == "wrap":
        return data[:start]
    return data[:start] + value + data[start + len(value) :]


WAYS = st.sampled_from(["exchange", "exchange", "exchange", "remove", "wrap", "double", "rename"])
PLACES = st.integers(0, 1 << 20)
QUICK = settings(
    max_examples=40, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)


def test_every_format_has_a_sample() -> None:
    assert set(READERS) == set(samples())


@pytest.mark.parametrize("name", READERS)
@QUICK
@given(data=st.data())
def test_a_changed_value_gives_records_skips_or_an_error(name: str, data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from(samples()[name]), label="sample")
    file = data.draw(st.sampled_from(sample.files), label="file")
    how, value = data.draw(WAYS, label="how"), data.draw(st.sampled_from(ODD), label="value")
    line, place = data.draw(PLACES, label="line"), data.draw(PLACES, label="place")
    whole = file.read_bytes()
    if whole.startswith(b"PK\x03\x04"):
        text: bytes | None = change_archive(members_of(file), line, place, value, how)
    else:
        text = change_text(whole, line, place, value, how)
    if text is None:
        odd = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else _dump(value)
        text = change_bytes(whole, place, line % 50, odd[:5000], how)
    with changed(sample, file, text) as path:
        check_reading(path, name)


@pytest.mark.parametrize("name", READERS)
@QUICK
@given(data=st.data())
def test_changed_bytes_give_records_skips_or_an_error(name: str, data: st.DataObject) -> None:
    sample = data.draw(st.sampled_from(samples()[name]), label="sample")
    file = data.draw(st.sampled_from(sample.files), label="file")
    noise = data.draw(st.binary(max_size=12), label="noise")
    place, length = data.draw(PLACES, label="place"), data.draw(st.integers(0, 40), label="length")
    text = change_bytes(file.read_bytes(), place, length, noise, data.draw(WAYS, label="how"))
    with changed(sample, file, text) as path:
        check_reading(path, name)


@pytest.mark.parametrize("name", READERS)
@settings(QUICK, max_examples=25)
@given(data=st.binary(max_size=3000))
@example(data=b"")
@example(data=b"\xef\xbb\xbf")
@example(data=b"{}")
@example(data=b"[]")
@example(data=b"[{}]")
@example(data=b"{}\n" * 50)
@example(data=b"null")
@example(data=DEEP.encode())
@example(data=b'{"a":' * 100_000)
@example(data=b'"' * 100_000)
@example(data=b"\\" * 100_000)
@example(data=b'{"' + b"a" * 70_000)
@example(data=b"PK\x03\x04" + bytes(100))
@example(data=b"PAR1" + bytes(100) + b"PAR1")
def test_any_bytes_give_records_skips_or_an_error(name: str, data: bytes) -> None:
    for sample in samples()[name][:1]:
        with changed(sample, sample.files[0], data) as path:
            check_reading(path, name)


@settings(QUICK, max_examples=60)
@given(data=st.binary(max_size=3000))
def test_any_file_of_unknown_form_is_refused_or_read(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        for name in ("a.json", "a.jsonl", "a.csv", "a.eval", "a.traj", "a.parquet"):
            (Path(folder) / name).write_bytes(data)
        found: TraceCorpus | str
        try:
            found = read_traces(folder)
        except SojournError as error:
            found = str(error)
        check_kept(found)
