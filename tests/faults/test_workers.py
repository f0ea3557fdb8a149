"""The same seed gives the same bytes, however many workers or threads there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.conftest import write_log

pytestmark = pytest.mark.thorough

# Every pool has WORKERS threads and the machine seems to have as many cores, whatever is asked for.
PROGRAM = """
import concurrent.futures, json, os, sys
n = int(sys.argv[1])
class Pool(concurrent.futures.ThreadPoolExecutor):
    def __init__(self, *arguments, **more):
        super().__init__(n)
concurrent.futures.ThreadPoolExecutor = Pool
os.cpu_count = lambda: n
from sojourn.cli.main import main
for arguments in json.loads(sys.argv[2]):
    if (code := main(arguments)) not in (0, 1, 6):
        sys.exit(f"{arguments}: {code}")
"""
VARIABLES = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
COMMANDS = ("assess", "climb", "compare", "gate", "plan", "sessions", "compare sessions")


def commands(folder: Path, to: Path) -> dict[str, list[str]]:
    """Return each command and, as its last word, the file that it writes."""
    a, b, s, t = (str(folder / name) for name in ("a.jsonl", "b.jsonl", "s.csv", "t.csv"))
    rules = ("success_rate >= 0.5", "pass^2 >= .3", "success_within(4) >= .1")
    quick = ["--resamples", "99", "--quiet"]
    sessions = ["--max-states", "2", "--n-max", "5", "--quiet"]
    found = {
        "assess": ["assess", a, "--quick", "--draws", "99", *quick],
        "climb": ["assess", a, "--process", "order-2", "--draws", "99", *quick],
        "compare": ["compare", a, b, *quick],
        "gate": ["gate", a, *rules, "--baseline", b, *quick],
        "plan": ["plan", a, "pass^2 >= 0.1", "--draws", "100", "--tasks", "9", "--attempts", "3"],
        "sessions": ["assess", s, *sessions],
        "compare sessions": ["compare", s, t, "--n-max", "5", "--quiet"],
    }
    assert tuple(found) == COMMANDS
    return {name: [*words, "--json", str(to / f"{name}.json")] for name, words in found.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sojourn.cli.main import main

    place = tmp_path_factory.mktemp("workers")
    write_log(place / "a.jsonl")
    write_log(place / "b.jsonl", shift=1)
    for name, seed in (("s.csv", "1"), ("t.csv", "2")):
        design = ["--tasks", "40", "--sessions", "2", "--subdomains", "2", "--seed", seed]
        assert main(["simulate", "sessions", *design, "-o", str(place / name)]) == 0
    return place


def run_with(
    folder: Path, workers: int, threads: str | None, names: tuple[str, ...]
) -> dict[str, bytes]:
    """Return what each command writes with so many workers, and threads of the kernels."""
    to = folder / f"{workers}-{threads}-{len(names)}"
    to.mkdir()
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    if threads is not None:
        environment |= dict.fromkeys(VARIABLES, threads)
    known = commands(folder, to)
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(workers), json.dumps([known[name] for name in names])],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return {name: (to / f"{name}.json").read_bytes() for name in names}


def check(folder: Path, ways: list[tuple[int, str | None]], names: tuple[str, ...]) -> None:
    alone = run_with(folder, 1, "1", names)
    for workers, threads in ways:
        found = run_with(folder, workers, threads, names)
        for name in names:
            assert len(found[name]) > 500
            assert found[name] == alone[name], (name, workers, threads)


def test_four_workers_and_any_threads_decide_as_one_does(folder: Path) -> None:
    check(folder, [(4, None)], ("compare", "gate", "plan"))


@pytest.mark.slow
def test_no_answer_depends_on_workers_or_threads(folder: Path) -> None:
    check(folder, [(4, None), (2, None), (1, None), (2, "1"), (4, "2")], COMMANDS)
