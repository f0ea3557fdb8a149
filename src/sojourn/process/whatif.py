"""What if: a step that fails less often, a tool taken away, runs that may go on for longer.

A change is applied to the tables of the fitted process and every figure is computed again, exactly;
beside it stand the first-order effect (the gradient) and the published bound on a perturbation. The
answers are *structural*: they say what follows if the rest of the process stays as it is. Whether
an agent whose failures in one step were mended would go on as the others do is a question for an
experiment, not for a log.

Sensitivities: with m_t(i) = P(in state i at step t) and u_{t+1}(j) what is reached from j at the
next step, a probability p_ij changed at all steps alike moves the figure by sum_t m_t(i) u_{t+1}(j)
a unit; u is 1 for success and 0 for failure. For a homogeneous chain and P(success ever) this is
v_i h_j, with the visits v = initial' N and the values h = N R+. Failures of state i that become
successes therefore gain, per share, exactly the share of runs that fail there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int
from sojourn.estimates import Estimate, Status
from sojourn.process.base import TraceProcess
from sojourn.process.changes import CHANGE_TYPES, Cap, Change, apply_changes
from sojourn.process.draws import interval_of_draws, lost_too
from sojourn.process.perturbation import PerturbationBound, perturbation_bound
from sojourn.process.unrolled import UnrolledChain, unroll
from sojourn.tables import n_of

__all__ = [
    "Effect",
    "FixRow",
    "Sensitivities",
    "WhatIf",
    "most_valuable_fixes",
    "sensitivities",
    "what_if",
]

Floats = npt.NDArray[np.float64]
MAX_CAP = 100_000
STRUCTURAL = "structural, not causal: the rest of the process is taken to stay as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A figure as it is, as it would be, and the difference.

    Attributes
    ----------
    difference, before, after : Estimate
        The figure after the change minus before it, and both; intervals by task bootstrap, the
        difference paired.
    """

    difference: Estimate
    before: Estimate
    after: Estimate

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}, difference {self.difference}"

    def to_dict(self) -> dict[str, Any]:
        """Return the three estimates."""
        return {name: getattr(self, name).to_dict() for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WhatIf:
    """What a change of the fitted process would do.

    Attributes
    ----------
    changes : tuple of str
        The changes in words.
    success_within, success_ever, mean_steps : Effect
        P(success within the cap); P(success ever) and the mean number of steps were no run cut.
    cap_before, cap : int
        Steps that runs may take, before and after.
    linear : float or None
        First-order effect of the changed tables on P(success ever).
    bound : PerturbationBound or None
        The bounds beside the exact difference; None for a process that looks at the step.
    curve_before, curve_after : ndarray of shape (max cap + 1,)
        P(success within d steps).
    n_draws, n_units : int
        Refits behind the intervals, and units.
    """

    changes: tuple[str, ...]
    success_within: Effect
    success_ever: Effect
    mean_steps: Effect
    cap_before: int
    cap: int
    linear: float | None
    bound: PerturbationBound | None
    curve_before: Floats = field(repr=False)
    curve_after: Floats = field(repr=False)
    n_draws: int
    n_units: int

    @property
    def only_caps(self) -> bool:
        """Whether nothing but the cap is changed, which figures without a cap know nothing of."""
        return len(self.changes) == 1 and self.cap != self.cap_before

    def __str__(self) -> str:
        lines = [f"if {'; '.join(self.changes)}:"]
        cap = n_of(self.cap, "step")
        if self.cap != self.cap_before:
            cap = f"{self.cap_before:,} -> {cap}"
        lines.append(f"  P(success within {cap})  {self.success_within}")
        if not self.only_caps:
            lines += self._without_cap()
        return "\n".join([*lines, f"  {STRUCTURAL}"])

    def _without_cap(self) -> list[str]:
        lines = [
            "  were no run cut:",
            f"  P(success ever)  {self.success_ever}",
            f"  mean steps       {self.mean_steps}",
        ]
        if self.linear is not None:
            lines.append(f"  first order      {self.linear:+.4f} in P(success ever)")
        if self.bound is not None and self.bound.published is not None:
            lines.append(f"  published bound  {self.bound.published:.4f} on its absolute change")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "changes": list(self.changes),
            "success_within": self.success_within.to_dict(),
            "success_ever": self.success_ever.to_dict(),
            "mean_steps": self.mean_steps.to_dict(),
            "cap_before": self.cap_before,
            "cap": self.cap,
            "linear": self.linear,
            "bound": None if self.bound is None else self.bound.to_dict(),
            "curve_before": self.curve_before.tolist(),
            "curve_after": self.curve_after.tolist(),
            "n_draws": self.n_draws,
            "n_units": self.n_units,
            "reading": STRUCTURAL,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivities:
    """First derivatives of P(success ever) and of P(success within d steps).

    Attributes
    ----------
    state_names : tuple of str
        Names of the states.
    horizon : int
        The d of R(d).
    ever, within : ndarray of shape (n_states, n_states + 2), or None
        Derivative in the probability of each next event (next states, success, failure), changed
        alike at all steps; None where inner states are not the observed ones.
    ever_by_fix, within_by_fix : ndarray of shape (n_states,)
        Gain per share of the failures of a state that become successes. NaN where runs may never
        end.
    """

    state_names: tuple[str, ...]
    horizon: int
    ever: Floats | None = field(repr=False)
    within: Floats | None = field(repr=False)
    ever_by_fix: Floats
    within_by_fix: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRow:
    """What mending the failures of one state would be worth.

    Attributes
    ----------
    state : str
        The state.
    gain : Estimate
        Increase of P(success within the horizon) per share of its failures that become successes;
        the share of all runs that fail there by then.
    gain_if_continued : Estimate
        Increase when all its failures go on instead, as its other runs do: what a retry would buy.
    gain_ever : Estimate
        As `gain`, in P(success ever).
    """

    state: str
    gain: Estimate
    gain_if_continued: Estimate
    gain_ever: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "state": self.state,
            "gain": self.gain.to_dict(),
            "gain_if_continued": self.gain_if_continued.to_dict(),
            "gain_ever": self.gain_ever.to_dict(),
        }


def what_if(
    process: TraceProcess,
    changes: Sequence[Change],
    *,
    horizon: int,
    draws: Sequence[TraceProcess] = (),
    n_units: int = 0,
    ci_prob: float = 0.95,
) -> WhatIf:
    """Evaluate a process again with its tables changed.

    Parameters
    ----------
    process : TraceProcess
        The fitted process.
    changes : sequence of Reroute, Remove, ChangedRow or Cap
        Applied in their order.
    horizon : int
        Longest observed run: the cap that runs have as it is.
    draws : sequence of TraceProcess
        Refits to resampled tasks; the changes are applied to each.
    n_units : int
        Units behind the draws.
    ci_prob : float
        Probability of the intervals.

    Raises
    ------
    ValueError
        If a change names no state, cannot be made, or the process has no rows by observed state.
    """
    check_positive_int(horizon, name="horizon")
    check_fraction(ci_prob, name="ci_prob")
    if not changes or not all(isinstance(change, CHANGE_TYPES) for change in changes):
        raise ValueError("changes must be one or more of Reroute, Remove, ChangedRow and Cap")
    caps = [change.steps for change in changes if isinstance(change, Cap)]
    cap = caps[-1] if caps else horizon
    if cap > MAX_CAP:
        raise ValueError(
            f"a cap of {cap:,} steps is more than {MAX_CAP:,}: drop it, P(success ever)"
            " says the rest"
        )
    before = _by_state(process)
    after = apply_changes(before, changes)
    pairs = [(chain, apply_changes(chain, changes)) for chain in map(unroll, draws)]
    last = max(cap, horizon)
    curves = before.success_within(last), after.success_within(last)

    def both(figure: Callable[[UnrolledChain, UnrolledChain], tuple[float, float]]) -> Floats:
        """Return a figure before and after, of each draw."""
        drawn = np.array([figure(a, b) for a, b in pairs], dtype=np.float64).reshape(-1, 2)
        return lost_too(drawn, draws)

    beyond = (
        () if cap <= horizon else (f"beyond the longest observed run of {n_of(horizon, 'step')}",)
    )
    lost = _not_identified(process)
    open_ = "its states lead to no observed end" if lost else None
    ever = (f"it extrapolates beyond the longest observed run of {n_of(horizon, 'step')}",)

    effect = partial(_effect, n_units=n_units, prob=ci_prob)
    return WhatIf(
        changes=tuple(str(change) for change in changes),
        success_within=effect(
            (float(curves[0][horizon]), float(curves[1][cap])),
            both(lambda a, b: (a.success_within(horizon)[-1], b.success_within(cap)[-1])),
            beyond,
            None,
            proportion=True,
            observed=True,
        ),
        success_ever=effect(
            (before.success_ever, after.success_ever),
            both(lambda a, b: (a.success_ever, b.success_ever)),
            ever,
            open_,
            proportion=True,
            observed=False,
        ),
        mean_steps=effect(
            (before.mean_steps, after.mean_steps),
            both(lambda a, b: (a.mean_steps, b.mean_steps)),
            ever,
            open_,
            proportion=False,
            observed=False,
        ),
        cap_before=horizon,
        cap=cap,
        linear=None if lost else _linear(before, after),
        bound=perturbation_bound(before, after) if before.n_layers == 1 and not lost else None,
        curve_before=curves[0],
        curve_after=curves[1],
        n_draws=len(pairs),
        n_units=n_units,
    )


def sensitivities(process: TraceProcess | UnrolledChain, horizon: int) -> Sensitivities:
    """Give the derivatives of P(success ever) and of R(horizon) in the rows of every state.

    Parameters
    ----------
    process : TraceProcess
        A process with rows by observed state.
    horizon : int
        The d of R(d).
    """
    check_positive_int(horizon, name="horizon")
    chain = _by_state(process)
    n, m = chain.n_inner, chain.n_states
    visits, masses = chain.visits(), chain.masses(horizon)
    failing = chain.rows[:, :, n + 1]
    steps = np.minimum(np.arange(horizon), chain.n_layers - 1)
    member = np.zeros((n, m))
    member[np.arange(n), chain.owner] = 1.0
    ever = within = None
    if chain.is_observed:
        values = chain.values
        following = np.vstack((values[1:], values[-1:]))
        ever = np.column_stack((visits.T @ following, visits.sum(axis=0), np.zeros(n)))
        later = np.vstack((chain.values_within(horizon)[1:], np.zeros((1, n))))
        within = np.column_stack((masses.T @ later, masses.sum(axis=0), np.zeros(n)))
    return Sensitivities(
        state_names=chain.state_names,
        horizon=horizon,
        ever=ever,
        within=within,
        ever_by_fix=(visits * failing).sum(axis=0) @ member,
        within_by_fix=(masses * failing[steps]).sum(axis=0) @ member,
    )


def most_valuable_fixes(
    process: TraceProcess,
    *,
    horizon: int,
    draws: Sequence[TraceProcess] = (),
    n_units: int = 0,
    ci_prob: float = 0.95,
) -> tuple[FixRow, ...]:
    """Rank the states by what mending their failures would be worth.

    Parameters
    ----------
    process : TraceProcess
        A process with rows by observed state.
    horizon : int
        Longest observed run, the d of R(d).
    draws : sequence of TraceProcess
        Refits to resampled tasks, for the intervals.
    n_units : int
        Units behind the draws.
    ci_prob : float
        Probability of the intervals.

    Returns
    -------
    tuple of FixRow
        The most valuable first.
    """
    own = _fix_table(_by_state(process), horizon)
    drawn = np.array([_fix_table(unroll(draw), horizon) for draw in draws])
    drawn = lost_too(drawn.reshape(-1, *own.shape), draws)
    lost = _not_identified(process)
    ever = (f"it extrapolates beyond the longest observed run of {n_of(horizon, 'step')}",)

    def estimate(column: int, state: int, reasons: tuple[str, ...], missing: str) -> Estimate:
        value = None if column == 2 and lost else float(own[column, state])
        return interval_of_draws(
            value,
            drawn[:, column, state],
            ci_prob=ci_prob,
            n_units=n_units,
            proportion=True,
            reasons=reasons,
            missing=missing,
        )

    rows = [
        FixRow(
            state=name,
            gain=estimate(0, i, (), "it is not identified"),
            gain_if_continued=estimate(1, i, (), "every run fails there: none shows how to go on"),
            gain_ever=estimate(2, i, ever, "its states lead to no observed end"),
        )
        for i, name in enumerate(process.state_names)
    ]
    return tuple(sorted(rows, key=lambda row: -(row.gain.value or 0.0)))


def _by_state(process: Any) -> UnrolledChain:
    chain = unroll(process)
    if not chain.has_rows_by_state:
        raise ValueError(
            f"the {process.name} process has no rows by observed state, so that none can be "
            "changed; fit a homogeneous or a progress process for that"
        )
    return chain


def _linear(before: UnrolledChain, after: UnrolledChain) -> float:
    """First-order effect of the change of the tables on P(success ever)."""
    n = before.n_inner
    values = before.values
    following = np.vstack((values[1:], values[-1:]))
    ends = np.tile([1.0, 0.0], (before.n_layers, 1))
    worth = np.hstack((following, ends))
    moved = np.einsum("tij,tj->ti", after.rows - before.rows, worth)
    first = np.concatenate((values[0], [1.0, 0.0]))
    visits = before.visits()
    effect = np.where(moved != 0.0, visits * moved, 0.0).sum()
    return float(effect + (after.start - before.start) @ first[: n + 2])


def _fix_table(chain: UnrolledChain, horizon: int) -> Floats:
    """Gains of the three kinds, shape (3, n_states); NaN where there is none."""
    found = sensitivities(chain, horizon)
    states = np.arange(chain.n_states)
    mended = chain.owner == states[:, None]
    going = chain.rows[:, :, :-1].sum(axis=2)
    # Where every run that was there failed, none shows what going on would be like.
    hopeless = (mended & np.any(going <= 0.0, axis=0)).any(axis=1)
    factors = np.divide(1.0, going, out=np.ones_like(going), where=going > 0.0)
    exits = chain.rows[:, :, -2]
    mass = np.tile(chain.start[:-2], (states.size + 1, 1))
    gained = np.full(states.size + 1, chain.start[-2])
    for t in range(horizon):
        layer = min(t, chain.n_layers - 1)
        # Row k is the process in which state k never fails, the last one the process as it is.
        flow = mass.copy()
        flow[:-1] *= np.where(mended, factors[layer], 1.0)
        gained += flow @ exits[layer]
        mass = flow @ chain.rows[layer, :, :-2]
    continued = np.where(hopeless, np.nan, gained[:-1] - gained[-1])
    return np.stack((found.within_by_fix, continued, found.ever_by_fix))


def _not_identified(process: Any) -> bool:
    return bool(getattr(process, "unidentified", ()))


def _effect(
    values: tuple[float, float],
    drawn: Floats,
    reasons: tuple[str, ...],
    missing: str | None,
    *,
    proportion: bool,
    observed: bool,
    n_units: int,
    prob: float,
) -> Effect:
    if missing is not None:
        none = Estimate(value=None, status=Status.WITHHELD, reasons=(missing,))
        return Effect(difference=none, before=none, after=none)
    made = [
        interval_of_draws(
            value,
            column,
            ci_prob=prob,
            n_units=n_units,
            proportion=proportion and k > 0,
            # What runs do as it is, within the steps that were observed, is no extrapolation.
            reasons=() if k == 1 and observed else reasons,
            missing="some runs would never end",
        )
        for k, (value, column) in enumerate(
            (
                (values[1] - values[0], drawn[:, 1] - drawn[:, 0]),
                (values[0], drawn[:, 0]),
                (values[1], drawn[:, 1]),
            )
        )
    ]
    return Effect(difference=made[0], before=made[1], after=made[2])
