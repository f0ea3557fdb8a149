"""The chain on the page: is it a fair model of these runs, and where do runs get lost."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.assess import TraceAssessment
from sojourn.assess.certify import Certificate
from sojourn.assess.chain import ChainFindings
from sojourn.assess.figures import STATISTICS
from sojourn.estimates import Status, Verdict
from sojourn.process._exact_result import ExactTest
from sojourn.report.parts import Figure, Rows, Section, estimate_cell, only
from sojourn.tables import clean, p_text

__all__ = ["chain_sections"]


def chain_sections(result: TraceAssessment, figures: dict[str, Figure]) -> list[Section]:
    """Return the two sections on the chain; none where no steps were logged."""
    if result.chain is None:
        return []
    return [_fit_section(result.chain, figures), _states_section(result.chain, figures)]


def _fit_section(chain: ChainFindings, figures: dict[str, Figure]) -> Section:
    certificate = chain.certificate
    names = ", ".join(clean(name) for name in chain.states.state_names)
    paragraphs = [
        f"{chain.states.n_states} states from {chain.states.mode}: {names}.",
        f"P(success ever), which no run shows: {estimate_cell(chain.success_ever())}"
        + "".join(f"; {reason}" for reason in chain.success_ever().reasons)
        + ".",
    ]
    return Section(
        question="Is a Markov chain a fair model of these runs?",
        paragraphs=paragraphs,
        figures=[*only(figures, "fit"), *only(figures, "test")],
        tables=list(_evidence_tables(certificate)),
        notes=[*certificate.notes, *_conditions(certificate)],
    )


def _evidence_tables(certificate: Certificate) -> Iterator[Rows]:
    if certificate.published is not None:
        rule = certificate.published
        yield Rows(
            caption="The published rule: accept if KS p exceeds .05 and AIC prefers order 1.",
            header=("part", "value"),
            rows=[
                ("KS distance of passage times", _number(rule.ks_statistic)),
                ("its p-value", p_text(rule.ks_p)),
                ("AIC of order 1 minus order 2", _number(rule.aic_difference)),
                ("largest error of R(d) on the test half", _number(rule.max_curve_error)),
            ],
        )
    tests = [test for test in (certificate.pooled, certificate.within) if test is not None]
    if tests:
        yield _test_table(tests)
    bound = certificate.bound
    if bound is not None and bound.success is not None and bound.failure is not None:
        yield Rows(
            caption=f"Error of the chain's curves, margin {bound.margin:.2f}: with 95 % confidence "
            "the largest error lies over the lower and under the upper bound.",
            header=("curve", "at least", "at most"),
            rows=[
                (name, f"{curve.lower:.3f}", f"{curve.upper:.3f}")
                for name, curve in (("success", bound.success), ("failure", bound.failure))
            ],
        )
    if certificate.detectable is not None and certificate.detectable.curves:
        seen = certificate.detectable
        yield Rows(
            caption=f"Smallest departures that the pooled test finds with power {seen.power:.0%}.",
            header=("departure", "order family", "timing family"),
            rows=[
                (name, _number(seen.of("order").get(name)), _number(seen.of("timing").get(name)))
                for name in seen.of("order")
            ],
        )


def _test_table(tests: list[ExactTest]) -> Rows:
    rows: list[tuple[object, ...]] = []
    for family in ("order", "timing"):
        rows.append((f"{family}, joint", *(p_text(getattr(test, f"p_{family}")) for test in tests)))
        names = dict.fromkeys(s.name for t in tests for s in t.statistics if s.family == family)
        for name in names:
            found = [{s.name: s.p_value for s in test.statistics}.get(name) for test in tests]
            rows.append((f"  {STATISTICS.get(name, name)}", *(p_text(p) for p in found)))
    rows.append(("steps that can move", *(f"{test.movable_steps:.0%}" for test in tests)))
    header = tuple("within tasks" if test.within_tasks else "pooled" for test in tests)
    return Rows(
        caption=f"Exact conditional test, p-values of {tests[0].n_draws} draws.",
        header=("statistic", *header),
        rows=rows,
    )


def _conditions(certificate: Certificate) -> list[str]:
    test = certificate.pooled
    if test is None:
        return []
    return [f"The p-values are {test.exactness} if: {'; '.join(test.conditions)}."]


def _states_section(chain: ChainFindings, figures: dict[str, Figure]) -> Section:
    order = {claim.claim: claim.verdict for claim in chain.certificate.claims}["order"]
    with_values = order is not Verdict.REJECTED
    table = Rows(
        caption="Where runs go and where they end. Visits are the chain's expectation of one run.",
        header=("state", "steps", "visits", "then success", "then failure", "then cut")
        + (("P(success) from here",) if with_values else ()),
        rows=[
            (
                clean(row.name),
                f"{row.n_steps:,}",
                "-" if row.visits is None else f"{row.visits:.2f}",
                row.n_success,
                row.n_failure,
                row.n_cut,
            )
            + ((_number(row.value),) if with_values else ())
            for row in chain.rows
        ],
    )
    notes = []
    if not with_values:
        notes.append(
            "P(success) from each state is withheld: the order claim is rejected, so the state "
            "alone does not tell what comes next."
        )
    ever = chain.intervals.success_ever
    if ever.status is Status.WITHHELD:
        notes += [f"{reason}." for reason in ever.reasons]
    if chain.n_left_out:
        notes.append(f"{chain.n_left_out} runs whose steps were not logged are left out here.")
    return Section(
        question="Where do runs get lost?",
        figures=only(figures, "chain"),
        tables=[table],
        notes=notes,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
