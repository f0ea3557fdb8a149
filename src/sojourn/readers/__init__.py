"""Readers: one foreign format, one file; `read_traces` and `read_sessions` for all of them."""

from __future__ import annotations

from sojourn.readers.base import ReadOptions, load_reader, reader_names
from sojourn.readers.preview import Preview, preview
from sojourn.readers.profile import read_profile
from sojourn.readers.reading import read_traces
from sojourn.readers.sessions import read_sessions

__all__ = [
    "Preview",
    "ReadOptions",
    "load_reader",
    "preview",
    "read_profile",
    "read_sessions",
    "read_traces",
    "reader_names",
]
