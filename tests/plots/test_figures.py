"""Figures by their numbers: what is drawn is what the result holds."""

from __future__ import annotations

import numpy as np
import pytest

from builders import corpus_of
from sojourn.assess import TraceAssessment, assess_traces
from sojourn.assess.chain import ChainSettings
from sojourn.assess.figures import FIGURES, available_figures, draw
from sojourn.data import example_path
from sojourn.plots import (
    new_axes,
    new_row,
    plot_chain,
    plot_fit,
    plot_incidence,
    plot_lengths,
    plot_null_draws,
    styled,
    to_svg,
)
from sojourn.readers import read_traces


@pytest.fixture(scope="module")
def result() -> TraceAssessment:
    quick = ChainSettings(quick=True)
    return assess_traces(read_traces(example_path()), chain=quick, rng=0, n_resamples=199)


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


def test_last_step_of_a_curve_has_a_width() -> None:
    value = np.array([0.0, 0.1, 0.1, 1.0])
    with styled():
        axes = new_axes()
        plot_incidence(axes, np.arange(4), (value,) * 3, (1 - value,) * 3, n_supported=4)
    line = next(line for line in axes.get_lines() if line.get_label() == "success")
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert list(x[y == 1.0]) == [3, 4]
    assert axes.get_xlim() == (0, 4)


def test_dotted_rest_of_a_curve_reaches_past_the_last_step() -> None:
    value = np.array([0.0, 0.1, 0.2, 0.9])
    with styled():
        axes = new_axes()
        plot_incidence(axes, np.arange(4), (value,) * 3, (1 - value,) * 3, n_supported=2)
    dotted = next(line for line in axes.get_lines() if line.get_linestyle() == ":")
    assert np.asarray(dotted.get_xdata()).tolist() == [1, 2, 3, 4]
    assert np.asarray(dotted.get_ydata()).tolist() == [0.1, 0.2, 0.9, 0.9]


def test_fit_has_a_width_at_its_last_step_and_no_error_under_its_bound() -> None:
    curve = np.array([0.0, 0.5])
    with styled():
        axes = new_axes()
        plot_fit(
            axes,
            (curve, curve),
            (curve, curve),
            ((curve, curve), (curve, curve)),
            margin=0.1,
            errors=(0.1306, 0.2),
        )
    assert axes.get_xlim() == (0, 2)
    for line in axes.get_lines():
        assert np.asarray(line.get_ydata()).tolist() == [0.0, 0.5, 0.5]
    labels = [str(line.get_label()) for line in axes.get_lines()]
    assert labels[1] == "success, chain: off by < 0.131"
    assert labels[3] == "failure, chain: off by < 0.200"


def test_equal_quartiles_are_drawn_without_a_box() -> None:
    with styled():
        axes = new_axes()
        plot_lengths(axes, ["a", "b"], [(1, 2, 2, 2, 9), (1, 2, 3, 4, 9)], [5, 5])
    assert [bar.get_width() for bar in axes.patches] == [2]


def test_few_values_of_a_null_have_a_bar_each_and_p_the_rounding_of_tables() -> None:
    with styled():
        few, many = new_row(2, (4.8, 2.0))
        draws = [np.array([0.5, 0.5, 0.5 + 1e-15, 2.0]), np.linspace(0, 1, 99)]
        plot_null_draws([few, many], ["few", "many"], draws, [0.5, 0.5], [0.0004, 0.009])
    assert len(few.patches) == 0
    assert len(few.collections[0].get_segments()) == 2
    (bins,) = many.patches  # one outline of 30 bins
    assert len(np.unique(bins.get_xy()[:, 0])) == 31
    assert few.get_title() == "few\np < .001"
    assert many.get_title() == "many\np = 0.009"


@pytest.mark.parametrize("m", [1, 2, 3, 8, 13])
def test_labels_of_a_graph_do_not_lie_on_each_other(m: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = [f"cancel_reservation_{i}_of_the_user" for i in range(m)]
    transient = np.full((m, m), 0.8 / m)
    ends = np.full(m, 0.1)
    with styled():
        axes = new_axes((4.3, 4.6))
        plot_chain(axes, names, np.full(m, 1 / m), transient, ends, ends, np.ones(m))
        canvas = FigureCanvasAgg(axes.figure)
        canvas.draw()
        boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == m + 2
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= canvas.get_width_height()[0]
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_page_draws_a_figure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    n_drawn = 0
    plain = Figure.draw

    def counted(figure: Figure, renderer: object) -> None:
        nonlocal n_drawn
        n_drawn += 1
        plain(figure, renderer)

    monkeypatch.setattr(Figure, "draw", counted)
    axes = new_axes()
    axes.plot([0, 1], [0, 1])
    assert to_svg(axes, description="a line").endswith("</svg>\n")
    assert n_drawn == 1
