"""The figures of a chain: its curves over the observed ones, its graph, and its test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, GREY, INK, ORANGE, PURPLE, legend_above, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_chain", "plot_fit", "plot_null_draws"]

Floats = npt.NDArray[np.float64]

_MIN_FLOW = 0.02


def plot_fit(
    ax: Axes,
    observed: tuple[Floats, Floats],
    fitted: tuple[Floats, Floats],
    bands: tuple[tuple[Floats, Floats], tuple[Floats, Floats]],
    *,
    margin: float,
    errors: tuple[float, float],
) -> Axes:
    """Draw the fitted curves of success and failure over the observed ones.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    observed, fitted : (success, failure), each of shape (n_steps + 1,)
        Aalen-Johansen estimate and the chain's curve at d = 0 .. n_steps.
    bands : (success, failure), each (low, high)
        Simultaneous bands of the fitted curves.
    margin : float
        The error that is of no matter.
    errors : (success, failure)
        Upper bounds of the curves' errors.
    """
    steps = np.arange(observed[0].size)
    for name, colour, seen, curve, (low, high), error in zip(
        ("success", "failure"), (BLUE, ORANGE), observed, fitted, bands, errors, strict=True
    ):
        ax.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        ax.step(steps, seen, where="post", color=colour, label=f"{name}, observed")
        label = f"{name}, chain (off by < {error:.2f})"
        ax.plot(steps, curve, color=colour, linestyle="--", linewidth=1.5, label=label)
    ax.set_xlim(0, max(int(steps[-1]), 1))
    ax.set_ylim(0, 1)
    ax.set_xlabel("steps d")
    ax.set_ylabel("share of runs within d steps")
    ax.text(0.99, 0.99, f"margin {margin:.2f}", transform=ax.transAxes, ha="right", va="top")
    legend_above(ax)
    return ax


def plot_null_draws(
    axes: Sequence[Axes],
    names: Sequence[str],
    draws: Sequence[Floats],
    observed: Sequence[float],
    p_values: Sequence[float],
) -> None:
    """Draw, for each statistic of a test, its values under the null and the observed one.

    Parameters
    ----------
    axes : sequence of Axes
        One for each statistic.
    names : sequence of str
        Their names.
    draws : sequence of ndarray of shape (n_draws,)
        Values of the drawn corpora.
    observed, p_values : sequence of float
        The observed value and its p-value.
    """
    for ax, name, values, seen, p in zip(axes, names, draws, observed, p_values, strict=True):
        ax.hist(values, bins=30, color=GREY, alpha=0.6)
        ax.axvline(seen, color=ORANGE, linewidth=2)
        shown = "p < .01" if p < 0.01 else f"p = {p:.2f}"
        ax.set_title(f"{plain_label(name)}: {shown}", fontsize=8.5)
        ax.set_yticks([])
        ax.tick_params(axis="x", labelsize=7)
        ax.locator_params(axis="x", nbins=4)
        ax.spines["left"].set_visible(False)
        ax.grid(visible=False)


def plot_chain(
    ax: Axes,
    names: Sequence[str],
    start: Floats,
    transient: Floats,
    to_success: Floats,
    to_failure: Floats,
    visits: Floats,
) -> Axes:
    """Draw a chain as a graph: states on a circle, arrows as wide as the flow along them.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    names : sequence of str
        Names of the m states.
    start : ndarray of shape (m,)
        P(first state).
    transient : ndarray of shape (m, m)
        One-step probabilities between states.
    to_success, to_failure : ndarray of shape (m,)
        One-step probabilities of the ends.
    visits : ndarray of shape (m,)
        Expected visits of a run to each state.
    """
    m = len(names)
    # An arc that is open to the right, where the ends are; the most visited state at the left.
    turn = np.array([(-1) ** i * ((i + 1) // 2) for i in range(m)]) / max(m - 1, 1)
    angles = np.pi + 1.56 * np.pi * turn
    place = [(float(np.cos(a)), float(np.sin(a))) for a in angles]
    ends = {"success": ((1.75, 0.4), BLUE), "failure": ((1.75, -0.4), ORANGE)}
    flow = visits[:, None] * np.column_stack([transient, to_success, to_failure])
    widest = float(flow.max(initial=0.0)) or 1.0
    targets = [*place, ends["success"][0], ends["failure"][0]]
    colours = [*([INK] * m), BLUE, ORANGE]
    for i, j in zip(*np.nonzero(flow >= _MIN_FLOW * widest), strict=True):
        if i != j:
            _arrow(ax, place[i], targets[j], float(flow[i, j]) / widest, colours[j])
    size = 90 + 700 * visits / max(float(visits.max(initial=0.0)), 1e-12)
    across, up = np.array(place).T
    ax.scatter(across, up, s=size, color=PURPLE, zorder=3)
    for (x, y), name, first, stay in zip(place, names, start, np.diag(transient), strict=True):
        words = plain_label(name) + (f"\nstays {stay:.2f}" if stay >= 0.05 else "")
        words += f"\nstarts {first:.2f}" if first >= 0.05 else ""
        side = "center" if abs(x) < 0.3 else "left" if x > 0 else "right"
        ax.annotate(words, (1.2 * x, 1.22 * y), ha=side, va="center", fontsize=7.5, zorder=4)
    for name, ((x, y), colour) in ends.items():
        ax.scatter([x], [y], s=260, marker="s", color=colour, zorder=3)
        ax.annotate(name, (x, y - 0.2), ha="center", va="top", fontsize=9)
    ax.set_xlim(-2.2, 2.2)
    ax.set_ylim(-1.45, 1.45)
    ax.set_axis_off()
    return ax


def _arrow(
    ax: Axes, source: tuple[float, float], target: tuple[float, float], share: float, colour: str
) -> None:
    from matplotlib.patches import FancyArrowPatch

    ax.add_patch(
        FancyArrowPatch(
            source,
            target,
            connectionstyle="arc3,rad=0.18",
            arrowstyle="-|>",
            mutation_scale=7 + 5 * share,
            shrinkA=8,
            shrinkB=10,
            linewidth=0.4 + 4.5 * share,
            color=colour,
            alpha=0.35 + 0.5 * share,
            zorder=2,
        )
    )
