from __future__ import annotations

import dataclasses
import math

import pytest

from sojourn.records import End, LimitKind, Outcome, Skipped, Step, StepKind, Trace, by_reason


def test_only_a_task_and_an_outcome_are_needed() -> None:
    trace = Trace(task_id="a", outcome=Outcome.SUCCESS)
    assert trace.end is End.UNKNOWN
    assert trace.n_steps is None
    assert trace.steps == ()


def test_the_number_of_steps_comes_from_the_steps() -> None:
    trace = Trace(task_id="a", outcome=Outcome.SUCCESS, steps=(Step(name="x"), Step(name="y")))
    assert trace.n_steps == 2
    assert Trace(task_id="a", outcome=Outcome.SUCCESS, n_steps=0).n_steps == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"task_id": ""}, "task_id is empty"),
        ({"limit_kind": LimitKind.STEPS}, "limit_kind is steps but end is unknown"),
        ({"limit_kind": LimitKind.STEPS, "end": End.FINISHED}, "end is finished"),
        ({"score": math.nan}, "score is nan"),
        ({"score": math.inf}, "score is inf"),
        ({"task_repeat": -1}, "task_repeat is -1, outside 0"),
        ({"position": 2**31}, "position is 2147483648, outside"),
        ({"step_limit": -5}, "step_limit is -5"),
        ({"n_steps": -1}, "n_steps is -1"),
        ({"n_steps": 2, "steps": (Step(name="x"),)}, "n_steps is 2 but 1 steps are given"),
    ],
)
def test_a_bad_trace_cannot_exist(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Trace(**{"task_id": "a", "outcome": Outcome.SUCCESS} | fields)  # type: ignore[arg-type]


def test_a_run_cut_by_a_limit_may_succeed() -> None:
    trace = Trace(
        task_id="a", outcome=Outcome.SUCCESS, end=End.LIMIT, limit_kind=LimitKind.TOKENS, score=0.0
    )
    assert trace.outcome is Outcome.SUCCESS
    assert trace.limit_kind is LimitKind.TOKENS


def test_records_are_frozen_and_slotted() -> None:
    for record in (
        Step(name="x"),
        Trace(task_id="a", outcome=Outcome.SUCCESS),
        Skipped(source="f", reason="r"),
    ):
        name = dataclasses.fields(record)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, "other")
        assert not hasattr(record, "__dict__")


def test_labels_are_the_words_of_our_own_files() -> None:
    assert [str(outcome) for outcome in Outcome] == ["success", "failure", "unscored"]
    assert str(End.AGENT_ERROR) == "agent_error"
    assert str(StepKind.HANDOFF) == "handoff"
    assert End("infra_error") is End.INFRA_ERROR


def test_what_was_left_out_is_added_up_by_reason() -> None:
    items = [Skipped(source=f"f{k}", reason="odd", count=k, what="key") for k in (1, 2, 4)]
    items.insert(1, Skipped(source="g", reason="odd", what="line"))
    found = by_reason(items)
    assert [(s.source, s.count, s.what) for s in found] == [
        ("f1 and 2 more", 7, "key"),
        ("g", 1, "line"),
    ]
