"""A first record of megabytes hides no format, and none that is damaged is called unknown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sojourn._limits import HEAD_BYTES
from sojourn.errors import UnknownFormatError
from sojourn.readers import _json, preview, read_sessions, read_traces
from sojourn.readers._json import read_head, sniff

DATA = Path(__file__).resolve().parent.parent / "data"
RUNS = [
    "claude-code/s-1.jsonl",
    "claude-code-stream/s-2.jsonl",
    "every-eval-ever/e1_samples.jsonl",
    "langfuse/export/observations_v2/1.jsonl",
    "langsmith/runs.jsonl",
    "lm-eval/samples_sums_2025-01-01T00-00-00.000000.jsonl",
    "metr-runs/runs.jsonl",
    "openai-agents/t.jsonl",
    "openhands/output.jsonl",
    "otel/spans.jsonl",
    "own/runs.jsonl",
]
SESSIONS = ["dynamic-cheatsheet/Sums/tiny-1_Baseline.jsonl", "own/sessions.jsonl"]


def copied(name: str, folder: Path, filler: object) -> Path:
    """Return a copy of a sample whose first record has a long value before all others."""
    shutil.copytree((DATA / name).parent, folder / Path(name).parent.name)
    path = folder / Path(name).parent.name / Path(name).name
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    record = json.loads(first)
    if "resourceSpans" in record:  # nothing comes before these
        attribute = {"key": "filler", "value": {"stringValue": filler}}
        record["resourceSpans"][0]["resource"]["attributes"].insert(0, attribute)
    else:
        record = {"aaa_filler": filler, **record}
    path.write_text(json.dumps(record) + "\n" + "".join(rest), encoding="utf-8")
    return path


def format_of(path: Path) -> str:
    return next(iter(preview(path))).format


@pytest.mark.parametrize("megabytes", [3, 20])
@pytest.mark.parametrize("name", RUNS)
def test_a_long_first_record_is_read(name: str, megabytes: int, tmp_path: Path) -> None:
    path = copied(name, tmp_path, "x" * (megabytes << 20))
    assert format_of(path) == format_of(DATA / name)
    before, after = read_traces(DATA / name), read_traces(path)
    assert after.outcome.tolist() == before.outcome.tolist()
    assert after.n_steps.tolist() == before.n_steps.tolist()


@pytest.mark.parametrize("megabytes", [3, 20])
@pytest.mark.parametrize("name", SESSIONS)
def test_a_long_first_task_is_read(name: str, megabytes: int, tmp_path: Path) -> None:
    path = copied(name, tmp_path, "x" * (megabytes << 20))
    assert read_sessions(path).outcome.tolist() == read_sessions(DATA / name).outcome.tolist()


def test_one_line_alone_with_many_parts(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    step = {"name": "search", "note": 'a "quoted" \\ word ' * 20}
    path.write_text(json.dumps({"steps": [step] * 9000, "task_id": "a", "outcome": "success"}))
    assert path.stat().st_size > 3 << 20
    assert read_traces(path).n_steps.tolist() == [9000]


def test_an_outline_has_the_keys_and_the_kind_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = {"a": 'é"\\' * 99_999, "b": [{"c": [1.5, None, True]}] * 9, "d": {"é": {}}, "e": -1}
    path.write_text(json.dumps(long, ensure_ascii=False) + "\n" + '{"a": 1}\n', encoding="utf-8")
    head = read_head(path)
    assert len(head) < 1000
    assert sniff(head) == ("lines", set(long))
    outline = json.loads(head.splitlines()[0])
    assert long["a"].startswith(outline["a"])
    assert outline["b"] == long["b"][:4]
    assert (outline["d"], outline["e"]) == (long["d"], long["e"])
    path.write_text(json.dumps(long), encoding="utf-8")
    assert sniff(read_head(path)).kind == "object"


def test_a_short_record_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = '{"a": 1}\n' * HEAD_BYTES
    path.write_text(text)
    assert read_head(path) == text.encode()[:HEAD_BYTES]


def test_a_long_record_that_is_cut_off_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"filler": "' + "x" * (3 << 20))
    with pytest.raises(UnknownFormatError, match=r"first record is longer than 64 KiB .*--format"):
        read_traces(path)


def test_no_more_of_a_first_record_is_looked_at_than_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied("own/runs.jsonl", tmp_path, "x" * (4 * HEAD_BYTES))
    size = path.read_bytes().index(b"\n") + 1
    monkeypatch.setattr(_json, "FIRST_RECORD_BYTES", size)
    assert format_of(path) == "sojourn-jsonl"
    monkeypatch.setattr(_json, "FIRST_RECORD_BYTES", size - 1)
    with pytest.raises(UnknownFormatError, match=r"or longer than .* name it with --format"):
        read_traces(path)
    assert len(read_traces(path, format="sojourn-jsonl")) == len(
        read_traces(DATA / "own/runs.jsonl")
    )
