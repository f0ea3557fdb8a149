"""Draws of a fitted process: refits to resampled tasks, whatever the process.

What a bootstrap needs of a process is that it can be fitted again to weighted runs (`refit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_positive_int, generator
from sojourn.estimates import Estimate, Interval, Status
from sojourn.process.base import RefittableProcess, TraceProcess
from sojourn.sequences import StateSequences
from sojourn.stats.intervals import clopper_pearson, t_quantile

__all__ = ["interval_of_draws", "percentiles", "refitted_draws"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
# Draws that lack a figure; beyond this share its interval is not trusted.
_MAX_LOST = 0.05


@plain_blas()
def refitted_draws(
    fit: TraceProcess, sequences: StateSequences, n_draws: int = 199, *, rng: Rng = None
) -> tuple[TraceProcess, ...]:
    """Refit a process to resampled units, penalties and structure held as they are.

    Parameters
    ----------
    fit : a process with ``refit``
        The fit.
    sequences : StateSequences
        The runs it was fitted to; their units are resampled with all their runs.
    n_draws : int
        Number of refits.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Returns
    -------
    tuple of TraceProcess
        Empty when there is a single unit, which cannot be resampled.
    """
    check_positive_int(n_draws, name="n_draws")
    _, unit = np.unique(sequences.unit, return_inverse=True)
    n_units = int(unit.max(initial=-1)) + 1
    if n_units < 2:
        return ()
    if not isinstance(fit, RefittableProcess):
        raise ValueError(f"the {fit.name} process cannot be fitted again to resampled tasks")
    source = generator(rng)
    share = np.full(n_units, 1.0 / n_units)
    return tuple(
        fit.refit(sequences, weights=source.multinomial(n_units, share)[unit].astype(np.float64))
        for _ in range(n_draws)
    )


def percentiles(draws: Floats, *, ci_prob: float, n_units: int) -> tuple[Floats, Floats]:
    """Percentiles over the first axis, taken a little further out for few units; NaN is left out.

    Notes
    -----
    Their tail is Phi(-sqrt(n / (n - 1)) t) with Student's t of n - 1 degrees of freedom, n the
    units (Hesterberg 2015, section 3.2: expanded percentiles).
    """
    from scipy.special import ndtr

    tail = (1.0 - ci_prob) / 2.0
    if n_units > 1:
        t = float(t_quantile(ci_prob, n_units - 1))
        tail = float(ndtr(-np.sqrt(n_units / (n_units - 1)) * t))
    if not np.isnan(draws).any():
        low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
        return low, high
    low, high = np.full(draws.shape[1:], np.nan), np.full(draws.shape[1:], np.nan)
    some = np.isfinite(draws).any(axis=0)
    low[some], high[some] = np.nanquantile(draws[:, some], [tail, 1.0 - tail], axis=0)
    return low, high


def interval_of_draws(
    value: float | None,
    draws: Sequence[float] | Floats,
    *,
    ci_prob: float,
    n_units: int,
    proportion: bool = False,
    reasons: tuple[str, ...] = (),
    missing: str = "it is not identified",
) -> Estimate:
    """Make an estimate of a figure and its draws by task bootstrap.

    Parameters
    ----------
    value : float or None
        The figure; None or not finite where there is none.
    draws : sequence of float
        Its draws; NaN where a draw has none.
    ci_prob : float
        Probability of the interval.
    n_units : int
        Units that were resampled.
    proportion : bool
        Whether the figure is a probability; where all draws agree on 0 or on 1, which would claim
        certainty, the Clopper-Pearson bound for that many units stands instead.
    reasons : tuple of str
        Cautions; with any the figure is inconclusive.
    missing : str
        The reason where there is no figure.
    """
    if value is None or not np.isfinite(value):
        return Estimate(value=None, status=Status.WITHHELD, reasons=(missing,))
    drawn: Any = np.asarray(draws, dtype=np.float64)
    kept = drawn[np.isfinite(drawn)]
    if kept.size == 0:
        reasons += ("there are no draws to make an interval of",)
        return Estimate(value=float(value), status=Status.INCONCLUSIVE, reasons=reasons)
    if kept.size < (1.0 - _MAX_LOST) * drawn.size:
        reasons += (f"{drawn.size - kept.size} of {drawn.size} refits have no such figure",)
    low, high = percentiles(kept, ci_prob=ci_prob, n_units=n_units)
    if proportion and n_units > 0:
        edge = float(clopper_pearson(0.0, n_units, ci_prob).high)
        high = np.asarray(edge) if np.all(kept <= 0.0) else high
        low = np.asarray(1.0 - edge) if np.all(kept >= 1.0 - 1e-12) else low
    return Estimate(
        value=float(value),
        interval=Interval(
            low=min(float(low), float(value)),
            high=max(float(high), float(value)),
            ci_prob=ci_prob,
            kind="bootstrap",
        ),
        status=Status.INCONCLUSIVE if reasons else Status.SUPPORTED,
        reasons=reasons,
        estimand="population",
    )
