"""From steps to states: by name, by a user's table, or by clusters of step features."""

from __future__ import annotations

from sojourn.states.cluster import (
    Linkage,
    cut_tree,
    mean_silhouettes,
    merge_identical,
    ward_linkage,
)
from sojourn.states.features import FEATURE_FIELDS, StepFeatures, repeats_previous, step_features
from sojourn.states.model import StateModel, fit_states

__all__ = [
    "FEATURE_FIELDS",
    "Linkage",
    "StateModel",
    "StepFeatures",
    "cut_tree",
    "fit_states",
    "mean_silhouettes",
    "merge_identical",
    "repeats_previous",
    "step_features",
    "ward_linkage",
]
