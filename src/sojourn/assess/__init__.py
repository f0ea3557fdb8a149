"""The pipelines, each as a method section reads."""

from __future__ import annotations

from sojourn.assess.results import Assessment, GroupedAssessment, TraceAssessment
from sojourn.assess.session_results import GroupedSessionAssessment, SessionAssessment
from sojourn.assess.sessions import assess_session_groups, assess_sessions
from sojourn.assess.traces import assess_groups, assess_traces

__all__ = [
    "Assessment",
    "GroupedAssessment",
    "GroupedSessionAssessment",
    "SessionAssessment",
    "TraceAssessment",
    "assess_groups",
    "assess_session_groups",
    "assess_sessions",
    "assess_traces",
]
