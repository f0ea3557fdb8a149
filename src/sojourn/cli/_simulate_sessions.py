"""``sojourn simulate sessions``: ordered outcomes whose dependence is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from sojourn.cli._options import check_output, write_tasks

__all__ = ["SessionDesign", "write_sessions"]

_RUN = 20


class SessionDesign(NamedTuple):
    """What was asked for.

    `n_sessions` sessions of `n_tasks` tasks; one state for each probability of success in
    `success`, left with probability 1 - `stay` a task; `missing` is the share of tasks without a
    verdict; `subdomains` differ in nothing but their names.
    """

    n_sessions: int
    n_tasks: int
    success: str
    stay: float
    subdomains: int
    missing: float
    seed: int


def write_sessions(design: SessionDesign, output: Path | None) -> None:
    """Draw the sessions, write them, and say what is true of them."""
    import numpy as np

    from sojourn.corpus.simulated import log_of_sequences
    from sojourn.session.reliability import long_run_rate, success_run
    from sojourn.session.simulate import simulate_sessions

    success = _probabilities(design.success)
    if output is None:
        raise typer.BadParameter("name the file to write", param_hint="--output")
    check_output(output, "sessions")
    K = len(success)
    if K > 1 and design.stay >= 1.0:
        raise typer.BadParameter("must be below 1 with more than one state", param_hint="--stay")
    off = (1.0 - design.stay) / (K - 1) if K > 1 else 0.0
    transition = np.full((K, K), off) + np.eye(K) * (1.0 - off * K)
    theta = np.tile(success, (design.subdomains, 1))
    drawn = simulate_sessions(
        np.full(design.n_sessions, design.n_tasks),
        transition=transition,
        success_prob=theta,
        subdomain_names=tuple(f"kind-{j + 1}" for j in range(design.subdomains)),
        missing_outcomes=design.missing,
        rng=design.seed,
    )
    write_tasks(log_of_sequences(drawn.sequences, domain="simulated"), output)
    shares = np.full(design.subdomains, 1.0 / design.subdomains)
    rate = float(long_run_rate(transition, theta, shares))
    run = success_run(transition, theta, np.full(K, 1.0 / K), shares, _RUN)
    typer.echo(
        f"true process: long-run success {rate:.4f}, R({_RUN}) of a fresh session {run[-1]:.4f} "
        f"(independent tasks: {rate**_RUN:.4f})"
    )


def _probabilities(text: str) -> Sequence[float]:
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0.0 <= value <= 1.0 for value in values):
        raise typer.BadParameter(
            f"{text!r} is no list of probabilities such as .985,.955,.76",
            param_hint="--state-success",
        )
    return values
