"""What fuzzing has found, each as small as it could be made."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sojourn.corpus import write_jsonl
from sojourn.readers import read_traces
from sojourn.readers import table as table_module
from sojourn.readers._rows import Complaints
from sojourn.readers.outcomes import read_outcomes
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


BLANK = " "


def blank_files(folder: Path) -> dict[str, Path]:
    """Write a log of each format whose run is called by an id of nothing but blanks."""
    stream = (DATA / "claude-code-stream" / "s-2.jsonl").read_text(encoding="utf-8")
    session = (DATA / "claude-code" / "s-1.jsonl").read_text(encoding="utf-8")
    promptfoo = json.loads((DATA / "promptfoo" / "results.json").read_text(encoding="utf-8"))
    for row in promptfoo["results"]["results"]:
        row["repeatGroupId"] = BLANK
    report = {"resolved_ids": [BLANK, "a"], "unresolved_ids": ["b"], "completed_ids": ["a", "b"]}
    texts = {
        "stream": ("s-2.jsonl", stream.replace('"s-2"', f'"{BLANK}"')),
        "session": ("s-1.jsonl", session.replace('"s-1"', f'"{BLANK}"')),
        "promptfoo": ("results.json", json.dumps(promptfoo)),
        "report": ("m.r.json", json.dumps(report)),
    }
    for name, (file, text) in texts.items():
        (folder / name).mkdir()
        (folder / name / file).write_text(text, encoding="utf-8")
    return {name: folder / name / file for name, (file, _) in texts.items()}


@pytest.mark.parametrize("name", ["stream", "session", "promptfoo", "report"])
def test_an_id_of_blanks_is_no_name(name: str, tmp_path: Path) -> None:
    path = blank_files(tmp_path)[name]
    corpus = read_traces(path)
    assert all(task_id.strip() for task_id in corpus.tasks.task_id)
    if name in ("stream", "session"):
        assert corpus.tasks.task_id == (path.stem,)


def test_verdicts_on_an_id_of_blanks_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps({BLANK: True, "a": False}))
    assert len(read_outcomes(path)) == 1


def test_codes_beyond_the_texts_of_a_parquet_column_are_damage(tmp_path: Path) -> None:
    indices = pa.array([0, 7], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["3"]), safe=False)
    table = pa.table({"task_id": ["a", "b"], "outcome": ["1", "0"], "n_steps": column})
    path = tmp_path / "runs.parquet"
    with pa.ipc.new_file(tmp_path / "runs.arrow", table.schema) as writer:
        writer.write_table(table)
    raw = pa.ipc.open_file(tmp_path / "runs.arrow").read_all()
    complaints = Complaints(str(path), unit="row")
    with pytest.raises(ValueError, match="point beyond its texts"):
        table_module._texts(raw.column("n_steps").combine_chunks(), complaints)
