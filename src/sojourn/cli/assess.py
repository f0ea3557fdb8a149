"""``sojourn assess``: the main job, from logs to figures."""

from __future__ import annotations

import os
import sys
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
    Paths,
    Quiet,
    Scorer,
    Strict,
    anonymiser,
    hidden_command,
    policy,
    read_corpus,
)
from sojourn.cli._sessions import (
    As,
    Bootstrap,
    Dwell,
    Envelope,
    MaxStates,
    NMax,
    Profile,
    Published,
    Uniform,
    assess_log,
    note_sessions,
    read_log,
    refuse,
    stream,
)
from sojourn.cli._states import Encoder, Features, NStates, States, state_settings
from sojourn.cli._stdin import as_files
from sojourn.cli._targets import spare_inputs

if TYPE_CHECKING:
    from sojourn.assess import (
        ComparisonFamily,
        GroupedAssessment,
        GroupedSessionAssessment,
        SessionComparison,
    )
    from sojourn.assess.chain import ChainSettings

__all__ = ["check_targets", "command", "emit", "for_pipelines", "grouping"]

Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the page, one file.")
]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the figures; - for stdout.")
]
Markdown = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write a summary in Markdown.")
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML, a case a claim.")
]
Limits = Annotated[
    str, typer.Option(help="Runs cut by a limit, in curves: censor or failure.", metavar="HOW")
]
Faults = Annotated[
    str, typer.Option(help="Faults and unscored runs: exclude or failure.", metavar="HOW")
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", metavar="FIELD", help="Group runs by this field (default task_set, agent, model)."
    ),
]
Method = Annotated[
    str, typer.Option(help="Certificate of the chain: exact or published.", metavar="HOW")
]
Margin = Annotated[
    float, typer.Option(help="Error of a curve that is of no matter.", min=0.001, max=0.999)
]
Process = Annotated[
    str | None,
    typer.Option(
        "--process",
        metavar="NAME",
        help="Certify this process (homogeneous, progress, order-2, semi-markov, phases-4, "
        "mixture-2) instead of choosing one.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.", min=0)]
Resamples = Annotated[int, typer.Option(help="Bootstrap replicates.", min=99, max=1_000_000)]


def command(
    context: typer.Context,
    paths: Paths,
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    limits: Limits = "censor",
    faults: Faults = "exclude",
    by: By = None,
    pool: Annotated[bool, typer.Option("--pool", help="Assess all runs as one group.")] = False,
    html: Html = None,
    json: Json = None,
    markdown: Markdown = None,
    junit: Junit = None,
    seed: Seed = 0,
    resamples: Resamples = 1999,
    ci: Annotated[float, typer.Option("--ci", help="Probability of intervals.")] = 0.95,
    states: States = None,
    features: Features = None,
    n_states: NStates = None,
    encoder: Encoder = None,
    method: Method = "exact",
    margin: Margin = 0.10,
    draws: Annotated[int, typer.Option(help="Draws of the exact test.", min=99)] = 999,
    power: Annotated[
        bool, typer.Option("--power", help="Find what the test could have seen (minutes).")
    ] = False,
    chain: Annotated[
        bool, typer.Option("--chain/--no-chain", help="Fit and certify a chain of the steps.")
    ] = True,
    process: Process = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fit the homogeneous chain alone.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="Repeat the choice in every simulated corpus (minutes)."),
    ] = False,
    as_: As = None,
    profile: Profile = None,
    n_max: NMax = 20,
    uniform: Uniform = False,
    max_states: MaxStates = 4,
    dwell: Dwell = 10.0,
    envelope: Envelope = False,
    bootstrap: Bootstrap = 0,
    published: Published = False,
    require_certificate: Annotated[
        bool,
        typer.Option(
            "--require-certificate",
            help="Exit with 5 if a claim on the process is rejected, 6 if one is inconclusive.",
        ),
    ] = False,
    anonymise: Anonymise = False,
    anonymise_key: AnonymiseKey = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show formats, groups, columns and policy; stop.")
    ] = False,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Assess runs, or the tasks of sessions in their order, and say what may be believed."""
    chosen = policy(limits, faults)
    if not 0 < ci < 1:
        raise typer.BadParameter(f"{ci} does not lie between 0 and 1", param_hint="--ci")
    inputs = (*paths, outcomes, profile, states)
    check_targets(html, json, markdown=markdown, junit=junit, inputs=inputs)
    if dry_run:
        from sojourn.cli._dry_run import show

        show(
            paths,
            format=format,
            columns=columns,
            scorer=scorer,
            outcomes=outcomes,
            policy=chosen,
            as_=as_,
        )
        return
    if quick and process is not None:
        raise typer.BadParameter("--quick and --process exclude each other")
    settings = None
    if chain:
        settings = _chain_settings(
            states=state_settings(states, features, n_states, encoder),
            method=method,
            margin=margin,
            n_draws=draws,
            power=power,
            process=process,
            quick=quick,
            full=full,
        )
    if require_certificate and settings is None:
        raise typer.BadParameter("--require-certificate needs the chain; leave out --no-chain")
    names = anonymiser(anonymise, anonymise_key)
    with as_files(paths) as files:
        kind = stream(files, wanted=as_, format=format, quiet=quiet, outcomes=outcomes)
        refuse(context, kind)
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
            found = assess_log(
                log,
                profile=profile,
                by=by,
                pool=pool,
                policy=chosen,
                ci=ci,
                n_max=n_max,
                seed=seed,
                quiet=quiet,
                uniform=uniform,
                max_states=max_states,
                dwell=dwell,
                envelope=envelope,
                bootstrap=bootstrap,
                published=published,
            )
            for_pipelines(found, markdown=markdown, junit=junit, quiet=quiet)
            emit(found, html=html, json=json, quiet=quiet, anonymous=names is not None)
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
    note_sessions(corpus, wanted=as_, quiet=quiet)
    from sojourn.assess import assess_groups
    from sojourn.cli._progress import Progress

    with Progress(quiet=quiet) as progress:
        result = assess_groups(
            corpus,
            by=grouping(by, pool=pool),
            policy=chosen,
            ci_prob=ci,
            n_resamples=resamples,
            chain=settings,
            rng=seed,
            progress=lambda group: progress.say(f"assessing {group}"),
        )
    for_pipelines(result, markdown=markdown, junit=junit, quiet=quiet)
    emit(result, html=html, json=json, quiet=quiet, anonymous=names is not None)
    if require_certificate:
        _require_certificate(result)


def _chain_settings(**given: Any) -> ChainSettings:
    from sojourn.assess.chain import ChainSettings

    try:
        return ChainSettings(**given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _require_certificate(result: GroupedAssessment) -> None:
    """Leave with the exit code of the worst claim on a process."""
    from sojourn.estimates import Verdict

    verdicts = {
        claim.verdict
        for group in result
        for claim in (() if group.chain is None else group.chain.claims)
    }
    if any(group.chain is None for group in result):
        verdicts.add(Verdict.INCONCLUSIVE)
    if Verdict.REJECTED in verdicts:
        raise typer.Exit(5)
    if Verdict.INCONCLUSIVE in verdicts:
        raise typer.Exit(6)


def grouping(by: list[str] | None, *, pool: bool) -> tuple[str, ...]:
    """Return the fields that name a group; typer.BadParameter if one is unknown."""
    from sojourn.corpus.traces import DEFAULT_GROUPING, GROUP_FIELDS

    if pool and by:
        raise typer.BadParameter("--pool and --by exclude each other")
    if pool:
        return ()
    if not by:
        return DEFAULT_GROUPING
    fields = tuple(name for item in by for name in item.split(","))
    unknown = [name for name in fields if name not in GROUP_FIELDS]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is none of {', '.join(GROUP_FIELDS)}", param_hint="--by"
        )
    return fields


def check_targets(
    html: Path | None,
    json: str | None,
    *,
    markdown: Path | None = None,
    junit: Path | None = None,
    inputs: Sequence[str | Path | None] = (),
) -> None:
    """Refuse, before any work is done, what could not be written after it, or over `inputs`."""
    targets = (
        ("--html", html),
        ("--json", json),
        ("--markdown", markdown),
        ("--junit", junit),
    )
    spare_inputs(targets, inputs)
    for name, target in targets:
        if target is None or (str(target) == "-" and name == "--json"):
            continue
        if str(target) == "-":
            raise typer.BadParameter("name a file; only --json writes to -", param_hint=name)
        folder = Path(target).parent
        if not folder.is_dir():
            raise typer.BadParameter(f"there is no folder {folder}", param_hint=name)
        if Path(target).is_dir():
            raise typer.BadParameter(f"{target} is a folder", param_hint=name)


def for_pipelines(
    result: GroupedAssessment | GroupedSessionAssessment,
    *,
    markdown: Path | None,
    junit: Path | None,
    quiet: bool,
) -> None:
    """Write the files that pipelines read, and add to the summary of a build where there is one."""
    from sojourn._files import write_text
    from sojourn.assess import assess_text

    if junit is not None:
        write_text(junit, assess_text.junit(result))
        if not quiet:
            typer.echo(f"wrote {junit}", err=True)
    put_markdown(lambda: assess_text.markdown(result), markdown, quiet=quiet)


def put_markdown(text: Callable[[], str], path: Path | None, *, quiet: bool) -> None:
    """Write Markdown where it was asked for, and add it to the summary of a build."""
    from sojourn._files import append_text, write_text

    if path is not None:
        write_text(path, text())
        if not quiet:
            typer.echo(f"wrote {path}", err=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_text(summary, text())


def emit(
    result: GroupedAssessment | GroupedSessionAssessment | ComparisonFamily | SessionComparison,
    *,
    html: Path | None,
    json: str | None,
    quiet: bool,
    anonymous: bool = False,
) -> None:
    """Write a result where it was asked for: text or JSON on stdout, files elsewhere."""
    from sojourn.report import json_text, write_json, write_report

    if html is not None:
        words = hidden_command(sys.argv[1:]) if anonymous else sys.argv[1:]
        write_report(result, html, command=["sojourn", *words])
    if json == "-":
        typer.echo(json_text(result), nl=False)
    else:
        if json is not None:
            write_json(result, json)
        typer.echo(str(result))
    if not quiet:
        for path in (html, None if json == "-" else json):
            if path is not None:
                typer.echo(f"wrote {path}", err=True)
