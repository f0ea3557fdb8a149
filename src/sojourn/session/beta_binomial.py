"""The plainest baseline: a Beta posterior for each subdomain, nothing shared, nothing remembered.

theta_j ~ Beta(a_j, b_j) independently; a subdomain's posterior is Beta(a_j + S_j, b_j + F_j), and
the log score of a further block with s successes and f failures is the sum over subdomains of ln
B(a + S + s, b + F + f) - ln B(a + S, b + F): a sequence, hence no binomial coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.estimates import ReliabilityCurve
from sojourn.session.base import curve_from_draws
from sojourn.session.beta_mixtures import moments_of_mix
from sojourn.session.hmm import check_weights
from sojourn.task_sequences import TaskSequences

__all__ = ["BetaBinomialFit", "fit_beta_binomial"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BetaBinomialFit:
    """Independent Beta posteriors of the subdomains.

    Attributes
    ----------
    subdomain_names : tuple of str
        Names of the subdomains.
    alpha, beta : ndarray of shape (n_subdomains,)
        Posterior parameters.
    weights : ndarray of shape (n_subdomains,)
        Shares of the subdomains in the work ahead, unless a method is given others.
    longest_session : int
        Tasks of the longest session seen.
    """

    subdomain_names: tuple[str, ...]
    alpha: FloatArray
    beta: FloatArray
    weights: FloatArray
    longest_session: int

    @property
    def success_prob(self) -> FloatArray:
        """Posterior means, shape (n_subdomains,)."""
        return self.alpha / (self.alpha + self.beta)

    def _weights(self, weights: npt.ArrayLike | None) -> FloatArray:
        if weights is None:
            return self.weights
        return check_weights(weights, self.alpha.size, name="weights")

    def run_means(self, n_max: int, *, weights: npt.ArrayLike | None = None) -> FloatArray:
        """Return the exact posterior mean of R(n) = p^n, n = 1..n_max."""
        n = check_positive_int(n_max, name="n_max")
        moments = moments_of_mix(self.alpha[:, None], self.beta[:, None], self._weights(weights), n)
        return np.asarray(moments[0])

    def run_draws(
        self,
        n_max: int,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        n_draws: int = 20_000,
        rng: np.random.Generator | np.random.SeedSequence | int | None = 0,
    ) -> FloatArray:
        """Return independent draws of R(1..n_max), shape (1, n_draws, n_max); start is moot."""
        del start
        theta = generator(rng).beta(self.alpha, self.beta, (n_draws, self.alpha.size))
        p = theta @ self._weights(weights)
        return np.asarray(p[None, :, None] ** np.arange(1, n_max + 1))

    def success_run(
        self,
        n_max: int,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        ci_prob: float = 0.95,
    ) -> ReliabilityCurve:
        """Return R(n) = E[p^n] with its band; the mean is exact, the band from draws."""
        curve = curve_from_draws(
            self.run_draws(n_max, start=start, weights=weights),
            n_supported=self.longest_session,
            ci_prob=ci_prob,
        )
        return ReliabilityCurve(
            quantity=curve.quantity,
            x=curve.x,
            value=self.run_means(n_max, weights=weights),
            low=curve.low,
            high=curve.high,
            ci_prob=ci_prob,
            kind=curve.kind,
            n_supported=curve.n_supported,
        )

    def log_score(self, test: TaskSequences) -> float:
        """Return the log predictive probability of further outcomes, in closed form."""
        from scipy.special import betaln

        counts = test.counts()
        gain = betaln(self.alpha + counts.success, self.beta + counts.failure)
        return float((gain - betaln(self.alpha, self.beta)).sum())


def fit_beta_binomial(
    sequences: TaskSequences,
    *,
    prior: npt.ArrayLike = (1.0, 1.0),
    weights: npt.ArrayLike | None = None,
) -> BetaBinomialFit:
    """Fit independent Beta posteriors.

    Parameters
    ----------
    sequences : TaskSequences
        The tasks; only the counts matter.
    prior : array_like of shape (2,) or (n_subdomains, 2)
        (a, b) of the Beta prior, common or one a subdomain.
    weights : array_like of shape (n_subdomains,), optional
        Shares of the subdomains in the work ahead; by default those of the data.

    Returns
    -------
    BetaBinomialFit
    """
    J = sequences.n_subdomains
    ab = np.broadcast_to(np.asarray(prior, dtype=np.float64), (J, 2))
    if not np.all(np.isfinite(ab)) or np.any(ab <= 0.0):
        raise ValueError(f"prior weights must be positive; got {np.asarray(prior).tolist()}")
    counts = sequences.counts()
    return BetaBinomialFit(
        subdomain_names=sequences.subdomain_names,
        alpha=ab[:, 0] + counts.success,
        beta=ab[:, 1] + counts.failure,
        weights=(
            sequences.shares if weights is None else check_weights(weights, J, name="weights")
        ),
        longest_session=int(sequences.lengths.max(initial=0)),
    )
