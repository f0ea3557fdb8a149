"""agbenchmark: reports as sessions, and the counts that plain Python makes of the real ones."""

from __future__ import annotations

import json
from collections import Counter
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import DATA
from session_conformance import SessionReaderConformance, tasks_of

from sojourn.corpus import Policy, SessionLog
from sojourn.errors import ReaderError
from sojourn.readers import read_sessions
from sojourn.records import End, Outcome

SAMPLE = DATA / "agbenchmark"
FAILURE = Policy(faults="failure")


class TestConformance(SessionReaderConformance):
    format = "agbenchmark"
    sample = "agbenchmark"
    n_runs = 7
    as_runs = True


def write(folder: Path, tests: object, **more: object) -> Path:
    path = folder / "report.json"
    document = {"benchmark_start_time": "2024-01-31-19:05", "tests": tests, **more}
    path.write_text(json.dumps(document))
    return path


def leaf(success: bool | None = True, **more: object) -> dict[str, Any]:
    return {"category": ["a"], "metrics": {"success": success}, **more}


def test_a_report_is_a_session_in_the_order_of_its_leaves() -> None:
    log = read_sessions(SAMPLE)
    # run2 began first, so that it is the first session.
    assert log.sessions.name == ("run2", "run1")
    assert log.domains == ("agbenchmark",)
    tasks = [log.task(row) for row in range(len(log))]
    assert [task.item for task in tasks[2:]] == [
        "TestWrite", "TestSearch", "TestShop_Find", "TestShop_Buy", "TestOdd"
    ]  # fmt: skip
    assert [task.position for task in tasks] == [0, 1, 0, 1, 2, 3, 4]
    assert [task.subdomain for task in tasks[2:]] == [
        "interface", "interface", "retrieval+shopping", "retrieval+shopping", "none"
    ]  # fmt: skip
    assert {(task.agent, task.model) for task in tasks} == {("robo", "")}
    assert tasks[0].started == 1706727900.0  # 2024-01-31 19:05 UTC
    assert tasks[2].started == 1706933106.0  # 2024-02-03 04:05:06 UTC


def test_what_was_not_attempted_has_no_outcome_unless_faults_are_failures() -> None:
    log = read_sessions(SAMPLE)
    assert log.success().tolist() == [1, 1, 1, 0, 1, -1, 1]
    assert log.success(FAILURE).tolist() == [1, 1, 1, 0, 1, 0, 1]
    ends = [log.task(row).end for row in range(len(log))]
    assert ends == [
        End.FINISHED, End.LIMIT, End.FINISHED, End.LIMIT, End.UNKNOWN, End.CANCELLED, End.FINISHED
    ]  # fmt: skip


def test_what_holds_no_test_is_counted() -> None:
    told = {(Path(s.source).parent.name, s.reason, s.what) for s in read_sessions(SAMPLE).skipped}
    assert told == {
        ("run1", "a suite holds no test", "key"),
        ("run3", "the report holds no test", "run"),
    }


def test_a_leaf_that_cannot_be_read_keeps_its_place(tmp_path: Path) -> None:
    tests = {"a": leaf(), "b": leaf(metrics=[1]), "c": 7, "d": leaf(None), "e": leaf(category=3)}
    log = read_sessions(write(tmp_path, tests))
    assert [(log.task(row).item, log.task(row).position) for row in range(2)] == [
        ("a", 0),
        ("d", 2),
    ]
    assert log.success().tolist() == [1, -1]
    assert sum(item.count for item in log.skipped) == 3
    assert log.gaps().n_unseen == 1


def test_a_report_cut_behind_a_whole_test_is_told_of(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": leaf(), "b": leaf()})
    text = path.read_text()
    path.write_text(text[: text.index(', "b"')])
    log = read_sessions(path)
    assert (len(log), [s.reason for s in log.skipped]) == (1, ["the report is truncated"])


def test_suites_that_nest_without_end_are_refused(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"leaf": leaf()}
    for _ in range(40):
        deep = {"suite": {"tests": deep}}
    log = read_sessions(write(tmp_path, {"a": leaf(), **deep}))
    assert (len(log), [s.reason for s in log.skipped]) == (1, ["suites nest deeper than 16 levels"])
    three = {"x": {"tests": {"y": {"tests": {"z": leaf(False)}}}}}
    assert [t.item for t in tasks_of(write(tmp_path, three))] == ["z"]


@pytest.mark.parametrize(
    ("place", "address", "agent"),
    [
        ("reports/robo/run1", None, "robo"),
        ("reports/robo/run1/again", None, "robo"),
        ("reports/run1", "https://github.com/x/mini/tree/1", "mini"),
        ("elsewhere/run1", "https://github.com/x/mini/tree/1", "mini"),
        ("elsewhere/run1", "nonsense", ""),
        ("elsewhere/run1", 7, "")
    ],
)  # fmt: skip
def test_the_agent_is_its_folders_or_its_repositorys(
    tmp_path: Path, place: str, address: object, agent: str
) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    path = write(folder, {"a": leaf()}, agent_git_commit_sha=address)
    assert tasks_of(path)[0].agent == agent


def test_a_time_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": leaf()}, benchmark_start_time="soon", completion_time=[])
    assert tasks_of(path)[0].started is None
    path = write(tmp_path, {"a": leaf()}, completion_time="2024-01-31T19:05:00+01:00")
    assert tasks_of(path)[0].started == 1706727900.0


def test_tests_that_are_no_object_are_an_error_or_told(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"no task .* tests are no object"):
        read_sessions(write(tmp_path, [1, 2]))


def test_one_report_in_two_folders_is_one_session(tmp_path: Path) -> None:
    for folder in ("x/reports/robo/run", "y/reports/robo/run"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, {"a": leaf(), "b": leaf(False)})
    log = read_sessions(tmp_path)
    assert (len(log), log.n_sessions) == (2, 1)
    assert [(s.count, s.what) for s in log.skipped] == [(2, "line")]


# Agent, tasks, successes, those attempted and their successes, records that do not say, cutoffs,
# runs with and without tests, runs of 20 tests and the outages among them, transitions, pass^k.
REAL = [
    ("beebot", 2436, 488, 650, 384, 615, 654, 68, 5, 64, 19, [1678, 170, 206, 256],
     (0.1810, 0.0539), (0.5821, 0.4330, 0.2526)),
    ("mini-agi", 2475, 716, 876, 506, 710, 301, 72, 1, 66, 2, [1399, 265, 327, 358],
     (0.2708, 0.1683), (0.6341, 0.5366, 0.3787)),
]  # fmt: skip


def pass_hat(log: SessionLog, rows: np.ndarray, k: int) -> float:
    """Return the mean of C(c, k) / C(n, k) over the items with at least k outcomes."""
    success = log.success(FAILURE)
    n = Counter(log.item.codes[rows].tolist())
    c = Counter(log.item.codes[rows & (success == 1)].tolist())
    values = [comb(c[item], k) / comb(n[item], k) for item in n if n[item] >= k]
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("agent", "n_tasks", "n_success", "n_attempted", "n_attempted_success", "n_unsaid", "n_cutoff",
     "n_runs", "n_empty", "n_long", "n_outages", "moves", "pass_all", "pass_attempted"),
    REAL, ids=["beebot", "mini-agi"]
)  # fmt: skip
def test_real_reports(
    real_logs: Path,
    agent: str,
    n_tasks: int,
    n_success: int,
    n_attempted: int,
    n_attempted_success: int,
    n_unsaid: int,
    n_cutoff: int,
    n_runs: int,
    n_empty: int,
    n_long: int,
    n_outages: int,
    moves: list[int],
    pass_all: tuple[float, ...],
    pass_attempted: tuple[float, ...],
) -> None:
    folder = real_logs / "autogpt-benchmarks" / "reports" / agent
    log = read_sessions(folder)
    assert (len(log), log.n_sessions) == (n_tasks, n_runs)
    assert log.groups()[0][0].to_dict()["agent"] == agent
    assert len(log.groups()) == 1
    empty = [s for s in log.skipped if s.reason == "the report holds no test"]
    assert sum(item.count for item in empty) == n_empty
    assert n_runs + n_empty == 73
    cancelled = np.array([log.task(row).end is End.CANCELLED for row in range(len(log))])
    assert n_tasks - cancelled.sum() == n_attempted + n_unsaid
    assert (log.success() == -1).tolist() == cancelled.tolist()
    assert (log.success() == 1).sum() == (log.success(FAILURE) == 1).sum() == n_success
    assert sum(log.task(row).end is End.LIMIT for row in range(len(log))) == n_cutoff
    assert len(log.item.used()) == 53
    assert (log.n_unsorted, log.gaps()) == (0, (0, 0, 0, 0))

    counts = log.session_counts(policy=FAILURE)
    is_long = counts.n_tasks >= 20
    assert (is_long.sum(), (is_long & counts.is_outage).sum()) == (n_long, n_outages)
    sequences = log.select_sessions(is_long).task_sequences(policy=FAILURE)
    assert sequences.n_sessions == n_long
    inside = np.diff(sequences.session) == 0
    move = (2 * sequences.success[:-1] + sequences.success[1:])[inside]
    assert np.bincount(move, minlength=4).tolist() == moves

    everything = np.ones(len(log), bool)
    for k, value in enumerate(pass_all, 1):
        assert pass_hat(log, everything, k) == pytest.approx(value, abs=5e-5)
    # Which records say "attempted": all of a report that has any cancelled or newer test.
    said = np.array([_says(log, row) for row in range(len(log))])
    attempted = said & ~cancelled
    assert (attempted.sum(), (~said).sum()) == (n_attempted, n_unsaid)
    assert (log.success()[attempted] == 1).sum() == n_attempted_success
    for k, value in zip((1, 2, 5), pass_attempted, strict=True):
        assert pass_hat(log, attempted, k) == pytest.approx(value, abs=5e-5)


_SAYS: dict[str, dict[str, bool]] = {}


def _says(log: SessionLog, row: int) -> bool:
    """Return whether the report itself says if a test was attempted."""
    task = log.task(row)
    if task.source_uri not in _SAYS:
        found: dict[str, bool] = {}
        stack = [json.loads(Path(task.source_uri).read_text())["tests"]]
        while stack:
            for name, test in stack.pop().items():
                if "tests" in test:
                    stack.append(test["tests"])
                else:
                    found[name] = "attempted" in test["metrics"]
        _SAYS[task.source_uri] = found
    return _SAYS[task.source_uri][task.item or ""]


def test_sessions_come_in_the_order_of_their_beginning(real_logs: Path) -> None:
    log = read_sessions(real_logs / "autogpt-benchmarks")
    assert len(log.groups()) == 2
    assert log.n_sessions == 140
    assert (np.diff(log.sessions.started) >= 0).all()
    assert log.task(0).outcome in Outcome
