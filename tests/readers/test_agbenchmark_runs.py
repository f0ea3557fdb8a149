"""agbenchmark reports as attempts, and the counts that plain Python makes of the real ones."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from readers.conformance import DATA
from readers.figures import group, n_success, pass_hat, traces
from sojourn.corpus import TraceCorpus
from sojourn.readers import read_sessions, read_traces
from sojourn.records import End, LimitKind, Outcome

SAMPLE = DATA / "agbenchmark"


def test_each_report_tries_each_of_its_tests() -> None:
    runs = traces(read_traces(SAMPLE))
    assert len(runs) == len(read_sessions(SAMPLE)) == 7
    assert Counter(trace.job_id for trace in runs) == {"run1": 5, "run2": 2}
    assert {(trace.task_set, trace.agent, trace.source_type) for trace in runs} == {
        ("agbenchmark", "robo", "agbenchmark")
    }


def test_beside_other_runs_they_stay_sessions(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "reports")
    (tmp_path / "runs.jsonl").write_text(json.dumps({"task_id": "a", "outcome": "success"}) + "\n")
    corpus = read_traces(tmp_path)
    assert len(corpus) == 1
    told = [item for item in corpus.skipped if "--as sessions" in item.reason]
    assert {item.what for item in told} == {"stranger"}
    assert len(told) == len(list((tmp_path / "reports").rglob("report.json")))


def attempted(corpus: TraceCorpus) -> TraceCorpus:
    """Return the records that say of themselves that they were attempted."""
    rows = []
    said = {}
    for run, trace in enumerate(traces(corpus)):
        path = trace.source_uri
        if path not in said:
            said[path] = '"attempted"' in Path(path).read_text()
        if said[path] and trace.end is not End.CANCELLED:
            rows.append(run)
    return corpus.select(rows)


@pytest.mark.parametrize(
    ("agent", "n_runs", "n_right", "n_cut", "of_all", "n_attempted", "of_attempted"),
    [
        ("beebot", 2436, 488, 654, (0.1810, 0.0539), (650, 384), (0.5821, 0.4330, 0.2526)),
        ("mini-agi", 2475, 716, 301, (0.2708, 0.1683), (876, 506), (0.6341, 0.5366, 0.3787)),
    ],
)
def test_real_reports(
    real_logs: Path,
    agent: str,
    n_runs: int,
    n_right: int,
    n_cut: int,
    of_all: tuple[float, ...],
    n_attempted: tuple[int, int],
    of_attempted: tuple[float, ...],
) -> None:
    corpus = group(read_traces(real_logs / "autogpt-benchmarks" / "reports" / agent), agent=agent)
    runs = traces(corpus)
    assert (len(runs), n_success(corpus)) == (n_runs, n_right)
    assert len({trace.task_id for trace in runs}) == 53
    cut = [t for t in runs if t.limit_kind is LimitKind.TIME]
    assert len(cut) == n_cut
    assert [pass_hat(corpus, k) for k in (1, 2)] == pytest.approx(of_all, abs=5e-5)
    tried = attempted(corpus)
    assert (len(tried), n_success(tried)) == n_attempted
    assert [pass_hat(tried, k) for k in (1, 2, 5)] == pytest.approx(of_attempted, abs=5e-5)
    assert Outcome.UNSCORED in {trace.outcome for trace in runs}
