"""The tau-bench example as states, parsed with plain json and nothing of ours."""

from __future__ import annotations

import json
from pathlib import Path

from oracles.corpora import sequences_of
from sojourn.sequences import StateSequences


def read_tau_bench(logs: Path, *, censor: bool = False) -> StateSequences:
    """Assistant messages as respond, any tool, transfer; parsed with plain json."""
    runs = json.loads((logs / "tau-bench" / "gpt-4o-airline.json").read_text(encoding="utf-8"))
    corpus, tasks = [], []
    for run in runs:
        path = []
        for message in run["traj"]:
            if message["role"] == "assistant":
                names = [c["function"]["name"] for c in message.get("tool_calls") or []]
                path.append(2 if "transfer_to_human_agents" in names else int(bool(names)))
        last = run["traj"][-1]
        stopped = "###STOP###" in (last.get("content") or "")
        cut = not stopped and path[-1] != 2
        event = 1 if run["reward"] == 1.0 else 0 if cut and censor else 2
        corpus.append((path, event))
        tasks.append(run["task_id"])
    return sequences_of(corpus, task=tasks)
