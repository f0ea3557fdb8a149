"""The semi-Markov chain: how long a run stays in a state need not be geometric.

A run is a chain of visits. A visit to state i lasts D steps, D from the sojourn law of i with
hazards h_i(a) = P(D = a | D >= a); what follows it, another state, success or failure, is drawn
from a row of i that does not depend on D. The homogeneous chain is the case of constant hazards
h_i = 1 - q_ii and rows q_ij / h_i (Howard, *Dynamic Probabilistic Systems*, volume 2, 1971).

Curves are a renewal recursion on (state, age): each step, mass of age a ends its visit with h_i(a)
or grows older. Beyond a last age the hazard is constant, so the recursion is finite and exact.

What follows a visit is independent of its length, hence so is the fate of a run: P(success | now in
i) is the same at every age and step. The age tells when the run will end, not how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.estimates import Estimate
from sojourn.process._exit_odds import as_tasks, check_task, last_states, shift_outcomes
from sojourn.process._row_prior import possible_cells
from sojourn.process._visits import (
    SOJOURNS,
    VisitCounts,
    VisitRule,
    age_columns,
    count_visits,
    fit_visits,
    probable_mass,
    unit_visits,
    visit_counts,
    visit_rule,
)
from sojourn.process._weighted import (
    CUT_STEPS,
    check_unit_weights,
    check_weights,
    common_arrays,
    common_fields,
    identified_states,
    unless_unidentified,
    weight_blocks,
    weighted_counts,
    weighted_tail,
)
from sojourn.process.absorbing import leads_out
from sojourn.process.base import GeometricTail, run_scores, task_scores
from sojourn.process.homogeneous import start_row
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["SemiMarkovFit", "fit_semi_markov"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rng = np.random.Generator | np.random.SeedSequence | int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SemiMarkovFit:
    """A semi-Markov chain fitted to runs.

    Attributes
    ----------
    unidentified : tuple of str
        States that runs were in and from which no observed path leads to an end.
    sojourn : str
        ``hazard``, ``negative_binomial`` or ``discrete_weibull``.
    state_names : tuple of str
        One readable name a state.
    hazard : ndarray of shape (n_states, n_ages)
        ``hazard[i, a - 1]``: probability that a visit to i which has lasted a steps is over. The
        last column holds for its age and all greater ones.
    rows : ndarray of shape (n_states, n_states + 2)
        What follows a visit: another state, success, failure.
    start : ndarray of shape (n_states + 2,)
        What runs do first.
    shape, level : ndarray of shape (n_states,)
        Parameters of the law: r and the mean less one (negative binomial), or beta and the scale
        (discrete Weibull); shape 1 is geometric. Both are 1 for smoothed hazards.
    kappa, row_kappa : float
        Mass of the back-off of the sojourn laws and of the rows.
    allowed : ndarray of shape (n_states, n_states + 2), bool
        Cells that smoothing may fill in the rows.
    cut_step : str
        What is known of the last step of a cut run; see `fit_semi_markov`.
    identified : ndarray of shape (n_states,), bool
        States whose value rests on observed paths.
    n_parameters : int
        Free probabilities among the observed cells of start and rows, and of the sojourn laws: one
        for each state and age seen, or two a state.
    horizon : int
        Steps of the longest observed run.
    n_runs, n_tasks, n_units : int
        What was fitted.
    tail : GeometricTail
        What is mixed in when the fit is scored.
    """

    unidentified: tuple[str, ...]
    sojourn: str
    state_names: tuple[str, ...]
    hazard: Floats = field(repr=False)
    rows: Floats = field(repr=False)
    start: Floats = field(repr=False)
    shape: Floats
    level: Floats
    kappa: float
    row_kappa: float
    allowed: Mask = field(repr=False)
    cut_step: str
    identified: Mask = field(repr=False)
    n_parameters: int
    horizon: int
    n_runs: int
    n_tasks: int
    n_units: int
    tail: GeometricTail = field(repr=False)

    def __str__(self) -> str:
        lines = []
        if self.unidentified:
            names = ", ".join(repr(name) for name in self.unidentified)
            lines.append(f"unidentified: no observed way to an end from {names}")
        lines += [
            f"semi-Markov chain, {n_of(len(self.state_names), 'state')}, "
            f"{n_of(self.n_runs, 'run')}, "
            f"{n_of(self.n_tasks, 'task')}, sojourn law {self.sojourn}",
            f"  P(success ever)   {self.success_ever}",
            f"  mean steps        {self.mean_steps}",
            f"  back-off mass     {self.kappa:.3g} (sojourns), {self.row_kappa:.3g} (rows)",
        ]
        return "\n".join(lines)

    @property
    def name(self) -> str:
        """Short name of the kind of process."""
        return "semi-markov"

    @property
    def extrapolates(self) -> bool:
        """The curves go on beyond the longest observed run; there they are extrapolation."""
        return True

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_names)

    @property
    def success_ever(self) -> Estimate:
        """P(success ever), without an interval; withheld where it is not identified."""
        m = self.n_states
        value = float(self.start[:m] @ self._values() + self.start[m])
        return unless_unidentified(value, self.unidentified)

    @property
    def mean_visit(self) -> Floats:
        """Mean number of steps of a visit to each state, infinite for one that never ends."""
        going = np.cumprod(1.0 - self.hazard[:, :-1], axis=1)
        left = going[:, -1] if going.shape[1] else np.ones(self.n_states)
        last = self.hazard[:, -1]
        tail = np.divide(left, last, out=np.full(left.shape, np.inf), where=last > 0.0)
        tail[left == 0.0] = 0.0
        young = 1.0 + going[:, :-1].sum(axis=1) if going.shape[1] else np.zeros(self.n_states)
        return np.asarray(young + tail, dtype=np.float64)

    @property
    def mean_steps(self) -> Estimate:
        """Mean number of steps, without an interval; withheld where it is not identified."""
        if self.unidentified:
            return unless_unidentified(0.0, self.unidentified)
        m = self.n_states
        moves = self._moves()
        inside = leads_out(moves.T, self.start[:m])
        if not np.any(inside):
            return Estimate(value=0.0)
        if np.any(inside & ~leads_out(moves, self._exits().sum(axis=1))):
            raise ValueError("a run may get to where no path leads to an end: no mean length")
        R = moves[np.ix_(inside, inside)]
        visits = np.linalg.solve((np.eye(R.shape[0]) - R).T, self.start[:m][inside])
        return Estimate(value=float(visits @ self.mean_visit[inside]))

    def visit_law(self, state: int, longest: int) -> Floats:
        """P(a visit to `state` lasts a steps) for a = 1 .. longest, shape (longest,)."""
        hazard = self._older(state, 1)[np.minimum(np.arange(longest), self.hazard.shape[1] - 1)]
        going = np.concatenate(([1.0], np.cumprod(1.0 - hazard)))[:longest]
        return np.asarray(hazard * going, dtype=np.float64)

    def success_within(self, horizon: int) -> Floats:
        """P(success within d steps) for d = 0 .. horizon."""
        return self._curves(horizon)[0]

    def failure_within(self, horizon: int) -> Floats:
        """P(failure within d steps) for d = 0 .. horizon."""
        return self._curves(horizon)[1]

    def simulate(
        self, n_runs: int, *, rng: Rng = None, max_steps: int = 1_000_000
    ) -> StateSequences:
        """Draw independent runs, each of a task of its own; one longer than `max_steps` is cut."""
        return self.simulate_tasks(np.arange(n_runs, dtype=np.int32), rng=rng, max_steps=max_steps)

    def simulate_tasks(
        self,
        task: npt.NDArray[np.int32],
        *,
        log_odds: Floats | None = None,
        max_steps: int = 1_000_000,
        rng: Rng = None,
    ) -> StateSequences:
        """Draw one run for each entry of `task`; see `RefittableProcess.simulate_tasks`."""
        from sojourn.process import _renewal_kernels as kernels

        tasks, source, m = check_task(task), generator(rng), self.n_states
        states, offsets, event = kernels.simulate_visits(
            source, self.start, self.hazard, self.rows, tasks.size, max_steps
        )
        drawn = StateSequences(
            states=states,
            offsets=offsets,
            event=event,
            task=tasks,
            unit=tasks,
            state_names=self.state_names,
        )
        # The row of a run without a step, at -1, is the start.
        ends = np.vstack((self.rows, self.start))[last_states(drawn), m:]
        return as_tasks(
            drawn, tasks, shift_outcomes(event, ends[:, 0], ends[:, 1], log_odds, source)
        )

    def log_score(self, sequences: StateSequences) -> Floats:
        """Log probability of the ends of a task's runs, one value a distinct task (ascending).

        The fit is mixed with weight 1 / (n + 1) of a geometric law, so no score is infinite.
        """
        success, failure = self._curves(int(sequences.lengths.max(initial=0)))
        return task_scores(sequences, run_scores(sequences, success, failure, tail=self.tail))

    def value(self, state: int, step: int = 1) -> float | None:
        """P(success | in `state` at step number `step`), averaged over the age of the visit.

        What follows a visit does not depend on its length, so this is the same at every age, and
        at every step. None where a state on the way is unidentified.
        """
        if step < 1:
            raise ValueError(f"steps are numbered from 1; got {step}")
        return float(self._values()[state]) if self.identified[state] else None

    def value_at_age(self, state: int, age: int, *, within: int | None = None) -> float | None:
        """P(success | in `state` for its `age`-th step in a row), or within so many more steps.

        Parameters
        ----------
        state : int
            The state of the step just taken.
        age : int
            Steps of the present visit so far, at least 1.
        within : int, optional
            Count only runs that succeed after at most so many further steps; 0 asks whether the
            step just taken is the last.
        """
        if age < 1:
            raise ValueError(f"a visit has lasted at least 1 step; got {age}")
        if within is None:
            return self.value(state)
        if within < 0:
            raise ValueError(f"within must not be negative; got {within}")
        from sojourn.process import _renewal_kernels as kernels

        # The visit under way is a state of its own, entered once, at its present age.
        m = self.n_states
        rows = np.zeros((1, m + 1, m + 3))
        rows[0, :, :m] = np.vstack((self.rows, self.rows[state]))[:, :m]
        rows[0, :, m + 1 :] = np.vstack((self.rows, self.rows[state]))[:, m:]
        hazard = np.vstack((self.hazard, self._older(state, age)))[None]
        start = np.eye(1, m + 3, m)
        curves = np.empty((1, 2, within + 2))
        kernels.visit_curves(start, hazard, rows, curves)
        return float(curves[0, 0, within + 1])

    def refit(self, sequences: StateSequences, *, weights: Floats | None = None) -> SemiMarkovFit:
        """Fit again to (weighted) runs of the same states; masses and number of ages are held."""
        if sequences.n_states != self.n_states:
            raise ValueError(f"the runs have {sequences.n_states} states, not {self.n_states}")
        weight = check_weights(sequences, weights)
        counts = count_visits(sequences, weight, self.hazard.shape[1])
        return _build(sequences, weight, counts, self._rule(), self._theta())

    def bootstrap_curves(
        self, sequences: StateSequences, unit_weights: Floats, horizon: int
    ) -> Floats:
        """Both curves of the refit to each of many resampled corpora.

        Parameters
        ----------
        sequences : StateSequences
            The runs.
        unit_weights : ndarray of shape (n_corpora, n_units)
            Weight of each unit, in ascending order of the unit numbers present.
        horizon : int
            Last step of the curves.

        Returns
        -------
        ndarray of shape (n_corpora, 2, horizon + 1)
            Success and failure within d = 0 .. horizon steps.
        """
        from sojourn.process import _renewal_kernels as kernels

        weights = check_unit_weights(sequences, unit_weights)
        m, ages = self.hazard.shape
        _, unit = np.unique(sequences.unit, return_inverse=True)
        cells = unit_visits(sequences, unit, weights.shape[1], ages)
        curves = np.empty((weights.shape[0], 2, horizon + 1))
        for block in weight_blocks(weights, cells.shape[1]):
            flat = np.ascontiguousarray((cells.T @ weights[block].T).T)
            counts = visit_counts(flat, m, ages)
            fit = fit_visits(counts, self._rule(), self._theta())
            start = start_row(counts.visits, "empirical")
            kernels.visit_curves(start, fit.hazard, fit.rows, curves[block])
        return curves

    def parameters(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that a model file must hold, as arrays; see `from_parameters`."""
        return {
            "sojourn": np.array(SOJOURNS.index(self.sojourn)),
            "hazard": self.hazard,
            "rows": self.rows,
            "start": self.start,
            "shape": self.shape,
            "level": self.level,
            "kappa": np.array([self.kappa, self.row_kappa]),
            **common_arrays(self),
        }

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, npt.NDArray[Any]], state_names: Sequence[str]
    ) -> SemiMarkovFit:
        """Restore a fit from what `parameters` returned."""
        names = tuple(state_names)
        kappa, row_kappa = (float(x) for x in parameters["kappa"])
        return cls(
            sojourn=SOJOURNS[int(parameters["sojourn"])],
            hazard=np.asarray(parameters["hazard"], dtype=np.float64),
            rows=np.asarray(parameters["rows"], dtype=np.float64),
            start=np.asarray(parameters["start"], dtype=np.float64),
            shape=np.asarray(parameters["shape"], dtype=np.float64),
            level=np.asarray(parameters["level"], dtype=np.float64),
            kappa=kappa,
            row_kappa=row_kappa,
            **common_fields(parameters, names),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return hazards, rows and provenance as plain values."""
        return {
            "unidentified": list(self.unidentified),
            "sojourn": self.sojourn,
            "state_names": list(self.state_names),
            "hazard": self.hazard.tolist(),
            "rows": self.rows.tolist(),
            "start": self.start.tolist(),
            "shape": self.shape.tolist(),
            "level": self.level.tolist(),
            "kappa": self.kappa,
            "row_kappa": self.row_kappa,
            "cut_step": self.cut_step,
            "n_parameters": self.n_parameters,
            "horizon": self.horizon,
            "n_runs": self.n_runs,
            "n_tasks": self.n_tasks,
            "n_units": self.n_units,
        }

    def _curves(self, horizon: int) -> tuple[Floats, Floats]:
        from sojourn.process import _renewal_kernels as kernels

        if horizon < 0:
            raise ValueError(f"horizon must not be negative; got {horizon}")
        curves = np.empty((1, 2, horizon + 1))
        kernels.visit_curves(self.start[None], self.hazard[None], self.rows[None], curves)
        return curves[0, 0], curves[0, 1]

    def _moves(self) -> Floats:
        """Rows over next states, none from a visit that never ends."""
        return self.rows[:, : self.n_states] * self._ends()

    def _exits(self) -> Floats:
        return self.rows[:, self.n_states :] * self._ends()

    def _ends(self) -> Floats:
        """P(a visit ends), shape (n_states, 1)."""
        endless = (self.hazard[:, -1] == 0.0) * np.prod(1.0 - self.hazard[:, :-1], axis=1)
        return np.array(1.0 - endless[:, None], dtype=np.float64)

    def _values(self) -> Floats:
        """P(success | state) for each state, the smallest solution of h = R h + r."""
        moves, gain = self._moves(), self._exits()[:, 0]
        inside = leads_out(moves, gain)
        values = np.zeros(self.n_states)
        if np.any(inside):
            R = moves[np.ix_(inside, inside)]
            values[inside] = np.linalg.solve(np.eye(R.shape[0]) - R, gain[inside])
        return np.clip(values, 0.0, 1.0)

    def _older(self, state: int, age: int) -> Floats:
        """Hazards of a visit from its age on, in as many columns as all have."""
        ages = self.hazard.shape[1]
        column = np.minimum(np.arange(age - 1, age - 1 + ages), ages - 1)
        return np.asarray(self.hazard[state, column], dtype=np.float64)

    def _rule(self) -> VisitRule:
        return visit_rule(self.sojourn, self.kappa, self.row_kappa, self.allowed, self.cut_step)

    def _theta(self) -> Floats:
        return np.asarray(np.log(np.stack((self.shape, self.level), axis=1)), dtype=np.float64)


def fit_semi_markov(
    sequences: StateSequences,
    sojourn: str = "hazard",
    *,
    kappa: float | str = "empirical_bayes",
    row_kappa: float = 1.0,
    max_age: int = 200,
    allowed: Mask | None = None,
    cut_step: str = "survived",
) -> SemiMarkovFit:
    """Fit the semi-Markov chain: sojourn laws, and what follows a visit.

    Parameters
    ----------
    sequences : StateSequences
        Runs; a visit during which a run was cut counts as one that lasted at least so long.
    sojourn : {"hazard", "negative_binomial", "discrete_weibull"}
        ``hazard``: a hazard for each age, (n_a + kappa g) / (r_a + kappa), with n_a of r_a visits
        ended at age a and g the state's geometric hazard (itself drawn by one step to that of all
        states). ``negative_binomial``: D - 1 is negative binomial with size r and a mean.
        ``discrete_weibull``: P(D > a) = exp(-(a / scale)^beta), the law of type I of Nakagawa &
        Osaki (1975). Both are fitted by maximum likelihood, penalised by a standard normal prior
        on the log of r or beta (1 is the geometric law) and by `kappa` first steps of visits with
        the hazard of all states.
    kappa : float or "empirical_bayes"
        Mass of the back-off; ``empirical_bayes`` takes for ``hazard`` the value under which the
        ends by age are most probable (1e4, its upper end, is the geometric law), 1 for the others.
    row_kappa : float
        Mass of the mean row in what follows a visit.
    max_age : int
        Greatest age with a hazard of its own; older visits share one, the tail is geometric.
    allowed : ndarray of shape (n_states, n_states + 2), bool, optional
        Cells that smoothing may fill in the rows; as in `fit_homogeneous`. A visit is never
        followed by one to the same state.
    cut_step : {"survived", "unseen"}
        What is known of the last step of a cut run: that the run did not end there, or nothing.

    Returns
    -------
    SemiMarkovFit

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.
    """
    check_choice(sojourn, SOJOURNS, name="sojourn")
    check_choice(cut_step, CUT_STEPS, name="cut_step")
    check_positive_int(max_age, name="max_age")
    weights = check_weights(sequences, None)
    m = sequences.n_states
    counts = count_visits(sequences, weights, age_columns(sequences, sojourn, max_age))
    if allowed is None:
        allowed = possible_cells(counts.visits[0])
    elif np.shape(allowed) != (m, m + 2):
        raise ValueError(f"allowed has shape {np.shape(allowed)}, not ({m}, {m + 2})")
    allowed = np.asarray(allowed, dtype=np.bool_) & ~np.eye(m, m + 2, dtype=np.bool_)
    if isinstance(kappa, str):
        check_choice(kappa, ("empirical_bayes",), name="kappa")
        rule = visit_rule(sojourn, 1.0, row_kappa, allowed, cut_step)
        kappa = probable_mass(counts, rule) if sojourn == "hazard" else 1.0
    if not (0.0 < kappa < np.inf and 0.0 < row_kappa < np.inf):
        raise ValueError(f"kappa and row_kappa must be positive; got {kappa!r} and {row_kappa!r}")
    rule = visit_rule(sojourn, float(kappa), float(row_kappa), allowed, cut_step)
    return _build(sequences, weights, counts, rule, None)


def _build(
    sequences: StateSequences,
    weights: Floats,
    counts: VisitCounts,
    rule: VisitRule,
    theta: Floats | None,
) -> SemiMarkovFit:
    m = sequences.n_states
    fit = fit_visits(counts, rule, theta)
    lost, clear = identified_states(weighted_counts(sequences, weights).table)
    used = weights > 0.0
    seen = np.count_nonzero(counts.visits[0, :, : m + 2], axis=1)
    at_risk = (counts.ended + counts.stay + counts.cut)[0] > 0.0
    laws = at_risk.sum() if rule.sojourn == "hazard" else 2 * at_risk.any(axis=1).sum()
    return SemiMarkovFit(
        unidentified=tuple(sequences.state_names[i] for i in np.flatnonzero(lost)),
        sojourn=rule.sojourn,
        state_names=sequences.state_names,
        hazard=fit.hazard[0],
        rows=fit.rows[0],
        start=start_row(counts.visits, "empirical")[0],
        shape=np.exp(fit.theta[0, :, 0]),
        level=np.exp(fit.theta[0, :, 1]),
        kappa=rule.kappa,
        row_kappa=rule.prior.kappa,
        allowed=rule.prior.allowed,
        cut_step=CUT_STEPS[rule.survived],
        identified=clear,
        n_parameters=int(np.maximum(seen - 1, 0).sum() + laws),
        horizon=int(sequences.lengths[used].max(initial=0)),
        n_runs=round(float(weights.sum())),
        n_tasks=int(np.unique(sequences.task[used]).size),
        n_units=int(np.unique(sequences.unit[used]).size),
        tail=weighted_tail(sequences, weights),
    )
