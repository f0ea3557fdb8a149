"""Every Eval Ever: lines of one sample are attempts, and an error is no failure."""

from __future__ import annotations

from readers.conformance import DATA, ReaderConformance, traces_of
from sojourn.records import End, Outcome


class TestConformance(ReaderConformance):
    format = "every-eval-ever"
    sample = "every-eval-ever/e1_samples.jsonl"
    n_runs = 4


def test_the_sample_is_what_it_was_written_to_be() -> None:
    runs = traces_of(DATA / "every-eval-ever")
    assert [(t.task_id, t.task_repeat, t.outcome, t.n_steps) for t in runs] == [
        ("q1", 0, Outcome.SUCCESS, 1),
        ("q1", 1, Outcome.FAILURE, 1),
        ("q2", 0, Outcome.SUCCESS, 2),
        ("q3", 0, Outcome.FAILURE, 0),
    ]
    assert [step.name for step in runs[2].steps] == ["search", "respond"]
    assert [trace.end for trace in runs] == [End.UNKNOWN] * 3 + [End.INFRA_ERROR]
    assert {(t.task_set, t.model, t.job_id) for t in runs} == {("sums", "lab/model-a", "e1")}
