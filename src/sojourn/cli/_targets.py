"""What a command is asked to write: refused before any work where it would destroy something."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

__all__ = ["spare_inputs"]


def spare_inputs(
    targets: Iterable[tuple[str, str | Path | None]], inputs: Iterable[str | Path | None]
) -> None:
    """Refuse to write over a file that is read, or twice to one file.

    Parameters
    ----------
    targets : iterable of (str, str or Path or None)
        Options and the files that they name; ``-`` is standard output.
    inputs : iterable of str or Path or None
        Files and folders that are read. A file inside a folder may be written: reports may stand
        beside logs.

    Raises
    ------
    typer.BadParameter
        If a target is one of the inputs, or of the other targets.
    """
    read = {_real(source) for source in inputs if source is not None and str(source) != "-"}
    seen: dict[Path, str] = {}
    for name, target in targets:
        # A device such as /dev/null takes whatever is written to it, and as often.
        if target is None or str(target) == "-" or (Path(target).exists() and not _plain(target)):
            continue
        real = _real(target)
        if real in read:
            raise typer.BadParameter(f"{target} is read; write to another file", param_hint=name)
        if real in seen:
            raise typer.BadParameter(
                f"{target} is what {seen[real]} writes; name two files", param_hint=name
            )
        seen[real] = name


def _real(path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError):  # links in a circle: nothing that is read
        return Path(path).absolute()


def _plain(path: str | Path) -> bool:
    return Path(path).is_file()
