"""Time the session sampler beside other implementations, interleaved in one run; assert nothing.

    python benchmarks/gibbs.py [--tasks 1000 10000 100000] [--states 1 2 3 4] [--repeats 5]

Reported in CPU nanoseconds per task and iteration on one core, medians of the repeats: our whole
Gibbs sweep; forward filtering with backward sampling (FFBS) alone as a plain log-space and a plain
scaled loop in numba and, at one size, as a script in NumPy; FFBS by dynamax, compiled, in JAX's
default float32 and in float64, which is what we use; a draw of deeptime's BayesianHMM, as it comes
and with its cheapest settings. Compilation is left out everywhere. The peers draw from a fixed
table of emissions (dynamax) or know no subdomains (deeptime).
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
from sojourn.session.simulate import simulate_sessions
from sojourn.task_sequences import TaskSequences

Work = Callable[[], Any]
OURS = "sojourn, whole sweep"
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


def dynamax_works(log_E: np.ndarray, A: np.ndarray, delta: np.ndarray) -> dict[str, Work]:
    """Return FFBS by dynamax under both precisions, where it is installed."""
    try:
        import jax
        from dynamax.hidden_markov_model import hmm_posterior_sample
    except ImportError:
        return {}

    def work(double: bool) -> Work:
        with jax.enable_x64(double):
            arrays = [jax.numpy.asarray(x, "f8" if double else "f4") for x in (delta, A, log_E)]
            draw, key = jax.jit(hmm_posterior_sample), jax.random.PRNGKey(0)

        def call() -> None:
            with jax.enable_x64(double):
                draw(key, *arrays)[1].block_until_ready()

        return call

    return {"dynamax FFBS, float32": work(False), "dynamax FFBS, float64": work(True)}


def deeptime_works(
    outcomes: np.ndarray, theta: np.ndarray, A: np.ndarray, delta: np.ndarray, n: int
) -> dict[str, Work]:
    """Return n draws of deeptime's sampler, default and cheapest, where it is installed."""
    try:
        from deeptime.markov import TransitionCountModel
        from deeptime.markov.hmm import BayesianHMM, HiddenMarkovModel
        from deeptime.markov.msm import MarkovStateModel
    except ImportError:
        return {}
    K, paths = delta.size, [outcomes.astype(np.int32)]
    counts = TransitionCountModel(np.ones((K, K)))
    success = theta.mean(axis=0)
    start = HiddenMarkovModel(
        MarkovStateModel(A, count_model=counts), np.column_stack([1 - success, success]), delta
    )
    common = {
        "n_samples": n,
        "stride": 1,
        "initial_distribution_prior": np.ones(K),
        "transition_matrix_prior": np.ones((K, K)),
    }
    cheap = {"reversible": False, "n_transition_matrix_sampling_steps": 1}
    return {
        "deeptime BayesianHMM": lambda: BayesianHMM(start, **common).fit(paths),
        "deeptime, not reversible": lambda: BayesianHMM(start, **common, **cheap).fit(paths),
    }


def cpu(work: Work, n: int) -> float:
    start = time.process_time()
    for _ in range(n):
        work()
    return (time.process_time() - start) / n


def sweep(K: int, data: TaskSequences, n: int) -> Work:
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


def measure(K: int, T: int, repeats: int) -> dict[str, float]:
    """Return the median CPU nanoseconds per task and iteration of everything, interleaved."""
    stay = 0.95
    A = np.full((K, K), (1 - stay) / max(K - 1, 1))
    np.fill_diagonal(A, stay if K > 1 else 1.0)
    data = simulate_sessions([T], transition=A, success_prob=SUCCESS[:, :K], rng=3).sequences
    labels, outcomes, delta = data.subdomain, data.success, np.full(K, 1.0 / K)
    theta, z, rng = SUCCESS[:, :K].copy(), np.zeros(T, np.int64), np.random.default_rng(1)
    log_E = np.log(np.where(outcomes[:, None] == 1, theta[labels], 1.0 - theta[labels]))
    arguments = (rng, labels, outcomes, theta, A, delta, z)
    n_sweeps, n_few = max(1, 1_000_000 // T), max(1, 100_000 // T)
    # What is called, iterations of one call, calls of one repeat.
    works: dict[str, tuple[Work, int, int]] = {
        OURS: (sweep(K, data, n_sweeps), n_sweeps, 1),
        "scaled FFBS, plain numba": (lambda: scaled_ffbs(*arguments), 1, n_few),
        "log-space FFBS, plain numba": (lambda: log_space_ffbs(*arguments), 1, n_few),
    }
    for name, work in dynamax_works(log_E, A, delta).items():
        works[name] = (work, 1, n_few)
    for name, work in deeptime_works(outcomes, theta, A, delta, n_few + 4).items():
        works[name] = (work, n_few + 4, 1)
    if K == 3 and T == 10_000:
        works["FFBS, NumPy script"] = (lambda: numpy_ffbs(*arguments), 1, 1)
    for work, _, _ in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, (work, n, calls) in works.items():
            times[name].append(cpu(work, calls) / n / T * 1e9)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--states", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for T in options.tasks:
        for K in options.states:
            times = measure(K, T, options.repeats)
            ratios = {name: value / times[OURS] for name, value in times.items()}
            rows.append({"tasks": T, "states": K, "cpu_ns": times, "ratio": ratios})
            print(f"{T} tasks, {K} states")
            for name, value in times.items():
                print(f"  {name:<32} {value:10.1f} ns  {ratios[name]:8.1f} x", flush=True)
    report = {
        "repeats": options.repeats,
        "rows": rows,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(f"wrote {_record.write('gibbs', report, 'jax', 'dynamax', 'deeptime')}")


if __name__ == "__main__":
    main()
