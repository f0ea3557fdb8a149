"""States as clusters of described steps: the description, the clusters, and their names.

A description is what step, whether it repeats the one before, and how its run went so far, all
rounded; a corpus holds few distinct ones, whatever the number of its steps. They are points with
weights for the tree of `cluster`. Where even the distinct points are many, the most frequent make
the tree and the others join the nearest centroid, as steps of other corpora do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn.corpus import StepTypes
from sojourn.corpus.columns import combinations
from sojourn.errors import NothingUsableError
from sojourn.states.cluster import cut_tree, mean_silhouettes, merge_identical, ward_linkage
from sojourn.states.embedding import Embedder, Vectors, embed_texts
from sojourn.states.features import StepFeatures, repeats_previous, step_features
from sojourn.states.history import N_LEVELS, history_features, history_levels

__all__ = ["ClusterRule", "Description", "FittedClusters", "fit_clusters"]

Floats = npt.NDArray[np.float64]
_TIE = 1e-12
_TREE_POINTS = 2_000
_TELLING = 0.5
_HISTORY_WORDS = {
    "error_streak": ("no errors in a row", "errors in a row"),
    "edits": ("few edits so far", "many edits so far"),
    "repeats": ("not repeating", "repeating"),
    "since_progress": ("making progress", "no progress"),
    "failure_share": ("few failures so far", "many failures so far"),
}


class DescribedSteps(NamedTuple):
    """Distinct descriptions of steps, and the one of each step."""

    code: npt.NDArray[np.intp]
    again: npt.NDArray[np.bool_]
    levels: npt.NDArray[np.int8]
    place: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Description:
    """What of a step is looked at.

    Attributes
    ----------
    fields : tuple of str
        Indicators of the step itself.
    kept_names : tuple of str
        Names with an indicator of their own.
    repeats : bool
        Whether it repeats the step before it.
    history : tuple of str
        Features of the run so far.
    edits : tuple of str or None
        Names of steps that change something; None: told by their words.
    embedder : Embedder or None
        What turns names into vectors, in the place of their indicators.
    cache : path-like or None
        Where vectors are kept.
    """

    fields: tuple[str, ...]
    kept_names: tuple[str, ...] = ()
    repeats: bool = False
    history: tuple[str, ...] = ()
    edits: tuple[str, ...] | None = None
    embedder: Embedder | None = None
    cache: str | os.PathLike[str] | None = None

    @property
    def order_free(self) -> bool:
        """Whether a step is described without its neighbours."""
        return not self.repeats and not self.history

    def of_steps(
        self,
        types: StepTypes,
        steps: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        digests: npt.NDArray[np.uint64] | None,
    ) -> DescribedSteps:
        """Describe the steps of runs; distinct descriptions are sorted by step, then repetition."""
        again = np.zeros(steps.size, dtype=np.bool_)
        if self.repeats:
            again = repeats_previous(steps, offsets, digests)
        values = history_features(
            steps, offsets, types, digests, names=self.history, edits=self.edits
        )
        levels = history_levels(values, self.history)
        columns = [steps, again.astype(np.int8), *levels.T]
        first, code = combinations(columns)
        order = np.lexsort([column[first] for column in reversed(columns)])
        rank = np.empty(order.size, dtype=np.intp)
        rank[order] = np.arange(order.size)
        first = first[order]
        return DescribedSteps(
            code=steps[first].astype(np.intp),
            again=again[first],
            levels=levels[first],
            place=rank[code],
        )

    def vectors(
        self, types: StepTypes, described: DescribedSteps, embedded: dict[str, Vectors]
    ) -> StepFeatures:
        """Give a vector a description; names are looked up in `embedded`, new ones are added."""
        fields = tuple(f for f in self.fields if f != "name" or self.embedder is None)
        single = step_features(types, fields=fields, names=self.kept_names)
        blocks, columns = [single.matrix[described.code]], list(single.columns)
        if self.embedder is not None:
            names = [types.names[i] for i in types.name[described.code]]
            new = [name for name in dict.fromkeys(names) if name not in embedded]
            if new:
                rows = embed_texts(new, self.embedder, cache=self.cache)
                embedded.update(zip(new, rows, strict=True))
            blocks.append(np.array([embedded[name] for name in names], dtype=np.float64))
            columns += [f"embedding={j}" for j in range(blocks[-1].shape[1])]
        if self.repeats:
            blocks.append(described.again[:, None].astype(np.float64))
            columns.append("repeat=yes")
        blocks.append(described.levels / (N_LEVELS - 1.0))
        columns += [f"history={name}" for name in self.history]
        return StepFeatures(matrix=np.hstack(blocks), columns=tuple(columns))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterRule:
    """Distinct feature vectors with their clusters; a new one goes to the nearest centroid.

    Attributes
    ----------
    description : Description
        What of a step is looked at.
    columns : tuple of str
        What each entry of a vector says.
    points : ndarray of shape (n_points, n_features)
        The vectors that made the tree.
    label : ndarray of shape (n_points,)
        Their clusters.
    centroids : ndarray of shape (n_clusters, n_features)
        Means of the clusters.
    embedded : dict of str to ndarray
        Vectors of the names seen so far.
    """

    description: Description
    columns: tuple[str, ...]
    points: Floats
    label: npt.NDArray[np.intp]
    centroids: Floats
    embedded: dict[str, Vectors]

    def of_types(self, types: StepTypes) -> npt.NDArray[np.int32]:
        """Give the state of each distinct step, as itself and as a repetition; see StateModel."""
        if self.description.history:
            raise ValueError(
                "these states look at the history of a run, so a step has none by itself; "
                "use transform"
            )
        n = len(types)
        described = DescribedSteps(
            code=np.repeat(np.arange(n), 2),
            again=np.tile([False, True], n),
            levels=np.zeros((2 * n, 0), dtype=np.int8),
            place=np.arange(2 * n),
        )
        return self.assign(types, described).reshape(n, 2)

    def path(
        self,
        types: StepTypes,
        steps: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        digests: npt.NDArray[np.uint64] | None,
    ) -> npt.NDArray[np.int32]:
        """Give the state of each step of runs, shape (n_steps,)."""
        if steps.size == 0:
            return np.zeros(0, dtype=np.int32)
        described = self.description.of_steps(types, steps, offsets, digests)
        return self.assign(types, described)[described.place]

    def assign(self, types: StepTypes, described: DescribedSteps) -> npt.NDArray[np.int32]:
        """Give the state of each description."""
        features = self.description.vectors(types, described, self.embedded)
        vectors = np.zeros((features.matrix.shape[0], len(self.columns)))
        place = {column: j for j, column in enumerate(self.columns)}
        # A feature never seen in the fit adds the same to every distance: it is left out.
        for j, column in enumerate(features.columns):
            if column in place:
                vectors[:, place[column]] = features.matrix[:, j]
        known = {point.tobytes(): int(c) for point, c in zip(self.points, self.label, strict=True)}
        states = np.empty(vectors.shape[0], dtype=np.int32)
        for k, vector in enumerate(vectors):
            state = known.get(vector.tobytes())
            if state is None:
                state = int(np.argmin(((self.centroids - vector) ** 2).sum(axis=1)))
            states[k] = state
        return states


class FittedClusters(NamedTuple):
    """The rule, the names of its states, and the silhouette of every number that was tried."""

    rule: ClusterRule
    names: tuple[str, ...]
    silhouette: tuple[tuple[int, float], ...]


def fit_clusters(
    description: Description,
    types: StepTypes,
    steps: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    digests: npt.NDArray[np.uint64] | None,
    wanted: tuple[int, int],
) -> FittedClusters:
    """Cluster the described steps of runs.

    Parameters
    ----------
    description : Description
        What of a step is looked at.
    types, steps, offsets, digests
        The steps of the runs, at least one.
    wanted : (int, int)
        Least and greatest number of clusters; that of the largest mean silhouette is taken.

    Raises
    ------
    NothingUsableError
        If names are to be embedded and no step has one.
    """
    described = description.of_steps(types, steps, offsets, digests)
    if description.embedder is not None and not any(
        types.names[i].strip() for i in types.name[described.code]
    ):
        raise NothingUsableError(
            "no step has a name, and the text of steps is not kept; there is nothing to embed"
        )
    weights = np.bincount(described.place, minlength=described.code.size).astype(np.float64)
    embedded: dict[str, Vectors] = {}
    features = description.vectors(types, described, embedded)
    merged = merge_identical(features.matrix, weights)
    frequent = np.sort(np.argsort(-merged.weights, kind="stable")[:_TREE_POINTS])
    points, weight = merged.points[frequent], merged.weights[frequent]
    tree = ward_linkage(points, weight)
    n = tree.n_points
    cuts = np.arange(max(2, min(wanted[0], n)), min(wanted[1], n) + 1)
    curve = mean_silhouettes(points, tree, cuts, weight)
    if wanted[0] == wanted[1] or curve.size == 0:
        m = min(wanted[0], n)
    else:
        m = int(cuts[np.argmax(curve >= curve.max() - _TIE)])
    label = _by_size(cut_tree(tree, m), weight)
    rule = ClusterRule(
        description=description,
        columns=features.columns,
        points=points,
        label=label,
        centroids=_centroids(points, weight, label, m),
        embedded=embedded,
    )
    states = rule.assign(types, described)
    return FittedClusters(
        rule=rule,
        names=_names(description, types, described, weights, states, m),
        silhouette=tuple((int(k), float(value)) for k, value in zip(cuts, curve, strict=True)),
    )


def _by_size(label: npt.NDArray[np.intp], weights: Floats) -> npt.NDArray[np.intp]:
    """Give clusters numbers by their weight, the largest first."""
    order = np.argsort(-np.bincount(label, weights=weights), kind="stable")
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size)
    return rank[label]


def _centroids(points: Floats, weights: Floats, label: npt.NDArray[np.intp], m: int) -> Floats:
    member = np.zeros((m, label.size))
    member[label, np.arange(label.size)] = weights
    return np.asarray(member @ points / member.sum(axis=1, keepdims=True), dtype=np.float64)


def _names(
    description: Description,
    types: StepTypes,
    described: DescribedSteps,
    weights: Floats,
    states: npt.NDArray[np.int32],
    m: int,
) -> tuple[str, ...]:
    """Name a cluster by its most frequent steps, and by what is special in its history."""
    names: list[str] = []
    history = _history_words(description.history, described.levels, weights, states, m)
    for state in range(m):
        shares: dict[str, float] = {}
        for k in np.flatnonzero(states == state):
            code = described.code[k]
            words = types.names[types.name[code]]
            words += " (error)" if types.ok[code] == 0 else ""
            words += " again" if described.again[k] else ""
            shares[words] = shares.get(words, 0.0) + weights[k]
        name = _most_frequent(shares) + history[state]
        names.append(name if name not in names else f"{name} [{state + 1}]")
    return tuple(names)


def _most_frequent(shares: dict[str, float]) -> str:
    """Join the one most frequent word, or two where the second has a quarter of all."""
    ordered = sorted(shares, key=lambda words: (-shares[words], words))
    name = ordered[0]
    if len(ordered) > 1 and shares[ordered[1]] >= 0.25 * sum(shares.values()):
        name = f"{ordered[0]}, {ordered[1]}"
    if len(ordered) > 1 + ("," in name):
        name += ", ..."
    return name


def _history_words(
    history: tuple[str, ...],
    levels: npt.NDArray[np.int8],
    weights: Floats,
    states: npt.NDArray[np.int32],
    m: int,
) -> list[str]:
    """Say of each cluster the feature of history in which it differs most from all steps."""
    words = [""] * m
    total = weights.sum()
    mean = weights @ levels / total
    spread = np.sqrt(weights @ (levels - mean) ** 2 / total)
    for state in range(m):
        inside = weights * (states == state)
        gap = inside @ levels / inside.sum() - mean
        score = np.divide(gap, spread, out=np.zeros(gap.size), where=spread > 0.0)
        if score.size and np.abs(score).max() >= _TELLING:
            most = int(np.argmax(np.abs(score)))
            words[state] = f": {_HISTORY_WORDS[history[most]][int(score[most] > 0.0)]}"
    return words
