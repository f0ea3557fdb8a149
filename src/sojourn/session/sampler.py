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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import Workers
from sojourn._validation import check_positive_int, generator
from sojourn.session import reliability
from sojourn.session.hmm import HMMSpec, check_weights, encode, prior_draws, sequences_shares
from sojourn.session.posterior import HMMPosterior
from sojourn.stats.diagnostics import DrawDiagnostics, diagnose
from sojourn.tables import clean
from sojourn.task_sequences import TaskSequences

__all__ = ["PUBLISHED", "SamplerSettings", "sample"]

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
