"""What the page of a comparison holds: the answer, the differences, the tasks, the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sojourn.assess.comparison_results import Answer, Comparison, ComparisonFamily, Flip
from sojourn.assess.comparison_text import signed
from sojourn.estimates import Estimate
from sojourn.plots import new_axes, styled, to_svg
from sojourn.plots.comparison import plot_differences, plot_two_curves
from sojourn.report.parts import Cell, Figure, Rows, Section, p_cell, short_name
from sojourn.report.sections import Card
from sojourn.tables import clean, n_of, p_text
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sojourn.process.difference import CurveDifference

__all__ = [
    "ANSWER_MARKS",
    "ANSWER_STATUS",
    "answer_rows",
    "cards",
    "difference_cell",
    "lede",
    "overview",
    "policy_line",
    "sections",
    "title",
]

_MAX_FLIPS = 50
_SHORT = 4.3
ANSWER_MARKS = {
    Answer.BETTER: "accepted",
    Answer.WORSE: "rejected",
    Answer.EQUIVALENT: "accepted",
    Answer.INCONCLUSIVE: "inconclusive",
}
ANSWER_STATUS = {
    Answer.BETTER: "supported",
    Answer.WORSE: "withheld",
    Answer.EQUIVALENT: "supported",
    Answer.INCONCLUSIVE: "inconclusive",
}
_ESTIMANDS = {"same_tasks": "these tasks, run again", "population": "tasks like these"}


def difference_cell(estimate: Estimate) -> str:
    """Return a difference for a cell: on a narrow screen its interval goes under it, whole."""
    text = signed(estimate).replace(", ", ",\N{NO-BREAK SPACE}")
    return text.replace(" ?", "\N{NO-BREAK SPACE}?")


def title(family: ComparisonFamily) -> str:
    """Return the title of the page."""
    first = family.comparisons[0]
    if len(family) == 1:
        return f"{short_name(first.name_b)} against {short_name(first.name_a)}"
    return f"{len(family)} sets of runs against {short_name(first.name_a)}"


def lede(result: Comparison) -> str:
    """Return what is compared, in a sentence."""
    pairing = (
        f"paired by {n_of(result.n_shared, 'task')}"
        if result.paired
        else "compared as two samples of tasks"
    )
    return (
        f"A is {clean(result.name_a)} ({n_of(result.n_runs_a, 'run')}), "
        f"B is {clean(result.name_b)} ({n_of(result.n_runs_b, 'run')}), {pairing}."
    )


def policy_line(result: Comparison) -> str:
    """Return how differences are meant."""
    return (
        f"All differences are B minus A. Intervals are {percent(result.ci_prob)}. Differences of "
        f"the success rate under {result.margin:g} are taken to be of no matter."
    )


def cards(result: Comparison) -> list[Card]:
    """Return the headline figures."""
    decided = result.decided_by
    interval = decided.interval
    return [
        Card(
            name="Answer",
            value=str(result.answer),
            interval=f"for {_ESTIMANDS[result.estimand]}",
            note="B against A, on the success rate",
            status=ANSWER_STATUS[result.answer],
        ),
        Card(
            name="Difference of the success rate",
            value="-" if decided.value is None else f"{decided.value:+.3f}",
            interval=""
            if interval is None
            else f"{percent(interval.ci_prob)}: {interval.low:+.3f} to {interval.high:+.3f}",
            note=f"p {p_text(result.adjusted_p)}, {result.test}",
            status=ANSWER_STATUS[result.answer],
        ),
        Card(
            name="Chance that B is better",
            value=f"{result.chance_better:.3f}",
            interval="posterior probability",
            note="at tasks like these",
            status="supported",
        ),
        Card(
            name="Smallest visible difference",
            value="none"
            if result.smallest_visible is None or result.smallest_visible >= 1
            else f"{result.smallest_visible:.3f}",
            interval="seen in 80 % of cases",
            note="smaller true differences are likely to be missed",
            status="supported",
        ),
    ]


def answer_rows(result: Comparison) -> Rows:
    """Return the answer with its reasons, as the table under the headline."""
    notes = "; ".join(clean(note, limit=300) for note in result.notes)
    why = f"{signed(result.decided_by)} for {_ESTIMANDS[result.estimand]}"
    rows = [
        (
            "success rate of B against A",
            Cell(text=str(result.answer), mark=ANSWER_MARKS[result.answer]),
            f"{why}; p {p_text(result.adjusted_p)}" + (f"; {notes}" if notes else ""),
        )
    ]
    return Rows(
        caption="Better, worse, equivalent within the margin, or inconclusive.",
        header=("question", "answer", "why"),
        rows=rows,
        left=3,
    )


def overview(family: ComparisonFamily) -> Rows:
    """Return one row a comparison, each leading to its part of the page."""
    rows = [
        (
            Cell(text=clean(c.name_b), href=f"#group-{number}"),
            Cell(text=str(c.answer), mark=ANSWER_MARKS[c.answer]),
            difference_cell(c.decided_by),
            p_cell(c.adjusted_p),
        )
        for number, c in enumerate(family)
    ]
    return Rows(
        caption=f"Against {clean(family.comparisons[0].name_a)}; p-values adjusted by Holm.",
        header=("B", "answer", "difference", "p"),
        rows=rows,
        left=2,
    )


def sections(result: Comparison, *, with_figures: bool) -> list[Section]:
    """Return the answers to a user's questions, in their order."""
    found = [
        _differences(result, drawn=with_figures),
        _flips(result),
        _curves(result, drawn=with_figures),
        _transitions(result),
    ]
    return [section for section in found if section is not None]


def _differences(result: Comparison, *, drawn: bool) -> Section:
    again = any(row.same_tasks is not None for row in result.rows)
    rows = [
        (
            row.name,
            "-" if row.a is None else f"{row.a:.3f}",
            "-" if row.b is None else f"{row.b:.3f}",
            difference_cell(row.population),
            *(
                ("-" if row.same_tasks is None else difference_cell(row.same_tasks),)
                if again
                else ()
            ),
        )
        for row in result.rows
    ]
    return Section(
        question="By how much do they differ?",
        figures=[_forest(result)] if drawn else [],
        tables=[
            Rows(
                caption="B minus A: for tasks like these"
                + (", and for these tasks run again." if again else "."),
                header=("figure", "A", "B", "tasks like these")
                + (("these tasks again",) if again else ()),
                rows=rows,
            )
        ],
    )


def _forest(result: Comparison) -> Figure:
    shown = [row for row in result.rows if not row.name.startswith("mean steps")]
    same = result.estimand == "same_tasks"
    estimates = [
        row.same_tasks if same and row.same_tasks is not None else row.population for row in shown
    ]
    curves = ", curves for tasks like these" if same else ""
    caption = (
        "Differences with their intervals "
        f"(for {_ESTIMANDS[result.estimand]}{curves}); shaded, the margin."
    )
    bounds = np.array(
        [
            (np.nan,) * 3
            if e.value is None or e.interval is None
            else (e.value, e.interval.low, e.interval.high)
            for e in estimates
        ]
    )
    with styled():
        axes = new_axes((_SHORT, 0.9 + 0.3 * len(shown)))
        plot_differences(
            axes,
            [row.name for row in shown],
            bounds[:, 0],
            bounds[:, 1],
            bounds[:, 2],
            margin=result.margin,
        )
        return _figure(axes, caption)


def _figure(axes: Axes, caption: str) -> Figure:
    from markupsafe import Markup

    return Figure(svg=Markup(to_svg(axes, description=caption)), caption=caption)


def _flips(result: Comparison) -> Section | None:
    if not result.flips:
        return None
    half = _MAX_FLIPS // 2
    shown: Sequence[Flip] = result.flips
    if len(result.flips) > _MAX_FLIPS:
        shown = (*result.flips[:half], *result.flips[-half:])
    gains = sum(f.successes_b / f.attempts_b > f.successes_a / f.attempts_a for f in result.flips)
    rows = [
        (
            clean(f.task),
            f"{f.successes_a} of {f.attempts_a}",
            f"{f.successes_b} of {f.attempts_b}",
        )
        for f in shown
    ]
    notes = []
    if len(shown) < len(result.flips):
        notes.append(f"{len(result.flips) - len(shown)} tasks between these are left out.")
    return Section(
        question="Which tasks flipped?",
        paragraphs=[
            f"Of {n_of(result.n_shared, 'shared task')} B does better at {gains} and worse at "
            f"{len(result.flips) - gains}."
        ],
        tables=[
            Rows(
                caption="Successes in attempts, where they differ; B's gains first.",
                header=("task", "A", "B"),
                rows=rows,
            )
        ],
        notes=notes,
    )


def _curves(result: Comparison, *, drawn: bool) -> Section | None:
    curves = result.curves
    if curves is None or curves.horizon < 2:
        return None
    steps = np.unique(np.linspace(0, curves.horizon, 12).astype(int)).tolist()
    rows = [
        (d, f"{curves.a[0, d]:.3f}", f"{curves.b[0, d]:.3f}", difference_cell(curves.at(d)))
        for d in steps
    ]
    return Section(
        question="Does B need fewer steps?",
        paragraphs=[
            f"Mean number of steps up to step {curves.horizon}: B minus A "
            f"{signed(curves.mean_steps)}."
        ],
        figures=[_curves_figure(curves)] if drawn else [],
        tables=[
            Rows(
                caption="Success within d steps.",
                header=("d", "A", "B", "difference"),
                rows=rows,
                left=0,
            )
        ],
    )


def _curves_figure(curves: CurveDifference) -> Figure:
    caption = (
        "Success within d steps; shaded, where B's curve lies with the stated pointwise "
        "probability, given A's."
    )
    with styled():
        axes = new_axes((_SHORT, 3.2))
        plot_two_curves(axes, curves.a[0], curves.b[0], curves.success_low, curves.success_high)
        return _figure(axes, caption)


def _transitions(result: Comparison) -> Section | None:
    if not result.transitions:
        return None
    rows = [
        (
            f"{clean(c.origin, limit=30)} \N{RIGHTWARDS ARROW} {clean(c.target, limit=30)}",
            f"{c.a:.3f}",
            f"{c.b:.3f}",
            difference_cell(c.difference),
            p_cell(c.p_value),
        )
        for c in result.transitions
    ]
    return Section(
        question="What do they do differently?",
        tables=[
            Rows(
                caption="What follows a step: the changes least likely by chance (p by Holm).",
                header=("step", "A", "B", "difference", "p"),
                rows=rows,
            )
        ],
    )
