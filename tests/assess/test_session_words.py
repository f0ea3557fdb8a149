"""What newcomers read of sessions: nothing is cut short, nothing is quieter than it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sojourn.assess import SessionAssessment, assess_sessions
from sojourn.assess.cautions import skipped_words
from sojourn.readers import read_sessions
from sojourn.report import html_text


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> SessionAssessment:
    rows = ["session_id,position,outcome", "a,0,1", "a,1,0", "a,1,0", "a,2,perhaps"]
    rows += [f"a,{t},{int(t % 3 > 0)}" for t in range(3, 30)] + ["a,31,1", "a,30,0"]
    path: Path = tmp_path_factory.mktemp("log") / "s.csv"
    path.write_text("\n".join(rows) + "\n")
    return assess_sessions(read_sessions(path), rng=0, n_states=(1,))


def test_a_bad_value_is_told_as_loudly_as_a_duplicate(told: SessionAssessment) -> None:
    text = " ".join(str(told).split())
    assert "skipped: 1 line, the same task stands there twice; it was kept once" in text
    assert "noted: 1 time, success is none of true, false, 1, 0" in text
    assert "the task was kept without a verdict" in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    (caution,) = (c for c in told.cautions if c.code == "SJ105")
    assert "1 run, task, line or file was skipped" in caution.message
    assert "1 note on what was kept" in caution.message


def test_one_is_singular(told: SessionAssessment) -> None:
    assert "1 task stood out of order and was sorted" in str(told)
    assert "1 task stood out of order and was sorted." in html_text(told)
    for text in (str(told), html_text(told)):
        found = re.search(r"(?<![\d.,])1 (tasks|sessions|outcomes|successes|runs|lines)\b", text)
        assert found is None, found


def test_what_was_skipped_is_counted_in_words() -> None:
    assert skipped_words(2) == "2 runs, tasks, lines or files were skipped while reading"
    assert skipped_words(0, 2) == "2 notes on what was kept otherwise than it stood"
    assert skipped_words(0) == ""
