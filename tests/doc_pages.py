"""The pages' examples: their fenced blocks, how each is run, and whether what is shown is printed.

On a page that is run, every block counts: ``sh`` and ``python`` are run in order in one empty
folder, a block with a title is written to the file it names, and a ``text`` block right after one
that was run shows what it prints. ``<!-- not run: why -->`` before a block leaves it out.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.cli.main import main

FENCE = re.compile(r"^```(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]+)\")?\s*$")
NOT_RUN = re.compile(r"^<!-- not run: .+ -->$")
EXIT = re.compile(r"\s+# exit (\d+)\s*$")
NUMBER = re.compile(r"(?<![\w.])([-+]?\d[\d,]*(?:\.\d+)?)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block of a page."""

    line: int
    language: str
    title: str | None
    code: str
    skipped: bool


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page; one that is never closed is an error."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening is None:
            if lines[at].lstrip().startswith("```"):
                raise ValueError(f"line {at + 1}: a fence that cannot be read: {lines[at]!r}")
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i] == "```"), None)
        if end is None:
            raise ValueError(f"line {at + 1}: this block is never closed")
        found.append(
            Block(
                line=at + 1,
                language=opening["language"],
                title=opening["title"],
                code="\n".join(lines[at + 1 : end]),
                skipped=bool(at and NOT_RUN.match(lines[at - 1])),
            )
        )
        at = end + 1
    return found


@dataclass(kw_only=True)
class PageRun:
    """A page that is being run in a folder; it must be the working folder."""

    folder: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str | None = None
    n_run: int = 0

    def take(self, block: Block) -> None:
        """Run, write or compare one block."""
        if block.skipped:
            self.printed = None
        elif block.title is not None:
            (self.folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.title).write_text(block.code + "\n", encoding="utf-8")
            self.printed = None
        elif block.language == "sh":
            self.printed = "".join(run_command(line) for line in commands_of(block.code))
            self.n_run += 1
        elif block.language == "python":
            with captured() as output:
                exec(compile(block.code, f"line {block.line}", "exec"), self.names)
            self.printed = output.getvalue()
            self.n_run += 1
        elif block.language == "text" and self.printed is not None:
            compare(block.code, self.printed)
            self.printed = None


def commands_of(code: str) -> Iterator[str]:
    """Return the commands of a shell block, a line each, continued lines joined."""
    for line in code.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def run_command(line: str) -> str:
    """Run one command of this library, or one of the few others that the pages use.

    Raises
    ------
    AssertionError
        If it exits otherwise than the comment ``# exit N`` says, without one with 0.
    """
    stated = EXIT.search(line)
    verb, *arguments = shlex.split(line, comments=True)
    with captured() as output:
        if verb == "sojourn":
            code = main(arguments)
        elif verb == "python":
            runpy.run_path(arguments[0], run_name="__main__")
            code = 0
        elif verb == "cat":
            print(Path(arguments[0]).read_text(encoding="utf-8"), end="")
            code = 0
        else:
            raise AssertionError(f"{verb!r} is no command that the pages may use")
    wanted = 0 if stated is None else int(stated[1])
    assert int(code) == wanted, f"{line.strip()}: exit {int(code)}\n{output.getvalue()}"
    return output.getvalue()


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Collect what is printed, on either stream."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        yield output
    sys.stdout.flush()


def compare(shown: str, printed: str) -> None:
    """Find each shown line in what was printed, in order; ``...`` stands for lines left out.

    Words must agree, spaces need not. Decimals may differ by two units of the last place shown,
    since the last bits of a fit are another machine's; whole numbers may not.

    Raises
    ------
    AssertionError
        With the first line that is not there.
    """
    have = [line for line in printed.splitlines() if line.strip()]
    at, anywhere = 0, False
    for line in (line for line in shown.splitlines() if line.strip()):
        if line.strip() == "...":
            anywhere = True
            continue
        until = len(have) if anywhere else at + 1
        found = next((i for i in range(at, min(until, len(have))) if alike(line, have[i])), None)
        instead = have[at] if at < len(have) and not anywhere else printed
        assert found is not None, f"the page shows\n{line}\nbut this is printed\n{instead}"
        at, anywhere = found + 1, False
    assert anywhere or at == len(have), f"the page leaves out without saying so\n{have[at]}"


def alike(shown: str, printed: str) -> bool:
    """Return whether two lines are the same but for spaces and the last digits of decimals."""
    ours, theirs = (NUMBER.split(" ".join(line.split())) for line in (shown, printed))
    if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
        return False
    return all(map(near, ours[1::2], theirs[1::2]))


def near(shown: str, printed: str) -> bool:
    """Return whether two numbers are the same, decimals to two units of their last place."""
    if shown == printed:
        return True
    places = [len(number.partition(".")[2]) for number in (shown, printed)]
    if places[0] != places[1] or not places[0]:
        return False
    one, other = (float(number.replace(",", "")) for number in (shown, printed))
    return abs(one - other) <= 2.5 * 10.0 ** -places[0]
