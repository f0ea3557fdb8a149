"""The part of ``sojourn assess`` that is about sessions: which stream it is, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli._options import check_format, read_options
from sojourn.tables import n_of

if TYPE_CHECKING:
    from sojourn.assess import GroupedSessionAssessment
    from sojourn.corpus import Anonymiser, Policy, SessionLog, TraceCorpus
    from sojourn.records import OperationalProfile

__all__ = [
    "As",
    "Bootstrap",
    "Dwell",
    "Envelope",
    "MaxStates",
    "NMax",
    "Profile",
    "Published",
    "Uniform",
    "assess_log",
    "check_kind",
    "note_sessions",
    "read_log",
    "refuse",
    "stream",
]

_KINDS = ("traces", "sessions")

As = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="KIND", help="Assess as traces (runs) or as sessions (tasks in order)."
    ),
]
Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Sessions only: shares of domains and subdomains in the work ahead, TOML or JSON.",
    ),
]
NMax = Annotated[
    int, typer.Option("--n-max", help="Sessions only: largest n of R(n).", min=1, max=1000)
]
Uniform = Annotated[
    bool,
    typer.Option(
        "--uniform", help="Sessions only: what no profile states weighs equally, not as in the log."
    ),
]
MaxStates = Annotated[
    int, typer.Option("--max-states", help="Sessions only: most hidden states.", min=1, max=12)
]
Dwell = Annotated[
    float,
    typer.Option(
        help="Sessions only: expected stay in a hidden state, in tasks, before data.", min=1.01
    ),
]
Envelope = Annotated[
    bool,
    typer.Option(
        "--envelope", help="Sessions only: range of the independent figures over a box of priors."
    ),
]
Bootstrap = Annotated[
    int,
    typer.Option(
        "--bootstrap",
        help="Sessions only: replicates of a test of more than one state (minutes).",
        min=0,
        max=10_000,
    ),
]
Published = Annotated[
    bool,
    typer.Option(
        "--published", help="Sessions only: one chain of 12,000 sweeps, as the published method."
    ),
]

# Options of one stream, by the name of their parameter.
_RUNS_ONLY = {
    "outcomes": "--outcomes",
    "limits": "--limits",
    "resamples": "--resamples",
    "states": "--states",
    "features": "--features",
    "n_states": "--n-states",
    "encoder": "--encoder",
    "method": "--method",
    "margin": "--margin",
    "draws": "--draws",
    "power": "--power",
    "chain": "--no-chain",
    "require_certificate": "--require-certificate",
    "digests": "--digests",
}
_SESSIONS_ONLY = {
    "profile": "--profile",
    "n_max": "--n-max",
    "uniform": "--uniform",
    "max_states": "--max-states",
    "dwell": "--dwell",
    "envelope": "--envelope",
    "bootstrap": "--bootstrap",
    "published": "--published",
}


def check_kind(wanted: str | None) -> None:
    """Raise typer.BadParameter if what is asked for with ``--as`` is neither of the two."""
    if wanted is not None and wanted not in _KINDS:
        raise typer.BadParameter(f"{wanted!r} is none of {', '.join(_KINDS)}", param_hint="--as")


def stream(
    paths: Sequence[str],
    *,
    wanted: str | None,
    format: str | None,
    quiet: bool,
    outcomes: Path | None = None,
) -> str:
    """Return ``traces`` or ``sessions``: what was asked for, else what the sources are.

    Verdicts of a second file are joined to runs, so with them the sources are taken for runs.

    Raises
    ------
    typer.BadParameter
        If another stream is asked for.
    """
    from sojourn.readers.base import Source
    from sojourn.readers.finding import find_sources

    check_format(format)
    check_kind(wanted)
    if wanted is not None:
        return wanted
    if outcomes is not None:
        return "traces"
    kinds = [
        source.kind
        for path in paths
        for source in find_sources(Path(path), format=format)
        if isinstance(source, Source)
    ]
    n_sessions = kinds.count("sessions")
    if not n_sessions:
        return "traces"
    if n_sessions == len(kinds):
        return "sessions"
    if not quiet:
        typer.echo(
            f"{n_of(n_sessions, 'source')} of sessions left aside; assess them with --as sessions",
            err=True,
        )
    return "traces"


def note_sessions(corpus: TraceCorpus, *, wanted: str | None, quiet: bool) -> None:
    """Say on stderr that runs could be assessed as sessions, unless runs were asked for."""
    placed = int(((corpus.session_id.codes >= 0) & (corpus.position >= 0)).sum())
    if placed and wanted is None and not quiet:
        typer.echo(
            f"{placed} runs say their session and position; --as sessions assesses them in order",
            err=True,
        )


def refuse(context: typer.Context, kind: str) -> None:
    """Raise typer.BadParameter if an option of the other stream was given."""
    foreign = _RUNS_ONLY if kind == "sessions" else _SESSIONS_ONLY
    other = "runs" if kind == "sessions" else "sessions"
    for name, option in foreign.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"{option} is for {other}, and this is assessed as {kind} (see --as)"
            )


def read_log(
    paths: Sequence[str],
    *,
    format: str | None,
    columns: list[str] | None,
    scorer: str | None,
    strict: bool,
    quiet: bool,
    names: Anonymiser | None = None,
) -> SessionLog:
    """Read the sessions that a command was given, with progress on stderr."""
    from sojourn.cli._progress import Progress
    from sojourn.readers import read_sessions

    with Progress(quiet=quiet) as progress:
        log = read_sessions(
            *paths,
            format=format,
            options=read_options(columns, scorer),
            strict=strict,
            progress=lambda path, n: progress.say(f"reading {path.name}: {n_of(n, 'task')}"),
        )
    return log if names is None else names.sessions(log)


def assess_log(
    log: SessionLog,
    *,
    profile: Path | None,
    by: list[str] | None,
    pool: bool,
    policy: Policy,
    ci: float,
    n_max: int,
    seed: int,
    quiet: bool,
    max_states: int = 4,
    published: bool = False,
    **settings: Any,
) -> GroupedSessionAssessment:
    """Assess a log of sessions as the command's options say; `settings` go to the library."""
    from sojourn.assess import assess_session_groups
    from sojourn.cli._progress import Progress
    from sojourn.session.sampler import PUBLISHED

    fields = _grouping(by, pool=pool)
    stated = None if profile is None else _stated(profile, log, fields)
    with Progress(quiet=quiet) as progress:
        return assess_session_groups(
            log,
            stated,
            by=fields,
            policy=policy,
            ci_prob=ci,
            n_max=n_max,
            n_states=range(1, max_states + 1),
            settings=PUBLISHED if published else None,
            rng=seed,
            **settings,
            progress=lambda group: progress.say(f"assessing {group}"),
        )


def _stated(path: Path, log: SessionLog, by: Sequence[str]) -> OperationalProfile:
    """Return a profile that fits every group of the log; typer.BadParameter if it does not."""
    from sojourn.readers import read_profile

    stated = read_profile(path)
    for group, rows in log.groups(by):
        try:
            log.select(rows).profile(stated)
        except ValueError as error:
            raise typer.BadParameter(f"{path}, {group}: {error}", param_hint="--profile") from None
    return stated


def _grouping(by: list[str] | None, *, pool: bool) -> tuple[str, ...]:
    from sojourn.corpus.sessions import SESSION_GROUP_FIELDS

    if pool and by:
        raise typer.BadParameter("--pool and --by exclude each other")
    if pool:
        return ()
    if not by:
        return SESSION_GROUP_FIELDS
    fields = tuple(name for item in by for name in item.split(","))
    for name in fields:
        if name not in SESSION_GROUP_FIELDS:
            raise typer.BadParameter(
                f"sessions have {', '.join(SESSION_GROUP_FIELDS)}, not {name!r}", param_hint="--by"
            )
    return fields
