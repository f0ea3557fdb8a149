"""``sojourn formats``: what can be read, and what one file of each format carries."""

from __future__ import annotations

import typer

__all__ = ["command"]


def command() -> None:
    """List the formats that can be read."""
    from sojourn.readers import load_reader, reader_names
    from sojourn.tables import text_table

    readers = [load_reader(name) for name in reader_names()]
    rows = [(reader.name, reader.carries, reader.description) for reader in readers]
    typer.echo("\n".join(text_table(("format", "carries", "what it is"), rows, left=3)))
