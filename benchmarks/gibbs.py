"""Time the session sampler beside naive filters, interleaved in one run; assert nothing.

    python benchmarks/gibbs.py [--tasks 10000] [--states 3] [--repeats 7]

Reported in CPU nanoseconds per task and iteration on one core: our whole Gibbs sweep, and forward
filtering with backward sampling alone as a plain log-space and a plain scaled loop in numba, as a
paper's script in NumPy, and by dynamax and deeptime where they are installed. Then effective draws
of R(1) and R(20) per CPU second.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import _record
import numba
import numpy as np

from sojourn.session import _kernels
from sojourn.session.hmm import HMMSpec, encode
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.simulate import simulate_sessions
from sojourn.stats.diagnostics import diagnose
from sojourn.task_sequences import TaskSequences

SUCCESS = np.array([[0.97, 0.80, 0.40, 0.6], [0.93, 0.65, 0.20, 0.5]])


@numba.njit(nogil=True)
def log_space_ffbs(rng, labels, outcomes, theta, A, delta, z):  # type: ignore[no-untyped-def]
    T, K = labels.size, delta.size
    log_A, alpha, term = np.log(A), np.empty((T, K)), np.empty(K)
    for t in range(T):
        for s in range(K):
            p = theta[labels[t], s]
            e = math.log(p) if outcomes[t] == 1 else math.log(1.0 - p)
            if t == 0:
                alpha[t, s] = math.log(delta[s]) + e
                continue
            top = -np.inf
            for i in range(K):
                term[i] = alpha[t - 1, i] + log_A[i, s]
                top = max(top, term[i])
            total = 0.0
            for i in range(K):
                total += math.exp(term[i] - top)
            alpha[t, s] = top + math.log(total) + e
    for t in range(T - 1, -1, -1):
        top = -np.inf
        for s in range(K):
            term[s] = alpha[t, s] + (log_A[s, z[t + 1]] if t < T - 1 else 0.0)
            top = max(top, term[s])
        total = 0.0
        for s in range(K):
            term[s] = math.exp(term[s] - top)
            total += term[s]
        u = rng.random() * total
        z[t] = K - 1
        for s in range(K - 1):
            u -= term[s]
            if u < 0.0:
                z[t] = s
                break


@numba.njit(nogil=True)
def scaled_ffbs(rng, labels, outcomes, theta, A, delta, z):  # type: ignore[no-untyped-def]
    T, K = labels.size, delta.size
    alpha, term = np.empty((T, K)), np.empty(K)
    for t in range(T):
        total = 0.0
        for s in range(K):
            p = theta[labels[t], s]
            x = delta[s]
            if t > 0:
                x = 0.0
                for i in range(K):
                    x += alpha[t - 1, i] * A[i, s]
            alpha[t, s] = x * (p if outcomes[t] == 1 else 1.0 - p)
            total += alpha[t, s]
        for s in range(K):
            alpha[t, s] /= total
    for t in range(T - 1, -1, -1):
        total = 0.0
        for s in range(K):
            term[s] = alpha[t, s] * (A[s, z[t + 1]] if t < T - 1 else 1.0)
            total += term[s]
        u = rng.random() * total
        z[t] = K - 1
        for s in range(K - 1):
            u -= term[s]
            if u < 0.0:
                z[t] = s
                break


def numpy_ffbs(rng, labels, outcomes, theta, A, delta, z):  # type: ignore[no-untyped-def]
    T, K = labels.size, delta.size
    E = np.where(outcomes[:, None] == 1, theta[labels], 1.0 - theta[labels])
    alpha = np.empty((T, K))
    x = delta
    for t in range(T):
        x = x * E[t]
        alpha[t] = x / x.sum()
        x = alpha[t] @ A
    z[T - 1] = rng.choice(K, p=alpha[T - 1])
    for t in range(T - 2, -1, -1):
        w = alpha[t] * A[:, z[t + 1]]
        z[t] = rng.choice(K, p=w / w.sum())


def peers(
    K: int, data: TaskSequences, A: np.ndarray, delta: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """Return one iteration of each optional library, where it is installed."""
    found: dict[str, Callable[[], Any]] = {}
    labels, outcomes = data.subdomain, data.success
    try:
        import jax
        from dynamax.hidden_markov_model import hmm_posterior_sample
    except ImportError:
        pass
    else:
        theta = SUCCESS[:, :K]
        E = np.where(outcomes[:, None] == 1, theta[labels], 1.0 - theta[labels])
        log_E = jax.numpy.log(E)
        draw = jax.jit(hmm_posterior_sample)
        key = jax.random.PRNGKey(0)
        found["dynamax FFBS"] = lambda: draw(key, delta, A, log_E)[1].block_until_ready()
    try:
        from deeptime.markov.hmm import BayesianHMM, init
    except ImportError:
        pass
    else:
        paths = [outcomes.astype(np.int32)]
        start = init.discrete.random_guess(2, K)
        found["deeptime BayesianHMM"] = lambda: BayesianHMM(start, n_samples=1).fit(paths)
    return found


def cpu(work: Callable[[], Any], n: int) -> float:
    start = time.process_time()
    for _ in range(n):
        work()
    return (time.process_time() - start) / n


def sweep(K: int, data: TaskSequences, n: int) -> Callable[[], Any]:
    """Return a call that makes n whole sweeps."""
    symbols, J = encode(data), data.n_subdomains
    spec = HMMSpec(n_states=K)
    lam = spec.transition_weights
    theta, A = SUCCESS[:, :K].copy(), lam / lam.sum(axis=1, keepdims=True)
    out = (
        np.empty((n, J, K)), np.empty((n, K, K)), np.empty((n, K)), np.empty((n, 2)),
        np.empty((n, K)), np.empty(n),
    )  # fmt: skip
    arguments = (
        np.random.default_rng(1), symbols.code, data.offsets, symbols.label, symbols.outcome,
        data.shares, lam, np.empty(0), spec.hyper_prior, theta, A, np.full(K, 1.0 / K),
        np.zeros(2), 1, *out,
    )  # fmt: skip
    return lambda: _kernels.run_chain(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--states", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    K, T = options.states, options.tasks
    stay = 0.95
    A = np.full((K, K), (1 - stay) / max(K - 1, 1))
    np.fill_diagonal(A, stay if K > 1 else 1.0)
    data = simulate_sessions([T], transition=A, success_prob=SUCCESS[:, :K], rng=3).sequences
    labels, outcomes, delta = data.subdomain, data.success, np.full(K, 1.0 / K)
    theta, z, rng = SUCCESS[:, :K].copy(), np.zeros(T, np.int64), np.random.default_rng(1)
    n_sweeps = max(1, 200_000 // T)
    whole = sweep(K, data, n_sweeps)
    arguments = (rng, labels, outcomes, theta, A, delta, z)
    works: dict[str, tuple[Callable[[], Any], int]] = {
        "sojourn whole sweep": (whole, n_sweeps),
        "log-space FFBS, plain numba": (lambda: log_space_ffbs(*arguments), 1),
        "scaled FFBS, plain numba": (lambda: scaled_ffbs(*arguments), 1),
        "FFBS, NumPy script": (lambda: numpy_ffbs(*arguments), 1),
    }
    works |= {name: (work, 1) for name, work in peers(K, data, A, delta).items()}
    for work, _ in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(options.repeats):
        for name, (work, n) in works.items():
            repeat = 1 if "NumPy" in name or "deeptime" in name else 5
            times[name].append(cpu(work, repeat) / n / T * 1e9)
    base = statistics.median(times["sojourn whole sweep"])
    report: dict[str, Any] = {
        "tasks": T,
        "states": K,
        "ns_per_task_and_iteration": {
            name: {
                "median": statistics.median(v),
                "min": min(v),
                "ratio": statistics.median(v) / base,
            }
            for name, v in times.items()
        },
    }
    start = time.process_time()
    fit = sample(data, HMMSpec(n_states=K), settings=SamplerSettings(draws=2000, max_draws=2000))
    spent = time.process_time() - start
    run = fit.run_draws(20)
    report["effective_draws_per_cpu_second"] = {
        f"R({n})": diagnose(run[..., n - 1]).ess_bulk / spent for n in (1, 20)
    }
    report["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, row in report["ns_per_task_and_iteration"].items():
        print(f"{name:<32} {row['median']:10.1f} ns  {row['ratio']:8.1f} x")
    for name, rate in report["effective_draws_per_cpu_second"].items():
        print(f"effective draws of {name} per CPU second: {rate:.0f}")
    print(f"wrote {_record.write('gibbs', report, 'arviz-stats', 'dynamax', 'deeptime')}")


if __name__ == "__main__":
    main()
