"""The chain of order k: what comes next depends on the last k states, as far as data can tell.

Contexts are what runs were seen in: the last k states, fewer of them (with a mark for the start) in
the first steps of a run. Rows are smoothed from the short to the long, never by a pseudo-count a
cell (interpolated Dirichlet, the hierarchical prior of MacKay & Peto 1995 with fixed means):

    p_k(. | h) = ( c(h, .) + kappa_k p_{k-1}(. | h') ) / ( c(h) + kappa_k ),

h' the context without its oldest state, down to the rows of order 1, which are those of
`fit_homogeneous` and shrink to the mean row of the corpus.

Curves are exact and need no table of all m^k contexts. A context never seen has the row of its
longest seen suffix, so the row depends on the past through the longest seen suffix alone. And that
suffix can be followed step by step: if the longest seen suffix of h with a state j behind it is
w j, then w was seen as well, hence it is a suffix of the longest seen suffix of h. The seen
contexts therefore form a chain of first order, with at most k contexts a step of the data, that has
exactly the law of the chain of order k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.estimates import Estimate
from sojourn.process._contexts import (
    Machine,
    context_rows,
    event_cells,
    find_places,
    link_contexts,
    mean_steps,
    probable_masses,
    single_prior,
    unit_cells,
    until_end,
)
from sojourn.process._exit_odds import as_tasks, check_task, shift_outcomes
from sojourn.process._row_prior import possible_cells
from sojourn.process._weighted import (
    CUT_STEPS,
    check_unit_weights,
    check_weights,
    common_arrays,
    common_fields,
    identified_states,
    unless_unidentified,
    weight_blocks,
    weighted_tail,
)
from sojourn.process.base import GeometricTail, run_scores, task_scores
from sojourn.process.homogeneous import start_row
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["OrderFit", "fit_order"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
States = npt.NDArray[np.int32]
Rng = np.random.Generator | np.random.SeedSequence | int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderFit:
    """A chain of order k fitted to runs.

    Attributes
    ----------
    unidentified : tuple of str
        States that runs were in and from which no observed path leads to an end.
    order : int
        Number of states that the next event depends on.
    kappa : ndarray of shape (order,)
        Mass of the back-off: ``kappa[l - 1]`` draws the rows of l states to those of l - 1.
    state_names : tuple of str
        One readable name a state.
    contexts : ndarray of shape (n_contexts, order), int32
        The contexts seen, oldest state first, flush right; -1 is the start of the run, -2 filling.
    rows : ndarray of shape (n_contexts, n_states + 2)
        Next states, success, failure.
    start : ndarray of shape (n_states + 2,)
        What runs do first.
    allowed : ndarray of shape (n_states, n_states + 2), bool
        Cells that smoothing may fill in the rows of single states.
    cut_step : str
        What is known of the last step of a cut run; see `fit_order`.
    identified : ndarray of shape (n_states,), bool
        States whose value rests on observed paths.
    n_parameters : int
        Free probabilities among the observed cells of the longest contexts, and of the start.
    horizon : int
        Steps of the longest observed run.
    n_runs, n_tasks, n_units : int
        What was fitted.
    tail : GeometricTail
        What is mixed in when the fit is scored.
    """

    unidentified: tuple[str, ...]
    order: int
    kappa: Floats
    state_names: tuple[str, ...]
    contexts: States = field(repr=False)
    rows: Floats = field(repr=False)
    start: Floats = field(repr=False)
    allowed: Mask = field(repr=False)
    cut_step: str
    identified: Mask = field(repr=False)
    n_parameters: int
    horizon: int
    n_runs: int
    n_tasks: int
    n_units: int
    tail: GeometricTail = field(repr=False)
    _machine: Machine = field(repr=False)

    def __str__(self) -> str:
        lines = []
        if self.unidentified:
            names = ", ".join(repr(name) for name in self.unidentified)
            lines.append(f"unidentified: no observed way to an end from {names}")
        masses = ", ".join(f"{mass:.3g}" for mass in self.kappa)
        lines += [
            f"chain of order {self.order}, {n_of(len(self.state_names), 'state')}, "
            f"{n_of(self.contexts.shape[0], 'context')}, {n_of(self.n_runs, 'run')}, "
            f"{n_of(self.n_tasks, 'task')}",
            f"  P(success ever)   {self.success_ever}",
            f"  mean steps        {self.mean_steps}",
            f"  back-off mass     {masses}",
        ]
        return "\n".join(lines)

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return f"order-{self.order}"

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run; there they are extrapolation."""
        return True

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_names)

    @property
    def success_ever(self) -> Estimate:
        """P(success ever), without an interval; withheld where it is not identified."""
        m = self.n_states
        values = self._values()[self._machine.entry]
        value = float(self.start[:m] @ values + self.start[m])
        return unless_unidentified(value, self.unidentified)

    @property
    def mean_steps(self) -> Estimate:
        """Mean number of steps, without an interval; withheld where it is not identified."""
        if self.unidentified:
            return unless_unidentified(0.0, self.unidentified)
        steps = mean_steps(self.rows, self._machine, self.start)
        return Estimate(value=steps)

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        return self._curves(horizon)[0]

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self._curves(horizon)[1]

    def simulate(
        self, n_runs: int, *, rng: Rng = None, max_steps: int = 1_000_000
    ) -> StateSequences:
        """Draw independent runs, each of a task of its own; one longer than `max_steps` is cut."""
        return self.simulate_tasks(np.arange(n_runs, dtype=np.int32), rng=rng, max_steps=max_steps)

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: Rng = None,
    ) -> StateSequences:
        """Draw one run for each entry of `task`; see `RefittableProcess.simulate_tasks`."""
        from sojourn.process import _renewal_kernels as kernels

        tasks, source, m = check_task(task), generator(rng), self.n_states
        states, offsets, event, last = kernels.simulate_machine(
            source,
            self.start,
            self._machine.entry,
            self._machine.following,
            self.rows,
            tasks.size,
            max_steps,
        )
        # The row of a run without a step, at -1, is the start.
        ends = np.vstack((self.rows, self.start))[last, m:]
        drawn = StateSequences(
            states=states,
            offsets=offsets,
            event=event,
            task=tasks,
            unit=tasks,
            state_names=self.state_names,
        )
        return as_tasks(
            drawn, tasks, shift_outcomes(event, ends[:, 0], ends[:, 1], log_odds, source)
        )

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of a task's runs, one value a distinct task (ascending).

        The fit is mixed with weight 1 / (n + 1) of a geometric law, so no score is infinite.
        """
        curves = self._curves(int(sequences.lengths.max(initial=0)))
        return task_scores(sequences, run_scores(sequences, curves[0], curves[1], tail=self.tail))

    def value(self, state: int, step: int) -> float | None:
        """P(success | in `state` at step number `step`), over the contexts a run may then be in.

        Contexts that end in `state` count by their probability at that step. Where the chain
        cannot be in that state at that step, nothing is known of the past, and the value is that
        of the single state. None where a state on the way is unidentified.
        """
        if step < 1:
            raise ValueError(f"steps are numbered from 1; got {step}")
        if not self.identified[state]:
            return None
        m, machine = self.n_states, self._machine
        mass = np.bincount(machine.entry, weights=self.start[:m], minlength=self.rows.shape[0])
        for _ in range(step - 1):
            flow = mass[:, None] * self.rows[:, :m]
            mass = np.bincount(machine.following.ravel(), weights=flow.ravel(), minlength=mass.size)
        here = mass * (self.contexts[:, -1] == state)
        total = here.sum()
        values = self._values()
        # Far beyond all ends hardly any mass is left, and its shares are rounding.
        if total <= 1e-300:
            return float(values[state])
        return float(np.clip(here @ values / total, 0.0, 1.0))

    def value_after(self, history: Sequence[int], *, from_start: bool = False) -> float | None:
        """P(success | the last states were these), the most recent one last.

        Parameters
        ----------
        history : sequence of int
            One or more states; only the last `order` of them count.
        from_start : bool
            Whether `history` is the whole run so far.
        """
        if not len(history):
            raise ValueError("history must hold at least one state")
        if not self.identified[history[-1]]:
            return None
        first, *rest = history
        node = int(self._machine.entry[first]) if from_start else int(first)
        for state in rest:
            node = int(self._machine.following[node, state])
        return float(self._values()[node])

    def refit(self, sequences: StateSequences, *, weights: Floats | None = None) -> OrderFit:
        """Fit again to (weighted) runs of the same states, the masses of the back-off held."""
        if sequences.n_states != self.n_states:
            raise ValueError(f"the runs have {sequences.n_states} states, not {self.n_states}")
        return _fit(
            sequences, check_weights(sequences, weights), self.kappa, self.allowed, self.cut_step
        )

    def bootstrap_curves(
        self, sequences: StateSequences, unit_weights: Floats, horizon: int
    ) -> Floats:
        """Both curves of the refit to each of many resampled corpora.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        unit_weights : ndarray of shape (n_corpora, n_units)
            Weight of each unit, in ascending order of the unit numbers present.
        horizon : int
            Last step of the curves.

        Returns
        -------
        ndarray of shape (n_corpora, 2, horizon + 1)
            Success and failure within d = 0 .. horizon steps.
        """
        from sojourn.process import _renewal_kernels as kernels

        weights = check_unit_weights(sequences, unit_weights)
        places = find_places(sequences, self.order)
        _, unit = np.unique(sequences.unit, return_inverse=True)
        cells = unit_cells(sequences, places, unit, weights.shape[1])
        machine = places.machine
        curves = np.empty((weights.shape[0], 2, horizon + 1))
        prior = single_prior(self.kappa, self.allowed, self.cut_step)
        for block in weight_blocks(weights, cells.shape[1]):
            tables = np.ascontiguousarray((cells.T @ weights[block].T).T)
            tables = tables.reshape(-1, machine.depth.size + 1, self.n_states + 3)
            rows = context_rows(tables, machine, prior, self.kappa)
            start = start_row(tables[:, : self.n_states + 1], "empirical")
            kernels.machine_curves(start, machine.entry, machine.following, rows, curves[block])
        return curves

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that a model file must hold, as arrays; see `from_parameters`."""
        return {
            "kappa": self.kappa,
            "contexts": self.contexts,
            "rows": self.rows,
            "start": self.start,
            **common_arrays(self),
        }

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, npt.NDArray[Any]], state_names: Sequence[str]
    ) -> OrderFit:
        """Restore a fit from what `parameters` returned.

        Raises
        ------
        ValueError
            If the contexts are not those of a fit: a shorter context must stand before each longer
            one that it is a part of.
        """
        names = tuple(state_names)
        contexts = np.asarray(parameters["contexts"], dtype=np.int32)
        kappa = np.asarray(parameters["kappa"], dtype=np.float64)
        return cls(
            order=kappa.size,
            kappa=kappa,
            contexts=contexts,
            rows=np.asarray(parameters["rows"], dtype=np.float64),
            start=np.asarray(parameters["start"], dtype=np.float64),
            _machine=link_contexts(contexts, len(names)),
            **common_fields(parameters, names),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return contexts, rows and provenance as plain values."""
        return {
            "unidentified": list(self.unidentified),
            "order": self.order,
            "kappa": self.kappa.tolist(),
            "state_names": list(self.state_names),
            "contexts": self.contexts.tolist(),
            "rows": self.rows.tolist(),
            "start": self.start.tolist(),
            "cut_step": self.cut_step,
            "n_parameters": self.n_parameters,
            "horizon": self.horizon,
            "n_runs": self.n_runs,
            "n_tasks": self.n_tasks,
            "n_units": self.n_units,
        }

    def _curves(self, horizon: int) -> tuple[Floats, Floats]:
        from sojourn.process import _renewal_kernels as kernels

        if horizon < 0:
            raise ValueError(f"horizon must not be negative; got {horizon}")
        curves = np.empty((1, 2, horizon + 1))
        machine = self._machine
        kernels.machine_curves(
            self.start[None], machine.entry, machine.following, self.rows[None], curves
        )
        return curves[0, 0], curves[0, 1]

    def _values(self) -> Floats:
        """P(success | context) for each context."""
        return np.clip(until_end(self.rows, self._machine, self.rows[:, self.n_states]), 0.0, 1.0)


def fit_order(
    sequences: StateSequences,
    order: int = 2,
    *,
    kappa: float | Sequence[float] | str = "empirical_bayes",
    allowed: Mask | None = None,
    cut_step: str = "survived",
) -> OrderFit:
    """Fit the chain of order k, each row smoothed by the row of the context one state shorter.

    Parameters
    ----------
    sequences : StateSequences
        Runs; a cut run gives its transitions, and that it had not ended when it was cut.
    order : int
        Number of states the next event depends on; with 1 the fit is that of `fit_homogeneous`
        with shrinkage and the same mass.
    kappa : float, sequence of float or "empirical_bayes"
        Mass of the shorter context's row in each row: one for all depths, one for each of depth
        1 .. order, or at each depth the one under which the counts are most probable
        (Dirichlet-multinomial likelihood; between 1e-2 and 1e4, where 1e4 says that the longer
        contexts tell nothing more).
    allowed : ndarray of shape (n_states, n_states + 2), bool, optional
        Cells that smoothing may fill; as in `fit_homogeneous`.
    cut_step : {"survived", "unseen"}
        What is known of the last step of a cut run: that the run did not end there, or nothing.

    Returns
    -------
    OrderFit

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.
    """
    check_choice(cut_step, CUT_STEPS, name="cut_step")
    order = check_positive_int(order, name="order")
    weights = check_weights(sequences, None)
    m = sequences.n_states
    masses: Floats | None = None
    if isinstance(kappa, str):
        check_choice(kappa, ("empirical_bayes",), name="kappa")
    else:
        masses = np.array(np.broadcast_to(np.asarray(kappa, dtype=np.float64), (order,)))
        if not np.all((masses > 0.0) & np.isfinite(masses)):
            raise ValueError(f"kappa must be positive; got {kappa!r}")
    if allowed is not None and np.shape(allowed) != (m, m + 2):
        raise ValueError(f"allowed has shape {np.shape(allowed)}, not ({m}, {m + 2})")
    return _fit(sequences, weights, masses, allowed, cut_step, order=order)


def _fit(
    sequences: StateSequences,
    weights: Floats,
    kappa: Floats | None,
    allowed: Mask | None,
    cut_step: str,
    *,
    order: int = 0,
) -> OrderFit:
    order = order or (kappa.size if kappa is not None else 1)
    places = find_places(sequences, order)
    machine, m = places.machine, sequences.n_states
    runs = np.arange(sequences.n_runs)
    cell, run = event_cells(sequences, places, runs)
    size = (machine.depth.size + 1) * (m + 3)
    flat = np.bincount(cell, weights=weights[run], minlength=size).astype(np.float64)
    table = flat.reshape(1, -1, m + 3)
    single = table[0, : m + 1]
    if allowed is None:
        allowed = possible_cells(single)
    if kappa is None:
        kappa = probable_masses(table, machine, allowed, cut_step, order)
    rows = context_rows(table, machine, single_prior(kappa, allowed, cut_step), kappa)[0]
    lost, clear = identified_states(single)
    used = weights > 0.0
    # The longest contexts are those that no step goes beyond.
    longest = np.setdiff1d(np.unique(places.at.max(axis=0, initial=-1)), [-1])
    seen = np.count_nonzero(table[0, np.append(longest + 1, 0), : m + 2], axis=1)
    return OrderFit(
        unidentified=tuple(sequences.state_names[i] for i in np.flatnonzero(lost)),
        order=order,
        kappa=kappa,
        state_names=sequences.state_names,
        contexts=machine.contexts,
        rows=rows,
        start=start_row(table[:, : m + 1], "empirical")[0],
        allowed=np.asarray(allowed, dtype=np.bool_),
        cut_step=cut_step,
        identified=clear,
        n_parameters=int(np.maximum(seen - 1, 0).sum()),
        horizon=int(sequences.lengths[used].max(initial=0)),
        n_runs=round(float(weights.sum())),
        n_tasks=int(np.unique(sequences.task[used]).size),
        n_units=int(np.unique(sequences.unit[used]).size),
        tail=weighted_tail(sequences, weights),
        _machine=machine,
    )
