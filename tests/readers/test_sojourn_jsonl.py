from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers.conformance import ReaderConformance, traces_of
from sojourn.corpus import TraceCorpus
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers import ReadOptions, read_traces
from sojourn.readers._json import HEAD_BYTES, read_head
from sojourn.readers.finding import find_sources
from sojourn.readers.sojourn_jsonl import SojournJsonlReader
from sojourn.records import Actor, End, LimitKind, Outcome, Skipped, Step, StepKind


def write(folder: Path, *rows: dict[str, Any] | bytes, name: str = "runs.jsonl") -> Path:
    path = folder / name
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def skips(corpus: TraceCorpus) -> list[tuple[str, int, str]]:
    return [(item.what, item.count, item.reason) for item in corpus.skipped]


class TestRuns(ReaderConformance):
    format = "sojourn-jsonl"
    sample = "own/runs.jsonl"
    n_runs = 4


class TestStepsALine(ReaderConformance):
    format = "sojourn-jsonl"
    sample = "own/steps.jsonl"
    n_runs = 2


def test_reads_every_field(tmp_path: Path) -> None:
    run = {
        "task_id": "a",
        "task_repeat": 2,
        "task_set": "set",
        "agent": "ag",
        "model": "mo",
        "outcome": "failure",
        "end": "limit",
        "limit_kind": "tokens",
        "score": 0.25,
        "cluster": "c",
        "session_id": "s",
        "position": 3,
        "step_limit": 9,
        "n_steps": 3,
        "job_id": "j",
        "steps": ["bash", "respond", {"name": "x", "kind": "user", "actor": "user", "ok": False}],
    }
    path = write(tmp_path, run)
    (trace,) = traces_of(path)
    for name in ("task_id", "task_repeat", "task_set", "agent", "model", "score", "cluster"):
        assert getattr(trace, name) == run[name]
    assert (trace.session_id, trace.position, trace.step_limit) == ("s", 3, 9)
    assert (trace.outcome, trace.end, trace.limit_kind) == (
        Outcome.FAILURE,
        End.LIMIT,
        LimitKind.TOKENS,
    )
    assert (trace.job_id, trace.source_type, trace.source_uri) == ("j", "sojourn-jsonl", str(path))
    assert trace.steps == (
        Step(name="bash"),
        Step(name="respond", kind=StepKind.MODEL, n_calls=0),
        Step(name="x", kind=StepKind.USER, actor=Actor.USER, ok=False),
    )


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("success", Outcome.SUCCESS),
        ("failure", Outcome.FAILURE),
        ("unscored", Outcome.UNSCORED),
        (True, Outcome.SUCCESS),
        (False, Outcome.FAILURE),
        (None, Outcome.UNSCORED),
        (1, Outcome.SUCCESS),
        (0, Outcome.FAILURE),
        (1.0, Outcome.SUCCESS),
        (float("nan"), Outcome.UNSCORED),
    ],
)
def test_outcomes(tmp_path: Path, value: object, outcome: Outcome) -> None:
    (trace,) = traces_of(write(tmp_path, {"task_id": "a", "outcome": value}))
    assert trace.outcome is outcome


@pytest.mark.parametrize("value", [2, 0.5, -1, "1e999", 10**400])
def test_a_graded_outcome_is_refused(tmp_path: Path, value: object) -> None:
    rows = {"task_id": "a", "passed": value}, {"task_id": "b", "passed": True}
    path = write(tmp_path, *rows[::-1])
    with pytest.raises(ReaderError, match=r"the column 'passed' .*--map outcome=COLUMN"):
        read_traces(path)


@pytest.mark.parametrize("value", ["won", "ok?", [1], {"a": 1}])
def test_an_outcome_that_is_none_loses_no_run(tmp_path: Path, value: object) -> None:
    path = write(
        tmp_path, {"task_id": "a", "outcome": value}, {"task_id": "b", "outcome": "success"}
    )
    corpus = read_traces(path)
    assert [corpus.trace(run).task_id for run in range(2)] == ["a", "b"]
    assert corpus.trace(0).outcome is Outcome.UNSCORED
    assert [(what, count) for what, count, _ in skips(corpus)] == [("verdict", 1)]
    assert "line 1" in corpus.skipped[0].reason
    shown = repr(value) if isinstance(value, str) else "a list or an object"
    assert shown in corpus.skipped[0].reason


@pytest.mark.parametrize("task", ["question_id", "instance_id", "id"])
@pytest.mark.parametrize("outcome", ["success", "passed", "resolved", "correct"])
@pytest.mark.parametrize("repeat", ["trial", "epoch", "attempt"])
def test_synonyms(tmp_path: Path, task: str, outcome: str, repeat: str) -> None:
    path = write(tmp_path, {task: 7, outcome: True, repeat: 3, "session": "s", "t": 4})
    (trace,) = traces_of(path)
    assert (trace.task_id, trace.task_repeat, trace.position) == ("7", 3, 4)
    assert (trace.outcome, trace.session_id) == (Outcome.SUCCESS, "s")


def test_a_clock_is_no_position(tmp_path: Path) -> None:
    (trace,) = traces_of(write(tmp_path, {"task_id": "a", "outcome": 1, "t": 1766666666.5}))
    assert trace.position is None


def test_our_own_name_goes_before_a_synonym(tmp_path: Path) -> None:
    row = {"id": 9, "task_id": "a", "outcome": "failure", "success": True}
    corpus = read_traces(write(tmp_path, row))
    assert corpus.trace(0).task_id == "a"
    assert corpus.trace(0).outcome is Outcome.FAILURE
    assert skips(corpus) == [
        ("key", 1, "the key 'id' was not used"),
        ("key", 1, "the key 'success' was not used"),
    ]


def test_two_synonyms_are_ambiguous(tmp_path: Path) -> None:
    path = write(tmp_path, {"task_id": "a", "passed": 1, "correct": 0})
    with pytest.raises(EmptySourceError, match="'passed' and 'correct' could each be outcome"):
        read_traces(path)
    mapped = read_traces(path, options=ReadOptions(columns={"outcome": "correct"}))
    assert mapped.trace(0).outcome is Outcome.FAILURE


def test_map(tmp_path: Path) -> None:
    path = write(tmp_path, {"question": "q", "id": 3, "won": True, "outcome": False})
    columns = {"task_id": "question", "outcome": "won"}
    (trace,) = traces_of(path, columns=columns)
    assert (trace.task_id, trace.outcome) == ("q", Outcome.SUCCESS)


def test_map_names_what_is_wrong(tmp_path: Path) -> None:
    path = write(tmp_path, {"task_id": "q", "outcome": True})
    with pytest.raises(ReaderError, match="'question' is no field; they are task_id, outcome"):
        read_traces(path, options=ReadOptions(columns={"question": "task_id"}))
    with pytest.raises(ReaderError, match="no such key; the keys are 'task_id', 'outcome'"):
        read_traces(path, options=ReadOptions(columns={"agent": "bot"}))


def test_ids_are_the_digits_that_stand_there(tmp_path: Path) -> None:
    big = 10**40 + 1
    path = write(
        tmp_path,
        {"task_id": big, "outcome": 1},
        b'{"task_id": %d, "outcome": 1, "score": NaN}' % (big + 1),
        {"task_id": "007", "outcome": 1},
        {"task_id": 7, "outcome": 1},
        b'{"task_id": 1%s, "outcome": 0}' % (b"0" * 6000),
    )
    ids = [trace.task_id for trace in traces_of(path)]
    assert ids[:4] == [str(big), str(big + 1), "007", "7"]
    assert ids[4].startswith("1" + "0" * 400)  # an endless one keeps its beginning and a hash


def test_numbers_that_are_none_are_no_scores(tmp_path: Path) -> None:
    rows = [b'{"task_id":"a","outcome":1,"score":%s}' % s for s in (b"NaN", b"1e999", b"-Infinity")]
    corpus = read_traces(write(tmp_path, *rows, {"task_id": "a", "outcome": 1, "score": "A+"}))
    assert np.isnan(corpus.score).all()
    assert len(corpus) == 4
    assert skips(corpus) == [("key", 1, "score is no number and was left out")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"task_repeat": "x"}, "task_repeat is not a whole number"),
        ({"task_repeat": -1}, "task_repeat is not a whole number"),
        ({"task_repeat": 2**31}, "task_repeat is not a whole number"),
        ({"n_steps": 1.5}, "n_steps is not a whole number"),
        ({"n_steps": 2, "steps": ["a"]}, "n_steps is not the number of steps given"),
        ({"end": "exploded"}, "end is none of finished"),
        ({"limit_kind": "patience"}, "limit_kind is none of steps"),
        ({"limit_kind": "steps", "end": "finished"}, "limit_kind is given, but end is not limit"),
        ({"agent": {"name": "x"}}, "a list or an object stands where a plain value"),
        ({"task_id": ["x"]}, "a list or an object stands where a plain value"),
        ({"task_id": None}, "task_id is missing"),
        ({"task_id": " "}, "task_id is missing"),
        ({"steps": "abc"}, "steps are not all names or objects"),
        ({"steps": [1]}, "steps are not all names or objects"),
        ({"steps": [{"kind": "tool"}]}, "steps are not all names or objects"),
        ({"steps": [{"name": "x", "kind": "dream"}]}, "steps are not all names or objects"),
        ({"steps": [""]}, "steps are not all names or objects"),
        ({"steps": [{"name": "x", "ok": "yes"}]}, "steps are not all names or objects"),
    ],
)
def test_a_bad_field_skips_its_run_only(tmp_path: Path, bad: dict[str, Any], reason: str) -> None:
    good = {"task_id": "a", "outcome": "success", "steps": ["x", "y"]}
    corpus = read_traces(write(tmp_path, good, {"task_id": "b", "outcome": True} | bad, good))
    assert [corpus.trace(run).task_id for run in range(len(corpus))] == ["a", "a"]
    assert corpus.steps.size == 4
    ((what, count, said),) = skips(corpus)
    assert (what, count) == ("run", 1)
    assert reason in said
    assert "line 2" in said


def test_a_kind_of_limit_says_that_a_limit_ended_the_run(tmp_path: Path) -> None:
    (trace,) = traces_of(write(tmp_path, {"task_id": "a", "outcome": 0, "limit_kind": "cost"}))
    assert (trace.end, trace.limit_kind) == (End.LIMIT, LimitKind.COST)


def test_known_and_unknown_numbers_of_steps(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{}, {"steps": []}, {"steps": None}, {"n_steps": 4}]
    path = write(tmp_path, *({"task_id": "a", "outcome": 1} | row for row in rows))
    assert [trace.n_steps for trace in traces_of(path)] == [None, 0, None, 4]


def test_lines_that_are_no_objects(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"task_id": "a", "outcome": 1},
        b"[1, 2]",
        b'"text"',
        b"{broken",
        b"",
        b'{"task_id":"deep","outcome":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        {"task_id": "b"},
        b'\x00\x00{"task_id": "n", "outcome": 1}',
    )
    path.write_bytes(path.read_bytes() + b'{"task_id": "half", "outc')
    corpus = read_traces(path)
    assert [corpus.trace(run).outcome.value for run in range(2)] == ["success", "unscored"]
    assert len(corpus) == 2  # an object without a verdict is a run
    assert sum(count for what, count, _ in skips(corpus) if what in ("line", "run")) == 6
    assert ("verdict", 1) in [(what, count) for what, count, _ in skips(corpus)]
    assert any("last line is incomplete" in reason for _, _, reason in skips(corpus))
    assert any("nests too deep" in reason for _, _, reason in skips(corpus))
    assert not any("half" in reason or "text" in reason for _, _, reason in skips(corpus))


def test_broken_letters_and_surrogates_are_replaced(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        b'{"task_id": "a\xff", "outcome": 1, "steps": ["b\xfe"]}',
        b'{"task_id": "\\ud800", "outcome": 1}',
    )
    corpus = read_traces(path)
    assert [corpus.trace(run).task_id for run in (0, 1)] == ["a�", "?"]
    assert corpus.trace(0).steps[0].name == "b�"
    assert skips(corpus)[0][0] == "bytes"


def test_many_strange_keys_are_counted_and_bounded(tmp_path: Path) -> None:
    rows = [{"task_id": "a", "outcome": 1, f"key{i}": 1, "often": 2} for i in range(10_000)]
    corpus = read_traces(write(tmp_path, *rows))
    counts = {reason: count for _, count, reason in skips(corpus)}
    assert len(corpus) == 10_000
    assert counts["the key 'often' was not used"] == 10_000
    assert len(counts) <= 51
    assert sum(counts.values()) == 20_000


@pytest.mark.parametrize("n_runs", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_million_tool_names(tmp_path: Path, n_runs: int) -> None:
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        for run in range(n_runs):
            steps = ",".join(f'"tool{run * 1000 + step}"' for step in range(1000))
            file.write(f'{{"task_id":"t","outcome":1,"steps":[{steps}]}}\n')
    corpus = read_traces(path)
    assert len(corpus.step_types) == n_runs * 1000
    assert corpus.trace(n_runs - 1).steps[-1].name == f"tool{n_runs * 1000 - 1}"


def test_several_chunks_are_one_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"task_id": f"t{i % 7}", "task_repeat": i, "outcome": i % 3 == 0, "steps": ["a"] * (i % 5)}
        for i in range(500)
    ]
    path = write(tmp_path, *rows)
    whole = traces_of(path)
    monkeypatch.setattr("sojourn.readers.sojourn_jsonl._CHUNK_ROWS", 7)
    assert traces_of(path) == whole
    assert [len(trace.steps) for trace in whole] == [i % 5 for i in range(500)]


def test_an_array_is_read_as_lines_are(tmp_path: Path) -> None:
    rows = [{"task_id": f"t{i}", "outcome": i % 2} for i in range(5)]
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(rows, indent=2))
    assert [trace.task_id for trace in traces_of(path)] == [f"t{i}" for i in range(5)]


def test_steps_a_line_need_not_stand_together(tmp_path: Path) -> None:
    rows = [
        {"task_id": task, "trial": trial, "outcome": task == "a", "step": step, "name": f"n{step}"}
        for step in (2, 1, 3)
        for task in ("a", "b")
        for trial in (0, 1)
    ]
    traces = traces_of(write(tmp_path, *rows))
    assert {(t.task_id, t.task_repeat) for t in traces} == {
        (task, trial) for task in ("a", "b") for trial in (0, 1)
    }
    assert len(traces) == 4
    assert all([s.name for s in t.steps] == ["n1", "n2", "n3"] for t in traces)
    assert all((t.outcome is Outcome.SUCCESS) == (t.task_id == "a") for t in traces)


def test_only_a_score(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "a", "score": 1}, {"id": "b", "score": 0.0})
    with pytest.raises(UnknownFormatError):
        read_traces(path)
    traces = traces_of(path, "sojourn-jsonl")
    assert [t.outcome for t in traces] == [Outcome.SUCCESS, Outcome.FAILURE]
    path = write(tmp_path, {"id": "a", "score": 1}, {"id": "b", "score": 0.5})
    with pytest.raises(ReaderError, match="--map outcome=COLUMN"):
        read_traces(path, format="sojourn-jsonl")


@pytest.mark.parametrize(
    "row",
    [
        {"state": {"success": True}, "task": {"task_id": "a"}},
        {"doc_id": 0, "doc": {}, "target": "3", "acc": 0.0},
        {"id": "s", "traceId": "t", "name": "correct", "value": 1},
        {"instance_id": "a", "history": [], "test_result": {"resolved": True}},
        {"task_id": "a", "prompt": "x", "is_solved": True},
        {"session_id": "s", "position": 0, "success": True},
    ],
)
def test_does_not_claim_lines_of_others(tmp_path: Path, row: dict[str, Any]) -> None:
    path = write(tmp_path, row, row)
    assert not SojournJsonlReader().claims(path, read_head(path))


def test_claims_a_run_whose_steps_fill_the_head(tmp_path: Path) -> None:
    steps = ["x" * 50] * (HEAD_BYTES // 40)
    path = write(tmp_path, {"outcome": True, "steps": steps, "task_id": "a"})
    assert SojournJsonlReader().claims(path, read_head(path))
    assert traces_of(path)[0].n_steps == len(steps)


def test_claims_nothing_of_the_real_logs_of_others(real_logs: Path) -> None:
    reader = SojournJsonlReader()
    for path in real_logs.rglob("*.json*"):
        assert not reader.claims(path, read_head(path)), path


def test_folders_of_several_forms(tmp_path: Path) -> None:
    write(tmp_path, {"task_id": "a", "outcome": 1}, name="a.jsonl")
    (tmp_path / "b.csv").write_text("task_id,outcome\nb,0\n")
    (tmp_path / "c.jsonl").write_text("")
    (tmp_path / "d.jsonl").write_text("x\n")
    corpus = read_traces(tmp_path)
    assert sorted(corpus.tasks.task_id) == ["a", "b"]
    assert [item.what for item in corpus.skipped] == ["file", "stranger"]
    assert sum(not isinstance(s, Skipped) for s in find_sources(tmp_path)) == 2


def test_steps_of_skipped_runs_go_with_them(tmp_path: Path) -> None:
    rows = [
        {"task_id": "a", "outcome": True, "end": "?", "steps": ["x", "y", "z"]},
        {"task_id": "b", "outcome": True, "steps": ["b1", "b2"]},
        {"task_id": "c", "outcome": True, "n_steps": 3, "steps": ["c1"]},
        {"task_id": "d", "outcome": True, "steps": ["d1"]},
    ]
    traces = traces_of(write(tmp_path, *rows))
    assert [[step.name for step in trace.steps] for trace in traces] == [["b1", "b2"], ["d1"]]


def test_a_score_is_no_verdict_among_verdicts(tmp_path: Path) -> None:
    path = write(tmp_path, {"task_id": "a", "outcome": 0}, {"task_id": "b", "score": 1})
    corpus = read_traces(path)
    found = [corpus.trace(run) for run in range(len(corpus))]
    assert [t.outcome for t in found] == [Outcome.FAILURE, Outcome.UNSCORED]
    assert [t.score for t in found] == [None, 1.0]
    ((what, count, reason),) = skips(corpus)
    assert (what, count) == ("verdict", 1)
    assert "no verdict stands there" in reason


def test_objects_without_any_verdict_need_a_second_file(tmp_path: Path) -> None:
    path = write(tmp_path, {"task_id": "a", "steps": ["x"]}, {"task_id": "b"})
    with pytest.raises(ReaderError, match="--outcomes FILE"):
        read_traces(path, format="sojourn-jsonl")
    options = ReadOptions(verdicts_elsewhere=True)
    corpus = read_traces(path, format="sojourn-jsonl", options=options)
    assert [corpus.trace(run).outcome for run in range(2)] == [Outcome.UNSCORED] * 2
    assert skips(corpus) == []
