"""The sections of one domain on the page of sessions: questions, figures, tables beneath."""

from __future__ import annotations

import math

import numpy as np

from sojourn.assess.session_claims import chosen_words
from sojourn.assess.session_export import draw_domain
from sojourn.assess.session_figures import Density, EnvelopeRow
from sojourn.assess.session_results import DomainAssessment
from sojourn.assess.session_text import (
    brief_functionals,
    dependence_words,
    functional_digits,
    functional_words,
    gain_words,
    median_text,
    subdomain_runs,
)
from sojourn.plots import new_axes, styled, to_svg
from sojourn.plots.sessions import plot_densities, trace_rows
from sojourn.report.parts import Figure, Rows, Section, estimate_cell, p_cell
from sojourn.tables import clean, n_of

__all__ = ["density_figure", "density_rows", "domain_sections", "envelope_rows"]

_MAX_SUBDOMAIN_ROWS = 100
_NO_BREAK = "\N{NO-BREAK SPACE}"
_CAPTIONS = {
    "success_run": "P(the next n tasks all succeed) after the last session's last task, with its "
    "band; dashed, what independent tasks would give; dots, the share of stretches of n tasks in "
    "the log that all succeeded.",
    "positions": "Share of successes by position in the session, all sessions together. The bars "
    "take outcomes as independent; hard tasks at fixed positions show here too.",
    "densities": "What the data leave open about the next task's success, continuing the last "
    "session: the domain's mix (broad) and the subdomains with the largest weights (thin).",
    "trace": "The last sessions, a strip each: success above, failure below, nothing where the "
    "outcome is unknown.",
}
_STATES_CAPTION = " Beneath, how probable each hidden state is at each task, given all outcomes."


def domain_sections(domain: DomainAssessment, place: str, *, with_figures: bool) -> list[Section]:
    """Return the sections of one domain, dependence first.

    Parameters
    ----------
    domain : DomainAssessment
        What to show.
    place : str
        The domain's name before each question, where there are several.
    with_figures : bool
        Whether to draw.
    """
    return [
        _dependence(domain, place, with_figures=with_figures),
        _next_task(domain, place, with_figures=with_figures),
        _runs(domain, place, with_figures=with_figures),
        _ahead(domain, place),
        _selection(domain, place),
    ]


def _figure(domain: DomainAssessment, kind: str, height: float = 3.2, extra: str = "") -> Figure:
    from markupsafe import Markup

    caption = _CAPTIONS[kind] + extra
    with styled():
        ax = draw_domain(domain, new_axes((4.8, height)), kind)
        svg = to_svg(ax, description=caption)
    return Figure(svg=Markup(svg), caption=caption)


def _dependence(domain: DomainAssessment, place: str, *, with_figures: bool) -> Section:
    gate = domain.dependence
    table = Rows(
        caption=f"Exact tests by {gate.n_draws:,} permutations.",
        header=("question", "p"),
        rows=[
            ("does order matter?", p_cell(gate.p_order)),
            ("beyond a linear trend?", p_cell(gate.p_beyond_trend)),
            ("do sessions differ as wholes?", p_cell(gate.p_session_effect)),
        ],
    )
    notes = []
    if gate.method == "margins":
        notes.append(
            "Sessions share tasks: the test keeps each task's and each session's number of "
            "successes, so that hard tasks are no clusters."
        )
    if domain.n_outages:
        notes.append(
            f"{domain.n_outages} of {n_of(domain.n_sessions, 'session')} failed throughout: a "
            "session effect, not memory of earlier tasks."
        )
    figures = []
    if with_figures:
        rows = len(trace_rows(domain.trace.offsets))
        extra = "" if domain.trace.states is None else _STATES_CAPTION
        figures = [
            _figure(domain, "trace", 0.9 + 0.5 * rows, extra),
            _figure(domain, "positions"),
        ]
    return Section(
        question=f"{place}Does the order of outcomes matter?",
        paragraphs=[dependence_words(domain)],
        figures=figures,
        tables=[table, _trace_table(domain), _positions(domain)],
        notes=notes,
    )


def _trace_table(domain: DomainAssessment) -> Rows:
    trace = domain.trace
    rows: list[tuple[object, ...]] = []
    numbers = sorted({name for name, _, _ in trace_rows(trace.offsets)})
    for r in numbers:
        part = slice(int(trace.offsets[r - 1]), int(trace.offsets[r]))
        success = trace.success[part]
        won, known = int((success == 1).sum()), int((success >= 0).sum())
        row: list[object] = [r, success.size, f"{won} of {known}"]
        if trace.states is not None:
            last = trace.states[part][-1]
            best = int(np.argmax(last))
            row.append(f"{best + 1} ({last[best]:.2f})")
        rows.append(tuple(row))
    return Rows(
        caption="The sessions drawn"
        + ("." if trace.states is None else "; most probable state at the end."),
        header=("session", "tasks", "successes")
        + (() if trace.states is None else ("state at the end",)),
        rows=rows,
        left=0,
    )


def _positions(domain: DomainAssessment) -> Rows:
    bins = domain.positions
    return Rows(
        caption="Success by position.",
        header=("position", "known", "share of successes"),
        rows=[
            (
                f"{a}" if a == b else f"{a} to {b}",
                f"{n:,}",
                "-" if not n else f"{v:.3f} [{low:.3f},{_NO_BREAK}{high:.3f}]",
            )
            for a, b, n, v, low, high in zip(
                bins.first, bins.last, bins.n_observed, bins.value, bins.low, bins.high, strict=True
            )
        ],
    )


def _next_task(domain: DomainAssessment, place: str, *, with_figures: bool) -> Section:
    figures = domain.reliability
    tables = [
        Rows(
            caption="Probability that the next task succeeds.",
            header=("when", "success"),
            rows=[
                ("continuing the last session", estimate_cell(figures.next_task)),
                ("first task of a fresh session", estimate_cell(figures.fresh_session)),
                ("in the long run", estimate_cell(figures.long_run)),
                ("if tasks were independent", estimate_cell(figures.independent)),
                ("seen so far, without a model", estimate_cell(figures.observed)),
            ],
        )
    ]
    densities = _heaviest(domain)
    if with_figures:
        tables.append(density_rows(densities))
    rows = figures.subdomains
    if len(rows) > 1:
        tables.append(
            Rows(
                caption="By subdomain, with its weight in the work ahead; beside it the plainest "
                "baseline, a beta-binomial of the subdomain's own counts.",
                header=("subdomain", "successes", "weight", "next task", "beta-binomial"),
                rows=[
                    (
                        clean(row.name),
                        f"{row.n_success:,} of {row.n_observed:,}",
                        f"{row.weight:.3f}",
                        estimate_cell(row.next_task),
                        estimate_cell(row.beta_binomial),
                    )
                    for row in rows[:_MAX_SUBDOMAIN_ROWS]
                ],
            )
        )
    more = len(rows) - _MAX_SUBDOMAIN_ROWS
    return Section(
        question=f"{place}Will the next task succeed?",
        figures=[density_figure(densities, _CAPTIONS["densities"])] if with_figures else [],
        tables=tables,
        notes=[f"{more} more subdomains stand in the JSON."] if more > 0 else [],
    )


def _heaviest(domain: DomainAssessment, n: int = 6) -> list[Density]:
    """Return the domain's density and those of its subdomains of largest weight."""
    figures = domain.reliability
    weights = {row.name: row.weight for row in figures.subdomains}
    parts = [d for d in figures.densities if d.level == "subdomain"]
    parts = sorted(parts, key=lambda d: -weights[d.label])[:n]
    return [d for d in figures.densities if d.level == "domain"] + parts


def density_figure(densities: list[Density], caption: str) -> Figure:
    """Return posterior densities as a figure."""
    from markupsafe import Markup

    with styled():
        curves = [(_name(d), d.level, d.x, d.density) for d in densities]
        svg = to_svg(plot_densities(new_axes(), curves), description=caption)
    return Figure(svg=Markup(svg), caption=caption)


def _name(density: Density) -> str:
    return "all tasks" if density.label == "domain" else clean(density.label)


def density_rows(densities: list[Density]) -> Rows:
    """Return the quantiles of posterior densities as a table."""
    return Rows(
        caption="Quantiles of the densities drawn.",
        header=("whose next task", *(f"{p:.0%}" for p in densities[0].probs)),
        rows=[(_name(d), *(f"{q:.3f}" for q in d.quantiles)) for d in densities],
    )


def _runs(domain: DomainAssessment, place: str, *, with_figures: bool) -> Section:
    figures = domain.reliability
    averaged = any(row.stacked is not None for row in figures.success_run)
    cells: list[tuple[object, ...]] = []
    for long_run in (row for row in figures.success_run if row.start == "long_run"):
        now, fresh = figures.row("continuing", long_run.n), figures.row("fresh", long_run.n)
        if now is None or fresh is None:
            continue
        seen = long_run.observed
        cells.append(
            (
                long_run.n,
                estimate_cell(now.estimate),
                *([estimate_cell(now.stacked)] if averaged else []),
                estimate_cell(fresh.estimate),
                estimate_cell(long_run.estimate),
                estimate_cell(now.independent),
                "-" if seen is None else f"{seen:.3f}",
            )
        )
    table = Rows(
        caption="R(n) = P(the next n tasks all succeed); seen: the share of stretches of n tasks "
        "in the log that all succeeded."
        + (" Averaged: over numbers of states, continuing." if averaged else ""),
        header=(
            "n",
            "continuing",
            *(["averaged"] if averaged else []),
            "fresh session",
            "long run",
            "if independent",
            "seen",
        ),
        rows=cells,
        left=0,
    )
    tables = [table, _probabilities(domain)]
    if figures.envelope is not None:
        tables.append(envelope_rows(figures.envelope))
    extra = " Crosses, the average over numbers of states." if averaged else ""
    return Section(
        question=f"{place}Will the next n tasks all succeed?",
        figures=[_figure(domain, "success_run", extra=extra)] if with_figures else [],
        tables=tables,
        notes=[
            f"The longest session has {n_of(domain.longest_session, 'task')}; beyond it R(n) is "
            "extrapolation."
        ],
    )


def _probabilities(domain: DomainAssessment) -> Rows:
    found = [p for p in domain.reliability.probabilities if p.start == "continuing"]
    levels = sorted({p.at_least for p in found})
    value = {(p.n, p.at_least): p.value for p in found}
    return Rows(
        caption="How sure one may be that R(n) is at least a level, continuing.",
        header=("n", *(f"at least {level:g}" for level in levels)),
        rows=[
            (n, *(f"{value[n, level]:.3f}" for level in levels))
            for n in sorted({p.n for p in found})
        ],
        left=0,
    )


def envelope_rows(envelope: tuple[EnvelopeRow, ...]) -> Rows:
    """Return the envelope over priors as a table."""
    return Rows(
        caption="Mean of R(n) of independent tasks over the whole box of priors.",
        header=("n", "lowest", "highest"),
        rows=[(row.n, f"{row.low:.3f}", f"{row.high:.3f}") for row in envelope],
        left=0,
    )


def _ahead(domain: DomainAssessment, place: str) -> Section:
    tables = [
        Rows(
            caption="Continuing the last session: posterior mean with interval, median, Monte "
            "Carlo error of the mean.",
            header=("figure", "mean", "median", "error"),
            rows=[
                (
                    functional_words(row),
                    estimate_cell(row.estimate, functional_digits(row)),
                    median_text(row, domain.longest_session),
                    "-" if row.mcse is None else f"{row.mcse:.2g}",
                )
                for row in brief_functionals(domain)
            ],
        )
    ]
    found = subdomain_runs(domain)
    if found is not None:
        ns, runs = found
        tables.append(
            Rows(
                caption="All of the next n tasks succeed, if all are of one subdomain.",
                header=("subdomain", *(f"n = {n}" for n in ns)),
                rows=[
                    (clean(name), *(estimate_cell(cell) for cell in cells))
                    for name, cells in runs[:_MAX_SUBDOMAIN_ROWS]
                ],
            )
        )
    endless = [row for row in brief_functionals(domain) if row.estimate.value is None]
    return Section(
        question=f"{place}How long will it go well?",
        tables=tables,
        notes=[f"Where there is a dash for a mean, {endless[0].estimate.reasons[0]}."]
        if endless
        else [],
    )


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def _selection(domain: DomainAssessment, place: str) -> Section:
    selection = domain.selection
    rows: list[tuple[object, ...]] = [
        (
            f"{c.n_states} *" if c.n_states == selection.chosen else f"{c.n_states}",
            f"{c.log_score:.3f}",
            f"{c.mcse:.3f}",
            f"{c.difference:+.3f}",
            "-" if c.n_states == 1 else _number(c.se_difference),
            "-" if c.n_states == 1 else _number(c.pareto_k, 2),
            f"{weight:.3f}",
        )
        for c, weight in zip(selection.candidates, selection.stacking, strict=True)
    ]
    rows += [
        (
            b.model.replace("_", "-"),
            f"{b.log_score:.3f}",
            "0.000",
            f"{b.difference:+.3f}",
            _number(b.se_difference),
            "-",
            "-",
        )
        for b in selection.baselines
    ]
    tables = [
        Rows(
            caption="Log predictive score of later tasks, its Monte Carlo error, gain over one "
            "state with a standard error that allows for autocorrelation; weight in the average "
            "over more than one state. * is the choice.",
            header=("states", "score", "error", "gain", "its error", "Pareto k", "weight"),
            rows=rows,
            left=1,
        )
    ]
    notes = ["More than one state only where the test of order rejects; then the best score."]
    if domain.gain_test is not None:
        text = gain_words(domain.gain_test)
        notes.append(f"{text[0].upper()}{text[1:]}.")
    notes.append(f"Before any data the model says {domain.prior}.")
    if domain.states is not None:
        tables.append(_states(domain))
        if domain.states.ambiguous:
            notes.append(
                "The states are not told apart by success: their summaries have two peaks, and "
                "the table mixes them."
            )
        if domain.block_ordered:
            notes.append(
                "Subdomains come in blocks: states of one can hardly be matched with another's."
            )
    found = getattr(domain.model, "diagnostics", None)
    if found is not None:
        tables.append(_diagnostics(domain))
    return Section(
        question=f"{place}Independent tasks or hidden states?",
        paragraphs=[f"Chosen: {chosen_words(selection)}."],
        tables=tables,
        notes=notes,
    )


def _diagnostics(domain: DomainAssessment) -> Rows:
    found = domain.model.diagnostics  # type: ignore[union-attr]
    of_subdomains = "R(1), subdomain "
    shown = [(name, d) for name, d in found.items() if not name.startswith(of_subdomains)]
    worst = [(name, d) for name, d in found.items() if name.startswith(of_subdomains)]
    if worst:
        name, d = max(worst, key=lambda item: item[1].r_hat)
        place = name.removeprefix(of_subdomains)
        shown.append((f"R(1), {place} (worst of its kind)", d))
    return Rows(
        caption="Chains: R-hat should be under 1.01, effective draws (of the middle, of the "
        "tails) over 400.",
        header=("figure", "R-hat", "middle", "tails"),
        rows=[
            (
                name.replace("_", " "),
                f"{d.r_hat:.3f}",
                f"{d.ess_bulk:,.0f}",
                f"{d.ess_tail:,.0f}",
            )
            for name, d in shown
        ],
    )


def _states(domain: DomainAssessment) -> Rows:
    states, rows = domain.states, domain.reliability.subdomains
    if states is None:
        raise ValueError("the domain has no hidden states")
    return Rows(
        caption="The states, ordered by success; expected stay in tasks.",
        header=("state", "success", "stay", "long-run share"),
        rows=[
            (
                s + 1,
                f"{sum(r.weight * states.success_prob[j, s] for j, r in enumerate(rows)):.3f}",
                f"{states.dwell[s]:.1f}",
                f"{states.long_run_share[s]:.3f}",
            )
            for s in range(domain.n_states)
        ],
        left=0,
    )
