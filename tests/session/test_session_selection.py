"""Dependence tests and the choice of K: sizes, hand-sized truths, scores against oracles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from sojourn.session import _permutation_kernels as kernels
from sojourn.session.beta_binomial import fit_beta_binomial
from sojourn.session.dependence import assess_dependence
from sojourn.session.hierarchical import fit_hierarchical
from sojourn.session.hmm import HMMSpec, log_likelihood
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.selection import (
    Fold,
    bootstrap_gain,
    default_folds,
    hac_standard_error,
    is_block_ordered,
    predictive_score,
    select_n_states,
    stacking_weights,
)
from sojourn.session.simulate import simulate_sessions
from sojourn.task_sequences import TaskSequences

QUICK = SamplerSettings(warmup=200, draws=400, max_draws=400)


def clustered(rng, n=600, order="interleaved"):
    labels = np.repeat([0, 1], n // 2) if order == "blocks" else rng.integers(0, 2, n)
    return simulate_sessions(
        [n],
        transition=[[0.95, 0.05], [0.1, 0.9]],
        success_prob=[[0.97, 0.4], [0.9, 0.3]],
        subdomain=labels,
        rng=rng,
    ).sequences


def test_memory_statistic_is_the_weighted_sum_of_products():
    e = np.array([0.5, -0.5, 1.0, 0.25, -1.0])
    out = np.empty(2)
    kernels.memory_statistics(e, np.array([0, 3, 5]), np.array([0.0, 0.5]), out)
    lag1 = 0.5 * -0.5 + -0.5 * 1.0 + 0.25 * -1.0
    assert out[0] == pytest.approx(lag1)
    assert out[1] == pytest.approx(lag1 + 0.5 * 0.5 * 1.0)


def test_clusters_are_found_and_shuffled_ones_are_not(rng):
    seq = clustered(rng)
    found = assess_dependence(seq, n_draws=499, rng=rng)
    assert found.p_order == pytest.approx(1 / 500)
    assert found.clusters()
    assert found.direction == "clustering"
    assert found.p_session_effect is None
    shuffled = seq.with_success(rng.permutation(seq.success))
    null = [assess_dependence(shuffled, n_draws=199, rng=s).p_order for s in range(3)]
    assert max(null) > 0.05


def test_alternation_is_called_by_its_name(rng):
    y = np.tile([1, 0], 100)
    y[::17] = 1
    got = assess_dependence(TaskSequences.from_sessions([(np.zeros(200), y)], ["a"]), rng=rng)
    assert got.direction == "alternation"
    assert got.order_matters()
    assert not got.clusters()


def test_a_drift_matters_but_is_not_clustering(rng):
    plain, beyond = [], []
    for _ in range(20):
        y = (rng.random(1000) < np.linspace(0.95, 0.6, 1000)).astype(int)
        seq = TaskSequences.from_sessions([(np.zeros(1000), y)], ["a"])
        got = assess_dependence(seq, n_draws=199, rng=rng)
        plain.append(got.order_matters())
        beyond.append(got.clusters())
    assert np.mean(plain) > 0.8
    assert np.mean(beyond) <= 0.25


@pytest.mark.parametrize("y", [[1] * 30, [0] * 30, [1], [-1] * 5, []])
def test_nothing_to_permute_gives_p_one(y):
    seq = TaskSequences.from_sessions([([0] * len(y), y)], ["a"])
    got = assess_dependence(seq, n_draws=99, rng=0)
    assert got.p_order == got.p_beyond_trend == 1.0
    assert got.direction == "none"


def test_permutations_stay_within_strata_and_keep_groups_together(rng):
    from sojourn.session.dependence import _strata

    key = np.array([0, 1, 0, 1, 0, 1, 0, -1])
    y = np.array([1, 0, 0, 1, 1, 1, -1, 1], dtype=np.int8)
    group = np.array([5, -1, 5, -1, 6, -1, 6, -1])
    strata = _strata(key, y, group)
    value = np.arange(8.0)
    seen = set()
    for _ in range(60):
        out = value.copy()
        kernels.shuffle_units(
            rng, value, strata.members, strata.unit_first, strata.unit_size, strata.bounds,
            np.arange(strata.unit_first.size), out,
        )  # fmt: skip
        assert sorted(out[[0, 2, 4]]) == [0, 2, 4]
        assert sorted(out[[1, 3, 5]]) == [1, 3, 5]
        assert out[6] == 6
        assert out[7] == 7
        seen.add(tuple(out[[0, 2, 4]]))
    assert seen == {(0, 2, 4), (4, 0, 2)}  # tasks 0 and 2 travel together


def test_swaps_keep_margins_and_missing_cells(rng):
    Y = rng.integers(0, 2, (6, 9))
    Y[rng.random(Y.shape) < 0.1] = -1
    before = Y.copy()
    rows, columns = np.nonzero(Y >= 0)
    kernels.swap_margins(rng, Y, rows, columns, 5000)
    np.testing.assert_array_equal(Y < 0, before < 0)
    won = np.where(Y > 0, 1, 0)
    np.testing.assert_array_equal(won.sum(axis=0), np.where(before > 0, 1, 0).sum(axis=0))
    np.testing.assert_array_equal(won.sum(axis=1), np.where(before > 0, 1, 0).sum(axis=1))
    assert not np.array_equal(Y, before)


def test_shared_items_and_outages_are_kept_apart(rng):
    R, C = 20, 40
    p = np.tile(np.repeat([0.9, 0.3, 0.9, 0.3], 10), (R, 1))
    p[:5] = 0.02
    y = (rng.random((R, C)) < p).astype(np.int8)
    seq = TaskSequences(
        subdomain=np.zeros(R * C),
        success=y.ravel(),
        offsets=np.arange(R + 1) * C,
        subdomain_names=("a",),
        item=np.tile(np.arange(C), R),
    )
    margins = assess_dependence(seq, n_draws=199, rng=1)
    assert margins.method == "margins"
    assert margins.p_order > 0.01
    assert margins.p_session_effect == pytest.approx(1 / 200)
    strata = assess_dependence(seq, method="strata", n_draws=199, rng=1)
    assert strata.p_order == pytest.approx(
        1 / 200
    )  # hard stretches of the list, taken for clusters


def test_swaps_reach_every_matrix_with_the_margins_equally_often(rng):
    """Margins (2, 1, 1) by (2, 1, 1): five 0/1 matrices."""
    Y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])
    rows, columns = np.nonzero(Y >= 0)
    seen: dict[bytes, int] = {}
    n = 4000
    for _ in range(n):
        kernels.swap_margins(rng, Y, rows, columns, 60)
        seen[Y.tobytes()] = seen.get(Y.tobytes(), 0) + 1
    assert len(seen) == 5
    assert np.all(np.abs(np.array(list(seen.values())) - n / 5) < 5 * np.sqrt(n * 0.16))


def test_shared_tasks_need_no_common_order_and_may_repeat(rng):
    lengths, sessions, items = [8, 8, 9], [], []
    for n in lengths:
        items.append(rng.permutation(np.arange(8)) if n == 8 else np.r_[rng.permutation(8), 3])
        sessions.append((np.zeros(n, int), rng.integers(0, 2, n)))
    seq = TaskSequences.from_sessions(sessions, ["a"])
    seq = TaskSequences(
        subdomain=seq.subdomain,
        success=seq.success,
        offsets=seq.offsets,
        subdomain_names=("a",),
        item=np.concatenate(items),
    )
    got = assess_dependence(seq, method="margins", n_draws=99, rng=1)
    assert 0.0 < got.p_order <= 1.0
    with pytest.raises(ValueError, match="at least two sessions share"):
        assess_dependence(seq.select([0]), method="margins", rng=1)


def test_same_seed_same_p_values(rng):
    seq = clustered(rng, 100)
    assert assess_dependence(seq, rng=4) == assess_dependence(seq, rng=4)


def test_score_equals_the_average_over_draws(rng):
    seq = clustered(rng, 120)
    fold = Fold(cut=np.array([100]), stop=np.array([118]))
    fit = sample(seq.head(fold.cut), HMMSpec(n_states=3), settings=QUICK, rng=1)
    got = predictive_score(fit, seq, fold)
    logs = []
    for c in range(4):
        for d in range(400):
            pars = {
                "transition": fit.transition[c, d],
                "success_prob": fit.success_prob[c, d],
                "initial": fit.initial[c, d],
            }
            logs.append([log_likelihood(seq.head(100 + k), **pars) for k in (0, 1, 18)])
    L = np.array(logs)
    expected = logsumexp(L[:, 2] - L[:, 0]) - np.log(1600)
    assert got.log_score == pytest.approx(expected, rel=1e-10)
    assert got.pointwise.sum() == pytest.approx(got.log_score, rel=1e-10)
    first = logsumexp(L[:, 1] - L[:, 0]) - np.log(1600)
    assert got.pointwise[0] == pytest.approx(first, rel=1e-10)
    assert 0 < got.mcse < 1
    assert got.smallest_ess <= 1600


def test_held_out_sessions_start_afresh(rng):
    model = {"transition": [[0.9, 0.1], [0.2, 0.8]], "success_prob": [[0.9, 0.2]]}
    seq = simulate_sessions([30] * 6, rng=rng, **model).sequences
    (fold,) = default_folds(seq)
    np.testing.assert_array_equal(fold.cut, [30, 30, 30, 30, 30, 0])
    np.testing.assert_array_equal(fold.test_index(seq), np.arange(150, 180))
    fit = sample(seq.head(fold.cut), HMMSpec(n_states=2), settings=QUICK, rng=1)
    got = predictive_score(fit, seq, fold)
    one = seq.select([5])
    logs = [
        log_likelihood(
            one,
            transition=fit.transition[c, d],
            success_prob=fit.success_prob[c, d],
            initial=fit.initial[c, d],
        )
        for c in range(4)
        for d in range(400)
    ]
    assert got.log_score == pytest.approx(logsumexp(logs) - np.log(1600), rel=1e-10)


def test_folds_follow_the_blocks(rng):
    blocks, mixed = clustered(rng, 400, "blocks"), clustered(rng, 400)
    assert is_block_ordered(blocks)
    assert not is_block_ordered(mixed)
    first, second = default_folds(blocks)
    assert (first.cut[0], first.stop[0]) == (160, 200)
    assert (second.cut[0], second.stop[0]) == (360, 400)
    (tail,) = default_folds(mixed)
    assert (tail.cut[0], tail.stop[0]) == (320, 400)


def test_hac_error_is_the_classical_one_for_noise_and_larger_for_runs(rng):
    d = rng.normal(size=4000)
    assert hac_standard_error(d) == pytest.approx(np.sqrt(4000) * d.std(), rel=0.1)
    runs = np.repeat(rng.normal(size=400), 10)
    assert hac_standard_error(runs) > 2 * np.sqrt(4000) * runs.std()


def test_stacking_finds_the_better_model_and_mixes_complements():
    good, bad = np.full(50, -0.1), np.full(50, -1.0)
    np.testing.assert_allclose(stacking_weights([bad, good]), [0.0, 1.0], atol=1e-6)
    a, b = np.log(np.tile([0.9, 0.1], 25)), np.log(np.tile([0.1, 0.9], 25))
    np.testing.assert_allclose(stacking_weights([a, b]), [0.5, 0.5], atol=1e-6)


def test_gate_decides_the_choice(rng):
    dependent = select_n_states(
        clustered(rng), n_states=(1, 2, 3), settings=QUICK, n_threads=1, rng=1
    )
    assert dependent.chosen in (2, 3)
    assert dependent.candidates[1].difference > 5
    assert dependent.stacking[0] == 0.0
    assert dependent.stacking.sum() == pytest.approx(1.0)
    assert "<- chosen" in str(dependent)
    noise = simulate_sessions([300], transition=[[1.0]], success_prob=[[0.8]], rng=5).sequences
    null = select_n_states(noise, n_states=(1, 2), settings=QUICK, rng=1)
    assert null.dependence.p_order > 0.05
    assert null.chosen == 1
    again = select_n_states(noise, n_states=(1, 2), settings=QUICK, n_threads=3, rng=1)
    assert again.candidates[1].log_score == null.candidates[1].log_score


def test_bootstrap_gain_separates_clusters_from_noise(rng):
    tiny = SamplerSettings(warmup=100, draws=200, max_draws=200)
    seq = clustered(rng, 300)
    chosen = select_n_states(seq, n_states=(1, 2), settings=tiny, rng=1)
    p, gains = bootstrap_gain(seq, chosen, n_boot=9, settings=tiny, rng=1)
    assert p == pytest.approx(0.1)
    assert gains.max() < chosen.candidates[1].difference


def test_candidates_must_hold_the_null():
    seq = TaskSequences.from_sessions([([0, 0], [1, 0])], ["a"])
    with pytest.raises(ValueError, match="must hold 1"):
        select_n_states(seq, n_states=(2, 3), rng=0)


def test_beta_binomial_baseline_has_its_closed_form_score(rng):
    seq = clustered(rng, n=120)
    selection = select_n_states(seq, n_states=(1,), rng=rng)
    (baseline,) = selection.baselines
    (fold,) = selection.folds
    train, index = seq.head(fold.cut), fold.test_index(seq)
    test = TaskSequences.from_sessions([(seq.subdomain[index], seq.success[index])], ["a", "b"])
    exact = fit_beta_binomial(train).log_score(test)
    assert baseline.log_score == pytest.approx(exact, rel=1e-10)
    assert baseline.difference == pytest.approx(exact - selection.candidates[0].log_score)
    assert "beta_binomial" in str(selection)


def test_no_fold_gives_no_score_and_no_warning(rng):
    seq = clustered(rng, n=60)
    selection = select_n_states(seq, n_states=(1, 2, 3), folds=(), settings=QUICK, rng=rng)
    assert [c.log_score for c in selection.candidates] == [0.0, 0.0, 0.0]
    assert selection.stacking.tolist() == [0.0, 0.5, 0.5]


def test_score_without_training_is_the_evidence_even_under_an_extreme_prior(rng):
    seq = clustered(rng, n=40)
    for prior in ((1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 0.5, 5.0)):
        empty = fit_hierarchical(seq.head([0]), prior=prior, n_points=400)
        whole = fit_hierarchical(seq, prior=prior, n_points=400)
        total, _ = empty.log_score(seq.subdomain, seq.success)
        assert total == pytest.approx(whole.log_evidence, abs=2e-3)
