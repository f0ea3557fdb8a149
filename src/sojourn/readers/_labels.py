"""Fields of a log's records that a user names with ``--map``, wherever in a record they stand."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sojourn._limits import ATTRIBUTE_LETTERS
from sojourn.readers._answers import unquoted
from sojourn.readers._json import BadRecordError, Buffer, decode

__all__ = ["inner_fields", "labels_of"]

_NOTHING = msgspec.Raw(b"null")
_Path = tuple[str, ...]


def inner_fields(fields: Mapping[str, Buffer], *path: str) -> dict[str, Buffer]:
    """Return the fields of an object inside a record, none where there is no such object.

    An object that stands there as JSON in a string is one too.
    """
    found: Mapping[str, Buffer] = fields
    for key in path:
        try:
            found = decode(unquoted(found.get(key, _NOTHING)), dict[str, msgspec.Raw])
        except BadRecordError:
            return {}  # text, a list, or nothing
    return dict(found)


def labels_of(
    fields: Mapping[str, Buffer], asked: frozenset[str], *, inside: tuple[_Path, ...] = ()
) -> dict[str, str]:
    """Return the fields that were asked for as texts.

    Parameters
    ----------
    fields : mapping of str to bytes
        A record's own fields, undecoded; they come before those of its inner objects.
    asked : frozenset of str
        The names.
    inside : tuple of paths
        Where else in the record they may stand, the nearest first.
    """
    found: dict[str, str] = {}
    for place in (fields, *(inner_fields(fields, *path) for path in inside)):
        for key in asked & place.keys() - found.keys():
            try:
                value = decode(place[key], str | int | bool | float | None)  # type: ignore[arg-type]
            except BadRecordError:
                continue  # a list or an object is no label
            if value is not None:
                found[key] = str(value)[:ATTRIBUTE_LETTERS]
    return found
