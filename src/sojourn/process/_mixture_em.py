"""The iteration that fits a mixture of chains: expectation over classes, then rows by class.

Tasks are rows of a matrix of counts (start, moves, ends, cuts) and a class is a vector of log
probabilities of the same cells, so that all log likelihoods of all tasks under all classes are one
matrix product, and all expected counts another one. Several iterations go on side by side: from
different starts, or on different resamples of the tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.counting import count_by_unit
from sojourn.process.homogeneous import RowPrior, start_row
from sojourn.sequences import StateSequences

__all__ = ["Laws", "Tasks", "climb", "log_cells", "pooled_rows", "tabulate", "task_log_likelihoods"]

Floats = npt.NDArray[np.float64]
_TINY = 1e-300


class Tasks(NamedTuple):
    """Counts of each task, shape (n_tasks, (m + 1)(m + 3)), perhaps sparse; weight; numbers."""

    counts: Any
    weight: Floats
    numbers: npt.NDArray[np.int32]


class Laws(NamedTuple):
    """Several mixtures at once, and what their iterations came to.

    `rows` has shape (B, n_classes, m + 1, m + 2), row 0 the start; `weights` (B, n_classes);
    `log_posterior` (B,); `is_open` (B,) says which still gained when they were stopped.
    """

    rows: Floats
    weights: Floats
    log_posterior: Floats
    is_open: npt.NDArray[np.bool_]


def tabulate(sequences: StateSequences, weights: Floats | None = None) -> Tasks:
    """Count by task; a task counts as often as its runs do on average."""
    numbers, place, runs_of = np.unique(sequences.task, return_inverse=True, return_counts=True)
    if weights is None:
        counts = count_by_unit(sequences, sequences.task).matrix
        return Tasks(counts, np.ones(numbers.size), numbers)
    weight = np.bincount(place, weights=weights) / runs_of
    mean = weight[place]
    if np.allclose(weights, mean, rtol=1e-12, atol=0.0):
        return Tasks(count_by_unit(sequences, sequences.task).matrix, weight, numbers)
    # Attempts that count unequally: each adds its share of what an attempt at the task counts.
    from scipy.sparse import coo_array

    by_run = count_by_unit(sequences, np.arange(sequences.n_runs, dtype=np.int32)).matrix
    share = np.divide(weights, mean, out=np.zeros(mean.size), where=mean > 0.0)
    joined = coo_array((share, (place, np.arange(place.size)))).tocsr() @ by_run
    return Tasks(joined, weight, numbers)


def pooled_rows(pooled: Floats, prior: RowPrior) -> Floats:
    """Give start and rows of the single chain, shape (..., m + 1, m + 2), from pooled tables."""
    start = start_row(pooled, "empirical")
    return np.concatenate((start[..., None, :], prior.rows(pooled)), axis=-2)


def task_log_likelihoods(counts: Any, cells: Floats) -> Floats:
    """Log likelihood of each task's runs in each class, shape (B, n_tasks, n_classes)."""
    n_laws, n_classes = cells.shape[:2]
    cells = cells.reshape(n_laws * n_classes, -1)
    flat = np.asarray(counts @ cells.T, dtype=np.float64)
    return np.moveaxis(flat.reshape(-1, n_laws, n_classes), 0, 1)


def climb(
    tasks: Tasks,
    weight: Floats,
    start: Laws | Floats,
    prior: RowPrior,
    *,
    row_mass: float,
    class_mass: float,
    move_weight: float,
    max_iterations: int,
    tolerance: float,
) -> Laws:
    """Iterate until the log posterior gains less than `tolerance`.

    Parameters
    ----------
    tasks : Tasks
        Counts of the tasks; their own weights are not used.
    weight : ndarray of shape (B, n_tasks)
        How often each task counts in each of the B problems.
    start : Laws, or ndarray of shape (B, n_tasks, n_classes)
        Where to begin: laws, or class probabilities of the tasks.
    prior : RowPrior
        How the single chain's rows are made, toward which the rows of the classes are drawn.
    row_mass, class_mass : float
        Imaginary events added to each row of each class, and imaginary tasks to each class.
    move_weight : float
        Weight of where runs go, against whether and how they end; see `log_cells`.
    max_iterations : int
        Most iterations.
    tolerance : float
        In nats.
    """
    width = prior.allowed.shape[0] + 3
    pooled = _times(weight, tasks.counts).reshape(weight.shape[0], -1, width)
    added = row_mass * pooled_rows(pooled, prior)
    if isinstance(start, Laws):
        rows, weights = start.rows.copy(), start.weights.copy()
    else:
        rows, weights = _maximise(tasks.counts, start * weight[:, :, None], added, class_mass)
    reached = np.full(weight.shape[0], -np.inf)
    open_ = np.ones(weight.shape[0], dtype=np.bool_)
    for k in range(max_iterations + 1):
        live = np.flatnonzero(open_)
        cells = log_cells(rows[live], move_weight)
        joint = task_log_likelihoods(tasks.counts, cells) + np.log(weights[live, None, :])
        top = joint.max(axis=2, keepdims=True)
        scaled = np.exp(joint - top)
        total = scaled.sum(axis=2, keepdims=True)
        value = ((np.log(total) + top)[:, :, 0] * weight[live]).sum(axis=1)
        value += (added[live, None] * cells[..., :-1]).sum(axis=(1, 2, 3))
        value += class_mass * np.log(weights[live]).sum(axis=1)
        gain = value - reached[live]
        reached[live] = value
        open_[live] = gain > tolerance
        if k == max_iterations or not open_.any():
            break
        going = gain > tolerance
        live = live[going]
        share = (scaled / total)[going] * weight[live, :, None]
        rows[live], weights[live] = _maximise(tasks.counts, share, added[live], class_mass)
    return Laws(rows, weights, reached, open_)


def _maximise(
    counts: Any, share: Floats, added: Floats, class_mass: float
) -> tuple[Floats, Floats]:
    """Rows and weights that maximise the expected log posterior.

    A cut after a step is a move to an unknown state: within a row, moves share it in proportion.
    """
    n_laws, _, n_classes = share.shape
    m = added.shape[-1] - 2
    flat = _times(np.moveaxis(share, 1, 2).reshape(n_laws * n_classes, -1), counts)
    seen = flat.reshape(n_laws, n_classes, m + 1, m + 3)
    mass = seen[..., : m + 2] + added[:, None]
    moves = mass[..., :m].sum(axis=-1, keepdims=True)
    cut = seen[..., m + 2 :].copy()
    cut[..., 0, :] = 0.0  # a run cut before its first step says nothing
    mass[..., :m] *= 1.0 + np.divide(cut, moves, out=np.zeros(cut.shape), where=moves > 0.0)
    total = mass.sum(axis=-1, keepdims=True)
    # A state that no run was in keeps to itself; no run ever gets there.
    stay = np.zeros(mass.shape)
    stay[..., 0, :m] = 1.0 / m
    stay[..., np.arange(1, m + 1), np.arange(m)] = 1.0
    rows = np.where(total > 0.0, mass / np.where(total > 0.0, total, 1.0), stay)
    weights = share.sum(axis=1) + class_mass
    return rows, weights / weights.sum(axis=1, keepdims=True)


def log_cells(rows: Floats, move_weight: float) -> Floats:
    """Log probabilities of all cells, that of having gone on among them, (..., m + 1, m + 3).

    A move is to go on, and to a certain state: log (1 - h) + move_weight log (p_j / (1 - h)), with
    h the probability of an end. Whatever the weight, the rows that maximise the expected log
    posterior are the same proportions. Weight 0 leaves the partial likelihood of the ends.
    """
    m = rows.shape[-1] - 2
    logs = np.log(np.maximum(rows, _TINY))
    going = np.log(np.maximum(rows[..., :m].sum(axis=-1, keepdims=True), _TINY))
    if move_weight != 1.0:
        logs[..., :m] = going + move_weight * (logs[..., :m] - going)
    going[..., 0, :] = 0.0
    return np.concatenate((logs, going), axis=-1)


def _times(left: Floats, counts: Any) -> Floats:
    # A sparse matrix stands on the left: the product then stays an ordinary array.
    if isinstance(counts, np.ndarray):
        return np.asarray(left @ counts, dtype=np.float64)
    return np.ascontiguousarray((counts.T @ left.T).T, dtype=np.float64)
