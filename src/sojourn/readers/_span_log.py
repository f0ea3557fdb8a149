"""Gathering the spans of many runs, in any order, without holding more than so many of them.

What is kept of a span is small and holds no text, and all of a file is gathered before its runs
are told, up to `OPEN_SPANS` spans. In a longer file the traces that were quiet the longest are then
closed, those with their root and all parents first; a span that comes for a closed trace is counted
and left out. So memory stays flat whatever the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sojourn._limits import EVALUATIONS, OPEN_SPANS
from sojourn.readers._inspect_scores import listing, printable
from sojourn.readers._rows import verdict_of_word
from sojourn.readers._spans import Forest, Kind, Span, forest, steps_of
from sojourn.readers._steps import without_ids
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, Outcome, Skipped, Trace

__all__ = ["Evaluation", "Found", "SpanLog"]

_REPEATED = "spans with an id that their trace has twice; the first counts"
_ORPHANS = "spans whose parent is not in the log; they count as roots"


class Evaluation(NamedTuple):
    """A verdict that somebody wrote beside a run: a word, a number, or both, as text."""

    name: str
    label: str
    value: str


class Found(NamedTuple):
    """A span and what it says of its whole trace; `labels` holds the attributes asked for.

    Where a log has a record of the trace itself, there is no span with it.
    """

    trace_id: str
    span: Span | None
    session_id: str
    evaluations: list[Evaluation]
    labels: dict[str, str]


@dataclass(slots=True)
class _Open:
    """A trace that may still grow."""

    spans: list[Span] = field(default_factory=list)
    program: str = ""
    session_id: str = ""
    evaluations: list[Evaluation] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    has_root: bool = False
    n_found: int = 0

    def is_complete(self) -> bool:
        """Return whether the root and each parent have come."""
        ids = {span.span_id for span in self.spans}
        return self.has_root and all(not s.parent_id or s.parent_id in ids for s in self.spans)

    def start(self) -> int:
        """Return when it began."""
        return min((span.start for span in self.spans), default=0)


@dataclass(slots=True)
class SpanLog:
    """What is being gathered from one source of a format.

    Attributes
    ----------
    source, source_type : Path, str
        The file, and the name of its format.
    options : ReadOptions
        Which attributes hold a run's labels, and which evaluation counts.
    only_chosen : bool
        Whether an evaluation is a verdict only where ``--scorer`` names it.
    keys : mapping of str to str
        Our field -> the attribute that holds it where the user named none, or a run has not the
        one named.
    """

    source: Path
    source_type: str
    options: ReadOptions
    only_chosen: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    _open: dict[str, _Open] = field(default_factory=dict)  # the one touched last stands last
    _closed: set[int] = field(default_factory=set)
    _notes: Counter[tuple[str, str]] = field(default_factory=Counter)
    _positions: Counter[str] = field(default_factory=Counter)
    _n_spans: int = 0
    _jobs: set[str] = field(default_factory=set)  # two of them tell enough
    _scorers: dict[str, None] = field(default_factory=dict)  # in the order in which they came

    def records(self, items: Iterator[tuple[Found, str] | Skipped]) -> Iterator[Record]:
        """Yield the runs that spans are of, then what is to be told about them.

        Parameters
        ----------
        items : iterator of (Found, str) or Skipped
            The spans, each with the name of its program, and what was left out.
        """
        for item in items:
            if isinstance(item, Skipped):
                yield item
                continue
            self._add(*item)
            if self._n_spans > OPEN_SPANS:
                yield from self._close_some()
        yield from self._tell(list(self._open))
        self._tell_scorers()
        if len(self._jobs) > 1 and "job_id" not in self.options.columns:
            self.note("runs of several jobs in one log; --by job_id keeps them apart")
        for (reason, what), count in self._notes.items():
            yield Skipped(source=str(self.source), reason=reason, what=what, count=count)

    def heard_of(self, scorer: str) -> None:
        """Remember the name of who judged a run."""
        if scorer in self._scorers or len(self._scorers) < EVALUATIONS:
            self._scorers[scorer] = None

    def _tell_scorers(self) -> None:
        """Say who judged, where the one that was asked for did not."""
        asked = self.options.scorer
        if asked is not None and self._scorers and asked not in self._scorers:
            known = listing(list(self._scorers))
            self.note(f"no scorer is called {printable(asked)}; there are: {known}", "verdict")

    def note(self, reason: str, what: str = "key", count: int = 1) -> None:
        """Count something that is told at the end."""
        if count:
            self._notes[reason, what] += count

    def _add(self, found: Found, program: str) -> None:
        if hash(found.trace_id) in self._closed:
            self.note("spans that came after their trace was closed", "run")
            return
        trace = self._open.pop(found.trace_id, None) or _Open()
        self._open[found.trace_id] = trace
        if found.span is not None:
            trace.spans.append(found.span)
            trace.has_root = trace.has_root or not found.span.parent_id
        trace.n_found += 1
        trace.program = trace.program or program
        trace.session_id = trace.session_id or found.session_id
        trace.evaluations += found.evaluations[: EVALUATIONS - len(trace.evaluations)]
        for one in found.evaluations:
            self.heard_of(one.name)
        for key, value in found.labels.items():
            trace.labels.setdefault(key, value)
        self._n_spans += 1

    def _close_some(self) -> Iterator[Record]:
        """Close traces, the longest quiet ones first, until half of the room is free."""
        n_left = self._n_spans
        chosen: list[str] = []
        for complete in (True, False):
            for key, trace in self._open.items():
                if n_left <= OPEN_SPANS // 2:
                    break
                if trace.is_complete() == complete:
                    chosen.append(key)
                    n_left -= trace.n_found
        self._closed.update(map(hash, chosen))
        yield from self._tell(chosen)

    def _tell(self, keys: list[str]) -> Iterator[Record]:
        """Yield the runs of some traces in the order in which they began."""
        for key in sorted(keys, key=lambda key: self._open[key].start()):
            trace = self._open.pop(key)
            self._n_spans -= trace.n_found
            tree = forest(trace.spans)
            self.note(_REPEATED, count=tree.n_repeated)
            self.note(_ORPHANS, count=tree.n_orphans)
            self.note("circles of parents; each was cut open", count=tree.n_circles)
            if all(span.kind is Kind.OTHER for span in tree.spans):
                self.note("traces without a call of a model, tool or agent: they are no runs")
                continue
            try:
                yield self._trace(key, trace, tree)
            except ValueError as error:
                yield Skipped(source=str(self.source), reason=str(error))

    def _trace(self, key: str, trace: _Open, tree: Forest) -> Trace:
        found = {ours: trace.labels.get(theirs) for ours, theirs in self.keys.items()}
        stated = {ours: label for ours, label in found.items() if label}
        for ours, theirs in self.options.columns.items():
            if trace.labels.get(theirs):
                stated[ours] = trace.labels[theirs]
            elif ours not in self.options.optional:
                self.note(f"runs without {printable(theirs)}, which --map names for {ours}")
        agents = [span.name for span in tree.spans if span.kind is Kind.AGENT and span.name]
        models = [span.model for span in tree.spans if span.model]
        repeat = stated.get("task_repeat", "")
        session = stated.get("session_id", trace.session_id) or None
        position = None
        if session is not None:
            position = self._positions[session]
            self._positions[session] += 1
        steps = tuple(steps_of(tree))
        if len(self._jobs) < 2:
            self._jobs.add(stated.get("job_id", ""))
        return Trace(
            task_id=stated.get("task_id", key),
            task_repeat=int(repeat) if repeat.isdecimal() and len(repeat) < 10 else None,
            task_set=stated.get("task_set", ""),
            # A name that holds an id would make each run a group of its own.
            agent=stated.get("agent", without_ids(agents[0] if agents else trace.program)),
            model=stated.get("model", models[0] if models else ""),
            cluster=stated.get("cluster"),
            job_id=stated.get("job_id", ""),
            outcome=self._outcome(stated.get("outcome"), trace.evaluations),
            # An exception that reached the top; what ended a run otherwise is not said.
            end=End.INFRA_ERROR if tree.roots and tree.roots[0].failed else End.UNKNOWN,
            session_id=session,
            position=position,
            n_steps=len(steps),
            steps=steps,
            source_type=self.source_type,
            source_uri=str(self.source),
        )

    def _outcome(self, stated: str | None, evaluations: list[Evaluation]) -> Outcome:
        """Return the verdict of an attribute that was named, else of the evaluation that counts."""
        if stated is not None:
            evaluations = [Evaluation("", stated, "")]
        elif self.options.scorer is not None:
            evaluations = [one for one in evaluations if one.name == self.options.scorer]
        elif evaluations and self.only_chosen:
            self.note("runs with scores; choose the one that is the verdict with --scorer NAME")
            return Outcome.UNSCORED
        if not evaluations:
            return Outcome.UNSCORED
        if len({one.name for one in evaluations}) > 1:
            self.note("runs with several evaluations; choose one with --scorer NAME", "verdict")
            return Outcome.UNSCORED
        last = evaluations[-1]
        for text in filter(None, (last.label, last.value)):
            if (outcome := verdict_of_word(text)) is not None:
                return outcome
        self.note("an evaluation is no verdict (neither a word of ours nor 0 or 1)", "verdict")
        return Outcome.UNSCORED
