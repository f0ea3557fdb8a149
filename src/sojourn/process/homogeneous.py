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

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice
from sojourn.estimates import Estimate, Status
from sojourn.process.absorbing import AbsorbingChain, leads_out
from sojourn.process.base import GeometricTail, run_scores, task_scores
from sojourn.process.counting import TransitionCounts, count_transitions, share_survivals
from sojourn.sequences import StateSequences

__all__ = ["HomogeneousFit", "RowPrior", "fit_homogeneous"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_IMPOSSIBLE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPrior:
    """How rows of counts become rows of probabilities; fixed while counts are resampled.

    Attributes
    ----------
    smoothing : str
        ``shrinkage``, ``published`` or ``none``.
    kappa : float
        With shrinkage, the total mass given to the mean row in each row.
    alpha : float
        With the published rule, the pseudo-count of every cell.
    allowed : ndarray of shape (n_states, n_states + 2), bool
        Cells that shrinkage may fill: next states, success, failure.
    cut_step : str
        ``unseen``: nothing is known of what followed the last step of a cut run. ``survived``: the
        run is known not to have ended there.
    """

    smoothing: str
    kappa: float
    alpha: float
    allowed: Mask
    cut_step: str

    def masses(self, tables: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Split posterior masses of the rows into what was observed and what the prior adds.

        Parameters
        ----------
        tables : ndarray of shape (..., n_states + 1, n_states + 3)
            Counts, possibly of many corpora at once.

        Returns
        -------
        observed, prior : ndarray of shape (..., n_states, n_states + 2)
        """
        m = tables.shape[-2] - 1
        if self.cut_step == "survived":
            observed = share_survivals(tables[..., 1:, :])
        else:
            observed = tables[..., 1:, : m + 2].astype(np.float64)
        if self.smoothing == "published":
            return observed, np.full(observed.shape, self.alpha)
        base = self._base(observed)
        if self.smoothing == "shrinkage":
            return observed, self.kappa * base
        # Without smoothing only rows without any observation need a convention: the mean row.
        empty = observed.sum(axis=-1, keepdims=True) == 0.0
        return observed, base * empty

    def rows(self, tables: npt.NDArray[Any]) -> Floats:
        """Probabilities of the next event in each state, shape (..., n_states, n_states + 2)."""
        observed, prior = self.masses(tables)
        total = observed + prior
        return np.asarray(total / total.sum(axis=-1, keepdims=True), dtype=np.float64)

    def _base(self, observed: Floats) -> Floats:
        """Give the mean row over all states, restricted in each row to the cells allowed there."""
        marginal = observed.sum(axis=-2, keepdims=True)
        base = marginal * self.allowed
        total = base.sum(axis=-1, keepdims=True)
        # A row that may take nothing of the mean row gets no mass, unless it has nothing else:
        # then its state is kept, for which no exit is ever claimed.
        stay = np.zeros(observed.shape)
        m = observed.shape[-2]
        stay[..., np.arange(m), np.arange(m)] = observed.sum(axis=-1) == 0.0
        return np.where(total > 0.0, base / np.where(total > 0.0, total, 1.0), stay)


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
            f"homogeneous chain, {self.counts.n_states} states, {self.counts.n_runs} runs, "
            f"{self.n_tasks} tasks",
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
        return self._unless_unidentified(self.chain.success_ever)

    @property
    def mean_steps(self) -> Estimate:
        """Mean number of steps, without an interval; withheld where it is not identified."""
        if self.unidentified:
            return self._unless_unidentified(0.0)
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
        if self.unidentified:
            lost = np.isin(self.state_names, self.unidentified).astype(np.float64)
            if leads_out(self.counts.transitions, lost)[state]:
                return None
        return self.chain.value(state, step)

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

    def _unless_unidentified(self, value: float) -> Estimate:
        if not self.unidentified:
            return Estimate(value=value)
        reason = f"no observed path leads from {_list(self.unidentified)} to an end of a run"
        return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))


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
    check_choice(smoothing, ("shrinkage", "published", "none"), name="smoothing")
    check_choice(cut_step, ("unseen", "survived"), name="cut_step")
    if sequences.n_runs == 0:
        raise ValueError("there is no run to fit a chain to")
    counts = count_transitions(sequences)
    m = counts.n_states
    if allowed is None:
        allowed = _possible(counts)
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
    observed, added = prior.masses(counts.table)
    weight = added.sum(axis=1)
    rows = prior.rows(counts.table)
    initial = start_row(counts.table, start)
    return HomogeneousFit(
        unidentified=_unidentified(counts),
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
        n_tasks=sequences.n_tasks,
        n_units=int(np.unique(sequences.unit).size),
        tail=GeometricTail.of(sequences),
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


def _possible(counts: TransitionCounts) -> Mask:
    """Cells that were seen, or that were too rarely on offer for their absence to mean much."""
    events = counts.table[1:, : counts.n_states + 2].astype(np.float64)
    total = events.sum()
    mean_row = events.sum(axis=0) / total if total > 0.0 else np.zeros(events.shape[1])
    unseen = (1.0 - mean_row) ** events.sum(axis=1)[:, None]
    return np.asarray((events > 0.0) | (unseen > _IMPOSSIBLE), dtype=np.bool_)


def _unidentified(counts: TransitionCounts) -> tuple[str, ...]:
    visited = counts.table[1:].sum(axis=1) > 0
    if not np.any(counts.table[0, : counts.n_states + 2]):
        visited[:] = True  # no run was seen to do anything
    out = leads_out(counts.transitions, counts.to_success + counts.to_failure)
    return tuple(counts.state_names[i] for i in np.flatnonzero(visited & ~out))


def _empirical_bayes(counts: TransitionCounts) -> float:
    """Give the kappa that maximises the Dirichlet-multinomial likelihood of the rows.

    sum_i [ lgamma(k) - lgamma(k + c_i) + sum_j lgamma(k b_j + c_ij) - lgamma(k b_j) ], b the mean
    row; searched between 1e-2 and 1e4, the upper end standing for rows that do not differ.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    events = counts.table[1:, : counts.n_states + 2].astype(np.float64)
    events = events[events.sum(axis=1) > 0.0]
    if events.size == 0:
        return 1.0
    events = events[:, events.sum(axis=0) > 0.0]
    base = events.sum(axis=0) / events.sum()

    def loss(log_kappa: float) -> float:
        kappa = np.exp(log_kappa)
        row = gammaln(kappa) - gammaln(kappa + events.sum(axis=1))
        cells = gammaln(kappa * base + events) - gammaln(kappa * base)
        return -float(row.sum() + cells.sum())

    found = minimize_scalar(loss, bounds=(np.log(1e-2), np.log(1e4)), method="bounded")
    return float(np.exp(found.x))


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)
