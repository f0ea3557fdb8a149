"""OpenAI Agents SDK: a run is a trace, its turns are the calls of the model."""

from __future__ import annotations

from readers.conformance import DATA, ReaderConformance, traces_of
from sojourn.records import Outcome


class TestConformance(ReaderConformance):
    format = "openai-agents"
    sample = "openai-agents/t.jsonl"
    n_runs = 1


def test_the_sample_is_what_it_was_written_to_be() -> None:
    (trace,) = traces_of(DATA / "openai-agents")
    assert (trace.task_id, trace.agent, trace.model) == ("trace_1", "robo", "model-a")
    assert trace.outcome is Outcome.UNSCORED
    assert [(s.name, s.ok) for s in trace.steps] == [("search", False), ("respond", None)]
