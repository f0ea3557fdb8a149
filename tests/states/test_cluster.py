"""Weighted Ward against SciPy on replicated points, silhouettes against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist

from sojourn.states.cluster import (
    cut_tree,
    mean_silhouettes,
    merge_identical,
    ward_linkage,
)


def same_partition(one: np.ndarray, two: np.ndarray) -> bool:
    pairs = set(zip(one.tolist(), two.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(two.tolist()))


@given(seed=st.integers(0, 10_000), n=st.integers(2, 40), p=st.integers(1, 5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_unweighted_tree_is_scipys(seed: int, n: int, p: int) -> None:
    points = np.random.default_rng(seed).normal(size=(n, p))
    tree, known = ward_linkage(points), linkage(points, "ward")
    np.testing.assert_allclose(tree.height, known[:, 2], rtol=1e-9)
    np.testing.assert_array_equal(np.column_stack((tree.left, tree.right)), known[:, :2])


@given(seed=st.integers(0, 10_000), n=st.integers(2, 12))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_weights_are_copies(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    points, copies = rng.normal(size=(n, 3)), rng.integers(1, 6, size=n)
    tree = ward_linkage(points, copies.astype(float))
    known = linkage(np.repeat(points, copies, axis=0), "ward")
    # Copies meet first, at height zero; then come the merges of distinct points.
    np.testing.assert_allclose(tree.height, known[-(n - 1) :, 2], rtol=1e-9)
    for m in range(1, n + 1):
        labels = np.repeat(cut_tree(tree, m), copies)
        assert same_partition(labels, fcluster(known, m, "maxclust"))


def test_heights_by_hand() -> None:
    # Weights 3 and 1 at distance 2: sqrt(2 * 3 / 4) * 2; their centroid .5 is 9.5 from 10.
    tree = ward_linkage(np.array([[0.0], [2.0], [10.0]]), np.array([3.0, 1.0, 4.0]))
    np.testing.assert_allclose(tree.height, [np.sqrt(1.5) * 2, np.sqrt(2 * 16 / 8) * 9.5])
    assert tree.left.tolist() == [0, 2]
    assert tree.right.tolist() == [1, 3]


def test_a_grid_full_of_ties_is_deterministic_and_ends() -> None:
    points = np.eye(9)
    one, two = ward_linkage(points), ward_linkage(points)
    np.testing.assert_array_equal(one.left, two.left)
    assert np.all(np.diff(one.height) >= -1e-12)
    np.testing.assert_allclose(one.height, linkage(points, "ward")[:, 2])


def test_cuts_are_nested_and_labelled_in_order() -> None:
    points = np.random.default_rng(1).normal(size=(15, 2))
    tree = ward_linkage(points)
    finer = cut_tree(tree, 15)
    assert finer.tolist() == list(range(15))
    for m in range(14, 0, -1):
        coarser = cut_tree(tree, m)
        assert len(set(zip(finer.tolist(), coarser.tolist(), strict=True))) == m + 1
        assert [coarser.tolist().index(k) for k in range(m)] == sorted(
            coarser.tolist().index(k) for k in range(m)
        )
        finer = coarser


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_silhouettes_are_scikit_learns_on_copies(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    points, copies = rng.normal(size=(14, 3)), rng.integers(1, 5, size=14)
    tree = ward_linkage(points, copies.astype(float))
    # Its own distances of copies are 1e-8 and not 0, so it is given exact ones.
    many = cdist(*[np.repeat(points, copies, axis=0)] * 2)
    cuts = np.arange(2, 15)
    values = mean_silhouettes(points, tree, cuts, copies.astype(float))
    for m, value in zip(cuts, values, strict=True):
        labels = np.repeat(cut_tree(tree, int(m)), copies)
        known = metrics.silhouette_score(many, labels, metric="precomputed")
        assert value == pytest.approx(known, abs=1e-12)


def test_silhouettes_by_hand_and_alone() -> None:
    points = np.array([[0.0], [1.0], [10.0]])
    tree = ward_linkage(points)
    # Cut at 2: points 0 and 1 have a = 1, b = 10 and 9; the last one is alone.
    values = mean_silhouettes(points, tree, np.array([2, 3]))
    assert values[0] == pytest.approx((0.9 + 8 / 9 + 0.0) / 3)
    assert values[1] == 0.0


def test_silhouettes_in_blocks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(2).normal(size=(30, 4))
    tree, cuts = ward_linkage(points), np.arange(2, 10)
    whole = mean_silhouettes(points, tree, cuts)
    monkeypatch.setattr("sojourn.states.cluster._BLOCK_DISTANCES", 70)
    np.testing.assert_allclose(mean_silhouettes(points, tree, cuts), whole, rtol=1e-12)


def test_identical_points_merge_in_order_of_appearance() -> None:
    points = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    merged = merge_identical(points, np.array([1.0, 2.0, 4.0, 8.0]))
    assert merged.points.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert merged.weights.tolist() == [5.0, 2.0, 8.0]
    assert merged.place.tolist() == [0, 1, 0, 2]
    assert merge_identical(points).weights.tolist() == [2.0, 1.0, 1.0]


def test_bad_input_is_refused() -> None:
    points = np.zeros((3, 1)) + np.arange(3)[:, None]
    tree = ward_linkage(points)
    for ask in (
        lambda: ward_linkage(np.zeros((0, 2))),
        lambda: ward_linkage(np.zeros((20_001, 1))),
        lambda: ward_linkage(points, np.array([1.0, 0.0, 1.0])),
        lambda: cut_tree(tree, 4),
        lambda: cut_tree(tree, 0),
        lambda: mean_silhouettes(points, tree, np.array([1, 2])),
    ):
        with pytest.raises(ValueError, match="must|clustered"):  # noqa: RUF043
            ask()
    assert ward_linkage(points[:1]).n_points == 1
    assert mean_silhouettes(points, tree, np.array([], dtype=int)).size == 0
