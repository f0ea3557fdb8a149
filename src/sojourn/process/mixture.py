"""Tasks of several kinds: a chain for each class of tasks, and the classes to be found.

Attempts at a task are more alike than attempts at different tasks. A single chain cannot say so;
here each task belongs to one of a few classes, all its attempts run by the chain of its class, and
the classes may differ in the odds of success, in pace, and in what runs do. Then
pass^k = sum_c w_c R_c^k, which is more than the k-th power of the rate, and a user can read which
tasks are hard. Each row of a class is drawn toward the row of the single chain by a small mass, so
that a class seen rarely in some state behaves there as all tasks do.

The likelihood has several maxima. Many starts are made and what they came to is reported with the
fit. Classes are ordered by success, the easiest first, since they have no names of their own.

What it does not do: it does not know how many classes there are. Choose by the cross-validated
score; a law of tasks that is continuous looks like two or three classes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.process._hidden import take_units, weights_of
from sojourn.process._mixture_em import climb, tabulate
from sojourn.process._mixture_parts import TaskClasses, TaskKind
from sojourn.process._mixture_result import MAX_RUNS, MixtureFit, assemble
from sojourn.process.base import GeometricTail
from sojourn.process.homogeneous import fit_homogeneous
from sojourn.sequences import StateSequences

__all__ = ["MixtureFit", "TaskClasses", "TaskKind", "fit_mixture"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_TOLERANCE = 1e-6


def fit_mixture(
    sequences: StateSequences,
    n_classes: int = 2,
    *,
    n_starts: int = 40,
    row_mass: float = 1.0,
    class_mass: float = 0.5,
    move_weight: float = 0.0,
    max_iterations: int = 1000,
    max_runs: int = MAX_RUNS,
    rng: Rng = None,
) -> MixtureFit:
    """Find classes of tasks and fit a homogeneous chain to each.

    Parameters
    ----------
    sequences : StateSequences
        Runs; all runs of a task are of one class. A cut run is known not to have ended at the cut.
    n_classes : int
        Number of classes.
    n_starts : int
        Starts of the iteration: the tasks ordered by success, ordered by length, and the rest at
        random. The best is kept.
    row_mass : float
        Imaginary events that draw each row of a class toward the row of the single chain.
    class_mass : float
        Imaginary tasks added to each class, positive: no class dies out.
    move_weight : float
        From 0 to 1. With 1 the law of whole paths is fitted, and the classes tell what runs do
        more than how they fare. With less, the probability of where a run goes on to enters to
        this power; with 0 what counts is whether and how a run ends after each step, given the
        states it was in: a partial likelihood. The moves are fitted class by class all the same.
    max_iterations : int
        Most iterations of a start; one ends when the log posterior gains less than 1e-6 nat.
    max_runs : int
        Of more runs, whole units are drawn up to so many, always the same of the same corpus.
    rng : Generator, SeedSequence, int or None
        Source of the starts.

    Returns
    -------
    MixtureFit

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.

    Notes
    -----
    log posterior = sum_t log sum_c w_c prod_ij q_cij^n_tij + sum_cij row_mass b_ij log q_cij
    + class_mass sum_c log w_c, with b the rows of the single chain, q = p for an end and
    q = (1 - h) (p / (1 - h))^move_weight for a move out of a state whose runs end with probability
    h; it never falls from one iteration to the next.

    References
    ----------
    A. P. Dempster, N. M. Laird and D. B. Rubin (1977), J. R. Stat. Soc. B 39, 1-38.
    """
    check_positive_int(n_classes, name="n_classes")
    check_positive_int(n_starts, name="n_starts")
    check_positive_int(max_iterations, name="max_iterations")
    if not (0.0 < row_mass < np.inf and 0.0 < class_mass < np.inf):
        raise ValueError(f"row_mass and class_mass must be positive; got {row_mass}, {class_mass}")
    if not 0.0 <= move_weight <= 1.0:
        raise ValueError(f"move_weight must lie in [0, 1]; got {move_weight!r}")
    weights_of(sequences, None)
    taken = take_units(sequences, max_runs)
    runs = taken.sequences
    prior = fit_homogeneous(runs).prior
    tasks = tabulate(runs)
    starts = _starts(runs, n_classes, n_starts if n_classes > 1 else 1, generator(rng))
    laws = climb(
        tasks,
        np.ones(starts.shape[:2]),
        starts,
        prior,
        row_mass=row_mass,
        class_mass=class_mass,
        move_weight=move_weight,
        max_iterations=max_iterations,
        tolerance=_TOLERANCE,
    )
    made = assemble(
        laws,
        int(laws.log_posterior.argmax()),
        tasks,
        runs,
        prior,
        row_mass=row_mass,
        class_mass=class_mass,
        move_weight=move_weight,
        fitted_on=taken.fitted_on,
        tail=GeometricTail.of(runs),
    )
    return MixtureFit(**made)


def _starts(
    runs: StateSequences, n_classes: int, n_starts: int, rng: np.random.Generator
) -> Floats:
    """Class probabilities of the tasks to begin with, shape (n_starts, n_tasks, n_classes)."""
    place = np.unique(runs.task, return_inverse=True)[1]
    attempts = np.bincount(place).astype(np.float64)
    n_tasks = attempts.size
    starts = rng.dirichlet(np.full(n_classes, 0.3), size=(n_starts, n_tasks))
    keys = (
        np.bincount(place, weights=(runs.event == 1).astype(np.float64)) / attempts,
        np.bincount(place, weights=runs.lengths.astype(np.float64)) / attempts,
    )
    for s, key in enumerate(keys[:n_starts]):
        # Ties are dealt out at random.
        rank = np.empty(n_tasks, dtype=np.intp)
        rank[np.lexsort((rng.random(n_tasks), key))] = np.arange(n_tasks)
        kind = rank * n_classes // n_tasks
        starts[s] = 0.1 / n_classes
        starts[s, np.arange(n_tasks), kind] += 0.9
    return starts
