"""Posterior draws as ArviZ's InferenceData: figures that need no names of states, then the states.

Draws are kept in ArviZ's order, (chain, draw, ...), so that this is a renaming.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sojourn.session import reliability
from sojourn.session.base import STARTS

if TYPE_CHECKING:
    from sojourn.session.posterior import HMMPosterior

__all__ = ["inference_data", "posterior_data"]

FloatArray = npt.NDArray[np.float64]


def posterior_data(posterior: HMMPosterior, *, n_max: int = 20) -> Any:
    """Return a hidden-state posterior as InferenceData; see `HMMPosterior.to_arviz`."""
    order = np.argsort(
        -reliability.state_success(posterior.success_prob, posterior.weights),
        axis=-1,
        kind="stable",
    )
    A = np.take_along_axis(posterior.transition, order[..., :, None], axis=-2)
    A = np.take_along_axis(A, order[..., None, :], axis=-1)
    variables: dict[str, FloatArray] = {
        "mean": posterior.mean,
        "concentration": posterior.concentration,
    }
    for start in STARTS:
        variables[f"success_run_{start}"] = posterior.run_draws(n_max, start=start)
    variables |= {
        "success_prob": np.take_along_axis(posterior.success_prob, order[..., None, :], axis=-1),
        "transition": A,
        "initial": np.take_along_axis(posterior.initial, order, axis=-1),
        "predictive_state": np.take_along_axis(posterior.predictive_state, order, axis=-1),
    }
    K = posterior.spec.n_states
    return inference_data(
        variables,
        dims={
            **{f"success_run_{start}": ["n"] for start in STARTS},
            "success_prob": ["subdomain", "state"],
            "transition": ["state", "next_state"],
            "initial": ["state"],
            "predictive_state": ["state"],
        },
        coords={
            "n": np.arange(1, n_max + 1),
            "subdomain": list(posterior.subdomain_names),
            "state": np.arange(1, K + 1),
            "next_state": np.arange(1, K + 1),
        },
        sample_stats={"lp": posterior.log_likelihood},
    )


def inference_data(
    variables: dict[str, FloatArray],
    *,
    dims: dict[str, list[str]],
    coords: dict[str, Any],
    sample_stats: dict[str, FloatArray] | None = None,
) -> Any:
    """Return arrays of shape (chain, draw, ...) as InferenceData, or ArviZ 1's DataTree.

    Raises
    ------
    ImportError
        If ArviZ is not installed; the message names the extra.
    """
    try:
        import arviz
    except ImportError as error:
        raise ImportError(
            "to_arviz() needs ArviZ, which is optional: pip install 'sojourn[arviz]'"
        ) from error
    groups: dict[str, Any] = {"posterior": variables}
    if sample_stats is not None:
        groups["sample_stats"] = sample_stats
    if hasattr(arviz, "InferenceData"):
        return arviz.from_dict(**groups, dims=dims, coords=coords)
    return arviz.from_dict(groups, dims=dims, coords=coords)
