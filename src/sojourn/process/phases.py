"""Hidden phases: a hidden Markov model that absorbs.

A run goes through phases that nobody sees (say: exploring, working, wrapping up), a step in a phase
shows one of the observed states, and from a phase the run may exit into success or failure. The
time to an end is then discrete phase-type, so that it can be concentrated, where a chain over the
observed states is near-geometric; and the observed states still tell in which phase a run may be.

The likelihood of paths has many maxima, most of them spent on what steps show and not on how long
runs last. Many starts are made, what the best came to is reported with the fit, and small Dirichlet
priors keep every probability off zero. The number of phases is to be chosen by the score of end
time and outcome, not by this likelihood.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.process._hidden import Optima, take_units, weights_of
from sojourn.process._phase_em import TOLERANCE, Prior, climb_from, prior_of
from sojourn.process._phase_result import MAX_RUNS, TOPOLOGIES, PhaseFit, assemble
from sojourn.process.base import GeometricTail
from sojourn.sequences import StateSequences

__all__ = ["PhaseFit", "fit_phases"]

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

_SHORT = 25
_SHORT_RUNS = 1000


def fit_phases(
    sequences: StateSequences,
    n_phases: int = 4,
    *,
    topology: str = "general",
    n_starts: int = 16,
    n_long: int = 4,
    prior_mass: float = 1.0,
    emission_weight: float = 1.0,
    max_iterations: int = 500,
    max_runs: int = MAX_RUNS,
    rng: Rng = None,
) -> PhaseFit:
    """Fit a hidden Markov model that absorbs.

    Parameters
    ----------
    sequences : StateSequences
        Runs; a cut run is known not to have ended at the cut.
    n_phases : int
        Number of phases.
    topology : {"general", "left_to_right"}
        ``left_to_right``: a run stays in a phase or goes to any later one.
    n_starts, n_long : int
        Starts of the iteration, each of 25 iterations; the best `n_long` go on to the end. The
        first start cuts runs into equal parts, the others are random.
    prior_mass : float
        Imaginary events added to the start and to each row of moves and of observed states, in
        the proportions of the corpus; positive.
    emission_weight : float
        From 0 to 1. With 1 the law of whole paths is fitted. With less, the probability of what a
        step shows enters to this power: the phases turn from what steps show to when and how runs
        end. With 0 they are fitted to end times and outcomes alone, and what they show is counted
        afterwards; the curves are then closest to the observed ones.
    max_iterations : int
        Most iterations of a long one; it ends when the log posterior gains less than 1e-4 nat for
        up to 200 runs, in proportion for more.
    max_runs : int
        Of more runs, whole units are drawn up to so many, always the same of the same corpus.
    rng : Generator, SeedSequence, int or None
        Source of the starts.

    Returns
    -------
    PhaseFit

    Raises
    ------
    ValueError
        If there is no run, or a setting is out of range.

    Notes
    -----
    P(run) = sum over phase paths of s(z_1) e(z_1, o_1) prod_t A(z_t-1, z_t) e(z_t, o_t) r(z_L, end)
    with r(z, cut) = sum_j A(z, j); maximised by the Baum-Welch iteration.

    References
    ----------
    L. E. Baum et al. (1970), Ann. Math. Stat. 41, 164-171. M. F. Neuts (1981), Matrix-Geometric
    Solutions in Stochastic Models, chapter 2.
    """
    check_positive_int(n_phases, name="n_phases")
    check_positive_int(n_starts, name="n_starts")
    check_positive_int(n_long, name="n_long")
    check_positive_int(max_iterations, name="max_iterations")
    check_choice(topology, TOPOLOGIES, name="topology")
    if not 0.0 < prior_mass < np.inf:
        raise ValueError(f"prior_mass must be positive; got {prior_mass!r}")
    if not 0.0 <= emission_weight <= 1.0:
        raise ValueError(f"emission_weight must lie in [0, 1]; got {emission_weight!r}")
    weights_of(sequences, None)
    taken = take_units(sequences, max_runs)
    runs = taken.sequences
    # Starts of a large corpus are tried on a part of it.
    part = take_units(runs, _SHORT_RUNS).sequences
    some = np.ones(part.n_runs)
    prior = prior_of(part, some, n_phases, topology, prior_mass)
    source = generator(rng)
    short = []
    for s in range(n_starts if n_phases > 1 else 1):
        begin = _by_progress(part, prior) if s == 0 else _at_random(prior, source)
        short.append(climb_from(part, some, prior, begin, emission_weight, _SHORT))
    short.sort(key=lambda climbed: -climbed.log_posterior)
    weights = np.ones(runs.n_runs)
    prior = prior_of(runs, weights, n_phases, topology, prior_mass)
    tolerance = TOLERANCE * max(1.0, runs.n_runs / 200.0)
    ends = [
        climb_from(
            runs,
            weights,
            prior,
            climbed[:3],
            emission_weight,
            max_iterations,
            tolerance=tolerance,
        )
        for climbed in short[:n_long]
    ]
    best = max(ends, key=lambda climbed: climbed.log_posterior)
    made = assemble(
        best,
        Optima.of(np.array([c.log_posterior for c in ends]), sum(c.is_open for c in ends)),
        runs,
        topology=topology,
        prior_mass=prior_mass,
        emission_weight=emission_weight,
        fitted_on=taken.fitted_on,
        tail=GeometricTail.of(runs),
    )
    return PhaseFit(**made)


def _at_random(prior: Prior, rng: np.random.Generator) -> list[Floats]:
    """Draw a start: phases that last, with states and ends about those of the corpus."""
    K, m = prior.emission.shape
    mean = [table / table.sum(axis=-1, keepdims=True) for table in prior]
    start = mean[0] * np.append(rng.gamma(1.0, size=K), [1.0, 1.0])
    rows = mean[1] * np.column_stack((rng.gamma(1.0, size=(K, K)), rng.gamma(1.0, size=(K, 2))))
    rows[np.arange(K), np.arange(K)] += rng.random(K)
    emission = mean[2] * rng.gamma(0.7, size=(K, m))
    blend = [0.9 * _normed(table) for table in (start, rows, emission)]
    return [table + 0.1 * base for table, base in zip(blend, mean, strict=True)]


def _by_progress(runs: StateSequences, prior: Prior) -> list[Floats]:
    """Cut every run into as many equal parts as there are phases and count."""
    K = prior.emission.shape[0]
    lengths = runs.lengths
    step = np.arange(runs.states.size) - np.repeat(runs.offsets[:-1], lengths)
    phase = step * K // np.maximum(np.repeat(lengths, lengths), 1)
    start, rows, emission = (table.copy() for table in prior)
    np.add.at(emission, (phase, runs.states), 1.0)
    full = np.flatnonzero(lengths > 0)
    first, last = runs.offsets[:-1][full], runs.offsets[1:][full] - 1
    np.add.at(start, phase[first], 1.0)
    inner = np.ones(runs.states.size, dtype=np.bool_)
    inner[last] = False
    here = np.flatnonzero(inner)
    np.add.at(rows, (phase[here], phase[here + 1]), 1.0)
    ended = runs.event[full] > 0
    np.add.at(rows, (phase[last[ended]], K + runs.event[full][ended] - 1), 1.0)
    return [_normed(table) for table in (start, rows, emission)]


def _normed(table: Floats) -> Floats:
    total = table.sum(axis=-1, keepdims=True)
    return np.asarray(table / np.where(total > 0.0, total, 1.0), dtype=np.float64)
