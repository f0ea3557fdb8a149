"""U covers the true error and separates a true chain from one off by the margin."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

STUDY = Path(__file__).resolve().parents[2] / "studies" / "misspecification_bound.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    if not STUDY.is_file():
        pytest.skip("the studies are not shipped here")
    spec = importlib.util.spec_from_file_location("misspecification_bound_study", STUDY)
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
def test_a_true_chain_is_accepted_at_50_tasks(study: ModuleType) -> None:
    n = 200
    found = study.bounds(study.World("", "memory", 0.0, 0.0), 50, n_corpora=n, n_resamples=199)
    assert found[:, 2].mean() >= 0.95 - limit(0.95, n)
    assert found[:, 3].mean() <= limit(0.05, n)
    assert 0.04 < np.median(found[:, 0]) < 0.08


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "low", "high"), [("early_exit", 0.0, 1.0), ("pace", 1.0, 30.0)])
def test_an_error_of_the_margin_is_not_accepted(
    study: ModuleType, kind: str, low: float, high: float
) -> None:
    n = 200
    effect = study.effect_for(kind, 0.10, low=low, high=high)
    found = study.bounds(study.World("", kind, effect, 0.10), 50, n_corpora=n, n_resamples=199)
    assert found[:, 2].mean() <= 0.05 + limit(0.05, n)
    assert found[:, 3].mean() <= 0.05 + limit(0.05, n)
