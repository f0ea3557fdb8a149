"""Functionals against brute force, against each other and against closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oracles import hmm as oracle
from sojourn.session import reliability as rel
from sojourn.stats.diagnostics import diagnose, pareto_k


def model(rng, K=3, J=2):
    theta = rng.uniform(0.3, 0.98, (J, K))
    return rng.dirichlet(np.ones(K), K), theta, rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(J))


def test_runs_equal_the_sum_over_paths_and_labels(rng):
    A, theta, rho, omega = model(rng)
    run = rel.success_run(A, theta, rho, omega, 4)
    for n in range(1, 5):
        assert run[n - 1] == pytest.approx(oracle.success_run(n, rho, A, theta, omega), rel=1e-12)


def test_leading_shapes_are_kept_and_draws_do_not_mix(rng):
    parts = [model(rng) for _ in range(6)]
    omega = parts[0][3]
    A, theta, rho = (np.stack([p[i] for p in parts]) for i in range(3))
    whole = rel.success_run(
        A.reshape(2, 3, 3, 3), theta.reshape(2, 3, 2, 3), rho.reshape(2, 3, 3), omega, 5
    )
    assert whole.shape == (2, 3, 5)
    one = rel.success_run(A[4], theta[4], rho[4], omega, 5)
    np.testing.assert_allclose(whole[1, 1], one, rtol=1e-14)


def test_one_state_and_equal_rows_are_independent_tasks(rng):
    run = rel.success_run([[1.0]], [[0.8], [0.6]], [1.0], [0.5, 0.5], 6)
    np.testing.assert_allclose(run, 0.7 ** np.arange(1, 7), rtol=1e-13)
    theta, law = np.array([[0.9, 0.5]]), np.array([0.3, 0.7])
    run = rel.success_run(np.tile(law, (2, 1)), theta, law, [1.0], 6)
    np.testing.assert_allclose(run, (theta[0] @ law) ** np.arange(1, 7), rtol=1e-13)


def test_a_state_for_ever_gives_a_mixture_of_powers():
    run = rel.success_run(np.eye(2), [[0.9, 0.5]], [0.3, 0.7], [1.0], 6)
    n = np.arange(1, 7)
    np.testing.assert_allclose(run, 0.3 * 0.9**n + 0.7 * 0.5**n, rtol=1e-13)


def test_stationary_law_is_left_unchanged(rng):
    A = rng.dirichlet(np.full(4, 0.3), (5, 4))
    law = rel.stationary(A)
    np.testing.assert_allclose(np.einsum("ds,dsk->dk", law, A), law, atol=1e-12)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, rtol=1e-13)


def test_expected_successes_decay_hazard_and_run_length_follow_from_the_run(rng):
    A, theta, rho, omega = model(rng)
    run = rel.success_run(A, theta, rho, omega, 4000)
    assert rel.expected_successes(A, theta, rho, omega) == pytest.approx(run.sum(), rel=1e-9)
    decay = rel.decay_rate(A, theta, omega)
    assert run[40] / run[39] == pytest.approx(decay, rel=1e-6)
    h = rel.hazard(run[:50])
    assert h[0] == pytest.approx(1 - run[0])
    np.testing.assert_allclose(np.cumprod(1 - h), run[:50], rtol=1e-12)
    n = rel.run_length(run, 0.05)
    assert run[int(n) - 1] < 0.05 <= run[int(n) - 2]
    assert rel.run_length([0.9, 0.8], 0.1) == np.inf
    assert rel.second_eigenvalue(A) < 1.0
    assert rel.second_eigenvalue([[1.0]]) == 0.0


def test_at_most_failures_equals_brute_force(rng):
    A, theta, rho, _ = model(rng, K=2, J=1)
    n, bar = 5, theta[0]
    expected = np.zeros(n + 1)
    for path in itertools.product(range(2), repeat=n):
        p = rho[path[0]] * np.prod([A[s, k] for s, k in itertools.pairwise(path)])
        for fails in itertools.product((0, 1), repeat=n):
            q = np.prod([1 - bar[s] if f else bar[s] for s, f in zip(path, fails, strict=True)])
            expected[sum(fails)] += p * q
    for r in range(n + 1):
        got = rel.at_most_failures(A, theta, rho, [1.0], n, failures=r)[n - 1]
        assert got == pytest.approx(expected[: r + 1].sum(), rel=1e-12)
    zero = rel.at_most_failures(A, theta, rho, [1.0], n, failures=0)
    np.testing.assert_allclose(zero, rel.success_run(A, theta, rho, [1.0], n), rtol=1e-12)
    some = rel.pass_at(A, theta, rho, [1.0], n)[n - 1]
    assert some == pytest.approx(1 - expected[n], rel=1e-12)


def test_belief_after_successes_continues_the_run(rng):
    A, theta, rho, omega = model(rng)
    run = rel.success_run(A, theta, rho, omega, 8)
    later = rel.state_after_successes(A, theta, rho, omega, 3)
    more = rel.success_run(A, theta, later, omega, 5)
    np.testing.assert_allclose(run[3:] / run[2], more, rtol=1e-12)


def test_system_runs_equal_brute_force_over_domain_sequences(rng):
    W = np.array([0.2, 0.5, 0.3])
    runs = [np.cumprod(rng.uniform(0.5, 1.0, 4)) for _ in W]
    once = rel.system_success_run(runs, W, convention="domain_once")
    np.testing.assert_allclose(once, sum(w * r for w, r in zip(W, runs, strict=True)))
    per_task = rel.system_success_run(runs, W, convention="domain_per_task")
    for n in range(1, 5):
        total = 0.0
        for domains in itertools.product(range(3), repeat=n):
            p = np.prod(W[list(domains)])
            for i in range(3):
                k = domains.count(i)
                p *= runs[i][k - 1] if k else 1.0
            total += p
        assert per_task[n - 1] == pytest.approx(total, rel=1e-12)
    powers = [np.power(p, np.arange(1, 5)) for p in (0.9, 0.6, 0.7)]
    same = rel.system_success_run(powers, W, convention="domain_per_task")
    expected = rel.independent_system_run([0.9, 0.6, 0.7], W, 4)
    np.testing.assert_allclose(same, expected, rtol=1e-12)


def test_system_input_is_checked():
    with pytest.raises(ValueError, match="convention must be one of"):
        rel.system_success_run([[0.5]], [1.0], convention="both")
    with pytest.raises(ValueError, match="as many weights"):
        rel.system_success_run([[0.5]], [0.5, 0.5], convention="domain_once")
    with pytest.raises(ValueError, match="one shape"):
        rel.system_success_run([[0.5], [0.5, 0.4]], [0.5, 0.5], convention="domain_once")


def test_profile_table_is_linear_in_the_weights():
    """BoolQ .9042 and RACE-H .8890 reproduce the means published for four profiles."""
    for weight, published in ((0.5, 0.8966), (0.483, 0.8963), (0.9, 0.9027), (0.1, 0.8905)):
        run = rel.success_run([[1.0]], [[0.9042], [0.8890]], [1.0], [weight, 1 - weight], 1)
        assert run[0] == pytest.approx(published, abs=1.0e-4)


def test_diagnostics_tell_good_chains_from_bad(rng):
    good = diagnose(rng.normal(size=(4, 500)))
    assert good.r_hat < 1.01
    assert good.ess_bulk > 1200
    assert good.mcse == pytest.approx(1 / np.sqrt(2000), rel=0.2)
    apart = diagnose(rng.normal(size=(4, 500)) + np.arange(4)[:, None])
    assert apart.r_hat > 1.2
    drifting = diagnose(np.linspace(0, 1, 500)[None, :] + 0.01 * rng.normal(size=(1, 500)))
    assert drifting.r_hat > 1.2
    assert diagnose(np.ones((2, 10))).r_hat == 1.0
    with pytest.raises(ValueError, match="finite"):
        diagnose([[0.0, 1.0, np.nan, 2.0]])
    assert pareto_k(np.zeros(1000)) == -np.inf
    assert pareto_k(rng.normal(size=4000) * 5.0) > 0.7 > pareto_k(rng.normal(size=4000) * 0.1)


def test_run_length_draws_are_the_first_n_below_the_level(rng):
    A = rng.dirichlet(np.ones(3), (5, 3))
    theta = rng.uniform(0.6, 0.99, (5, 2, 3))
    start, omega = rng.dirichlet(np.ones(3), 5), np.array([0.4, 0.6])
    run = rel.success_run(A, theta, start, omega, 400)
    for q in (0.9, 0.5):
        found = rel.run_length_draws(A, theta, start, omega, q)
        assert found.tolist() == rel.run_length(run, q).tolist()
    safe = np.ones_like(theta) - 1e-9
    assert np.isinf(rel.run_length_draws(A, safe, start, omega, 0.5)).all()


def test_run_length_of_one_state_is_solved():
    ones = np.ones((4, 1, 1))
    theta = np.array([0.5, 0.0, 1.0, 0.9])[:, None, None]
    found = rel.run_length_draws(ones, theta, np.ones((4, 1)), [1.0], 0.3)
    # .5^2 = .25 < .3; at once; never; .9^12 = .28
    assert found.tolist() == [2.0, 1.0, np.inf, 12.0]


def test_hazard_at_is_that_of_the_run_and_does_not_underflow(rng):
    A = rng.dirichlet(np.ones(3), (5, 3))
    theta, start = rng.random((5, 2, 3)), rng.dirichlet(np.ones(3), 5)
    omega = np.array([0.4, 0.6])
    from_run = rel.hazard(rel.success_run(A, theta, start, omega, 6))
    for n in (1, 2, 6):
        assert rel.hazard_at(A, theta, start, omega, n) == pytest.approx(from_run[:, n - 1])
    tiny = 1e-9 * theta
    limit = 1.0 - rel.decay_rate(A, tiny, omega)
    assert rel.hazard_at(A, tiny, start, omega, 80) == pytest.approx(limit, rel=1e-12)


def test_expected_successes_have_no_end_where_nothing_fails():
    found = rel.expected_successes(np.ones((2, 1, 1)), [[[1.0]], [[0.5]]], np.ones((2, 1)), [1.0])
    assert found.tolist() == [np.inf, 1.0]
