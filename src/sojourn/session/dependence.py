"""Do outcomes within a session depend on one another? Exact tests that assume no model.

Under the null the outcomes of one subdomain in one session are exchangeable, so any statistic may
be compared with its values on outcomes permuted within (session, subdomain). The statistic is
sum_t e_t h_t, where e is the outcome less its stratum's mean and h a fading memory of earlier
residuals, at several rates of fading; the smallest of their p-values is compared with the smallest
in each permuted draw, so that nothing is spent on correction.

A drift alone is a breach of exchangeability too. A second p-value takes a straight line out of each
stratum, in the data and in every draw; only it supports the word "clustering".

Where sessions share their tasks, hard stretches of the list look like clusters. The null then keeps
both margins of the session x task matrix, as when each task has its difficulty and each session its
level. A whole session that fails is a session effect, tested apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.task_sequences import TaskSequences

__all__ = ["DECAYS", "Dependence", "assess_dependence"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

DECAYS = (0.0, 0.5, 0.75, 0.9, 0.97)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """What the order of the outcomes says.

    Attributes
    ----------
    p_order : float
        Exact p-value of "the order within a session does not matter".
    p_beyond_trend : float
        The same with a straight line taken out of each stratum.
    p_session_effect : float or None
        Exact p-value of "sessions do not differ"; None for a single session.
    method : str
        ``strata``: permuted within (session, subdomain). ``margins``: both margins of the
        session x task matrix kept.
    direction : str
        ``clustering``, ``alternation``, or ``none`` when no statistic could differ.
    z : tuple of float
        Standardised memory statistics at the decays, beyond a trend; positive is clustering.
    decays : tuple of float
        Their rates of fading.
    n_draws : int
        Permutations or swaps, the data not counted.
    """

    p_order: float
    p_beyond_trend: float
    p_session_effect: float | None
    method: str
    direction: str
    z: tuple[float, ...]
    decays: tuple[float, ...]
    n_draws: int

    def order_matters(self, alpha: float = 0.05) -> bool:
        """Whether exchangeability is rejected: what allows more than one state."""
        return self.p_order <= alpha

    def clusters(self, alpha: float = 0.05) -> bool:
        """Whether order matters, and beyond a trend outcomes cluster: what supports the word."""
        beyond = self.p_beyond_trend <= alpha and self.direction == "clustering"
        return beyond and self.order_matters(alpha)


class _Strata(NamedTuple):
    members: IntArray
    unit_first: IntArray
    unit_size: IntArray
    bounds: IntArray
    stratum: IntArray  # of each task, -1 for unknown outcomes
    residual: FloatArray


def _strata(key: IntArray, success: npt.NDArray[np.int8], group: IntArray | None) -> _Strata:
    """Sort known outcomes into strata and units; residuals are about the stratum's mean."""
    known = np.flatnonzero((key >= 0) & (success >= 0))
    _, stratum_known = np.unique(key[known], return_inverse=True)
    members = known[np.argsort(stratum_known, kind="stable")].astype(np.int64)
    stratum = np.full(key.size, -1, dtype=np.int64)
    stratum[known] = stratum_known
    in_order = stratum[members]
    starts = np.ones(members.size, dtype=bool)
    if group is not None and members.size:
        g = group[members]
        starts[1:] = (in_order[1:] != in_order[:-1]) | (g[1:] != g[:-1]) | (g[1:] < 0)
    unit_first = np.flatnonzero(starts).astype(np.int64)
    unit_size = np.diff(np.append(unit_first, members.size))
    n_strata = int(stratum.max(initial=-1)) + 1
    bounds = np.searchsorted(in_order[unit_first], np.arange(n_strata + 1)).astype(np.int64)
    sums = np.bincount(stratum[known], success[known], n_strata)
    sizes = np.bincount(stratum[known], minlength=n_strata)
    residual = np.zeros(key.size)
    residual[known] = success[known] - (sums / np.maximum(sizes, 1))[stratum[known]]
    return _Strata(members, unit_first, unit_size, bounds, stratum, residual)


def _trend(strata: _Strata, position: FloatArray) -> FloatArray:
    """Return positions centred within each stratum and scaled to unit length there."""
    known = strata.stratum >= 0
    index = strata.stratum[known]
    n = strata.bounds.size - 1
    sizes = np.maximum(np.bincount(index, minlength=n), 1)
    x = position[known]
    x = x - (np.bincount(index, x, n) / sizes)[index]
    norm = np.sqrt(np.bincount(index, x * x, n))
    out = np.zeros(position.size)
    out[known] = x / np.where(norm > 0.0, norm, 1.0)[index]
    return out


class _Judged(NamedTuple):
    p: float
    z: FloatArray


def _smallest_p(draws: FloatArray) -> _Judged:
    """Compare the data (row 0) with the draws, all decays together by their smallest p-value."""
    spread = draws.std(axis=0)
    centred = draws - draws.mean(axis=0)
    # Statistics that never vary, up to rounding, are no evidence; the others are rounded so that
    # permutations which change nothing tie with the data exactly.
    scale = np.maximum(np.abs(draws).max(axis=0), 1e-300)
    flat = spread <= 1e-12 * scale
    size = np.where(flat, 0.0, np.round(np.abs(centred) / np.where(flat, 1.0, spread), 9))
    n = draws.shape[0]
    p = np.empty_like(size)
    for i in range(size.shape[1]):
        p[:, i] = (n - np.searchsorted(np.sort(size[:, i]), size[:, i], side="left")) / n
    smallest = p.min(axis=1)
    z = np.where(flat, 0.0, centred[0] / np.where(flat, 1.0, spread))
    return _Judged(float(np.mean(smallest <= smallest[0])), z)


def assess_dependence(
    sequences: TaskSequences,
    *,
    method: str = "auto",
    group: npt.ArrayLike | None = None,
    decays: tuple[float, ...] = DECAYS,
    n_draws: int = 1999,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> Dependence:
    """Test whether the order of outcomes within sessions matters.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions. Unknown outcomes keep their place and are not moved.
    method : str
        ``strata``, ``margins``, or ``auto``: margins where `sequences.item` shows tasks that at
        least two sessions share.
    group : array_like of shape (n_tasks,), optional
        Tasks that belong together (questions on one passage) carry the same number and are moved
        together; -1 for none.
    decays : tuple of float
        Rates of fading of the memory; 0 looks at the task before only.
    n_draws : int
        Permutations.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    Dependence

    References
    ----------
    Besag and Clifford (1989), Biometrika 76(4), for the margins.
    """
    from sojourn.session import _permutation_kernels as kernels

    check_choice(method, ("auto", "strata", "margins"), name="method")
    check_positive_int(n_draws, name="n_draws")
    source = generator(rng)
    rates = np.asarray(decays, dtype=np.float64)
    plain, beyond = np.empty((n_draws + 1, rates.size)), np.empty((n_draws + 1, rates.size))
    shared = None if method == "strata" else _shared(sequences)
    if method == "margins" and shared is None:
        raise ValueError("method 'margins' needs items that at least two sessions share")
    if shared is None:
        groups = None if group is None else np.asarray(group, dtype=np.int64)
        if groups is not None and groups.shape != (sequences.n_tasks,):
            raise ValueError(f"group must hold {sequences.n_tasks} numbers")
        strata = _strata(_session_subdomain(sequences), sequences.success, groups)
        position = np.arange(sequences.n_tasks, dtype=np.float64)
        kernels.permutation_draws(
            source, strata.residual, sequences.offsets, strata.members, strata.unit_first,
            strata.unit_size, strata.bounds, strata.stratum, _trend(strata, position),
            rates, plain, beyond,
        )  # fmt: skip
    else:
        rows, columns = (part.astype(np.int64) for part in np.nonzero(shared.matrix >= 0))
        kernels.margin_draws(
            source, shared.matrix, rows, columns, sequences.offsets, shared.column,
            shared.expected, shared.trend, rates, 20 * rows.size, plain, beyond,
        )  # fmt: skip
    order, cluster = _smallest_p(plain), _smallest_p(beyond)
    strongest = float(cluster.z[np.argmax(np.abs(cluster.z))])
    return Dependence(
        p_order=order.p,
        p_beyond_trend=cluster.p,
        p_session_effect=_session_effect(sequences, n_draws, source),
        method="strata" if shared is None else "margins",
        direction="none" if strongest == 0.0 else "clustering" if strongest > 0 else "alternation",
        z=tuple(float(v) for v in cluster.z),
        decays=tuple(decays),
        n_draws=n_draws,
    )


def _session_subdomain(sequences: TaskSequences) -> IntArray:
    label = sequences.subdomain.astype(np.int64)
    return np.asarray(sequences.session * (sequences.n_subdomains + 1) + label + 1)


def _session_effect(
    sequences: TaskSequences, n_draws: int, rng: np.random.Generator
) -> float | None:
    """Shuffle outcomes across sessions, within subdomain, or within task where tasks are shared."""
    from sojourn.session import _permutation_kernels as kernels

    if np.count_nonzero(sequences.lengths) < 2:
        return None
    key = sequences.subdomain.astype(np.int64) + 1
    if sequences.item is not None:
        key = sequences.item.astype(np.int64)
    strata = _strata(key, sequences.success, None)
    known = (strata.stratum >= 0).astype(np.int64)
    out = np.empty(n_draws + 1)
    kernels.session_draws(
        rng, strata.residual, sequences.offsets, known, strata.members, strata.unit_first,
        strata.unit_size, strata.bounds, out,
    )  # fmt: skip
    return float(np.mean(out >= out[0] * (1.0 - 1e-9)))


class _Shared(NamedTuple):
    matrix: IntArray  # (n_sessions, n_columns), -1 where unknown
    column: IntArray  # of each task
    expected: FloatArray
    trend: FloatArray  # of each task, unit length in each session


def _shared(sequences: TaskSequences) -> _Shared | None:
    """Lay outcomes out as session x task, if any task was seen in two sessions.

    The same task done again within a session is another column: first time, second time.
    """
    if sequences.item is None or sequences.n_tasks == 0:
        return None
    session, item = sequences.session, sequences.item.astype(np.int64)
    order = np.lexsort((np.arange(item.size), item, session))
    new = np.ones(item.size, dtype=bool)
    new[1:] = (np.diff(session[order]) != 0) | (np.diff(item[order]) != 0)
    first = np.maximum.accumulate(np.where(new, np.arange(item.size), 0))
    occurrence = np.empty(item.size, dtype=np.int64)
    occurrence[order] = np.arange(item.size) - first
    _, column = np.unique(np.stack([item, occurrence]), axis=1, return_inverse=True)
    column = column.ravel().astype(np.int64)
    matrix = np.full((sequences.n_sessions, int(column.max()) + 1), -1, dtype=np.int64)
    matrix[session, column] = sequences.success
    if (matrix >= 0).sum(axis=0).max() < 2:
        return None
    return _Shared(matrix, column, _additive(matrix), _session_trend(sequences))


def _additive(matrix: IntArray) -> FloatArray:
    """Return row mean + column mean - overall mean.

    The margins are fixed, so any residual would do; this one makes the statistic powerful.
    """
    seen = matrix >= 0
    y = np.where(seen, matrix, 0.0)
    overall = y.sum() / max(int(seen.sum()), 1)
    row = y.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    column = y.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return np.asarray(row[:, None] + column[None, :] - overall)


def _session_trend(sequences: TaskSequences) -> FloatArray:
    """Return positions of known outcomes, centred and of unit length within each session."""
    known = sequences.success >= 0
    key = np.where(known, sequences.session, -1).astype(np.int64)
    return _trend(_strata(key, sequences.success, None), np.arange(known.size, dtype=np.float64))
