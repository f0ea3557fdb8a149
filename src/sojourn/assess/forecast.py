"""What an assessment says of runs under way and of fixes: skill, values of states, what to mend.

State values rest on two things that are tested apart: that the process's memory is enough (the
claim ``order``), and that its states foretell success beyond the step itself, on tasks that the
process was not fitted to. Only with both is the claim ``forecast`` accepted. That a share of runs
fails in a state is a count and needs neither; what would follow if those runs went on needs the
first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sojourn._validation import generator
from sojourn.estimates import Claim, Estimate, Status, Verdict
from sojourn.process.base import RefittableProcess, TraceProcess
from sojourn.process.candidates import fit_candidate
from sojourn.process.draws import refitted_draws
from sojourn.process.forecast import ForecastTables, forecast_tables
from sojourn.process.skill import ForecastSkill, forecast_skill
from sojourn.process.unrolled import unroll
from sojourn.process.whatif import STRUCTURAL, FixRow, most_valuable_fixes
from sojourn.sequences import StateSequences
from sojourn.states.model import StateModel
from sojourn.tables import clean, indent, n_of, text_table

__all__ = [
    "ForecastFindings",
    "StateForecast",
    "assess_forecast",
    "forecast_claim",
    "limited",
    "measured_skill",
]

Rng = np.random.Generator | np.random.SeedSequence | int | None
_SHOWN = 5
_VISIBLE = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class StateForecast:
    """P(success) of a run in one state at a few steps.

    Attributes
    ----------
    state : str or None
        The state; None for the state-blind forecast.
    steps : tuple of int
        The steps.
    success : tuple of Estimate
        P(success | in the state at that step), each as far as the claim lets it.
    """

    state: str | None
    steps: tuple[int, ...]
    success: tuple[Estimate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        pairs = zip(self.steps, self.success, strict=True)
        return {
            "state": self.state,
            "success": [{"step": step, **estimate.to_dict()} for step, estimate in pairs],
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastFindings:
    """What is found of forecasts and of fixes.

    Attributes
    ----------
    claim : Claim
        The verdict on forecasts.
    skill : ForecastSkill or None
        Skill on held-out tasks; None where it could not be measured.
    rows : tuple of StateForecast
        Values of the states, the state-blind forecast first.
    fixes : tuple of FixRow or None
        What mending each state would be worth, the most valuable first; None for a process
        without rows by observed state.
    tables : ForecastTables
        The forecasts at every step.
    process : str
        Name of the process.
    notes : tuple of str
        On which runs it rests where not on all, and refits that could not be made.
    """

    claim: Claim
    skill: ForecastSkill | None = field(repr=False)
    rows: tuple[StateForecast, ...] = field(repr=False)
    fixes: tuple[FixRow, ...] | None = field(repr=False)
    tables: ForecastTables = field(repr=False)
    process: str
    notes: tuple[str, ...] = ()

    @property
    def told_rows(self) -> tuple[StateForecast, ...]:
        """The rows that hold a figure; those of states are withheld with the claim."""
        return (
            tuple(row for row in self.rows if any(e.value is not None for e in row.success))
            or self.rows[:1]
        )

    @property
    def told_fixes(self) -> tuple[FixRow, ...]:
        """The fixes of states in which runs do fail, as far as three digits show it."""
        rows = self.fixes or ()
        return tuple(row for row in rows if _shows(row.gain)) or rows[:1]

    @property
    def fix_notes(self) -> tuple[str, ...]:
        """What is not in the rows of `told_fixes`, and why."""
        told, notes = self.told_fixes, []
        why = {row.gain_if_continued.reasons for row in told if row.gain_if_continued.value is None}
        for reasons in sorted(why):
            notes.append(f"what comes of runs that went on is not given: {'; '.join(reasons)}")
        n_other = len(self.fixes or ()) - len(told)
        if n_other:
            notes.append(f"in {n_of(n_other, 'other state')} hardly a run fails")
        return tuple(notes)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def forecast_dict(self) -> dict[str, Any]:
        """Return the block ``forecast`` of the JSON contract."""
        return {
            "process": self.process,
            "verdict": str(self.claim.verdict),
            "reasons": list(self.claim.reasons),
            "skill": None if self.skill is None else self.skill.to_dict(),
            "states": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }

    def sensitivities_dict(self) -> list[dict[str, Any]] | None:
        """Return the block ``sensitivities`` of the JSON contract."""
        if self.fixes is None:
            return None
        return [row.to_dict() | {"reading": STRUCTURAL} for row in self.fixes]

    def lines(self) -> list[str]:
        """Return the lines of the text report."""
        lines = [f"Forecast of a run under way: {self.claim.verdict}"]
        lines += indent(self.claim.reasons)
        if self.skill is not None:
            skill = self.skill
            lines.append(
                f"  states add {skill.gain} nats a forecast on held-out tasks "
                f"(log score {skill.log_score:.3f}, by the step alone {skill.blind_log_score:.3f})"
            )
        lines.append(f"  by the {self.process} process; success after the longest run counts too")
        header = ("P(success) at step", *(str(step) for step in self.rows[0].steps))
        cells = [
            ("any state" if row.state is None else clean(row.state), *map(_short, row.success))
            for row in self.told_rows
        ]
        lines += indent(text_table(header, cells))
        if len(self.told_rows) < len(self.rows):
            lines.append("  by state: withheld with the claim")
        if self.fixes is not None:
            lines.append("What a fix would be worth (" + STRUCTURAL + ")")
            rows = [
                (row.state, _short(row.gain), _short(row.gain_if_continued))
                for row in self.told_fixes[:_SHOWN]
            ]
            lines += indent(
                text_table(("failures in", "if they succeeded", "if they went on"), rows)
            )
            lines += indent(self.fix_notes)
        return lines


def assess_forecast(
    states: StateModel,
    sequences: StateSequences,
    fit: TraceProcess,
    order_claim: Claim,
    rng: Rng,
    *,
    ci_prob: float = 0.95,
    n_draws: int = 199,
    notes: tuple[str, ...] = (),
    timing: Verdict = Verdict.ACCEPTED,
) -> ForecastFindings:
    """Measure what forecasts of a process are worth, and what mending its states would be.

    Parameters
    ----------
    states : StateModel
        The rule that gave the states; one that looks at a run's history is no worse for this, as
        it sees no step before its time.
    sequences : StateSequences
        The runs.
    fit : TraceProcess
        The process fitted to all of them.
    order_claim : Claim
        Whether its memory is enough.
    rng : Generator, SeedSequence, int or None
        Source of folds and draws.
    ci_prob : float
        Probability of the intervals.
    n_draws : int
        Refits to resampled tasks.
    notes : tuple of str
        What a reader must know of the runs.
    timing : Verdict
        Whether its curves are right; the forecast by the step alone rests on them.
    """
    if tuple(states.state_names) != tuple(fit.state_names):
        raise ValueError("the process and the rule of states name different states")
    for_skill, for_draws = generator(rng).spawn(2)
    skill, missing = measured_skill(sequences, fit, ci_prob=ci_prob, rng=for_skill)
    n_units = int(np.unique(sequences.unit).size)
    horizon = max(int(sequences.lengths.max(initial=1)), 1)
    draws = refitted_draws(fit, sequences, n_draws, rng=for_draws)
    tables = forecast_tables(fit, horizon=horizon, draws=draws, n_units=n_units)
    notes += () if draws.note is None else (draws.note,)
    claim = forecast_claim(order_claim, skill, missing)
    claim = replace(claim, reasons=(*claim.reasons, *notes))
    quartiles = np.quantile(sequences.lengths, [0.25, 0.5, 0.75], method="inverted_cdf")
    steps = tuple(sorted({max(int(q), 1) for q in quartiles}))
    fixes = None
    if unroll(fit).has_rows_by_state:
        found = most_valuable_fixes(
            fit, horizon=horizon, draws=draws, n_units=n_units, ci_prob=ci_prob
        )
        fixes = tuple(_limited_fix(row, order_claim.verdict) for row in found)
    return ForecastFindings(
        claim=claim,
        skill=skill,
        rows=_rows(tables, steps, claim.verdict, timing, ci_prob),
        fixes=fixes,
        tables=tables,
        process=fit.name,
        notes=notes,
    )


def measured_skill(
    sequences: StateSequences, fit: TraceProcess, *, ci_prob: float = 0.95, rng: Rng = None
) -> tuple[ForecastSkill | None, str | None]:
    """Measure the skill of a kind of process on held-out tasks, or say why that cannot be done.

    The homogeneous chain is fitted again under its own rule from counts to rows; for other kinds
    the penalties and masses are chosen anew on each training part.
    """
    for_folds, for_starts = generator(rng).spawn(2)

    def again(runs: StateSequences) -> TraceProcess:
        if fit.name == "homogeneous" and isinstance(fit, RefittableProcess):
            return fit.refit(runs)
        return fit_candidate(fit.name, runs, rng=for_starts)

    try:
        return forecast_skill(sequences, again, ci_prob=ci_prob, rng=for_folds), None
    except (ValueError, ArithmeticError) as error:  # the claim says why
        return None, str(error)


def forecast_claim(order: Claim, skill: ForecastSkill | None, missing: str | None = None) -> Claim:
    """Decide the claim ``forecast`` of the claim ``order`` and the skill on held-out tasks."""
    reasons: list[str] = []
    if order.verdict is Verdict.REJECTED:
        reasons.append("the process's memory is not enough, so its state values are not the runs'")
    elif order.verdict is Verdict.INCONCLUSIVE:
        reasons.append("whether the process's memory is enough is open")
    if skill is None:
        reasons.append(f"its skill could not be measured: {missing}")
    elif skill.verdict is Verdict.REJECTED:
        reasons.append("these states describe timing; they do not foretell success")
    elif skill.verdict is Verdict.INCONCLUSIVE:
        reasons += skill.reasons or ("its skill on held-out tasks is open",)
    biased = skill is not None and _excludes_zero(skill.bias)
    if biased:
        reasons.append("forecasts are off on average on held-out tasks")
    verdicts = {order.verdict, Verdict.INCONCLUSIVE if skill is None else skill.verdict}
    if Verdict.REJECTED in verdicts:
        verdict = Verdict.REJECTED
    elif Verdict.INCONCLUSIVE in verdicts or biased:
        verdict = Verdict.INCONCLUSIVE
    else:
        verdict = Verdict.ACCEPTED
    next_ = {
        Verdict.ACCEPTED: None,
        Verdict.INCONCLUSIVE: "more tasks would tell; the step alone forecasts as well until then",
        Verdict.REJECTED: "use the state-blind forecast, or states that see more (--states)",
    }[verdict]
    return Claim(claim="forecast", verdict=verdict, reasons=tuple(reasons), next=next_)


def _excludes_zero(estimate: Estimate) -> bool:
    interval = estimate.interval
    return interval is not None and not interval.low <= 0.0 <= interval.high


def _rows(
    tables: ForecastTables,
    steps: tuple[int, ...],
    verdict: Verdict,
    timing: Verdict,
    ci_prob: float,
) -> tuple[StateForecast, ...]:
    blind = (tables.at(None, t, ci_prob=ci_prob)[0] for t in steps)
    known = tuple(limited(estimate, timing, "the claim timing") for estimate in blind)
    rows = [StateForecast(state=None, steps=steps, success=known)]
    for i, name in enumerate(tables.state_names):
        found = (tables.at(i, t, ci_prob=ci_prob)[0] for t in steps)
        rows.append(
            StateForecast(
                state=name,
                steps=steps,
                success=tuple(
                    limited(estimate, verdict, "the claim forecast") for estimate in found
                ),
            )
        )
    return tuple(rows)


def _limited_fix(row: FixRow, order: Verdict) -> FixRow:
    return replace(
        row,
        gain_if_continued=limited(row.gain_if_continued, order, "the claim order"),
        gain_ever=limited(row.gain_ever, order, "the claim order"),
    )


def limited(estimate: Estimate, verdict: Verdict, claim: str) -> Estimate:
    """Return an estimate as far as the verdict on the claim it rests on lets it."""
    if estimate.value is None or verdict is Verdict.ACCEPTED:
        return estimate
    if verdict is Verdict.REJECTED:
        return Estimate(value=None, status=Status.WITHHELD, reasons=(f"{claim} is rejected",))
    return replace(
        estimate,
        status=Status.INCONCLUSIVE,
        reasons=(*estimate.reasons, f"{claim} is inconclusive"),
    )


def _shows(gain: Estimate) -> bool:
    if gain.value is None:
        return True
    return max(gain.value, 0.0 if gain.interval is None else gain.interval.high) >= _VISIBLE


def _short(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:z.2f}"
    if estimate.interval is not None:
        text += f" [{estimate.interval.low:z.2f}, {estimate.interval.high:z.2f}]"
    return text if estimate.status is Status.SUPPORTED else f"{text} ?"
