"""A task effect on the outcome that a simulated corpus shares with the observed one.

Attempts at a task are more alike than runs of different tasks. A corpus that is simulated without
this has too little noise in its curves, and a test of fit on it rejects too often. The effect is a
normal number a task, added to the log odds of success against failure at every exit; its spread is
chosen such that the intraclass correlation of outcomes is the observed one, and its mean such that
the success rate stays what the process says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.process.base import RefittableProcess
from sojourn.sequences import SUCCESS, StateSequences

__all__ = ["TaskEffect", "match_task_effect", "outcome_correlation"]

Floats = npt.NDArray[np.float64]

_GRID = np.sinh(np.linspace(-3.2, 3.2, 25))  # log odds, dense around 0, out to 12
_ATTEMPTS = 4
_MOST_STEPS = 8_000_000
_MOST_TASKS = 2_000
_FEWEST_TASKS = 200
_WIDEST = 8.0
_N_NODES = 41
_N_HALVINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEffect:
    """The normal law of what a task adds to the log odds of success.

    Attributes
    ----------
    mean, sd : float
        Of the number added.
    icc : float
        Intraclass correlation that was to be matched.
    reached : float
        The one that the process has with this effect, what its tasks share by themselves
        included.
    """

    mean: float
    sd: float
    icc: float
    reached: float

    def draw(self, task: npt.NDArray[np.int32], rng: np.random.Generator) -> Floats:
        """Draw the number of each task and give it to its runs, shape (n_runs,)."""
        own = rng.standard_normal(int(task.max(initial=-1)) + 1)
        return np.asarray(self.mean + self.sd * own[task], dtype=np.float64)


def outcome_correlation(sequences: StateSequences) -> float:
    """Moment estimate of the intraclass correlation of success, at least 0.

    (P2 - P1^2) / (P1 (1 - P1)) over the tasks with two runs or more, P1 the mean share of
    successes and P2 the mean share of pairs in which both succeed; 0 where it is undefined.
    """
    _, place = np.unique(sequences.task, return_inverse=True)
    runs = np.bincount(place)
    won = np.bincount(place, weights=sequences.event == SUCCESS)
    twice = runs >= 2
    if not twice.any():
        return 0.0
    n, c = runs[twice], won[twice]
    one, two = float(np.mean(c / n)), float(np.mean(c * (c - 1) / (n * (n - 1))))
    if not 0.0 < one < 1.0:
        return 0.0
    return float(np.clip((two - one**2) / (one * (1 - one)), 0.0, 1.0))


def match_task_effect(
    process: RefittableProcess, icc: float, *, max_steps: int, rng: np.random.Generator
) -> TaskEffect:
    """Find the task effect under which the process has the given intraclass correlation.

    Parameters
    ----------
    process : RefittableProcess
        The process; what its tasks share by themselves counts first.
    icc : float
        Intraclass correlation of success among attempts at a task, in [0, 1].
    max_steps : int
        Runs that would go on after so many steps are cut, and do not succeed.
    rng : Generator
        Source of the simulated runs.

    Notes
    -----
    With g(u) and h(u) the probabilities that one and that two attempts succeed when u is added to
    the log odds, simulated at a grid of u from the same random numbers, mean a and standard
    deviation s solve E g(a + s Z) = g(0) and E h(a + s Z) - g(0)^2 = icc g(0) (1 - g(0)).
    """
    if icc <= 0.0:
        return TaskEffect(mean=0.0, sd=0.0, icc=0.0, reached=0.0)
    one, two = _responses(process, max_steps, rng)
    rate = float(np.interp(0.0, _GRID, one))
    if not 0.0 < rate < 1.0:
        return TaskEffect(mean=0.0, sd=0.0, icc=icc, reached=0.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    weights = weights / weights.sum()

    def mean_of(sd: float) -> float:
        low, high = -_WIDEST - sd, _WIDEST + sd
        for _ in range(_N_HALVINGS):
            middle = 0.5 * (low + high)
            if weights @ np.interp(middle + sd * nodes, _GRID, one) < rate:
                low = middle
            else:
                high = middle
        return 0.5 * (low + high)

    def correlation(sd: float) -> float:
        both = float(weights @ np.interp(mean_of(sd) + sd * nodes, _GRID, two))
        return (both - rate**2) / (rate * (1.0 - rate))

    own = (float(np.interp(0.0, _GRID, two)) - rate**2) / (rate * (1.0 - rate))
    if own >= icc:
        return TaskEffect(mean=0.0, sd=0.0, icc=icc, reached=own)
    low, high = 0.0, _WIDEST
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if correlation(middle) < icc else (low, middle)
    sd = 0.5 * (low + high)
    return TaskEffect(mean=mean_of(sd), sd=sd, icc=icc, reached=correlation(sd))


def _responses(
    process: RefittableProcess, max_steps: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the shares of attempts, and of pairs of attempts, that succeed at each grid point."""
    seed = int(rng.integers(2**63))
    pilot = process.simulate_tasks(
        np.arange(_FEWEST_TASKS, dtype=np.int32), max_steps=max_steps, rng=seed
    )
    steps = max(float(pilot.lengths.mean()), 1.0) * _ATTEMPTS * _GRID.size
    n_tasks = int(np.clip(_MOST_STEPS / steps, _FEWEST_TASKS, _MOST_TASKS))
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), _ATTEMPTS)
    one, two = np.empty(_GRID.size), np.empty(_GRID.size)
    for k, shift in enumerate(_GRID):
        log_odds = np.full(task.size, shift)
        drawn = process.simulate_tasks(task, log_odds=log_odds, max_steps=max_steps, rng=seed)
        won = (drawn.event == SUCCESS).reshape(n_tasks, _ATTEMPTS).sum(axis=1)
        one[k] = won.mean() / _ATTEMPTS
        two[k] = np.mean(won * (won - 1)) / (_ATTEMPTS * (_ATTEMPTS - 1))
    # The same paths end at every grid point, so the shares rise but for chance in the pairs.
    return np.maximum.accumulate(one), np.maximum.accumulate(two)
