"""Figures: plain arrays in, matplotlib axes out."""

from __future__ import annotations

from sojourn.plots.style import new_axes, styled, to_svg
from sojourn.plots.traces import (
    plot_attempts,
    plot_incidence,
    plot_lengths,
    plot_task_histogram,
)

__all__ = [
    "new_axes",
    "plot_attempts",
    "plot_incidence",
    "plot_lengths",
    "plot_task_histogram",
    "styled",
    "to_svg",
]
