"""Posterior of the session hidden Markov model by Gibbs sampling, until its figures are settled.

A sweep draws the states (forward filtering, backward sampling), then mean and concentration with
the success probabilities integrated out, then those, the transition rows and, where wanted, the
initial distribution. Chains run in threads from generators spawned before any thread starts, so
the answer does not depend on how many threads there were.

Sampling goes on in rounds until every monitored figure has enough effective draws and agrees among
chains, or until a ceiling. Only quantities that do not depend on the names of the states are
monitored: state 1 of one draw need not be state 1 of the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import Workers
from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.estimates import Estimate, ReliabilityCurve
from sojourn.session import reliability
from sojourn.session.base import STARTS, DrawSummary, curve_from_draws, summarise
from sojourn.session.hmm import HMMSpec, check_weights, encode, prior_draws, sequences_shares
from sojourn.stats.diagnostics import DrawDiagnostics, diagnose
from sojourn.tables import clean, n_of
from sojourn.task_sequences import TaskSequences

__all__ = ["PUBLISHED", "HMMPosterior", "SamplerSettings", "StateSummary", "sample"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSettings:
    """How long to sample, and when to stop.

    Attributes
    ----------
    n_chains : int
        Chains, from dispersed starts.
    warmup : int
        Sweeps thrown away at the start of each chain.
    draws : int
        Draws of each chain in the first round; each further round doubles the total.
    max_draws : int
        Ceiling of draws a chain.
    thin : int
        Sweeps for each draw.
    target_ess : float
        Bulk and tail effective draws that every monitored figure must reach.
    target_r_hat : float
        Rank-normalised R-hat that none may reach.
    """

    n_chains: int = 4
    warmup: int = 1000
    draws: int = 1000
    max_draws: int = 16_000
    thin: int = 1
    target_ess: float = 400.0
    target_r_hat: float = 1.01

    def __post_init__(self) -> None:
        for name in ("n_chains", "draws", "max_draws", "thin"):
            check_positive_int(getattr(self, name), name=name)
        if self.warmup < 0:
            raise ValueError(f"warmup must not be negative; got {self.warmup}")
        if self.draws < 8:
            raise ValueError(f"draws must be at least 8, or nothing can be said; got {self.draws}")


PUBLISHED = SamplerSettings(n_chains=1, warmup=2000, draws=5000, max_draws=5000, thin=2)
"""The published run: one chain, 12,000 sweeps, 2,000 thrown away, every second kept."""


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


class _Chain(NamedTuple):
    """Where a chain stands: its generator and its parameters, changed in place by a run."""

    rng: np.random.Generator
    theta: FloatArray
    A: FloatArray
    delta: FloatArray
    hyper: FloatArray


class _Draws(NamedTuple):
    theta: FloatArray
    A: FloatArray
    delta: FloatArray
    hyper: FloatArray
    rho: FloatArray
    log_likelihood: FloatArray


class _Problem(NamedTuple):
    """Everything a chain needs besides its own state; plain arrays, so that it can be sent away."""

    code: npt.NDArray[np.uint16]
    offsets: npt.NDArray[np.int64]
    label: npt.NDArray[np.int64]
    outcome: npt.NDArray[np.int64]
    shares: FloatArray
    lam: FloatArray
    eta: FloatArray
    prior: FloatArray


def _start_chain(spec: HMMSpec, n_subdomains: int, rng: np.random.Generator) -> _Chain:
    start = prior_draws(spec, n_subdomains, 1, rng)
    mu, nu = start.mean[0], start.concentration[0]
    hyper = np.array([np.log(mu) - np.log1p(-mu), np.log(nu)])
    return _Chain(
        rng,
        start.success_prob[0].copy(),
        start.transition[0].copy(),
        start.initial[0].copy(),
        hyper,
    )


def _advance(problem: _Problem, chain: _Chain, n: int, thin: int) -> tuple[_Chain, _Draws]:
    """Run one chain for n draws; return it too, for executors that work on copies."""
    from sojourn.session import _kernels

    J, K = chain.theta.shape
    draws = _Draws(
        np.empty((n, J, K)), np.empty((n, K, K)), np.empty((n, K)), np.empty((n, 2)),
        np.empty((n, K)), np.empty(n),
    )  # fmt: skip
    _kernels.run_chain(
        chain.rng, problem.code, problem.offsets, problem.label, problem.outcome, problem.shares,
        problem.lam, problem.eta, problem.prior, chain.theta, chain.A, chain.delta, chain.hyper,
        thin, draws.theta, draws.A, draws.delta, draws.hyper, draws.rho, draws.log_likelihood,
    )  # fmt: skip
    return chain, draws


def _join(parts: list[_Draws]) -> _Draws:
    return _Draws(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def monitored_figures(
    draws: _Draws, weights: FloatArray, subdomain_names: Sequence[str]
) -> dict[str, FloatArray]:
    """Return the label-invariant figures whose convergence is required, each (chain, draw)."""
    figures = {"log_likelihood": draws.log_likelihood}
    starts = {
        "continuing": draws.rho,
        "fresh": draws.delta,
        "long_run": reliability.stationary(draws.A),
    }
    for name, law in starts.items():
        run = reliability.success_run(draws.A, draws.theta, law, weights, 20)
        for n in (1, 5, 20):
            figures[f"R({n}), {name}"] = run[..., n - 1]
    if len(subdomain_names) > 1:
        by_subdomain = np.einsum("cdjk,cdk->cdj", draws.theta, draws.rho)
        for j, label in enumerate(subdomain_names):
            # Names are a log's: they may be any text, and be alike once they are short.
            name = f"R(1), subdomain {clean(label, limit=40)}"
            while name in figures:
                name += f" (number {j})"
            figures[name] = by_subdomain[..., j]
    return figures


def _shortfalls(
    diagnostics: Mapping[str, DrawDiagnostics], settings: SamplerSettings
) -> tuple[str, ...]:
    reasons = []
    name, worst = max(diagnostics.items(), key=lambda item: item[1].r_hat)
    if not worst.r_hat < settings.target_r_hat:
        reasons.append(
            f"chains disagree: R-hat of {name} is {worst.r_hat:.3f}, "
            f"wanted below {settings.target_r_hat}"
        )
    ess = {k: min(d.ess_bulk, d.ess_tail) for k, d in diagnostics.items()}
    name = min(ess, key=lambda k: ess[k])
    if not ess[name] > settings.target_ess:
        reasons.append(
            f"too few effective draws: {ess[name]:.0f} of {name}, "
            f"wanted more than {settings.target_ess:.0f}"
        )
    return tuple(reasons)


def sample(
    sequences: TaskSequences,
    spec: HMMSpec,
    *,
    weights: npt.ArrayLike | None = None,
    label_shares: npt.ArrayLike | None = None,
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> HMMPosterior:
    """Sample the posterior of the session hidden Markov model.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions of one domain; all share the parameters. The last one is the one "continued".
    spec : HMMSpec
        Number of states and priors.
    weights : array_like of shape (n_subdomains,), optional
        Shares of the subdomains in the work ahead; by default those of the data.
    label_shares : array_like of shape (n_subdomains,), optional
        Shares that stand in for a missing label; by default those of the data.
    settings : SamplerSettings, optional
        How long to sample and when to stop; `PUBLISHED` for the published run.
    n_threads : int
        Threads, when no executor is given. The answer does not depend on it.
    executor : concurrent.futures.Executor, optional
        Where chains run instead.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    HMMPosterior
        With ``converged`` False and the reasons if the ceiling came first.

    Raises
    ------
    ValueError
        If there is no task, or weights do not fit.
    """
    if sequences.n_tasks == 0:
        raise ValueError("there is no task to learn from")
    chosen = SamplerSettings() if settings is None else settings
    shares = sequences_shares(sequences, label_shares)
    omega = (
        sequences.shares
        if weights is None
        else check_weights(weights, sequences.n_subdomains, name="weights")
    )
    names = sequences.subdomain_names
    symbols = encode(sequences)
    problem = _Problem(
        symbols.code, sequences.offsets, symbols.label, symbols.outcome, shares,
        spec.transition_weights, spec.initial_weights, spec.hyper_prior,
    )  # fmt: skip
    chains = [
        _start_chain(spec, sequences.n_subdomains, child)
        for child in generator(rng).spawn(chosen.n_chains)
    ]
    if executor is not None:
        draws, diagnostics = _run_rounds(problem, chains, chosen, omega, names, executor)
    else:
        with Workers(check_positive_int(n_threads, name="n_threads")) as pool:
            draws, diagnostics = _run_rounds(problem, chains, chosen, omega, names, pool)
    reasons = _shortfalls(diagnostics, chosen)
    return HMMPosterior(
        spec=spec,
        converged=not reasons,
        reasons=reasons,
        diagnostics=diagnostics,
        n_chains=chosen.n_chains,
        n_draws=draws.log_likelihood.shape[1],
        subdomain_names=names,
        weights=omega,
        n_sessions=sequences.n_sessions,
        n_tasks=sequences.n_tasks,
        longest_session=int(sequences.lengths.max()),
        transition=draws.A,
        success_prob=draws.theta,
        initial=draws.delta,
        predictive_state=draws.rho,
        mean=1.0 / (1.0 + np.exp(-draws.hyper[..., 0])),
        concentration=np.exp(draws.hyper[..., 1]),
        log_likelihood=draws.log_likelihood,
        label_shares=shares,
    )


def _run_rounds(
    problem: _Problem,
    chains: list[_Chain],
    settings: SamplerSettings,
    weights: FloatArray,
    subdomain_names: Sequence[str],
    executor: Executor,
) -> tuple[_Draws, dict[str, DrawDiagnostics]]:
    """Warm up, then double the draws until the targets or the ceiling are reached."""
    if settings.warmup:
        chains, _ = _round(problem, chains, settings.warmup, settings.thin, executor, keep=False)
    kept: list[_Draws] | None = None
    todo = min(settings.draws, settings.max_draws)
    worst = "R(1), fresh"
    while True:
        chains, new = _round(problem, chains, todo, settings.thin, executor, keep=True)
        kept = new if kept is None else [_join(list(pair)) for pair in zip(kept, new, strict=True)]
        stacked = _Draws(*(np.stack(arrays) for arrays in zip(*kept, strict=True)))
        figures = monitored_figures(stacked, weights, subdomain_names)
        n = stacked.log_likelihood.shape[1]
        # One figure that fails is reason enough to go on; the worst so far is asked first.
        names = sorted(figures, key=lambda name: name != worst)
        diagnostics: dict[str, DrawDiagnostics] = {}
        for name in names:
            diagnostics[name] = diagnose(figures[name])
            if n < settings.max_draws and _shortfalls({name: diagnostics[name]}, settings):
                worst = name
                break
        else:
            return stacked, diagnostics
        todo = min(n, settings.max_draws - n)


def _round(
    problem: _Problem,
    chains: list[_Chain],
    n: int,
    thin: int,
    executor: Executor,
    *,
    keep: bool,
) -> tuple[list[_Chain], list[_Draws]]:
    # Warm-up sweeps count as sweeps, not draws: one recorded draw per call is enough then.
    size, step = (n, thin) if keep else (1, n)
    futures = [executor.submit(_advance, problem, chain, size, step) for chain in chains]
    results = [future.result() for future in futures]
    return [chain for chain, _ in results], [draws for _, draws in results]
