"""The choice of a process and its certificate, as tables of the page."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.assess.chain import ChainFindings
from sojourn.assess.process_text import (
    CLASS_HEADER,
    candidate_cells,
    choice_caption,
    class_caption,
    class_cells,
    class_tasks,
    evidence_rows,
)
from sojourn.assess.task_classes import TaskClassTable
from sojourn.report.parts import Rows
from sojourn.tables import clean

__all__ = ["process_notes", "process_paragraphs", "process_tables"]

_TASKS_ON_PAGE = 40


def process_paragraphs(chain: ChainFindings) -> list[str]:
    """Say which process the claims are about, where others than the homogeneous were tried."""
    looked = chain.climb
    if looked is None or (looked.choice is None and looked.found is None):
        return []
    if looked.found is None:
        return ["Richer processes foretell held-out runs no better: the homogeneous chain is kept."]
    name = clean(looked.found.name)
    how = "named" if looked.choice is None else "chosen"
    verdict = (
        "its timing is accepted, and its curves stand beside the observed ones"
        if looked.found.accepted
        else f"its timing is {looked.found.bound.verdict}"
    )
    return [
        f"The {name} process was {how} instead of the homogeneous chain: {verdict}. The claims "
        f"above are about the {name} process; what the homogeneous chain came to is shown as "
        "evidence."
    ]


def process_tables(chain: ChainFindings) -> Iterator[Rows]:
    """Yield the table of candidates, and the tests of the chosen process."""
    looked = chain.climb
    if looked is None:
        return
    if looked.choice is not None:
        yield Rows(
            caption=f"Candidates, {choice_caption(chain)}. The last row knows no states.",
            header=("process", "score a task", "less than the best", "parameters"),
            rows=[candidate_cells(row) for row in chain.candidates],
        )
    if looked.found is not None:
        test = looked.found.fit_test
        yield Rows(
            caption=f"The {clean(looked.found.name)} process: with 95 % confidence each curve's "
            f"largest error lies between the bounds; p-values of {test.n_draws} simulated corpora, "
            f"fitted again each, and of {looked.found.pooled.n_draws} exchanges of futures.",
            header=("what", "came out"),
            rows=list(evidence_rows(looked.found)),
            left=2,
        )
    if chain.task_classes is not None:
        yield from _class_tables(chain.task_classes)


def _class_tables(table: TaskClassTable) -> Iterator[Rows]:
    caption = class_caption(table)
    yield Rows(
        caption=f"{caption[:1].upper()}{clean(caption[1:], limit=500)}.",
        header=CLASS_HEADER,
        rows=[class_cells(number, row) for number, row in enumerate(table.rows, 1)],
    )
    yield Rows(
        caption="Tasks of each class, the surest first; a number behind a task is the probability "
        "that it belongs there, where under 0.9.",
        header=("class", "tasks"),
        rows=[
            (f"class\N{NO-BREAK SPACE}{number}", class_tasks(row, _TASKS_ON_PAGE))
            for number, row in enumerate(table.rows, 1)
        ],
        left=2,
    )


def process_notes(chain: ChainFindings) -> list[str]:
    """Return what a reader must know of the choice and of the tests."""
    looked = chain.climb
    if looked is None:
        return []
    notes = [*looked.notes]
    if looked.choice is not None:
        notes += [f"{row.name}: {note}" for row in looked.choice.scores for note in row.notes]
    if looked.found is not None:
        notes += [*looked.found.fit_test.reasons, *looked.found.notes]
    if chain.task_classes is not None:
        notes += chain.task_classes.notes
    return [f"{note[:1].upper()}{note[1:]}." for note in notes]
