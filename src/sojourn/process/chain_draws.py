"""Many chains at once: refits of resampled corpora, or draws from the posterior of the rows.

A `ChainDraws` answers the questions of one chain for all of them by batched linear algebra. The
counts of resampled corpora are one matrix product (see `sojourn.process.counting`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.process.counting import count_by_unit
from sojourn.process.homogeneous import HomogeneousFit, start_row
from sojourn.process.simulate import event_rows
from sojourn.sequences import StateSequences

__all__ = ["ChainDraws", "Resimulated", "bootstrap_draws", "posterior_draws", "resimulate"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
_BLOCK_WEIGHTS = 4_000_000
_MAX_QUANTILE_STEP = 100_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainDraws:
    """A batch of chains over the same states.

    Attributes
    ----------
    rows : ndarray of shape (n_draws, n_states, n_states + 2)
        Next-event probabilities: next states, success, failure.
    start : ndarray of shape (n_draws, n_states + 2)
        First-event probabilities.
    """

    rows: Floats
    start: Floats

    @property
    def n_draws(self) -> int:
        """Number of chains."""
        return int(self.rows.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.rows.shape[1])

    @property
    def is_absorbing(self) -> npt.NDArray[np.bool_]:
        """Whether all states that runs of a chain can be in lead to an end, shape (n_draws,)."""
        m = self.n_states
        moves = self.rows[:, :, :m] > 0.0
        out = self.rows[:, :, m:].sum(axis=2) > 0.0
        inside = self.start[:, :m] > 0.0
        for _ in range(m):
            out = out | (moves & out[:, None, :]).any(axis=2)
            inside = inside | (moves & inside[:, :, None]).any(axis=1)
        return np.asarray(np.all(out | ~inside, axis=1), dtype=np.bool_)

    @property
    def mean_steps(self) -> Floats:
        """Mean number of steps, shape (n_draws,); NaN for a chain whose runs may never end."""
        visits, _ = self._visits()
        return np.asarray(visits.sum(axis=1), dtype=np.float64)

    @property
    def mean_steps_given_success(self) -> Floats:
        """Mean number of steps of successful runs; NaN where there are none or it is infinite."""
        visits, values = self._visits()
        total = self.ends_in("success")
        fits = np.isfinite(total) & (total > 0.0)
        mean = np.full(self.n_draws, np.nan)
        mean[fits] = (visits[fits] * values[fits]).sum(axis=1) / total[fits]
        return mean

    def ends_in(self, outcome: str) -> Floats:
        """P(the run ends so), shape (n_draws,); NaN for a chain whose runs may never end."""
        column = self.n_states + _exit_column(outcome)
        visits, _ = self._visits()
        return np.asarray(
            (visits * self.rows[:, :, column]).sum(axis=1) + self.start[:, column],
            dtype=np.float64,
        )

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps), shape (n_draws, horizon + 1)."""
        return self._within(horizon, "success")

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps), shape (n_draws, horizon + 1)."""
        return self._within(horizon, "failure")

    def restricted_mean_steps(self, horizon: int) -> Floats:
        """Mean of min(steps, horizon), shape (n_draws,)."""
        m = self.n_states
        mass = self.start[:, None, :m]
        total = np.zeros(self.n_draws)
        for _ in range(horizon):
            total += mass.sum(axis=(1, 2))
            mass = mass @ self.rows[:, :, :m]
        return total

    def quantile_steps(self, prob: float, *, given: str | None = None) -> Floats:
        """Smallest d by which a share of runs has ended, shape (n_draws,); NaN where none is."""
        m = self.n_states
        weight = np.ones((self.n_draws, m))
        level = np.full(self.n_draws, 1.0 - prob)
        if given is not None:
            level = (1.0 - prob) * self.ends_in(given)
            weight = self._solve(self.rows[:, :, m + _exit_column(given)])
            level[~(level > 0.0)] = np.nan
        open_ = self.is_absorbing & np.isfinite(level)
        found = np.full(self.n_draws, np.nan)
        mass = self.start[:, None, :m]
        for d in range(_MAX_QUANTILE_STEP):
            left = (mass[:, 0] * weight).sum(axis=1)
            hit = open_ & (left <= level + 1e-13)
            found[hit] = d
            open_ &= ~hit
            if not np.any(open_):
                break
            mass = mass @ self.rows[:, :, :m]
        return found

    def _within(self, horizon: int, outcome: str) -> Floats:
        m = self.n_states
        column = m + _exit_column(outcome)
        curve = np.empty((self.n_draws, horizon + 1))
        curve[:, 0] = self.start[:, column]
        mass = self.start[:, None, :m]
        exits = self.rows[:, :, column : column + 1]
        for d in range(horizon):
            curve[:, d + 1] = curve[:, d] + (mass @ exits)[:, 0, 0]
            mass = mass @ self.rows[:, :, :m]
        return curve

    def _solve(self, right: Floats) -> Floats:
        """(I - Q)^-1 right for the chains that end; NaN for the others."""
        m, fits = self.n_states, self._solvable()
        solved = np.full((self.n_draws, m), np.nan)
        system = np.eye(m) - self.rows[fits, :, :m]
        solved[fits] = np.linalg.solve(system, right[fits][..., None])[..., 0]
        return solved

    def _visits(self) -> tuple[Floats, Floats]:
        m, fits = self.n_states, self._solvable()
        visits = np.full((self.n_draws, m), np.nan)
        system = np.eye(m) - np.swapaxes(self.rows[fits, :, :m], 1, 2)
        visits[fits] = np.linalg.solve(system, self.start[fits, :m][..., None])[..., 0]
        return visits, self._solve(self.rows[:, :, m])

    def _solvable(self) -> npt.NDArray[np.bool_]:
        """Tell which systems are regular: all states lead out, whether runs get there or not."""
        m = self.n_states
        out = self.rows[:, :, m:].sum(axis=2) > 0.0
        for _ in range(m):
            out = out | ((self.rows[:, :, :m] > 0.0) & out[:, None, :]).any(axis=2)
        return np.asarray(np.all(out, axis=1), dtype=np.bool_)


def posterior_draws(fit: HomogeneousFit, n_draws: int = 1999, *, rng: Rng = None) -> ChainDraws:
    """Draw rows from their Dirichlet laws: counts plus the prior mass of the fit.

    The start has the law of the Bayesian bootstrap, Dirichlet(counts), or is fixed as in the fit.
    """
    check_positive_int(n_draws, name="n_draws")
    source = generator(rng)
    observed, prior = fit.prior.masses(fit.counts.table)
    rows = _dirichlet(observed + prior, n_draws, source)
    m = fit.counts.n_states
    first = fit.counts.table[0, : m + 2].astype(np.float64)
    if fit.start == "empirical" and first.sum() > 0.0:
        start = _dirichlet(first, n_draws, source)
    else:
        start = np.broadcast_to(start_row(fit.counts.table, fit.start), (n_draws, m + 2))
    return ChainDraws(rows=rows, start=start)


def bootstrap_draws(
    fit: HomogeneousFit,
    sequences: StateSequences,
    n_draws: int = 1999,
    *,
    by: str = "unit",
    rng: Rng = None,
) -> ChainDraws:
    """Resample units with all their runs and refit, the prior's settings held fixed.

    Parameters
    ----------
    fit : HomogeneousFit
        Gives the rule from counts to rows.
    sequences : StateSequences
        The runs it was fitted to.
    n_draws : int
        Resampled corpora.
    by : {"unit", "run"}
        What is resampled.
    rng : Generator, SeedSequence, int or None
        Source of chance.
    """
    check_positive_int(n_draws, name="n_draws")
    check_choice(by, ("unit", "run"), name="by")
    source = generator(rng)
    runs = np.arange(sequences.n_runs, dtype=np.int32)
    units = count_by_unit(sequences, runs if by == "run" else None)
    m = sequences.n_states
    rows = np.empty((n_draws, m, m + 2))
    start = np.empty((n_draws, m + 2))
    block = max(1, _BLOCK_WEIGHTS // units.n_units)
    share = np.full(units.n_units, 1.0 / units.n_units)
    for k in range(0, n_draws, block):
        size = min(block, n_draws - k)
        weights = source.multinomial(units.n_units, share, size=size).astype(np.float64)
        tables = units.resample(weights)
        rows[k : k + size] = fit.prior.rows(tables)
        start[k : k + size] = start_row(tables, fit.start)
    return ChainDraws(rows=rows, start=start)


class Resimulated(NamedTuple):
    """Corpora simulated from a fit, reduced to what refits and statistics of time need.

    `tables` has shape (n_corpora, n_states + 1, n_states + 3); `ends` has shape
    (n_corpora, 3, max_steps + 1): runs by event (cut, success, failure) and length.
    """

    tables: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


def resimulate(
    fit: HomogeneousFit,
    n_corpora: int,
    *,
    n_runs: int | None = None,
    max_steps: int = 200,
    rng: Rng = None,
) -> Resimulated:
    """Simulate corpora of the fitted chain and count them, without keeping their paths.

    Parameters
    ----------
    fit : HomogeneousFit
        The chain to simulate.
    n_corpora : int
        Number of corpora, one key of chance each.
    n_runs : int, optional
        Runs of each corpus; as many as were fitted by default.
    max_steps : int
        Longer runs are cut.
    rng : Generator, SeedSequence, int or None
        Source of chance.
    """
    from sojourn.process import _kernels

    check_positive_int(n_corpora, name="n_corpora")
    check_positive_int(max_steps, name="max_steps")
    m = fit.counts.n_states
    accept, alias = _kernels.alias_rows(event_rows(fit.chain)[None])
    tables = np.zeros((n_corpora, m + 1, m + 3), dtype=np.int64)
    ends = np.zeros((n_corpora, 3, max_steps + 1), dtype=np.int64)
    size = fit.counts.n_runs if n_runs is None else check_positive_int(n_runs, name="n_runs")
    keys = generator(rng).integers(0, 2**64, size=n_corpora, dtype=np.uint64)
    _kernels.simulate_tables(keys, accept[0], alias[0], size, max_steps, tables, ends)
    return Resimulated(tables=tables, ends=ends)


def _dirichlet(mass: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Dirichlet draws along the last axis, cells of mass zero staying zero."""
    gammas = rng.standard_gamma(np.broadcast_to(mass, (n_draws, *mass.shape)))
    total = gammas.sum(axis=-1, keepdims=True)
    mean = mass / mass.sum(axis=-1, keepdims=True)
    # Tiny masses may all underflow; such a row is all but a single cell, drawn by its mean.
    return np.where(total > 0.0, gammas / np.where(total > 0.0, total, 1.0), mean)


def _exit_column(outcome: str) -> int:
    return ("success", "failure").index(
        check_choice(outcome, ("success", "failure"), name="outcome")
    )
