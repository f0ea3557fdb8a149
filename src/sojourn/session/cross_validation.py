"""Predictive checks that refit or reweight: leave the future out, leave one task out, evidence.

Leave-future-out asks how well each task is predicted from all before it. The posterior is refitted
every so many tasks and reweighted in between by the outcomes met since (Pareto-smoothed importance
sampling), earlier where the weights get too uneven (Buerkner, Gabry and Vehtari 2020). Begun before
the first task its terms add up to the log evidence.

Leave-one-out asks how well a gap is filled from both sides. The term of a draw is the *marginal*
one, the states summed out by one forward and one backward pass::

    p(y_t | y_-t, psi) = sum_s pi_t(s) e_t(s) beta_t(s) / sum_s pi_t(s) beta_t(s)

with pi_t = P(Z_t | y_<t) and beta_t = A E_{t+1} beta_{t+1}; terms given the states would see the
answer. Tasks stand in the order of the log: session after session.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.session.hmm import HMMSpec, prior_draws
from sojourn.session.posterior import HMMPosterior
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.selection import SCORING, hac_standard_error
from sojourn.stats.diagnostics import pareto_smoothed
from sojourn.tables import n_of
from sojourn.task_sequences import TaskSequences

__all__ = [
    "LeaveFutureOut",
    "LeaveOneOut",
    "leave_future_out",
    "leave_one_out",
    "log_evidence",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_MAX_PARETO_K = 0.7
_MAX_DRAWS = 4000
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveOneOut:
    """How well each known outcome is predicted from all others.

    Attributes
    ----------
    elpd : float
        Sum of the log predictive probabilities.
    standard_error : float
        Its error over tasks, allowing for autocorrelation.
    pareto_k : ndarray of shape (n_observed,)
        Above 0.7 a term is not to be trusted.
    index : ndarray of shape (n_observed,)
        Places of the known outcomes among the tasks.
    pointwise : ndarray of shape (n_observed,)
        The terms.
    """

    elpd: float
    standard_error: float
    pareto_k: FloatArray = field(repr=False)
    index: IntArray = field(repr=False)
    pointwise: FloatArray = field(repr=False)

    @property
    def n_unreliable(self) -> int:
        """Number of terms whose Pareto k is above 0.7."""
        return int(np.count_nonzero(self.pareto_k > _MAX_PARETO_K))

    def __str__(self) -> str:
        return (
            f"Pareto k above 0.7 at {self.n_unreliable} of "
            f"{n_of(self.index.size, 'task')}; leave-one-out "
            f"log score {self.elpd:.3f} (standard error {self.standard_error:.3f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveFutureOut:
    """How well each known outcome is predicted from all before it.

    Attributes
    ----------
    elpd : float
        Sum of the log predictive probabilities.
    standard_error : float
        Its error over tasks, allowing for autocorrelation.
    refits : tuple of int
        Numbers of tasks that the fits were made to.
    pareto_k : ndarray of shape (n_scored,)
        Of the weights by which each term was averaged; -inf right after a refit.
    converged : bool
        Whether every fit converged.
    index : ndarray of shape (n_scored,)
        Places of the scored tasks.
    pointwise : ndarray of shape (n_scored,)
        The terms; with a horizon of h tasks, of the h tasks from each place on, together.
    """

    elpd: float
    standard_error: float
    refits: tuple[int, ...]
    pareto_k: FloatArray = field(repr=False)
    converged: bool
    index: IntArray = field(repr=False)
    pointwise: FloatArray = field(repr=False)

    def __str__(self) -> str:
        worst = float(self.pareto_k.max(initial=-math.inf))
        return (
            f"{len(self.refits)} fits, {'all' if self.converged else 'NOT all'} converged, largest "
            f"Pareto k {worst:.2f}; leave-future-out log score {self.elpd:.3f} (standard error "
            f"{self.standard_error:.3f}) over {n_of(self.index.size, 'task')}"
        )


class _Draws(NamedTuple):
    success_prob: FloatArray  # (n_draws, J, K)
    transition: FloatArray  # (n_draws, K, K)
    initial: FloatArray  # (n_draws, K)
    shares: FloatArray  # (J,)
    converged: bool

    def emission(self, label: int, outcome: int) -> FloatArray:
        """Return P(outcome | state) of every draw, shape (n_draws, K); 1 where it is unknown."""
        if outcome < 0:
            return np.ones_like(self.initial)
        if label >= 0:
            p = self.success_prob[:, label]
        else:
            p = np.asarray(np.einsum("j,djk->dk", self.shares, self.success_prob))
        return p if outcome == 1 else 1.0 - p


def _thinned(posterior: HMMPosterior) -> _Draws:
    K, J = posterior.spec.n_states, len(posterior.subdomain_names)
    n = posterior.n_chains * posterior.n_draws
    keep = np.linspace(0, n - 1, min(n, _MAX_DRAWS)).astype(np.int64)
    return _Draws(
        posterior.success_prob.reshape(-1, J, K)[keep],
        posterior.transition.reshape(-1, K, K)[keep],
        posterior.initial.reshape(-1, K)[keep],
        posterior.label_shares,
        posterior.converged,
    )


def leave_one_out(posterior: HMMPosterior, sequences: TaskSequences) -> LeaveOneOut:
    """Score each known outcome given all others, from one posterior by reweighting.

    Parameters
    ----------
    posterior : HMMPosterior
        Fitted to `sequences`.
    sequences : TaskSequences
        The sessions.

    Returns
    -------
    LeaveOneOut
        With the Pareto k of every term; at most 4000 draws are used.

    References
    ----------
    Vehtari, Gelman and Gabry (2017), Statistics and Computing 27, for the smoothing.
    """
    draws = _thinned(posterior)
    n = draws.initial.shape[0]
    index = np.flatnonzero(sequences.success >= 0)
    terms = np.empty((sequences.n_tasks, n))
    for first in range(0, n, _CHUNK):
        part = slice(first, first + _CHUNK)
        chunk = draws._replace(
            success_prob=draws.success_prob[part],
            transition=draws.transition[part],
            initial=draws.initial[part],
        )
        for r in range(sequences.n_sessions):
            a, b = int(sequences.offsets[r]), int(sequences.offsets[r + 1])
            terms[a:b, part] = _marginal_terms(chunk, sequences, a, b)
    pointwise, k = np.empty(index.size), np.empty(index.size)
    for i, t in enumerate(index):
        # Without y_t the posterior weighs a draw by 1 / p(y_t | y_-t, psi).
        weights, k[i] = pareto_smoothed(-terms[t])
        pointwise[i] = math.log(float(weights @ np.exp(terms[t])))
    return LeaveOneOut(
        elpd=float(pointwise.sum()),
        standard_error=hac_standard_error(pointwise),
        pareto_k=k,
        index=index,
        pointwise=pointwise,
    )


def _marginal_terms(draws: _Draws, sequences: TaskSequences, a: int, b: int) -> FloatArray:
    """Return log p(y_t | y_-t, psi) of the tasks a..b - 1, one session, shape (b - a, n_draws)."""
    x = draws.initial
    before = np.empty((b - a, *x.shape))
    emissions = [
        draws.emission(int(sequences.subdomain[t]), int(sequences.success[t])) for t in range(a, b)
    ]
    for i, e in enumerate(emissions):
        before[i] = x
        y = x * e
        x = np.einsum("ds,dsk->dk", y / y.sum(axis=1, keepdims=True), draws.transition)
    after = np.ones_like(x)
    out = np.empty((b - a, x.shape[0]))
    for i in range(b - a - 1, -1, -1):
        joint = before[i] * after
        out[i] = np.log((joint * emissions[i]).sum(axis=1) / joint.sum(axis=1))
        after = np.einsum("dsk,dk->ds", draws.transition, emissions[i] * after)
        after /= after.sum(axis=1, keepdims=True)
    return out


def leave_future_out(
    sequences: TaskSequences,
    spec: HMMSpec,
    *,
    first: int | None = None,
    refit_every: int = 50,
    horizon: int = 1,
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> LeaveFutureOut:
    """Score each known outcome given all before it, refitting on the way.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions, one after the other.
    spec : HMMSpec
        The model; one state is the independent one.
    first : int, optional
        Tasks to learn from before the first score; a fifth of all by default. 0 begins with the
        prior.
    refit_every : int
        Tasks between refits; sooner where Pareto k passes 0.7.
    horizon : int
        Tasks predicted together at each place, no further than the session.
    settings : SamplerSettings, optional
        How long to sample in each fit; `SCORING` by default.
    n_threads : int
        Threads.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    LeaveFutureOut

    Raises
    ------
    ValueError
        If `first` leaves no task.

    References
    ----------
    Buerkner, Gabry and Vehtari (2020), Journal of Statistical Computation and Simulation 90(14).
    """
    T = sequences.n_tasks
    start = -(-T // 5) if first is None else int(first)
    if not 0 <= start < T:
        raise ValueError(f"first must be from 0 to {T - 1}, or no task is left; got {first}")
    check_positive_int(refit_every, name="refit_every")
    check_positive_int(horizon, name="horizon")
    source = generator(rng)
    index, pointwise, k, refits, converged = [], [], [], [], True
    at = start
    while at < T:
        draws = _fit(sequences, spec, at, settings, n_threads, source.spawn(1)[0])
        converged &= draws.converged
        refits.append(at)
        block = _score_block(draws, sequences, at, min(at + refit_every, T), horizon)
        index += block.places
        pointwise += block.terms
        k += block.pareto_k
        at = block.stop
    terms = np.array(pointwise)
    return LeaveFutureOut(
        elpd=float(terms.sum()),
        standard_error=hac_standard_error(terms),
        refits=tuple(refits),
        pareto_k=np.array(k),
        converged=converged,
        index=np.array(index, dtype=np.int64),
        pointwise=terms,
    )


def log_evidence(
    sequences: TaskSequences,
    spec: HMMSpec,
    *,
    refit_every: int = 50,
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> float:
    """Return the log probability of all outcomes under the model: its leave-future-out from 0.

    The chain rule, log p(y) = sum_t log p(y_t | y_<t), each term by draws of the posterior of the
    tasks before; states need no names, so that no factor of K! arises.

    Parameters
    ----------
    sequences, spec, refit_every, settings, n_threads, rng
        As of `leave_future_out`.
    """
    return leave_future_out(
        sequences,
        spec,
        first=0,
        refit_every=refit_every,
        settings=settings,
        n_threads=n_threads,
        rng=rng,
    ).elpd


def _fit(
    sequences: TaskSequences,
    spec: HMMSpec,
    n: int,
    settings: SamplerSettings | None,
    n_threads: int,
    rng: np.random.Generator,
) -> _Draws:
    """Return draws of the posterior of the first n tasks, of the prior for none."""
    if n == 0:
        prior = prior_draws(spec, sequences.n_subdomains, _MAX_DRAWS, rng)
        return _Draws(prior.success_prob, prior.transition, prior.initial, sequences.shares, True)
    seen = np.clip(n - sequences.offsets[:-1], 0, sequences.lengths)
    posterior = sample(
        sequences.head(seen),
        spec,
        label_shares=sequences.shares,
        settings=settings or SCORING,
        n_threads=n_threads,
        rng=rng,
    )
    return _thinned(posterior)


class _Block(NamedTuple):
    places: list[int]
    terms: list[float]
    pareto_k: list[float]
    stop: int


def _score_block(
    draws: _Draws, sequences: TaskSequences, first: int, last: int, horizon: int
) -> _Block:
    """Score tasks first..last - 1 under one fit, or fewer where the weights get too uneven."""
    index: list[int] = []
    terms: list[float] = []
    ks: list[float] = []
    offsets = sequences.offsets
    session = int(np.searchsorted(offsets, first, side="right")) - 1
    x = draws.initial
    for t in range(int(offsets[session]), first):
        x, _ = _step(draws, sequences, t, x)
    log_weight = np.zeros(x.shape[0])
    weight, k = pareto_smoothed(log_weight)
    for t in range(first, last):
        if t == offsets[session + 1]:
            while t == offsets[session + 1]:
                session += 1
            x = draws.initial
        if sequences.success[t] >= 0:
            stop = min(t + horizon, int(offsets[session + 1]))
            ahead = _block_probability(draws, sequences, t, stop, x)
            index.append(t)
            terms.append(math.log(float(weight @ ahead)))
            ks.append(k)
        x, c = _step(draws, sequences, t, x)
        log_weight = log_weight + np.log(c)
        weight, k = pareto_smoothed(log_weight)
        if k > _MAX_PARETO_K:
            return _Block(index, terms, ks, t + 1)
    return _Block(index, terms, ks, last)


def _step(
    draws: _Draws, sequences: TaskSequences, t: int, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return P(Z_{t+1} | y_<=t) and c_t = P(y_t | y_<t) from x = P(Z_t | y_<t), draw by draw."""
    y = x * draws.emission(int(sequences.subdomain[t]), int(sequences.success[t]))
    c = y.sum(axis=1)
    return np.einsum("ds,dsk->dk", y / c[:, None], draws.transition), c


def _block_probability(
    draws: _Draws, sequences: TaskSequences, first: int, stop: int, x: FloatArray
) -> FloatArray:
    total = np.ones(x.shape[0])
    for t in range(first, stop):
        x, c = _step(draws, sequences, t, x)
        total = total * c
    return total
