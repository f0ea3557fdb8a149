"""Visits of runs to states: what is counted of them, and how sojourn laws are fitted to counts.

A visit is a longest stretch of steps in one state. A run cut in the middle of a visit tells that
the visit lasted so long; and, if the cut is known not to be an end, that with its last step the run
either stayed or moved on. That choice is not seen, and is filled in by its expectation until
nothing changes (EM): for a visit of age a the share that stays is (1 - h_a) / (1 - h_a x), with h_a
the hazard of the visit's end and x the probability that the end of a visit ends the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process._row_prior import RowPrior
from sojourn.process._weighted import most_probable_mass
from sojourn.sequences import CENSORED, StateSequences

__all__ = [
    "SOJOURNS",
    "VisitCounts",
    "VisitFit",
    "VisitRule",
    "age_columns",
    "count_visits",
    "fit_visits",
    "probable_mass",
    "unit_visits",
    "visit_counts",
    "visit_rule",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
SOJOURNS = ("hazard", "negative_binomial", "discrete_weibull")
_MAX_ROUNDS = 500
_TOLERANCE = 1e-10


class VisitCounts(NamedTuple):
    """Counts of visits in one or many corpora.

    `visits` (B, m + 1, m + 3) holds starts and what followed visits, with columns as in
    `TransitionCounts`. The others have shape (B, m, ages): `ended` and `cut` count the visits that
    ended and were cut at an age, `stay` those known to have gone on; the last column is for all
    ages above ages - 1, and counts a visit once for each step there.
    """

    visits: Floats
    ended: Floats
    cut: Floats
    stay: Floats


class VisitFit(NamedTuple):
    """Fitted laws of one or many corpora; `theta` holds log shape and level of parametric ones."""

    hazard: Floats
    rows: Floats
    theta: Floats


class _Laws(NamedTuple):
    hazard: Floats
    theta: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VisitRule:
    """How counts of visits become laws; held fixed while counts are resampled.

    Attributes
    ----------
    sojourn : str
        One of `SOJOURNS`.
    kappa : float
        Mass of the back-off of a sojourn law.
    prior : RowPrior
        From what followed visits to rows.
    survived : bool
        Whether a cut run is known not to have ended at its cut.
    """

    sojourn: str
    kappa: float
    prior: RowPrior
    survived: bool


def visit_rule(
    sojourn: str, kappa: float, row_kappa: float, allowed: Mask, cut_step: str
) -> VisitRule:
    """Make the rule from counts to laws."""
    # Moves of cut runs are filled in before the rows are smoothed, so these see no cuts.
    prior = RowPrior(
        smoothing="shrinkage", kappa=row_kappa, alpha=1.0, allowed=allowed, cut_step="unseen"
    )
    return VisitRule(sojourn=sojourn, kappa=kappa, prior=prior, survived=cut_step == "survived")


def age_columns(sequences: StateSequences, sojourn: str, max_age: int) -> int:
    """Columns of the hazards: ages up to the longest visit (twice that for a law), and the rest."""
    states = sequences.states
    change = np.flatnonzero(states[1:] != states[:-1]) + 1
    longest = int(np.diff(np.union1d(change, sequences.offsets)).max(initial=1))
    return min(longest if sojourn == "hazard" else 2 * longest, max_age) + 1


def _entries(
    sequences: StateSequences, ages: int
) -> tuple[npt.NDArray[np.int64], Floats, npt.NDArray[np.int64]]:
    """Flat cells of all counts, their values, and the runs they belong to."""
    m, width = sequences.n_states, sequences.n_states + 3
    states, lengths, offsets = sequences.states, sequences.lengths, sequences.offsets
    some = np.flatnonzero(lengths > 0)
    new = np.ones(states.size, dtype=np.bool_)
    new[1:] = states[1:] != states[:-1]
    new[offsets[:-1][some]] = True
    begin = np.flatnonzero(new)
    run = np.repeat(np.arange(sequences.n_runs), lengths)[begin]
    state = states[begin].astype(np.int64)
    duration = np.diff(np.append(begin, states.size))
    ends = np.array([m + 2, m, m + 1])[sequences.event]
    final = np.append(run[1:] != run[:-1], np.ones(min(run.size, 1), dtype=np.bool_))
    then = np.where(final, ends[run], np.append(state[1:], 0))
    first = ends.astype(np.int64)
    first[some] = states[offsets[:-1][some]]
    cut = final & (sequences.event[run] == CENSORED)
    age = np.minimum(duration, ages) - 1
    tables = (m + 1) * width
    beyond = np.maximum(duration - ages, 0)
    late = beyond > 0
    cells = (
        first,
        (state + 1) * width + then,
        tables + np.where(cut, m * ages, 0) + state * ages + age,
        tables + 2 * m * ages + state[late],
    )
    values = (np.ones(first.size), np.ones(2 * run.size), beyond[late])
    owners = (np.arange(sequences.n_runs), run, run, run[late])
    return (
        np.concatenate(cells).astype(np.int64),
        np.concatenate(values).astype(np.float64),
        np.concatenate(owners).astype(np.int64),
    )


def _n_cells(m: int, ages: int) -> int:
    return (m + 1) * (m + 3) + 2 * m * ages + m


def visit_counts(flat: Floats, m: int, ages: int) -> VisitCounts:
    """Unfold flat counts, shape (B, cells), into those of starts, rows and ages."""
    tables = (m + 1) * (m + 3)
    n = flat.shape[0]
    ended = flat[:, tables : tables + m * ages].reshape(n, m, ages)
    cut = flat[:, tables + m * ages : tables + 2 * m * ages].reshape(n, m, ages)
    known = ended + cut
    stay = known[..., ::-1].cumsum(axis=2)[..., ::-1] - known
    stay[..., -1] = flat[:, tables + 2 * m * ages :]
    return VisitCounts(flat[:, :tables].reshape(n, m + 1, m + 3), ended, cut, stay)


def count_visits(sequences: StateSequences, weights: Floats, ages: int) -> VisitCounts:
    """Count the visits of weighted runs; one corpus."""
    cell, value, run = _entries(sequences, ages)
    size = _n_cells(sequences.n_states, ages)
    flat = np.bincount(cell, weights=value * weights[run], minlength=size).astype(np.float64)
    return visit_counts(flat[None], sequences.n_states, ages)


def unit_visits(sequences: StateSequences, unit: npt.NDArray[Any], n_units: int, ages: int) -> Any:
    """Count by unit in a sparse matrix, shape (n_units, cells)."""
    from scipy.sparse import coo_array

    cell, value, run = _entries(sequences, ages)
    shape = (n_units, _n_cells(sequences.n_states, ages))
    return coo_array((value, (unit[run], cell)), shape=shape).tocsr()


def fit_visits(counts: VisitCounts, rule: VisitRule, theta: Floats | None = None) -> VisitFit:
    """Fit sojourn laws and rows to counts, the unseen moves of cut runs filled in.

    Parameters
    ----------
    counts : VisitCounts
        Of B corpora.
    rule : VisitRule
        From counts to laws.
    theta : ndarray of shape (m, 2), optional
        Where the search for parametric laws begins.
    """
    m = counts.ended.shape[1]
    filled = rule.survived and bool(np.any(counts.cut))
    start = None if theta is None else np.broadcast_to(theta, (*counts.ended.shape[:2], 2)).copy()
    staying = np.ones(counts.cut.shape)
    rows = rule.prior.rows(_with_moves(counts.visits, np.zeros(counts.ended.shape[:2]), None))
    for _ in range(_MAX_ROUNDS):
        moved = counts.cut * (1.0 - staying) if filled else np.zeros(counts.cut.shape)
        stay = counts.stay + counts.cut * staying if filled else counts.stay
        rows = rule.prior.rows(_with_moves(counts.visits, moved.sum(axis=2), rows))
        laws = _laws(counts.ended + moved, stay, rule, start)
        hazard, start = laws
        if not filled:
            break
        exits = rows[..., m:].sum(axis=2)[..., None]
        open_ = 1.0 - hazard * exits
        share = np.where(open_ > 0.0, (1.0 - hazard) / np.where(open_ > 0.0, open_, 1.0), 1.0)
        change = np.max(np.abs(share - staying) * (counts.cut > 0.0), initial=0.0)
        staying = share
        if change < _TOLERANCE:
            break
    # Where nothing is known to follow a visit, its row keeps the run, and it never ends.
    kept = np.diagonal(rows, axis1=1, axis2=2)
    return VisitFit(hazard * (1.0 - kept)[..., None], rows, laws.theta)


def probable_mass(counts: VisitCounts, rule: VisitRule) -> float:
    """Give the mass of the geometric hazard under which ends of visits by age are most probable."""
    stay = counts.stay + (counts.cut if rule.survived else 0.0)
    events = np.stack((counts.ended, stay), axis=-1)[0]
    level = _geometric(counts.ended, stay)[0, :, None]
    base = np.stack(np.broadcast_arrays(level, 1.0 - level), axis=-1)
    return most_probable_mass(
        events.reshape(-1, 2), np.broadcast_to(base, events.shape).reshape(-1, 2)
    )


def _with_moves(visits: Floats, moved: Floats, rows: Floats | None) -> Floats:
    """Tables without cuts, the unseen moves of cut runs spread as `rows` moves."""
    table = visits.copy()
    table[..., 1:, -1] = 0.0
    if rows is not None:
        m = rows.shape[1]
        moves = rows[..., :m]
        total = moves.sum(axis=2, keepdims=True)
        table[:, 1:, :m] += moved[..., None] * moves / np.where(total > 0.0, total, 1.0)
    return table


def _geometric(ended: Floats, stay: Floats) -> Floats:
    """Hazard of each state whatever the age, drawn to that of all states by one step; (B, m)."""
    ends, steps = ended.sum(axis=2), (ended + stay).sum(axis=2)
    total = steps.sum(axis=1, keepdims=True)
    mean = ends.sum(axis=1, keepdims=True) / np.where(total > 0.0, total, 1.0)
    return np.asarray((ends + mean) / (steps + 1.0), dtype=np.float64)


def _laws(ended: Floats, stay: Floats, rule: VisitRule, theta: Floats | None) -> _Laws:
    level = _geometric(ended, stay)
    if rule.sojourn == "hazard":
        hazard = (ended + rule.kappa * level[..., None]) / (ended + stay + rule.kappa)
        return _Laws(hazard, np.zeros((*level.shape, 2)))
    from sojourn.process import _renewal_kernels as kernels

    kind = SOJOURNS.index(rule.sojourn) - 1
    steps = (ended + stay).sum(axis=(1, 2))
    mean = ended.sum(axis=(1, 2)) / np.where(steps > 0.0, steps, 1.0)
    ended, stay = ended.copy(), stay.copy()
    ended[..., 0] += rule.kappa * mean[:, None]
    stay[..., 0] += rule.kappa * (1.0 - mean)[:, None]
    if theta is None:
        theta = np.zeros((*level.shape, 2))
        chance = np.clip(level, 1e-5, 1.0 - 1e-5)
        scale = (1.0 - chance) / chance if kind == 0 else -1.0 / np.log1p(-chance)
        theta[..., 1] = np.clip(np.log(scale), -2.9, 11.9)
    kernels.fit_laws(kind, ended, stay, theta)
    hazard = np.empty(ended.shape)
    kernels.law_hazards(kind, theta, hazard)
    # No visit was seen to end at all: then none is said to.
    return _Laws(np.where(mean[:, None, None] > 0.0, hazard, 0.0), theta)
