"""Figures of several results beside each other: dots with intervals, one a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_estimates"]

Floats = npt.NDArray[np.float64]


def plot_estimates(
    ax: Axes,
    names: Sequence[str],
    value: Floats,
    low: Floats,
    high: Floats,
    *,
    label: str,
    thresholds: Sequence[float] | None = None,
) -> Axes:
    """Draw probabilities as dots with intervals, one a row from the top.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    names : sequence of str
        What each is of.
    value, low, high : ndarray of shape (n,)
        The probabilities and their intervals; NaN where there is none.
    label : str
        What they are, for the axis.
    thresholds : sequence of float, optional
        What each is held against, as a mark in its row.
    """
    place = np.arange(len(names))[::-1]
    ax.hlines(place, low, high, color=BLUE, linewidth=2)
    ax.plot(value, place, "o", color=BLUE, markersize=6)
    if thresholds is not None:
        ax.plot(thresholds, place, "|", color=ORANGE, markersize=14, markeredgewidth=2)
    ax.set_yticks(place, names)
    ax.set_xlabel(label)
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.grid(visible=False, axis="y")
    return ax
