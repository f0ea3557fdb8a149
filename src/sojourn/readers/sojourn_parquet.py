"""Our canonical file: the Parquet that ``sojourn convert`` writes.

What had been skipped when the logs were first read is kept in the file and told again, so that a
converted corpus is no more silent than the logs that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sojourn.corpus.parquet import is_canonical, read_batches, read_skipped
from sojourn.readers.base import ReadOptions, Record

__all__ = ["SojournParquetReader"]


class SojournParquetReader:
    """Reads corpora that `write_corpus` wrote."""

    name = "sojourn-parquet"
    description = "Sojourn's own Parquet corpus (written by sojourn convert)"
    carries = "outcome, steps, attempts, what was skipped"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is Parquet with our mark in its metadata."""
        return head.startswith(b"PAR1") and is_canonical(source)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a corpus is one file."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield what was skipped when the corpus was made, then batches of runs."""
        yield from read_skipped(source)
        yield from read_batches(source)
