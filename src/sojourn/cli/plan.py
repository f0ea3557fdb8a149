"""``sojourn plan``: how many tasks or attempts a rule, a width or a difference needs."""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.cli._options import Columns, Format, Outcomes, Quiet, Scorer, policy, read_corpus
from sojourn.cli.assess import Faults, Json, Limits, Seed, check_targets
from sojourn.cli.compare import first_groups
from sojourn.cli.gate import Words, sort_words

__all__ = ["command"]


def command(
    words: Words,
    width: Annotated[
        float | None,
        typer.Option(help="Plan for an interval not wider than this.", min=0.001, max=1),
    ] = None,
    gain: Annotated[
        float | None,
        typer.Option(help="Plan for seeing this difference at shared tasks.", min=-1, max=1),
    ] = None,
    power: Annotated[
        float, typer.Option(help="Share of cases in which it should be given.", min=0.05, max=0.999)
    ] = 0.80,
    attempts: Annotated[
        list[int] | None, typer.Option(help="Attempts a task to try; may be repeated.", min=1)
    ] = None,
    tasks: Annotated[
        list[int] | None, typer.Option(help="Numbers of tasks to try; may be repeated.", min=2)
    ] = None,
    looks: Annotated[
        int, typer.Option(help="Looks at growing data that share the error.", min=1, max=50)
    ] = 1,
    confidence: Annotated[
        float, typer.Option(help="One-sided confidence of all looks.", min=0.51, max=0.9999)
    ] = 0.95,
    draws: Annotated[int, typer.Option(help="Simulated data sets a design.", min=100)] = 1000,
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    limits: Limits = "censor",
    faults: Faults = "exclude",
    json: Json = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Find how many tasks, and attempts at each, it takes to answer a rule."""
    from sojourn.assess.plan import fit_task_law, make_plan
    from sojourn.cli._progress import Progress

    chosen = policy(limits, faults)
    paths, rules = sort_words(words, [])
    check_targets(None, json, inputs=(*paths, outcomes))
    if len(rules) > 1:
        raise typer.BadParameter("plan for one rule at a time", param_hint="RULE")
    if width is None and gain is None and not rules:
        raise typer.BadParameter("name a rule such as 'pass^4 >= 0.5', --width or --gain")
    if gain is not None and (width is not None or rules):
        raise typer.BadParameter("--gain goes alone")
    rule = rules[0] if rules else None
    corpus = read_corpus(
        paths,
        format=format,
        columns=columns,
        scorer=scorer,
        outcomes=outcomes,
        strict=False,
        quiet=quiet,
    )
    groups = corpus.groups()
    if len(groups) > 1:
        raise typer.BadParameter(
            f"these are {len(groups)} groups ({first_groups(groups)}): plan for one"
        )
    law = fit_task_law(corpus, rule, policy=chosen)
    with Progress(quiet=quiet) as progress:
        progress.say("simulating designs")
        found = make_plan(
            law,
            rule=rule,
            width=width,
            gain=gain,
            target=power,
            confidence=confidence,
            n_looks=looks,
            n_draws=draws,
            rng=seed,
            **({} if attempts is None else {"attempts": attempts}),
            **({} if tasks is None else {"tasks": tasks}),
        )
    from sojourn.report import json_text, write_json

    if json == "-":
        typer.echo(json_text(found), nl=False)
        return
    if json is not None:
        write_json(found, json)
    typer.echo(str(found))
