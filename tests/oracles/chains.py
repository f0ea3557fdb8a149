"""Slow and obvious versions for absorbing chains: walk every path, or solve by hand."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def end_law_by_paths(chain: Any, horizon: int) -> dict[tuple[int, str], float]:
    """P(T = d, outcome) for d <= horizon as the sum over every path of states."""
    law: dict[tuple[int, str], float] = defaultdict(float)
    law[(0, "success")] += chain.initial_success
    law[(0, "failure")] += chain.initial_failure
    for length in range(1, horizon + 1):
        for path in product(range(chain.n_states), repeat=length):
            probability = chain.initial[path[0]]
            for here, there in pairwise(path):
                probability *= chain.transient[here, there]
            law[(length, "success")] += probability * chain.to_success[path[-1]]
            law[(length, "failure")] += probability * chain.to_failure[path[-1]]
    return law


def within_by_paths(chain: Any, horizon: int, outcome: str) -> Floats:
    """P(outcome within d steps) for d = 0 .. horizon, by enumeration."""
    law = end_law_by_paths(chain, horizon)
    return np.cumsum([law[(d, outcome)] for d in range(horizon + 1)])


def visits_by_series(chain: Any, n_terms: int = 5000) -> Floats:
    """Expected visits as the sum of the state distributions over time."""
    mass = np.array(chain.initial)
    total = np.zeros(chain.n_states)
    for _ in range(n_terms):
        total += mass
        mass = np.array(
            [
                sum(mass[i] * chain.transient[i, j] for i in range(chain.n_states))
                for j in range(chain.n_states)
            ]
        )
    return total


def steps_law(chain: Any, horizon: int) -> tuple[Floats, Floats]:
    """P(T = d, success) and P(T = d, failure) for d = 0 .. horizon, one step at a time."""
    success, failure = [chain.initial_success], [chain.initial_failure]
    mass = np.array(chain.initial)
    for _ in range(horizon):
        success.append(float(np.dot(mass, chain.to_success)))
        failure.append(float(np.dot(mass, chain.to_failure)))
        mass = np.dot(mass, chain.transient)
    return np.array(success), np.array(failure)


def random_chain(rng: np.random.Generator, n_states: int, *, atoms: bool = False) -> dict[str, Any]:
    """Tables of a random chain in which every state has both exits."""
    rows = rng.dirichlet(np.full(n_states + 2, 0.7), size=n_states)
    rows = 0.9 * rows + 0.1 / (n_states + 2)
    start = rng.dirichlet(np.ones(n_states + 2))
    if not atoms:
        start = np.append(start[:n_states] / start[:n_states].sum(), [0.0, 0.0])
    return {
        "transient": rows[:, :n_states],
        "to_success": rows[:, n_states],
        "to_failure": rows[:, n_states + 1],
        "initial": start[:n_states],
        "state_names": tuple(f"s{i}" for i in range(n_states)),
        "initial_success": float(start[n_states]),
        "initial_failure": float(start[n_states + 1]),
    }


def count_by_hand(sequences: Any) -> dict[str, Any]:
    """Starts, transitions, exits and cut states of runs, with Python loops."""
    m = sequences.n_states
    counts: dict[str, Any] = {
        "starts": np.zeros(m, dtype=int),
        "transitions": np.zeros((m, m), dtype=int),
        "to_success": np.zeros(m, dtype=int),
        "to_failure": np.zeros(m, dtype=int),
        "cut": np.zeros(m, dtype=int),
        "empty": np.zeros(3, dtype=int),
    }
    ends = ("cut", "to_success", "to_failure")
    for r in range(sequences.n_runs):
        path = sequences.states[sequences.offsets[r] : sequences.offsets[r + 1]].tolist()
        event = int(sequences.event[r])
        if not path:
            counts["empty"][event] += 1
            continue
        counts["starts"][path[0]] += 1
        for here, there in pairwise(path):
            counts["transitions"][here, there] += 1
        counts[ends[event]][path[-1]] += 1
    return counts
