"""The absorbing Markov chain: all that follows from a table of transition probabilities.

A run starts in a state drawn from `initial`, moves with `transient` (Q in the literature), and
after each step may exit into success (`to_success`, R+) or into failure (`to_failure`, R-); then it
is over. Everything a user asks is a few lines of linear algebra with the fundamental matrix
N = (I - Q)^-1, whose entry (i, j) is the expected number of visits to j of a run that is in i
(Kemeny & Snell, *Finite Markov Chains*, chapter 3). Time is counted in steps: a run that exits
after its first step has length one. Where logs hold runs without any step, the two atoms
`initial_success` and `initial_failure` are the probabilities of those.

Nothing here is estimated; see `sojourn.process.homogeneous`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, frozen_array
from sojourn.process.base import run_scores, task_scores
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["AbsorbingChain", "ExitShares", "GoelOkumoto", "leads_out"]

Floats = npt.NDArray[np.float64]
_ROW_SUM_TOLERANCE = 1e-9
_MAX_DOUBLINGS = 52


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExitShares:
    """Where runs end: the share of all runs that leave from each state.

    Attributes
    ----------
    success, failure : ndarray of shape (n_states,)
        P(the run ends in success, in failure, out of this state).
    """

    success: Floats
    failure: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GoelOkumoto:
    """The Goel-Okumoto curve with the chain's level and mean success time, and the gap between.

    Attributes
    ----------
    asymptote, rate : float
        The curve ``asymptote * (1 - exp(-rate * d))``.
    curve : ndarray of shape (horizon + 1,)
        The curve at d = 0 .. horizon.
    sup_distance : float
        Largest absolute difference from the chain's curve up to the horizon.
    """

    asymptote: float
    rate: float
    curve: Floats
    sup_distance: float


def leads_out(transient: npt.NDArray[Any], exits: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell for each state whether some path of positive probability leads to an exit.

    Parameters
    ----------
    transient : ndarray of shape (n_states, n_states)
        Transition probabilities or counts.
    exits : ndarray of shape (n_states,)
        Exit probabilities or counts.
    """
    reached = exits > 0
    moves = transient > 0
    while True:
        wider = reached | moves[:, reached].any(axis=1)
        if np.array_equal(wider, reached):
            return np.asarray(reached, dtype=np.bool_)
        reached = wider


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AbsorbingChain:
    """A first-order homogeneous chain over named states with two absorbing ends.

    Attributes
    ----------
    transient : ndarray of shape (n_states, n_states)
        Probability of going on from a state (row) in a state (column).
    to_success, to_failure : ndarray of shape (n_states,)
        Probability that the run ends after a step in this state. Each row of `transient` and its
        two exits sum to one.
    initial : ndarray of shape (n_states,)
        Distribution of the first state.
    state_names : tuple of str
        One readable name a state, all different.
    initial_success, initial_failure : float
        Probability of a run that ends before its first step; with `initial` they sum to one.

    Raises
    ------
    ValueError
        If shapes do not fit, a probability is negative or not finite, or a row does not sum to one.

    Examples
    --------
    >>> chain = AbsorbingChain(
    ...     transient=[[0.5, 0.3, 0.0], [0.0, 0.4, 0.3], [0.0, 0.0, 0.6]],
    ...     to_success=[0.1, 0.2, 0.3],
    ...     to_failure=[0.1, 0.1, 0.1],
    ...     initial=[1.0, 0.0, 0.0],
    ...     state_names=("plan", "act", "answer"),
    ... )
    >>> round(chain.success_ever, 12)
    0.625
    """

    transient: Floats
    to_success: Floats
    to_failure: Floats
    initial: Floats
    state_names: tuple[str, ...]
    initial_success: float = 0.0
    initial_failure: float = 0.0

    def __post_init__(self) -> None:
        for name, ndim in (("transient", 2), ("to_success", 1), ("to_failure", 1), ("initial", 1)):
            array = frozen_array(getattr(self, name), np.float64, ndim=ndim, name=name)
            if not np.all(np.isfinite(array)) or np.any(array < 0.0):
                raise ValueError(f"{name} holds a negative or non-finite probability")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "state_names", tuple(self.state_names))
        m = len(self.state_names)
        if m == 0 or len(set(self.state_names)) != m:
            raise ValueError("state_names must be one or more names, all different")
        if self.transient.shape != (m, m):
            raise ValueError(f"transient has shape {self.transient.shape}, not ({m}, {m})")
        for name in ("to_success", "to_failure", "initial"):
            if getattr(self, name).shape != (m,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, not ({m},)")
        rows = self.transient.sum(axis=1) + self.to_success + self.to_failure
        worst = int(np.argmax(np.abs(rows - 1.0)))
        if abs(rows[worst] - 1.0) > _ROW_SUM_TOLERANCE:
            raise ValueError(
                f"the row of state {self.state_names[worst]!r} sums to {rows[worst]:.9g}, not to 1"
            )
        if self.initial_success < 0.0 or self.initial_failure < 0.0:
            raise ValueError("initial_success and initial_failure must not be negative")
        start = float(self.initial.sum()) + self.initial_success + self.initial_failure
        if not abs(start - 1.0) <= _ROW_SUM_TOLERANCE:
            raise ValueError(f"the initial probabilities sum to {start:.9g}, not to 1")

    def __str__(self) -> str:
        lines = [f"absorbing chain of {n_of(self.n_states, 'state')}"]
        lines += [f"  P(success ever)   {self.success_ever:.4f}"]
        if self.is_absorbing:
            lines += [f"  mean steps        {self.mean_steps:.2f}"]
        lines += [f"  spectral radius   {self.spectral_radius:.4f}"]
        return "\n".join(lines)

    @property
    def n_states(self) -> int:
        """Number of transient states."""
        return len(self.state_names)

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return "homogeneous"

    @property
    def extrapolates(self) -> bool:
        """A chain's curves have no last step."""
        return True

    @property
    def n_parameters(self) -> int:
        """Free parameters if every positive entry is one: row by row, and the start."""
        positive = np.count_nonzero(self.transient, axis=1)
        positive = positive + (self.to_success > 0.0) + (self.to_failure > 0.0)
        start = np.count_nonzero(self.initial)
        start += (self.initial_success > 0.0) + (self.initial_failure > 0.0)
        return int(np.sum(positive - 1) + start - 1)

    @property
    def is_absorbing(self) -> bool:
        """Whether every state that a run can be in leads to an exit, so that every run ends."""
        return self._traps(self._reachable()).size == 0

    @property
    def spectral_radius(self) -> float:
        """Largest absolute eigenvalue of Q: by this factor the tail shrinks in the long run."""
        return float(np.max(np.abs(np.linalg.eigvals(self.transient))))

    @property
    def fundamental(self) -> Floats:
        """N = (I - Q)^-1, expected visits to each state (column) from each state (row).

        Raises
        ------
        ValueError
            If some state leads to no exit: a run in it would never end.
        """
        self._require_absorbing(np.ones(self.n_states, dtype=np.bool_))
        eye = np.eye(self.n_states)
        return np.asarray(np.linalg.solve(eye - self.transient, eye), dtype=np.float64)

    @property
    def values(self) -> Floats:
        """P(success | now in this state) for each state, the smallest solution of h = Q h + R+."""
        return self._ends_in(self.to_success)

    @property
    def success_ever(self) -> float:
        """P(the run ends in success), R_inf = initial' N R+."""
        return float(self.initial @ self.values + self.initial_success)

    @property
    def failure_ever(self) -> float:
        """P(the run ends in failure)."""
        return float(self.initial @ self._ends_in(self.to_failure) + self.initial_failure)

    @property
    def expected_visits(self) -> Floats:
        """Expected visits of a run to each state, v = initial' N; they sum to `mean_steps`."""
        inside = self._reachable()
        self._require_absorbing(inside)
        visits = np.zeros(self.n_states)
        Q = self.transient[np.ix_(inside, inside)]
        visits[inside] = np.linalg.solve((np.eye(Q.shape[0]) - Q).T, self.initial[inside])
        return visits

    @property
    def mean_steps(self) -> float:
        """Mean number of steps of a run, initial' N 1."""
        return float(self.expected_visits.sum())

    @property
    def mean_steps_given_success(self) -> float:
        """Mean number of steps of the runs that succeed.

        R_inf - R(d) = initial' Q^d h with h the values, and its sum over d is E[T; success].
        """
        reached = self.success_ever
        if reached <= 0.0:
            raise ValueError("no run of this chain succeeds; its success time does not exist")
        return float(self.expected_visits @ self.values / reached)

    @property
    def exit_shares(self) -> ExitShares:
        """From which states runs end, and how: expected visits times exit probability."""
        visits = self.expected_visits
        return ExitShares(success=visits * self.to_success, failure=visits * self.to_failure)

    @property
    def is_concave(self) -> bool:
        """Whether Q R+ <= R+ in every state: then each further step buys less than the last."""
        return bool(np.all(self.transient @ self.to_success <= self.to_success + 1e-15))

    def success_within(self, horizon: int, *, method: str = "recursion") -> Floats:
        """P(success within d steps) for d = 0 .. horizon.

        Parameters
        ----------
        horizon : int
            The last d, at least 0.
        method : {"recursion", "closed"}
            ``recursion``: R(d + 1) = R(d) + initial' Q^d R+, sums of non-negative terms.
            ``closed``: R(d) = initial' (I - Q^d) N R+, which cancels for small R(d): a check.

        Returns
        -------
        ndarray of shape (horizon + 1,)
        """
        return self._within(horizon, self.to_success, self.initial_success, method)

    def failure_within(self, horizon: int, *, method: str = "recursion") -> Floats:
        """P(failure within d steps) for d = 0 .. horizon; see `success_within`."""
        return self._within(horizon, self.to_failure, self.initial_failure, method)

    def still_going(self, horizon: int) -> Floats:
        """P(the run has more than d steps) for d = 0 .. horizon."""
        return self._sweep(horizon + 1, np.ones(self.n_states))

    def first_difference(self, horizon: int) -> Floats:
        """Give what step d + 1 buys: R(d + 1) - R(d) = initial' Q^d R+ for d = 0 .. horizon - 1."""
        return self._sweep(horizon, self.to_success)

    def second_difference(self, horizon: int) -> Floats:
        """R(d + 1) - 2 R(d) + R(d - 1) = -initial' Q^(d-1) (I - Q) R+ for d = 1 .. horizon - 1."""
        return -self._sweep(horizon - 1, self.to_success - self.transient @ self.to_success)

    def restricted_mean_steps(self, horizon: int) -> float:
        """Mean of min(steps, horizon), the sum of P(T > d) over d < horizon."""
        return float(self._sweep(horizon, np.ones(self.n_states)).sum())

    def quantile_steps(self, prob: float, *, given: str | None = None) -> int:
        """Smallest d by which a share `prob` of runs has ended.

        Parameters
        ----------
        prob : float
            The share, 0 <= prob < 1.
        given : {None, "success", "failure"}
            Among all runs, or among those with this outcome.

        Raises
        ------
        ValueError
            If no run has that outcome, or runs may never end.
        """
        if not 0.0 <= prob < 1.0:
            raise ValueError(f"prob must lie in [0, 1); got {prob!r}")
        if given is None:
            self._require_absorbing(self._reachable())
            return self._first_below(np.ones(self.n_states), 1.0 - prob)
        check_choice(given, ("success", "failure"), name="given")
        exits = self.to_success if given == "success" else self.to_failure
        total = self.success_ever if given == "success" else self.failure_ever
        if total <= 0.0:
            raise ValueError(f"no run of this chain ends in {given}")
        return self._first_below(self._ends_in(exits), (1.0 - prob) * total)

    def horizon(self, tolerance: float, *, method: str = "exact") -> int:
        """Step d* from which on R_inf - R(d) is at most `tolerance`.

        Parameters
        ----------
        tolerance : float
            Positive.
        method : {"exact", "bound"}
            ``exact`` finds the smallest such d. ``bound`` is the published rule
            max(0, ceil(log(kappa |N R+| / tolerance) / -log rho)) in maximum norms, kappa the
            condition number of the eigenvectors of Q; never less than the exact one.

        Raises
        ------
        ValueError
            With ``bound``, if Q has no full set of eigenvectors.
        """
        if not tolerance > 0.0:
            raise ValueError(f"tolerance must be positive; got {tolerance!r}")
        check_choice(method, ("exact", "bound"), name="method")
        if method == "exact":
            return self._first_below(self.values, tolerance)
        self._require_absorbing(np.ones(self.n_states, dtype=np.bool_))
        rho = self.spectral_radius
        vectors = np.linalg.eig(self.transient)[1]
        kappa = float(np.linalg.cond(vectors, np.inf))
        if not kappa < 1e12:
            raise ValueError("Q has no full set of eigenvectors; use method='exact'")
        if rho <= 0.0:
            return self._first_below(self.values, tolerance)
        largest = kappa * float(np.max(self.values, initial=0.0)) / tolerance
        return 0 if largest <= 1.0 else int(np.ceil(np.log(largest) / -np.log(rho)))

    def goel_okumoto(self, horizon: int) -> GoelOkumoto:
        """Compare with a(1 - exp(-b d)), a = R_inf and 1/b = mean success time.

        For one state with exits of order h the two differ by O(h): the Goel-Okumoto process is the
        limit of a chain whose failures are rare (Goel & Okumoto 1979).
        """
        asymptote = self.success_ever
        rate = 1.0 / max(self.mean_steps_given_success, np.finfo(np.float64).tiny)
        curve = asymptote * -np.expm1(-rate * np.arange(horizon + 1))
        distance = float(np.max(np.abs(curve - self.success_within(horizon))))
        return GoelOkumoto(asymptote=asymptote, rate=rate, curve=curve, sup_distance=distance)

    def value(self, state: int, step: int = 1) -> float:
        """P(success | now in `state`); a homogeneous chain forgets the step."""
        del step
        return float(self.values[state])

    def simulate(
        self,
        n_runs: int,
        *,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
        max_steps: int = 1_000_000,
    ) -> StateSequences:
        """Draw independent runs, each of a task of its own; one longer than `max_steps` is cut."""
        from sojourn.process.simulate import simulate_runs

        return simulate_runs(self, n_runs, rng=rng, max_steps=max_steps)

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of the runs, one value a distinct task (ascending).

        Attempts at a task are independent under a chain; a cut run counts by its still going.
        An end that the chain excludes scores minus infinity; a fitted process mixes in a tail.
        """
        longest = int(sequences.lengths.max(initial=0))
        scores = run_scores(
            sequences, self.success_within(longest), self.failure_within(longest), tail=None
        )
        return task_scores(sequences, scores)

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as plain lists."""
        return {
            "state_names": list(self.state_names),
            "transient": self.transient.tolist(),
            "to_success": self.to_success.tolist(),
            "to_failure": self.to_failure.tolist(),
            "initial": self.initial.tolist(),
            "initial_success": self.initial_success,
            "initial_failure": self.initial_failure,
        }

    def _reachable(self) -> npt.NDArray[np.bool_]:
        return leads_out(self.transient.T, self.initial)

    def _traps(self, inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
        out = leads_out(self.transient, self.to_success + self.to_failure)
        return np.flatnonzero(inside & ~out)

    def _require_absorbing(self, inside: npt.NDArray[np.bool_]) -> None:
        traps = self._traps(inside)
        if traps.size:
            names = ", ".join(repr(self.state_names[i]) for i in traps)
            raise ValueError(f"no path leads from {names} to an exit; a run there never ends")

    def _ends_in(self, exits: Floats) -> Floats:
        # States that never reach these exits have value zero and would make the system singular.
        inside = leads_out(self.transient, exits)
        value = np.zeros(self.n_states)
        if np.any(inside):
            Q = self.transient[np.ix_(inside, inside)]
            value[inside] = np.linalg.solve(np.eye(Q.shape[0]) - Q, exits[inside])
        return np.clip(value, 0.0, 1.0)

    def _sweep(self, n_terms: int, weight: Floats) -> Floats:
        """Give initial' Q^d weight for d = 0 .. n_terms - 1."""
        terms = np.empty(max(n_terms, 0))
        mass = self.initial
        for d in range(terms.size):
            terms[d] = mass @ weight
            mass = mass @ self.transient
        return terms

    def _within(self, horizon: int, exits: Floats, atom: float, method: str) -> Floats:
        if horizon < 0:
            raise ValueError(f"horizon must not be negative; got {horizon}")
        check_choice(method, ("recursion", "closed"), name="method")
        if method == "recursion":
            return np.cumsum(np.concatenate(([atom], self._sweep(horizon, exits))))
        ends = self._ends_in(exits)
        powers = (np.linalg.matrix_power(self.transient, d) for d in range(horizon + 1))
        return np.array([atom + self.initial @ (ends - power @ ends) for power in powers])

    def _first_below(self, weight: Floats, level: float) -> int:
        """Smallest d with initial' Q^d weight <= level, for a weight with Q weight <= weight."""
        # Rounding must not move a quantile that is hit exactly, hence the slack.
        level += 1e-13
        if self.initial @ weight <= level:
            return 0
        powers = [self.transient]
        while self.initial @ powers[-1] @ weight > level:
            if len(powers) > _MAX_DOUBLINGS:
                raise ValueError("runs of this chain are too long to find that step")
            powers.append(powers[-1] @ powers[-1])
        d, mass = 0, self.initial
        for k in range(len(powers) - 1, -1, -1):
            further = mass @ powers[k]
            if further @ weight > level:
                d, mass = d + 2**k, further
        return d + 1
