from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from readers.inspect_logs import (
    DEFLATED,
    Entry,
    call,
    conversation,
    entries_of,
    header,
    pack,
    raw_zip,
    read,
    said,
    sample,
    write_eval,
    write_json,
)
from sojourn.errors import ReaderError
from sojourn.readers.reading import read_traces
from sojourn.records import Outcome

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE


def deep(n_levels: int = 100_000) -> str:
    return "[" * n_levels + "]" * n_levels


def test_one_bad_sample_costs_one_run(tmp_path: Path) -> None:
    bad = [
        7,
        "text",
        [],
        {},
        sample(None),
        sample(True),
        sample(""),
        sample(9, epoch=-1),
        sample(9, epoch=1 << 40),
        {**sample(9), "messages": "none"},
        {**sample(9), "epoch": "soon"},
    ]
    traces, notes = read(write_json(tmp_path / "a.json", [sample(1), *bad, sample(2)]))
    assert [trace.task_id for trace in traces] == ["1", "2"]
    assert sum(note.count for note in notes if note.what == "run") == len(bad)
    assert all("sample " in note.source and note.reason for note in notes)


@pytest.mark.parametrize("suffix", [".json", ".eval"])
def test_deep_nesting(tmp_path: Path, suffix: str) -> None:
    def write(field: str) -> Path:
        text = json.dumps(sample(1, **{field: "DEEP"})).replace('"DEEP"', deep())
        whole = json.dumps({**header(), "samples": ["THIS", sample(2)]}).replace('"THIS"', text)
        path = tmp_path / f"a{suffix}"
        members = [*entries_of([sample(2)]), Entry("samples/1_epoch_1.json", text.encode())]
        path.write_bytes(whole.encode() if suffix == ".json" else raw_zip(members))
        return path

    traces, skipped = read(write("metadata"))  # not needed, not looked into
    assert {trace.task_id for trace in traces} == {"1", "2"}
    assert not skipped
    traces, (note,) = read(write("invalidation"))
    assert [trace.task_id for trace in traces] == ["2"]
    assert "nests deeper" in note.reason


def test_moderately_deep_arguments_do_not_crash(tmp_path: Path) -> None:
    for n_levels in (150, *range(800, 1000)):  # across the limit of whoever decodes or digests it
        text = json.dumps(conversation(said(call("f", x="DEEP")))).replace('"DEEP"', deep(n_levels))
        path = tmp_path / "a.json"
        path.write_text(json.dumps({**header(), "samples": ["THIS"]}).replace('"THIS"', text))
        traces, skipped = read(path)
        assert len(traces) + len(skipped) == 1


@pytest.mark.parametrize(
    "oddity", [b"\xff\xfe", b"\\ud800", b'", "x": NaN, "y": "', b'", "x": 1e999, "y": "']
)
def test_odd_text_loses_no_run(tmp_path: Path, oddity: bytes) -> None:
    items = [sample(1, answer="ODD"), conversation(said(call("ODD")))]
    path = write_json(tmp_path / "a.json", items)
    path.write_bytes(path.read_bytes().replace(b"ODD", oddity))
    traces, skipped = read(path)
    assert len(traces) == 2
    assert not skipped
    members = entries_of(items[:1])
    members[1].data = members[1].data.replace(b"ODD", oddity)
    (tmp_path / "a.eval").write_bytes(raw_zip(members))
    assert len(read(tmp_path / "a.eval")[0]) == 1


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_document_that_is_cut_off_keeps_its_whole_samples(tmp_path: Path, share: float) -> None:
    path = write_json(tmp_path / "a.json", [sample(n) for n in range(100)])
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    traces, notes = read(path)
    assert abs(len(traces) - 100 * share) < 4
    assert any("truncated" in note.reason for note in notes)


def test_a_document_that_is_cut_off_after_its_samples_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**header(), "samples": [sample(1)], "reductions": [{}]})[:-3])
    (trace,), (note,) = read(path)
    assert trace.outcome is SUCCESS
    assert (note.reason, note.what) == ("the document is cut off", "bytes")


def test_members_that_are_strange_repeated_or_refused_are_counted(tmp_path: Path) -> None:
    data = json.dumps(sample(1)).encode()
    bomb = pack(bytes(40 << 20), DEFLATED)
    extra = [
        Entry("../../evil.json", data),
        Entry("/etc/passwd", data),
        Entry("samples/9_epoch_1/messages/0.json", b"[]"),
        Entry(f"samples/9_epoch_1/messages/{'1' * 5000}.json", b"[]"),
        Entry("samples/1_epoch_1.json", json.dumps(sample(1, "I")).encode()),
        Entry("samples/2_epoch_1.json", b"", packed=bomb, size=40 << 20),
        Entry("samples/3_epoch_1.json", data, flags=1),
        Entry("samples/4_epoch_1.json", b"[1, 2]"),
        Entry("samples/5_epoch_1.json", data[:-20]),
        Entry("samples/6_epoch_1.json", b""),
        Entry("samples/../../up_epoch_1.json", json.dumps(sample("../../up")).encode()),
    ]
    path = write_eval(tmp_path / "a.eval", [sample(1)], extra=extra)
    tracemalloc.start()
    traces, notes = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20
    assert [(t.task_id, t.outcome) for t in traces] == [("1", FAILURE), ("../../up", SUCCESS)]
    assert Counter(note.what for note in notes for _ in range(note.count)) == {"run": 6, "key": 4}
    told = " ".join(note.reason for note in notes)
    for word in ("more than 200 times", "encrypted", "twice", "no part of a log", "JSON"):
        assert word in told
    assert [found.name for found in tmp_path.iterdir()] == ["a.eval"]


def test_many_bad_samples_are_counted_together(tmp_path: Path) -> None:
    corpus = read_traces(write_json(tmp_path / "a.json", [sample(1), *[7] * 5000]))
    assert sum(note.count for note in corpus.skipped) == 5000
    assert len(corpus.skipped) < 30


def test_what_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    for data in (b"nonsense", raw_zip([]), raw_zip([Entry("a", b"b")]), b"PK\x03\x04", b"[1]"):
        path.write_bytes(data)
        with pytest.raises(ReaderError, match=r"a\.eval"):
            read_traces(path)
    path = tmp_path / "a.json"
    for text in ('{"status": 1, "eval": 2}', '{"status": "success", "eval": {"task": 3}}', "{}"):
        path.write_text(text)
        with pytest.raises(ReaderError, match=r"a\.json"):
            read_traces(path, format="inspect")
