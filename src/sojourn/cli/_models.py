"""What the commands on a model file share: its argument, how it is read, where results go."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sojourn
from sojourn.cli._targets import spare_inputs

if TYPE_CHECKING:
    from sojourn.assess.model_file import FittedModel

__all__ = ["Json", "ModelPath", "check_json", "load", "put_json", "put_text"]

ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that sojourn fit wrote.", show_default=False)
]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the figures; - for stdout.")
]


def load(path: Path) -> FittedModel:
    """Read a model file."""
    from sojourn.assess.model_file import read_model

    return read_model(path)


def check_json(target: str | None, inputs: Iterable[str | Path | None]) -> None:
    """Refuse, before any work is done, what could not be written after it, or over `inputs`."""
    spare_inputs((("--json", target),), inputs)
    if target is None or target == "-":
        return
    if not Path(target).parent.is_dir():
        raise typer.BadParameter(f"there is no folder {Path(target).parent}", param_hint="--json")
    if Path(target).is_dir():
        raise typer.BadParameter(f"{target} is a folder", param_hint="--json")


def put_json(document: dict[str, Any], target: str | None, *, quiet: bool) -> bool:
    """Write a document where it was asked for; tell whether standard output is taken."""
    if target is None:
        return False
    from sojourn.assess.exported import SCHEMA_VERSION

    versions = {"schema_version": SCHEMA_VERSION, "sojourn_version": sojourn.__version__}
    text = json.dumps(versions | document, indent=2, allow_nan=False, ensure_ascii=True) + "\n"
    if target == "-":
        typer.echo(text, nl=False)
        return True
    put_text(text, Path(target), quiet=quiet)
    return False


def put_text(text: str, path: Path, *, quiet: bool) -> None:
    """Write a file, all or nothing, and say so."""
    from sojourn._files import write_text

    write_text(path, text)
    if not quiet:
        typer.echo(f"wrote {path}", err=True)
