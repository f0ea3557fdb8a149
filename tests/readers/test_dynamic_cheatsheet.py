"""Dynamic Cheatsheet: one file, one session; success is exact equality."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance import DATA
from session_conformance import SessionReaderConformance, tasks_of

from sojourn.readers import read_sessions
from sojourn.records import Outcome

SAMPLE = DATA / "dynamic-cheatsheet" / "Sums" / "tiny-1_Baseline.jsonl"


class TestConformance(SessionReaderConformance):
    format = "dynamic-cheatsheet"
    sample = "dynamic-cheatsheet"
    n_runs = 6

    def unharmed(self, path: Path) -> bool:
        # Cut between two lines, or before the line end only: nothing of a line is lost.
        return path.read_bytes().endswith(b"}")


def test_success_is_the_exact_string() -> None:
    tasks = tasks_of(SAMPLE)
    success, failure, unscored = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNSCORED
    # The third answer has a blank at its end, the fifth has no target, the sixth no answer.
    assert [t.outcome for t in tasks] == [success, failure, failure, success, unscored, failure]
    assert [t.position for t in tasks] == list(range(6))
    first = tasks[0]
    assert (first.session_id, first.domain, first.subdomain) == (
        "Sums/tiny-1_Baseline", "dynamic-cheatsheet", "Sums"
    )  # fmt: skip
    assert (first.model, first.agent) == ("tiny-1", "Baseline")


def test_items_hold_no_text() -> None:
    items = [task.item for task in tasks_of(SAMPLE)]
    assert len(set(items)) == 6
    assert all(item is not None and len(item) == 16 and int(item, 16) >= 0 for item in items)


def test_a_name_without_an_agent_is_the_models(tmp_path: Path) -> None:
    path = tmp_path / "tiny.jsonl"
    path.write_bytes(SAMPLE.read_bytes())
    assert {(t.model, t.agent) for t in tasks_of(path)} == {("tiny", "")}


def test_a_broken_line_keeps_its_place(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    path = tmp_path / "a_b.jsonl"
    path.write_text("\n".join([*lines[:2], "{broken", *lines[3:]]) + "\n")
    log = read_sessions(path)
    assert log.position.tolist() == [0, 1, 3, 4, 5]
    assert log.task_sequences().success.tolist() == [1, 0, -1, 1, -1, 0]
    assert [(s.what, s.count) for s in log.skipped] == [("line", 1)]


@pytest.mark.parametrize(
    ("model", "n_success", "moves"),
    [("claude-3-5-sonnet", 107, [77, 65, 66, 41]), ("gpt-4o", 118, [63, 68, 69, 49])],
)
def test_real_files(real_logs: Path, model: str, n_success: int, moves: list[int]) -> None:
    log = read_sessions(real_logs / "dynamic-cheatsheet")
    assert (len(log), log.n_sessions, len(log.item.used())) == (500, 2, 250)
    groups = {group.to_dict()["model"]: rows for group, rows in log.groups()}
    sequences = log.select(groups[model]).task_sequences()
    assert (sequences.n_tasks, sequences.n_observed) == (250, 250)
    success = sequences.success
    assert success.sum() == n_success
    assert np.bincount(2 * success[:-1] + success[1:], minlength=4).tolist() == moves
