"""What every fitted process can be asked, and how its forecasts of whole runs are scored.

A process is a law of runs: a path of states that ends in success or in failure. `TraceProcess` is
the small set of questions that curves, choice, certificate and forecast rest on. The score of a run
is the log probability of its *end*, that is of the step at which it ended and of the outcome (or of
its still going when it was cut); states are a means and are not scored. A process may give an end
that it never saw the probability zero, so a fitted process is scored after it is mixed with a
little of a geometric law: no score is minus infinity, and all processes pay the same price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences

__all__ = ["GeometricTail", "RefittableProcess", "TraceProcess", "run_scores", "task_scores"]

Floats = npt.NDArray[np.float64]


@runtime_checkable
class TraceProcess(Protocol):
    """A law of runs, fitted or given; frozen.

    Curves are arrays over d = 0, 1, .., horizon. All methods are pure; what draws takes ``rng``.
    """

    @property
    def name(self) -> str:
        """Short name of the kind of process, as it stands in tables."""
        ...

    @property
    def state_names(self) -> tuple[str, ...]:
        """One readable name a state."""
        ...

    @property
    def n_parameters(self) -> int:
        """Number of free parameters."""
        ...

    @property
    def extrapolates(self) -> bool:
        """Whether the curves go on beyond the longest observed run."""
        ...

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon, shape (horizon + 1,)."""
        ...

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon, shape (horizon + 1,)."""
        ...

    def simulate(
        self, n_runs: int, *, rng: np.random.Generator | np.random.SeedSequence | int | None = None
    ) -> StateSequences:
        """Draw independent runs, each of a task of its own."""
        ...

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of all runs of a task, one value a distinct task."""
        ...

    def value(self, state: int, step: int) -> float | None:
        """P(success | the run is in `state` at its step number `step`); None: not identified."""
        ...


@runtime_checkable
class RefittableProcess(TraceProcess, Protocol):
    """A fitted process that the bootstrap and the test of fit can fit and draw again and again."""

    def refit(self, sequences: StateSequences, *, weights: Floats | None = None) -> Self:
        """Fit again to runs of the same states.

        Penalties, knots, numbers of classes or phases are held as they are, and an iteration
        starts from this fit, so that a refit costs a fraction of a fit.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        weights : ndarray of shape (n_runs,), optional
            How often each run counts, not negative; the weight of a resampled unit is given to
            all its runs.
        """
        ...

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    ) -> StateSequences:
        """Draw one run for each entry of `task`, the runs of a task sharing what tasks share.

        Parameters
        ----------
        task : ndarray of shape (n_runs,), int32
            The task of each run; also the unit of the drawn runs.
        log_odds : ndarray of shape (n_runs,), optional
            Added to the log odds of success against failure wherever the run may end; when runs
            end is left as it is.
        max_steps : int
            A run that would go on after so many steps is cut there.
        rng : Generator, SeedSequence, int or None
            Source of chance.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricTail:
    """A memoryless law of end and outcome without states, which gives no end probability zero.

    A run ends in success with probability `success_hazard` and in failure with `failure_hazard`
    before its first step and after every step. It is mixed with weight `weight` into the law of a
    fitted process when that is scored.

    Attributes
    ----------
    success_hazard, failure_hazard : float
        Probabilities of the two ends at each moment; positive, their sum less than one.
    weight : float
        Its share in the mixture, 1 / (n + 1) for a process fitted to n runs.
    """

    success_hazard: float
    failure_hazard: float
    weight: float

    @classmethod
    def of(cls, sequences: StateSequences) -> GeometricTail:
        """Fit the law to runs: ends per moment, with half an end of each kind added."""
        moments = sequences.states.size + sequences.n_runs + 1.5
        return cls(
            success_hazard=(np.count_nonzero(sequences.event == SUCCESS) + 0.5) / moments,
            failure_hazard=(np.count_nonzero(sequences.event == FAILURE) + 0.5) / moments,
            weight=1.0 / (sequences.n_runs + 1),
        )

    def probability(self, length: npt.NDArray[np.int64], event: npt.NDArray[np.int8]) -> Floats:
        """Probability of each end: P(T = length, event), or P(T > length) for a cut run."""
        hazard = np.array([1.0, self.success_hazard, self.failure_hazard])[event]
        going = 1.0 - self.success_hazard - self.failure_hazard
        moments = length + (event == CENSORED)
        return np.asarray(hazard * going**moments, dtype=np.float64)


def run_scores(
    sequences: StateSequences,
    success_within: Floats,
    failure_within: Floats,
    *,
    tail: GeometricTail | None = None,
) -> Floats:
    """Log probability of the end of each run under two cumulative incidence curves.

    Parameters
    ----------
    sequences : StateSequences
        The runs; only their lengths and events count.
    success_within, failure_within : ndarray of shape (horizon + 1,)
        The curves at d = 0 .. horizon; the horizon is at least the longest run.
    tail : GeometricTail, optional
        Mixed in with its weight; without it a score may be minus infinity.

    Returns
    -------
    ndarray of shape (n_runs,)
        log P(T = L, outcome) of a run that ended after L steps; log P(T > L) of one cut there.
    """
    length, event = sequences.lengths, sequences.event
    if length.size and length.max() >= success_within.size:
        raise ValueError(
            f"the curves end at step {success_within.size - 1}, a run has {length.max()} steps"
        )
    law = np.stack(
        [
            1.0 - success_within - failure_within,
            np.diff(success_within, prepend=0.0),
            np.diff(failure_within, prepend=0.0),
        ]
    )
    probability = np.clip(law[event, length], 0.0, 1.0)
    if tail is not None:
        probability = (1.0 - tail.weight) * probability + tail.weight * tail.probability(
            length, event
        )
    score = np.full(probability.shape, -np.inf)
    np.log(probability, out=score, where=probability > 0.0)
    return score


def task_scores(sequences: StateSequences, scores: Floats) -> Floats:
    """Sum the scores of independent runs by task, in ascending order of the task numbers present.

    Returns
    -------
    ndarray of shape (n_tasks,)
    """
    _, place = np.unique(sequences.task, return_inverse=True)
    return np.bincount(place, weights=scores, minlength=0).astype(np.float64)
