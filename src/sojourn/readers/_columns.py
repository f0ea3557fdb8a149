"""Which column of a row of our own formats holds which field: names, synonyms, likely slips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sojourn._limits import LABEL_LETTERS
from sojourn._redaction import redacted
from sojourn.errors import ReaderError

__all__ = [
    "INTS",
    "LABELS",
    "OUTCOME_NAMES",
    "RUN_FIELDS",
    "SESSION_FIELDS",
    "STEP_FIELDS",
    "SYNONYMS",
    "TASK_NAMES",
    "check_mapping",
    "column_of",
    "hint",
    "holds_sessions",
    "quoted",
    "shown",
]

INTS = ("task_repeat", "position", "step_limit", "n_steps")
LABELS = ("task_set", "agent", "model", "cluster", "session_id", "job_id")
RUN_FIELDS = ("task_id", "outcome", "end", "limit_kind", "score", *INTS, *LABELS)
SESSION_FIELDS = (
    "session_id",
    "position",
    "domain",
    "subdomain",
    "outcome",
    "item",
    "agent",
    "model",
    "tokens",
)
STEP_FIELDS = ("step", "name", "kind", "actor", "ok", "n_calls")

# Synonyms in the order in which they are believed; two of one rank in one table are ambiguous.
SYNONYMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "task_id": (("question_id", "instance_id"), ("id",)),
    "outcome": (("success", "passed", "resolved", "correct"), ("y",)),
    "task_repeat": (("trial", "epoch", "attempt"),),
    "session_id": (("session",),),
    "position": (("t",),),
    "item": (("task_id", "question_id", "instance_id"), ("id",)),
}
TASK_NAMES = frozenset({"task_id", *(name for rank in SYNONYMS["task_id"] for name in rank)})
OUTCOME_NAMES = frozenset({"outcome", *SYNONYMS["outcome"][0]})
_SESSION_NAMES = frozenset({"session_id", "session"})
_POSITION_NAMES = frozenset({"position", "t"})
_MAX_SHOWN = 30


def shown(names: Sequence[str]) -> str:
    """Return names for an error message: none longer than 40 characters, at most 30 of them."""
    listed = ", ".join(quoted(name) for name in names[:_MAX_SHOWN])
    return listed + (f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else "")


def quoted(name: str) -> str:
    """Return a name of a log in quotes, short; a secret is hidden before it could be cut."""
    return repr(redacted(name[:LABEL_LETTERS])[:_MAX_NAME])


def holds_sessions(names: Iterable[str], *, loosely: bool = False) -> bool:
    """Return whether a row of these columns is a task of a session.

    Parameters
    ----------
    names : iterable of str
        The columns, in lower case.
    loosely : bool
        Whether columns that make it a run as well are of no account, if there is a domain or a
        subdomain too, which a run has not.
    """
    found = frozenset(names)
    placed = found & _SESSION_NAMES and found & _POSITION_NAMES
    judged = found & (OUTCOME_NAMES | {"y"})
    is_run = found & TASK_NAMES or "steps" in found or {"step", "name"} <= found
    is_task = loosely and found & {"domain", "subdomain"}
    return bool(placed and judged and (is_task or not is_run))


def column_of(
    names: Sequence[str],
    mapping: Mapping[str, str],
    *,
    source: str,
    folded: bool = False,
    fields: Sequence[str] = (*RUN_FIELDS, *STEP_FIELDS),
) -> dict[str, int]:
    """Find the column of each of our fields.

    Parameters
    ----------
    names : sequence of str
        The columns that are there.
    mapping : mapping of str to str
        Our field -> its column, as the user says; it goes before any synonym.
    source : str
        The file, for messages.
    folded : bool
        Whether letter case and outer blanks in `names` are of no account.
    fields : sequence of str
        The fields that are looked for.

    Returns
    -------
    dict of str to int
        Field -> index into `names`. ``outcome`` shares the column of ``score`` where there is no
        other verdict.

    Raises
    ------
    ReaderError
        If the mapping names a field or a column that does not exist, or two columns could be one
        field.
    """
    check_mapping(mapping, fields)
    prefix = f"{source}: " if source else ""
    plain = [name.strip().casefold() if folded else name for name in names]
    found = _mapped(names, plain, mapping, source=source)
    taken = set(found.values())
    for name in fields:
        if name in found:
            continue
        for rank in ((name,), *SYNONYMS.get(name, ())):
            places = [i for i, text in enumerate(plain) if text in rank and i not in taken]
            if len(places) > 1:
                both = " and ".join(repr(names[i]) for i in places[:3])
                raise ReaderError(
                    f"{prefix}columns {both} could each be {name}; "
                    f"choose one with --map {name}=COLUMN"
                )
            if places:
                found[name] = places[0]
                break
    if "session_id" not in found and "position" in found and plain[found["position"]] == "t":
        del found["position"]  # without a session, t is somebody's clock
    if "outcome" not in found and "score" in found:
        found["outcome"] = found["score"]
    return found


def hint(name: str, missing: Iterable[str]) -> str:
    """Return what an unused column may be meant as, in brackets, or nothing.

    Parameters
    ----------
    name : str
        The column.
    missing : iterable of str
        Our fields that no column holds.

    Examples
    --------
    >>> hint("modle", ["model", "agent"])
    ' (model? --map model=modle)'
    """
    plain = name.strip().casefold()
    if len(plain) > _MAX_NAME:
        return ""
    fields = set(missing)
    meant = _MEANT.get(plain)
    if meant not in fields:
        near = [f for f in RUN_FIELDS if f in fields and _is_near(plain, f)]
        meant = near[0] if near else None
    return f" ({meant}? --map {meant}={name})" if meant and name.isprintable() else ""


# Names under which people keep what tells their runs apart.
_MEANT: dict[str, str] = {
    **dict.fromkeys(("llm", "lm", "engine", "model_name", "model_id", "llm_name"), "model"),
    **dict.fromkeys(
        ("system", "agent_name", "agent_id", "scaffold", "framework", "method", "policy"), "agent"
    ),
    **dict.fromkeys(("dataset", "benchmark", "suite", "split", "domain"), "task_set"),
    **dict.fromkeys(("seed", "repeat", "repetition", "rep", "run", "attempt_id"), "task_repeat"),
    **dict.fromkeys(("steps", "num_steps", "step_count", "turns", "n_turns"), "n_steps"),
}
_MAX_NAME = 40
_MAX_EDITS = 2


def _is_near(name: str, field_name: str) -> bool:
    """Return whether a name contains a field's, or is a slip or two away from it."""
    if len(field_name) > 4 and field_name in name:
        return True
    if min(len(name), len(field_name)) < 4 or abs(len(name) - len(field_name)) > _MAX_EDITS:
        return False
    above = list(range(len(name) + 1))
    for row, letter in enumerate(field_name, 1):  # Levenshtein's table, a row at a time
        line = [row]
        for column, other in enumerate(name, 1):
            change = above[column - 1] + (letter != other)
            line.append(min(change, above[column] + 1, line[-1] + 1))
        above = line
    return above[-1] <= _MAX_EDITS


def check_mapping(
    mapping: Mapping[str, str], known: Sequence[str] = (*RUN_FIELDS, *STEP_FIELDS)
) -> None:
    """Raise ReaderError if a mapping names a field that we do not have."""
    for name, column in mapping.items():
        if name not in known:
            raise ReaderError(
                f"--map {name}={column}: {name!r} is no field; they are {', '.join(known)}"
            )


def _mapped(
    names: Sequence[str], plain: Sequence[str], mapping: Mapping[str, str], *, source: str
) -> dict[str, int]:
    found = {}
    for name, column in mapping.items():
        places = [i for i, text in enumerate(names) if text == column] or [
            i for i, text in enumerate(plain) if text == column.strip().casefold()
        ]
        if len(places) != 1:
            fault = "there is no such column" if not places else "several columns have that name"
            raise ReaderError(
                f"{source}: --map {name}={column}: {fault}; the columns are {shown(names)}"
            )
        found[name] = places[0]
    return found
