"""The figures of a chain: its curves over the observed ones, its graph, and its test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    legend_above,
    plain_label,
    with_last_step,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_chain", "plot_fit", "plot_null_draws"]

Floats = npt.NDArray[np.float64]

_MIN_FLOW = 0.02
# With fewer different values than this under the null, each has its own bar.
_FEW_VALUES = 12
_LABEL_SIZE = 7.5
_LABEL_WIDTH = 16


def plot_fit(
    ax: Axes,
    observed: tuple[Floats, Floats],
    fitted: tuple[Floats, Floats],
    bands: tuple[tuple[Floats, Floats], tuple[Floats, Floats]],
    *,
    margin: float,
    errors: tuple[float, float],
    process: str = "chain",
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
    process : str
        What the fitted curves are called.
    """
    steps = with_last_step(np.arange(observed[0].size))
    for name, colour, seen, curve, (low, high), error in zip(
        ("success", "failure"), (BLUE, ORANGE), observed, fitted, bands, errors, strict=True
    ):
        real, model, under, over = (np.append(c, c[-1:]) for c in (seen, curve, low, high))
        ax.fill_between(steps, under, over, step="post", color=colour, alpha=0.15, linewidth=0)
        ax.step(
            steps, real, where="post", color=colour, linewidth=3, alpha=0.5,
            label=f"{name}, observed",
        )  # fmt: skip
        label = f"{name}, {process}: off by < {_rounded_up(error):.3f}"
        ax.step(
            steps, model, where="post", color=colour, linestyle="--", linewidth=1.5, label=label
        )
    ax.set_xlim(0, int(steps[-1]))
    ax.set_ylim(0, 1)
    ax.set_xlabel("steps d")
    ax.set_ylabel("share of runs within d steps")
    legend_above(ax, title=f"the margin of error is {margin:.2f}", columns=1)
    return ax


def _rounded_up(bound: float) -> float:
    """Return a bound at three decimals, never below what it bounds."""
    return float(np.ceil(round(bound * 1000, 6)) / 1000)


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
        _draw_null(ax, values)
        ax.axvline(seen, color=ORANGE, linewidth=2)
        shown = "p < .001" if p < 0.001 else f"p = {p:.3f}"
        ax.set_title(f"{plain_label(name)}\n{shown}", fontsize=9)
        ax.set_yticks([])
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=3)
        ax.spines["left"].set_visible(False)
        ax.grid(visible=False)


def _draw_null(ax: Axes, values: Floats) -> None:
    """Draw the null's values: bins, or a thin bar a value where there are few different ones."""
    # Equal statistics may differ in their last bits.
    distinct, n = np.unique(values.round(12), return_counts=True)
    if distinct.size > _FEW_VALUES:
        ax.hist(values, bins=30, histtype="stepfilled", color=GREY, alpha=0.6)
        return
    ax.vlines(distinct, 0, n, color=GREY, alpha=0.6, linewidth=5)
    ax.set_ylim(0, None)
    if distinct.size == 1:
        pad = max(abs(float(distinct[0])), 1.0)
        ax.set_xlim(float(distinct[0]) - pad, float(distinct[0]) + pad)


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
    # An arc that is open below, where the ends are; the most visited state on top.
    turn = np.array([(-1) ** i * ((i + 1) // 2) for i in range(m)]) / max(m - 1, 1)
    angles = np.pi / 2 + 1.56 * np.pi * turn
    place = [(float(np.cos(a)), float(np.sin(a))) for a in angles]
    ends = {"success": ((-0.45, -1.5), BLUE), "failure": ((0.45, -1.5), ORANGE)}
    flow = visits[:, None] * np.column_stack([transient, to_success, to_failure])
    widest = float(flow.max(initial=0.0)) or 1.0
    targets = [*place, ends["success"][0], ends["failure"][0]]
    colours = [*([INK] * m), BLUE, ORANGE]
    for i, j in zip(*np.nonzero(flow >= _MIN_FLOW * widest), strict=True):
        if i != j:
            _arrow(ax, place[i], targets[j], float(flow[i, j]) / widest, colours[j])
    size = 60 + 440 * visits / max(float(visits.max(initial=0.0)), 1e-12)
    across, up = np.array(place).T
    ax.scatter(across, up, s=size, color=PURPLE, zorder=3)
    for name, ((x, y), colour) in ends.items():
        ax.scatter([x], [y], s=200, marker="s", color=colour, zorder=3)
        ax.annotate(name, (x, y - 0.13), ha="center", va="top", fontsize=9)
    ax.set_xlim(-2.5, 2.5)
    ax.set_ylim(-1.9, 1.3)
    ax.set_axis_off()
    labels = [
        _state_label(name, float(first), float(stay))
        for name, first, stay in zip(names, start, np.diag(transient), strict=True)
    ]
    # The top state stands where the fewest labels are.
    right = np.where(np.abs(across) < 0.1, np.sum(across > 0.1) < np.sum(across < -0.1), across > 0)
    for side in (False, True):
        _label_side(ax, [(*place[i], labels[i]) for i in np.flatnonzero(right == side)], side)
    return ax


def _state_label(name: str, first: float, stay: float) -> str:
    """Return a state's name, broken where it is long, and what else is seen of it."""
    lines = _broken(plain_label(name, limit=30))
    lines += [f"starts {first:.2f}"] if first >= 0.05 else []
    lines += [f"stays {stay:.2f}"] if stay >= 0.05 else []
    return "\n".join(lines)


def _broken(text: str) -> list[str]:
    """Break a long label into two lines, after a mark between words near its middle if it can."""
    if len(text) <= _LABEL_WIDTH:
        return [text]
    marks = [i + 1 for i, c in enumerate(text[:-1]) if c in "_-. /:"]
    at = min(marks, key=lambda i: abs(i - len(text) / 2), default=len(text) // 2)
    if max(at, len(text) - at) > _LABEL_WIDTH + 4:
        at = len(text) // 2
    return [text[:at], text[at:]]


def _label_side(ax: Axes, nodes: list[tuple[float, float, str]], right: bool) -> None:
    """Write the labels of one side under each other, none over another, with a line to each."""
    nodes.sort(key=lambda node: -node[1])
    bottom, top = ax.get_ylim()
    inches = ax.get_window_extent().height / ax.figure.dpi
    line = _LABEL_SIZE * 1.3 / 72 / inches * (top - bottom)
    heights = [line * (label.count("\n") + 1.5) for _, _, label in nodes]
    across = 1.32 if right else -1.32
    for (x, y, label), middle in zip(
        nodes, _spread([y for _, y, _ in nodes], heights, bottom, top), strict=True
    ):
        ax.plot([x, 0.98 * across], [y, middle], color=GREY, linewidth=0.7, zorder=1)
        ax.text(
            across, middle, label, ha="left" if right else "right", va="center",
            fontsize=_LABEL_SIZE, linespacing=1.1, zorder=4,
        )  # fmt: skip


def _spread(wanted: list[float], heights: list[float], bottom: float, top: float) -> list[float]:
    """Return places near the wanted ones, from the top down, that leave each its height."""
    places: list[float] = []
    edge = top
    for y, height in zip(wanted, heights, strict=True):
        places.append(min(y, edge - height / 2))
        edge = places[-1] - height / 2
    edge = bottom
    for i in reversed(range(len(places))):
        places[i] = max(places[i], edge + heights[i] / 2)
        edge = places[i] + heights[i] / 2
    return places


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
            linewidth=0.9 + 4 * share,
            color=colour,
            alpha=0.5 + 0.45 * share if colour == INK else 0.75 + 0.25 * share,
            zorder=2,
        )
    )
