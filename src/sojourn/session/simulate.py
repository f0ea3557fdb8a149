"""Simulated sessions: from given parameters, or from the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import generator
from sojourn.session.hmm import HMMSpec, Parameters, check_model, check_weights, prior_draws
from sojourn.task_sequences import MISSING, TaskSequences

__all__ = ["SimulatedSessions", "sample_prior", "simulate_sessions"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedSessions:
    """Sessions with the states that made them.

    Attributes
    ----------
    sequences : TaskSequences
        The sessions.
    states : ndarray of shape (n_tasks,), int
        The hidden state of each task.
    """

    sequences: TaskSequences
    states: npt.NDArray[np.int64]


def simulate_sessions(
    lengths: npt.ArrayLike,
    *,
    transition: npt.ArrayLike,
    success_prob: npt.ArrayLike,
    initial: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    subdomain: npt.ArrayLike | None = None,
    subdomain_names: tuple[str, ...] | None = None,
    missing_outcomes: float = 0.0,
    missing_labels: float = 0.0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> SimulatedSessions:
    """Simulate sessions of a hidden Markov model; one state gives independent outcomes.

    Parameters
    ----------
    lengths : array_like of int
        Tasks of each session.
    transition : array_like of shape (n_states, n_states)
        A.
    success_prob : array_like of shape (n_subdomains, n_states)
        theta.
    initial : array_like of shape (n_states,), optional
        delta; uniform by default.
    weights : array_like of shape (n_subdomains,), optional
        Shares by which each task's subdomain is drawn; uniform by default.
    subdomain : array_like of shape (n_tasks,), optional
        The subdomains themselves, instead of drawing them.
    subdomain_names : tuple of str, optional
        Names; ``subdomain 0`` and so on by default.
    missing_outcomes, missing_labels : float
        Probability that an outcome, a label, is missing.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    SimulatedSessions
    """
    source = generator(rng)
    sizes = np.atleast_1d(np.asarray(lengths, dtype=np.int64))
    J, K = np.asarray(success_prob).shape
    start = np.full(K, 1.0 / K) if initial is None else initial
    A, theta, delta = check_model(transition, success_prob, start, J)
    T = int(sizes.sum())
    if subdomain is None:
        shares = (
            np.full(J, 1.0 / J) if weights is None else check_weights(weights, J, name="weights")
        )
        labels = source.choice(J, T, p=shares)
    else:
        labels = np.asarray(subdomain, dtype=np.int64)
        if labels.shape != (T,) or (T and not 0 <= labels.min() <= labels.max() < J):
            raise ValueError(f"subdomain must hold {T} numbers in 0 .. {J - 1}")
    states = _paths(sizes, A, delta, source.random(T))
    success = (source.random(T) < theta[labels, states]).astype(np.int8)
    success[source.random(T) < missing_outcomes] = MISSING
    seen = np.where(source.random(T) < missing_labels, MISSING, labels)
    names = subdomain_names or tuple(f"subdomain {j}" for j in range(J))
    sequences = TaskSequences(
        subdomain=seen,
        success=success,
        offsets=np.concatenate(([0], np.cumsum(sizes))),
        subdomain_names=names,
    )
    return SimulatedSessions(sequences=sequences, states=states)


def _paths(
    sizes: npt.NDArray[np.int64],
    A: npt.NDArray[np.float64],
    delta: npt.NDArray[np.float64],
    uniforms: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """Draw the states of all sessions by inversion of the given uniforms."""
    rows = np.cumsum(np.vstack([A, delta]), axis=1)[:, :-1].tolist()
    states = np.empty(uniforms.size, dtype=np.int64)
    ends = set(np.cumsum(sizes).tolist())
    fresh = len(rows) - 1
    z = fresh
    for t, u in enumerate(uniforms.tolist()):
        if t in ends:
            z = fresh
        z = sum(u >= edge for edge in rows[z])
        states[t] = z
    return states


def sample_prior(
    spec: HMMSpec,
    n_subdomains: int,
    n_draws: int,
    *,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> Parameters:
    """Draw parameters from the prior of a model.

    Parameters
    ----------
    spec : HMMSpec
        The model.
    n_subdomains : int
        Number of subdomains.
    n_draws : int
        Number of draws.
    rng : Generator, int, SeedSequence or None
        Source of randomness.

    Returns
    -------
    NamedTuple
        success_prob (n, J, K), transition (n, K, K), initial (n, K), mean and concentration (n,).
    """
    return prior_draws(spec, n_subdomains, n_draws, generator(rng))
