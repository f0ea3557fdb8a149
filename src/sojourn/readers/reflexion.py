"""Reflexion logs: tasks tried again and again with a memory of what went wrong before.

``env_results_trial_<k>.json`` is the state of all environments after trial k, and a solved one is
not tried again: ``is_success`` tells that it was solved in this trial or an earlier one. The trials
share a memory, so they are no independent attempts. A run is therefore one environment, its steps
are its trials, and it ends with the first success, or by the limit of trials. A folder of such
files is one log; a single file tells who was solved, but not when. Runs on programs (``*.jsonl``)
hold a problem a line: a trial is a reflection, and the last one needs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sojourn._limits import TRIALS
from sojourn.errors import ReaderError
from sojourn.readers._json import (
    BadRecordError,
    array_items,
    decode,
    json_lines,
    open_buffer,
    records,
    sniff,
)
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Step, StepKind, Trace

__all__ = ["ReflexionReader"]

AGENT = "reflexion"
TRIAL = "trial"
_FILE = re.compile(r"env_results_trial_(\d{1,5})\.json", re.ASCII)
_LINE = frozenset({"task_id", "is_solved", "reflections"})
_ENVIRONMENT = frozenset({"name", "memory", "is_success"})


class _Environment(msgspec.Struct):
    name: str
    is_success: bool


class _Problem(msgspec.Struct):
    task_id: str | int
    is_solved: bool | None = None
    reflections: list[msgspec.Raw] | None = None


@dataclass(slots=True)
class _Passage:
    """When an environment was first seen solved, counted from 1; 0 while it is not."""

    solved: int = 0
    n_trials: int = 0
    is_lost_again: bool = False


class ReflexionReader:
    """Reads the logs of Reflexion."""

    name = "reflexion"
    description = "Reflexion logs: a folder of env_results_trial_<k>.json, or problems (JSON lines)"
    carries = "outcome, steps (its trials)"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether it is a folder of trials, one of its files, or a file of problems."""
        if not head:
            return source.is_dir() and next(_trials(source), None) is not None
        found = sniff(head)
        if found.kind == "array":
            return _FILE.fullmatch(source.name) is not None and found.keys >= _ENVIRONMENT
        return found.kind in ("object", "lines") and found.keys >= _LINE

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a folder is read whole, a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield a trace an environment, or a problem.

        Raises
        ------
        ReaderError
            If there is no file of trials that can be read.
        """
        if source.is_dir():
            yield from _read_trials(source)
        elif _FILE.fullmatch(source.name):
            yield from _read_snapshot(source)
        else:
            yield from records(
                json_lines(source),
                _Problem,
                source=str(source),
                build=lambda problem: _problem(problem, source),
            )


def _trials(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the numbers and files of the trials in a folder, in no order."""
    for path in folder.glob("env_results_trial_*.json"):
        named = _FILE.fullmatch(path.name)
        if named is not None and path.is_file() and not path.is_symlink():
            yield int(named.group(1)), path


def _read_trials(folder: Path) -> Iterator[Record]:
    passages: dict[str, _Passage] = {}
    files = sorted(_trials(folder))
    n_trials = files[-1][0] + 1 if files else 0
    if n_trials > TRIALS:
        raise ReaderError(f"{folder}: more than {TRIALS} trials")
    n_read = 0
    for number, path in files:
        try:
            for item in _environments(path):
                if isinstance(item, Skipped):
                    yield item
                else:
                    _note(passages.setdefault(item.name, _Passage()), number + 1, item.is_success)
            n_read += 1
        except (ReaderError, OSError) as error:
            yield Skipped(source=str(path), reason=f"the trial: {error}", what="file")
    if not n_read:
        raise ReaderError(f"{folder}: no file of trials can be read")
    if n_read < n_trials:
        yield Skipped(
            source=str(folder),
            reason="trials are missing; what was solved in one counts for the next that is there",
            count=n_trials - n_read,
            what="key",
        )
    if lost := sum(passage.is_lost_again for passage in passages.values()):
        reason = "environments that are solved after one trial and not after a later one"
        yield Skipped(source=str(folder), reason=reason, count=lost, what="key")
    for name, passage in passages.items():
        if name:
            yield _environment(name, passage, folder)


def _note(passage: _Passage, trial: int, is_success: bool) -> None:
    passage.n_trials = trial
    if is_success and not passage.solved:
        passage.solved = trial
    passage.is_lost_again |= bool(passage.solved) and not is_success


def _environments(path: Path) -> Iterator[_Environment | Skipped]:
    for number, item in enumerate(array_items(open_buffer(path), source=str(path)), start=1):
        if isinstance(item, Skipped):
            yield item
            continue
        try:
            yield decode(item, _Environment)
        except BadRecordError as error:
            yield Skipped(source=f"{path}, item {number}", reason=str(error), what="line")


def _environment(name: str, passage: _Passage, folder: Path) -> Trace:
    n_steps = passage.solved or passage.n_trials
    return Trace(
        task_id=name,
        task_set=folder.absolute().name,
        agent=AGENT,
        outcome=Outcome.SUCCESS if passage.solved else Outcome.FAILURE,
        end=End.FINISHED if passage.solved else End.LIMIT,
        limit_kind=None if passage.solved else LimitKind.ATTEMPTS,
        step_limit=passage.n_trials,
        n_steps=n_steps,
        steps=_steps(n_steps),
        source_type=ReflexionReader.name,
        source_uri=str(folder),
    )


def _steps(n_trials: int) -> tuple[Step, ...]:
    # Whether a trial went well is the outcome itself, and no attribute of the step.
    return (Step(name=TRIAL, kind=StepKind.MODEL, n_calls=0),) * n_trials


def _read_snapshot(path: Path) -> Iterator[Record]:
    reason = "one trial alone does not tell when its environments were solved; name the folder"
    yield Skipped(source=str(path), reason=reason, what="key")
    for item in _environments(path):
        if isinstance(item, Skipped):
            yield item
            continue
        try:
            yield Trace(
                task_id=item.name,
                task_set=path.absolute().parent.name,
                agent=AGENT,
                outcome=Outcome.SUCCESS if item.is_success else Outcome.FAILURE,
                end=End.FINISHED if item.is_success else End.LIMIT,
                limit_kind=None if item.is_success else LimitKind.ATTEMPTS,
                source_type=ReflexionReader.name,
                source_uri=str(path),
            )
        except ValueError as error:
            yield Skipped(source=str(path), reason=str(error))


def _problem(problem: _Problem, source: Path) -> Trace:
    n_trials = len(problem.reflections or ()) + 1
    if n_trials > TRIALS:
        raise BadRecordError(f"more than {TRIALS} trials")
    verdicts = {True: Outcome.SUCCESS, False: Outcome.FAILURE, None: Outcome.UNSCORED}
    return Trace(
        task_id=str(problem.task_id),
        task_set=source.stem,
        agent=AGENT,
        outcome=verdicts[problem.is_solved],
        # A failure may have used up its trials, or have stopped since its own tests passed.
        end=End.FINISHED if problem.is_solved else End.UNKNOWN,
        n_steps=n_trials,
        steps=_steps(n_trials),
        source_type=ReflexionReader.name,
        source_uri=str(source),
    )
