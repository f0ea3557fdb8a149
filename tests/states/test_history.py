"""History features against plain loops, and that they cannot see ahead."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.corpus import CorpusBuilder, StepTypes, TraceCorpus
from sojourn.records import Outcome, Step, Trace
from sojourn.states import fit_states
from sojourn.states.history import (
    HISTORY_FEATURES,
    edit_names,
    history_features,
    history_levels,
)

NAMES = ("edit_file", "view", "search")
TYPES = StepTypes.from_keys([(name, 0, 0, ok, 1) for name in NAMES for ok in (-1, 0, 1)])


@st.composite
def runs(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Draw runs of (code, digest); digests are few and may be unknown."""
    step = st.tuples(st.integers(0, len(TYPES) - 1), st.sampled_from([0, 0, 7, 8]))
    return draw(st.lists(st.lists(step, max_size=12), max_size=4))


def flat(paths: list[list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    steps = np.array([code for path in paths for code, _ in path], dtype=np.int32)
    digests = np.array([digest for path in paths for _, digest in path], dtype=np.uint64)
    offsets = np.concatenate(([0], np.cumsum([len(path) for path in paths]))).astype(np.int64)
    return steps, offsets, digests


def naive(path: list[tuple[int, int]], known: bool) -> list[tuple[float, ...]]:
    """Walk one run with a handful of counters."""
    rows: list[tuple[float, ...]] = []
    streak = edits = again = idle = errors = told = 0
    done: set[tuple[str, int]] = set()
    before: tuple[int, int] | None = None
    for code, digest in path:
        ok = int(TYPES.ok[code])
        streak = streak + 1 if ok == 0 else 0 if ok == 1 else streak
        edits += NAMES[TYPES.name[code]] == "edit_file"
        if before is None:
            same = False
        elif known and digest and before[1]:
            same = digest == before[1]
        else:
            same = code == before[0]
        again = again + 1 if same else 0
        action = ("digest", digest) if known and digest else ("code", code)
        idle = 0 if action not in done and ok != 0 else idle + 1
        done.add(action)
        errors += ok == 0
        told += ok >= 0
        rows.append((streak, edits, again, idle, errors / told if told else 0.0))
        before = code, digest
    return rows


@given(paths=runs(), known=st.booleans())
def test_features_are_those_of_a_plain_loop(
    paths: list[list[tuple[int, int]]], known: bool
) -> None:
    steps, offsets, digests = flat(paths)
    values = history_features(steps, offsets, TYPES, digests if known else None)
    expected = [row for path in paths for row in naive(path, known)]
    np.testing.assert_allclose(values, np.array(expected).reshape(-1, 5), rtol=1e-6)


@given(paths=runs(), cut=st.integers(0, 12))
def test_cutting_runs_short_changes_nothing_before_the_cut(
    paths: list[list[tuple[int, int]]], cut: int
) -> None:
    steps, offsets, digests = flat(paths)
    heads = flat([path[:cut] for path in paths])
    whole = history_features(steps, offsets, TYPES, digests)
    lengths = np.diff(offsets)
    position = np.arange(steps.size) - np.repeat(offsets[:-1], lengths)
    short = history_features(heads[0], heads[1], TYPES, heads[2])
    np.testing.assert_array_equal(whole[position < cut], short)


def test_features_are_given_no_lengths_and_no_ends() -> None:
    parameters = list(inspect.signature(history_features).parameters)
    assert parameters == ["steps", "offsets", "types", "digests", "names", "edits"]


def test_a_chosen_subset_keeps_its_order_and_edits_may_be_named() -> None:
    steps = np.array([0, 3, 6], dtype=np.int32)
    offsets = np.array([0, 3])
    values = history_features(
        steps, offsets, TYPES, names=("edits", "repeats"), edits=("view", "search")
    )
    assert values.tolist() == [[0, 0], [1, 0], [2, 0]]
    with pytest.raises(ValueError, match="history"):
        history_features(steps, offsets, TYPES, names=("length",))


def test_words_of_names_tell_edits() -> None:
    names = ("str_replace", "editFile", "Write", "credit", "view", "HTTPUpdate", "apply-patch")
    assert edit_names(names) == ("str_replace", "editFile", "Write", "HTTPUpdate", "apply-patch")


def test_levels_are_few_and_rise() -> None:
    counts = np.array([0, 1, 2, 3, 6, 7, 1000], dtype=np.float32)
    shares = np.array([0, 0.01, 1 / 3, 0.34, 2 / 3, 0.67, 1], dtype=np.float32)
    levels = history_levels(np.column_stack((counts, shares)), ("edits", "failure_share"))
    assert levels[:, 0].tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert levels[:, 1].tolist() == [0, 1, 1, 2, 2, 3, 3]


def corpus_of(*paths: list[Step]) -> TraceCorpus:
    builder = CorpusBuilder()
    for k, path in enumerate(paths):
        builder.add(Trace(task_id=f"t{k}", outcome=Outcome.SUCCESS, steps=tuple(path)))
    return builder.build()


GOOD, BAD = Step(name="run", ok=True), Step(name="run", ok=False)


def test_states_can_tell_a_run_in_trouble() -> None:
    corpus = corpus_of(*[[GOOD, GOOD, BAD, BAD, BAD, BAD, GOOD] for _ in range(20)])
    names = ("error_streak",)
    model = fit_states(corpus, history=names, fields=("kind",))
    assert model.mode == "clusters"
    assert not model.order_free
    states = model.transform(corpus).states[:7]
    assert states[0] == states[1] == states[6]
    assert len({states[0], states[3], states[5]}) == 3
    assert any("errors in a row" in name for name in model.state_names)
    plain = fit_states(corpus, fields=("kind",), mode="clusters")
    assert plain.order_free
    assert plain.n_states == 1
    with pytest.raises(ValueError, match="use transform"):
        model.states_of(corpus.step_types)


def test_states_of_a_head_do_not_depend_on_the_rest() -> None:
    rng = np.random.default_rng(5)
    steps = [Step(name=n, ok=o) for n in ("edit", "view", "run") for o in (True, False)]
    paths = [[steps[i] for i in rng.integers(6, size=15)] for _ in range(30)]
    model = fit_states(corpus_of(*paths), history=HISTORY_FEATURES, repeats=True, max_states=8)
    whole = model.transform(corpus_of(*paths))
    heads = model.transform(corpus_of(*[path[:6] for path in paths]))
    for r in range(30):
        np.testing.assert_array_equal(
            whole.states[whole.offsets[r] :][:6], heads.states[heads.offsets[r] :][:6]
        )


def test_many_distinct_points_leave_the_tree_to_the_frequent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(6)
    steps = [Step(name=f"n{k}", ok=o) for k in range(20) for o in (True, False)]
    corpus = corpus_of(*[[steps[i] for i in rng.integers(40, size=40)] for _ in range(20)])
    monkeypatch.setattr("sojourn.states.rule._TREE_POINTS", 25)
    model = fit_states(corpus, history=HISTORY_FEATURES, n_states=4)
    assert model.clusters is not None
    assert model.clusters.points.shape[0] == 25
    assert np.unique(model.transform(corpus).states).size == 4


def test_history_needs_clusters() -> None:
    corpus = corpus_of([GOOD, BAD])
    with pytest.raises(ValueError, match="need mode 'clusters'"):
        fit_states(corpus, mode="names", history=("edits",))
    with pytest.raises(ValueError, match="need mode 'clusters'"):
        fit_states(corpus, table={"*": "x"}, history=("edits",))
    with pytest.raises(ValueError, match="history"):
        fit_states(corpus, history=("future",))
