"""The one figure that ``.plot()`` draws of each result; the drawing is in `sojourn.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sojourn.assess.comparison_results import Comparison, ComparisonFamily
from sojourn.assess.figures import available_figures, draw
from sojourn.assess.gate import Gate
from sojourn.assess.results import GroupedAssessment, TraceAssessment
from sojourn.assess.rules import Rule
from sojourn.assess.session_comparison import START_WORDS, SessionComparison
from sojourn.assess.session_results import GroupedSessionAssessment
from sojourn.errors import RuleError
from sojourn.estimates import Estimate
from sojourn.plots import new_axes, styled
from sojourn.plots.comparison import plot_differences
from sojourn.plots.results import plot_estimates
from sojourn.plots.style import plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_result"]

_WIDTH, _ROW, _MARGINS = 4.8, 0.3, 0.9
_LABEL = 32


@singledispatch
def draw_result(result: Any, ax: Axes | None) -> Axes:
    """Draw the figure that says most of a result.

    Raises
    ------
    ValueError
        If nothing in it has a value.
    """
    raise TypeError(f"{type(result).__name__} has no figure")


@draw_result.register(TraceAssessment)
def _(result: TraceAssessment, ax: Axes | None) -> Axes:
    there = available_figures(result)
    for figure in ("success_within", "attempts"):
        if figure in there:
            return draw(result, figure, ax)
    return _rates((result,), ax)


@draw_result.register(GroupedAssessment)
def _(result: GroupedAssessment, ax: Axes | None) -> Axes:
    groups = result.groups
    return draw_result(groups[0], ax) if len(groups) == 1 else _rates(groups, ax)


def _rates(groups: Sequence[TraceAssessment], ax: Axes | None) -> Axes:
    rows = [(str(group.group), group.rates.success_rate) for group in groups]
    return _estimates(rows, "success rate", ax)


@draw_result.register(GroupedSessionAssessment)
def _(result: GroupedSessionAssessment, ax: Axes | None) -> Axes:
    if len(result) == 1:
        return result.groups[0].plot(ax)
    rows = [
        (
            f"{group.group}: {domain.name}" if len(group.domains) > 1 else str(group.group),
            domain.reliability.next_task,
        )
        for group in result
        for domain in group.domains
    ]
    return _estimates(rows, "P(next task succeeds)", ax)


@draw_result.register(Comparison)
def _(result: Comparison, ax: Axes | None) -> Axes:
    same = result.estimand == "same_tasks"
    rows = [
        (
            row.name,
            row.same_tasks if same and row.same_tasks is not None else row.population,
        )
        for row in result.rows
        if not row.name.startswith("mean steps")
    ]
    return _differences(rows, result.margin, ax)


@draw_result.register(ComparisonFamily)
def _(result: ComparisonFamily, ax: Axes | None) -> Axes:
    if len(result) == 1:
        return draw_result(result.comparisons[0], ax)
    rows = [(pair.name_b, pair.decided_by) for pair in result]
    return _differences(rows, result.comparisons[0].margin, ax)


@draw_result.register(SessionComparison)
def _(result: SessionComparison, ax: Axes | None) -> Axes:
    several = len(result.answers) > 1
    rows = [
        (
            f"{f'{row.domain}, ' if several else ''}{START_WORDS[row.start]}, n = {row.n}",
            row.difference,
        )
        for row in result.rows
    ]
    return _differences(rows, result.margin, ax)


@draw_result.register(Gate)
def _(result: Gate, ax: Axes | None) -> Axes:
    """Draw the figures that are probabilities, each beside the threshold of its rule."""
    several = len({item.rule for item in result.results}) < len(result.results)
    rows, bounds = [], []
    for item in result.results:
        rule = _asked(item.rule)
        if item.estimate is None or rule is None or rule.name.endswith("_steps"):
            continue
        rows.append((f"{item.rule}, {item.group}" if several else item.rule, item.estimate))
        bounds.append(rule.bound)
    return _estimates(rows, "figure, and its threshold", ax, bounds)


def _asked(text: str) -> Rule | None:
    """Return a rule on one figure; None for one on a baseline or on single tasks."""
    try:
        return Rule.parse(text)
    except RuleError:
        return None


def _estimates(
    rows: Sequence[tuple[str, Estimate]],
    label: str,
    ax: Axes | None,
    thresholds: Sequence[float] | None = None,
) -> Axes:
    bounds = _bounds(rows)
    with styled():
        axes = _axes(ax, len(rows))
        names = [plain_label(name, limit=_LABEL) for name, _ in rows]
        return plot_estimates(axes, names, *bounds, label=label, thresholds=thresholds)


def _differences(rows: Sequence[tuple[str, Estimate]], margin: float, ax: Axes | None) -> Axes:
    bounds = _bounds(rows)
    with styled():
        names = [plain_label(name, limit=_LABEL) for name, _ in rows]
        return plot_differences(_axes(ax, len(rows)), names, *bounds, margin=margin)


def _axes(ax: Axes | None, n_rows: int) -> Axes:
    return new_axes((_WIDTH, _MARGINS + _ROW * n_rows)) if ax is None else ax


def _bounds(rows: Sequence[tuple[str, Estimate]]) -> npt.NDArray[np.float64]:
    """Return value, low and high as rows, NaN where there is none.

    Raises
    ------
    ValueError
        If no figure has a value.
    """
    found = np.full((3, len(rows)), np.nan)
    for place, (_, estimate) in enumerate(rows):
        if estimate.value is not None:
            found[0, place] = estimate.value
        if estimate.interval is not None:
            found[1:, place] = estimate.interval.low, estimate.interval.high
    if np.isnan(found[0]).all():
        raise ValueError("nothing in this result has a value that could be drawn")
    return found
