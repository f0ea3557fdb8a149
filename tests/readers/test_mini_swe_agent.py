"""mini-swe-agent: ends from exit messages, verdicts from the reports beside the trajectories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from readers.figures import ends, lengths, n_success, name_counts, traces
from sojourn.corpus import resolve
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, LimitKind, Outcome, Skipped, Trace

RUN = DATA / "mini-swe-agent" / "run"


class TestRun(ReaderConformance):
    format = "mini-swe-agent"
    sample = "mini-swe-agent/run"
    n_runs = 4


class TestBareList(ReaderConformance):
    format = "mini-swe-agent"
    sample = "mini-swe-agent/old/local.traj.json"
    n_runs = 1


def trajectory(status: str | None = "Submitted", **info: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": ""},
        {"role": "assistant", "content": "", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "tool", "content": "", "extra": {"returncode": 0}},
    ]
    if status is not None:
        messages.append({"role": "exit", "extra": {"exit_status": status}})
    return {"info": info, "messages": messages, "instance_id": "i"}


def read(folder: Path, document: Any, **reports: Any) -> list[Any]:
    """Read one trajectory with reports beside it, each named by its file's stem."""
    path = folder / "i.traj.json"
    path.write_text(json.dumps(document))
    for name, report in reports.items():
        (folder / f"{name.replace('__dot__', '.')}.json").write_text(json.dumps(report))
    return read_all(load_reader("mini-swe-agent"), path)


def test_the_sample_is_what_it_was_written_to_be() -> None:
    first, limited, unscored, faulty = traces_of(RUN)
    assert (first.task_id, first.agent, first.model) == (
        "shop__cart-1",
        "mini-swe-agent",
        "maker/model-a",
    )
    assert (first.outcome, first.end, first.step_limit) == (Outcome.SUCCESS, End.FINISHED, 250)
    # The marker that submits is the agent's own command, whatever shell word prints it.
    assert [(s.name, s.ok) for s in first.steps] == [
        ("ls", True),
        ("grep", False),
        ("sed", True),
        ("submit", None),
    ]
    assert (limited.outcome, limited.end, limited.limit_kind) == (
        Outcome.FAILURE,
        End.LIMIT,
        LimitKind.STEPS,
    )
    assert (unscored.outcome, unscored.end) == (Outcome.UNSCORED, End.FINISHED)
    # Its tests failed, but because the environment broke: that is nobody's failure.
    assert (faulty.outcome, faulty.end) == (Outcome.UNSCORED, End.INFRA_ERROR)
    assert {trace.job_id for trace in (first, limited)} == {str(RUN)}


def test_reports_are_not_unknown_files() -> None:
    assert read_traces(RUN).skipped == ()


def test_a_bare_list_has_commands_in_fences_and_codes_in_text() -> None:
    (trace,) = traces_of(DATA / "mini-swe-agent/old/local.traj.json")
    assert (trace.task_id, trace.outcome, trace.end) == ("local", Outcome.UNSCORED, End.FINISHED)
    assert [(s.name, s.ok) for s in trace.steps] == [
        ("ls", False),
        ("respond", None),
        ("submit", None),
    ]


def test_fences_that_never_close_take_linear_time(tmp_path: Path) -> None:
    text = "```bash\nls" * 100_000
    (trace,) = read(tmp_path, [{"role": "assistant", "content": text}])
    assert [step.name for step in trace.steps] == ["respond"]


@pytest.mark.parametrize(
    ("status", "info", "end", "limit_kind"),
    [
        ("Submitted", {}, End.FINISHED, None),
        ("TimeExceeded", {}, End.LIMIT, LimitKind.TIME),
        ("RepeatedFormatError", {}, End.AGENT_ERROR, None),
        ("ReadTimeout", {}, End.INFRA_ERROR, None),
        (None, {}, End.CANCELLED, None),
        (None, {"exit_status": ""}, End.CANCELLED, None),
        (None, {"exit_status": "KeyError"}, End.INFRA_ERROR, None),
        ("LimitsExceeded", {}, End.LIMIT, LimitKind.CUSTOM),
        (
            "LimitsExceeded",
            {"config": {"agent": {"step_limit": 5}}, "model_stats": {"api_calls": 5}},
            End.LIMIT,
            LimitKind.STEPS,
        ),
        (
            "LimitsExceeded",
            {
                "config": {"agent": {"step_limit": 9, "cost_limit": 3.0}},
                "model_stats": {"api_calls": 5, "instance_cost": 3.1},
            },
            End.LIMIT,
            LimitKind.COST,
        ),
        (
            "LimitsExceeded",
            {
                "config": {"agent": {"step_limit": 0, "cost_limit": 3.0}},
                "model_stats": {"api_calls": 5, "instance_cost": 0.1},
            },
            End.LIMIT,
            LimitKind.CUSTOM,
        ),
    ],
)
def test_ends(
    tmp_path: Path, status: str | None, info: Any, end: End, limit_kind: LimitKind | None
) -> None:
    (trace,) = read(tmp_path, trajectory(status, **info))
    assert (trace.end, trace.limit_kind) == (end, limit_kind)
    assert trace.step_limit in (None, 5, 9)


def test_objects_of_a_responses_interface_are_turns_too(tmp_path: Path) -> None:
    document = trajectory()
    document["messages"][1:1] = [
        {"object": "response", "output": [], "extra": {"actions": [{"command": "make"}]}},
        {"type": "function_call_output", "output": "", "extra": {"returncode": 2}},
    ]
    (trace,) = read(tmp_path, document)
    assert [(s.name, s.ok) for s in trace.steps] == [("make", False), ("ls", True)]


def test_several_commands_in_one_turn_are_one_step(tmp_path: Path) -> None:
    document = trajectory()
    document["messages"][1]["extra"]["actions"] = [{"command": "cd a && make"}, {"command": "ls"}]
    document["messages"].insert(3, {"role": "tool", "extra": {"returncode": 1}})
    (trace,) = read(tmp_path, document)
    assert [(s.name, s.ok, s.n_calls) for s in trace.steps] == [("make", False, 2)]


@pytest.mark.parametrize(
    ("reports", "outcome", "n_notes"),
    [
        ({}, Outcome.UNSCORED, 0),
        ({"i__dot__report": {"i": {"resolved": True}}}, Outcome.SUCCESS, 0),
        ({"report": {"i": {"resolved": False}}}, Outcome.FAILURE, 0),
        ({"report": {"another": {"resolved": True}}}, Outcome.UNSCORED, 0),
        ({"m__dot__run": {"resolved_ids": ["i"], "unresolved_ids": []}}, Outcome.SUCCESS, 0),
        ({"m__dot__run": {"resolved_ids": [], "error_ids": ["i"]}}, Outcome.UNSCORED, 0),
        ({"m__dot__run": {"resolved_ids": [], "empty_patch_ids": ["i"]}}, Outcome.FAILURE, 0),
        ({"old": {"generated": ["i"], "applied": ["i"], "resolved": ["i"]}}, Outcome.SUCCESS, 0),
        # The instance's own report goes before that of the run.
        (
            {"report": {"i": {"resolved": True}}, "m__dot__run": {"unresolved_ids": ["i"]}},
            Outcome.SUCCESS,
            0,
        ),
        # Of several runs' reports those of the trajectory's own model count.
        (
            {
                "maker__m__dot__run": {"resolved_ids": ["i"]},
                "maker__n__dot__run": {"unresolved_ids": ["i"]},
            },
            Outcome.SUCCESS,
            0,
        ),
        (
            {
                "maker__m__dot__a": {"resolved_ids": ["i"]},
                "maker__m__dot__b": {"resolved_ids": [], "unresolved_ids": ["i"]},
            },
            Outcome.UNSCORED,
            1,
        ),
        ({"report": {"i": {"resolved": "perhaps"}}}, Outcome.UNSCORED, 1),
        ({"m__dot__run": {"resolved_ids": [1, 2]}}, Outcome.UNSCORED, 1),
    ],
)
def test_verdicts(tmp_path: Path, reports: dict[str, Any], outcome: Outcome, n_notes: int) -> None:
    document = trajectory(config={"model": {"model_name": "maker/m"}})
    records = read(tmp_path, document, **reports)
    (trace,) = [record for record in records if isinstance(record, Trace)]
    assert trace.outcome is outcome
    assert len(records) == 1 + n_notes
    assert all(isinstance(r, Skipped) and r.what in ("key", "file") for r in records[:-1])


@pytest.mark.parametrize(
    "reports",
    [
        {"report": {"i": {"resolved": False, "infra_failure": True}}},
        {"m__dot__run": {"unresolved_ids": ["i"], "infra_failure_ids": ["i"]}},
    ],
)
def test_a_broken_environment_is_an_end_of_its_own(tmp_path: Path, reports: Any) -> None:
    (trace,) = read(tmp_path, trajectory("TimeExceeded"), **reports)
    assert (trace.outcome, trace.end, trace.limit_kind) == (
        Outcome.UNSCORED,
        End.INFRA_ERROR,
        None,
    )


def test_a_folder_for_each_instance_finds_the_report_above(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"shop__cart-{number}"
        folder.mkdir()
        shutil.copy(RUN / f"{folder.name}.traj.json", folder)
    shutil.copy(RUN / "maker__model-a.first.json", tmp_path)
    corpus = read_traces(tmp_path)
    assert [trace.outcome for trace in traces(corpus)] == [Outcome.SUCCESS, Outcome.FAILURE]
    assert {trace.job_id for trace in traces(corpus)} == {str(tmp_path)}
    assert corpus.skipped == ()


def test_infrastructure_faults_are_excluded_from_rates() -> None:
    runs = resolve(read_traces(RUN))
    assert runs.n_runs == 2
    assert dict(runs.excluded) == {"infrastructure error": 1, "no verdict": 1}


class TestRealRuns:
    def test_counts(self, real_logs: Path) -> None:
        corpus = read_traces(real_logs / "mini-swe-agent" / "deepseek_chat_test_1-100")
        assert (len(corpus), corpus.n_tasks, n_success(corpus)) == (19, 19, 12)
        assert lengths(corpus) == (38, 61.0, 115)
        assert ends(corpus) == {End.FINISHED: 19}
        assert corpus.skipped == ()
        assert {(t.model, t.step_limit) for t in traces(corpus)} == {
            ("deepseek/deepseek-chat", 250)
        }
        assert {t.steps[-1].name for t in traces(corpus)} == {"submit"}

    def test_names_are_few_and_telling(self, real_logs: Path) -> None:
        corpus = read_traces(real_logs / "mini-swe-agent" / "deepseek_chat_test_1-100")
        names = name_counts(corpus)
        assert len(names) <= 20
        assert [name for name, _ in names.most_common(5)] == [
            "cat",
            "grep",
            "python",
            "sed",
            "find",
        ]

    def test_the_old_format(self, real_logs: Path) -> None:
        corpus = read_traces(real_logs / "mini-swe-agent" / "upstream_tests")
        assert [(t.task_id, t.n_steps, t.end) for t in traces(corpus)] == [
            ("github_issue", 10, End.FINISHED),
            ("local", 2, End.FINISHED),
        ]
