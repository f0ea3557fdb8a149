"""What the mathematics sees of traces: flat integer arrays and offsets, never lists of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import frozen_array

__all__ = ["CENSORED", "FAILURE", "SUCCESS", "StateSequences"]

CENSORED = 0
SUCCESS = 1
FAILURE = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateSequences:
    """Runs as paths of states that end in success, in failure, or are cut.

    Attributes
    ----------
    states : ndarray of shape (n_steps,), int32
        The states of all runs, one run after the other, each in 0 .. n_states - 1.
    offsets : ndarray of shape (n_runs + 1,), int64
        Run r is ``states[offsets[r]:offsets[r + 1]]``; a run may be empty.
    event : ndarray of shape (n_runs,), int8
        `SUCCESS` or `FAILURE` after the last step, or `CENSORED`: still going when it was cut.
    task : ndarray of shape (n_runs,), int32
        The task of each run, numbered 0 .. n_tasks - 1.
    unit : ndarray of shape (n_runs,), int32
        The unit of resampling (the cluster where there is one, else the task), numbered from 0.
    state_names : tuple of str
        One readable name a state.

    Raises
    ------
    ValueError
        If the arrays do not fit each other or a state is out of range.
    """

    states: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    event: npt.NDArray[np.int8]
    task: npt.NDArray[np.int32]
    unit: npt.NDArray[np.int32]
    state_names: tuple[str, ...]

    def __post_init__(self) -> None:
        dtypes = {
            "states": np.int32,
            "offsets": np.int64,
            "event": np.int8,
            "task": np.int32,
            "unit": np.int32,
        }
        for name, dtype in dtypes.items():
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype, name=name))
        n_runs = self.event.size
        if self.offsets.size != n_runs + 1 or self.task.size != n_runs or self.unit.size != n_runs:
            raise ValueError(
                f"{n_runs} events need {n_runs + 1} offsets and {n_runs} tasks and units, "
                f"not {self.offsets.size}, {self.task.size} and {self.unit.size}"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != self.states.size:
            raise ValueError("offsets must start at 0 and end at the number of steps")
        if np.any(np.diff(self.offsets) < 0):
            raise ValueError("offsets must not decrease")
        if self.states.size and not 0 <= self.states.min() <= self.states.max() < self.n_states:
            raise ValueError(f"states must lie in 0 .. {self.n_states - 1}")
        if n_runs and not CENSORED <= self.event.min() <= self.event.max() <= FAILURE:
            raise ValueError("event must be 0 (censored), 1 (success) or 2 (failure)")

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return int(self.event.size)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_names)

    @property
    def n_tasks(self) -> int:
        """Number of different tasks."""
        return int(np.unique(self.task).size)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of steps of each run, shape (n_runs,)."""
        return np.diff(self.offsets)

    def select(self, runs: npt.NDArray[np.intp]) -> StateSequences:
        """Return the given runs, in the given order, repetition allowed."""
        index = np.asarray(runs, dtype=np.intp)
        lengths = self.lengths[index]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        source = np.repeat(self.offsets[:-1][index] - offsets[:-1], lengths)
        return StateSequences(
            states=self.states[source + np.arange(offsets[-1])],
            offsets=offsets,
            event=self.event[index],
            task=self.task[index],
            unit=self.unit[index],
            state_names=self.state_names,
        )
