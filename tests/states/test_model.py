"""States by name, by table and by clusters; and that no state can see what comes later."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from sojourn.corpus import CorpusBuilder, Policy, TraceCorpus, resolve
from sojourn.errors import NothingUsableError
from sojourn.process import count_transitions
from sojourn.readers import read_traces
from sojourn.records import Actor, End, LimitKind, Outcome, Step, StepKind, Trace
from sojourn.sequences import CENSORED, FAILURE, SUCCESS
from sojourn.states import fit_states, repeats_previous, step_features
from sojourn.states.model import runs_with_steps


def corpus_of(*paths: list[str | Step], **fields: object) -> TraceCorpus:
    builder = CorpusBuilder()
    for k, path in enumerate(paths):
        steps = tuple(s if isinstance(s, Step) else Step(name=s) for s in path)
        builder.add(
            Trace(
                task_id=f"t{k}",
                outcome=Outcome.SUCCESS if k % 2 == 0 else Outcome.FAILURE,
                end=End.FINISHED,
                steps=steps,
                n_steps=len(steps),
                **fields,  # type: ignore[arg-type]
            )
        )
    return builder.build()


def test_names_are_states_the_most_frequent_first() -> None:
    corpus = corpus_of(["b", "a", "b"], ["c", "b"], ["c"])
    model = fit_states(corpus)
    assert model.state_names == ("b", "c", "a")
    assert model.mode == "names"
    assert model.order_free
    sequences = model.transform(corpus)
    assert sequences.states.tolist() == [0, 2, 0, 1, 0, 1]
    assert sequences.offsets.tolist() == [0, 3, 5, 6]
    assert sequences.event.tolist() == [SUCCESS, FAILURE, SUCCESS]
    assert sequences.state_names == model.state_names


def test_rare_names_are_pooled_and_other_counts() -> None:
    common = ["a"] * 60 + ["b"] * 38
    model = fit_states(corpus_of([*common, "x", "y"]), min_share=0.011)
    assert model.state_names == ("a", "b", "other")
    assert fit_states(corpus_of([*common, "x", "y"])).state_names == ("a", "b", "x", "y")
    eleven = [f"n{k:02d}" for k in range(11)] * 20
    assert fit_states(corpus_of([*eleven, "x"])).mode == "names"
    # Twelve frequent names and ``other`` are thirteen.
    twelve = [f"n{k:02d}" for k in range(12)] * 20
    assert fit_states(corpus_of(twelve)).mode == "names"
    assert fit_states(corpus_of([*twelve, "x"])).mode == "clusters"
    assert fit_states(corpus_of([*twelve, "x"]), mode="names").n_states == 13


def test_a_name_never_seen_goes_to_other_or_to_its_kind() -> None:
    talk = Step(name="respond", kind=StepKind.MODEL, n_calls=0)
    seen = corpus_of(["a", "a", "a", talk, talk])
    new = corpus_of([Step(name="hello", kind=StepKind.MODEL, n_calls=0), "z", "a"])
    model = fit_states(seen)
    assert model.state_names == ("a", "respond")
    assert model.transform(new).states.tolist() == [1, 0, 0]
    pooled = fit_states(corpus_of(["a"] * 200 + ["x"]))
    assert pooled.transform(new).states.tolist() == [1, 1, 0]
    user = corpus_of([Step(name="?", kind=StepKind.USER, actor=Actor.USER)])
    assert model.transform(user).states.tolist() == [0]


def test_a_step_named_other_joins_the_pool() -> None:
    model = fit_states(corpus_of(["other"] * 100 + ["a"] * 100 + ["x"]))
    assert model.state_names == ("a", "other")
    assert model.transform(corpus_of(["x", "other", "a"])).states.tolist() == [1, 1, 0]


def test_a_table_replaces_both() -> None:
    corpus = corpus_of(["respond", "book", "transfer"], ["respond", "search"])
    model = fit_states(corpus, table={"respond": "R", "*": "T", "transfer": "X"})
    assert model.state_names == ("R", "T", "X")
    assert model.transform(corpus).states.tolist() == [0, 1, 2, 0, 1]
    with pytest.raises(ValueError, match="'book', 'search'"):
        fit_states(corpus, table={"respond": "R", "transfer": "X"})
    with pytest.raises(ValueError, match="empty"):
        fit_states(corpus, table={})
    with pytest.raises(ValueError, match="must map"):
        fit_states(corpus, table={"respond": ""})


def test_features_are_indicators_and_unknown_is_neither() -> None:
    corpus = corpus_of(
        [Step(name="a", ok=True), Step(name="b", ok=False), Step(name="a"), Step(name="rare")]
    )
    features = step_features(corpus.step_types, names=("a", "b"))
    named = dict(zip(features.columns, features.matrix.T.tolist(), strict=True))
    assert named["name=a"] == [1, 0, 1, 0]
    assert named["name=other"] == [0, 0, 0, 1]
    assert named["ok=yes"] == [1, 0, 0, 0]
    assert named["ok=error"] == [0, 1, 0, 0]
    assert named["kind=tool"] == [1, 1, 1, 1]
    assert step_features(corpus.step_types, fields=()).matrix.shape == (4, 0)
    with pytest.raises(ValueError, match="fields"):
        step_features(corpus.step_types, fields=("length",))


def test_features_cannot_be_given_the_future() -> None:
    assert list(inspect.signature(step_features).parameters) == ["types", "fields", "names"]


@pytest.mark.parametrize("repeats", [False, True])
def test_states_of_a_head_do_not_depend_on_the_rest(repeats: bool) -> None:
    rng = np.random.default_rng(3)
    names = [f"n{k}" for k in range(20)]
    paths = [[str(n) for n in rng.choice(names, size=12)] for _ in range(30)]
    model = fit_states(corpus_of(*paths), repeats=repeats)
    assert model.order_free is not repeats
    whole = model.transform(corpus_of(*paths))
    heads = model.transform(corpus_of(*[path[:5] for path in paths]))
    for r in range(30):
        np.testing.assert_array_equal(
            whole.states[whole.offsets[r] :][:5], heads.states[heads.offsets[r] :][:5]
        )


def test_repetition_is_within_a_run_and_by_digest_where_known() -> None:
    steps = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    offsets = np.array([0, 2, 2, 5])
    assert repeats_previous(steps, offsets).tolist() == [False, True, False, False, True]
    digests = np.array([5, 6, 7, 8, 8], dtype=np.uint64)
    assert repeats_previous(steps, offsets, digests).tolist() == [False, False, False, False, True]
    unknown = np.array([0, 6, 7, 8, 0], dtype=np.uint64)
    assert repeats_previous(steps, offsets, unknown).tolist() == [False, True, False, False, True]
    assert repeats_previous(steps[:0], np.array([0, 0])).size == 0


def test_clusters_find_the_kinds_of_steps_and_keep_the_curve() -> None:
    talk = [Step(name=f"say{k}", kind=StepKind.MODEL, n_calls=0) for k in range(8)]
    good = [Step(name=f"tool{k}", ok=True) for k in range(8)]
    bad = [Step(name=f"tool{k}", ok=False) for k in range(8)]
    corpus = corpus_of(*([*talk, *good, *bad] for _ in range(10)))
    model = fit_states(corpus, fields=("kind", "ok"), mode="clusters")
    assert model.n_states == 3
    assert [m for m, _ in model.silhouette] == [2, 3]
    assert model.silhouette[1][1] == pytest.approx(1.0)
    states = model.transform(corpus).states[:24].reshape(3, 8)
    assert np.all(states == states[:, :1])
    assert len(set(states[:, 0].tolist())) == 3
    assert sorted("error" in name for name in model.state_names) == [False, False, True]
    # A distinct step never seen joins the nearest centroid.
    new = corpus_of([Step(name="fresh", ok=False)])
    assert model.transform(new).states[0] == states[2, 0]
    json.dumps(model.to_dict(), allow_nan=False)
    assert "silhouette at" in str(model)


def test_the_number_of_clusters_may_be_given_and_is_capped_by_the_distinct_steps() -> None:
    corpus = corpus_of([f"n{k}" for k in range(6)] * 3)
    assert fit_states(corpus, mode="clusters", n_states=4).n_states == 4
    assert fit_states(corpus, mode="clusters", n_states=40).n_states == 6
    one = fit_states(corpus_of(["a", "a"]), mode="clusters")
    assert one.state_names == ("a",)
    assert one.silhouette == ()
    assert fit_states(corpus, mode="clusters", n_states=1).n_states == 1


def test_names_of_clusters_are_all_different() -> None:
    steps = [Step(name="run", ok=o, n_calls=c) for o in (True, False, None) for c in (1, 2)]
    model = fit_states(corpus_of(steps * 4), mode="clusters", n_states=3)
    assert len(set(model.state_names)) == 3


def test_ties_of_the_silhouette_go_to_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sojourn.states.rule.mean_silhouettes", lambda *a: np.array([0.1, 0.7, 0.7 + 1e-15, 0.2])
    )
    corpus = corpus_of([f"n{k}" for k in range(5)] * 3)
    assert fit_states(corpus, mode="clusters").n_states == 3


def test_transform_keeps_policy_tasks_and_units_and_leaves_out_runs_without_steps() -> None:
    builder = CorpusBuilder()
    common = {"end": End.FINISHED, "outcome": Outcome.SUCCESS}
    builder.add(Trace(task_id="a", cluster="one", steps=(Step(name="x"),), **common))
    builder.add(Trace(task_id="b", cluster="one", n_steps=7, **common))
    builder.add(Trace(task_id="c", cluster="two", n_steps=0, **common))
    builder.add(
        Trace(task_id="d", outcome=Outcome.UNSCORED, end=End.INFRA_ERROR, steps=(Step(name="x"),))
    )
    builder.add(
        Trace(
            task_id="e",
            outcome=Outcome.FAILURE,
            end=End.LIMIT,
            limit_kind=LimitKind.STEPS,
            steps=(Step(name="y"), Step(name="x")),
        )
    )
    corpus = builder.build()
    runs = resolve(corpus)
    assert runs_with_steps(corpus, runs).tolist() == [True, False, True, True]
    sequences = fit_states(corpus).transform(corpus, runs)
    assert sequences.lengths.tolist() == [1, 0, 2]
    assert sequences.event.tolist() == [SUCCESS, SUCCESS, CENSORED]
    assert sequences.task.tolist() == runs.task[[0, 2, 3]].tolist()
    assert sequences.unit.tolist() == runs.unit[[0, 2, 3]].tolist()
    failed = resolve(corpus, Policy(limits="failure"))
    assert fit_states(corpus).transform(corpus, failed).event.tolist() == [1, 1, 2]


def test_nothing_to_choose_from_and_bad_settings() -> None:
    with pytest.raises(NothingUsableError, match="no run"):
        fit_states(corpus_of([], []))
    corpus = corpus_of(["a", "b"])
    for setting in (
        {"mode": "guess"},
        {"max_names": 0},
        {"min_share": 1.0},
        {"min_states": 5, "max_states": 2},
    ):
        with pytest.raises(ValueError, match="must"):
            fit_states(corpus, **setting)  # type: ignore[arg-type]


def test_states_feed_the_counts() -> None:
    corpus = corpus_of(["a", "b", "a"], ["b"])
    counts = count_transitions(fit_states(corpus).transform(corpus))
    assert counts.transitions.tolist() == [[0, 1], [1, 0]]
    assert counts.to_success.tolist() == [1, 0]
    assert counts.to_failure.tolist() == [0, 1]


def test_tau_bench_through_the_reader_has_the_known_counts(real_logs: Path) -> None:
    corpus = read_traces(real_logs / "tau-bench" / "gpt-4o-airline.json")
    runs = resolve(corpus, Policy(limits="failure"))
    table = {"respond": "R", "transfer_to_human_agents": "X", "*": "T"}
    model = fit_states(corpus, table=table, runs=runs)
    assert model.state_names == ("R", "X", "T")
    counts = count_transitions(model.transform(corpus, runs))
    order = [0, 2, 1]
    assert counts.starts[order].tolist() == [198, 2, 0]
    moves = counts.transitions[np.ix_(order, order)]
    assert moves.tolist() == [[574, 521, 46], [518, 593, 2], [0, 0, 0]]
    assert counts.to_success[order].tolist() == [49, 0, 35]
    assert counts.to_failure[order].tolist() == [100, 3, 13]
    default = fit_states(corpus)
    assert default.mode == "names" or default.silhouette
    assert default.transform(corpus).states.size == 2454


def test_members_of_states_are_the_distinct_steps_in_them() -> None:
    steps = [Step(name="run", ok=True), Step(name="run", ok=False), Step(name="say")]
    corpus = corpus_of(*([*steps, steps[1]] for _ in range(10)))
    model = fit_states(corpus)
    members = model.members(corpus)
    assert members.sequences.state_names == ("run", "run (error)", "say")
    assert members.blocks == ("run", "run", "say")
    assert members.sequences.states[:4].tolist() == [0, 1, 2, 1]
    coarse = model.transform(corpus)
    np.testing.assert_array_equal(members.sequences.offsets, coarse.offsets)
    history = fit_states(corpus, history=("failure_share",), fields=("kind",), n_states=3)
    fine = history.members(corpus)
    place = {name: k for k, name in enumerate(history.state_names)}
    of_fine = np.array([place[block] for block in fine.blocks])
    np.testing.assert_array_equal(of_fine[fine.sequences.states], history.transform(corpus).states)
    assert len(set(fine.sequences.state_names)) == len(fine.blocks)
