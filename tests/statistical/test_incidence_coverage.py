"""Bands of the incidence curves hold the truth as often as they say; the limit check its size."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sojourn.process.incidence import fit_incidence
from sojourn.sequences import CENSORED

STUDY = Path(__file__).resolve().parents[2] / "studies" / "coverage_curves.py"
N_CORPORA = 400


@pytest.fixture(scope="module")
def study() -> ModuleType:
    if not STUDY.is_file():
        pytest.skip("the studies are not shipped here")
    spec = importlib.util.spec_from_file_location("coverage_curves", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.statistical
@pytest.mark.parametrize(("n_tasks", "cut"), [(20, 0.0), (20, 0.012), (50, 0.012)])
def test_bands_cover(study: ModuleType, n_tasks: int, cut: float) -> None:
    seed = np.random.SeedSequence([20260417, n_tasks, round(1000 * cut)])
    rows = study.one_chunk(study.World(cut=cut), n_tasks, N_CORPORA, 399, seed)
    # Steps of one corpus go together, so that corpora are what is counted.
    error = math.sqrt(0.95 * 0.05 / N_CORPORA)
    by_task, by_run = (
        {name: np.nanmean([row[i][name] for row in rows]) for name in study.COLUMNS} for i in (0, 1)
    )
    for name in ("pointwise", "simultaneous", "mean"):
        assert 0.93 - 3 * error < by_task[name] < 0.97 + 3 * error, name
    # Whole steps: the interval of the median may only be too wide.
    assert by_task["median"] > 0.93 - 3 * error
    for name in ("pointwise", "simultaneous"):
        assert by_run[name] < by_task[name] - 0.03


def test_truth_of_the_study_is_what_it_simulates(study: ModuleType) -> None:
    world = study.World(cut=0.0)
    success, running = world.truth()
    n_tasks = 20_000
    runs = world.simulate(n_tasks, np.random.default_rng(1))
    fit = fit_incidence(**runs, rng=0, n_resamples=50)
    # Four attempts at a task are at worst one: the error of a share of tasks.
    error = 4 * 0.5 / math.sqrt(n_tasks)
    np.testing.assert_allclose(fit.success.value, success, rtol=0, atol=error)
    np.testing.assert_allclose(fit.still_running, running, rtol=0, atol=error)


@pytest.mark.statistical
def test_limit_check_rejects_at_its_level() -> None:
    n, hits = 600, 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        unit = np.repeat(np.arange(25), 3)
        limit = np.where(unit % 3 == 0, 4, 9)
        # A task's pace is its own; limits do not look at it.
        pace = np.repeat(rng.uniform(0.05, 0.5, 25), 3)
        end = rng.geometric(pace)
        check = fit_incidence(
            np.minimum(end, limit),
            np.where(end > limit, CENSORED, rng.integers(1, 3, 75)),
            unit,
            stratum=limit,
            rng=seed,
            n_resamples=99,
        ).limit_check
        assert check is not None
        hits += check.p_value <= 0.05
    assert abs(hits / n - 0.05) < 3 * math.sqrt(0.05 * 0.95 / n)
