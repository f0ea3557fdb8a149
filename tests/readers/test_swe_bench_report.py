"""SWE-bench reports by themselves: which list decides, and which instances are no runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from readers.conformance import DATA, ReaderConformance, read_all, traces_of
from sojourn.readers import load_reader, read_traces
from sojourn.records import End, Outcome, Skipped

SAMPLE = DATA / "swe-bench-report"
SUCCESS, FAILURE, UNSCORED = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNSCORED


class TestConformance(ReaderConformance):
    format = "swe-bench-report"
    sample = "swe-bench-report"
    n_runs = 8
    steps_known = False


def test_both_versions_of_the_sample() -> None:
    second, first = (
        {t.task_id: (t.outcome, t.end) for t in traces_of(SAMPLE / f"lab__model-a.run-{run}.json")}
        for run in (1, 2)
    )
    assert second == {
        "a-1": (SUCCESS, End.UNKNOWN),
        "a-2": (FAILURE, End.UNKNOWN),
        "a-3": (UNSCORED, End.INFRA_ERROR),
        "a-4": (FAILURE, End.UNKNOWN),
        "a-5": (UNSCORED, End.UNKNOWN),
    }
    assert {task: outcome for task, (outcome, _) in first.items()} == {
        "a-1": FAILURE,
        "a-2": SUCCESS,
        "a-4": FAILURE,
    }


def test_reports_of_one_model_are_attempts() -> None:
    corpus = read_traces(SAMPLE)
    assert {corpus.trace(run).model for run in range(len(corpus))} == {"lab/model-a"}
    assert len({corpus.trace(run).job_id for run in range(len(corpus))}) == 2
    assert [(item.reason, item.count) for item in corpus.skipped] == [
        ("instances that were not attempted", 1)
    ]


@pytest.mark.parametrize("trajectory", ["i.traj.json", "i/i.traj.json"])
def test_a_report_beside_trajectories_is_theirs(tmp_path: Path, trajectory: str) -> None:
    report = tmp_path / "m.r.json"
    shutil.copy(SAMPLE / "lab__model-a.run-1.json", report)
    reader = load_reader("swe-bench-report")
    assert reader.claims(report, report.read_bytes())
    (tmp_path / trajectory).parent.mkdir(exist_ok=True)
    (tmp_path / trajectory).write_text("{}")
    assert not reader.claims(report, report.read_bytes())


@pytest.mark.parametrize("name", ["swe-agent/shop__cart-1.traj", "openhands/output.jsonl"])
@pytest.mark.parametrize("below", ["", "runs"])
def test_a_report_beside_runs_without_verdicts_is_no_group_of_its_own(
    tmp_path: Path, name: str, below: str
) -> None:
    shutil.copy(SAMPLE / "lab__model-a.run-1.json", tmp_path / "m.r.json")
    (tmp_path / below).mkdir(exist_ok=True)
    shutil.copy(DATA / name, tmp_path / below / Path(name).name)
    corpus = read_traces(tmp_path)
    assert "swe-bench-report" not in corpus.source_type.used()
    assert [item.reason for item in corpus.skipped if "m.r.json" in item.source] == [
        "a report of verdicts beside its runs is not read as runs of its own; "
        "join it with --outcomes FILE"
    ]
    alone = tmp_path / "reports"
    alone.mkdir()
    shutil.move(tmp_path / "m.r.json", alone / "m.r.json")
    assert "swe-bench-report" in read_traces(tmp_path).source_type.used()


@pytest.mark.parametrize("ids", [7, [3], {"a": 1}, "abc"])
def test_lists_of_another_form_are_an_error(tmp_path: Path, ids: Any) -> None:
    path = tmp_path / "m.r.json"
    path.write_text(json.dumps({"resolved_ids": ids, "unresolved_ids": []}))
    (refused,) = read_all(load_reader("swe-bench-report"), path)
    assert isinstance(refused, Skipped)
    assert refused.what == "file"
