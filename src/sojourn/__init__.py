"""Sojourn: how reliable an LLM agent is over time, and how far each figure may be believed.

The main job in three lines::

    import sojourn

    corpus = sojourn.read_traces("logs/")
    print(sojourn.assess_groups(corpus, rng=0))

Names are loaded when they are first used, so that ``import sojourn`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.assess import (
        ChainSettings,
        Comparison,
        ComparisonFamily,
        FittedModel,
        Gate,
        GroupedAssessment,
        GroupedSessionAssessment,
        Plan,
        Rule,
        SessionAssessment,
        StateSettings,
        TraceAssessment,
        apply_rules,
        assess_groups,
        assess_session_groups,
        assess_sessions,
        assess_traces,
        choose_states,
        compare_many,
        compare_sessions,
        compare_traces,
        fit_model,
        fit_task_law,
        make_plan,
        monitor_of,
        read_model,
        write_model,
    )
    from sojourn.corpus import (
        CorpusBuilder,
        Policy,
        SessionLog,
        TraceCorpus,
        resolve,
        write_corpus,
        write_sessions,
    )
    from sojourn.estimates import (
        Claim,
        Estimate,
        Interval,
        ReliabilityCurve,
    )
    from sojourn.readers import (
        ReadOptions,
        read_profile,
        read_sessions,
        read_traces,
    )
    from sojourn.records import (
        End,
        LimitKind,
        OperationalProfile,
        Outcome,
        Skipped,
        Step,
        TaskResult,
        Trace,
    )
    from sojourn.report import (
        write_json,
        write_report,
    )

__version__ = "0.1.0"

_HOMES = {
    "ChainSettings": "assess",
    "Claim": "estimates",
    "Comparison": "assess",
    "ComparisonFamily": "assess",
    "CorpusBuilder": "corpus",
    "End": "records",
    "Estimate": "estimates",
    "FittedModel": "assess",
    "Gate": "assess",
    "GroupedAssessment": "assess",
    "GroupedSessionAssessment": "assess",
    "Interval": "estimates",
    "LimitKind": "records",
    "OperationalProfile": "records",
    "Outcome": "records",
    "Plan": "assess",
    "Policy": "corpus",
    "ReadOptions": "readers",
    "ReliabilityCurve": "estimates",
    "Rule": "assess",
    "SessionAssessment": "assess",
    "SessionLog": "corpus",
    "Skipped": "records",
    "StateSettings": "assess",
    "Step": "records",
    "TaskResult": "records",
    "Trace": "records",
    "TraceAssessment": "assess",
    "TraceCorpus": "corpus",
    "apply_rules": "assess",
    "assess_groups": "assess",
    "assess_session_groups": "assess",
    "assess_sessions": "assess",
    "assess_traces": "assess",
    "choose_states": "assess",
    "compare_many": "assess",
    "compare_sessions": "assess",
    "compare_traces": "assess",
    "fit_model": "assess",
    "fit_task_law": "assess",
    "monitor_of": "assess",
    "make_plan": "assess",
    "read_model": "assess",
    "read_profile": "readers",
    "read_sessions": "readers",
    "read_traces": "readers",
    "resolve": "corpus",
    "write_corpus": "corpus",
    "write_json": "report",
    "write_model": "assess",
    "write_report": "report",
    "write_sessions": "corpus",
}

__all__ = [
    "ChainSettings",
    "Claim",
    "Comparison",
    "ComparisonFamily",
    "CorpusBuilder",
    "End",
    "Estimate",
    "FittedModel",
    "Gate",
    "GroupedAssessment",
    "GroupedSessionAssessment",
    "Interval",
    "LimitKind",
    "OperationalProfile",
    "Outcome",
    "Plan",
    "Policy",
    "ReadOptions",
    "ReliabilityCurve",
    "Rule",
    "SessionAssessment",
    "SessionLog",
    "Skipped",
    "StateSettings",
    "Step",
    "TaskResult",
    "Trace",
    "TraceAssessment",
    "TraceCorpus",
    "__version__",
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
    "read_model",
    "read_profile",
    "read_sessions",
    "read_traces",
    "resolve",
    "write_corpus",
    "write_json",
    "write_model",
    "write_report",
    "write_sessions",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
    value = getattr(import_module(f"sojourn.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
