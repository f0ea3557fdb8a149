"""Figures: plain arrays in, matplotlib axes out."""

from __future__ import annotations

from sojourn.plots.chains import plot_chain, plot_fit, plot_null_draws
from sojourn.plots.sessions import plot_positions, plot_success_run
from sojourn.plots.style import new_axes, new_row, styled, to_svg
from sojourn.plots.traces import (
    plot_attempts,
    plot_incidence,
    plot_lengths,
    plot_task_histogram,
)

__all__ = [
    "new_axes",
    "new_row",
    "plot_attempts",
    "plot_chain",
    "plot_fit",
    "plot_incidence",
    "plot_lengths",
    "plot_null_draws",
    "plot_positions",
    "plot_success_run",
    "plot_task_histogram",
    "styled",
    "to_svg",
]
