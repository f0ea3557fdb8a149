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
        GroupedAssessment,
        GroupedSessionAssessment,
        SessionAssessment,
        TraceAssessment,
        assess_groups,
        assess_session_groups,
        assess_sessions,
        assess_traces,
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
    "Claim": "estimates",
    "CorpusBuilder": "corpus",
    "End": "records",
    "Estimate": "estimates",
    "GroupedAssessment": "assess",
    "GroupedSessionAssessment": "assess",
    "Interval": "estimates",
    "LimitKind": "records",
    "OperationalProfile": "records",
    "Outcome": "records",
    "Policy": "corpus",
    "ReadOptions": "readers",
    "ReliabilityCurve": "estimates",
    "SessionAssessment": "assess",
    "SessionLog": "corpus",
    "Skipped": "records",
    "Step": "records",
    "TaskResult": "records",
    "Trace": "records",
    "TraceAssessment": "assess",
    "TraceCorpus": "corpus",
    "assess_groups": "assess",
    "assess_session_groups": "assess",
    "assess_sessions": "assess",
    "assess_traces": "assess",
    "read_profile": "readers",
    "read_sessions": "readers",
    "read_traces": "readers",
    "resolve": "corpus",
    "write_corpus": "corpus",
    "write_json": "report",
    "write_report": "report",
    "write_sessions": "corpus",
}

__all__ = [
    "Claim",
    "CorpusBuilder",
    "End",
    "Estimate",
    "GroupedAssessment",
    "GroupedSessionAssessment",
    "Interval",
    "LimitKind",
    "OperationalProfile",
    "Outcome",
    "Policy",
    "ReadOptions",
    "ReliabilityCurve",
    "SessionAssessment",
    "SessionLog",
    "Skipped",
    "Step",
    "TaskResult",
    "Trace",
    "TraceAssessment",
    "TraceCorpus",
    "__version__",
    "assess_groups",
    "assess_session_groups",
    "assess_sessions",
    "assess_traces",
    "read_profile",
    "read_sessions",
    "read_traces",
    "resolve",
    "write_corpus",
    "write_json",
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
