"""What was simulated, as a corpus or a log of sessions that can be assessed like any other."""

from __future__ import annotations

import numpy as np

from sojourn.corpus.builder import CorpusBuilder, TraceBatch
from sojourn.corpus.columns import ACTORS, STEP_KINDS, Categorical, StepTypes
from sojourn.corpus.session_builder import SessionLogBuilder, TaskBatch
from sojourn.corpus.sessions import SessionLog
from sojourn.corpus.traces import ENDS, LIMIT_KINDS, OUTCOMES, TraceCorpus
from sojourn.records import Actor, End, LimitKind, Outcome, StepKind
from sojourn.sequences import CENSORED, SUCCESS, StateSequences
from sojourn.task_sequences import TaskSequences

__all__ = ["corpus_of_sequences", "log_of_sequences"]


def corpus_of_sequences(sequences: StateSequences, *, model: str) -> TraceCorpus:
    """Return runs whose steps are named after the states; cut runs ended by a limit of steps.

    Parameters
    ----------
    sequences : StateSequences
        The runs.
    model : str
        What stands for the model.
    """
    success = sequences.event == SUCCESS
    cut = sequences.event == CENSORED
    n_tasks = int(sequences.task.max(initial=-1)) + 1
    order = np.argsort(sequences.task, kind="stable")
    repeat = np.empty(sequences.n_runs, np.int32)
    first = np.searchsorted(sequences.task[order], sequences.task[order])
    repeat[order] = np.arange(sequences.n_runs) - first
    tool = STEP_KINDS.index(StepKind.TOOL)
    agent = ACTORS.index(Actor.AGENT)
    builder = CorpusBuilder()
    builder.add_batch(
        TraceBatch(
            n_runs=sequences.n_runs,
            numbers={
                "outcome": np.where(
                    success, OUTCOMES.index(Outcome.SUCCESS), OUTCOMES.index(Outcome.FAILURE)
                ),
                "end": np.where(cut, ENDS.index(End.LIMIT), ENDS.index(End.FINISHED)),
                "limit_kind": np.where(cut, LIMIT_KINDS.index(LimitKind.STEPS), -1),
                "n_steps": sequences.lengths,
                "task_repeat": repeat,
            },
            labels={
                "task_id": Categorical(
                    codes=sequences.task,
                    values=tuple(f"task-{i}" for i in range(n_tasks)),
                ),
                "model": Categorical.constant(model, sequences.n_runs),
                "source_type": Categorical.constant("simulated", sequences.n_runs),
            },
            offsets=sequences.offsets,
            steps=sequences.states,
            step_types=StepTypes.from_keys(
                [(name, agent, tool, -1, 1) for name in sequences.state_names]
            ),
        )
    )
    return builder.build()


def log_of_sequences(sequences: TaskSequences, *, domain: str) -> SessionLog:
    """Return simulated sessions as a log of one domain, positions from 0.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions; a missing outcome becomes a task without a verdict.
    domain : str
        The name of the domain.
    """
    sizes = np.diff(sequences.offsets)
    session = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
    n_tasks = session.size
    outcomes = (Outcome.FAILURE, Outcome.SUCCESS, Outcome.UNSCORED)  # the last for -1
    code = np.array([OUTCOMES.index(outcome) for outcome in outcomes])
    builder = SessionLogBuilder()
    builder.add_batch(
        TaskBatch(
            n_tasks=n_tasks,
            numbers={
                "outcome": code[sequences.success],
                "position": np.arange(n_tasks) - np.repeat(sequences.offsets[:-1], sizes),
            },
            labels={
                "session_id": Categorical(
                    codes=session, values=tuple(f"session-{i}" for i in range(sizes.size))
                ),
                "domain": Categorical.constant(domain, n_tasks),
                "subdomain": Categorical(
                    codes=sequences.subdomain, values=sequences.subdomain_names
                ),
                "source_type": Categorical.constant("simulated", n_tasks),
            },
        )
    )
    return builder.build()
