"""``sojourn validate``: read everything, say what is in it and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer

from sojourn.cli._options import Columns, Format, Outcomes, Paths, Quiet, Scorer, read_corpus
from sojourn.cli._sessions import As, read_log, refuse, stream
from sojourn.cli._stdin import as_files

if TYPE_CHECKING:
    from sojourn.corpus import SessionLog, TraceCorpus

__all__ = ["command", "counted"]

# What a run, or its verdict, was lost with.
_LOST = ("run", "task", "line", "file", "verdict")
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
    context: typer.Context,
    paths: Paths,
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    as_: As = None,
    strict: bool = typer.Option(False, "--strict", help="Exit with 3 if anything was skipped."),
    quiet: Quiet = False,
) -> None:
    """Check that logs can be read: groups, counts, and all that was skipped, without statistics."""
    from sojourn.records import by_reason
    from sojourn.tables import clean

    with as_files(paths) as files:
        kind = stream(files, wanted=as_, format=format, quiet=quiet, outcomes=outcomes)
        refuse(context, kind)
        found: TraceCorpus | SessionLog
        if kind == "sessions":
            found = read_log(
                files, format=format, columns=columns, scorer=scorer, strict=False, quiet=quiet
            )
            lines = _tasks(found)
        else:
            found = read_corpus(
                files,
                format=format,
                columns=columns,
                scorer=scorer,
                outcomes=outcomes,
                strict=False,
                quiet=quiet,
            )
            lines = _runs(found)
    lines += [
        f"skipped: {counted(item.count, item.what)}, {clean(item.reason, limit=200)} "
        f"({clean(item.source)})"
        for item in by_reason(found.skipped)
    ]
    typer.echo("\n".join(lines))
    lost = Counter[str]()
    for item in found.skipped:
        lost[item.what] += item.count
    told = [counted(lost[what], what) for what in (*_LOST, "stranger") if lost[what]]
    typer.echo(f"not read: {', '.join(told)}" if told else "all read", err=True)
    if strict and any(lost[what] for what in _LOST):
        raise typer.Exit(3)


def _runs(corpus: TraceCorpus) -> list[str]:
    from sojourn.corpus.traces import ENDS, OUTCOMES
    from sojourn.records import End
    from sojourn.tables import text_table

    rows = []
    for group, runs in corpus.groups():
        part = corpus.select(runs)
        known = part.n_steps[part.n_steps >= 0]
        outcome = [int((part.outcome == code).sum()) for code in range(len(OUTCOMES))]
        cut = int((part.end == ENDS.index(End.LIMIT)).sum())
        rows.append((str(group), len(part), *outcome, cut, part.n_tasks, int(known.sum())))
    return text_table(("group", "runs", *OUTCOMES, "cut", "tasks", "steps"), rows)


def _tasks(log: SessionLog) -> list[str]:
    from sojourn.corpus.traces import OUTCOMES
    from sojourn.tables import text_table

    rows = []
    for group, tasks in log.groups():
        part = log.select(tasks)
        for domain in part.domains:
            inside = part.select(part.domain.codes == part.domain.values.index(domain))
            outcome = [int((inside.outcome == code).sum()) for code in range(len(OUTCOMES))]
            holes = part.gaps(domain)
            rows.append(
                (
                    *(str(group), domain, inside.n_sessions, len(inside), *outcome),
                    *(len(inside.subdomains(domain)), holes.n_unseen),
                )
            )
    head = ("group", "domain", "sessions", "tasks", *OUTCOMES, "subdomains", "unseen")
    lines = text_table(head, rows)
    if log.n_unsorted:
        lines.append(f"put in their place: {counted(log.n_unsorted, 'task')}")
    return lines
