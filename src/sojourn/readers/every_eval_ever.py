"""Every Eval Ever, instance-level JSON lines (schema 0.2): a line is a run.

Success is ``evaluation.is_correct``; a line with ``error`` is a fault of the infrastructure, which
by the policy has no verdict that counts. Steps are the assistant's messages; a single turn, which
has no messages, is one step. Lines carry no number of the attempt: those of one sample are attempts
in the order of the file. An evaluation of several metrics writes a line a metric, told apart by
``evaluation_result_id``: one of them counts, that which ``--scorer`` names, else the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._inspect_scores import listing, printable
from sojourn.readers._json import json_lines, records, sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Step, Trace

__all__ = ["EveryEvalEverReader"]

_MARKS = {"sample_id", "interaction_type", "evaluation_id"}
_OF_OTHERS = Skipped(source="", reason="a line of another metric", what="key")


class _Call(msgspec.Struct):
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None
    tool_calls: list[_Call] | None = None


class _Evaluation(msgspec.Struct):
    score: float | None = None
    is_correct: bool | None = None


class _Line(msgspec.Struct):
    sample_id: str
    evaluation_id: str = ""
    evaluation_name: str | None = None
    evaluation_result_id: str | None = None
    model_id: str | None = None
    interaction_type: str | None = None
    messages: list[_Message] | None = None
    evaluation: _Evaluation | None = None
    error: str | None = None


class EveryEvalEverReader:
    """Reads instance-level files of Every Eval Ever."""

    name = "every-eval-ever"
    description = "Every Eval Ever instance-level JSON lines"
    carries = "outcome, steps"
    heeds = frozenset({"scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line is an instance of an evaluation."""
        found = sniff(head)
        return found.kind in ("object", "lines") and found.keys >= _MARKS

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return the aggregate of the evaluation beside it."""
        aggregate = source.with_name(source.stem.removesuffix("_samples") + ".json")
        return [aggregate] if aggregate.is_file() else []

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a line of the metric that counts, then the number of other lines."""
        seen: Counter[tuple[str, str, str]] = Counter()
        metrics: dict[tuple[str, str], str] = {}
        others = Counter[str]()

        def build(line: _Line) -> Trace | Skipped:
            evaluation = (line.evaluation_id, line.evaluation_name or "")
            metric = line.evaluation_result_id or ""
            if metric and metrics.setdefault(evaluation, options.scorer or metric) != metric:
                others[metric] += 1
                return _OF_OTHERS
            key = (*evaluation, line.sample_id)
            trace = _trace(line, seen[key], source)
            seen[key] += 1
            return trace

        for record in records(json_lines(source), _Line, source=str(source), build=build):
            if record is not _OF_OTHERS:
                yield record
        if options.scorer is not None and others and not seen:
            asked, known = printable(options.scorer), listing(list(others))
            raise ReaderError(f"{source}: no result is called {asked}; there are: {known}")
        if options.scorer is not None and seen and not metrics:
            reason = f"no line names its result; {printable(options.scorer)} chose nothing"
            yield Skipped(source=str(source), reason=reason, what="key")
        if others:
            reason = "lines of another metric of a sample; choose one with --scorer RESULT_ID"
            yield Skipped(source=str(source), reason=reason, count=others.total(), what="key")


def _trace(line: _Line, repeat: int, source: Path) -> Trace:
    found = line.evaluation or _Evaluation()
    outcome = Outcome.UNSCORED
    if found.is_correct is not None:
        outcome = Outcome.SUCCESS if found.is_correct else Outcome.FAILURE
    steps = tuple(_step(m) for m in line.messages or () if m.role == "assistant")
    known = line.messages is not None
    return Trace(
        task_id=line.sample_id,
        task_set=line.evaluation_name or "",
        task_repeat=repeat,
        model=line.model_id or "",
        outcome=outcome,
        end=End.INFRA_ERROR if line.error else End.UNKNOWN,
        score=found.score,
        n_steps=len(steps) if known else 1 if line.interaction_type == "single_turn" else None,
        steps=steps,
        job_id=line.evaluation_id,
        source_type=EveryEvalEverReader.name,
        source_uri=str(source),
    )


def _step(message: _Message) -> Step:
    if not message.tool_calls:
        return respond(message.content if isinstance(message.content, str) else "")
    calls = [
        (call.name or "", bytes(call.arguments).decode("utf-8", "replace"))
        for call in message.tool_calls
    ]
    return tool_step(calls)
