"""ATIF trajectories (Agent Trajectory Interchange Format, v1.0 to v1.8): steps, never a verdict.

A file is one run. It names no task: the task is ``session_id``, else ``trajectory_id``, else the
file's name, for ``--outcomes FILE``. Trajectories inside a trial of Harbor are read by `harbor`.
How a run ended is not said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sojourn.errors import ReaderError
from sojourn.readers._atif import Trajectory, dropped, is_trajectory, steps_of
from sojourn.readers._json import decode, open_buffer
from sojourn.readers.base import ReadOptions, Record
from sojourn.records import Outcome, Trace

__all__ = ["AtifReader"]


class AtifReader:
    """Reads ATIF trajectories."""

    name = "atif"
    description = "ATIF trajectories (Agent Trajectory Interchange Format)"
    carries = "steps; outcome with --outcomes"

    def claims(self, source: Path, head: bytes) -> bool:
        """Return whether the file is an object whose schema version is ATIF's."""
        return is_trajectory(head)

    def siblings(self, source: Path) -> Iterable[Path]:
        """Return nothing: a file stands alone."""
        return ()

    def read(self, source: Path, options: ReadOptions) -> Iterator[Record]:
        """Yield the run, then what is no part of it.

        Raises
        ------
        ReaderError
            If the file is not one such trajectory.
        """
        try:
            run = decode(open_buffer(source), Trajectory)
            steps = steps_of(run)
            yield Trace(
                task_id=run.session_id or run.trajectory_id or source.stem,
                agent=run.agent.name or "",
                model=run.agent.model_name or "",
                outcome=Outcome.UNSCORED,
                n_steps=len(steps),
                steps=steps,
                source_type=self.name,
                source_uri=str(source),
            )
        except ValueError as error:
            raise ReaderError(f"{source}: {error}") from None
        yield from dropped(run, str(source))
