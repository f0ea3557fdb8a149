"""What the page of two logs of sessions holds: the answer by domain, and how R(n) differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sojourn.assess.comparison_results import Answer
from sojourn.assess.comparison_text import signed
from sojourn.assess.session_comparison import START_WORDS, SessionComparison, SessionRow
from sojourn.estimates import Estimate
from sojourn.plots import new_axes, styled, to_svg
from sojourn.plots.comparison import plot_differences, plot_two_runs
from sojourn.report.comparison import ANSWER_MARKS, ANSWER_STATUS, difference_cell
from sojourn.report.parts import Cell, Figure, Rows, Section, short_name
from sojourn.report.sections import Card
from sojourn.tables import clean
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["answer_rows", "cards", "lede", "overview", "policy_line", "sections", "title"]

_WIDTH = 4.3
_MARKED = "? marks an inconclusive difference; B better: the chance that B's figure is the larger."
_HEAD = ("A", "B", "B minus A", "B better")


def title(result: SessionComparison) -> str:
    """Return the title of the page."""
    return f"{short_name(result.name_b)} against {short_name(result.name_a)}"


def lede(result: SessionComparison, domain: str) -> str:
    """Return what is compared, in a sentence."""
    kind = f" in the domain {clean(domain)}" if len(result.answers) > 1 else ""
    return (
        f"A is {clean(result.name_a)}, B is {clean(result.name_b)}: success of the tasks of "
        f"sessions{kind}, at one mix of work."
    )


def policy_line(result: SessionComparison) -> str:
    """Return how differences are meant."""
    interval = next((row.difference.interval for row in result.rows), None)
    told = (
        "" if interval is None else f" Intervals are {percent(interval.ci_prob)} of the posterior."
    )
    return (
        f"All differences are B minus A.{told} Differences of the next task's success in the long "
        f"run under {result.margin:g} are taken to be of no matter."
    )


def cards(result: SessionComparison, domain: str) -> list[Card]:
    """Return the headline figures of a domain."""
    answer = result.answers[domain]
    found = [
        Card(
            name="Answer",
            value=str(answer),
            interval="next task in the long run",
            note="B against A",
            status=ANSWER_STATUS[answer],
        )
    ]
    names = {
        "long_run": "Next task, long run",
        "continuing": "Next task, continuing",
        "fresh": "First task of a session",
    }
    for start, name in names.items():
        row = result.row(domain, start)
        if row is not None:
            found.append(_card(name, row))
    return found


def _card(name: str, row: SessionRow) -> Card:
    estimate = row.difference
    interval = estimate.interval
    return Card(
        name=name,
        value="-" if estimate.value is None else f"{estimate.value:+.3f}",
        interval=""
        if interval is None
        else f"{percent(interval.ci_prob)}: {interval.low:+.3f} to {interval.high:+.3f}",
        note=f"A {row.a:.3f}, B {row.b:.3f}; chance that B is better {row.chance_better:.3f}",
        status=str(estimate.status),
    )


def answer_rows(result: SessionComparison, domain: str) -> Rows:
    """Return the answer of a domain with its reasons."""
    answer = result.answers[domain]
    row = result.row(domain, "long_run")
    reasons = [] if row is None else [signed(row.difference), *row.difference.reasons]
    return Rows(
        caption="Better, worse, equivalent within the margin, or inconclusive.",
        header=("question", "answer", "why"),
        rows=[
            (
                "next task in the long run, B against A",
                _verdict(answer),
                "; ".join(clean(text, limit=300) for text in (*reasons, *result.notes)),
            )
        ],
        left=3,
    )


def _verdict(answer: Answer) -> Cell:
    return Cell(text=str(answer), mark=ANSWER_MARKS[answer])


def overview(result: SessionComparison) -> Rows:
    """Return one row a domain, each leading to its part of the page."""
    rows: list[tuple[object, ...]] = []
    for number, (domain, answer) in enumerate(result.answers.items()):
        row = result.row(domain, "long_run")
        rows.append(
            (
                Cell(text=clean(domain), href=f"#group-{number}"),
                _verdict(answer),
                "-" if row is None else difference_cell(row.difference),
                "-" if row is None else f"{row.chance_better:.3f}",
            )
        )
    return Rows(
        caption="The next task in the long run, B minus A.",
        header=("domain", "answer", "difference", "chance that B is better"),
        rows=rows,
        left=2,
    )


def sections(result: SessionComparison, domain: str, *, with_figures: bool) -> list[Section]:
    """Return the answers to a user's questions on a domain, in their order."""
    rows = [row for row in result.rows if row.domain == domain]
    if not rows:
        return []
    found = [_next(rows, result.margin, drawn=with_figures)]
    if any(row.n > 1 for row in rows):
        found.append(_runs(rows, drawn=with_figures))
    return found


def _next(rows: list[SessionRow], margin: float, *, drawn: bool) -> Section:
    shown = [row for row in rows if row.n == 1]
    figures = []
    if drawn:
        caption = "The next task's success, B minus A, with intervals; shaded, the margin."
        bounds = np.array([_bounds(row.difference) for row in shown])
        with styled():
            axes = new_axes((_WIDTH, 0.9 + 0.4 * len(shown)))
            names = [START_WORDS[row.start] for row in shown]
            plot_differences(axes, names, *bounds.T, margin=margin)
            figures.append(_figure(axes, caption))
    return Section(
        question="Will the next task succeed more often?",
        figures=figures,
        tables=[
            Rows(
                caption=f"Success of the next task. {_MARKED}",
                header=("start", *_HEAD),
                rows=[(START_WORDS[row.start], *_cells(row)) for row in shown],
            )
        ],
        notes=_reservations(shown),
    )


def _runs(rows: list[SessionRow], *, drawn: bool) -> Section:
    shown = [row for row in rows if row.start == "continuing"]
    figures = []
    if drawn:
        caption = (
            "P(the next n tasks all succeed), continuing the last session; bars, where B lies "
            "with the stated probability, given A."
        )
        bounds = np.array([_bounds(row.difference)[1:] for row in shown])
        with styled():
            axes = new_axes((_WIDTH, 3.2))
            plot_two_runs(
                axes,
                [row.n for row in shown],
                np.array([row.a for row in shown]),
                np.array([row.b for row in shown]),
                bounds[:, 0],
                bounds[:, 1],
            )
            figures.append(_figure(axes, caption))
    return Section(
        question="Will the next n tasks all succeed more often?",
        figures=figures,
        tables=[
            Rows(
                caption=f"R(n), the probability that the next n tasks all succeed. {_MARKED}",
                header=("start", "n", *_HEAD),
                rows=[(START_WORDS[row.start], row.n, *_cells(row)) for row in rows if row.n > 1],
            )
        ],
    )


def _cells(row: SessionRow) -> tuple[str, ...]:
    return (
        f"{row.a:.3f}",
        f"{row.b:.3f}",
        difference_cell(row.difference),
        f"{row.chance_better:.3f}",
    )


def _reservations(rows: list[SessionRow]) -> list[str]:
    """Return why differences are inconclusive, what the answer says already left out."""
    told = {reason for row in rows if row.start == "long_run" for reason in row.difference.reasons}
    found = dict.fromkeys(
        reason for row in rows for reason in row.difference.reasons if reason not in told
    )
    return [f"{reason[:1].upper()}{clean(reason[1:], limit=300)}." for reason in found]


def _bounds(estimate: Estimate) -> tuple[float, float, float]:
    if estimate.value is None or estimate.interval is None:
        return (np.nan,) * 3
    return estimate.value, estimate.interval.low, estimate.interval.high


def _figure(axes: Axes, caption: str) -> Figure:
    from markupsafe import Markup

    return Figure(svg=Markup(to_svg(axes, description=caption)), caption=caption)
