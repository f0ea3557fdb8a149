"""The quick Monte Carlo error of a mean against ArviZ's and against known autocorrelation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from sojourn.stats.diagnostics import diagnose, mcse_mean


def chains(rho: float, shape: tuple[int, int], seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(shape)
    return lfilter([np.sqrt(1.0 - rho**2)], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("shape", [(1, 500), (4, 1000), (4, 1001), (2, 4001)])
def test_equals_that_of_arviz(rho: float, shape: tuple[int, int]) -> None:
    draws = chains(rho, shape, seed=3)
    # Where sums of pairs stay positive to the end of a chain the two stop a few lags apart.
    rel = 1e-6 if rho < 0.99 else 5e-3
    assert mcse_mean(draws) == pytest.approx(diagnose(draws).mcse, rel=rel)


def test_chains_that_disagree_have_a_large_error() -> None:
    draws = chains(0.3, (4, 1000), seed=1) + np.array([0.0, 0.0, 5.0, 5.0])[:, None]
    assert mcse_mean(draws) == pytest.approx(diagnose(draws).mcse, rel=5e-3)
    assert mcse_mean(draws) > 1.0


def test_error_of_an_autoregression_is_the_known_one() -> None:
    # var(mean) = (1 + rho) / (1 - rho) / n for unit variance
    draws = chains(0.8, (4, 20_000), seed=2)
    assert mcse_mean(draws) == pytest.approx(np.sqrt(9.0 / 80_000), rel=0.1)
    assert mcse_mean(np.ones((4, 10))) == 0.0
