"""ATIF trajectories (Agent Trajectory Interchange Format, v1.0 to v1.8): steps, never a verdict.

A file is one run, with the files beside it in which it goes on. It names no task: the task is
``session_id``, else ``trajectory_id``, else the file's name, for ``--outcomes FILE``. Trajectories
inside a trial of Harbor are read by `harbor`. How a run ended is not said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sojourn.errors import ReaderError
from sojourn.readers._atif import continuations, is_continuation, is_trajectory, read_whole
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Outcome, Skipped, Trace

__all__ = ["AtifReader"]


class AtifReader:
    """Reads ATIF trajectories."""

    name = "atif"
    description = "ATIF trajectories (Agent Trajectory Interchange Format)"
    carries = "steps; outcome with --outcomes"
    heeds: frozenset[str] = frozenset()

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is an object whose schema version is ATIF's, and a first part."""
        return is_trajectory(head) and not is_continuation(source)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return the files in which the trajectory goes on."""
        return continuations(source)

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield what is no part of the run, then the run.

        Raises
        ------
        ReaderError
            If the file is not one such trajectory.
        """
        try:
            for part in read_whole(source):
                if isinstance(part, Skipped):
                    yield part
                    continue
                run, steps = part
                yield Trace(
                    task_id=run.session_id or run.trajectory_id or source.stem,
                    agent=run.agent.name or "",
                    model=run.model(),
                    outcome=Outcome.UNSCORED,
                    n_steps=len(steps),
                    steps=steps,
                    source_type=self.name,
                    source_uri=str(source),
                )
        except ValueError as error:
            raise ReaderError(f"{source}: {error}") from None
