"""Count effective draws of R(1) and R(20) per CPU second, beside numpyro's NUTS; assert nothing.

    python benchmarks/effective_draws.py [--tasks 2000] [--rounds 1]

One posterior, two samplers, in turns in one process: ours (states drawn, all parameters in closed
form but two) and NUTS on the likelihood with the states summed out by the filter, four chains each,
the same priors, float64. Two sessions of three states: *strong*, whose states succeed very
differently, and *weak*. Effective draws (bulk) are arviz-stats' for both, and so are the CPU
seconds of the whole process while a sampler runs. Ours count everything; those of NUTS are given
with its warm-up and, to its favour, without; compilation is left out of both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import _record
import numpy as np
from arviz_stats.base import array_stats

from sojourn.session import reliability
from sojourn.session.hmm import HMMSpec, filter_states
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.simulate import simulate_sessions
from sojourn.task_sequences import TaskSequences

SUCCESS = {
    "strong": np.array([[0.97, 0.80, 0.40], [0.93, 0.65, 0.20]]),
    "weak": np.array([[0.97, 0.90, 0.75], [0.95, 0.85, 0.70]]),
}
SPEC = HMMSpec(n_states=3)
OURS = SamplerSettings(warmup=2000, draws=5000, max_draws=5000)
N_WARMUP, N_DRAWS, N_CHAINS = 300, 300, 4


class Run(NamedTuple):
    """Draws of R(1) and R(20), each (chain, draw), and what they cost in CPU seconds."""

    first: np.ndarray
    twentieth: np.ndarray
    warmup: float
    sampling: float


def simulated(theta: np.ndarray, n_tasks: int) -> TaskSequences:
    A = np.full((3, 3), 0.025)
    np.fill_diagonal(A, 0.95)
    return simulate_sessions([n_tasks], transition=A, success_prob=theta, rng=3).sequences


def ours(data: TaskSequences, seed: int) -> Run:
    start = time.process_time()
    fit = sample(data, SPEC, settings=OURS, rng=seed)
    run = fit.run_draws(20)
    return Run(run[..., 0], run[..., 19], 0.0, time.process_time() - start)


def nuts(data: TaskSequences) -> Callable[[int], Run]:
    """Return a sampler of the same posterior by numpyro, compiled at its first call."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64()
    labels, outcomes = jnp.asarray(data.subdomain), jnp.asarray(data.success)
    a, b, c, d = (float(v) for v in SPEC.hyper_prior)
    lam = jnp.asarray(SPEC.transition_weights)

    def log_likelihood(theta: Any, A: Any) -> Any:
        E = jnp.where(outcomes[:, None] == 1, theta[labels], 1.0 - theta[labels])

        def step(carry: Any, e: Any) -> Any:
            law, total = carry
            x = law * e
            scale = x.sum()
            return ((x / scale) @ A, total + jnp.log(scale)), None

        start = (jnp.full(3, 1.0 / 3.0), 0.0)
        return jax.lax.scan(step, start, E)[0][1]

    def model() -> None:
        mu = numpyro.sample("mu", dist.Beta(a, b))
        nu = numpyro.sample("nu", dist.Gamma(c, d))
        A = numpyro.sample("A", dist.Dirichlet(lam).to_event(1))
        beta = dist.Beta(mu * nu, (1.0 - mu) * nu)
        theta = numpyro.sample("theta", beta.expand([data.n_subdomains, 3]).to_event(2))
        # Draws of the smallest concentrations round to 0 or 1, where the likelihood may be 0.
        numpyro.factor("y", log_likelihood(jnp.clip(theta, 1e-12, 1.0 - 1e-12), A))

    mcmc = MCMC(
        NUTS(model),
        num_warmup=N_WARMUP,
        num_samples=N_DRAWS,
        num_chains=N_CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )

    def call(seed: int) -> Run:
        start = time.process_time()
        mcmc.warmup(jax.random.PRNGKey(seed))
        middle = time.process_time()
        mcmc.run(jax.random.PRNGKey(seed + 1))
        draws = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
        return _runs(data, draws["A"], draws["theta"], middle - start, time.process_time() - middle)

    return call


def _runs(
    data: TaskSequences, A: np.ndarray, theta: np.ndarray, warmup: float, sampling: float
) -> Run:
    """Read R(n) off NUTS's draws; the cost of this filter is not counted."""
    n_chains, n_draws = A.shape[:2]
    law = np.empty((n_chains, n_draws, 3))
    for i in range(n_chains):
        for k in range(n_draws):
            law[i, k] = filter_states(
                data,
                transition=A[i, k],
                success_prob=np.clip(theta[i, k], 1e-12, 1.0 - 1e-12),
                initial=np.full(3, 1.0 / 3.0),
            ).next_state[0]
    run = reliability.success_run(A, theta, law, data.shares, 20)
    return Run(run[..., 0], run[..., 19], warmup, sampling)


def ess(draws: np.ndarray) -> float:
    return float(array_stats.ess(draws, chain_axis=0, draw_axis=1, method="bulk"))


def rates(runs: list[Run]) -> dict[str, float]:
    """Return medians over runs of effective draws a CPU second, and what the draws say."""
    out: dict[str, float] = {}
    for name, field in (("R(1)", "first"), ("R(20)", "twentieth")):
        effective = [ess(getattr(run, field)) for run in runs]
        with_all = [e / (r.warmup + r.sampling) for e, r in zip(effective, runs, strict=True)]
        alone = [e / r.sampling for e, r in zip(effective, runs, strict=True)]
        out[f"{name} a CPU second"] = statistics.median(with_all)
        out[f"{name} a CPU second, warm-up not counted"] = statistics.median(alone)
        out[f"{name} effective draws"] = statistics.median(effective)
        out[f"{name} mean"] = float(np.mean([getattr(run, field).mean() for run in runs]))
        out[f"{name} sd"] = float(np.mean([getattr(run, field).std() for run in runs]))
        out[f"{name} R-hat"] = max(
            float(array_stats.rhat(getattr(run, field), chain_axis=0, draw_axis=1)) for run in runs
        )
    out["CPU seconds"] = statistics.median(run.warmup + run.sampling for run in runs)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    report: dict[str, Any] = {
        "tasks": options.tasks,
        "states": 3,
        "rounds": options.rounds,
        "ours": {"chains": OURS.n_chains, "warmup": OURS.warmup, "draws": OURS.draws},
        "nuts": {"chains": N_CHAINS, "warmup": N_WARMUP, "draws": N_DRAWS},
    }
    for name, theta in SUCCESS.items():
        data = simulated(theta, options.tasks)
        samplers: dict[str, Callable[[int], Run]] = {
            "sojourn": lambda seed, data=data: ours(data, seed),
            "numpyro NUTS": nuts(data),
        }
        for sampler in samplers.values():
            sampler(0)  # compiles
        runs: dict[str, list[Run]] = {key: [] for key in samplers}
        for i in range(options.rounds):
            for key, sampler in samplers.items():
                runs[key].append(sampler(10 * (i + 1)))
        found = {key: rates(value) for key, value in runs.items()}
        ratio = {
            key: found["sojourn"][f"{figure} a CPU second"] / found["numpyro NUTS"][key]
            for figure in ("R(1)", "R(20)")
            for key in (f"{figure} a CPU second", f"{figure} a CPU second, warm-up not counted")
        }
        report[name] = {**found, "ratio": ratio}
        for key, values in found.items():
            print(name, key, {k: round(v, 4) for k, v in values.items()})
        print(name, "ratio", {k: round(v, 1) for k, v in ratio.items()}, flush=True)
    print(f"wrote {_record.write('effective_draws', report, 'arviz-stats', 'jax', 'numpyro')}")


if __name__ == "__main__":
    main()
