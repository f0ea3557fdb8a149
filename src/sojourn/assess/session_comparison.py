"""Comparing sessions: how the next task, the long run and R(n) differ between two logs.

The posteriors of two logs are independent, so the difference of a figure is the difference of
draws. Both are given one mix of work, stated or pooled from the two; a figure that is inconclusive
in one of them is inconclusive in the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import sojourn
from sojourn._threads import plain_blas
from sojourn._validation import check_fraction
from sojourn.assess.comparison_results import Answer
from sojourn.assess.exported import SCHEMA_VERSION, Exported
from sojourn.assess.session_results import DomainAssessment
from sojourn.assess.sessions import assess_sessions
from sojourn.assess.traces import seeded
from sojourn.corpus import Policy, SessionLog
from sojourn.errors import NothingUsableError
from sojourn.estimates import Estimate, Interval, Status, number
from sojourn.records import OperationalProfile
from sojourn.session import STARTS

__all__ = ["START_WORDS", "SessionComparison", "SessionRow", "compare_sessions"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_RUNS = (1, 2, 5, 10, 20)
START_WORDS = {
    "continuing": "continuing the last session",
    "fresh": "fresh session",
    "long_run": "long run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One figure of both logs, and their difference.

    Attributes
    ----------
    domain, start : str
        Where tasks are from, and where they start: ``continuing``, ``fresh``, ``long_run``.
    n : int
        The figure is R(n): the next n tasks all succeed.
    a, b : float
        Posterior means.
    difference : Estimate
        B minus A.
    chance_better : float
        Posterior probability that B's figure is the larger.
    """

    domain: str
    start: str
    n: int
    a: float
    b: float
    difference: Estimate
    chance_better: float

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "domain": self.domain,
            "start": self.start,
            "n": self.n,
            "a": number(self.a),
            "b": number(self.b),
            "difference": self.difference.to_dict(),
            "chance_better": number(self.chance_better),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionComparison(Exported):
    """How the sessions of B differ from those of A.

    Attributes
    ----------
    name_a, name_b : str
        What the two are called.
    answers : mapping of str to Answer
        By domain, on the success of the next task in the long run, against `margin`.
    margin : float
        Differences under it are of no matter.
    rows : tuple of SessionRow
        By domain, start and n.
    notes : tuple of str
        What a reader must know.
    seed : int or None
        Entropy of the draws.
    """

    name_a: str
    name_b: str
    answers: dict[str, Answer]
    margin: float
    rows: tuple[SessionRow, ...]
    notes: tuple[str, ...]
    seed: int | None

    def row(self, domain: str, start: str, n: int = 1) -> SessionRow | None:
        """Return one row, or None where it was not computed."""
        wanted = (domain, start, n)
        return next((r for r in self.rows if (r.domain, r.start, r.n) == wanted), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sojourn_version": sojourn.__version__,
            "kind": "session_comparison",
            "a": {"name": self.name_a},
            "b": {"name": self.name_b},
            "answers": {domain: str(answer) for domain, answer in self.answers.items()},
            "margin": self.margin,
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
            "seed": self.seed,
        }

    def _repr_html_(self) -> str:
        from sojourn.assess.notebook import notebook_html

        return notebook_html(self)

    def __str__(self) -> str:
        from sojourn.assess.comparison_text import describe_sessions

        return describe_sessions(self)


@plain_blas()
def compare_sessions(
    a: SessionLog,
    b: SessionLog,
    profile: OperationalProfile | None = None,
    *,
    names: tuple[str, str] = ("A", "B"),
    policy: Policy | None = None,
    margin: float = 0.02,
    ci_prob: float = 0.95,
    n_max: int = 20,
    rng: Rng = None,
) -> SessionComparison:
    """Compare the sessions of two logs, each of one agent and model.

    Parameters
    ----------
    a, b : SessionLog
        The two logs.
    profile : OperationalProfile, optional
        The mix of work that both are asked for; the shares of both logs together by default.
    names : (str, str)
        What the two are called.
    policy : Policy, optional
        How tasks without a verdict count.
    margin : float
        Differences under it are of no matter.
    ci_prob : float
        Probability of the intervals.
    n_max : int
        Largest n of R(n).
    rng : Generator, SeedSequence, int or None
        Source of the draws.

    Returns
    -------
    SessionComparison
        Of the domains that both hold; only kinds of tasks that both hold are in the mix.

    Raises
    ------
    NothingUsableError
        If the two share no domain with a kind of task that both hold.
    """
    check_fraction(margin, name="margin")
    shared = _shared(a, b)
    if not shared:
        raise NothingUsableError("the two logs share no domain and kind of task")
    notes = []
    left_out = _named(a) ^ _named(b)
    if left_out:
        notes.append(
            f"kinds of tasks that only one log holds have no weight: {len(left_out)} of "
            f"{len(_named(a) | _named(b))}"
        )
    mix = _mix(a, b, shared) if profile is None else profile
    generator, seed = seeded(rng)
    found = [
        assess_sessions(
            _restricted(log, shared), mix, policy=policy, ci_prob=ci_prob, n_max=n_max, rng=child
        )
        for log, child in zip((a, b), generator.spawn(2), strict=True)
    ]
    rows: list[SessionRow] = []
    answers = {}
    by_name = [{domain.name: domain for domain in result.domains} for result in found]
    for domain in shared:
        if all(domain in part for part in by_name):
            pair = (by_name[0][domain], by_name[1][domain])
            own = _rows(pair, n_max, ci_prob, generator)
            rows += own
            answers[domain] = _answer(own, margin)
    return SessionComparison(
        name_a=names[0],
        name_b=names[1],
        answers=answers,
        margin=margin,
        rows=tuple(rows),
        notes=(*notes, "the two posteriors are taken to be independent: no pairing by task"),
        seed=seed,
    )


def _named(log: SessionLog) -> set[tuple[str, str]]:
    return {(domain, name) for domain in log.domains for name in log.subdomains(domain)}


def _shared(a: SessionLog, b: SessionLog) -> dict[str, tuple[str, ...]]:
    both = _named(a) & _named(b)
    found: dict[str, tuple[str, ...]] = {}
    for domain in a.domains:
        names = tuple(name for name in a.subdomains(domain) if (domain, name) in both)
        if names:
            found[domain] = names
    return found


def _restricted(log: SessionLog, shared: dict[str, tuple[str, ...]]) -> SessionLog:
    """Return the tasks of shared domains; all kinds stay, for a session's order holds them."""
    wanted = [name in shared for name in log.domain.values]
    keep = np.array([*wanted, False])[log.domain.codes]
    return log if keep.all() else log.select(keep)


def _mix(a: SessionLog, b: SessionLog, shared: dict[str, tuple[str, ...]]) -> OperationalProfile:
    """Return the shares of both logs together, over what both hold."""
    counts: dict[str, dict[str, int]] = {
        domain: dict.fromkeys(names, 0) for domain, names in shared.items()
    }
    for log in (a, b):
        pairs, times = np.unique(
            np.stack((log.domain.codes, log.subdomain.codes)), axis=1, return_counts=True
        )
        for domain_code, code, n in zip(*pairs.tolist(), times.tolist(), strict=True):
            domain = log.domain.values[domain_code]
            name = domain if code < 0 else log.subdomain.values[code]
            if name in counts.get(domain, {}):
                counts[domain][name] += n
    return OperationalProfile.from_counts(counts)


def _rows(
    pair: tuple[DomainAssessment, DomainAssessment],
    n_max: int,
    ci_prob: float,
    rng: np.random.Generator,
) -> list[SessionRow]:
    rows = []
    for start in STARTS:
        first, second = (
            domain.model.run_draws(n_max, start=start).reshape(-1, n_max) for domain in pair
        )
        size = min(len(first), len(second))
        first = first[rng.permutation(len(first))[:size]]
        second = second[rng.permutation(len(second))[:size]]
        for n in sorted({n for n in _RUNS if n < n_max} | {n_max}):
            estimates = [domain.reliability.row(start, n) for domain in pair]
            reasons = tuple(
                dict.fromkeys(
                    reason
                    for row in estimates
                    if row is not None
                    for reason in row.estimate.reasons
                )
            )
            rows.append(
                _row(pair[0].name, start, n, first[:, n - 1], second[:, n - 1], reasons, ci_prob)
            )
    return rows


def _row(
    domain: str,
    start: str,
    n: int,
    a: Floats,
    b: Floats,
    reasons: tuple[str, ...],
    ci_prob: float,
) -> SessionRow:
    gap = b - a
    tail = (1.0 - ci_prob) / 2.0
    low, high = np.quantile(gap, [tail, 1.0 - tail])
    return SessionRow(
        domain=domain,
        start=start,
        n=n,
        a=float(a.mean()),
        b=float(b.mean()),
        difference=Estimate(
            value=float(gap.mean()),
            interval=Interval(low=float(low), high=float(high), ci_prob=ci_prob, kind="eti"),
            status=Status.INCONCLUSIVE if reasons else Status.SUPPORTED,
            reasons=reasons,
        ),
        chance_better=float(np.mean(gap > 0) + np.mean(gap == 0) / 2),
    )


def _answer(rows: list[SessionRow], margin: float) -> Answer:
    estimate = next(row.difference for row in rows if row.start == "long_run" and row.n == 1)
    interval = estimate.interval
    if interval is None or estimate.status is not Status.SUPPORTED:
        return Answer.INCONCLUSIVE
    if -margin <= interval.low and interval.high <= margin:
        return Answer.EQUIVALENT
    if interval.low > 0.0:
        return Answer.BETTER
    return Answer.WORSE if interval.high < 0.0 else Answer.INCONCLUSIVE
