"""``sojourn convert``: any log into our Parquet corpus, without its text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli._options import (
    Columns,
    Format,
    Outcomes,
    Paths,
    Quiet,
    Scorer,
    Strict,
    check_output,
    read_corpus,
    write_runs,
)

__all__ = ["command"]


def command(
    paths: Paths,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The .parquet or .jsonl file to write."
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
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Convert logs into one file: outcomes and the structure of steps, no text."""
    check_output(output)
    corpus = read_corpus(
        paths,
        format=format,
        columns=columns,
        scorer=scorer,
        outcomes=outcomes,
        strict=strict,
        quiet=quiet,
    )
    write_runs(corpus if digests else corpus.without_digests(), output)
    if corpus.skipped and not quiet:
        n = sum(item.count for item in corpus.skipped)
        typer.echo(f"{n} items were skipped; sojourn validate shows them", err=True)
