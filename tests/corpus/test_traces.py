from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import corpus_of
from corpus.traces import TRACES
from sojourn.corpus import CorpusBuilder, Group, TraceCorpus
from sojourn.corpus.traces import GROUP_FIELDS
from sojourn.records import Outcome, Step, Trace


def build(traces: list[Trace]) -> TraceCorpus:
    builder = CorpusBuilder()
    for trace in traces:
        builder.add(trace)
    return builder.build()


def runs_with(*labels: dict[str, Any]) -> TraceCorpus:
    return build([Trace(task_id="t", outcome=Outcome.SUCCESS, **fields) for fields in labels])


# Selecting


@given(TRACES, st.data())
@settings(deadline=None, max_examples=60)
def test_select_is_picking_from_a_list(traces: list[Trace], data: st.DataObject) -> None:
    corpus = build(traces)
    n = len(traces)
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=8) if n else st.just([]))
    picked = corpus.select(np.array(index, int))
    assert [picked.trace(run) for run in range(len(picked))] == [traces[i] for i in index]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
    kept = corpus.select(mask)
    expected = [t for t, keep in zip(traces, mask, strict=True) if keep]
    assert [kept.trace(run) for run in range(len(kept))] == expected


def test_select_keeps_what_was_skipped() -> None:
    corpus = corpus_of(["sf", "s"])
    assert corpus.select(np.array([0])).skipped == corpus.skipped
    assert corpus.select(np.array([0])).n_tasks == 1


# Groups


@given(TRACES, st.lists(st.sampled_from(GROUP_FIELDS), unique=True, max_size=3))
@settings(deadline=None, max_examples=60)
def test_groups_against_a_dictionary(traces: list[Trace], by: list[str]) -> None:
    corpus = build(traces)
    expected = defaultdict(list)
    for run in range(len(corpus)):
        expected[tuple(corpus.label(field)[run] for field in by)].append(run)
    found = corpus.groups(by)
    assert [tuple(value for _, value in group.labels) for group, _ in found] == list(expected)
    assert [members.tolist() for _, members in found] == list(expected.values())
    assert all(tuple(field for field, _ in group.labels) == tuple(by) for group, _ in found)


def test_three_models_are_three_groups_and_one_pool() -> None:
    corpus = runs_with(*({"model": m} for m in "abcab"))
    assert [(str(g), m.tolist()) for g, m in corpus.groups()] == [
        ("a", [0, 3]),
        ("b", [1, 4]),
        ("c", [2]),
    ]
    ((pool, members),) = corpus.groups(by=())
    assert str(pool) == "all runs"
    assert members.tolist() == [0, 1, 2, 3, 4]


def test_a_group_without_a_label_is_one_of_its_own() -> None:
    corpus = runs_with({"agent": "x"}, {}, {"agent": "x"}, {})
    assert [members.tolist() for _, members in corpus.groups(["agent"])] == [[0, 2], [1, 3]]


def test_equal_ids_in_two_sets_are_two_tasks() -> None:
    corpus = runs_with({"task_set": "retail"}, {"task_set": "airline"}, {"task_set": "retail"})
    assert corpus.n_tasks == 2
    assert corpus.label("task_set").used() == ("retail", "airline")
    assert len(corpus.groups()) == 2


def test_group_says_its_name() -> None:
    group = Group((("task_set", "s"), ("agent", None), ("job_id", "j")))
    assert str(group) == "s / j"
    assert group.to_dict() == {"task_set": "s", "agent": None, "model": None, "job_id": "j"}


def test_unknown_group_field_is_named() -> None:
    with pytest.raises(ValueError, match=r"field must be one of task_set, agent, .*; got 'colour'"):
        corpus_of(["s"]).groups(["colour"])


# Digests of whole runs


def run_of(*digests: int, name: str = "x") -> Trace:
    steps = tuple(Step(name=name, digest=digest) for digest in digests)
    return Trace(task_id="t", outcome=Outcome.SUCCESS, steps=steps)


def test_run_digests_tell_paths_apart() -> None:
    paths = [
        (1, 2, 3),
        (1, 3, 2),
        (2, 1, 3),
        (1, 2),
        (1, 2, 3, 1),
        (3,),
        (3, 3),
        (3, 3, 3),
        (2**63,),
    ]
    digests = build([run_of(*path) for path in paths]).run_digests()
    assert len(set(digests.tolist())) == len(paths)
    assert (digests != 0).all()


def test_run_digests_do_not_depend_on_the_neighbours(rng: np.random.Generator) -> None:
    paths = [tuple(rng.integers(1, 2**62, size=n).tolist()) for n in (3, 1, 0, 5, 2, 0)]
    alone = [int(build([run_of(*path)]).run_digests()[0]) for path in paths]
    assert build([run_of(*path) for path in paths]).run_digests().tolist() == alone
    assert alone[2] == alone[5] == 0


def test_a_step_without_a_digest_leaves_its_run_unknown() -> None:
    digests = build([run_of(1, 0, 3), run_of(1, 2), run_of(0)]).run_digests()
    assert digests[0] == digests[2] == 0
    assert digests[1] != 0


def test_equal_attempts_have_equal_digests() -> None:
    digests = build([run_of(7, 8), run_of(9), run_of(7, 8)]).run_digests()
    assert digests[0] == digests[2] != digests[1]


def test_no_digests_at_all() -> None:
    corpus = build([run_of(0, 0)])
    assert corpus.digests is None
    assert corpus.run_digests().tolist() == [0]
    assert corpus_of(["s"]).without_digests().digests is None


# Checks


def test_a_corpus_checks_its_columns() -> None:
    corpus = corpus_of(["sf"])
    with pytest.raises(ValueError, match="score has 1 rows, outcome has 2"):
        corpus.replace(score=[0.5])
    with pytest.raises(ValueError, match="agent has another number of rows"):
        corpus.replace(agent=corpus.agent.select(np.array([0])))
    with pytest.raises(ValueError, match="offsets do not fit"):
        corpus.replace(offsets=[0, 1, 2])


def test_a_corpus_cannot_be_changed() -> None:
    corpus = corpus_of(["sf"])
    for name in ("outcome", "score", "steps", "offsets", "task"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(corpus, name)[0] = 0
