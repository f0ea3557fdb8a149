"""OpenHands evaluation output (``output.jsonl``): an instance a line, with its stream of events.

A step is an action of the agent; its observation is the event that names it as its ``cause``. A
call that could not be understood leaves an error without an action: it took a turn, and is a step
too. The line says how a run ended, never whether the patch was right, unless the harness wrote its
report into ``test_result``: else join the verdicts with ``--outcomes FILE``. The oldest files
hold pairs of action and observation; events of the newer kit, which have a ``kind``, are read by
`_openhands_kit`. Its lines number the attempts that a critic asked for: they count as attempts of
one job, and those after the first are told, since they were made because one before was rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from sojourn.readers._json import BadRecordError, Line, decode, json_lines, sniff
from sojourn.readers._openhands_kit import BAD_CALL, KitEvent, is_kit, kit_end, kit_steps
from sojourn.readers._steps import respond, tool_step
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Step, StepKind, Trace

__all__ = ["OpenHandsReader"]

_NOTHING = msgspec.Raw(b"null")
_NO_STEPS = frozenset({"system", "recall", "change_agent_state", "null", "condensation"})
_FINISHED = frozenset({"finish", "reject"})  # to reject a task is to give it up
# Words of the message with which a run broke off, in the order in which they are looked for.
_ENDS: tuple[tuple[str, End, LimitKind | None], ...] = (
    ("maximum iteration", End.LIMIT, LimitKind.STEPS),
    ("maxiteration", End.LIMIT, LimitKind.STEPS),
    ("maximum budget", End.LIMIT, LimitKind.COST),
    ("max budget", End.LIMIT, LimitKind.COST),
    ("contextwindow", End.LIMIT, LimitKind.CONTEXT),
    ("context window", End.LIMIT, LimitKind.CONTEXT),
    ("agentstuckinloop", End.AGENT_ERROR, None),
    ("stuck in a loop", End.AGENT_ERROR, None),
)


class _Args(msgspec.Struct):
    command: str | None = None
    code: str | None = None
    content: str | None = None
    name: str | None = None


class _ExitCode(msgspec.Struct):
    exit_code: int | None = None


class _Extras(msgspec.Struct):
    metadata: _ExitCode | None = None


class _Event(msgspec.Struct):
    id: int | str | None = None
    source: str | None = None
    action: msgspec.Raw = _NOTHING
    observation: msgspec.Raw = _NOTHING
    cause: int | str | None = None
    success: bool | None = None
    args: msgspec.Raw = _NOTHING
    extras: msgspec.Raw = _NOTHING
    content: msgspec.Raw = _NOTHING


class _LLM(msgspec.Struct):
    model: str | None = None


class _Metadata(msgspec.Struct):
    agent_class: str | None = None
    llm_config: _LLM | None = None
    llm: _LLM | None = None
    eval_output_dir: str | None = None
    max_iterations: int | None = None
    dataset: str | None = None


class _Report(msgspec.Struct):
    resolved: bool | None = None
    error_eval: bool | None = None


class _TestResult(msgspec.Struct):
    report: _Report | None = None


class _Instance(msgspec.Struct):
    instance_id: str | int
    attempt: int | None = None
    history: list[msgspec.Raw] | None = None
    metadata: _Metadata | None = None
    error: str | None = None
    test_result: msgspec.Raw = _NOTHING


class OpenHandsReader:
    """Reads the evaluation output of OpenHands."""

    name = "openhands"
    description = "OpenHands evaluation output (output.jsonl)"
    carries = "steps; outcome where the harness wrote it"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line is an instance with a history or a result."""
        found = sniff(head)
        if found.kind not in ("object", "lines") or "instance_id" not in found.keys:
            return False
        return "history" in found.keys or {"test_result", "instruction"} <= found.keys

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace a line, then how many of them a critic asked for."""
        n_asked = 0
        for line in json_lines(source):
            for record in _records(line, source):
                n_asked += isinstance(record, Trace) and (record.task_repeat or 0) > 0
                yield record
        if n_asked:
            reason = "attempts that were made because a critic rejected one before"
            yield Skipped(source=str(source), reason=reason, count=n_asked, what="key")


class _History(NamedTuple):
    """The steps of a run, None where they are unknown, and how it ended."""

    steps: list[Step] | None
    end: End
    limit_kind: LimitKind | None


def _records(line: Line, source: Path) -> Iterator[Record]:
    place = f"{source}, line {line.number}"
    try:
        instance = decode(line.text, _Instance)
        try:
            history = _history(instance)
        except BadRecordError as error:
            yield Skipped(source=place, reason=f"the history: {error}", what="key")
            history = _History(None, *_end(instance.error, ""))
        yield _trace(instance, history, source)
    except ValueError as error:
        whole = line.text.endswith(b"\n")
        reason = str(error) if whole else f"the last line is incomplete: {error}"
        yield Skipped(source=place, reason=reason, what="line")


def _history(instance: _Instance) -> _History:
    raw = instance.history or []
    if not is_kit(raw):
        events = list(_events(raw))
        return _History(list(_steps(events)), *_end(instance.error, _last_action(events)))
    found = [decode(event, KitEvent) for event in raw]
    end, limit_kind, error = kit_end(found)
    if instance.error or error:
        end, limit_kind = _end(instance.error or error, "")
    return _History(kit_steps(found), end, limit_kind)


def _trace(instance: _Instance, history: _History, source: Path) -> Trace:
    metadata = instance.metadata or _Metadata()
    outcome, is_fault = _verdict(instance.test_result)
    end, limit_kind = (End.INFRA_ERROR, None) if is_fault else history[1:]
    limit = metadata.max_iterations or 0
    llm = metadata.llm_config or metadata.llm or _LLM()
    attempt = instance.attempt
    job = PurePosixPath(metadata.eval_output_dir or "").name
    return Trace(
        task_id=str(instance.instance_id),
        task_repeat=None if attempt is None else max(attempt - 1, 0),
        task_set=metadata.dataset or "",
        agent=metadata.agent_class or "",
        model=llm.model or "",
        job_id="" if attempt is None else job,
        outcome=outcome,
        end=end,
        limit_kind=limit_kind,
        step_limit=limit if 0 < limit < 2**31 else None,
        n_steps=None if history.steps is None else len(history.steps),
        steps=tuple(history.steps or ()),
        source_type=OpenHandsReader.name,
        source_uri=str(source),
    )


def _verdict(raw: msgspec.Raw) -> tuple[Outcome, bool]:
    """Return the harness's verdict, and whether the harness itself failed."""
    try:
        result = decode(raw, _TestResult | None)  # type: ignore[arg-type]
    except BadRecordError:
        return Outcome.UNSCORED, False
    report = result.report if result is not None else None
    if report is None or report.resolved is None:
        return Outcome.UNSCORED, bool(report and report.error_eval)
    if report.resolved:
        return Outcome.SUCCESS, False
    return (Outcome.UNSCORED, True) if report.error_eval else (Outcome.FAILURE, False)


def _end(error: str | None, last: str) -> tuple[End, LimitKind | None]:
    if error:
        plain = error[:4096].casefold()
        for words, end, limit_kind in _ENDS:
            if words in plain:
                return end, limit_kind
        return End.INFRA_ERROR, None
    return (End.FINISHED if last in _FINISHED else End.UNKNOWN), None


def _events(history: list[msgspec.Raw]) -> Iterator[_Event]:
    """Yield the events of a history, and of the pairs of the oldest ones."""
    for raw in history:
        if bytes(memoryview(raw)[:1]) == b"[":
            yield from decode(raw, list[_Event])
        else:
            yield decode(raw, _Event)


def _last_action(events: list[_Event]) -> str:
    for event in reversed(events):
        if event.source in ("agent", None) and (name := _word(event.action)):
            return name
    return ""


def _steps(events: list[_Event]) -> Iterator[Step]:
    answers: dict[Any, _Event] = {}
    previous: _Event | None = None
    for event in events:
        if event.cause is not None:
            answers.setdefault(event.cause, event)
        elif previous is not None and previous.id is None and _word(event.observation):
            answers[id(previous)] = event  # the pairs of old name no cause
        previous = event if _word(event.action) else None
    for event in events:
        name = _word(event.action)
        if event.source not in ("agent", None):
            continue
        if not name:
            if _word(event.observation) == "error" and event.cause is None and event.id is not None:
                yield Step(name=BAD_CALL, ok=False)
        elif name not in _NO_STEPS:
            key = event.id if event.id is not None else id(event)
            yield _step(name, event, _is_ok(answers.get(key)))


def _step(name: str, event: _Event, ok: bool | None) -> Step:
    try:
        args: _Args = decode(event.args, _Args | None) or _Args()  # type: ignore[arg-type]
    except BadRecordError:
        args = _Args()
    text = bytes(event.args).decode("utf-8", "replace")
    if name == "message":
        return respond(args.content or "", ok=ok)
    if name == "run":
        return tool_step([("bash", args.command or "")], ok=ok, command=args.command)
    if name in ("mcp", "call_tool_mcp"):
        return tool_step([(args.name or name, text)], ok=ok)
    step = tool_step([(name, text)], ok=ok)
    return replace(step, kind=StepKind.HANDOFF) if name == "delegate" else step


def _is_ok(answer: _Event | None) -> bool | None:
    """Return whether an observation reports no error, None where there is none."""
    if answer is None:
        return None
    if _word(answer.observation) == "error":
        return False
    if answer.success is not None:
        return answer.success
    try:
        extras = decode(answer.extras, _Extras | None)  # type: ignore[arg-type]
    except BadRecordError:
        extras = None
    if extras is not None and extras.metadata is not None:
        return extras.metadata.exit_code in (0, None)
    return not bytes(memoryview(answer.content)[:7]).startswith(b'"ERROR:')


def _word(raw: msgspec.Raw) -> str:
    """Return the name of an action or observation, "" where there is none."""
    text = bytes(memoryview(raw)[:80])
    return text[1:].partition(b'"')[0].decode("utf-8", "replace") if text[:1] == b'"' else ""
