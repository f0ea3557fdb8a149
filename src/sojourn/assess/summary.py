"""What a corpus holds, counted: the part of a result that needs no statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.corpus import ResolvedRuns, TraceCorpus
from sojourn.corpus.traces import ENDS, LIMIT_KINDS, OUTCOMES
from sojourn.records import End, Skipped

__all__ = ["CorpusSummary", "LengthRow", "identical_attempts", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthRow:
    """Lengths of the runs of one outcome and end.

    Attributes
    ----------
    outcome, end : str
        The two axes; a limit's kind stands behind its end.
    n_runs : int
        Number of runs.
    quantiles : tuple of int, or None
        Minimum, quartiles and maximum of the number of steps; None where no length is known.
    """

    outcome: str
    end: str
    n_runs: int
    quantiles: tuple[int, int, int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSummary:
    """Counts of one group of runs.

    Attributes
    ----------
    n_traces, n_tasks, n_units : int
        Runs read, tasks they are at, units of resampling of those that count.
    n_counted : int
        Runs that count under the policy.
    n_steps : int
        Steps of all runs, where known.
    attempts : (int, int, int)
        Minimum, median and maximum of the counted attempts per task.
    outcomes, ends : mapping of str to int
        Runs by outcome and by end.
    lengths : tuple of LengthRow
        Lengths by outcome and end.
    excluded : tuple of (str, int)
        Runs that do not count, by reason.
    skipped : tuple of Skipped
        What the readers left out, of the whole input.
    identical_attempts : int
        Runs whose actions equal those of an earlier attempt at the same task, byte for byte.
    sources : mapping of str to int
        Runs by format.
    """

    n_traces: int
    n_tasks: int
    n_units: int
    n_counted: int
    n_steps: int
    attempts: tuple[int, int, int]
    outcomes: Mapping[str, int]
    ends: Mapping[str, int]
    lengths: tuple[LengthRow, ...]
    excluded: tuple[tuple[str, int], ...]
    skipped: tuple[Skipped, ...]
    identical_attempts: int
    sources: Mapping[str, int]

    @property
    def n_skipped(self) -> int:
        """Number of skipped items that may have cost a run."""
        return sum(item.count for item in self.skipped if item.what in ("run", "line", "file"))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts in the form of the JSON contract."""
        low, median, high = self.attempts
        return {
            "n_traces": self.n_traces,
            "n_tasks": self.n_tasks,
            "n_units": self.n_units,
            "n_counted": self.n_counted,
            "n_steps": self.n_steps,
            "attempts": {"min": low, "median": median, "max": high},
            "outcomes": dict(self.outcomes),
            "ends": dict(self.ends),
            "excluded": [{"reason": reason, "count": count} for reason, count in self.excluded],
            "skipped": [
                {"source": s.source, "reason": s.reason, "count": s.count, "what": s.what}
                for s in self.skipped
            ],
            "duplicates": {"identical_attempts": self.identical_attempts},
            "lengths": [
                {
                    "outcome": row.outcome,
                    "end": row.end,
                    "n_runs": row.n_runs,
                    "quantiles": None if row.quantiles is None else list(row.quantiles),
                }
                for row in self.lengths
            ],
            "sources": dict(self.sources),
        }


def summarise(corpus: TraceCorpus, resolved: ResolvedRuns) -> CorpusSummary:
    """Count what a corpus holds and what of it counts."""
    per_task = np.bincount(resolved.task) if resolved.n_runs else np.zeros(1, np.int64)
    known = corpus.n_steps[corpus.n_steps >= 0]
    source = corpus.source_type
    per_source = np.bincount(source.codes + 1, minlength=len(source.values) + 1).tolist()
    return CorpusSummary(
        n_traces=len(corpus),
        n_tasks=corpus.n_tasks,
        n_units=int(np.unique(resolved.unit).size),
        n_counted=resolved.n_runs,
        n_steps=int(known.sum(dtype=np.int64)),
        attempts=(int(per_task.min()), int(np.median(per_task)), int(per_task.max())),
        outcomes=_counts(corpus.outcome, OUTCOMES),
        ends=_counts(corpus.end, ENDS),
        lengths=tuple(_length_rows(corpus)),
        excluded=resolved.excluded,
        skipped=corpus.skipped,
        identical_attempts=identical_attempts(corpus.select(resolved.index)),
        sources={
            name: n for name, n in zip(("unknown", *source.values), per_source, strict=True) if n
        },
    )


def _counts(codes: npt.NDArray[np.int8], members: tuple[Any, ...]) -> dict[str, int]:
    counts = np.bincount(codes, minlength=len(members))
    return {str(member): int(n) for member, n in zip(members, counts, strict=True) if n}


def _length_rows(corpus: TraceCorpus) -> Iterator[LengthRow]:
    for outcome_code, outcome in enumerate(OUTCOMES):
        for end_code, end in enumerate(ENDS):
            runs = (corpus.outcome == outcome_code) & (corpus.end == end_code)
            kinds = range(-1, len(LIMIT_KINDS)) if end is End.LIMIT else (None,)
            for kind in kinds:
                mask = runs if kind is None else runs & (corpus.limit_kind == kind)
                if not mask.any():
                    continue
                steps = corpus.n_steps[mask]
                steps = steps[steps >= 0]
                label = str(end) if kind is None or kind < 0 else f"{end} ({LIMIT_KINDS[kind]})"
                yield LengthRow(
                    outcome=str(outcome),
                    end=label,
                    n_runs=int(mask.sum()),
                    quantiles=_quantiles(steps) if steps.size else None,
                )


def _quantiles(steps: npt.NDArray[np.int32]) -> tuple[int, int, int, int, int]:
    low, first, middle, third, high = np.quantile(
        steps, (0, 0.25, 0.5, 0.75, 1), method="closest_observation"
    )
    return int(low), int(first), int(middle), int(third), int(high)


def identical_attempts(corpus: TraceCorpus) -> int:
    """Return how many runs repeat the actions of an earlier attempt at their task, byte for byte.

    Runs of one group are expected; runs without digests or without steps are not compared.
    """
    digests = corpus.run_digests()
    known = np.flatnonzero(digests)
    if not known.size:
        return 0
    pairs = np.stack([corpus.task[known].astype(np.uint64), digests[known]], axis=1)
    return int(known.size - np.unique(pairs, axis=0).shape[0])
