"""``sojourn simulate``: runs of a known chain, to see what the figures make of a known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli._options import check_output, write_runs

__all__ = ["command"]


def command(
    preset: Annotated[
        str, typer.Argument(help="A published synthetic chain: react, ..., ss7; list shows them.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A .jsonl or .parquet file to write."),
    ] = None,
    tasks: Annotated[int, typer.Option(help="Number of tasks.", min=1)] = 100,
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
    seed: Annotated[int, typer.Option(help="Seed of all random draws.", min=0)] = 0,
) -> None:
    """Simulate runs of a published chain, with what real corpora add to it."""
    import numpy as np

    from sojourn.corpus.simulated import corpus_of_sequences
    from sojourn.process.simulate import PRESETS, censor_uniformly, mislabel, simulate_tasks
    from sojourn.process.simulate import preset as chain_of

    if preset == "list":
        typer.echo("\n".join(PRESETS))
        return
    if preset not in PRESETS:
        raise typer.BadParameter(f"{preset!r} is none of {', '.join(PRESETS)}", param_hint="PRESET")
    if output is None:
        raise typer.BadParameter("name the file to write", param_hint="--output")
    check_output(output)
    rng = np.random.default_rng(seed)
    chain = chain_of(preset)
    try:
        runs = simulate_tasks(
            chain,
            tasks,
            attempts,
            rng=rng,
            odds_sd=odds_sd,
            pace_sd=pace_sd,
            max_steps=max_steps,
            memory=memory,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    runs = mislabel(censor_uniformly(runs, censored, rng=rng), noise, rng=rng)
    write_runs(corpus_of_sequences(runs, model=preset), output)
    typer.echo(
        f"true chain: P(success) {chain.success_ever:.4f}, mean steps {chain.mean_steps:.2f}"
    )
