"""Designs and tables shared by the session studies."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import sojourn
from sojourn.session.simulate import SimulatedSessions, simulate_sessions

RATES = np.array([0.904, 0.889])  # two subdomains of nearly equal difficulty
SHIFT = np.array([0.09, 0.06, -0.15])  # what the three states add; states succeed alike on average
DOCS = Path(__file__).resolve().parent.parent / "docs" / "studies"


def transition(stay: float = 0.9, n_states: int = 3) -> np.ndarray:
    A = np.full((n_states, n_states), (1.0 - stay) / (n_states - 1))
    np.fill_diagonal(A, stay)
    return A


def dependent_success() -> np.ndarray:
    return np.clip(RATES[:, None] + SHIFT[None, :], 0.0, 1.0)


def labels(n_tasks: int, order: str, rng: np.random.Generator) -> np.ndarray:
    if order == "blocks":
        return np.repeat([0, 1], [n_tasks // 2, n_tasks - n_tasks // 2])
    return rng.integers(0, 2, n_tasks)


def dependent(n_tasks: int, order: str, rng: np.random.Generator) -> SimulatedSessions:
    return simulate_sessions(
        [n_tasks],
        transition=transition(),
        success_prob=dependent_success(),
        subdomain=labels(n_tasks, order, rng),
        rng=rng,
    )


def independent(n_tasks: int, order: str, rng: np.random.Generator) -> SimulatedSessions:
    return simulate_sessions(
        [n_tasks],
        transition=[[1.0]],
        success_prob=RATES[:, None],
        subdomain=labels(n_tasks, order, rng),
        rng=rng,
    )


def share(hits: Sequence[bool]) -> str:
    """Write a proportion with its binomial standard error."""
    p = float(np.mean(hits))
    return f"{p:.3f} ({math.sqrt(max(p * (1 - p), 0.25 / len(hits)) / len(hits)):.3f})"


def average(values: Sequence[float]) -> str:
    """Write a mean with its standard error."""
    x = np.asarray(values, dtype=float)
    return f"{x.mean():.4f} ({x.std(ddof=1) / math.sqrt(x.size):.4f})"


def write(name: str, title: str, command: str, body: str) -> None:
    """Write a study's page: what was run, where, and the table."""
    DOCS.mkdir(parents=True, exist_ok=True)
    made = (
        f"Made by `{command}` with sojourn {sojourn.__version__}, Python "
        f"{platform.python_version()}, numpy {np.__version__}. Standard errors in brackets."
    )
    (DOCS / name).write_text(f"# {title}\n\n{body}\n\n{made}\n", encoding="utf-8")
    print(body)
