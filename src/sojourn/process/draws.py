"""Draws of a fitted process: refits to resampled tasks, whatever the process.

What a bootstrap needs of a process is that it can be fitted again to weighted runs (`refit`). A
resampled corpus may lack what a fit rests on, so a refit may fail; such draws are counted, and an
interval that lacks more than one in twenty of its draws is not trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_positive_int, generator
from sojourn.estimates import Estimate, Interval, Status
from sojourn.process.base import RefittableProcess, TraceProcess
from sojourn.sequences import StateSequences
from sojourn.stats.intervals import clopper_pearson, t_quantile

__all__ = [
    "UNFITTED",
    "RefittedDraws",
    "interval_of_draws",
    "lost_too",
    "percentiles",
    "refitted_draws",
]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
# Draws that lack a figure; beyond this share its interval is not trusted.
_MAX_LOST = 0.05
UNFITTED = (ArithmeticError, np.linalg.LinAlgError)
"""What a fit raises when an iteration does not settle or a system has no solution."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefittedDraws(Sequence[TraceProcess]):
    """Refits to resampled tasks, and how many resampled corpora could not be fitted.

    It is the sequence of the refits that were made.

    Attributes
    ----------
    processes : tuple of TraceProcess
        The refits.
    n_lost : int
        Resampled corpora that could not be fitted.
    reason : str or None
        Why the first of them could not.
    """

    processes: tuple[TraceProcess, ...] = field(repr=False, default=())
    n_lost: int = 0
    reason: str | None = None

    def __len__(self) -> int:
        return len(self.processes)

    @overload
    def __getitem__(self, place: int) -> TraceProcess: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[TraceProcess, ...]: ...
    def __getitem__(self, place: int | slice) -> TraceProcess | tuple[TraceProcess, ...]:
        return self.processes[place]

    @property
    def note(self) -> str | None:
        """Say how many could not be fitted, None where all could."""
        if not self.n_lost:
            return None
        asked = len(self.processes) + self.n_lost
        why = "" if self.reason is None else f" ({self.reason})"
        return f"{self.n_lost} of {asked} refits to resampled tasks could not be fitted{why}"


def lost_too(figures: Floats, draws: Sequence[TraceProcess]) -> Floats:
    """Append a row of NaN for each resampled corpus that could not be fitted.

    Parameters
    ----------
    figures : ndarray of shape (n_draws, ...)
        A figure of each draw.
    draws : sequence of TraceProcess
        The draws; those of `refitted_draws` know how many were lost.
    """
    n_lost = draws.n_lost if isinstance(draws, RefittedDraws) else 0
    return np.concatenate((figures, np.full((n_lost, *figures.shape[1:]), np.nan)))


@plain_blas()
def refitted_draws(
    fit: TraceProcess, sequences: StateSequences, n_draws: int = 199, *, rng: Rng = None
) -> RefittedDraws:
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
    RefittedDraws
        Empty when there is a single unit, which cannot be resampled.
    """
    check_positive_int(n_draws, name="n_draws")
    _, unit = np.unique(sequences.unit, return_inverse=True)
    n_units = int(unit.max(initial=-1)) + 1
    if n_units < 2:
        return RefittedDraws()
    if not isinstance(fit, RefittableProcess):
        raise ValueError(f"the {fit.name} process cannot be fitted again to resampled tasks")
    source = generator(rng)
    share = np.full(n_units, 1.0 / n_units)
    made: list[TraceProcess] = []
    reasons: list[str] = []
    for _ in range(n_draws):
        weights = source.multinomial(n_units, share)[unit].astype(np.float64)
        try:
            made.append(fit.refit(sequences, weights=weights))
        except UNFITTED as error:  # counted: the draws say how many were lost
            reasons.append(str(error))
    return RefittedDraws(
        processes=tuple(made), n_lost=len(reasons), reason=reasons[0] if reasons else None
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
        high = np.asarray(edge) if np.all(kept <= 1e-12) else high
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
