"""SWE-bench reports: the verdicts on patches that other tools' traces lack.

Two kinds stand beside traces. The report of one instance is ``{instance_id: {"resolved": bool}}``.
The report of a run lists instance ids by what became of them; its first version named the lists
``resolved``, ``applied``, ``no_generation`` and so on, the second ``resolved_ids``,
``unresolved_ids``. The lists overlap: an instance whose tests failed because the environment broke
stays in ``unresolved_ids`` and is named in ``infra_failure_ids`` as well. It is no failure of the
agent, so that list is asked first. An instance in ``error_ids`` has no verdict at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from sojourn.readers._json import Buffer, decode, open_buffer, sniff
from sojourn.records import Outcome

__all__ = ["Finding", "instance_findings", "is_run_report", "run_findings"]


class Finding(NamedTuple):
    """What a report says of one instance; `infra` when the harness, not the agent, was at fault."""

    outcome: Outcome
    infra: bool = False


SUCCESS = Finding(Outcome.SUCCESS)
FAILURE = Finding(Outcome.FAILURE)
UNSCORED = Finding(Outcome.UNSCORED)
INFRA = Finding(Outcome.UNSCORED, infra=True)

# The first list that names an instance decides. Ids that were never attempted
# (``incomplete_ids``) are no verdicts.
_LISTS: tuple[tuple[str, Finding], ...] = (
    ("infra_failure_ids", INFRA),
    ("install_fail", INFRA),
    ("reset_failed", INFRA),
    ("resolved_ids", SUCCESS),
    ("resolved", SUCCESS),
    ("unresolved_ids", FAILURE),
    ("empty_patch_ids", FAILURE),
    ("no_generation", FAILURE),
    ("no_apply", FAILURE),
    ("test_errored", FAILURE),
    ("test_timeout", FAILURE),
    ("applied", FAILURE),
    ("error_ids", UNSCORED),
)
_FIRST_VERSION = {"resolved", "applied", "generated"}
_SECOND_VERSION = {"resolved_ids", "unresolved_ids", "resolved_instances", "completed_ids"}


class _Report(msgspec.Struct):
    resolved: bool | None = None
    infra_failure: bool = False


_RunReport = msgspec.defstruct(
    "_RunReport",
    [(name, list[str], msgspec.field(default_factory=list)) for name, _ in _LISTS],
)


def is_run_report(head: bytes) -> bool:
    """Return whether a file that begins with `head` is the report of a run."""
    found = sniff(head)
    return found.kind == "object" and (
        not found.keys.isdisjoint(_SECOND_VERSION) or found.keys >= _FIRST_VERSION
    )


def run_findings(raw: Buffer) -> dict[str, Finding]:
    """Return what the report of a run says of each instance.

    Raises
    ------
    BadRecordError
        If it is not such a report.
    """
    lists = decode(raw, _RunReport)
    findings: dict[str, Finding] = {}
    for name, finding in _LISTS:
        for instance in getattr(lists, name):
            findings.setdefault(instance, finding)
    return findings


def instance_findings(path: Path) -> dict[str, Finding]:
    """Return what the report of one instance, or of several, says.

    Raises
    ------
    BadRecordError
        If it is not such a report.
    ReaderError
        If the file is empty.
    """
    reports = decode(open_buffer(path), dict[str, _Report])
    return {instance: _finding(report) for instance, report in reports.items()}


def _finding(report: _Report) -> Finding:
    if report.infra_failure:
        return INFRA
    if report.resolved is None:
        return UNSCORED
    return SUCCESS if report.resolved else FAILURE
