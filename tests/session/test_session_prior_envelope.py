"""Envelopes over priors: by quadrature for one state, by refits for two."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.session import PriorBox, envelope, simulate_sessions
from sojourn.session.hmm import HMMSpec
from sojourn.session.prior_envelope import _family, _raw, prior_envelope
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.task_sequences import TaskSequences

SETTINGS = SamplerSettings(warmup=500, draws=4000, max_draws=8000)
NEAR = PriorBox(a=(1.0, 2.0), b=(1.0, 2.0), c=(1.0, 1.5), d=(1.0, 1.5))


def few() -> TaskSequences:
    return TaskSequences.from_sessions(
        [([0] * 12 + [1] * 8, [1, 1, 1, 0] * 3 + [1, 0] * 4)], ["a", "b"]
    )


def sticky() -> TaskSequences:
    return simulate_sessions(
        [60, 60], transition=[[0.9, 0.1], [0.1, 0.9]], success_prob=[[0.95, 0.3]], rng=1
    ).sequences


@pytest.mark.parametrize("n", [1, 5])
def test_one_state_agrees_with_quadrature(n):
    posterior = sample(few(), HMMSpec(n_states=1), settings=SETTINGS, rng=0)
    found = prior_envelope(posterior, box=NEAR, n=n)
    exact = envelope(few(), box=NEAR, n=n)
    assert found.reliable
    # The ends are means of 16 000 draws and more; their Monte Carlo error is about .002.
    assert found.low.value == pytest.approx(exact.low, abs=0.008)
    assert found.high.value == pytest.approx(exact.high, abs=0.008)
    assert found.low.value < found.base < found.high.value


def test_two_states_reweighted_agree_with_a_fit_under_the_other_prior():
    data = sticky()
    posterior = sample(data, HMMSpec(n_states=2), settings=SETTINGS, rng=0)
    found = prior_envelope(posterior, box=NEAR, dwell=(6.0, 15.0), n=5)
    assert found.reliable
    for end in (found.low, found.high):
        again = sample(data, end.spec, settings=SETTINGS, rng=1)
        draws = again.run_draws(5)[..., -1]
        error = 4.0 * np.hypot(again.diagnostics["R(5), continuing"].mcse, 0.002)
        assert end.value == pytest.approx(draws.mean(), abs=error)


def test_gradient_is_that_of_the_reweighted_mean():
    posterior = sample(sticky(), HMMSpec(n_states=2), settings=SETTINGS, rng=0)
    family = _family(posterior, posterior.run_draws(3)[..., -1].ravel(), with_rows=True)
    h = family.origin + np.array([0.2, 0.1, 0.1, 0.05, 0.01])
    gradient = _raw(family, h)[1]
    for i in range(5):
        step = np.zeros(5)
        step[i] = 1e-5
        slope = (_raw(family, h + step)[0] - _raw(family, h - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_corners_out_of_reach_are_told_and_sampled_anew():
    posterior = sample(few(), HMMSpec(n_states=1), settings=SETTINGS, rng=0)
    far = prior_envelope(posterior)
    assert far.n_corners == 16
    assert far.n_out_of_reach > 0
    mended = prior_envelope(posterior, sequences=few(), settings=SETTINGS, rng=2)
    assert mended.reliable
    exact = envelope(few())
    # The corner is found by rough weights, its value by new draws.
    assert exact.low - 0.01 < mended.low.value <= mended.high.value < exact.high + 0.01


def test_a_dwell_that_does_not_apply_is_refused():
    posterior = sample(few(), HMMSpec(n_states=1), settings=SETTINGS, rng=0)
    with pytest.raises(ValueError, match="more than one state"):
        prior_envelope(posterior, dwell=(5.0, 10.0))
