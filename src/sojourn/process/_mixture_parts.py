"""What mixtures of chains are made of: classes of tasks, chains of rows, curves of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import frozen_array
from sojourn.process._mixture_em import Laws, Tasks, log_cells, task_log_likelihoods
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.chain_draws import ChainDraws
from sojourn.process.homogeneous import RowPrior
from sojourn.sequences import StateSequences

__all__ = [
    "TaskClasses",
    "TaskKind",
    "chain_of",
    "classes_of",
    "curves_of",
    "row_prior_of",
    "weights_of_tasks",
]

Floats = npt.NDArray[np.float64]


class TaskKind(NamedTuple):
    """A class of tasks in a line: its share, P(success ever), and its mean number of steps.

    `mean_steps` is None where some run of the class may never end.
    """

    weight: float
    success_ever: float
    mean_steps: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskClasses:
    """To which class each task belongs, as far as its runs tell.

    Attributes
    ----------
    task : ndarray of shape (n_tasks,), int32
        The tasks, ascending.
    probability : ndarray of shape (n_tasks, n_classes)
        Posterior probability of each class given all runs of the task.
    """

    task: npt.NDArray[np.int32]
    probability: Floats

    @property
    def most_probable(self) -> npt.NDArray[np.intp]:
        """The most probable class of each task, shape (n_tasks,)."""
        return np.asarray(self.probability.argmax(axis=1), dtype=np.intp)

    def members(self, kind: int, *, at_least: float = 0.0) -> npt.NDArray[np.int32]:
        """Tasks whose most probable class is `kind`, with at least the given probability."""
        mine = (self.most_probable == kind) & (self.probability[:, kind] >= at_least)
        return np.asarray(self.task[mine], dtype=np.int32)


def classes_of(tasks: Tasks, rows: Floats, weights: Floats, move_weight: float) -> TaskClasses:
    cells = log_cells(rows[None], move_weight)
    joint = task_log_likelihoods(tasks.counts, cells)[0] + np.log(np.maximum(weights, 1e-300))
    share = np.exp(joint - joint.max(axis=1, keepdims=True))
    return TaskClasses(
        task=frozen_array(tasks.numbers, np.int32, name="task"),
        probability=frozen_array(
            share / share.sum(axis=1, keepdims=True), float, ndim=2, name="probability"
        ),
    )


def weights_of_tasks(whole: StateSequences, part: StateSequences, unit_weights: Floats) -> Floats:
    """Give the tasks of `part`, ascending, the weights of their units, shape (B, n_tasks)."""
    units = np.unique(whole.unit)
    if unit_weights.ndim != 2 or unit_weights.shape[1] != units.size:
        shape = unit_weights.shape
        raise ValueError(f"unit_weights has shape {shape}, not (n_corpora, {units.size})")
    first = np.unique(part.task, return_index=True)[1]
    return np.asarray(unit_weights[:, np.searchsorted(units, part.unit[first])])


def curves_of(laws: Laws, horizon: int) -> Floats:
    """Success and failure curves of mixtures, shape (B, 2, horizon + 1)."""
    n_laws, n_classes = laws.weights.shape
    flat = laws.rows.reshape(n_laws * n_classes, *laws.rows.shape[2:])
    draws = ChainDraws(rows=flat[:, 1:], start=flat[:, 0])
    each = np.stack((draws.success_within(horizon), draws.failure_within(horizon)), axis=1)
    shaped = each.reshape(n_laws, n_classes, 2, horizon + 1)
    return np.asarray(np.einsum("bc,bcqd->bqd", laws.weights, shaped), dtype=np.float64)


def chain_of(rows: Floats, state_names: tuple[str, ...]) -> AbsorbingChain:
    m = len(state_names)
    return AbsorbingChain(
        transient=rows[1:, :m],
        to_success=rows[1:, m],
        to_failure=rows[1:, m + 1],
        initial=rows[0, :m],
        initial_success=float(rows[0, m]),
        initial_failure=float(rows[0, m + 1]),
        state_names=state_names,
    )


def row_prior_of(kappa: float, allowed: npt.NDArray[Any]) -> RowPrior:
    return RowPrior(
        smoothing="shrinkage",
        kappa=kappa,
        alpha=1.0,
        allowed=np.asarray(allowed, dtype=np.bool_),
        cut_step="survived",
    )
