from __future__ import annotations

import numpy as np
import pytest

from oracles.attempts import TAU_BENCH, dispersion_law
from sojourn import stats
from sojourn.stats import significance


def draws_match(draws: np.ndarray, law: dict[float, float]) -> bool:
    """Whether every value occurs as often as it should, within five standard errors."""
    seen = np.round(draws, 9)
    assert set(np.unique(seen)) <= set(law)
    return all(
        abs((seen == s).mean() - p) < 5 * np.sqrt(p * (1 - p) / seen.size) for s, p in law.items()
    )


@pytest.mark.parametrize("many", [False, True], ids=["hypergeometric", "matched"])
@pytest.mark.parametrize(
    ("attempts", "total"), [((2, 2, 2, 2), 3), ((1, 2, 3, 4), 4), ((5, 1), 2), ((3, 3, 3), 5)]
)
def test_both_samplers_draw_the_enumerated_law(
    attempts: tuple[int, ...],
    total: int,
    many: bool,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    monkeypatch.setattr(significance, "_BLOCK", 5_000)
    sampler = significance._matched_squares if many else significance._dealt_squares
    p = total / sum(attempts)
    draws = sampler(np.array(attempts), total, 20_000, rng) / (p * (1 - p))
    assert draws.shape == (20_000,)
    assert draws_match(draws, dispersion_law(list(attempts), total))


def test_tarone_by_hand() -> None:
    # c = (0, 4), n = (4, 4): p = 1/2, S = (4 + 4) / (1/4) = 32, Z = (32 - 8) / sqrt(2 * 24).
    result = stats.tarone(np.array([0, 4]), np.array([4, 4]))
    assert result.statistic == pytest.approx(32)
    assert result.z == pytest.approx(24 / np.sqrt(48))
    assert result.p_value == pytest.approx(0.000266, abs=1e-6)


def test_tarone_is_near_standard_normal_for_many_equal_groups(rng: np.random.Generator) -> None:
    n = np.full(400, 4)
    z = np.array([stats.tarone(rng.binomial(n, 0.4), n).z for _ in range(2000)])
    assert abs(z.mean()) < 4 / np.sqrt(2000)
    assert abs(z.std() - 1) < 4 / np.sqrt(4000)


def test_monte_carlo_p_counts_ties_against_the_observed() -> None:
    draws = np.array([1.0, 2.0, 3.0, 4.0])
    assert stats.monte_carlo_p(3.0, draws) == 3 / 5
    assert stats.monte_carlo_p(3.0 + 1e-12, draws) == 3 / 5
    assert stats.monte_carlo_p(9.0, draws) == 1 / 5


def test_null_of_large_corpora_agrees_between_samplers(rng: np.random.Generator) -> None:
    attempts, total = np.full(sum(TAU_BENCH), 4), 84
    dealt = significance._dealt_squares(attempts, total, 4000, rng)
    matched = significance._matched_squares(attempts, total, 4000, rng)
    for power in (1, 2):
        a, b = dealt**power, matched**power
        assert abs(a.mean() - b.mean()) < 4 * np.sqrt((a.var() + b.var()) / 4000)


def test_the_sampler_with_fewer_draws_is_taken(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    taken = []
    for name in ("_dealt_squares", "_matched_squares"):
        plain = getattr(significance, name)
        monkeypatch.setattr(
            significance, name, lambda *a, f=plain, n=name: (taken.append(n), f(*a))[1]
        )
    stats.permuted_dispersion(np.full(50, 4), 84, 5, rng)
    stats.permuted_dispersion(np.full(100_000, 2), 90_000, 5, rng)
    stats.permuted_dispersion(np.arange(1, 3001), 2_000_000, 5, rng)
    assert taken == ["_dealt_squares", "_matched_squares", "_dealt_squares"]
