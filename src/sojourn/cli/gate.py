"""``sojourn gate``: rules on figures, answered pass, fail or inconclusive, for pipelines."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from sojourn.cli._sessions import As, Profile, assess_log, read_log, stream
from sojourn.cli._stdin import as_files
from sojourn.cli.assess import By, Faults, Json, Limits, Seed, check_targets, grouping

if TYPE_CHECKING:
    from sojourn.assess import Gate
    from sojourn.assess.rules import Rule
    from sojourn.corpus import Policy, TraceCorpus

__all__ = ["Words", "command", "sort_words"]

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH... RULE...",
        help="Logs, and rules such as 'pass^4 >= 0.5' or 'success_within(20) >= 70%'.",
    ),
]
Rules = Annotated[
    list[str] | None, typer.Option("--rule", metavar="RULE", help="A rule; may be repeated.")
]
_MAPPINGS = ("error", "pass", "fail")
# A sign, or what people write for one: a figure's name, perhaps its argument, and then the sign.
_RULE_LIKE = re.compile(
    r"[<>\u2264\u2265]|^\s*[a-z_]+(?:[\^@]\d*|\(\d*\))?\s*=+>?\s*[\d.]|^\s*[a-z_]+[\^@]\d+\s*$"
)


def command(
    words: Words,
    rule: Rules = None,
    per_task: Annotated[
        float | None,
        typer.Option(
            "--per-task", help="Least observed share of successes of every task.", min=0, max=1
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="PATH", help="Runs that these must not be worse than."),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(help="Loss against the baseline that is of no matter.", min=0, max=1),
    ] = 0.02,
    confidence: Annotated[
        float, typer.Option(help="One-sided confidence of each answer.", min=0.51, max=0.9999)
    ] = 0.95,
    estimand: Annotated[
        str, typer.Option(metavar="WHICH", help="Rates of same_tasks or of a population of tasks.")
    ] = "same_tasks",
    inconclusive: Annotated[
        str,
        typer.Option(metavar="AS", help="What inconclusive counts as: error (exit 6), pass, fail."),
    ] = "error",
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    limits: Limits = "censor",
    faults: Faults = "exclude",
    by: By = None,
    pool: Annotated[bool, typer.Option("--pool", help="Take all runs as one group.")] = False,
    as_: As = None,
    profile: Profile = None,
    json: Json = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write Markdown.")
    ] = None,
    seed: Seed = 0,
    resamples: Annotated[int, typer.Option(help="Bootstrap replicates.", min=99)] = 1999,
    anonymise: Anonymise = False,
    anonymise_key: AnonymiseKey = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Answer rules on the bound of an interval: exit 0 pass, 1 fail, 6 inconclusive."""
    from sojourn.assess.rules import GateAnswer

    for name, value, known in (
        ("--estimand", estimand, ("same_tasks", "population")),
        ("--inconclusive", inconclusive, _MAPPINGS),
    ):
        if value not in known:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(known)}", param_hint=name)
    chosen = policy(limits, faults)
    paths, rules = sort_words(words, rule or [])
    inputs = (*paths, outcomes, profile, baseline)
    check_targets(None, json, markdown=markdown, junit=junit, inputs=inputs)
    if not rules and baseline is None and per_task is None:
        raise typer.BadParameter("name a rule, such as 'success_rate >= 0.8', or --baseline PATH")

    names = anonymiser(anonymise, anonymise_key)

    def read(sources: list[str]) -> TraceCorpus:
        return read_corpus(
            sources,
            format=format,
            columns=columns,
            scorer=scorer,
            outcomes=outcomes,
            strict=strict,
            quiet=quiet,
            names=names,
        )

    with as_files(paths) as files:
        if stream(files, wanted=as_, format=format, quiet=quiet, outcomes=outcomes) == "sessions":
            if baseline is not None or per_task is not None:
                raise typer.BadParameter("--baseline and --per-task are for runs")
            from sojourn.assess.gate import apply_session_rules, two_sided

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
                ci=two_sided(confidence),
                n_max=max([20, *(r.argument or 0 for r in rules if r.name == "success_run")]),
                seed=seed,
                quiet=quiet,
            )
            gate = apply_session_rules(found, rules, confidence=confidence)
        else:
            corpus = read(files)
            gate = _of_runs(
                corpus,
                rules,
                reference=None if baseline is None else read([baseline]),
                name=baseline or "" if names is None else "the baseline",
                tolerance=tolerance,
                policy=chosen,
                settings={
                    "by": grouping(by, pool=pool),
                    "confidence": confidence,
                    "estimand": estimand,
                    "minimum": per_task,
                    "n_resamples": resamples,
                    "rng": seed,
                },
            )
    _write(gate, json=json, junit=junit, markdown=markdown, inconclusive=inconclusive, quiet=quiet)
    answer = gate.answer
    if answer is GateAnswer.INCONCLUSIVE and inconclusive != "error":
        answer = GateAnswer(inconclusive)
    raise typer.Exit({GateAnswer.PASS: 0, GateAnswer.FAIL: 1, GateAnswer.INCONCLUSIVE: 6}[answer])


def sort_words(words: list[str], rules: list[str]) -> tuple[list[str], list[Rule]]:
    """Return the sources and the rules among the words; what exists as a file is a source."""
    from sojourn.assess.rules import Rule
    from sojourn.errors import RuleError

    paths = [word for word in words if not _RULE_LIKE.search(word) or Path(word).exists()]
    if not paths:
        raise typer.BadParameter("name the logs that the rules are about")
    try:
        return paths, [Rule.parse(text) for text in (*rules, *words) if text not in paths]
    except RuleError as error:
        raise typer.BadParameter(str(error), param_hint="RULE") from None


def _of_runs(
    corpus: TraceCorpus,
    rules: list[Rule],
    *,
    reference: TraceCorpus | None,
    name: str,
    tolerance: float,
    policy: Policy,
    settings: dict[str, object],
) -> Gate:
    from sojourn.assess.gate import Gate, RuleResult, apply_rules, not_worse, two_sided

    confidence = float(str(settings["confidence"]))
    results: list[RuleResult] = []
    notes: tuple[str, ...] = ()
    if rules or settings["minimum"] is not None:
        gate = apply_rules(corpus, rules, policy=policy, **settings)  # type: ignore[arg-type]
        results += gate.results
        notes = gate.notes
    if reference is not None:
        from sojourn.assess import compare_traces

        comparison = compare_traces(
            reference,
            corpus,
            names=(Path(name).name or name, "these runs"),
            policy=policy,
            ci_prob=two_sided(confidence),
            rng=settings["rng"],  # type: ignore[arg-type]
        )
        results.append(not_worse(comparison, tolerance=tolerance))
    return Gate(results=tuple(results), confidence=confidence, notes=notes, seed=None)


def _write(
    gate: Gate,
    *,
    json: str | None,
    junit: Path | None,
    markdown: Path | None,
    inconclusive: str,
    quiet: bool,
) -> None:
    from sojourn._files import append_text, write_text
    from sojourn.assess import gate_text
    from sojourn.report import json_text, write_json

    # Files first: whoever reads standard output may close it early.
    if json is not None and json != "-":
        write_json(gate, json)
    if junit is not None:
        write_text(junit, gate_text.junit(gate, inconclusive=inconclusive))
    if markdown is not None:
        write_text(markdown, gate_text.markdown(gate))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        append_text(summary, gate_text.markdown(gate))
    if json == "-":
        typer.echo(json_text(gate), nl=False)
    else:
        typer.echo(str(gate))
    if os.environ.get("GITHUB_ACTIONS") == "true" and not quiet:
        for line in gate_text.workflow_commands(gate):
            typer.echo(line, err=True)
