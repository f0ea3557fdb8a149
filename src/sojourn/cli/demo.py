"""``sojourn demo``: the main job on the examples that ship in the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli._options import Quiet, check_output, write_runs, write_tasks
from sojourn.cli.assess import Html, Json, Seed, check_targets, emit

if TYPE_CHECKING:
    from sojourn.assess import GroupedAssessment, GroupedSessionAssessment

__all__ = ["command"]


def command(
    html: Html = None,
    json: Json = None,
    seed: Seed = 0,
    sessions: Annotated[
        bool,
        typer.Option("--sessions", help="The example of sessions: 72 of a benchmark's daily runs."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the example to this .jsonl or .parquet file (sessions: .csv too) and stop.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Assess the example that ships with Sojourn: 200 runs of an agent, 4 attempts at 50 tasks."""
    if output is not None:
        _write(output, sessions=sessions)
        return
    check_targets(html, json)
    result = _sessions(seed) if sessions else _runs(seed)
    emit(result, html=html, json=json, quiet=quiet)
    if html is None and json is None and not quiet:
        switch = " --sessions" if sessions else ""
        typer.echo(f"\nThe same as a page: sojourn demo{switch} --html demo.html", err=True)


def _write(output: Path, *, sessions: bool) -> None:
    from sojourn.data import example_path, example_sessions_path
    from sojourn.readers import read_sessions, read_traces

    check_output(output, "sessions" if sessions else "traces")
    if sessions:
        write_tasks(read_sessions(example_sessions_path()), output)
    else:
        write_runs(read_traces(example_path()), output)


def _runs(seed: int) -> GroupedAssessment:
    from sojourn.assess import assess_groups
    from sojourn.data import example_path
    from sojourn.readers import read_traces

    return assess_groups(read_traces(example_path()), rng=seed)


def _sessions(seed: int) -> GroupedSessionAssessment:
    from sojourn.assess import assess_session_groups
    from sojourn.data import example_sessions_path
    from sojourn.readers import read_sessions

    return assess_session_groups(read_sessions(example_sessions_path()), rng=seed)
