"""Draw synthetic runs: the published chains, repeated attempts, noise, cuts, and known departures.

The presets are the synthetic chains of the published study of agent chains, typed as data: seven
named after agent frameworks (no run of those frameworks is involved) and the five-state chain of
its size and power experiment. Departures from the chain (memory, fixed sojourns, delayed exits,
tasks that differ in odds or pace) are there so that tests can be seen to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.process.absorbing import AbsorbingChain
from sojourn.sequences import CENSORED, StateSequences

__all__ = [
    "PRESETS",
    "censor_uniformly",
    "mislabel",
    "noisy_one_hot",
    "preset",
    "simulate_runs",
    "simulate_tasks",
    "with_exit_odds",
    "with_memory",
    "with_pace",
]

Rng = np.random.Generator | np.random.SeedSequence | int | None
Floats = npt.NDArray[np.float64]

_FIVE = ("plan", "tool", "observe", "reflect", "answer")
_SIX = (*_FIVE, "retry")

# Rows of Q in hundredths; R+ in hundredths; the rest of each row is R-.
_FRAMEWORKS: dict[str, tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]] = {
    "react": (
        (
            (0, 75, 0, 5, 10),
            (0, 10, 72, 0, 0),
            (0, 25, 0, 30, 30),
            (15, 30, 0, 0, 35),
            (0, 0, 0, 15, 0),
        ),
        (0, 0, 5, 5, 65),
    ),
    "reflexion": (
        (
            (0, 60, 0, 15, 15),
            (0, 15, 68, 0, 0),
            (0, 20, 0, 40, 25),
            (5, 25, 0, 10, 45),
            (0, 0, 0, 25, 0),
        ),
        (0, 0, 5, 5, 60),
    ),
    "cot_agent": (
        (
            (20, 20, 0, 30, 20),
            (0, 20, 60, 0, 0),
            (0, 30, 0, 20, 35),
            (25, 10, 0, 10, 40),
            (0, 0, 0, 20, 0),
        ),
        (0, 0, 5, 5, 55),
    ),
    "toolformer": (
        (
            (0, 80, 0, 5, 5),
            (0, 5, 80, 0, 0),
            (0, 35, 0, 15, 35),
            (10, 40, 0, 10, 30),
            (0, 0, 0, 10, 0),
        ),
        (0, 0, 5, 5, 70),
    ),
    "babyagi": (
        (
            (0, 50, 0, 10, 10, 20),
            (0, 10, 65, 0, 0, 10),
            (0, 20, 0, 30, 20, 15),
            (10, 30, 0, 10, 25, 15),
            (0, 0, 0, 20, 0, 15),
            (20, 30, 0, 20, 15, 0),
        ),
        (0, 0, 5, 5, 50, 0),
    ),
    "autogpt": (
        (
            (10, 55, 0, 5, 5, 15),
            (0, 10, 70, 0, 0, 10),
            (0, 25, 0, 25, 25, 15),
            (10, 30, 0, 10, 30, 10),
            (0, 0, 0, 15, 0, 15),
            (20, 35, 0, 15, 10, 0),
        ),
        (0, 0, 5, 5, 55, 0),
    ),
    "agentbench": (
        (
            (5, 50, 0, 15, 15),
            (0, 15, 65, 0, 0),
            (0, 25, 0, 30, 30),
            (10, 25, 0, 10, 40),
            (0, 0, 0, 15, 0),
        ),
        (0, 0, 5, 5, 60),
    ),
}


def _framework(name: str) -> AbsorbingChain:
    """Start: plan .70, tool .15, the rest share .15."""
    table, success = _FRAMEWORKS[name]
    transient = np.array(table) / 100.0
    to_success = np.array(success) / 100.0
    m = to_success.size
    return AbsorbingChain(
        transient=transient,
        to_success=to_success,
        to_failure=(100 - np.array(table).sum(axis=1) - np.array(success)) / 100.0,
        initial=np.array([0.70, 0.15] + [0.15 / (m - 2)] * (m - 2)),
        state_names=_FIVE if m == len(_FIVE) else _SIX,
    )


def _upper_triangular() -> AbsorbingChain:
    return AbsorbingChain(
        transient=np.array(
            [
                [0.40, 0.30, 0.10, 0.00, 0.00],
                [0.00, 0.35, 0.30, 0.05, 0.00],
                [0.00, 0.00, 0.40, 0.25, 0.10],
                [0.00, 0.00, 0.00, 0.50, 0.20],
                [0.00, 0.00, 0.00, 0.00, 0.50],
            ]
        ),
        to_success=np.array([0.10, 0.20, 0.20, 0.25, 0.40]),
        to_failure=np.array([0.10, 0.10, 0.05, 0.05, 0.10]),
        initial=np.array([1.0, 0.0, 0.0, 0.0, 0.0]),
        state_names=("s1", "s2", "s3", "s4", "s5"),
    )


PRESETS = MappingProxyType(
    {name: f"published synthetic chain named {name}" for name in sorted(_FRAMEWORKS)}
    | {"ss7": "published five-state upper triangular chain (size and power experiment)"}
)
"""Names of the presets, with a line on each."""


def preset(name: str) -> AbsorbingChain:
    """Return a published chain by its name, one of `PRESETS`."""
    check_choice(name, PRESETS, name="preset")
    return _upper_triangular() if name == "ss7" else _framework(name)


def simulate_runs(
    chains: AbsorbingChain | Sequence[AbsorbingChain],
    n_runs: int,
    *,
    rng: Rng = None,
    max_steps: int | npt.NDArray[np.int64] = 1_000_000,
    memory: float = 0.0,
    sojourn: int = 1,
    exit_factor: float = 1.0,
    exit_steps: int = 0,
) -> StateSequences:
    """Draw runs of a chain, or of several in turn, each run of a task of its own.

    Parameters
    ----------
    chains : AbsorbingChain or sequence of them
        Run r follows ``chains[r % len(chains)]``; all have the same state names.
    n_runs : int
        Number of runs, at least 0.
    rng : Generator, SeedSequence, int or None
        Source of chance.
    max_steps : int or ndarray of shape (n_runs,)
        A run that would go on after so many steps is cut there.
    memory : float
        Probability, in [0, 1), of going back to the state a run came from instead of following
        the chain: a second-order process.
    sojourn : int
        Every visit to a state lasts so many steps: a semi-Markov process for more than 1.
    exit_factor, exit_steps : float, int
        During the first `exit_steps` steps an exit has `exit_factor` times its probability.

    Returns
    -------
    StateSequences

    Raises
    ------
    ValueError
        If chains differ in their states, a setting is out of range, or `exit_factor` is below one
        and some state has no next state.
    """
    from sojourn.process import _kernels

    several = (chains,) if isinstance(chains, AbsorbingChain) else tuple(chains)
    if not several or any(c.state_names != several[0].state_names for c in several):
        raise ValueError("chains must be one or more with the same state names")
    if n_runs < 0:
        raise ValueError(f"n_runs must not be negative; got {n_runs}")
    if not (0.0 <= memory < 1.0 and 0.0 <= exit_factor <= 1.0 and exit_steps >= 0):
        raise ValueError("memory must lie in [0, 1), exit_factor in [0, 1], exit_steps from 0")
    check_positive_int(sojourn, name="sojourn")
    limits = np.broadcast_to(np.asarray(max_steps, dtype=np.int64), (n_runs,)).copy()
    if np.any(limits < 0):
        raise ValueError("max_steps must not be negative")
    rows = np.stack([event_rows(chain) for chain in several])
    m = several[0].n_states
    if exit_steps and exit_factor < 1.0 and np.any(rows[:, 1:, :m].sum(axis=2) <= 0.0):
        raise ValueError("exit_factor below 1 needs a next state in every state")
    which = np.arange(n_runs, dtype=np.int64) % len(several)
    accept, alias = _kernels.alias_rows(rows)
    states, offsets, event = _kernels.simulate_paths(
        generator(rng), accept, alias, which, limits, memory, sojourn, exit_factor, exit_steps
    )
    return StateSequences(
        states=states,
        offsets=offsets,
        event=event,
        task=np.arange(n_runs, dtype=np.int32),
        unit=np.arange(n_runs, dtype=np.int32),
        state_names=several[0].state_names,
    )


def simulate_tasks(
    chain: AbsorbingChain,
    n_tasks: int,
    n_attempts: int,
    *,
    rng: Rng = None,
    odds_sd: float = 0.0,
    pace_sd: float = 0.0,
    max_steps: int = 1_000_000,
    memory: float = 0.0,
) -> StateSequences:
    """Draw several attempts at each of many tasks that may differ in odds and in pace.

    Parameters
    ----------
    chain : AbsorbingChain
        The chain of a task of average odds and pace.
    n_tasks, n_attempts : int
        Design; run r is attempt r % n_attempts at task r // n_attempts.
    rng : Generator, SeedSequence, int or None
        Source of chance.
    odds_sd : float
        Standard deviation over tasks of the log odds of success against failure at an exit. It
        leaves the pooled ends of runs in time as they are: see `with_exit_odds`.
    pace_sd : float
        Standard deviation over tasks of the log of the pace, at most 1: see `with_pace`.
    max_steps : int
        A run that would go on after so many steps is cut.
    memory : float
        As in `simulate_runs`.

    Returns
    -------
    StateSequences
    """
    check_positive_int(n_tasks, name="n_tasks")
    check_positive_int(n_attempts, name="n_attempts")
    source = generator(rng)
    chains = [chain] * n_tasks
    if odds_sd > 0.0:
        shifts = source.normal(0.0, odds_sd, size=n_tasks)
        chains = [with_exit_odds(c, float(u)) for c, u in zip(chains, shifts, strict=True)]
    if pace_sd > 0.0:
        paces = np.exp(-np.abs(source.normal(0.0, pace_sd, size=n_tasks)))
        chains = [with_pace(c, float(u)) for c, u in zip(chains, paces, strict=True)]
    drawn = simulate_runs(
        [c for c in chains for _ in range(n_attempts)] if odds_sd or pace_sd else chain,
        n_tasks * n_attempts,
        rng=source,
        max_steps=max_steps,
        memory=memory,
    )
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), n_attempts)
    return StateSequences(
        states=drawn.states,
        offsets=drawn.offsets,
        event=drawn.event,
        task=task,
        unit=task,
        state_names=drawn.state_names,
    )


def with_exit_odds(chain: AbsorbingChain, log_odds: float) -> AbsorbingChain:
    """Multiply the odds of success against failure at every exit by exp(log_odds).

    The probability of an exit stays as it is, and so does the law of the number of steps.
    """
    exits = chain.to_success + chain.to_failure
    weighted = chain.to_success * np.exp(log_odds)
    total = weighted + chain.to_failure
    share = np.divide(weighted, total, out=np.zeros(total.shape), where=total > 0.0)
    return AbsorbingChain(
        transient=chain.transient,
        to_success=exits * share,
        to_failure=exits * (1.0 - share),
        initial=chain.initial,
        initial_success=chain.initial_success,
        initial_failure=chain.initial_failure,
        state_names=chain.state_names,
    )


def with_memory(chain: AbsorbingChain, memory: float) -> AbsorbingChain:
    """Return the chain of pairs that runs with memory follow, as `simulate_runs` draws them.

    After its second step a run goes back to the state it came from with probability `memory`, else
    it follows the chain. That is a chain over (the state before, the present state), the first
    step having none before it: P(success), steps and curves of such runs are exactly its own.

    Parameters
    ----------
    chain : AbsorbingChain
        The chain without memory, of m states.
    memory : float
        Probability of going back, in [0, 1).

    Returns
    -------
    AbsorbingChain
        Of m + m^2 states: ``j``, and ``j after i``.

    Raises
    ------
    ValueError
        If `memory` is out of range.
    """
    if not 0.0 <= memory < 1.0:
        raise ValueError(f"memory must lie in [0, 1); got {memory!r}")
    m = chain.n_states
    here = np.concatenate((np.arange(m), np.tile(np.arange(m), m)))
    before = np.repeat(np.arange(m), m)
    follows = np.concatenate((np.ones(m), np.full(m * m, 1.0 - memory)))
    transient = np.zeros((m + m * m, m + m * m))
    for pair, i in enumerate(here):
        transient[pair, m + m * i : m + m * i + m] = follows[pair] * chain.transient[i]
    pairs = m + np.arange(m * m)
    transient[pairs, m + m * here[m:] + before] += memory
    names = chain.state_names
    return AbsorbingChain(
        transient=transient,
        to_success=follows * chain.to_success[here],
        to_failure=follows * chain.to_failure[here],
        initial=np.concatenate((chain.initial, np.zeros(m * m))),
        initial_success=chain.initial_success,
        initial_failure=chain.initial_failure,
        state_names=(*names, *(f"{j} after {i}" for i in names for j in names)),
    )


def with_pace(chain: AbsorbingChain, pace: float) -> AbsorbingChain:
    """Slow a chain down: with probability 1 - pace a run stays where it is for a step.

    The fate of a run stays as it is; its mean number of steps is divided by `pace`.
    """
    if not 0.0 < pace <= 1.0:
        raise ValueError(f"pace must lie in (0, 1]; got {pace!r}")
    return AbsorbingChain(
        transient=(1.0 - pace) * np.eye(chain.n_states) + pace * chain.transient,
        to_success=pace * chain.to_success,
        to_failure=pace * chain.to_failure,
        initial=chain.initial,
        initial_success=chain.initial_success,
        initial_failure=chain.initial_failure,
        state_names=chain.state_names,
    )


def censor_uniformly(
    sequences: StateSequences,
    probability: float,
    *,
    low: int = 2,
    high: int = 9,
    rng: Rng = None,
) -> StateSequences:
    """Cut each run with the given probability at a step uniform in low .. high, if it gets there.

    A run of at most that many steps is left as it is. The published experiments cut much like
    this, with 0.05, 2 and 9; there a run of exactly so many steps loses its end as well.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability must lie in [0, 1]; got {probability!r}")
    if not 0 <= low <= high:
        raise ValueError(f"low and high must satisfy 0 <= low <= high; got {low} and {high}")
    source = generator(rng)
    chosen = source.random(sequences.n_runs) < probability
    at = source.integers(low, high, size=sequences.n_runs, endpoint=True)
    cut = chosen & (sequences.lengths > at)
    lengths = np.where(cut, at, sequences.lengths)
    kept = np.arange(sequences.states.size) < np.repeat(
        sequences.offsets[:-1] + lengths, sequences.lengths
    )
    return StateSequences(
        states=sequences.states[kept],
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        event=np.where(cut, CENSORED, sequences.event),
        task=sequences.task,
        unit=sequences.unit,
        state_names=sequences.state_names,
    )


def noisy_one_hot(
    states: npt.NDArray[np.int32], n_states: int, *, sd: float = 0.08, rng: Rng = None
) -> Floats:
    """Features of steps: the one-hot vector of the state plus normal noise (published: sd .08).

    Returns
    -------
    ndarray of shape (n_steps, n_states)
    """
    return np.asarray(
        np.eye(n_states)[states] + generator(rng).normal(0.0, sd, size=(states.size, n_states)),
        dtype=np.float64,
    )


def mislabel(sequences: StateSequences, share: float, *, rng: Rng = None) -> StateSequences:
    """Log each step, with the given probability, under the name of another state.

    The paths themselves are those of the chain; with a single state there is no other name.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must lie in [0, 1]; got {share!r}")
    source = generator(rng)
    m = sequences.n_states
    wrong = source.random(sequences.states.size) < (share if m > 1 else 0.0)
    shift = source.integers(1, max(m, 2), size=sequences.states.size)
    states = np.where(wrong, (sequences.states + shift) % m, sequences.states)
    return StateSequences(
        states=states,
        offsets=sequences.offsets,
        event=sequences.event,
        task=sequences.task,
        unit=sequences.unit,
        state_names=sequences.state_names,
    )


def event_rows(chain: AbsorbingChain) -> Floats:
    """Stack start and rows as the kernels take them, shape (n_states + 1, n_states + 2)."""
    start = np.concatenate((chain.initial, [chain.initial_success, chain.initial_failure]))
    rows = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    return np.vstack((start, rows))
