"""The figure of the k-step check: seen and foretold, lag by lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, ORANGE, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_chapman_kolmogorov"]

Floats = npt.NDArray[np.float64]


def plot_chapman_kolmogorov(
    axes: Sequence[Axes],
    names: Sequence[tuple[str, str]],
    observed: Sequence[Floats],
    intervals: Sequence[tuple[Floats, Floats]],
    predicted: Sequence[Floats],
    null_bands: Sequence[tuple[Floats, Floats]],
) -> None:
    """Draw, for pairs of an origin and a target, how often runs are at the target k steps on.

    Parameters
    ----------
    axes : sequence of Axes
        One for each pair.
    names : sequence of (str, str)
        Origin and target of each pair.
    observed, predicted : sequence of ndarray of shape (n_lags,)
        The frequency at k = 1 .. n_lags, as seen and by the powers of the chain's table; NaN
        where nothing was seen.
    intervals : sequence of (low, high), each of shape (n_lags,)
        Intervals of the observed frequencies.
    null_bands : sequence of (low, high), each of shape (n_lags,)
        Where the observed lies if the runs come from one chain; NaN where that is not known.
    """
    for ax, (origin, target), seen, (low, high), chain, (under, over) in zip(
        axes, names, observed, intervals, predicted, null_bands, strict=True
    ):
        lags = np.arange(1, seen.size + 1)
        ax.fill_between(
            lags, under, over, color=ORANGE, alpha=0.2, linewidth=0, label="range under the chain"
        )
        ax.plot(lags, chain, color=ORANGE, linestyle="--", linewidth=1.5, label="chain")
        whiskers = np.clip(np.stack((seen - low, high - seen)), 0.0, None)
        ax.errorbar(
            lags, seen, yerr=whiskers, color=BLUE, fmt="o", markersize=4, linewidth=1.2,
            label="seen",
        )  # fmt: skip
        ax.set_title(f"{plain_label(origin)} to {plain_label(target)}", fontsize=9)
        ax.set_xlim(0.5, seen.size + 0.5)
        ax.set_ylim(0, None)
        ax.set_xlabel("steps on, k")
        ax.xaxis.get_major_locator().set_params(integer=True)
    if len(axes):
        axes[0].set_ylabel("share of runs")
        handles, labels = axes[0].get_legend_handles_labels()
        figure = axes[0].figure
        figure.legend(handles, labels, loc="outside upper center", ncols=3)
