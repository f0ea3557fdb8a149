"""Lumpability: p-values by enumeration, SciPy's G2, size under lumpable truths, power otherwise."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from oracles.corpora import sequences_of
from sojourn.process import lumpability
from sojourn.process.absorbing import AbsorbingChain
from sojourn.sequences import StateSequences


def chain_of(rows: list[list[float]]) -> AbsorbingChain:
    """Return a chain of rows (next states, success, failure) with a uniform start."""
    table = np.array(rows)
    m = table.shape[0]
    return AbsorbingChain(
        transient=table[:, :m],
        to_success=table[:, m],
        to_failure=table[:, m + 1],
        initial=np.full(m, 1.0 / m),
        state_names=tuple("abcdefg"[:m]),
    )


# Blocks {a, b} and {c}: both go on to the block with .5, to c with .3, and end with .1 and .1.
FREE = chain_of([[0.2, 0.3, 0.3, 0.1, 0.1], [0.2, 0.3, 0.3, 0.1, 0.1], [0.2, 0.3, 0.1, 0.2, 0.2]])
# The same rows to the blocks, but a label tends to follow itself.
SELF = chain_of(
    [[0.45, 0.05, 0.3, 0.1, 0.1], [0.05, 0.45, 0.3, 0.1, 0.1], [0.2, 0.3, 0.1, 0.2, 0.2]]
)
# b ends where a goes on.
OTHER = chain_of(
    [[0.3, 0.3, 0.3, 0.05, 0.05], [0.1, 0.2, 0.3, 0.2, 0.2], [0.2, 0.3, 0.1, 0.2, 0.2]]
)
BLOCKS = ("X", "X", "Y")


def test_the_statistic_is_scipys_g2(rng: np.random.Generator) -> None:
    runs = OTHER.simulate(80, rng=rng)
    found = lumpability.test_lumpability(runs, BLOCKS, n_draws=9, rng=1)
    table = np.zeros((2, 4))
    for r in range(runs.n_runs):
        path = [*runs.states[runs.offsets[r] : runs.offsets[r + 1]], 1 + runs.event[r] * 10]
        for here, there in itertools.pairwise(path):
            if here < 2:
                table[here, {0: 0, 1: 0, 2: 1, 11: 2, 21: 3}[int(there)]] += 1
    block = next(b for b in found.blocks if b.name == "X")
    g2 = chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
    assert block.statistic == pytest.approx(g2, rel=1e-9)
    assert block.visits.tolist() == table.sum(axis=1).tolist()
    np.testing.assert_allclose(block.rows, table / table.sum(axis=1, keepdims=True))
    pooled = table.sum(axis=0) / table.sum()
    gaps = 0.5 * np.abs(block.rows - pooled).sum(axis=1)
    assert block.distance == pytest.approx(gaps.max())
    assert block.farthest == "ab"[int(np.argmax(gaps))]


def naive_p(visits: list[tuple[int, int, int]]) -> float:
    """Try every exchange of labels inside strata; visits are (label, follower, stratum)."""
    strata = sorted({s for _, _, s in visits})
    groups = [[(label, f) for label, f, t in visits if t == s] for s in strata]

    def statistic(labellings: tuple[tuple[int, ...], ...]) -> float:
        observed: dict[tuple[int, int], float] = {}
        expected: dict[tuple[int, int], float] = {}
        for group, labels in zip(groups, labellings, strict=True):
            followers = [f for _, f in group]
            for label, f in zip(labels, followers, strict=True):
                observed[label, f] = observed.get((label, f), 0.0) + 1
            for label in set(labels):
                for f in set(followers):
                    e = labels.count(label) * followers.count(f) / len(group)
                    expected[label, f] = expected.get((label, f), 0.0) + e
        return 2 * sum(o * math.log(o / expected[cell]) for cell, o in observed.items())

    seen = statistic(tuple(tuple(label for label, _ in g) for g in groups))
    every = [
        statistic(labellings)
        for labellings in itertools.product(
            *(itertools.permutations([label for label, _ in g]) for g in groups)
        )
    ]
    return sum(value >= seen - 1e-9 for value in every) / len(every)


# Runs of the fine states 0, 1 (one block) that end at once or after one more step in state 2.
SHORT = [((0,), 1), ((0, 2), 1), ((0,), 1), ((1, 2), 2), ((1,), 2), ((1, 2), 1), ((0,), 2)]


@pytest.mark.parametrize("within", [False, True])
def test_p_values_are_those_of_all_exchanges(within: bool) -> None:
    task = [0, 0, 0, 0, 1, 1, 1]
    runs = sequences_of(SHORT, task=task)
    follower = {1: 10, 2: 20}
    visits = [
        (path[0], 2 if len(path) > 1 else follower[event], task[r] if within else 0)
        for r, (path, event) in enumerate(SHORT)
    ]
    exact = naive_p(visits)
    n = 20_000
    found = lumpability.test_lumpability(runs, BLOCKS, within_tasks=within, n_draws=n, rng=3)
    block = next(b for b in found.blocks if b.name == "X")
    assert block.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / n))
    # The other block has one member, so that the sum is decided by this one.
    assert found.p_value == block.p_value
    assert {b.name: b.p_value for b in found.blocks}["Y"] is None
    assert found.movable == pytest.approx(7 / 10)


def test_cut_runs_tell_nothing_of_what_followed_their_last_step() -> None:
    runs = sequences_of([((0, 1), 0), ((1, 0), 1), ((), 2), ((0,), 0)], n_states=3)
    found = lumpability.test_lumpability(runs, BLOCKS, n_draws=9, rng=1)
    assert found.n_visits == 3
    assert found.blocks[0].rows.tolist() == [[0.5, 0, 0.5, 0], [1, 0, 0, 0]]
    assert found.blocks[0].farthest is None


def test_nothing_to_exchange_is_told() -> None:
    runs = sequences_of([((0, 2), 1), ((0,), 1)])
    found = lumpability.test_lumpability(runs, BLOCKS, n_draws=9, rng=1)
    assert found.p_value is None
    assert found.movable == 0.0
    assert "no block has two members" in str(found)
    empty = lumpability.test_lumpability(sequences_of([((), 1)], n_states=3), BLOCKS, rng=1)
    assert empty.p_value is None
    assert empty.n_visits == 0


def test_blocks_are_given_by_name_or_in_order(rng: np.random.Generator) -> None:
    runs = FREE.simulate(30, rng=rng)
    one = lumpability.test_lumpability(runs, BLOCKS, n_draws=99, rng=1)
    two = lumpability.test_lumpability(runs, {"c": "Y", "a": "X", "b": "X"}, n_draws=99, rng=1)
    assert one.to_dict() == two.to_dict()
    json.dumps(one.to_dict(), allow_nan=False)
    assert "farthest member" in str(one)
    with pytest.raises(ValueError, match="no block for 'c'"):
        lumpability.test_lumpability(runs, {"a": "X", "b": "X"})
    with pytest.raises(ValueError, match="2 blocks"):
        lumpability.test_lumpability(runs, ("X", "Y"))


def reject_rate(chain: AbsorbingChain, n_runs: int, n_corpora: int, seed: int) -> float:
    rngs = np.random.default_rng(seed).spawn(n_corpora)
    rejected = 0
    for rng in rngs:
        runs = chain.simulate(n_runs, rng=rng)
        p = lumpability.test_lumpability(runs, BLOCKS, n_draws=99, rng=rng).p_value
        rejected += p is not None and p <= 0.05
    return rejected / n_corpora


@pytest.mark.parametrize("truth", [FREE, SELF], ids=["free", "label follows itself"])
@pytest.mark.parametrize("n_runs", [15, 100])
def test_size_when_members_go_on_alike(truth: AbsorbingChain, n_runs: int) -> None:
    # Nominal .05; three standard errors of a rate at 300 corpora.
    n = 300
    assert reject_rate(truth, n_runs, n, 7) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / n)


def test_power_and_effect_when_they_do_not(rng: np.random.Generator) -> None:
    assert reject_rate(OTHER, 100, 40, 8) > 0.9
    many = OTHER.simulate(20_000, rng=rng)
    block = lumpability.test_lumpability(many, BLOCKS, n_draws=19, rng=1).blocks[0]
    rows = np.array([[0.6, 0.3, 0.05, 0.05], [0.3, 0.3, 0.2, 0.2]])
    share = block.visits / block.visits.sum()
    pooled = share @ rows
    nats = share @ (rows * np.log(rows / pooled)).sum(axis=1)
    assert block.gain == pytest.approx(nats, rel=0.05)
    gaps = 0.5 * np.abs(rows - pooled).sum(axis=1)
    assert block.distance == pytest.approx(gaps.max(), abs=0.02)


def test_tasks_that_differ_do_not_disturb_the_test_within_tasks(rng: np.random.Generator) -> None:
    # In one half of the tasks only a is used and runs are long, in the other mostly b and short.
    corpora = []
    for stay, first in ((0.8, 0.9), (0.2, 0.1)):
        row = [stay * first, stay * (1 - first), 0.0, (1 - stay) / 2, (1 - stay) / 2]
        corpora.append(chain_of([row, row, row]).simulate(150, rng=rng))
    task = np.repeat(np.arange(30), 10)
    runs = StateSequences(
        states=np.concatenate([c.states for c in corpora]),
        offsets=np.concatenate(
            (corpora[0].offsets, corpora[0].offsets[-1] + corpora[1].offsets[1:])
        ),
        event=np.concatenate([c.event for c in corpora]),
        task=task,
        unit=task,
        state_names=("a", "b", "c"),
    )
    pooled = lumpability.test_lumpability(runs, BLOCKS, n_draws=199, rng=1)
    within = lumpability.test_lumpability(runs, BLOCKS, within_tasks=True, n_draws=199, rng=1)
    assert pooled.p_value == pytest.approx(1 / 200)
    assert within.p_value is not None
    assert within.p_value > 0.05
    assert within.gain < 0.2 * pooled.gain
