"""The law of task success probabilities under which the counts are most probable, of whatever form.

The log likelihood is concave in the law, and its maximum sits on a few atoms (Lindsay 1983). On a
grid of p it is found by a constrained Newton method: points where the directional derivative is
positive join the support, the weights solve a non-negative least squares problem, and a line search
keeps the likelihood from falling. The condition for the maximum, no positive directional derivative
anywhere, is checked and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, frozen_array, generator
from sojourn.attempts._mixing_parts import (
    Pairs,
    binomial_table,
    estimate_of,
    pairs_of,
    refitted_check,
    resampled_pairs,
)
from sojourn.attempts.counts import TaskCounts
from sojourn.estimates import Estimate
from sojourn.tables import n_of

__all__ = ["NonparametricMixing", "fit_nonparametric"]

FloatArray = npt.NDArray[np.float64]
Generatable = np.random.Generator | np.random.SeedSequence | int | None

_N_GRID = 401
_MAX_ITERATIONS = 200
_TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NonparametricMixing:
    """The most probable law of task success probabilities, on a grid.

    Attributes
    ----------
    gradient : float
        Largest directional derivative of the log likelihood a task, over the grid; at the maximum
        it is 0, and the log likelihood is short of its maximum by at most this a task.
    log_likelihood : float
        At the maximum, binomial coefficients included.
    atoms, weights : ndarray of shape (n_atoms,)
        Success probabilities and the shares of tasks that have them, ascending.
    n_parameters : int
        Atoms and weights, less one for their sum and for each atom at 0 or 1.
    is_unique : bool
        Whether attempts are many enough for the atoms themselves to be determined; the figures for
        k up to the attempts are, in any case.
    counts : TaskCounts
        What it was fitted to.
    resampled : ndarray of shape (n_resamples, n_grid)
        Laws of resampled units on `grid`.
    grid : ndarray of shape (n_grid,)
        The points that may be atoms.
    """

    gradient: float
    log_likelihood: float
    atoms: FloatArray
    weights: FloatArray
    n_parameters: int
    is_unique: bool
    counts: TaskCounts = field(repr=False)
    resampled: FloatArray = field(repr=False)
    grid: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        for name, ndim in (("atoms", 1), ("weights", 1), ("grid", 1), ("resampled", 2)):
            array = frozen_array(getattr(self, name), float, ndim=ndim, name=name)
            object.__setattr__(self, name, array)

    def __str__(self) -> str:
        words = ", ".join(
            f"{weight:.3f} at {atom:.3f}" for atom, weight in zip(*self.clusters, strict=True)
        )
        note = "" if self.is_unique else "; other laws fit as well"
        return f"law of {n_of(self.counts.n_tasks, 'task')}: {words}{note}"

    @property
    def clusters(self) -> tuple[FloatArray, FloatArray]:
        """Atoms and weights with atoms on neighbouring grid points joined, to be read."""
        on_grid = np.zeros(self.grid.size)
        on_grid[np.searchsorted(self.grid, self.atoms)] = self.weights
        return _joined(self.grid, on_grid)

    def pass_hat(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass^k = sum of weight * atom^k.

        The interval resamples units; inconclusive beyond the attempts that were made.
        """
        return self._estimate(k, "pass_hat", ci_prob)

    def pass_at(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass@k = 1 - sum of weight * (1 - atom)^k."""
        return self._estimate(k, "pass_at", ci_prob)

    def count_law(self, n: int) -> FloatArray:
        """Return P(c successes in n attempts), c = 0 .. n."""
        return _count_law(n, self.atoms, self.weights)

    def expected_histogram(self) -> FloatArray:
        """Return how many tasks would have 0 .. n successes, of those with the modal n."""
        total = float(self.counts.histogram().sum())
        return np.asarray(total * self.count_law(self.counts.modal_attempts), dtype=np.float64)

    def predictive_check(self, *, n_resamples: int = 199, rng: Generatable = None) -> float:
        """Return the parametric bootstrap p of the histogram; see `refitted_check`.

        Small: no law of tasks gives such counts with independent attempts, as when some attempts
        are copies or attempts share their randomness.
        """

        def refit(pairs: Pairs) -> Callable[[int], FloatArray]:
            found = _maximise(pairs, self.grid)
            return lambda n: _count_law(n, self.grid, found.weights)

        return refitted_check(
            self.counts, self.count_law, refit, n_resamples=n_resamples, rng=generator(rng)
        )

    def directional_derivative(self, p: npt.ArrayLike) -> FloatArray:
        """Return the gain a task of moving mass to p, sum_t f(c_t | p) / f(c_t) / n_tasks - 1."""
        pairs = pairs_of(self.counts)
        at = np.atleast_1d(np.asarray(p, dtype=np.float64))
        mixed = binomial_table(pairs, self.atoms) @ self.weights
        share = pairs.tasks / pairs.tasks.sum() / mixed
        return np.asarray(share @ binomial_table(pairs, at) - 1.0, dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return the law and what it rests on as plain values."""
        return {
            "atoms": self.atoms.tolist(),
            "weights": self.weights.tolist(),
            "log_likelihood": self.log_likelihood,
            "gradient": self.gradient,
            "is_unique": self.is_unique,
            "n_tasks": self.counts.n_tasks,
            "n_runs": self.counts.n_runs,
        }

    def _estimate(self, k: int, quantity: str, ci_prob: float) -> Estimate:
        check_positive_int(k, name="k")
        return estimate_of(
            self.counts,
            k,
            float(np.clip(self.weights @ _credit(self.atoms, k, quantity), 0.0, 1.0)),
            self.resampled @ _credit(self.grid, k, quantity),
            quantity=quantity,
            law="nonparametric",
            ci_prob=ci_prob,
        )


def fit_nonparametric(
    counts: TaskCounts, *, n_grid: int = _N_GRID, n_resamples: int = 199, rng: Generatable = None
) -> NonparametricMixing:
    """Fit the law of task success probabilities without a form.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts; units are resampled for the intervals.
    n_grid : int
        Points of the grid, dense at 0 and 1, to which the observed proportions are added.
    n_resamples : int
        Fits to resampled units, at least one.
    rng : Generator, int, SeedSequence or None
        Source of the resamples.

    Returns
    -------
    NonparametricMixing

    Notes
    -----
    Maximises sum_t log sum_g w_g C(n_t, c_t) p_g^c_t (1 - p_g)^(n_t - c_t) over w.

    References
    ----------
    B. G. Lindsay (1983), Ann. Statist. 11, 86-94. Y. Wang (2007), J. R. Stat. Soc. B 69, 185-198
    (the constrained Newton method).
    """
    n_resamples = check_positive_int(n_resamples, name="n_resamples")
    check_positive_int(n_grid, name="n_grid")
    source = generator(rng)
    pairs = pairs_of(counts)
    even = np.square(np.sin(np.linspace(0.0, np.pi / 2, n_grid)))
    even[-1] = 1.0
    grid = np.unique(np.concatenate((even, pairs.successes / pairs.attempts)))
    found = _maximise(pairs, grid)
    resampled = np.array(
        [
            _maximise(pairs.kept(tasks), grid).weights
            for tasks in resampled_pairs(counts, n_resamples, source)
        ]
    )
    atoms = _joined(grid, found.weights)[0]
    ends = int(np.count_nonzero((atoms == 0.0) | (atoms == 1.0)))
    # Atoms and weights are fixed by as many moments as the attempts give.
    free = 2 * atoms.size - 1 - ends
    return NonparametricMixing(
        gradient=found.gradient,
        log_likelihood=found.log_likelihood,
        atoms=grid[found.weights > 0.0],
        weights=found.weights[found.weights > 0.0],
        n_parameters=free,
        is_unique=free < counts.max_attempts,
        counts=counts,
        resampled=resampled,
        grid=grid,
    )


class _Found(NamedTuple):
    weights: FloatArray  # on the grid
    log_likelihood: float
    gradient: float


def _maximise(pairs: Pairs, grid: FloatArray) -> _Found:
    from scipy.optimize import nnls

    table = binomial_table(pairs, grid)
    tasks, total = pairs.tasks, float(pairs.tasks.sum())
    weights = np.zeros(grid.size)
    own = np.searchsorted(grid, pairs.successes / pairs.attempts)
    np.add.at(weights, np.minimum(own, grid.size - 1), tasks / total)
    mixed = table @ weights
    value = float(tasks @ np.log(mixed))
    gradient = np.inf
    for _ in range(_MAX_ITERATIONS):
        slope = (tasks / mixed) @ table / total - 1.0
        gradient = float(slope.max())
        if gradient <= _TOLERANCE:
            break
        support = np.flatnonzero((weights > 0.0) | _peaks(slope))
        # Least squares of sum_g S_g w_g - 2 with S = f_g / f; the last row stands for sum w = 1.
        root = np.sqrt(tasks / total)
        system = root[:, None] * (table[:, support] / mixed[:, None] - 2.0)
        system = np.vstack((system, np.ones(support.size)))
        goal = np.zeros(system.shape[0])
        goal[-1] = 1.0
        solved = nnls(system, goal)[0]
        target = np.zeros(grid.size)
        target[support] = solved / solved.sum()
        step, moved = 1.0, False
        expected = float(slope @ (target - weights)) * total
        for _ in range(40):
            trial = weights + step * (target - weights)
            blend = table @ trial
            if np.all(blend > 0.0):
                reached = float(tasks @ np.log(blend))
                if reached >= value + 1e-4 * step * expected:
                    moved = True
                    break
            step /= 2.0
        if not moved:
            break
        weights, mixed, value = trial, blend, reached
        weights[weights < 1e-12] = 0.0
        weights /= weights.sum()
        mixed = table @ weights
        value = float(tasks @ np.log(mixed))
    return _Found(weights, value, max(gradient, 0.0))


def _peaks(slope: FloatArray) -> npt.NDArray[np.bool_]:
    """Local maxima above zero, the ends included."""
    padded = np.concatenate(([-np.inf], slope, [-np.inf]))
    top = (slope >= padded[:-2]) & (slope >= padded[2:])
    return np.asarray(top & (slope > 0.0), dtype=np.bool_)


def _joined(grid: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join atoms on neighbouring grid points: one atom between them, seen through the grid."""
    place = np.flatnonzero(weights > 0.0)
    group = np.concatenate(([0], np.cumsum(np.diff(place) > 1)))
    mass = np.bincount(group, weights=weights[place]).astype(np.float64)
    return np.bincount(group, weights=weights[place] * grid[place]) / mass, mass


def _credit(p: FloatArray, k: int, quantity: str) -> FloatArray:
    return np.asarray(p**k if quantity == "pass_hat" else 1.0 - (1.0 - p) ** k, dtype=np.float64)


def _count_law(n: int, atoms: FloatArray, weights: FloatArray) -> FloatArray:
    from scipy.special import gammaln

    c = np.arange(n + 1)
    ways = np.asarray(gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1))
    law = binomial_table(Pairs(c, np.full(n + 1, n), np.ones(n + 1), ways), atoms) @ weights
    return np.asarray(law / law.sum(), dtype=np.float64)
