"""Readers: one foreign format, one file; `read_traces` for all of them."""

from __future__ import annotations

from sojourn.readers.base import ReadOptions, load_reader, read_traces, reader_names
from sojourn.readers.preview import Preview, preview

__all__ = ["Preview", "ReadOptions", "load_reader", "preview", "read_traces", "reader_names"]
