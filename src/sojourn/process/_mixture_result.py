"""A fitted mixture of chains over tasks: what it can be asked, and how it is fitted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, frozen_array, generator
from sojourn.process._hidden import (
    FittedOn,
    Optima,
    draw_runs,
    tail_of,
    take_units,
    weights_of,
)
from sojourn.process._mixture_em import (
    Laws,
    Tasks,
    climb,
    tabulate,
)
from sojourn.process._mixture_parts import (
    TaskClasses,
    TaskKind,
    chain_of,
    classes_of,
    curves_of,
    row_prior_of,
    weights_of_tasks,
)
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import GeometricTail, run_scores
from sojourn.process.homogeneous import RowPrior
from sojourn.process.simulate import event_rows
from sojourn.sequences import StateSequences

__all__ = ["MAX_RUNS", "MixtureFit", "assemble"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

MAX_RUNS = 5000
_REFIT_ITERATIONS = 40
_REFIT_TOLERANCE = 1e-4
_CHUNK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixtureFit:
    """Classes of tasks with a chain each, fitted to runs.

    Attributes
    ----------
    optima : Optima
        What the starts came to.
    weights : ndarray of shape (n_classes,)
        Share of the tasks in each class.
    chains : tuple of AbsorbingChain
        The chain of each class, the easiest first.
    classes : TaskClasses
        The classes of the tasks that it was fitted to.
    log_posterior : float
        What was maximised: log likelihood and log prior.
    n_parameters : int
        Free probabilities among the cells that were observed, in all classes, and the shares.
    horizon : int
        Steps of the longest observed run.
    fitted_on : FittedOn
        Runs and units that the fit rests on.
    prior : RowPrior
        How the rows of the single chain are made, toward which those of the classes are drawn.
    row_mass, class_mass : float
        Imaginary events added to each row of a class, and imaginary tasks to each class.
    move_weight : float
        Weight of where runs go, in the likelihood that was maximised.
    tail : GeometricTail
        What is mixed in when the fit is scored.
    """

    optima: Optima
    weights: Floats
    chains: tuple[AbsorbingChain, ...]
    classes: TaskClasses = field(repr=False)
    log_posterior: float
    n_parameters: int
    horizon: int
    fitted_on: FittedOn
    prior: RowPrior = field(repr=False)
    row_mass: float
    class_mass: float
    move_weight: float
    tail: GeometricTail

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_array(self.weights, float, name="weights"))
        if self.weights.size != len(self.chains) or not self.chains:
            raise ValueError(f"{self.weights.size} weights for {len(self.chains)} chains")
        if abs(float(self.weights.sum()) - 1.0) > 1e-9 or np.any(self.weights < 0.0):
            raise ValueError("weights must not be negative and sum to one")

    def __str__(self) -> str:
        lines = [
            str(self.optima),
            f"mixture of {self.n_classes} classes of tasks, {self.fitted_on}",
            "  share of tasks   P(success ever)   mean steps",
        ]
        for kind in self.kinds:
            steps = "-" if kind.mean_steps is None else f"{kind.mean_steps:.1f}"
            lines.append(f"  {kind.weight:14.3f}   {kind.success_ever:15.3f}   {steps:>10}")
        return "\n".join(lines)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.chains)

    @property
    def name(self) -> str:
        """Short name of the kind of process; tells where moves were weighted."""
        suffix = "" if self.move_weight == 0.0 else f"-moves{self.move_weight:g}"
        return f"mixture-{self.n_classes}{suffix}"

    @property
    def state_names(self) -> tuple[str, ...]:
        """One readable name a state."""
        return self.chains[0].state_names

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run; there they are extrapolation."""
        return True

    @property
    def kinds(self) -> tuple[TaskKind, ...]:
        """The classes, a line each."""
        return tuple(
            TaskKind(
                float(weight),
                chain.success_ever,
                chain.mean_steps if chain.is_absorbing else None,
            )
            for weight, chain in zip(self.weights, self.chains, strict=True)
        )

    @property
    def success_ever(self) -> float:
        """P(success ever) of a run at a task drawn at random."""
        return min(1.0, float(self.weights @ self._rates(None)))

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon, sum_c w_c R_c(d)."""
        return self.weights @ self._curves(horizon)[0]

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self.weights @ self._curves(horizon)[1]

    def pass_hat(self, k: int, *, within: int | None = None) -> float:
        """P(all k attempts at a task succeed) = sum_c w_c R_c^k.

        Parameters
        ----------
        k : int
            Attempts at the same task.
        within : int, optional
            Success within so many steps; ever by default.
        """
        rates = self._rates(within) ** check_positive_int(k, name="k")
        return min(1.0, float(self.weights @ rates))

    def pass_at(self, k: int, *, within: int | None = None) -> float:
        """P(at least one of k attempts at a task succeeds) = 1 - sum_c w_c (1 - R_c)^k."""
        missed = (1.0 - self._rates(within)) ** check_positive_int(k, name="k")
        return max(0.0, 1.0 - float(self.weights @ missed))

    def task_classes(self, sequences: StateSequences) -> TaskClasses:
        """Give the posterior class of every task from the paths of all its runs."""
        return classes_of(tabulate(sequences), self._rows(), self.weights, self.move_weight)

    def members(self, kind: int, *, at_least: float = 0.0) -> npt.NDArray[np.int32]:
        """Tasks of the fitted runs whose most probable class is `kind`."""
        return self.classes.members(kind, at_least=at_least)

    def value(self, state: int, step: int) -> float | None:
        """P(success | the run is in `state` at its step number `step`).

        The classes count by how likely their runs are to be there: sum_c p_c h_c(state), with
        p_c in proportion to w_c P_c(in `state` at `step`). None: no run can be there.
        """
        if step < 1:
            raise ValueError(f"steps are numbered from 1; got {step}")
        log_share = np.full(self.n_classes, -np.inf)
        for c, chain in enumerate(self.chains):
            mass, log_scale = chain.initial, 0.0
            for _ in range(step - 1):
                mass = mass @ chain.transient
                total = float(mass.sum())
                if total <= 0.0:
                    break
                mass, log_scale = mass / total, log_scale + np.log(total)
            if mass[state] > 0.0 and self.weights[c] > 0.0:
                log_share[c] = np.log(self.weights[c]) + log_scale + np.log(mass[state])
        if not np.any(log_share > -np.inf):
            return None
        share = np.exp(log_share - log_share.max())
        values = np.array([chain.values[state] for chain in self.chains])
        return min(1.0, float(share @ values / share.sum()))

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of all runs of a task, one value a task (ascending).

        Notes
        -----
        log sum_c w_c prod_r ((1 - e) P_c(end of r) + e G(end of r)), with G the geometric tail and
        e its weight: the tail is mixed in run by run within a class, so that identical classes
        score as one chain does and no score is infinite.
        """
        longest = int(sequences.lengths.max(initial=0))
        success, failure = self._curves(longest)
        numbers, place = np.unique(sequences.task, return_inverse=True)
        joint = np.empty((numbers.size, self.n_classes))
        for c in range(self.n_classes):
            scores = run_scores(sequences, success[c], failure[c], tail=self.tail)
            joint[:, c] = np.bincount(place, weights=scores, minlength=numbers.size)
        joint += np.log(np.maximum(self.weights, 1e-300))
        top = joint.max(axis=1, keepdims=True)
        return np.asarray(top[:, 0] + np.log(np.exp(joint - top).sum(axis=1)), dtype=np.float64)

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
        """Draw one run for each entry of `task`; the runs of a task are of one class.

        See `RefittableProcess.simulate_tasks`.
        """
        source = generator(rng)
        numbers, place = np.unique(np.asarray(task), return_inverse=True)
        kind = source.choice(self.n_classes, size=numbers.size, p=self.weights)
        return draw_runs(
            self._rows(),
            kind[place].astype(np.int64),
            task=task,
            state_names=self.state_names,
            log_odds=log_odds,
            max_steps=max_steps,
            rng=source,
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
            How often each run counts. A task counts as often as its runs do on average.
        max_iterations : int
            Most iterations; they also end when the log posterior gains less than 1e-4.
        """
        if sequences.state_names != self.state_names:
            raise ValueError("a refit needs runs of the same states")
        given = weights_of(sequences, weights)
        taken = take_units(sequences, self.fitted_on.most_runs(MAX_RUNS))
        if weights is not None:
            weights = given[taken.runs]
        tasks = tabulate(taken.sequences, weights)
        rows, shares = self._rows()[None], self.weights[None]
        start = Laws(rows, shares, np.zeros(1), np.ones(1, dtype=np.bool_))
        laws = climb(
            tasks,
            tasks.weight[None],
            start,
            self.prior,
            row_mass=self.row_mass,
            class_mass=self.class_mass,
            move_weight=self.move_weight,
            max_iterations=max_iterations,
            tolerance=_REFIT_TOLERANCE,
        )
        made = assemble(
            laws,
            0,
            tasks,
            taken.sequences,
            self.prior,
            row_mass=self.row_mass,
            class_mass=self.class_mass,
            move_weight=self.move_weight,
            fitted_on=taken.fitted_on,
            tail=tail_of(taken.sequences, weights),
        )
        return type(self)(**made)

    def bootstrap_curves(
        self,
        sequences: StateSequences,
        unit_weights: Floats,
        horizon: int,
        *,
        max_iterations: int = _REFIT_ITERATIONS,
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
            Most iterations of each refit, which starts from this fit.

        Returns
        -------
        ndarray of shape (n_corpora, 2, horizon + 1)
            Success and failure curves.
        """
        taken = take_units(sequences, self.fitted_on.most_runs(MAX_RUNS))
        tasks = tabulate(taken.sequences)
        weight = weights_of_tasks(sequences, taken.sequences, np.asarray(unit_weights, dtype=float))
        n_corpora = weight.shape[0]
        rows, shares = self._rows(), self.weights
        per_corpus = self.n_classes * max(tasks.numbers.size, rows[0].size, horizon + 1)
        chunk = max(1, _CHUNK_CELLS // per_corpus)
        curves = np.empty((n_corpora, 2, horizon + 1))
        for low in range(0, n_corpora, chunk):
            part = weight[low : low + chunk]
            size = part.shape[0]
            start = Laws(
                np.broadcast_to(rows, (size, *rows.shape)),
                np.broadcast_to(shares, (size, shares.size)),
                np.zeros(size),
                np.ones(size, dtype=np.bool_),
            )
            laws = climb(
                tasks,
                part,
                start,
                self.prior,
                row_mass=self.row_mass,
                class_mass=self.class_mass,
                move_weight=self.move_weight,
                max_iterations=max_iterations,
                tolerance=_REFIT_TOLERANCE,
            )
            curves[low : low + size] = curves_of(laws, horizon)
        return curves

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that `from_parameters` needs, as arrays."""
        tail = self.tail
        return {
            "weights": self.weights.copy(),
            "rows": self._rows(),
            "allowed": self.prior.allowed.copy(),
            "masses": np.array(
                [self.prior.kappa, self.row_mass, self.class_mass, self.move_weight]
            ),
            "tail": np.array([tail.success_hazard, tail.failure_hazard, tail.weight]),
            "horizon": np.array(self.horizon),
            "n_parameters": np.array(self.n_parameters),
            "log_posterior": np.array(self.log_posterior),
            "fitted_on": np.array(self.fitted_on),
            "optima": np.array(self.optima.log_posterior),
            "n_open": np.array(self.optima.n_open),
            "task": self.classes.task.copy(),
            "task_probability": self.classes.probability.copy(),
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
            The names of the states.
        """
        given = {name: np.asarray(values) for name, values in parameters.items()}
        kappa, row_mass, class_mass, move_weight = (float(x) for x in given["masses"])
        hazards = [float(x) for x in given["tail"]]
        return cls(
            optima=Optima.of(given["optima"], int(given["n_open"])),
            weights=given["weights"],
            chains=tuple(chain_of(rows, state_names) for rows in given["rows"]),
            classes=TaskClasses(
                task=frozen_array(given["task"], np.int32, name="task"),
                probability=frozen_array(
                    given["task_probability"], float, ndim=2, name="task_probability"
                ),
            ),
            log_posterior=float(given["log_posterior"]),
            n_parameters=int(given["n_parameters"]),
            horizon=int(given["horizon"]),
            fitted_on=FittedOn(*(int(n) for n in given["fitted_on"])),
            prior=row_prior_of(kappa, given["allowed"]),
            row_mass=row_mass,
            class_mass=class_mass,
            move_weight=move_weight,
            tail=GeometricTail(
                success_hazard=hazards[0], failure_hazard=hazards[1], weight=hazards[2]
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return classes, chains and provenance as plain values."""
        return {
            "name": self.name,
            "optima": self.optima.log_posterior.tolist(),
            "share_at_best": self.optima.share_at_best,
            "n_open": self.optima.n_open,
            "classes": [
                {**kind._asdict(), "chain": chain.to_dict()}
                for kind, chain in zip(self.kinds, self.chains, strict=True)
            ],
            "task": self.classes.task.tolist(),
            "task_probability": self.classes.probability.tolist(),
            "log_posterior": self.log_posterior,
            "n_parameters": self.n_parameters,
            "row_mass": self.row_mass,
            "class_mass": self.class_mass,
            "move_weight": self.move_weight,
            "horizon": self.horizon,
            "fitted_on": self.fitted_on._asdict(),
        }

    def _rows(self) -> Floats:
        return np.stack([event_rows(chain) for chain in self.chains])

    def _rates(self, within: int | None) -> Floats:
        rates = [
            chain.success_ever if within is None else chain.success_within(within)[-1]
            for chain in self.chains
        ]
        return np.asarray(np.clip(rates, 0.0, 1.0), dtype=np.float64)

    def _curves(self, horizon: int) -> tuple[Floats, Floats]:
        """Success and failure curves of the classes, shape (n_classes, horizon + 1) each."""
        return (
            np.stack([chain.success_within(horizon) for chain in self.chains]),
            np.stack([chain.failure_within(horizon) for chain in self.chains]),
        )


def assemble(
    laws: Laws,
    best: int,
    tasks: Tasks,
    runs: StateSequences,
    prior: RowPrior,
    *,
    row_mass: float,
    class_mass: float,
    move_weight: float,
    fitted_on: FittedOn,
    tail: GeometricTail,
) -> dict[str, Any]:
    """Order the classes of the best law by success and collect the fields of the fit."""
    chains = [chain_of(rows, runs.state_names) for rows in laws.rows[best]]
    order = np.argsort([-chain.success_ever for chain in chains], kind="stable")
    rows, weights = laws.rows[best][order], laws.weights[best][order]
    pooled = np.asarray(tasks.counts.sum(axis=0)).reshape(rows.shape[1], -1)
    seen = np.count_nonzero(pooled[:, :-1], axis=1)
    free = int(np.maximum(seen - 1, 0).sum())
    return {
        "optima": Optima.of(laws.log_posterior, int(laws.is_open.sum())),
        "weights": weights,
        "chains": tuple(chains[c] for c in order),
        "classes": classes_of(tasks, rows, weights, move_weight),
        "log_posterior": float(laws.log_posterior[best]),
        "n_parameters": free * len(chains) + len(chains) - 1,
        "horizon": int(runs.lengths.max(initial=0)),
        "fitted_on": fitted_on,
        "prior": prior,
        "row_mass": row_mass,
        "class_mass": class_mass,
        "move_weight": move_weight,
        "tail": tail,
    }
