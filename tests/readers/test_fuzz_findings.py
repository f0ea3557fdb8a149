"""What fuzzing has found, each as small as it could be made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.corpus import write_jsonl
from sojourn.readers import read_traces
from sojourn.records import Outcome, Trace

DATA = Path(__file__).resolve().parent.parent / "data"


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u2003"])
def test_a_blank_task_is_no_task(blank: str) -> None:
    """A run of a blank task could be written as a line that then could not be read."""
    with pytest.raises(ValueError, match="task_id is empty"):
        Trace(task_id=blank, outcome=Outcome.SUCCESS)


def test_a_blank_id_of_a_sample_is_told_and_what_is_kept_survives(tmp_path: Path) -> None:
    log = json.loads((DATA / "inspect" / "sums.json").read_text())
    log["samples"][-1]["id"] = " "
    path = tmp_path / "sums.json"
    path.write_text(json.dumps(log))
    corpus = read_traces(path)
    assert len(corpus) == len(log["samples"]) - 1
    assert "task_id is empty" in {item.reason for item in corpus.skipped}
    write_jsonl(corpus, tmp_path / "copy.jsonl")
    assert len(read_traces(tmp_path / "copy.jsonl")) == len(corpus)
