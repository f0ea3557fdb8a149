"""The maximum of the progress-dependent chain's posterior: of one corpus, and of many alike.

`maximise` takes the curvature where it stands, climbs with it (`_progress_climb`) as far as it is
good for, and takes the curvature anew. `refit` takes over the one of an earlier fit, the anchor,
and is settled before it needs another, as long as the corpora are alike, as in a bootstrap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process._progress_climb import Problem, Shared, climb
from sojourn.process._progress_posterior import (
    HELD,
    Coefficients,
    Curvature,
    Data,
    Design,
    Penalty,
    curvature,
)

__all__ = ["Anchor", "Chosen", "anchor_of", "choose_penalty", "maximise", "refit"]

Floats = npt.NDArray[np.float64]
# What is added to a curvature: next to nothing, for events that have all but vanished, and more,
# closer to the gradient, where the direction is bad.
_DAMPING = (1e-8, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4)
_MAX_ANCHORS = 100
_PER_ANCHOR = 30
_MAX_GRADIENTS = 60
# Gain, as a share of what the log posterior is a sum of, at which a climb stopped by rounding
# has arrived.
_ROUNDING = 1e-12
_ALIKE = 2.0
_PATH = 1e-8
_MAX_UPDATES = 60
_LOOSEST, _FIRMEST = 1e-3, 1e6


class Anchor(NamedTuple):
    """A fit as the starting point of others; nothing in it is ever written to."""

    coefficients: Coefficients
    rows: Floats  # (m, w): the homogeneous rows of its corpus
    total: float  # steps of its corpus
    design: Design
    penalty: Penalty
    shared: Shared


def anchor_of(coefficients: Coefficients, data: Data, design: Design, penalty: Penalty) -> Anchor:
    """Factor the curvature of a fit for its refits."""
    return Anchor(
        coefficients=coefficients,
        rows=data.masses / data.masses.sum(axis=1, keepdims=True),
        total=float(data.total.sum()),
        design=design,
        penalty=penalty,
        shared=_shared_at(coefficients, data, design, penalty, 0),
    )


def refit(anchor: Anchor, data: Data, tolerance: float) -> Coefficients:
    """Fit to other data, from the anchor, to a gain in log posterior below `tolerance`.

    Each intercept starts shifted by as much as the homogeneous row has moved, so that events
    which have become rare, or have come up, need no long climb.

    Raises
    ------
    ArithmeticError
        If the climb does not settle.
    """
    new = np.where(data.active, data.masses, 1.0) / data.masses.sum(axis=1, keepdims=True)
    known = data.active & (anchor.rows > 0.0)
    shift = np.log(np.where(known, new, 1.0)) - np.log(np.where(known, anchor.rows, 1.0))
    at = anchor.coefficients
    start = np.where(known, at.intercept, np.log(new)) + shift
    at = at._replace(intercept=np.where(data.active, start, -np.inf))
    total = float(data.total.sum())
    if anchor.total / _ALIKE <= total <= anchor.total * _ALIKE:
        x = _packed(at)
        problem = _problem(at, data, anchor.design, anchor.penalty)
        found = climb(x, problem, anchor.shared, _DAMPING[0], tolerance, _MAX_GRADIENTS)
        at = _unpacked(x, at)
        if found[0] < tolerance:
            return at
    return maximise(at, data, anchor.design, anchor.penalty, tolerance=tolerance)


def maximise(
    start: Coefficients,
    data: Data,
    design: Design,
    penalty: Penalty,
    *,
    tolerance: float = 1e-10,
    shared: Shared | None = None,
) -> Coefficients:
    """Climb from `start` until the next step would gain less than `tolerance`, and take that step.

    Parameters
    ----------
    shared : Shared, optional
        A curvature to begin with; that at `start` by default.

    Raises
    ------
    ArithmeticError
        If the climb does not settle.
    """
    at, level = start, 0
    x, problem = _packed(at), _problem(at, data, design, penalty)
    for _ in range(_MAX_ANCHORS):
        by = _shared_at(at, data, design, penalty, level) if shared is None else shared
        gain, taken, size = climb(x, problem, by, _DAMPING[level], tolerance, _PER_ANCHOR)
        at = _unpacked(x, at)
        if gain < tolerance:
            return at
        if taken:
            level = max(level - 1, 0)
        elif shared is None:
            if gain < _ROUNDING * size:
                return at
            if level == len(_DAMPING) - 1:
                break
            level += 1
        shared = None
    raise ArithmeticError("the fit of the progress-dependent chain did not settle")


def _packed(at: Coefficients) -> Floats:
    finite = np.where(np.isfinite(at.intercept), at.intercept, 0.0)
    return np.concatenate((finite.ravel(), at.state_spline.ravel(), at.spline.ravel()))


def _unpacked(x: Floats, like: Coefficients) -> Coefficients:
    n, own = like.intercept.size, like.state_spline.size
    intercept = x[:n].reshape(like.intercept.shape)
    return Coefficients(
        intercept=np.where(np.isfinite(like.intercept), intercept, -np.inf),
        spline=x[n + own :].reshape(like.spline.shape).copy(),
        state_spline=x[n : n + own].reshape(like.state_spline.shape).copy(),
    )


def _problem(at: Coefficients, data: Data, design: Design, penalty: Penalty) -> Problem:
    """Lay the corpus out for the compiled loops, which take arrays that are C-ordered."""
    return Problem(
        basis=design.basis,
        total=np.ascontiguousarray(data.total),
        went_on=np.ascontiguousarray(data.went_on),
        events=np.ascontiguousarray(data.events),
        moments=np.ascontiguousarray(data.moments),
        prior=np.ascontiguousarray(data.prior),
        active=np.ascontiguousarray(data.active),
        move=min(penalty.move, HELD),
        end=min(penalty.end, HELD),
        state=penalty.state if at.state_spline.size else 0.0,
    )


def _shared_at(
    at: Coefficients, data: Data, design: Design, penalty: Penalty, level: int
) -> Shared:
    """Factor the curvature at a point, or the EM majoriser's where the posterior is not concave.

    Raises
    ------
    ArithmeticError
        If not even that can be inverted, since some parameter is not finite.
    """
    if data.went_on.any():
        found = _shared(_damped(curvature(at, data, design, penalty, exact=True), level), penalty)
        if found is not None:
            return found
    now = curvature(at, data, design, penalty)
    for more in range(level, len(_DAMPING)):
        found = _shared(_damped(now, more), penalty)
        if found is not None:
            return found
    raise ArithmeticError("the fit of the progress-dependent chain has no way up")


def _damped(now: Curvature, level: int) -> Curvature:
    return now._replace(
        local=now.local + _DAMPING[level] * np.eye(now.local.shape[1]),
        common=now.common + _DAMPING[level] * np.eye(now.common.shape[0]),
    )


class _Solved(NamedTuple):
    """The curvature with what belongs to the states eliminated."""

    local: Floats  # (m, L, (m + 2) q): inverse of the states' blocks times the cross curvature
    schur: Floats  # ((m + 2) q,) * 2


def _eliminated(now: Curvature) -> _Solved:
    solved = np.asarray(np.linalg.solve(now.local, now.cross), np.float64)
    size = now.common.shape[0]
    flat = (now.local_gradient.size, size)
    return _Solved(solved, now.common - now.cross.reshape(flat).T @ solved.reshape(flat))


def _shared(now: Curvature, penalty: Penalty) -> Shared | None:
    """Eliminate intercepts, then splines by state, then common ones; None if not positive."""
    m, size, n_common = now.cross.shape
    width = m + 2
    index = np.arange(size).reshape(width, -1)
    own, each = index[:, 0], index[:, 1:].ravel()
    A, X = now.local[:, own[:, None], own], now.local[:, own[:, None], each]
    D = now.local[:, each[:, None], each]
    try:
        np.linalg.cholesky(now.local)
        solved, schur = _eliminated(now)
        np.linalg.cholesky(schur)
        between = np.linalg.solve(A, X)
        inverse = np.linalg.inv(D - np.swapaxes(X, 1, 2) @ between)
        common = np.linalg.inv(schur) if penalty.has_splines else np.zeros_like(schur)
    except np.linalg.LinAlgError:
        return None
    order = np.concatenate((own, each))
    return Shared(
        between=np.ascontiguousarray(between, np.float64),
        own=np.ascontiguousarray(inverse, np.float64),
        solved=np.ascontiguousarray(solved[:, order]).reshape(m * size, n_common),
        common=np.ascontiguousarray(common, np.float64),
    )


class Chosen(NamedTuple):
    """Penalties, the fit under them and the degrees of freedom of its splines."""

    penalty: Penalty
    coefficients: Coefficients
    freedom: float


def choose_penalty(
    start: Coefficients,
    data: Data,
    design: Design,
    penalty: Penalty,
    fixed: tuple[bool, bool, bool],
) -> Chosen:
    """Maximise the Laplace approximation of the marginal likelihood over the free penalties.

    A penalty l of k coefficients theta with posterior covariance V is replaced by
    (k - l tr V) / |theta|^2, its fixed point (Fellner and Schall; Wood and Fasiolo 2017), until
    none changes by more than a hundredth.
    """
    at = maximise(start, data, design, penalty, tolerance=_PATH)
    for _ in range(_MAX_UPDATES):
        now = curvature(at, data, design, penalty)
        spent, size = _freedom(at, now, data, penalty)
        change = 0.0
        updated = []
        for old, free, k, square in zip(penalty, np.invert(fixed), spent, size, strict=True):
            new = old
            if free and np.isfinite(old):
                ratio = max(k, 1e-8) / max(square, 1e-12) / old
                # A longer step where it goes on in one direction; the fixed point is the same.
                new = float(np.clip(old * ratio**1.5, _LOOSEST, _FIRMEST))
                change = max(change, abs(np.log(new / old)))
            updated.append(new)
        again = Penalty(*updated)
        shared = _shared(_damped(_repenalised(now, at, penalty, again), 0), again)
        penalty = again
        at = maximise(at, data, design, penalty, tolerance=_PATH, shared=shared)
        if change < 0.01:
            break
    at = maximise(at, data, design, penalty)
    now = curvature(at, data, design, penalty)
    return Chosen(penalty, at, float(sum(_freedom(at, now, data, penalty)[0])))


def _repenalised(now: Curvature, at: Coefficients, old: Penalty, new: Penalty) -> Curvature:
    """Give the curvature under other penalties, at the same point."""
    m, width = at.intercept.shape
    q, r = at.spline.shape[1], at.state_spline.shape[2]
    local = now.local
    if r:
        index = np.arange(width * (1 + r)).reshape(width, 1 + r)[:, 1:].ravel()
        local = local.copy()
        local[:, index, index] += new.state - old.state
    return now._replace(
        local=local, common=now.common + np.kron(new.matrix(m) - old.matrix(m), np.eye(q))
    )


def _freedom(
    at: Coefficients, now: Curvature, data: Data, penalty: Penalty
) -> tuple[list[float], list[float]]:
    """Degrees of freedom k - l tr V and sums of squares, for moves, ends and splines by state."""
    m, width = at.intercept.shape
    q, r = at.spline.shape[1], at.state_spline.shape[2]
    solved, schur = _eliminated(now)
    V = np.linalg.inv(schur) if q and penalty.has_splines else np.zeros_like(schur)
    variance = np.einsum("jqkq->jk", V.reshape(width, q, width, q))
    spent, size = [], []
    precisions, forms = (penalty.move, penalty.end), penalty.squares(m)
    for precision, form, rank in zip(precisions, forms, (m - 1, 2), strict=True):
        free = rank * q - precision * float(np.sum(variance * form)) if precision < np.inf else 0.0
        spent.append(max(free, 0.0))
        size.append(float(np.sum(at.spline * (form @ at.spline))))
    state = 0.0
    if r:
        inverse = np.linalg.inv(now.local) + solved @ V @ np.swapaxes(solved, 1, 2)
        own = np.einsum("ikk->ik", inverse).reshape(m, width, 1 + r)[:, :, 1:]
        state = float(np.sum((1.0 - penalty.state * own)[data.active]))
    spent.append(state)
    size.append(float(np.sum(at.state_spline**2)))
    return spent, size
