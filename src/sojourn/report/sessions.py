"""What stands on the page of sessions, as rows and paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sojourn.assess.session_claims import chosen_words
from sojourn.assess.session_results import DomainAssessment, SessionAssessment
from sojourn.assess.session_text import CONVENTION_WORDS, dependence_words
from sojourn.estimates import Estimate
from sojourn.plots import new_axes, plot_positions, plot_success_run, styled, to_svg
from sojourn.report.parts import Figure, Rows, Section, estimate_cell
from sojourn.report.sections import Card, _card
from sojourn.tables import clean, n_of, p_text

__all__ = ["cards", "claim_rows", "lede", "overview", "policy_line", "sections"]

_MAX_SKIPPED_ROWS = 50
_MAX_SUBDOMAIN_ROWS = 100
_RUN_CAPTION = (
    "P(the next n tasks all succeed) after the last session's last task, with its band; dashed, "
    "what independent tasks would give; dots, the share of stretches of n tasks in the log that "
    "all succeeded."
)
_POSITION_CAPTION = (
    "Share of successes by position in the session, all sessions together. The bars take outcomes "
    "as independent; hard tasks at fixed positions show here too."
)


def lede(result: SessionAssessment) -> str:
    """Return the sentence that says what was assessed."""
    corpus = result.corpus
    return (
        f"{n_of(corpus.n_tasks, 'task')} in {n_of(corpus.n_sessions, 'session')}, "
        f"{corpus.n_observed:,} outcomes known, {corpus.n_success:,} successes."
    )


def policy_line(result: SessionAssessment) -> str:
    """Return how tasks without a verdict were counted, and what intervals are."""
    faults = "failures" if result.policy.faults == "failure" else "unknown, in their places"
    return (
        f"Policy: tasks without a verdict: {faults}. Intervals are {result.ci_prob:.0%} of the "
        "posterior."
    )


def cards(result: SessionAssessment) -> list[Card]:
    """Return the headline figures: of the domain where there is one, else of the system."""
    if len(result.domains) == 1 or not result.system:
        return _domain_cards(result.domains[0])
    first, last = result.system[0].n, result.system[-1].n
    found = []
    for row in result.system:
        if row.n == first and row.convention == "domain_once":
            found.append(_brief_card("Next task", row.estimate, "by the profile's mix of domains"))
        if row.n == last:
            note = f"{CONVENTION_WORDS[row.convention]}; {_claim_of_independence(row.independent)}"
            found.append(_brief_card(f"Next {last} tasks", row.estimate, note))
    return found


def _domain_cards(domain: DomainAssessment) -> list[Card]:
    figures = domain.reliability
    last = max(row.n for row in figures.success_run)
    row = figures.row("continuing", last)
    found = [
        _brief_card("Next task", figures.next_task, "continuing the last session"),
        _brief_card("Fresh session", figures.fresh_session, "its first task"),
        _brief_card("Long run", figures.long_run, f"seen so far {estimate_cell(figures.observed)}"),
    ]
    if row is not None:
        note = _claim_of_independence(row.independent)
        found.append(_brief_card(f"Next {last} tasks all succeed", row.estimate, note))
    return found


def _brief_card(name: str, estimate: Estimate, note: str) -> Card:
    """Return a card with the first reservation only; the claims below have them all."""
    reasons = estimate.reasons
    if len(reasons) > 1:
        estimate = replace(estimate, reasons=(f"{reasons[0]}; {len(reasons) - 1} more below",))
    return _card(name, estimate, note)


def _claim_of_independence(estimate: Estimate) -> str:
    value = estimate.value
    return "" if value is None else f"independent tasks would claim {value:.3g}"


def claim_rows(result: SessionAssessment) -> Rows:
    """Return the table of claims of all domains, what to do next beside each."""
    return Rows(
        caption="Claim by claim: accepted claims hold, inconclusive figures need their caution.",
        header=("domain", "claim", "verdict", "why", "what to do next"),
        rows=[
            (
                clean(domain.name),
                claim.claim,
                str(claim.verdict),
                "; ".join(clean(reason, limit=300) for reason in claim.reasons),
                claim.next or "",
            )
            for domain in result.domains
            for claim in domain.claims
        ],
        left=5,
    )


def overview(groups: Sequence[SessionAssessment]) -> Rows:
    """Return one row a group and domain."""
    return Rows(
        caption="One row a group (agent, model) and domain.",
        header=("group", "domain", "tasks", "order matters, p", "next task", "long run"),
        rows=[
            (
                clean(result.group),
                clean(domain.name),
                f"{domain.n_tasks:,}",
                p_text(domain.dependence.p_order),
                estimate_cell(domain.reliability.next_task),
                estimate_cell(domain.reliability.long_run),
            )
            for result in groups
            for domain in result.domains
        ],
        left=2,
    )


def sections(result: SessionAssessment, *, with_figures: bool) -> list[Section]:
    """Return the sections of a group: each domain's, then the mix, then what was counted."""
    found: list[Section] = []
    for domain in result.domains:
        place = f"{clean(domain.name)}: " if len(result.domains) > 1 else ""
        found += [
            _dependence(domain, place, with_figures=with_figures),
            _next_task(domain, place),
            _runs(domain, place, with_figures=with_figures),
            _selection(domain, place),
        ]
    if len(result.profile.domains) > 1:
        found.append(_system(result))
    found.append(_corpus(result))
    return found


def _dependence(domain: DomainAssessment, place: str, *, with_figures: bool) -> Section:
    gate = domain.dependence
    table = Rows(
        caption=f"Exact tests by {gate.n_draws:,} permutations.",
        header=("question", "p"),
        rows=[
            ("does order matter?", p_text(gate.p_order)),
            ("beyond a linear trend?", p_text(gate.p_beyond_trend)),
            ("do sessions differ as wholes?", p_text(gate.p_session_effect)),
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
            f"{domain.n_outages} of {domain.n_sessions} sessions failed throughout: a session "
            "effect, not memory of earlier tasks."
        )
    return Section(
        question=f"{place}Does the order of outcomes matter?",
        paragraphs=[dependence_words(domain)],
        figures=[_position_figure(domain)] if with_figures else [],
        tables=[table],
        notes=notes,
    )


def _position_figure(domain: DomainAssessment) -> Figure:
    from markupsafe import Markup

    bins = domain.positions
    with styled():
        ax = plot_positions(
            new_axes(),
            bins.first,
            bins.last,
            (bins.value, bins.low, bins.high),
            domain.n_success / domain.n_observed,
        )
        svg = to_svg(ax, description=_POSITION_CAPTION)
    return Figure(svg=Markup(svg), caption=_POSITION_CAPTION)


def _next_task(domain: DomainAssessment, place: str) -> Section:
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
    rows = figures.subdomains
    if len(rows) > 1:
        tables.append(
            Rows(
                caption="By subdomain, with its weight in the work ahead.",
                header=("subdomain", "successes", "weight", "next task"),
                rows=[
                    (
                        clean(row.name),
                        f"{row.n_success:,} of {row.n_observed:,}",
                        f"{row.weight:.3f}",
                        estimate_cell(row.next_task),
                    )
                    for row in rows[:_MAX_SUBDOMAIN_ROWS]
                ],
            )
        )
    more = len(rows) - _MAX_SUBDOMAIN_ROWS
    return Section(
        question=f"{place}Will the next task succeed?",
        tables=tables,
        notes=[f"{more} more subdomains stand in the JSON."] if more > 0 else [],
    )


def _runs(domain: DomainAssessment, place: str, *, with_figures: bool) -> Section:
    figures = domain.reliability
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
                estimate_cell(fresh.estimate),
                estimate_cell(long_run.estimate),
                estimate_cell(now.independent),
                "-" if seen is None else f"{seen:.3f}",
            )
        )
    table = Rows(
        caption="R(n) = P(the next n tasks all succeed); seen: the share of stretches of n tasks "
        "in the log that all succeeded.",
        header=("n", "continuing", "fresh session", "long run", "if independent", "seen"),
        rows=cells,
        left=0,
    )
    return Section(
        question=f"{place}Will the next n tasks all succeed?",
        figures=[_run_figure(domain)] if with_figures else [],
        tables=[table],
        notes=[
            f"The longest session has {domain.longest_session} tasks; beyond it R(n) is "
            "extrapolation."
        ],
    )


def _run_figure(domain: DomainAssessment) -> Figure:
    from markupsafe import Markup

    figures = domain.reliability
    model, alone = figures.curve, figures.independent_curve
    seen = [(r.n, r.observed) for r in figures.success_run if r.observed is not None]
    with styled():
        ax = plot_success_run(
            new_axes(),
            model.x,
            (model.value, model.low, model.high),
            (alone.value, alone.low, alone.high),
            seen=([n for n, _ in seen], [share for _, share in seen]),
            longest=domain.longest_session,
        )
        svg = to_svg(ax, description=_RUN_CAPTION)
    return Figure(svg=Markup(svg), caption=_RUN_CAPTION)


def _selection(domain: DomainAssessment, place: str) -> Section:
    chosen = domain.selection.chosen
    tables = [
        Rows(
            caption="Log predictive score of later tasks; gain over one state. * is the choice.",
            header=("states", "log score", "Monte Carlo error", "gain", "its standard error"),
            rows=[
                (
                    f"{c.n_states} *" if c.n_states == chosen else c.n_states,
                    f"{c.log_score:.3f}",
                    f"{c.mcse:.3f}",
                    f"{c.difference:+.3f}",
                    "-" if c.n_states == 1 else f"{c.se_difference:.3f}",
                )
                for c in domain.selection.candidates
            ],
            left=0,
        )
    ]
    notes = ["More than one state only where the test of order rejects; then the best score."]
    notes.append(f"Before any data the model says {domain.prior}.")
    if domain.states is not None:
        tables.append(_states(domain))
        if domain.states.ambiguous:
            notes.append("The states are not told apart by success: the table mixes them.")
    found = getattr(domain.model, "diagnostics", None)
    if found is not None:
        worst = max(d.r_hat for d in found.values())
        least = min(min(d.ess_bulk, d.ess_tail) for d in found.values())
        notes.append(f"Posterior: largest R-hat {worst:.3f}, fewest effective draws {least:.0f}.")
    return Section(
        question=f"{place}Independent tasks or hidden states?",
        paragraphs=[f"Chosen: {chosen_words(domain.selection)}."],
        tables=tables,
        notes=notes,
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


def _system(result: SessionAssessment) -> Section:
    weights = Rows(
        caption=f"The work ahead (profile from {result.profile.source}).",
        header=("domain", "weight"),
        rows=[(clean(name), f"{w:.3f}") for name, w in result.profile.domains.items()],
    )
    question = "What does that mean for the mix of work?"
    if not result.system:
        text = "No figure: a domain of the profile has no known outcome."
        return Section(question=question, paragraphs=[text], tables=[weights])
    table = Rows(
        caption="P(the next n tasks all succeed) for the whole mix, continuing.",
        header=("convention", "n", "success", "if independent"),
        rows=[
            (
                row.convention.replace("_", " "),
                row.n,
                estimate_cell(row.estimate),
                estimate_cell(row.independent),
            )
            for row in result.system
        ],
    )
    notes = [f"{name.replace('_', ' ')}: {words}." for name, words in CONVENTION_WORDS.items()]
    return Section(question=question, tables=[weights, table], notes=notes)


def _corpus(result: SessionAssessment) -> Section:
    tables = [
        Rows(
            caption="Tasks by domain.",
            header=("domain", "tasks", "known", "successes", "sessions", "longest session"),
            rows=[
                (
                    clean(domain.name),
                    f"{domain.n_tasks:,}",
                    f"{domain.n_observed:,}",
                    f"{domain.n_success:,}",
                    f"{domain.n_sessions:,}",
                    f"{domain.longest_session:,}",
                )
                for domain in result.domains
            ],
        )
    ]
    skipped = result.corpus.skipped
    if skipped:
        tables.append(
            Rows(
                caption="What the readers left out or mended in the whole input, and why.",
                header=("source", "reason", "what", "count"),
                rows=[
                    (clean(s.source), clean(s.reason, limit=300), s.what, f"{s.count:,}")
                    for s in skipped[:_MAX_SKIPPED_ROWS]
                ],
                left=3,
            )
        )
    notes = []
    if result.corpus.n_unsorted:
        notes.append(f"{result.corpus.n_unsorted:,} tasks stood out of order and were sorted.")
    if len(skipped) > _MAX_SKIPPED_ROWS:
        notes.append(f"{len(skipped) - _MAX_SKIPPED_ROWS} more reasons stand in the JSON.")
    return Section(question="What was counted, what was not?", tables=tables, notes=notes)
