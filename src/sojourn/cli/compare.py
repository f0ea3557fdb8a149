"""``sojourn compare``: two or more sets of runs, task by task where they share tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli._options import (
    Anonymise,
    AnonymiseKey,
    Columns,
    Format,
    Outcomes,
    Quiet,
    Scorer,
    Strict,
    anonymiser,
    policy,
    read_corpus,
)
from sojourn.cli._sessions import As, NMax, Profile, read_log, refuse, stream
from sojourn.cli.assess import (
    Faults,
    Html,
    Json,
    Limits,
    Markdown,
    Seed,
    check_targets,
    emit,
    put_markdown,
)

if TYPE_CHECKING:
    from sojourn.assess import ComparisonFamily
    from sojourn.assess.session_comparison import SessionComparison
    from sojourn.corpus import SessionLog, TraceCorpus
    from sojourn.records import OperationalProfile

__all__ = ["command", "first_groups"]

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="A B...", help="Two or more files or folders; or one, with --by to split it."
    ),
]


def command(
    context: typer.Context,
    paths: Paths,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="FIELD", help="Split one source by this field, as in model."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What the others are compared with (default: the first)."
        ),
    ] = None,
    match_ids: Annotated[
        bool,
        typer.Option("--match-ids", help="Equal ids are the same task, whatever the task set."),
    ] = False,
    equivalent: Annotated[
        float,
        typer.Option(
            "--equivalent", help="Differences of the success rate of no matter.", min=0.0001, max=1
        ),
    ] = 0.02,
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    limits: Limits = "censor",
    faults: Faults = "exclude",
    html: Html = None,
    json: Json = None,
    markdown: Markdown = None,
    seed: Seed = 0,
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates.", min=99)] = 999,
    ci: Annotated[float, typer.Option("--ci", help="Probability of intervals.")] = 0.95,
    as_: As = None,
    profile: Profile = None,
    n_max: NMax = 20,
    anonymise: Anonymise = False,
    anonymise_key: AnonymiseKey = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Compare sets of runs, or sessions: better, worse, equivalent, or inconclusive."""
    chosen = policy(limits, faults)
    if not 0 < ci < 1:
        raise typer.BadParameter(f"{ci} does not lie between 0 and 1", param_hint="--ci")
    if not 0 < equivalent < 1:
        raise typer.BadParameter("must lie between 0 and 1", param_hint="--equivalent")
    check_targets(html, json, markdown=markdown, inputs=(*paths, outcomes, profile))
    if (by is None) == (len(paths) == 1):
        raise typer.BadParameter(
            "name two or more sources, or one and the field to split it by (--by model)"
        )

    names = anonymiser(anonymise, anonymise_key)
    kind = stream(paths, wanted=as_, format=format, quiet=quiet, outcomes=outcomes)
    refuse(context, kind)
    if kind == "sessions":
        from sojourn.readers import read_profile

        if by is not None or baseline is not None or len(paths) != 2:
            raise typer.BadParameter(
                "of sessions two sources are compared, without --by and --baseline"
            )
        logs = [
            read_log(
                [path],
                format=format,
                columns=columns,
                scorer=scorer,
                strict=strict,
                quiet=quiet,
                names=names,
            )
            for path in paths
        ]
        found = _sessions(
            paths if names is None else ["set 1", "set 2"],
            logs,
            profile=None if profile is None else read_profile(profile),
            settings={
                "policy": chosen,
                "margin": equivalent,
                "ci_prob": ci,
                "n_max": n_max,
                "rng": seed,
            },
        )
        put_markdown(lambda: as_markdown(found), markdown, quiet=quiet)
        emit(found, html=html, json=json, quiet=quiet, anonymous=names is not None)
        return

    def read(source: str) -> TraceCorpus:
        return read_corpus(
            [source],
            format=format,
            columns=columns,
            scorer=scorer,
            outcomes=outcomes,
            strict=strict,
            quiet=quiet,
            names=names,
        )

    arms = _split(read(paths[0]), by) if by is not None else _apart(paths, read)
    base = next(iter(arms)) if baseline is None else baseline
    if base not in arms:
        raise typer.BadParameter(
            f"no set is called {base!r}; there are {', '.join(arms)}", param_hint="--baseline"
        )
    if names is not None and by is None:
        plain = {name: f"set {number}" for number, name in enumerate(arms, 1)}
        arms, base = {plain[name]: corpus for name, corpus in arms.items()}, plain[base]
    from sojourn.assess import compare_many

    try:
        result = compare_many(
            arms,
            baseline=base,
            policy=chosen,
            by_id=match_ids,
            margin=equivalent,
            ci_prob=ci,
            n_resamples=resamples,
            rng=seed,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    put_markdown(lambda: as_markdown(result), markdown, quiet=quiet)
    emit(result, html=html, json=json, quiet=quiet, anonymous=names is not None)


def as_markdown(found: ComparisonFamily | SessionComparison) -> str:
    """Return a comparison as Markdown."""
    from sojourn.assess.comparison_markdown import markdown

    return markdown(found)


def _sessions(
    paths: list[str],
    logs: list[SessionLog],
    *,
    profile: OperationalProfile | None,
    settings: dict[str, Any],
) -> SessionComparison:
    """Compare two logs of sessions."""
    from sojourn.assess import compare_sessions

    for path, log in zip(paths, logs, strict=True):
        groups = log.groups()
        if len(groups) > 1:
            raise typer.BadParameter(
                f"{path} holds sessions of {len(groups)} agents or models "
                f"({first_groups(groups)}): compare one with one"
            )
    names = _names(paths)
    return compare_sessions(logs[0], logs[1], profile, names=(names[0], names[1]), **settings)


def first_groups(groups: Sequence[tuple[object, object]]) -> str:
    """Name the first two of several groups, and that there are more."""
    more = "; .." if len(groups) > 2 else ""
    return f"{groups[0][0]}; {groups[1][0]}{more}"


def _split(corpus: TraceCorpus, by: str) -> dict[str, TraceCorpus]:
    from sojourn.corpus.traces import GROUP_FIELDS

    if by not in GROUP_FIELDS:
        raise typer.BadParameter(f"{by!r} is none of {', '.join(GROUP_FIELDS)}", param_hint="--by")
    arms = {str(group): corpus.select(runs) for group, runs in corpus.groups((by,))}
    if len(arms) < 2:
        raise typer.BadParameter(
            f"all runs have the same {by}: {', '.join(arms)}", param_hint="--by"
        )
    return _whole(arms, tuple(name for name in ("agent", "model") if name != by))


def _names(paths: list[str]) -> list[str]:
    """Return short names of sources that stay apart."""
    short = [Path(path).name or path for path in paths]
    twice = {name for name, count in Counter(short).items() if count > 1}
    names = [path if name in twice else name for path, name in zip(paths, short, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({place})" for place, name in enumerate(names, 1)]
    return names


def _apart(paths: list[str], read: Callable[[str], TraceCorpus]) -> dict[str, TraceCorpus]:
    arms = {name: read(path) for name, path in zip(_names(paths), paths, strict=True)}
    return _whole(arms, ("agent", "model"))


def _whole(arms: dict[str, TraceCorpus], fields: tuple[str, ...]) -> dict[str, TraceCorpus]:
    """Refuse a set that mixes agents or models: its runs are no repeats of each other."""
    for name, corpus in arms.items():
        groups = corpus.groups(fields)
        if len(groups) > 1:
            raise typer.BadParameter(
                f"{name} holds runs of {len(groups)} agents or models "
                f"({first_groups(groups)}); compare them with --by model or --by agent, or split it"
            )
    return arms
