"""Reliability figures of a session as functions of the parameters, one value a draw.

Over the next n tasks the subdomain is drawn afresh for every task from fixed weights, so that with
thetabar_s = sum_j w_j theta_js and D = diag(thetabar)::

    R(n) = P(all n succeed) = start' (D A)^(n-1) D 1

is exact. ``start`` is the law of the state that the first of them meets: P(Z_{T+1} | data) to
continue a session, delta for a fresh one, the stationary law of A for "some time later".

Arrays have any leading shape, usually (chain, draw): ``transition`` (..., K, K), ``success_prob``
(..., J, K), ``start`` (..., K), ``weights`` (J,).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_fraction, check_positive_int

__all__ = [
    "CONVENTIONS",
    "at_most_failures",
    "decay_rate",
    "expected_successes",
    "hazard",
    "hazard_at",
    "independent_system_run",
    "long_run_rate",
    "pass_at",
    "run_length",
    "run_length_draws",
    "second_eigenvalue",
    "state_after_successes",
    "state_success",
    "stationary",
    "success_run",
    "system_success_run",
]

FloatArray = npt.NDArray[np.float64]

CONVENTIONS = ("domain_once", "domain_per_task")
# A run length is looked for up to two to this power.
_RUN_LENGTH_BITS = 20


class _Flat(NamedTuple):
    A: FloatArray  # (n, K, K)
    bar: FloatArray  # (n, K)
    start: FloatArray  # (n, K)
    shape: tuple[int, ...]


def state_success(success_prob: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    """Return thetabar_s = sum_j w_j theta_js, shape (..., K)."""
    omega = np.asarray(weights, dtype=np.float64)
    return np.asarray(np.einsum("j,...jk->...k", omega, np.asarray(success_prob)))


def _flatten(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
) -> _Flat:
    A = np.asarray(transition, dtype=np.float64)
    K, shape = A.shape[-1], A.shape[:-2]
    bar = np.broadcast_to(state_success(success_prob, weights), (*shape, K))
    law = np.broadcast_to(np.asarray(start, dtype=np.float64), (*shape, K))
    return _Flat(
        np.ascontiguousarray(A.reshape(-1, K, K)),
        np.ascontiguousarray(bar.reshape(-1, K)),
        np.ascontiguousarray(law.reshape(-1, K)),
        shape,
    )


def success_run(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
    n_max: int,
) -> FloatArray:
    """Return R(n) = P(next n tasks all succeed) for n = 1..n_max, shape (..., n_max)."""
    from sojourn.session import _curve_kernels

    flat = _flatten(transition, success_prob, start, weights)
    out = np.empty((flat.A.shape[0], check_positive_int(n_max, name="n_max")))
    _curve_kernels.success_runs(flat.A, flat.bar, flat.start, out)
    return out.reshape(*flat.shape, n_max)


def pass_at(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
    k_max: int,
) -> FloatArray:
    """Return P(at least one of the next k tasks succeeds) for k = 1..k_max."""
    failure = 1.0 - np.asarray(success_prob, dtype=np.float64)
    return 1.0 - success_run(transition, failure, start, weights, k_max)


def at_most_failures(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
    n_max: int,
    *,
    failures: int,
) -> FloatArray:
    """Return P(at most `failures` of the next n tasks fail) for n = 1..n_max."""
    from sojourn.session import _curve_kernels

    if failures < 0:
        raise ValueError(f"failures must not be negative; got {failures}")
    flat = _flatten(transition, success_prob, start, weights)
    out = np.empty((flat.A.shape[0], check_positive_int(n_max, name="n_max")))
    _curve_kernels.at_most_failures(flat.A, flat.bar, flat.start, int(failures), out)
    return out.reshape(*flat.shape, n_max)


def stationary(transition: npt.ArrayLike) -> FloatArray:
    """Return the long-run law of the states, shape (..., K)."""
    from sojourn.session import _curve_kernels

    A = np.asarray(transition, dtype=np.float64)
    K = A.shape[-1]
    flat = np.ascontiguousarray(A.reshape(-1, K, K))
    out = np.empty((flat.shape[0], K))
    _curve_kernels.stationary_laws(flat, out)
    return out.reshape(A.shape[:-1])


def long_run_rate(
    transition: npt.ArrayLike, success_prob: npt.ArrayLike, weights: npt.ArrayLike
) -> FloatArray:
    """Return the long-run success rate sum_s stat(s) thetabar_s, shape (...)."""
    bar = state_success(success_prob, weights)
    return np.asarray((stationary(transition) * bar).sum(axis=-1))


def decay_rate(
    transition: npt.ArrayLike, success_prob: npt.ArrayLike, weights: npt.ArrayLike
) -> FloatArray:
    """Return the spectral radius of D A: for large n, R(n) falls by this factor a task."""
    bar = state_success(success_prob, weights)
    killed = bar[..., :, None] * np.asarray(transition, dtype=np.float64)
    return np.asarray(np.abs(np.linalg.eigvals(killed)).max(axis=-1))


def second_eigenvalue(transition: npt.ArrayLike) -> FloatArray:
    """Return the second largest modulus of an eigenvalue of A: how memory fades; 0 for K = 1."""
    A = np.asarray(transition, dtype=np.float64)
    if A.shape[-1] == 1:
        return np.zeros(A.shape[:-2])
    return np.asarray(np.sort(np.abs(np.linalg.eigvals(A)), axis=-1)[..., -2])


def expected_successes(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
) -> FloatArray:
    """Return the expected number of successes before the first failure, start' (I - D A)^-1 D 1.

    It is the sum of R(n) over n >= 1, and infinite where no state ever fails.
    """
    flat = _flatten(transition, success_prob, start, weights)
    K = flat.bar.shape[1]
    system = np.eye(K) - flat.bar[:, :, None] * flat.A
    # A state that never fails leaves nothing to solve for: the sum over n has no end.
    endless = np.linalg.det(system) <= 0.0
    system[endless] = np.eye(K)
    solved = np.linalg.solve(system, flat.bar[:, :, None])[:, :, 0]
    total = np.where(endless, np.inf, (flat.start * solved).sum(axis=1))
    return np.asarray(total.reshape(flat.shape))


def run_length(run: npt.ArrayLike, q: float) -> FloatArray:
    """Return the smallest n with R(n) < q, infinite where the curve given never falls below.

    Parameters
    ----------
    run : array_like of shape (..., n_max)
        R(1..n_max).
    q : float
        The reliability wanted.
    """
    below = np.asarray(run) < q
    first = np.argmax(below, axis=-1) + 1.0
    return np.asarray(np.where(below.any(axis=-1), first, np.inf))


def run_length_draws(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
    q: float,
) -> FloatArray:
    """Return the smallest n with R(n) < q for each draw, shape (...).

    One state is solved, floor(log q / log p) + 1. With more, R(m) = start' (D A)^m 1 falls with m,
    so that the largest m with R(m) >= q is found bit by bit from the powers (D A)^(2^b).

    Parameters
    ----------
    transition, success_prob, start, weights
        As everywhere here.
    q : float
        The reliability wanted, in (0, 1).

    Returns
    -------
    ndarray
        Infinite where one state never fails, or beyond a million tasks.

    Raises
    ------
    ValueError
        If q is not in (0, 1).
    """
    check_fraction(q, name="q")
    flat = _flatten(transition, success_prob, start, weights)
    if flat.bar.shape[1] == 1:
        with np.errstate(divide="ignore"):
            tasks = np.floor(np.log(q) / np.log(flat.bar[:, 0])) + 1.0
        return np.asarray(np.where(np.isfinite(tasks), tasks, np.inf)).reshape(flat.shape)
    powers: list[FloatArray] = []
    power = flat.bar[:, :, None] * flat.A
    # Powers up to the first whose number of tasks no draw survives.
    while len(powers) < _RUN_LENGTH_BITS:
        if not np.any(np.einsum("ds,dsk->d", flat.start, power) >= q):
            break
        powers.append(power)
        power = power @ power
    x, m = flat.start, np.zeros(flat.bar.shape[0])
    for bit in reversed(range(len(powers))):
        y = np.einsum("ds,dsk->dk", x, powers[bit])
        kept = y.sum(axis=1) >= q
        m += np.where(kept, 2.0**bit, 0.0)
        x = np.where(kept[:, None], y, x)
    beyond = m == 2.0**_RUN_LENGTH_BITS - 1.0
    return np.asarray(np.where(beyond, np.inf, m + 1.0)).reshape(flat.shape)


def hazard_at(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
    n: int,
) -> FloatArray:
    """Return h(n), the probability that task n fails after n - 1 successes, shape (...).

    By the law of the state among survivors, so that it does not lose its digits where R(n)
    underflows. Where no state can succeed every task fails.
    """
    law = state_after_successes(transition, success_prob, start, weights, n - 1)
    bar = state_success(success_prob, weights)
    alive = np.asarray((law * bar).sum(axis=-1))
    return np.where(np.isfinite(alive), 1.0 - alive, 1.0)


def hazard(run: npt.ArrayLike) -> FloatArray:
    """Return h(n) = 1 - R(n) / R(n - 1): P(task n fails | all before it succeeded), R(0) = 1."""
    curve = np.asarray(run, dtype=np.float64)
    before = np.concatenate((np.ones((*curve.shape[:-1], 1)), curve[..., :-1]), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(before > 0.0, 1.0 - curve / before, np.nan)


def state_after_successes(
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    start: npt.ArrayLike,
    weights: npt.ArrayLike,
    n: int,
) -> FloatArray:
    """Return the law of the state after n successes: start (D A)^n, normalised."""
    flat = _flatten(transition, success_prob, start, weights)
    x = flat.start
    for _ in range(n):
        x = np.einsum("ds,ds,dsk->dk", x, flat.bar, flat.A)
        with np.errstate(invalid="ignore"):
            x /= x.sum(axis=1, keepdims=True)
    return x.reshape(*flat.shape, -1)


def system_success_run(
    domain_runs: Sequence[npt.ArrayLike], domain_weights: npt.ArrayLike, *, convention: str
) -> FloatArray:
    """Combine the domains' R_i(n) into the system's.

    Parameters
    ----------
    domain_runs : sequence of array_like of shape (..., n_max)
        R_i(1..n_max) of each domain. Domains are independent a posteriori: draws of different
        domains may be paired at will, but the leading shapes must agree.
    domain_weights : array_like of shape (n_domains,)
        W.
    convention : str
        ``domain_once``: the whole session stays in one domain, drawn once: sum_i W_i R_i(n).
        ``domain_per_task``: a domain is drawn for every task, and a domain's state waits while the
        session is elsewhere: n! [x^n] prod_i sum_k W_i^k R_i(k) x^k / k!.

    Returns
    -------
    ndarray of shape (..., n_max)
    """
    check_choice(convention, CONVENTIONS, name="convention")
    runs = [np.asarray(run, dtype=np.float64) for run in domain_runs]
    W = np.asarray(domain_weights, dtype=np.float64)
    if W.shape != (len(runs),):
        raise ValueError(f"{len(runs)} domains need as many weights; got shape {W.shape}")
    if len({run.shape for run in runs}) != 1:
        raise ValueError("the domains' draws must have one shape")
    if convention == "domain_once":
        total = np.zeros_like(runs[0])
        for w, run in zip(W, runs, strict=True):
            total += w * run
        return total
    return _multinomial(runs, W)


def _multinomial(runs: list[FloatArray], W: FloatArray) -> FloatArray:
    """Convolve domain by domain: n tasks over the first i domains split binomially."""
    n_max = runs[0].shape[-1]
    ones = np.ones((*runs[0].shape[:-1], 1))
    total = np.concatenate((ones, runs[0]), axis=-1)
    seen = W[0]
    for w, run in zip(W[1:], runs[1:], strict=True):
        if w == 0.0:
            continue
        share = w / (seen + w)
        new = np.concatenate((ones, run), axis=-1)
        mixed = np.empty_like(total)
        law = np.ones(1)  # binomial(n, share)
        for n in range(n_max + 1):
            if n:
                law = np.convolve(law, (1.0 - share, share))
            mixed[..., n] = (total[..., n::-1] * new[..., : n + 1]) @ law
        total, seen = mixed, seen + w
    return total[..., 1:]


def independent_system_run(
    domain_rates: Sequence[npt.ArrayLike], domain_weights: npt.ArrayLike, n_max: int
) -> FloatArray:
    """Return (sum_i W_i p_i)^n for n = 1..n_max: every task independent of every other."""
    rate = sum(
        w * np.asarray(p, dtype=np.float64)
        for w, p in zip(np.asarray(domain_weights), domain_rates, strict=True)
    )
    return np.asarray(rate)[..., None] ** np.arange(1, n_max + 1)
