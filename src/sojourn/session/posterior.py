"""What sampling a session model gives: draws, and the figures that are read off them.

Draws are put in one order of states only where a figure needs it; whatever is averaged over draws
without that does not depend on the states' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice
from sojourn.estimates import Estimate, ReliabilityCurve
from sojourn.session import reliability
from sojourn.session.base import STARTS, DrawSummary, curve_from_draws, summarise
from sojourn.session.hmm import HMMSpec, check_weights, encode
from sojourn.stats.diagnostics import DrawDiagnostics
from sojourn.tables import n_of
from sojourn.task_sequences import TaskSequences

__all__ = ["FlatDraws", "HMMPosterior", "StateSummary"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateSummary:
    """States after relabelling: state 0 succeeds most.

    Attributes
    ----------
    success_prob : ndarray of shape (n_subdomains, n_states)
        Posterior means.
    success_prob_sd : ndarray of shape (n_subdomains, n_states)
        Posterior standard deviations.
    transition : ndarray of shape (n_states, n_states)
        Posterior means.
    dwell : ndarray of shape (n_states,)
        Posterior medians of the expected stay 1 / (1 - A_ss), in tasks.
    long_run_share : ndarray of shape (n_states,)
        Posterior means of the share of time in each state.
    ambiguous : bool
        True if an ordered state's success or stay is still bimodal: the table then mixes states.
    """

    success_prob: FloatArray
    success_prob_sd: FloatArray
    transition: FloatArray
    dwell: FloatArray
    long_run_share: FloatArray
    ambiguous: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HMMPosterior:
    """Posterior draws of a session model, and the figures read off them.

    Attributes
    ----------
    spec : HMMSpec
        The model.
    converged : bool
        Whether every monitored figure reached the targets.
    reasons : tuple of str
        Why not; empty when converged.
    diagnostics : mapping of str to DrawDiagnostics
        R-hat, effective draws and Monte Carlo error of each monitored figure.
    n_chains, n_draws : int
        Chains, and draws kept of each.
    subdomain_names : tuple of str
        Names of the subdomains.
    weights : ndarray of shape (n_subdomains,)
        Shares of the subdomains in the work ahead, unless a method is given others.
    n_sessions, n_tasks, longest_session : int
        Size of the data.
    transition : ndarray of shape (chain, draw, n_states, n_states)
        A.
    success_prob : ndarray of shape (chain, draw, n_subdomains, n_states)
        theta.
    initial : ndarray of shape (chain, draw, n_states)
        delta.
    predictive_state : ndarray of shape (chain, draw, n_states)
        P(state of the next task of the last session | data, parameters).
    mean, concentration : ndarray of shape (chain, draw)
        mu, nu.
    log_likelihood : ndarray of shape (chain, draw)
        log L.
    label_shares : ndarray of shape (n_subdomains,)
        Shares that stood in for missing labels.
    """

    spec: HMMSpec
    converged: bool
    reasons: tuple[str, ...]
    diagnostics: Mapping[str, DrawDiagnostics]
    n_chains: int
    n_draws: int
    subdomain_names: tuple[str, ...]
    weights: FloatArray
    n_sessions: int
    n_tasks: int
    longest_session: int
    transition: FloatArray = field(repr=False)
    success_prob: FloatArray = field(repr=False)
    initial: FloatArray = field(repr=False)
    predictive_state: FloatArray = field(repr=False)
    mean: FloatArray = field(repr=False)
    concentration: FloatArray = field(repr=False)
    log_likelihood: FloatArray = field(repr=False)
    label_shares: FloatArray = field(repr=False)

    def __str__(self) -> str:
        worst = max(self.diagnostics.values(), key=lambda d: d.r_hat)
        ess = min(min(d.ess_bulk, d.ess_tail) for d in self.diagnostics.values())
        lines = [
            f"session HMM, {n_of(self.spec.n_states, 'state')}, {n_of(self.n_tasks, 'task')} in "
            f"{n_of(self.n_sessions, 'session')}",
            f"{n_of(self.n_chains, 'chain')} x {n_of(self.n_draws, 'draw')}, largest R-hat "
            f"{worst.r_hat:.4f}, "
            f"fewest effective draws {ess:.0f}, "
            + ("converged" if self.converged else "NOT converged"),
        ]
        for start in STARTS:
            figure = self.next_task(start=start)
            lines.append(f"  success of the next task, {start:<10}  {figure.estimate()}")
        return "\n".join(lines)

    def start_law(self, start: str) -> FloatArray:
        """Return the law of the state the next task meets, shape (chain, draw, n_states).

        ``continuing``: after the last session's data; ``fresh``: the initial distribution;
        ``long_run``: the stationary law.
        """
        check_choice(start, STARTS, name="start")
        if start == "continuing":
            return self.predictive_state
        return self.initial if start == "fresh" else reliability.stationary(self.transition)

    def _weights(self, weights: npt.ArrayLike | None) -> FloatArray:
        if weights is None:
            return self.weights
        return check_weights(weights, len(self.subdomain_names), name="weights")

    def run_draws(
        self, n_max: int, *, start: str = "continuing", weights: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Return draws of R(1..n_max), shape (chain, draw, n_max)."""
        return reliability.success_run(
            self.transition,
            self.success_prob,
            self.start_law(start),
            self._weights(weights),
            n_max,
        )

    def success_run(
        self,
        n_max: int,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        ci_prob: float = 0.95,
    ) -> ReliabilityCurve:
        """Return R(n) = P(next n tasks all succeed), n = 1..n_max; beyond the data, unsupported."""
        run = self.run_draws(n_max, start=start, weights=weights)
        supported = self.longest_session if self.converged else 0
        return curve_from_draws(run, n_supported=supported, ci_prob=ci_prob)

    def next_task(
        self,
        *,
        start: str = "continuing",
        weights: npt.ArrayLike | None = None,
        ci_prob: float = 0.95,
    ) -> DrawSummary:
        """Return the probability that the next task succeeds."""
        return summarise(self.run_draws(1, start=start, weights=weights)[..., 0], ci_prob=ci_prob)

    def subdomain_next_task(
        self, subdomain: int, *, start: str = "continuing", ci_prob: float = 0.95
    ) -> DrawSummary:
        """Return the probability that the next task succeeds if it is from one subdomain."""
        weights = np.zeros(len(self.subdomain_names))
        weights[subdomain] = 1.0
        return self.next_task(start=start, weights=weights, ci_prob=ci_prob)

    def estimate(self, summary: DrawSummary) -> Estimate:
        """Return a summary as an `Estimate`, inconclusive if the chains did not converge."""
        return summary.estimate(self.reasons)

    def after(self, session: TaskSequences) -> HMMPosterior:
        """Return the posterior with `session` (one session) as the history that continues.

        The parameters stay as they are: the new history moves the state, not the fit. This is what
        a live monitor needs, and how one of several sessions is continued.
        """
        from dataclasses import replace

        from sojourn.session import _curve_kernels

        if session.n_sessions != 1:
            raise ValueError(f"one session must be given; got {session.n_sessions}")
        symbols = encode(session)
        flat = self._flat()
        out = np.empty_like(flat.initial)
        _curve_kernels.next_states(
            symbols.code, session.offsets, symbols.label, symbols.outcome, self.label_shares,
            flat.success_prob, flat.transition, flat.initial, out,
        )  # fmt: skip
        return replace(self, predictive_state=out.reshape(self.initial.shape))

    def states(self) -> StateSummary:
        """Return the states ordered by success within each draw, and whether order parts them."""
        flat = self._flat()
        order = self._orders()
        rows = np.arange(order.shape[0])[:, None]
        theta = np.take_along_axis(flat.success_prob, order[:, None, :], axis=2)
        A = flat.transition[rows[:, :, None], order[:, :, None], order[:, None, :]]
        stay = np.diagonal(A, axis1=1, axis2=2)
        with np.errstate(divide="ignore"):
            dwell = np.median(1.0 / (1.0 - stay), axis=0)
        bar = reliability.state_success(theta, self.weights)
        return StateSummary(
            success_prob=theta.mean(axis=0),
            success_prob_sd=theta.std(axis=0),
            transition=A.mean(axis=0),
            dwell=dwell,
            long_run_share=reliability.stationary(A).mean(axis=0),
            ambiguous=any(
                _bimodal(x[:, s]) for x in (bar, stay) for s in range(self.spec.n_states)
            ),
        )

    def state_probabilities(self, sequences: TaskSequences, *, max_draws: int = 400) -> FloatArray:
        """Return P(state of each task | data), shape (n_tasks, n_states), states by success."""
        from sojourn.session import _curve_kernels

        flat = self._flat()
        keep = np.unique(np.linspace(0, flat.initial.shape[0] - 1, max_draws).astype(int))
        symbols = encode(sequences)
        out = np.empty((sequences.n_tasks, self.spec.n_states))
        _curve_kernels.smoothed_mean(
            symbols.code, sequences.offsets, symbols.label, symbols.outcome, self.label_shares,
            flat.success_prob[keep], flat.transition[keep], flat.initial[keep],
            self._orders()[keep], out,
        )  # fmt: skip
        return out

    def to_arviz(self, *, n_max: int = 20) -> Any:
        """Return the draws as ArviZ's InferenceData; needs the extra ``arviz``.

        Group ``posterior``: mean, concentration and R(1..n_max) by start (dimension ``n``), which
        do not depend on the names of states; then success_prob, transition, initial and
        predictive_state with the states of each draw ordered by success (state 1 succeeds most).
        Group ``sample_stats``: ``lp``, the log likelihood.

        Parameters
        ----------
        n_max : int
            Largest n of R(n).

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        """
        from sojourn.session._arviz import posterior_data

        return posterior_data(self, n_max=n_max)

    def _orders(self) -> npt.NDArray[np.intp]:
        bar = reliability.state_success(self._flat().success_prob, self.weights)
        return np.argsort(-bar, axis=1, kind="stable")

    def _flat(self) -> FlatDraws:
        K, J = self.spec.n_states, len(self.subdomain_names)
        return FlatDraws(
            self.success_prob.reshape(-1, J, K),
            self.transition.reshape(-1, K, K),
            self.initial.reshape(-1, K),
        )


class FlatDraws(NamedTuple):
    """All chains' draws in one row."""

    success_prob: FloatArray
    transition: FloatArray
    initial: FloatArray


def _bimodal(x: FloatArray) -> bool:
    """Sarle's coefficient (skewness^2 + 1) / kurtosis above that of the uniform law, 5 / 9."""
    centred = x - x.mean()
    variance = float((centred**2).mean())
    if variance < 1e-20:
        return False
    skewness = float((centred**3).mean()) / variance**1.5
    kurtosis = float((centred**4).mean()) / variance**2
    # A skewed law on an interval passes 5/9 too; two modes worth the name also leave a gap at the
    # mean.
    gap = float(np.mean(np.abs(centred) < 0.25 * variance**0.5))
    return (skewness**2 + 1.0) / kurtosis > 5.0 / 9.0 and gap < 0.1
