"""Every command and every piece of Python on the pages of reference runs, on logs made for them.

These pages name logs that a reader is taken to have. What a command answers depends on the logs, so
any answer will do: pass, fail and inconclusive, but no error.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from doc_pages import Block, blocks_of, captured, commands_of
from sojourn.cli.main import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
ANSWERS = (0, 1, 6)
TOOLS = ("search", "edit", "run")


def runs(n_tasks: int, odds: float, seed: int, *, model: str, **more: object) -> list[str]:
    """Return the lines of four attempts at each of some tasks, the tasks of unequal difficulty."""
    random = np.random.default_rng(seed)
    lines = []
    for task in range(n_tasks):
        rate = 1 / (1 + np.exp(-odds - np.sin(task)))
        for repeat in range(4):
            steps = [str(random.choice(TOOLS)) for _ in range(random.integers(3, 30))]
            won = bool(random.random() < rate)
            fields = {"task_id": f"t{task}", "task_repeat": repeat, "model": model, **more}
            lines.append(json.dumps({**fields, "steps": steps, "success": won}))
    return lines


def session(n_tasks: int, seed: int) -> str:
    """Return a table of sessions whose failures cluster."""
    random = np.random.default_rng(seed)
    rows = ["session_id,position,domain,subdomain,success"]
    for name in ("mon", "tue"):
        good = True
        for position in range(n_tasks):
            good = good if random.random() < 0.9 else not good
            won = int(random.random() < (0.9 if good else 0.2))
            part = ("MBPP", "DS")[position % 2]
            rows.append(f"{name},{position},coding,{part},{won}")
    return "\n".join(rows) + "\n"


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with the logs that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    one, two = runs(20, 0.2, 1, model="a"), runs(20, 0.7, 2, model="gpt-4o")
    write(Path("old/a.jsonl"), *one)
    write(Path("new/a.jsonl"), *two)
    write(Path("main-logs/a.jsonl"), *one)
    write(Path("pilot/a.jsonl"), *two)
    write(Path("logs/a.jsonl"), *one)
    write(Path("logs/b.jsonl"), *two)
    write(Path("states.json"), json.dumps({"search": "look", "*": "rest"}))
    write(Path("running.jsonl"), json.dumps({"task_id": "t1", "model": "a", "steps": ["search"]}))
    for name, seed in (("sessions", 3), ("a", 4), ("b", 5), ("old", 6), ("new", 7)):
        write(Path(f"{name}.csv"), session(30, seed).rstrip())
    profile = ("[domains]", "coding = 1.0", "", "[subdomains.coding]", "MBPP = 0.6", "DS = 0.4")
    write(Path("op.toml"), *profile)
    write(Path("reports/sessions.csv"), session(30, 8).rstrip())
    in_order = (dict(json.loads(line), session_id="s", position=i) for i, line in enumerate(one))
    write(Path("runs.jsonl"), *map(json.dumps, in_order))
    return tmp_path


def run(block: Block) -> int:
    """Run a block of a shell or of Python; return how many things it ran."""
    if block.language == "python":
        with captured():
            exec(compile(block.code, f"line {block.line}", "exec"), {"__name__": "__main__"})
        return 1
    commands = list(commands_of(block.code))
    for line in commands:
        verb, *arguments = shlex.split(line, comments=True)
        assert verb == "sojourn", f"{line!r} is no command of ours"
        with captured() as output:
            code = main(arguments)
        assert int(code) in ANSWERS, f"{line.strip()}: exit {int(code)}\n{output.getvalue()}"
    return len(commands)


@pytest.mark.thorough
@pytest.mark.parametrize("page", ["decisions.md", "processes.md", "sessions.md"])
def test_every_example_runs(page: str, logs: Path) -> None:
    blocks = blocks_of((DOCS / page).read_text(encoding="utf-8"))
    if page == "processes.md":  # speaks of one group
        Path("logs/b.jsonl").unlink()
    ran = [run(b) for b in blocks if b.language in ("sh", "python") and not b.skipped]
    assert sum(ran) > 5
