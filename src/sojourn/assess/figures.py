"""Which arrays of a result go into which figure; the drawing itself is in `sojourn.plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sojourn._validation import check_choice
from sojourn.estimates import Estimate
from sojourn.plots import (
    new_axes,
    new_row,
    plot_attempts,
    plot_chain,
    plot_fit,
    plot_incidence,
    plot_lengths,
    plot_null_draws,
    plot_task_histogram,
    styled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from matplotlib.axes import Axes

    from sojourn.assess.chain import ChainFindings
    from sojourn.assess.results import TraceAssessment
    from sojourn.process._exact_result import ExactTest
    from sojourn.process.bound import MisspecificationBound

__all__ = ["FIGURES", "STATISTICS", "available_figures", "draw"]

# Short names of the exact test's statistics, for figures and tables.
STATISTICS = {
    "second_order": "memory",
    "second_order_moves": "memory of moves",
    "stays": "run lengths",
    "incidence": "end curves",
    "step_index": "step index",
    "length_spread": "spread of length",
}
FIGURES = ("success_within", "attempts", "tasks", "fit", "test", "chain", "lengths")


def available_figures(result: TraceAssessment) -> list[str]:
    """Return the figures that a result has the data for."""
    has = {
        "success_within": result.curves is not None,
        "attempts": result.corpus.attempts[2] > 1,
        "tasks": result.heterogeneity.p_value is not None,
        "fit": _bound(result) is not None,
        "test": _test(result) is not None,
        "chain": result.chain is not None and result.chain.fit.chain.is_absorbing,
        "lengths": any(row.quantiles for row in result.corpus.lengths),
    }
    return [name for name in FIGURES if has[name]]


def draw(result: TraceAssessment, figure: str, ax: Axes | None = None) -> Axes:
    """Draw one figure of a result.

    Parameters
    ----------
    result : TraceAssessment
        The result.
    figure : str
        One of `FIGURES`.
    ax : Axes, optional
        Where to draw; by default a new figure in our style.

    Raises
    ------
    ValueError
        If the result has no data for the figure.
    """
    check_choice(figure, FIGURES, name="figure")
    if figure not in available_figures(result):
        raise ValueError(f"this result has no data for the figure {figure!r}")
    if figure == "test":
        if ax is not None:
            raise ValueError("the figure 'test' has several axes of its own; leave out ax")
        return _draw_test(result)
    if ax is not None:
        return _draw(result, figure, ax)
    with styled():
        height = {"lengths": 1.3 + 0.5 * len(result.corpus.lengths), "fit": 3.6, "chain": 3.8}
        return _draw(result, figure, new_axes((4.8, height.get(figure, 3.2))))


def _draw(result: TraceAssessment, figure: str, ax: Axes) -> Axes:
    if figure == "success_within" and result.curves is not None:
        success, failure = result.curves.success, result.curves.failure
        return plot_incidence(
            ax,
            success.x,
            (success.value, success.low, success.high),
            (failure.value, failure.low, failure.high),
            n_supported=success.n_supported,
        )
    if figure == "attempts":
        rows = [row for row in result.attempts if not row.is_beyond]
        return plot_attempts(
            ax,
            [row.k for row in rows],
            _bars([row.all_succeed for row in rows]),
            _bars([row.any_succeeds for row in rows]),
            rows[0].pooled_all,
        )
    chain = result.chain
    if chain is not None and figure in ("fit", "chain"):
        return _draw_chain(chain, figure, ax)
    if figure == "tasks":
        tasks = result.heterogeneity
        return plot_task_histogram(ax, tasks.observed, tasks.expected, tasks.alike)
    lengths = [
        (f"{row.outcome}, {row.end}", row.quantiles, row.n_runs)
        for row in result.corpus.lengths
        if row.quantiles is not None
    ]
    labels, quantiles, n_runs = zip(*lengths, strict=True)
    return plot_lengths(ax, labels, quantiles, n_runs)


def _bars(
    estimates: Sequence[Estimate],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return values and bounds as arrays, NaN where there is none."""
    rows = np.array(
        [
            (
                np.nan if item.value is None else item.value,
                np.nan if item.interval is None else item.interval.low,
                np.nan if item.interval is None else item.interval.high,
            )
            for item in estimates
        ]
    )
    return rows[:, 0], rows[:, 1], rows[:, 2]


def _bound(result: TraceAssessment) -> MisspecificationBound | None:
    bound = None if result.chain is None else _bound_of(result.chain)
    return None if bound is None or bound.success_curve is None else bound


def _bound_of(chain: ChainFindings) -> MisspecificationBound | None:
    """Return the bound of the chosen process."""
    return chain.certificate.bound if chain.richer is None else chain.richer.bound


def _test(result: TraceAssessment) -> ExactTest | None:
    """Return the test whose draws are shown: inside tasks where it could be made."""
    if result.chain is None:
        return None
    certificate = result.chain.certificate
    for test in (certificate.within, certificate.pooled):
        if test is not None and test.statistics:
            return test
    return None


def _draw_test(result: TraceAssessment) -> Axes:
    test = _test(result)
    if test is None:
        raise ValueError("the test has no draws")
    shown = [statistic for statistic in test.statistics if statistic.draws.size]
    with styled():
        axes = new_row(len(shown), (4.8, 1.9 * -(-len(shown) // 3)))
        plot_null_draws(
            axes,
            [STATISTICS.get(s.name, s.name) for s in shown],
            [s.draws for s in shown],
            [s.value for s in shown],
            [s.p_value for s in shown],
        )
    return axes[0]


def _draw_chain(chain: ChainFindings, figure: str, ax: Axes) -> Axes:
    bound = _bound_of(chain)
    if figure == "fit" and bound is not None:
        success, failure = bound.success_curve, bound.failure_curve
        if success is None or failure is None or bound.success is None or bound.failure is None:
            raise ValueError("the bound holds no curves")
        return plot_fit(
            ax,
            (success.observed, failure.observed),
            (success.fitted, failure.fitted),
            ((success.low, success.high), (failure.low, failure.high)),
            margin=bound.margin,
            errors=(bound.success.upper, bound.failure.upper),
            process="chain" if chain.richer is None else chain.richer.name,
        )
    algebra = chain.fit.chain
    order = np.argsort(-algebra.expected_visits, kind="stable")
    return plot_chain(
        ax,
        [chain.fit.state_names[i] for i in order],
        algebra.initial[order],
        algebra.transient[np.ix_(order, order)],
        algebra.to_success[order],
        algebra.to_failure[order],
        algebra.expected_visits[order],
    )
