from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from builders import corpus_of
from corpus.traces import TRACES
from sojourn.corpus import CorpusBuilder, TraceCorpus, write_corpus
from sojourn.corpus.parquet import FORMAT_KEY, is_canonical, read_batches, read_skipped
from sojourn.data import example_path
from sojourn.errors import ReaderError
from sojourn.records import Outcome, Skipped, Step, Trace


def build(traces: list[Trace]) -> TraceCorpus:
    builder = CorpusBuilder()
    for trace in traces:
        builder.add(trace)
    return builder.build()


def read(path: Path) -> TraceCorpus:
    builder = CorpusBuilder()
    for item in read_skipped(path):
        builder.skip(item)
    for batch in read_batches(path):
        builder.add_batch(batch)
    return builder.build()


def all_traces(corpus: TraceCorpus) -> list[Trace]:
    return [corpus.trace(run) for run in range(len(corpus))]


@given(TRACES)
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_written_is_read(tmp_path: Path, traces: list[Trace]) -> None:
    path = tmp_path / "corpus.parquet"
    write_corpus(build(traces), path)
    assert is_canonical(path)
    assert all_traces(read(path)) == traces


def test_in_several_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.corpus.parquet._ROW_GROUP", 7)
    corpus = corpus_of(["sflx"] * 10, n_steps=5)
    write_corpus(corpus, tmp_path / "c.parquet")
    assert pq.ParquetFile(tmp_path / "c.parquet").num_row_groups == 6
    assert len(list(read_batches(tmp_path / "c.parquet"))) == 6
    assert all_traces(read(tmp_path / "c.parquet")) == all_traces(corpus)


def test_a_selection_is_written_as_it_is(tmp_path: Path) -> None:
    corpus = corpus_of(["sf", "fs", "ll"]).select(np.array([4, 1]))
    write_corpus(corpus, tmp_path / "c.parquet")
    assert all_traces(read(tmp_path / "c.parquet")) == all_traces(corpus)


def test_what_was_skipped_stays_with_the_corpus(tmp_path: Path) -> None:
    skipped = (
        Skipped(source="a", reason='é "quoted"', count=3, what="line"),
        Skipped(source="b", reason="r"),
    )
    write_corpus(corpus_of(["s"]).replace(skipped=skipped), tmp_path / "c.parquet")
    assert read_skipped(tmp_path / "c.parquet") == skipped
    assert read(tmp_path / "c.parquet").skipped == skipped


def test_no_runs_at_all(tmp_path: Path) -> None:
    write_corpus(CorpusBuilder().build(), tmp_path / "c.parquet")
    assert is_canonical(tmp_path / "c.parquet")
    assert len(read(tmp_path / "c.parquet")) == 0


def test_any_tool_can_read_it(tmp_path: Path) -> None:
    write_corpus(corpus_of(["sl"], n_steps=2), tmp_path / "c.parquet")
    rows = pq.read_table(tmp_path / "c.parquet").to_pylist()
    assert [row["outcome"] for row in rows] == ["success", "failure"]
    assert [row["limit_kind"] for row in rows] == [None, "steps"]
    assert rows[0]["step_name"] == ["tool0", "tool1"]
    assert rows[0]["score"] is None


def test_the_old_file_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.parquet"
    write_corpus(corpus_of(["s"]), path)
    old = path.read_bytes()

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sojourn.corpus.parquet._step_columns", fail)
    with pytest.raises(KeyboardInterrupt):
        write_corpus(corpus_of(["sfsf"]), path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


# Files from elsewhere


def altered(tmp_path: Path, **columns: Any) -> Path:
    """Write a corpus of two runs with some columns replaced (None: left out)."""
    path = tmp_path / "c.parquet"
    write_corpus(corpus_of(["sf"], n_steps=2), path)
    table = pq.read_table(path)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.remove_column(place)
        if values is not None:
            array = values if isinstance(values, pa.Array) else pa.array(values)
            table = table.append_column(name, array)
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"outcome": None}, "outcome"),
        ({"outcome": ["success", "won"]}, "outcome holds a value that is none of"),
        ({"outcome": ["success", None]}, "outcome is missing"),
        ({"outcome": [1, 0]}, "not a text"),
        ({"end": ["finished", None]}, "end is missing"),
        ({"limit_kind": ["steps", "steps"]}, "limit_kind is given"),
        ({"task_id": ["a", None]}, "task_id is missing"),
        ({"task_id": ["a", ""]}, "task_id is missing"),
        ({"task_id": [1, 2]}, "not a text"),
        ({"n_steps": ["2", "2"]}, "n_steps is string, not a whole number"),
        ({"n_steps": [2, 3]}, "n_steps is not the number of steps"),
        ({"n_steps": [2, -2]}, "n_steps lies outside"),
        ({"task_repeat": [0, 2**40]}, "task_repeat lies outside"),
        ({"score": [0.0, float("inf")]}, "score is infinite"),
        ({"score": ["x", "y"]}, "corpus|damaged"),
        ({"step_name": ["a", "b"]}, "corpus"),
        ({"step_kind": [["tool"], ["tool"]]}, "differ in length"),
        ({"step_kind": [["tool", "dream"], ["tool", "tool"]]}, "step_kind holds a value"),
        ({"step_calls": [[1, -1], [1, 1]]}, "step_calls lies outside"),
        ({"step_name": [["a", None], ["b", "c"]]}, "a step has no name"),
        ({"step_actor": None}, "step_actor"),
    ],
)
def test_a_file_that_does_not_hold_a_corpus_is_refused(
    tmp_path: Path, columns: dict[str, Any], words: str
) -> None:
    path = altered(tmp_path, **columns)
    assert is_canonical(path)
    with pytest.raises(ReaderError, match=words):
        list(read_batches(path))


def test_plain_text_columns_are_as_good_as_dictionaries(tmp_path: Path) -> None:
    path = altered(tmp_path, agent=["x", None], step_name=[["a", "b"], ["a", "a"]])
    corpus = read(path)
    assert [corpus.agent[run] for run in (0, 1)] == ["x", None]
    assert [s.name for s in corpus.trace(1).steps] == ["a", "a"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_named(tmp_path: Path, share: float) -> None:
    path = tmp_path / "c.parquet"
    write_corpus(corpus_of(["sf"] * 50), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert not is_canonical(path)
    for reading in (lambda: read_skipped(path), lambda: list(read_batches(path))):
        with pytest.raises(ReaderError, match="damaged or truncated"):
            reading()


def test_flipped_bytes_are_found_or_harmless(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "c.parquet"
    traces = [
        Trace(
            task_id=f"task {i}",
            outcome=Outcome.SUCCESS,
            steps=tuple(Step(name=f"n{k}", digest=i * 10 + k + 1) for k in range(i % 7)),
            job_id="j",
        )
        for i in range(40)
    ]
    write_corpus(build(traces), path)
    data = path.read_bytes()
    n_found = 0
    for place in rng.integers(len(data), size=150).tolist():
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            corpus = read(path)
        except ReaderError:
            n_found += 1
        else:
            for run in range(len(corpus)):
                corpus.trace(run)
    assert n_found > 75


def test_other_parquet_files_are_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"task_id": ["a"], "outcome": ["success"]}), path)
    assert not is_canonical(path)
    with pytest.raises(ReaderError, match="no corpus of ours; see --format table"):
        list(read_batches(path))


def test_a_later_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata({FORMAT_KEY: b"2"}), path)
    with pytest.raises(ReaderError, match="a corpus of version 2, where version 1 is read"):
        list(read_batches(path))


@pytest.mark.parametrize(
    "damage", ["[", "[[1, 2]]", '[["s", "r", "many", "w"]]', "5", "[" * 10_000]
)
def test_a_damaged_record_of_skips_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.parquet"
    write_corpus(corpus_of(["s"]), path)
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata) | {b"sojourn.skipped": damage.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(ReaderError, match="record of skipped runs is damaged"):
        read_skipped(path)


def test_the_record_of_skips_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    write_corpus(corpus_of(["s"]), path)
    assert json.loads(pq.read_schema(path).metadata[b"sojourn.skipped"]) == []


def test_an_altered_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    write_corpus(build([Trace(task_id="quartz", outcome=Outcome.SUCCESS)]), path)
    data = path.read_bytes()
    assert data.count(b"quartz") >= 1
    path.write_bytes(data.replace(b"quartz", b"quarts", 1))
    with pytest.raises(ReaderError, match="damaged or truncated"):
        list(read_batches(path))


def test_reading_does_not_import_pandas() -> None:
    code = (
        "import sys; from pathlib import Path; from sojourn.corpus.parquet import read_batches; "
        "n = sum(batch.n_runs for batch in read_batches(Path(sys.argv[1]))); "
        "print(n, 'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(example_path())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["200", "False"]
