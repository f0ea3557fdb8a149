"""METR runs (``runs.jsonl``): a run a line, with its score and no steps.

The task family is the cluster: tasks of one family are alike, and are resampled together. What
ended a run with a fatal error stands in ``fatal_error_from``: the agent, a usage limit, a person,
or else the infrastructure. The ``alias`` is the name under which an agent is compared; human
baselines are runs too, under theirs. The file numbers no attempts, so they are counted in its
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn.readers._json import BadRecordError, json_lines, records, sniff
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Trace

__all__ = ["MetrRunsReader"]

_ENDS: dict[str | None, tuple[End, LimitKind | None]] = {
    None: (End.FINISHED, None),
    "": (End.FINISHED, None),
    "agent": (End.AGENT_ERROR, None),
    "usageLimits": (End.LIMIT, LimitKind.CUSTOM),
    "user": (End.CANCELLED, None),
}


class _Line(msgspec.Struct):
    task_id: str
    score_binarized: float | None = None
    score_cont: float | None = None
    task_family: str | None = None
    task_source: str | None = None
    alias: str | None = None
    model: str | None = None
    fatal_error_from: str | None = None


class MetrRunsReader:
    """Reads the runs that METR publishes."""

    name = "metr-runs"
    description = "METR runs (runs.jsonl): a scored run a line"
    carries = "outcome, attempts, families of tasks"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the first line is a run with a binary score."""
        found = sniff(head)
        return found.kind in ("object", "lines") and {"task_id", "score_binarized"} <= found.keys

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield one trace a line."""
        attempts: Counter[tuple[str, str, str]] = Counter()
        yield from records(
            json_lines(source),
            _Line,
            source=str(source),
            build=lambda line: _trace(line, attempts, source),
        )


def _trace(line: _Line, attempts: Counter[tuple[str, str, str]], source: Path) -> Trace:
    end, limit_kind = _ENDS.get(line.fatal_error_from, (End.INFRA_ERROR, None))
    task_set, model = line.task_source or "", line.alias or line.model or ""
    if line.score_binarized not in (0, 1, None):
        raise BadRecordError("score_binarized is neither 0 nor 1")
    verdicts = {0.0: Outcome.FAILURE, 1.0: Outcome.SUCCESS, None: Outcome.UNSCORED}
    key = (task_set, model, line.task_id)
    trace = Trace(
        task_id=line.task_id,
        task_set=task_set,
        task_repeat=attempts[key],
        model=model,
        cluster=line.task_family or None,
        outcome=verdicts[line.score_binarized],
        score=line.score_cont,
        end=end,
        limit_kind=limit_kind,
        source_type=MetrRunsReader.name,
        source_uri=str(source),
    )
    attempts[key] += 1
    return trace
