"""``sojourn convert``: any log into one file of ours, without its text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli._options import (
    Anonymise,
    AnonymiseKey,
    Columns,
    Format,
    Outcomes,
    Paths,
    Quiet,
    Scorer,
    Strict,
    anonymiser,
    check_output,
    read_corpus,
    write_runs,
    write_tasks,
)
from sojourn.cli._sessions import As, read_log, refuse, stream
from sojourn.cli._stdin import as_files
from sojourn.cli._targets import spare_inputs
from sojourn.records import Skipped

__all__ = ["command"]


def command(
    context: typer.Context,
    paths: Paths,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .parquet or .jsonl file to write; sessions may be a .csv too.",
        ),
    ],
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    digests: Annotated[
        bool,
        typer.Option(
            "--digests/--no-digests",
            help="Keep a 64-bit hash of each action, which finds identical attempts.",
        ),
    ] = True,
    as_: As = None,
    anonymise: Anonymise = False,
    anonymise_key: AnonymiseKey = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Convert logs into one file: outcomes and the structure of steps, no text."""
    spare_inputs((("--output", output),), (*paths, outcomes))
    names = anonymiser(anonymise, anonymise_key)
    with as_files(paths) as files:
        kind = stream(files, wanted=as_, format=format, quiet=quiet, outcomes=outcomes)
        refuse(context, kind)
        check_output(output, kind)
        if kind == "sessions":
            log = read_log(
                files,
                format=format,
                columns=columns,
                scorer=scorer,
                strict=strict,
                quiet=quiet,
                names=names,
            )
            write_tasks(log, output)
            _tell(log.skipped, quiet=quiet)
            return
        corpus = read_corpus(
            files,
            format=format,
            columns=columns,
            scorer=scorer,
            outcomes=outcomes,
            strict=strict,
            quiet=quiet,
            names=names,
        )
    write_runs(corpus if digests else corpus.without_digests(), output)
    _tell(corpus.skipped, quiet=quiet)


def _tell(skipped: Sequence[Skipped], *, quiet: bool) -> None:
    if skipped and not quiet:
        n = sum(item.count for item in skipped)
        typer.echo(f"{n} items were skipped; sojourn validate shows them", err=True)
