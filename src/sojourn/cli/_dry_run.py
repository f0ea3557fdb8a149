"""``--dry-run``: what would be read and how, without reading it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sojourn.cli._options import check_format, read_options

if TYPE_CHECKING:
    from sojourn.corpus import Policy

__all__ = ["show"]

# Enough records to see a source's columns and groups; the rest is not read.
_SAMPLE = 200


def show(
    paths: list[str],
    *,
    format: str | None,
    columns: list[str] | None,
    scorer: str | None,
    policy: Policy,
) -> None:
    """Print the formats of all sources, and the groups and columns of their first records."""
    from sojourn.cli._stdin import as_files
    from sojourn.readers import preview
    from sojourn.tables import clean, indent, text_table

    check_format(format)
    typer.echo(f"Policy: {policy}")
    with as_files(paths) as files:
        for path in files:
            for item in preview(
                Path(path), format=format, options=read_options(columns, scorer), n=_SAMPLE
            ):
                typer.echo(f"{clean(item.source)}: {clean(item.format or 'skipped')}")
                lines = [clean(note, limit=200) for note in item.notes]
                if item.groups:
                    rows = [(str(group), n) for group, n in item.groups]
                    lines += text_table(("group", f"of the first {_SAMPLE} runs"), rows)
                if item.columns:
                    lines.append(f"columns: {', '.join(item.columns)}")
                typer.echo("\n".join(indent(lines)))
