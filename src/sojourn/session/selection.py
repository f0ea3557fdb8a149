"""How many states? Predictive scores on later tasks, and a gate that asks first for dependence.

A fold trains on the first tasks of each session and scores the tasks that follow, the filter
running on from the training part: log of the posterior mean of P(test outcomes | training
outcomes). The score is the sum of one-step predictives under importance weights, whose effective
number and Pareto k say whether the block was too long for one fit.

The rule: one state unless the exact test of exchangeability rejects; then the best score among more
states. The plain maximum picks more than one state in a quarter or more of independent sessions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.session.beta_binomial import fit_beta_binomial
from sojourn.session.dependence import Dependence, assess_dependence
from sojourn.session.folds import Fold, default_folds, is_block_ordered
from sojourn.session.hierarchical import fit_hierarchical
from sojourn.session.hmm import HMMSpec, encode
from sojourn.session.posterior import HMMPosterior
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.simulate import simulate_sessions
from sojourn.stats.diagnostics import diagnose, pareto_k
from sojourn.task_sequences import TaskSequences

__all__ = [
    "SCORING",
    "Baseline",
    "Candidate",
    "Fold",
    "PredictiveScore",
    "Selection",
    "bootstrap_gain",
    "default_folds",
    "hac_standard_error",
    "is_block_ordered",
    "predictive_score",
    "select_n_states",
    "stacking_weights",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


SCORING = SamplerSettings(
    warmup=500, draws=1500, max_draws=3000, target_ess=200.0, target_r_hat=1.05
)
"""Shorter runs for scores: their Monte Carlo error is printed, and small beside sampling error."""


class PredictiveScore(NamedTuple):
    """Score of one fit on one fold."""

    log_score: float
    mcse: float
    pointwise: FloatArray
    smallest_ess: float  # effective draws of the importance weights at the end of the block
    pareto_k: float
    converged: bool


def predictive_score(
    posterior: HMMPosterior, sequences: TaskSequences, fold: Fold
) -> PredictiveScore:
    """Score the test part of a fold under a posterior fitted to its training part.

    Parameters
    ----------
    posterior : HMMPosterior
        Fitted to ``sequences.head(fold.cut)``.
    sequences : TaskSequences
        All tasks.
    fold : Fold
        The split.

    Returns
    -------
    PredictiveScore
        The Monte Carlo error is that of the log of a mean of autocorrelated draws.
    """
    from sojourn.session import _curve_kernels

    symbols = encode(sequences)
    first = sequences.offsets[:-1]
    begin, start = first, posterior.initial
    if sequences.n_sessions == 1 and fold.cut[0] > 0:
        # Where the only session's training part leads is recorded beside each draw.
        begin, start = first + fold.cut, posterior.predictive_state
    n_test = int((fold.stop - fold.cut).sum())
    peak, total, square = np.empty(n_test), np.empty(n_test), np.empty(n_test)
    K, J = posterior.spec.n_states, len(posterior.subdomain_names)
    final = np.empty(posterior.n_chains * posterior.n_draws)
    _curve_kernels.score_streams(
        symbols.code, begin, first + fold.cut, first + fold.stop,
        symbols.label, symbols.outcome, posterior.label_shares,
        posterior.success_prob.reshape(-1, J, K), posterior.transition.reshape(-1, K, K),
        start.reshape(-1, K), peak, total, square, final,
    )  # fmt: skip
    if n_test == 0:
        return PredictiveScore(0.0, 0.0, peak, float(final.size), float("-inf"), True)
    cumulative = peak + np.log(total / final.size)
    scaled = np.exp(final - final.max()).reshape(posterior.n_chains, posterior.n_draws)
    return PredictiveScore(
        float(cumulative[-1]),
        diagnose(scaled).mcse / float(scaled.mean()),
        np.diff(cumulative, prepend=0.0),
        float((total**2 / square).min()),
        pareto_k(final),
        posterior.converged,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """One number of states and its score.

    Attributes
    ----------
    model : str
        ``hierarchical`` for one state (exact), ``hmm`` for more.
    n_states : int
        K.
    log_score : float
        Log predictive probability of the test tasks, summed over folds.
    mcse : float
        Its Monte Carlo standard error; 0 for one state.
    difference : float
        Score minus that of one state.
    se_difference : float
        Standard error of the difference over test tasks, allowing for autocorrelation.
    pareto_k : float
        Largest over folds; above 0.7 the score leans on few draws.
    converged : bool
        Whether every fit converged.
    pointwise : ndarray of shape (n_test,)
        One-step log predictives.
    """

    model: str
    n_states: int
    log_score: float
    mcse: float
    difference: float
    se_difference: float
    pareto_k: float
    converged: bool
    pointwise: FloatArray = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """A plainer model's score on the same test tasks; it is never chosen.

    Attributes
    ----------
    model : str
        ``beta_binomial``: each subdomain its own Beta(1, 1), nothing shared.
    log_score, difference, se_difference : float
        As for a `Candidate`; the score is exact.
    pointwise : ndarray of shape (n_test,)
        One-step log predictives.
    """

    model: str
    log_score: float
    difference: float
    se_difference: float
    pointwise: FloatArray = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Scores of all candidates, the test of dependence, and the choice.

    Attributes
    ----------
    candidates : tuple of Candidate
        In order of n_states.
    dependence : Dependence
        The gate.
    chosen : int
        Number of states by the rule.
    best : int
        Number of states with the highest score, gate or no gate.
    stacking : ndarray of shape (n_candidates,)
        Weights of the best log-score mixture of the candidates with more than one state (of the one
        there is when there is no other), 0 elsewhere.
    folds : tuple of Fold
        How the scores were made.
    test_index : ndarray of shape (n_test,)
        Positions of the test tasks.
    baselines : tuple of Baseline
        Plainer models beside them.
    """

    candidates: tuple[Candidate, ...]
    dependence: Dependence
    chosen: int
    best: int
    stacking: FloatArray
    folds: tuple[Fold, ...] = field(repr=False)
    test_index: IntArray = field(repr=False)
    baselines: tuple[Baseline, ...] = ()

    def __str__(self) -> str:
        gate = self.dependence
        lines = [
            f"order matters: p = {gate.p_order:.4f}; beyond a trend: p = {gate.p_beyond_trend:.4f}",
            "states  log score    mcse   gain +- se      Pareto k",
        ]
        for c in self.candidates:
            mark = " <- chosen" if c.n_states == self.chosen else ""
            lines.append(
                f"{c.n_states:6d}  {c.log_score:9.3f}  {c.mcse:6.3f}  {c.difference:+6.3f} +- "
                f"{c.se_difference:5.3f}  {c.pareto_k:6.2f}{mark}"
            )
        lines += [
            f"{b.model}  {b.log_score:9.3f}  exact  {b.difference:+6.3f} +- {b.se_difference:5.3f}"
            for b in self.baselines
        ]
        return "\n".join(lines)


def hac_standard_error(differences: npt.ArrayLike) -> float:
    """Return the standard error of a sum of autocorrelated terms (Newey-West, Bartlett weights).

    Lags up to 4 (n / 100)^(2/9); never below the error that ignores correlation.
    """
    d = np.asarray(differences, dtype=np.float64)
    n = d.size
    if n < 2:
        return float("nan")
    c = d - d.mean()
    lags = min(n - 1, int(4.0 * (n / 100.0) ** (2.0 / 9.0)))
    plain = float(c @ c)
    total = plain + 2.0 * sum(
        (1.0 - k / (lags + 1.0)) * float(c[k:] @ c[:-k]) for k in range(1, lags + 1)
    )
    return math.sqrt(max(total, plain) * n / (n - 1.0))


def stacking_weights(pointwise: npt.ArrayLike, *, n_iter: int = 2000) -> FloatArray:
    """Return the weights w that maximise sum_t log sum_k w_k exp(pointwise[k, t]), by EM.

    Parameters
    ----------
    pointwise : array_like of shape (n_models, n_test)
        One-step log predictives.
    n_iter : int
        Most iterations.

    Returns
    -------
    ndarray of shape (n_models,)
        Equal weights where there is no test task.
    """
    logs = np.asarray(pointwise, dtype=np.float64)
    p = np.exp(logs - logs.max(axis=0))
    w = np.full(p.shape[0], 1.0 / p.shape[0])
    if not logs.shape[1]:
        return w
    for _ in range(n_iter):
        part = w[:, None] * p
        new = (part / part.sum(axis=0)).mean(axis=1)
        if np.abs(new - w).max() < 1e-9:
            return np.asarray(new)
        w = new
    return np.asarray(w)


def select_n_states(
    sequences: TaskSequences,
    *,
    n_states: Sequence[int] = (1, 2, 3, 4),
    spec: HMMSpec | None = None,
    folds: Sequence[Fold] | None = None,
    dependence: Dependence | None = None,
    alpha: float = 0.05,
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> Selection:
    """Score numbers of states on later tasks and choose one.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    n_states : sequence of int
        Candidates; 1 must be among them.
    spec : HMMSpec, optional
        Priors; its n_states is replaced.
    folds : sequence of Fold, optional
        Splits; `default_folds` by default.
    dependence : Dependence, optional
        The test already made; made here by default.
    alpha : float
        Size of the gate.
    settings : SamplerSettings, optional
        How long to sample; `SCORING` by default.
    n_threads : int
        Threads.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    Selection
    """
    counts = sorted({check_positive_int(k, name="n_states") for k in n_states})
    if counts[0] != 1:
        raise ValueError("n_states must hold 1: the independent model is the null")
    base = HMMSpec(n_states=1) if spec is None else spec
    gate_rng, *score_rngs = generator(rng).spawn(1 + len(counts))
    gate = assess_dependence(sequences, rng=gate_rng) if dependence is None else dependence
    splits = tuple(default_folds(sequences)) if folds is None else tuple(folds)
    index = np.concatenate([np.empty(0, np.int64), *(f.test_index(sequences) for f in splits)])
    null = _null_pointwise(sequences, base, splits)
    candidates = [
        Candidate(
            model="hierarchical",
            n_states=1,
            log_score=float(null.sum()),
            mcse=0.0,
            difference=0.0,
            se_difference=0.0,
            pareto_k=float("-inf"),
            converged=True,
            pointwise=null,
        )
    ]
    for k, child in zip(counts[1:], score_rngs, strict=False):
        candidates.append(
            _score(sequences, replace(base, n_states=k), splits, null, settings, n_threads, child)
        )
    more = candidates[1:]
    best = max(candidates, key=lambda c: c.log_score).n_states
    chosen = 1
    if more and gate.order_matters(alpha):
        chosen = max(more, key=lambda c: c.log_score).n_states
    weights = np.zeros(len(candidates))
    pool = more or candidates
    weights[-len(pool) :] = stacking_weights(np.stack([c.pointwise for c in pool]))
    return Selection(
        candidates=tuple(candidates),
        dependence=gate,
        chosen=chosen,
        best=best,
        stacking=weights,
        folds=splits,
        test_index=index,
        baselines=(_beta_binomial(sequences, splits, null),),
    )


def _beta_binomial(sequences: TaskSequences, folds: Sequence[Fold], null: FloatArray) -> Baseline:
    """Score independent Beta(1, 1) posteriors of the subdomains, task by task.

    The terms of a subdomain with s successes and f failures among the test tasks multiply to
    B(a + s, b + f) / B(a, b), a and b after training. A task without a label is judged by the mean
    over the data's shares and teaches nothing.
    """
    parts = [np.empty(0)]
    for fold in folds:
        fit = fit_beta_binomial(sequences.head(fold.cut))
        a, b = fit.alpha.copy(), fit.beta.copy()
        index = fold.test_index(sequences)
        terms = np.zeros(index.size)
        for i, t in enumerate(index):
            j, y = int(sequences.subdomain[t]), int(sequences.success[t])
            if y < 0:
                continue
            won = a / (a + b) if y else b / (a + b)
            terms[i] = math.log(float(won[j] if j >= 0 else fit.weights @ won))
            if j >= 0:
                (a if y else b)[j] += 1.0
        parts.append(terms)
    pointwise = np.concatenate(parts)
    return Baseline(
        model="beta_binomial",
        log_score=float(pointwise.sum()),
        difference=float((pointwise - null).sum()),
        se_difference=hac_standard_error(pointwise - null),
        pointwise=pointwise,
    )


def _null_pointwise(sequences: TaskSequences, spec: HMMSpec, folds: Sequence[Fold]) -> FloatArray:
    """One-step log predictives of the independent model, exact."""
    parts = [np.empty(0)]
    a, b, c, d = (float(v) for v in spec.hyper_prior)
    for fold in folds:
        fit = fit_hierarchical(sequences.head(fold.cut), prior=(a, b, c, d))
        index = fold.test_index(sequences)
        parts.append(fit.log_score(sequences.subdomain[index], sequences.success[index])[1])
    return np.concatenate(parts)


def _score(
    sequences: TaskSequences,
    spec: HMMSpec,
    folds: Sequence[Fold],
    null: FloatArray,
    settings: SamplerSettings | None,
    n_threads: int,
    rng: np.random.Generator,
) -> Candidate:
    scores = []
    for fold, child in zip(folds, rng.spawn(len(folds)), strict=True):
        train = sequences.head(fold.cut)
        posterior = sample(
            train, spec, settings=settings or SCORING, n_threads=n_threads, rng=child
        )
        scores.append(predictive_score(posterior, sequences, fold))
    pointwise = np.concatenate([np.empty(0), *(s.pointwise for s in scores)])
    return Candidate(
        model="hmm",
        n_states=spec.n_states,
        log_score=sum(s.log_score for s in scores),
        mcse=math.sqrt(sum(s.mcse**2 for s in scores)),
        difference=float((pointwise - null).sum()),
        se_difference=hac_standard_error(pointwise - null),
        pareto_k=max((s.pareto_k for s in scores), default=float("-inf")),
        converged=all(s.converged for s in scores),
        pointwise=pointwise,
    )


def bootstrap_gain(
    sequences: TaskSequences,
    selection: Selection,
    *,
    spec: HMMSpec | None = None,
    n_boot: int = 99,
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> tuple[float, FloatArray]:
    """Return a parametric-bootstrap p-value of "more than one state" and the gains under the null.

    The null is the independent model at its posterior mean, with the same labels, missing outcomes
    and folds; each replicate is scored anew with the same candidates. The statistic is the largest
    gain in log score over one state.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    selection : Selection
        What `select_n_states` returned for them.
    spec : HMMSpec, optional
        Priors, as given to `select_n_states`.
    n_boot : int
        Replicates.
    settings : SamplerSettings, optional
        How long to sample in each replicate; `SCORING` by default.
    n_threads : int
        Threads.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    p_value : float
        (1 + number of replicates that gain as much) / (1 + n_boot).
    gains : ndarray of shape (n_boot,)
        Largest gain of each replicate.
    """
    base = HMMSpec(n_states=1) if spec is None else spec
    more = [c.n_states for c in selection.candidates[1:]]
    if not more:
        raise ValueError("there is no candidate with more than one state")
    observed = max(c.difference for c in selection.candidates[1:])
    a, b, c, d = (float(v) for v in base.hyper_prior)
    fit = fit_hierarchical(sequences, prior=(a, b, c, d))
    known = np.where(sequences.subdomain >= 0, sequences.subdomain, 0)
    gains = np.empty(n_boot)
    for i, child in enumerate(generator(rng).spawn(check_positive_int(n_boot, name="n_boot"))):
        drawn = simulate_sessions(
            sequences.lengths, transition=[[1.0]], success_prob=fit.success_prob[:, None],
            subdomain=known, rng=child,
        ).sequences.success  # fmt: skip
        replicate = sequences.with_success(np.where(sequences.success < 0, -1, drawn))
        null = _null_pointwise(replicate, base, selection.folds)
        gains[i] = max(
            _score(
                replicate,
                replace(base, n_states=k),
                selection.folds,
                null,
                settings,
                n_threads,
                sub,
            ).difference
            for k, sub in zip(more, child.spawn(len(more)), strict=True)
        )
    return (1.0 + float(np.sum(gains >= observed))) / (1.0 + n_boot), gains
