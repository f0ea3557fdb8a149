"""The exact test: its samplers against enumeration, its statistics against naive counting."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from oracles.corpora import Corpus, all_corpora, corpus_of, counts_of, sequences_of
from oracles.tau_bench import read_tau_bench
from sojourn.estimates import Verdict
from sojourn.process import _exact_kernels as kernels
from sojourn.process import exact
from sojourn.process.capped import check_cap, make_chain, make_design, movable_strata
from sojourn.sequences import StateSequences

CORPUS_20: Corpus = (((1, 1, 1), 1), ((1, 1, 0, 1), 1))
CORPUS_432: Corpus = (((0, 0, 1), 2), ((2, 1), 1), ((1, 0, 1, 1), 1))
CORPUS_2880: Corpus = (((1, 1), 1), ((1,), 1), ((0, 1, 1), 2), ((1, 0, 0, 1), 2))


def draw_many(
    sequences: StateSequences,
    n_draws: int,
    rng: np.random.Generator,
    *,
    cap: int | None = None,
    swaps_per_step: int = 20,
) -> list[Corpus]:
    stratum = np.zeros(sequences.n_runs, dtype=np.int64)
    direct = np.array([cap is None])
    caps = None if cap is None else np.full(sequences.n_runs, cap)
    design = make_design(sequences, stratum, direct)
    chain = make_chain(sequences, stratum, direct, caps, swaps_per_step)
    states, offsets, event = exact.plain_arrays(sequences)
    moved = np.zeros(1, dtype=np.bool_)
    drawn = []
    for seed in rng.integers(0, 2**64, size=n_draws, dtype=np.uint64):
        kernels.draw_corpus(seed, design, chain, states, offsets, event, moved)
        lengths = np.diff(offsets)
        assert lengths.min() > 0
        paths = np.split(states, offsets[1:-1])
        drawn.append(tuple((tuple(map(int, p)), int(e)) for p, e in zip(paths, event, strict=True)))
    return drawn


@pytest.mark.parametrize(
    ("corpus", "size"), [(CORPUS_20, 20), (CORPUS_432, 432), (CORPUS_2880, 2880)]
)
def test_uniform_sampler_draws_every_corpus_equally_often(
    corpus: Corpus, size: int, rng: np.random.Generator
) -> None:
    family = all_corpora(corpus)
    assert len(family) == len(set(family)) == size
    tally = Counter(draw_many(sequences_of(corpus), 12 * size, rng))
    assert set(tally) <= set(family)
    assert chisquare([tally[member] for member in family]).pvalue > 1e-3


def test_every_draw_keeps_starts_and_counts(rng: np.random.Generator) -> None:
    sequences = react_like(rng, 40)
    expected = counts_of(corpus_of(sequences))
    drawn = draw_many(sequences, 200, rng)
    assert all(counts_of(corpus) == expected for corpus in drawn)
    assert len(set(drawn)) == 200


def react_like(rng: np.random.Generator, n_runs: int, *, per_task: int = 1) -> StateSequences:
    P = np.array([[0.4, 0.3, 0.1, 0.1, 0.1], [0.2, 0.3, 0.2, 0.1, 0.2], [0.3, 0.2, 0.1, 0.3, 0.1]])
    corpus = []
    for _ in range(n_runs):
        path = [int(rng.integers(3))]
        while (following := int(rng.choice(5, p=P[path[-1]]))) < 3:
            path.append(following)
        corpus.append((path, following - 2))
    return sequences_of(corpus, task=[r // per_task for r in range(n_runs)], n_states=3)


CAPPED: Corpus = (((0, 1, 0, 0), 0), ((0, 0), 1), ((1, 0, 1), 2), ((0, 1), 1))


def test_tail_swaps_draw_every_capped_corpus_equally_often(rng: np.random.Generator) -> None:
    family = all_corpora(CAPPED, cap=4)
    assert 100 < len(family) < len(all_corpora(CAPPED))
    tally = Counter(
        draw_many(sequences_of(CAPPED), 12 * len(family), rng, cap=4, swaps_per_step=200)
    )
    assert set(tally) <= set(family)
    assert chisquare([tally[member] for member in family]).pvalue > 1e-3


def test_movable_strata_are_those_with_another_multiset_of_runs(rng: np.random.Generator) -> None:
    seen = set()
    for _ in range(150):
        corpus = tuple(
            (tuple(map(int, rng.integers(0, 3, rng.integers(1, 5)))), int(rng.integers(1, 3)))
            for _ in range(rng.integers(1, 4))
        )
        sequences = sequences_of(corpus, n_states=3)
        design = make_design(sequences, np.zeros(len(corpus), dtype=np.int64), np.array([True]))
        expected = len({tuple(sorted(member)) for member in all_corpora(corpus)}) > 1
        assert movable_strata(sequences, design)[0] == expected
        seen.add(expected)
    assert seen == {True, False}


def naive_statistics(corpus: Corpus) -> dict[str, float]:
    triples, pairs, before, after = Counter(), Counter(), Counter(), Counter()
    squares = Counter()
    for path, event in corpus:
        previous = ["start", *path[:-1]]
        following = [*path[1:], f"E{event}"]
        for h, i, j in zip(previous, path, following, strict=True):
            if j == "E0":
                continue  # a cut run has no last step
            triples[h, i, j] += 1
            pairs[i, j] += 1
            before[h, i] += 1
            after[i] += 1
        for letter, block in groupby(path):
            squares[f"s{letter}"] += len(list(block)) ** 2
    gain = sum(
        n * log(n * after[i] / (before[h, i] * pairs[i, j])) for (h, i, j), n in triples.items()
    )
    # Among steps from state to state, against the shares of such steps out of each state.
    among, leaving = Counter(), Counter()
    for (h, i, j), n in triples.items():
        if not isinstance(j, str):
            leaving[i] += n
            if h != "start":
                among[h, i] += n
    moves = sum(
        n * log(n * leaving[i] / (among[h, i] * pairs[i, j]))
        for (h, i, j), n in triples.items()
        if h != "start" and not isinstance(j, str)
    )
    lengths = sum(len(path) ** 2 for path, _ in corpus)
    return {"g2": 2 * gain, "moves": 2 * moves, "lengths": lengths, **squares}


@pytest.mark.parametrize("cap", [None, 3])
def test_statistics_agree_with_naive_counting(cap: int | None, rng: np.random.Generator) -> None:
    corpus = corpus_of(react_like(rng, 50))
    if cap is not None:
        corpus = tuple((path[:cap], event * (len(path) <= cap)) for path, event in corpus)
    sequences = sequences_of(corpus)
    reference = exact.reference_of(sequences, longest=cap)
    out = np.empty(9)
    kernels.statistics_of(*exact.plain_arrays(sequences), 3, reference, out)
    expected = naive_statistics(corpus)
    assert out[0] == pytest.approx(expected["g2"], rel=1e-10)
    assert out[5] == pytest.approx(expected["moves"], rel=1e-10)
    assert out[4] == expected["lengths"]
    assert [out[6 + i] for i in range(3)] == [expected[f"s{i}"] for i in range(3)]
    starts, counts = kernels.count_corpus(*exact.plain_arrays(sequences), 3)
    P = counts / counts.sum(axis=1, keepdims=True)
    for k in (0, 1):
        curve, now = [0.0], starts / 50
        for _ in range(reference.curves.shape[1] - 1):
            curve.append(curve[-1] + now @ P[:, 3 + k])
            now = now @ P[:, :3]
        np.testing.assert_allclose(reference.curves[k], curve, atol=1e-12)
        # Nothing is cut before the cap, so the shares of all runs are Aalen-Johansen's.
        observed = [
            np.mean([len(p) <= d and e == k + 1 for p, e in corpus]) for d in range(len(curve))
        ]
        assert out[2 + k] == pytest.approx(np.abs(np.subtract(curve, observed)).max(), abs=1e-12)


def test_step_index_statistic_is_the_homogeneity_g2(rng: np.random.Generator) -> None:
    sequences = react_like(rng, 50)
    reference = exact.reference_of(sequences)
    out = np.empty(9)
    kernels.statistics_of(*exact.plain_arrays(sequences), 3, reference, out)
    cells, rows, pairs, states = Counter(), Counter(), Counter(), Counter()
    for path, event in corpus_of(sequences):
        for t, (i, j) in enumerate(zip(path, [*path[1:], f"E{event}"], strict=True)):
            b = reference.bucket[min(t, reference.bucket.size - 1)]
            cells[b, i, j] += 1
            rows[b, i] += 1
            pairs[i, j] += 1
            states[i] += 1
    g2 = 2 * sum(
        n * log(n * states[i] / (rows[b, i] * pairs[i, j])) for (b, i, j), n in cells.items()
    )
    assert set(reference.bucket) == {0, 1}
    assert out[1] == pytest.approx(g2, rel=1e-10)


def test_incidence_of_cut_runs_is_aalen_johansen() -> None:
    # By hand: 4 runs; success at 1, cut at 1, failure at 2, success at 3.
    endings = np.array([[0, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]], dtype=float)
    curves = np.zeros((2, 4))
    kernels.incidence_curves(endings, curves)
    np.testing.assert_allclose(curves[0], [0, 1 / 4, 1 / 4, 1 / 4 + 3 / 8])
    np.testing.assert_allclose(curves[1], [0, 0, 3 / 8, 3 / 8])


def test_family_p_values_rank_the_observed_corpus_among_all() -> None:
    raw = np.zeros((100, 7))
    raw[:, 0] = np.arange(100)[::-1]  # the observed corpus has the largest G2
    raw[:, 4] = 7.0
    combined = exact.combine_statistics(raw)
    assert combined.p[0, 0] == 0.01
    assert combined.p[0, 5] == 1.0
    assert combined.order[0] == combined.joint[0] == 0.01
    assert combined.timing[0] == 1.0
    raw[:, 4] = np.r_[0.0, np.arange(1, 100)]  # and the least spread: two-sided
    assert exact.combine_statistics(raw).p[0, 5] == 0.02


def test_same_seed_same_answer_whatever_the_workers(rng: np.random.Generator) -> None:
    sequences = react_like(rng, 60, per_task=3)
    alone = exact.test_exact(sequences, within_tasks=True, n_draws=99, rng=7)
    with ThreadPoolExecutor(4) as pool:
        many = exact.test_exact(sequences, within_tasks=True, n_draws=99, rng=7, executor=pool)
    assert alone.to_dict() == many.to_dict()
    for a, b in zip(alone.statistics, many.statistics, strict=True):
        np.testing.assert_array_equal(a.draws, b.draws)
    other = exact.test_exact(sequences, within_tasks=True, n_draws=99, rng=8)
    assert other.to_dict() != alone.to_dict()


def test_corpora_kept_in_memory_or_drawn_anew_give_the_same_answer(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = react_like(rng, 60, per_task=3)
    kept = exact.test_exact(sequences, within_tasks=True, n_draws=99, rng=3)
    monkeypatch.setattr(exact, "_MOST_KEPT", 0)
    anew = exact.test_exact(sequences, within_tasks=True, n_draws=99, rng=3)
    assert kept.movable_strata > 0.5
    assert json.dumps(kept.to_dict()) == json.dumps(anew.to_dict())
    for one, other in zip(kept.statistics, anew.statistics, strict=True):
        np.testing.assert_array_equal(one.draws, other.draws)


def test_relabelled_states_and_reordered_runs_give_the_same_statistics(
    rng: np.random.Generator,
) -> None:
    sequences = react_like(rng, 60)
    mapping = np.array([2, 0, 1])
    shuffled = sequences.select(rng.permutation(60))
    relabelled = StateSequences(
        states=mapping[shuffled.states],
        offsets=shuffled.offsets,
        event=shuffled.event,
        task=shuffled.task,
        unit=shuffled.unit,
        state_names=("x", "y", "z"),
    )
    first, second = (exact.test_exact(s, n_draws=19, rng=1) for s in (sequences, relabelled))
    for name in ("second_order", "second_order_moves", "incidence", "step_index", "length_spread"):
        a, b = ({s.name: s.value for s in t.statistics}[name] for t in (first, second))
        assert a == pytest.approx(b, rel=1e-9)


def test_strong_memory_is_found_and_explained(rng: np.random.Generator) -> None:
    corpus = [((0, 1, 0, 1, 0), 1), ((1, 1, 0, 0), 2)] * 30
    result = exact.test_exact(sequences_of(corpus, task=range(60)), rng=rng)
    assert result.order is Verdict.REJECTED
    assert result.p_order == 0.001
    assert result.order_gain is not None
    assert result.order_gain > 0.2
    assert "order" in str(result)
    assert result.exactness == "exact"
    assert (
        exact.test_exact(sequences_of(corpus), approximate=True, n_draws=9).exactness
        == "approximate"
    )


EDGES = {
    "no_runs": [],
    "no_steps": [((), 1), ((), 2)],
    "one_step_each": [((0,), 1), ((1,), 2), ((0,), 2)] * 10,
    "one_run": [((0, 1, 0), 1)],
    "all_cut_early": [((0, 1), 0), ((0,), 0)] * 10,
    "all_cut_alike": [((0, 0), 0)] * 10,
    "too_many_states": [(tuple(range(201)), 1)] * 2,
    "mixed_limits": [((0, 1), 0), ((0, 1, 1), 1)] * 10,
}


@pytest.mark.parametrize("within_tasks", [False, True])
@pytest.mark.parametrize("name", EDGES)
def test_edges_are_inconclusive_with_a_reason(name: str, within_tasks: bool) -> None:
    result = exact.test_exact(
        sequences_of(EDGES[name]), within_tasks=within_tasks, n_draws=99, rng=0
    )
    assert result.order is Verdict.INCONCLUSIVE
    assert result.timing is Verdict.INCONCLUSIVE
    assert result.reasons
    assert "NaN" not in json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("event", [1, 2])
def test_single_state_and_one_kind_of_end_give_finite_figures(
    event: int, rng: np.random.Generator
) -> None:
    corpus = [((0,) * int(n), event) for n in rng.geometric(0.3, size=40)]
    result = exact.test_exact(sequences_of(corpus), n_draws=199, rng=rng)
    assert result.p_joint is not None
    assert 0 < result.p_joint <= 1
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_state_seen_only_where_a_run_is_cut_does_no_harm() -> None:
    corpus = [((0, 0, 1), 0), ((0, 0), 1), ((0,), 2)] * 10
    result = exact.test_exact(sequences_of(corpus), n_draws=99, rng=0)
    assert result.sampler == "tail_swap"
    json.dumps(result.to_dict(), allow_nan=False)


def test_caps_are_checked() -> None:
    sequences = sequences_of([((0, 1, 0), 1), ((0, 1), 2)])
    with pytest.raises(ValueError, match="run 0 has 3 steps"):
        exact.test_exact(sequences, cap=2)
    assert check_cap(sequences, 3, within=False).cap is not None
    cut = sequences_of([((0, 1, 0), 1), ((0, 1), 0)])
    assert "one step cap" in str(check_cap(cut, None, within=False).reason)
    assert check_cap(cut, None, within=True) == (None, None)
    assert "another limit" in str(check_cap(cut, 3, within=False).reason)


def test_tau_bench_counts_and_rejections(real_logs: Path) -> None:
    sequences = read_tau_bench(real_logs)
    starts, counts = kernels.count_corpus(*exact.plain_arrays(sequences), 3)
    np.testing.assert_array_equal(starts, [198, 2, 0])
    np.testing.assert_array_equal(
        counts, [[574, 521, 46, 49, 100], [518, 593, 2, 0, 3], [0, 0, 0, 35, 13]]
    )
    for within_tasks in (False, True):
        result = exact.test_exact(sequences, within_tasks=within_tasks, rng=0)
        assert result.order is result.timing is Verdict.REJECTED
        assert max(result.p_order, result.p_timing) < 0.01
        assert result.movable_strata == 1.0


def test_tau_bench_with_cut_runs_uses_the_cap(real_logs: Path) -> None:
    sequences = read_tau_bench(real_logs, censor=True)
    assert np.bincount(sequences.event).tolist() == [5, 84, 111]
    for within_tasks in (False, True):
        result = exact.test_exact(sequences, within_tasks=within_tasks, n_draws=199, rng=0)
        assert result.sampler == "tail_swap"
        assert "(30)" in result.conditions[1]
        assert max(result.p_order, result.p_timing) < 0.02
