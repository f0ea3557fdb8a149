"""The figures of a page: which are worth drawing, how large, and what is said under each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.assess.figures import STATISTICS, available_figures, draw
from sojourn.plots import new_axes, new_row, plot_null_draws, styled, to_svg
from sojourn.report.parts import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sojourn.assess import TraceAssessment
    from sojourn.process._exact_result import ExactTest

__all__ = ["page_figures", "shown_test"]

# Narrow, so that words stay large enough on a phone.
_WIDTH = 4.3
_HEIGHTS = {"chain": 4.6, "fit": 4.2}

_CAPTIONS = {
    "success_within": "Share of runs that have succeeded, and that have failed, within d steps; "
    "bands cover each point with the stated probability. Dotted: too few tasks remain.",
    "attempts": "pass@k and pass^k with intervals; dotted, what the pooled success rate alone "
    "would claim.",
    "tasks": "How many tasks had 0, 1, ... successes, beside the fitted law and the law if all "
    "tasks were alike.",
    "fit": "Observed curves (broad) and those of the {process} (dashed) with simultaneous bands; "
    "it is off by less than the stated bound with 95 % confidence. Timing is accepted if both "
    "bounds are under the margin.",
    "test": "What the statistics of the {exactness} test look like if runs are a first-order chain "
    "(grey), and what was observed (line).",
    "chain": "The fitted chain: circles by expected visits, arrows by the flow along them (under "
    "2 % of the widest left out).",
    "lengths": "Lengths of runs by outcome and by how they ended.",
}


def page_figures(result: TraceAssessment) -> dict[str, Figure]:
    """Return the figures of a result by name, those left out that would show nothing."""
    from markupsafe import Markup

    drawn = {}
    test = shown_test(result)
    for name in available_figures(result):
        caption = _CAPTIONS[name].format(
            process=_process_name(result), exactness="exact" if test is None else test.exactness
        )
        if name == "test":
            if test is None:
                continue
            caption += " Runs are exchanged " + (
                "within tasks only." if test.within_tasks else "over all tasks (pooled)."
            )
        elif not _worth(result, name):
            continue
        with styled():
            axes = _draw_test(test) if name == "test" and test is not None else _draw(result, name)
            svg = to_svg(axes, description=caption)
        drawn[name] = Figure(svg=Markup(svg), caption=caption)
    return drawn


def _process_name(result: TraceAssessment) -> str:
    if result.chain is None or result.chain.richer is None:
        return "homogeneous chain"
    return f"{result.chain.chosen} process"


def _worth(result: TraceAssessment, name: str) -> bool:
    """Tell whether a figure of the chain has something to show: moves, and between states."""
    if result.chain is None or name not in ("fit", "chain"):
        return True
    if name == "chain":
        return result.chain.states.n_states >= 2 and result.chain.fit.horizon > 1
    return result.chain.fit.horizon > 1


def shown_test(result: TraceAssessment) -> ExactTest | None:
    """Return the test whose draws are shown: inside tasks where anything can move there."""
    if result.chain is None:
        return None
    certificate = result.chain.certificate
    for test in (certificate.within, certificate.pooled):
        if test is not None and test.movable_steps > 0 and _moving(test):
            return test
    return None


def _moving(test: ExactTest) -> list[int]:
    """Return which statistics differ between the drawn corpora."""
    return [i for i, s in enumerate(test.statistics) if s.draws.size and s.n_distinct > 1]


def _draw(result: TraceAssessment, name: str) -> Axes:
    height = _HEIGHTS.get(name, 3.2)
    if name == "lengths":
        height = 1.3 + 0.5 * sum(row.quantiles is not None for row in result.corpus.lengths)
    return draw(result, name, new_axes((_WIDTH, height)))


def _draw_test(test: ExactTest) -> Axes:
    shown = [test.statistics[i] for i in _moving(test)]
    axes = new_row(len(shown), (_WIDTH, 1.9 * -(-len(shown) // 3)))
    plot_null_draws(
        axes,
        [STATISTICS.get(s.name, s.name) for s in shown],
        [s.draws for s in shown],
        [s.value for s in shown],
        [s.p_value for s in shown],
    )
    return axes[0]
