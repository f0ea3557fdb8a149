"""The k-step figure holds the numbers that it is given."""

from __future__ import annotations

import numpy as np

from sojourn.plots.chapman_kolmogorov import plot_chapman_kolmogorov
from sojourn.plots.style import new_row, styled, to_svg


def test_points_whiskers_and_band_are_the_given_numbers() -> None:
    seen = np.array([0.5, 0.4, np.nan])
    low, high = np.array([0.4, 0.3, np.nan]), np.array([0.6, 0.55, np.nan])
    chain = np.array([0.5, 0.3, 0.2])
    band = (np.array([np.nan, 0.2, 0.1]), np.array([np.nan, 0.4, 0.3]))
    with styled():
        axes = new_row(2, (6.0, 3.0))
        plot_chapman_kolmogorov(
            axes, [("a", "b"), ("start", "success")], [seen] * 2, [(low, high)] * 2, [chain] * 2,
            [band] * 2,
        )  # fmt: skip
        ax = axes[0]
        lines = {line.get_label(): line for line in ax.get_lines()}
        np.testing.assert_array_equal(lines["chain"].get_ydata(), chain)
        bars = ax.containers[0]
        np.testing.assert_array_equal(bars.lines[0].get_ydata(), seen)
        segments = bars.lines[2][0].get_segments()
        np.testing.assert_allclose([s[:, 1] for s in segments[:2]], [[0.4, 0.6], [0.3, 0.55]])
        assert ax.get_title() == "a to b"
        assert axes[1].get_title() == "start to success"
        filled = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert filled.min() == 0.1
        assert filled.max() == 0.4
        assert to_svg(ax, description="k steps on").startswith("<svg")
