"""SWE-agent: how a run ended is free text, and whether it succeeded is not there at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import traces
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, StepKind


class TestConformance(ReaderConformance):
    format = "swe-agent"
    sample = "swe-agent"
    n_runs = 3


def read(folder: Path, document: Any) -> list[Any]:
    path = folder / "i.traj"
    path.write_text(json.dumps(document))
    return read_all(load_reader("swe-agent"), path)


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, cut, broken = traces_of(DATA / "swe-agent")
    assert (first.task_id, first.agent, first.model) == ("shop__cart-1", "SWE-agent", "model-a")
    assert (first.outcome, first.end) == (Outcome.UNSCORED, End.FINISHED)
    assert [step.name for step in first.steps] == ["open", "edit", "python", "submit"]
    assert (cut.model, cut.end, cut.limit_kind) == ("model-a", End.LIMIT, LimitKind.COST)
    assert [step.name for step in cut.steps] == ["str_replace_editor view", "ls"]
    assert (broken.model, broken.end) == ("", End.AGENT_ERROR)
    assert [(step.name, step.kind) for step in broken.steps] == [
        ("ls", StepKind.TOOL),
        ("respond", StepKind.MODEL),
    ]


@pytest.mark.parametrize(
    ("status", "end", "limit_kind"),
    [
        ("submitted", End.FINISHED, None),
        ("submitted (exit_cost)", End.LIMIT, LimitKind.COST),
        ("submitted (exit_context)", End.LIMIT, LimitKind.CONTEXT),
        ("submitted (exit_total_execution_time)", End.LIMIT, LimitKind.TIME),
        ("submitted (exit_environment_error)", End.INFRA_ERROR, None),
        ("exit_cost", End.LIMIT, LimitKind.COST),
        ("exit_context", End.LIMIT, LimitKind.CONTEXT),
        ("exit_total_execution_time", End.LIMIT, LimitKind.TIME),
        ("exit_format", End.AGENT_ERROR, None),
        ("exit_command_timeout", End.AGENT_ERROR, None),
        ("exit_forfeit", End.FINISHED, None),
        ("exit_command", End.FINISHED, None),
        ("exit_api", End.INFRA_ERROR, None),
        ("exit_environment_error", End.INFRA_ERROR, None),
        ("exit_error", End.INFRA_ERROR, None),
        ("exit_of_tomorrow", End.UNKNOWN, None),
        ("submitted (exit_of_tomorrow)", End.UNKNOWN, None),
        ("", End.CANCELLED, None),
        (None, End.CANCELLED, None),
    ],
)
def test_ends(tmp_path: Path, status: str | None, end: End, limit_kind: LimitKind | None) -> None:
    (trace,) = read(tmp_path, {"trajectory": [], "info": {"exit_status": status}})
    assert (trace.end, trace.limit_kind, trace.n_steps) == (end, limit_kind, 0)


@pytest.mark.parametrize("config", [7, "{", "not json", [], {"agent": {"model": None}}])
def test_a_configuration_that_cannot_be_read_costs_the_model_only(
    tmp_path: Path, config: Any
) -> None:
    (trace,) = read(tmp_path, {"trajectory": [{"action": "ls"}], "replay_config": config})
    assert (trace.model, trace.n_steps, trace.end) == ("", 1, End.UNKNOWN)


def test_real_trajectories(real_logs: Path) -> None:
    corpus = read_traces(real_logs / "swe-agent")
    assert [trace.n_steps for trace in traces(corpus)] == [16, 4, 21, 0, 5, 11, 12]
    assert {trace.outcome for trace in traces(corpus)} == {Outcome.UNSCORED}
    assert [t.end for t in traces(corpus)] == [End.FINISHED] * 3 + [End.UNKNOWN] + [
        End.FINISHED
    ] * 3
