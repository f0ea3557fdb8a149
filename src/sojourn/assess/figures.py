"""Which arrays of a result go into which figure; the drawing itself is in `sojourn.plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sojourn._validation import check_choice
from sojourn.estimates import Estimate
from sojourn.plots import (
    new_axes,
    plot_attempts,
    plot_incidence,
    plot_lengths,
    plot_task_histogram,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes

    from sojourn.assess.results import TraceAssessment

__all__ = ["FIGURES", "available_figures", "draw"]

FIGURES = ("success_within", "attempts", "tasks", "lengths")


def available_figures(result: TraceAssessment) -> list[str]:
    """Return the figures that a result has the data for."""
    has = {
        "success_within": result.curves is not None,
        "attempts": result.corpus.attempts[2] > 1,
        "tasks": result.heterogeneity.p_value is not None,
        "lengths": any(row.quantiles for row in result.corpus.lengths),
    }
    return [name for name in FIGURES if has[name]]


def draw(result: TraceAssessment, figure: str, ax: Axes | None = None) -> Axes:
    """Draw one figure of a result.

    Parameters
    ----------
    result : TraceAssessment
        The result.
    figure : str
        One of `FIGURES`.
    ax : Axes, optional
        Where to draw; by default a new figure in our style.

    Raises
    ------
    ValueError
        If the result has no data for the figure.
    """
    check_choice(figure, FIGURES, name="figure")
    if figure not in available_figures(result):
        raise ValueError(f"this result has no data for the figure {figure!r}")
    if ax is not None:
        return _draw(result, figure, ax)
    with styled():
        height = 3.2 if figure != "lengths" else 1.3 + 0.5 * len(result.corpus.lengths)
        return _draw(result, figure, new_axes((4.8, height)))


def _draw(result: TraceAssessment, figure: str, ax: Axes) -> Axes:
    if figure == "success_within" and result.curves is not None:
        success, failure = result.curves.success, result.curves.failure
        return plot_incidence(
            ax,
            success.x,
            (success.value, success.low, success.high),
            (failure.value, failure.low, failure.high),
            n_supported=success.n_supported,
        )
    if figure == "attempts":
        rows = [row for row in result.attempts if not row.is_beyond]
        return plot_attempts(
            ax,
            [row.k for row in rows],
            _bars([row.all_succeed for row in rows]),
            _bars([row.any_succeeds for row in rows]),
            rows[0].pooled_all,
        )
    if figure == "tasks":
        tasks = result.heterogeneity
        return plot_task_histogram(ax, tasks.observed, tasks.expected, tasks.alike)
    lengths = [
        (f"{row.outcome}, {row.end}", row.quantiles, row.n_runs)
        for row in result.corpus.lengths
        if row.quantiles is not None
    ]
    labels, quantiles, n_runs = zip(*lengths, strict=True)
    return plot_lengths(ax, labels, quantiles, n_runs)


def _bars(
    estimates: Sequence[Estimate],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return values and bounds as arrays, NaN where there is none."""
    rows = np.array(
        [
            (
                np.nan if item.value is None else item.value,
                np.nan if item.interval is None else item.interval.low,
                np.nan if item.interval is None else item.interval.high,
            )
            for item in estimates
        ]
    )
    return rows[:, 0], rows[:, 1], rows[:, 2]
