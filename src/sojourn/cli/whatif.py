"""``sojourn whatif``: a model's figures with a step mended, a tool removed, or a longer cap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli._models import Json, ModelPath, check_json, load, put_json
from sojourn.cli._options import Quiet

if TYPE_CHECKING:
    from sojourn.assess.model_file import FittedModel
    from sojourn.process.changes import Change
    from sojourn.process.whatif import FixRow, WhatIf

__all__ = ["command"]


def command(
    model: ModelPath,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            "--fix",
            metavar="STATE=SHARE[:TO]",
            help="A share of the failures in a state become successes, or go to TO: a state, "
            "success, or continue (what else follows the state).",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            metavar="STATE[=TO]",
            help="No run gets to a state; its runs go to TO, or to what else follows.",
        ),
    ] = None,
    cap: Annotated[
        int | None, typer.Option(help="Steps that runs may take.", metavar="STEPS", min=1)
    ] = None,
    top: Annotated[
        bool, typer.Option("--top", help="Rank the states by what mending them is worth.")
    ] = False,
    json: Json = None,
    ci: Annotated[float, typer.Option("--ci", help="Probability of intervals.")] = 0.95,
    quiet: Quiet = False,
) -> None:
    """Evaluate a fitted process again with parts of it changed: structural, not causal."""
    if not 0 < ci < 1:
        raise typer.BadParameter(f"{ci} does not lie between 0 and 1", param_hint="--ci")
    if not (fix or remove or cap or top):
        raise typer.BadParameter("say what to change: --fix, --remove or --cap; or --top")
    check_json(json, (model,))
    fitted = load(model)
    from sojourn.process.whatif import most_valuable_fixes, what_if

    changes = _changes(fitted, fix or [], remove or [], cap)
    settings: dict[str, Any] = {
        "horizon": fitted.horizon,
        "draws": fitted.draws,
        "n_units": fitted.n_units,
        "ci_prob": ci,
    }
    try:
        result = what_if(fitted.process, changes, **settings) if changes else None
        rows = most_valuable_fixes(fitted.process, **settings) if top else ()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if result is not None:
        result = _effects_limited(fitted, result)
    rows = tuple(_fix_limited(fitted, row) for row in rows)
    document = {
        "kind": "whatif",
        "process": fitted.process.name,
        "horizon": fitted.horizon,
        "claims": fitted.certificate,
        "caution": fitted.caution("order") or fitted.caution("timing"),
        "whatif": None if result is None else result.to_dict(),
        "fixes": [row.to_dict() for row in rows] if top else None,
    }
    if put_json(document, json, quiet=quiet):
        return
    lines = [str(fitted)]
    lines += filter(None, (fitted.caution("timing"), fitted.caution("order")))
    if result is not None:
        lines.append(str(result))
    if top:
        lines += _table(rows, fitted.horizon)
    typer.echo("\n".join(lines))


def _effects_limited(fitted: FittedModel, result: WhatIf) -> WhatIf:
    """Mark what a change would come to as far as the claim on memory bears it."""
    figures = {}
    for name in ("success_within", "success_ever", "mean_steps"):
        effect = getattr(result, name)
        figures[name] = replace(
            effect,
            before=fitted.resting_on("timing", effect.before),
            difference=fitted.resting_on("order", effect.difference),
            after=fitted.resting_on("order", effect.after),
        )
    return replace(result, **figures)


def _fix_limited(fitted: FittedModel, row: FixRow) -> FixRow:
    """Mark the same of a fix; that runs fail in a state is counted and needs no claim."""
    return replace(
        row,
        gain_if_continued=fitted.resting_on("order", row.gain_if_continued),
        gain_ever=fitted.resting_on("order", row.gain_ever),
    )


def _table(rows: tuple[FixRow, ...], horizon: int) -> list[str]:
    from sojourn.process.whatif import STRUCTURAL
    from sojourn.tables import indent, n_of, text_table

    header = ("failures in", "if they succeeded", "if they went on")
    cells = [(row.state, str(row.gain), str(row.gain_if_continued)) for row in rows]
    title = f"Increase of P(success within {n_of(horizon, 'step')}) if no run failed there"
    return [title, *indent(text_table(header, cells)), f"  {STRUCTURAL}"]


def _changes(
    fitted: FittedModel, fix: list[str], remove: list[str], cap: int | None
) -> list[Change]:
    from sojourn.process.changes import Cap, Remove, Reroute

    names = tuple(fitted.states.state_names)
    changes: list[Change] = []
    for item in fix:
        state, value = _split(item, names, "--fix", "STATE=SHARE[:TO]")
        share, _, to = value.partition(":")
        try:
            changes.append(Reroute(state, float(share), to or "success"))
        except ValueError:
            raise typer.BadParameter(
                f"{share!r} is no share from 0 to 1", param_hint="--fix"
            ) from None
    for item in remove:
        if item in names:
            changes.append(Remove(item))
        else:
            changes.append(Remove(*_split(item, names, "--remove", "STATE[=TO]")))
    if cap is not None:
        changes.append(Cap(cap))
    return changes


def _split(item: str, names: tuple[str, ...], option: str, form: str) -> tuple[str, str]:
    """Split at the sign that follows the name of a state, which may hold such signs itself."""
    from sojourn.tables import clean

    for name in sorted(names, key=len, reverse=True):
        if item.startswith(f"{name}="):
            return name, item[len(name) + 1 :]
    if "=" not in item and option == "--fix":
        raise typer.BadParameter(f"{clean(item)!r} is not {form}", param_hint=option)
    known = ", ".join(repr(clean(name)) for name in names)
    raise typer.BadParameter(f"no state is called so; there are {known}", param_hint=option)
