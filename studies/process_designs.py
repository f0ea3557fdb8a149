"""Named laws of runs whose homogeneous chain is right, or wrong in a known way.

Each design draws a corpus of tasks with attempts. In all but the first the homogeneous chain that
very many runs would give has an R(d) that is off by more than .05 somewhere:

    python studies/process_designs.py

prints by how much, and how far a progress-dependent chain is off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.simulate import simulate_runs
from sojourn.sequences import FAILURE, SUCCESS, StateSequences

__all__ = [
    "DESIGNS",
    "Design",
    "concentrated",
    "homogeneous",
    "progress_dependent",
    "semi_markov",
    "two_classes",
]

Floats = npt.NDArray[np.float64]
STATES = ("plan", "act", "check")
ACTIONS = ("open", "search", "read", "list", "edit", "create", "run", "test", "shell", "submit")

# Ends come after about a tenth of the steps; success and failure from different states.
CHAIN = AbsorbingChain(
    transient=[[0.30, 0.55, 0.10], [0.15, 0.45, 0.30], [0.20, 0.35, 0.20]],
    to_success=[0.01, 0.04, 0.17],
    to_failure=[0.04, 0.06, 0.08],
    initial=[0.8, 0.2, 0.0],
    state_names=STATES,
)


class Design(NamedTuple):
    """A named law of runs."""

    name: str
    words: str
    draw: Callable[[int, int, np.random.Generator], StateSequences]


def homogeneous(n_tasks: int, n_attempts: int, rng: np.random.Generator) -> StateSequences:
    """Three states, `CHAIN`: R_inf = .50, mean 8.5 steps; tasks do not differ."""
    return _by_task(simulate_runs(CHAIN, n_tasks * n_attempts, rng=rng), n_attempts)


def progress_dependent(n_tasks: int, n_attempts: int, rng: np.random.Generator) -> StateSequences:
    """`CHAIN` with the odds of an end times exp(-3 + t / 3) after step t, at most times 4.

    Few runs end in the first steps, most between the fifth and the fifteenth.
    """
    levels = np.arange(1, 16)
    factor = np.minimum(np.exp(-3.0 + levels / 3.0), 4.0)
    rows = np.empty((levels.size, 3, 5))
    ends = np.column_stack((CHAIN.to_success, CHAIN.to_failure))
    rows[:, :, :3] = CHAIN.transient
    rows[:, :, 3:] = ends * factor[:, None, None]
    rows /= rows.sum(axis=2, keepdims=True)
    return _by_task(_draw_rows(rows, n_tasks * n_attempts, rng), n_attempts)


def semi_markov(n_tasks: int, n_attempts: int, rng: np.random.Generator) -> StateSequences:
    """`CHAIN` without stays, ends tripled; a visit lasts 1 + binomial(6, .5) steps.

    With visits of about four steps, and ends after their last step only, hardly a run ends in the
    first steps, and ends come in waves.
    """
    jumps = CHAIN.transient - np.diag(np.diag(CHAIN.transient))
    rows = np.column_stack((jumps, 3.0 * CHAIN.to_success, 3.0 * CHAIN.to_failure))
    rows /= rows.sum(axis=1, keepdims=True)
    embedded = AbsorbingChain(
        transient=rows[:, :3],
        to_success=rows[:, 3],
        to_failure=rows[:, 4],
        initial=CHAIN.initial,
        state_names=STATES,
    )
    visits = simulate_runs(embedded, n_tasks * n_attempts, rng=rng)
    lasting = 1 + rng.binomial(6, 0.5, size=visits.states.size)
    ends = np.concatenate(([0], np.cumsum(lasting)))
    return _by_task(
        StateSequences(
            states=np.repeat(visits.states, lasting),
            offsets=ends[visits.offsets],
            event=visits.event,
            task=visits.task,
            unit=visits.unit,
            state_names=STATES,
        ),
        n_attempts,
    )


def two_classes(n_tasks: int, n_attempts: int, rng: np.random.Generator) -> StateSequences:
    """Half of the tasks are easy (ends 3 times as likely, mostly successes), half are hard.

    In hard tasks ends are 4 times rarer than in `CHAIN` and mostly failures. All attempts at a
    task are of its class.
    """
    easy = _with_ends(3.0 * CHAIN.to_success, 1.0 * CHAIN.to_failure)
    hard = _with_ends(0.1 * CHAIN.to_success, 0.3 * CHAIN.to_failure)
    is_easy = rng.random(n_tasks) < 0.5
    chains = [easy if one else hard for one in is_easy for _ in range(n_attempts)]
    return _by_task(simulate_runs(chains, n_tasks * n_attempts, rng=rng), n_attempts)


def concentrated(n_runs: int = 479, *, rng: np.random.Generator) -> StateSequences:
    """Draw runs over ten categories of actions whose successes are concentrated in time.

    A third succeeds, after 25 + Weibull(36.4, shape 1.61) steps: 10, 50 and 90 % of the successes
    have come by step 34, 54 and 86, none before step 26. Failures end after 25 + Weibull(45, shape
    1.4) steps. What is done drifts from looking to editing to testing as the run goes on, each
    action is repeated with probability .3, and the last one is to submit. No chain on the actions
    is the truth, a progress-dependent one neither. Each run is of a task of its own.
    """
    event = np.where(rng.random(n_runs) < 1.0 / 3.0, SUCCESS, FAILURE)
    success = 36.4 * rng.weibull(1.61, size=n_runs)
    failure = 45.0 * rng.weibull(1.4, size=n_runs)
    lengths = 25 + np.ceil(np.where(event == SUCCESS, success, failure)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    step = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    done = step / np.repeat(lengths, lengths)
    # Early, middle and late habits, mixed by how much of the run is done; submit comes last only.
    habits = np.array(
        [
            [0.25, 0.25, 0.20, 0.20, 0.02, 0.02, 0.02, 0.02, 0.02, 0.0],
            [0.08, 0.08, 0.08, 0.02, 0.40, 0.14, 0.10, 0.05, 0.05, 0.0],
            [0.03, 0.03, 0.06, 0.02, 0.20, 0.03, 0.25, 0.30, 0.08, 0.0],
        ]
    )
    share = np.stack([(1 - done) ** 2, 2 * done * (1 - done), done**2], axis=1)
    upper = np.cumsum(share @ habits, axis=1)
    states = (rng.random(step.size)[:, None] > upper).sum(axis=1).clip(max=8)
    repeated = np.flatnonzero((rng.random(step.size) < 0.3) & (step > 0))
    for k in repeated:
        states[k] = states[k - 1]
    states[offsets[1:] - 1] = 9
    task = np.arange(n_runs)
    return StateSequences(
        states=states, offsets=offsets, event=event, task=task, unit=task, state_names=ACTIONS
    )


DESIGNS = tuple(
    Design(draw.__name__, (draw.__doc__ or "").partition("\n")[0], draw)
    for draw in (homogeneous, progress_dependent, semi_markov, two_classes)
)


def _with_ends(to_success: Floats, to_failure: Floats) -> AbsorbingChain:
    left = 1.0 - to_success - to_failure
    moves = CHAIN.transient / CHAIN.transient.sum(axis=1, keepdims=True)
    return AbsorbingChain(
        transient=moves * left[:, None],
        to_success=to_success,
        to_failure=to_failure,
        initial=CHAIN.initial,
        state_names=STATES,
    )


def _draw_rows(rows: Floats, n_runs: int, rng: np.random.Generator) -> StateSequences:
    """Draw runs whose rows change with the step, all runs one step at a time."""
    m = rows.shape[1]
    alive = np.arange(n_runs)
    here = (rng.random(n_runs)[:, None] > np.cumsum(CHAIN.initial)).sum(axis=1)
    event = np.zeros(n_runs, dtype=np.int8)
    runs, states = [], []
    step = 0
    while alive.size:
        runs.append(alive)
        states.append(here)
        upper = np.cumsum(rows[min(step, rows.shape[0] - 1)][here], axis=1)
        following = (rng.random(alive.size)[:, None] > upper).sum(axis=1).clip(max=m + 1)
        over = following >= m
        event[alive[over]] = following[over] - m + 1
        alive, here = alive[~over], following[~over]
        step += 1
    run = np.concatenate(runs)
    order = np.argsort(run, kind="stable")
    return StateSequences(
        states=np.concatenate(states)[order],
        offsets=np.concatenate(([0], np.cumsum(np.bincount(run, minlength=n_runs)))),
        event=event,
        task=np.arange(n_runs),
        unit=np.arange(n_runs),
        state_names=STATES,
    )


def _by_task(runs: StateSequences, n_attempts: int) -> StateSequences:
    task = np.arange(runs.n_runs) // n_attempts
    return StateSequences(
        states=runs.states,
        offsets=runs.offsets,
        event=runs.event,
        task=task,
        unit=task,
        state_names=runs.state_names,
    )


def main() -> None:
    """Print the error of R(d) of the chains that 400,000 runs give."""
    from sojourn.process.homogeneous import fit_homogeneous
    from sojourn.process.incidence import aalen_johansen
    from sojourn.process.progress import fit_progress

    print("design               R_inf  mean steps  sup error: homogeneous  progress")
    for design in DESIGNS:
        runs = design.draw(100_000, 4, np.random.default_rng(20260417))
        horizon = int(np.quantile(runs.lengths, 0.999))
        truth = aalen_johansen(runs.lengths, runs.event, horizon=horizon).success
        off = [
            float(np.abs(fit.success_within(horizon) - truth).max())
            for fit in (fit_homogeneous(runs), fit_progress(runs))
        ]
        rate = float(np.mean(runs.event == SUCCESS))
        print(
            f"{design.name:<20} {rate:.3f}  {runs.lengths.mean():10.2f}"
            f"  {off[0]:22.3f}  {off[1]:8.3f}"
        )


if __name__ == "__main__":
    main()
