"""SWE-bench reports of a run (``<model>.<run_id>.json``) by themselves: verdicts without steps.

Each instance that a report names is a run of one task; several reports of one model are attempts at
the same tasks. Instances that were never attempted are counted, not read. A report that lies beside
trajectories belongs to them, and is read with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._json import BadRecordError, decode, open_buffer
from sojourn.readers._swebench import is_run_report, run_findings
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Skipped, Trace

__all__ = ["SweBenchReportReader"]

_TRAJECTORIES = ("*.traj.json", "*/*.traj.json")


class _Rest(msgspec.Struct):
    incomplete_ids: list[str] | None = None
    completed_ids: list[str] | None = None


class SweBenchReportReader:
    """Reads the SWE-bench report of a run."""

    name = "swe-bench-report"
    description = "SWE-bench reports of a run (MODEL.RUN_ID.json), without trajectories beside them"
    carries = "outcome"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is such a report, and no trajectory of mini-swe-agent its own."""
        if source.suffix != ".json" or not is_run_report(head):
            return False
        folder = source.parent
        return not any(next(folder.glob(pattern), None) for pattern in _TRAJECTORIES)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a report stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace an instance, then what has no verdict or was not run.

        Raises
        ------
        ReaderError
            If the file is no such report.
        """
        data = open_buffer(source)
        try:
            findings = run_findings(data)
            rest = decode(data, _Rest)
        except BadRecordError as error:
            raise ReaderError(f"{source}: {error}") from None
        model, _, run = source.stem.rpartition(".")
        for task_id, (outcome, infra) in findings.items():
            if not task_id.strip():
                yield Skipped(source=str(source), reason="an instance without a name")
                continue
            yield Trace(
                task_id=task_id,
                model=(model or run).replace("__", "/"),
                outcome=outcome,
                end=End.INFRA_ERROR if infra else End.UNKNOWN,
                job_id=str(source),
                source_type=self.name,
                source_uri=str(source),
            )
        for reason, ids in (
            ("instances that were not attempted", rest.incomplete_ids),
            ("completed instances that no list gives a verdict", rest.completed_ids),
        ):
            if count := len(set(ids or ()) - findings.keys()):
                yield Skipped(source=str(source), reason=reason, count=count, what="key")
