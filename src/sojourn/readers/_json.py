"""JSON from strangers: fast when it is well-formed, patient when it is not, bounded always.

The fast path takes the file as bytes, mapped if it is large, and decodes one record at a time into
the few fields that a reader names; everything else is skipped without being built, so memory stays
near the file's size.
What that path refuses (NaN, 1e999, huge integers, broken UTF-8, a lone surrogate, a truncated
file) goes, record by record, through the standard library with the oddity made harmless:
a number that is not finite becomes None, broken bytes become U+FFFD.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from sojourn._limits import (
    FIRST_RECORD_BYTES,
    HEAD_BYTES,
    JSON_DEPTH,
    JSON_INTEGER_DIGITS,
    LINE_BYTES,
)
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.records import Skipped

__all__ = [
    "HEAD_BYTES",
    "BadRecordError",
    "Buffer",
    "Head",
    "array_items",
    "decode",
    "is_closed",
    "json_lines",
    "object_fields",
    "open_buffer",
    "opens_with_long_object",
    "read_head",
    "sniff",
]

_MAPPED_BYTES = 1 << 28
# What the outline of a long record keeps: levels of brackets, items of a list, bytes of a string.
_OUTLINE_DEPTH = 8
_OUTLINE_ITEMS = 4
_OUTLINE_STRING = 200
_OUTLINE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
# Possessive, and a string may run into the end of the data: each byte is looked at once, so that
# no text of quotes and backslashes makes the scan quadratic.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_TOKEN = re.compile(_STRING + rb"|[\[\]{},]", re.DOTALL)
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?\s*+([\[{])")
_COLON = re.compile(rb"\s*+:")
_TEXT = re.compile(rb"\S")

T = TypeVar("T")
Buffer = bytes | memoryview | mmap.mmap | msgspec.Raw


class BadRecordError(ValueError):
    """One record is not JSON or not of the form that its format says; the message says how."""


class Head(NamedTuple):
    """What the first bytes of a JSON file show: its container and its first keys.

    `kind` is ``array``, ``object``, ``lines`` (several objects, one a line) or ``""``; `keys` are
    those of the first object, as far as they lie within the head.
    """

    kind: str
    keys: frozenset[str]


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, without a byte order mark.

    Of an object on one line that is longer than a head, its outline stands in the place of its
    text: the keys may be behind a long value.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if not opens_with_long_object(head):
            return head.removeprefix(_BOM)
        line = head + file.readline(FIRST_RECORD_BYTES)
        outline = b"" if len(line) > FIRST_RECORD_BYTES else _outline(line.removeprefix(_BOM))
        return outline + b"\n" + file.read(HEAD_BYTES) if outline else head.removeprefix(_BOM)


def opens_with_long_object(head: bytes) -> bool:
    """Return whether the first line of a head is an object that goes on behind it."""
    text = head.removeprefix(_BOM).lstrip()
    return len(head) >= HEAD_BYTES - len(_BOM) and text[:1] == b"{" and b"\n" not in text


def _outline(line: bytes) -> bytes:
    """Return an object with long strings cut and long lists and deep parts left out.

    Nothing if it is damaged, or too much even so.
    """
    try:
        text = _shortened(msgspec.Raw(line.strip()), _OUTLINE_DEPTH)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return b""
    return text if len(text) <= _OUTLINE_BYTES else b""


def _shortened(raw: msgspec.Raw, depth: int) -> bytes:
    text = memoryview(raw)
    mark = bytes(text[:1])
    if mark == b"{":
        if not depth:
            return b"{}"
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        parts = (
            msgspec.json.encode(key) + b": " + _shortened(value, depth - 1)
            for key, value in fields.items()
        )
        return b"{" + b", ".join(parts) + b"}"
    if mark == b"[":
        items = msgspec.json.decode(raw, type=list[msgspec.Raw])[:_OUTLINE_ITEMS] if depth else ()
        return b"[" + b", ".join(_shortened(item, depth - 1) for item in items) + b"]"
    if mark == b'"' and len(text) > _OUTLINE_STRING:
        # Cut before an escape, and between letters.
        start = bytes(text[1:_OUTLINE_STRING]).partition(b"\\")[0].decode("utf-8", "ignore")
        return msgspec.json.encode(start)
    return bytes(text)


@lru_cache(maxsize=8)  # every reader asks about the same head
def sniff(head: bytes) -> Head:
    """Return the container kind and the keys of the first object in a head.

    Linear in the head and without recursion, whatever the bytes.
    """
    text = head.lstrip()
    if not text or text[:1] not in b"[{":
        return Head("", frozenset())
    kind = "array" if text[:1] == b"[" else "object"
    depth = 0
    target = 2 if kind == "array" else 1
    keys: set[str] = set()
    for token in _TOKEN.finditer(text):
        mark = token.group()[:1]
        if mark == b'"':
            if depth == target and _COLON.match(text, token.end()):
                keys.add(token.group()[1:-1].decode("utf-8", "replace"))
        elif mark in b"[{":
            depth += 1
            if kind == "array" and depth == target and mark == b"[":
                return Head(kind, frozenset())
        elif mark in b"]}":
            depth -= 1
            if depth < target:
                rest = text[token.end() :].lstrip(b" \t")
                if kind == "object" and depth == 0 and rest.lstrip(b"\r\n")[:1] == b"{":
                    kind = "lines"
                break
    return Head(kind, frozenset(keys))


def open_buffer(path: Path) -> bytes | mmap.mmap:
    """Read a file, or map it into memory if it is large.

    Raises
    ------
    EmptySourceError
        If it holds nothing but white space.
    """
    with path.open("rb") as file:
        if not file.read(1 << 12).removeprefix(_BOM).strip() and not file.read().strip():
            raise EmptySourceError(f"{path.name} is empty")
        file.seek(0)
        if file.read(3) == _BOM:
            return file.read()
        if os.fstat(file.fileno()).st_size < _MAPPED_BYTES:
            # A mapped file that its writer cuts short meanwhile ends the process without a word.
            file.seek(0)
            return file.read()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def decode(raw: Buffer, form: type[T]) -> T:
    """Decode one document into `form`, patiently.

    Parameters
    ----------
    raw : bytes, mmap or msgspec.Raw
        The JSON text.
    form : type
        A msgspec structure that names the wanted fields.

    Raises
    ------
    BadRecordError
        If it is no JSON, nests deeper than `JSON_DEPTH`, or a field has an unexpected type.
    """
    known: Any = form
    try:
        found: T = _decoder(known).decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _decode_patiently(bytes(raw), form)
    except RecursionError:
        raise BadRecordError(f"nests deeper than {JSON_DEPTH} levels") from None
    return found


@cache  # to understand a union takes longer than to decode a short text
def _decoder(form: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form, strict=False)


def _decode_patiently(raw: bytes, form: type[T]) -> T:
    text = raw.removeprefix(_BOM).decode("utf-8", "replace")
    _check_depth(raw)
    try:
        document = json.loads(
            text, parse_constant=_no_number, parse_int=_bounded_int, parse_float=_finite
        )
    except ValueError as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadRecordError(f"not valid JSON{place}") from None
    except RecursionError:
        raise BadRecordError(f"nests deeper than {JSON_DEPTH} levels") from None
    # Written out and read again, since a form may ask for a field undecoded.
    harmless = msgspec.json.encode(_without_surrogates(document))
    try:
        return msgspec.json.decode(harmless, type=form, strict=False)
    except msgspec.MsgspecError as error:
        raise BadRecordError(_describe(error)) from None


def _describe(error: msgspec.MsgspecError) -> str:
    """Return msgspec's complaint without any text of the log (it quotes enum values only)."""
    message = str(error)
    return re.sub(r"Invalid enum value .*? -", "unexpected value -", message)


def _without_surrogates(document: Any) -> Any:
    """Replace lone surrogates in strings, which no UTF-8 file can hold; a walk with a stack."""

    def clean(value: Any) -> Any:
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

    root = [document]
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            node[:] = [clean(value) for value in node]
            stack.extend(value for value in node if isinstance(value, list | dict))
        else:
            for key, value in list(node.items()):
                del node[key]
                node[clean(key)] = clean(value)
            stack.extend(value for value in node.values() if isinstance(value, list | dict))
    return root[0]


def _no_number(_: str) -> None:
    return None


def _bounded_int(digits: str) -> int | float | None:
    if len(digits) <= JSON_INTEGER_DIGITS:
        return int(digits)
    return _finite(digits)


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _check_depth(raw: bytes) -> None:
    depth = 0
    for token in _TOKEN.finditer(raw):
        mark = token.group()[:1]
        if mark in b"[{":
            depth += 1
            if depth > JSON_DEPTH:
                raise BadRecordError(f"nests deeper than {JSON_DEPTH} levels")
        elif mark in b"]}":
            depth -= 1


def array_items(raw: Buffer, *, source: str) -> Iterator[Buffer | Skipped]:
    """Yield the items of a top-level JSON array undecoded, one by one.

    A damaged array gives the items before the damage and one `Skipped` for the rest.

    Raises
    ------
    ReaderError
        If the document is no array.
    """
    try:
        yield from msgspec.json.decode(raw, type=list[msgspec.Raw])
        return
    except (msgspec.MsgspecError, RecursionError):
        data = memoryview(raw)  # no copy: the damaged file may be as large as memory allows
    if _opens_with(data) != b"[":
        raise ReaderError(f"{source}: expected a JSON array")
    yield from _scan(data, source=source)


def _opens_with(data: memoryview) -> bytes:
    """Return the bracket that a document begins with, or nothing."""
    found = _OPENING.match(data)
    return b"" if found is None else found.group(1)


def _outer_tokens(data: memoryview) -> Iterator[tuple[bytes, int, int]]:
    """Yield the first letter, start and end of the tokens of the outermost container.

    They are its strings, its commas and its closing bracket, after which there is none; what
    stands in inner brackets is passed over. A truncated container ends without the bracket.
    """
    opening = _OPENING.match(data)
    position = 0 if opening is None else opening.end()
    while token := _TOKEN.search(data, position):
        mark = token.group()[:1]
        if mark in b"[{":
            end = _after_closing(data, token.end())
            if end is None:
                return
            position = end
            continue
        yield mark, token.start(), token.end()
        if mark in b"]}":
            return
        position = token.end()


def _after_closing(data: memoryview, position: int) -> int | None:
    """Return where the bracket that opens before `position` is closed, or None if it is not."""
    depth = 1
    while found := _TO_BRACKET.match(data, position):
        depth += 1 if found.group(1) in b"[{" else -1
        position = found.end()
        if depth == 0:
            return position
    return None


def is_closed(raw: Buffer) -> bool:
    """Return whether a document's outermost bracket is closed; a truncated one's is not."""
    data = memoryview(raw)
    opening = _OPENING.match(data)
    return opening is not None and _after_closing(data, opening.end()) is not None


def _has_text(data: memoryview, start: int, end: int) -> bool:
    return _TEXT.search(data, start, end) is not None


def _scan(data: memoryview, *, source: str) -> Iterator[memoryview | Skipped]:
    """Yield the items of a damaged or unusual array by matching brackets."""
    opening = _OPENING.match(data)
    start = 0 if opening is None else opening.end()
    for mark, first, last in _outer_tokens(data):
        if mark == b'"':
            continue
        if mark == b"," or _has_text(data, start, first):
            yield data[start:first]
        start = last
        if mark != b",":
            if _has_text(data, start, len(data)):
                yield Skipped(source=source, reason="text after the end of the array")
            return
    if _has_text(data, start, len(data)):
        yield Skipped(source=source, reason="the file ends inside a record (truncated)")
    else:
        yield Skipped(source=source, reason="the array is not closed (truncated)", what="bytes")


def object_fields(raw: Buffer, *, source: str) -> dict[str, Buffer]:
    """Return the fields of a top-level JSON object undecoded.

    Raises
    ------
    ReaderError
        If the document is no object, or is damaged beyond its top level.
    """
    try:
        fields: dict[str, Buffer] = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        data = memoryview(raw)
    else:
        return fields
    if _opens_with(data) != b"{":
        raise ReaderError(f"{source}: expected a JSON object")
    return _scan_object(data)


def _scan_object(data: memoryview) -> dict[str, Buffer]:
    """Return the fields of a damaged or unusual object; a truncated last field is kept as it is."""
    fields: dict[str, Buffer] = {}
    key: str | None = None
    start = 0
    for mark, first, last in _outer_tokens(data):
        if mark == b'"':
            colon = _COLON.match(data, last) if key is None else None
            if colon is not None:
                key = bytes(data[first + 1 : last - 1]).decode("utf-8", "replace")
                start = colon.end()
            continue
        if key is not None:
            fields[key] = data[start:first]
        key = None
    if key is not None:
        fields[key] = data[start:]
    return fields


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a JSON-lines file: its number, counted from 1, and its text."""

    number: int
    text: bytes


def json_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file that are not blank, without the byte order mark.

    Raises
    ------
    ReaderError
        If a line exceeds the size that a record may have.
    """
    with path.open("rb") as file:
        number = 0
        while text := file.readline(LINE_BYTES):
            number += 1
            if len(text) == LINE_BYTES:
                raise ReaderError(f"{path.name}: line {number} is longer than {LINE_BYTES} B")
            if number == 1:
                text = text.removeprefix(_BOM)
            if text.strip():
                yield Line(number, text)


def records(
    lines: Iterator[Line], form: type[T], *, source: str, build: Callable[[T], Any]
) -> Iterator[Any]:
    """Decode each line into `form` and build a record of it; a bad line becomes a `Skipped`.

    Parameters
    ----------
    lines : iterator of Line
        The lines.
    form : type
        A msgspec structure.
    build : callable
        Makes a record of a decoded line; a ValueError that it raises becomes a `Skipped`.
    """
    for line in lines:
        try:
            yield build(decode(line.text, form))
        except ValueError as error:
            whole = line.text.endswith(b"\n")
            reason = str(error) if whole else f"the last line is incomplete: {error}"
            yield Skipped(source=f"{source}, line {line.number}", reason=reason, what="line")
