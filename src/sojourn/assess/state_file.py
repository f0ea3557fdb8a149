"""The rule from steps to states as plain values, for the model file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from sojourn._limits import STATES
from sojourn.states.embedding import Embedder, KnownVectors, NgramEmbedder
from sojourn.states.features import FEATURE_FIELDS
from sojourn.states.history import HISTORY_FEATURES
from sojourn.states.model import StateModel
from sojourn.states.rule import ClusterRule, Description

__all__ = ["state_model_from_dict", "state_model_to_dict"]

_MODES = ("names", "table", "clusters")


def state_model_to_dict(model: StateModel) -> dict[str, Any]:
    """Return a state model as plain values.

    Raises
    ------
    ValueError
        If its clusters rest on an encoder that has embedded nothing yet.

    Notes
    -----
    An encoder is not kept, but the vectors of the names that it has embedded are: a name that was
    never seen is then the zero vector, and whoever follows a run is told that it is unknown.
    """
    return {
        "names": list(model.state_names),
        "mode": model.mode,
        "order_free": model.order_free,
        "features": None if model.clusters is None else _rule_to_dict(model.clusters),
        "pooling": {
            "by_name": dict(model.by_name),
            "by_kind": [[*key, state] for key, state in model.by_kind.items()],
        },
        "silhouette": [list(pair) for pair in model.silhouette],
    }


def state_model_from_dict(given: Mapping[str, Any]) -> StateModel:
    """Make a state model of what `state_model_to_dict` returned, checked.

    Raises
    ------
    ValueError
        If something is missing, or does not fit the rest.
    """
    names = _strings(given["names"], "names")
    if not 1 <= len(names) <= STATES or len(set(names)) != len(names):
        raise ValueError("names must be different names of states")
    mode = given["mode"]
    if mode not in _MODES:
        raise ValueError("mode is not one of names, table and clusters")
    pooling, features = given["pooling"], given["features"]
    if (mode == "clusters") != (features is not None):
        raise ValueError("features are what clusters go by, and nothing else")
    by_kind = {}
    for actor, kind, state in pooling["by_kind"]:
        by_kind[_string(actor, "actor"), _string(kind, "kind")] = _state(state, len(names))
    clusters = None if features is None else _rule_from_dict(features, len(names))
    order_free = given["order_free"]
    if type(order_free) is not bool:
        raise ValueError("order_free is neither true nor false")
    return StateModel(
        state_names=names,
        mode=mode,
        # Never more than what the rule looks at allows, whatever the file says.
        order_free=order_free and (clusters is None or clusters.description.order_free),
        silhouette=tuple((int(k), float(value)) for k, value in given["silhouette"]),
        by_name={
            _string(name, "name"): _state(state, len(names))
            for name, state in pooling["by_name"].items()
        },
        by_kind=by_kind,
        clusters=clusters,
    )


def _rule_to_dict(rule: ClusterRule) -> dict[str, Any]:
    description = rule.description
    return {
        "fields": list(description.fields),
        "kept_names": list(description.kept_names),
        "repeats": description.repeats,
        "history": list(description.history),
        "edits": None if description.edits is None else list(description.edits),
        "embedder": _embedder_to_dict(rule),
        "columns": list(rule.columns),
        "points": rule.points.tolist(),
        "label": rule.label.tolist(),
        "centroids": rule.centroids.tolist(),
    }


def _embedder_to_dict(rule: ClusterRule) -> dict[str, Any] | None:
    embedder = rule.description.embedder
    if embedder is None:
        return None
    if isinstance(embedder, NgramEmbedder):
        return asdict(embedder)
    if not rule.embedded:
        raise ValueError(f"the encoder {embedder.name!r} has embedded nothing that could be kept")
    return {
        "name": embedder.name,
        "texts": list(rule.embedded),
        "vectors": [vector.tolist() for vector in rule.embedded.values()],
    }


def _embedder_from_dict(given: Mapping[str, Any] | None) -> Embedder | None:
    if given is None:
        return None
    if "vectors" in given:
        texts = _strings(given["texts"], "texts")
        vectors = _matrix(given["vectors"], len(given["vectors"][0]), "vectors")
        if len(set(texts)) != len(vectors) or len(texts) != len(vectors):
            raise ValueError("texts and their vectors are not of one number")
        rows = vectors.astype(np.float32)
        return KnownVectors(
            name=_string(given["name"], "name"), vectors=dict(zip(texts, rows, strict=True))
        )
    embedder = NgramEmbedder(**given)
    if max(embedder.n_dims, embedder.n_projected or 0, embedder.longest) > 100_000:
        raise ValueError("its embedding is larger than any text needs")
    return embedder


def _rule_from_dict(given: Mapping[str, Any], n_states: int) -> ClusterRule:
    fields, history = _strings(given["fields"], "fields"), _strings(given["history"], "history")
    if not set(fields) <= set(FEATURE_FIELDS) or not set(history) <= set(HISTORY_FEATURES):
        raise ValueError("features name what no step has")
    if type(given["repeats"]) is not bool:
        raise ValueError("repeats is neither true nor false")
    columns = _strings(given["columns"], "columns")
    points = _matrix(given["points"], len(columns), "points")
    centroids = _matrix(given["centroids"], len(columns), "centroids")
    label = np.array([_state(state, n_states) for state in given["label"]], dtype=np.intp)
    if centroids.shape[0] != n_states or label.size != points.shape[0]:
        raise ValueError("clusters, their names and their points are not of one number")
    edits = given["edits"]
    return ClusterRule(
        description=Description(
            fields=fields,
            kept_names=_strings(given["kept_names"], "kept_names"),
            repeats=given["repeats"],
            history=history,
            edits=None if edits is None else _strings(edits, "edits"),
            embedder=_embedder_from_dict(given["embedder"]),
        ),
        columns=columns,
        points=points,
        label=label,
        centroids=centroids,
        embedded={},
    )


def _matrix(rows: Any, n_columns: int, what: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    made = np.array(rows, dtype=np.float64)
    if made.ndim != 2 or made.shape[1] != n_columns or not np.all(np.isfinite(made)):
        raise ValueError(f"{what} must be rows of {n_columns} finite numbers")
    return made


def _state(value: Any, n_states: int) -> int:
    if type(value) is not int or not 0 <= value < n_states:
        raise ValueError(f"a state must be a whole number below {n_states}")
    return value


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be text")
    return value


def _strings(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{what} must be a list")
    return tuple(_string(value, what) for value in values)
