"""The published experiments in miniature, and the parts that the studies add to the library."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sojourn.process.simulate import preset, simulate_runs
from sojourn.sequences import CENSORED, SUCCESS

STUDIES = Path(__file__).resolve().parents[2] / "studies"


def load(name: str) -> ModuleType:
    if not (STUDIES / f"{name}.py").is_file():
        pytest.skip("the studies are not shipped here")
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def protocol() -> ModuleType:
    return load("published_protocol")


@pytest.fixture(scope="module")
def power() -> ModuleType:
    return load("published_power")


def limit(rate: float, n: int) -> float:
    """Three standard errors of a share."""
    return 3 * (rate * (1 - rate) / n) ** 0.5


@pytest.mark.statistical
def test_a_true_chain_passes_the_published_protocol(protocol: ModuleType) -> None:
    n = 20
    found = protocol.repeat(n, names=("react", "babyagi"))
    assert np.mean(found.m[0] == 5) == np.mean(found.m[1] == 6) == 1.0
    assert found.true_labels.mean() == 1.0
    assert found.aic_accepts.mean() == 1.0
    assert found.ks_accepts.mean() >= 0.95 - limit(0.95, 2 * n)
    # Ties make the held-out p-value conservative: its median is over a half.
    assert 0.5 < np.median(found.p) < 0.85
    assert max(np.mean(found.exact_order <= 0.05), np.mean(found.exact_timing <= 0.05)) <= (
        0.05 + limit(0.05, 2 * n)
    )
    assert found.timing_accepted.mean() >= 0.95
    assert found.timing_rejected.mean() == 0.0


@pytest.mark.statistical
def test_the_curve_error_is_noise_of_the_test_half(protocol: ModuleType) -> None:
    n = 30
    found = protocol.repeat(n, names=("react",))
    # The largest of many errors of a share: over one standard error of it, under three.
    assert 0.035 < np.median(found.curve_error) < 0.105
    assert np.median(found.true_chain_error) < np.median(found.curve_error)
    assert np.median(found.fit_error) < np.median(found.curve_error)


@pytest.mark.statistical
def test_runs_are_cut_as_often_as_the_law_says(protocol: ModuleType) -> None:
    chain, n = preset("babyagi"), 100_000
    rng = np.random.default_rng(5)
    runs = protocol.censor_as_published(simulate_runs(chain, n, rng=rng), 0.05, rng)
    ended = chain.success_within(8) + chain.failure_within(8)
    expected = 0.05 * np.mean(1.0 - ended[1:9])  # a run gets to step t if it did not end by t - 1
    assert abs(np.mean(runs.event == CENSORED) - expected) < limit(expected, n)
    assert set(np.unique(runs.lengths[runs.event == CENSORED])) == set(range(2, 10))


@pytest.mark.statistical
def test_ks_on_the_same_runs_has_no_power_and_aic_finds_strong_memory(power: ModuleType) -> None:
    n = 40
    none, strong = power.power(0.0, n), power.power(0.6, n)
    assert np.all(none.p_same_runs > 0.05)
    assert none.p_same_runs.mean() > 0.85
    assert np.mean(strong.p_same_runs <= 0.05) <= limit(0.05, n)
    assert np.all(none.aic_difference < 0)
    assert np.all((strong.aic_difference > 700) & (strong.aic_difference < 2500))
    assert np.all(strong.exact_order <= 0.05)
    assert np.mean(none.exact_order <= 0.05) <= 0.05 + limit(0.05, n)


@pytest.mark.statistical
def test_second_order_runs_without_memory_follow_the_chain(power: ModuleType) -> None:
    chain, n = preset("ss7"), 100_000
    runs = power.second_order(chain, 0.0, n, np.random.default_rng(3))
    succeeded = np.mean(runs.event == SUCCESS)
    assert abs(succeeded - chain.success_ever) < limit(chain.success_ever, n)
    early = np.mean((runs.event == SUCCESS) & (runs.lengths <= 2))
    assert abs(early - chain.success_within(2)[2]) < limit(early, n)


@pytest.mark.statistical
def test_ways_of_counting_cut_runs(power: ModuleType) -> None:
    n = 30
    truth = power.true_value()
    assert truth == pytest.approx(0.7843, abs=5e-5)
    found = power.censoring(n)
    whole, capped = found["0% at random"], found["cap 5, end at the cap seen"]
    for values in (whole.likelihood, capped.survived, found["cap 8, end at the cap seen"].survived):
        assert abs(values.mean() - truth) < 3 * values.std() / n**0.5
    # One pseudo-count a cell pulls toward 1 / (m + 2); a cut run is no failure.
    assert np.all(whole.published < whole.likelihood)
    assert capped.as_failure.mean() < 0.62
    unseen = found["cap 3, end at the cap unseen"]
    assert np.isnan(unseen.likelihood).all()
    assert np.isnan(unseen.survived).all()
