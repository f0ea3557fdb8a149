"""How sure are a chain's tables, curves and times? Three answers, for three questions.

- ``bootstrap`` resamples units (tasks, or clusters of them) with all their runs and refits: it
  holds when attempts at a task are alike, and when the chain is not the truth. It is the default.
- ``posterior`` draws every row of the table from its Dirichlet law, as if runs were independent
  and the chain true: it is what the published method means, and too narrow where tasks differ.
- ``delta`` linearises the same law: a closed form that checks the draws.

The first two make many chains at once (`ChainDraws`), and every figure is computed on all of them
by the same linear algebra, so no figure needs an error formula of its own. Percentiles are taken a
little further out than their nominal probability, by the factor that Student's t puts on a normal
interval of so many units (Hesterberg 2015, section 3.2: expanded percentiles).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_fraction, check_positive_int
from sojourn.estimates import Estimate, Interval, ReliabilityCurve, Status
from sojourn.process.chain_draws import ChainDraws, bootstrap_draws, posterior_draws
from sojourn.process.delta import delta_errors
from sojourn.process.homogeneous import HomogeneousFit
from sojourn.sequences import StateSequences
from sojourn.stats.intervals import clopper_pearson, normal_quantile, t_quantile
from sojourn.tables import n_of

__all__ = ["ChainIntervals", "chain_intervals"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None
# Refits without a way out lack a figure; beyond this share the figure's interval is not trusted.
_MAX_LOST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainIntervals:
    """A fitted chain's figures with their intervals.

    Attributes
    ----------
    method : str
        ``bootstrap``, ``posterior`` or ``delta``.
    success_ever, failure_ever : Estimate
        P(the run ends in success, in failure).
    mean_steps, restricted_mean, median_steps, p90_steps : Estimate
        Time to the end; the restricted mean is of min(steps, observed horizon).
    mean_steps_given_success, median_steps_given_success : Estimate
        Time of the runs that succeed.
    success_within, failure_within : ReliabilityCurve
        The curves at d = 0 .. horizon with pointwise bands; supported up to the longest run.
    rows_low, rows_high : ndarray of shape (n_states, n_states + 2)
        Bounds of the next-event probabilities: next states, success, failure.
    start_low, start_high : ndarray of shape (n_states + 2,)
        Bounds of the first event's probabilities.
    n_units, n_draws : int
        Units resampled and chains drawn (0 for ``delta``).
    seed : int or None
        Entropy of the draws where it is known: the number passed, or drawn when none was.
    """

    method: str
    success_ever: Estimate
    failure_ever: Estimate
    mean_steps: Estimate
    restricted_mean: Estimate
    median_steps: Estimate
    p90_steps: Estimate
    mean_steps_given_success: Estimate
    median_steps_given_success: Estimate
    success_within: ReliabilityCurve = field(repr=False)
    failure_within: ReliabilityCurve = field(repr=False)
    rows_low: Floats = field(repr=False)
    rows_high: Floats = field(repr=False)
    start_low: Floats = field(repr=False)
    start_high: Floats = field(repr=False)
    n_units: int
    n_draws: int
    seed: int | None

    def __str__(self) -> str:
        size = f"{n_of(self.n_units, 'unit')}, {n_of(self.n_draws, 'draw')}"
        lines = [f"intervals by {self.method}, {size}"]
        lines += [f"  {name:<28}{estimate}" for name, estimate in self._estimates().items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates and the bounds of the curves as plain values."""
        curves = {
            curve.quantity: {
                "d": curve.x.tolist(),
                "value": curve.value.tolist(),
                "low": curve.low.tolist(),
                "high": curve.high.tolist(),
            }
            for curve in (self.success_within, self.failure_within)
        }
        estimates = {name: estimate.to_dict() for name, estimate in self._estimates().items()}
        return {
            "method": self.method,
            "n_units": self.n_units,
            "n_draws": self.n_draws,
            "seed": self.seed,
            **estimates,
            **curves,
        }

    def _estimates(self) -> dict[str, Estimate]:
        names = (
            "success_ever",
            "failure_ever",
            "mean_steps",
            "restricted_mean",
            "median_steps",
            "p90_steps",
            "mean_steps_given_success",
            "median_steps_given_success",
        )
        return {name: getattr(self, name) for name in names}


class _Maker(NamedTuple):
    """What every estimate needs to know."""

    fit: HomogeneousFit
    kind: str
    ci_prob: float
    tail: float
    n_units: int
    lost: str | None

    def bounds(self, draws: Floats, *, proportion: bool) -> tuple[Floats, Floats]:
        """Percentiles over the first axis; all draws 0 (or 1) leave the exact bound on n_units."""
        low, high = np.quantile(draws, [self.tail, 1.0 - self.tail], axis=0)
        if proportion:
            none = np.all(draws <= 0.0, axis=0)
            every = np.all(draws >= 1.0 - 1e-12, axis=0)
            edge = clopper_pearson(0.0, self.n_units, self.ci_prob).high
            high = np.where(none, edge, high)
            low = np.where(every, 1.0 - edge, low)
        return low, high

    def estimate(
        self,
        value: float,
        draws: Floats | None,
        *,
        proportion: bool = False,
        caution: str | None = None,
    ) -> Estimate:
        """Make an estimate of a figure and its draws; draws that lack it are NaN."""
        reasons: tuple[str, ...] = () if caution is None else (caution,)
        if draws is None:
            return Estimate(value=value, status=_status(reasons), reasons=reasons)
        kept = draws[np.isfinite(draws)]
        if self.n_units < 2 and self.kind == "bootstrap":
            kept = kept[:0]
            reasons += ("one unit cannot be resampled",)
        elif kept.size < (1.0 - _MAX_LOST) * draws.size:
            reasons += (f"{draws.size - kept.size} of {draws.size} refits have no such figure",)
        if kept.size == 0:
            return Estimate(value=value, status=_status(reasons), reasons=reasons)
        low, high = self.bounds(kept, proportion=proportion)
        return Estimate(
            value=value,
            interval=Interval(
                low=min(float(low), value),
                high=max(float(high), value),
                ci_prob=self.ci_prob,
                kind=self.kind,
            ),
            status=_status(reasons),
            reasons=reasons,
            estimand="population" if self.kind == "bootstrap" else None,
        )

    def withheld(self) -> Estimate:
        return Estimate(value=None, status=Status.WITHHELD, reasons=(str(self.lost),))


def chain_intervals(
    fit: HomogeneousFit,
    sequences: StateSequences,
    *,
    method: str = "bootstrap",
    horizon: int | None = None,
    ci_prob: float = 0.95,
    n_draws: int = 1999,
    by: str = "unit",
    rng: Rng = None,
) -> ChainIntervals:
    """Give the figures of a fitted chain with their intervals.

    Parameters
    ----------
    fit : HomogeneousFit
        The fit.
    sequences : StateSequences
        The runs it was fitted to.
    method : {"bootstrap", "posterior", "delta"}
        See the head of this module.
    horizon : int, optional
        Last d of the curves; the longest observed run by default.
    ci_prob : float
        Probability of every interval.
    n_draws : int
        Resampled or posterior chains.
    by : {"unit", "run"}
        What the bootstrap resamples. Runs are units only if attempts at a task are unrelated.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Returns
    -------
    ChainIntervals

    Notes
    -----
    Where the fit leaves a state unidentified, figures beyond the observed horizon are withheld.
    Where all draws agree on 0 or on 1, their percentiles would claim certainty; the
    Clopper-Pearson bound for that many units stands instead.
    """
    check_choice(method, ("bootstrap", "posterior", "delta"), name="method")
    check_fraction(ci_prob, name="ci_prob")
    check_positive_int(n_draws, name="n_draws")
    check_choice(by, ("unit", "run"), name="by")
    last = max(fit.horizon, 1) if horizon is None else check_positive_int(horizon, name="horizon")
    seed = None
    if rng is None:
        rng = np.random.SeedSequence()
        seed = int(np.asarray(rng.entropy).item()) if isinstance(rng.entropy, int) else None
    elif isinstance(rng, int):
        seed = int(rng)
    n_units = fit.counts.n_runs if method != "bootstrap" or by == "run" else fit.n_units
    expanded = method == "bootstrap" and n_units > 1
    maker = _Maker(
        fit=fit,
        kind=method,
        ci_prob=ci_prob,
        tail=_expanded_tail(ci_prob, n_units) if expanded else (1.0 - ci_prob) / 2.0,
        n_units=fit.n_units if by == "unit" else n_units,
        lost=fit.success_ever.reasons[0] if fit.unidentified else None,
    )
    if method == "delta":
        return _by_delta(maker, last)
    if method == "bootstrap":
        draws = bootstrap_draws(fit, sequences, n_draws, by=by, rng=rng)
    else:
        draws = posterior_draws(fit, n_draws, rng=rng)
    return _by_draws(maker, draws, last, seed)


def _by_draws(maker: _Maker, draws: ChainDraws, last: int, seed: int | None) -> ChainIntervals:
    chain, fit = maker.fit.chain, maker.fit
    success = draws.success_within(last)
    failure = draws.failure_within(last)
    rows_low, rows_high = maker.bounds(draws.rows, proportion=False)
    start_low, start_high = maker.bounds(draws.start, proportion=False)
    ever = {}
    for name, exact in (("success", chain.success_ever), ("failure", chain.failure_ever)):
        if fit.unidentified:
            ever[name] = maker.withheld()
        else:
            ever[name] = maker.estimate(exact, draws.ends_in(name), proportion=True)
    times = _times(maker, draws)
    observed = max(fit.horizon, 1)
    return ChainIntervals(
        method=maker.kind,
        success_ever=ever["success"],
        failure_ever=ever["failure"],
        restricted_mean=maker.estimate(
            chain.restricted_mean_steps(observed), draws.restricted_mean_steps(observed)
        ),
        success_within=_curve(maker, "success_within", chain.success_within(last), success),
        failure_within=_curve(maker, "failure_within", chain.failure_within(last), failure),
        rows_low=rows_low,
        rows_high=rows_high,
        start_low=start_low,
        start_high=start_high,
        n_units=maker.n_units,
        n_draws=draws.n_draws,
        seed=seed,
        **times,
    )


def _times(maker: _Maker, draws: ChainDraws | None) -> dict[str, Estimate]:
    fit, chain = maker.fit, maker.fit.chain
    made: dict[str, Estimate] = {}
    made["mean_steps"] = (
        maker.withheld()
        if fit.unidentified
        else maker.estimate(chain.mean_steps, None if draws is None else draws.mean_steps)
    )
    for name, prob in (("median_steps", 0.5), ("p90_steps", 0.9)):
        made[name] = _quantile(maker, draws, prob)
    given = ("mean_steps_given_success", "median_steps_given_success")
    if fit.unidentified:
        return made | dict.fromkeys(given, maker.withheld())
    if chain.success_ever <= 0.0:
        none = Estimate(value=None, status=Status.WITHHELD, reasons=("no run succeeded",))
        return made | dict.fromkeys(given, none)
    made[given[0]] = maker.estimate(
        chain.mean_steps_given_success, None if draws is None else draws.mean_steps_given_success
    )
    made[given[1]] = maker.estimate(
        float(chain.quantile_steps(0.5, given="success")),
        None if draws is None else draws.quantile_steps(0.5, given="success"),
    )
    return made


def _quantile(maker: _Maker, draws: ChainDraws | None, prob: float) -> Estimate:
    """Give the step by which a share has ended; beyond the longest run with a caution, or not."""
    fit, chain = maker.fit, maker.fit.chain
    going = chain.still_going(fit.horizon)
    within = bool(going[-1] <= 1.0 - prob + 1e-13)
    if fit.unidentified and not within:
        return maker.withheld()
    value = int(np.argmax(going <= 1.0 - prob + 1e-13)) if within else chain.quantile_steps(prob)
    caution = None if within else f"beyond the longest observed run of {fit.horizon} steps"
    return maker.estimate(
        float(value), None if draws is None else draws.quantile_steps(prob), caution=caution
    )


def _curve(maker: _Maker, quantity: str, value: Floats, draws: Floats) -> ReliabilityCurve:
    low, high = maker.bounds(draws, proportion=True)
    if maker.n_units < 2 and maker.kind == "bootstrap":
        low, high = np.zeros(value.shape), np.ones(value.shape)
    # Nothing ends before its first step unless the start says so: no doubt about d = 0 then.
    if np.all(draws[:, 0] == 0.0):
        low[0] = high[0] = 0.0
    return _band(maker, quantity, value, low, high)


def _band(
    maker: _Maker, quantity: str, value: Floats, low: Floats, high: Floats
) -> ReliabilityCurve:
    return ReliabilityCurve(
        quantity=quantity,
        x=np.arange(value.size),
        value=value,
        low=np.minimum(low, value),
        high=np.maximum(high, value),
        ci_prob=maker.ci_prob,
        kind=maker.kind,
        n_supported=min(value.size, maker.fit.horizon + 1),
    )


def _by_delta(maker: _Maker, last: int) -> ChainIntervals:
    fit, chain = maker.fit, maker.fit.chain
    if fit.unidentified or not chain.is_absorbing:
        raise ValueError("the delta method needs a chain whose states all lead to an end")
    observed, added = fit.prior.masses(fit.counts.table)
    totals = (observed + added).sum(axis=1)
    errors = delta_errors(chain, totals, fit.counts.n_runs, last, observed=max(fit.horizon, 1))
    z = normal_quantile(maker.ci_prob)

    def around(value: float, error: float, top: float) -> Estimate:
        low, high = max(value - z * error, 0.0), min(value + z * error, top)
        interval = Interval(low=low, high=high, ci_prob=maker.ci_prob, kind="delta")
        return Estimate(value=value, interval=interval)

    rows = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    start = np.concatenate((chain.initial, [chain.initial_success, chain.initial_failure]))
    row_error = z * np.sqrt(rows * (1.0 - rows) / np.maximum(totals, 1e-300)[:, None])
    start_error = z * np.sqrt(start * (1.0 - start) / fit.counts.n_runs)
    success, failure = chain.success_within(last), chain.failure_within(last)

    def band(quantity: str, value: Floats, error: Floats) -> ReliabilityCurve:
        low, high = np.clip(value - z * error, 0.0, 1.0), np.clip(value + z * error, 0.0, 1.0)
        return _band(maker, quantity, value, low, high)

    times = _times(maker, None)
    times["mean_steps"] = around(chain.mean_steps, errors.mean_steps, np.inf)
    mean = chain.restricted_mean_steps(max(fit.horizon, 1))
    return ChainIntervals(
        method="delta",
        success_ever=around(chain.success_ever, errors.success_ever, 1.0),
        failure_ever=around(chain.failure_ever, errors.failure_ever, 1.0),
        restricted_mean=around(mean, errors.restricted_mean, np.inf),
        success_within=band("success_within", success, errors.success_within),
        failure_within=band("failure_within", failure, errors.failure_within),
        rows_low=np.clip(rows - row_error, 0.0, 1.0),
        rows_high=np.clip(rows + row_error, 0.0, 1.0),
        start_low=np.clip(start - start_error, 0.0, 1.0),
        start_high=np.clip(start + start_error, 0.0, 1.0),
        n_units=maker.n_units,
        n_draws=0,
        seed=None,
        **times,
    )


def _status(reasons: tuple[str, ...]) -> Status:
    return Status.INCONCLUSIVE if reasons else Status.SUPPORTED


def _expanded_tail(ci_prob: float, n_units: int) -> float:
    """Give the tail probability Phi(-sqrt(n / (n - 1)) t) that stands for that of a percentile."""
    from scipy.special import ndtr

    t = float(t_quantile(ci_prob, n_units - 1))
    return float(ndtr(-np.sqrt(n_units / (n_units - 1)) * t))
