"""Any process whose next event depends on a state and the step, as one stack of tables.

A homogeneous chain is one table of next-event probabilities; a progress-dependent chain is one
table a step, the last of which holds for ever; an order-k chain, a semi-Markov process and a
mixture of chains are homogeneous chains over *inner* states (tuples, ages, classes), each of which
belongs to one observed state, its `owner`. Forecasts, what-ifs and exports need nothing else, and
are exact for all of them by the same few lines: forward recursion for where runs are, backward
recursion for what becomes of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, frozen_array
from sojourn.process.absorbing import AbsorbingChain, leads_out
from sojourn.process.homogeneous import HomogeneousFit

__all__ = ["Unrollable", "UnrolledChain", "unroll"]

Floats = npt.NDArray[np.float64]
_ROW_SUM_TOLERANCE = 1e-9
_MAX_INNER = 3000
_DENSE = 150
# Less than this cannot change a share of runs in its last digit.
_NOTHING = 1e-18


@runtime_checkable
class Unrollable(Protocol):
    """A process that can write itself as a stack of tables."""

    def unrolled(self) -> UnrolledChain:
        """Return the stack."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnrolledChain:
    """Next-event probabilities by step and inner state.

    Attributes
    ----------
    rows : ndarray of shape (n_layers, n_inner, n_inner + 2)
        ``rows[t - 1]`` is the law of what follows step t: the next inner state, success, failure.
        The last layer holds for all later steps.
    start : ndarray of shape (n_inner + 2,)
        The law of what a run does first.
    owner : ndarray of shape (n_inner,), int32
        The observed state of each inner state.
    state_names : tuple of str
        One readable name an observed state.
    has_rows_by_state : bool
        Whether what follows is a matter of the observed state (within a class, or with a past),
        so that a change of a state's row has a meaning; not so where states are mere signs of
        hidden phases.

    Raises
    ------
    ValueError
        If shapes do not fit, a probability is negative or not finite, or a row does not sum to one.
    """

    rows: Floats
    start: Floats
    owner: npt.NDArray[np.int32]
    state_names: tuple[str, ...]
    has_rows_by_state: bool = True

    def __post_init__(self) -> None:
        for name, dtype, ndim in (("rows", float, 3), ("start", float, 1), ("owner", np.int32, 1)):
            array = frozen_array(getattr(self, name), dtype, ndim=ndim, name=name)
            object.__setattr__(self, name, array)
        n = self.owner.size
        if self.rows.shape[1:] != (n, n + 2) or not self.rows.shape[0] or self.start.size != n + 2:
            raise ValueError(
                f"rows and start of {n} inner states have shapes (layers, {n}, {n + 2}) and "
                f"({n + 2},), not {self.rows.shape} and {self.start.shape}"
            )
        if n == 0 or not 0 <= self.owner.min() <= self.owner.max() < len(self.state_names):
            raise ValueError(f"owner must lie in 0 .. {len(self.state_names) - 1}")
        for name, array in (("rows", self.rows), ("start", self.start)):
            if not np.all(np.isfinite(array)) or np.any(array < 0.0):
                raise ValueError(f"{name} holds a negative or non-finite probability")
            if np.any(np.abs(array.sum(axis=-1) - 1.0) > _ROW_SUM_TOLERANCE):
                raise ValueError(f"{name} holds a row that does not sum to 1")

    @property
    def n_inner(self) -> int:
        """Number of inner states."""
        return int(self.owner.size)

    @property
    def n_states(self) -> int:
        """Number of observed states."""
        return len(self.state_names)

    @property
    def n_layers(self) -> int:
        """Number of tables; 1 for a process that does not look at the step."""
        return int(self.rows.shape[0])

    @property
    def is_observed(self) -> bool:
        """Whether inner states are the observed ones, so that rows are those of the states."""
        return bool(np.array_equal(self.owner, np.arange(self.n_states)))

    @property
    def values(self) -> Floats:
        """P(success | in this inner state at step t), shape (n_layers, n_inner)."""
        return self._backward(self._exits("success"))

    @property
    def steps_left(self) -> Floats:
        """Expected further steps from an inner state at step t; NaN where runs may never end."""
        inner = self.n_inner
        moves = self.rows[:, :, :inner]
        left = np.full((self.n_layers, inner), np.nan)
        out = leads_out(moves[-1], self.rows[-1, :, inner:].sum(axis=1))
        trapped = leads_out(moves[-1], (~out).astype(np.float64))
        ends = ~trapped
        # tau = Q (1 + tau) where every path ends.
        if np.any(ends):
            Q = moves[-1][np.ix_(ends, ends)]
            left[-1, ends] = _resolvent(Q, Q.sum(axis=1))
        for t in range(self.n_layers - 2, -1, -1):
            further = 1.0 + left[t + 1]
            weighted = np.where(moves[t] > 0.0, moves[t] * further, 0.0)
            left[t] = weighted.sum(axis=1)
        return left

    @property
    def success_ever(self) -> float:
        """P(the run ends in success)."""
        inner = self.n_inner
        return float(min(self.start[:inner] @ self.values[0] + self.start[inner], 1.0))

    @property
    def failure_ever(self) -> float:
        """P(the run ends in failure)."""
        inner = self.n_inner
        ends = self._backward(self._exits("failure"))
        return float(min(self.start[:inner] @ ends[0] + self.start[inner + 1], 1.0))

    @property
    def mean_steps(self) -> float:
        """Mean number of steps of a run; NaN where runs may never end."""
        first = self.start[: self.n_inner]
        left = 1.0 + self.steps_left[0]
        return float(np.where(first > 0.0, first * left, 0.0).sum())

    def layer(self, step: int) -> Floats:
        """Return the table of what follows a step, shape (n_inner, n_inner + 2)."""
        return np.asarray(self.rows[min(step, self.n_layers) - 1])

    def masses(self, horizon: int) -> Floats:
        """P(the run has a step t and is in this inner state then), shape (horizon, n_inner)."""
        inner = self.n_inner
        masses = np.zeros((max(horizon, 0), inner))
        mass = self.start[:inner]
        for t in range(masses.shape[0]):
            masses[t] = mass
            mass = mass @ self.layer(t + 1)[:, :inner]
        return masses

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        return self._within(horizon, "success")

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self._within(horizon, "failure")

    def values_within(self, cap: int) -> Floats:
        """P(success by step `cap` | in this inner state at step t) for t = 1 .. cap."""
        inner = self.n_inner
        values = np.zeros((cap, inner))
        further = np.zeros(inner)
        for t in range(cap, 0, -1):
            table = self.layer(t)
            further = table[:, inner] + table[:, :inner] @ further
            values[t - 1] = further
        return values

    def visits(self) -> Floats:
        """Give the expected visits of a run to each inner state, before and in the last layer.

        Returns
        -------
        ndarray of shape (n_layers, n_inner)
            Row t - 1 is P(in the state at step t); the last row sums all steps from the last
            layer's on. NaN in that row where a run may stay for ever.
        """
        inner = self.n_inner
        visits = self.masses(self.n_layers)
        Q = self.rows[-1, :, :inner]
        inside = leads_out(Q.T, visits[-1])
        out = leads_out(Q, self.rows[-1, :, inner:].sum(axis=1))
        last = np.zeros(inner)
        if np.any(inside & ~out):
            last[inside] = np.nan
        elif np.any(inside):
            sub = Q[np.ix_(inside, inside)]
            last[inside] = _resolvent(sub.T, visits[-1][inside])
        visits[-1] = last
        return visits

    def observed(self, table: Floats, horizon: int) -> Floats:
        """Average a table over the inner states of each observed one, as runs are spread there.

        Parameters
        ----------
        table : ndarray of shape (n_layers, n_inner)
            A figure of each inner state at each step.
        horizon : int
            Last step of the result where inner states are not the observed ones.

        Returns
        -------
        ndarray of shape (n_steps, n_states)
            The last row holds for later steps. NaN where no run can be in the state.
        """
        if self.is_observed:
            return table
        masses = self.masses(max(horizon, 1))
        member = np.zeros((self.n_inner, self.n_states))
        member[np.arange(self.n_inner), self.owner] = 1.0
        steps = np.minimum(np.arange(masses.shape[0]), self.n_layers - 1)
        total = masses @ member
        weighted = np.where(masses > 0.0, masses * table[steps], 0.0) @ member
        mean: Floats = np.full(total.shape, np.nan)
        np.divide(weighted, total, out=mean, where=total > 0.0)
        return mean

    def with_rows(self, rows: Floats, start: Floats | None = None) -> UnrolledChain:
        """Return the process with other tables."""
        return replace(self, rows=rows, start=self.start if start is None else start)

    def _exits(self, outcome: str) -> Floats:
        column = ("success", "failure").index(
            check_choice(outcome, ("success", "failure"), name="outcome")
        )
        return np.asarray(self.rows[:, :, self.n_inner + column])

    def _backward(self, exits: Floats) -> Floats:
        inner = self.n_inner
        values = np.zeros((self.n_layers, inner))
        Q = self.rows[-1, :, :inner]
        inside = leads_out(Q, exits[-1])
        if np.any(inside):
            sub = Q[np.ix_(inside, inside)]
            values[-1, inside] = _resolvent(sub, exits[-1, inside])
        for t in range(self.n_layers - 2, -1, -1):
            values[t] = exits[t] + self.rows[t, :, :inner] @ values[t + 1]
        return np.clip(values, 0.0, 1.0)

    def _within(self, horizon: int, outcome: str) -> Floats:
        if horizon < 0:
            raise ValueError(f"horizon must not be negative; got {horizon}")
        exits = self._exits(outcome)
        gained = np.zeros(horizon + 1)
        gained[0] = self.start[self.n_inner + ("success", "failure").index(outcome)]
        to_come = leads_out(self.rows[-1, :, : self.n_inner], exits[-1])
        mass = self.start[: self.n_inner]
        for t in range(horizon):
            # In the last layer only what still leads to the end can add to the curve.
            if t >= self.n_layers - 1 and mass[to_come].sum() < _NOTHING:
                break
            gained[t + 1] = mass @ exits[min(t, self.n_layers - 1)]
            mass = mass @ self.layer(t + 1)[:, : self.n_inner]
        return np.cumsum(gained)


def unroll(process: Any) -> UnrolledChain:
    """Write a process as a stack of tables.

    Parameters
    ----------
    process : a fitted process, an AbsorbingChain, or another process with ``unrolled()``
        The process. Of a chain of order k the inner states are its contexts, of a mixture (class,
        state), of hidden phases (phase, state).

    Raises
    ------
    ValueError
        If the process has no such form.
    """
    if isinstance(process, UnrolledChain):
        return process
    if isinstance(process, AbsorbingChain):
        return _chain(process)
    if isinstance(process, HomogeneousFit):
        return _chain(process.chain)
    if isinstance(process, Unrollable):
        return process.unrolled()
    kind = str(getattr(process, "name", "")).partition("-")[0]
    if kind in _ADAPTERS:
        return _ADAPTERS[kind](process)
    name = getattr(process, "name", type(process).__name__)
    raise ValueError(f"the {name} process cannot be written as a table of next events by step")


def _resolvent(Q: Floats, right: Floats) -> Floats:
    """Solve (I - Q) x = right."""
    if Q.shape[0] <= _DENSE:
        return np.asarray(np.linalg.solve(np.eye(Q.shape[0]) - Q, right), dtype=np.float64)
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import spsolve

    # Inner states lead to few others, of which a dense solver would make no use.
    system = eye_array(Q.shape[0], format="csc") - csc_array(Q)
    return np.asarray(spsolve(system, right), dtype=np.float64)


def _check_size(n_inner: int) -> None:
    if n_inner > _MAX_INNER:
        raise ValueError(f"{n_inner} inner states cannot be tabulated; {_MAX_INNER} are the most")


def _chain(chain: AbsorbingChain) -> UnrolledChain:
    table = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    ends = [chain.initial_success, chain.initial_failure]
    return UnrolledChain(
        rows=table[None],
        start=np.concatenate((chain.initial, ends)),
        owner=np.arange(chain.n_states, dtype=np.int32),
        state_names=chain.state_names,
    )


def _progress(fit: Any) -> UnrolledChain:
    return UnrolledChain(
        rows=fit.rows,
        start=fit.initial,
        owner=np.arange(len(fit.state_names), dtype=np.int32),
        state_names=fit.state_names,
    )


def _order(fit: Any) -> UnrolledChain:
    from sojourn.process._contexts import link_contexts

    m, n = fit.n_states, fit.rows.shape[0]
    _check_size(n)
    machine = link_contexts(fit.contexts, m)
    rows = np.zeros((n, n + 2))
    # The context after a further state is another one for each state: no two cells fall together.
    rows[np.arange(n)[:, None], machine.following] = fit.rows[:, :m]
    rows[:, n:] = fit.rows[:, m:]
    start = np.zeros(n + 2)
    start[machine.entry] = fit.start[:m]
    start[n:] = fit.start[m:]
    return UnrolledChain(
        rows=rows[None], start=start, owner=fit.contexts[:, -1], state_names=fit.state_names
    )


def _mixture(fit: Any) -> UnrolledChain:
    m, k = len(fit.state_names), fit.n_classes
    n = k * m
    _check_size(n)
    rows, start = np.zeros((n, n + 2)), np.zeros(n + 2)
    for c, (weight, chain) in enumerate(zip(fit.weights, fit.chains, strict=True)):
        block = slice(c * m, (c + 1) * m)
        rows[block, block] = chain.transient
        rows[block, n] = chain.to_success
        rows[block, n + 1] = chain.to_failure
        start[block] = weight * chain.initial
        start[n:] += weight * np.array([chain.initial_success, chain.initial_failure])
    return UnrolledChain(
        rows=rows[None],
        start=start,
        owner=np.tile(np.arange(m, dtype=np.int32), k),
        state_names=fit.state_names,
    )


def _phases(fit: Any) -> UnrolledChain:
    m, k = len(fit.state_names), fit.n_phases
    n, chain = k * m, fit.phase_chain
    _check_size(n)
    rows, start = np.zeros((n, n + 2)), np.zeros(n + 2)
    moves = chain.transient[:, :, None] * fit.emission[None]
    rows[:, :n] = np.repeat(moves.reshape(k, n), m, axis=0)
    rows[:, n] = np.repeat(chain.to_success, m)
    rows[:, n + 1] = np.repeat(chain.to_failure, m)
    start[:n] = (chain.initial[:, None] * fit.emission).ravel()
    start[n:] = chain.initial_success, chain.initial_failure
    return UnrolledChain(
        rows=rows[None],
        start=start,
        owner=np.tile(np.arange(m, dtype=np.int32), k),
        state_names=fit.state_names,
        has_rows_by_state=False,
    )


def _semi_markov(fit: Any) -> UnrolledChain:
    m, ages = fit.hazard.shape
    n = m * ages
    _check_size(n)
    state, age = np.divmod(np.arange(n), ages)
    over = fit.hazard.ravel()
    rows, start = np.zeros((n, n + 2)), np.zeros(n + 2)
    first = np.arange(m) * ages
    rows[:, first] = over[:, None] * fit.rows[state, :m]
    rows[:, n:] = over[:, None] * fit.rows[state, m:]
    rows[np.arange(n), state * ages + np.minimum(age + 1, ages - 1)] += 1.0 - over
    start[first] = fit.start[:m]
    start[n:] = fit.start[m:]
    return UnrolledChain(
        rows=rows[None], start=start, owner=state.astype(np.int32), state_names=fit.state_names
    )


_ADAPTERS = {
    "progress": _progress,
    "order": _order,
    "semi": _semi_markov,
    "mixture": _mixture,
    "phases": _phases,
}
