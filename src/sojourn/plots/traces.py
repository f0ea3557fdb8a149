"""The figures of runs: plain arrays in, axes out; reports and ``.plot()`` both draw with these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, GREY, INK, ORANGE, legend_above, with_last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["plot_attempts", "plot_incidence", "plot_lengths", "plot_task_histogram"]

Floats = npt.NDArray[np.float64]


def plot_incidence(
    ax: Axes,
    steps: npt.NDArray[np.int64],
    success: tuple[Floats, Floats, Floats],
    failure: tuple[Floats, Floats, Floats],
    *,
    n_supported: int,
) -> Axes:
    """Draw success and failure within d steps, with their bands.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    steps : ndarray of shape (n_points,)
        Numbers of steps d.
    success, failure : (value, low, high), each of shape (n_points,)
        The two curves and their pointwise bands.
    n_supported : int
        Points before this one are drawn solid; later ones, too few tasks deep, dotted.
    """
    edges = with_last_step(steps)
    for (value, low, high), colour, name in (
        (success, BLUE, "success"),
        (failure, ORANGE, "failure"),
    ):
        seen, under, over = (np.append(curve, curve[-1:]) for curve in (value, low, high))
        ax.fill_between(edges, under, over, step="post", color=colour, alpha=0.18, linewidth=0)
        # Fully supported, the last step has its width too; else the dotted rest goes on from it.
        n_solid = edges.size if n_supported >= steps.size else max(n_supported, 1)
        ax.step(edges[:n_solid], seen[:n_solid], where="post", color=colour, label=name)
        if n_solid < edges.size:
            rest = slice(n_solid - 1, None)
            ax.step(edges[rest], seen[rest], where="post", color=colour, linestyle=":")
    if 0 < n_supported < steps.size:
        ax.axvline(steps[n_supported - 1], color=GREY, linewidth=1, linestyle="--")
        ax.text(
            steps[n_supported - 1], 0.99, "supported to here ", ha="right", va="top", fontsize=8.5
        )
    ax.set_xlabel("steps d")
    ax.set_ylabel("share of runs within d steps")
    ax.set_ylim(0, 1)
    ax.set_xlim(0, int(edges[-1]))
    _whole_numbers(ax.xaxis)
    legend_above(ax)
    return ax


def plot_attempts(
    ax: Axes,
    k: Sequence[int],
    all_succeed: tuple[Floats, Floats, Floats],
    any_succeeds: tuple[Floats, Floats, Floats],
    rate: float,
) -> Axes:
    """Draw pass^k and pass@k against k, beside what the pooled rate alone would claim.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    k : sequence of int
        Numbers of attempts.
    all_succeed, any_succeeds : (value, low, high), each of shape (n_k,)
        pass^k and pass@k with their intervals; NaN where there is none.
    rate : float
        The pooled success rate R, for R^k and 1 - (1 - R)^k.
    """
    x = np.asarray(k, dtype=float)
    fine = np.geomspace(1, max(x[-1], 1), 60)
    for (value, low, high), colour, name, pooled in (
        (any_succeeds, BLUE, "pass@k: at least one", 1 - (1 - rate) ** fine),
        (all_succeed, ORANGE, "pass^k: all k", rate**fine),
    ):
        span = np.vstack([np.maximum(value - low, 0), np.maximum(high - value, 0)])
        ax.errorbar(
            x, value, yerr=span, fmt="o-", color=colour, label=name, capsize=3, markersize=4.5
        )
        ax.plot(fine, pooled, color=colour, linestyle=":", linewidth=1.4)
    ax.plot([], [], color=GREY, linestyle=":", label="from the pooled rate")
    ax.set_xlabel("attempts k at the same task")
    ax.set_ylabel("probability")
    ax.set_ylim(0, 1)
    if x.size > 8:
        ax.set_xscale("log", base=2)
    ax.set_xticks(x, [str(int(value)) for value in x])
    ax.minorticks_off()
    legend_above(ax)
    return ax


def plot_task_histogram(
    ax: Axes,
    observed: npt.NDArray[np.int64],
    expected: Floats,
    alike: Floats,
) -> Axes:
    """Draw how many tasks had 0 .. n successes, beside two laws.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    observed : ndarray of shape (n + 1,), int
        Tasks by their number of successes.
    expected, alike : ndarray of shape (n + 1,)
        Expected under the fitted law, and if all tasks were alike.
    """
    j = np.arange(observed.size)
    ax.bar(j, observed, width=0.7, color=BLUE, alpha=0.75, label="tasks observed")
    ax.plot(j, expected, "o-", color=INK, markersize=4, linewidth=1.2, label="beta-binomial")
    ax.plot(j, alike, "s:", color=ORANGE, markersize=4, linewidth=1.4, label="all tasks alike")
    ax.set_xlabel(f"successes in {observed.size - 1} attempts")
    ax.set_ylabel("tasks")
    if observed.size <= 12:
        ax.set_xticks(j)
    else:
        _whole_numbers(ax.xaxis)
    _whole_numbers(ax.yaxis)
    ax.grid(axis="x", visible=False)
    legend_above(ax)
    return ax


def plot_lengths(
    ax: Axes,
    labels: Sequence[str],
    quantiles: Sequence[tuple[int, int, int, int, int]],
    n_runs: Sequence[int],
) -> Axes:
    """Draw the lengths of runs by outcome and end: range, middle half and median.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    labels : sequence of str
        A name a row.
    quantiles : sequence of (min, 25 %, 50 %, 75 %, max)
        Numbers of steps of each row's runs.
    n_runs : sequence of int
        Runs of each row.
    """
    for row, (low, first, middle, third, high) in enumerate(quantiles):
        ax.plot([low, high], [row, row], color=INK, linewidth=1.1)
        if third > first:
            ax.barh(row, third - first, left=first, height=0.5, color=BLUE, alpha=0.7)
        ax.plot([middle, middle], [row - 0.25, row + 0.25], color=INK, linewidth=2)
    names = [
        f"{label}\n{count} run{'s' * (count != 1)}"
        for label, count in zip(labels, n_runs, strict=True)
    ]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.04 * max(1, *(row[-1] for row in quantiles)))
    _whole_numbers(ax.xaxis)
    ax.set_xlabel("steps (range, middle half, median)")
    ax.grid(axis="y", visible=False)
    return ax


def _whole_numbers(axis: Axis) -> None:
    """Let an axis of counts have ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins="auto"))
