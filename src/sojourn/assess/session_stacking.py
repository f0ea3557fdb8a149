"""R(n) averaged over numbers of states, each with the weight that predicts later tasks best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sojourn.session import (
    SCORING,
    STARTS,
    HMMPosterior,
    HMMSpec,
    SamplerSettings,
    Selection,
    sample,
)
from sojourn.task_sequences import TaskSequences

__all__ = ["stacked_runs"]

FloatArray = npt.NDArray[np.float64]

# A candidate of less weight than this changes nothing that is shown.
_NEGLIGIBLE = 0.05
_N_DRAWS = 8000


def stacked_runs(
    sequences: TaskSequences,
    spec: HMMSpec,
    selection: Selection,
    posterior: HMMPosterior,
    *,
    n_max: int,
    settings: SamplerSettings | None = None,
    n_threads: int = 2,
    rng: np.random.Generator,
) -> Mapping[str, FloatArray] | None:
    """Return draws of the stacked average of R(1..n_max) by start, or None if it is one model.

    The average's law is the mixture of the candidates' posteriors by stacking weight: each gives
    its share of the draws. Candidates other than the chosen one are sampled here, shortly.

    Parameters
    ----------
    sequences : TaskSequences
        The sessions.
    spec : HMMSpec
        Priors.
    selection : Selection
        Candidates with their stacking weights.
    posterior : HMMPosterior
        The chosen model's, already sampled.
    n_max : int
        Largest n.
    settings : SamplerSettings, optional
        How long to sample the others; `SCORING` by default.
    n_threads : int
        Threads.
    rng : Generator
        Source of randomness.
    """
    weights = {
        c.n_states: float(w)
        for c, w in zip(selection.candidates, selection.stacking, strict=True)
        if w > _NEGLIGIBLE
    }
    if set(weights) <= {selection.chosen}:
        return None
    total = sum(weights.values())
    parts: dict[str, list[FloatArray]] = {start: [] for start in STARTS}
    for (k, weight), child in zip(weights.items(), rng.spawn(len(weights)), strict=True):
        fit = posterior
        if k != selection.chosen:
            fit = sample(
                sequences,
                replace(spec, n_states=k),
                weights=posterior.weights,
                settings=settings or SCORING,
                n_threads=n_threads,
                rng=child,
            )
        size = max(1, round(_N_DRAWS * weight / total))
        for start in STARTS:
            run = fit.run_draws(n_max, start=start).reshape(-1, n_max)
            parts[start].append(run[np.linspace(0, len(run) - 1, size).round().astype(np.int64)])
    return {start: np.concatenate(found) for start, found in parts.items()}
