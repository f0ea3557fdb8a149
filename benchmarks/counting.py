"""Count transitions of many steps from a Parquet file: our stream against DuckDB's window.

    python benchmarks/counting.py --steps 50000000

Rows (run, step, state) are sorted by run and step. Ours reads run and state in batches and carries
the open run over the edge of a batch; it checks that runs are in order as it goes, and trusts that
the steps of a run are (the second line reads the step column too and checks that as well). DuckDB
sorts by itself: ``lead(state) over (partition by run order by step)``. Ours counts the ends of runs
too, DuckDB only the transitions. CPU seconds and peak memory of a process of its own for each
measurement, interleaved; one thread each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _record import pin_threads, write

pin_threads()

import numpy as np  # noqa: E402

N_STATES = 8
NAMES = tuple(f"s{i}" for i in range(N_STATES))
BLOCK_RUNS = 100_000


def make_file(path: Path, n_steps: int, events_path: Path) -> int:
    """Simulate runs of about 20 steps until there are enough; returns the exact number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sojourn.process import AbsorbingChain, simulate_runs

    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(N_STATES), size=N_STATES) * 0.95
    chain = AbsorbingChain(
        transient=rows,
        to_success=np.full(N_STATES, 0.03),
        to_failure=np.full(N_STATES, 0.02),
        initial=np.full(N_STATES, 1 / N_STATES),
        state_names=NAMES,
    )
    schema = pa.schema([("run", pa.int32()), ("step", pa.int32()), ("state", pa.int8())])
    events, written, first = [], 0, 0
    with pq.ParquetWriter(path, schema) as writer:
        while written < n_steps:
            drawn = simulate_runs(chain, BLOCK_RUNS, rng=rng)
            lengths = drawn.lengths
            run = np.repeat(np.arange(first, first + BLOCK_RUNS, dtype=np.int32), lengths)
            step = np.arange(run.size) - np.repeat(drawn.offsets[:-1], lengths)
            columns = [run, step.astype(np.int32), drawn.states.astype(np.int8)]
            writer.write_table(pa.table(columns, schema=schema))
            events.append(drawn.event)
            written += run.size
            first += BLOCK_RUNS
    np.save(events_path, np.concatenate(events))
    return written


def ours(path: str, events_path: str, check_steps: bool) -> list[list[int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sojourn.process import count_batches

    pa.set_cpu_count(1)
    columns = ["run", "state", "step"] if check_steps else ["run", "state"]
    last = [-1, -1]

    def batches():
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=1 << 17, columns=columns, use_threads=False):
                run, state = batch["run"].to_numpy(), batch["state"].to_numpy()
                if check_steps:
                    step = batch["step"].to_numpy()
                    rises = (run[1:] != run[:-1]) | (step[1:] > step[:-1])
                    if not (rises.all() and (run[0] != last[0] or step[0] > last[1])):
                        raise ValueError("steps of a run are out of order")
                    last[:] = int(run[-1]), int(step[-1])
                yield run, state

    counts = count_batches(batches(), event=np.load(events_path), state_names=NAMES)
    return counts.transitions.tolist()


def duckdb_window(path: str) -> list[list[int]]:
    import duckdb

    query = """
        with pairs as (
            select state, lead(state) over (partition by run order by step) as following
            from read_parquet(?)
        )
        select state, following, count(*) from pairs where following is not null group by all
    """
    with duckdb.connect(config={"threads": 1}) as connection:
        found = connection.execute(query, [path]).fetchall()
    table = np.zeros((N_STATES, N_STATES), dtype=int)
    for state, following, count in found:
        table[state, following] = count
    return table.tolist()


def peak_mb() -> float:
    """Peak memory of this process; getrusage would report the parent's where that is larger."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this benchmark needs /proc/self/status")


def measure(tool: str, path: str, events_path: str) -> None:
    """Warm up on nothing but the imports and the compiled kernel, then measure once."""
    if tool == "duckdb":
        import duckdb  # noqa: F401
    else:
        from sojourn.process import count_batches

        empty = np.zeros(1, np.int32), np.zeros(1, np.int8)
        count_batches([empty], event=np.zeros(1, np.int8), state_names=NAMES)
        import pyarrow.parquet  # noqa: F401
    before = peak_mb()
    start, wall = time.process_time(), time.perf_counter()
    if tool == "duckdb":
        table = duckdb_window(path)
    else:
        table = ours(path, events_path, tool == "ours_checked")
    print(
        json.dumps(
            {
                "cpu_s": time.process_time() - start,
                "wall_s": time.perf_counter() - wall,
                "peak_mb": peak_mb(),
                "imports_mb": before,
                "table": table,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(*options.child)
        return
    tools = ["ours", "ours_checked"]
    if importlib.util.find_spec("duckdb") is not None:
        tools.append("duckdb")
    sizes = []
    for n_steps in (options.steps // 10, options.steps):
        with tempfile.TemporaryDirectory() as folder:
            path, events = str(Path(folder, "steps.parquet")), str(Path(folder, "events.npy"))
            rows = make_file(Path(path), n_steps, Path(events))
            results: dict[str, list[dict[str, float]]] = {tool: [] for tool in tools}
            tables = []
            for _ in range(options.repeats):
                for tool in tools:
                    command = [sys.executable, __file__, "--child", tool, path, events]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    found = json.loads(done.stdout)
                    tables.append(found.pop("table"))
                    results[tool].append(found)
            if any(table != tables[0] for table in tables):
                raise AssertionError("the tools counted different tables")
            summary = {
                tool: {key: statistics.median(r[key] for r in runs) for key in runs[0]}
                for tool, runs in results.items()
            }
            sizes.append({"rows": rows, "median": summary, "all": results})
    measured = {"unit": "CPU seconds; MB of peak memory", "sizes": sizes}
    if "duckdb" in tools:
        last = sizes[-1]["median"]
        measured["ratio_duckdb_to_ours"] = last["duckdb"]["cpu_s"] / last["ours"]["cpu_s"]
        measured["ratio_duckdb_to_ours_checked"] = (
            last["duckdb"]["cpu_s"] / last["ours_checked"]["cpu_s"]
        )
    print(write("counting", measured, "duckdb"))
    print(json.dumps({k: v for k, v in measured.items() if k != "sizes"}, indent=2))
    for size in sizes:
        print(size["rows"], json.dumps(size["median"], indent=2))


if __name__ == "__main__":
    main()
