"""Every corpus with given starts and counts, by trying all of them: slow and obvious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from sojourn.sequences import StateSequences

Run = tuple[tuple[int, ...], int]
Corpus = tuple[Run, ...]


def corpus_of(sequences: StateSequences) -> Corpus:
    offsets = sequences.offsets
    return tuple(
        (tuple(int(s) for s in sequences.states[offsets[r] : offsets[r + 1]]), int(e))
        for r, e in enumerate(sequences.event)
    )


def sequences_of(
    corpus: Sequence[tuple[Sequence[int], int]],
    *,
    task: Sequence[int] | None = None,
    n_states: int | None = None,
) -> StateSequences:
    states = [s for path, _ in corpus for s in path]
    tasks = list(range(len(corpus))) if task is None else list(task)
    m = max(states, default=0) + 1 if n_states is None else n_states
    return StateSequences(
        states=states,
        offsets=np.concatenate(([0], np.cumsum([len(path) for path, _ in corpus]))),
        event=[event for _, event in corpus],
        task=tasks,
        unit=tasks,
        state_names=tuple(f"S{i}" for i in range(m)),
    )


def counts_of(corpus: Corpus) -> tuple[Counter[int], Counter[tuple[int, object]]]:
    """Starts, and steps with the end of a run as the letter E followed by its event."""
    starts = Counter(path[0] for path, _ in corpus)
    steps: Counter[tuple[int, object]] = Counter()
    for path, event in corpus:
        steps.update(zip(path, [*path[1:], f"E{event}"], strict=True))
    return starts, steps


def all_corpora(corpus: Corpus, *, cap: int | None = None) -> list[Corpus]:
    """Return all ordered corpora with the starts and counts of `corpus`.

    With a `cap` no run is longer, and a cut run (event 0) has exactly that many steps.
    """
    starts, steps = counts_of(corpus)

    def runs(state: int, path: tuple[int, ...]) -> Iterator[Run]:
        for follower in [f for (s, f), n in steps.items() if s == state and n > 0]:
            steps[(state, follower)] -= 1
            if isinstance(follower, str):
                event = int(follower[1:])
                if cap is None or len(path) == cap or (event > 0 and len(path) < cap):
                    yield path, event
            elif cap is None or len(path) < cap:
                yield from runs(int(follower), (*path, int(follower)))  # type: ignore[call-overload]
            steps[(state, follower)] += 1

    def corpora(n_left: int) -> Iterator[Corpus]:
        if n_left == 0:
            if not any(steps.values()):
                yield ()
            return
        for start in [s for s, n in starts.items() if n > 0]:
            starts[start] -= 1
            for run in runs(start, (start,)):
                # The generator holds its steps while the rest is laid out.
                for rest in corpora(n_left - 1):
                    yield (run, *rest)
            starts[start] += 1

    return list(corpora(len(corpus)))
