"""The iteration that fits hidden phases, between the compiled loops and the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.sequences import FAILURE, SUCCESS, StateSequences

__all__ = ["TOLERANCE", "Climbed", "Prior", "climb_from", "prior_of"]

Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-4


class Prior(NamedTuple):
    """Imaginary counts of start, moves and ends, and shown states."""

    start: Floats
    rows: Floats
    emission: Floats


class Climbed(NamedTuple):
    start: Floats
    rows: Floats
    emission: Floats
    log_posterior: float
    is_open: bool


def prior_of(
    runs: StateSequences, weights: Floats, n_phases: int, topology: str, mass: float
) -> Prior:
    """Spread `mass` as the corpus has it over ends and states, evenly over phases."""
    K, m = n_phases, runs.n_states
    lengths = runs.lengths
    steps = float(weights @ lengths)
    ends = np.array([weights @ (runs.event == e) for e in (SUCCESS, FAILURE)])
    empty = np.array([weights @ ((runs.event == e) & (lengths == 0)) for e in (SUCCESS, FAILURE)])
    going = float(weights @ (lengths > 0))
    start = np.concatenate((np.full(K, (going + 0.5) / K), empty))
    hazard = (ends - empty) / (steps + 1.0)
    allowed = np.triu(np.ones((K, K))) if topology == "left_to_right" else np.ones((K, K))
    moves = (1.0 - hazard.sum()) * allowed / allowed.sum(axis=1, keepdims=True)
    shown = np.bincount(runs.states, weights=np.repeat(weights, lengths), minlength=m) + 0.5
    return Prior(
        mass * start / start.sum(),
        mass * np.column_stack((moves, np.tile(hazard, (K, 1)))),
        mass * np.tile(shown / shown.sum(), (K, 1)),
    )


def climb_from(
    runs: StateSequences,
    weights: Floats,
    prior: Prior,
    begin: Sequence[Floats],
    emission_weight: float,
    max_iterations: int,
    *,
    tolerance: float = TOLERANCE,
    with_emission: bool = True,
) -> Climbed:
    """Iterate from `begin` (start, rows, emission) and tell whether there was still a gain.

    Where what steps show has no weight, the ends alone are iterated on, and what the phases show
    is counted once, afterwards; not even that without `with_emission`.
    """
    from sojourn.process import _phase_kernels

    start, rows, emission = (np.array(table, dtype=np.float64) for table in begin)
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    trace = np.empty(max_iterations + 1)
    if emission_weight == 0.0:
        ends = np.zeros((3, int(runs.lengths.max(initial=0)) + 1))
        np.add.at(ends, (runs.event, runs.lengths), weights)
        n = _phase_kernels.climb_ends(ends, prior.start, prior.rows, start, rows, tolerance, trace)
        if with_emission:
            emission = _emission_given(runs, weights, prior, start, rows)
    else:
        n = _phase_kernels.climb(
            runs.states,
            runs.offsets,
            runs.event,
            weights,
            *prior,
            start,
            rows,
            emission,
            emission_weight,
            tolerance,
            trace,
        )
    is_open = n == trace.size and (n < 2 or bool(trace[n - 1] - trace[n - 2] >= tolerance))
    return Climbed(start, rows, emission, float(trace[n - 1]), is_open)


def _emission_given(
    runs: StateSequences, weights: Floats, prior: Prior, start: Floats, rows: Floats
) -> Floats:
    """Count what each phase shows, phases being inferred from when and how runs end."""
    from sojourn.process import _phase_kernels

    K, m = prior.emission.shape
    longest = max(1, int(runs.lengths.max(initial=0)))
    shown = np.empty((K, m))
    _phase_kernels.expect(
        runs.states,
        runs.offsets,
        runs.event,
        weights,
        start,
        rows,
        np.ones((K, m)),
        np.empty((longest, K)),
        np.empty(longest),
        np.empty(K + 2),
        np.empty((K, K + 3)),
        shown,
    )
    shown += prior.emission
    return np.asarray(shown / shown.sum(axis=1, keepdims=True), dtype=np.float64)
