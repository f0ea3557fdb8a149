"""From spans to steps: the tree of a traced run, and what its agent did in which turn.

A span tells where it hangs (its parent's id), when it began, and what it was: a call of a model,
of a tool, an agent's work, or something else (a chain, a request, a lookup in a cache). A step is a
turn of the agent: one model call, with the tools that ran for it. A tool belongs to the model call
that it hangs under, else to the last one that began before it in the same scope, which is the
nearest agent or tool above both; so chains and nodes between them change nothing. A tool without a
model call is a step by itself. A model call inside a model call is the same one, logged by two
instruments, and a tool inside a tool is part of it.

Logs are hostile: ids may repeat, parents may be missing or form a circle. Nothing here recurses,
and each span is looked at a bounded number of times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple

from sojourn.readers._steps import RESPOND, action_digest
from sojourn.records import Step, StepKind

__all__ = ["Forest", "Kind", "Span", "forest", "nanoseconds", "steps_of"]

_MAX_DIGITS = 20


class Kind(IntEnum):
    """What a span was; at equal times the model comes before its tools."""

    AGENT = 0
    MODEL = 1
    TOOL = 2
    OTHER = 3


_SCOPES = (Kind.AGENT, Kind.MODEL, Kind.TOOL)


class Span(NamedTuple):
    """What is kept of a span; no text.

    `name` is that of the tool or agent, of a model call that of the tool it asked for, where the
    log tells; `digest` that of the call or answer, 0 where unknown.
    """

    span_id: str
    parent_id: str
    start: int
    kind: Kind
    name: str = ""
    model: str = ""
    failed: bool = False
    digest: int = 0


class Forest(NamedTuple):
    """The spans of a run in the order in which they began, each id once, and who is above whom.

    `scope` maps an id to the nearest agent, model call or tool above it; `roots` have no parent in
    the log, and `n_orphans` of them name one; `n_circles` circles of parents were cut open.
    """

    spans: list[Span]
    scope: dict[str, Span | None]
    roots: list[Span]
    n_orphans: int
    n_repeated: int
    n_circles: int


@dataclass(slots=True)
class _Turn:
    model: Span | None
    tools: list[Span] = field(default_factory=list)


def nanoseconds(text: str) -> int:
    """Return a time since 1970, from nanoseconds or from ISO 8601; 0 where it is neither."""
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    try:
        time = datetime.fromisoformat(text[:40])
    except ValueError:
        return 0
    seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return int(seconds * 1e6) * 1000 if math.isfinite(seconds) else 0


def forest(spans: Iterable[Span]) -> Forest:
    """Return the spans of one run as a forest; of spans with one id the first stays."""
    by_id: dict[str, Span] = {}
    n_spans = 0
    for span in spans:
        n_spans += 1
        by_id.setdefault(span.span_id, span)
    ordered = sorted(by_id.values(), key=lambda span: (span.start, span.kind, span.span_id))
    parents, n_circles = _parents(ordered, by_id)
    return Forest(
        spans=ordered,
        scope=_scopes(ordered, by_id, parents),
        roots=[span for span in ordered if span.span_id not in parents],
        n_orphans=sum(bool(s.parent_id) and s.parent_id not in by_id for s in ordered),
        n_repeated=n_spans - len(by_id),
        n_circles=n_circles,
    )


def _parents(spans: Sequence[Span], by_id: dict[str, Span]) -> tuple[dict[str, str], int]:
    """Return the parent of each span that has one, and the number of circles that were cut."""
    parents = {span.span_id: span.parent_id for span in spans if span.parent_id in by_id}
    seen: set[str] = set()
    n_circles = 0
    for span in spans:
        walk: set[str] = set()
        node: str | None = span.span_id
        while node is not None and node not in seen and node not in walk:
            walk.add(node)
            node = parents.get(node)
        if node in walk:
            del parents[node]
            n_circles += 1
        seen |= walk
    return parents, n_circles


def _scopes(
    spans: Sequence[Span], by_id: dict[str, Span], parents: dict[str, str]
) -> dict[str, Span | None]:
    """Return the nearest scope above each span; each is climbed through once."""
    scope: dict[str, Span | None] = {}
    for span in spans:
        path: list[str] = []
        node, found = span.span_id, None
        while node not in scope:
            path.append(node)
            if node not in parents:
                break
            node = parents[node]
            if by_id[node].kind in _SCOPES:
                found = by_id[node]
                break
        else:
            found = scope[node]
        for span_id in path:
            scope[span_id] = found
    return scope


def steps_of(tree: Forest) -> list[Step]:
    """Return the steps of a run: its turns, in the order in which they began."""
    turns: list[_Turn] = []
    of_model: dict[str, _Turn] = {}
    latest: dict[str, _Turn] = {}  # in each scope; "" is the run itself
    for span in tree.spans:
        above = tree.scope[span.span_id]
        place = above.span_id if above is not None else ""
        if span.kind is Kind.MODEL:
            if above is not None and above.kind is Kind.MODEL and place in of_model:
                of_model[span.span_id] = of_model[place]
                continue
            turn = _Turn(span)
            of_model[span.span_id] = latest[place] = turn
            turns.append(turn)
        elif span.kind is Kind.TOOL:
            owner = of_model.get(place) or latest.get(place)
            if owner is not None:
                owner.tools.append(span)
            elif above is None or above.kind is not Kind.TOOL:
                turns.append(_Turn(None, [span]))
    return [_step(turn) for turn in turns]


def _step(turn: _Turn) -> Step:
    calls = turn.tools
    failed = any(span.failed for span in calls) or (turn.model is not None and turn.model.failed)
    if not calls:
        digest = turn.model.digest if turn.model is not None else 0
        ok = False if failed else None
        if turn.model is not None and turn.model.name:
            return Step(name=turn.model.name, ok=ok, digest=digest)
        return Step(name=RESPOND, kind=StepKind.MODEL, ok=ok, n_calls=0, digest=digest)
    digests = [span.digest for span in calls]
    if not all(digests):
        digest = 0
    elif len(digests) == 1:
        digest = digests[0]
    else:
        digest = action_digest(*map(str, digests))
    return Step(name=calls[0].name, ok=not failed, n_calls=len(calls), digest=digest)
