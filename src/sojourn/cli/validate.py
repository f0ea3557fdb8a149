"""``sojourn validate``: read everything, say what is in it and what is wrong with it."""

from __future__ import annotations

from collections import Counter

import typer

from sojourn.cli._options import Columns, Format, Outcomes, Paths, Quiet, Scorer, read_corpus

__all__ = ["command", "counted"]

# What a run, or its verdict, was lost with.
_LOST = ("run", "line", "file", "verdict")
# Kind of a skip -> one of them, and several.
_WORDS = {
    "stranger": ("file of no known format", "files of no known format"),
    "bytes": ("place with broken bytes", "places with broken bytes"),
    "key": ("note", "notes"),
}


def counted(count: int, what: str) -> str:
    """Return a number with the word for what it counts, as in ``1 file`` and ``3 runs``."""
    one, several = _WORDS.get(what, (what, f"{what}s"))
    return f"{count:,} {one if count == 1 else several}"


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
    from sojourn.corpus.traces import ENDS, OUTCOMES
    from sojourn.records import End
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
        outcome = [int((part.outcome == code).sum()) for code in range(len(OUTCOMES))]
        cut = int((part.end == ENDS.index(End.LIMIT)).sum())
        rows.append((str(group), len(part), *outcome, cut, part.n_tasks, int(known.sum())))
    lines = text_table(("group", "runs", *OUTCOMES, "cut", "tasks", "steps"), rows)
    lines += [
        f"skipped: {counted(item.count, item.what)}, {clean(item.reason, limit=200)} "
        f"({clean(item.source)})"
        for item in corpus.skipped
    ]
    typer.echo("\n".join(lines))
    lost = Counter[str]()
    for item in corpus.skipped:
        lost[item.what] += item.count
    told = [counted(lost[what], what) for what in (*_LOST, "stranger") if lost[what]]
    typer.echo(f"not read: {', '.join(told)}" if told else "all read", err=True)
    if strict and any(lost[what] for what in _LOST):
        raise typer.Exit(3)
