"""A result as plain text: verdicts first, then the answers in the order of a user's questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import sojourn
from sojourn.assess.certify import tested_p
from sojourn.assess.process_text import process_lines
from sojourn.corpus import Group
from sojourn.estimates import Estimate, Status
from sojourn.records import by_reason
from sojourn.tables import at_least, at_most, clean, indent, n_of, p_text, text_table, wrapped
from sojourn.tables.steps import round_steps
from sojourn.tables.words import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sojourn.assess.results import GroupedAssessment, PassRow, TraceAssessment
    from sojourn.process._incidence_limits import LimitCheck
    from sojourn.process.incidence import Incidence
    from sojourn.records import Skipped

__all__ = [
    "describe",
    "describe_groups",
    "estimate_text",
    "limit_words",
    "skipped_lines",
    "unusable_lines",
]

_N_CURVE_ROWS = 12
_MAX_SKIPPED = 10
_LEVEL = 0.05


def describe_groups(result: GroupedAssessment) -> str:
    """Return all groups as text: an overview first where there are several."""
    groups = list(result)
    parts = [describe(group, with_skipped=len(groups) == 1) for group in groups]
    if len(groups) > 1:
        parts.insert(0, "\n".join(_overview(groups)))
        skipped = _skipped(groups[0])
        if skipped:
            parts.append("\n".join(["Left out while reading", *indent(wrapped(skipped))]))
    return "\n\n".join([*parts, *unusable_lines(result.unusable, "run")])


def unusable_lines(unusable: Sequence[tuple[Group, str]], what: str) -> list[str]:
    """Return a part of a text that names the groups of which no run (or task) counts, if any."""
    if not unusable:
        return []
    lines = [f"{clean(group)}: {clean(reason, limit=300)}" for group, reason in unusable]
    return ["\n".join([f"Groups of which no {what} counts", *indent(wrapped(lines))])]


def _overview(groups: list[TraceAssessment]) -> list[str]:
    rows = []
    for group in groups:
        last = [row for row in group.attempts if not row.is_beyond][-1]
        rows.append(
            (
                clean(group.group, limit=44),
                group.corpus.n_counted,
                sum(count for _, count in group.corpus.excluded),
                group.corpus.n_tasks,
                estimate_text(group.rates.success_rate),
                f"^{last.k} {last.all_succeed.value:.3f}"
                if last.k > 1 and last.all_succeed.value is not None
                else None,
            )
        )
    header = ("group", "runs", "out", "tasks", "success rate", "pass^k")
    return [f"{len(groups)} groups, never pooled", *indent(text_table(header, rows))]


def describe(result: TraceAssessment, *, with_skipped: bool = True) -> str:
    """Return the whole result as text of at most 100 columns, without any text of the log."""
    parts = [
        _heading(result),
        _section("What may be believed", _claims(result)),
        _section("How often does it succeed?", _rates(result)),
        _section("All of k attempts at a task? At least one?", _attempts(result)),
        _section("How much do tasks differ?", _heterogeneity(result)),
        _section("What would more steps buy?", _curves(result)),
        _section("Is a Markov chain a fair model of these runs?", _chain(result)),
        _section("Where do runs go, and where do they end?", _states(result)),
        _section("What becomes of a run under way? What is worth fixing?", _forecast(result)),
        _section(
            "What was counted, excluded, skipped",
            _corpus(result) + (_skipped(result) if with_skipped else []),
        ),
        _section("Cautions", [str(caution) for caution in result.cautions]),
    ]
    return "\n\n".join("\n".join(wrapped(part, width=100)) for part in parts if part)


def estimate_text(estimate: Estimate, digits: int = 3) -> str:
    """Return an estimate in one cell: value, interval, and a mark where it is not supported."""
    if estimate.value is None:
        return "-"
    text = f"{estimate.value:.{digits}f}"
    if estimate.interval is not None:
        interval = estimate.interval
        text += f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return text if estimate.status is Status.SUPPORTED else f"{text} ?"


def _forecast(result: TraceAssessment) -> list[str]:
    found = None if result.chain is None else result.chain.forecast
    return [] if found is None else found.lines()


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *indent(lines)] if lines else []


def _heading(result: TraceAssessment) -> list[str]:
    corpus = result.corpus
    low, median, high = corpus.attempts
    attempts = n_of(low, "attempt") if low == high else f"{low} to {high} attempts, median {median}"
    steps = n_of(corpus.n_steps, "step") if result.curves is not None else "steps unknown"
    seed = "the caller's generator" if result.seed is None else result.seed
    return [
        f"Sojourn {sojourn.__version__}: {clean(result.group)}",
        f"{corpus.n_counted:,} of {n_of(corpus.n_traces, 'run')} count, "
        f"{n_of(corpus.n_tasks, 'task')} ({attempts} each), {steps}",
        f"Policy: {result.policy}",
        f"Intervals: {percent(result.ci_prob)}, tasks resampled, {result.n_resamples} replicates, "
        f"seed {seed}; '?' marks an inconclusive figure",
    ]


def _claims(result: TraceAssessment) -> list[str]:
    lines = []
    for claim in result.claims:
        verdict = str(claim.verdict)
        first, *more = claim.reasons or ("",)
        lines.append(f"{claim.claim:<16} {verdict:<13} {first}")
        lines += [f"{'':<16} {'':<13} {reason}" for reason in more]
        if claim.next:
            lines.append(f"{'':<16} {'':<13} next: {claim.next}")
    return lines


def _rates(result: TraceAssessment) -> list[str]:
    rates = result.rates
    faults, cut = rates.n_doubtful
    rows: list[tuple[str, str]] = [
        ("success rate, tasks like these", estimate_text(rates.success_rate)),
        ("the same tasks run again", estimate_text(rates.same_tasks)),
        ("naive interval (ignores tasks)", estimate_text(rates.naive)),
    ]
    low, high = rates.bracket
    if faults or cut:
        rows.append(
            (
                "bracket",
                f"{low:.3f} to {high:.3f} ({faults} left out and {n_of(cut, 'cut run')} all fail, "
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
    if rates.same_tasks.value is None:
        lines += [f"the same tasks: {reason}" for reason in rates.same_tasks.reasons]
    return lines


def _or_reason(estimate: Estimate, digits: int = 3) -> str:
    if estimate.value is None:
        return f"- ({'; '.join(estimate.reasons)})"
    return estimate_text(estimate, digits)


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
        ("tasks observed", *hetero.observed.tolist()),
        ("if all tasks were alike", *(f"{value:.1f}" for value in hetero.alike)),
    ]
    fits = "passes" if hetero.fits else "fails"
    p = hetero.p_value
    verdict = "tasks differ" if p < 0.05 else "no evidence that tasks differ"
    lines = text_table((f"successes in {n}", *map(str, range(n + 1))), rows) if n <= 12 else []
    return [
        f"intraclass correlation {estimate_text(hetero.icc)}; permutation p {p_text(p)}: {verdict}",
        *lines,
        f"the beta-binomial law {fits} its check (p {p_text(hetero.check_p)})",
        *hetero.law_lines(),
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
    lines += _beside(result, curves)
    times = [
        (f"mean steps up to step {curves.horizon}", estimate_text(curves.restricted_mean, 1)),
        ("median", estimate_text(curves.median, 0)),
        ("90 % have finished by", estimate_text(curves.p90, 0)),
        ("median given success", estimate_text(curves.given_success.median, 0)),
    ]
    lines += text_table(("", ""), times, left=2)
    for name, time in (("median", curves.median), ("90 %", curves.p90)):
        if time.value is None:
            lines.append(f"{name}: {'; '.join(time.reasons)}")
    support = (
        f"supported to step {curves.supported_to}"
        if curves.supported_to >= 0
        else "no step has the ten tasks that support needs"
    )
    lines.append(
        f"{support}; nothing is known beyond the longest run ({n_of(curves.horizon, 'step')})"
    )
    return lines


def _beside(result: TraceAssessment, curves: Incidence) -> list[str]:
    """Return the process's curves, the worst and best case of cut runs, the check of limits."""
    header, columns = ["d"], []
    steps = _curve_steps(curves)
    chain = result.chain
    if chain is not None and chain.accepted:
        for outcome in ("success", "failure"):
            header.append(f"{outcome} ({chain.chosen})")
            columns.append([estimate_text(chain.process_within(d, outcome)) for d in steps])
    low, high = curves.worst_best
    if np.any(high > low):
        header.append("success, cut runs worst to best")
        columns.append([f"{low[d]:.3f} to {high[d]:.3f}" for d in steps])
    lines = []
    if columns:
        lines = text_table(header, list(zip(steps, *columns, strict=True)), left=0)
    check = curves.limit_check
    if check is not None:
        lines.append(limit_words(check))
    return lines


def limit_words(check: LimitCheck) -> str:
    """Say whether runs under high limits end at another rate than runs under low ones."""
    ratios = [
        f"{name} {ratio:.2f} times as often"
        for name, ratio in (("succeed", check.success_ratio), ("fail", check.failure_ratio))
        if ratio is not None
    ]
    told = "limits go with difficulty" if check.p_value < _LEVEL else "no evidence that limits tell"
    return (
        f"limits: up to step {check.up_to} the {check.n_high} runs with higher ones "
        f"{' and '.join(ratios) or 'end'} as expected of the others ({check.n_low}); "
        f"permutation p {p_text(check.p_value)}: {told}"
    )


def _curve_steps(curves: Incidence) -> list[int]:
    """Return about a dozen round steps between the first event and the horizon."""
    ended = np.asarray(curves.success.value) + np.asarray(curves.failure.value)
    first = int(np.argmax(ended > 0)) if (ended > 0).any() else 0
    return round_steps(first, curves.horizon, _N_CURVE_ROWS)


def _chain(result: TraceAssessment) -> list[str]:
    chain = result.chain
    if chain is None:
        return []
    certificate = chain.certificate
    names = ", ".join(clean(name) for name in chain.states.state_names)
    lines = [f"{n_of(chain.states.n_states, 'state')} from {chain.states.mode}: {names}"]
    rows: list[tuple[str, ...]] = []
    if certificate.pooled is not None and certificate.within is not None:
        pooled, within = certificate.pooled, certificate.within
        rows += [
            *(
                (
                    f"{name}: {pooled.exactness} test, p",
                    *(p_text(tested_p(t, name)) for t in (pooled, within)),
                )
                for name in ("order", "timing")
            ),
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
            "the homogeneous chain's curves are off by "
            f"{at_least(bound.success.lower)} to {at_most(bound.success.upper)} (success), "
            f"{at_least(bound.failure.lower)} to {at_most(bound.failure.upper)} (failure); "
            f"margin {bound.margin:.2f}"
        )
    rule = certificate.published
    if rule is not None:
        lines.append(f"published rule: KS p {p_text(rule.ks_p)}")
    if certificate.detectable is not None:
        seen = certificate.detectable
        rows = [
            (name, *(_effect(seen.of(family).get(name)) for family in ("order", "timing")))
            for name in seen.of("order")
        ]
        lines.append(f"smallest departures that the pooled test finds with power {seen.power:.0%}:")
        lines += text_table(("", "order", "timing"), rows) if rows else list(seen.reasons)
    lines.append(f"P(success ever), homogeneous chain: {_or_reason(chain.success_ever())}")
    return [*lines, *certificate.notes, *process_lines(chain)]


def _effect(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _states(result: TraceAssessment) -> list[str]:
    if result.chain is None:
        return []
    n_runs = max(result.chain.fit.counts.n_runs, 1)
    rows = [
        (row.name, f"{row.n_steps / n_runs:.2f}", row.n_success, row.n_failure, row.n_cut)
        for row in result.chain.rows
    ]
    header = ("state", "steps a run", "last before success", "before failure", "before a cut")
    return text_table(header, rows)


def _corpus(result: TraceAssessment) -> list[str]:
    corpus = result.corpus
    rows = [
        (row.outcome, row.end, row.n_runs, *(row.quantiles or ("-",) * 5)) for row in corpus.lengths
    ]
    lines = text_table(
        ("outcome", "end", "runs", "steps min", "25%", "50%", "75%", "max"), rows, left=2
    )
    return lines + [
        f"excluded: {n_of(count, 'run')}, {reason}" for reason, count in corpus.excluded
    ]


_SKIPPED_WORDS = {"stranger": "file", "bytes": "place"}


def _skipped(result: TraceAssessment) -> list[str]:
    """Return what the readers left out, which is one story for all groups of an input."""
    return skipped_lines(result.corpus.skipped)


def skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    """Return what the readers left out and what they kept otherwise, a line a reason."""
    lines = []
    reasons = by_reason(skipped)
    for item in reasons[:_MAX_SKIPPED]:
        # A note is on something that was kept: nothing was skipped for it.
        lead = "noted" if item.what == "key" else "skipped"
        counted = (
            n_of(item.count, "time")
            if item.what == "key"
            else n_of(item.count, _SKIPPED_WORDS.get(item.what, item.what))
        )
        reason = clean(item.reason, limit=240)
        lines.append(f"{lead}: {counted}, {reason} ({clean(item.source, limit=120)})")
    if len(reasons) > _MAX_SKIPPED:
        more = n_of(len(reasons) - _MAX_SKIPPED, "more reason")
        lines.append(f"skipped or noted: {more}, all in the JSON")
    return lines
