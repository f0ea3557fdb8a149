"""The pipelines, each as a method section reads."""

from __future__ import annotations

from sojourn.assess.results import Assessment, GroupedAssessment, TraceAssessment
from sojourn.assess.traces import assess_groups, assess_traces

__all__ = [
    "Assessment",
    "GroupedAssessment",
    "TraceAssessment",
    "assess_groups",
    "assess_traces",
]
