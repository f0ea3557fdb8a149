"""Repeated attempts at tasks: rates, pass^k, pass@k, how tasks differ, and what lies beyond."""

from __future__ import annotations

from sojourn.attempts.beta_binomial import (
    BetaBinomialPosterior,
    fit_beta_binomial,
    icc,
    moment_icc,
    predictive_check,
)
from sojourn.attempts.bounds import (
    AttemptBounds,
    Beyond,
    SingleAttemptBounds,
    pass_at_beyond,
    pass_at_bounds,
    pass_hat_beyond,
    pass_hat_bounds,
    single_attempt_bounds,
)
from sojourn.attempts.counts import TaskCounts
from sojourn.attempts.estimators import (
    naive_rate,
    pass_at,
    pass_ats,
    pass_hat,
    pass_hats,
    success_rate,
)
from sojourn.attempts.heterogeneity import HomogeneityTest, test_homogeneity
from sojourn.attempts.mixing import (
    InflatedFit,
    MixingChoice,
    NonparametricMixing,
    choose_mixing,
    fit_inflated,
    fit_nonparametric,
)

__all__ = [
    "AttemptBounds",
    "BetaBinomialPosterior",
    "Beyond",
    "HomogeneityTest",
    "InflatedFit",
    "MixingChoice",
    "NonparametricMixing",
    "SingleAttemptBounds",
    "TaskCounts",
    "choose_mixing",
    "fit_beta_binomial",
    "fit_inflated",
    "fit_nonparametric",
    "icc",
    "moment_icc",
    "naive_rate",
    "pass_at",
    "pass_at_beyond",
    "pass_at_bounds",
    "pass_ats",
    "pass_hat",
    "pass_hat_beyond",
    "pass_hat_bounds",
    "pass_hats",
    "predictive_check",
    "single_attempt_bounds",
    "success_rate",
    "test_homogeneity",
]
