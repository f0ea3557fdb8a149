"""Our JSON lines, written: a run a line, as `sojourn-jsonl` reads them."""

from __future__ import annotations

import json
import os
from typing import Any

from sojourn._files import replacing
from sojourn.corpus.traces import TraceCorpus
from sojourn.records import Actor, Step, StepKind, Trace

__all__ = ["write_jsonl"]

_PLAIN = {"kind": StepKind.TOOL, "actor": Actor.AGENT, "ok": None}
_OPTIONAL = (
    *("task_repeat", "task_set", "agent", "model", "score", "cluster"),
    *("session_id", "position", "step_limit", "job_id", "limit_kind"),
)


def write_jsonl(corpus: TraceCorpus, path: str | os.PathLike[str]) -> None:
    """Write a corpus as JSON lines, all or nothing; readable by people, larger than Parquet.

    Digests of actions, numbers of calls and the original source are not written.
    """
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for run in range(len(corpus)):
            record = _record(corpus.trace(run))
            file.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")


def _record(trace: Trace) -> dict[str, Any]:
    record: dict[str, Any] = {"task_id": trace.task_id, "outcome": str(trace.outcome)}
    record["end"] = str(trace.end)
    for name in _OPTIONAL:
        value = getattr(trace, name)
        if value not in (None, ""):
            record[name] = value
    if trace.steps:
        record["steps"] = [_step(step) for step in trace.steps]
    elif trace.n_steps is not None:
        record["n_steps"] = trace.n_steps
    return record


def _step(step: Step) -> str | dict[str, Any]:
    if all(getattr(step, field) == value for field, value in _PLAIN.items()):
        return step.name
    fields: dict[str, Any] = {"name": step.name, "kind": str(step.kind)}
    if step.actor is not Actor.AGENT:
        fields["actor"] = str(step.actor)
    if step.ok is not None:
        fields["ok"] = step.ok
    return fields
