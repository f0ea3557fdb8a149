"""The figures of sessions: plain arrays in, axes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sojourn.plots.style import BLUE, GREY, INK, ORANGE, PURPLE, legend_above, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_densities", "plot_positions", "plot_success_run", "plot_trace"]

Floats = npt.NDArray[np.float64]

# More sessions than this are too thin to read; the last ones are shown.
MAX_SESSIONS = 6
_TASKS_A_ROW = 80
_MAX_LINES = 8


def plot_success_run(
    ax: Axes,
    n: npt.NDArray[np.int64],
    model: tuple[Floats, Floats, Floats],
    independent: tuple[Floats, Floats, Floats],
    *,
    seen: tuple[Sequence[int], Sequence[float]] = ((), ()),
    average: tuple[Sequence[int], Sequence[float]] = ((), ()),
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
    average : (n, value)
        The stacked average over numbers of states.
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
    if len(average[0]):
        ax.plot(*average, "x", color=PURPLE, markersize=6, label="average of models")
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


def plot_densities(ax: Axes, curves: Sequence[tuple[str, str, Floats, Floats]]) -> Axes:
    """Draw the posterior densities of the next task's success, one line each.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    curves : sequence of (label, level, x, density)
        ``system`` and ``domain`` are drawn broad, subdomains thin; at most eight subdomains, those
        given first.
    """
    whole = [curve for curve in curves if curve[1] != "subdomain"]
    parts = [curve for curve in curves if curve[1] == "subdomain"][:_MAX_LINES]
    for i, (label, _, x, density) in enumerate(parts):
        ax.plot(
            x,
            density,
            color=(ORANGE, PURPLE, GREY, INK)[i % 4],
            linestyle=("-", "--")[i // 4],
            linewidth=1.1,
            label=plain_label(label, limit=18),
        )
    for label, level, x, density in whole:
        colour = INK if level == "system" else BLUE
        ax.plot(x, density, color=colour, linewidth=2.4, label=plain_label(label, limit=18))
        ax.fill_between(x, 0.0, density, color=colour, alpha=0.15, linewidth=0)
    ax.set_xlabel("success of the next task")
    ax.set_ylabel("posterior density")
    ax.set_xlim(0, 1)
    # A subdomain that never fails would flatten all the others.
    top = max(float(density.max()) for *_, density in whole or parts)
    every = max(float(density.max()) for *_, density in [*whole, *parts])
    ax.set_ylim(0, 1.05 * min(every, 2.5 * top))
    legend_above(ax)
    return ax


def plot_trace(
    ax: Axes,
    success: npt.NDArray[np.int8],
    offsets: npt.NDArray[np.int64],
    states: Floats | None,
) -> Axes:
    """Draw outcomes in their order, a strip a session, and the states' probabilities beneath.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    success : ndarray of shape (n_tasks,)
        1, 0, or -1 where unknown.
    offsets : ndarray of shape (n_sessions + 1,)
        Where sessions begin and end. The last six that have tasks are drawn; a session of more
        than 80 tasks is drawn in several rows.
    states : ndarray of shape (n_tasks, n_states) or None
        P(state of each task | all data), the state that succeeds most first.
    """
    rows = trace_rows(offsets)
    for place, (_, first, last) in enumerate(rows):
        _strip(
            ax, -2.0 * place, success[first:last], None if states is None else states[first:last]
        )
    ax.set_xlim(0, max(last - first for _, first, last in rows))
    ax.set_ylim(-2.0 * (len(rows) - 1) - 1.15, 0.95)
    ax.set_yticks([-2.0 * place - 0.1 for place in range(len(rows))])
    starts = [first - int(offsets[name - 1]) for name, first, _ in rows]
    ax.set_yticklabels(
        [f"+{at}" if at else f"{name}" for (name, _, _), at in zip(rows, starts, strict=True)]
    )
    ax.set_xlabel("task of the session (+ where the row begins)" if any(starts) else "task")
    ax.set_ylabel("session")
    ax.grid(visible=False)
    _trace_legend(ax, 0 if states is None else states.shape[1])
    _whole_numbers(ax.xaxis)
    return ax


def trace_rows(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return the rows of `plot_trace`: the session's number, first task, one past the last."""
    used = [r for r in range(offsets.size - 1) if offsets[r + 1] > offsets[r]]
    rows = []
    for r in used[-MAX_SESSIONS:]:
        start, end = int(offsets[r]), int(offsets[r + 1])
        for first in range(start, end, _TASKS_A_ROW):
            rows.append((r + 1, first, min(first + _TASKS_A_ROW, end)))
    return rows[-2 * MAX_SESSIONS :]


def _strip(ax: Axes, base: float, success: npt.NDArray[np.int8], states: Floats | None) -> None:
    """Draw one row: success above the line, failure below it, states stacked beneath."""
    x = np.arange(success.size)
    won, lost = x[success == 1], x[success == 0]
    ax.vlines(won + 0.5, base + 0.35, base + 0.8, color=BLUE, linewidth=1.3)
    ax.vlines(lost + 0.5, base + 0.0, base + 0.45, color=ORANGE, linewidth=1.3)
    if states is None:
        return
    edges = np.arange(success.size + 1)
    floor = np.full(success.size + 1, base - 1.0)
    # The state that succeeds most on top, as successes are.
    for s in reversed(range(states.shape[1])):
        share = 0.8 * np.append(states[:, s], states[-1, s])
        ax.fill_between(
            edges, floor, floor + share, step="post", color=_state_colour(s), linewidth=0,
            alpha=_state_alpha(s, states.shape[1]),
        )  # fmt: skip
        floor = floor + share


def _state_colour(state: int) -> str:
    return (BLUE, GREY, PURPLE, ORANGE)[state % 4]


def _state_alpha(state: int, n_states: int) -> float:
    return 0.85 if state in (0, n_states - 1) else 0.6


def _trace_legend(ax: Axes, n_states: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def tick(colour: str, label: str) -> Line2D:
        return Line2D([], [], color=colour, marker="|", linestyle="", markersize=9, label=label)

    marks: list[Any] = [tick(BLUE, "success"), tick(ORANGE, "failure")]
    marks += [
        Patch(color=_state_colour(s), alpha=_state_alpha(s, n_states), label=f"state {s + 1}")
        for s in range(n_states)
    ]
    ax.legend(
        handles=marks,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        borderaxespad=0.2,
    )


def _whole_numbers(axis: Any) -> None:
    """Let an axis of counts have ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins="auto"))
