"""Options that say how steps become states, and how they become what the library takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sojourn.assess.state_making import StateSettings

__all__ = ["Encoder", "Features", "NStates", "States", "state_settings"]

States = Annotated[
    str | None,
    typer.Option(
        "--states",
        metavar="HOW",
        help="How steps become states: names, clusters, best-for-curves, best-for-forecasts (both "
        "chosen on held-out tasks), or a FILE, JSON or CSV, of step name to state.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="LIST",
        help="What clusters go by: name, kind, actor, ok; of the run so far error-streak, edits, "
        "repeats, since-progress, failure-share, or history for all five; similar-names.",
    ),
]
NStates = Annotated[
    int | None, typer.Option("--n-states", help="Number of clusters.", min=1, max=1000)
]
Encoder = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        metavar="FOLDER",
        help="Tell similar names by this sentence encoder on disk instead of by their spelling "
        "(needs sojourn[embed]; nothing is downloaded).",
    ),
]


def state_settings(
    states: str | None, features: list[str] | None, n_states: int | None, encoder: Path | None
) -> StateSettings:
    """Return how states are to be made.

    Raises
    ------
    typer.BadParameter
        If a word is unknown, a file is not there, or one option contradicts another.
    """
    from sojourn.assess.state_making import MODES, STATE_FEATURES, StateSettings
    from sojourn.readers.state_table import read_state_table
    from sojourn.states.embedding import SentenceEncoder

    words = [word.strip() for item in features or () for word in item.split(",")]
    known = {name.replace("_", "-"): name for name in STATE_FEATURES}
    unknown = [word for word in words if word.replace("_", "-") not in known]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is none of {', '.join(known)}", param_hint="--features"
        )
    table = None
    mode = "auto" if states is None else states
    if mode not in MODES:
        if not Path(mode).exists():
            raise typer.BadParameter(
                f"{mode!r} is neither a file nor one of {', '.join(MODES)}", param_hint="--states"
            )
        table, mode = read_state_table(mode), "auto"
    try:
        return StateSettings(
            table=table,
            mode=mode,
            features=tuple(known[word.replace("_", "-")] for word in words),
            n_states=n_states,
            embedder=None if encoder is None else SentenceEncoder(encoder),
        )
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="--encoder") from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--states") from None
