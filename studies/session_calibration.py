"""Check by simulation that the session sampler draws from the posterior it claims to draw from.

Parameters are drawn from the prior, a session from the parameters, a posterior from the session:
then the rank of each true figure among thinned draws of it is uniform. Ranked are figures that do
not depend on the names of the states, the log likelihood among them, which sees what the parameters
alone would not show.

    python studies/session_calibration.py --replicates 500 --seed 20260902
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np
from scipy import stats
from session_designs import write

from sojourn.session import reliability
from sojourn.session.hmm import HMMSpec, filter_states
from sojourn.session.sampler import SamplerSettings, sample
from sojourn.session.simulate import sample_prior, simulate_sessions

SHARES = np.array([0.3, 0.7])
SETTINGS = SamplerSettings(warmup=300, draws=250, max_draws=250, thin=12)
FIGURES = ("R(1)", "R(20)", "long run", "fresh", "log likelihood")
N_RANKS, N_BINS = 99, 20


class Case(NamedTuple):
    """One design: states, how the first state is drawn, sessions, share of missing parts."""

    n_states: int
    initial: str
    lengths: tuple[int, ...]
    missing: float

    @property
    def name(self) -> str:
        """What the page calls it."""
        n = len(self.lengths)
        sessions = "one session" if n == 1 else f"{n} sessions"
        missing = f", {self.missing:.0%} missing" if self.missing else ""
        return f"K={self.n_states}, {sessions} of {sum(self.lengths)} tasks in all{missing}"


CASES = (
    Case(1, "uniform", (80,), 0.0),
    Case(2, "uniform", (80,), 0.0),
    Case(3, "uniform", (80,), 0.0),
    Case(4, "uniform", (80,), 0.0),
    Case(1, "estimated", (30, 1, 25, 24), 0.15),
    Case(2, "estimated", (30, 1, 25, 24), 0.15),
    Case(3, "estimated", (30, 1, 25, 24), 0.15),
)


def rank(draws: np.ndarray, truth: float, rng: np.random.Generator) -> int:
    """Rank the truth among thinned draws, ties broken at random.

    Success probabilities are kept 1e-12 off 0 and 1 by the prior and the sampler alike. Small
    concentrations put many there, equal but for rounding: within 1e-9 is a tie.
    """
    flat = draws.reshape(-1)
    kept = flat[np.linspace(0, flat.size - 1, N_RANKS).astype(int)]
    tied = np.abs(kept - truth) <= 1e-9
    return int(((kept < truth) & ~tied).sum() + rng.integers(0, tied.sum() + 1))


def replicate(case: Case, rng: np.random.Generator) -> list[int]:
    """Return the ranks of the figures of one simulated data set."""
    spec = HMMSpec(n_states=case.n_states, initial=case.initial)
    prior = sample_prior(spec, 2, 1, rng=rng)
    A, theta, delta = prior.transition[0], prior.success_prob[0], prior.initial[0]
    data = simulate_sessions(
        case.lengths,
        transition=A,
        success_prob=theta,
        initial=delta,
        weights=SHARES,
        missing_outcomes=case.missing,
        missing_labels=case.missing,
        rng=rng,
    ).sequences
    known = filter_states(
        data, transition=A, success_prob=theta, initial=delta, label_shares=SHARES
    )
    ahead = reliability.success_run(A, theta, known.next_state[-1], SHARES, 20)
    fit = sample(data, spec, weights=SHARES, label_shares=SHARES, settings=SETTINGS, rng=rng)
    run = fit.run_draws(20)
    pairs = (
        (run[..., 0], ahead[0]),
        (run[..., 19], ahead[19]),
        (fit.run_draws(1, start="long_run")[..., 0], reliability.long_run_rate(A, theta, SHARES)),
        (fit.run_draws(1, start="fresh")[..., 0], delta @ (SHARES @ theta)),
        (fit.log_likelihood, known.log_likelihood),
    )
    return [rank(draws, float(truth), rng) for draws, truth in pairs]


def p_values(ranks: np.ndarray) -> tuple[float, float]:
    """Chi-square p over 20 bins, and p of the mean rank: a shape, and a shift."""
    counts = np.bincount(ranks // ((N_RANKS + 1) // N_BINS), minlength=N_BINS)
    z = (ranks.mean() - N_RANKS / 2) / math.sqrt(((N_RANKS + 1) ** 2 - 1) / 12 / ranks.size)
    return float(stats.chisquare(counts).pvalue), float(2 * stats.norm.sf(abs(z)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=500)
    parser.add_argument("--seed", type=int, default=20260902)
    options = parser.parse_args()
    lines = ["| design | " + " | ".join(FIGURES) + " |", "|" + "---|" * (1 + len(FIGURES))]
    shape, shift = [], []
    for i, case in enumerate(CASES):
        children = np.random.default_rng((options.seed, i)).spawn(options.replicates)
        ranks = np.array([replicate(case, child) for child in children])
        found = [p_values(column) for column in ranks.T]
        shape += [f[0] for f in found]
        shift += [f[1] for f in found]
        cells = [f"{a:.2f}, {b:.2f}" for a, b in found]
        lines.append(f"| {case.name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    summary = (
        f"Of {len(shape)} histograms the smallest p is {min(shape):.4f} ({min(shift):.4f} for the "
        f"mean rank), where the smallest of as many uniform numbers falls below "
        f"{1 - 0.95 ** (1 / len(shape)):.4f} in one study of twenty. The p-values of one row are "
        "of the same data and hang together."
    )
    body = (
        f"{options.replicates} data sets a design, two subdomains (shares .3 and .7), priors as "
        f"shipped. Ranks among {N_RANKS} draws, thinned from 4 chains of 3,000 sweeps. In each "
        f"cell: p of a chi-square test of the rank histogram in {N_BINS} bins, p of the mean rank. "
        "*Several sessions* estimate the law of the first state; outcomes and labels are missing "
        "independently.\n\n" + "\n".join(lines) + "\n\n" + summary + "\n\nThe tests beside the "
        "library check each conditional alone as well: a draw of it from the joint law of "
        "parameters, states and data must leave that law as it is."
    )
    command = (
        f"python studies/session_calibration.py --replicates {options.replicates} "
        f"--seed {options.seed}"
    )
    write("session-calibration.md", "Is the session sampler calibrated?", command, body)


if __name__ == "__main__":
    main()
