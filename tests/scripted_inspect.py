"""Evaluations by the real Inspect whose every epoch ends as a table says, without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver
from inspect_ai.util import LimitExceededError

MODEL = "mockllm/model"
ERROR, LIMIT = "error", "limit"
ENDED = {ERROR: "C", LIMIT: "I"}  # what such a run is scored, where it is scored at all

# Values of a sample's epochs: a score's value, or ERROR or LIMIT to end the run so.
Table = Mapping[str | int, Sequence[Any]]


def said(text: str) -> ModelOutput:
    """Return an answer whose tokens need not be counted."""
    answer = ModelOutput.from_content(MODEL, text)
    answer.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return answer


def silent_model() -> Any:
    """Return a model that always answers the same."""
    return get_model(MODEL, custom_outputs=lambda *_: said("an answer"))


@solver
def _ending(table: Any) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        found = table[state.sample_id][state.epoch - 1]
        if found == ERROR:
            raise RuntimeError("the harness broke")
        if found == LIMIT:
            raise LimitExceededError("custom", value=1, limit=1)
        return state

    return solve


@scorer(metrics=[accuracy()])
def scripted(table: Any) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        found = table[state.sample_id][state.epoch - 1]
        return Score(value=ENDED.get(found, found) if isinstance(found, str) else found)

    return score


def evaluate(
    table: Table, folder: Path, *, reducer: Any = None, metrics: Any = None, **more: Any
) -> EvalLog:
    """Return the log of an evaluation of a table of scores; epochs a sample lacks are errors."""
    n_epochs = max(map(len, table.values()))
    full = {id: [*row, *[ERROR] * (n_epochs - len(row))] for id, row in table.items()}
    task = Task(
        name="scripted",
        dataset=[Sample(id=id, input="?", metadata={"page": str(id)[0]}) for id in table],
        solver=[generate(), _ending(full)],
        scorer=scripted(full),
        metrics=metrics,
        epochs=Epochs(n_epochs, reducer),
    )
    options = {"display": "none", "log_dir": str(folder), "fail_on_error": False}
    (log,) = eval(task, model=silent_model(), **{**options, **more})
    assert log.status == "success", log.error and log.error.message
    return log
