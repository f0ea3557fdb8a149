"""Messages of Claude Code, as its session files and its streams hold them, and their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sojourn.readers._steps import respond, tool_step
from sojourn.records import Step

__all__ = ["Block", "Message", "Spoken", "steps_of"]

_OF_PROGRAM = "<synthetic>"


class Block(msgspec.Struct):
    """A block of a message's content."""

    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    is_error: bool | None = None


class Message(msgspec.Struct):
    """What is read of a message."""

    id: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None


class Spoken(msgspec.Struct):
    """A message, or a part of one, and who spoke: ``assistant`` or ``user``."""

    role: str
    message: Message

    def is_turn(self) -> bool:
        """Return whether the model wrote it, and not the program in its place."""
        return self.role == "assistant" and self.message.model != _OF_PROGRAM

    def blocks(self) -> list[Block]:
        """Return the blocks of its content; plain text is one."""
        content = self.message.content
        return [Block(type="text", text=content)] if isinstance(content, str) else content or []


def steps_of(branch: Iterable[Spoken]) -> Iterator[Step]:
    """Yield the steps of a conversation: parts of one message are one."""
    failed: dict[str, bool] = {}
    turns: dict[str, list[Block]] = {}
    for place, node in enumerate(branch):
        blocks = node.blocks()
        if node.is_turn():
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
