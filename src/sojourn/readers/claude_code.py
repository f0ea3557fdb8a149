"""Claude Code sessions (``<uuid>.jsonl``): steps, never a verdict; a file is a run.

The record is internal to the program and free to change; what is read here is the part that has
been stable up to version 2.1. The task is the session's id, for ``--outcomes FILE``. Lines form a
tree by ``parentUuid``, since a session may be rewound: only the branch of the last message counts,
and messages off it are counted. One message of the model stands on several lines, a block each:
lines of one ``message.id`` are one step. Lines of subagents (``isSidechain``) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn.errors import EmptySourceError
from sojourn.readers._json import BadRecordError, decode, json_lines, sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Outcome, Skipped, Step, Trace

__all__ = ["ClaudeCodeReader"]

AGENT = "Claude Code"
_TURN_KEYS = {"sessionId", "uuid", "parentUuid"}


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    is_error: bool | None = None


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[_Block] | None = None


class _Line(msgspec.Struct):
    type: str = ""
    uuid: str | None = None
    parentUuid: str | None = None  # noqa: N815 - the log's own names
    sessionId: str | None = None  # noqa: N815
    isSidechain: bool = False  # noqa: N815
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Node(msgspec.Struct):
    line: _Line
    message: _Message


class ClaudeCodeReader:
    """Reads the sessions of Claude Code."""

    name = "claude-code"
    description = "Claude Code sessions (JSON lines)"
    carries = "steps; outcome with --outcomes"

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line, or a later one behind a summary, is of a session."""
        found = sniff(head)
        if found.kind not in ("object", "lines") or "type" not in found.keys:
            return False
        if found.keys >= _TURN_KEYS:
            return True
        opens = not found.keys.isdisjoint({"leafUuid", "sessionId", "snapshot"})
        return opens and b'"parentUuid"' in head and b'"sessionId"' in head

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the run, then what of the file is no part of it.

        Raises
        ------
        EmptySourceError
            If no message of a model is in it.
        """
        nodes: dict[str, _Node] = {}
        links: dict[str, str] = {}
        n_side = 0
        last = ""
        for line in json_lines(source):
            try:
                found = decode(line.text, _Line)
                links.setdefault(found.uuid or "", found.parentUuid or "")
                if found.type not in ("user", "assistant"):
                    continue
                if found.isSidechain:
                    n_side += 1
                    continue
                message = decode(found.message, _Message)
            except BadRecordError as error:
                place = f"{source}, line {line.number}"
                yield Skipped(source=place, reason=str(error), what="line")
                continue
            last = found.uuid or f"line {line.number}"
            nodes.setdefault(last, _Node(found, message))
        branch = _branch(nodes, links, last)
        turns = [node for node in branch if node.line.type == "assistant"]
        if not turns:
            raise EmptySourceError(f"{source}: no message of a model in it")
        steps = tuple(_steps(branch))
        yield Trace(
            task_id=turns[0].line.sessionId or source.stem,
            agent=AGENT,
            model=next((n.message.model for n in turns if n.message.model), None) or "",
            outcome=Outcome.UNSCORED,
            n_steps=len(steps),
            steps=steps,
            source_type=self.name,
            source_uri=str(source),
        )
        for reason, count in (
            ("messages on a branch that was left", len(nodes) - len(branch)),
            ("messages of subagents; their steps are not the agent's", n_side),
        ):
            if count:
                yield Skipped(source=str(source), reason=reason, count=count, what="key")


def _branch(nodes: dict[str, _Node], links: dict[str, str], last: str) -> list[_Node]:
    """Return the messages from the first to the last; each is met once, circles too.

    Lines that are no messages may stand between two; a chain that breaks off ends the branch.
    """
    branch: list[_Node] = []
    seen: set[str] = set()
    while last and last not in seen:
        seen.add(last)
        if last in nodes:
            branch.append(nodes[last])
        last = links.get(last, "")
    return branch[::-1]


def _steps(branch: list[_Node]) -> Iterator[Step]:
    failed: dict[str, bool] = {}
    turns: dict[str, list[_Block]] = {}
    for place, node in enumerate(branch):
        content = node.message.content
        blocks = [_Block(type="text", text=content)] if isinstance(content, str) else content or []
        if node.line.type == "assistant":
            turns.setdefault(node.message.id or f"turn {place}", []).extend(blocks)
            continue
        for block in blocks:
            if block.type == "tool_result" and block.tool_use_id:
                failed[block.tool_use_id] = bool(block.is_error)
    for blocks in turns.values():
        calls = [block for block in blocks if block.type == "tool_use"]
        if not calls:
            yield respond("".join(block.text or "" for block in blocks))
            continue
        known = [failed[call.id] for call in calls if call.id in failed]
        first = calls[0]
        command = first.input.get("command") if isinstance(first.input, dict) else None
        named = [(_name(call.name), str(call.input)) for call in calls]
        yield tool_step(
            named,
            ok=not any(known) if known else None,
            command=command if isinstance(command, str) else None,
        )


def _name(name: str | None) -> str:
    return "bash" if name == "Bash" else name or ""
