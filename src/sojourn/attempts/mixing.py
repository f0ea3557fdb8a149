"""Which law of task success probabilities to show: beta, beta with atoms, or no form at all.

A beta law has one hump or two ends. Tasks that an agent never solves, or always, together with
others between, are not of that form, and the beta law's predictive check then tells. The next
wider law adds atoms at 0 and 1; the widest has no form and is the most probable one of all laws.

None of them knows what lies beyond the attempts that were made: laws with the same first n moments
give the same counts, and a passed check proves nothing there. Such figures stay inconclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sojourn._validation import check_fraction, check_positive_int, generator
from sojourn.attempts._inflated import InflatedFit, fit_inflated
from sojourn.attempts._mixing_parts import half_attempts
from sojourn.attempts._nonparametric import NonparametricMixing, fit_nonparametric
from sojourn.attempts.beta_binomial import (
    BetaBinomialPosterior,
    fit_beta_binomial,
    predictive_check,
)
from sojourn.attempts.bounds import pass_at_beyond, pass_hat_beyond
from sojourn.attempts.counts import TaskCounts
from sojourn.estimates import Estimate, Status

__all__ = [
    "InflatedFit",
    "MixingChoice",
    "NonparametricMixing",
    "choose_mixing",
    "fit_inflated",
    "fit_nonparametric",
]

Generatable = np.random.Generator | np.random.SeedSequence | int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixingChoice:
    """The law of task success probabilities to show, and why.

    Attributes
    ----------
    kind : str
        ``beta_binomial``, ``inflated``, ``nonparametric``, or ``none`` with one attempt a task.
    reasons : tuple of str
        Why this one, in the order in which laws were tried.
    checks : mapping of str to float
        The p of the predictive check of each law that was tried.
    law : BetaBinomialPosterior, InflatedFit, NonparametricMixing or None
        The law.
    fits : bool
        Whether the law passes its own check.
    counts : TaskCounts
        What it was fitted to.
    """

    kind: str
    reasons: tuple[str, ...]
    checks: Mapping[str, float]
    law: BetaBinomialPosterior | InflatedFit | NonparametricMixing | None
    fits: bool
    counts: TaskCounts = field(repr=False)

    def __str__(self) -> str:
        head = f"law of tasks: {self.kind}" + ("" if self.fits else " (does not fit)")
        return "\n".join((head, *(f"  {reason}" for reason in self.reasons)))

    def pass_hat(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass^k of the law; inconclusive beyond the attempts, withheld without a law."""
        return self._figure(k, "pass_hat", ci_prob)

    def pass_at(self, k: int, *, ci_prob: float = 0.95) -> Estimate:
        """Return pass@k of the law; inconclusive beyond the attempts, withheld without a law."""
        return self._figure(k, "pass_at", ci_prob)

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        return {
            "kind": self.kind,
            "fits": self.fits,
            "reasons": list(self.reasons),
            "checks": dict(self.checks),
        }

    def _figure(self, k: int, quantity: str, ci_prob: float) -> Estimate:
        check_positive_int(k, name="k")
        if self.law is None:
            return Estimate(
                value=None, status=Status.WITHHELD, reasons=self.reasons, estimand="population"
            )
        hat = quantity == "pass_hat"
        if isinstance(self.law, BetaBinomialPosterior):
            if k > half_attempts(self.counts):
                beyond = pass_hat_beyond if hat else pass_at_beyond
                return beyond(self.counts, k, ci_prob=ci_prob, posterior=self.law).estimate
            estimate = (self.law.pass_hat if hat else self.law.pass_at)(k, ci_prob=ci_prob)
        else:
            estimate = (self.law.pass_hat if hat else self.law.pass_at)(k, ci_prob=ci_prob)
        if self.fits or estimate.status is not Status.SUPPORTED:
            return estimate
        return Estimate(
            value=estimate.value,
            interval=estimate.interval,
            status=Status.INCONCLUSIVE,
            reasons=(self.reasons[-1], *estimate.reasons),
            estimand=estimate.estimand,
        )


def choose_mixing(
    counts: TaskCounts,
    *,
    posterior: BetaBinomialPosterior | None = None,
    check_p: float | None = None,
    alpha: float = 0.05,
    n_resamples: int = 199,
    rng: Generatable = None,
) -> MixingChoice:
    """Choose the narrowest law of tasks whose predictive check is passed.

    Parameters
    ----------
    counts : TaskCounts
        Successes and attempts of each task.
    posterior : BetaBinomialPosterior, optional
        The beta-binomial fit to `counts`, where there is one already.
    check_p : float, optional
        The p of the predictive check of `posterior`, where it was made already: another draw of
        the same check could contradict it.
    alpha : float
        Size of each check, which is passed by a p over it.
    n_resamples : int
        Corpora drawn in a check, and resamples behind an interval.
    rng : Generator, int, SeedSequence or None
        Source of chance.

    Returns
    -------
    MixingChoice
        Beta-binomial if its check is passed; else with atoms at 0 and 1 if four attempts identify
        them and its check is passed; else without a form.
    """
    check_fraction(alpha, name="alpha")
    if check_p is not None and (posterior is None or not 0.0 <= check_p <= 1.0):
        raise ValueError(f"check_p must be the p-value of a posterior that is given, not {check_p}")
    source = generator(rng)
    if counts.max_attempts < 2:
        return MixingChoice(
            kind="none",
            reasons=("one attempt per task does not tell how much tasks differ: only bounds",),
            checks={},
            law=None,
            fits=False,
            counts=counts,
        )
    law = fit_beta_binomial(counts) if posterior is None else posterior
    p = predictive_check(counts, law, rng=source) if check_p is None else check_p
    checks = {"beta_binomial": p}
    if p > alpha:
        reason = f"a beta law of tasks gives such counts (predictive p = {p:.3g})"
        return _chosen("beta_binomial", (reason,), checks, law, True, counts)
    reasons = [f"no beta law of tasks gives such counts (predictive p = {p:.3g})"]
    if half_attempts(counts) >= 4:
        inflated = fit_inflated(counts, n_resamples=n_resamples, rng=source)
        p = inflated.predictive_check(n_resamples=n_resamples, rng=source)
        checks["inflated"] = p
        if p > alpha:
            reasons.append(f"one with atoms at 0 and 1 does (p = {p:.3g})")
            return _chosen("inflated", tuple(reasons), checks, inflated, True, counts)
        reasons.append(f"nor does one with atoms at 0 and 1 (p = {p:.3g})")
    else:
        reasons.append("fewer than four attempts at most tasks do not identify atoms at 0 and 1")
    free = fit_nonparametric(counts, n_resamples=n_resamples, rng=source)
    p = free.predictive_check(n_resamples=n_resamples, rng=source)
    checks["nonparametric"] = p
    fits = p > alpha
    reasons.append(
        f"the most probable of all laws is shown (p = {p:.3g})"
        if fits
        else f"no law of tasks does with independent attempts (p = {p:.3g}): are some attempts "
        "copies, or do they share their randomness?"
    )
    return _chosen("nonparametric", tuple(reasons), checks, free, fits, counts)


def _chosen(
    kind: str,
    reasons: tuple[str, ...],
    checks: dict[str, float],
    law: BetaBinomialPosterior | InflatedFit | NonparametricMixing,
    fits: bool,
    counts: TaskCounts,
) -> MixingChoice:
    return MixingChoice(
        kind=kind, reasons=reasons, checks=checks, law=law, fits=fits, counts=counts
    )
