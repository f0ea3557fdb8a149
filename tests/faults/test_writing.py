"""Where a write fails, or the process dies in it, the old file stays; the next run mends it."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from faults.nursery import Nursery
from sojourn.readers import read_sessions, read_traces

pytestmark = pytest.mark.thorough

# Name of a case -> its arguments, and the files that it writes; A and B are logs.
CASES: dict[str, tuple[list[object], list[str]]] = {
    "assess": (
        ["assess", "A", "--no-chain", "--resamples", 99, "--html", "r.html", "--json", "r.json"],
        ["r.html", "r.json"],
    ),
    "assess for a pipeline": (
        [
            *("assess", "A", "--no-chain", "--resamples", 99),
            *("--junit", "r.xml", "--markdown", "r.md"),
        ],
        ["r.xml", "r.md"],
    ),
    "compare": (
        ["compare", "A", "B", "--resamples", 99, "--json", "k.json", "--markdown", "k.md"],
        ["k.md", "k.json"],
    ),
    "convert to Parquet": (["convert", "A", "-o", "c.parquet"], ["c.parquet"]),
    "convert to lines": (["convert", "A", "-o", "c.jsonl"], ["c.jsonl"]),
    "fit": (["fit", "A", "--no-certificate", "--draws", 19, "-o", "m.json"], ["m.json"]),
    "gate": (
        [
            *("gate", "A", "success_rate >= 0.1", "--resamples", 99),
            *("--json", "g.json", "--junit", "g.xml", "--markdown", "g.md"),
        ],
        ["g.json", "g.xml", "g.md"],
    ),
    "plan": (
        [
            *("plan", "A", "success_rate >= .1", "--draws", 100, "--tasks", 9, "--attempts", 3),
            *("--json", "p.json"),
        ],
        ["p.json"],
    ),
    "simulate runs": (["simulate", "react", "--tasks", 5, "-o", "s.jsonl"], ["s.jsonl"]),
    "simulate sessions": (["simulate", "sessions", "-o", "s.csv"], ["s.csv"]),
}
OLD = b"what was there before"


def is_whole(path: Path) -> bool:
    """Return whether a file is one that was written to its end."""
    if path.suffix == ".json":
        return isinstance(json.loads(path.read_text()), dict)
    if path.suffix == ".xml":
        return ElementTree.parse(path).getroot().tag == "testsuites"
    if path.suffix == ".html":
        return path.read_text().rstrip().endswith("</html>")
    if path.suffix == ".md":
        return path.read_text().endswith("\n")
    if path.suffix == ".csv":
        return len(read_sessions(path)) == 100
    return len(read_traces(path)) == (20 if path.name == "s.jsonl" else 24)


def words(case: str, logs: tuple[Path, Path], folder: Path) -> list[object]:
    arguments, files = CASES[case]
    names: dict[object, Path] = {"A": logs[0], "B": logs[1]} | {f: folder / f for f in files}
    return [names.get(word, word) for word in arguments]


def visible(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


@pytest.mark.parametrize("case", CASES)
def test_a_full_disk_or_a_death_in_a_write_leaves_the_old_files(
    case: str, nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    files = CASES[case][1]
    for name in files:
        (tmp_path / name).write_bytes(OLD)
    before = visible(tmp_path)
    for fault, code in (({}, 3), ({"interrupt": True}, 130), ({"kill": True}, -signal.SIGXFSZ)):
        done = nursery.run(*words(case, logs, tmp_path), bytes_a_file=100, **fault)
        assert done.code == code, done
        assert visible(tmp_path) == before
        if not fault:
            assert done.err.startswith(f"sojourn: {tmp_path / files[0]}: ")
        if code >= 0:
            assert done.err.count("\n") == 1
            assert len(list(tmp_path.iterdir())) == len(files), "a temporary file was left"
    done = nursery.run(*words(case, logs, tmp_path))
    assert done.code == 0, done
    assert all(is_whole(tmp_path / name) for name in files)


@pytest.mark.parametrize("case", ["convert to Parquet", "convert to lines", "fit", "gate"])
def test_a_death_at_any_byte_leaves_each_file_old_or_new(
    case: str, nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    files = CASES[case][1]
    assert nursery.run(*words(case, logs, tmp_path)).code == 0
    largest = max((tmp_path / name).stat().st_size for name in files)
    for name in files:
        (tmp_path / name).write_bytes(OLD)
    deaths = 0
    for limit in (0, 1, largest // 4, largest // 2, largest - 1):
        done = nursery.run(*words(case, logs, tmp_path), bytes_a_file=limit, kill=True)
        deaths += done.code == -signal.SIGXFSZ
        for name in files:
            path = tmp_path / name
            assert path.read_bytes() == OLD or is_whole(path)
    assert deaths == 5
    assert nursery.run(*words(case, logs, tmp_path)).code == 0
    assert all(is_whole(tmp_path / name) for name in files)


def test_what_a_gate_adds_to_a_summary_is_added_whole_or_not_at_all(
    nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n")
    gate = ["gate", logs[0], "success_rate >= 0.1", "--resamples", 99]
    environment = {"GITHUB_STEP_SUMMARY": str(summary)}
    for limit in (9, 10, 100):  # so that nothing of it, or a part, could be written
        done = nursery.run(*gate, bytes_a_file=limit, environment=environment)
        assert done.code == 3, done
        assert done.err == f"sojourn: {summary}: File too large\n"
        assert summary.read_text() == "# Before\n"
    for _ in range(2):
        assert nursery.run(*gate, environment=environment).code == 0
    before, *tables = summary.read_text().split("## ")
    assert before == "# Before\n"
    assert len(tables) == 2
    assert tables[0] == tables[1]


def test_two_runs_at_once_on_one_file_leave_one_of_them(
    nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    target = tmp_path / "c.jsonl"
    whole = [nursery.run("convert", log, "-o", target) and target.read_bytes() for log in logs]
    assert whole[0] != whole[1]
    from sojourn.corpus import write_jsonl

    corpora = [read_traces(log) for log in logs]
    seen = set()
    stop = threading.Event()

    def write(number: int) -> None:
        for _ in range(30):
            write_jsonl(corpora[number], target)

    def look() -> None:
        while not stop.is_set():
            seen.add(target.read_bytes())

    watcher = threading.Thread(target=look)
    writers = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for thread in (watcher, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    watcher.join()
    assert seen <= set(whole)
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"]


@pytest.mark.parametrize("case", CASES)
def test_a_folder_in_the_place_of_a_file_is_refused_before_any_work(
    case: str, nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in CASES[case][1]:
        (tmp_path / name).mkdir()
    done = nursery.run(*words(case, logs, tmp_path))
    assert done.code == 2, done
    assert "is a folder" in done.err
    assert done.out == ""


@pytest.mark.parametrize("case", ["assess", "convert to Parquet", "fit", "simulate runs"])
def test_links_in_a_circle_are_one_line(
    case: str, nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in CASES[case][1]:
        (tmp_path / name).symlink_to(tmp_path / name)
    done = nursery.run(*words(case, logs, tmp_path))
    assert done.code == 3, done
    assert "symbolic links" in done.err
    assert done.err.count("\n") == 1


def test_devices_that_are_full_are_named(nursery: Nursery, logs: tuple[Path, Path]) -> None:
    done = nursery.run(
        "assess", logs[0], "--no-chain", "--resamples", 99, "--json", "/dev/full", "--quiet"
    )
    assert done.code == 3, done
    assert done.err == "sojourn: /dev/full: No space left on device\n"


@pytest.mark.parametrize("case", ["assess", "convert to Parquet", "simulate sessions"])
def test_a_folder_that_may_not_be_written_to_is_one_line(
    case: str, nursery: Nursery, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    done = nursery.run(*words(case, logs, folder), powerless=True)
    assert done.code == 3, done
    assert done.err == f"sojourn: {folder / CASES[case][1][0]}: Permission denied\n"
    assert list(folder.iterdir()) == []


def test_cases_are_not_forgotten() -> None:
    from sojourn.cli.main import app

    commands = {command.name for command in app.registered_commands}
    writing = {str(arguments[0]) for arguments, _ in CASES.values()}
    reading = {"demo", "export", "forecast", "formats", "validate", "watch", "whatif"}
    assert commands <= writing | reading
