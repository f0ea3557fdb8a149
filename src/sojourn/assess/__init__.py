"""The pipelines, each as a method section reads."""

from __future__ import annotations

from sojourn.assess.comparison import compare_many, compare_traces
from sojourn.assess.comparison_results import Answer, Comparison, ComparisonFamily
from sojourn.assess.gate import Gate, GateAnswer, Rule, apply_rules, not_worse
from sojourn.assess.results import Assessment, GroupedAssessment, TraceAssessment
from sojourn.assess.session_results import GroupedSessionAssessment, SessionAssessment
from sojourn.assess.sessions import assess_session_groups, assess_sessions
from sojourn.assess.traces import assess_groups, assess_traces

__all__ = [
    "Answer",
    "Assessment",
    "Comparison",
    "ComparisonFamily",
    "Gate",
    "GateAnswer",
    "GroupedAssessment",
    "GroupedSessionAssessment",
    "Rule",
    "SessionAssessment",
    "TraceAssessment",
    "apply_rules",
    "assess_groups",
    "assess_session_groups",
    "assess_sessions",
    "assess_traces",
    "compare_many",
    "compare_traces",
    "not_worse",
]
