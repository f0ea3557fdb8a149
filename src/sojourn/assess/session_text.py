"""A result on sessions as plain text: the verdict on dependence first, then the answers."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

import sojourn
from sojourn.assess.session_claims import chosen_words
from sojourn.assess.text import estimate_text
from sojourn.tables import clean, indent, n_of, p_text, text_table

if TYPE_CHECKING:
    from sojourn.assess.session_results import DomainAssessment, SessionAssessment

__all__ = ["CONVENTION_WORDS", "dependence_words", "describe", "reservations"]

CONVENTION_WORDS = {
    "domain_once": "a session stays in one domain, drawn once",
    "domain_per_task": "a domain is drawn for every task",
}


def describe(result: SessionAssessment) -> str:
    """Return the whole result as text, without any text of the log."""
    parts = [_heading(result)]
    for domain in result.domains:
        parts += _domain(domain, several=len(result.domains) > 1)
    parts += [
        _section("What does that mean for the mix of work?", _system(result)),
        _section("What was counted, skipped", _corpus(result)),
        _section("Cautions", [str(caution) for caution in result.cautions]),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *indent(lines)] if lines else []


def _heading(result: SessionAssessment) -> list[str]:
    corpus = result.corpus
    seed = "the caller's generator" if result.seed is None else result.seed
    faults = "failures" if result.policy.faults == "failure" else "unknown, in their places"
    return [
        f"Sojourn {sojourn.__version__}: {clean(result.group)}",
        f"{n_of(corpus.n_tasks, 'task')} in {n_of(corpus.n_sessions, 'session')}, "
        f"{corpus.n_observed:,} outcomes known, {corpus.n_success:,} successes",
        f"Policy: tasks without a verdict: {faults}",
        f"Intervals: {result.ci_prob:.0%}, posterior, seed {seed}; '?' marks an inconclusive "
        "figure",
    ]


def _domain(domain: DomainAssessment, *, several: bool) -> list[list[str]]:
    title = f"Domain {clean(domain.name)}: " if several else ""
    return [
        _section(f"{title}What may be believed", _claims(domain)),
        _section(f"{title}Does the order of outcomes matter?", _dependence(domain)),
        _section(f"{title}Will the next task succeed?", _next_task(domain)),
        _section(f"{title}Will the next n tasks all succeed?", _runs(domain)),
        _section(f"{title}Independent tasks or hidden states?", _selection(domain)),
        _section(f"{title}The states, ordered by success", _states(domain)),
    ]


def _claims(domain: DomainAssessment) -> list[str]:
    lines = []
    for claim in domain.claims:
        words = [*claim.reasons, *([f"next: {claim.next}"] if claim.next else [])]
        for number, text in enumerate(words):
            lead = ("", "") if number else (claim.claim, str(claim.verdict))
            lines += [
                f"{lead[0] if not row else '':<16} {lead[1] if not row else '':<13} {part}"
                for row, part in enumerate(wrap(text, 66, subsequent_indent="  "))
            ]
    return lines


def dependence_words(domain: DomainAssessment) -> str:
    """Return the verdict on dependence as a sentence."""
    gate = domain.dependence
    if not gate.order_matters():
        return "No evidence that outcomes within a session depend on one another."
    if gate.clusters():
        return "Outcomes within a session depend on one another: they cluster."
    if gate.p_beyond_trend <= 0.05:
        return "Outcomes within a session depend on one another: they alternate."
    return "Order matters, but a drift over the session may be all there is: no clustering claimed."


def _dependence(domain: DomainAssessment) -> list[str]:
    gate = domain.dependence
    null = (
        "tasks shared by sessions: both margins of session x task kept"
        if gate.method == "margins"
        else "outcomes permuted within session and subdomain"
    )
    rows = [
        ("order matters, p", p_text(gate.p_order)),
        ("beyond a linear trend, p", p_text(gate.p_beyond_trend)),
        ("sessions differ as wholes, p", p_text(gate.p_session_effect)),
    ]
    lines = [dependence_words(domain), *text_table(("", ""), rows)]
    lines.append(f"{null}; {gate.n_draws} draws")
    if domain.n_outages:
        lines.append(
            f"{domain.n_outages} of {domain.n_sessions} sessions failed throughout: a session "
            "effect, not memory"
        )
    return lines


def _next_task(domain: DomainAssessment) -> list[str]:
    figures = domain.reliability
    rows = [
        ("continuing the last session", estimate_text(figures.next_task)),
        ("first task of a fresh session", estimate_text(figures.fresh_session)),
        ("in the long run", estimate_text(figures.long_run)),
        ("if tasks were independent", estimate_text(figures.independent)),
        ("seen so far, without a model", estimate_text(figures.observed)),
    ]
    lines = text_table(("", ""), rows, left=2)
    if len(figures.subdomains) > 1:
        table = [
            (
                row.name,
                f"{row.n_success}/{row.n_observed}",
                f"{row.weight:.3f}",
                estimate_text(row.next_task),
            )
            for row in figures.subdomains
        ]
        lines += text_table(("subdomain", "successes", "weight", "next task"), table)
    return lines


def _runs(domain: DomainAssessment) -> list[str]:
    figures = domain.reliability
    ns = [row.n for row in figures.success_run if row.start == "continuing"]
    rows = []
    for n in ns:
        by_start = [figures.row(start, n) for start in ("continuing", "fresh", "long_run")]
        found = [row for row in by_start if row is not None]
        rows.append(
            (
                n,
                *(estimate_text(row.estimate) for row in found),
                estimate_text(found[0].independent),
                None if found[-1].observed is None else f"{found[-1].observed:.3f}",
            )
        )
    header = ("n", "continuing", "fresh session", "long run", "if independent", "seen")
    return [
        *text_table(header, rows, left=0),
        "seen: share of stretches of n tasks in the log that all succeeded",
    ]


def _selection(domain: DomainAssessment) -> list[str]:
    chosen = domain.selection.chosen
    rows = [
        (
            f"{c.n_states} *" if c.n_states == chosen else str(c.n_states),
            f"{c.log_score:.3f}",
            f"{c.mcse:.3f}",
            f"{c.difference:+.3f}",
            "-" if c.n_states == 1 else f"{c.se_difference:.3f}",
        )
        for c in domain.selection.candidates
    ]
    lines = [f"chosen: {chosen_words(domain.selection)}"]
    lines += text_table(("states", "log score", "mcse", "gain", "se of gain"), rows)
    lines.append("more than one state only where the test of order rejects; then the best score")
    lines.append(f"before any data the model says {domain.prior}")
    model = domain.model
    found = getattr(model, "diagnostics", None)
    if found is not None:
        worst = max(d.r_hat for d in found.values())
        least = min(min(d.ess_bulk, d.ess_tail) for d in found.values())
        lines.append(f"posterior: largest R-hat {worst:.3f}, fewest effective draws {least:.0f}")
    return lines


def _states(domain: DomainAssessment) -> list[str]:
    states = domain.states
    if states is None:
        return []
    names = [row.name for row in domain.reliability.subdomains]
    weights = [row.weight for row in domain.reliability.subdomains]
    rows = [
        (
            s + 1,
            f"{sum(w * p for w, p in zip(weights, states.success_prob[:, s], strict=True)):.3f}",
            f"{states.dwell[s]:.1f}",
            f"{states.long_run_share[s]:.3f}",
        )
        for s in range(domain.n_states)
    ]
    lines = text_table(("state", "success", "stay (tasks)", "long-run share"), rows, left=0)
    if states.ambiguous:
        lines.append("the states are not told apart by their success: this table mixes them")
    if len(names) > 1:
        lines.append("success is weighted by the profile's shares of subdomains")
    return lines


def _system(result: SessionAssessment) -> list[str]:
    shares = ", ".join(
        f"{clean(name)} {weight:.3f}" for name, weight in result.profile.domains.items()
    )
    lines = [f"profile ({result.profile.source}): {shares}"]
    if not result.system:
        return [*lines, "no figure: a domain of the profile has no known outcome"]
    if len(result.profile.domains) == 1:
        return [*lines, "one domain: the system's reliability is the domain's"]
    ns = sorted({row.n for row in result.system})
    found = {(row.convention, row.n): row for row in result.system}
    rows = []
    for n in ns:
        once, per_task = found["domain_once", n], found["domain_per_task", n]
        rows.append(
            (
                n,
                estimate_text(once.estimate),
                estimate_text(once.independent),
                estimate_text(per_task.estimate),
                estimate_text(per_task.independent),
            )
        )
    header = ("n", "domain once", "if independent", "domain per task", "if independent")
    lines += text_table(header, rows, left=0)
    return lines + [f"{name.replace('_', ' ')}: {w}" for name, w in CONVENTION_WORDS.items()]


def _corpus(result: SessionAssessment) -> list[str]:
    rows = [
        (
            domain.name,
            domain.n_tasks,
            domain.n_observed,
            domain.n_success,
            domain.n_sessions,
            domain.longest_session,
        )
        for domain in result.domains
    ]
    header = ("domain", "tasks", "known", "successes", "sessions", "longest")
    lines = text_table(header, rows)
    if result.corpus.n_unsorted:
        lines.append(f"{result.corpus.n_unsorted} tasks stood out of order and were sorted")
    skipped = result.corpus.skipped
    lines += [
        f"skipped: {item.count} {item.what}, {clean(item.reason)} ({clean(item.source)})"
        for item in skipped[:10]
    ]
    if len(skipped) > 10:
        lines.append(f"skipped: {len(skipped) - 10} more reasons, all in the JSON")
    return lines


def reservations(domain: DomainAssessment) -> list[str]:
    """Return why a domain's figures are not supported, each reason once."""
    found: dict[str, None] = {}
    for row in domain.reliability.success_run:
        found.update(dict.fromkeys(row.estimate.reasons))
    return list(found)
