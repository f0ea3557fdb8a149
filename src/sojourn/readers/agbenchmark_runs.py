"""agbenchmark reports as attempts: each report tries each of its tests once.

The same reports are sessions by default (`agbenchmark`); here the order of their tests is left
aside, and the reports of one agent are attempts at the same tests. The task is the test, its
cluster the list of its categories. A test that was not attempted, since one that it depends on had
failed, is cancelled and has no verdict; one that reached the cutoff ended by a limit of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sojourn.readers._steps import first_name
from sojourn.readers.agbenchmark import AgbenchmarkReader
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, TaskResult, Trace

__all__ = ["AgbenchmarkRunsReader"]


class AgbenchmarkRunsReader:
    """Reads the reports of agbenchmark as attempts."""

    name = AgbenchmarkReader.name
    description = "agbenchmark reports (report.json) as attempts at their tests"
    carries = "outcome, attempts"
    heeds: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._sessions = AgbenchmarkReader()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is a report."""
        return self._sessions.claims(source, head)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a report stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a test."""
        for record in self._sessions.read(source, options):
            yield _trace(record) if isinstance(record, TaskResult) else record


def _trace(task: TaskResult) -> Trace:
    return Trace(
        task_id=first_name(task.item, f"test {task.position}"),
        task_set=task.domain,
        agent=task.agent,
        cluster=task.subdomain,
        outcome=task.outcome,
        end=task.end,
        limit_kind=LimitKind.TIME if task.end is End.LIMIT else None,
        job_id=task.session_id,
        source_type=task.source_type,
        source_uri=task.source_uri,
    )
