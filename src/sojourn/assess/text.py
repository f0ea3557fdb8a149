"""A result as plain text: verdicts first, then the answers in the order of a user's questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import sojourn
from sojourn.estimates import Estimate, Status
from sojourn.tables import clean, indent, p_text, text_table

if TYPE_CHECKING:
    from sojourn.assess.results import PassRow, TraceAssessment
    from sojourn.process.incidence import Incidence

__all__ = ["describe", "estimate_text"]

_N_CURVE_ROWS = 12


def describe(result: TraceAssessment) -> str:
    """Return the whole result as text of at most 100 columns, without any text of the log."""
    parts = [
        _heading(result),
        _section("What may be believed", _claims(result)),
        _section("How often does it succeed?", _rates(result)),
        _section("All of k attempts at a task? At least one?", _attempts(result)),
        _section("How much do tasks differ?", _heterogeneity(result)),
        _section("What would more steps buy?", _curves(result)),
        _section("Is a Markov chain a fair model of these runs?", _chain(result)),
        _section("Where do runs get lost?", _states(result)),
        _section("What was counted, excluded, skipped", _corpus(result)),
        _section("Cautions", [str(caution) for caution in result.cautions]),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def estimate_text(estimate: Estimate, digits: int = 3) -> str:
    """Return an estimate in one cell: value, interval, and a mark where it is not supported."""
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:.{digits}f}"
    if estimate.interval is not None:
        interval = estimate.interval
        text += f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return text if estimate.status is Status.SUPPORTED else f"{text} ?"


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *indent(lines)] if lines else []


def _heading(result: TraceAssessment) -> list[str]:
    corpus = result.corpus
    low, median, high = corpus.attempts
    attempts = f"{low}" if low == high else f"{low} to {high}, median {median}"
    seed = "the caller's generator" if result.seed is None else result.seed
    return [
        f"Sojourn {sojourn.__version__}: {clean(result.group)}",
        f"{corpus.n_counted} of {corpus.n_traces} runs count, {corpus.n_tasks} tasks "
        f"({attempts} attempts each), {corpus.n_steps} steps",
        f"Policy: {result.policy}",
        f"Intervals: {result.ci_prob:.0%}, tasks resampled, {result.n_resamples} replicates, "
        f"seed {seed}; '?' marks an inconclusive figure",
    ]


def _claims(result: TraceAssessment) -> list[str]:
    lines = []
    for claim in result.claims:
        lines.append(f"{claim.claim:<16} {claim.verdict:<13} {'; '.join(claim.reasons)}")
        if claim.next:
            lines.append(f"{'':<16} {'':<13} next: {claim.next}")
    return lines


def _rates(result: TraceAssessment) -> list[str]:
    rates = result.rates
    faults, cut = rates.n_doubtful
    rows: list[tuple[str, str]] = [
        ("success rate, tasks like these", estimate_text(rates.success_rate)),
        ("the same tasks run again", _or_reason(rates.same_tasks)),
        ("naive interval (ignores tasks)", estimate_text(rates.naive)),
    ]
    low, high = rates.bracket
    if faults or cut:
        rows.append(
            (
                "bracket",
                f"{low:.3f} to {high:.3f} ({faults} faults and {cut} cut runs all fail, "
                "all succeed)",
            )
        )
    lines = text_table(("", ""), rows, left=2)
    if len(rates.by_policy) > 1:
        table = [
            (
                ("* " if row.chosen else "  ") + row.name,
                f"{row.n_success}/{row.n_runs}",
                estimate_text(row.estimate),
            )
            for row in rates.by_policy
        ]
        lines += text_table(("counting (* this result)", "runs", "rate"), table)
    return lines


def _or_reason(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"- ({'; '.join(estimate.reasons)})"
    return estimate_text(estimate)


def _attempts(result: TraceAssessment) -> list[str]:
    within = [row for row in result.attempts if not row.is_beyond]
    beyond = [row for row in result.attempts if row.is_beyond]
    rows = [
        (
            row.k,
            row.n_tasks,
            estimate_text(row.all_succeed),
            f"{row.pooled_all:.3f}",
            estimate_text(row.any_succeeds),
            f"{row.pooled_any:.3f}",
        )
        for row in within
    ]
    header = ("k", "tasks", "pass^k (all k)", "rate^k", "pass@k (any)", "1-(1-rate)^k")
    lines = text_table(header, rows, left=0)
    for row in beyond:
        lines += _beyond_lines(row)
    lines.append("averaged over tasks, attempts drawn without replacement; rate^k ignores tasks")
    return lines


def _beyond_lines(row: PassRow) -> list[str]:
    lines = []
    for name, estimate, bounds in (
        ("pass^", row.all_succeed, row.bounds_all),
        ("pass@", row.any_succeeds, row.bounds_any),
    ):
        text = f"{name}{row.k}, beyond the attempts: "
        if bounds is not None:
            text += f"without a model {bounds[0]:.3f} to {bounds[1]:.3f}"
        if estimate.value is not None:
            text += f"; beta-binomial {estimate_text(estimate)}"
        lines.append(text)
    return lines


def _heterogeneity(result: TraceAssessment) -> list[str]:
    hetero = result.heterogeneity
    if hetero.p_value is None:
        return []
    n = hetero.observed.size - 1
    rows = [
        ("tasks", *hetero.observed.tolist()),
        ("if all tasks were alike", *(f"{value:.1f}" for value in hetero.alike)),
    ]
    fits = "passes" if hetero.fits else "fails"
    p = hetero.p_value
    verdict = "tasks differ" if p < 0.05 else "no evidence that tasks differ"
    lines = text_table(("successes", *map(str, range(n + 1))), rows) if n <= 12 else []
    return [
        f"intraclass correlation {estimate_text(hetero.icc)}; permutation p {p_text(p)}: {verdict}",
        *lines,
        f"the beta-binomial law {fits} its check (p {p_text(hetero.check_p)})",
    ]


def _curves(result: TraceAssessment) -> list[str]:
    curves = result.curves
    if curves is None:
        return ["no run has its number of steps"]
    rows = [
        (
            d,
            estimate_text(curves.point(d)),
            estimate_text(curves.point(d, outcome="failure")),
            f"{curves.still_running[d]:.3f}",
            int(curves.units_at_risk[d]),
        )
        for d in _curve_steps(curves)
    ]
    header = ("d", "success within d", "failure within d", "still going", "tasks at risk")
    lines = text_table(header, rows, left=0)
    times = [
        ("mean steps to finish", estimate_text(curves.restricted_mean, 1)),
        ("median", _or_reason(curves.median)),
        ("90 % have finished by", _or_reason(curves.p90)),
        ("median given success", _or_reason(curves.given_success.median)),
    ]
    lines += text_table(("", ""), times, left=2)
    lines.append(
        f"supported to step {curves.supported_to}; nothing is known beyond the longest run "
        f"({curves.horizon} steps)"
    )
    return lines


def _curve_steps(curves: Incidence) -> Iterator[int]:
    """Yield about a dozen round steps between the first event and the horizon."""
    ended = np.asarray(curves.success.value) + np.asarray(curves.failure.value)
    first = int(np.argmax(ended > 0)) if (ended > 0).any() else 0
    steps = np.unique(np.linspace(first, curves.horizon, _N_CURVE_ROWS).round().astype(int))
    yield from steps.tolist()


def _chain(result: TraceAssessment) -> list[str]:
    chain = result.chain
    if chain is None:
        return []
    certificate = chain.certificate
    names = ", ".join(clean(name) for name in chain.states.state_names)
    lines = [f"{chain.states.n_states} states from {chain.states.mode}: {names}"]
    rows: list[tuple[str, str, str]] = []
    if certificate.pooled is not None and certificate.within is not None:
        pooled, within = certificate.pooled, certificate.within
        rows += [
            ("order: exact test, p", p_text(pooled.p_order), p_text(within.p_order)),
            ("timing: exact test, p", p_text(pooled.p_timing), p_text(within.p_timing)),
            (
                "steps that can move",
                f"{pooled.movable_steps:.0%}",
                f"{within.movable_steps:.0%}",
            ),
        ]
        lines += text_table(("", "pooled", "within tasks"), rows)
    bound = certificate.bound
    if bound is not None and bound.success is not None and bound.failure is not None:
        lines.append(
            f"the chain's curves are off by {bound.success.lower:.3f} to {bound.success.upper:.3f} "
            f"(success), {bound.failure.lower:.3f} to {bound.failure.upper:.3f} (failure); "
            f"margin {bound.margin:.2f}"
        )
    rule = certificate.published
    if rule is not None:
        lines.append(f"published rule: KS p {p_text(rule.ks_p)}, AIC {rule.aic_difference}")
    lines.append(f"P(success ever): {_or_reason(chain.success_ever())}")
    return [*lines, *certificate.notes]


def _states(result: TraceAssessment) -> list[str]:
    if result.chain is None:
        return []
    rows = [
        (
            row.name,
            row.n_steps,
            None if row.visits is None else f"{row.visits:.2f}",
            row.n_success,
            row.n_failure,
            row.n_cut,
        )
        for row in result.chain.rows
    ]
    return text_table(
        ("state", "steps", "visits a run", "then success", "then failure", "then cut"), rows
    )


def _corpus(result: TraceAssessment) -> list[str]:
    corpus = result.corpus
    rows = [
        (row.outcome, row.end, row.n_runs, *(row.quantiles or ("-",) * 5)) for row in corpus.lengths
    ]
    lines = text_table(
        ("outcome", "end", "runs", "steps min", "25%", "50%", "75%", "max"), rows, left=2
    )
    lines += [f"excluded: {count} {reason}" for reason, count in corpus.excluded]
    lines += [
        f"skipped: {item.count} {item.what}, {clean(item.reason)} ({clean(item.source)})"
        for item in corpus.skipped[:10]
    ]
    if len(corpus.skipped) > 10:
        lines.append(f"skipped: {len(corpus.skipped) - 10} more reasons, all in the JSON")
    return lines
