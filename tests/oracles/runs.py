"""Small corpora typed by hand: a builder, and the edge cases every method must survive."""

from __future__ import annotations

import numpy as np

from sojourn.sequences import CENSORED, FAILURE, SUCCESS, StateSequences


def runs(
    paths: list[list[int]],
    events: list[int],
    tasks: list[int] | None = None,
    *,
    n_states: int | None = None,
) -> StateSequences:
    m = n_states if n_states is not None else max((max(p, default=0) for p in paths), default=0) + 1
    return StateSequences(
        states=np.array([s for p in paths for s in p], dtype=int),
        offsets=np.concatenate(([0], np.cumsum([len(p) for p in paths]))).astype(int),
        event=events,
        task=tasks if tasks is not None else list(range(len(paths))),
        unit=tasks if tasks is not None else list(range(len(paths))),
        state_names=tuple("abcdefgh"[:m]),
    )


EDGES = {
    "one state": runs([[0, 0], [0], [0, 0, 0]], [SUCCESS, FAILURE, SUCCESS]),
    "runs of one step": runs([[0], [1], [0]], [SUCCESS, FAILURE, FAILURE]),
    "no success": runs([[0, 1], [1]], [FAILURE, FAILURE]),
    "no failure": runs([[0, 1], [1]], [SUCCESS, SUCCESS]),
    "a state seen once": runs([[0, 0]] * 20 + [[0, 1, 0]], [SUCCESS, FAILURE] * 10 + [SUCCESS]),
    "every run cut": runs([[0, 1], [1, 0, 0]], [CENSORED, CENSORED]),
    "every run cut at once": runs([[0], [1]], [CENSORED, CENSORED]),
    "runs without steps": runs([[], [0], []], [SUCCESS, FAILURE, FAILURE]),
    "only runs without steps": runs([[], []], [SUCCESS, FAILURE], n_states=2),
    "cut before the first step": runs([[], []], [CENSORED, CENSORED], n_states=1),
    "a state never seen": runs([[0, 0], [0]], [SUCCESS, FAILURE], n_states=3),
    "a state with one exit": runs(
        [[0]] * 6 + [[0, 1, 1, 1], [0, 1, 1]], [SUCCESS, FAILURE] * 3 + [SUCCESS, CENSORED]
    ),
    "one run": runs([[0]], [SUCCESS]),
}
