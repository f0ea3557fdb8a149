from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers.conformance import ReaderConformance, traces_of
from sojourn.corpus import TraceCorpus
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers import ReadOptions, read_traces
from sojourn.readers._json import read_head
from sojourn.readers.table import TableReader
from sojourn.records import End, LimitKind, Outcome, StepKind


def write(folder: Path, data: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def skips(corpus: TraceCorpus) -> list[tuple[str, int, str]]:
    return [(item.what, item.count, item.reason) for item in corpus.skipped]


class TestRunsCsv(ReaderConformance):
    format = "table"
    sample = "own/runs.csv"
    n_runs = 4


class TestStepsCsv(ReaderConformance):
    format = "table"
    sample = "own/steps.csv"
    n_runs = 3


class TestParquet(ReaderConformance):
    format = "table"
    sample = "own/runs.parquet"
    n_runs = 4
    binary = True
    steps_known = False


def test_reads_every_field(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "task_id,task_repeat,task_set,agent,model,outcome,end,limit_kind,score,cluster,session_id,"
        "position,step_limit,n_steps,job_id\n"
        "007,2,set,ag,mo,failure,limit,tokens,0.25,c,s,3,9,5,j\n",
    )
    (trace,) = traces_of(path)
    assert (trace.task_id, trace.task_repeat, trace.task_set) == ("007", 2, "set")
    assert (trace.agent, trace.model, trace.cluster, trace.job_id) == ("ag", "mo", "c", "j")
    assert (trace.outcome, trace.end) == (Outcome.FAILURE, End.LIMIT)
    assert (trace.limit_kind, trace.score) == (LimitKind.TOKENS, 0.25)
    assert (trace.session_id, trace.position, trace.step_limit) == ("s", 3, 9)
    assert (trace.n_steps, trace.steps) == (5, ())
    assert (trace.source_type, trace.source_uri) == ("table", str(path))


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_dialects(tmp_path: Path, delimiter: str, end: str, bom: bytes) -> None:
    rows = [["Task_ID ", "note", "OUTCOME"], ["007", '"a;b,c|d\te\nf"', "success"], ["é", "", "0"]]
    text = end.join(delimiter.join(row) for row in rows)
    traces = traces_of(write(tmp_path, bom + text.encode()))
    assert [(t.task_id, t.outcome) for t in traces] == [
        ("007", Outcome.SUCCESS),
        ("é", Outcome.FAILURE),
    ]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("success", Outcome.SUCCESS),
        ("Failure", Outcome.FAILURE),
        ("unscored", Outcome.UNSCORED),
        ("True", Outcome.SUCCESS),
        ("FALSE", Outcome.FAILURE),
        ("1", Outcome.SUCCESS),
        ("0", Outcome.FAILURE),
        ("1.0", Outcome.SUCCESS),
        ("", Outcome.UNSCORED),
        ("nan", Outcome.UNSCORED),
        ("None", Outcome.UNSCORED),
        ("0.0", Outcome.FAILURE),
        *[
            (word, Outcome.SUCCESS)
            for word in ["pass", "PASSED", "yes", "Y", "correct", "right", "solved", "C"]
        ],
        *[(word, Outcome.FAILURE) for word in ["fail", "Failed", "no", "N", "incorrect", "wrong"]],
        *[(word, Outcome.FAILURE) for word in ["unresolved", "unsolved", "I"]],
        ("error", Outcome.UNSCORED),
        ("Skipped", Outcome.UNSCORED),
    ],
)
def test_outcomes(tmp_path: Path, text: str, outcome: Outcome) -> None:
    corpus = read_traces(write(tmp_path, f"id,passed\na,{text}\nb,1\n"))
    found = {t.task_id: t.outcome for t in (corpus.trace(run) for run in range(len(corpus)))}
    assert found == {"a": outcome, "b": Outcome.SUCCESS}
    assert skips(corpus) == []


@pytest.mark.parametrize("text", ["maybe", "1_0", "ran out of \x1b[31m patience and money"])
def test_a_word_that_is_no_verdict_loses_no_run(tmp_path: Path, text: str) -> None:
    corpus = read_traces(write(tmp_path, f"id,passed\nb,1\na,{text}\na,{text}\n"))
    outcomes = [corpus.trace(run).outcome for run in range(len(corpus))]
    assert outcomes == [Outcome.SUCCESS, Outcome.UNSCORED, Outcome.UNSCORED]
    ((what, count, reason),) = skips(corpus)
    assert (what, count) == ("verdict", 2)
    assert f"({text[:8]!r}" in reason if len(text) < 9 else "'ran out of ?[31m pa" in reason
    assert "\x1b" not in reason
    assert "money" not in reason
    assert "the first in row 2" in reason
    with pytest.raises(ReaderError, match="strict"):
        read_traces(tmp_path / "table.csv", strict=True)


def test_only_a_few_odd_words_are_told(tmp_path: Path) -> None:
    rows = "".join(f"a,word{i}\n" for i in range(9))
    ((_, count, reason),) = skips(read_traces(write(tmp_path, f"id,passed\n{rows}")))
    assert count == 9
    assert reason.count("word") - reason.count("no word") == 3


@pytest.mark.parametrize("text", ["2", "0.99", "1e999", "-1"])
def test_numbers_other_than_0_and_1_are_no_verdicts(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "id,passed\n" + "a,1\n" * 5 + f"a,{text}\n")
    with pytest.raises(ReaderError, match=r"the column 'passed' .*--map outcome=COLUMN"):
        read_traces(path)
    (tmp_path / "good.csv").write_text("id,passed\nb,1\n")
    corpus = read_traces(tmp_path)
    assert list(corpus.tasks.task_id) == ["b"]
    assert [(what, count) for what, count, _ in skips(corpus)] == [("file", 1)]


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
IDS = TEXTS.map(str.strip).filter(bool)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "task_id": IDS,
            "agent": st.one_of(st.none(), IDS),
            "outcome": st.sampled_from(["success", "failure", "unscored"]),
            "end": st.sampled_from([e.value for e in End]),
            "task_repeat": st.one_of(st.none(), st.integers(0, 2**31 - 1)),
            "n_steps": st.one_of(st.none(), st.integers(0, 50)),
            "score": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        }
    ),
    min_size=1,
    max_size=8,
)


@given(rows=ROWS, form=st.sampled_from(["csv", "parquet", "jsonl"]))
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_written_is_read(tmp_path: Path, rows: list[dict[str, Any]], form: str) -> None:
    path = tmp_path / f"rows.{form}"
    write_rows(path, rows)
    expected = []
    seen = set()
    for row in rows:  # a stated attempt counts once
        key = (row["task_id"], row["agent"], row["task_repeat"])
        if row["task_repeat"] is None or key not in seen:
            expected.append(row)
        seen.add(key)
    corpus = read_traces(path)
    assert len(corpus) == len(expected)
    for run, row in enumerate(expected):
        trace = corpus.trace(run)
        assert trace.task_id == row["task_id"]
        assert trace.agent == (row["agent"] or "")
        assert (trace.outcome.value, trace.end.value) == (row["outcome"], row["end"])
        assert (trace.task_repeat, trace.n_steps) == (row["task_repeat"], row["n_steps"])
        assert trace.score == row["score"]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(_json(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)


def _json(row: dict[str, Any]) -> str:
    import json

    return json.dumps({key: value for key, value in row.items() if value is not None})


def test_ids_stay_as_they_stand(tmp_path: Path) -> None:
    ids = ["007", "7", "7.0", "1e3", "1" + "0" * 40, "1" + "0" * 39 + "1", "NaN", "null", "-0"]
    text = "id,passed\n" + "".join(f"{name},1\n" for name in ids)
    assert [t.task_id for t in traces_of(write(tmp_path, text))] == ids


def test_bad_rows_are_counted_with_the_row_of_the_first(tmp_path: Path) -> None:
    text = "task_id,outcome,trial,end,limit_kind,n_steps\n" + "".join(
        row + "\n"
        for row in (
            "a,1,0,finished,,3",  # 1
            "short,1",  # 2
            ",1,0,finished,,3",  # 3
            "b,won,0,finished,,3",  # 4, kept without a verdict
            "c,lost,0,finished,,3",  # 5
            "d,1,x,finished,,3",  # 6
            "e,1,0,exploded,,3",  # 7
            "f,1,0,finished,steps,3",  # 8
            "g,1,0,limit,patience,3",  # 9
            "h,1,0,limit,steps,-3",  # 10
            "i,1,0,limit,steps,99999999999",  # 11
            "j,1,0,,steps,3.0",  # 12
            "k,1,0,limit,steps,3,4,5",  # 13
        )
    )
    corpus = read_traces(write(tmp_path, text))
    assert list(corpus.tasks.task_id) == ["a", "b", "c", "j"]
    assert corpus.trace(3).end is End.LIMIT
    found = {reason: (what, count) for what, count, reason in skips(corpus)}
    for words, place, count, what in (
        ("not as many fields", 2, 2, "line"),
        ("task_id is missing", 3, 1, "run"),
        ("the verdict is no word that we know", 4, 2, "verdict"),
        ("task_repeat is not a whole", 6, 1, "run"),
        ("end is none of", 7, 1, "run"),
        ("limit_kind is given", 8, 1, "run"),
        ("limit_kind is none of", 9, 1, "run"),
        ("n_steps is not a whole", 10, 2, "run"),
    ):
        (reason,) = [text for text in found if words in text]
        assert f"row {place})" in reason, reason
        assert found[reason] == (what, count)
    assert not any("exploded" in reason or "patience" in reason for reason in found)


def test_letters_that_are_not_utf8_stay_apart(tmp_path: Path) -> None:
    corpus = read_traces(write(tmp_path, b"id,passed\ncaf\xe9,1\ncaf\xe8,0\ncaf\xe9,0\n\xffx,1\n"))
    assert corpus.n_tasks == 3
    assert skips(corpus) == [("bytes", 4, "bytes that are not UTF-8 were replaced")]


def test_a_ragged_row_that_is_not_utf8_is_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = b"id,passed\n" + b"\xe9,1\n" + b"\xe9\xff,1,2\n" + b"\xff\n" + "é,0\n".encode()
    corpus = read_traces(write(tmp_path, data))
    assert list(corpus.tasks.task_id) == ["\\xe9", "é"]
    assert ("line", 2) in [(what, count) for what, count, _ in skips(corpus)]
    assert capfd.readouterr().err == ""


def test_nul_bytes_are_letters(tmp_path: Path) -> None:
    assert len(read_traces(write(tmp_path, b"id,passed\na\0b,1\nab,0\n"))) == 2


def test_unused_columns_are_told(tmp_path: Path) -> None:
    names = ",".join(f"x{i}" for i in range(70))
    corpus = read_traces(write(tmp_path, f"id,passed,{names}\na,1{',' * 70}\n"))
    assert len(corpus.skipped) == 51
    assert sum(item.count for item in corpus.skipped) == 70
    assert {item.what for item in corpus.skipped} == {"key"}


@pytest.mark.parametrize(
    ("text", "columns", "error", "words"),
    [
        ("a,b\n1,2\n", {}, ReaderError, "no column is task_id; the columns are 'a', 'b'"),
        ("id,b\n1,2\n", {}, ReaderError, "no column is outcome; .*--map outcome=COLUMN"),
        ("id,b\n1,2\n", {"outcome": "c"}, ReaderError, "no such column; the columns are 'id', 'b'"),
        ("id,b\n1,2\n", {"result": "b"}, ReaderError, "'result' is no field; they are task_id"),
        ("id,b,b\n1,2,3\n", {"outcome": "b"}, ReaderError, "several columns have that name"),
        ("id,passed,passed\n1,1,0\n", {}, ReaderError, "could each be outcome"),
        ("id,passed,correct\n1,1,0\n", {}, ReaderError, "could each be outcome"),
        ("trial,epoch,id,passed\n1,1,1,0\n", {}, ReaderError, "--map task_repeat=COLUMN"),
        ("session,t,domain,success\ns,0,d,1\n", {}, ReaderError, "a table of sessions"),
        ("session_id,position,y\ns,0,1\n", {}, ReaderError, "a table of sessions"),
        ("id,score\na,1\nb,0.5\n", {}, ReaderError, "--map outcome=COLUMN"),
        ("id,score\na,good\n", {}, ReaderError, "--map outcome=COLUMN"),
        ("id,passed\n", {}, EmptySourceError, "a header, but no row"),
        ("id,passed\n\n\r\n", {}, EmptySourceError, "a header, but no row"),
        ("\n \n", {}, EmptySourceError, "empty"),
        ("", {}, EmptySourceError, "empty"),
    ],
)
def test_errors_say_how_to_mend_it(
    tmp_path: Path, text: str, columns: dict[str, str], error: type[Exception], words: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(error, match=words):
        read_traces(path, options=ReadOptions(columns=columns))


def test_only_a_score(tmp_path: Path) -> None:
    corpus = read_traces(write(tmp_path, "id,score\na,1\nb,0.0\nc,\n"))
    assert [corpus.trace(run).outcome for run in range(3)] == [
        Outcome.SUCCESS,
        Outcome.FAILURE,
        Outcome.UNSCORED,
    ]
    assert [corpus.trace(run).score for run in range(3)] == [1.0, 0.0, None]


def test_a_late_half_score_gives_no_run_at_all(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": list(range(200_000)), "score": [1.0] * 199_999 + [0.5]}),
        tmp_path / "a.parquet",
    )
    write(tmp_path, "id,passed\na,1\n", "b.csv")
    corpus = read_traces(tmp_path)
    assert len(corpus) == 1
    assert [what for what, _, _ in skips(corpus)] == ["file"]


def test_map_takes_any_header(tmp_path: Path) -> None:
    path = write(tmp_path, "question,success,Won\nq,0,1\n")
    columns = {"task_id": "question", "outcome": "won"}
    assert traces_of(path, columns=columns)[0].outcome is Outcome.SUCCESS


def test_other_names_than_csv_are_known_by_their_header(tmp_path: Path) -> None:
    assert len(read_traces(write(tmp_path, "id\tpassed\na\t1\n", "table.txt"))) == 1
    for text in ("id is what\nwe passed on\n", "id,name\n1,2\n", "passed\n1\n"):
        with pytest.raises(UnknownFormatError):
            read_traces(write(tmp_path, text, "words.txt"))


def test_claims_no_json_and_no_folder(tmp_path: Path) -> None:
    reader = TableReader()
    path = write(tmp_path, '{"id": 1, "passed": 1}\n')
    assert not reader.claims(path, read_head(path))
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert not reader.claims(folder, b"")


def test_claims_nothing_of_the_real_logs(real_logs: Path) -> None:
    reader = TableReader()
    for path in real_logs.rglob("*"):
        if path.is_file():
            assert not reader.claims(path, read_head(path)), path


def test_utf16_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match="UTF-16"):
        read_traces(write(tmp_path, "id,passed\na,1\n".encode("utf-16")))


def test_a_quote_that_never_ends_is_told(tmp_path: Path) -> None:
    corpus = read_traces(write(tmp_path, 'id,passed,note\na,1,x\nb,1,"open\nc,1,x\nd,0,x\n'))
    assert len(corpus) == 2
    assert (
        "line",
        1,
        "a quoted field is never closed; the rows after it are lost (the first in row 2)",
    ) in skips(corpus)
    # A quote inside a plain field is a letter.
    corpus = read_traces(write(tmp_path, 'id,passed,note\na,1,5" disk\nb,1,x\n'))
    assert len(corpus) == 2
    assert [what for what, _, _ in skips(corpus)] == ["key"]


def test_rows_beyond_the_block_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.readers.table.CSV_BLOCK_BYTES", 4096)
    text = "id,passed,note\n" + "a,1,x\n" * 2000
    assert len(read_traces(write(tmp_path, text))) == 2000
    corpus = read_traces(write(tmp_path, text + f"b,1,{'x' * 20_000}\n" + "c,1,x\n" * 10))
    assert 0 < len(corpus) < 2011
    assert any("too long or never ends" in reason for _, _, reason in skips(corpus))
    with pytest.raises(ReaderError, match="longer than"):
        read_traces(write(tmp_path, f"id,passed,note\nb,1,{'x' * 20_000}\n"))


def test_a_header_without_end(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match="too long for a header"):
        read_traces(write(tmp_path, "a," * 100_000))


# A step a row


def shuffled_steps(rng: np.random.Generator) -> tuple[str, dict[tuple[str, int], list[str]]]:
    """Return a table of steps in random order, and the path of each run as it was drawn."""
    paths = {
        (f"t{task}", trial): [f"tool{tool}" for tool in rng.integers(4, size=rng.integers(1, 9))]
        for task in range(20)
        for trial in range(3)
    }
    rows = [
        f"{task},{trial},{'success' if task < 't5' else 'failure'},{step},{name},{step % 2}"
        for (task, trial), path in paths.items()
        for step, name in enumerate(path)
    ]
    order = rng.permutation(len(rows))
    text = "task_id,trial,outcome,step,name,ok\n" + "".join(rows[i] + "\n" for i in order)
    return text, paths


def test_steps_in_any_order(tmp_path: Path, rng: np.random.Generator, monkeypatch: Any) -> None:
    text, paths = shuffled_steps(rng)
    path = write(tmp_path, text)
    for block in (1 << 24, 300):
        monkeypatch.setattr("sojourn.readers.table.CSV_BLOCK_BYTES", block)
        traces = traces_of(path)
        assert {(t.task_id, t.task_repeat): [s.name for s in t.steps] for t in traces} == paths
        assert all(
            [s.ok for s in t.steps] == [i % 2 == 1 for i in range(len(t.steps))] for t in traces
        )
        assert all((t.outcome is Outcome.SUCCESS) == (t.task_id < "t5") for t in traces)
        assert all(t.n_steps == len(t.steps) for t in traces)


def test_groups_of_steps_are_told_apart_by_all_of_the_key(tmp_path: Path) -> None:
    header = "task_set,agent,model,job_id,task_id,trial,outcome,step,name\n"
    base = ["s", "a", "m", "j", "t", "0"]
    variants = [base, *([*base[:i], base[i] + "1", *base[i + 1 :]] for i in range(6))]
    rows = [",".join([*key, "1", str(step), "n"]) for step in (1, 2) for key in variants]
    traces = traces_of(write(tmp_path, header + "\n".join(rows) + "\n"))
    assert len(traces) == 7
    assert all(len(t.steps) == 2 for t in traces)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["x,1,1,a,tool,,", "x,0,2,a,tool,,"], "its rows disagree about outcome"),
        (["x,1,1,a,tool,limit,", "x,1,2,a,tool,finished,"], "its rows disagree about end"),
        (["x,1,1,a,tool,,", "x,1,1,b,tool,,"], "the same step number"),
        (["x,1,1,,tool,,", "x,1,2,b,tool,,"], "a step has no name"),
        (["x,1,,a,tool,,", "x,1,2,b,tool,,"], "a step has a name but no number"),
        (["x,1,1,a,dream,,", "x,1,2,b,tool,,"], "kind is none of"),
        (["x,1,1,a,tool,,3", "x,1,2,b,tool,,"], "n_steps is not the number of steps"),
        (["x,1,1,a,tool,exploded,", "x,1,2,b,tool,,"], "end is none of"),
    ],
)
def test_a_contradiction_costs_its_run_only(tmp_path: Path, rows: list[str], reason: str) -> None:
    good = ["g,1,1,a,tool,,", "g,,2,b,,finished,2"]
    text = "task_id,outcome,step,name,kind,end,n_steps\n" + "\n".join([*rows, *good]) + "\n"
    corpus = read_traces(write(tmp_path, text))
    assert [corpus.trace(run).task_id for run in range(len(corpus))] == ["g"]
    assert (corpus.trace(0).outcome, corpus.trace(0).end) == (Outcome.SUCCESS, End.FINISHED)
    ((what, count, said),) = skips(corpus)
    assert (what, count) == ("run", 1)
    assert reason in said


def test_a_row_without_a_task_costs_the_row(tmp_path: Path) -> None:
    text = "task_id,outcome,step,name\na,1,1,x\n,1,2,y\na,1,3,z\n"
    corpus = read_traces(write(tmp_path, text))
    assert [s.name for s in corpus.trace(0).steps] == ["x", "z"]
    assert [what for what, _, _ in skips(corpus)] == ["run"]


def test_a_run_of_no_steps_is_a_row_without_one(tmp_path: Path) -> None:
    text = "task_id,outcome,step,name,n_steps\na,0,,,\nb,0,,,4\nc,1,1,respond,\n"
    traces = {t.task_id: t for t in traces_of(write(tmp_path, text))}
    assert [traces[name].n_steps for name in "abc"] == [0, 4, 1]
    assert traces["c"].steps[0].kind is StepKind.MODEL


def test_steps_of_all_bad_runs_are_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(EmptySourceError, match="same step number"):
        read_traces(write(tmp_path, "task_id,outcome,step,name\na,1,1,x\na,1,1,y\n"))


# Parquet of another hand


def test_parquet_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "trial": pa.array([0.0, math.nan, 2.0]),
            "passed": pa.array([True, False, None]),
            "agent": pa.array(["a", None, "b"], pa.large_string()),
            "model": pa.array(["m", "m", None]).dictionary_encode(),
            "score": pa.array([1, 0, 1], pa.int8()),
            "extra": pa.array([[1], [], None], pa.list_(pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    corpus = read_traces(tmp_path / "t.parquet")
    traces = [corpus.trace(run) for run in range(3)]
    assert [t.task_id for t in traces] == ["1", "2", "3"]
    assert [t.task_repeat for t in traces] == [0, None, 2]
    assert [t.outcome.value for t in traces] == ["success", "failure", "unscored"]
    assert [t.agent for t in traces] == ["a", "", "b"]
    assert [t.model for t in traces] == ["m", "m", ""]
    assert skips(corpus) == [("key", 1, "the column 'extra' was not used")]


def test_parquet_of_unfit_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [[1]], "passed": [True]}), path)
    with pytest.raises(ReaderError, match="'id' for task_id holds list"):
        read_traces(path)
    pq.write_table(pa.table({"id": [b"\xff\xfe", b"ok"], "passed": ["x", "1"]}), path)
    corpus = read_traces(path)
    assert list(corpus.tasks.task_id) == ["\\xff\\xfe", "ok"]
    pq.write_table(
        pa.table({"id": pa.array([], pa.string()), "passed": pa.array([], pa.bool_())}), path
    )
    with pytest.raises(EmptySourceError, match="no row"):
        read_traces(path)
    pq.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([True])], ["id", "a", "a"]),
        path,
    )
    with pytest.raises(ReaderError, match="several columns"):
        read_traces(path, options=ReadOptions(columns={"outcome": "a"}))


def test_truncated_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": ["a"], "passed": [True]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReaderError, match="damaged or truncated Parquet"):
        read_traces(path)


def test_every_column_is_read_only_once(tmp_path: Path) -> None:
    # A comment of megabytes is never decoded: only the columns that mean something are.
    path = tmp_path / "wide.csv"
    pa_csv.write_csv(pa.table({"id": ["a"], "passed": [1], "blob": ["x" * 10_000_000]}), path)
    assert len(read_traces(path)) == 1


def test_a_mapped_column_is_no_synonym_as_well(tmp_path: Path) -> None:
    path = write(tmp_path, "success,passed\nq,1\n")
    (trace,) = traces_of(path, columns={"task_id": "success"})
    assert (trace.task_id, trace.outcome) == ("q", Outcome.SUCCESS)


def test_lines_inside_quotes_may_lie_across_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn.readers.table.CSV_BLOCK_BYTES", 200)
    text = "id,note,passed\n" + "".join(f't{i},"a\nb\n{"c" * (i % 50)}\n",1\n' for i in range(300))
    corpus = read_traces(write(tmp_path, text))
    assert list(corpus.tasks.task_id) == [f"t{i}" for i in range(300)]
    assert [what for what, _, _ in skips(corpus)] == ["key"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("modle", " (model? --map model=modle)"),
        ("LLM", " (model? --map model=LLM)"),
        ("model_name", " (model? --map model=model_name)"),
        ("the_model", " (model? --map model=the_model)"),
        ("agent_name", " (agent? --map agent=agent_name)"),
        ("system", " (agent? --map agent=system)"),
        ("n_step", " (n_steps? --map n_steps=n_step)"),
        ("note", ""),
        ("end_time", ""),
        ("prompt", ""),
        ("x" * 10_000, ""),
    ],
)
@pytest.mark.parametrize("form", ["column", "key"])
def test_an_unused_name_comes_with_what_it_may_mean(
    tmp_path: Path, name: str, said: str, form: str
) -> None:
    if form == "column":
        path = write(tmp_path, f"id,passed,{name}\na,1,x\n")
    else:
        path = write(tmp_path, f'{{"id": "a", "passed": 1, "{name}": "x"}}\n', "runs.jsonl")
    assert skips(read_traces(path)) == [("key", 1, f"the {form} {name[:40]!r} was not used{said}")]


def test_a_field_that_is_there_is_no_hint(tmp_path: Path) -> None:
    path = write(tmp_path, "id,passed,model,llm\na,1,m,x\n")
    assert skips(read_traces(path)) == [("key", 1, "the column 'llm' was not used")]
