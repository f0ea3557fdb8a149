"""How far the curves of any fitted process may be off, and the band of its sampling error.

The same bound as for the homogeneous chain (see `bound`): the process and the Aalen-Johansen
estimate are both recomputed from the same resampled units, so that the noise of the success rate
cancels in their difference. Penalties, knots, classes and phases are held while units are
resampled.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_fraction, check_positive_int, generator
from sojourn.estimates import ReliabilityCurve
from sojourn.process.base import RefittableProcess
from sojourn.process.bound import (
    MisspecificationBound,
    bound_of_curves,
    nothing_to_compare,
    without_bounds,
)
from sojourn.process.unit_curves import (
    CurveReplicates,
    observed_curves,
    resampled_weights,
    runs_that_tell,
    unit_tables,
)
from sojourn.sequences import StateSequences

__all__ = ["BootstrappedProcess", "ProcessBound", "bound_process"]

Floats = npt.NDArray[np.float64]

_N_CHUNKS = 8
_RICHER = "use the Aalen-Johansen curve, or states that hold more of the past"


@runtime_checkable
class BootstrappedProcess(RefittableProcess, Protocol):
    """A fitted process whose curves can be had from resampled units at once."""

    def bootstrap_curves(
        self, sequences: StateSequences, unit_weights: Floats, horizon: int
    ) -> Floats:
        """Refit on weighted units, curves only.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        unit_weights : ndarray of shape (B, n_units)
            How often each unit counts, in the order of ``np.unique(sequences.unit)``.
        horizon : int
            Last step of the curves.

        Returns
        -------
        ndarray of shape (B, 2, horizon + 1)
            Success and failure curves.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessBound:
    """The bound on a process's error, and its curves with pointwise bands.

    Attributes
    ----------
    bound : MisspecificationBound
        Bounds and verdict, up to the longest observed run, with simultaneous bands.
    success_within, failure_within : ReliabilityCurve or None
        The process's curves up to `horizon` with pointwise bands by unit bootstrap, which hold the
        observed curve and are no narrower than one run; None where there is nothing to compare.
        Points beyond the longest run are not supported.
    """

    bound: MisspecificationBound
    success_within: ReliabilityCurve | None
    failure_within: ReliabilityCurve | None

    def __str__(self) -> str:
        return str(self.bound)


@plain_blas()
def bound_process(
    process: BootstrappedProcess,
    sequences: StateSequences,
    *,
    margin: float = 0.10,
    n_resamples: int = 499,
    ci_prob: float = 0.95,
    horizon: int | None = None,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> ProcessBound:
    """Bound the error of a fitted process's success and failure curves.

    Parameters
    ----------
    process : BootstrappedProcess
        A process fitted to `sequences`.
    sequences : StateSequences
        The runs; units are resampled.
    margin : float
        The largest error that is of no matter.
    n_resamples : int
        Bootstrap replicates, at least 2.
    ci_prob : float
        Probability of the bands (not of the bounds, which are 95 %).
    horizon : int, optional
        Last step of the pointwise bands; the longest run by default, and not less.
    executor : concurrent.futures.Executor, optional
        Where to refit; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of the resamples.

    Returns
    -------
    ProcessBound

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    check_fraction(margin, name="margin")
    check_fraction(ci_prob, name="ci_prob")
    if check_positive_int(n_resamples, name="n_resamples") < 2:
        raise ValueError("n_resamples must be at least 2")
    runs = runs_that_tell(sequences)
    tables = unit_tables(runs)
    nothing = nothing_to_compare(runs, tables)
    if nothing is not None:
        return ProcessBound(
            bound=without_bounds(tables, margin, nothing), success_within=None, failure_within=None
        )
    n_steps = tables.n_steps
    last = max(n_steps, n_steps if horizon is None else horizon)
    weights = resampled_weights(tables.n_units, n_resamples, generator(rng)).astype(np.float64)
    fitted = np.stack([process.success_within(last), process.failure_within(last)])
    again = _refitted_curves(process, runs, weights, last, executor)
    observed = observed_curves(tables, np.ones((1, tables.n_units)))
    success, failure = (
        _pointwise(f"{name}_within", fitted[k], again[:, k], observed[0, k], tables.n_runs, ci_prob)
        for k, name in enumerate(("success", "failure"))
    )
    return ProcessBound(
        bound=bound_of_curves(
            tables,
            CurveReplicates(fitted[None, :, : n_steps + 1], observed),
            CurveReplicates(again[:, :, : n_steps + 1], observed_curves(tables, weights)),
            margin=margin,
            ci_prob=ci_prob,
            richer=_RICHER,
        ),
        success_within=success,
        failure_within=failure,
    )


def _refitted_curves(
    process: BootstrappedProcess,
    runs: StateSequences,
    weights: Floats,
    horizon: int,
    executor: Executor | None,
) -> Floats:
    # The same chunks with and without an executor, so that no last bit can differ.
    chunks = np.array_split(weights, min(_N_CHUNKS, weights.shape[0]))
    if executor is None:
        return np.concatenate([process.bootstrap_curves(runs, part, horizon) for part in chunks])
    futures = [executor.submit(process.bootstrap_curves, runs, part, horizon) for part in chunks]
    return np.concatenate([future.result() for future in futures])


def _pointwise(
    quantity: str,
    fitted: Floats,
    replicates: Floats,
    observed: Floats,
    n_runs: int,
    ci_prob: float,
) -> ReliabilityCurve:
    """Return the curve with its percentile band, which holds the curve and the observed one.

    No standard error counts as less than one run: where every run did the same, so do all
    resamples, and their percentiles say no more than that.
    """
    from scipy.special import ndtri

    tail = (1.0 - ci_prob) / 2.0
    low, high = np.quantile(replicates, [tail, 1.0 - tail], axis=0)
    one_run = np.full(fitted.size, ndtri(1.0 - tail) / n_runs)
    one_run[0] = 0.0  # before the first step chance has no part
    low, high = np.minimum(low, fitted - one_run), np.maximum(high, fitted + one_run)
    seen = slice(0, observed.size)
    low[seen], high[seen] = np.minimum(low[seen], observed), np.maximum(high[seen], observed)
    return ReliabilityCurve(
        quantity=quantity,
        x=np.arange(fitted.size),
        value=fitted,
        low=np.clip(low, 0.0, 1.0),
        high=np.clip(high, 0.0, 1.0),
        ci_prob=ci_prob,
        kind="bootstrap",
        n_supported=observed.size,
    )
