"""Results on sessions for other tools: pandas, ArviZ, matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sojourn._validation import check_choice
from sojourn.assess.exported import frame
from sojourn.estimates import Estimate
from sojourn.plots import new_axes, plot_positions, plot_success_run, styled
from sojourn.plots.sessions import plot_densities, plot_trace
from sojourn.plots.style import legend_above, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sojourn.assess.session_figures import Reliability
    from sojourn.assess.session_results import (
        DomainAssessment,
        SessionAssessment,
    )

__all__ = [
    "domain_inference_data",
    "domain_rows",
    "draw_domain",
    "draw_whole",
    "run_table",
    "whole_rows",
]

TABLES = ("reliability", "functionals", "selection")
KINDS = ("success_run", "densities", "trace", "positions")
_N_DRAWS = 4000


def _cells(estimate: Estimate | None, prefix: str = "") -> dict[str, Any]:
    """Return an estimate as columns; a figure that does not exist is missing."""
    interval = None if estimate is None else estimate.interval
    found: dict[str, Any] = {
        f"{prefix}value": None if estimate is None else estimate.value,
        f"{prefix}low": None if interval is None else interval.low,
        f"{prefix}high": None if interval is None else interval.high,
    }
    if not prefix and estimate is not None:
        found["status"] = str(estimate.status)
    return found


def _run_rows(figures: Reliability) -> Iterator[dict[str, Any]]:
    for row in figures.success_run:
        yield {
            "start": row.start,
            "n": row.n,
            **_cells(row.estimate),
            "mcse": row.mcse,
            **_cells(row.independent, "independent_"),
            **_cells(row.stacked, "stacked_"),
            "observed": row.observed,
        }


def _functional_rows(figures: Reliability) -> Iterator[dict[str, Any]]:
    for row in figures.functionals:
        yield {
            "name": row.name,
            "subdomain": row.subdomain,
            "start": row.start,
            "n": row.n,
            "failures": row.failures,
            "level": row.level,
            **_cells(row.estimate),
            "median": row.median,
            "mcse": row.mcse,
        }


def _selection_rows(domain: DomainAssessment) -> Iterator[dict[str, Any]]:
    selection = domain.selection
    for c, weight in zip(selection.candidates, selection.stacking, strict=True):
        yield {
            "model": c.model,
            "n_states": c.n_states,
            "log_score": c.log_score,
            "mcse": c.mcse,
            "difference": c.difference,
            "se_difference": c.se_difference,
            "pareto_k": c.pareto_k,
            "converged": c.converged,
            "stacking_weight": float(weight),
            "chosen": c.n_states == selection.chosen,
        }
    for b in selection.baselines:
        yield {
            "model": b.model,
            "log_score": b.log_score,
            "mcse": 0.0,
            "difference": b.difference,
            "se_difference": b.se_difference,
            "converged": True,
            "stacking_weight": 0.0,
            "chosen": False,
        }


def run_table(figures: Reliability) -> Any:
    """Return R(n) of one domain, one row a start and n."""
    return frame(list(_run_rows(figures)), "pandas")


def domain_rows(domain: DomainAssessment, table: str) -> list[dict[str, Any]]:
    """Return one table of a domain: ``reliability``, ``functionals`` or ``selection``."""
    check_choice(table, TABLES, name="table")
    if table == "selection":
        return list(_selection_rows(domain))
    figures = domain.reliability
    return list(_run_rows(figures) if table == "reliability" else _functional_rows(figures))


def whole_rows(result: SessionAssessment, table: str) -> list[dict[str, Any]]:
    """Return one table of all domains, and of R(n) the rows of the whole mix too."""
    rows: list[dict[str, Any]] = [
        {"domain": domain.name, **row}
        for domain in result.domains
        for row in domain_rows(domain, table)
    ]
    if table == "reliability" and len(result.domains) > 1:
        rows += [
            {
                "domain": None,
                "convention": row.convention,
                "start": "continuing",
                "n": row.n,
                **_cells(row.estimate),
                **_cells(row.independent, "independent_"),
            }
            for row in result.system
        ]
    return rows


def domain_inference_data(domain: DomainAssessment) -> Any:
    """Return the chosen model's draws as InferenceData; see `DomainAssessment.to_arviz`."""
    from sojourn.session import HierarchicalFit
    from sojourn.session._arviz import inference_data

    n_max = int(domain.reliability.curve.x[-1])
    model = domain.model
    if not isinstance(model, HierarchicalFit):
        return model.to_arviz(n_max=n_max)
    theta = model.draw_success_prob(_N_DRAWS, rng=0)[None]
    run = (theta @ model.weights)[..., None] ** np.arange(1, n_max + 1)
    return inference_data(
        {"success_prob": theta, "success_run": run},
        dims={"success_prob": ["subdomain"], "success_run": ["n"]},
        coords={"subdomain": list(model.subdomain_names), "n": np.arange(1, n_max + 1)},
    )


def draw_domain(domain: DomainAssessment, ax: Axes | None, kind: str) -> Axes:
    """Draw one figure of a domain; see `DomainAssessment.plot`."""
    check_choice(kind, KINDS, name="kind")
    with styled():
        axes = new_axes() if ax is None else ax
        drawn: Axes = _DRAWERS[kind](axes, domain)
        return drawn


def _success_run(ax: Axes, domain: DomainAssessment) -> Axes:
    figures = domain.reliability
    model, alone = figures.curve, figures.independent_curve
    seen = [(r.n, r.observed) for r in figures.success_run if r.observed is not None]
    average = [
        (r.n, r.stacked.value)
        for r in figures.success_run
        if r.start == "continuing" and r.stacked is not None and r.stacked.value is not None
    ]
    return plot_success_run(
        ax,
        model.x,
        (model.value, model.low, model.high),
        (alone.value, alone.low, alone.high),
        seen=([n for n, _ in seen], [share for _, share in seen]),
        average=([n for n, _ in average], [value for _, value in average]),
        longest=domain.longest_session,
    )


def _densities(ax: Axes, domain: DomainAssessment) -> Axes:
    return plot_densities(
        ax, [(d.label, d.level, d.x, d.density) for d in domain.reliability.densities]
    )


def _trace(ax: Axes, domain: DomainAssessment) -> Axes:
    trace = domain.trace
    return plot_trace(ax, trace.success, trace.offsets, trace.states)


def _positions(ax: Axes, domain: DomainAssessment) -> Axes:
    bins = domain.positions
    rate = domain.n_success / domain.n_observed
    return plot_positions(ax, bins.first, bins.last, (bins.value, bins.low, bins.high), rate)


_DRAWERS: Mapping[str, Any] = {
    "success_run": _success_run,
    "densities": _densities,
    "trace": _trace,
    "positions": _positions,
}


def draw_whole(result: SessionAssessment, ax: Axes | None) -> Axes:
    """Draw R(n) of the one domain, or a line a domain; see `SessionAssessment.plot`."""
    if len(result.domains) == 1:
        return draw_domain(result.domains[0], ax, "success_run")
    with styled():
        axes = new_axes() if ax is None else ax
        for domain in result.domains:
            curve = domain.reliability.curve
            axes.plot(curve.x, curve.value, label=plain_label(domain.name))
        axes.set_xlabel("tasks n")
        axes.set_ylabel("P(next n tasks all succeed)")
        axes.set_ylim(0, 1)
        legend_above(axes)
        return axes
