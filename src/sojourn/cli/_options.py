"""Arguments that several commands share, and how they become what the library takes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.tables import n_of

if TYPE_CHECKING:
    from sojourn.corpus import Anonymiser, Policy, SessionLog, TraceCorpus
    from sojourn.readers import ReadOptions
    from sojourn.readers.outcomes import Outcomes as Verdicts

Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Files or folders of logs; - reads standard input."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Read as this format (see sojourn formats)."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OURS=THEIRS", help="For rows: our field, their column."),
]
Scorer = Annotated[
    str | None,
    typer.Option("--scorer", metavar="NAME", help="For logs with several scorers: which counts."),
]
Outcomes = Annotated[
    Path | None,
    typer.Option("--outcomes", metavar="FILE", help="Join verdicts by task id from this file."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Fail (exit 3) on the first thing that is skipped.")
]
Anonymise = Annotated[
    bool,
    typer.Option(
        "--anonymise",
        help="Replace ids of tasks, runs, sessions and files by keyed hashes in every output.",
    ),
]
AnonymiseKey = Annotated[
    str | None,
    typer.Option(
        "--anonymise-key",
        metavar="KEY",
        help="Give the same names in every run of this key (better: set SOJOURN_ANONYMISE_KEY).",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes on stderr.")]


def read_options(columns: list[str] | None, scorer: str | None) -> ReadOptions:
    """Return what the readers are told.

    Raises
    ------
    typer.BadParameter
        If a ``--map`` is not of the form OURS=THEIRS.
    """
    from sojourn.readers import ReadOptions

    mapping: dict[str, str] = {}
    for item in columns or ():
        ours, separator, theirs = item.partition("=")
        if not (ours and separator and theirs):
            raise typer.BadParameter(f"{item!r} is not OURS=THEIRS", param_hint="--map")
        mapping[ours] = theirs
    return ReadOptions(columns=mapping, scorer=scorer)


def anonymiser(wanted: bool, key: str | None) -> Anonymiser | None:
    """Return what gives ids other names, None where that is not wanted; a key says that it is.

    Raises
    ------
    typer.BadParameter
        If the key is empty.
    """
    from sojourn.corpus import Anonymiser

    if not wanted and key is None:
        return None
    if key == "":
        raise typer.BadParameter("the key is empty", param_hint="--anonymise-key")
    return Anonymiser(key or os.environ.get("SOJOURN_ANONYMISE_KEY") or None)


def hidden_command(words: list[str]) -> list[str]:
    """Return a command line with its verb, options and numbers, and without any other value."""
    shown = words[:1]
    for word in words[1:]:
        option, mark, value = word.partition("=")
        if not word.startswith("-"):
            shown.append(word if _is_number(word) else "...")
        elif mark and not _is_number(value):
            shown.append(f"{option}=...")
        else:
            shown.append(word)
    return shown


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdecimal()


def check_format(name: str | None) -> None:
    """Raise typer.BadParameter if no format has this name."""
    from sojourn.readers import reader_names

    if name is not None and name not in reader_names():
        raise typer.BadParameter(
            f"no format is called {name!r}; there are {', '.join(reader_names())}",
            param_hint="--format",
        )


def policy(limits: str, faults: str) -> Policy:
    """Return the policy of two switches; typer.BadParameter if one is unknown."""
    from sojourn.corpus import Policy

    try:
        return Policy(limits=limits, faults=faults)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def read_corpus(
    paths: list[str],
    *,
    format: str | None,
    columns: list[str] | None,
    scorer: str | None,
    outcomes: Path | None,
    strict: bool,
    quiet: bool,
    names: Anonymiser | None = None,
    under_way: bool = False,
) -> TraceCorpus:
    """Read the runs that a command was given, verdicts joined, with progress on stderr.

    Runs that are `under_way` need no verdict.
    """
    from sojourn.cli._progress import Progress
    from sojourn.cli._stdin import as_files, spool_of
    from sojourn.readers import read_traces

    check_format(format)
    options, verdicts = with_verdicts(read_options(columns, scorer), outcomes)
    if under_way:
        options = replace(options, verdicts_elsewhere=True)
    with as_files(paths) as files, Progress(quiet=quiet) as progress:
        corpus = read_traces(
            *files,
            format=format,
            options=options,
            strict=strict,
            progress=lambda path, n: progress.say(f"reading {path.name}: {n_of(n, 'run')}"),
        )
        if (spool := spool_of(files)) is not None:
            corpus = _named_plainly(corpus, spool)
    if verdicts is not None:
        from sojourn.readers.outcomes import join_outcomes

        corpus = join_outcomes(corpus, verdicts)
    return corpus if names is None else names.runs(corpus)


def with_verdicts(
    options: ReadOptions, outcomes: Path | None
) -> tuple[ReadOptions, Verdicts | None]:
    """Return how to read runs whose verdicts a second file may hold, and those verdicts."""
    if outcomes is None:
        return options, None
    from sojourn.readers.outcomes import read_outcomes

    verdicts = read_outcomes(outcomes, columns=options.columns)
    return replace(options, verdicts_elsewhere=True, optional=verdicts.mapped), verdicts


def _named_plainly(corpus: TraceCorpus, spool: str) -> TraceCorpus:
    """Return runs from standard input under that name, rather than its temporary file's."""
    from sojourn.cli._stdin import plain

    labels = {
        name: replace(column, values=tuple(plain(value, spool) for value in column.values))
        for name, column in (("source_uri", corpus.source_uri), ("job_id", corpus.job_id))
    }
    skipped = tuple(
        replace(item, source=plain(item.source, spool), reason=plain(item.reason, spool))
        for item in corpus.skipped
    )
    return corpus.replace(**labels, skipped=skipped)


_SUFFIXES = {"traces": (".parquet", ".jsonl"), "sessions": (".parquet", ".csv", ".jsonl")}


def check_output(output: Path, kind: str = "traces") -> None:
    """Refuse, before any work is done, a file that could not be written after it.

    Raises
    ------
    typer.BadParameter
        If the suffix is none of a file of runs, or of sessions, or the folder is not there.
    """
    if not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder", param_hint="--output")
    if output.suffix not in _SUFFIXES[kind]:
        raise typer.BadParameter(
            f"{output.name} must end in {' or '.join(_SUFFIXES[kind])}", param_hint="--output"
        )


def write_runs(corpus: TraceCorpus, output: Path) -> None:
    """Write a corpus as its file's suffix says, and say so."""
    from sojourn.corpus import write_corpus, write_jsonl

    write = write_corpus if output.suffix == ".parquet" else write_jsonl
    write(corpus, output)
    typer.echo(f"wrote {output}: {n_of(len(corpus), 'run')}, {n_of(corpus.steps.size, 'step')}")


def write_tasks(log: SessionLog, output: Path) -> None:
    """Write sessions as their file's suffix says, and say so."""
    from sojourn.corpus import write_sessions

    write_sessions(log, output)
    typer.echo(f"wrote {output}: {n_of(log.n_sessions, 'session')}, {n_of(len(log), 'task')}")
