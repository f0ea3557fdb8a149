"""Write a page of 20 figures: CPU and wall seconds, apart from what it reports.

Run ``python benchmarks/report.py`` on a quiet machine. Runs of several models are assessed, a group
each, until their page has at least 20 figures; the page is then written several times in the same
process, the imports of the first time left out. Writes ``benchmarks/results/report.json``.
"""

from __future__ import annotations

import argparse
import statistics
import time

import _record

_record.pin_threads()

import numpy as np  # noqa: E402 - after the threads are pinned

TARGET_S = 5.0
N_FIGURES = 20
PRESETS = ("react", "reflexion", "autogpt", "toolformer", "agentbench", "babyagi")


def assessed(n_groups: int):  # type: ignore[no-untyped-def]
    """Return the assessment of 200 runs of each of so many models."""
    from sojourn.assess import assess_groups
    from sojourn.assess.chain import ChainSettings
    from sojourn.corpus import CorpusBuilder
    from sojourn.corpus.simulated import corpus_of_sequences
    from sojourn.process.simulate import preset, simulate_tasks

    rng = np.random.default_rng(1)
    builder = CorpusBuilder()
    for name in PRESETS[:n_groups]:
        runs = simulate_tasks(preset(name), n_tasks=50, n_attempts=4, odds_sd=1.0, rng=rng)
        corpus = corpus_of_sequences(runs, model=name)
        for run in range(len(corpus)):
            builder.add(corpus.trace(run))
    settings = ChainSettings(quick=True, n_draws=199)
    return assess_groups(builder.build(), n_resamples=199, chain=settings, rng=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    from sojourn.report.html import html_text

    for n_groups in range(2, len(PRESETS) + 1):
        result = assessed(n_groups)
        page = html_text(result)
        if page.count("<svg") >= N_FIGURES:
            break
    cpu, wall = [], []
    for _ in range(options.runs):
        began, start = time.process_time(), time.perf_counter()
        page = html_text(result)
        cpu.append(time.process_time() - began)
        wall.append(time.perf_counter() - start)
    measured = {
        "target_s": TARGET_S,
        "groups": n_groups,
        "figures": page.count("<svg"),
        "page_kb": round(len(page.encode()) / 1e3),
        "cpu_s": round(statistics.median(cpu), 3),
        "least_cpu_s": round(min(cpu), 3),
        "wall_s": round(statistics.median(wall), 3),
    }
    print(measured)
    print(_record.write("report", measured, "matplotlib"))


if __name__ == "__main__":
    main()
