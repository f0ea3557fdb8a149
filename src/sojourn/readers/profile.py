"""Operational profiles from files: what share of the work each domain and subdomain has.

TOML::

    [domains]
    coding = 0.15
    reasoning = 0.85

    [subdomains.coding]
    MBPP = 0.204
    "DS-1000" = 0.796

or the same tables as a JSON object. Whatever is not stated is filled in from the data.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from sojourn._limits import PROFILE_BYTES
from sojourn.errors import EmptySourceError, ReaderError
from sojourn.records import OperationalProfile

__all__ = ["read_profile"]

_KEYS = ("domains", "subdomains")


def read_profile(path: str | os.PathLike[str]) -> OperationalProfile:
    """Read an operational profile from a TOML or JSON file.

    Parameters
    ----------
    path : path-like
        A file with the tables ``domains`` (domain -> weight) and ``subdomains`` (domain ->
        subdomain -> weight), of which one may be absent.

    Raises
    ------
    ReaderError
        If the file cannot be read, holds other keys, or its weights are no numbers of 0 to 1 that
        sum to one within 1e-6; the message names the key and the sum.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(PROFILE_BYTES + 1)
    except OSError as error:
        raise ReaderError(f"{path}: {error.strerror or error}") from None
    if len(data) > PROFILE_BYTES:
        raise ReaderError(f"{path}: longer than {PROFILE_BYTES >> 20} MB, and so no profile")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ReaderError(f"{path}: the text is not UTF-8") from None
    if not text.strip():
        raise EmptySourceError(f"{path}: the file is empty")
    try:
        return _profile(_parsed(text))
    except RecursionError:
        raise ReaderError(f"{path}: nests too deep") from None
    except ValueError as error:
        raise ReaderError(f"{path}: {error}") from None


def _parsed(text: str) -> dict[str, Any]:
    if text.lstrip()[0] == "{":
        try:
            document: dict[str, Any] = json.loads(text, object_pairs_hook=_without_repetition)
        except json.JSONDecodeError as error:
            raise ValueError(f"not valid JSON: {error}") from None
        return document
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {error}") from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:40]!r} stands there twice")
    return table


def _profile(document: dict[str, Any]) -> OperationalProfile:
    for key in document:
        if key not in _KEYS:
            raise ValueError(f"unknown key {key[:40]!r}; a profile has {' and '.join(_KEYS)}")
    for key, table in document.items():
        if not isinstance(table, dict):
            raise ValueError(f"{key} must be a table of names with their weights")
    for domain, table in document.get("subdomains", {}).items():
        if not isinstance(table, dict):
            raise ValueError(f"subdomains.{domain} must be a table of names with their weights")
    if not any(document.values()):
        raise ValueError("no weight is given; a profile has domains, subdomains or both")
    return OperationalProfile(source="file", **document)
