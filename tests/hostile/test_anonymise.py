"""--anonymise: no id is left in any output, names are stable, figures stay what they were."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hostile.logs import run
from sojourn.corpus.anonymous import Anonymiser
from sojourn.readers import read_sessions, read_traces

pytestmark = pytest.mark.thorough

# Nothing of these may be seen; they stand in the ids and in the names of folders and files.
CANARY = re.compile("canary", re.IGNORECASE)


def write_runs(path: Path, *, shift: int = 0) -> Path:
    """Write runs whose every id has the canary in it, one of them twice, one without a verdict."""
    rows = [
        {
            "task_id": f"canary-task-{task}",
            "task_repeat": attempt,
            "outcome": (task * 7 + attempt * 3 + shift) % 3 > 0,
            "agent": "agent",
            "model": "model",
            "cluster": f"canary-cluster-{task % 6}",
            "session_id": f"canary-session-{task}",
            "position": attempt,
            "job_id": "canary-job",
            "steps": ["search", "edit"] * (1 + (task + attempt) % 3),
        }
        for task in range(24)
        for attempt in range(2)
    ]
    rows += [dict(rows[0]), {**rows[1], "outcome": None, "task_repeat": 7}]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_log(path: Path, *, shift: int = 0) -> Path:
    rows = [
        {
            "session_id": f"canary-session-{session}",
            "position": position,
            "success": (session * 5 + position * position + shift) % 4 > 0,
            "subdomain": "sort",
            "item": f"canary-item-{session}-{position}",
        }
        for session in range(6)
        for position in range(20)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[3]]), encoding="utf-8")
    return path


def texts_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def check(folder: Path, capsys: pytest.CaptureFixture[str], *, n_files: int) -> None:
    texts = texts_of(folder)
    assert len(texts) == n_files
    shown = capsys.readouterr()
    for name, text in {**texts, "stdout": shown.out, "stderr": shown.err}.items():
        # Where its own output was written is told to the user alone.
        text = text.replace(str(folder), "")
        assert not CANARY.search(text), f"{name}: {CANARY.search(text)}"


def test_no_id_is_left_in_an_assessment(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_runs(tmp_path / "canary-folder" / "canary.jsonl")
    words = ("assess", logs, "--anonymise", "--html", out / "a.html", "--json", out / "a.json")
    assert run(*words, "--resamples", 99, "--draws", 99, "--quick") == 0
    page = (out / "a.html").read_text(encoding="utf-8")
    check(out, capsys, n_files=2)
    assert "sojourn assess ... --anonymise --html" in page
    assert run(*words[:2], *words[3:], "--resamples", 99, "--draws", 99, "--no-chain") == 0
    assert CANARY.search((out / "a.html").read_text(encoding="utf-8"))  # it would have been seen


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_no_id_is_left_in_a_converted_corpus(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    logs = write_runs(tmp_path / "canary-folder" / "canary.jsonl")
    assert run("convert", logs, "-o", out / name, "--anonymise") == 0
    assert "canary" not in capsys.readouterr().out
    assert b"canary" not in (out / name).read_bytes()
    before, after = read_traces(logs), read_traces(out / name)
    assert len(after) == len(before)
    assert after.n_tasks == before.n_tasks
    assert (after.outcome == before.outcome).all()
    assert len(set(after.cluster.values)) == len(set(before.cluster.values))
    assert all(re.fullmatch(r"task-[0-9a-f]{12}", task) for task in after.tasks.task_id)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.csv"])
def test_no_id_is_left_in_converted_sessions(tmp_path: Path, out: Path, name: str) -> None:
    log = write_log(tmp_path / "canary.jsonl")
    assert run("convert", log, "-o", out / name, "--anonymise") == 0
    assert b"canary" not in (out / name).read_bytes()
    before, after = read_sessions(log), read_sessions(out / name)
    assert (after.outcome == before.outcome).all()
    assert after.n_sessions == before.n_sessions


def test_no_id_is_left_in_a_comparison_and_tasks_still_meet(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_runs(tmp_path / "canary-a.jsonl")
    b = write_runs(tmp_path / "canary-b.jsonl", shift=1)
    names = ("--html", out / "c.html", "--json", out / "c.json", "--resamples", 99)
    assert run("compare", a, b, "--anonymise", "--baseline", "canary-b.jsonl", *names) == 0
    hidden = json.loads((out / "c.json").read_text())
    check(out, capsys, n_files=2)
    assert run("compare", a, b, "--baseline", "canary-b.jsonl", *names) == 0
    plain = json.loads((out / "c.json").read_text())
    assert hidden["paired"] is plain["paired"] is True
    assert hidden["tasks"] == plain["tasks"]
    assert hidden["tasks"]["shared"] == 24


def test_no_id_is_left_in_compared_sessions(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_log(tmp_path / "canary-a.jsonl")
    b = write_log(tmp_path / "canary-b.jsonl", shift=1)
    assert run("compare", a, b, "--anonymise", "--json", out / "c.json") == 0
    check(out, capsys, n_files=1)


def test_no_id_is_left_in_what_a_pipeline_reads(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_runs(tmp_path / "canary-a.jsonl")
    words = ("assess", a, "--by", "source_uri", "--resamples", 99, "--no-chain")
    files = ("--junit", out / "g.xml", "--markdown", out / "g.md")
    assert run(*words, *files, "--anonymise") == 0
    check(out, capsys, n_files=2)
    assert run(*words, *files) == 0
    assert "canary-a" in (out / "g.md").read_text(encoding="utf-8")


def test_no_id_is_left_in_a_gate(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_runs(tmp_path / "canary-a.jsonl")
    b = write_runs(tmp_path / "canary-b.jsonl", shift=1)
    words = ("gate", a, "--per-task", 0.9, "--baseline", b, "--json", out / "g.json")
    files = ("--junit", out / "g.xml", "--markdown", out / "g.md")
    assert run(*words, *files, "--resamples", 99, "--anonymise") == 1
    check(out, capsys, n_files=3)
    assert run(*words, *files, "--resamples", 99) == 1
    assert "canary-task" in (out / "g.md").read_text(encoding="utf-8")


def names_of(path: Path, *words: str) -> list[str]:
    assert run("convert", path, "-o", path.with_name("out.jsonl"), *words) == 0
    lines = path.with_name("out.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["task_id"] for line in lines]


def test_names_are_others_in_every_run_and_the_same_with_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = write_runs(tmp_path / "a.jsonl")
    assert names_of(logs, "--anonymise") != names_of(logs, "--anonymise")
    keyed = names_of(logs, "--anonymise-key", "one")
    assert keyed == names_of(logs, "--anonymise", "--anonymise-key", "one")
    assert keyed != names_of(logs, "--anonymise-key", "two")
    assert keyed[0] == Anonymiser("one").name("task", "canary-task-0")
    monkeypatch.setenv("SOJOURN_ANONYMISE_KEY", "one")
    assert keyed == names_of(logs, "--anonymise")
    assert names_of(logs)[0] == "canary-task-0"  # the variable alone asks for nothing


def test_the_key_is_written_nowhere(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_runs(tmp_path / "a.jsonl")
    words = ["assess", str(logs), "--anonymise-key=canary-1", "--anonymise-key", "canary-2"]
    words += ["--html", str(out / "a.html"), "--json", str(out / "a.json"), "--no-chain"]
    assert run(*words, "--resamples", 99) == 0
    check(out, capsys, n_files=2)


def test_an_empty_key_is_refused(tmp_path: Path) -> None:
    logs = write_runs(tmp_path / "a.jsonl")
    assert run("assess", logs, "--anonymise-key", "") == 2
    with pytest.raises(ValueError, match="empty"):
        Anonymiser("")


def test_digests_of_actions_are_hashed_anew(tmp_path: Path) -> None:
    sample = Path(__file__).parent.parent / "data" / "tau-bench" / "results.json"
    corpus = read_traces(sample)
    assert corpus.digests is not None
    hidden = Anonymiser("key").runs(corpus)
    assert hidden.digests is not None
    assert not set(hidden.digests.tolist()) & set(corpus.digests.tolist()) - {0}
    assert ((hidden.digests == 0) == (corpus.digests == 0)).all()
    equal = corpus.digests[:, None] == corpus.digests[None, :]
    assert ((hidden.digests[:, None] == hidden.digests[None, :]) == equal).all()
