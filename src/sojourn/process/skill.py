"""Do states foretell success? Cross-fitted forecasts against the state-blind forecast.

A process may reproduce every curve and yet its states may say nothing about a run that the number
of steps did not say already. So each fold of units is forecast by a process fitted to the others,
at a few fixed steps among runs that have such a step, from all its steps so far where the process
remembers them, and scored against P(success | the run has a step t), estimated on the same other
folds. The gain in log score is paired within units; "no skill" is claimed only when it is surely
negligible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_fraction, check_positive_int, generator
from sojourn.estimates import Estimate, Interval, Status, Verdict
from sojourn.process.base import TraceProcess
from sojourn.process.forecast import path_values
from sojourn.sequences import CENSORED, SUCCESS, StateSequences
from sojourn.stats.intervals import clopper_pearson, t_quantile
from sojourn.tables import n_of

__all__ = ["CalibrationBin", "ForecastSkill", "forecast_skill"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
# A gain under so many nats a forecast is of no use to anybody.
NEGLIGIBLE = 0.01
_MIN_UNITS = 20
_MAX_UNKNOWN = 0.1
_MAX_BINS = 10
_MIN_IN_BIN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin:
    """Forecasts of about the same size, and what came of them.

    Attributes
    ----------
    low, high : float
        Smallest and largest forecast.
    forecast, observed : float
        Mean forecast, and share of those runs that succeeded.
    observed_low, observed_high : float
        Interval of the share, by units.
    n, n_units : int
        Forecasts and units.
    """

    low: float
    high: float
    forecast: float
    observed: float
    observed_low: float
    observed_high: float
    n: int
    n_units: int

    def to_dict(self) -> dict[str, Any]:
        """Return the bin as plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastSkill:
    """What the states of a process add to a forecast.

    Attributes
    ----------
    verdict : Verdict
        ``accepted``: states foretell success beyond the step. ``rejected``: their gain is surely
        under .01 nat a forecast. ``inconclusive`` otherwise.
    gain : Estimate
        Mean gain in log score over the state-blind forecast, nats a forecast.
    brier_gain : Estimate
        Mean decrease of the Brier score.
    log_score, blind_log_score, brier, blind_brier : float
        Mean scores of both.
    bias : Estimate
        Mean of outcome minus forecast: calibration in the large.
    steps : tuple of int
        Steps at which runs were forecast.
    by_step : tuple of dict
        Number, gain and scores of each step.
    calibration : tuple of CalibrationBin
        Forecasts in order of size.
    n_forecasts, n_runs, n_units, n_folds : int
        What it rests on.
    n_unknown : int
        Runs left out because they were cut: their outcome is not known.
    n_blind : int
        Forecasts for which the process had no value, so that the state-blind one stood in.
    reasons : tuple of str
        Why the verdict is no better.
    """

    verdict: Verdict
    gain: Estimate
    brier_gain: Estimate
    log_score: float
    blind_log_score: float
    brier: float
    blind_brier: float
    bias: Estimate
    steps: tuple[int, ...]
    by_step: tuple[dict[str, Any], ...] = field(repr=False)
    calibration: tuple[CalibrationBin, ...] = field(repr=False)
    n_forecasts: int
    n_runs: int
    n_units: int
    n_folds: int
    n_unknown: int
    n_blind: int
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = {
            Verdict.ACCEPTED: "the states foretell success beyond the step itself",
            Verdict.REJECTED: "these states do not foretell success beyond the step itself",
            Verdict.INCONCLUSIVE: "whether the states foretell success is open",
        }
        lines = [f"forecast {self.verdict}: {words[self.verdict]}"]
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [
            f"  gain in log score    {self.gain} nats a forecast",
            f"  log score            {self.log_score:.4f}, state-blind {self.blind_log_score:.4f}",
            f"  Brier score          {self.brier:.4f}, state-blind {self.blind_brier:.4f}",
            f"  outcome - forecast   {self.bias}",
            f"  at steps             {', '.join(map(str, self.steps))}; {self.n_forecasts} "
            f"forecasts of {n_of(self.n_runs, 'run')}, {n_of(self.n_units, 'unit')}, "
            f"{self.n_folds} folds",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "verdict": str(self.verdict),
            "gain": self.gain.to_dict(),
            "brier_gain": self.brier_gain.to_dict(),
            "log_score": self.log_score,
            "blind_log_score": self.blind_log_score,
            "brier": self.brier,
            "blind_brier": self.blind_brier,
            "bias": self.bias.to_dict(),
            "steps": list(self.steps),
            "by_step": [dict(row) for row in self.by_step],
            "calibration": [bin_.to_dict() for bin_ in self.calibration],
            "n_forecasts": self.n_forecasts,
            "n_runs": self.n_runs,
            "n_units": self.n_units,
            "n_folds": self.n_folds,
            "n_unknown": self.n_unknown,
            "n_blind": self.n_blind,
            "reasons": list(self.reasons),
        }


class _Records(NamedTuple):
    """One row a forecast."""

    unit: npt.NDArray[np.intp]
    step: npt.NDArray[np.int64]
    success: npt.NDArray[np.bool_]
    forecast: Floats
    blind: Floats
    n_blind: int


@plain_blas()
def forecast_skill(
    sequences: StateSequences,
    fit_function: Callable[[StateSequences], TraceProcess],
    *,
    n_folds: int = 5,
    steps: tuple[int, ...] | None = None,
    ci_prob: float = 0.95,
    rng: Rng = None,
) -> ForecastSkill:
    """Measure what the states of a process add to a forecast, on runs it was not fitted to.

    Parameters
    ----------
    sequences : StateSequences
        The runs.
    fit_function : callable
        Fits the process to runs: ``fit_function(sequences) -> TraceProcess``.
    n_folds : int
        Folds over units; fewer where there are fewer units.
    steps : tuple of int, optional
        Steps at which runs are forecast; the quartiles of all end times by default.
    ci_prob : float
        Probability of the intervals.
    rng : Generator, SeedSequence, int or None
        Source of the folds.

    Returns
    -------
    ForecastSkill

    Raises
    ------
    ValueError
        If there are fewer than two units, or no run that ended has a step.

    Notes
    -----
    Both forecasts are conditional on the run having a step t. The process's is mixed with weight
    1 / (n + 1) of the blind one, n the runs it was fitted to, so that no score is infinite; the
    blind one is (s + 1/2) / (n + 1) over runs that ended. The interval of the gain is that of a
    ratio of unit totals, with Student's t on units - 1 degrees of freedom. Runs that were cut are
    left out, since nothing is known of how they would have ended.
    """
    check_positive_int(n_folds, name="n_folds")
    check_fraction(ci_prob, name="ci_prob")
    _, unit = np.unique(sequences.unit, return_inverse=True)
    n_units = int(unit.max(initial=-1)) + 1
    if n_units < 2:
        raise ValueError("forecasts are judged on other units than they are fitted to; one is few")
    lengths, ended = sequences.lengths, sequences.event != CENSORED
    if steps is None:
        quartiles = np.quantile(lengths, [0.25, 0.5, 0.75], method="inverted_cdf")
        steps = tuple(sorted({max(int(q), 1) for q in quartiles}))
    elif not steps or min(steps) < 1:
        raise ValueError(f"steps must be one or more, each at least 1; got {steps!r}")
    if not np.any(ended & (lengths >= min(steps))):
        raise ValueError(f"no run that ended has {min(steps)} steps; nothing can be forecast")
    folds = min(n_folds, n_units)
    fold = generator(rng).permutation(n_units) % folds
    records = _cross_fit(sequences, unit, fold, steps, fit_function)
    return _judge(records, sequences, steps, folds, ci_prob)


def _cross_fit(
    sequences: StateSequences,
    unit: npt.NDArray[np.intp],
    fold: npt.NDArray[np.intp],
    steps: tuple[int, ...],
    fit_function: Callable[[StateSequences], TraceProcess],
) -> _Records:
    lengths, ended = sequences.lengths, sequences.event != CENSORED
    success = sequences.event == SUCCESS
    parts: list[tuple[Any, ...]] = []
    n_blind = 0
    for k in np.unique(fold):
        held = fold[unit] == k
        train = sequences.select(np.flatnonzero(~held))
        there = np.flatnonzero(held)
        values = np.full((sequences.n_runs, len(steps)), np.nan)
        values[there] = path_values(fit_function(train), sequences.select(there), steps)
        weight = 1.0 / (train.n_runs + 1)
        for place, t in enumerate(steps):
            known = ~held & ended & (lengths >= t)
            blind = (np.count_nonzero(success & known) + 0.5) / (np.count_nonzero(known) + 1.0)
            runs = np.flatnonzero(held & ended & (lengths >= t))
            value = values[runs, place]
            n_blind += int(np.isnan(value).sum())
            value = np.where(np.isnan(value), blind, value)
            mixed = (1.0 - weight) * value + weight * blind
            known_alike = np.full(runs.size, blind)
            parts.append((unit[runs], np.full(runs.size, t), success[runs], mixed, known_alike))
    joined: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    unit_, step_, success_, forecast_, blind_ = joined
    return _Records(unit_, step_, success_, forecast_, blind_, n_blind)


def _judge(
    records: _Records,
    sequences: StateSequences,
    steps: tuple[int, ...],
    n_folds: int,
    ci_prob: float,
) -> ForecastSkill:
    y = records.success.astype(np.float64)
    score, blind_score = _log_score(records.forecast, y), _log_score(records.blind, y)
    brier, blind_brier = (records.forecast - y) ** 2, (records.blind - y) ** 2
    gain = _mean(score - blind_score, records.unit, ci_prob)
    n_units = int(np.unique(records.unit).size)
    n_unknown = int(np.count_nonzero(sequences.event == CENSORED))
    verdict, reasons = _verdict(gain, n_units, n_unknown, sequences.n_runs)
    by_step = tuple(
        {
            "step": t,
            "n": int(at.sum()),
            "gain": _mean((score - blind_score)[at], records.unit[at], ci_prob).to_dict(),
            "log_score": float(score[at].mean()),
            "blind_log_score": float(blind_score[at].mean()),
        }
        for t in steps
        if np.any(at := records.step == t)
    )
    at_risk = (sequences.event != CENSORED) & (sequences.lengths >= min(steps))
    return ForecastSkill(
        verdict=verdict,
        gain=gain,
        brier_gain=_mean(blind_brier - brier, records.unit, ci_prob),
        log_score=float(score.mean()),
        blind_log_score=float(blind_score.mean()),
        brier=float(brier.mean()),
        blind_brier=float(blind_brier.mean()),
        bias=_mean(y - records.forecast, records.unit, ci_prob),
        steps=steps,
        by_step=by_step,
        calibration=_calibration(records, y, ci_prob),
        n_forecasts=int(y.size),
        n_runs=int(at_risk.sum()),
        n_units=n_units,
        n_folds=n_folds,
        n_unknown=n_unknown,
        n_blind=records.n_blind,
        reasons=reasons,
    )


def _verdict(
    gain: Estimate, n_units: int, n_unknown: int, n_runs: int
) -> tuple[Verdict, tuple[str, ...]]:
    reasons: list[str] = []
    if n_units < _MIN_UNITS:
        reasons.append(f"{n_units} tasks are too few; {_MIN_UNITS} are needed")
    if n_unknown > _MAX_UNKNOWN * n_runs:
        reasons.append(f"{n_unknown} of {n_runs} runs were cut: their outcomes are not known")
    if reasons or gain.interval is None:
        return Verdict.INCONCLUSIVE, tuple(reasons)
    if gain.interval.high < NEGLIGIBLE:
        return Verdict.REJECTED, (f"its gain is surely under {NEGLIGIBLE} nat a forecast",)
    if gain.interval.low > 0.0:
        return Verdict.ACCEPTED, ()
    return Verdict.INCONCLUSIVE, (
        "whether states foretell success better than the step alone is open: the interval of "
        "their gain reaches from none to one of use",
    )


def _log_score(forecast: Floats, y: Floats) -> Floats:
    return np.log(np.where(y > 0.0, forecast, 1.0 - forecast))


def _mean(values: Floats, unit: npt.NDArray[np.intp], ci_prob: float) -> Estimate:
    """Mean over forecasts, units clustered, with Student's t on units - 1."""
    _, place = np.unique(unit, return_inverse=True)
    totals, sizes = np.bincount(place, weights=values), np.bincount(place).astype(np.float64)
    value = float(values.mean())
    if sizes.size < 2:
        return Estimate(value=value, status=Status.INCONCLUSIVE, reasons=("one unit",))
    # The variance of sum(y) / sum(x) over units, linearised (Cochran 1977, section 2.11).
    n = sizes.size
    spread = float(np.square(totals - value * sizes).sum()) * n / (n - 1)
    error = float(np.sqrt(spread)) / values.size
    t = float(t_quantile(ci_prob, n - 1))
    interval = Interval(
        low=value - t * error, high=value + t * error, ci_prob=ci_prob, kind="cluster_t"
    )
    return Estimate(value=value, interval=interval, estimand="population")


def _calibration(records: _Records, y: Floats, ci_prob: float) -> tuple[CalibrationBin, ...]:
    """Join forecasts in order of size into bins of about equal numbers, equal ones together."""
    size = records.forecast.size
    n_bins = int(np.clip(size // _MIN_IN_BIN, 1, _MAX_BINS))
    edges = np.unique(np.quantile(records.forecast, np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    label = np.searchsorted(edges, records.forecast, side="right")
    bins = []
    for k in np.unique(label):
        here = label == k
        share = _mean(y[here], records.unit[here], ci_prob)
        low, high = (0.0, 1.0)
        if share.interval is not None and 0.0 < y[here].mean() < 1.0:
            low, high = max(share.interval.low, 0.0), min(share.interval.high, 1.0)
        elif share.interval is not None:
            low, high = _edge(y[here], records.unit[here], ci_prob)
        bins.append(
            CalibrationBin(
                low=float(records.forecast[here].min()),
                high=float(records.forecast[here].max()),
                forecast=float(records.forecast[here].mean()),
                observed=float(y[here].mean()),
                observed_low=low,
                observed_high=high,
                n=int(here.sum()),
                n_units=int(np.unique(records.unit[here]).size),
            )
        )
    return tuple(bins)


def _edge(y: Floats, unit: npt.NDArray[np.intp], ci_prob: float) -> tuple[float, float]:
    """Clopper-Pearson on the number of units where all outcomes are the same."""
    n = int(np.unique(unit).size)
    bounds = clopper_pearson(n * float(y[0]), n, ci_prob)
    return float(bounds.low), float(bounds.high)
