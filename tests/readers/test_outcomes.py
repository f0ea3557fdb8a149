"""Verdicts from a second file: every form it may have, and what the join counts."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.corpus import CorpusBuilder, TraceCorpus
from sojourn.errors import EmptySourceError, ReaderError, UnknownFormatError
from sojourn.readers import read_traces
from sojourn.readers.outcomes import Outcomes, join_outcomes, read_outcomes
from sojourn.records import End, LimitKind, Outcome, Trace

S, F, U = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNSCORED


def corpus_of(*traces: Trace) -> TraceCorpus:
    builder = CorpusBuilder()
    for trace in traces:
        builder.add(trace)
    return builder.build()


def run(task_id: str, repeat: int | None = None, outcome: Outcome = U, **fields: Any) -> Trace:
    return Trace(task_id=task_id, task_repeat=repeat, outcome=outcome, **fields)


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def said(outcomes: Outcomes) -> dict[str, tuple[Outcome, bool]]:
    traces = [outcomes.verdicts.trace(row) for row in range(len(outcomes))]
    return {t.task_id: (t.outcome, t.end is End.INFRA_ERROR) for t in traces}


def results(corpus: TraceCorpus) -> list[Outcome]:
    return [corpus.trace(row).outcome for row in range(len(corpus))]


def counted(corpus: TraceCorpus) -> dict[str, int]:
    """Return the counts by the first words of their reasons."""
    return {" ".join(item.reason.split()[:4]): item.count for item in corpus.skipped}


PLAIN = {"a": (S, False), "b": (F, False), "c": (U, False)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.json", {"a": True, "b": False, "c": None}),
        ("v.json", {"a": 1, "b": 0.0, "c": "unscored"}),
        ("v.json", {"a": "Success", "b": "failure", "c": ""}),
        ("v.json", {"a": "PASS", "b": "no", "c": "error"}),
        ("v.csv", "task_id,outcome\na,Passed\nb,fail\nc,error\n"),
        ("v.json", {"a": {"resolved": True}, "b": {"success": 0}, "c": {}}),
        (
            "v.jsonl",
            '{"task_id": "a", "outcome": true}\n{"task_id": "b", "outcome": "failure"}\n'
            '{"task_id": "c", "outcome": null}\n',
        ),
        (
            "v.jsonl",
            '{"instance_id": "a", "resolved": true}\n{"instance_id": "b", "resolved": false}\n'
            '{"instance_id": "c", "resolved": null}\n',
        ),
        ("v.csv", "task_id,outcome\na,success\nb,failure\nc,unscored\n"),
        ("v.csv", "\ufeffid,success\r\na,1\r\nb,0\r\nc,\r\n"),
        ("v.csv", "note,instance_id,resolved\nx,a,True\ny,b,False\nz,c,\n"),
    ],
)
def test_reads_every_form_of_a_verdict(tmp_path: Path, name: str, content: Any) -> None:
    assert said(read_outcomes(write(tmp_path / name, content))) == PLAIN


def test_a_second_version_report_asks_for_infrastructure_first(tmp_path: Path) -> None:
    report = {
        "total_instances": 9,
        "completed_ids": ["a", "b", "d"],
        "incomplete_ids": ["z"],
        "empty_patch_ids": ["e"],
        "submitted_ids": ["a", "b", "c", "d", "e", "f"],
        "resolved_ids": ["a"],
        "unresolved_ids": ["b", "d"],
        "error_ids": ["c", "f"],
        "infra_failure_ids": ["d", "f"],
        "ambiguous_failure_ids": ["b"],
        "failure_reasons": {"d": "out_of_memory"},
        "schema_version": 2,
    }
    assert said(read_outcomes(write(tmp_path / "model.run.json", report))) == {
        "a": (S, False),
        "b": (F, False),
        "c": (U, False),
        "d": (U, True),
        "e": (F, False),
        "f": (U, True),
    }


def test_a_first_version_report_has_other_names(tmp_path: Path) -> None:
    report = {
        "no_generation": ["e"],
        "generated": ["a", "b", "d"],
        "with_logs": ["a", "b", "d"],
        "install_fail": ["d"],
        "reset_failed": [],
        "no_apply": ["f"],
        "applied": ["a", "b"],
        "test_errored": [],
        "test_timeout": [],
        "resolved": ["a"],
    }
    assert said(read_outcomes(write(tmp_path / "report.json", report))) == {
        "a": (S, False),
        "b": (F, False),
        "d": (U, True),
        "e": (F, False),
        "f": (F, False),
    }


def test_reports_of_instances_are_verdicts_too(tmp_path: Path) -> None:
    report = {"a": {"resolved": True}, "b": {"resolved": False, "infra_failure": True}}
    assert said(read_outcomes(write(tmp_path / "r.json", report))) == {
        "a": (S, False),
        "b": (U, True),
    }


def test_what_is_no_verdict_is_counted(tmp_path: Path) -> None:
    outcomes = read_outcomes(
        write(tmp_path / "v.json", {"a": True, "b": 0.5, "c": "maybe", "d": []})
    )
    assert said(outcomes) == {"a": (S, False)}
    assert [(item.count, item.what) for item in outcomes.verdicts.skipped] == [(3, "line")]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", EmptySourceError),
        ("  \n", EmptySourceError),
        ("{}", EmptySourceError),
        ("[1, 2]", UnknownFormatError),
        ("hello", UnknownFormatError),
        ('{"a": true', ReaderError),
        ('{"resolved_ids": "a"}', ReaderError),
        ('{"a":' * 100_000, ReaderError),
        ("task_id,outcome\n", EmptySourceError),
        ("task_id,note\na,b\n", ReaderError),
    ],
)
def test_a_bad_file_is_a_named_error(
    tmp_path: Path, content: str, error: type[ReaderError]
) -> None:
    path = write(tmp_path / "verdicts.txt", content)
    with pytest.raises(error, match=r"verdicts\.txt"):
        read_outcomes(path)
    with pytest.raises(ReaderError, match="no such file"):
        read_outcomes(tmp_path / "none")


def test_verdicts_are_joined_by_task_and_both_sides_are_counted(tmp_path: Path) -> None:
    corpus = corpus_of(run("a"), run("b"), run("c"), run("d", outcome=F))
    path = write(tmp_path / "v.json", {"a": True, "b": False, "d": True, "x": True, "y": False})
    joined = join_outcomes(corpus, read_outcomes(path))
    assert results(joined) == [S, F, U, S]
    assert counted(joined) == {
        "no verdict on the": 1,
        "a verdict fits no": 2,
        "the run's own verdict": 1,
    }
    assert {item.what for item in joined.skipped} == {"key", "line"}
    assert results(corpus) == [U, U, U, F]


def test_an_infrastructure_fault_becomes_the_end(tmp_path: Path) -> None:
    corpus = corpus_of(
        run("a", end=End.LIMIT, limit_kind=LimitKind.COST), run("b", end=End.FINISHED)
    )
    path = write(tmp_path / "v.json", {"resolved_ids": ["b"], "infra_failure_ids": ["a"]})
    joined = join_outcomes(corpus, read_outcomes(path))
    first, second = (joined.trace(row) for row in range(2))
    assert (first.outcome, first.end, first.limit_kind) == (U, End.INFRA_ERROR, None)
    assert (second.outcome, second.end) == (S, End.FINISHED)


def test_no_verdict_takes_no_verdict_away(tmp_path: Path) -> None:
    corpus = corpus_of(run("a", outcome=S), run("b"))
    joined = join_outcomes(corpus, read_outcomes(write(tmp_path / "v.json", {"a": None, "b": 1})))
    assert results(joined) == [S, S]
    assert counted(joined) == {}


def test_a_verdict_that_fits_several_runs_is_given_to_none(tmp_path: Path) -> None:
    corpus = corpus_of(run("a", 0), run("a", 1), run("b", 0))
    joined = join_outcomes(corpus, read_outcomes(write(tmp_path / "v.json", {"a": True, "b": 1})))
    assert results(joined) == [U, U, S]
    assert counted(joined) == {"a verdict fits several": 2}


def test_the_attempt_tells_runs_apart(tmp_path: Path) -> None:
    corpus = corpus_of(run("a", 0), run("a", 1), run("b", 0))
    path = write(tmp_path / "v.csv", "task_id,task_repeat,outcome\na,1,1\na,0,0\nb,3,1\n")
    joined = join_outcomes(corpus, read_outcomes(path))
    assert results(joined) == [F, S, U]
    assert counted(joined) == {"no verdict on the": 1, "a verdict fits no": 1}


def test_an_attempt_counts_only_where_the_runs_state_theirs(tmp_path: Path) -> None:
    corpus = corpus_of(run("a"), run("b"))
    path = write(tmp_path / "v.csv", "task_id,trial,outcome\na,0,1\nb,0,0\nb,1,1\n")
    joined = join_outcomes(corpus, read_outcomes(path))
    assert results(joined) == [S, U]
    assert counted(joined) == {"verdicts on one run": 1}


def test_model_and_set_tell_runs_apart(tmp_path: Path) -> None:
    corpus = corpus_of(
        run("a", task_set="p", model="m"),
        run("a", task_set="q", model="m"),
        run("a", task_set="p", model="n"),
    )
    path = write(
        tmp_path / "v.csv", "task_id,task_set,model,outcome\na,p,m,1\na,q,m,0\na,p,n,1\na,q,n,1\n"
    )
    joined = join_outcomes(corpus, read_outcomes(path))
    assert results(joined) == [S, F, S]
    assert counted(joined) == {"a verdict fits no": 1}


def test_scores_go_with_the_verdict(tmp_path: Path) -> None:
    corpus = corpus_of(run("a", score=0.2), run("b", outcome=F, score=0.2), run("c", score=0.3))
    path = write(tmp_path / "v.csv", "task_id,outcome,score\na,1,0.9\nb,1,\nc,0,\n")
    joined = join_outcomes(corpus, read_outcomes(path))
    np.testing.assert_array_equal(joined.score, [0.9, np.nan, 0.3])


def test_a_file_of_other_tasks_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "v.json", {"x": True})
    with pytest.raises(ReaderError, match=r"none of its 1 verdicts .* 'x', that of the runs 'a'"):
        join_outcomes(corpus_of(run("a")), read_outcomes(path))


def slow_join(runs: Sequence[Trace], verdicts: Sequence[Trace]) -> Iterator[Outcome]:
    """Ask every verdict about every run."""

    def fits(verdict: Trace, run: Trace) -> bool:
        return (verdict.task_id, verdict.task_repeat, verdict.model) == (
            run.task_id,
            run.task_repeat,
            run.model,
        )

    for one in runs:
        found = {v.outcome for v in verdicts if fits(v, one)}
        alone = sum((r.task_id, r.task_repeat, r.model) == (one.task_id, one.task_repeat, one.model)
                    for r in runs) == 1  # fmt: skip
        yield found.pop() if len(found) == 1 and alone else one.outcome


def test_agrees_with_asking_every_verdict_about_every_run(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    def draw(n: int, outcome: Outcome | None) -> list[Trace]:
        return [
            run(
                f"t{rng.integers(12)}",
                int(rng.integers(3)),
                outcome or (S, F)[rng.integers(2)],
                model=f"m{rng.integers(2)}",
                job_id="" if outcome is None else f"job {position}",
            )
            for position in range(n)
        ]

    for _ in range(20):
        runs, verdicts = draw(40, U), draw(40, None)
        path = tmp_path / "v.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["task_id", "task_repeat", "model", "outcome"])
            writer.writerows([v.task_id, v.task_repeat, v.model, v.outcome] for v in verdicts)
        joined = join_outcomes(corpus_of(*runs), read_outcomes(path))
        assert results(joined) == list(slow_join(runs, verdicts))


def test_joins_the_reports_of_real_runs(real_logs: Path, tmp_path: Path) -> None:
    folder = real_logs / "mini-swe-agent" / "deepseek_chat_test_1-100"
    own = read_traces(folder)
    verdicts = {}
    for path in folder.glob("*.report.json"):
        verdicts |= json.loads(path.read_text())
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in folder.glob("*.traj.json"):
        (bare / path.name).write_bytes(path.read_bytes())
    corpus = read_traces(bare)
    assert set(results(corpus)) == {U}
    joined = join_outcomes(corpus, read_outcomes(write(tmp_path / "reports.json", verdicts)))
    assert results(joined) == results(own)
    assert results(joined).count(S) == 12
    assert counted(joined) == {}


@pytest.mark.parametrize("column", ["run_id", "trace_id", "session_id"])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_row_that_names_the_run_tells_its_task(column: str, form: str, tmp_path: Path) -> None:
    runs = corpus_of(*(run(f"r{k}", agent="Coder", model="m") for k in range(4)), run("stray"))
    rows = [
        {column: f"r{k}", "task_id": f"t{k // 2}", "task_repeat": k % 2, "outcome": k % 3 == 0}
        for k in range(4)
    ]
    if form == "csv":
        table = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path = write(tmp_path / "v.csv", "\n".join(table) + "\n")
    else:
        path = write(tmp_path / "v.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = join_outcomes(runs, read_outcomes(path))
    traces = [found.trace(k) for k in range(5)]
    assert [(t.task_id, t.task_repeat, t.outcome) for t in traces] == [
        *(("t0", 0, S), ("t0", 1, F), ("t1", 0, F), ("t1", 1, S)),
        ("stray", None, U),
    ]
    assert {(t.agent, t.model) for t in traces[:4]} == {("Coder", "m")}
    assert counted(found) == {"no verdict on the": 1}


def test_a_row_that_names_the_run_may_tell_more_of_it(tmp_path: Path) -> None:
    text = "run_id,task_id,task_set,model,success\nr0,t,web,new,1\nr1,t,,,0\n"
    runs = corpus_of(run("r0", task_set="own", model="old"), run("r1", task_set="own", model="old"))
    found = join_outcomes(runs, read_outcomes(write(tmp_path / "v.csv", text)))
    traces = [found.trace(k) for k in range(2)]
    assert [(t.task_set, t.task_id, t.model) for t in traces] == [
        ("web", "t", "new"),
        ("own", "t", "old"),
    ]


def test_runs_that_are_given_one_attempt_are_not_numbered(tmp_path: Path) -> None:
    text = "run_id,task_id,task_repeat,success\nr0,t,0,1\nr1,t,0,0\nr2,t,1,0\n"
    runs = corpus_of(*(run(f"r{k}") for k in range(3)))
    found = join_outcomes(runs, read_outcomes(write(tmp_path / "v.csv", text)))
    assert found.task_repeat.tolist() == [-1, -1, 1]
    assert counted(found) == {"runs that are given": 2}


def test_the_run_alone_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "trace_id,success\nr0,1\nr1,0\n")
    found = join_outcomes(corpus_of(run("r0"), run("r1")), read_outcomes(path))
    assert results(found) == [S, F]
    assert [found.trace(k).task_id for k in range(2)] == ["r0", "r1"]


def test_sessions_that_are_no_ids_of_runs_do_not_take_the_join(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "session_id,task_id,success\nmonday,a,1\nmonday,b,0\n")
    found = join_outcomes(corpus_of(run("a"), run("b")), read_outcomes(path))
    assert results(found) == [S, F]


def test_ids_that_are_of_sessions_and_of_tasks_are_those_of_tasks(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "session_id,task_id,success\n1,1,1\n1,2,0\n2,3,1\n")
    found = join_outcomes(corpus_of(run("1"), run("2"), run("3")), read_outcomes(path))
    assert results(found) == [S, F, S]
    assert [found.trace(k).task_id for k in range(3)] == ["1", "2", "3"]
