"""Each conditional of the sampler, alone, must leave the joint law of everything as it is.

Parameters, states, labels and outcomes are drawn from the joint law, one block is drawn anew given
the rest, and functions that tie the block to the rest are compared before and after. Pairs are
independent of one another, so that the mean difference over its standard error is a z-score. A
sweep can be right on the whole by errors that cancel; a conditional alone cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from sojourn.session import _kernels as kernels
from sojourn.session.hmm import HMMSpec
from sojourn.session.simulate import sample_prior

# Every symbol of two subdomains: (label, outcome), -1 missing.
LABEL = np.array([0, 0, 1, 1, -1, -1, -1])
OUTCOME = np.array([0, 1, 0, 1, -1, 0, 1])
SHARES = np.array([0.3, 0.7])
LENGTHS = (5, 1, 7)
OFFSETS = np.concatenate(([0], np.cumsum(LENGTHS)))


class Joint(NamedTuple):
    """One draw from the joint law; arrays are changed in place by the block that is redrawn."""

    theta: np.ndarray
    A: np.ndarray
    delta: np.ndarray
    hyper: np.ndarray
    z: np.ndarray
    label: np.ndarray  # the true one, where it is missing too
    code: np.ndarray


def joint(spec: HMMSpec, rng: np.random.Generator) -> Joint:
    prior = sample_prior(spec, 2, 1, rng=rng)
    theta, A, delta = prior.success_prob[0], prior.transition[0], prior.initial[0]
    mu, nu = prior.mean[0], prior.concentration[0]
    K, T = delta.size, sum(LENGTHS)
    z, label, code = np.empty(T, int), np.empty(T, int), np.empty(T, np.uint16)
    for t in range(T):
        law = delta if t in OFFSETS[:-1] else A[z[t - 1]]
        z[t] = rng.choice(K, p=law)
        label[t] = int(rng.random() < SHARES[1])
        y = int(rng.random() < theta[label[t], z[t]])
        u = rng.random()
        code[t] = 4 if u < 0.15 else 5 + y if u < 0.4 else 2 * label[t] + y
    hyper = np.array([np.log(mu) - np.log1p(-mu), np.log(nu)])
    return Joint(theta.copy(), A.copy(), delta.copy(), hyper, z, label, code)


def moves(x: Joint) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of transitions and of first states."""
    K = x.delta.size
    pairs, starts = np.zeros((K, K), int), np.zeros(K, int)
    for r in range(len(LENGTHS)):
        path = x.z[OFFSETS[r] : OFFSETS[r + 1]]
        np.add.at(pairs, (path[:-1], path[1:]), 1)
        starts[path[0]] += 1
    return pairs, starts


def outcomes(x: Joint) -> tuple[np.ndarray, np.ndarray]:
    """Return successes and failures by true label and state, known outcomes only."""
    won, lost = np.zeros_like(x.theta), np.zeros_like(x.theta)
    y = OUTCOME[x.code]
    np.add.at(won, (x.label[y == 1], x.z[y == 1]), 1.0)
    np.add.at(lost, (x.label[y == 0], x.z[y == 0]), 1.0)
    return won, lost


def draw_states(x: Joint, spec: HMMSpec, rng: np.random.Generator, paired: bool) -> None:
    S, K, T = LABEL.size, x.delta.size, x.z.size
    E, M = np.empty((S, K)), np.empty((S, K, K))
    P = np.empty((S * S if paired else 0, K, K))
    kernels.emission_table(x.theta, SHARES, LABEL, OUTCOME, E)
    kernels.step_tables(x.A, E, M, P)
    alpha, maps, z = np.empty((K, T)), np.empty(T, np.uint8), np.zeros(T, np.uint16)
    kernels.forward(x.code, OFFSETS, x.delta, E, M, P, alpha)
    kernels.draw_states(
        x.code, OFFSETS, alpha, x.A, np.uint64(kernels.new_key(rng)), maps, z,
        np.empty((4, S * 16), np.int64), np.empty((S, K), np.int64), np.empty((K, K), np.int64),
        np.empty(K, np.int64),
    )  # fmt: skip
    x.z[:] = z


def draw_hyper(x: Joint, spec: HMMSpec, rng: np.random.Generator) -> None:
    kernels.draw_hyper(rng, x.hyper, *outcomes(x), spec.hyper_prior)


def draw_success(x: Joint, spec: HMMSpec, rng: np.random.Generator) -> None:
    kernels.draw_success(rng, x.hyper, *outcomes(x), x.theta)


def draw_rows(x: Joint, spec: HMMSpec, rng: np.random.Generator) -> None:
    kernels.draw_rows(rng, spec.transition_weights, moves(x)[0], x.A)


def draw_initial(x: Joint, spec: HMMSpec, rng: np.random.Generator) -> None:
    kernels.draw_simplex(rng, spec.initial_weights, moves(x)[1], x.delta)


def permute(x: Joint, spec: HMMSpec, rng: np.random.Generator) -> None:
    # The states' names change, the path keeps them: the prior of the parameters alone must stay.
    kernels.permute_states(rng, x.theta, x.A, x.delta)


def of_states(x: Joint) -> list[float]:
    # A missing label is summed out where states are drawn: only labels that are seen count here.
    pairs, starts = moves(x)
    seen = LABEL[x.code] >= 0
    won, lost = outcomes(x._replace(label=x.label[seen], code=x.code[seen], z=x.z[seen]))
    return [
        np.trace(pairs),
        (pairs * x.A).sum(),
        (pairs * np.log(x.A + 1e-9)).sum(),
        starts @ x.delta,
        (won * x.theta).sum(),
        (lost * (1 - x.theta)).sum(),
        float(len(set(x.z.tolist()))),
        float(x.z[4] == x.z[5]),  # across sessions: independent given delta
        x.theta[0, x.z[-1]],
    ]


def of_hyper(x: Joint) -> list[float]:
    # With the success probabilities integrated out: functions of mean, concentration, counts only.
    won, lost = outcomes(x)
    mu, nu = 1 / (1 + np.exp(-x.hyper[0])), np.exp(x.hyper[1])
    rate = won.sum() / max(won.sum() + lost.sum(), 1.0)
    spread = np.abs(won - lost).sum()
    return [mu, nu, mu**2, nu**2, mu * rate, nu * rate, mu * spread, np.log(nu) * spread, mu * nu]


def of_success(x: Joint) -> list[float]:
    won, lost = outcomes(x)
    mu = 1 / (1 + np.exp(-x.hyper[0]))
    return [
        x.theta.mean(),
        (x.theta**2).mean(),
        (won * x.theta).sum(),
        (lost * x.theta).sum(),
        mu * x.theta.sum(),
        x.hyper[1] * x.theta.var(),
        x.theta[0].sum() * won[0].sum(),
    ]


def of_rows(x: Joint) -> list[float]:
    pairs, _ = moves(x)
    return [
        np.trace(x.A),
        (x.A**2).sum(),
        (pairs * x.A).sum(),
        np.trace(pairs) * np.trace(x.A),
        np.log(x.A + 1e-9).sum(),
    ]


def of_initial(x: Joint) -> list[float]:
    _, starts = moves(x)
    return [starts @ x.delta, (x.delta**2).sum(), x.delta[0], x.delta[0] * starts[0]]


def of_parameters(x: Joint) -> list[float]:
    return [
        x.theta[0, 0],
        x.theta[1, 0] * x.delta[0],
        x.A[0, 0],
        x.A[0, -1],
        x.A[0, 0] * x.delta[0],
    ]


BLOCKS: dict[str, tuple[Callable[..., None], Callable[[Joint], list[float]]]] = {
    "states, one step at a time": (lambda *a: draw_states(*a, False), of_states),
    "states, two steps at a time": (lambda *a: draw_states(*a, True), of_states),
    "mean and concentration": (draw_hyper, of_hyper),
    "success probabilities": (draw_success, of_success),
    "transition rows": (draw_rows, of_rows),
    "initial distribution": (draw_initial, of_initial),
    "names of the states": (permute, of_parameters),
}


@pytest.mark.statistical
@pytest.mark.parametrize("K", [2, 3, 4, 5])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_conditional_alone_leaves_the_joint_law_as_it_is(block, K):
    rng = np.random.default_rng((77, K, list(BLOCKS).index(block)))
    spec = HMMSpec(
        n_states=K, initial="estimated", mean_prior=(2, 1), concentration_prior=(2, 1), row_weight=5
    )
    draw, functions = BLOCKS[block]
    differences = []
    for _ in range(6000):
        x = joint(spec, rng)
        before = functions(x)
        draw(x, spec, rng)
        differences.append(np.subtract(functions(x), before))
    d = np.array(differences)
    error = d.std(axis=0, ddof=1) / np.sqrt(d.shape[0])
    moved = error > 0.0
    assert moved.any()
    z = d.mean(axis=0)[moved] / error[moved]
    assert np.abs(z).max() < 4.2, np.round(z, 1)


@pytest.mark.statistical
@pytest.mark.parametrize("K", [1, 3])
def test_missing_labels_alone_leave_the_joint_law_as_it_is(K):
    """Labels are drawn as counts a symbol and state, beside the counts of those that are known."""
    rng = np.random.default_rng((78, K))
    spec = HMMSpec(n_states=K, mean_prior=(2, 1), concentration_prior=(2, 1))
    won, lost = np.empty((2, K)), np.empty((2, K))
    differences = []
    for _ in range(6000):
        x = joint(spec, rng)
        counts = np.zeros((LABEL.size, K), np.int64)
        np.add.at(counts, (x.code, x.z), 1)
        kernels.draw_labels(rng, x.theta, SHARES, LABEL, OUTCOME, counts, won, lost)
        old_won, old_lost = outcomes(x)
        np.testing.assert_array_equal(won.sum(axis=0), old_won.sum(axis=0))
        np.testing.assert_array_equal(lost.sum(axis=0), old_lost.sum(axis=0))
        differences.append(
            [
                f(won, lost) - f(old_won, old_lost)
                for f in (
                    lambda w, _: (w * x.theta).sum(),  # noqa: B023 - called at once
                    lambda _, v: (v * x.theta).sum(),  # noqa: B023
                    lambda w, v: w[0].sum() * v[0].sum(),
                    lambda w, _: (w[0] ** 2).sum(),
                )
            ]
        )
    d = np.array(differences)
    z = d.mean(axis=0) / (d.std(axis=0, ddof=1) / np.sqrt(d.shape[0]))
    assert np.abs(z).max() < 4.2, np.round(z, 1)
