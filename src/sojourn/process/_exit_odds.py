"""Task effects on the outcome: the odds of success are shifted, the time of the end is not.

A task that is harder than others is drawn by adding a number to the log odds of success against
failure wherever a run may end. Paths and lengths keep their law, so it is enough to draw a run
without the shift, to look up the share of success among the ends where the run ended, and to draw
its outcome anew. This holds for every process whose end is an event of its own; each one only has
to say what the two probabilities were at the place where the run ended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

__all__ = ["as_tasks", "check_task", "last_states", "shift_outcomes", "shifted_share"]

Floats = npt.NDArray[np.float64]


def shifted_share(success: Any, failure: Any, log_odds: Any) -> Floats:
    """P(success | an end), the log odds of success against failure moved by `log_odds`.

    Parameters
    ----------
    success, failure : array_like
        Probabilities (or weights) of the two ends without the shift; of any shapes that broadcast.
    log_odds : array_like
        The shift.

    Returns
    -------
    ndarray
        s e^b / (s e^b + f); 0 where both ends have probability zero.
    """
    # Half the shift on each side, so that neither exponential overflows.
    half = 0.5 * np.asarray(log_odds, dtype=np.float64)
    won = np.asarray(success, dtype=np.float64) * np.exp(half)
    total = won + np.asarray(failure, dtype=np.float64) * np.exp(-half)
    return np.asarray(np.divide(won, total, out=np.zeros(total.shape), where=total > 0.0))


def shift_outcomes(
    event: npt.NDArray[np.int8],
    success: Floats,
    failure: Floats,
    log_odds: Floats | None,
    rng: np.random.Generator,
) -> npt.NDArray[np.int8]:
    """Draw the outcomes of runs anew with shifted odds; cut runs stay cut.

    Parameters
    ----------
    event : ndarray of shape (n_runs,), int8
        How the runs ended when drawn without a shift.
    success, failure : ndarray of shape (n_runs,)
        Probabilities of the two ends at the place where each run ended; any where it was cut.
    log_odds : ndarray of shape (n_runs,), optional
        The shift of each run; without it the events are returned as they are.
    rng : Generator
        Source of chance; one uniform number a run.
    """
    if log_odds is None:
        return event
    shift = np.asarray(log_odds, dtype=np.float64)
    if shift.shape != event.shape or not np.all(np.isfinite(shift)):
        raise ValueError(f"log_odds must be {event.size} finite numbers, one for each run")
    won = rng.random(event.size) < shifted_share(success, failure, shift)
    drawn = np.where(event == CENSORED, CENSORED, np.where(won, SUCCESS, FAILURE))
    return np.asarray(drawn, dtype=np.int8)


def last_states(sequences: StateSequences) -> npt.NDArray[np.int64]:
    """State of the last step of each run, -1 for a run without a step; shape (n_runs,)."""
    last = np.full(sequences.n_runs, -1, dtype=np.int64)
    some = sequences.lengths > 0
    last[some] = sequences.states[sequences.offsets[1:][some] - 1]
    return last


def check_task(task: Any) -> npt.NDArray[np.int32]:
    """Return task numbers as a flat array of int32, or say what is wrong with them."""
    array = np.asarray(task)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError("task must be a flat array of whole numbers, one for each run")
    if array.size and array.min() < 0:
        raise ValueError(f"task numbers must not be negative; got {array.min()}")
    return array.astype(np.int32)


def as_tasks(
    drawn: StateSequences, task: npt.NDArray[np.int32], event: npt.NDArray[np.int8]
) -> StateSequences:
    """Give drawn runs their tasks, which are their units too, and their outcomes."""
    return StateSequences(
        states=drawn.states,
        offsets=drawn.offsets,
        event=event,
        task=task,
        unit=task,
        state_names=drawn.state_names,
    )
