"""Differences of curves and of transitions: identities, oracles by hand, and found changes."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.process import preset
from sojourn.process.absorbing import AbsorbingChain
from sojourn.process.difference import (
    CurveDifference,
    RunEnds,
    curve_difference,
    transition_changes,
)
from sojourn.process.incidence import aalen_johansen
from sojourn.process.simulate import simulate_tasks
from sojourn.sequences import StateSequences


def ends(runs: StateSequences) -> RunEnds:
    return RunEnds(runs.lengths, runs.event, runs.unit.astype(np.int64))


def compared(a: StateSequences, b: StateSequences, *, paired: bool) -> CurveDifference:
    return curve_difference(ends(a), ends(b), paired=paired, n_resamples=299, rng=5)


def test_the_same_runs_do_not_differ_when_paired() -> None:
    runs = simulate_tasks(preset("react"), 40, 3, rng=1, odds_sd=1.0)
    found = compared(runs, runs, paired=True)
    np.testing.assert_array_equal(found.success, 0.0)
    np.testing.assert_array_equal(found.success_high, 0.0)
    assert found.mean_steps.value == 0.0


def test_the_difference_is_that_of_the_curves_and_of_the_mean_steps() -> None:
    a = simulate_tasks(preset("react"), 60, 2, rng=1)
    b = simulate_tasks(preset("autogpt"), 60, 2, rng=2)
    found = compared(a, b, paired=True)
    horizon = found.horizon
    assert horizon == min(a.lengths.max(), b.lengths.max())
    one, two = (aalen_johansen(x.lengths, x.event, horizon=horizon) for x in (a, b))
    np.testing.assert_allclose(found.success, two.success - one.success)
    np.testing.assert_allclose(found.failure, two.failure - one.failure)
    means = [np.minimum(x.lengths, horizon).mean() for x in (a, b)]
    assert found.mean_steps.value == pytest.approx(means[1] - means[0])
    at = found.at(3)
    assert at.interval is not None
    assert at.interval.low < (at.value or 0.0) < at.interval.high
    assert found.at(horizon + 1).value is None


def test_pairing_takes_out_what_tasks_have_in_common() -> None:
    # The same odds of success at a task for both: the paired error is far smaller.
    draws = np.random.default_rng(3)
    easy = np.repeat(draws.random(80) < 0.5, 3)
    sets = []
    for seed in (1, 2):
        luck = np.random.default_rng(seed).random(240) < 0.05
        event = np.where(easy ^ luck, 1, 2).astype(np.int8)
        sets.append(RunEnds(np.full(240, 4), event, np.repeat(np.arange(80), 3)))
    widths = {}
    for paired in (True, False):
        found = curve_difference(*sets, paired=paired, n_resamples=499, rng=1)
        widths[paired] = float(found.success_high[4] - found.success_low[4])
    assert widths[True] < 0.5 * widths[False]


def test_unpaired_error_is_the_root_of_the_sum_of_variances() -> None:
    rng = np.random.default_rng(0)
    sets = [
        RunEnds(
            np.ones(n, dtype=np.int64),
            np.where(rng.random(n) < p, 1, 2).astype(np.int8),
            np.arange(n),
        )
        for n, p in ((300, 0.4), (200, 0.6))
    ]
    found = curve_difference(*sets, paired=False, n_resamples=4000, rng=1)
    rates = [np.mean(x.event == 1) for x in sets]
    error = np.sqrt(sum(p * (1 - p) / x.event.size for p, x in zip(rates, sets, strict=True)))
    width = float(found.success_high[1] - found.success_low[1])
    # 4,000 replicates know a standard error to 1.1 %.
    assert width / 2 == pytest.approx(1.9720 * error, rel=0.045)


def test_a_changed_row_is_found_and_the_others_are_not() -> None:
    chain = preset("react")
    moved = chain.transient.copy()
    row = int(np.argmax(chain.expected_visits))
    shift = 0.6 * chain.to_failure[row]
    to_success, to_failure = chain.to_success.copy(), chain.to_failure.copy()
    to_success[row] += shift
    to_failure[row] -= shift
    better = AbsorbingChain(
        transient=moved,
        to_success=to_success,
        to_failure=to_failure,
        initial=chain.initial,
        state_names=chain.state_names,
    )
    a = simulate_tasks(chain, 400, 4, rng=1)
    b = simulate_tasks(better, 400, 4, rng=2)
    found = transition_changes(a, b, paired=True, rng=3)
    sure = {(c.origin, c.target) for c in found if c.p_value < 0.01}
    name = chain.state_names[row]
    assert sure
    assert sure <= {(name, "failure"), (name, "success")}
    assert [c.p_value for c in found] == sorted(c.p_value for c in found)


def test_nothing_is_found_where_nothing_changed() -> None:
    chain = preset("react")
    hits = 0
    for seed in range(20):
        a, b = (simulate_tasks(chain, 60, 2, rng=100 * seed + i) for i in (1, 2))
        found = transition_changes(a, b, paired=True, n_resamples=199, rng=seed)
        hits += any(c.p_value < 0.05 for c in found)
    # At level .05 over the family 4 or fewer of 20 with probability .997.
    assert hits <= 4


def test_other_states_are_refused() -> None:
    a = simulate_tasks(preset("react"), 5, 1, rng=1)
    b = simulate_tasks(preset("ss7"), 5, 1, rng=1)
    with pytest.raises(ValueError, match="states"):
        transition_changes(a, b, paired=False)
