"""The figures of a comparison: differences with their intervals, and the curves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, GREY, INK, ORANGE, legend_above, with_last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_differences", "plot_two_curves", "plot_two_runs"]

Floats = npt.NDArray[np.float64]


def plot_differences(
    ax: Axes,
    names: Sequence[str],
    value: Floats,
    low: Floats,
    high: Floats,
    *,
    margin: float | None = None,
) -> Axes:
    """Draw differences as dots with intervals, one a row from the top, 0 marked.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    names : sequence of str
        What differs.
    value, low, high : ndarray of shape (n,)
        B minus A and its interval; NaN where there is none.
    margin : float, optional
        Differences within it are shaded as of no matter.
    """
    place = np.arange(len(names))[::-1]
    if margin is not None:
        ax.axvspan(-margin, margin, color=GREY, alpha=0.2, linewidth=0)
    ax.axvline(0.0, color=INK, linewidth=1)
    ax.hlines(place, low, high, color=BLUE, linewidth=2)
    ax.plot(value, place, "o", color=BLUE, markersize=6)
    ax.set_yticks(place, names)
    ax.set_xlabel("B minus A")
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(visible=False, axis="y")
    return ax


def plot_two_curves(ax: Axes, a: Floats, b: Floats, low: Floats, high: Floats) -> Axes:
    """Draw two curves of success within d steps, and the interval of their difference around A's.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    a, b : ndarray of shape (horizon + 1,)
        The curves.
    low, high : ndarray of shape (horizon + 1,)
        Pointwise interval of b - a; A's curve plus it is shaded.
    """
    steps = with_last_step(np.arange(a.size))
    one, two = (np.append(curve, curve[-1:]) for curve in (a, b))
    under, over = (np.append(curve, curve[-1:]) for curve in (low, high))
    ax.fill_between(
        steps,
        np.clip(one + under, 0, 1),
        np.clip(one + over, 0, 1),
        step="post",
        color=BLUE,
        alpha=0.18,
        linewidth=0,
    )
    ax.step(steps, one, where="post", color=ORANGE, label="A")
    ax.step(steps, two, where="post", color=BLUE, label="B")
    ax.set_xlabel("steps d")
    ax.set_ylabel("success within d steps")
    ax.set_ylim(0, 1)
    ax.set_xlim(0, int(steps[-1]))
    legend_above(ax)
    return ax


def plot_two_runs(
    ax: Axes, n: Sequence[int], a: Floats, b: Floats, low: Floats, high: Floats
) -> Axes:
    """Draw P(the next n tasks all succeed) of two logs, and the interval of their difference.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    n : sequence of int
        Numbers of tasks.
    a, b : ndarray of shape (len(n),)
        The probabilities.
    low, high : ndarray of shape (len(n),)
        Interval of b - a; the bars are A's probability plus it.
    """
    ax.vlines(n, np.clip(a + low, 0, 1), np.clip(a + high, 0, 1), color=BLUE, alpha=0.35, lw=4)
    ax.plot(n, a, "s--", color=ORANGE, markersize=5, label="A")
    ax.plot(n, b, "o-", color=BLUE, markersize=5, label="B")
    ax.set_xlabel("tasks n")
    ax.set_ylabel("P(next n tasks all succeed)")
    ax.set_ylim(0, 1)
    ax.set_xlim(0, max(n) + 0.5)
    legend_above(ax)
    return ax
