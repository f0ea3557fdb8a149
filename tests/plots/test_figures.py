"""Figures by their numbers: what is drawn is what the result holds."""

from __future__ import annotations

import numpy as np
import pytest

from builders import corpus_of
from sojourn.assess import TraceAssessment, assess_traces
from sojourn.assess.figures import FIGURES, available_figures, draw
from sojourn.data import example_path
from sojourn.plots import new_axes, styled, to_svg
from sojourn.readers import read_traces


@pytest.fixture(scope="module")
def result() -> TraceAssessment:
    return assess_traces(read_traces(example_path()), rng=0, n_resamples=199)


def test_curve_is_drawn_solid_to_where_it_is_supported(result: TraceAssessment) -> None:
    axes = draw(result, "success_within")
    solid = next(line for line in axes.get_lines() if line.get_label() == "success")
    assert result.curves is not None
    assert np.asarray(solid.get_xdata())[-1] == result.curves.supported_to
    assert np.asarray(solid.get_ydata())[-1] == result.curves.success.value[22]


def test_histogram_has_the_counted_tasks(result: TraceAssessment) -> None:
    axes = draw(result, "tasks")
    assert [bar.get_height() for bar in axes.patches] == [14, 12, 10, 4, 10]


def test_attempts_have_observed_and_pooled_values(result: TraceAssessment) -> None:
    axes = draw(result, "attempts")
    ends = sorted(
        float(np.asarray(line.get_ydata())[-1])
        for line in axes.get_lines()
        if line.get_xdata().size
    )
    for value in (0.2, 0.72, 0.42**4, 1 - 0.58**4):
        assert min(abs(end - value) for end in ends) < 1e-9


def test_drawing_on_given_axes_returns_them(result: TraceAssessment) -> None:
    with styled():
        axes = new_axes()
    assert draw(result, "lengths", axes) is axes


def test_a_figure_without_data_is_refused_by_name() -> None:
    result = assess_traces(corpus_of(["s", "f"], n_steps=None), rng=0, n_resamples=99)
    assert available_figures(result) == []
    for name in FIGURES:
        with pytest.raises(ValueError, match=name):
            draw(result, name)


def test_svg_names_itself_and_takes_the_colour_of_the_page(result: TraceAssessment) -> None:
    with styled():
        svg = to_svg(draw(result, "tasks"), description="tasks < & >")
    assert svg.startswith('<svg role="img" aria-label="tasks &lt; &amp; &gt;"')
    assert "currentColor" in svg
    assert "<metadata>" not in svg
