"""Claude Code sessions (``<uuid>.jsonl``): steps, never a verdict; a file is a run.

The record is internal to the program and free to change; what is read here is the part that has
been stable up to version 2.1. The task is the session's id, for ``--outcomes FILE``. Lines form a
tree by ``parentUuid``, since a session may be rewound: only the branch of the last message counts,
and messages off it are counted. Where a conversation was compacted the branch goes on at the
``logicalParentUuid``. One message of the model stands on several lines, a block each: lines of one
``message.id`` are one step, and answers of tools that were called side by side, which hang off the
branch, belong to it too. Lines of subagents (``isSidechain``) are left out, and so are messages
that the program wrote in the model's place, such as an error of the interface; where one of these,
or an interruption by the user, stands last, it says how the session ended.

The stream of messages (``--output-format stream-json``, and what the Agent SDK yields) is read by
`_claude_stream`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn.errors import EmptySourceError
from sojourn.readers._claude_messages import Message, Spoken, steps_of
from sojourn.readers._claude_stream import is_stream, stream_records
from sojourn.readers._json import BadRecordError, decode, json_lines, read_head, sniff
from sojourn.readers._steps import first_name
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["ClaudeCodeReader"]

AGENT = "Claude Code"
_TURN_KEYS = {"sessionId", "uuid", "parentUuid"}
_INTERRUPTED = "[Request interrupted by user"


class _Line(msgspec.Struct):
    type: str = ""
    uuid: str | None = None
    parentUuid: str | None = None  # noqa: N815 - the log's own names
    logicalParentUuid: str | None = None  # noqa: N815
    sessionId: str | None = None  # noqa: N815
    isSidechain: bool = False  # noqa: N815
    isApiErrorMessage: bool = False  # noqa: N815
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Node(Spoken):
    line: _Line


class ClaudeCodeReader:
    """Reads the sessions of Claude Code."""

    name = "claude-code"
    description = "Claude Code sessions, or its stream of messages (JSON lines)"
    carries = "steps; outcome with --outcomes"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line, or a later one behind a summary, is of a session."""
        found = sniff(head)
        if is_stream(head):
            return True
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
        """Yield the run, or each of a stream, then what of the file is no part of it.

        Raises
        ------
        EmptySourceError
            If no message of a model is in it.
        """
        if is_stream(read_head(source)):
            yield from stream_records(source, agent=AGENT, source_type=self.name)
            return
        nodes: dict[str, _Node] = {}
        links: dict[str, str] = {}
        n_side = 0
        last = ""
        for line in json_lines(source):
            try:
                found = decode(line.text, _Line)
                links.setdefault(
                    found.uuid or "", found.parentUuid or found.logicalParentUuid or ""
                )
                if found.type not in ("user", "assistant"):
                    continue
                if found.isSidechain:
                    n_side += 1
                    continue
                message = decode(found.message, Message)
            except BadRecordError as error:
                place = f"{source}, line {line.number}"
                yield Skipped(source=place, reason=str(error), what="line")
                continue
            last = found.uuid or f"line {line.number}"
            nodes.setdefault(last, _Node(found.type, message, found))
        branch = _with_side_calls(_branch(nodes, links, last), nodes)
        turns = [node for node in branch if node.is_turn()]
        if not turns:
            what = "only messages of a subagent" if n_side else "no message of a model"
            raise EmptySourceError(f"{source}: {what} in it")
        steps = tuple(steps_of(branch))
        yield Trace(
            task_id=first_name(turns[0].line.sessionId, source.stem),
            agent=AGENT,
            model=next((node.message.model for node in turns if node.message.model), ""),
            outcome=Outcome.UNSCORED,
            end=_end(branch[-1]),
            n_steps=len(steps),
            steps=steps,
            source_type=self.name,
            source_uri=str(source),
        )
        n_program = sum(node.role == "assistant" for node in branch) - len(turns)
        for reason, count in (
            ("messages of the program in the model's place; they are no steps", n_program),
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


def _with_side_calls(branch: list[_Node], nodes: dict[str, _Node]) -> list[_Node]:
    """Return the branch with the calls of its messages that hang off it, and their answers.

    Tools called side by side stand on lines of one message, and the branch goes on from one of
    their answers only.
    """
    on_branch = {id(node) for node in branch}
    ids = {node.message.id for node in branch if node.is_turn() and node.message.id}
    turns = {
        id(node) for node in nodes.values() if node.is_turn() and node.message.id in ids
    } | on_branch
    calls = {
        block.id for node in nodes.values() if id(node) in turns for block in node.blocks()
        if block.type == "tool_use" and block.id
    }  # fmt: skip
    return [
        node
        for node in nodes.values()
        if id(node) in turns or any(block.tool_use_id in calls for block in node.blocks())
    ]


def _end(last: _Node) -> End:
    if last.line.isApiErrorMessage:
        return End.INFRA_ERROR
    if last.role == "user" and any(
        (block.text or "").startswith(_INTERRUPTED) for block in last.blocks()
    ):
        return End.CANCELLED
    return End.UNKNOWN
