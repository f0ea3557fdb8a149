"""Write the page of the session benchmarks from their results.

python benchmarks/gibbs.py; python benchmarks/effective_draws.py; python benchmarks/sessions.py
python benchmarks/session_page.py
"""

from __future__ import annotations

import json
from typing import Any

import _record

PAGE = _record.RESULTS.parent.parent / "docs" / "studies" / "session-speed.md"
SHORT = {
    "sojourn, whole sweep": "sojourn, whole sweep",
    "scaled FFBS, plain numba": "scaled loop, numba",
    "log-space FFBS, plain numba": "log-space loop, numba",
    "dynamax FFBS, float32": "dynamax, float32",
    "dynamax FFBS, float64": "dynamax, float64",
    "deeptime BayesianHMM": "deeptime",
    "deeptime, not reversible": "deeptime, cheapest",
    "FFBS, NumPy script": "NumPy script",
}
PROSE = """\
# How fast is the session sampler?

```
python benchmarks/gibbs.py
python benchmarks/effective_draws.py
python benchmarks/sessions.py
python benchmarks/session_page.py
```

{machine} Nothing here is asserted by a test.

**A sweep.** CPU nanoseconds per task and iteration on one core, medians of {repeats} interleaved
repeats, compilation left out; in brackets the ratio to ours. Ours is a whole Gibbs sweep in
float64: states, success probabilities, mean and concentration, transition rows, and the record of
every draw. dynamax draws states only, from a table of emissions given. deeptime draws states,
emissions and transitions of two symbols, without subdomains; *cheapest* is a transition matrix that
need not be reversible, sampled once. Targets: 10 ns at K = 3 and 10,000 tasks, 40 times dynamax,
100 times deeptime. {sweep_verdict}

{sweep}

**Effective draws.** {draws_words} Target: 100 times. {draws_verdict}

{draws}

**Whole assessments.** `sojourn assess sessions.csv --html` in a fresh process, kernels compiled:
one session of 2,000 tasks, K = 1..4 scored, four chains of the chosen model, the page with its
figures. Target: 15 seconds on two cores; a million tasks within 4 GB.

{whole}
"""


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_record.RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def sweep_table(rows: list[dict[str, Any]]) -> str:
    names = [name for name in SHORT if any(name in row["cpu_ns"] for row in rows)]
    lines = [
        "| tasks | K | " + " | ".join(SHORT[name] for name in names) + " |",
        "|" + "---|" * (2 + len(names)),
    ]
    for row in rows:
        cells = []
        for name in names:
            value = row["cpu_ns"].get(name)
            if value is None:
                cells.append("")
                continue
            ratio = "" if name == names[0] else f" ({row['ratio'][name]:.0f}x)"
            cells.append(f"{value:.{1 if value < 100 else 0}f}{ratio}")
        lines.append(f"| {row['tasks']:,} | {row['states']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sweep_verdict(rows: list[dict[str, Any]]) -> str:
    row = next(r for r in rows if r["tasks"] == 10_000 and r["states"] == 3)
    ns, ratio = row["cpu_ns"]["sojourn, whole sweep"], row["ratio"]
    asked = (
        ("10 ns", ns <= 10.0),
        ("40 times dynamax in float64", ratio["dynamax FFBS, float64"] >= 40.0),
        ("40 times dynamax in float32", ratio["dynamax FFBS, float32"] >= 40.0),
        ("100 times deeptime", ratio["deeptime BayesianHMM"] >= 100.0),
    )
    met = ", ".join(name for name, reached in asked if reached)
    missed = ", ".join(name for name, reached in asked if not reached)
    return (
        f"Reached: {met}. Missed: {missed or 'none'}. There: {ns:.1f} ns; dynamax in the same "
        f"precision takes {ratio['dynamax FFBS, float64']:.0f} times as long, in float32 "
        f"{ratio['dynamax FFBS, float32']:.0f} times; deeptime as it comes "
        f"{ratio['deeptime BayesianHMM']:.0f} times, at its cheapest "
        f"{ratio['deeptime, not reversible']:.0f} times. Peers carry a cost a call that long "
        "sessions spread out, so that ratios fall with the number of tasks."
    )


def draws_table(results: dict[str, Any]) -> str:
    lines = [
        "| states | figure | sojourn, a CPU second | NUTS, all counted | NUTS, warm-up free | "
        "posterior mean (sd): ours; NUTS |",
        "|" + "---|" * 6,
    ]
    for states in ("strong", "weak"):
        ours, nuts = results[states]["sojourn"], results[states]["numpyro NUTS"]
        for figure in ("R(1)", "R(20)"):
            key = f"{figure} a CPU second"
            alone = f"{key}, warm-up not counted"
            ratio = results[states]["ratio"]
            lines.append(
                f"| {states} | {figure} | {ours[key]:.0f} | {nuts[key]:.1f} ({ratio[key]:.0f}x) | "
                f"{nuts[alone]:.1f} ({ratio[alone]:.0f}x) | {ours[figure + ' mean']:.4f} "
                f"({ours[figure + ' sd']:.4f}); {nuts[figure + ' mean']:.4f} "
                f"({nuts[figure + ' sd']:.4f}) |"
            )
    return "\n".join(lines)


def whole_table(workloads: dict[str, Any]) -> str:
    lines = [
        "| workload | wall s: median | shortest | CPU s | peak MB | what it found |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in workloads.items():
        found = row.get("said") or f"sampling {row['sampling_cpu_s']:.0f} s of CPU"
        lines.append(
            f"| {name} | {row['wall_s']:.1f} | {row['wall_s_best']:.1f} | {row['cpu_s']:.1f} | "
            f"{row['peak_mb']} | {found} |"
        )
    return "\n".join(lines)


def main() -> None:
    gibbs, draws, whole = load("gibbs"), load("effective_draws"), load("sessions")
    versions = {**draws["versions"], **gibbs["versions"]}
    named = ", ".join(
        f"{name} {versions[name]}"
        for name in ("python", "numpy", "numba", "jax", "dynamax", "deeptime", "numpyro")
    )
    loads = ", ".join(f"{r['load_average']:.1f}" for r in (gibbs, draws, whole))
    machine = (
        f"{gibbs['machine']['processor']}, {gibbs['machine']['cores']} cores, shared with other "
        f"work (load {loads} in the three runs: wall seconds are longer than on a quiet machine); "
        f"{named}."
    )
    words = (
        f"R(1) and R(20) of {draws['tasks']:,} tasks, K = 3, by four chains of each: ours of "
        f"{draws['ours']['warmup']:,} + {draws['ours']['draws']:,} sweeps, numpyro's NUTS of "
        f"{draws['nuts']['warmup']} + {draws['nuts']['draws']} on the likelihood with states "
        "summed out, float64, compilation left out. *Strong* states succeed with .97 / .80 / .40, "
        "*weak* ones with .97 / .90 / .75. Bulk effective draws by arviz-stats for both. Ours "
        "count the warm-up and the diagnostics."
    )
    ratio = [draws[s]["ratio"]["R(1) a CPU second"] for s in ("strong", "weak")]
    alone = [
        draws[s]["ratio"]["R(1) a CPU second, warm-up not counted"] for s in ("strong", "weak")
    ]
    verdict = (
        f"For R(1) {ratio[0]:.0f} and {ratio[1]:.0f} times with everything counted, "
        f"{alone[0]:.0f} and {alone[1]:.0f} times with NUTS's warm-up for nothing."
    )
    text = PROSE.format(
        machine=machine,
        repeats=gibbs["repeats"],
        sweep_verdict=sweep_verdict(gibbs["rows"]),
        sweep=sweep_table(gibbs["rows"]),
        draws_words=words,
        draws_verdict=verdict,
        draws=draws_table(draws),
        whole=whole_table(whole["workloads"]),
    )
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
