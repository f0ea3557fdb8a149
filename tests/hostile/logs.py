"""Logs whose every label is hostile, and the command as a program would run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sojourn.cli.main import main

__all__ = ["hostile_runs", "hostile_tasks", "run", "write_rows"]


def run(*words: object) -> int:
    """Run the command as a program would: the page shows the process's own command line."""
    arguments = [str(word) for word in words]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["sojourn", *arguments])
        return main(arguments)


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
    return path


def hostile_runs(texts: list[str]) -> list[dict[str, object]]:
    """Return runs, two attempts at each of two tasks a text, with the text in every label."""
    return [
        {
            "task_id": f"{text} {task}" if task else text,
            "task_repeat": attempt,
            "outcome": bool((place + task + attempt) % 3),
            "task_set": text,
            "agent": text,
            "model": text,
            "cluster": text,
            "job_id": text,
            "end": "limit" if (place + attempt) % 5 == 0 else "finished",
            "steps": [texts[(place + k * (task + 1)) % len(texts)] for k in range(3 + attempt)],
            text: 1,
        }
        for place, text in enumerate(texts)
        for task in range(2)
        for attempt in range(2)
    ]


def hostile_tasks(texts: list[str]) -> list[dict[str, object]]:
    """Return sessions of ten tasks, one a text, with the text in every label."""
    return [
        {
            "session_id": text,
            "position": position,
            "success": bool((place + position) % 4),
            "domain": "work",
            "subdomain": texts[(place + position) % 8],
            "item": f"{text} {position}",
            "agent": texts[0],
            "model": texts[1],
        }
        for place, text in enumerate(texts)
        for position in range(10)
    ]
