"""Choice of states by held-out score: against plain loops, and that it finds what foretells."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from sojourn.assess.state_choice import (
    StateSpec,
    _rank,
    choose_states,
    state_specs,
)
from sojourn.corpus import CorpusBuilder, ResolvedRuns, TraceCorpus, resolve
from sojourn.errors import NothingUsableError
from sojourn.process import fit_homogeneous
from sojourn.records import Outcome, Step, Trace
from sojourn.sequences import StateSequences
from sojourn.states import StateModel


def corpus_of(
    rng: np.random.Generator, *, n_tasks: int = 60, n_attempts: int = 2, telling: bool = True
) -> TraceCorpus:
    """Draw runs that prepare for ten steps and end soon after they began to finish.

    The names of the steps say in which of the two parts a run is. Where they tell nothing, runs
    end at any step with the same probability.
    """
    builder = CorpusBuilder()
    for task in range(n_tasks):
        for attempt in range(n_attempts):
            n_first, n_last = 1 + int(rng.negative_binomial(8, 0.5)), int(rng.geometric(0.5))
            parts = ["prepare"] * n_first + ["finish"] * n_last
            if not telling:
                length = int(rng.geometric(0.1))
                parts = [str(p) for p in rng.choice(["prepare", "finish"], size=length)]
            kinds = rng.integers(2, size=len(parts))
            builder.add(
                Trace(
                    task_id=f"t{task}",
                    task_repeat=attempt,
                    cluster=f"c{task // 2}",
                    outcome=Outcome.SUCCESS if rng.random() < 0.6 else Outcome.FAILURE,
                    steps=tuple(
                        Step(name=f"{part}_{kind}", ok=bool(kind))
                        for part, kind in zip(parts, kinds, strict=True)
                    ),
                )
            )
    return builder.build()


PER_RUN = ("index", "success", "event", "duration", "step_limit", "task", "unit")
PARTS = {"prepare_0": "P", "prepare_1": "P", "finish_0": "F", "finish_1": "F"}
KINDS = {"prepare_0": "0", "prepare_1": "1", "finish_0": "0", "finish_1": "1"}
ONE = StateSpec(label="one", settings={"table": {"*": "any"}})
SPECS = (
    ONE,
    StateSpec(label="kinds", settings={"table": KINDS}),
    StateSpec(label="parts", settings={"table": PARTS}),
    StateSpec(label="names", settings={"mode": "names"}),
)


def test_scores_are_those_of_plain_loops(rng: np.random.Generator) -> None:
    corpus = corpus_of(rng, n_tasks=14)
    runs = resolve(corpus)
    choice = choose_states(corpus, runs, SPECS[:3], n_folds=3, rng=4)
    assert choice.n_folds == 3
    assert choice.n_tasks == 14
    assert choice.n_units == 7
    # The same folds: units dealt out and shuffled.
    fold_of_unit = np.random.default_rng(4).permutation(np.arange(7) % 3)
    for k, spec in enumerate(SPECS[:3]):
        for task in range(14):
            fold = fold_of_unit[task // 2]
            rows = np.flatnonzero([fold_of_unit[u] != fold for u in runs.unit])
            states = spec.fit(corpus, runs)  # a table does not depend on the runs
            whole = states.transform(corpus, runs)
            fit = fit_homogeneous(whole.select(rows))
            own = whole.select(np.flatnonzero(runs.task == task))
            assert choice.scores[k, task] == pytest.approx(fit.log_score(own)[0])
    row = choice.table[2]
    assert row.score == pytest.approx(choice.scores[2].mean())


def test_what_foretells_is_found_and_the_simplest_of_equals_is_taken(
    rng: np.random.Generator,
) -> None:
    choice = choose_states(corpus_of(rng), specs=SPECS, rng=1)
    assert choice.spec.label == "parts"
    rows = {row.label: row for row in choice.table}
    assert rows["one"].difference < -2 * rows["one"].standard_error
    assert rows["kinds"].difference < -2 * rows["kinds"].standard_error
    assert rows["parts"].within
    assert rows["parts"].n_parameters < rows["names"].n_parameters
    assert choice.process.state_names == choice.model.state_names == ("P", "F")
    assert not choice.model.order_free
    text = str(choice)
    assert "* parts" in text
    assert text.count("*") == 1
    json.dumps(choice.to_dict(), allow_nan=False)


def test_states_that_tell_nothing_are_seldom_chosen(rng: np.random.Generator) -> None:
    chosen = [
        choose_states(corpus_of(child, telling=False), specs=SPECS, rng=1).spec.label
        for child in rng.spawn(20)
    ]
    # One standard error lets three candidates through in 16 % each at the very most.
    assert chosen.count("one") >= 12


def test_states_are_made_without_the_tasks_that_they_are_scored_on(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of(rng, n_tasks=12)
    seen: list[tuple[set[int], set[int]]] = []
    fitted: list[ResolvedRuns] = []
    old_fit, old_transform = StateSpec.fit, StateModel.transform

    def fit(self: StateSpec, corpus: TraceCorpus, runs: ResolvedRuns) -> StateModel:
        fitted.append(runs)
        return old_fit(self, corpus, runs)

    def transform(self: StateModel, corpus: TraceCorpus, runs: ResolvedRuns) -> StateSequences:
        if runs is not fitted[-1]:
            seen.append((set(fitted[-1].unit.tolist()), set(runs.unit.tolist())))
        return old_transform(self, corpus, runs)

    monkeypatch.setattr(StateSpec, "fit", fit)
    monkeypatch.setattr(StateModel, "transform", transform)
    choose_states(corpus, specs=[ONE], rng=2)
    assert len(seen) == 5
    assert all(not training & held_out for training, held_out in seen)
    assert set.union(*(held_out for _, held_out in seen)) == set(range(6))


def test_one_standard_error_is_that_of_units_of_unequal_size() -> None:
    rng = np.random.default_rng(8)
    unit = np.array([0, 0, 0, 1, 2, 2, 3, 4], dtype=np.int32)
    scores = rng.normal(size=(3, 8))
    ranked = _rank(scores, unit, [3, 2, 1])
    best = int(np.argmax(scores.mean(axis=1)))
    for k in range(3):
        d = scores[k] - scores[best]
        sums = [(d[unit == u] - d.mean()).sum() for u in range(5)]
        assert ranked.error[k] == pytest.approx(np.sqrt(5 / 4 * np.sum(np.square(sums))) / 8)
        assert ranked.difference[k] == pytest.approx(d.mean())
        assert ranked.within[k] == (-d.mean() <= ranked.error[k])
    # A tie of parameters goes to the earlier candidate, a single candidate to itself.
    same = _rank(np.zeros((3, 8)), unit, [2, 1, 1])
    assert same.chosen == 1
    assert same.error.tolist() == [0.0, 0.0, 0.0]


def test_a_single_candidate_keeps_the_exact_test(rng: np.random.Generator) -> None:
    choice = choose_states(corpus_of(rng, n_tasks=6), specs=[SPECS[3]], rng=1)
    assert choice.model.order_free
    assert choice.table[0].chosen
    assert choice.table[0].difference == 0.0


def test_default_candidates_are_numbers_of_clusters_and_two_baselines(
    rng: np.random.Generator,
) -> None:
    specs = state_specs(n_states=(2, 3), history=((), ("edits", "repeats")), fields=(("name",),))
    assert [spec.label for spec in specs] == [
        "one state",
        "names",
        "2 clusters of name",
        "3 clusters of name",
        "2 clusters of name, history edits+repeats",
        "3 clusters of name, history edits+repeats",
    ]
    choice = choose_states(corpus_of(rng, n_tasks=12), specs=specs, n_folds=2, rng=1)
    assert [row.n_states for row in choice.table] == [1, 4, 2, 3, 2, 3]
    again = choose_states(corpus_of(np.random.default_rng(20260417), n_tasks=12), specs=specs,
                          n_folds=2, rng=1)  # fmt: skip
    np.testing.assert_array_equal(choice.scores, again.scores)


def test_another_process_may_be_fitted(rng: np.random.Generator) -> None:
    calls = []

    def fit(sequences: StateSequences) -> object:
        calls.append(sequences.n_runs)
        return fit_homogeneous(sequences, smoothing="none")

    corpus = corpus_of(rng, n_tasks=8)
    choose_states(corpus, specs=[ONE], fit=fit, n_folds=4, rng=1)  # type: ignore[arg-type]
    assert calls == [12, 12, 12, 12, 16]


def test_what_cannot_be_chosen_from_is_said(rng: np.random.Generator) -> None:
    corpus = corpus_of(rng, n_tasks=4)
    for specs in ([], [ONE, dataclasses.replace(ONE)]):
        with pytest.raises(ValueError, match="at least one candidate"):
            choose_states(corpus, specs=specs)
    with pytest.raises(ValueError, match="n_folds"):
        choose_states(corpus, specs=[ONE], n_folds=1)
    with pytest.raises(ValueError, match="label"):
        StateSpec(label="")
    with pytest.raises(ValueError, match="not to a spec"):
        StateSpec(label="x", settings={"runs": None})
    with pytest.raises(NothingUsableError, match="at least two"):
        choose_states(corpus_of(rng, n_tasks=2), specs=[ONE])
    with pytest.raises(NothingUsableError, match="at least two"):
        choose_states(CorpusBuilder().build(), specs=[ONE])


def test_success_is_scored_from_the_states_so_far(rng: np.random.Generator) -> None:
    corpus = corpus_of(rng, n_tasks=14)
    runs = resolve(corpus)
    choice = choose_states(corpus, runs, SPECS[:3], by="success", n_folds=3, rng=4)
    assert choice.by == "success"
    fold_of_unit = np.random.default_rng(4).permutation(np.arange(7) % 3)
    lengths = np.diff(corpus.offsets)
    steps = sorted({int(np.sort(lengths)[k]) for k in (6, 13, 20)})
    for k, spec in enumerate(SPECS[:3]):
        expected = []
        for task in range(14):
            if lengths[runs.task == task].max() < steps[0]:
                continue  # nothing to forecast
            fold = fold_of_unit[task // 2]
            rows = np.flatnonzero([fold_of_unit[u] != fold for u in runs.unit])
            training = dataclasses.replace(
                runs, **{name: getattr(runs, name)[rows] for name in PER_RUN}
            )
            model = spec.fit(corpus, training)
            fit = fit_homogeneous(model.transform(corpus, training))
            n, won = rows.size, int(training.success.sum())
            paths = model.transform(corpus, runs)
            total = 0.0
            for run in np.flatnonzero(runs.task == task):
                for t in steps:
                    if paths.lengths[run] < t:
                        continue
                    state = int(paths.states[paths.offsets[run] + t - 1])
                    value = fit.value(state, t) * n / (n + 1) + (won + 0.5) / (n + 1) ** 2
                    total += np.log(value if runs.success[run] else 1.0 - value)
            expected.append(total)
        np.testing.assert_allclose(choice.scores[k], expected, atol=1e-9)


def test_by_success_tasks_without_an_end_are_left_out(rng: np.random.Generator) -> None:
    corpus = corpus_of(rng, n_tasks=10)
    runs = resolve(corpus)
    event = np.where(runs.task < 3, 0, runs.event).astype(runs.event.dtype)
    cut = dataclasses.replace(runs, event=event, success=runs.success & (event != 0))
    choice = choose_states(corpus, cut, SPECS[:2], by="success", n_folds=3, rng=1)
    assert choice.n_tasks == 7
    none = dataclasses.replace(runs, event=0 * runs.event, success=runs.success & False)
    with pytest.raises(NothingUsableError, match="nothing is foretold"):
        choose_states(corpus, none, SPECS[:2], by="success", n_folds=3, rng=1)
    with pytest.raises(ValueError, match="by"):
        choose_states(corpus, runs, SPECS[:2], by="luck", rng=1)
