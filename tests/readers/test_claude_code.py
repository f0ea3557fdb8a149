"""Claude Code: one branch of the tree, several lines a step, and no verdict inside."""

from __future__ import annotations

import json
from pathlib import Path

from readers.conformance import DATA, ReaderConformance, traces_of
from sojourn.readers import read_traces
from sojourn.records import Outcome


class TestConformance(ReaderConformance):
    format = "claude-code"
    sample = "claude-code/s-1.jsonl"
    n_runs = 1


def test_the_branch_of_the_last_message_counts() -> None:
    (trace,) = traces_of(DATA / "claude-code")
    assert (trace.task_id, trace.model, trace.outcome) == ("s-1", "model-a", Outcome.UNSCORED)
    assert [(step.name, step.ok) for step in trace.steps] == [
        ("pytest", False),
        ("Edit", True),
        ("respond", None),
    ]
    assert [item.count for item in read_traces(DATA / "claude-code").skipped] == [1, 1]


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [
        {
            "type": "assistant",
            "uuid": own,
            "parentUuid": parent,
            "sessionId": "s",
            "message": {"id": own, "content": "é"},
        }
        for own, parent in (("a", "b"), ("b", "a"))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (trace,) = traces_of(path)
    assert trace.n_steps == 2
