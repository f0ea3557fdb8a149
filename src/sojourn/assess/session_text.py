"""A result on sessions as plain text: the verdict on dependence first, then the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

import sojourn
from sojourn.assess.session_claims import chosen_words
from sojourn.assess.text import estimate_text, skipped_lines
from sojourn.estimates import Estimate, Status
from sojourn.tables import clean, indent, n_of, p_text, text_table, wrapped
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from sojourn.assess.session_figures import EnvelopeRow, FunctionalRow
    from sojourn.assess.session_results import DomainAssessment, GainTest, SessionAssessment

__all__ = [
    "CONVENTION_WORDS",
    "brief_functionals",
    "dependence_words",
    "describe",
    "functional_digits",
    "functional_words",
    "gain_words",
    "median_text",
    "reservations",
    "subdomain_runs",
]

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
        f"{n_of(corpus.n_observed, 'outcome')} known, "
        f"{n_of(corpus.n_success, 'success', 'successes')}",
        f"Policy: tasks without a verdict: {faults}",
        f"Intervals: {percent(result.ci_prob)}, posterior, seed {seed}; '?' marks an inconclusive "
        "figure",
    ]


def _domain(domain: DomainAssessment, *, several: bool) -> list[list[str]]:
    title = f"Domain {clean(domain.name)}: " if several else ""
    return [
        _section(f"{title}What may be believed", _claims(domain)),
        _section(f"{title}Does the order of outcomes matter?", _dependence(domain)),
        _section(f"{title}Will the next task succeed?", _next_task(domain)),
        _section(f"{title}Will the next n tasks all succeed?", _runs(domain)),
        _section(f"{title}How long will it go well?", _ahead(domain)),
        _section(f"{title}Independent tasks or hidden states?", _selection(domain)),
        _section(f"{title}The states, ordered by success", _states(domain)),
    ]


def _claims(domain: DomainAssessment) -> list[str]:
    lines: list[str] = []
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
            f"{domain.n_outages} of {n_of(domain.n_sessions, 'session')} failed throughout: a "
            "session effect, not memory"
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
                estimate_text(row.beta_binomial),
            )
            for row in figures.subdomains
        ]
        header = ("subdomain", "successes", "weight", "next task", "beta-binomial")
        lines += text_table(header, table)
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
    lines = [
        *text_table(header, rows, left=0),
        "seen: share of stretches of n tasks in the log that all succeeded",
    ]
    return [*lines, *_averages(domain), *_probabilities(domain), *_envelope(figures.envelope)]


def _averages(domain: DomainAssessment) -> list[str]:
    rows = [
        (row.n, row.stacked)
        for row in domain.reliability.success_run
        if row.start == "continuing" and row.stacked is not None
    ]
    if not rows:
        return []
    n, estimate = rows[-1]
    return [
        f"averaged over numbers of states by their predictions: R({n}) {estimate_text(estimate)}"
    ]


def _probabilities(domain: DomainAssessment) -> list[str]:
    found = [
        p
        for p in domain.reliability.probabilities
        if p.start == "continuing" and p.at_least in (0.5, 0.9)
    ]
    shown = ", ".join(f"P(R({p.n}) >= {p.at_least:g}) {p.value:.3f}" for p in found)
    return wrap(f"continuing: {shown}", 92, subsequent_indent="  ") if found else []


def _envelope(rows: Sequence[EnvelopeRow] | None) -> list[str]:
    if not rows:
        return []
    shown = ", ".join(f"R({row.n}) {row.low:.3f} to {row.high:.3f}" for row in rows)
    return wrap(f"independent tasks over the box of priors: {shown}", 92, subsequent_indent="  ")


def _ahead(domain: DomainAssessment) -> list[str]:
    """Return the other figures of the tasks ahead, continuing the last session."""
    rows = [
        (
            functional_words(row),
            estimate_text(row.estimate, functional_digits(row)),
            median_text(row, domain.longest_session),
            "-" if row.mcse is None else f"{row.mcse:.2g}",
        )
        for row in brief_functionals(domain)
    ]
    lines = text_table(("figure", "mean", "median", "mcse"), rows)
    table = subdomain_runs(domain)
    if table:
        ns, runs = table
        header = ("all n tasks of one subdomain", *(f"n = {n}" for n in ns))
        lines += text_table(
            header, [(name, *(estimate_text(e) for e in cells)) for name, cells in runs]
        )
    return lines


def brief_functionals(domain: DomainAssessment) -> list[FunctionalRow]:
    """Return the figures of the mix that are shown: continuing, and few n of each."""
    n_max = int(domain.reliability.curve.x[-1])
    return [
        row
        for row in domain.reliability.functionals
        if row.subdomain is None
        and row.start in (None, "continuing")
        and (row.name != "hazard" or row.n in (5, n_max))
        and (row.name != "at_most_failures" or row.n == n_max)
    ]


def functional_words(row: FunctionalRow) -> str:
    """Return what a figure is, in words."""
    return {
        "decay_rate": "factor by which R(n) falls per task in the end",
        "hazard": f"task {row.n} fails if all before it succeeded",
        "expected_successes": "successes before the first failure",
        "run_length": f"smallest n with R(n) under {row.level}",
        "at_most_failures": f"at most {row.failures} of {row.n} tasks fail",
        "pass_at": f"at least one of {row.n} tasks succeeds",
        "success_run": f"all of {row.n} tasks succeed",
    }[row.name]


def median_text(row: FunctionalRow, longest: int) -> str:
    """Return a posterior median; a number of tasks that no session had is said to be beyond it."""
    if row.median is None:
        return "-"
    counts_tasks = row.name in ("expected_successes", "run_length")
    if counts_tasks and row.median > longest:
        return f"over {longest}"
    mark = "" if row.estimate.status is Status.SUPPORTED else " ?"
    return f"{row.median:.{functional_digits(row)}f}{mark}"


def functional_digits(row: FunctionalRow) -> int:
    """Return the decimals of a figure: counts of tasks need one."""
    return 1 if row.name in ("expected_successes", "run_length") else 3


def subdomain_runs(
    domain: DomainAssessment,
) -> tuple[list[int], list[tuple[str, list[Estimate]]]] | None:
    """Return R(n) of tasks of one subdomain for few n; None where there is one subdomain."""
    n_max = int(domain.reliability.curve.x[-1])
    found: dict[str, list[Estimate]] = {}
    ns = [n for n in (2, 5, n_max) if n <= n_max]
    ns = sorted(set(ns))
    for row in domain.reliability.functionals:
        if row.name == "success_run" and row.subdomain is not None and row.n in ns:
            found.setdefault(row.subdomain, []).append(row.estimate)
    return (ns, list(found.items())) if found else None


def _selection(domain: DomainAssessment) -> list[str]:
    chosen = domain.selection.chosen
    rows = [
        (
            f"{c.n_states} *" if c.n_states == chosen else str(c.n_states),
            f"{c.log_score:.3f}",
            f"{c.mcse:.3f}",
            f"{c.difference:+.3f}",
            "-" if c.n_states == 1 else _number(c.se_difference),
            "-" if c.n_states == 1 else _number(c.pareto_k, 2),
            f"{weight:.3f}",
        )
        for c, weight in zip(domain.selection.candidates, domain.selection.stacking, strict=True)
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
        for b in domain.selection.baselines
    ]
    lines = [f"chosen: {chosen_words(domain.selection)}"]
    header = ("states", "log score", "mcse", "gain", "se of gain", "Pareto k", "weight")
    lines += text_table(header, rows)
    if domain.gain_test is not None:
        lines.append(gain_words(domain.gain_test))
    lines.append("more than one state only where the test of order rejects; then the best score")
    lines.append(f"before any data the model says {domain.prior}")
    model = domain.model
    found = getattr(model, "diagnostics", None)
    if found is not None:
        worst = max(d.r_hat for d in found.values())
        least = min(min(d.ess_bulk, d.ess_tail) for d in found.values())
        lines.append(f"posterior: largest R-hat {worst:.3f}, fewest effective draws {least:.0f}")
    return lines


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def gain_words(test: GainTest) -> str:
    """Return the bootstrap test of more than one state as a sentence."""
    return (
        f"more than one state, parametric bootstrap: p {p_text(test.p_value)} "
        f"({n_of(len(test.gains), 'replicate')} of independent tasks)"
    )


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
    if domain.block_ordered:
        lines.append(
            "subdomains come in blocks: states of one can hardly be matched with another's"
        )
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
    lines += _envelope(result.system_envelope)
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
    n_unsorted = result.corpus.n_unsorted
    if n_unsorted:
        lines.append(
            f"{n_of(n_unsorted, 'task')} stood out of order and "
            f"{'was' if n_unsorted == 1 else 'were'} sorted"
        )
    return wrapped([*lines, *skipped_lines(result.corpus.skipped)])


def reservations(domain: DomainAssessment) -> list[str]:
    """Return why a domain's figures are not supported, each reason once."""
    found: dict[str, None] = {}
    for row in domain.reliability.success_run:
        found.update(dict.fromkeys(row.estimate.reasons))
    return list(found)
