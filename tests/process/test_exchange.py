"""The exchange of futures against enumeration, and what it keeps and finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chi2

from oracles.corpora import Corpus, Run, corpus_of, sequences_of
from sojourn.estimates import Verdict
from sojourn.process import _exchange_kernels, exchange, simulate
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.incidence import fit_incidence
from sojourn.sequences import StateSequences

CORPUS: Corpus = (
    ((0, 1, 0), 1),
    ((1, 1, 0), 2),
    ((0, 0, 1), 1),
    ((1, 0, 0), 0),
    ((0, 1), 2),
)


def members_of(corpus: Corpus) -> set[Corpus]:
    """Return every ordered corpus with the same starts and counts by step, by trying all."""

    def follow(run: Run, t: int) -> object:
        path, event = run
        return path[t + 1] if t + 1 < len(path) else f"E{event}"

    def grow(paths: tuple[tuple[object, ...], ...], t: int) -> Iterator[tuple[object, ...]]:
        states = sorted({p[-1] for p in paths if len(p) == t + 1 and not isinstance(p[-1], str)})
        if not states:
            yield paths
            return
        options = []
        for state in states:
            slots = [r for r, p in enumerate(paths) if len(p) == t + 1 and p[-1] == state]
            tokens = [follow(run, t) for run in corpus if len(run[0]) > t and run[0][t] == state]
            assert len(slots) == len(tokens)
            options.append([(slots, deal) for deal in set(permutations(tokens))])
        for choice in product(*options):
            grown = list(paths)
            for slots, deal in choice:
                for slot, token in zip(slots, deal, strict=True):
                    grown[slot] = (*grown[slot], token)
            yield from grow(tuple(grown), t + 1)

    first = tuple((run[0][0],) for run in corpus)
    return {tuple((tuple(p[:-1]), int(str(p[-1])[1:])) for p in paths) for paths in grow(first, 0)}


def draw_corpora(sequences: StateSequences, n: int, *, within_tasks: bool = False) -> list[Corpus]:
    layout = exchange._make_layout(sequences, within_tasks, sequences.n_states).layout
    stream = np.array([5], dtype=np.uint64)
    events, origin = np.empty_like(layout.events), layout.origin.copy()
    free = np.empty(sequences.n_states, dtype=np.int64)
    drawn = []
    for _ in range(n):
        _exchange_kernels._deal(layout, stream, events, origin, free)
        paths: dict[int, tuple[int, ...]] = {}
        done: list[tuple[int, Run]] = []
        for k in range(events.size):
            before = paths.pop(int(origin[k]), ()) if origin[k] >= 0 else ()
            paths[k] = (*before, int(layout.state[k]))
            if events[k] >= sequences.n_states:
                done.append((k, (paths[k], int(events[k]) - sequences.n_states)))
        first = {}
        for k, run in done:
            place = k
            while origin[place] >= 0:
                place = int(origin[place])
            first[place] = run
        drawn.append(tuple(run for _, run in sorted(first.items())))
    return drawn


def in_order_of_starts(corpus: Corpus) -> Corpus:
    return tuple(sorted(corpus, key=lambda run: run[0][0]))


def test_every_corpus_with_the_counts_is_drawn_equally_often() -> None:
    corpus = in_order_of_starts(CORPUS)
    members = members_of(corpus)
    assert len(members) > 30
    n = 200 * len(members)
    seen = Counter(draw_corpora(sequences_of(corpus), n))
    assert set(seen) == members
    statistic = sum((count - 200) ** 2 / 200 for count in seen.values())
    assert chi2.sf(statistic, len(members) - 1) > 1e-3


def test_within_tasks_runs_keep_their_task() -> None:
    corpus = in_order_of_starts(CORPUS)
    tasks = [0, 1, 0, 1, 0]
    parts = [
        members_of(tuple(run for run, u in zip(corpus, tasks, strict=True) if u == t))
        for t in (0, 1)
    ]
    drawn = draw_corpora(sequences_of(corpus, task=tasks), 400, within_tasks=True)
    expected = {(*first, *second) for first, second in product(*parts)}
    assert set(drawn) == expected
    assert 1 < len(expected) < len(members_of(corpus))


def incidence(sequences: StateSequences) -> np.ndarray:
    curves = fit_incidence(
        sequences.lengths, sequences.event, sequences.unit, n_resamples=99, rng=0
    )
    return np.stack([curves.success.value, curves.failure.value])


def test_both_incidence_curves_are_kept_and_counts_by_step_too() -> None:
    runs = simulate.simulate_tasks(simulate.preset("react"), 8, 3, rng=2, max_steps=9)
    runs = runs.select(np.argsort(runs.states[runs.offsets[:-1]], kind="stable"))

    def counts(corpus: Corpus) -> Counter[tuple[int, int, object]]:
        return Counter(
            (t, i, j)
            for path, event in corpus
            for t, (i, j) in enumerate(zip(path, [*path[1:], f"E{event}"], strict=True))
        )

    for drawn in draw_corpora(runs, 20):
        assert counts(drawn) == counts(corpus_of(runs))
        assert drawn != corpus_of(runs)
        np.testing.assert_allclose(incidence(sequences_of(drawn)), incidence(runs), atol=1e-12)


def naive_table(corpus: Corpus, lag: int, m: int) -> np.ndarray:
    table = np.zeros((m, m, m + 3))
    for path, event in corpus:
        for t, i in enumerate(path):
            if t >= lag:
                j = path[t + 1] if t + 1 < len(path) else m + event
                table[path[t - lag], i, j] += 1
    return table


def test_statistics_are_chi_squares_of_naive_tables_against_the_mean_of_all() -> None:
    corpus = in_order_of_starts(CORPUS)
    found = exchange.test_exchange(sequences_of(corpus), n_draws=9999, rng=1)
    members = list(members_of(corpus))
    for name, lag, kept in (("before", 1, 5), ("before_moves", 1, 2), ("two_before", 2, 5)):
        tables = np.array([naive_table(member, lag, 2)[:, :, :kept] for member in members])
        mean = tables.mean(axis=0)
        cells = mean > 0
        values = np.sum((tables - mean)[:, cells] ** 2 / mean[cells], axis=1)
        own = values[members.index(corpus)]
        (statistic,) = (s for s in found.statistics if s.name == name)
        assert statistic.value == pytest.approx(own, rel=0.05)  # the mean is that of the draws
        exact = np.mean(values >= own - 1e-9)
        assert statistic.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 9999) + 0.02)


def with_memory(rng: np.random.Generator, n_tasks: int, memory: float) -> StateSequences:
    chain = AbsorbingChain(
        transient=np.array([[0.4, 0.45], [0.45, 0.4]]),
        to_success=np.array([0.1, 0.05]),
        to_failure=np.array([0.05, 0.1]),
        initial=np.array([0.5, 0.5]),
        state_names=("a", "b"),
    )
    return simulate.simulate_tasks(chain, n_tasks, 4, rng=rng, memory=memory)


def test_memory_is_found_within_tasks_and_its_gain_told(rng: np.random.Generator) -> None:
    found = exchange.test_exchange(with_memory(rng, 60, 0.6), within_tasks=True, rng=rng)
    assert found.verdict is Verdict.REJECTED
    assert found.p_value == pytest.approx(0.001)
    assert found.gain is not None
    assert found.gain > 0.01
    assert 0.2 < found.movable_steps < 1


def test_same_seed_same_answer_whatever_the_workers(rng: np.random.Generator) -> None:
    runs = with_memory(rng, 20, 0.2)
    alone = exchange.test_exchange(runs, n_draws=99, rng=3)
    with ThreadPoolExecutor(2) as threads:
        together = exchange.test_exchange(runs, n_draws=99, rng=3, executor=threads)
    assert alone.to_dict() == together.to_dict()
    assert alone.to_dict() != exchange.test_exchange(runs, n_draws=99, rng=4).to_dict()


@pytest.mark.parametrize("within_tasks", [False, True])
@pytest.mark.parametrize(
    "corpus",
    [[], [([], 1)], [([0, 1], 1)], [([0], 1), ([0], 2), ([1], 1)], [([0, 0], 0), ([0, 0], 0)]],
)
def test_where_nothing_moves_there_is_no_p(corpus: list[Run], within_tasks: bool) -> None:
    found = exchange.test_exchange(
        sequences_of(corpus, n_states=2), n_draws=19, within_tasks=within_tasks, rng=0
    )
    assert found.p_value is None
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons


def test_one_attempt_a_task_has_nothing_to_exchange_within(rng: np.random.Generator) -> None:
    runs = simulate.simulate_runs(simulate.preset("react"), 50, rng=rng)
    assert exchange.test_exchange(runs, within_tasks=True, rng=rng).p_value is None
    assert exchange.test_exchange(runs, rng=rng).p_value is not None


def test_few_distinct_values_are_inconclusive() -> None:
    corpus = [([0, 1, 0], 1), ([1, 1, 1], 2)] * 1
    found = exchange.test_exchange(sequences_of(corpus), n_draws=99, rng=0)
    assert found.p_value is not None
    assert found.verdict is Verdict.INCONCLUSIVE


def test_rare_states_are_pooled_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(exchange, "_MOST_CELLS", 20_000)
    runs = simulate.simulate_tasks(simulate.preset("autogpt"), 30, 4, rng=rng)
    found = exchange.test_exchange(runs, n_draws=99, rng=0)
    assert found.p_value is not None
    assert any("taken together" in reason for reason in found.reasons)


@pytest.mark.statistical
@pytest.mark.parametrize("within_tasks", [False, True])
def test_size_is_nominal_for_a_process_that_depends_on_progress(within_tasks: bool) -> None:
    source = np.random.default_rng(8)
    chain = simulate.preset("react")
    n, rejected = 400, 0
    for _ in range(n):
        runs = simulate.simulate_runs(chain, 120, rng=source, exit_factor=0.2, exit_steps=5)
        task = np.arange(120, dtype=np.int32) // 4
        runs = StateSequences(
            states=runs.states, offsets=runs.offsets, event=runs.event,
            task=task, unit=task, state_names=runs.state_names,
        )  # fmt: skip
        found = exchange.test_exchange(runs, n_draws=99, within_tasks=within_tasks, rng=source)
        assert found.p_value is not None
        rejected += found.p_value <= 0.05
    assert rejected / n == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / n))
