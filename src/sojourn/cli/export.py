"""``sojourn export``: a model for model checkers (PRISM, Storm) or as a drawing (DOT, Mermaid)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli._models import ModelPath, load, put_text
from sojourn.cli._options import Quiet
from sojourn.cli._targets import spare_inputs

__all__ = ["command"]


def command(
    model: ModelPath,
    to: Annotated[
        str,
        typer.Option("--to", metavar="FORMAT", help="prism, tra, lab, drn, dot or mermaid."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it; tra writes a .lab beside."
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps",
            metavar="STEPS",
            help="Of a drawing of a process that looks at the step: 5, or 5-10 for their mean.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a fitted process in the language of another tool."""
    from sojourn.process.export import EXPORTS, export_process

    if to not in EXPORTS:
        raise typer.BadParameter(f"{to!r} is none of {', '.join(EXPORTS)}", param_hint="--to")
    between = None if steps is None else _steps(steps)
    if output is not None and not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.parent}", param_hint="--output")
    if output is not None and output.is_dir():
        raise typer.BadParameter(f"{output} is a folder", param_hint="--output")
    beside = None
    if output is not None and to == "tra":
        beside = output.with_suffix(".lab")
        if beside == output:
            raise typer.BadParameter(
                "its labels go into a .lab file beside it, so it needs another suffix",
                param_hint="--output",
            )
    spare_inputs((("--output", output), ("--output", beside)), (model,))
    fitted = load(model)
    if between is not None and between[1] > fitted.horizon:
        raise typer.BadParameter(
            f"no run that was fitted has a step {between[1]}; the longest has {fitted.horizon}",
            param_hint="--steps",
        )
    try:
        text = export_process(fitted.process, to, steps=between)
        labels = None if beside is None else export_process(fitted.process, "lab")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if output is None:
        typer.echo(text, nl=False)
        return
    put_text(text, output, quiet=quiet)
    if beside is not None and labels is not None:
        put_text(labels, beside, quiet=quiet)


def _steps(text: str) -> tuple[int, int]:
    """Read ``5`` or ``5-10``."""
    first, mark, last = text.partition("-")
    if not first.isdecimal() or (mark and not last.isdecimal()) or len(text) > 20:
        raise typer.BadParameter(f"{text!r} is not a step, nor two as 5-10", param_hint="--steps")
    return int(first), int(last) if mark else int(first)
