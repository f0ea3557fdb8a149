"""Figures of forecasts and fixes: plain arrays in, axes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, GREY, ORANGE, legend_above, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration", "plot_fixes"]

Floats = npt.NDArray[np.float64]


def plot_calibration(
    ax: Axes,
    forecast: Floats,
    observed: Floats,
    low: Floats,
    high: Floats,
    n: npt.NDArray[np.int64],
) -> Axes:
    """Draw what came of forecasts against the forecasts; on the diagonal they are right.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    forecast, observed : ndarray of shape (n_bins,)
        Mean forecast of each bin, and the share that succeeded.
    low, high : ndarray of shape (n_bins,)
        Interval of the share.
    n : ndarray of shape (n_bins,)
        Forecasts in each bin; their number is the size of the mark.
    """
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.2, label="calibrated")
    span = np.vstack([np.maximum(observed - low, 0), np.maximum(high - observed, 0)])
    ax.errorbar(
        forecast, observed, yerr=span, fmt="none", ecolor=BLUE, elinewidth=1.2, capsize=3, alpha=0.8
    )
    size = 20 + 80 * np.asarray(n, dtype=float) / max(float(np.max(n, initial=1)), 1.0)
    ax.scatter(forecast, observed, s=size, color=BLUE, zorder=3, label="held-out runs")
    ax.set_xlabel("forecast P(success)")
    ax.set_ylabel("share that succeeded")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    legend_above(ax)
    return ax


def plot_fixes(
    ax: Axes,
    names: Sequence[str],
    gain: tuple[Floats, Floats, Floats],
    continued: tuple[Floats, Floats, Floats],
) -> Axes:
    """Draw what mending the failures of each state would be worth.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    names : sequence of str
        The states, the most valuable first.
    gain, continued : (value, low, high), each of shape (n_states,)
        Increase of P(success) if failures there succeeded, or went on; NaN where there is none.
    """
    place = np.arange(len(names), dtype=float)[::-1]
    for (value, low, high), colour, shift, label in (
        (gain, ORANGE, 0.19, "if they succeeded"),
        (continued, BLUE, -0.19, "if they went on"),
    ):
        if np.isnan(value).all():
            continue  # withheld: no bar, and no entry of the legend
        span = np.vstack([np.maximum(value - low, 0), np.maximum(high - value, 0)])
        ax.barh(place + shift, value, height=0.36, color=colour, alpha=0.75, label=label)
        ax.errorbar(value, place + shift, xerr=span, fmt="none", ecolor=GREY, capsize=2)
    ax.set_yticks(place, [plain_label(name) for name in names])
    ax.set_xlabel("gain in P(success)")
    ax.set_xlim(left=0)
    legend_above(ax, columns=1)
    return ax
