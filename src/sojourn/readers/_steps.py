"""Naming a step: what an agent did in one turn, in one word, from what logs have in common.

A step is one action of the agent: a model turn (an assistant message), or one action in formats
that log actions. Its name is the first tool called; for a shell tool the first command word after
``cd ... &&`` and environment prefixes, with the sub-command where the program is an editor;
``respond`` where no tool was called. Linear patterns on capped text only: logs are hostile.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from sojourn._limits import COMMAND_LETTERS, STEP_NAME_LETTERS
from sojourn.records import Actor, Step, StepKind

__all__ = [
    "RESPOND",
    "action_digest",
    "command_name",
    "first_name",
    "respond",
    "tool_name",
    "tool_step",
    "without_ids",
]

RESPOND = "respond"
SHELL_TOOLS = frozenset(
    {
        *("bash", "shell", "sh", "terminal", "execute_bash", "bash_command", "shell_command"),
        *("run_command", "run_shell_command", "exec_command", "execute_command", "local_shell"),
    }
)
# Programs whose first argument says what they do; with it the step is far more telling.
EDITORS = frozenset(
    {"str_replace_editor", "edit_anthropic", "str_replace_based_edit_tool", "file_editor"}
)
_SHELL = "shell"
# What stands before the command that matters. Each alternative ends at a fixed mark and the
# repetitions are possessive, so that no command line makes the match quadratic.
_QUOTED = r"\"[^\"]*+\"|'[^']*+'"
_NEXT = r"[ \t]*+(?:&&|;|\n)"
_PREFIX = re.compile(
    r"\s*+(?:"
    r"#[^\n]*+\n"  # a comment
    rf"|(?:cd|pushd)[ \t]++(?:--[ \t]++)?(?:{_QUOTED}|[^\s;&|]++){_NEXT}"
    rf"|(?:export[ \t]++)?[A-Za-z_]\w*+=(?:{_QUOTED}|[^\s;&|\"'$`]++|\$\w++)*+(?:{_NEXT}|(?=\s))"
    rf"|set[ \t]++[-+][^\n;&|]*+{_NEXT}"
    rf"|(?:source|\.|conda[ \t]++activate)[ \t]++[^\s;&|]++{_NEXT}"
    r"|(?:sudo|env|time|nohup|command|exec|nice|stdbuf|timeout)\s++"
    r"(?:(?:-\S++|\d[\d.]*+[smhd]?)\s++)*+"  # its options
    r"|(?:/(?:\w++/)++)?(?:ba|z|da)?sh\s++-l?c\s++[\"']?"  # bash -lc "..."
    r"|[({!](?=\s)|\("
    r")"
)
# Ids that a program made: one in a name would make each run, or each call, a thing of its own.
_MIN_ID = 24
_IDS = re.compile(
    r"[\s:_/.#-]*+(?<![0-9A-Za-z])(?:"
    r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    rf"|(?=[A-Fa-f]*+[0-9])[0-9A-Fa-f]{{{_MIN_ID},}}+"
    r")(?![0-9A-Za-z])"
)
_WORD = re.compile(r"\s*+([^\s;&|()<>`]++)[ \t]*+([^\s;&|()<>`]*+)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def command_name(command: str) -> str:
    """Return the telling word of a shell command, or ``shell`` where there is none.

    Parameters
    ----------
    command : str
        The command line; only its first 4096 characters are looked at.

    Notes
    -----
    Passed over are comments, ``cd`` and ``source`` and ``set`` with what joins them to the rest,
    assignments, and programs that only run another (``sudo``, ``env``, ``timeout``, ``bash -c``).
    Of a pipe or a chain the first command counts. An assignment alone has no name: its value may
    be a secret.

    Examples
    --------
    >>> command_name("cd /repo && LANG=C python -m pytest tests")
    'python'
    >>> command_name("cat > a.py << 'EOF'")
    'cat'
    >>> command_name("str_replace_editor view /repo/a.py")
    'str_replace_editor view'
    """
    text = command[:COMMAND_LETTERS]
    position = 0
    while match := _PREFIX.match(text, position):
        position = match.end()
    word = _WORD.match(text, position)
    if word is None or word.group(1)[0] in "#$" or _ASSIGNMENT.match(word.group(1)):
        return _SHELL
    program = word.group(1).strip("\"'\\").rpartition("/")[2]
    if program in EDITORS and word.group(2):
        program = f"{program} {word.group(2)}"
    return _clean(program) or _SHELL


def _clean(name: str) -> str:
    """Return a name that is short and harmless to print: logs may hold control characters."""
    name = without_ids(name)[:STEP_NAME_LETTERS]
    if name.isprintable():
        return name
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )


def without_ids(name: str) -> str:
    """Return a name without UUIDs and other long hexadecimal ids in it.

    Examples
    --------
    >>> without_ids("session-0b9f3c1e-6a51-4c7e-9d57-3f1f6d1c2b9a/plan")
    'session/plan'
    >>> without_ids("search")
    'search'
    """
    if len(name) < _MIN_ID:
        return name
    return _IDS.sub("", name[:COMMAND_LETTERS]).strip(" :_/.#-")


def first_name(*names: str | None) -> str:
    """Return the first of some names that is more than blanks; a run must have one."""
    return next((name for name in names if name and name.strip()), "unnamed")


def action_digest(*parts: str) -> int:
    """Return a 64-bit digest of an action's parts, never 0 (which means unknown)."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return int.from_bytes(state.digest(), "little") or 1


def respond(text: str, *, actor: Actor = Actor.AGENT, ok: bool | None = None) -> Step:
    """Return the step of an agent that only spoke."""
    return Step(
        name=RESPOND,
        kind=StepKind.MODEL,
        actor=actor,
        ok=ok,
        n_calls=0,
        digest=action_digest(RESPOND, text),
    )


def tool_name(name: str, command: str | None = None) -> str:
    """Return the name of the step that a call of a tool is.

    Parameters
    ----------
    name : str
        What the log calls the tool.
    command : str, optional
        The command line of a shell, or the sub-command of an editor; it names the step.
    """
    name = _clean(name) or "tool"
    if command and name in SHELL_TOOLS:
        return command_name(command)
    if command and name in EDITORS:
        return command_name(command if command.startswith(name) else f"{name} {command}")
    return name


def tool_step(
    calls: Sequence[tuple[str, str]],
    *,
    ok: bool | None = None,
    actor: Actor = Actor.AGENT,
    command: str | None = None,
) -> Step:
    """Return the step of a turn that called tools.

    Parameters
    ----------
    calls : sequence of (str, str)
        Name and arguments of each call, in order; at least one.
    ok : bool or None
        Whether all observations came without an error.
    command : str, optional
        The command line, where the first tool is a shell, or the sub-command, where it is an
        editor; it names the step.
    """
    return Step(
        name=tool_name(calls[0][0], command),
        kind=StepKind.TOOL,
        actor=actor,
        ok=ok,
        n_calls=len(calls),
        digest=action_digest(*(part for call in calls for part in call)),
    )
