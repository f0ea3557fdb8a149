"""The choice of a process and its certificate, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.tables import at_least, at_most, clean, n_of, p_text, text_table

if TYPE_CHECKING:
    from sojourn.assess.chain import ChainFindings
    from sojourn.assess.climb import ProcessFindings
    from sojourn.assess.task_classes import TaskClassRow, TaskClassTable
    from sojourn.process.choice import CandidateScore

__all__ = [
    "CLASS_HEADER",
    "candidate_cells",
    "choice_caption",
    "class_caption",
    "class_cells",
    "class_tasks",
    "evidence_rows",
    "process_lines",
    "shown_bounds",
]

CLASS_HEADER = ("class", "share", "tasks", "success", "mean steps", "success seen", "steps seen")
_TASKS_IN_TEXT = 8


def process_lines(chain: ChainFindings) -> list[str]:
    """Return what was looked at beyond the homogeneous chain, and what may be believed of it."""
    looked = chain.climb
    if looked is None:
        return []
    lines = []
    if looked.choice is not None:
        header = ("process", "score a task", "less than the best", "parameters")
        rows = [candidate_cells(row) for row in chain.candidates]
        lines += [f"candidates, {choice_caption(chain)}:", *text_table(header, rows)]
        lines += [f"{row.name}: {note}" for row in looked.choice.scores for note in row.notes]
    if looked.found is not None:
        found = looked.found
        lines.append(f"the {found.name} process, tested on the same runs, refitted each time:")
        lines += text_table(("", ""), evidence_rows(found), left=2)
        lines += found.fit_test.reasons
        lines += found.notes
    return [*lines, *_class_lines(chain.task_classes), *looked.notes]


def _class_lines(table: TaskClassTable | None) -> list[str]:
    if table is None:
        return []
    lines = [f"{class_caption(table)}:"]
    lines += text_table(
        CLASS_HEADER, [class_cells(number, row) for number, row in enumerate(table.rows, 1)]
    )
    lines += [
        f"class {number}: {class_tasks(row, _TASKS_IN_TEXT)}"
        for number, row in enumerate(table.rows, 1)
    ]
    return [*lines, *table.notes]


def class_caption(table: TaskClassTable) -> str:
    """Say what the figures of the classes of tasks are."""
    return (
        f"classes of tasks of the {table.process} process, the easiest first; its figures up to "
        f"step {table.horizon}, without intervals, beside those of the runs of the tasks that are "
        "most likely of the class"
    )


def class_cells(number: int, row: TaskClassRow) -> tuple[str, ...]:
    """Return one row of the table of classes of tasks."""
    return (
        str(number),
        f"{row.share:.0%}",
        f"{row.n_tasks:,}",
        _decimals(row.success, 3),
        _decimals(row.mean_steps, 1),
        _decimals(row.observed_success, 3),
        _decimals(row.observed_steps, 1),
    )


def class_tasks(row: TaskClassRow, at_most: int) -> str:
    """Name the tasks of a class, the surest first, and how many are sure."""
    if not row.n_tasks:
        return "no task is most likely of this class"
    named = [
        clean(task.task_id, limit=40)
        + ("" if task.probability >= 0.9 else f" ({task.probability:.2f})")
        for task in row.members[:at_most]
    ]
    more = row.n_tasks - len(named)
    return (
        f"{n_of(row.n_tasks, 'task')}, {row.n_clear:,} with probability 0.9 or more: "
        + ", ".join(named)
        + (f", and {more:,} more" if more else "")
    )


def _decimals(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def choice_caption(chain: ChainFindings) -> str:
    """Say how the candidates were compared, and which one was taken."""
    choice = None if chain.climb is None else chain.climb.choice
    if choice is None:
        return "none compared"
    rule = "the simplest within one standard error of the best (1.5 for the homogeneous chain)"
    if chain.chosen != choice.chosen:
        rule += " whose timing is accepted"
    return (
        f"{choice.n_folds} folds over "
        f"{n_of(choice.n_units, 'task or cluster', 'tasks or clusters')}, how well the ends of "
        f"held-out runs are foretold (* {chain.chosen}, {rule})"
    )


def candidate_cells(row: CandidateScore) -> tuple[str, ...]:
    """Return one row of the table of candidates."""
    name = ("* " if row.chosen else "  ") + row.name
    if row.log_score is None or row.difference is None:
        return (name, "-", "not fitted", "-")
    less = f"{abs(row.difference):.3f}" if row.difference <= 0.0 else f"-{row.difference:.3f}"
    if row.se_difference:
        less += f" +- {row.se_difference:.3f}"
    return (name, f"{row.log_score:.3f}", less, str(row.n_parameters))


def evidence_rows(found: ProcessFindings) -> list[tuple[str, str]]:
    """Return what was tested of the chosen process and what came out."""
    test, pooled, within = found.fit_test, found.pooled, found.within
    p = "p" if pooled.exactness == "exact" else f"{pooled.exactness} p"
    rows = [(f"{name} curve is off by", bounds) for name, bounds in shown_bounds(found) if bounds]
    return [
        *rows,
        ("fit of timing (curves, lengths), p", p_text(test.p_timing)),
        ("fit of a second step of memory, p", p_text(test.p_order)),
        ("fit of all together, p", p_text(test.p_value)),
        (
            f"memory given state and step, pooled, {p}",
            f"{p_text(pooled.p_value)} ({pooled.movable_steps:.0%} of steps can move)",
        ),
        (
            f"memory given state and step, within tasks, {p}",
            f"{p_text(within.p_value)} ({within.movable_steps:.0%} of steps can move)",
        ),
    ]


def shown_bounds(found: ProcessFindings) -> list[tuple[str, str]]:
    """Return the bounds on both curves' errors."""
    shown = []
    for name, bound in (("success", found.bound.success), ("failure", found.bound.failure)):
        text = ""
        if bound is not None:
            low, high = at_least(bound.lower), at_most(bound.upper)
            text = f"{low} to {high} (margin {found.bound.margin:.2f})"
        shown.append((name, text))
    return shown
