"""The smooth twin of the Aalen-Johansen estimate: discrete hazards without states.

The hazards of success and of failure after step t are those of a multinomial logit whose log odds
are penalised cubic splines in the step: the progress-dependent chain of a single state. Unlike
Aalen-Johansen it gives no end time probability zero, so it can be scored: it is the baseline
against which processes with states are weighed. A process that scores no better has states that
say nothing on when and how runs end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sojourn.process.progress import ProgressFit, fit_progress
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["SmoothIncidence", "fit_smooth_incidence"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
_STATE = "running"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmoothIncidence:
    """Penalised cause-specific hazards fitted to the ends of runs.

    Attributes
    ----------
    progress : ProgressFit
        The same as a progress-dependent chain of the one state ``running``.
    """

    progress: ProgressFit

    def __str__(self) -> str:
        fit = self.progress
        return "\n".join(
            [
                f"smooth incidence, {fit.n_runs:g} runs, {n_of(fit.n_tasks, 'task')}",
                f"  P(success ever)   {fit.success_ever}",
                f"  longest run       {n_of(fit.horizon, 'step')}; constant from step "
                f"{fit.basis.shape[0]}",
                f"  parameters        {fit.n_parameters}, of which splines {fit.freedom:.1f}",
            ]
        )

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return "smooth incidence"

    @property
    def state_names(self) -> tuple[str, ...]:
        """The one state, ``running``."""
        return self.progress.state_names

    @property
    def n_parameters(self) -> int:
        """Free cells, plus the splines' effective number; see `ProgressFit.n_parameters`."""
        return self.progress.n_parameters

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run, with the hazards of the last step."""
        return True

    @property
    def horizon(self) -> int:
        """Steps of the longest observed run."""
        return self.progress.horizon

    @property
    def hazards(self) -> Floats:
        """P(success) and P(failure) after steps 1 .. n_levels of a run, shape (n_levels, 2)."""
        return self.progress.rows[:, 0, 1:]

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        return self.progress.success_within(horizon)

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self.progress.failure_within(horizon)

    def value(self, state: int, step: int) -> float | None:
        """P(success | still running at step number `step`), whatever the state."""
        del state
        return self.progress.value(0, step)

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of a task's runs, one value a distinct task (ascending)."""
        return self.progress.log_score(sequences)

    def simulate(
        self, n_runs: int, *, rng: Rng = None, max_steps: int = 1_000_000
    ) -> StateSequences:
        """Draw independent runs of the one state, each of a task of its own."""
        return self.progress.simulate(n_runs, rng=rng, max_steps=max_steps)

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: Rng = None,
    ) -> StateSequences:
        """Draw one run of the one state for each entry of `task`; see `ProgressFit`."""
        return self.progress.simulate_tasks(task, log_odds=log_odds, max_steps=max_steps, rng=rng)

    def refit(self, sequences: StateSequences, *, weights: Floats | None = None) -> Self:
        """Fit again with penalties and knots held; the states of the runs are not looked at."""
        return type(self)(progress=self.progress.refit(_one_state(sequences), weights=weights))

    def bootstrap_curves(
        self, sequences: StateSequences, weights: npt.NDArray[Any], horizon: int
    ) -> Floats:
        """Curves of refits to resampled corpora; see `ProgressFit.bootstrap_curves`."""
        return self.progress.bootstrap_curves(_one_state(sequences), weights, horizon)

    def coefficient_draws(self, n_draws: int, horizon: int, *, rng: Rng = None) -> Floats:
        """Curves of Laplace draws; see `ProgressFit.coefficient_draws`."""
        return self.progress.coefficient_draws(n_draws, horizon, rng=rng)

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that makes the fit, as arrays by name."""
        return self.progress.parameters()

    @classmethod
    def from_parameters(cls, arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Build a fit of the arrays that `parameters` gives."""
        return cls(progress=ProgressFit.from_parameters(arrays))

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain values; infinite ones as None."""
        return self.progress.to_dict()


def fit_smooth_incidence(
    sequences: StateSequences,
    *,
    penalty: float | str = "laplace",
    n_knots: int = 5,
    cut_step: str = "survived",
) -> SmoothIncidence:
    """Fit penalised discrete hazards of success and failure to the ends of runs.

    Parameters
    ----------
    sequences : StateSequences
        Runs; only lengths and ends count.
    penalty : "laplace" or float
        Precision of the spline coefficients; infinity gives constant hazards.
    n_knots : int
        Inner knots at quantiles of the end times, besides those at steps 2 and 3.
    cut_step : {"survived", "unseen"}
        What is known of the last step of a cut run, as in `fit_homogeneous`.

    Returns
    -------
    SmoothIncidence

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.
    """
    return SmoothIncidence(
        progress=fit_progress(
            _one_state(sequences), penalty=penalty, n_knots=n_knots, cut_step=cut_step
        )
    )


def _one_state(sequences: StateSequences) -> StateSequences:
    return StateSequences(
        states=np.zeros(sequences.states.size, dtype=np.int32),
        offsets=sequences.offsets,
        event=sequences.event,
        task=sequences.task,
        unit=sequences.unit,
        state_names=(_STATE,),
    )
