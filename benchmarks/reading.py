"""Time every reader: megabytes a second of one core, and the peak of memory beside the file's size.

Run ``python benchmarks/reading.py``. Files are written to a temporary folder, with texts as long
as those of real logs; each is read in a process of its own, whose CPU time counts from after the
imports and one small read. An archive counts with the size of its members unpacked; Parquet and
CSV, whose megabytes say little, are better judged by their runs a second.
Writes ``benchmarks/results/reading.json``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _record

_record.pin_threads()

import numpy as np  # noqa: E402 - after the threads are pinned

TOOLS = [f"tool_{number}" for number in range(12)]
LETTERS = np.frombuffer(b"etaoinshrdlu mfw,.", np.uint8)
POOL = np.random.default_rng(0).choice(LETTERS, 200_000).tobytes().decode()


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def text(random: np.random.Generator, size: int = 600) -> str:
    """Return some text of about `size` characters, with what JSON must escape."""
    start = int(random.integers(len(POOL) - size))
    return (
        POOL[start : start + size // 2]
        + '\n"quoted" \\ é\n'
        + POOL[start + size // 2 :][: size // 2]
    )


def turns(random: np.random.Generator, n_turns: int) -> Iterator[dict[str, Any]]:
    """Yield assistant messages with a tool call, each followed by its observation."""
    for number in range(n_turns):
        name = TOOLS[int(random.integers(len(TOOLS)))]
        arguments = json.dumps({"query": text(random, 120)})
        function = {"name": name, "arguments": arguments}
        call = {"id": f"c{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{number}", "name": name, "content": text(random)}


# A writer takes a place and a number of runs, and returns the file or folder to read.


def write_tau_bench(place: Path, n_runs: int) -> Path:
    random = rng()
    runs = [
        {
            "task_id": run // 4,
            "trial": run % 4,
            "reward": float(random.integers(2)),
            "info": {},
            "traj": [
                {"role": "system", "content": "airline " + text(random, 6000)},
                *turns(random, 12),
                {"role": "user", "content": "###STOP###"},
            ],
        }
        for run in range(n_runs)
    ]
    return _write_json(place / "results.json", runs)


def write_tau2_bench(place: Path, n_runs: int) -> Path:
    random = rng()
    simulations = [
        {
            "id": f"s{run}",
            "task_id": f"t{run // 4}",
            "trial": run % 4,
            "termination_reason": "user_stop",
            "reward_info": {"reward": float(random.integers(2))},
            "messages": [
                message
                | (
                    {
                        "tool_calls": [
                            {"id": "c", "name": TOOLS[0], "arguments": {"query": text(random, 120)}}
                        ]
                    }
                    if message["role"] == "assistant"
                    else {}
                )
                for message in turns(random, 12)
            ],
        }
        for run in range(n_runs)
    ]
    info = {
        "agent_info": {"implementation": "llm_agent", "llm": "m"},
        "environment_info": {"domain_name": "telecom"},
        "max_steps": 100,
    }
    return _write_json(
        place / "results.json",
        {"timestamp": "2026-01-01", "info": info, "tasks": [], "simulations": simulations},
    )


def write_mint(place: Path, n_runs: int) -> Path:
    random = rng()
    folder = place / "model" / "F=None" / "max5_p2+tool+cd" / "reasoning" / "gsm8k"
    folder.mkdir(parents=True)
    path = folder / "results.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for run in range(n_runs):
            history = [
                {"role": "user", "content": text(random, 3000)},
                *(
                    {"role": role, "content": f"<execute>{text(random)}</execute>"}
                    for _ in range(5)
                    for role in ("assistant", "user")
                ),
            ]
            state = {
                "history": history,
                "success": bool(random.integers(2)),
                "terminate_reason": "max_steps",
                "agent_action_count": {},
            }
            task = {"task_id": run, "task_name": "gsm8k"}
            file.write(json.dumps({"state": state, "task": task}) + "\n")
    return path


def write_mini_swe_agent(place: Path, n_runs: int) -> Path:
    random = rng()
    folder = place / "run"
    folder.mkdir()
    for run in range(n_runs):
        messages = [
            {"role": "system", "content": text(random, 3000)},
            *(
                {"role": role, "content": f"```bash\nls {text(random)}\n```"}
                for _ in range(50)
                for role in ("assistant", "user")
            ),
        ]
        info = {"exit_status": "Submitted", "config": {"model": {"model_name": "m"}}}
        _write_json(
            folder / f"task-{run}.traj.json",
            {
                "info": info,
                "messages": messages,
                "instance_id": f"task-{run}",
                "trajectory_format": "mini-swe-agent-1",
            },
        )
        _write_json(folder / f"task-{run}.report.json", {f"task-{run}": {"resolved": run % 2 == 0}})
    return folder


def write_swe_agent(place: Path, n_runs: int) -> Path:
    random = rng()
    folder = place / "trajectories"
    folder.mkdir()
    for run in range(n_runs):
        trajectory = [
            {
                "action": f"edit 1:2\n{text(random, 120)}",
                "observation": text(random),
                "response": text(random),
                "thought": text(random),
                "state": "{}",
            }
            for _ in range(30)
        ]
        info = {"exit_status": "submitted", "submission": "x"}
        _write_json(
            folder / f"task-{run}.traj",
            {"environment": "swe", "trajectory": trajectory, "history": [], "info": info},
        )
    return folder


def write_inspect(place: Path, n_runs: int) -> Path:
    random = rng()
    path = place / "log.eval"
    header = {
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": "r",
            "created": "2026-01-01T00:00:00+00:00",
            "task": "bench",
            "task_id": "t",
            "model": "m",
            "dataset": {"name": "d"},
            "config": {"epochs": 1},
        },
        "plan": {"steps": []},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for run in range(n_runs):
            sample = {
                "id": run,
                "epoch": 1,
                "input": text(random, 2000),
                "target": "x",
                "messages": [
                    message
                    | (
                        {"tool_calls": [{"id": "c", "function": TOOLS[0], "arguments": {"q": "x"}}]}
                        if message["role"] == "assistant"
                        else {}
                    )
                    for message in turns(random, 12)
                ],
                "scores": {"match": {"value": "C" if run % 2 else "I"}},
                "events": [{"event": "info", "data": text(random)} for _ in range(20)],
            }
            archive.writestr(f"samples/{run}_epoch_1.json", json.dumps(sample))
    return path


def write_jsonl(place: Path, n_runs: int) -> Path:
    random = rng()
    path = place / "runs.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for run in range(n_runs):
            steps = [
                {"name": TOOLS[tool], "kind": "tool", "ok": True}
                for tool in random.integers(len(TOOLS), size=20).tolist()
            ]
            row = {
                "task_id": f"task-{run // 4}",
                "task_repeat": run % 4,
                "outcome": "success" if run % 3 else "failure",
                "end": "finished",
                "model": "m",
                "steps": steps,
            }
            file.write(json.dumps(row) + "\n")
    return path


def write_runs_csv(place: Path, n_runs: int) -> Path:
    path = place / "runs.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("task_id,trial,outcome,end,n_steps,model\n")
        file.writelines(
            f"task-{run // 4},{run % 4},{run % 3 > 0},finished,{run % 30},m\n"
            for run in range(n_runs)
        )
    return path


def write_steps_csv(place: Path, n_runs: int) -> Path:
    path = place / "steps.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("task_id,trial,outcome,step,name,ok\n")
        for run in range(n_runs):
            outcome = "success" if run % 3 else "failure"
            file.writelines(
                f"task-{run // 4},{run % 4},{outcome},{step},{TOOLS[(run + step) % 12]},true\n"
                for step in range(20)
            )
    return path


def write_runs_parquet(place: Path, n_runs: int) -> Path:
    from pyarrow import csv, parquet

    table = csv.read_csv(write_runs_csv(place, n_runs))
    parquet.write_table(table, place / "runs.parquet")
    return place / "runs.parquet"


def write_canonical(place: Path, n_runs: int) -> Path:
    from sojourn.corpus import Categorical, CorpusBuilder, StepTypes, TraceBatch, write_corpus

    random = rng()
    types = StepTypes.from_keys([(name, 0, 0, ok, 1) for name in TOOLS for ok in (0, 1)])
    run = np.arange(n_runs)
    builder = CorpusBuilder()
    builder.add_batch(
        TraceBatch(
            n_runs=n_runs,
            numbers={
                "outcome": random.integers(2, size=n_runs),
                "end": np.zeros(n_runs),
                "n_steps": np.full(n_runs, 20),
                "task_repeat": run % 4,
            },
            labels={
                "task_id": Categorical(
                    codes=run // 4, values=tuple(f"task-{task}" for task in range(n_runs // 4 + 1))
                ),
                "model": Categorical.constant("m", n_runs),
                "source_uri": Categorical.constant("log", n_runs),
            },
            offsets=np.arange(n_runs + 1) * 20,
            steps=random.integers(len(types), size=20 * n_runs).astype(np.int32),
            step_types=types,
        )
    )
    write_corpus(builder.build(), place / "corpus.parquet")
    return place / "corpus.parquet"


def _write_json(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


# Name of the workload -> format, writer, number of runs; some 30 to 60 MB of text each.
WORKLOADS: dict[str, tuple[str, Callable[[Path, int], Path], int]] = {
    "inspect": ("inspect", write_inspect, 1_500),
    "mini-swe-agent": ("mini-swe-agent", write_mini_swe_agent, 600),
    "mint": ("mint", write_mint, 4_000),
    "sojourn-jsonl": ("sojourn-jsonl", write_jsonl, 40_000),
    "sojourn-parquet": ("sojourn-parquet", write_canonical, 1_000_000),
    "swe-agent": ("swe-agent", write_swe_agent, 600),
    "table (CSV, a run a row)": ("table", write_runs_csv, 1_000_000),
    "table (CSV, a step a row)": ("table", write_steps_csv, 50_000),
    "table (Parquet, a run a row)": ("table", write_runs_parquet, 1_000_000),
    "tau-bench": ("tau-bench", write_tau_bench, 2_500),
    "tau2-bench": ("tau2-bench", write_tau2_bench, 2_500),
}


def size_of(path: Path) -> int:
    """Return the bytes of a file, of a folder's files, or of an archive's members unpacked."""
    if path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    files = [path] if path.is_file() else [item for item in path.rglob("*") if item.is_file()]
    return sum(item.stat().st_size for item in files)


def peak_bytes() -> int:
    """Return the most memory that this process has held; ``ru_maxrss`` may be its parent's."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(path: Path, warm: Path, form: str) -> None:
    """Read a file in this process and print what it cost; the imports and `warm` come before."""
    from sojourn.readers import read_traces

    # A format that is a folder is found by itself; forcing one would try it on every file.
    forced = form if path.is_file() else None
    read_traces(warm, format=forced)
    before = peak_bytes()
    start = time.process_time()
    corpus = read_traces(path, format=forced)
    seconds = time.process_time() - start
    peak = peak_bytes()
    print(
        json.dumps(
            {
                "n_runs": len(corpus),
                "n_steps": int(corpus.steps.size),
                "cpu_seconds": seconds,
                "peak_mb": peak / 1e6,
                "peak_over_start_mb": (peak - before) / 1e6,
            }
        )
    )


def measure(name: str, scale: float) -> dict[str, Any]:
    """Write a workload's file and read it in a process of its own."""
    form, writer, n_runs = WORKLOADS[name]
    with tempfile.TemporaryDirectory() as folder:
        warm, main = Path(folder) / "warm", Path(folder) / "main"
        warm.mkdir()
        main.mkdir()
        small = writer(warm, 4)
        path = writer(main, max(4, round(n_runs * scale)))
        megabytes = size_of(path) / 1e6
        command = [sys.executable, __file__, "--read", str(path), str(small), form]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    seconds = found["cpu_seconds"]
    return {
        "format": form,
        "megabytes": round(megabytes, 2),
        "megabytes_a_second": round(megabytes / seconds, 1),
        "runs_a_second": round(found["n_runs"] / seconds),
        **{key: round(value, 3) for key, value in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the files, 1 = 30-60 MB")
    parser.add_argument("--only", help="one workload by its name")
    parser.add_argument("--read", nargs=3, metavar=("PATH", "WARM", "FORMAT"), help="internal")
    options = parser.parse_args()
    if options.read:
        path, warm, form = options.read
        read(Path(path), Path(warm), form)
        return
    names = [options.only] if options.only else list(WORKLOADS)
    measured = {}
    for name in names:
        measured[name] = row = measure(name, options.scale)
        print(
            f"{name:30} {row['megabytes']:8.1f} MB {row['cpu_seconds']:7.2f} s CPU "
            f"{row['megabytes_a_second']:8.1f} MB/s {row['runs_a_second']:9d} runs/s "
            f"peak {row['peak_mb']:6.0f} MB"
        )
    if not options.only:
        path = _record.write("reading", {"scale": options.scale, "readers": measured}, "msgspec")
        print(f"written to {path}")


if __name__ == "__main__":
    main()
