"""Newton's method for the progress-dependent chain, and the Laplace choice of its penalties.

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
posterior is not, a step takes them as spread over the moves as the present p has it (an EM step
inside Newton's), with a curvature that is positive. The parameters of each state are eliminated
first, so the cost is that of the common splines.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.homogeneous import RowPrior

__all__ = [
    "Coefficients",
    "Curvature",
    "Data",
    "Design",
    "Penalty",
    "choose_penalty",
    "curvature",
    "data_of",
    "design_of",
    "log_posterior",
    "maximise",
    "row_probabilities",
    "safe_curvature",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_MAX_ITERATIONS = 300
# A curvature is kept for cheap steps once a Newton step gains less than this, for so many steps,
# as long as each gains less than this share of the one before; they end at a gain of `_SETTLED`.
_COASTING, _MAX_COASTING, _CONTRACTION, _SETTLED = 20.0, 20, 0.5, 1e-9
_MAX_UPDATES = 60
_LOOSEST, _FIRMEST, _HELD = 1e-3, 1e6, 1e9

_SMALLEST_SHARE = 1.0 / 64.0
# What is added to a curvature that cannot be inverted, as little of it as is enough.
_DAMPING = (0.0, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 100.0)


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
        return min(self.move, _HELD) * moves + min(self.end, _HELD) * ends + 1.0


class Curvature(NamedTuple):
    """Gradient and negative second derivative, the parameters of the states in blocks."""

    value: float
    local_gradient: Floats  # (m, L), L = (m + 2) (1 + r), r = q with splines by state, else 0
    common_gradient: Floats  # ((m + 2) q,)
    local: Floats  # (m, L, L)
    cross: Floats  # (m, L, (m + 2) q)
    common: Floats  # ((m + 2) q, (m + 2) q)


class _Step(NamedTuple):
    local: Floats
    common: Floats
    solved: Floats  # local^-1 cross
    schur: Floats
    decrement: float


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
        basis=basis,
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


def maximise(
    start: Coefficients, data: Data, design: Design, penalty: Penalty, *, tolerance: float = 1e-10
) -> Coefficients:
    """Climb from `start` until the next step would gain less than `tolerance`, and take that step.

    After each Newton step its curvature serves for as many cheap steps as it is good for.

    Raises
    ------
    ArithmeticError
        If the iteration does not settle.
    """
    here, best = start, -np.inf
    base, kept = start, None
    step: _Step | None = None
    share, level = 1.0, 0
    for _ in range(_MAX_ITERATIONS):
        now = curvature(here, data, design, penalty, exact=True)
        lower = not now.value >= best - 1e-9 * (1.0 + abs(best))
        if lower and step is not None and kept is not None:
            share /= 2.0
            if share < _SMALLEST_SHARE:
                # The direction itself is bad: closer to the gradient.
                share, level = 1.0, min(level + 1, len(_DAMPING) - 1)
                _, step = _safe_step(kept, base, data, design, penalty, level)
            here = _moved(base, step, share)
            continue
        best, base, kept, share = now.value, here, now, 1.0
        used, step = _safe_step(now, here, data, design, penalty, level)
        level = max(level - 1, 0)
        here = _moved(base, step, share)
        if step.decrement < 2.0 * tolerance:
            return here
        if step.decrement < _COASTING:
            found, settled = _coast(base, used, step, data, design, penalty, tolerance)
            if settled:
                return found
            if found is not base:
                # As high as any point before it; where the step itself went down, halve it above.
                here, step = found, None
    raise ArithmeticError("the fit of the progress-dependent chain did not settle")


def _coast(
    base: Coefficients,
    now: Curvature,
    step: _Step,
    data: Data,
    design: Design,
    penalty: Penalty,
    tolerance: float,
) -> tuple[Coefficients, bool]:
    """Take `step` from `base` and go on with its curvature and new gradients.

    Returns
    -------
    Coefficients, bool
        The highest point found, and whether a step there would gain less than `tolerance`.
    """
    inverse = np.linalg.inv(now.local)
    common_inverse = np.linalg.inv(step.schur)
    best, gain = now.value, step.decrement
    here = _moved(base, step, 1.0)
    for _ in range(_MAX_COASTING):
        slope = gradient(here, data, design, penalty)
        if not slope.value >= best - 1e-9 * (1.0 + abs(best)):
            return base, False
        alone = np.einsum("ikl,il->ik", inverse, slope.local)
        common = np.zeros(slope.common.size)
        if common.size and penalty.has_splines:
            flat = now.cross.reshape(alone.size, common.size)
            common = common_inverse @ (slope.common - flat.T @ alone.ravel())
        local = alone - step.solved @ common
        decrement = float(slope.common @ common) + float(np.sum(slope.local * local))
        if not 0.0 <= decrement < _CONTRACTION * gain and decrement > _SETTLED:
            return here, False
        best, gain, base = slope.value, decrement, here
        here = _moved(here, step._replace(local=local, common=common), 1.0)
        # The rate is linear here: what is left after this step is a share of it, not its square.
        if decrement < min(tolerance, _SETTLED):
            return here, True
    return here, False


class Slope(NamedTuple):
    """Log posterior and its gradient, as `Curvature` has them."""

    value: float
    local: Floats
    common: Floats


def gradient(at: Coefficients, data: Data, design: Design, penalty: Penalty) -> Slope:
    """Differentiate the log posterior once, all states together."""
    m, width = at.intercept.shape
    r = at.state_spline.shape[2]
    basis = design.basis
    eta = at.intercept + (basis @ at.spline.T)[:, None, :]
    if r:
        eta = eta + np.einsum("gq,ijq->gij", basis, at.state_spline)
    top = eta.max(axis=2)
    p = np.exp(eta - top[:, :, None])
    total = p.sum(axis=2)
    p /= total[:, :, None]
    norm = top + np.log(total)
    a = np.where(data.active, at.intercept, 0.0)
    c = at.spline + at.state_spline if r else at.spline
    value = float(np.sum(data.events * a)) + float(np.sum(data.moments * c))
    value -= float(np.sum(data.total.T * norm))
    missing = data.total.T[:, :, None] * p
    if data.went_on.any():
        cut = data.went_on.T
        stay = p[:, :, :m].sum(axis=2)
        safe = np.where(stay > 0.0, stay, 1.0)
        value += float(np.sum(cut * (norm + np.log(safe))))
        missing[:, :, :m] -= (cut / safe)[:, :, None] * p[:, :, :m]
    by_basis = data.moments - np.tensordot(missing, basis, axes=([0], [0]))
    local = np.empty((m, width, 1 + r))
    local[:, :, 0] = data.events - missing.sum(axis=0)
    if r:
        local[:, :, 1:] = by_basis
    unused = np.zeros((m, width, 1 + r, width, 1 + r))
    value += _add_priors(at, data, penalty, local, unused)
    precision = penalty.matrix(m)
    value -= 0.5 * float(np.sum(at.spline * (precision @ at.spline)))
    common = by_basis.sum(axis=0) - precision @ at.spline
    return Slope(value, local.reshape(m, width * (1 + r)), common.ravel())


def safe_curvature(at: Coefficients, data: Data, design: Design, penalty: Penalty) -> Curvature:
    """Differentiate the log posterior so that the curvature can be inverted, and is positive."""
    now = curvature(at, data, design, penalty, exact=True)
    return _safe_step(now, at, data, design, penalty, 0)[0]


def _safe_step(
    now: Curvature,
    here: Coefficients,
    data: Data,
    design: Design,
    penalty: Penalty,
    level: int,
) -> tuple[Curvature, _Step]:
    """Return a step that goes up and the curvature it was made with.

    Where the posterior is not concave the curvature of the EM majoriser serves; where events have
    all but vanished, so that it is flat to rounding, as much of the identity is added as it takes.
    """
    for damping in _DAMPING[level:]:
        try:
            tried = _damped(now, damping)
            step = _newton_step(tried, here, penalty)
            if data.went_on.any() and not _is_concave(tried, step):
                tried = _damped(curvature(here, data, design, penalty), damping)
                step = _newton_step(tried, here, penalty)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(step.decrement) and step.decrement >= 0.0:
            return tried, step
    raise ArithmeticError("the fit of the progress-dependent chain has no way up")


def _damped(now: Curvature, damping: float) -> Curvature:
    if damping == 0.0:
        return now
    return now._replace(
        local=now.local + damping * np.eye(now.local.shape[1]),
        common=now.common + damping * np.eye(now.common.shape[0]),
    )


def _is_concave(now: Curvature, step: _Step) -> bool:
    try:
        np.linalg.cholesky(now.local)
        np.linalg.cholesky(step.schur)
    except np.linalg.LinAlgError:
        return False
    return True


def _newton_step(now: Curvature, at: Coefficients, penalty: Penalty) -> _Step:
    width, q = at.spline.shape
    both = np.concatenate((now.cross, now.local_gradient[:, :, None]), axis=2)
    solved: Floats = np.asarray(np.linalg.solve(now.local, both), dtype=np.float64)
    solved, alone = solved[:, :, :-1], solved[:, :, -1]
    flat = now.cross.reshape(alone.size, width * q)
    schur = now.common - flat.T @ solved.reshape(flat.shape)
    right = now.common_gradient - flat.T @ alone.ravel()
    common = np.zeros(width * q)
    if q and penalty.has_splines:
        common = np.linalg.solve(schur, right)
    local = alone - solved @ common
    decrement = float(now.common_gradient @ common) + float(np.sum(now.local_gradient * local))
    return _Step(local, common, solved, schur, decrement)


def _moved(at: Coefficients, step: _Step, share: float) -> Coefficients:
    m, width = at.intercept.shape
    local = share * step.local.reshape(m, width, -1)
    return Coefficients(
        intercept=at.intercept + local[:, :, 0],
        spline=at.spline + share * step.common.reshape(at.spline.shape),
        state_spline=at.state_spline + local[:, :, 1:],
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
    at = maximise(start, data, design, penalty, tolerance=1e-4)
    for _ in range(_MAX_UPDATES):
        spent, size = _freedom(at, data, design, penalty)
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
        penalty = Penalty(*updated)
        at = maximise(at, data, design, penalty, tolerance=1e-4)
        if change < 0.01:
            break
    at = maximise(at, data, design, penalty)
    return Chosen(penalty, at, float(sum(_freedom(at, data, design, penalty)[0])))


def _freedom(
    at: Coefficients, data: Data, design: Design, penalty: Penalty
) -> tuple[list[float], list[float]]:
    """Degrees of freedom k - l tr V and sums of squares, for moves, ends and splines by state."""
    now = curvature(at, data, design, penalty)
    step = _newton_step(now, at, penalty)
    m, width = at.intercept.shape
    q, r = at.spline.shape[1], at.state_spline.shape[2]
    V = np.linalg.inv(step.schur) if q and penalty.has_splines else np.zeros_like(step.schur)
    variance = np.einsum("jqkq->jk", V.reshape(width, q, width, q))
    spent, size = [], []
    precisions, forms = (penalty.move, penalty.end), penalty.squares(m)
    for precision, form, rank in zip(precisions, forms, (m - 1, 2), strict=True):
        free = rank * q - precision * float(np.sum(variance * form)) if precision < np.inf else 0.0
        spent.append(max(free, 0.0))
        size.append(float(np.sum(at.spline * (form @ at.spline))))
    state = 0.0
    if r:
        inverse = np.linalg.inv(now.local) + step.solved @ V @ np.swapaxes(step.solved, 1, 2)
        own = np.einsum("ikk->ik", inverse).reshape(m, width, 1 + r)[:, :, 1:]
        state = float(np.sum((1.0 - penalty.state * own)[data.active]))
    spent.append(state)
    size.append(float(np.sum(at.state_spline**2)))
    return spent, size
