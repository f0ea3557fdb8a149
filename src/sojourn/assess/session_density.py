"""The posterior of a probability as a smooth curve, for the eye; figures come from the draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.assess.session_figures import Density

__all__ = ["posterior_density"]

FloatArray = npt.NDArray[np.float64]

_PROBS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
_N_POINTS = 201
# A smooth curve needs no more draws than this, and every n-th of a chain is as good.
_MAX_DRAWS = 2000


def posterior_density(draws: FloatArray, *, label: str, level: str) -> Density:
    """Return a kernel density of draws of a probability, mirrored at 0 and 1.

    A Gaussian kernel with Silverman's width, 0.9 min(sd, IQR / 1.34) n^(-1/5), over the range of
    all but one in a thousand draws. Mirroring keeps the mass inside [0, 1].

    Parameters
    ----------
    draws : ndarray of shape (n_draws,)
        Draws in [0, 1].
    label, level : str
        Whose they are.
    """
    flat = np.asarray(draws, dtype=np.float64).ravel()
    quantiles = np.quantile(flat, _PROBS)
    keep = np.linspace(0, flat.size - 1, min(flat.size, _MAX_DRAWS)).astype(np.int64)
    some = flat[keep]
    spread = min(float(some.std()), float(quantiles[3] - quantiles[1]) / 1.34)
    width = max(0.9 * spread * some.size**-0.2, 1e-4)
    low, high = np.quantile(flat, [0.0005, 0.9995])
    x = np.linspace(max(0.0, low - 3 * width), min(1.0, high + 3 * width), _N_POINTS)
    density = np.zeros(_N_POINTS)
    for centre in (some, -some, 2.0 - some):
        z = (x[:, None] - centre) / width
        density += np.exp(-0.5 * z * z).sum(axis=1)
    density /= some.size * width * np.sqrt(2.0 * np.pi)
    return Density(
        label=label, level=level, x=x, density=density, probs=_PROBS, quantiles=quantiles
    )
