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
        Files and folders that are read. Inside a folder a new file may be written, or an earlier
        result anew: reports may stand beside logs.

    Raises
    ------
    typer.BadParameter
        If a target is one of the inputs, a file of one that is no result, or another target.
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
        folder = next((place for place in read if place in real.parents), None)
        if folder is not None and real.is_file() and not _is_result(real):
            raise typer.BadParameter(
                f"{target} stands in {folder.name}, which is read, and is no earlier result; write "
                "to another file",
                param_hint=name,
            )
        if real in seen:
            raise typer.BadParameter(
                f"{target} is what {seen[real]} writes; name two files", param_hint=name
            )
        seen[real] = name


# Forms that no log has, and the marks of our own JSON.
_WRITTEN = frozenset({".html", ".md", ".xml"})
_MARKS = (b'"sojourn_version"', b'"sojourn_model"')
_HEAD_BYTES = 1 << 16


def _is_result(path: Path) -> bool:
    """Return whether a file is one that a command of ours wrote, rather than a log."""
    if path.suffix.lower() in _WRITTEN:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return not head.strip() or any(mark in head for mark in _MARKS)


def _real(path: str | Path) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError):  # links in a circle: nothing that is read
        return Path(path).absolute()


def _plain(path: str | Path) -> bool:
    return Path(path).is_file()
