"""The log posterior of the progress-dependent chain, its gradient and its curvature.

For state i at level g, over the events j that are possible in i,

    log p_j = a_ij + X_g . (c_j + d_ij) - log sum_k exp(a_ik + X_g . (c_k + d_ik)).

The logit is symmetric, no event is the reference; a constant added to a row of a changes nothing,
and the penalties settle what is common to all c. The log posterior is the likelihood of the cells,
plus sum_ij b_ij log softmax(a_i)_j for the prior masses b of the rows (the homogeneous chain's own
prior, in which they are pseudo-counts at X = 0), less

    l_move / 2 sum_(moves) |c_j - c|^2 + l_end / 2 sum_(ends) |c_j - c|^2 + l_state / 2 sum |d_ij|^2

with c the mean spline of the moves: moves drift against each other, ends against moves. At c = d =
0 the maximum is the homogeneous fit.

Runs that were cut "went on": log of the sum of p over the moves, which is not concave. Where the
posterior is not, such runs can be taken as spread over the moves as the present p has it, with a
curvature that is positive (the majorisation of an EM step).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.homogeneous import RowPrior

__all__ = [
    "HELD",
    "Coefficients",
    "Curvature",
    "Data",
    "Design",
    "Penalty",
    "curvature",
    "data_of",
    "design_of",
    "log_posterior",
    "row_probabilities",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
HELD = 1e9  # a precision that is as good as infinite


class Data(NamedTuple):
    """Sufficient statistics of one corpus."""

    total: Floats  # (m, G): steps by state and level
    went_on: Floats  # (m, G): of these, cut ones
    events: Floats  # (m, m + 2): seen events by state
    moments: Floats  # (m, m + 2, q): basis summed over seen events
    prior: Floats  # (m, m + 2): pseudo-counts
    masses: Floats  # (m, m + 2): prior and events, cut steps shared out: the homogeneous rows
    active: Mask  # (m, m + 2): possible events


class Coefficients(NamedTuple):
    """Parameters; impossible events have intercept minus infinity."""

    intercept: Floats  # (m, m + 2): a
    spline: Floats  # (m + 2, q): c
    state_spline: Floats  # (m, m + 2, q), or (m, m + 2, 0) without splines by state: d


class Design(NamedTuple):
    """The spline functions of the step and their products."""

    basis: Floats  # (G, q)
    pairs: Floats  # (G, (1 + r) (1 + q)): of one and the basis; r = q with splines by state, else 0
    squares: Floats  # (G, q q)


class Penalty(NamedTuple):
    """Precisions of the spline coefficients; infinity holds them at zero."""

    move: float
    end: float
    state: float

    @property
    def has_splines(self) -> bool:
        """Whether any common spline may differ from zero."""
        return min(self.move, self.end) < np.inf

    def squares(self, n_states: int) -> tuple[Floats, Floats]:
        """Give the quadratic forms, over events, that the two precisions multiply."""
        m = n_states
        contrast = np.eye(m + 2)
        contrast[:, :m] -= 1.0 / m
        return contrast[:m].T @ contrast[:m], contrast[m:].T @ contrast[m:]

    def matrix(self, n_states: int) -> Floats:
        """Precision of the common splines over events, shape (m + 2, m + 2).

        What all splines have in common changes no probability; ones hold it at zero.
        """
        moves, ends = self.squares(n_states)
        return min(self.move, HELD) * moves + min(self.end, HELD) * ends + 1.0


class Curvature(NamedTuple):
    """Gradient and negative second derivative, the parameters of the states in blocks."""

    value: float
    local_gradient: Floats  # (m, L), L = (m + 2) (1 + r), r = q with splines by state, else 0
    common_gradient: Floats  # ((m + 2) q,)
    local: Floats  # (m, L, L)
    cross: Floats  # (m, L, (m + 2) q)
    common: Floats  # ((m + 2) q, (m + 2) q)


def data_of(cells: Floats, starts: Floats, basis: Floats, prior: RowPrior) -> Data:
    """Collect what the likelihood needs of cells (m, G, m + 3) and starts (m + 3,)."""
    m = cells.shape[0]
    observed, added = prior.masses(np.vstack((starts, cells.sum(axis=1))))
    active = observed + added > 0.0
    # Where no move is possible a step that was cut tells nothing.
    known = active[:, :m].any(axis=1, keepdims=True) * float(prior.cut_step == "survived")
    went_on = cells[:, :, m + 2] * known
    seen = cells[:, :, : m + 2]
    return Data(
        total=seen.sum(axis=2) + went_on,
        went_on=went_on,
        events=seen.sum(axis=1),
        moments=np.swapaxes(seen, 1, 2) @ basis,
        prior=added,
        masses=observed + added,
        active=active,
    )


def row_probabilities(coefficients: Coefficients, basis: Floats) -> Floats:
    """Probabilities of the next event, shape (G, m, m + 2)."""
    a, c, d = coefficients
    eta = a + (basis @ c.T)[:, None, :]
    if d.shape[2]:
        eta = eta + np.einsum("gq,ijq->gij", basis, d)
    eta -= eta.max(axis=2, keepdims=True)
    p = np.exp(eta)
    p /= p.sum(axis=2, keepdims=True)
    return np.asarray(p, dtype=np.float64)


def design_of(basis: Floats, by_state: bool) -> Design:
    """Multiply out the basis once for many fits."""
    levels = basis.shape[0]
    own = np.concatenate((np.ones((levels, 1)), basis), axis=1)
    wide = own if by_state else own[:, :1]
    return Design(
        basis=np.array(basis, order="C"),  # of its own: a fit's is read-only
        pairs=np.einsum("gx,gy->gxy", wide, own).reshape(levels, -1),
        squares=np.einsum("gx,gy->gxy", basis, basis).reshape(levels, -1),
    )


def curvature(
    at: Coefficients, data: Data, design: Design, penalty: Penalty, *, exact: bool = False
) -> Curvature:
    """Differentiate the log posterior; with `exact`, without the EM majorisation of cut steps."""
    m, width = at.intercept.shape
    q, r = at.spline.shape[1], at.state_spline.shape[2]
    P = row_probabilities(at, design.basis)
    value = 0.0
    local_gradient = np.empty((m, width, 1 + r))
    common_gradient = np.zeros((width, q))
    local = np.empty((m, width, 1 + r, width, 1 + r))
    cross = np.empty((m, width, 1 + r, width, q))
    spread = np.zeros((P.shape[0], width, width))
    for i in range(m):
        terms = _state_terms(i, P[:, i], at, data, design, exact)
        value += terms.value
        common_gradient += terms.residual[:, 1:]
        local_gradient[i] = terms.residual[:, : 1 + r]
        block = (terms.weight.reshape(-1, width * width).T @ design.pairs).reshape(
            width, width, 1 + r, 1 + q
        )
        local[i] = block[:, :, :, : 1 + r].transpose(0, 2, 1, 3)
        cross[i] = block[:, :, :, 1:].transpose(0, 2, 1, 3)
        spread += terms.weight
    common = (spread.reshape(-1, width * width).T @ design.squares).reshape(width, width, q, q)
    matrix = common.transpose(0, 2, 1, 3).reshape(width * q, width * q)
    value += _add_priors(at, data, penalty, local_gradient, local)
    precision = penalty.matrix(m)
    value -= 0.5 * float(np.sum(at.spline * (precision @ at.spline)))
    common_gradient -= precision @ at.spline
    matrix += np.kron(precision, np.eye(q))
    size = width * (1 + r)
    return Curvature(
        value=value,
        local_gradient=local_gradient.reshape(m, size),
        common_gradient=common_gradient.ravel(),
        local=local.reshape(m, size, size),
        cross=cross.reshape(m, size, width * q),
        common=matrix,
    )


class _StateTerms(NamedTuple):
    value: float
    residual: Floats  # (m + 2, 1 + q): seen less expected, plain and times the basis
    weight: Floats  # (G, m + 2, m + 2): covariance of the events, by level


def _state_terms(
    i: int, p: Floats, at: Coefficients, data: Data, design: Design, exact: bool
) -> _StateTerms:
    """Likelihood of the steps in state i, and what its derivatives are made of."""
    m = at.intercept.shape[0]
    basis, n, cut = design.basis, data.total[i], data.went_on[i]
    a = np.where(data.active[i], at.intercept[i], 0.0)
    c = at.spline + at.state_spline[i] if at.state_spline.shape[2] else at.spline
    # log p = eta - norm; the norm is read off the likeliest event, which never underflows.
    top = p.argmax(axis=1)
    norm = a[top] + np.einsum("gq,gq->g", basis, c[top]) - np.log(p[np.arange(p.shape[0]), top])
    value = float(data.events[i] @ a) + float(np.sum(data.moments[i] * c)) - float(n @ norm)
    expected = n[:, None] * p
    weight = expected[:, :, None] * -p[:, None, :]
    diagonal = weight.reshape(p.shape[0], -1)[:, :: m + 3]
    diagonal += expected
    missing = expected
    if cut.any():
        stay = p[:, :m].sum(axis=1)
        safe = np.where(stay > 0.0, stay, 1.0)
        value += float(cut @ (norm + np.log(safe)))
        among = p[:, :m] / safe[:, None]
        moved = cut[:, None] * among
        missing = expected.copy()
        missing[:, :m] -= moved
        if exact:
            weight[:, :m, :m] += moved[:, :, None] * among[:, None, :]
            diagonal[:, :m] -= moved
    residual = np.empty((m + 2, 1 + basis.shape[1]))
    residual[:, 0] = data.events[i] - missing.sum(axis=0)
    residual[:, 1:] = data.moments[i] - missing.T @ basis
    return _StateTerms(value, residual, weight)


def _add_priors(
    at: Coefficients, data: Data, penalty: Penalty, gradient: Floats, local: Floats
) -> float:
    """Add the rows' prior and the penalty of the splines by state; return their log density."""
    a, _, d = at
    m, width = a.shape
    prior, active = data.prior, data.active
    shift = a.max(axis=1, keepdims=True)
    norm = shift + np.log(np.exp(a - shift).sum(axis=1, keepdims=True))
    log_p = np.where(active, a - norm, 0.0)
    p = np.where(active, np.exp(log_p), 0.0)
    total = prior.sum(axis=1, keepdims=True)
    gradient[:, :, 0] += prior - total * p
    eye = np.eye(width)
    both = active[:, :, None] & active[:, None, :]
    # A constant in a row of a is of no effect: the ones keep the block invertible, the step small.
    local[:, :, 0, :, 0] += total[:, :, None] * (
        p[:, :, None] * eye - p[:, :, None] * p[:, None, :]
    )
    local[:, :, 0, :, 0] += both + eye * ~active[:, :, None]
    if d.shape[2]:
        gradient[:, :, 1:] -= penalty.state * d
        r = d.shape[2]
        index = np.arange(width * (1 + r)).reshape(width, 1 + r)[:, 1:].ravel()
        local.reshape(m, width * (1 + r), -1)[:, index, index] += penalty.state
        return float(np.sum(prior * log_p)) - 0.5 * penalty.state * float(np.sum(d**2))
    return float(np.sum(prior * log_p))


def log_posterior(at: Coefficients, data: Data, design: Design, penalty: Penalty) -> float:
    """Log posterior up to a constant that depends on the penalties alone."""
    return curvature(at, data, design, penalty).value
