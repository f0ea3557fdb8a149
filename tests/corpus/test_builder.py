from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.traces import TRACES
from sojourn.corpus import Categorical, CorpusBuilder, StepTypes, TraceBatch
from sojourn.records import End, Outcome, Skipped, Step, Trace


def trace(task: str = "a", **fields: Any) -> Trace:
    return Trace(**{"task_id": task, "outcome": Outcome.SUCCESS} | fields)


def build(*traces: Trace) -> Any:
    builder = CorpusBuilder()
    for item in traces:
        builder.add(item)
    return builder.build()


@given(TRACES)
@settings(deadline=None, max_examples=60)
def test_what_goes_in_comes_out(traces: list[Trace]) -> None:
    corpus = build(*traces)
    assert [corpus.trace(run) for run in range(len(corpus))] == traces
    assert corpus.n_tasks == len({(t.task_set, t.task_id) for t in traces})


def test_more_runs_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.corpus.builder._CHUNK", 3)
    traces = [trace(f"t{i}", n_steps=i, source_uri="f", job_id="f") for i in range(10)]
    corpus = build(*traces)
    assert [corpus.trace(run) for run in range(10)] == traces


def test_the_file_is_the_job_where_none_is_named() -> None:
    corpus = build(trace(source_uri="f"), trace(source_uri="f", job_id="j"), trace())
    assert [corpus.job_id[run] for run in range(3)] == ["f", "j", None]


@pytest.mark.parametrize("as_batch", [False, True])
def test_a_repeated_attempt_is_kept_once_and_counted(as_batch: bool) -> None:
    first = trace(task_repeat=0, outcome=Outcome.FAILURE, source_uri="f", job_id="f")
    again = trace(task_repeat=0, source_uri="f", job_id="f")
    builder = CorpusBuilder()
    if as_batch:
        builder.add_batch(
            TraceBatch(
                n_runs=3,
                numbers={"outcome": np.array([1, 0, 0]), "task_repeat": np.zeros(3)},
                labels={
                    "task_id": Categorical.constant("a", 3),
                    "source_uri": Categorical.constant("f", 3),
                },
            )
        )
    else:
        for item in (first, again, again):
            builder.add(item)
    corpus = builder.build()
    assert [corpus.trace(run) for run in range(len(corpus))] == [first]
    (skipped,) = corpus.skipped
    assert (skipped.count, skipped.what, skipped.source) == (2, "run", "f")
    assert "the first was kept" in skipped.reason


def test_repeats_that_contradict_each_other_are_told_apart() -> None:
    base = {"task_repeat": 0, "job_id": "j", "n_steps": 3}
    corpus = build(
        trace(**base),
        trace(**base),
        trace(**base | {"n_steps": 4}),
        trace(**base | {"end": "limit"}),
    )
    assert len(corpus) == 1
    counts = {item.reason: item.count for item in corpus.skipped}
    assert [(count, "contradicts" in reason) for reason, count in counts.items()] == [
        (1, False),
        (2, True),
    ]


# Copies of a source


def sources(*lots: list[Trace]) -> Any:
    builder = CorpusBuilder()
    for number, lot in enumerate(lots):
        builder.open_source(f"s{number}")
        for item in lot:
            builder.add(item)
    return builder.build()


def lot(n: int = 12, **fields: Any) -> list[Trace]:
    outcomes = (Outcome.SUCCESS, Outcome.FAILURE)
    return [trace(f"t{i}", outcome=outcomes[i % 2], **fields) for i in range(n)]


def test_a_source_that_holds_the_runs_of_another_is_kept_once() -> None:
    other = lot()
    other[3] = trace("t3")
    corpus = sources(lot(), other, lot()[::-1], lot(source_uri="f", job_id="f"))
    assert len(corpus) == 24
    assert [(s.source, s.count, s.what) for s in corpus.skipped] == [
        ("s2", 12, "run"),
        ("s3", 12, "run"),
    ]
    assert "the same runs stand in s0 too" in corpus.skipped[0].reason


@pytest.mark.parametrize("field", [{"job_id": "j"}, {"model": "m"}, {"n_steps": 3}, {"agent": "a"}])
def test_sources_that_differ_in_anything_are_two(field: dict[str, Any]) -> None:
    assert len(sources(lot(), lot(**field))) == 24


def test_sources_with_other_actions_are_two() -> None:
    one, two = (lot(steps=(Step(name="a", digest=d),)) for d in (1, 2))
    bare = lot(steps=(Step(name="a"),))
    assert len(sources(one, two)) == 24
    assert len(sources(one, bare)) == 12  # digests may have been left out
    assert len(sources(one, one)) == 12
    assert len(sources(one, lot(steps=(Step(name="b"),)))) == 24


def test_equal_sources_that_chance_explains_are_kept_and_told() -> None:
    # Seven of ten seeds succeed at one task: no success may be taken for a copy of another.
    outcomes = [Outcome.SUCCESS] * 7 + [Outcome.FAILURE] * 3
    corpus = sources(*[[trace(outcome=outcome)] for outcome in outcomes])
    assert len(corpus) == 10
    assert [(s.what, s.count) for s in corpus.skipped] == [("key", 6), ("key", 2)]


def test_equal_rows_of_one_source_are_no_copies() -> None:
    assert len(sources(lot() + lot())) == 24
    assert len(build(*lot(), *lot())) == 24


@pytest.mark.parametrize(
    "other",
    [
        {"task_repeat": 1},
        {"task_repeat": None},
        {"task_set": "s"},
        {"agent": "b"},
        {"model": "m"},
        {"job_id": "k"},
        {"task_id": "b"},
    ],
)
def test_runs_that_differ_in_any_part_of_the_key_are_two(other: dict[str, Any]) -> None:
    base = {"task_repeat": 0, "job_id": "j"}
    corpus = build(trace(**base), trace(**base | other))
    assert len(corpus) == 2
    assert corpus.skipped == ()


def test_attempts_without_a_number_are_never_taken_for_repeats() -> None:
    assert len(build(trace(), trace(), trace())) == 3


def test_skips_of_one_reason_add_up() -> None:
    builder = CorpusBuilder()
    for count in (1, 4):
        builder.skip(Skipped(source="f", reason="r", count=count))
    builder.skip(Skipped(source="f", reason="r", what="line"))
    assert builder.build().skipped == (
        Skipped(source="f", reason="r", count=5),
        Skipped(source="f", reason="r", what="line"),
    )


def test_nothing_at_all() -> None:
    corpus = CorpusBuilder().build()
    assert len(corpus) == 0
    assert corpus.n_tasks == 0
    assert not corpus.has_steps
    assert corpus.groups() == []
    assert corpus.groups(by=()) == []
    assert corpus.run_digests().size == 0
    assert len(corpus.select(np.zeros(0, bool))) == 0


# Batches


def batch(n_runs: int = 2, **changes: Any) -> TraceBatch:
    fields: dict[str, Any] = {
        "n_runs": n_runs,
        "numbers": {"outcome": np.zeros(n_runs, np.int8)},
        "labels": {"task_id": Categorical.constant("a", n_runs)},
    }
    return TraceBatch(**fields | changes)


def test_a_batch_and_records_make_one_corpus() -> None:
    builder = CorpusBuilder()
    builder.add(trace("x", steps=(Step(name="n1", digest=5), Step(name="n2", digest=6))))
    types = StepTypes.from_keys([("n2", 0, 0, -1, 1), ("n3", 0, 0, 1, 2)])
    builder.add_batch(
        TraceBatch(
            n_runs=3,
            numbers={"outcome": np.array([0, 1, 2]), "n_steps": np.array([2, 0, 1])},
            labels={
                "task_id": Categorical(codes=np.array([0, 1, 0]), values=("y", "x")),
                "task_set": Categorical(codes=np.array([0, -1, -1]), values=("s",)),
                "model": Categorical(codes=np.array([0, 1, -1]), values=("", "m")),
            },
            offsets=np.array([0, 2, 2, 3]),
            steps=np.array([0, 1, 1], np.int32),
            step_types=types,
        )
    )
    builder.add(trace("y", task_set="s", end=End.LIMIT))
    assert len(builder) == 5
    corpus = builder.build()
    assert [(corpus.trace(r).task_set, corpus.trace(r).task_id) for r in range(5)] == [
        ("", "x"),
        ("s", "y"),
        ("", "x"),
        ("", "y"),
        ("s", "y"),
    ]
    assert corpus.n_tasks == 3
    assert [[s.name for s in corpus.trace(r).steps] for r in range(5)] == [
        ["n1", "n2"],
        ["n2", "n3"],
        [],
        ["n3"],
        [],
    ]
    assert [corpus.model[r] for r in range(5)] == [None, None, "m", None, None]
    assert [str(corpus.trace(r).end) for r in range(5)] == ["unknown"] * 4 + ["limit"]
    assert corpus.digests is not None
    assert corpus.digests.tolist() == [5, 6, 0, 0, 0]
    assert len(corpus.step_types) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"numbers": {}}, "lacks outcome"),
        ({"labels": {}}, "lacks task_id"),
        (
            {"numbers": {"outcome": np.zeros(2), "colour": np.zeros(2)}},
            "unknown columns in a batch: colour",
        ),
        ({"numbers": {"outcome": np.zeros(3)}}, "outcome has 3 rows in a batch of 2 runs"),
        ({"labels": {"task_id": Categorical.constant("a", 1)}}, "task_id has 1 rows"),
        ({"labels": {"task_id": Categorical.missing(2)}}, "has no task_id"),
        ({"offsets": np.zeros(2, np.int64)}, "2 offsets in a batch of 2 runs"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    builder = CorpusBuilder()
    with pytest.raises(ValueError, match=words):
        builder.add_batch(batch(**changes))
    assert len(builder) == 0


def test_the_job_of_a_batch_is_its_file_where_a_row_names_none() -> None:
    labels = {
        "task_id": Categorical.constant("a", 2),
        "source_uri": Categorical.constant("f", 2),
        "job_id": Categorical(codes=np.array([-1, 0]), values=("j",)),
    }
    builder = CorpusBuilder()
    builder.add_batch(batch(labels=labels))
    corpus = builder.build()
    assert [corpus.job_id[run] for run in (0, 1)] == ["f", "j"]


def test_an_empty_batch_is_no_harm() -> None:
    builder = CorpusBuilder()
    builder.add_batch(batch(0))
    builder.add(trace())
    assert len(builder.build()) == 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.integers(1, 5))
@settings(deadline=None)
def test_batches_cut_anywhere_are_the_same(tasks: list[int], size: int) -> None:
    builder = CorpusBuilder()
    names = ("t0", "t1", "t2", "t3")
    for start in range(0, len(tasks), size):
        part = tasks[start : start + size]
        builder.add_batch(
            batch(len(part), labels={"task_id": Categorical(codes=np.array(part), values=names)})
        )
    corpus = builder.build()
    assert [corpus.trace(run).task_id for run in range(len(corpus))] == [names[t] for t in tasks]
    assert corpus.n_tasks == len(set(tasks))
