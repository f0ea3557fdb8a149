"""A summary beside a log: what ``sojourn assess LOG --no-chain`` says, as JSON or as the page.

The chain of steps is left out so that a summary takes seconds; ``sojourn assess`` adds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

__all__ = ["KINDS", "local_path", "parse_kinds", "write_summary"]

KINDS = ("html", "json")


def parse_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of files that a setting such as ``html,json`` names.

    Raises
    ------
    ValueError
        If it names something else.
    """
    kinds = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"{text!r} is none of json, html and html,json")
    return kinds


def local_path(location: str) -> Path:
    """Return the path of a log on this machine.

    Raises
    ------
    ValueError
        If the log lies elsewhere; the message says how to get its summary.
    """
    address = urlsplit(location)
    if address.scheme == "file":
        return Path(url2pathname(address.path))
    if len(address.scheme) > 1 and "://" in location:  # one letter is a drive
        raise ValueError(
            f"the log lies at {address.scheme}://..., and summaries are only written beside local "
            "logs; copy it here and run: sojourn assess LOG --html summary.html"
        )
    return Path(location)


def write_summary(log: Path, kinds: Sequence[str]) -> list[Path]:
    """Write the summary of one log beside it and return the files.

    Parameters
    ----------
    log : Path
        A log of Inspect, finished.
    kinds : sequence of {"html", "json"}
        What to write.

    Returns
    -------
    list of Path
        ``sojourn_<name of the log>.html`` and ``.json``: names that Inspect takes for no logs,
        whatever it calls those.

    Raises
    ------
    SojournError
        If the log holds no run that counts, or cannot be read.
    OSError
        If a file cannot be written.
    """
    from sojourn.assess import assess_groups
    from sojourn.readers import read_traces
    from sojourn.report import write_json, write_report

    result = assess_groups(read_traces(log, format="inspect"), chain=None, rng=0)
    written = list(_targets(log, kinds))
    for target in written:
        if target.suffix == ".html":
            write_report(result, target, command=["sojourn", "assess", log.name, "--no-chain"])
        else:
            write_json(result, target)
    return written


def _targets(log: Path, kinds: Iterable[str]) -> Iterable[Path]:
    return (log.with_name(f"sojourn_{log.stem}.{kind}") for kind in kinds)
