"""Dynamic Cheatsheet results: JSON lines, one question a line, in the order they were asked.

The file holds no verdict. The stated rule is: a task succeeded if ``final_answer`` equals
``target`` as a string, every character; without an answer it failed, without a target it has no
verdict. A file is a session; its folder names the sort of task, its name the model and the agent
(``gpt-4o_Baseline.jsonl``). A question's text is not kept: the item is its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn.readers._json import BadRecordError, decode, json_lines, sniff
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Outcome, Skipped, TaskResult

__all__ = ["DynamicCheatsheetReader"]

DOMAIN = "dynamic-cheatsheet"
# They stand before the long fields, and so within the head of any file.
_MARKS = frozenset({"target", "raw_input", "input_txt"})


class _Line(msgspec.Struct):
    target: Any = None
    final_answer: Any = None
    raw_input: Any = None


class DynamicCheatsheetReader:
    """Reads the results of Dynamic Cheatsheet."""

    name = "dynamic-cheatsheet"
    kind = "sessions"
    description = "Dynamic Cheatsheet results (JSON lines); success is final_answer == target"
    carries = "outcomes in order"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line has a target and the question in both of its forms."""
        found = sniff(head)
        return found.kind in ("object", "lines") and found.keys >= _MARKS

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one task a line."""
        folder = source.absolute().parent.name
        model, _, agent = source.stem.rpartition("_")
        session = {
            "session_id": f"{folder}/{source.stem}",
            "domain": DOMAIN,
            "subdomain": folder or None,
            "model": model or source.stem,
            "agent": agent if model else "",
            "source_type": self.name,
            "source_uri": str(source),
        }
        # A line that cannot be read keeps its place, as a hole between its neighbours.
        for position, line in enumerate(json_lines(source)):
            try:
                yield _task(decode(line.text, _Line), position, session)
            except BadRecordError as error:
                whole = line.text.endswith(b"\n")
                reason = str(error) if whole else f"the last line is incomplete: {error}"
                yield Skipped(source=f"{source}, line {line.number}", reason=reason, what="line")


def _task(line: _Line, position: int, session: dict[str, Any]) -> TaskResult:
    outcome = Outcome.UNSCORED
    if isinstance(line.target, str):
        outcome = Outcome.SUCCESS if line.final_answer == line.target else Outcome.FAILURE
    item = None
    if isinstance(line.raw_input, str):
        text = line.raw_input.encode("utf-8", "replace")
        item = hashlib.blake2b(text, digest_size=8).hexdigest()
    return TaskResult(position=position, outcome=outcome, item=item, **session)
