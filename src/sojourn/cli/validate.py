"""``sojourn validate``: read everything, say what is in it and what is wrong with it."""

from __future__ import annotations

import typer

from sojourn.cli._options import Columns, Format, Outcomes, Paths, Quiet, Scorer, read_corpus

__all__ = ["command"]

# What a run, or its verdict, was lost with.
_LOST = ("run", "line", "file", "verdict")


def command(
    paths: Paths,
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    strict: bool = typer.Option(False, "--strict", help="Exit with 3 if anything was skipped."),
    quiet: Quiet = False,
) -> None:
    """Check that logs can be read: groups, counts, and all that was skipped, without statistics."""
    from sojourn.tables import clean, text_table

    corpus = read_corpus(
        paths,
        format=format,
        columns=columns,
        scorer=scorer,
        outcomes=outcomes,
        strict=False,
        quiet=quiet,
    )
    rows = []
    for group, runs in corpus.groups():
        part = corpus.select(runs)
        known = part.n_steps[part.n_steps >= 0]
        rows.append((str(group), len(part), part.n_tasks, int(known.sum())))
    lines = text_table(("group", "runs", "tasks", "steps"), rows)
    lines += [
        f"skipped: {item.count} {item.what}, {clean(item.reason, limit=200)} ({clean(item.source)})"
        for item in corpus.skipped
    ]
    typer.echo("\n".join(lines))
    lost = sum(item.count for item in corpus.skipped if item.what in _LOST)
    typer.echo("all read" if not lost else f"{lost} items were skipped", err=True)
    if strict and lost:
        raise typer.Exit(3)
