"""The figures of forecasts show the numbers that they are given."""

from __future__ import annotations

import numpy as np

from sojourn.plots.forecast import plot_calibration, plot_fixes
from sojourn.plots.style import new_axes, styled, to_svg


def test_calibration_shows_every_bin() -> None:
    forecast, observed = np.array([0.2, 0.6]), np.array([0.25, 0.5])
    with styled():
        ax = plot_calibration(
            new_axes(), forecast, observed, observed - 0.1, observed + 0.1, np.array([30, 60])
        )
        marks = ax.collections[-1].get_offsets()
        svg = to_svg(ax, description="calibration")
    np.testing.assert_allclose(marks, np.column_stack((forecast, observed)))
    assert svg.startswith("<svg")


def test_fixes_have_two_bars_a_state_the_first_on_top() -> None:
    value = np.array([0.3, 0.1])
    missing = np.array([np.nan, 0.05])
    with styled():
        ax = plot_fixes(
            new_axes(),
            ["<b>tool</b>", "$x^2$ \x1b"],
            (value, value - 0.02, value + 0.02),
            (missing, missing - 0.01, missing + 0.01),
        )
        svg = to_svg(ax, description="fixes")
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [0.3, 0.1, np.nan, 0.05])
    heights = [bar.get_y() for bar in ax.patches[:2]]
    assert heights[0] > heights[1]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["<b>tool</b>", "$x^2$ ?"]
    assert "<b>" not in svg


def test_withheld_bars_have_no_entry_in_the_legend() -> None:
    value = np.array([0.3, 0.1])
    nothing = np.full(2, np.nan)
    with styled():
        ax = plot_fixes(new_axes(), ["a", "b"], (value, value, value), (nothing, nothing, nothing))
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["if they succeeded"]
