"""Read a large file of OpenTelemetry spans: megabytes a second on one core, and memory.

Run ``python benchmarks/otlp.py`` (a file of 1,000 MB; ``--megabytes`` for others). The file is JSON
lines, an export of 40 spans each: traces of one agent, 12 calls of a model with the prompt and the
last result (4,000 letters) and 11 of tools, children first, 50 traces at a time interleaved. It is
read in a process of its own, and so are an eighth and a fortieth of it: memory that is flat grows
with the runs that are kept, not with the bytes. The last row has spans without the prompts, which
cost the same each and hold fewer bytes. Writes ``benchmarks/results/otlp.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _record

_record.pin_threads()

from reading import TOOLS, peak_bytes, rng, text  # noqa: E402 - after the threads are pinned

SPANS_A_LINE = 40
OPEN_TRACES = 50


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _span(trace: str, number: int, kind: str, name: str, more: list[Any]) -> dict[str, Any]:
    start = 1_700_000_000_000_000_000 + 1_000_000 * number
    return {
        "traceId": trace,
        "spanId": f"{trace[:8]}{number:08x}",
        "parentSpanId": f"{trace[:8]}{0:08x}" if number else "",
        "name": f"{kind} {name}",
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 900_000),
        "attributes": [_attribute("gen_ai.operation.name", kind), *more],
        "status": {},
    }


def spans_of(trace: str, random: Any, prompts: bool) -> list[dict[str, Any]]:
    """Return the spans of a run of an agent, the root last."""
    spans = []
    for number in range(1, 24):
        if number % 2:
            said = json.dumps([{"role": "assistant", "parts": [{"content": text(random)}]}])
            more = [
                _attribute("gen_ai.request.model", "model-a"),
                _attribute("gen_ai.output.messages", said),
            ]
            if prompts:
                told = [{"role": "system", "parts": [{"content": text(random, 3400)}]}]
                told.append({"role": "tool", "parts": [{"content": text(random)}]})
                more.append(_attribute("gen_ai.input.messages", json.dumps(told)))
            spans.append(_span(trace, number, "chat", "model-a", more))
        else:
            tool = TOOLS[int(random.integers(len(TOOLS)))]
            more = [
                _attribute("gen_ai.tool.name", tool),
                _attribute("gen_ai.tool.call.arguments", json.dumps({"q": text(random, 120)})),
                _attribute("gen_ai.tool.call.result", text(random)),
            ]
            spans.append(_span(trace, number, "execute_tool", tool, more))
    root = _span(trace, 0, "invoke_agent", "shop", [_attribute("gen_ai.agent.name", "shop")])
    return [*spans, root]


def lines(random: Any, prompts: bool) -> Iterator[bytes]:
    """Yield exports without end, the spans of `OPEN_TRACES` runs interleaved."""
    n_traces = 0
    resource = {"attributes": [_attribute("service.name", "shop")]}
    while True:
        runs = [spans_of(f"{n_traces + k:032x}", random, prompts) for k in range(OPEN_TRACES)]
        n_traces += OPEN_TRACES
        mixed = [span for together in zip(*runs, strict=True) for span in together]
        for start in range(0, len(mixed), SPANS_A_LINE):
            scope = {"scope": {"name": "made"}, "spans": mixed[start : start + SPANS_A_LINE]}
            export = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
            yield json.dumps(export, separators=(",", ":")).encode() + b"\n"


def write(path: Path, megabytes: float, prompts: bool = True) -> float:
    """Write a file of about so many megabytes by repeating some; return how many there are.

    Each repetition has traces of its own: the first digits of their ids are counted up.
    """
    made, size = [], 0
    for line in lines(rng(), prompts):
        made.append(line)
        size += len(line)
        if size >= 24e6:
            break
    written, turn = 0, 0
    with path.open("wb") as file:
        while written < megabytes * 1e6:
            name = b'"traceId":"%08x' % turn
            for line in made:
                if written >= megabytes * 1e6:
                    break
                written += file.write(line.replace(b'"traceId":"00000000', name))
            turn += 1
    return written / 1e6


def read(path: Path) -> None:
    """Read a file in this process and print what it cost; the imports come before."""
    from sojourn.readers import read_traces

    small = path.with_suffix(".small")
    with path.open("rb") as file:
        small.write_bytes(file.readline())
    read_traces(small, format="otel")
    before, start, wall = peak_bytes(), time.process_time(), time.perf_counter()
    corpus = read_traces(path, format="otel")
    found = {
        "cpu_s": round(time.process_time() - start, 2),
        "wall_s": round(time.perf_counter() - wall, 2),
        "n_runs": len(corpus),
        "n_steps": int(corpus.steps.size),
        "peak_mb": round(peak_bytes() / 1e6),
        "peak_over_start_mb": round((peak_bytes() - before) / 1e6),
    }
    print(json.dumps(found))


def measure(megabytes: float, prompts: bool) -> dict[str, Any]:
    """Write a file and read it in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        size = write(path, megabytes, prompts)
        command = [sys.executable, __file__, "--read", str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {
        "prompts": prompts,
        "megabytes": round(size),
        "mb_a_cpu_second": round(size / found["cpu_s"], 1),
        "spans_a_cpu_second": round(found["n_runs"] * 24 / found["cpu_s"]),
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000.0)
    parser.add_argument("--read", type=Path, help="internal")
    options = parser.parse_args()
    if options.read:
        read(options.read)
        return
    rows = []
    for share, prompts in ((1 / 40, True), (1 / 8, True), (1.0, True), (1 / 8, False)):
        rows.append(measure(options.megabytes * share, prompts))
        print(rows[-1], flush=True)
    print(_record.write("otlp", {"sizes": rows}, "msgspec"))


if __name__ == "__main__":
    main()
