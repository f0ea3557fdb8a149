"""Fit the homogeneous absorbing chain: each row of its table is a proportion of counts.

The likelihood of first-order runs depends on the counts alone, row by row, so the maximum is the
table of proportions. Rows that were seen rarely are drawn toward the mean row of the corpus by a
small total mass `kappa` (a hierarchical Dirichlet prior, its mass reported); the published method
adds a pseudo-count of one to every cell instead, which for m states is a prior of m + 2
observations a row and biases the pass rate; it is kept for comparison.

Two things the fit cannot do, and says. Without smoothing, and on complete runs, the chain's
P(success ever) *equals* the pass rate for any states whatever: v = n pi0 + Q' v holds for the visit
counts v, hence n pi0' N R+ = v' R+ = number of successes. Their agreement is no evidence. And a
state from which no observed path leads to an end has no observed fate: what lies beyond it is
`unidentified`, and figures that need it are withheld.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, generator
from sojourn.estimates import Estimate
from sojourn.process._exit_odds import as_tasks, check_task, last_states, shift_outcomes
from sojourn.process._row_prior import RowPrior, possible_cells
from sojourn.process._weighted import (
    WeightedCounts,
    check_unit_weights,
    check_weights,
    identified_states,
    most_probable_mass,
    unless_unidentified,
    weight_blocks,
    weighted_counts,
    weighted_tail,
)
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.base import GeometricTail, run_scores, task_scores
from sojourn.process.counting import TransitionCounts, count_by_unit, count_transitions
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["HomogeneousFit", "RowPrior", "fit_homogeneous"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_SMOOTHINGS = ("shrinkage", "published", "none")
_CUT_STEPS = ("unseen", "survived")
_STARTS = ("empirical", "modal")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HomogeneousFit:
    """A homogeneous chain fitted to runs, with what it rests on.

    Attributes
    ----------
    unidentified : tuple of str
        States that runs were in and from which no observed path leads to an end.
    chain : AbsorbingChain
        The fitted tables.
    counts : TransitionCounts
        What was counted.
    prior : RowPrior
        The rule from counts to rows.
    prior_share : ndarray of shape (n_states,)
        Share of each row's mass that comes from the prior.
    start : str or int
        ``empirical``, ``modal``, or the fixed first state.
    n_tasks, n_units : int
        Tasks and units of resampling among the runs.
    tail : GeometricTail
        What is mixed in when the fit is scored.
    """

    unidentified: tuple[str, ...]
    chain: AbsorbingChain
    counts: TransitionCounts
    prior: RowPrior
    prior_share: Floats
    start: str | int
    n_tasks: int
    n_units: int
    tail: GeometricTail

    def __str__(self) -> str:
        lines = []
        if self.unidentified:
            lines.append(f"unidentified: no observed way to an end from {_list(self.unidentified)}")
        lines += [
            f"homogeneous chain, {n_of(self.counts.n_states, 'state')}, "
            f"{n_of(self.counts.n_runs, 'run')}, "
            f"{n_of(self.n_tasks, 'task')}",
            f"  P(success ever)   {self.success_ever}",
            f"  mean steps        {self.mean_steps}",
            f"  prior mass        {self.prior.smoothing}, at most {self.prior_share.max():.1%} "
            "of a row",
        ]
        return "\n".join(lines)

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return "homogeneous"

    @property
    def state_names(self) -> tuple[str, ...]:
        """One readable name a state."""
        return self.counts.state_names

    @property
    def n_parameters(self) -> int:
        """Free probabilities among the cells that were observed: rows, and the start."""
        m = self.counts.n_states
        seen = np.count_nonzero(self.counts.table[:, : m + 2], axis=1)
        return int(np.maximum(seen - 1, 0).sum())

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run; there they are extrapolation."""
        return True

    @property
    def horizon(self) -> int:
        """Steps of the longest observed run: the last step at which a curve rests on data."""
        return self.counts.longest

    @property
    def success_ever(self) -> Estimate:
        """P(success ever), without an interval; withheld where it is not identified."""
        return unless_unidentified(self.chain.success_ever, self.unidentified)

    @property
    def mean_steps(self) -> Estimate:
        """Mean number of steps, without an interval; withheld where it is not identified."""
        if self.unidentified:
            return unless_unidentified(0.0, self.unidentified)
        return Estimate(value=self.chain.mean_steps)

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        return self.chain.success_within(horizon)

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self.chain.failure_within(horizon)

    def simulate(
        self,
        n_runs: int,
        *,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
        max_steps: int = 1_000_000,
    ) -> StateSequences:
        """Draw independent runs, each of a task of its own; one longer than `max_steps` is cut."""
        return self.chain.simulate(n_runs, rng=rng, max_steps=max_steps)

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of a task's runs, one value a distinct task (ascending).

        The fit is mixed with weight 1 / (n + 1) of a geometric law, so no score is infinite.
        """
        longest = int(sequences.lengths.max(initial=0))
        success, failure = self.success_within(longest), self.failure_within(longest)
        return task_scores(sequences, run_scores(sequences, success, failure, tail=self.tail))

    def value(self, state: int, step: int = 1) -> float | None:
        """P(success | now in `state`); None where a state on its way is unidentified."""
        if self.unidentified and not identified_states(self.counts.table)[1][state]:
            return None
        return self.chain.value(state, step)

    def refit(self, sequences: StateSequences, *, weights: Floats | None = None) -> HomogeneousFit:
        """Fit again to (weighted) runs of the same states, the rule from counts to rows held."""
        if sequences.n_states != self.counts.n_states:
            raise ValueError(
                f"the runs have {sequences.n_states} states, not {self.counts.n_states}"
            )
        weight = check_weights(sequences, weights)
        used = weight > 0.0
        return _build(
            weighted_counts(sequences, weight),
            self.prior,
            self.start,
            n_tasks=int(np.unique(sequences.task[used]).size),
            n_units=int(np.unique(sequences.unit[used]).size),
            tail=weighted_tail(sequences, weight),
        )

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    ) -> StateSequences:
        """Draw one run for each entry of `task`; see `RefittableProcess.simulate_tasks`."""
        tasks, source = check_task(task), generator(rng)
        drawn = self.chain.simulate(tasks.size, rng=source, max_steps=max_steps)
        last = last_states(drawn)
        success = np.append(self.chain.to_success, self.chain.initial_success)[last]
        failure = np.append(self.chain.to_failure, self.chain.initial_failure)[last]
        event = shift_outcomes(drawn.event, success, failure, log_odds, source)
        return as_tasks(drawn, tasks, event)

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
        units, m = count_by_unit(sequences), sequences.n_states
        entry = np.arange(m, dtype=np.int32)
        curves = np.empty((weights.shape[0], 2, horizon + 1))
        for block in weight_blocks(weights, (m + 1) * (m + 3)):
            tables = units.resample(weights[block])
            start = start_row(tables, self.start)
            rows = self.prior.rows(tables)
            kernels.machine_curves(start, entry, np.tile(entry, (m, 1)), rows, curves[block])
        return curves

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that a model file must hold, as arrays; see `from_parameters`."""
        prior, tail = self.prior, self.tail
        return {
            "table": self.counts.table,
            "longest": np.array(self.counts.longest),
            "smoothing": np.array(_SMOOTHINGS.index(prior.smoothing)),
            "kappa": np.array(prior.kappa),
            "alpha": np.array(prior.alpha),
            "allowed": prior.allowed,
            "cut_step": np.array(_CUT_STEPS.index(prior.cut_step)),
            "start": np.array(_start_code(self.start)),
            "n_tasks": np.array(self.n_tasks),
            "n_units": np.array(self.n_units),
            "tail": np.array([tail.success_hazard, tail.failure_hazard, tail.weight]),
        }

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, npt.NDArray[Any]], state_names: Sequence[str]
    ) -> HomogeneousFit:
        """Restore a fit from what `parameters` returned; its tables are computed anew."""
        table = np.asarray(parameters["table"])
        whole = np.issubdtype(table.dtype, np.integer)
        start = int(parameters["start"])
        success, failure, weight = (float(x) for x in parameters["tail"])
        return _build(
            (TransitionCounts if whole else WeightedCounts)(
                table=table,
                state_names=tuple(state_names),
                longest=int(parameters["longest"]),
            ),
            RowPrior(
                smoothing=_SMOOTHINGS[int(parameters["smoothing"])],
                kappa=float(parameters["kappa"]),
                alpha=float(parameters["alpha"]),
                allowed=np.asarray(parameters["allowed"], dtype=np.bool_),
                cut_step=_CUT_STEPS[int(parameters["cut_step"])],
            ),
            start if start >= 0 else _STARTS[-start - 1],
            n_tasks=int(parameters["n_tasks"]),
            n_units=int(parameters["n_units"]),
            tail=GeometricTail(success_hazard=success, failure_hazard=failure, weight=weight),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return tables, counts and provenance as plain values."""
        return {
            "unidentified": list(self.unidentified),
            "chain": self.chain.to_dict(),
            "counts": self.counts.table.tolist(),
            "smoothing": self.prior.smoothing,
            "kappa": self.prior.kappa,
            "alpha": self.prior.alpha,
            "cut_step": self.prior.cut_step,
            "prior_share": self.prior_share.tolist(),
            "start": self.start,
            "n_runs": self.counts.n_runs,
            "n_tasks": self.n_tasks,
            "n_units": self.n_units,
            "horizon": self.horizon,
        }


def fit_homogeneous(
    sequences: StateSequences,
    *,
    smoothing: str = "shrinkage",
    kappa: float | str = 1.0,
    alpha: float = 1.0,
    allowed: Mask | None = None,
    start: str | int = "empirical",
    cut_step: str = "survived",
) -> HomogeneousFit:
    """Fit the first-order homogeneous chain.

    Parameters
    ----------
    sequences : StateSequences
        Runs; a cut run gives its transitions, and that it had not ended when it was cut.
    smoothing : {"shrinkage", "published", "none"}
        ``shrinkage`` adds to each row the mean row of the corpus with total mass `kappa`.
        ``published`` adds `alpha` to every cell. ``none`` is plain maximum likelihood.
    kappa : float or "empirical_bayes"
        Mass of the mean row; ``empirical_bayes`` takes the value under which the rows of counts
        are most probable (Dirichlet-multinomial likelihood).
    alpha : float
        Pseudo-count of the published rule.
    allowed : ndarray of shape (n_states, n_states + 2), bool, optional
        Cells that shrinkage may fill; next states, success, failure. By default a cell is left at
        zero when it was never seen though, at the mean row's rate, its row would have shown it
        with probability over 1 - 1e-4.
    start : {"empirical", "modal"} or int
        The distribution of first states, all mass on the most frequent one (as the published
        method has it), or a fixed state.
    cut_step : {"survived", "unseen"}
        What is known of the last step of a cut run: that the run did not end there, as the
        Aalen-Johansen estimate takes it too; or nothing, which overstates exits where many runs
        reach a cap.

    Returns
    -------
    HomogeneousFit

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.

    Notes
    -----
    Row i: p_ij = (c_ij + kappa b_j) / (c_i + kappa), with b the mean row. The ends of runs without
    a step are atoms of the start; a run cut before its first step says nothing.
    """
    check_choice(smoothing, _SMOOTHINGS, name="smoothing")
    check_choice(cut_step, _CUT_STEPS, name="cut_step")
    if sequences.n_runs == 0:
        raise ValueError("there is no run to fit a chain to")
    counts = count_transitions(sequences)
    m = counts.n_states
    if allowed is None:
        allowed = possible_cells(counts.table)
    elif np.shape(allowed) != (m, m + 2):
        raise ValueError(f"allowed has shape {np.shape(allowed)}, not ({m}, {m + 2})")
    if isinstance(kappa, str):
        check_choice(kappa, ("empirical_bayes",), name="kappa")
        kappa = _empirical_bayes(counts)
    if not (0.0 < kappa < np.inf and 0.0 < alpha < np.inf):
        raise ValueError(f"kappa and alpha must be positive; got {kappa!r} and {alpha!r}")
    prior = RowPrior(
        smoothing=smoothing,
        kappa=float(kappa),
        alpha=float(alpha),
        allowed=np.asarray(allowed, dtype=np.bool_),
        cut_step=cut_step,
    )
    return _build(
        counts,
        prior,
        start,
        n_tasks=sequences.n_tasks,
        n_units=int(np.unique(sequences.unit).size),
        tail=GeometricTail.of(sequences),
    )


def _build(
    counts: TransitionCounts,
    prior: RowPrior,
    start: str | int,
    *,
    n_tasks: int,
    n_units: int,
    tail: GeometricTail,
) -> HomogeneousFit:
    m = counts.n_states
    observed, added = prior.masses(counts.table)
    weight = added.sum(axis=1)
    rows = prior.rows(counts.table)
    initial = start_row(counts.table, start)
    lost, _ = identified_states(counts.table)
    return HomogeneousFit(
        unidentified=tuple(counts.state_names[i] for i in np.flatnonzero(lost)),
        chain=AbsorbingChain(
            transient=rows[:, :m],
            to_success=rows[:, m],
            to_failure=rows[:, m + 1],
            initial=initial[:m],
            initial_success=float(initial[m]),
            initial_failure=float(initial[m + 1]),
            state_names=counts.state_names,
        ),
        counts=counts,
        prior=prior,
        prior_share=weight / (observed.sum(axis=1) + weight),
        start=start,
        n_tasks=n_tasks,
        n_units=n_units,
        tail=tail,
    )


def start_row(tables: npt.NDArray[Any], start: str | int) -> Floats:
    """Distribution of what runs do first, shape (..., n_states + 2), from tables of counts."""
    m = tables.shape[-2] - 1
    first = tables[..., 0, : m + 2].astype(np.float64)
    total = first.sum(axis=-1, keepdims=True)
    # Where every run was cut before its first step the start is open; any row then serves.
    first = np.where(total > 0.0, first, np.arange(m + 2) < m)
    if start == "empirical":
        return np.asarray(first / first.sum(axis=-1, keepdims=True), dtype=np.float64)
    if start == "modal":
        state = first[..., :m].argmax(axis=-1)
    elif isinstance(start, int) and 0 <= start < m:
        state = np.full(first.shape[:-1], start)
    else:
        raise ValueError(f"start must be 'empirical', 'modal' or a state below {m}; got {start!r}")
    return np.asarray(np.eye(m + 2)[state], dtype=np.float64)


def _empirical_bayes(counts: TransitionCounts) -> float:
    """Give the mass of the mean row under which the rows of counts are most probable."""
    events = counts.table[1:, : counts.n_states + 2].astype(np.float64)
    return most_probable_mass(events, events.sum(axis=0) / max(float(events.sum()), 1.0))


def _start_code(start: str | int) -> int:
    """Code a start as a number: a state as it is, the words as -1 and -2."""
    return -1 - _STARTS.index(start) if isinstance(start, str) else start


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
