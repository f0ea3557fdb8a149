"""Forecasts and fixes on the page: how good, for which state, and which step is worth mending."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.assess import TraceAssessment
from sojourn.assess.forecast import ForecastFindings
from sojourn.estimates import Estimate
from sojourn.plots import new_axes, styled, to_svg
from sojourn.plots.forecast import plot_calibration, plot_fixes
from sojourn.process.skill import ForecastSkill
from sojourn.process.whatif import STRUCTURAL
from sojourn.report.parts import Figure, Rows, Section, estimate_cell
from sojourn.tables import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["forecast_sections"]

Floats = npt.NDArray[np.float64]

_MAX_FIXES = 8
_WIDTH = 4.3


def forecast_sections(result: TraceAssessment, figures: dict[str, Figure]) -> list[Section]:
    """Return the sections on forecasts and on fixes; figures are drawn where the page draws any."""
    found = None if result.chain is None else result.chain.forecast
    if found is None:
        return []
    sections = [_forecasts(found, drawn=bool(figures))]
    if found.fixes:
        sections.append(_fixes(found, drawn=bool(figures)))
    return sections


def _forecasts(found: ForecastFindings, *, drawn: bool) -> Section:
    skill = found.skill
    tables = [
        Rows(
            caption="P(success) of a run in a state at a step, by the "
            f"{clean(found.process)} process: success after the longest run counts too. The first "
            "row knows the step alone.",
            header=("state", *(f"at step {step}" for step in found.rows[0].steps)),
            rows=[
                (
                    "any state" if row.state is None else clean(row.state),
                    *(estimate_cell(estimate, 2) for estimate in row.success),
                )
                for row in found.told_rows
            ],
        )
    ]
    paragraphs = [f"{reason[:1].upper()}{reason[1:]}." for reason in found.claim.reasons]
    pictures: list[Figure] = []
    if skill is not None:
        paragraphs.append(
            f"On held-out tasks the states of the {clean(found.process)} process add "
            f"{estimate_cell(skill.gain)} nats a forecast to what the step alone foretells "
            f"({skill.n_forecasts:,} forecasts at steps {', '.join(map(str, skill.steps))})."
        )
        tables.insert(0, _calibration_table(skill))
        if drawn and skill.calibration:
            pictures.append(_calibration_figure(skill))
    return Section(
        question="What becomes of a run under way?",
        paragraphs=paragraphs,
        figures=pictures,
        tables=tables,
        notes=["Forecasts by state are withheld with the claim."]
        if len(found.told_rows) < len(found.rows)
        else [],
    )


def _calibration_table(skill: ForecastSkill) -> Rows:
    return Rows(
        caption="Calibration on held-out tasks: what was foretold, and what came of it.",
        header=("forecasts", "foretold", "succeeded"),
        rows=[
            (
                f"{b.n:,}",
                f"{b.forecast:.3f}",
                f"{b.observed:.3f} [{b.observed_low:.3f},\N{NO-BREAK SPACE}{b.observed_high:.3f}]",
            )
            for b in skill.calibration
        ],
        left=0,
    )


def _calibration_figure(skill: ForecastSkill) -> Figure:
    bins = skill.calibration
    caption = "What came of forecasts on held-out tasks; on the dashed line they are right."
    with styled():
        axes = new_axes((_WIDTH, 3.6))
        plot_calibration(
            axes,
            np.array([b.forecast for b in bins]),
            np.array([b.observed for b in bins]),
            np.array([b.observed_low for b in bins]),
            np.array([b.observed_high for b in bins]),
            np.array([b.n for b in bins]),
        )
        return _figure(axes, caption)


def _fixes(found: ForecastFindings, *, drawn: bool) -> Section:
    fixes = found.told_fixes[:_MAX_FIXES]
    pictures = []
    if drawn:
        caption = (
            "Gain in P(success within the longest run) if the runs that fail in a state succeeded "
            "or, where it may be told, went on."
        )
        with styled():
            axes = new_axes((_WIDTH, 0.9 + 0.34 * len(fixes)))
            plot_fixes(
                axes,
                [row.state for row in fixes],
                _columns([row.gain for row in fixes]),
                _columns([row.gain_if_continued for row in fixes]),
            )
            pictures.append(_figure(axes, caption))
    return Section(
        question="Which step is worth fixing?",
        paragraphs=[f"{STRUCTURAL[:1].upper()}{STRUCTURAL[1:]}."],
        figures=pictures,
        tables=[
            Rows(
                caption="Gain in P(success) if runs that fail in a state succeeded, or went on as "
                "the others do.",
                header=("failures in", "if they succeeded", "if they went on"),
                rows=[
                    (
                        clean(row.state),
                        estimate_cell(row.gain),
                        estimate_cell(row.gain_if_continued),
                    )
                    for row in fixes
                ],
            )
        ],
        notes=[f"{note[:1].upper()}{note[1:]}." for note in found.fix_notes],
    )


def _columns(estimates: list[Estimate]) -> tuple[Floats, Floats, Floats]:
    """Return values and bounds of estimates as columns, NaN where there is none."""
    rows = [
        (math.nan,) * 3
        if e.value is None or e.interval is None
        else (e.value, e.interval.low, e.interval.high)
        for e in estimates
    ]
    columns = np.array(rows, dtype=np.float64).T
    return columns[0], columns[1], columns[2]


def _figure(axes: Axes, caption: str) -> Figure:
    from markupsafe import Markup

    return Figure(svg=Markup(to_svg(axes, description=caption)), caption=caption)
