"""``--dry-run``: what would be read and how, without reading it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sojourn.cli._options import check_format, read_options, with_verdicts

if TYPE_CHECKING:
    from sojourn.corpus import Policy
    from sojourn.readers import Preview

__all__ = ["show"]

# Enough records to see a source's columns and groups; the rest is not read.
_SAMPLE = 200
_MAX_LISTED = 20


def show(
    paths: list[str],
    *,
    format: str | None,
    columns: list[str] | None,
    scorer: str | None,
    outcomes: Path | None,
    policy: Policy,
    as_: str | None = None,
) -> None:
    """Print the formats of all sources, and the groups and columns of their first records.

    Raises
    ------
    typer.Exit
        With 3 if a source that was named cannot be read.
    """
    from sojourn.cli._sessions import check_kind
    from sojourn.cli._stdin import as_files, plain, spool_of
    from sojourn.readers import preview

    check_format(format)
    check_kind(as_)
    typer.echo(f"Policy: {policy}")
    options, _ = with_verdicts(read_options(columns, scorer), outcomes)
    formats: Counter[str] = Counter()
    failed = False
    with as_files(paths) as files:
        spool = spool_of(files)
        for path in files:
            for item in preview(Path(path), format=format, options=options, n=_SAMPLE, kind=as_):
                formats[item.format or "skipped"] += 1
                broken = item.failed and Path(item.source) == Path(path)
                failed = failed or broken
                if formats.total() <= _MAX_LISTED or broken:
                    text = "\n".join(_lines(item))
                    typer.echo(text if spool is None else plain(text, spool))
    if formats.total() > _MAX_LISTED:
        typer.echo(f"and {formats.total() - _MAX_LISTED:,} more")
    typer.echo("sources: " + ", ".join(f"{n:,} {name}" for name, n in sorted(formats.items())))
    if failed:
        raise typer.Exit(3)


def _lines(item: Preview) -> list[str]:
    from sojourn.tables import clean, indent, text_table

    lines = [clean(note, limit=200) for note in item.notes]
    if item.groups:
        rows = [(str(group), n) for group, n in item.groups]
        unit = "runs" if item.kind == "traces" else "tasks"
        lines += text_table(("group", f"of the first {_SAMPLE} {unit}"), rows)
    used = dict(item.fields)
    if used:
        lines.append(
            "columns: " + ", ".join(f"{ours} = {clean(theirs)}" for ours, theirs in used.items())
        )
    unused = [clean(name) for name in item.columns if name not in used.values()]
    if unused:
        lines.append(f"{'not used' if used else 'columns'}: {', '.join(unused[:_MAX_LISTED])}")
    head = f"{clean(item.source, limit=200)}: {clean(item.format or 'skipped')}"
    return [head, *indent(lines)]
