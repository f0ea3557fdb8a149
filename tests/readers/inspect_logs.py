"""Makers of small Inspect logs, and of ZIP archives byte by byte, honest or not."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from readers.conformance import read_all
from sojourn.readers.base import ReadOptions, load_reader
from sojourn.records import Skipped, Trace

STORED, DEFLATED, ZSTANDARD = 0, 8, 93


@dataclass
class Entry:
    """A member as it is to stand in an archive; None means the true value."""

    name: str
    data: bytes
    method: int = DEFLATED
    packed: bytes | None = None
    packed_size: int | None = None
    size: int | None = None
    checksum: int | None = None
    flags: int = 0
    offset: int | None = None
    zip64: bool = False


def pack(data: bytes, method: int) -> bytes:
    if method == DEFLATED:
        engine = zlib.compressobj(9, zlib.DEFLATED, -15)
        return engine.compress(data) + engine.flush()
    if method in (ZSTANDARD, 20):
        return zstandard.ZstdCompressor().compress(data)
    return data


def raw_zip(entries: Iterable[Entry], *, zip64: bool = False, comment: bytes = b"") -> bytes:
    """Return an archive written by hand, as no library would write a dishonest one."""
    body = bytearray()
    directory = bytearray()
    count = 0
    for entry in entries:
        count += 1
        packed = pack(entry.data, entry.method) if entry.packed is None else entry.packed
        size = len(entry.data) if entry.size is None else entry.size
        checksum = zlib.crc32(entry.data) if entry.checksum is None else entry.checksum
        name = entry.name.encode("utf-8", "surrogateescape")
        offset = len(body) if entry.offset is None else entry.offset
        local = (20, entry.flags, entry.method, 0, 0, checksum, len(packed), size)
        body += struct.pack("<4s5H3L2H", b"PK\x03\x04", *local, len(name), 0) + name
        if entry.offset is None:
            body += packed
        extra = b""
        n_packed = len(packed) if entry.packed_size is None else entry.packed_size
        sizes = (n_packed, size, offset)
        if entry.zip64:
            extra = struct.pack("<2H3Q", 1, 24, size, n_packed, offset)
            sizes = (0xFFFFFFFF,) * 3
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, entry.flags, entry.method, 0, 0, checksum,
            sizes[0], sizes[1], len(name), len(extra), 0, 0, 0, 0, sizes[2],
        )  # fmt: skip
        directory += name + extra
    start = len(body)
    end = bytes(body + directory)
    if zip64:
        where = len(end)
        end += struct.pack(
            "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), start
        )
        end += struct.pack("<4sLQL", b"PK\x06\x07", 0, where, 1)
        record = (0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    else:
        record = (count, count, len(directory), start)
    return end + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, *record, len(comment)) + comment


def header(**spec: Any) -> dict[str, Any]:
    """Return a log without its samples; `status` and `results` go to the top."""
    top = {key: spec.pop(key) for key in ("status", "results") if key in spec}
    told = {"eval_id": "E", "run_id": "R", "task": "sums", "task_id": "T", "model": "m/x"}
    return {"version": 2, "status": "success", "eval": {**told, **spec}, "plan": {}, **top}


def sample(id: Any = 1, value: Any = "C", epoch: int = 1, **more: Any) -> dict[str, Any]:
    """Return a sample with one answer; `value` None leaves it without scores."""
    scores = {} if value is None else {"match": {"value": value, "answer": "4"}}
    messages = [
        {"role": "user", "content": "2 + 2?", "source": "input"},
        {"role": "assistant", "content": "4", "source": "generate"},
    ]
    return {"id": id, "epoch": epoch, "messages": messages, "scores": scores, **more}


def call(function: str, **arguments: Any) -> dict[str, Any]:
    return {"id": "c", "function": function, "arguments": arguments, "type": "function"}


def write_json(path: Path, samples: list[Any], **spec: Any) -> Path:
    path.write_text(json.dumps({**header(**spec), "samples": samples}, indent=2))
    return path


def entries_of(samples: Iterable[Any], method: int = DEFLATED, **spec: Any) -> list[Entry]:
    """Return the members of a log in the order in which they are written."""
    whole = header(**spec)
    start = {key: whole[key] for key in ("version", "eval", "plan")}
    members = [("_journal/start.json", start)]
    members += [(f"samples/{item['id']}_epoch_{item['epoch']}.json", item) for item in samples]
    members += [("summaries.json", []), ("reductions.json", []), ("header.json", whole)]
    return [Entry(name, json.dumps(item).encode(), method) for name, item in members]


def write_eval(
    path: Path,
    samples: Iterable[Any],
    method: int = DEFLATED,
    extra: Iterable[Entry] = (),
    **spec: Any,
) -> Path:
    path.write_bytes(raw_zip([*entries_of(samples, method, **spec), *extra]))
    return path


def conversation(*messages: dict[str, Any]) -> dict[str, Any]:
    return {**sample(), "messages": list(messages)}


def said(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", "tool_calls": list(calls) or None, **more}


def read(path: Path, scorer: str | None = None) -> tuple[list[Trace], list[Skipped]]:
    records = read_all(load_reader("inspect"), path, ReadOptions(scorer=scorer))
    return (
        [record for record in records if isinstance(record, Trace)],
        [record for record in records if isinstance(record, Skipped)],
    )
