"""Trials of Harbor (terminal-bench 2), one folder each: ``result.json`` and ``agent/``.

A trial succeeds if its reward is within 1e-6 of one: the reward called ``reward``, the one that
``--scorer`` names, or the only one. Among several others none is chosen. ``AgentTimeoutError`` is a
limit of time, and keeps the reward that the verifier gave; any other exception is a fault of the
infrastructure. In trials of several steps the exception may stand in ``step_results`` only. Steps
come from the ATIF trajectory ``agent/trajectory.json``; without one they are unknown. Fields are
those of harbor 0.26.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from sojourn.errors import ReaderError
from sojourn.readers._atif import read_whole
from sojourn.readers._inspect_scores import listing, printable
from sojourn.readers._json import decode, open_buffer, read_head, sniff
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import End, LimitKind, Outcome, Skipped, Step, Trace

__all__ = ["HarborReader"]

RESULT = "result.json"
TOLERANCE = 1e-6
_MARKS = {"task_name", "trial_name"}
_OF_JOB = (RESULT, "config.json", "lock.json", "job.log")
_CANCELLED = frozenset({"CancelledError", "KeyboardInterrupt"})


class _Model(msgspec.Struct):
    name: str | None = None


class _Agent(msgspec.Struct):
    name: str | None = None
    model_info: _Model | None = None


class _Verifier(msgspec.Struct):
    rewards: dict[str, float | None] | None = None


class _Exception(msgspec.Struct):
    exception_type: str = ""


class _StepResult(msgspec.Struct):
    exception_info: _Exception | None = None


class _Trial(msgspec.Struct):
    task_name: str
    trial_name: str = ""
    source: str | None = None
    agent_info: _Agent | None = None
    verifier_result: _Verifier | None = None
    exception_info: _Exception | None = None
    step_results: list[_StepResult] | None = None
    finished_at: str | None = None


class HarborReader:
    """Reads the trials of a Harbor job."""

    name = "harbor"
    description = "Harbor (terminal-bench 2) trials: result.json with agent/trajectory.json"
    carries = "outcome, steps, attempts"
    heeds = frozenset({"scorer"})

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the folder's result, or the file, is that of a trial."""
        if not head:
            result = source / RESULT
            if not result.is_file() or result.is_symlink():
                return False
            head = read_head(result)
        found = sniff(head)
        return found.kind == "object" and found.keys >= _MARKS

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return what stands beside the trials and is about their job."""
        folder = source if source.is_dir() else source.parent
        return [path for name in _OF_JOB if (path := folder.parent / name).is_file()]

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the trial, and what of it was left out.

        Raises
        ------
        ReaderError
            If the result cannot be read.
        """
        result = source / RESULT if source.is_dir() else source
        try:
            trial = decode(open_buffer(result), _Trial)
        except ValueError as error:
            raise ReaderError(f"{result}: {error}") from None
        steps: tuple[Step, ...] | None = None
        path = result.parent / "agent" / "trajectory.json"
        if path.is_file() and not path.is_symlink():
            try:
                for part in read_whole(path):
                    if isinstance(part, Skipped):
                        yield part
                    else:
                        steps = part[1]
            except (ValueError, ReaderError, OSError) as error:
                yield Skipped(source=str(path), reason=f"the steps: {error}", what="key")
        else:
            yield Skipped(source=str(result), reason="no trajectory beside it", what="key")
        reward, problem = _reward(trial.verifier_result, options.scorer)
        if problem:
            yield Skipped(source=str(result), reason=problem, what="verdict")
        try:
            yield _trace(trial, steps, reward, result)
        except ValueError as error:
            raise ReaderError(f"{result}: {error}") from None


def _reward(result: _Verifier | None, scorer: str | None) -> tuple[float | None, str]:
    """Return the reward that counts, and why there is none where some are."""
    rewards = (result.rewards if result is not None else None) or {}
    name = scorer if scorer is not None else "reward"
    if scorer is None and name not in rewards and len(rewards) == 1:
        name = next(iter(rewards))
    if scorer is not None and rewards and scorer not in rewards:
        known = listing(list(rewards))
        return None, f"no reward is called {printable(scorer)}; there are: {known}"
    if name not in rewards:
        return None, "several rewards; choose one with --scorer NAME" if rewards else ""
    reward = rewards[name]
    return (reward, "") if reward is not None and math.isfinite(reward) else (None, "")


def _end(trial: _Trial) -> tuple[End, LimitKind | None]:
    faults = [trial.exception_info, *(step.exception_info for step in trial.step_results or ())]
    kinds = [fault.exception_type for fault in faults if fault is not None]
    if not kinds:
        return (End.FINISHED if trial.finished_at or trial.verifier_result else End.UNKNOWN), None
    if _CANCELLED & set(kinds):
        return End.CANCELLED, None
    if all(kind == "AgentTimeoutError" for kind in kinds):
        return End.LIMIT, LimitKind.TIME
    return End.INFRA_ERROR, None


def _trace(
    trial: _Trial, steps: tuple[Step, ...] | None, reward: float | None, result: Path
) -> Trace:
    agent = trial.agent_info or _Agent()
    end, limit_kind = _end(trial)
    outcome = Outcome.UNSCORED
    if reward is not None:
        outcome = Outcome.SUCCESS if abs(reward - 1.0) <= TOLERANCE else Outcome.FAILURE
    return Trace(
        task_id=trial.task_name,
        task_set=trial.source or "",
        agent=agent.name or "",
        model=(agent.model_info.name if agent.model_info else None) or "",
        outcome=outcome,
        end=end,
        limit_kind=limit_kind,
        score=reward,
        n_steps=None if steps is None else len(steps),
        steps=steps or (),
        # One trial a name, so that two attempts of a job are not one run that was logged twice.
        job_id=f"{result.parent.parent.name}/{trial.trial_name or result.parent.name}",
        source_type=HarborReader.name,
        source_uri=str(result),
    )
