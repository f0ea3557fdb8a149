"""What laws of task success probabilities share: pairs of counts, estimates, the check of fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int
from sojourn.attempts.beta_binomial import fit_beta_binomial
from sojourn.attempts.bounds import pass_at_bounds, pass_hat_bounds
from sojourn.attempts.counts import TaskCounts
from sojourn.estimates import Estimate, Interval, Status
from sojourn.stats import monte_carlo_p, resampled_sums

__all__ = [
    "Pairs",
    "binomial_table",
    "estimate_of",
    "half_attempts",
    "pairs_of",
    "refitted_check",
    "resampled_pairs",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_FEW = 10


class Pairs(NamedTuple):
    """The distinct (successes, attempts), how many tasks have each, and log C(n, c)."""

    successes: IntArray
    attempts: IntArray
    tasks: FloatArray
    log_ways: FloatArray

    def kept(self, tasks: FloatArray) -> Pairs:
        """Return the pairs that some task has, with other numbers of tasks."""
        some = tasks > 0.0
        return Pairs(self.successes[some], self.attempts[some], tasks[some], self.log_ways[some])


def pairs_of(counts: TaskCounts) -> Pairs:
    """Gather tasks that have the same successes and attempts."""
    both = np.column_stack((counts.attempts, counts.successes))
    distinct, tasks = np.unique(both, axis=0, return_counts=True)
    return _pairs(distinct[:, 1], distinct[:, 0], tasks.astype(np.float64))


def resampled_pairs(counts: TaskCounts, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Tasks of each pair when units are resampled, shape (n_resamples, n_pairs)."""
    both = np.column_stack((counts.attempts, counts.successes))
    distinct, place = np.unique(both, axis=0, return_inverse=True)
    unit = np.unique(counts.unit, return_inverse=True)[1]
    rows = np.zeros((int(unit.max()) + 1, distinct.shape[0]))
    np.add.at(rows, (unit, place.reshape(-1)), 1.0)
    return resampled_sums(rows, n_resamples, rng)


def binomial_table(pairs: Pairs, p: FloatArray) -> FloatArray:
    """Return C(n, c) p^c (1 - p)^(n - c), shape (n_pairs, p.size); exact at p = 0 and 1."""
    from scipy.special import xlog1py, xlogy

    c, failed = pairs.successes[:, None], (pairs.attempts - pairs.successes)[:, None]
    return np.asarray(np.exp(pairs.log_ways[:, None] + xlogy(c, p) + xlog1py(failed, -p)))


def half_attempts(counts: TaskCounts) -> int:
    """Return the largest number of attempts that half of the tasks have."""
    return int(np.sort(counts.attempts)[::-1][(counts.n_tasks + 1) // 2 - 1])


def estimate_of(
    counts: TaskCounts,
    k: int,
    value: float,
    draws: FloatArray,
    *,
    quantity: str,
    law: str,
    ci_prob: float,
) -> Estimate:
    """Put a figure of a law and its resampled values into an estimate.

    Parameters
    ----------
    counts : TaskCounts
        What the law was fitted to.
    k : int
        Attempts at the same task.
    value : float
        The figure.
    draws : ndarray
        The figure of the law fitted to resampled units.
    quantity : {"pass_hat", "pass_at"}
        What it is.
    law : str
        Name of the law, for the reasons.
    ci_prob : float
        Probability of the interval.

    Returns
    -------
    Estimate
        Beyond the attempts that half of the tasks have it is inconclusive whatever the fit, with
        the bounds that hold for every law in its reasons.
    """
    check_positive_int(k, name="k")
    tail = (1.0 - check_fraction(ci_prob, name="ci_prob")) / 2.0
    if k > 1 and counts.max_attempts < 2:
        return Estimate(
            value=None,
            status=Status.WITHHELD,
            reasons=("one attempt per task: only bounds",),
            estimand="population",
        )
    low, high = (float(q) for q in np.quantile(draws, (tail, 1.0 - tail)))
    kind, reasons, status = f"bootstrap_{law}", [], Status.SUPPORTED
    some, flawed = _contributing(counts, k, quantity)
    alike = high - low < 1e-9
    if min(some, flawed) < _FEW or alike:
        # Resampling few tasks that differ says too little of those that were not drawn.
        posterior = fit_beta_binomial(counts)
        moment = (
            posterior.success_moment(k)
            if quantity == "pass_hat"
            else 1.0 - posterior.failure_moment(k)
        )
        modelled = posterior.interval(moment, ci_prob=ci_prob)
        low, high = min(low, modelled.low), max(high, modelled.high)
        kind = f"{kind}_and_beta_binomial"
        if alike:
            reasons.append("resampled tasks do not differ: the interval is a beta-binomial law's")
        else:
            reasons.append(
                f"{min(some, flawed)} tasks tell the value from {0 if some <= flawed else 1}, "
                f"fewer than {_FEW}: the interval also covers that of a beta-binomial law"
            )
    if counts.n_units < 2:
        status = Status.INCONCLUSIVE
        reasons.insert(0, "one unit of tasks does not tell how much others would differ")
    if k > half_attempts(counts):
        status = Status.INCONCLUSIVE
        bounds = (pass_hat_bounds if quantity == "pass_hat" else pass_at_bounds)(
            counts, k, ci_prob=ci_prob
        )
        reasons = [
            f"{k} attempts at a task: half of the tasks have at most {half_attempts(counts)}, "
            f"the figure rests on {_ARTICLE.get(law, law)}",
            f"whatever the law of tasks: {bounds}",
            *bounds.reasons,
            *reasons,
        ]
    interval = Interval(
        low=max(0.0, min(low, value)), high=min(1.0, max(high, value)), ci_prob=ci_prob, kind=kind
    )
    return Estimate(
        value=value,
        interval=interval,
        status=status,
        reasons=tuple(reasons),
        estimand="population",
    )


_ARTICLE = {
    "inflated": "a zero-one-inflated beta law",
    "nonparametric": "the atoms of a fitted law",
}


def refitted_check(
    counts: TaskCounts,
    count_law: Callable[[int], FloatArray],
    refit: Callable[[Pairs], Callable[[int], FloatArray]],
    *,
    n_resamples: int,
    rng: np.random.Generator,
) -> float:
    """Return the parametric bootstrap p of the histogram of successes per task.

    Small: the successes are not those of the fitted kind of law.

    Parameters
    ----------
    counts : TaskCounts
        What the law was fitted to.
    count_law : callable
        P(c successes), c = 0 .. n, by n, under the fitted law.
    refit : callable
        Fits the kind of law to other numbers of tasks and returns the same of the new fit, so that
        what the fit takes from the data is taken from the simulated ones too.
    n_resamples : int
        Corpora drawn.
    rng : Generator
        Source of chance.

    Notes
    -----
    Tasks with the modal number of attempts; sum_c (sqrt(O_c) - sqrt(E_c))^2 of Freeman and Tukey.
    """
    numbers, tasks = np.unique(counts.attempts, return_counts=True)
    modal = counts.modal_attempts
    total = float(tasks[numbers == modal][0])
    laws = [count_law(int(n)) for n in numbers]
    all_pairs = _pairs(
        np.concatenate([np.arange(n + 1) for n in numbers]),
        np.repeat(numbers, numbers + 1),
        np.zeros(int((numbers + 1).sum())),
    )
    observed = _distance(counts.histogram(), total * count_law(modal))
    draws = np.empty(n_resamples)
    for b in range(n_resamples):
        drawn = [rng.multinomial(t, law) for t, law in zip(tasks, laws, strict=True)]
        again = refit(all_pairs.kept(np.concatenate(drawn).astype(np.float64)))
        histogram = drawn[int(np.flatnonzero(numbers == modal)[0])]
        draws[b] = _distance(histogram, total * again(modal))
    return monte_carlo_p(observed, draws)


def _distance(observed: npt.ArrayLike, expected: FloatArray) -> float:
    return float(np.square(np.sqrt(np.asarray(observed)) - np.sqrt(expected)).sum())


def _pairs(successes: IntArray, attempts: IntArray, tasks: FloatArray) -> Pairs:
    from scipy.special import gammaln

    c, n = successes.astype(np.float64), attempts.astype(np.float64)
    ways = np.asarray(gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1), dtype=np.float64)
    return Pairs(successes.astype(np.int64), attempts.astype(np.int64), tasks, ways)


def _contributing(counts: TaskCounts, k: int, quantity: str) -> tuple[int, int]:
    """Tasks that tell the figure from 0, and that tell it from 1."""
    c, failed = counts.successes, counts.attempts - counts.successes
    if quantity == "pass_hat":
        return int(np.count_nonzero(c >= np.minimum(k, counts.attempts))), int(
            np.count_nonzero(failed > 0)
        )
    return int(np.count_nonzero(c > 0)), int(
        np.count_nonzero(failed >= np.minimum(k, counts.attempts))
    )
