"""The examples that ship in the package; where they come from stands in ``README.md`` beside."""

from __future__ import annotations

from pathlib import Path

__all__ = ["example_path", "example_sessions_path"]


def example_path() -> Path:
    """Return the corpus of the demo: 200 runs of gpt-4o on tau-bench's airline tasks."""
    return Path(__file__).parent / "tau-bench-airline.parquet"


def example_sessions_path() -> Path:
    """Return the sessions of the demo: 72 daily runs of mini-agi through agbenchmark's tests."""
    return Path(__file__).parent / "agbenchmark-mini-agi.parquet"
