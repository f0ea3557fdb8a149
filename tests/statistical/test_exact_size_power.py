"""The exact test keeps its size and finds departures: the study in miniature."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

STUDY = Path(__file__).resolve().parents[2] / "studies" / "exact_size_power.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    if not STUDY.is_file():
        pytest.skip("the studies are not shipped here")
    spec = importlib.util.spec_from_file_location("exact_size_power", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def limit(rate: float, n: int) -> float:
    """Three standard errors of a share."""
    return 3 * (rate * (1 - rate) / n) ** 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "effect", "n_runs", "per_task", "within", "cap"),
    [
        ("chain", 0.0, 60, 1, False, 1_000_000),
        ("chain", 0.0, 400, 1, False, 1_000_000),
        ("chain", 0.0, 200, 4, True, 1_000_000),
        ("chain", 0.0, 60, 1, False, 6),
        ("odds", 1.5, 200, 4, False, 1_000_000),
        ("odds", 1.5, 200, 4, True, 1_000_000),
        ("pace", 2.0, 200, 4, True, 1_000_000),
    ],
)
def test_size(
    study: ModuleType,
    kind: str,
    effect: float,
    n_runs: int,
    per_task: int,
    within: bool,
    cap: int,
) -> None:
    world = study.World("", kind, effect, per_task=per_task, cap=cap)
    n = 300
    found = study.rates(world, n_runs, n_corpora=n, n_draws=99, within_tasks=within)
    assert found[:3].max() < 0.05 + limit(0.05, n)
    assert found[:3].min() > 0.025 - limit(0.025, n)
    if kind == "chain":
        assert found[:3].mean() > 0.02


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("kind", "effect", "column", "least"),
    [
        ("memory", 0.05, 0, 0.88),
        ("memory", 0.15, 0, 0.99),
        ("pace", 2.0, 2, 0.99),
        ("early_exit", 0.7, 2, 0.99),
    ],
)
def test_power_at_400_runs(
    study: ModuleType, kind: str, effect: float, column: int, least: float
) -> None:
    n = 60
    found = study.rates(study.World("", kind, effect), 400, n_corpora=n, n_draws=399)
    assert found[column] >= least - limit(least, n)


@pytest.mark.statistical
def test_tasks_of_different_pace_are_told_from_memory(study: ModuleType) -> None:
    world = study.World("", "pace", 2.0, per_task=4)
    assert study.rates(world, 400, n_corpora=40, n_draws=99)[0] > 0.9
    memory = study.World("", "memory", 0.3, per_task=4)
    assert study.rates(memory, 400, n_corpora=40, n_draws=99, within_tasks=True)[0] > 0.9
