"""Which tool a model's answer asks for first, in the shapes in which frameworks log answers.

Messages of OpenAI, of its responses interface, of Anthropic, of LangChain and of the GenAI
conventions, alone, in a list, in ``choices`` or in ``generations``, as JSON or as JSON in a string.
Nothing of an answer is kept but the tool's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sojourn.readers._json import BadRecordError, Buffer, decode

__all__ = ["asked_tool", "unquoted"]

_MAX_ITEMS = 100
_CALLS = frozenset({"tool_call", "tool_use", "function_call"})
# Where further messages may stand, in the order in which they are looked at.
_INSIDE = ("message", "kwargs", "choices", "generations", "output", "parts", "content")


def unquoted(raw: Buffer) -> Buffer:
    """Return the JSON that a JSON string holds; what is no string stays as it is.

    Raises
    ------
    BadRecordError
        If it is a string that never ends.
    """
    if bytes(memoryview(raw)[:1]) != b'"':
        return raw
    return decode(raw, str).encode("utf-8", "replace")


def asked_tool(raw: Buffer) -> str:
    """Return the first tool that a model's answer asks for, "" where it only spoke."""
    try:
        inner = unquoted(raw)
        if bytes(memoryview(inner)[:64]).lstrip()[:1] not in (b"{", b"["):
            return ""  # plain text, which most answers are
        answer: Any = decode(inner, Any)
    except BadRecordError:
        return ""
    return next(filter(None, map(_asked, _messages(answer))), "")


def _messages(answer: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages in an answer, the first first; by a stack, and so many at most."""
    stack = [answer]
    for _ in range(_MAX_ITEMS):
        if not stack:
            return
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(reversed(item[:_MAX_ITEMS]))
        elif isinstance(item, dict):
            yield item
            stack.extend(item[key] for key in reversed(_INSIDE) if key in item)


def _asked(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls") or _field(message.get("additional_kwargs"), "tool_calls")
    if isinstance(calls, list) and calls:
        return _word(_field(calls[0], "name")) or _word(_field(calls[0], "function", "name"))
    kind = message.get("type")
    return _word(message.get("name")) if isinstance(kind, str) and kind in _CALLS else ""


def _field(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
