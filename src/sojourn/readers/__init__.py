"""Readers: one foreign format, one file; `read_traces` for all of them."""

from __future__ import annotations

from sojourn.readers.base import ReadOptions, load_reader, read_traces, reader_names

__all__ = ["ReadOptions", "load_reader", "read_traces", "reader_names"]
