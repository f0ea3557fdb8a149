"""``sojourn fit``: a model of one group of runs, kept in a file for forecasts and what-ifs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli._options import (
    Columns,
    Format,
    Outcomes,
    Paths,
    Quiet,
    Scorer,
    Strict,
    policy,
    read_corpus,
)
from sojourn.cli._states import Encoder, Features, NStates, States, state_settings
from sojourn.cli._targets import spare_inputs
from sojourn.cli.assess import By, Faults, Limits, Seed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sojourn.corpus import Policy, TraceCorpus
    from sojourn.corpus.traces import Group

__all__ = ["command"]

_MAX_LISTED = 5
_LONGEST_NOTE = 400


def command(
    paths: Paths,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
    ],
    process: Annotated[
        str,
        typer.Option(
            "--process",
            metavar="NAME",
            help="auto: the one that sojourn assess finds; else homogeneous, progress, order-K, "
            "semi-markov, phases-N or mixture-N.",
        ),
    ] = "auto",
    format: Format = None,
    columns: Columns = None,
    scorer: Scorer = None,
    outcomes: Outcomes = None,
    limits: Limits = "censor",
    faults: Faults = "exclude",
    by: By = None,
    pool: Annotated[bool, typer.Option("--pool", help="Fit all runs as one group.")] = False,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="FIELD=VALUE", help="Of several groups, which to fit."),
    ] = None,
    states: States = None,
    features: Features = None,
    n_states: NStates = None,
    encoder: Encoder = None,
    draws: Annotated[
        int, typer.Option(help="Refits to resampled tasks, for intervals.", min=19, max=9999)
    ] = 199,
    certificate: Annotated[
        bool,
        typer.Option(
            "--certificate/--no-certificate",
            help="Certify the process, or choose it by its score alone.",
        ),
    ] = True,
    seed: Seed = 0,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Fit a process to one group of runs and keep it in a file."""
    chosen = policy(limits, faults)
    _check_process(process)
    spare_inputs((("--output", output),), (*paths, outcomes, states))
    if not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder", param_hint="--output")
    how = state_settings(states, features, n_states, encoder)
    corpus = read_corpus(
        paths,
        format=format,
        columns=columns,
        scorer=scorer,
        outcomes=outcomes,
        strict=strict,
        quiet=quiet,
    )
    group, part = _one_group(corpus, by, where, chosen, pool=pool)
    from sojourn.assess.model import fit_model
    from sojourn.assess.model_file import write_model
    from sojourn.cli._progress import Progress

    with Progress(quiet=quiet) as progress:
        progress.say(f"fitting {group}")
        model = fit_model(
            part,
            process=process,
            policy=chosen,
            states=how,
            n_draws=draws,
            certificate=certificate,
            group=group.to_dict(),
            rng=seed,
        )
    write_model(model, output)
    from sojourn.tables import clean, indent, wrapped

    notes = wrapped(clean(note, limit=_LONGEST_NOTE) for note in model.trained_on["notes"])
    typer.echo("\n".join([str(model), *indent(notes)]))
    if not quiet:
        typer.echo(f"wrote {output}", err=True)


def _check_process(name: str) -> None:
    from sojourn.process.candidates import check_candidate

    try:
        if name != "auto":
            check_candidate(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--process") from None


def _one_group(
    corpus: TraceCorpus,
    by: list[str] | None,
    where: list[str] | None,
    counting: Policy,
    *,
    pool: bool,
) -> tuple[Group, TraceCorpus]:
    """Return the one group of runs that was asked for.

    Raises
    ------
    typer.BadParameter
        If several groups are there, or none as ``--where`` asks for.
    """
    from sojourn.cli.assess import grouping
    from sojourn.errors import NothingUsableError

    groups = corpus.groups(grouping(by, pool=pool))
    wanted = [_pair(item) for item in where or ()]
    found = [
        (group, runs)
        for group, runs in groups
        if all(dict(group.labels).get(name) == value for name, value in wanted)
    ]
    if not groups:
        raise NothingUsableError("there is no run to fit")
    if not found:
        raise typer.BadParameter(
            f"no group is so; there are {_listed(groups)}", param_hint="--where"
        )
    if len(found) > 1:
        # Runs without a verdict or steps make groups of their own, which nobody can mean.
        found = [pair for pair in found if _has_steps(corpus, pair[1], counting)] or found
    if len(found) == 1:
        group, runs = found[0]
        return group, corpus.select(runs)
    raise typer.BadParameter(
        f"a model is of one group of runs, and there are {len(found)}: {_listed(found)}. "
        f"Choose one, as with {_hint([group for group, _ in found])}, group otherwise with --by, "
        "or fit them all as one with --pool"
    )


def _has_steps(corpus: TraceCorpus, runs: npt.NDArray[np.intp], counting: Policy) -> bool:
    """Tell whether a group has a run that counts and whose steps are logged."""
    from sojourn.corpus import resolve

    part = corpus.select(runs)
    return bool((part.offsets[1:] > part.offsets[:-1])[resolve(part, counting).index].any())


def _listed(groups: Sequence[tuple[Group, npt.NDArray[np.intp]]]) -> str:
    from sojourn.tables import clean

    names = "; ".join(clean(group) for group, _ in groups[:_MAX_LISTED])
    return names + ("; ..." if len(groups) > _MAX_LISTED else "")


def _hint(groups: Sequence[Group]) -> str:
    """Spell the options that choose the first of some groups."""
    from sojourn.tables import clean

    labels = [dict(group.labels) for group in groups]
    telling = [name for name in labels[0] if len({str(row[name]) for row in labels}) > 1]
    # One field is enough where no other group shares its value.
    alone = [name for name in telling if all(row[name] != labels[0][name] for row in labels[1:])]
    chosen = alone[:1] or telling
    return " ".join(
        f"--where {shlex.quote(f'{name}={clean(str(labels[0][name]))}')}" for name in chosen
    )


def _pair(item: str) -> tuple[str, str]:
    name, separator, value = item.partition("=")
    if not (name and separator):
        raise typer.BadParameter(f"{item!r} is not FIELD=VALUE", param_hint="--where")
    return name, value
