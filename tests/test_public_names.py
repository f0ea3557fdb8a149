"""The public names are a deliberate list, each of them loads, and none is loaded too early."""

from __future__ import annotations

import subprocess
import sys

import sojourn

EXPECTED = {
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
    "monitor_of",
    "make_plan",
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
}


def test_public_names_are_these_and_all_load() -> None:
    assert set(sojourn.__all__) == EXPECTED
    for name in EXPECTED:
        assert getattr(sojourn, name) is not None


def test_importing_the_library_or_the_command_loads_nothing_heavy() -> None:
    heavy = "{'numba', 'scipy', 'matplotlib', 'pyarrow', 'numpy', 'jinja2'}"
    for module in ("sojourn", "sojourn.cli.main"):
        code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
        shown = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert shown.stdout.strip() == "[]", module


def test_version_is_the_distributions() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("sojourn")
    except PackageNotFoundError:
        return
    assert installed == sojourn.__version__
