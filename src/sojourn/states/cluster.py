"""Clusters of weighted points: Ward's tree, and the silhouette of every cut in one pass.

Steps described by a few rules fall on few distinct points, each many times. Ward's criterion needs
only the centroid and the weight of a cluster, so a point that stands w times is one point of
weight w, and the tree over distinct points is exactly that over all of them with the merges at
height zero left out. The same holds for the silhouette, whose distance sums are sums over points
times weights. The work is quadratic in the *distinct* points, whatever the number of steps.

Nothing here knows of steps or runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, frozen_array

__all__ = [
    "Linkage",
    "MergedPoints",
    "cut_tree",
    "mean_silhouettes",
    "merge_identical",
    "ward_linkage",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_MAX_POINTS = 20_000
_BLOCK_DISTANCES = 4_000_000


class MergedPoints(NamedTuple):
    """Distinct points, their weights, and the distinct point that each given point is."""

    points: Floats
    weights: Floats
    place: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Linkage:
    """A tree of merges, in the order of their heights.

    Attributes
    ----------
    left, right : ndarray of shape (n_points - 1,), int64
        The clusters joined by merge k, left < right: 0 .. n - 1 are the points, n + k' what merge
        k' made.
    height : ndarray of shape (n_points - 1,)
        Ward's distance sqrt(2 a b / (a + b)) |c_a - c_b| of clusters of weights a and b with
        centroids c_a and c_b.
    """

    left: Integers
    right: Integers
    height: Floats

    def __post_init__(self) -> None:
        for name, dtype in (("left", np.int64), ("right", np.int64), ("height", np.float64)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype, name=name))

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.height.size) + 1


def merge_identical(points: Floats, weights: Floats | None = None) -> MergedPoints:
    """Merge identical points and add up their weights (1 each by default).

    Points come in the order of their first appearance.
    """
    weight = np.ones(points.shape[0]) if weights is None else np.asarray(weights, np.float64)
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    place = rank[inverse.reshape(-1)]
    return MergedPoints(
        points=np.asarray(points[first[order]], dtype=np.float64),
        weights=np.bincount(place, weights=weight, minlength=order.size).astype(np.float64),
        place=place,
    )


def ward_linkage(points: Floats, weights: Floats | None = None) -> Linkage:
    """Join the two clusters whose union adds least to the sum of squares, until one is left.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        At least one point, at most 20,000.
    weights : ndarray of shape (n_points,), optional
        Positive; how often each point stands. 1 by default.

    Returns
    -------
    Linkage

    Raises
    ------
    ValueError
        If there is no point or there are too many, or a weight is not positive.

    Notes
    -----
    Nearest-neighbour chains (Murtagh 1983) in O(n^2 p) time and O(n p) memory: Ward's distance is
    reducible, so that clusters which are each other's nearest may be joined at once, in any order;
    the merges are then sorted by height. Ties go to the earlier point.
    """
    n = points.shape[0]
    if not 1 <= n <= _MAX_POINTS:
        raise ValueError(
            f"{n} distinct points; between 1 and {_MAX_POINTS} can be clustered. "
            "Round the features or use fewer of them."
        )
    weight = np.ones(n) if weights is None else np.array(weights, dtype=np.float64)
    if weight.shape != (n,) or not np.all(weight > 0.0):
        raise ValueError("weights must be positive, one a point")
    centroid = np.array(points, dtype=np.float64)
    alive = np.ones(n, dtype=np.bool_)
    pairs, heights = np.empty((n - 1, 2), dtype=np.int64), np.empty(n - 1)
    chain: list[int] = []
    for k in range(n - 1):
        if not chain:
            chain.append(int(np.argmax(alive)))
        while True:
            here = chain[-1]
            squared = _ward_squared(centroid, weight, alive, here)
            there = int(np.argmin(squared))
            # A tie with the previous link must end the chain, or it would go round for ever.
            if len(chain) > 1 and squared[chain[-2]] <= squared[there]:
                there = chain[-2]
                break
            chain.append(there)
        del chain[-2:]
        pairs[k] = here, there
        heights[k] = np.sqrt(squared[there])
        total = weight[here] + weight[there]
        centroid[there] += (centroid[here] - centroid[there]) * (weight[here] / total)
        weight[there] = total
        alive[here] = False
    return _in_order(pairs, heights)


def _ward_squared(
    centroid: Floats, weight: Floats, alive: npt.NDArray[np.bool_], here: int
) -> Floats:
    """2 a b / (a + b) |c_a - c_b|^2 from one cluster to all; infinite to itself and the gone."""
    gap = centroid - centroid[here]
    squared = np.einsum("ij,ij->i", gap, gap) * (
        2.0 * weight[here] * weight / (weight[here] + weight)
    )
    squared[~alive] = np.inf
    squared[here] = np.inf
    return np.asarray(squared, dtype=np.float64)


def _in_order(pairs: Integers, heights: Floats) -> Linkage:
    """Sort merges by height and name clusters by their points, then by the merge that made them."""
    n = heights.size + 1
    order = np.argsort(heights, kind="stable")
    parent = np.arange(2 * n - 1)

    def root(cluster: int) -> int:
        while parent[cluster] != cluster:
            parent[cluster] = parent[parent[cluster]]
            cluster = int(parent[cluster])
        return cluster

    left, right = np.empty(n - 1, dtype=np.int64), np.empty(n - 1, dtype=np.int64)
    for k, merge in enumerate(order):
        one, two = root(int(pairs[merge, 0])), root(int(pairs[merge, 1]))
        left[k], right[k] = min(one, two), max(one, two)
        parent[one] = parent[two] = n + k
    return Linkage(left=left, right=right, height=heights[order])


def cut_tree(tree: Linkage, n_clusters: int) -> npt.NDArray[np.intp]:
    """Label the points by the clusters that are left when `n_clusters` remain.

    Returns
    -------
    ndarray of shape (n_points,)
        Labels 0 .. n_clusters - 1 in the order of each cluster's first point.
    """
    check_positive_int(n_clusters, name="n_clusters")
    n = tree.n_points
    if n_clusters > n:
        raise ValueError(f"n_clusters must be at most {n}, the number of points")
    cluster = np.arange(2 * n - 1)
    # From the last merge kept down to the first, each made cluster hands its label to its parts.
    for k in range(n - n_clusters - 1, -1, -1):
        cluster[tree.left[k]] = cluster[tree.right[k]] = cluster[n + k]
    _, first, inverse = np.unique(cluster[:n], return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse]


def mean_silhouettes(
    points: Floats, tree: Linkage, n_clusters: npt.NDArray[np.int64], weights: Floats | None = None
) -> Floats:
    """Give the mean silhouette of several cuts of one tree.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_features)
        The points of the tree.
    tree : Linkage
        The tree.
    n_clusters : ndarray of shape (n_cuts,), int
        Numbers of clusters, each at least 2 and at most n_points.
    weights : ndarray of shape (n_points,), optional
        How often each point stands, 1 by default.

    Returns
    -------
    ndarray of shape (n_cuts,)

    Notes
    -----
    s = (b - a) / max(a, b), a the mean distance of a point to the others of its cluster (its own
    copies included, at distance zero) and b the smallest mean distance to another cluster; s = 0
    for a point that is alone (Rousseeuw 1987). The distance sums from every point to every cluster
    of the finest cut are computed once; a coarser cut adds up columns of them.
    """
    n = points.shape[0]
    weight = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    wanted = np.asarray(n_clusters, dtype=np.int64)
    if wanted.size == 0:
        return np.zeros(0)
    if wanted.min() < 2 or wanted.max() > n:
        raise ValueError(f"n_clusters must lie between 2 and {n}, the number of points")
    finest = cut_tree(tree, int(wanted.max()))
    member = np.zeros((n, int(wanted.max())))
    member[np.arange(n), finest] = weight
    sums = np.empty(member.shape)
    block = max(1, _BLOCK_DISTANCES // n)
    for start in range(0, n, block):
        sums[start : start + block] = _distances(points[start : start + block], points) @ member
    values = np.empty(wanted.size)
    for k, m in enumerate(wanted):
        label = cut_tree(tree, int(m))
        # Which coarse cluster each fine one lies in; any of its points tells.
        coarse = np.zeros(member.shape[1], dtype=np.intp)
        coarse[finest] = label
        joined = np.zeros((n, int(m)))
        np.add.at(joined.T, coarse, sums.T)
        values[k] = _mean_silhouette(joined, label, weight)
    return values


def _mean_silhouette(sums: Floats, label: npt.NDArray[np.intp], weight: Floats) -> float:
    size = np.bincount(label, weights=weight, minlength=sums.shape[1])
    own = np.arange(label.size), label
    others = size[label] - 1.0
    within = np.divide(sums[own], others, out=np.zeros(label.size), where=others > 0.0)
    mean = sums / size
    mean[own] = np.inf
    nearest = mean.min(axis=1)
    larger = np.maximum(within, nearest)
    value = np.divide(nearest - within, larger, out=np.zeros(label.size), where=larger > 0.0)
    value[others <= 0.0] = 0.0
    return float(weight @ value / weight.sum())


def _distances(some: Floats, points: Floats) -> Floats:
    """Euclidean distances, shape (n_some, n_points), in blocks of features to bound memory."""
    squared = np.zeros((some.shape[0], points.shape[0]))
    for j in range(points.shape[1]):
        squared += (some[:, j, None] - points[None, :, j]) ** 2
    return np.asarray(np.sqrt(squared), dtype=np.float64)
