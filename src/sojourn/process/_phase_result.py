"""Fitted hidden phases: what they can be asked, and how they are fitted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, frozen_array, generator
from sojourn.process._hidden import (
    FittedOn,
    Optima,
    draw_runs,
    of_units,
    tail_of,
    take_units,
    weights_of,
)
from sojourn.process._phase_em import Climbed, climb_from, prior_of
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import GeometricTail, run_scores, task_scores
from sojourn.process.chain_draws import ChainDraws
from sojourn.sequences import StateSequences

__all__ = ["MAX_RUNS", "TOPOLOGIES", "PhaseFit", "assemble"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

TOPOLOGIES = ("general", "left_to_right")
_REFIT_ITERATIONS = 30
_REFIT_TOLERANCE = 1e-3
MAX_RUNS = 5000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhaseFit:
    """A chain of hidden phases with what each shows, fitted to runs.

    Attributes
    ----------
    optima : Optima
        What the long iterations came to.
    phase_chain : AbsorbingChain
        Moves among phases and the two ends; phases in the order in which runs pass them.
    emission : ndarray of shape (n_phases, n_states)
        Probability of each observed state in a step of each phase.
    state_names : tuple of str
        One readable name an observed state.
    topology : str
        ``general``, or ``left_to_right``: no way back to an earlier phase.
    log_posterior : float
        What was maximised: log likelihood and log prior.
    n_parameters : int
        Free probabilities.
    horizon : int
        Steps of the longest observed run.
    fitted_on : FittedOn
        Runs and units that the fit rests on.
    prior_mass : float
        Imaginary events added to the start and to each row of moves and of states.
    emission_weight : float
        Weight of what steps show in the likelihood that was maximised.
    tail : GeometricTail
        What is mixed in when the fit is scored.
    """

    optima: Optima
    phase_chain: AbsorbingChain
    emission: Floats
    state_names: tuple[str, ...]
    topology: str
    log_posterior: float
    n_parameters: int
    horizon: int
    fitted_on: FittedOn
    prior_mass: float
    emission_weight: float
    tail: GeometricTail = field(repr=False)

    def __post_init__(self) -> None:
        emission = frozen_array(self.emission, np.float64, ndim=2, name="emission")
        object.__setattr__(self, "emission", emission)
        shape = (self.n_phases, len(self.state_names))
        if emission.shape != shape:
            raise ValueError(f"emission has shape {emission.shape}, not {shape}")
        if np.any(emission < 0.0) or np.any(np.abs(emission.sum(axis=1) - 1.0) > 1e-9):
            raise ValueError("each row of emission must be probabilities that sum to one")
        check_choice(self.topology, TOPOLOGIES, name="topology")

    def __str__(self) -> str:
        chain = self.phase_chain
        steps = f"{chain.mean_steps:.1f}" if chain.is_absorbing else "-"
        lines = [
            str(self.optima),
            f"{self.n_phases} hidden phases ({self.topology}), {self.fitted_on}",
            f"  P(success ever)   {chain.success_ever:.4f}",
            f"  mean steps        {steps}",
        ]
        for k in range(self.n_phases):
            shown = np.argsort(-self.emission[k], kind="stable")[:3]
            words = ", ".join(f"{self.state_names[o]} {self.emission[k, o]:.2f}" for o in shown)
            ends = f"success {chain.to_success[k]:.3f}, failure {chain.to_failure[k]:.3f}"
            lines.append(f"  phase {k + 1}: shows {words}; ends in {ends} a step")
        return "\n".join(lines)

    @property
    def n_phases(self) -> int:
        """Number of phases."""
        return self.phase_chain.n_states

    @property
    def name(self) -> str:
        """Short name of the kind of process; tells what differs from the plain one."""
        parts = ["phases", str(self.n_phases)]
        if self.topology != "general":
            parts.append("lr")
        if self.emission_weight < 1.0:
            weight = self.emission_weight
            parts.append("timing" if weight == 0.0 else f"shown{weight:g}")
        return "-".join(parts)

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run; there they are extrapolation."""
        return True

    @property
    def success_ever(self) -> float:
        """P(the run ends in success)."""
        return self.phase_chain.success_ever

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        return self.phase_chain.success_within(horizon)

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self.phase_chain.failure_within(horizon)

    def phases_at(self, state: int, step: int) -> Floats | None:
        """Law of the phase of a run that shows `state` at its step number `step`, steps from 1.

        Earlier steps are not looked at. None: no run can be there.
        """
        if step < 1:
            raise ValueError(f"steps are numbered from 1; got {step}")
        mass = self.phase_chain.initial
        for _ in range(step - 1):
            mass = mass @ self.phase_chain.transient
            total = float(mass.sum())
            if total <= 0.0:
                return None
            mass = mass / total
        shown = mass * self.emission[:, state]
        total = float(shown.sum())
        return shown / total if total > 0.0 else None

    def phases_after(self, path: Sequence[int] | npt.NDArray[Any]) -> Floats | None:
        """Law of the phase of a run that has shown the states of `path` so far and goes on.

        None: no run shows this path.
        """
        from sojourn.process import _phase_kernels

        states = np.asarray(path, dtype=np.int32)
        if states.ndim != 1 or states.size == 0:
            raise ValueError("path must hold one state or more")
        if not 0 <= states.min() <= states.max() < len(self.state_names):
            raise ValueError(f"states must lie in 0 .. {len(self.state_names) - 1}")
        mass = np.empty(self.n_phases)
        start, rows = _tables(self.phase_chain)
        log_likelihood = _phase_kernels.filter_path(states, start, rows, self.emission, mass)
        return mass if np.isfinite(log_likelihood) else None

    def value(self, state: int, step: int) -> float | None:
        """P(success | the run is in `state` at its step number `step`); None: no run can be."""
        phase = self.phases_at(state, step)
        return None if phase is None else min(1.0, float(phase @ self.phase_chain.values))

    def value_after(self, path: Sequence[int] | npt.NDArray[Any]) -> float | None:
        """P(success | the states shown so far), exactly; None: no run shows this path.

        The last step of the path has been made; whether the run ends with it is not yet known.
        """
        phase = self.phases_after(path)
        return None if phase is None else min(1.0, float(phase @ self.phase_chain.values))

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of a task's runs, one value a distinct task (ascending).

        The fit is mixed with weight 1 / (n + 1) of a geometric law, so no score is infinite.
        """
        longest = int(sequences.lengths.max(initial=0))
        success, failure = self.success_within(longest), self.failure_within(longest)
        return task_scores(sequences, run_scores(sequences, success, failure, tail=self.tail))

    def simulate(self, n_runs: int, *, rng: Rng = None) -> StateSequences:
        """Draw independent runs, each of a task of its own."""
        if n_runs < 0:
            raise ValueError(f"n_runs must not be negative; got {n_runs}")
        return self.simulate_tasks(np.arange(n_runs, dtype=np.int32), rng=rng)

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: Rng = None,
    ) -> StateSequences:
        """Draw one run for each entry of `task`; see `RefittableProcess.simulate_tasks`.

        Tasks do not differ in this process, except by `log_odds`.
        """
        source = generator(rng)
        start, rows = _tables(self.phase_chain)
        drawn = draw_runs(
            np.vstack((start, rows))[None],
            np.zeros(np.size(task), dtype=np.int64),
            task=task,
            state_names=self.phase_chain.state_names,
            log_odds=log_odds,
            max_steps=max_steps,
            rng=source,
        )
        u = source.random(drawn.states.size)
        shown = np.empty(drawn.states.size, dtype=np.int32)
        for k in range(self.n_phases):
            mine = drawn.states == k
            below = np.cumsum(self.emission[k])[:-1]
            shown[mine] = np.searchsorted(below, u[mine], side="right")
        return StateSequences(
            states=shown,
            offsets=drawn.offsets,
            event=drawn.event,
            task=drawn.task,
            unit=drawn.unit,
            state_names=self.state_names,
        )

    def refit(
        self,
        sequences: StateSequences,
        *,
        weights: Floats | None = None,
        max_iterations: int = _REFIT_ITERATIONS,
    ) -> Self:
        """Fit again to runs of the same states, from this fit onwards.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        weights : ndarray of shape (n_runs,), optional
            How often each run counts.
        max_iterations : int
            Most iterations; they also end when the log posterior gains less than 1e-3.
        """
        if sequences.state_names != self.state_names:
            raise ValueError("a refit needs runs of the same states")
        given = weights_of(sequences, weights)
        taken = take_units(sequences, self.fitted_on.most_runs(MAX_RUNS))
        used = given[taken.runs]
        climbed = self._again(taken.sequences, used, max_iterations)
        made = assemble(
            climbed,
            Optima.of(np.array([climbed.log_posterior]), int(climbed.is_open)),
            taken.sequences,
            topology=self.topology,
            prior_mass=self.prior_mass,
            emission_weight=self.emission_weight,
            fitted_on=taken.fitted_on,
            tail=tail_of(taken.sequences, None if weights is None else used),
        )
        return type(self)(**made)

    def bootstrap_curves(
        self,
        sequences: StateSequences,
        unit_weights: Floats,
        horizon: int,
        *,
        max_iterations: int = 12,
    ) -> Floats:
        """Curves of refits to corpora in which units count differently.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        unit_weights : ndarray of shape (n_corpora, n_units)
            How often each unit counts, units in the order of ``np.unique(sequences.unit)``.
        horizon : int
            Last step of the curves.
        max_iterations : int
            Most iterations of each refit, which starts from this fit. Few are enough for the
            curves, for which phases that trade places do not matter.

        Returns
        -------
        ndarray of shape (n_corpora, 2, horizon + 1)
            Success and failure curves.
        """
        taken = take_units(sequences, self.fitted_on.most_runs(MAX_RUNS))
        weights = of_units(sequences, unit_weights)[:, taken.runs]
        n_corpora, K = weights.shape[0], self.n_phases
        rows = np.empty((n_corpora, K, K + 2))
        start = np.empty((n_corpora, K + 2))
        for b in range(n_corpora):
            climbed = self._again(taken.sequences, weights[b], max_iterations, with_emission=False)
            rows[b], start[b] = climbed.rows, climbed.start
        draws = ChainDraws(rows=rows, start=start)
        return np.stack((draws.success_within(horizon), draws.failure_within(horizon)), axis=1)

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that `from_parameters` needs, as arrays."""
        start, rows = _tables(self.phase_chain)
        tail = self.tail
        return {
            "start": start,
            "rows": rows,
            "emission": self.emission.copy(),
            "left_to_right": np.array(self.topology == "left_to_right"),
            "prior_mass": np.array(self.prior_mass),
            "emission_weight": np.array(self.emission_weight),
            "tail": np.array([tail.success_hazard, tail.failure_hazard, tail.weight]),
            "horizon": np.array(self.horizon),
            "n_parameters": np.array(self.n_parameters),
            "log_posterior": np.array(self.log_posterior),
            "fitted_on": np.array(self.fitted_on),
            "optima": np.array(self.optima.log_posterior),
            "n_open": np.array(self.optima.n_open),
        }

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, npt.NDArray[Any]], *, state_names: tuple[str, ...]
    ) -> Self:
        """Make a fit of what `parameters` gave.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            As `parameters` returns them.
        state_names : tuple of str
            The names of the observed states.
        """
        given = {name: np.asarray(values) for name, values in parameters.items()}
        hazards = [float(x) for x in given["tail"]]
        return cls(
            optima=Optima.of(given["optima"], int(given["n_open"])),
            phase_chain=_chain(given["start"], given["rows"]),
            emission=given["emission"],
            state_names=state_names,
            topology=TOPOLOGIES[int(given["left_to_right"])],
            log_posterior=float(given["log_posterior"]),
            n_parameters=int(given["n_parameters"]),
            horizon=int(given["horizon"]),
            fitted_on=FittedOn(*(int(n) for n in given["fitted_on"])),
            prior_mass=float(given["prior_mass"]),
            emission_weight=float(given["emission_weight"]),
            tail=GeometricTail(
                success_hazard=hazards[0], failure_hazard=hazards[1], weight=hazards[2]
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return phases, emissions and provenance as plain values."""
        return {
            "name": self.name,
            "optima": self.optima.log_posterior.tolist(),
            "share_at_best": self.optima.share_at_best,
            "n_open": self.optima.n_open,
            "phase_chain": self.phase_chain.to_dict(),
            "emission": self.emission.tolist(),
            "state_names": list(self.state_names),
            "topology": self.topology,
            "log_posterior": self.log_posterior,
            "n_parameters": self.n_parameters,
            "prior_mass": self.prior_mass,
            "emission_weight": self.emission_weight,
            "horizon": self.horizon,
            "fitted_on": self.fitted_on._asdict(),
        }

    def _again(
        self,
        runs: StateSequences,
        weights: Floats,
        max_iterations: int,
        *,
        with_emission: bool = True,
    ) -> Climbed:
        """Iterate from this fit, moved a little toward the prior so that no zero is a trap."""
        prior = prior_of(runs, weights, self.n_phases, self.topology, self.prior_mass)
        start, rows = _tables(self.phase_chain)
        begin = [
            0.99 * mine + 0.01 * added / added.sum(axis=-1, keepdims=True)
            for mine, added in zip((start, rows, self.emission), prior, strict=True)
        ]
        return climb_from(
            runs,
            weights,
            prior,
            begin,
            self.emission_weight,
            max_iterations,
            tolerance=_REFIT_TOLERANCE,
            with_emission=with_emission,
        )


def assemble(
    climbed: Climbed,
    optima: Optima,
    runs: StateSequences,
    *,
    topology: str,
    prior_mass: float,
    emission_weight: float,
    fitted_on: FittedOn,
    tail: GeometricTail,
) -> dict[str, Any]:
    """Put the phases into the order in which runs pass them and collect the fields of the fit."""
    K = climbed.emission.shape[0]
    horizon = int(runs.lengths.max(initial=0))
    order = np.arange(K)
    if topology == "general":
        order = np.argsort(_mean_step(climbed, max(horizon, 1)), kind="stable")
    start = np.append(climbed.start[:K][order], climbed.start[K:])
    rows = np.column_stack((climbed.rows[np.ix_(order, order)], climbed.rows[order, K:]))
    seen = int(np.unique(runs.states).size)
    free = np.maximum(np.count_nonzero(rows, axis=1) - 1, 0).sum()
    return {
        "optima": optima,
        "phase_chain": _chain(start, rows),
        "emission": climbed.emission[order],
        "state_names": runs.state_names,
        "topology": topology,
        "log_posterior": climbed.log_posterior,
        "n_parameters": int(free + max(np.count_nonzero(start) - 1, 0) + K * max(seen - 1, 0)),
        "horizon": horizon,
        "fitted_on": fitted_on,
        "prior_mass": prior_mass,
        "emission_weight": emission_weight,
        "tail": tail,
    }


def _mean_step(climbed: Climbed, horizon: int) -> Floats:
    """Mean step number at which runs are in each phase, up to the horizon."""
    K = climbed.emission.shape[0]
    mass = climbed.start[:K]
    total, moment = np.full(K, 1e-300), np.zeros(K)
    for t in range(1, horizon + 1):
        total = total + mass
        moment = moment + t * mass
        mass = mass @ climbed.rows[:, :K]
    return np.asarray(moment / total, dtype=np.float64)


def _tables(chain: AbsorbingChain) -> tuple[Floats, Floats]:
    start = np.append(chain.initial, [chain.initial_success, chain.initial_failure])
    return start, np.column_stack((chain.transient, chain.to_success, chain.to_failure))


def _chain(start: Floats, rows: Floats) -> AbsorbingChain:
    K = rows.shape[0]
    return AbsorbingChain(
        transient=rows[:, :K],
        to_success=rows[:, K],
        to_failure=rows[:, K + 1],
        initial=start[:K],
        initial_success=float(start[K]),
        initial_failure=float(start[K + 1]),
        state_names=tuple(f"phase {k + 1}" for k in range(K)),
    )
