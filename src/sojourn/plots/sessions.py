"""The figures of sessions: plain arrays in, axes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, GREY, INK, ORANGE, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_positions", "plot_success_run"]

Floats = npt.NDArray[np.float64]


def plot_success_run(
    ax: Axes,
    n: npt.NDArray[np.int64],
    model: tuple[Floats, Floats, Floats],
    independent: tuple[Floats, Floats, Floats],
    *,
    seen: tuple[Sequence[int], Sequence[float]] = ((), ()),
    longest: int,
) -> Axes:
    """Draw R(n), P(the next n tasks all succeed), beside what independent tasks would give.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    n : ndarray of shape (n_points,)
        Numbers of tasks.
    model, independent : (value, low, high), each of shape (n_points,)
        The two curves and their bands.
    seen : (n, share)
        Share of stretches of n tasks in the log that all succeeded.
    longest : int
        Tasks of the longest session; the model's curve is dotted beyond.
    """
    for (value, low, high), colour, name, style in (
        (independent, ORANGE, "if tasks were independent", "--"),
        (model, BLUE, "continuing the session", "-"),
    ):
        ax.fill_between(n, low, high, color=colour, alpha=0.18, linewidth=0)
        inside = n <= longest
        ax.plot(n[inside], value[inside], color=colour, linestyle=style, label=name)
        if not inside.all():
            rest = n >= min(longest, int(n[-1]))
            ax.plot(n[rest], value[rest], color=colour, linestyle=":")
    if len(seen[0]):
        ax.plot(*seen, "o", color=INK, markersize=4, label="stretches seen in the log")
    ax.set_xlabel("tasks n")
    ax.set_ylabel("P(next n tasks all succeed)")
    ax.set_ylim(0, 1)
    ax.set_xlim(1, max(int(n[-1]), 2))
    _whole_numbers(ax.xaxis)
    legend_above(ax)
    return ax


def plot_positions(
    ax: Axes,
    first: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    rate: tuple[Floats, Floats, Floats],
    overall: float,
) -> Axes:
    """Draw success over the position in the session.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    first, last : ndarray of shape (n_bins,)
        Positions of each bin, both included.
    rate : (value, low, high), each of shape (n_bins,)
        Share of successes with its interval; NaN where nothing is known.
    overall : float
        Share of successes of all.
    """
    value, low, high = rate
    known = np.isfinite(value)
    middle = ((first + last) / 2.0)[known]
    span = np.vstack([(value - low)[known], (high - value)[known]])
    ax.axhline(overall, color=GREY, linewidth=1, linestyle="--", label="all positions")
    ax.errorbar(
        middle,
        value[known],
        yerr=np.maximum(span, 0.0),
        fmt="o-",
        color=BLUE,
        capsize=3,
        markersize=4.5,
        label="at this position",
    )
    ax.set_xlabel("position in the session")
    ax.set_ylabel("share of successes")
    ax.set_ylim(0, 1)
    ax.set_xlim(0.5, float(last[-1]) + 0.5)
    _whole_numbers(ax.xaxis)
    legend_above(ax)
    return ax


def _whole_numbers(axis: Any) -> None:
    """Let an axis of counts have ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins="auto"))
