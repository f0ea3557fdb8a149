"""What stands on the page of sessions, as rows and paragraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sojourn.assess.session_figures import Density
from sojourn.assess.session_results import DomainAssessment, SessionAssessment
from sojourn.assess.session_text import CONVENTION_WORDS, dependence_words
from sojourn.estimates import Claim, Estimate
from sojourn.records import by_reason
from sojourn.report.parts import Cell, Rows, Section, estimate_cell, p_cell
from sojourn.report.sections import Card, _card
from sojourn.report.session_sections import (
    density_figure,
    density_rows,
    domain_sections,
    envelope_rows,
)
from sojourn.tables import clean, n_of
from sojourn.tables.words import percent

__all__ = ["cards", "claim_rows", "lede", "overview", "policy_line", "sections"]

_MAX_SKIPPED_ROWS = 50
_CLAIMS = {
    "order_matters": "the order of outcomes matters",
    "clustering": "successes and failures cluster",
    "session_effect": "sessions differ as wholes",
    "reliability": "the model's figures may be used",
    "horizon": "beyond the longest session",
}
_SYSTEM_CAPTION = (
    "What the data leave open about the next task's success: the whole mix (dark) and the domains."
)


def lede(result: SessionAssessment) -> str:
    """Return the verdict on dependence, then what was assessed."""
    corpus = result.corpus
    verdicts = " ".join(
        f"{clean(d.name)}: {dependence_words(d)}"
        if len(result.domains) > 1
        else dependence_words(d)
        for d in result.domains
    )
    return (
        f"{verdicts} {n_of(corpus.n_tasks, 'task')} in {n_of(corpus.n_sessions, 'session')}, "
        f"{n_of(corpus.n_observed, 'outcome')} known, "
        f"{n_of(corpus.n_success, 'success', 'successes')}."
    )


def policy_line(result: SessionAssessment) -> str:
    """Return how tasks without a verdict were counted, and what intervals are."""
    faults = "failures" if result.policy.faults == "failure" else "unknown, in their places"
    return (
        f"Policy: tasks without a verdict: {faults}. Intervals are {percent(result.ci_prob)} of "
        "the posterior."
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
            found.append(_brief_card(f"Next {n_of(last, 'task')}", row.estimate, note))
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
        found.append(
            _brief_card(
                "Next task succeeds" if last == 1 else f"Next {last} tasks all succeed",
                row.estimate,
                note,
            )
        )
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
    several = len(result.domains) > 1
    return Rows(
        caption="Claim by claim: accepted claims hold, inconclusive figures need their caution.",
        header=(*(["domain"] if several else []), "claim", "verdict", "why", "what to do next"),
        rows=[
            (
                *([clean(domain.name)] if several else []),
                Cell(text=_CLAIMS.get(claim.claim, claim.claim), code=claim.claim),
                _verdict(claim),
                "; ".join(clean(reason, limit=300) for reason in claim.reasons),
                claim.next or "",
            )
            for domain in result.domains
            for claim in domain.claims
        ],
        left=5 if several else 4,
    )


def _verdict(claim: Claim) -> Cell:
    # Nobody claims what lies beyond the longest session: nothing was tested there.
    if claim.claim == "horizon":
        return Cell(text=str(claim.verdict), mark="unclaimed")
    return Cell(text=str(claim.verdict), mark=str(claim.verdict))


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
                p_cell(domain.dependence.p_order),
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
        found += domain_sections(domain, place, with_figures=with_figures)
    if len(result.profile.domains) > 1:
        found.append(_system(result, with_figures=with_figures))
    found.append(_corpus(result))
    return found


def _system(result: SessionAssessment, *, with_figures: bool) -> Section:
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
    tables, figures = [weights, table], []
    if result.system_density is not None and with_figures:
        shown = [result.system_density, *_domain_densities(result)]
        figures.append(density_figure(shown, _SYSTEM_CAPTION))
        tables.insert(0, density_rows(shown))
    if result.system_envelope is not None:
        tables.append(envelope_rows(result.system_envelope))
    return Section(question=question, figures=figures, tables=tables, notes=notes)


def _domain_densities(result: SessionAssessment) -> list[Density]:
    """Return each domain's density under its own name, thin beside the system's."""
    return [
        replace(density, label=domain.name, level="subdomain")
        for domain in result.domains
        for density in domain.reliability.densities
        if density.level == "domain"
    ]


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
    skipped = by_reason(result.corpus.skipped)
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
        were = "was" if result.corpus.n_unsorted == 1 else "were"
        notes.append(
            f"{n_of(result.corpus.n_unsorted, 'task')} stood out of order and {were} sorted."
        )
    if len(skipped) > _MAX_SKIPPED_ROWS:
        more = len(skipped) - _MAX_SKIPPED_ROWS
        notes.append(
            f"{n_of(more, 'more reason')} {'stands' if more == 1 else 'stand'} in the JSON."
        )
    return Section(question="What was counted, what was not?", tables=tables, notes=notes)
