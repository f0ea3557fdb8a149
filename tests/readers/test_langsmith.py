"""LangSmith: the example is the task, and feedback is a verdict only where it is named."""

from __future__ import annotations

from readers.conformance import DATA, ReaderConformance, traces_of
from sojourn.records import Outcome


class TestConformance(ReaderConformance):
    format = "langsmith"
    sample = "langsmith/runs.jsonl"
    n_runs = 1


def test_the_sample_is_what_it_was_written_to_be() -> None:
    (trace,) = traces_of(DATA / "langsmith")
    assert (trace.task_id, trace.agent, trace.outcome) == ("ex1", "robo", Outcome.UNSCORED)
    assert [step.name for step in trace.steps] == ["search", "respond"]
    (judged,) = traces_of(DATA / "langsmith", scorer="correct")
    assert judged.outcome is Outcome.SUCCESS
