"""Tables of sessions: every field, every synonym, every bad row, in CSV, Parquet and JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from conformance import DATA
from session_conformance import SessionReaderConformance, tasks_of

from sojourn.corpus import Policy, SessionLog
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers import ReadOptions, preview, read_sessions, read_traces
from sojourn.readers.base import Source
from sojourn.readers.finding import find_sources
from sojourn.records import Outcome

CSV = DATA / "own" / "sessions.csv"
JSONL = DATA / "own" / "sessions.jsonl"


class TestCsv(SessionReaderConformance):
    format = "session-table"
    sample = "own/sessions.csv"
    n_runs = 7

    def unharmed(self, path: Path) -> bool:
        # A CSV does not say how many rows it has: a shorter last field is one that ends there.
        return True


class TestJsonLines(SessionReaderConformance):
    format = "session-table"
    sample = "own/sessions.jsonl"
    n_runs = 4


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def lines(folder: Path, *rows: object) -> Path:
    return write(folder, "".join(json.dumps(row) + "\n" for row in rows), "t.jsonl")


def told(log: SessionLog) -> list[tuple[str, int, str]]:
    return [(item.reason, item.count, item.what) for item in log.skipped]


def test_every_field_arrives() -> None:
    log = read_sessions(CSV)
    tasks = [log.task(row) for row in range(len(log))]
    first = tasks[0]
    assert (first.session_id, first.position, first.domain, first.subdomain, first.outcome) == (
        "monday", 1, "coding", "MBPP", Outcome.SUCCESS
    )  # fmt: skip
    assert (first.item, first.model, first.agent, first.tokens) == ("m1", "tiny-1", "", 120)
    assert [task.tokens for task in tasks] == [120, 300, 80, None, 70, 90, 75]
    assert [task.position for task in tasks] == [1, 2, 3, 4, 1, 2, 6]
    assert log.n_unsorted == 1  # monday's 3 stands behind its 4, but in another domain; tuesday's 1
    assert (log.skipped, log.domains) == ((), ("coding", "reasoning"))
    assert log.success().tolist() == [1, 0, 1, 1, -1, 1, 0]


def test_the_same_table_in_every_form(tmp_path: Path) -> None:
    table = pa_csv.read_csv(CSV)
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.tsv").write_text(CSV.read_text().replace(",", "\t"))
    lines(tmp_path, *table.to_pylist())
    (tmp_path / "t.json").write_text(json.dumps(table.to_pylist()))
    want = tasks_of(CSV)
    for name in ("t.parquet", "t.tsv", "t.jsonl", "t.json"):
        got = tasks_of(tmp_path / name)
        assert [t.source_uri for t in got] == [str(tmp_path / name)] * 7
        for field in ("session_id", "position", "domain", "subdomain", "outcome", "item", "tokens"):
            assert [getattr(t, field) for t in got] == [getattr(t, field) for t in want], field


@pytest.mark.parametrize(
    "header",
    ["session,t,y", "session_id,position,success", " Session , T , outcome ", "session,t,passed"],
)
def test_synonyms(tmp_path: Path, header: str) -> None:
    path = write(tmp_path, f"{header}\na,0,1\na,1,0\n")
    assert [t.outcome for t in tasks_of(path)] == [Outcome.SUCCESS, Outcome.FAILURE]


def test_json_synonyms_and_unused_keys() -> None:
    log = read_sessions(JSONL)
    assert log.success().tolist() == [1, 0, -1, 1]
    assert [log.task(row).subdomain for row in range(4)] == ["é", "x", None, "x"]
    assert told(log) == [("the key 'note' was not used", 4, "key")]
    assert log.gaps().n_unseen == 1


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "session_id,t,won,success\na,0,yes,1\na,1,no,0\n")
    assert read_sessions(path).success().tolist() == [1, 0]
    path = write(tmp_path, "run,t,won,y\na,0,1,0\na,1,0,1\n")
    options = ReadOptions(columns={"session_id": "run", "success": "won"})
    assert read_sessions(path, format="session-table", options=options).success().tolist() == [1, 0]
    path = lines(tmp_path, {"session": "a", "t": 0, "y": 1, "won": 0})
    options = ReadOptions(columns={"success": "won"})
    assert read_sessions(path, options=options).success().tolist() == [0]
    options = ReadOptions(columns={"success": "lost"})
    with pytest.raises(ReaderError, match="there is no such key"):
        read_sessions(path, options=options)
    with pytest.raises(ReaderError, match="'steps' is no field"):
        read_sessions(path, options=ReadOptions(columns={"steps": "won"}))


@pytest.mark.parametrize(
    ("cell", "success"),
    [("1", 1), ("0", 0), ("true", 1), ("False", 0), ("1.0", 1), ("", -1), ("NaN", -1), ("null", -1),
     ("success", 1), ("failure", 0), ("unscored", -1)],
)  # fmt: skip
def test_what_a_verdict_may_be(tmp_path: Path, cell: str, success: int) -> None:
    path = write(tmp_path, f"session_id,position,success\na,0,{cell}\na,1,1\n")
    log = read_sessions(path)
    assert (log.success().tolist(), log.skipped) == ([success, 1], ())
    want = [max(success, 0), 1]
    assert log.success(Policy(faults="failure")).tolist() == want


@pytest.mark.parametrize("cell", ["2", "0.5", "maybe", "-1"])
def test_another_verdict_leaves_the_task_in_its_place_without_one(
    tmp_path: Path, cell: str
) -> None:
    path = write(tmp_path, f"session_id,position,success\na,0,1\na,1,{cell}\na,2,0\n")
    log = read_sessions(path)
    assert log.success().tolist() == [1, -1, 0]
    reason = "success is none of true, false, 1, 0; the task was kept without a verdict"
    assert told(log) == [(f"{reason} (the first in row 2)", 1, "key")]


def test_a_column_without_a_verdict_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "session_id,position,success\na,0,0.4\na,1,0.7\n")
    with pytest.raises(ReaderError, match=r"no row has a verdict.*--map success=COLUMN"):
        read_sessions(path)


@pytest.mark.parametrize(
    ("row", "reason"),
    [(",1,1", "session_id is missing"), ("a,,1", "position is missing"),
     ("a,-1,1", "position is not a whole number"), ("a,1.5,1", "position is not a whole number"),
     ("a,3000000000,1", "position is not a whole number"), ("a,x,1", "position is not a whole")],
)  # fmt: skip
def test_a_row_without_a_place_is_skipped_and_counted(
    tmp_path: Path, row: str, reason: str
) -> None:
    path = write(tmp_path, f"session_id,position,success\na,0,1\n{row}\nb,0,0\n")
    log = read_sessions(path)
    assert len(log) == 2
    assert (log.skipped[0].count, log.skipped[0].what) == (1, "run")
    assert reason in log.skipped[0].reason
    assert "row 2" in log.skipped[0].reason
    with pytest.raises(ReaderError, match=reason):
        read_sessions(path, strict=True)


def test_json_rows_without_sense_are_counted(tmp_path: Path) -> None:
    good = {"session_id": "a", "position": 0, "success": 1}
    path = lines(
        tmp_path, good, good | {"position": 1, "domain": ["x"]}, 7,
        good | {"position": 2, "success": {}}, {"session_id": "a", "position": 3},
        good | {"position": None}, good | {"position": 4, "tokens": "many", "session": "b"},
    )  # fmt: skip
    log = read_sessions(path)
    assert log.position.tolist() == [0, 2, 3, 4]
    assert log.success().tolist() == [1, -1, -1, 1]
    assert log.tokens.tolist() == [-1] * 4
    counts = {reason.split(" (the first")[0]: n for reason, n, _ in told(log)}
    assert counts == {
        "a list or an object stands where a plain value is needed": 1,
        "position is missing": 1,
        "success is missing (null says that there is no verdict)": 1,
        "success is none of true, false, 1, 0; the task was kept without a verdict": 1,
        "is no JSON object": 1,
        "tokens is no whole number and was left out": 1,
        "the key 'session' was not used": 1,
    }


def test_missing_columns_are_named(tmp_path: Path) -> None:
    for header, name in (("session_id,position", "success"), ("position,success", "session_id")):
        path = write(tmp_path, f"{header}\na,0\n")
        with pytest.raises(ReaderError, match=f"no column is {name}; .*--map {name}=COLUMN"):
            read_sessions(path, format="session-table")


def test_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(EmptySourceError, match="no row"):
        read_sessions(write(tmp_path, "session_id,position,success\n"))
    pq.write_table(
        pa.table({"session_id": ["a"], "position": [0], "y": [1]}), tmp_path / "t.parquet"
    )
    schema = pa.schema([("session_id", "string"), ("position", "int64"), ("y", "int8")])
    pq.write_table(schema.empty_table(), tmp_path / "e.parquet")
    assert len(read_sessions(tmp_path / "t.parquet")) == 1
    with pytest.raises(EmptySourceError, match="no row"):
        read_sessions(tmp_path / "e.parquet")


class TestKinds:
    """Whose table is it: with a task's id it is of runs by default, and of sessions on request."""

    BOTH = "session_id,position,domain,subdomain,task_id,success\na,1,d,s,x,0\na,0,d,s,y,1\n"

    def test_a_table_that_is_both(self, tmp_path: Path) -> None:
        path = write(tmp_path, self.BOTH)
        assert [s.reader.name for s in find_sources(path) if isinstance(s, Source)] == ["table"]
        assert len(read_traces(path)) == 2
        log = read_sessions(path)
        assert (log.domains, log.subdomains(), log.success().tolist()) == (("d",), ("s",), [1, 0])
        assert [log.task(row).item for row in range(2)] == ["y", "x"]

    def test_json_lines_that_are_both(self, tmp_path: Path) -> None:
        row = {
            "session_id": "a",
            "position": 0,
            "task_id": "x",
            "outcome": "success",
            "domain": "d",
        }
        path = lines(tmp_path, row)
        assert len(read_traces(path)) == 1
        assert (read_sessions(path).domains, read_sessions(path).task(0).item) == (("d",), "x")

    def test_runs_with_steps_and_sessions_feed_a_log(self, tmp_path: Path) -> None:
        rows: list[dict[str, Any]] = [
            {"session_id": "a", "position": p, "task_id": f"t{p}", "outcome": "failure",
             "end": "infra_error" if p == 1 else "finished", "task_set": "web", "cluster": "c",
             "model": "m", "steps": ["x", "y"]}
            for p in range(3)
        ]  # fmt: skip
        rows.append({"task_id": "loose", "outcome": "success", "steps": ["x"]})
        log = read_sessions(lines(tmp_path, *rows))
        assert (log.domains, log.subdomains(), len(log)) == (("web",), ("c",), 3)
        assert (log.success().tolist(), log.task(2).item) == ([0, -1, 0], "web/t2")
        assert told(log) == [("the run has no session_id or no position", 1, "run")]

    def test_a_table_of_sessions_is_not_of_runs(self) -> None:
        with pytest.raises(ReaderError, match=r"a table of sessions.*--as sessions"):
            read_traces(CSV)
        with pytest.raises(ReaderError, match=r"table of sessions.*--as sessions"):
            read_traces(CSV, format="table")

    def test_runs_of_no_session(self, tmp_path: Path) -> None:
        path = write(tmp_path, "task_id,outcome\na,success\n")
        with pytest.raises(ReaderError, match=r"none of which says .*--as traces \(read_traces"):
            read_sessions(path)

    def test_a_folder_of_both_gives_each_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "s.csv").write_bytes(CSV.read_bytes())
        (tmp_path / "s2.csv").write_bytes(CSV.read_bytes().replace(b"day", b"night"))
        write(tmp_path, "task_id,outcome\na,success\n", "runs.csv")
        corpus = read_traces(tmp_path)
        assert len(corpus) == 1
        assert {(s.count, s.what) for s in corpus.skipped} == {(1, "stranger")}
        log = read_sessions(tmp_path)
        assert (len(log), log.n_sessions) == (14, 4)
        assert told(log) == [("the run has no session_id or no position", 1, "run")]

    def test_a_preview_says_the_kind(self) -> None:
        (found,) = preview(CSV)
        assert (found.format, found.kind) == ("session-table", "sessions")
        assert [(str(group), n) for group, n in found.groups] == [("tiny-1", 7)]
        assert found.columns[:2] == ("session_id", "position")

    def test_unknown_and_unnamed(self, tmp_path: Path) -> None:
        with pytest.raises(ReaderError, match="no file or folder"):
            read_sessions()
        with pytest.raises(UnknownFormatError, match="session-table"):
            read_sessions(write(tmp_path, "hello\nworld\n", "x.txt"))


def test_a_position_that_stands_twice_is_kept_once_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "session_id,position,y\na,0,1\na,1,0\na,1,0\na,0,0\n")
    log = read_sessions(path)
    assert log.success().tolist() == [1, 0]
    assert told(log) == [
        ("the same task stands there twice; it was kept once", 1, "line"),
        ("two different tasks claim one position of a session; the first was kept", 1, "line"),
    ]
    with pytest.raises(ReaderError, match=r"--strict"):
        read_sessions(path, strict=True)


def test_progress_is_told(tmp_path: Path) -> None:
    for name in ("x.csv", "y.csv"):
        write(tmp_path, f"session_id,position,y\n{name},0,1\n", name)
    seen: list[tuple[str, int]] = []
    read_sessions(tmp_path, progress=lambda path, n: seen.append((path.name, n)))
    assert seen == [("x.csv", 1), ("y.csv", 2)]


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_many_rows_out_of_order(tmp_path: Path, rng: np.random.Generator, form: str) -> None:
    n, n_sessions = 70_000, 7
    session, position = np.divmod(np.arange(n), n // n_sessions)
    success = rng.integers(2, size=n)
    order = rng.permutation(n)
    table = pa.table(
        {"session_id": [f"s{c:02}" for c in session[order]], "position": position[order],
         "subdomain": ["even" if p % 2 == 0 else "odd" for p in position[order]],
         "success": success[order]}
    )  # fmt: skip
    path = tmp_path / f"t.{form}"
    if form == "csv":
        pa_csv.write_csv(table, path)
    elif form == "parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    log = read_sessions(path)
    sequences = log.task_sequences()
    assert (log.n_sessions, log.skipped, log.gaps().n_unseen) == (n_sessions, (), 0)
    rows = {name: place for place, name in enumerate(log.sessions.name)}
    for code in range(n_sessions):
        place = rows[f"s{code:02}"]
        part = slice(sequences.offsets[place], sequences.offsets[place + 1])
        np.testing.assert_array_equal(sequences.success[part], success[session == code])
    names = np.array(sequences.subdomain_names)[sequences.subdomain]
    assert (names == np.tile(["even", "odd"], n // 2)).all()
    assert log.n_unsorted > n // 2
