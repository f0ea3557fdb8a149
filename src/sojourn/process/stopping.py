"""When going on with a run is worth less than it costs: optimal stopping on a fitted process.

A success is worth 1 and every further step costs `cost`, a share of that worth. Whoever watches a
run sees, after step t, the state i and that the run has not ended. With the next-event
probabilities s (success) and Q (next state) at that step, q_i = sum_j Q_ij,

    going on is worth   G_t(i) = sum_j Q_ij / q_i  W_{t+1}(j) - cost,
    being at step t is  W_t(j) = s_j + q_j max(0, G_t(j)),

and the rule is to stop where G_t(i) <= 0: no plan of further steps gains more than it costs. It is
a rule for runs of the fitted process; that a stopped run would have ended as the process says is an
assumption, not a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int
from sojourn.estimates import number
from sojourn.process.base import TraceProcess
from sojourn.process.draws import percentiles
from sojourn.process.unrolled import UnrolledChain, unroll
from sojourn.tables.words import percent

__all__ = ["StopRule", "stop_rule"]

Floats = npt.NDArray[np.float64]
_MAX_POLICIES = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StopRule:
    """After which steps, and in which states, going on does not pay.

    Attributes
    ----------
    stop_after : int or None
        Knowing the step alone: the first step after which going on is worth no more than it costs;
        0 means not to start. None: it pays up to the horizon.
    stop_after_interval : tuple of (int or None, int or None), or None
        Percentiles of that step over the draws; None in it stands for never.
    cost : float
        Cost of a step, as a share of what a success is worth.
    horizon : int
        Longest observed run.
    state_names : tuple of str
        Names of the states.
    worth : ndarray of shape (n_steps, n_states), or None
        Net worth of going on after step t in this state, the last row for later steps; NaN where no
        run goes on. None for a process without rows by observed state.
    stop_share : ndarray of shape (n_steps, n_states), or None
        Share of the draws under which the run is stopped there.
    blind_worth : ndarray of shape (horizon + 1,)
        The same knowing the step alone.
    blind_stop_share : ndarray of shape (horizon + 1,)
        Share of the draws that stop there, knowing the step alone.
    ci_prob : float
        Probability of the interval.
    """

    stop_after: int | None
    stop_after_interval: tuple[int | None, int | None] | None
    cost: float
    horizon: int
    state_names: tuple[str, ...]
    worth: Floats | None = field(repr=False)
    stop_share: Floats | None = field(repr=False)
    blind_worth: Floats = field(repr=False)
    blind_stop_share: Floats = field(repr=False)
    ci_prob: float = 0.95

    def __str__(self) -> str:
        if self.stop_after is None:
            text = f"going on pays up to the longest observed run of {self.horizon} steps"
        else:
            text = f"stop after step {self.stop_after}"
        if self.stop_after_interval is not None:
            low, high = ("never" if x is None else str(x) for x in self.stop_after_interval)
            text += f" ({percent(self.ci_prob)}: {low} to {high})"
        return f"at a cost of {self.cost:g} of a success per step: {text}"

    def stops(self, state: int, step: int) -> bool | None:
        """Tell whether a run in this state after this step is to be stopped; None: no such rule."""
        if self.worth is None:
            return None
        worth = self.worth[min(step, self.worth.shape[0]) - 1, state]
        return None if np.isnan(worth) else bool(worth <= 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        interval = self.stop_after_interval
        return {
            "cost": self.cost,
            "horizon": self.horizon,
            "stop_after": self.stop_after,
            "stop_after_interval": None if interval is None else list(interval),
            "ci_prob": self.ci_prob,
            "worth": [number(x) for x in self.blind_worth],
            "stop_share": [number(x) for x in self.blind_stop_share],
            "states": None
            if self.worth is None
            else [
                {
                    "name": name,
                    "worth": [number(x) for x in self.worth[:, i]],
                    "stop_share": None
                    if self.stop_share is None
                    else [number(x) for x in self.stop_share[:, i]],
                }
                for i, name in enumerate(self.state_names)
            ],
        }


def stop_rule(
    process: TraceProcess,
    *,
    cost: float,
    horizon: int,
    draws: Sequence[TraceProcess] = (),
    n_units: int = 0,
    ci_prob: float = 0.95,
) -> StopRule:
    """Find where going on is worth less than it costs.

    Parameters
    ----------
    process : TraceProcess
        The process.
    cost : float
        Cost of one step as a share of the worth of a success, between 0 and 1.
    horizon : int
        Longest observed run.
    draws : sequence of TraceProcess
        Refits to resampled tasks, for the uncertainty of the rule.
    n_units : int
        Units behind the draws.
    ci_prob : float
        Probability of the interval.
    """
    check_fraction(cost, name="cost")
    check_positive_int(horizon, name="horizon")
    blind = _blind_worth(process, cost, horizon)
    drawn = np.array([_blind_worth(draw, cost, horizon) for draw in draws])
    worth, share = _by_state(process, cost, draws)
    interval, stops = None, np.full(horizon + 1, np.nan)
    if len(draws):
        stops = (drawn <= 0.0).mean(axis=0)
        steps = np.array([_first(row) for row in drawn], dtype=np.float64)
        low, high = percentiles(steps, ci_prob=ci_prob, n_units=n_units)
        interval = (_step(float(np.floor(low)), horizon), _step(float(np.ceil(high)), horizon))
    return StopRule(
        stop_after=_step(_first(blind), horizon),
        stop_after_interval=interval,
        cost=cost,
        horizon=horizon,
        state_names=process.state_names,
        worth=worth,
        stop_share=share,
        blind_worth=blind,
        blind_stop_share=stops,
        ci_prob=ci_prob,
    )


def _by_state(
    process: TraceProcess, cost: float, draws: Sequence[TraceProcess]
) -> tuple[Floats | None, Floats | None]:
    try:
        chain = unroll(process)
    except ValueError:
        return None, None
    if not chain.is_observed:
        return None, None
    worth = worth_of_going_on(chain, cost)
    if not len(draws):
        return worth, None
    stops = np.zeros(worth.shape)
    for draw in draws:
        drawn = worth_of_going_on(unroll(draw), cost)
        # Where no run of a draw goes on there is nothing to stop.
        stops += np.where(np.isnan(drawn), 0.0, drawn <= 0.0)
    return worth, stops / len(draws)


def worth_of_going_on(chain: UnrolledChain, cost: float) -> Floats:
    """Net worth G of going on after step t in each state, shape (n_layers, n_states)."""
    n = chain.n_inner
    worth = np.full((chain.n_layers, n), np.nan)
    being = _stationary(chain.rows[-1], cost)
    for t in range(chain.n_layers - 1, -1, -1):
        Q, s = chain.rows[t, :, :n], chain.rows[t, :, n]
        q = Q.sum(axis=1)
        gain = Q @ being - cost * q
        np.divide(gain, q, out=worth[t], where=q > 0.0)
        being = s + np.maximum(gain, 0.0)
    return worth


def _stationary(table: Floats, cost: float) -> Floats:
    """W of a table that holds for ever, by policy iteration from the policy that always stops.

    Each policy is at least as good as the last, so none of them keeps a run for ever at a cost.
    """
    n = table.shape[0]
    Q, s = table[:, :n], table[:, n]
    q = Q.sum(axis=1)
    go = np.zeros(n, dtype=np.bool_)
    being = s.copy()
    for _ in range(_MAX_POLICIES):
        wider = Q @ being - cost * q > 1e-15
        if np.array_equal(wider, go):
            break
        go = wider
        kept = go[:, None] * Q
        being = np.linalg.solve(np.eye(n) - kept, s - go * cost * q)
    return being


def _blind_worth(process: TraceProcess, cost: float, horizon: int) -> Floats:
    """G knowing the step alone, for t = 0 .. horizon, from the process's two curves.

    The curves are followed to four times the horizon; beyond it going on is worth nothing.
    """
    last = 4 * horizon
    reached, failed = process.success_within(last), process.failure_within(last)
    at_risk = np.concatenate(([1.0], np.clip(1.0 - reached - failed, 0.0, 1.0)[:-1]))
    gained = np.diff(reached, prepend=0.0)
    lost = np.diff(failed, prepend=0.0)
    worth = np.full(last + 1, -cost)
    being = 0.0
    for t in range(last, -1, -1):
        worth[t] = being - cost
        if at_risk[t] <= 0.0:
            being = 0.0
            continue
        success = gained[t] / at_risk[t]
        going = max(1.0 - success - lost[t] / at_risk[t], 0.0)
        being = success + going * max(0.0, worth[t])
    return worth[: horizon + 1]


def _first(worth: Floats) -> int:
    """First step after which going on does not pay; one past the last where it always does."""
    stops = worth <= 0.0
    return int(np.argmax(stops)) if np.any(stops) else worth.size


def _step(step: float, horizon: int) -> int | None:
    return None if step > horizon else int(step)
