"""From steps to states: by name, by a user's table, or by clusters of step features."""

from __future__ import annotations

from sojourn.states.cluster import (
    Linkage,
    cut_tree,
    mean_silhouettes,
    merge_identical,
    ward_linkage,
)
from sojourn.states.embedding import Embedder, NgramEmbedder, SentenceEncoder, embed_texts
from sojourn.states.features import FEATURE_FIELDS, StepFeatures, repeats_previous, step_features
from sojourn.states.history import HISTORY_FEATURES, history_features
from sojourn.states.model import StateModel, fit_states

__all__ = [
    "FEATURE_FIELDS",
    "HISTORY_FEATURES",
    "Embedder",
    "Linkage",
    "NgramEmbedder",
    "SentenceEncoder",
    "StateModel",
    "StepFeatures",
    "cut_tree",
    "embed_texts",
    "fit_states",
    "history_features",
    "mean_silhouettes",
    "merge_identical",
    "repeats_previous",
    "step_features",
    "ward_linkage",
]
