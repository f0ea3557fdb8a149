"""The pipelines, each as a method section reads."""

from __future__ import annotations

from sojourn.assess.certified import ChainSettings
from sojourn.assess.comparison import compare_many, compare_traces
from sojourn.assess.comparison_results import Answer, Comparison, ComparisonFamily
from sojourn.assess.gate import Gate, apply_rules, not_worse
from sojourn.assess.model import fit_model, monitor_of
from sojourn.assess.model_file import FittedModel, read_model, write_model
from sojourn.assess.plan import Plan, fit_task_law, make_plan
from sojourn.assess.results import Assessment, GroupedAssessment, TraceAssessment
from sojourn.assess.rules import GateAnswer, Rule
from sojourn.assess.session_comparison import SessionComparison, compare_sessions
from sojourn.assess.session_results import GroupedSessionAssessment, SessionAssessment
from sojourn.assess.sessions import assess_session_groups, assess_sessions
from sojourn.assess.state_choice import StateChoice, StateSpec, choose_states, state_specs
from sojourn.assess.state_making import StateSettings
from sojourn.assess.traces import assess_groups, assess_traces

__all__ = [
    "Answer",
    "Assessment",
    "ChainSettings",
    "Comparison",
    "ComparisonFamily",
    "FittedModel",
    "Gate",
    "GateAnswer",
    "GroupedAssessment",
    "GroupedSessionAssessment",
    "Plan",
    "Rule",
    "SessionAssessment",
    "SessionComparison",
    "StateChoice",
    "StateSettings",
    "StateSpec",
    "TraceAssessment",
    "apply_rules",
    "assess_groups",
    "assess_session_groups",
    "assess_sessions",
    "assess_traces",
    "choose_states",
    "compare_many",
    "compare_sessions",
    "compare_traces",
    "fit_model",
    "fit_task_law",
    "make_plan",
    "monitor_of",
    "not_worse",
    "read_model",
    "state_specs",
    "write_model",
]
