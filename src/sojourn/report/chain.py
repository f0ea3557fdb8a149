"""The chain on the page: is it a fair model of these runs, and where do runs get lost."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.assess import TraceAssessment
from sojourn.assess.certify import Certificate
from sojourn.assess.chain import ChainFindings
from sojourn.assess.figures import STATISTICS
from sojourn.estimates import Estimate, Status, Verdict
from sojourn.process._exact_result import ExactTest
from sojourn.report.parts import Figure, Rows, Section, estimate_cell, only, p_cell
from sojourn.report.process import process_notes, process_paragraphs, process_tables
from sojourn.tables import at_least, at_most, clean, n_of

__all__ = ["chain_sections"]


def chain_sections(result: TraceAssessment, figures: dict[str, Figure]) -> list[Section]:
    """Return the two sections on the chain; none where no steps were logged."""
    if result.chain is None:
        return []
    return [_fit_section(result.chain, figures), _states_section(result.chain, figures)]


def _fit_section(chain: ChainFindings, figures: dict[str, Figure]) -> Section:
    question = "Is a Markov chain a fair model of these runs?"
    if chain.fit.horizon <= 1:
        return Section(
            question=question,
            paragraphs=[
                "No run has more than one step: there is no order of steps to model, and a chain "
                "says no more than the success rate does."
            ],
        )
    certificate = chain.certificate
    names = ", ".join(clean(name) for name in chain.states.state_names)
    return Section(
        question=question,
        paragraphs=[
            f"{n_of(chain.states.n_states, 'state')} from {chain.states.mode}: {names}.",
            _ever(chain.success_ever()),
            *process_paragraphs(chain),
        ],
        figures=[*only(figures, "fit"), *only(figures, "test")],
        tables=[*process_tables(chain), *_evidence_tables(certificate)],
        notes=[*certificate.notes, *_conditions(certificate), *process_notes(chain)],
    )


def _ever(ever: Estimate) -> str:
    """Say what runs without any limit would come to, or why that is not said."""
    why = "; ".join(ever.reasons)
    if ever.value is None:
        return f"How many runs would succeed if none were ever stopped is not given: {why}."
    return (
        "If no run were ever stopped, the homogeneous chain expects this share to succeed: "
        f"{estimate_cell(ever)}. No run shows it; {why}."
    )


def _evidence_tables(certificate: Certificate) -> Iterator[Rows]:
    if certificate.published is not None:
        rule = certificate.published
        yield Rows(
            caption="The published rule: accept if KS p exceeds .05 and AIC prefers order 1.",
            header=("part", "value"),
            rows=[
                ("KS distance of passage times", _number(rule.ks_statistic)),
                ("its p-value", p_cell(rule.ks_p)),
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
            caption=f"Error of the homogeneous chain's curves, margin {bound.margin:.2f}: with "
            "95 % confidence the largest error lies over the lower and under the upper bound.",
            header=("curve", "at least", "at most"),
            rows=[
                (name, at_least(curve.lower), at_most(curve.upper))
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
        joint = (
            p_cell(getattr(test, f"p_{family}") if test.movable_steps > 0 else None)
            for test in tests
        )
        rows.append((f"{family}, joint", *joint))
        names = dict.fromkeys(s.name for t in tests for s in t.statistics if s.family == family)
        for name in names:
            rows.append(
                (STATISTICS.get(name, name), *(p_cell(_own_p(test, name)) for test in tests))
            )
    rows.append(("steps that can move", *(_share(test.movable_steps) for test in tests)))
    header = tuple("within tasks" if test.within_tasks else "pooled" for test in tests)
    return Rows(
        caption=f"{tests[0].exactness.capitalize()} conditional test, p-values of "
        f"{tests[0].n_draws} draws; - where nothing can move, so that nothing was tested.",
        header=("statistic", *header),
        rows=rows,
    )


def _own_p(test: ExactTest, name: str) -> float | None:
    """Return the p-value of one statistic; None where all draws are alike: p = 1 is no pass."""
    for statistic in test.statistics:
        if statistic.name == name and test.movable_steps > 0 and statistic.n_distinct > 1:
            return statistic.p_value
    return None


def _share(share: float) -> str:
    return "under 1%" if 0 < share < 0.005 else f"{share:.0%}"


def _conditions(certificate: Certificate) -> list[str]:
    test = certificate.pooled
    if test is None:
        return []
    rest = "if" if test.exactness == "exact" else "and rest on this"
    return [f"The p-values are {test.exactness} {rest}: {'; '.join(test.conditions)}."]


def _states_section(chain: ChainFindings, figures: dict[str, Figure]) -> Section:
    verdicts = {claim.claim: claim.verdict for claim in chain.certificate.claims}
    model = (verdicts["order"], verdicts["timing"])
    with_values = Verdict.REJECTED not in model
    mark = "\N{NO-BREAK SPACE}?" if Verdict.INCONCLUSIVE in model else ""
    counts = chain.fit.counts
    n_failed = int(counts.table[:, counts.n_states + 1].sum())
    table = Rows(
        caption=f"Counted in {n_of(counts.n_runs, 'run')}. "
        '"Then": runs that succeeded, failed or were cut right after a step in this state.',
        header=(
            "state",
            "steps a run",
            "then success",
            "then failure",
            "then cut",
            "share of failed runs",
        )
        + (("P(success) from here",) if with_values else ()),
        rows=[
            (
                clean(row.name),
                f"{row.n_steps / counts.n_runs:.2f}",
                row.n_success,
                row.n_failure,
                row.n_cut,
                f"{row.n_failure / n_failed:.0%}" if n_failed else "-",
            )
            + (
                (_number(row.value) + (mark if row.value is not None else ""),)
                if with_values
                else ()
            )
            for row in chain.rows
        ],
    )
    notes = []
    if with_values:
        notes.append("P(success) from here is the chain's, without an interval.")
    else:
        wrong = [name for name in ("order", "timing") if verdicts[name] is Verdict.REJECTED]
        notes.append(
            "P(success) from each state is withheld: of the claims on the chain, "
            f"{' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} "
            "rejected, so the state alone does not tell what comes next."
        )
        if "chain" in figures:
            notes.append(
                "The graph shows how often which state follows which, not how runs come out."
            )
    ever = chain.intervals.success_ever
    if ever.status is Status.WITHHELD:
        notes += [f"{reason}." for reason in ever.reasons]
    if chain.n_left_out:
        are = "is" if chain.n_left_out == 1 else "are"
        notes.append(
            f"{n_of(chain.n_left_out, 'run')} whose steps were not logged {are} left out here."
        )
    return Section(
        question="Where do runs get lost?",
        paragraphs=[
            "For each state: how many steps of a run are spent in it, how the runs came out that "
            "ended there, and which share of all failed runs that is. Where a run ends need not "
            "be where it went wrong."
        ],
        figures=only(figures, "chain"),
        tables=[table],
        notes=notes,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
