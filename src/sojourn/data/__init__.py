"""The example that ships in the package; where it comes from stands in ``README.md`` beside it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["example_path"]


def example_path() -> Path:
    """Return the corpus of the demo: 200 runs of gpt-4o on tau-bench's airline tasks."""
    return Path(__file__).parent / "tau-bench-airline.parquet"
