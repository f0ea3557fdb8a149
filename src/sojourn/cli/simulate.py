"""``sojourn simulate``: runs or sessions of a known process, to see what the figures make of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli._options import check_output, write_runs

if TYPE_CHECKING:
    from sojourn.process.absorbing import AbsorbingChain

__all__ = ["command"]


# Options of one kind, by the name of their parameter.
_RUNS_ONLY = {
    "attempts": "--attempts",
    "max_steps": "--max-steps",
    "odds_sd": "--odds-sd",
    "pace_sd": "--pace-sd",
    "memory": "--memory",
    "censored": "--censored",
    "noise": "--noise",
}
_SESSIONS_ONLY = {
    "sessions": "--sessions",
    "state_success": "--state-success",
    "stay": "--stay",
    "subdomains": "--subdomains",
    "missing": "--missing",
}


def command(
    context: typer.Context,
    preset: Annotated[
        str,
        typer.Argument(
            help="A published synthetic chain: react, ..., ss7 (list shows them); or sessions."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .jsonl or .parquet file to write; sessions may be a .csv.",
        ),
    ] = None,
    tasks: Annotated[int, typer.Option(help="Number of tasks (of each session).", min=1)] = 100,
    attempts: Annotated[int, typer.Option(help="Attempts at each task.", min=1)] = 4,
    max_steps: Annotated[int, typer.Option(help="Cut runs after so many steps.", min=1)] = 200,
    odds_sd: Annotated[
        float,
        typer.Option(help="How much tasks differ in log odds of success.", min=0),
    ] = 0.0,
    pace_sd: Annotated[
        float, typer.Option(help="How much tasks differ in their pace (log).", min=0)
    ] = 0.0,
    memory: Annotated[
        float, typer.Option(help="Probability of going back a step: a second-order chain.", min=0)
    ] = 0.0,
    censored: Annotated[
        float, typer.Option(help="Share of runs cut at a random step of 2 to 9.", min=0, max=1)
    ] = 0.0,
    noise: Annotated[
        float, typer.Option(help="Share of steps logged under another state's name.", min=0, max=1)
    ] = 0.0,
    sessions: Annotated[int, typer.Option(help="Sessions only: how many.", min=1)] = 1,
    state_success: Annotated[
        str,
        typer.Option(
            metavar="P,P,..",
            help="Sessions only: probability of success in each hidden state; one: independent.",
        ),
    ] = ".985,.955,.76",
    stay: Annotated[
        float, typer.Option(help="Sessions only: probability of staying in a state.", min=0, max=1)
    ] = 0.90,
    subdomains: Annotated[
        int, typer.Option(help="Sessions only: kinds of tasks, all alike.", min=1, max=1000)
    ] = 1,
    missing: Annotated[
        float, typer.Option(help="Sessions only: share of tasks without a verdict.", min=0, max=1)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.", min=0)] = 0,
) -> None:
    """Simulate runs of a published chain, with what real corpora add to it, or ordered sessions."""
    given = _SESSIONS_ONLY if preset != "sessions" else _RUNS_ONLY
    for name, option in given.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{option} does not go with {preset}")
    if preset == "sessions":
        from sojourn.cli._simulate_sessions import SessionDesign, write_sessions

        write_sessions(
            SessionDesign(sessions, tasks, state_success, stay, subdomains, missing, seed), output
        )
        return
    _write_runs(
        preset,
        output,
        design={
            "n_tasks": tasks,
            "n_attempts": attempts,
            "odds_sd": odds_sd,
            "pace_sd": pace_sd,
            "max_steps": max_steps,
            "memory": memory,
        },
        censored=censored,
        noise=noise,
        seed=seed,
    )


def _write_runs(
    preset: str,
    output: Path | None,
    *,
    design: dict[str, Any],
    censored: float,
    noise: float,
    seed: int,
) -> None:
    import numpy as np

    from sojourn.corpus.simulated import corpus_of_sequences
    from sojourn.process.simulate import PRESETS, censor_uniformly, mislabel, simulate_tasks
    from sojourn.process.simulate import preset as chain_of
    from sojourn.sequences import CENSORED

    if preset == "list":
        typer.echo("\n".join((*PRESETS, "sessions")))
        return
    if preset not in PRESETS:
        raise typer.BadParameter(
            f"{preset!r} is none of {', '.join(PRESETS)}, sessions", param_hint="PRESET"
        )
    if output is None:
        raise typer.BadParameter("name the file to write", param_hint="--output")
    check_output(output)
    rng = np.random.default_rng(seed)
    chain = chain_of(preset)
    try:
        runs = simulate_tasks(chain, rng=rng, **design)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    runs = mislabel(censor_uniformly(runs, censored, rng=rng), noise, rng=rng)
    write_runs(corpus_of_sequences(runs, model=preset), output)
    typer.echo(_truth(chain, design, cut=bool(np.any(runs.event == CENSORED))))


def _truth(chain: AbsorbingChain, design: dict[str, Any], *, cut: bool) -> str:
    """Say what is true of the runs, and of which of them where they are not all alike."""
    from sojourn.process.simulate import with_memory

    name = "true chain"
    if design["memory"]:
        chain, name = with_memory(chain, design["memory"]), "true chain with memory"
    average = [
        word
        for word, sd in (("average odds", design["odds_sd"]), ("full pace", design["pace_sd"]))
        if sd
    ]
    of_tasks = f", of a task of {' and '.join(average)}" if average else ""
    return (
        f"{name}: P(success) {chain.success_ever:.4f}, mean steps {chain.mean_steps:.2f}"
        + of_tasks
        + (", were no run cut" if cut else "")
    )
