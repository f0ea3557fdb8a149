"""The chain of a group of runs: states, fit, intervals, certificate, and where runs get lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.assess.certified import (
    Certified,
    ChainSettings,
    ChainStreams,
    certified,
    part_to_forecast,
)
from sojourn.assess.certify import MIN_UNITS, Certificate
from sojourn.assess.climb import Climb, ProcessFindings
from sojourn.assess.cross_fit import CrossFit
from sojourn.assess.forecast import ForecastFindings, assess_forecast
from sojourn.assess.state_choice import StateChoice
from sojourn.assess.task_classes import TaskClassTable, task_class_table
from sojourn.corpus import ResolvedRuns, TraceCorpus
from sojourn.estimates import Claim, Estimate, Interval, Status, Verdict
from sojourn.process.choice import CandidateScore
from sojourn.process.draws import UNFITTED
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.process.intervals import ChainIntervals, chain_intervals
from sojourn.process.mixture import MixtureFit
from sojourn.sequences import StateSequences
from sojourn.states.model import StateModel, runs_with_steps

__all__ = ["ChainFindings", "ChainSettings", "StateRow", "assess_chain"]


DEFAULT_CHAIN = ChainSettings()
# Replicates x units, and replicates x steps, of the chain's bootstrap: very many units or very
# long runs get fewer replicates.
_MAX_DRAWN_UNITS = 50_000_000
_MAX_DRAWN_STEPS = 20_000_000
_MIN_DRAWS = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """What happens in one state.

    Attributes
    ----------
    name : str
        The state.
    n_steps : int
        Observed steps in it.
    visits : float or None
        Expected visits of a run under the chain; None where runs may never end.
    n_success, n_failure, n_cut : int
        Observed runs that succeeded, failed or were cut right after a step in this state.
    value : float or None
        P(success | now in this state); None where it is not identified.
    """

    name: str
    n_steps: int
    visits: float | None
    n_success: int
    n_failure: int
    n_cut: int
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainFindings:
    """A fitted chain with all that says how far to believe it.

    Attributes
    ----------
    states : StateModel
        Which state a step is in.
    fit : HomogeneousFit
        The chain.
    intervals : ChainIntervals
        Its figures with intervals by task bootstrap.
    certificate : Certificate
        Which claims about it the data support.
    rows : tuple of StateRow
        Where runs go and where they end.
    n_left_out : int
        Runs whose steps were not logged.
    climb : Climb or None
        What was looked at beyond the homogeneous chain; None where nothing was.
    forecast : ForecastFindings or None
        What forecasts of the chosen process and fixes of its states are worth; None where it was
        not asked for, or could not be had.
    no_forecast : str or None
        Why it could not be had.
    task_classes : TaskClassTable or None
        The classes of tasks, where the chosen process has such.
    state_choice : StateChoice or None
        The table that the states were chosen by, where they were.
    cross_fit : CrossFit or None
        The tests of memory with states made of other tasks, where the others are approximate.
    """

    states: StateModel
    fit: HomogeneousFit = field(repr=False)
    intervals: ChainIntervals = field(repr=False)
    certificate: Certificate
    rows: tuple[StateRow, ...] = field(repr=False)
    n_left_out: int
    climb: Climb | None = None
    forecast: ForecastFindings | None = field(default=None, repr=False)
    no_forecast: str | None = None
    task_classes: TaskClassTable | None = field(default=None, repr=False)
    state_choice: StateChoice | None = field(default=None, repr=False)
    cross_fit: CrossFit | None = None

    @property
    def timing(self) -> Verdict:
        """Verdict on the homogeneous chain's curves."""
        return self.certificate.claim("timing").verdict

    @property
    def richer(self) -> ProcessFindings | None:
        """The process that was chosen, or named, instead of the homogeneous chain."""
        return None if self.climb is None else self.climb.found

    @property
    def chosen(self) -> str:
        """Name of the process that the claims are about."""
        return self.fit.name if self.richer is None else self.richer.name

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Return ``order`` and ``timing`` of the chosen process, its name before the reasons."""
        if self.richer is not None:
            return self.richer.claims
        return tuple(
            replace(
                claim, reasons=(f"{self.fit.name} chain: {claim.reasons[0]}", *claim.reasons[1:])
            )
            if claim.reasons
            else claim
            for claim in self.certificate.claims
        )

    @property
    def candidates(self) -> tuple[CandidateScore, ...]:
        """Return the table of candidates; without a choice, what was fitted."""
        looked = self.climb
        if looked is not None and looked.choice is not None:
            rows = looked.choice.scores
        else:
            fits = (self.fit, *(() if self.richer is None else (self.richer.process,)))
            rows = tuple(
                CandidateScore(
                    name=fit.name,
                    log_score=None,
                    difference=None,
                    se_difference=None,
                    n_parameters=fit.n_parameters,
                )
                for fit in fits
            )
        return tuple(replace(row, chosen=row.name == self.chosen) for row in rows)

    @property
    def accepted(self) -> bool:
        """Whether the timing of the chosen process is accepted, by the exact method."""
        if self.richer is not None:
            return self.richer.accepted
        return self.certificate.method == "exact" and self.timing is Verdict.ACCEPTED

    def process_within(self, d: int, outcome: str) -> Estimate:
        """Return the chosen process's P(outcome within d steps), as far as its claims let it."""
        if self.richer is not None:
            return self.richer.within_steps(d, outcome)
        return self.within(d, outcome)

    def within(self, d: int, outcome: str) -> Estimate:
        """Return the chain's own P(outcome within d steps), as far as the certificate lets it.

        Withheld when the timing claim is rejected; never more than inconclusive beyond the
        longest run.
        """
        curve = (
            self.intervals.success_within if outcome == "success" else self.intervals.failure_within
        )
        claim = self.certificate.claim("timing")
        if self.fit.unidentified:
            reason = "no observed path leads out of some state"
            return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
        if claim.verdict is Verdict.REJECTED or d > int(curve.x[-1]):
            reason = "the chain's timing is rejected" if d <= int(curve.x[-1]) else "not computed"
            return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
        beyond = d > self.fit.horizon
        exact = self.certificate.method == "exact"
        supported = claim.verdict is Verdict.ACCEPTED and exact and not beyond
        reasons = (f"beyond the longest run ({self.fit.horizon} steps): extrapolation",)
        return Estimate(
            value=float(curve.value[d]),
            interval=Interval(
                low=max(float(curve.low[d]), 0.0),
                high=min(float(curve.high[d]), 1.0),
                ci_prob=curve.ci_prob,
                kind=curve.kind,
            ),
            status=Status.SUPPORTED if supported else Status.INCONCLUSIVE,
            reasons=reasons if beyond else (() if supported else ("timing is not certified",)),
            estimand="population",
        )

    def success_ever(self) -> Estimate:
        """Return P(success ever): extrapolation, so never more than inconclusive."""
        estimate = self.intervals.success_ever
        if estimate.value is None:
            return estimate
        if self.timing is Verdict.REJECTED:
            reason = (
                "the homogeneous chain's timing is rejected: see the success rate and the curves"
            )
            return Estimate(value=None, status=Status.WITHHELD, reasons=(reason,))
        identity = (
            "without cut runs it equals the success rate whatever the states: no evidence"
            if not self.fit.counts.cut.any()
            else "it extrapolates from the runs that were cut"
        )
        return Estimate(
            value=estimate.value,
            interval=estimate.interval,
            status=Status.INCONCLUSIVE,
            reasons=(identity,),
            estimand="population",
        )

    def states_dict(self) -> dict[str, Any]:
        """Return the states in the form of the JSON contract, with how they were made."""
        return self.states.to_dict() | {
            "choice": None if self.state_choice is None else self.state_choice.to_dict(),
            "cross_fit": None if self.cross_fit is None else self.cross_fit.to_dict(),
        }

    def process_dict(self) -> dict[str, Any]:
        """Return the process in the form of the JSON contract, the chain and its intervals too."""
        choice = None if self.climb is None else self.climb.choice
        richer = self.richer
        return {
            "chosen": self.chosen,
            "candidates": [row.to_dict() for row in self.candidates],
            "choice": None
            if choice is None
            else {
                "best": choice.best,
                "n_folds": choice.n_folds,
                "n_units": choice.n_units,
                "n_runs": choice.n_runs,
            },
            "notes": [] if self.climb is None else list(self.climb.notes),
            "certificate": None if richer is None else richer.to_dict(),
            "task_classes": None if self.task_classes is None else self.task_classes.to_dict(),
            "chain": self.fit.to_dict(),
            # A figure of a chain whose timing is rejected is not for scripts to pick up.
            "intervals": None if self.timing is Verdict.REJECTED else self.intervals.to_dict(),
            "states": [
                {
                    "name": row.name,
                    "n_steps": row.n_steps,
                    "expected_visits": row.visits,
                    "n_success": row.n_success,
                    "n_failure": row.n_failure,
                    "n_cut": row.n_cut,
                    "value": row.value,
                }
                for row in self.rows
            ],
            "n_left_out": self.n_left_out,
        }


def assess_chain(
    corpus: TraceCorpus,
    resolved: ResolvedRuns,
    *,
    settings: ChainSettings,
    ci_prob: float = 0.95,
    n_resamples: int = 1999,
    icc: float | None = None,
    rng: np.random.Generator,
) -> ChainFindings | None:
    """Fit the homogeneous chain to the runs whose steps are logged, and certify it.

    Where its timing is not accepted a richer process is looked for, unless the settings forbid.
    `icc` is the intraclass correlation of success within tasks.

    Returns
    -------
    ChainFindings or None
        None when no run that counts has its steps.
    """
    kept = runs_with_steps(corpus, resolved)
    if not np.diff(corpus.offsets)[resolved.index].any():
        return None
    streams = ChainStreams.of(rng)
    states, choice, note = settings.states.make(corpus, resolved, rng=streams.states)
    sequences = states.transform(corpus, resolved)
    fit = fit_homogeneous(sequences, smoothing=settings.smoothing)
    intervals = chain_intervals(
        fit,
        sequences,
        ci_prob=ci_prob,
        n_draws=_affordable_draws(fit, n_resamples),
        horizon=2 * fit.horizon,
        rng=streams.intervals,
    )
    made = certified(
        corpus, resolved, states, sequences, fit, settings=settings, note=note, icc=icc,
        ci_prob=ci_prob, streams=streams,
    )  # fmt: skip
    certificate, looked = made.certificate, made.climb
    wanted = not settings.quick and settings.n_forecast > 0 and certificate.method == "exact"
    foretold: ForecastFindings | str | None = None
    if wanted and fit.horizon > 1:
        foretold = _forecast(settings, states, sequences, fit, made, ci_prob, streams)
    return ChainFindings(
        states=states,
        fit=fit,
        intervals=intervals,
        certificate=certificate,
        rows=_state_rows(fit, sequences.states),
        n_left_out=int((~kept).sum()),
        climb=looked,
        forecast=foretold if isinstance(foretold, ForecastFindings) else None,
        no_forecast=foretold if isinstance(foretold, str) else None,
        task_classes=_task_classes(corpus, resolved, sequences, looked),
        state_choice=choice,
        cross_fit=made.cross_fit,
    )


def _task_classes(
    corpus: TraceCorpus, resolved: ResolvedRuns, sequences: StateSequences, looked: Climb | None
) -> TaskClassTable | None:
    """Tell the classes of tasks of the chosen process; None where it has none."""
    found = None if looked is None else looked.found
    if found is None or not isinstance(found.process, MixtureFit):
        return None
    tasks = corpus.tasks
    names = [(tasks.task_set[row] or "", tasks.task_id[row]) for row in resolved.task_row]
    return task_class_table(found.process, sequences, names, timing=found.bound.verdict)


def _forecast(
    settings: ChainSettings,
    states: StateModel,
    sequences: StateSequences,
    fit: HomogeneousFit,
    made: Certified,
    ci_prob: float,
    streams: ChainStreams,
) -> ForecastFindings | str:
    """Measure forecasts of the chosen process, or say in words why that is not done."""
    if fit.n_units < MIN_UNITS:
        return f"{fit.n_units} of the {MIN_UNITS} tasks or clusters that are needed"
    if fit.unidentified:
        return "no observed path leads out of some state"
    found = made.found
    part, notes = part_to_forecast(sequences, found, streams.part)
    try:
        process = fit if found is None else found.process
        return assess_forecast(
            states,
            part,
            process if found is not None or part is sequences else fit.refit(part),
            made.order,
            streams.forecast,
            ci_prob=ci_prob,
            n_draws=settings.n_forecast,
            notes=notes,
            timing=made.timing.verdict,
        )
    except UNFITTED as error:
        return f"the process could not be fitted to every resample: {error}"


def _affordable_draws(fit: HomogeneousFit, wanted: int) -> int:
    """Return how many replicates to draw: those asked for, fewer where each costs very much."""
    most = min(_MAX_DRAWN_UNITS // fit.n_units, _MAX_DRAWN_STEPS // max(2 * fit.horizon, 1))
    return min(wanted, max(most, _MIN_DRAWS))


def _state_rows(fit: HomogeneousFit, steps: npt.NDArray[np.int32]) -> tuple[StateRow, ...]:
    """Return one row a state, the most visited first."""
    m = fit.counts.n_states
    n_steps = np.bincount(steps, minlength=m)
    visits = fit.chain.expected_visits if fit.chain.is_absorbing else None
    ends = fit.counts.table[1:, m:]
    rows = [
        StateRow(
            name=name,
            n_steps=int(n_steps[state]),
            visits=None if visits is None else float(visits[state]),
            n_success=int(ends[state, 0]),
            n_failure=int(ends[state, 1]),
            n_cut=int(ends[state, 2]),
            value=fit.value(state),
        )
        for state, name in enumerate(fit.state_names)
    ]
    return tuple(sorted(rows, key=lambda row: -row.n_steps))
