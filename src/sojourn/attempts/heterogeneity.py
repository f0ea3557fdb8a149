"""Do tasks differ? An exact test that needs no model of how."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn._validation import check_positive_int, generator
from sojourn.attempts.counts import TaskCounts
from sojourn.stats import monte_carlo_p, permuted_dispersion, tarone
from sojourn.tables import n_of

__all__ = ["HomogeneityTest", "test_homogeneity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomogeneityTest:
    """Evidence against equal success probabilities of all tasks.

    Attributes
    ----------
    p_value : float or None
        Exact permutation p; None where the data cannot tell, with the reason.
    statistic : float or None
        Tarone's S = sum_t (c_t - n_t p)^2 / (p (1 - p)), large when tasks differ.
    tarone_z, tarone_p : float or None
        S standardised, and the normal tail beyond it, which holds for many tasks.
    n_tasks, n_runs, n_resamples : int
        What it was computed from.
    reason : str or None
        Why there is no p.
    """

    p_value: float | None
    statistic: float | None = None
    tarone_z: float | None = None
    tarone_p: float | None = None
    n_tasks: int
    n_runs: int
    n_resamples: int
    reason: str | None = None

    def __str__(self) -> str:
        if self.p_value is None:
            return f"test of equal tasks: none ({self.reason})"
        return (
            f"test of equal tasks: p = {self.p_value:.4g} "
            f"(Tarone's Z {self.tarone_z:.2f}, {n_of(self.n_tasks, 'task')}, "
            f"{n_of(self.n_runs, 'run')})"
        )


def test_homogeneity(
    counts: TaskCounts,
    *,
    n_resamples: int = 1999,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> HomogeneityTest:
    """Test whether all tasks succeed with the same probability, exactly.

    If they do, every dealing of the outcomes over the attempts is equally likely, given how many
    succeeded. The statistic is Tarone's, the score against beta-binomial spread.

    Parameters
    ----------
    counts : TaskCounts
        Needs two attempts at one task at least, and two tasks.
    n_resamples : int
        Dealings drawn.
    rng : Generator, int, SeedSequence or None
        Source of the draws.

    Returns
    -------
    HomogeneityTest
    """
    rng = generator(rng)
    n_resamples = check_positive_int(n_resamples, name="n_resamples")
    total = int(counts.successes.sum())
    reason = None
    if counts.n_tasks < 2:
        reason = "one task cannot differ from others"
    elif counts.max_attempts < 2:
        reason = "one attempt per task does not tell how much tasks differ"
    elif total in (0, counts.n_runs):
        reason = "all runs ended alike"
    if reason is not None:
        return HomogeneityTest(
            p_value=None,
            n_tasks=counts.n_tasks,
            n_runs=counts.n_runs,
            n_resamples=n_resamples,
            reason=reason,
        )
    observed = tarone(counts.successes, counts.attempts)
    draws = permuted_dispersion(counts.attempts, total, n_resamples, rng)
    return HomogeneityTest(
        p_value=monte_carlo_p(observed.statistic, draws),
        statistic=observed.statistic,
        tarone_z=observed.z,
        tarone_p=observed.p_value,
        n_tasks=counts.n_tasks,
        n_runs=counts.n_runs,
        n_resamples=n_resamples,
    )
