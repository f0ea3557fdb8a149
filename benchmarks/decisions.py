"""Time the commands that decide: a comparison, a gate and a plan of 200 runs each.

Run ``python benchmarks/decisions.py`` on a quiet machine. Each is a process of its own, timed from
outside, after one run that fills numba's cache; nothing is asserted. The runs are simulated: 50
tasks of unequal difficulty, 4 attempts each, 22 steps at the median. Prints a table and writes
``benchmarks/results/decisions.json``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import _record
from _command import timed

TARGET_S = 6.0
ANSWERS = (0, 1, 6)  # of a gate: pass, fail, inconclusive


def write_runs(folder: Path) -> tuple[Path, Path]:
    """Write two sets of 200 runs of the same tasks."""
    found = []
    for name, chain, seed in (("a", "agentbench", 1), ("b", "ss7", 2)):
        path = folder / f"{name}.jsonl"
        design = ["--tasks", "50", "--attempts", "4", "--odds-sd", "1", "--seed", str(seed)]
        command = [sys.executable, "-m", "sojourn", "simulate", chain, *design, "-o", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        path.write_text(path.read_text().replace(f'"model": "{chain}"', f'"model": "model-{name}"'))
        found.append(path)
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    results: dict[str, object] = {"target_s": TARGET_S, "runs_a_set": 200}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        a, b = write_runs(folder)
        page, figures = ("--html", folder / "page.html"), ("--json", folder / "figures.json")
        rules = ("success_rate >= 0.3", "pass^4 >= 0.1", "success_within(20) >= 0.2")
        workloads: dict[str, list[object]] = {
            "compare": ["compare", a, b],
            "compare with page": ["compare", a, b, *page, *figures],
            "gate, a rate": ["gate", a, rules[0]],
            "gate, three rules": ["gate", a, *rules, "--junit", folder / "gate.xml"],
            "gate, a baseline": ["gate", b, rules[0], "--baseline", a],
            "plan": ["plan", a, rules[0]],
        }
        for name, arguments in workloads.items():
            results[name] = timed(arguments, options.runs, codes=ANSWERS)
            print(f"{name:<18} {results[name]}", flush=True)
    print(_record.write("decisions", results, "scipy", "matplotlib"))


if __name__ == "__main__":
    main()
