"""The published certificate of an agent's chain: two-sample KS and AIC, kept for comparison.

The rule fits a chain with one pseudo-count a cell on one half of the runs, compares first-passage
times of the other half with simulated ones, and asks AIC whether the first order suffices. Text
and code of the method differ: the text compares times to success given success, the code times to
either end pooled; the code counts steps for AIC over all runs put one after the other, so that
the last state of a run seems to lead to the first of the next, and leaves the ends out. Both
readings are here by name. The split is the caller's: attempts at one task must not straddle it.

Neither test has the size or the power one would want; `exact.test_exact` is the one to use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_fraction, check_positive_int, generator
from sojourn.estimates import Verdict, number
from sojourn.sequences import CENSORED, SUCCESS, StateSequences

__all__ = ["PublishedCertificate", "certify_published", "ks_p_value", "order_aic"]

Floats = npt.NDArray[np.float64]

_FLOOR = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCertificate:
    """What the published rule says of a chain.

    Attributes
    ----------
    verdict : Verdict
        ``accepted`` when both parts accept, else ``rejected``; ``inconclusive`` when a part
        cannot be computed.
    ks_statistic, ks_p : float or None
        Distance of test and simulated first-passage times and its asymptotic p-value.
    aic_first, aic_second : float or None
        AIC of the first and the second order.
    aic_difference : float or None
        ``aic_first - aic_second``; the first order is preferred when it is negative.
    max_curve_error : float or None
        Largest distance of the fitted R(d) from the share of test runs that succeeded within d
        steps, d up to `curve_horizon`; cut runs stay in the denominator.
    times : str
        ``success`` (given success, as in the text) or ``both`` (pooled, as in the code).
    order_counts : str
        ``concatenated`` (as in the code) or ``per_run`` (no step across runs, ends included).
    start : str
        ``empirical`` or ``modal`` start of the fitted chain.
    n_test : int
        Test runs whose times were compared.
    n_simulated : int
        Simulated runs whose times were compared.
    curve_horizon : int
        Largest d of `max_curve_error`.
    reasons : tuple of str
        Why the verdict is not ``accepted``.
    """

    verdict: Verdict
    ks_statistic: float | None
    ks_p: float | None
    aic_first: float | None
    aic_second: float | None
    aic_difference: float | None
    max_curve_error: float | None
    times: str
    order_counts: str
    start: str
    n_test: int
    n_simulated: int
    curve_horizon: int
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain values."""
        return {
            "verdict": str(self.verdict),
            "ks_statistic": number(self.ks_statistic),
            "ks_p": number(self.ks_p),
            "aic_first": number(self.aic_first),
            "aic_second": number(self.aic_second),
            "aic_difference": number(self.aic_difference),
            "max_curve_error": number(self.max_curve_error),
            "times": self.times,
            "order_counts": self.order_counts,
            "start": self.start,
            "n_test": self.n_test,
            "n_simulated": self.n_simulated,
            "curve_horizon": self.curve_horizon,
            "reasons": list(self.reasons),
        }


class OrderAic(NamedTuple):
    """AIC of the first and of the second order."""

    first: float
    second: float


def certify_published(
    sequences_fit: StateSequences,
    sequences_test: StateSequences,
    *,
    times: str = "both",
    order_counts: str = "concatenated",
    start: str = "empirical",
    smoothing: float = 1.0,
    n_simulated: int = 8000,
    max_steps: int = 200,
    curve_horizon: int = 50,
    alpha: float = 0.05,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> PublishedCertificate:
    """Apply the published rule: accept if the KS p-value exceeds `alpha` and AIC prefers order 1.

    Parameters
    ----------
    sequences_fit, sequences_test : StateSequences
        The two halves, split by task before the states were made; states alike.
    times : {"both", "success"}
        First-passage times compared: to either end, pooled (code), or to success given success
        (text). Cut runs are dropped from the comparison.
    order_counts : {"concatenated", "per_run"}
        Steps counted for AIC: all runs put one after the other, ends left out, m(m-1) and
        m^2(m-1) parameters (code); or inside runs only, ends included, m(m+1) and m^2(m+1)
        parameters, both orders on the same steps.
    start : {"empirical", "modal"}
        Start of the fitted chain.
    smoothing : float
        Pseudo-count in every one of the m + 2 cells of a row.
    n_simulated : int
        Runs drawn from the fitted chain.
    max_steps : int
        Simulated runs that go on longer are dropped.
    curve_horizon : int
        Largest d at which R(d) is compared.
    alpha : float
        Size of the KS test.
    rng : Generator, SeedSequence, int or None
        Source of the simulated runs.

    Returns
    -------
    PublishedCertificate
        Both parts and the verdict.

    Raises
    ------
    ValueError
        If the halves have different states or an argument is out of range.

    References
    ----------
    Tran-Truong and Le, TraceToChain (ISSRE 2026): clustering, smoothing, KS and AIC composite.
    """
    check_choice(times, ("both", "success"), name="times")
    check_choice(order_counts, ("concatenated", "per_run"), name="order_counts")
    check_choice(start, ("empirical", "modal"), name="start")
    check_fraction(alpha, name="alpha")
    for name, value in (("n_simulated", n_simulated), ("max_steps", max_steps)):
        check_positive_int(value, name=name)
    check_positive_int(curve_horizon, name="curve_horizon")
    if smoothing < 0:
        raise ValueError(f"smoothing must not be negative; got {smoothing!r}")
    if sequences_fit.state_names != sequences_test.state_names:
        raise ValueError("both halves must have the same states in the same order")
    fit = _with_steps(sequences_fit)
    test = _with_steps(sequences_test)
    shape = (max_steps, n_simulated, curve_horizon)
    compared = _compare_times(fit, test, times, start, smoothing, shape, generator(rng))
    aic = order_aic(fit, counts=order_counts)
    verdict, reasons = _decide(compared, aic, alpha)
    return PublishedCertificate(
        verdict=verdict,
        ks_statistic=compared.statistic,
        ks_p=compared.p,
        aic_first=None if aic is None else aic.first,
        aic_second=None if aic is None else aic.second,
        aic_difference=None if aic is None else aic.first - aic.second,
        max_curve_error=compared.curve_error,
        times=times,
        order_counts=order_counts,
        start=start,
        n_test=compared.n_test,
        n_simulated=compared.n_simulated,
        curve_horizon=curve_horizon,
        reasons=reasons,
    )


class _Compared(NamedTuple):
    statistic: float | None
    p: float | None
    curve_error: float | None
    n_test: int
    n_simulated: int
    reason: str | None


def _compare_times(
    fit: StateSequences,
    test: StateSequences,
    times: str,
    start: str,
    smoothing: float,
    shape: tuple[int, int, int],
    rng: np.random.Generator,
) -> _Compared:
    max_steps, n_simulated, horizon = shape
    observed = _passage_times(test, times)
    if fit.n_runs == 0:
        return _Compared(None, None, None, observed.size, 0, "no run to fit has a step")
    law = _absorption_law(fit, start, smoothing, max(max_steps, horizon))
    simulated = _simulated_times(law[:, :max_steps], times, n_simulated, rng)
    error = _curve_error(law, test, horizon)
    if observed.size == 0 or simulated.size == 0:
        way = "succeeded" if times == "success" else "ended"
        reason = f"no {'test' if observed.size == 0 else 'simulated'} run {way}"
        return _Compared(None, None, error, observed.size, simulated.size, reason)
    statistic = _ks_distance(observed, simulated)
    p = ks_p_value(statistic, observed.size, simulated.size)
    return _Compared(statistic, p, error, observed.size, simulated.size, None)


def _decide(
    compared: _Compared, aic: OrderAic | None, alpha: float
) -> tuple[Verdict, tuple[str, ...]]:
    reasons = [] if compared.reason is None else [compared.reason]
    if aic is None:
        reasons.append("too few steps for a second order")
    if aic is None or compared.p is None:
        return Verdict.INCONCLUSIVE, tuple(reasons)
    if compared.p <= alpha:
        reasons.append(f"times: KS p = {compared.p:.3g}, not over {alpha:g}")
    if aic.first >= aic.second:
        reasons.append("order: AIC does not prefer the first order")
    return (Verdict.REJECTED if reasons else Verdict.ACCEPTED), tuple(reasons)


def _with_steps(sequences: StateSequences) -> StateSequences:
    return sequences.select(np.flatnonzero(sequences.lengths > 0))


def _passage_times(runs: StateSequences, times: str) -> npt.NDArray[np.int64]:
    kept = runs.event == SUCCESS if times == "success" else runs.event != CENSORED
    return np.asarray(runs.lengths[kept], dtype=np.int64)


def _absorption_law(runs: StateSequences, start: str, smoothing: float, max_steps: int) -> Floats:
    """Return P(end in success, in failure at step t) of the smoothed chain, (2, max_steps)."""
    m = runs.n_states
    source, target = _steps_within(runs)
    counts = np.zeros((m, m + 2))
    np.add.at(counts, (source, target), 1.0)
    counts += smoothing
    rows = counts.sum(axis=1, keepdims=True)
    P = np.divide(counts, rows, out=np.zeros_like(counts), where=rows > 0)
    now = np.bincount(runs.states[runs.offsets[:-1]], minlength=m).astype(np.float64)
    now = now / now.sum() if start == "empirical" else np.eye(m)[now.argmax()]
    law = np.empty((2, max_steps))
    for t in range(max_steps):
        law[:, t] = now @ P[:, m:]
        now = now @ P[:, :m]
    return law


def _steps_within(
    runs: StateSequences,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return state and next state or end of every step; cut runs have no last step."""
    m = runs.n_states
    source = runs.states.astype(np.int64)
    target = np.append(source[1:], 0)
    target[runs.offsets[1:] - 1] = np.array([-1, m, m + 1])[runs.event]
    return source[target >= 0], target[target >= 0]


def _simulated_times(
    law: Floats, times: str, n_simulated: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw first-passage times from their law, which is what simulated runs would give."""
    flat = np.append(law.ravel(), max(0.0, 1.0 - law.sum()))
    drawn = rng.choice(flat.size, size=n_simulated, p=flat / flat.sum())
    max_steps = law.shape[1]
    kept = drawn < (max_steps if times == "success" else 2 * max_steps)
    return np.asarray(drawn[kept] % max_steps + 1, dtype=np.int64)


def _curve_error(law: Floats, test: StateSequences, horizon: int) -> float | None:
    if test.n_runs == 0:
        return None
    fitted = np.cumsum(law[0, :horizon])
    times = test.lengths[test.event == SUCCESS]
    shares = np.searchsorted(np.sort(times), np.arange(1, horizon + 1), side="right") / test.n_runs
    return float(np.abs(fitted - shares).max())


def _ks_distance(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> float:
    """Return the largest distance of the two empirical distribution functions."""
    points = np.union1d(first, second)
    below = [np.searchsorted(np.sort(x), points, side="right") / x.size for x in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def ks_p_value(statistic: float, n_first: int, n_second: int) -> float:
    """Asymptotic p-value of the two-sample KS statistic, as published.

    Parameters
    ----------
    statistic : float
        Distance of the empirical distribution functions.
    n_first, n_second : int
        Sizes of the samples.

    Returns
    -------
    float
        ``2 sum_{j=1..100} (-1)^(j-1) exp(-2 j^2 x^2)``, x = (r + .12 + .11 / r) D,
        r^2 = n1 n2 / (n1 + n2), clipped to [0, 1]. It treats the fitted chain as known and the
        times as continuous.
    """
    if statistic <= 0.0:
        return 1.0  # the alternating sum of ones has no value of its own
    root = np.sqrt(n_first * n_second / (n_first + n_second))
    x = (root + 0.12 + 0.11 / root) * statistic
    j = np.arange(1, 101)
    total = 2.0 * np.sum((-1.0) ** (j - 1) * np.exp(-2.0 * j**2 * x**2))
    return float(np.clip(total, 0.0, 1.0))


def order_aic(sequences: StateSequences, *, counts: str = "concatenated") -> OrderAic | None:
    """Return AIC of the first and second order, or None where there is no step of order two.

    Parameters
    ----------
    sequences : StateSequences
        The runs.
    counts : {"concatenated", "per_run"}
        As in `certify_published`.
    """
    check_choice(counts, ("concatenated", "per_run"), name="counts")
    m = sequences.n_states
    x = sequences.states.astype(np.int64)
    if counts == "concatenated":
        if x.size < 3:
            return None
        first = _log_likelihood(x[:-1], x[1:])
        second = _log_likelihood(x[:-2] * m + x[1:-1], x[2:])
        return OrderAic(2 * m * (m - 1) - 2 * first, 2 * m * m * (m - 1) - 2 * second)
    runs = _with_steps(sequences)
    target = np.append(x[1:], 0)[: x.size]
    target[runs.offsets[1:] - 1] = np.array([-1, m, m + 1])[runs.event]
    starts = np.zeros(x.size, dtype=np.bool_)
    starts[runs.offsets[:-1]] = True
    middle = np.flatnonzero(~starts & (target >= 0))
    if middle.size == 0:
        return None
    first = _log_likelihood(x[middle], target[middle])
    second = _log_likelihood(x[middle - 1] * m + x[middle], target[middle])
    return OrderAic(2 * m * (m + 1) - 2 * first, 2 * m * m * (m + 1) - 2 * second)


def _log_likelihood(context: npt.NDArray[np.int64], following: npt.NDArray[np.int64]) -> float:
    """Log-likelihood of each step given its context at the maximum likelihood estimate."""
    width = int(following.max()) + 1
    _, rows, in_context = np.unique(context, return_inverse=True, return_counts=True)
    _, cells, in_cell = np.unique(
        context * width + following, return_inverse=True, return_counts=True
    )
    return float(np.log(np.maximum(in_cell[cells] / in_context[rows], _FLOOR)).sum())
