"""agbenchmark reports (``report.json``): one run of the whole suite of tests is one session.

``tests`` is an ordered object of name -> test; a suite nests another ``tests``, and its leaves are
the tasks, in the order in which they stand. The domain is ``agbenchmark``, the subdomain the list
of categories joined by ``+``, the item the test's name. ``attempted: false`` means that a test was
not run because one that it depends on had failed: it is cancelled, has no outcome, and keeps its
place. Reports of an older kind do not say whether a test was attempted; all of theirs count. A test
that reached the cutoff ended by a limit, whether it succeeded or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from sojourn._limits import SUITE_DEPTH
from sojourn.errors import ReaderError
from sojourn.readers._json import (
    BadRecordError,
    Buffer,
    decode,
    is_closed,
    object_fields,
    open_buffer,
    sniff,
)
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, TaskResult

__all__ = ["AgbenchmarkReader"]

DOMAIN = "agbenchmark"
NO_CATEGORY = "none"
REPORTS = "reports"
_OLD_TIME = "%Y-%m-%d-%H:%M"


class _Metrics(msgspec.Struct):
    success: bool | None = None
    attempted: bool | None = None


class _Test(msgspec.Struct):
    category: list[str] | None = None
    metrics: _Metrics | None = None
    reached_cutoff: bool | None = None


class _Entry(msgspec.Struct):
    tests: msgspec.Raw = msgspec.Raw(b"null")


class _Session(NamedTuple):
    """What all tests of a report share."""

    session_id: str
    agent: str
    started: float | None
    source: str


class AgbenchmarkReader:
    """Reads the reports of agbenchmark."""

    name = "agbenchmark"
    kind = "sessions"
    description = "agbenchmark reports (report.json); a report is a session"
    carries = "outcomes in order"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is an object with tests and the time at which they began."""
        found = sniff(head)
        return found.kind == "object" and {"benchmark_start_time", "tests"} <= found.keys

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a report stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one task a leaf of ``tests``."""
        data = open_buffer(source)
        fields = object_fields(data, source=str(source))
        if not is_closed(data):
            yield Skipped(source=str(source), reason="the report is truncated", what="line")
        if "tests" not in fields:
            raise ReaderError(f"{source}: no tests in it; is the report complete?")
        session = _session(fields, source)
        n_tasks = 0
        for item in _leaves(fields["tests"], str(source)):
            if isinstance(item, Skipped):
                yield item
                continue
            try:
                yield _task(item, n_tasks, session)
            except (BadRecordError, ValueError) as error:
                yield Skipped(source=f"{source}, test {n_tasks}", reason=str(error))
            n_tasks += 1
        if not n_tasks:
            yield Skipped(source=str(source), reason="the report holds no test")


def _session(fields: dict[str, Buffer], source: Path) -> _Session:
    started = None
    for name in ("benchmark_start_time", "completion_time"):
        if started is None and name in fields:
            started = _seconds(fields[name])
    agent = _agent(source) or _repository(fields.get("agent_git_commit_sha", b"null"))
    return _Session(source.absolute().parent.name or source.name, agent, started, str(source))


def _text(raw: Buffer) -> str:
    try:
        return decode(raw, str | None) or ""  # type: ignore[arg-type]
    except BadRecordError:
        return ""


def _seconds(raw: Buffer) -> float | None:
    """Return a time in seconds since 1970; one without a zone is taken as UTC."""
    text = _text(raw)
    for parse in (datetime.fromisoformat, lambda text: datetime.strptime(text, _OLD_TIME)):
        try:
            time = parse(text)
        except ValueError:
            continue
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        return seconds if math.isfinite(seconds) else None
    return None


def _agent(source: Path) -> str:
    """Return the folder below ``reports`` that collects the runs of one agent, or nothing."""
    parts = source.absolute().parts
    if REPORTS not in parts:
        return ""
    place = len(parts) - 1 - parts[::-1].index(REPORTS)
    # reports/AGENT/RUN/report.json; without a run's folder the name would be the run's.
    return parts[place + 1] if len(parts) > place + 3 else ""


def _repository(raw: Buffer) -> str:
    """Return the name of the agent's repository from the address of its commit, or nothing."""
    address, _, commit = _text(raw).partition("/tree/")
    return address.rpartition("/")[2] if commit else ""


class _Leaf(NamedTuple):
    name: str
    raw: Buffer


def _leaves(tests: Buffer, source: str) -> Iterator[_Leaf | Skipped]:
    """Yield the leaves of nested suites in their order; by a stack, for reports are strangers'."""
    stack = [_entries(tests, source)]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            inner = decode(entry.raw, _Entry).tests
        except BadRecordError as error:
            yield Skipped(source=source, reason=f"a test is {error}")
            continue
        if bytes(memoryview(inner)[:1]) != b"{":
            yield entry
        elif len(stack) >= SUITE_DEPTH:
            yield Skipped(source=source, reason=f"suites nest deeper than {SUITE_DEPTH} levels")
        else:
            if bytes(memoryview(inner)[1:16]).strip() == b"}":
                yield Skipped(source=source, reason="a suite holds no test", what="key")
            stack.append(_entries(inner, source))


def _entries(tests: Buffer, source: str) -> Iterator[_Leaf | Skipped]:
    try:
        fields = object_fields(tests, source=source)
    except ReaderError:
        yield Skipped(source=source, reason="tests are no object of name -> test")
        return
    for name, raw in fields.items():
        yield _Leaf(name, raw)


def _task(leaf: _Leaf, position: int, session: _Session) -> TaskResult:
    test = decode(leaf.raw, _Test)
    metrics = test.metrics or _Metrics()
    if metrics.attempted is False:
        outcome, end = Outcome.UNSCORED, End.CANCELLED
    else:
        verdicts = {True: Outcome.SUCCESS, False: Outcome.FAILURE, None: Outcome.UNSCORED}
        outcome = verdicts[metrics.success]
        ends = {True: End.LIMIT, False: End.FINISHED, None: End.UNKNOWN}
        end = ends[test.reached_cutoff]
    return TaskResult(
        session_id=session.session_id,
        position=position,
        outcome=outcome,
        end=end,
        domain=DOMAIN,
        subdomain="+".join(test.category or ()) or NO_CATEGORY,
        item=leaf.name,
        agent=session.agent,
        started=session.started,
        source_type=AgbenchmarkReader.name,
        source_uri=session.source,
    )
