"""From JSON texts to the columns of our rows: one object after the other, no field decoded twice.

A line is split into its fields' bare tokens; equal tokens of a column share one code, and each
distinct token is decoded once. Big integers therefore stay the digits that they are, and ids never
pass through a float. A line that the fast parser refuses is mended by the standard library's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sojourn._limits import JSON_INTEGER_DIGITS, JSON_KEY_SETS
from sojourn.errors import ReaderError
from sojourn.readers._columns import RUN_FIELDS, STEP_FIELDS, column_of, hint, quoted, shown
from sojourn.readers._json import (
    BadRecordError,
    _check_depth,
    _without_surrogates,
    array_items,
    json_lines,
    open_buffer,
)
from sojourn.readers._rows import Complaints
from sojourn.records import Skipped

__all__ = ["FIELDS", "Plan", "Plans", "json_rows", "repaired", "token_text"]

_BROKEN_BYTES = "bytes that are not UTF-8 were replaced"
_MAX_KEYS = 50

FIELDS = (*RUN_FIELDS, *STEP_FIELDS)

_decode_row = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class JsonRow(NamedTuple):
    """One object: its fields undecoded, its line or position (from 1), its size in bytes."""

    fields: dict[str, msgspec.Raw]
    place: int
    n_bytes: int


def json_rows(source: Path, complaints: Complaints, *, is_array: bool) -> Iterator[JsonRow]:
    """Yield the objects of JSON lines, or of a JSON array; what is none is complained of."""
    for place, text, is_whole in _objects(source, complaints, is_array=is_array):
        try:
            fields = _decode_row(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            try:
                fields = _mended_row(bytes(text), error, complaints)
            except BadRecordError as fault:
                reason = str(fault) if is_whole else f"the last line is incomplete: {fault}"
                complaints.add(reason, what="line", place=place)
                continue
        yield JsonRow(fields, place, len(text))


def _objects(
    source: Path, complaints: Complaints, *, is_array: bool
) -> Iterator[tuple[int, Any, bool]]:
    if is_array:
        for place, item in enumerate(array_items(open_buffer(source), source=str(source)), 1):
            if isinstance(item, Skipped):
                complaints.add(item.reason, what=item.what, place=place)
            else:
                yield place, bytes(item), True
    else:
        for line in json_lines(source):
            yield line.number, line.text, line.text.endswith(b"\n")


def _mended_row(text: bytes, error: Exception, complaints: Complaints) -> dict[str, msgspec.Raw]:
    if isinstance(error, RecursionError):
        raise BadRecordError("nests too deep")
    mended = repaired(text, complaints)
    try:
        return _decode_row(mended)
    except msgspec.MsgspecError:
        raise BadRecordError("is no JSON object") from None


def repaired(text: bytes, complaints: Complaints) -> bytes:
    """Return JSON that the fast parser takes, made of JSON that it does not.

    What is no finite number becomes null, a long integer a string of its digits, a byte that is
    not UTF-8 the replacement character.

    Raises
    ------
    BadRecordError
        If it is no JSON even then, or nests too deep.
    """
    _check_depth(text)
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        decoded = text.decode("utf-8", "replace")
        complaints.add(_BROKEN_BYTES, what="bytes")
    try:
        document = json.loads(
            decoded,
            strict=False,
            parse_constant=lambda _: None,
            parse_int=lambda digits: int(digits) if len(digits) <= JSON_INTEGER_DIGITS else digits,
            parse_float=_finite,
        )
    except ValueError:
        raise BadRecordError("is not valid JSON") from None
    except RecursionError:
        raise BadRecordError("nests too deep") from None
    return msgspec.json.encode(_without_surrogates(document))


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def token_text(token: bytes, complaints: Complaints) -> str | None:
    """Return the text of a bare JSON value: a string's own, another scalar's as it is written.

    None stands for null. Lists and objects give their first character only.
    """
    first = token[:1]
    if first == b'"':
        try:
            return str(msgspec.json.decode(token)).strip()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return str(msgspec.json.decode(repaired(token, complaints))).strip()
    if first in b"[{":
        return first.decode()
    return None if token == b"null" else token.decode()


class Plan:
    """What to take from objects with one set of keys: which key holds which of our fields."""

    __slots__ = ("_fields", "columns", "fault", "from_score", "names", "times")

    def __init__(
        self,
        names: tuple[str, ...],
        columns: dict[str, int],
        fault: str = "",
        *,
        fields: Sequence[str] = FIELDS,
    ) -> None:
        self.fault = fault
        self.names = names
        self._fields = fields
        self.columns = [(fields.index(name), names[place]) for name, place in columns.items()]
        self.from_score = "outcome" in columns and columns["outcome"] == columns.get("score")
        self.times = 0

    def has(self, field: str) -> bool:
        """Return whether the field is among the keys."""
        return bool(self.key(field))

    def key(self, field: str) -> str:
        """Return the key that holds a field, or nothing."""
        return next((key for index, key in self.columns if self._fields[index] == field), "")


class Plans:
    """The plan of each set of keys, made when it is first met; and the count of unused keys."""

    def __init__(
        self,
        source: str,
        mapping: Mapping[str, str],
        fields: Sequence[str] = FIELDS,
        *,
        optional: Collection[str] = (),
    ) -> None:
        self._optional = optional
        self._source = source
        self._fields = fields
        self._mapping = mapping
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._unused: dict[str, int] = {}
        self._found = {"steps"}
        self._n_other = 0
        self._met: dict[str, None] = {}

    def of(self, names: tuple[str, ...]) -> Plan:
        """Return the plan for objects with these keys."""
        plan = self._plans.get(names)
        if plan is None:
            if len(self._plans) >= JSON_KEY_SETS:
                self._count_unused()
            plan = self._plans[names] = self._new(names)
        plan.times += 1
        return plan

    def _new(self, names: tuple[str, ...]) -> Plan:
        present = {name: key for name, key in self._mapping.items() if key in names}
        try:
            columns = column_of(names, present, source="", fields=self._fields)
        except ReaderError as error:
            return Plan(names, {}, str(error))
        for name in self._mapping.keys() - present.keys() - set(self._optional):
            columns.pop(name, None)
        if len(self._met) < JSON_KEY_SETS:
            self._met.update(dict.fromkeys(names))
        return Plan(names, columns, fields=self._fields)

    def check_mapped(self) -> None:
        """Raise ReaderError if a key that the user named has not been met so far."""
        for name, key in self._mapping.items():
            if name in self._optional:
                continue
            if self._met and key not in self._met and len(self._met) < JSON_KEY_SETS:
                raise ReaderError(
                    f"{self._source}: --map {name}={key}: there is no such key; "
                    f"the keys are {shown(list(self._met))}"
                )

    def _count_unused(self) -> None:
        for plan in self._plans.values():
            used = {key for _, key in plan.columns} | {"steps"}
            self._found.update(self._fields[index] for index, _ in plan.columns)
            for name in plan.names:
                if name in used:
                    continue
                if name in self._unused or len(self._unused) < _MAX_KEYS:
                    self._unused[name] = self._unused.get(name, 0) + plan.times
                else:
                    self._n_other += plan.times
        self._plans.clear()

    def complain(self, complaints: Complaints) -> None:
        """Tell which keys were not used, and how often they stood there."""
        self._count_unused()
        missing = [name for name in self._fields if name not in self._found]
        for name, count in self._unused.items():
            reason = f"the key {quoted(name)} was not used{hint(name, missing)}"
            complaints.add(reason, count=count, what="key")
        if self._n_other:
            complaints.add("other keys were not used", count=self._n_other, what="key")
