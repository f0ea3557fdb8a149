"""``sojourn watch``: a forecast for every step that is added to the log of a run.

The file is looked at again and again, by its size and time; where it has changed it is read anew,
so that a line that was half written is whole the next time. Only formats that add a line a step or
a message are followed: of others, what stands in a file before its end says little of the run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sojourn.cli._models import ModelPath, load
from sojourn.cli._options import Columns, Format, Quiet, check_format, read_options
from sojourn.tables import clean

if TYPE_CHECKING:
    from sojourn.assess.model_file import FittedModel
    from sojourn.corpus import TraceCorpus
    from sojourn.estimates import Estimate
    from sojourn.process.forecast import Monitor, RunForecast
    from sojourn.readers import ReadOptions
    from sojourn.records import Step

__all__ = ["FOLLOWED", "Follower", "command"]

FOLLOWED = ("claude-code", "sojourn-jsonl")
_CUT = "cut by a limit"
_UNJUDGED = "no verdict"

RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="The growing file: our JSON lines (steps) or a session of Claude Code.",
        show_default=False,
    ),
]


def command(
    model: ModelPath,
    run: RunPath,
    once: Annotated[
        bool, typer.Option("--once", help="Read what is there, and end without waiting for more.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(help="Seconds between two looks at the file.", min=0.05, max=3600),
    ] = 1.0,
    format: Format = None,
    columns: Columns = None,
    ci: Annotated[float, typer.Option("--ci", help="Probability of intervals.")] = 0.95,
    quiet: Quiet = False,
) -> None:
    """Follow a run while its log grows: a forecast a step, until the run has an outcome."""
    from dataclasses import replace

    if not 0 < ci < 1:
        raise typer.BadParameter(f"{ci} does not lie between 0 and 1", param_hint="--ci")
    check_format(format)
    _check_followed(format)
    if run.is_dir():
        raise typer.BadParameter(f"{run} is a folder; name the file of the run", param_hint="RUN")
    options = replace(read_options(columns, None), verdicts_elsewhere=True)
    follower = Follower(load(model), ci_prob=ci)
    for line in follower.head():
        typer.echo(line)
    if not quiet and not once:
        typer.echo(
            f"looking at {clean(run, limit=200)} every {interval:g} s; Ctrl-C ends", err=True
        )
    found = None
    for found in _readings(run, format, options, interval, once=once, quiet=quiet):
        for line in follower.lines(found):
            typer.echo(line)
        if follower.is_over:
            break
    if found is not None and not quiet:
        for item in found.skipped:
            if item.what != "key":
                typer.echo(f"left out: {clean(item.reason, limit=240)} ({item.count})", err=True)


def _check_followed(format: str | None) -> None:
    if format is not None and format not in FOLLOWED:
        raise typer.BadParameter(
            f"logs of the format {format!r} are not followed; those of {' and '.join(FOLLOWED)} "
            "are; sojourn forecast reads all",
            param_hint="RUN",
        )


def _readings(
    path: Path,
    format: str | None,
    options: ReadOptions,
    interval: float,
    *,
    once: bool,
    quiet: bool,
) -> Iterator[TraceCorpus]:
    """Yield the runs of a file each time that it has changed, without end unless `once`.

    Raises
    ------
    ReaderError
        If the file cannot be read; with `once` also if no run is in it.
    """
    from sojourn.errors import EmptySourceError
    from sojourn.readers import read_traces

    seen: tuple[int, int] | None = None
    told = ""
    while True:
        stamp = _stamp(path)
        if stamp != seen:
            seen = stamp
            try:
                if format is None and (once or _has_line(path)):
                    format = _format_of(path)
                    _check_followed(format)
                if format is not None:
                    yield read_traces(path, format=format, options=options)
            except EmptySourceError as error:
                if once:
                    raise
                if str(error) != told and not quiet:
                    told = str(error)
                    typer.echo(f"nothing to follow yet: {clean(told, limit=500)}", err=True)
        if once:
            return
        time.sleep(interval)


def _stamp(path: Path) -> tuple[int, int]:
    """Return what changes when a file does."""
    from sojourn.errors import ReaderError

    try:
        found = path.stat()
    except OSError as error:
        raise ReaderError(f"{path}: {error.strerror or error}") from None
    return found.st_mtime_ns, found.st_size


def _has_line(path: Path) -> bool:
    """Return whether a first line is whole: before it the format is anybody's guess."""
    from sojourn.readers._json import read_head

    return b"\n" in read_head(path).lstrip()


def _format_of(path: Path) -> str:
    from sojourn.readers.base import Source
    from sojourn.readers.finding import find_sources

    found = find_sources(path, loosely=True)
    (name,) = [source.reader.name for source in found if isinstance(source, Source)]
    return name


class _Followed(NamedTuple):
    """What has been told of a run."""

    monitor: Monitor
    steps: tuple[Step, ...]
    ending: str | None
    line: str


class Follower:
    """Turns the runs of a log, read again and again, into the lines that are new.

    Parameters
    ----------
    model : FittedModel
        The model.
    ci_prob : float
        Probability of the intervals.
    """

    def __init__(self, model: FittedModel, *, ci_prob: float = 0.95) -> None:
        from sojourn.assess.model import model_tables

        self._model = model
        self._tables = model_tables(model)
        self._ci_prob = ci_prob
        self._runs: dict[int, _Followed] = {}

    @property
    def is_over(self) -> bool:
        """Whether there are runs, and all of them have ended."""
        return bool(self._runs) and all(run.ending is not None for run in self._runs.values())

    def head(self) -> list[str]:
        """Return what is said of the model, before any step."""
        caution = self._model.caution("forecast")
        return [
            str(self._model),
            *([] if caution is None else [f"{caution}; the step alone may say as much"]),
        ]

    def lines(self, corpus: TraceCorpus) -> Iterator[str]:
        """Yield a line for every step, and every end of a run, that was not there before.

        A step of which more is known than before, as a tool's answer, is told again where that
        changes its line; what was told of steps that have since been taken back stays told.
        """
        for run in range(len(corpus)):
            steps = tuple(
                corpus.step_types.step(
                    int(corpus.steps[place]),
                    0 if corpus.digests is None else int(corpus.digests[place]),
                )
                for place in range(int(corpus.offsets[run]), int(corpus.offsets[run + 1]))
            )
            yield from self._new(run, _label(corpus, run), steps, _ending(corpus, run))

    def _new(
        self, run: int, label: str, steps: tuple[Step, ...], ending: str | None
    ) -> Iterator[str]:
        old = self._runs.get(run) or _Followed(self._monitor(), (), None, "")
        if (steps, ending) == (old.steps, old.ending):
            self._runs[run] = old
            return
        same = _n_same(old.steps, steps)
        monitor = old.monitor
        if same < len(old.steps) or old.ending is not None:
            monitor = self._monitor()
            for step in steps[:same]:
                monitor.feed(step)
        line = old.line
        for step in steps[same:]:
            new = f"{label}  {self._told(monitor.feed(step))}"
            if new != line:
                yield new
            line = new
        if ending is not None:
            if ending not in (_CUT, _UNJUDGED):
                monitor.finish(ending)
            line = f"{label}  over after step {len(steps)}: {ending}"
            yield line
        self._runs[run] = _Followed(monitor, steps, ending, line)

    def _monitor(self) -> Monitor:
        from sojourn.assess.model import monitor_of

        return monitor_of(self._model, tables=self._tables, ci_prob=self._ci_prob)

    def _told(self, forecast: RunForecast) -> str:
        alone, _ = self._tables.at(None, forecast.step, ci_prob=self._ci_prob)
        parts = [
            f"step {forecast.step}",
            "no state" if forecast.state is None else clean(forecast.state),
            f"P(success) {_figure(forecast.success, 2)}",
            f"by step alone {_figure(alone, 2)}",
            f"steps left {_figure(forecast.steps_left, 1)}",
            # What holds for all of them is said once, before the first.
            *(r for r in forecast.success.reasons if r != self._model.doubt("forecast")),
        ]
        return "  ".join(parts)


def _label(corpus: TraceCorpus, run: int) -> str:
    repeat = int(corpus.task_repeat[run])
    task = corpus.tasks.task_id[int(corpus.task[run])]
    return clean(task if repeat < 0 else f"{task} #{repeat}")


def _ending(corpus: TraceCorpus, run: int) -> str | None:
    """Return how a run has ended, None while it goes on."""
    from sojourn.corpus.traces import ENDS, OUTCOMES
    from sojourn.records import End, Outcome

    outcome, end = OUTCOMES[corpus.outcome[run]], ENDS[corpus.end[run]]
    if outcome is Outcome.SUCCESS:
        return str(outcome)
    if end is End.LIMIT:
        return _CUT
    if outcome is Outcome.FAILURE:
        return str(outcome)
    return _UNJUDGED if end is End.FINISHED else None


def _n_same(old: tuple[Step, ...], new: tuple[Step, ...]) -> int:
    n_same = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        n_same += 1
    return n_same


def _figure(estimate: Estimate, digits: int) -> str:
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:.{digits}f}"
    if estimate.interval is None:
        return text
    return f"{text} [{estimate.interval.low:.{digits}f}, {estimate.interval.high:.{digits}f}]"
