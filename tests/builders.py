"""Small corpora for tests, built by the same builder as real ones."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.corpus import CorpusBuilder, TraceCorpus
from sojourn.records import End, LimitKind, Outcome, Step, Trace

WORDS = {"s": Outcome.SUCCESS, "f": Outcome.FAILURE, "l": Outcome.FAILURE, "x": Outcome.UNSCORED}


def corpus_of(
    tasks: Sequence[str],
    *,
    n_steps: int | None = 3,
    task_set: str = "set",
    model: str = "model",
    agent: str = "agent",
) -> TraceCorpus:
    """Return a corpus with one task a word and one attempt a letter.

    ``s`` succeeds, ``f`` fails, ``l`` is cut by a limit of steps, ``x`` is an infrastructure error.
    """
    builder = CorpusBuilder()
    for task, word in enumerate(tasks):
        for attempt, letter in enumerate(word):
            end = {"l": End.LIMIT, "x": End.INFRA_ERROR}.get(letter, End.FINISHED)
            builder.add(
                Trace(
                    task_id=f"t{task}",
                    task_set=task_set,
                    task_repeat=attempt,
                    model=model,
                    agent=agent,
                    outcome=WORDS[letter],
                    end=end,
                    limit_kind=LimitKind.STEPS if letter == "l" else None,
                    n_steps=n_steps,
                    steps=()
                    if n_steps is None
                    else tuple(
                        Step(name=f"tool{step}", digest=1 + task * 1000 + attempt * 100 + step)
                        for step in range(n_steps)
                    ),
                    source_type="test",
                    source_uri="test.jsonl",
                )
            )
    return builder.build()
