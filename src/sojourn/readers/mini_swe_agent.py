"""mini-swe-agent trajectories (``*.traj.json``), joined with the SWE-bench reports beside them.

A trajectory says how a run ended, never whether its patch was right: ``Submitted`` is no success.
The verdict is taken from ``<instance>.report.json`` or ``report.json`` in the same folder, else
from the report of a run there or one folder up; without any the run is unscored. The file is saved
after every step: one without an exit message was stopped from outside, and counts as cancelled.
The oldest trajectories are bare lists of messages, with commands in fenced blocks of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn._limits import OBSERVATION_LETTERS
from sojourn.errors import ReaderError
from sojourn.readers._json import BadRecordError, decode, open_buffer, read_head, sniff
from sojourn.readers._steps import respond, tool_step
from sojourn.readers._swebench import (
    UNSCORED,
    Finding,
    instance_findings,
    is_run_report,
    run_findings,
)
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Skipped, Step, Trace

__all__ = ["MiniSweAgentReader"]

SUFFIX = ".traj.json"
AGENT = "mini-swe-agent"
# The agent submits by printing a marker: such a command is its `submit`, whatever stands around.
SUBMIT = "submit"
_MARKER = re.compile(
    r"\becho\s++[\"']?(?:COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT)"
)
_FENCE = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*+\n")
_RETURN_CODE = re.compile(r"\s*+<returncode>\s*+(-?\d{1,9})\s*+</returncode>")
_NO_TEXT = msgspec.Raw(b"null")


class _Action(msgspec.Struct):
    command: str | None = None


class _Extra(msgspec.Struct):
    actions: list[_Action] | None = None
    returncode: int | None = None
    exit_status: str | None = None


class _Message(msgspec.Struct):
    role: str | None = None
    # Undecoded: of a long observation nothing is wanted.
    content: msgspec.Raw = _NO_TEXT
    extra: _Extra | None = None
    # Models behind a responses interface log its objects, which have no role.
    object: str | None = None
    type: str | None = None

    def is_turn(self) -> bool:
        return self.role == "assistant" or self.object == "response"

    def is_answer(self) -> bool:
        return self.role in ("tool", "user") or self.type == "function_call_output"


class _AgentConfig(msgspec.Struct):
    step_limit: int | None = None
    cost_limit: float | None = None


class _ModelConfig(msgspec.Struct):
    model_name: str | None = None


class _Config(msgspec.Struct):
    agent: _AgentConfig = msgspec.field(default_factory=_AgentConfig)
    model: _ModelConfig = msgspec.field(default_factory=_ModelConfig)


class _Stats(msgspec.Struct):
    api_calls: int | None = None
    instance_cost: float | None = None


class _Info(msgspec.Struct):
    exit_status: str | None = None
    config: _Config = msgspec.field(default_factory=_Config)
    model_stats: _Stats = msgspec.field(default_factory=_Stats)


class _Trajectory(msgspec.Struct):
    messages: list[_Message]
    info: _Info = msgspec.field(default_factory=_Info)
    instance_id: str | None = None


class MiniSweAgentReader:
    """Reads the trajectories of mini-swe-agent and the reports beside them."""

    name = "mini-swe-agent"
    description = "mini-swe-agent trajectories, with SWE-bench reports beside them"
    carries = "outcome (from the report), steps"
    heeds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._run_reports: dict[Path, list[Path]] = {}
        self._findings: dict[Path, dict[str, Finding] | Skipped] = {}

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is named as a trajectory and holds messages."""
        if not source.name.endswith(SUFFIX) or not head:
            return False
        found = sniff(head)
        if found.kind == "array":
            return {"role", "content"} <= found.keys
        return found.kind == "object" and not found.keys.isdisjoint({"info", "messages"})

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return the reports that may hold the verdict."""
        return [*self._instance_reports(source, _stem(source)), *self._reports_of_runs(source)]

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the run, and what is wrong with a report that should hold its verdict."""
        data = open_buffer(source)
        try:
            if bytes(memoryview(data)[:4096]).lstrip()[:1] == b"[":
                run = _Trajectory(messages=decode(data, list[_Message]))
            else:
                run = decode(data, _Trajectory)
        except BadRecordError as error:
            raise ReaderError(f"{source}: {error}") from None
        task_id = run.instance_id or _stem(source)
        model = run.info.config.model.model_name or ""
        finding = UNSCORED
        for found in self._verdict(source, task_id, model):
            if isinstance(found, Skipped):
                yield found
            else:
                finding = found
        try:
            yield _trace(run, task_id, model, finding, source)
        except ValueError as error:
            raise ReaderError(f"{source}: {error}") from None

    def _instance_reports(self, source: Path, task_id: str) -> list[Path]:
        names = (f"{task_id}.report.json", f"{_stem(source)}.report.json", "report.json")
        return [path for name in dict.fromkeys(names) if (path := source.parent / name).is_file()]

    def _reports_of_runs(self, source: Path) -> list[Path]:
        """Return the reports of runs beside a trajectory, or one folder up if it has its own."""
        folders = [source.parent]
        if source.parent.name == _stem(source):
            folders.append(source.parent.parent)
        for folder in folders:
            if folder not in self._run_reports:
                self._run_reports[folder] = [
                    path
                    for path in sorted(folder.glob("*.json"))
                    if not path.name.endswith((SUFFIX, ".report.json"))
                    and path.is_file()
                    and is_run_report(read_head(path))
                ]
        return [path for folder in folders for path in self._run_reports[folder]]

    def _verdict(self, source: Path, task_id: str, model: str) -> Iterator[Finding | Skipped]:
        """Yield the verdict, if there is one, after what is wrong with the reports."""
        for path in self._instance_reports(source, task_id):
            report = self._report(path)
            if isinstance(report, Skipped):
                yield report
            elif task_id in report:
                yield report[task_id]
                return
        reports = self._reports_of_runs(source)
        own = [path for path in reports if path.name.startswith(f"{model.replace('/', '__')}.")]
        findings = set()
        for path in own if model and own else reports:
            report = self._report(path)
            if isinstance(report, Skipped):
                yield report
            elif task_id in report:
                findings.add(report[task_id])
        if len(findings) > 1:
            yield Skipped(
                source=str(source), reason="the reports beside it contradict each other", what="key"
            )
        elif findings:
            yield findings.pop()

    def _report(self, path: Path) -> dict[str, Finding] | Skipped:
        if path not in self._findings:
            try:
                if path.name.endswith("report.json"):
                    self._findings[path] = instance_findings(path)
                else:
                    self._findings[path] = run_findings(open_buffer(path))
            except (BadRecordError, ReaderError, OSError) as error:
                self._findings[path] = Skipped(
                    source=str(path), reason=f"the report: {error}", what="file"
                )
        return self._findings[path]


def _stem(source: Path) -> str:
    return source.name.removesuffix(SUFFIX)


def _trace(run: _Trajectory, task_id: str, model: str, finding: Finding, source: Path) -> Trace:
    end, limit_kind = _end(run)
    if finding.infra:
        end, limit_kind = End.INFRA_ERROR, None
    steps = tuple(_steps(run.messages))
    folder = source.parent
    return Trace(
        task_id=task_id,
        agent=AGENT,
        model=model,
        outcome=finding.outcome,
        end=end,
        limit_kind=limit_kind,
        step_limit=limit if (limit := run.info.config.agent.step_limit or 0) > 0 else None,
        n_steps=len(steps),
        steps=steps,
        job_id=str(folder.parent if folder.name == _stem(source) else folder),
        source_type=MiniSweAgentReader.name,
        source_uri=str(source),
    )


def _end(run: _Trajectory) -> tuple[End, LimitKind | None]:
    last = run.messages[-1] if run.messages else _Message()
    status = last.extra.exit_status if last.role == "exit" and last.extra else None
    status = status or run.info.exit_status
    if status == "Submitted":
        return End.FINISHED, None
    if status == "LimitsExceeded":
        return End.LIMIT, _limit_kind(run.info)
    if status == "TimeExceeded":
        return End.LIMIT, LimitKind.TIME
    if status == "RepeatedFormatError":
        return End.AGENT_ERROR, None
    if status:
        return End.INFRA_ERROR, None  # the name of an exception
    if any(_submits(message) for message in run.messages[-2:]):
        return End.FINISHED, None  # a bare list of messages tells its end in no other way
    return End.CANCELLED, None


def _limit_kind(info: _Info) -> LimitKind:
    """Return which of the two budgets ran out; the exit message does not tell."""
    calls, cost = info.model_stats.api_calls, info.model_stats.instance_cost
    limits = info.config.agent
    if calls is not None and limits.step_limit and calls >= limits.step_limit:
        return LimitKind.STEPS
    if cost is not None and limits.cost_limit and cost >= limits.cost_limit:
        return LimitKind.COST
    return LimitKind.CUSTOM


def _submits(message: _Message) -> bool:
    return message.is_turn() and any(map(_MARKER.search, _commands(message)))


def _commands(message: _Message) -> list[str]:
    if message.extra is not None and message.extra.actions:
        return [action.command or "" for action in message.extra.actions]
    return list(_fenced(_text(message)))


def _fenced(text: str) -> Iterator[str]:
    """Yield what stands in fenced blocks; a fence that is never closed ends the search."""
    position = 0
    while (start := _FENCE.search(text, position)) is not None:
        end = text.find("\n```", start.end() - 1)
        if end < 0:
            return
        yield text[start.end() : end]
        position = end + 4


def _text(message: _Message) -> str:
    """Return the text of a message, of a list of parts the first one's; what is too long, cut."""
    try:
        content = decode(message.content, str | list[_Part] | None)  # type: ignore[arg-type]
    except BadRecordError:
        return ""
    if isinstance(content, list):
        content = content[0].text if content else ""
    return (content or "")[:OBSERVATION_LETTERS]


class _Part(msgspec.Struct):
    text: str | None = None


def _steps(messages: list[_Message]) -> Iterator[Step]:
    for position, message in enumerate(messages):
        if not message.is_turn():
            continue
        commands = _commands(message)
        if not commands:
            yield respond(_text(message))
            continue
        codes = list(_return_codes(messages, position))
        calls = [("bash", command) for command in commands]
        if _MARKER.search(commands[0]):
            calls[0] = (SUBMIT, commands[0])
        ok = not any(codes) if codes else None
        yield tool_step(calls, ok=ok, command=commands[0])


def _return_codes(messages: list[_Message], position: int) -> Iterator[int]:
    """Yield the return codes of the observations that directly follow a message."""
    for index in range(position + 1, len(messages)):
        message = messages[index]
        if not message.is_answer():
            return
        if message.extra is not None and message.extra.returncode is not None:
            yield message.extra.returncode
        elif matched := _RETURN_CODE.match(_text(message)):
            yield int(matched.group(1))
