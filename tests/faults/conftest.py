"""What the tests of faults share: two small logs, and a process that forks commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("faults are injected by means of Linux", allow_module_level=True)

from faults.nursery import Nursery

STEPS = ["search", "open", "edit", "run", "answer"]


def write_log(path: Path, *, shift: int = 0) -> Path:
    """Write 24 runs of 8 tasks."""
    runs = [
        {
            "task_id": f"t{task}",
            "task_repeat": attempt,
            "model": f"m{shift}",
            "outcome": "success" if (task + attempt + shift) % 3 else "failure",
            "steps": [STEPS[(task + k * attempt) % 5] for k in range(3 + task % 4)],
        }
        for task in range(8)
        for attempt in range(3)
    ]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as found:
        yield found


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("logs")
    return write_log(folder / "a.jsonl"), write_log(folder / "b.jsonl", shift=1)
