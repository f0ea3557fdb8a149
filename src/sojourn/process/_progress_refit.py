"""From one fit of the progress-dependent chain to many: what they share, and how one is made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process._progress_climb import Problem, Shared, climb
from sojourn.process._progress_newton import (
    Coefficients,
    Curvature,
    Data,
    Design,
    Penalty,
    maximise,
    safe_curvature,
)

__all__ = ["Anchor", "anchor_of", "refit"]

Floats = npt.NDArray[np.float64]
_RIDGE = 1e-8
_MAX_GRADIENTS = 150


class Anchor(NamedTuple):
    """A fit as the starting point of others; nothing in it is ever written to."""

    coefficients: Coefficients
    rows: Floats  # (m, w): the homogeneous rows of its corpus
    design: Design
    penalty: Penalty
    precision: Floats  # (w, w): of the common splines
    shared: Shared


def anchor_of(coefficients: Coefficients, data: Data, design: Design, penalty: Penalty) -> Anchor:
    """Factor the curvature of a fit for its refits."""
    now = safe_curvature(coefficients, data, design, penalty)
    return Anchor(
        coefficients=coefficients,
        rows=data.masses / data.masses.sum(axis=1, keepdims=True),
        design=design._replace(basis=np.array(design.basis, order="C")),
        penalty=penalty,
        precision=penalty.matrix(coefficients.intercept.shape[0]),
        shared=_shared(now, coefficients, penalty),
    )


def refit(anchor: Anchor, data: Data, tolerance: float) -> Coefficients:
    """Fit to other data, from the anchor, to a gain in log posterior below `tolerance`.

    Each intercept starts shifted by as much as the homogeneous row has moved, so that events
    which have become rare, or have come up, need no long climb. Where the compiled climb does not
    settle, since the data are too far from the anchor's, Newton's method goes on from its end.
    """
    new = np.where(data.active, data.masses, 1.0) / data.masses.sum(axis=1, keepdims=True)
    known = data.active & (anchor.rows > 0.0)
    shift = np.log(new / np.where(known, anchor.rows, 1.0))
    at = anchor.coefficients
    start = np.where(data.active, np.where(known, at.intercept, 0.0) + shift, 0.0)
    x = np.concatenate((start.ravel(), at.state_spline.ravel(), at.spline.ravel()))
    problem = Problem(
        basis=anchor.design.basis,
        total=np.ascontiguousarray(data.total),
        went_on=np.ascontiguousarray(data.went_on),
        events=np.ascontiguousarray(data.events),
        moments=np.ascontiguousarray(data.moments),
        prior=np.ascontiguousarray(data.prior),
        active=np.ascontiguousarray(data.active),
        precision=anchor.precision,
        state=anchor.penalty.state if at.state_spline.size else 0.0,
    )
    gain, _, _ = climb(x, problem, anchor.shared, _RIDGE, tolerance, _MAX_GRADIENTS)
    own, common = at.state_spline.size, at.spline.size
    a, d, c = np.split(x, (x.size - own - common, x.size - common))
    found = Coefficients(
        intercept=np.where(data.active, a.reshape(start.shape), -np.inf),
        spline=c.reshape(at.spline.shape),
        state_spline=d.reshape(at.state_spline.shape),
    )
    if gain < tolerance:
        return found
    return maximise(found, data, anchor.design, anchor.penalty, tolerance=tolerance)


def _shared(now: Curvature, at: Coefficients, penalty: Penalty) -> Shared:
    """Eliminate intercepts, then splines by state, then common ones."""
    m, width = at.intercept.shape
    q, r = at.spline.shape[1], at.state_spline.shape[2]
    index = np.arange(width * (1 + r)).reshape(width, 1 + r)
    own, each = index[:, 0], index[:, 1:].ravel()
    A, X = now.local[:, own[:, None], own], now.local[:, own[:, None], each]
    D = now.local[:, each[:, None], each]
    between = np.linalg.solve(A, X)
    solved = np.linalg.solve(now.local, now.cross)
    flat = now.cross.reshape(m * width * (1 + r), width * q)
    schur = now.common - flat.T @ solved.reshape(flat.shape)
    order = np.concatenate((own, each))
    common = np.zeros_like(schur)
    if q and penalty.has_splines:
        common[:] = np.linalg.inv(schur)
    inverse: Floats = np.asarray(np.linalg.inv(D - np.swapaxes(X, 1, 2) @ between), np.float64)
    return Shared(
        between=np.ascontiguousarray(between, np.float64),
        own=inverse,
        solved=np.ascontiguousarray(solved[:, order], np.float64).reshape(flat.shape),
        common=common,
    )
