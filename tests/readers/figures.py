"""Slow and obvious figures of a corpus, for comparing a reader with counts made without it."""

from __future__ import annotations

from collections import Counter
from math import comb

from sojourn.corpus import TraceCorpus
from sojourn.records import End, Outcome, Trace


def traces(corpus: TraceCorpus) -> list[Trace]:
    return [corpus.trace(run) for run in range(len(corpus))]


def group(corpus: TraceCorpus, **labels: str) -> TraceCorpus:
    """Return the one group of the default grouping that has these labels."""
    found = [
        members for key, members in corpus.groups() if labels.items() <= dict(key.labels).items()
    ]
    assert len(found) == 1, labels
    return corpus.select(found[0])


def n_success(corpus: TraceCorpus) -> int:
    return sum(trace.outcome is Outcome.SUCCESS for trace in traces(corpus))


def ends(corpus: TraceCorpus) -> dict[End, int]:
    return dict(Counter(trace.end for trace in traces(corpus)))


def lengths(corpus: TraceCorpus) -> tuple[int, float, int]:
    """Return the least, median and greatest number of steps."""
    steps = sorted(trace.n_steps or 0 for trace in traces(corpus))
    middle = (steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2
    return steps[0], middle, steps[-1]


def pass_hat(corpus: TraceCorpus, k: int) -> float:
    """Return the mean of C(c, k) / C(n, k) over the tasks with at least k attempts."""
    runs = traces(corpus)
    n = Counter((t.task_set, t.task_id) for t in runs)
    c = Counter((t.task_set, t.task_id) for t in runs if t.outcome is Outcome.SUCCESS)
    values = [comb(c[task], k) / comb(n[task], k) for task in n if n[task] >= k]
    return sum(values) / len(values)


def success_within(corpus: TraceCorpus, d: int) -> float:
    """Return the share of all runs that succeed in at most d steps."""
    runs = traces(corpus)
    return sum(t.outcome is Outcome.SUCCESS and (t.n_steps or 0) <= d for t in runs) / len(runs)


def ended_within(corpus: TraceCorpus, d: int) -> float:
    runs = traces(corpus)
    return sum((t.n_steps or 0) <= d for t in runs) / len(runs)


def name_counts(corpus: TraceCorpus) -> Counter[str]:
    return Counter(step.name for trace in traces(corpus) for step in trace.steps)
