"""``sojourn demo``: the main job on the example that ships in the package."""

from __future__ import annotations

import typer

from sojourn.cli.assess import Html, Json, Seed, _check_targets, emit

__all__ = ["command"]


def command(html: Html = None, json: Json = None, seed: Seed = 0) -> None:
    """Assess the example that ships with Sojourn: 200 runs of an agent, 4 attempts at 50 tasks."""
    from sojourn.assess import assess_groups
    from sojourn.data import example_path
    from sojourn.readers import read_traces

    _check_targets(html, json)
    corpus = read_traces(example_path())
    result = assess_groups(corpus, rng=seed)
    emit(result, html=html, json=json, quiet=False)
    if html is None and json is None:
        typer.echo("\nThe same as a page: sojourn demo --html demo.html", err=True)
