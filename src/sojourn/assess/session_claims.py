"""Claims and cautions of the sessions of one domain: what the evidence allows to be said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sojourn.assess.cautions import Caution
from sojourn.estimates import Claim, Verdict
from sojourn.tables import clean, n_of, p_text

if TYPE_CHECKING:
    from sojourn.assess.session_results import DomainAssessment
    from sojourn.corpus import SessionCounts
    from sojourn.session import Dependence, HMMPosterior, Selection
    from sojourn.task_sequences import TaskSequences

__all__ = ["ALPHA", "MIN_TASKS", "Doubts", "domain_cautions", "domain_claims", "doubts", "outages"]

ALPHA = 0.05
MIN_TASKS = 20
_MIN_OUTAGE = 5
_MAX_PARETO_K = 0.7


class Doubts(NamedTuple):
    """Reasons why figures are not supported: those of all figures, then those of one."""

    figures: tuple[str, ...]
    fresh: tuple[str, ...]
    long_run: tuple[str, ...]
    independent: tuple[str, ...]


def outages(counts: SessionCounts) -> tuple[int, float | None]:
    """Count whole-session outages; return the rate of success of the other sessions too."""
    out = counts.is_outage & (counts.n_observed >= _MIN_OUTAGE)
    known = int(counts.n_observed[~out].sum())
    rate = int(counts.n_success[~out].sum()) / known if known else None
    return int(np.count_nonzero(out)), rate


def _few(sequences: TaskSequences) -> str | None:
    n = sequences.n_observed
    return f"{n} known outcomes; {MIN_TASKS} are needed" if n < MIN_TASKS else None


def _one_sided(sequences: TaskSequences) -> str | None:
    known = sequences.success[sequences.success >= 0]
    if known.size and (known == known[0]).all():
        word = "succeeded" if known[0] else "failed"
        return f"all {known.size} tasks {word}: dependence cannot be seen, the prior decides"
    return None


def can_vary(sequences: TaskSequences) -> bool:
    """Whether there are outcomes enough, and of both kinds, to score more than one state."""
    return _few(sequences) is None and _one_sided(sequences) is None


def _session_effect(gate: Dependence) -> str | None:
    p = gate.p_session_effect
    if p is None or p > ALPHA:
        return None
    return f"sessions differ as wholes (p {p_text(p)}), which the model does not hold"


def doubts(sequences: TaskSequences, gate: Dependence, posterior: HMMPosterior | None) -> Doubts:
    """Return why the figures of a domain are not supported.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    gate : Dependence
        The tests of dependence.
    posterior : HMMPosterior or None
        The hidden-state model, where it was chosen.
    """
    common = [_few(sequences), _one_sided(sequences), _session_effect(gate)]
    model: list[str | None] = []
    fresh: list[str | None] = []
    if posterior is not None:
        model += posterior.reasons
        if not gate.p_beyond_trend <= ALPHA:
            model.append(
                f"a drift over the session may explain the order (p {p_text(gate.p_beyond_trend)} "
                "beyond a trend); the states may stand for it"
            )
        if gate.method == "margins":
            model.append("sessions share their tasks: states may stand for hard stretches of them")
        if posterior.spec.initial == "uniform":
            fresh.append("a new session is assumed to start in any state alike")
    used = int(np.count_nonzero(sequences.lengths))
    if used == 1:
        fresh.append("one session was seen: nothing shows how others begin")
    dependent = f"tasks are not independent (p {p_text(gate.p_order)})"
    alone = [*common, dependent if gate.order_matters(ALPHA) else None]
    figures = _given([*common, *model])
    far = _given([None if posterior is None else _never_reached(sequences, posterior)])
    return Doubts(figures, (*figures, *_given(fresh)), (*figures, *far), _given(alone))


def _never_reached(sequences: TaskSequences, posterior: HMMPosterior) -> str | None:
    stay, longest = float(posterior.states().dwell.max()), int(sequences.lengths.max())
    if stay <= longest:
        return None
    return f"a state lasts {stay:.0f} tasks, longer than any session: the long run was never seen"


def _given(reasons: list[str | None]) -> tuple[str, ...]:
    return tuple(reason for reason in reasons if reason)


def domain_claims(sequences: TaskSequences, gate: Dependence, doubt: Doubts) -> Iterator[Claim]:
    """Yield the claims of a domain: dependence first, then what the figures may be used for."""
    few = _few(sequences)
    more = f"at least {MIN_TASKS} tasks with a verdict" if few else None
    order = gate.order_matters(ALPHA)
    yield Claim(
        claim="order_matters",
        verdict=Verdict.ACCEPTED if order else Verdict.INCONCLUSIVE,
        p_value=gate.p_order,
        reasons=(
            f"exact test, p {p_text(gate.p_order)}: "
            + ("outcomes are not exchangeable" if order else "no evidence of dependence"),
        ),
        next=None if order else more or "longer or more sessions would show a weaker dependence",
    )
    clusters = gate.clusters(ALPHA)
    yield Claim(
        claim="clustering",
        verdict=Verdict.ACCEPTED if clusters else Verdict.INCONCLUSIVE,
        p_value=gate.p_beyond_trend,
        reasons=(_clustering_reason(gate, clusters=clusters),),
        next="interleave kinds of tasks, to tell a drift from clusters"
        if order and not clusters
        else None,
    )
    effect = _session_effect(gate) is not None
    yield Claim(
        claim="session_effect",
        verdict=Verdict.ACCEPTED if effect else Verdict.INCONCLUSIVE,
        p_value=gate.p_session_effect,
        reasons=(
            "one session only"
            if gate.p_session_effect is None
            else f"exact test, p {p_text(gate.p_session_effect)}: "
            + ("whole sessions differ" if effect else "no evidence that sessions differ"),
        ),
        next="log several sessions" if gate.p_session_effect is None else None,
    )
    yield Claim(
        claim="reliability",
        verdict=Verdict.INCONCLUSIVE if doubt.figures else Verdict.ACCEPTED,
        reasons=doubt.figures or ("the model's figures rest on no reservation of these tests",),
        next=_remedy(sequences, gate, doubt),
    )
    longest = int(sequences.lengths.max(initial=0))
    yield Claim(
        claim="horizon",
        verdict=Verdict.INCONCLUSIVE,
        reasons=(
            f"no session is longer than {n_of(longest, 'task')}: R(n) beyond is extrapolation",
        ),
        next="run longer sessions to learn what longer ones would give",
    )


def _clustering_reason(gate: Dependence, *, clusters: bool) -> str:
    text = f"p {p_text(gate.p_beyond_trend)} beyond a linear trend"
    if clusters:
        return f"{text}: successes and failures cluster"
    if gate.p_beyond_trend <= ALPHA and not gate.order_matters(ALPHA):
        return f"{text}, but the test of order as such does not reject: no clustering claimed"
    if gate.p_beyond_trend <= ALPHA:
        return f"{text}: outcomes alternate rather than cluster"
    if gate.order_matters(ALPHA):
        return f"{text}: a drift over the session may be all there is"
    return f"{text}: none seen"


def _remedy(sequences: TaskSequences, gate: Dependence, doubt: Doubts) -> str | None:
    if not doubt.figures:
        return None
    if _few(sequences):
        return f"log at least {MIN_TASKS} tasks with a verdict"
    if _session_effect(gate):
        return "find why sessions differ (outages, versions) and assess alike sessions together"
    if gate.method == "margins":
        return "shuffle the order of tasks from session to session"
    return "log longer or more sessions"


def domain_cautions(
    domain: DomainAssessment, sequences: TaskSequences, *, several: bool
) -> Iterator[Caution]:
    """Yield what a reader of a domain's figures must know."""
    place = f"{clean(domain.name)}: " if several else ""
    for code, message in _cautions(domain, sequences):
        yield Caution(code, place + message)


def _cautions(domain: DomainAssessment, sequences: TaskSequences) -> Iterator[tuple[str, str]]:
    gate, selection = domain.dependence, domain.selection
    if gate.order_matters(ALPHA):
        yield "SJ201", f"p {p_text(gate.p_order)}: the independent estimate does not hold"
        if not gate.p_beyond_trend <= ALPHA:
            yield "SJ202", f"p {p_text(gate.p_beyond_trend)} beyond a linear trend"
    effect = _session_effect(gate)
    if effect:
        yield "SJ203", f"{effect}: intervals are too narrow for a session to come"
    if domain.n_outages:
        yield "SJ204", _outage_text(domain)
    if gate.method == "margins":
        yield "SJ205", "the test allows for hard tasks; the fitted states cannot"
    if domain.block_ordered and domain.n_states > 1:
        yield (
            "SJ206",
            "subdomains come in blocks: which state of one is which of another is hardly known, "
            "and figures of a subdomain that is not the last lean on the prior",
        )
    few, one_sided = _few(sequences), _one_sided(sequences)
    if few:
        yield "SJ207", few
    if gate.p_session_effect is None:
        yield "SJ208", "one session"
    if one_sided:
        yield "SJ209", one_sided
    reasons = getattr(domain.model, "reasons", ())
    if reasons:
        yield "SJ210", "; ".join(reasons)
    if domain.gaps.n_unseen or domain.gaps.n_sessions_ordered or domain.gaps.n_unplaced:
        yield "SJ212", _gap_text(domain)
    worst = max(c.pareto_k for c in selection.candidates)
    if gate.order_matters(ALPHA) and worst > _MAX_PARETO_K:
        yield (
            "SJ214",
            f"Pareto k up to {worst:.1f}: differences between numbers of states are rough",
        )


def _outage_text(domain: DomainAssessment) -> str:
    text = f"{domain.n_outages} of {n_of(domain.n_sessions, 'session')} failed throughout"
    if domain.rate_without_outages is None:
        return text
    rate = domain.n_success / domain.n_observed
    return f"{text}; success rate {rate:.3f} with them, {domain.rate_without_outages:.3f} without"


def _gap_text(domain: DomainAssessment) -> str:
    gaps = domain.gaps
    parts = []
    if gaps.n_unseen:
        parts.append(
            f"{n_of(gaps.n_unseen, 'unseen task')} in {n_of(gaps.n_gaps, 'gap')} "
            f"{'keeps its place' if gaps.n_unseen == 1 else 'keep their places'}"
        )
    if gaps.n_sessions_ordered:
        parts.append(
            f"positions of {n_of(gaps.n_sessions_ordered, 'session')} only order the tasks"
        )
    if gaps.n_unplaced:
        holes = n_of(gaps.n_unplaced, "hole")
        belong = "belongs" if gaps.n_unplaced == 1 else "belong"
        parts.append(f"{holes} between tasks of two domains {belong} to neither")
    return "; ".join(parts)


def chosen_words(selection: Selection) -> str:
    """Return the chosen model in words."""
    k = selection.chosen
    return "independent tasks (one state)" if k == 1 else f"{k} hidden states"
