"""The coverage study of attempts in miniature: intervals hold the truth as often as they say."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sojourn import attempts
from sojourn.attempts import TaskCounts

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

STUDY = Path(__file__).resolve().parents[2] / "studies" / "coverage_attempts.py"


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("coverage_attempts", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def drawn(study: ModuleType):
    """Cells of a few laws with 20 tasks, drawn: 600 corpora each."""
    chosen = [
        law
        for law in study.LAWS
        if law.name in ("mean 0.3, ICC 0.4", "mean 0.5, ICC 0.1", "half at .1, half at .9")
    ]
    rng = np.random.default_rng(20260417)
    corpora = [study.draw_corpora(law, 20, 600, rng) for law in chosen]
    seen = np.concatenate([h for _, h in corpora])
    histograms = np.unique(np.concatenate([seen, seen[:, ::-1]]), axis=0)
    with ThreadPoolExecutor(1) as pool:
        bounds = study.evaluate(histograms, 1, False, pool)
    table = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(histograms))}
    return [
        (
            law,
            study.population_cells(law, table, histograms, bounds, h),
            study.same_task_cells(
                p,
                np.array([table[row.tobytes()] for row in np.ascontiguousarray(h)]),
                np.array([table[row.tobytes()] for row in np.ascontiguousarray(h[:, ::-1])]),
                bounds,
            ),
        )
        for law, (p, h) in zip(chosen, corpora, strict=True)
    ]


def test_population_intervals_cover_with_twenty_tasks(study: ModuleType, drawn) -> None:
    for law, cells, _ in drawn:
        for (quantity, k, row), cell in cells.items():
            if row == 2 and study.informative(law, 20, quantity, k) >= 3:
                # Four Monte Carlo errors, since some twenty cells are looked at.
                low = 0.93 - 4 * np.sqrt(0.93 * 0.07 / 600)
                high = 0.97 + 4 * np.sqrt(0.97 * 0.03 / 600)
                assert low < cell.coverage < high, (law.name, quantity, k, cell.coverage)


def test_naive_intervals_fall_short_where_tasks_differ(drawn) -> None:
    shortfall = {law.name: cells["pass_hat", 1, 0].coverage for law, cells, _ in drawn}
    assert shortfall["mean 0.3, ICC 0.4"] < 0.90
    assert shortfall["half at .1, half at .9"] < 0.80


def test_same_tasks_intervals_cover(drawn) -> None:
    for law, _, cells in drawn:
        for key, cell in cells.items():
            assert cell.coverage > 0.93 - 4 * cell.error, (law.name, key, cell.coverage)


def test_bounds_hold_for_laws_that_attempts_cannot_tell_apart() -> None:
    rng = np.random.default_rng(11)
    for p in (rng.beta(0.5, 0.5, 100_000), rng.choice([0.1, 0.9], 100_000), np.full(100_000, 0.5)):
        misses = 0
        for _ in range(40):
            tasks = rng.choice(p, 50)
            counts = TaskCounts(
                successes=rng.binomial(4, tasks), attempts=np.full(50, 4), unit=np.arange(50)
            )
            for k in (6, 12):
                bounds = attempts.pass_hat_bounds(counts, k)
                misses += not bounds.low <= (p**k).mean() <= bounds.high
        assert misses <= 9  # of 80 at 95 %: more than 9 happen once in 200 times
