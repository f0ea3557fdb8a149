"""From rows of counts to rows of probabilities: the smoothing rules, apart from any one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.process.counting import share_survivals

__all__ = ["RowPrior", "possible_cells"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_IMPOSSIBLE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowPrior:
    """How rows of counts become rows of probabilities; fixed while counts are resampled.

    Attributes
    ----------
    smoothing : str
        ``shrinkage``, ``published`` or ``none``.
    kappa : float
        With shrinkage, the total mass given to the mean row in each row.
    alpha : float
        With the published rule, the pseudo-count of every cell.
    allowed : ndarray of shape (n_states, n_states + 2), bool
        Cells that shrinkage may fill: next states, success, failure.
    cut_step : str
        ``unseen``: nothing is known of what followed the last step of a cut run. ``survived``: the
        run is known not to have ended there.
    """

    smoothing: str
    kappa: float
    alpha: float
    allowed: Mask
    cut_step: str

    def masses(self, tables: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Split posterior masses of the rows into what was observed and what the prior adds.

        Parameters
        ----------
        tables : ndarray of shape (..., n_states + 1, n_states + 3)
            Counts, possibly of many corpora at once.

        Returns
        -------
        observed, prior : ndarray of shape (..., n_states, n_states + 2)
        """
        m = tables.shape[-2] - 1
        if self.cut_step == "survived":
            observed = share_survivals(tables[..., 1:, :])
        else:
            observed = tables[..., 1:, : m + 2].astype(np.float64)
        if self.smoothing == "published":
            return observed, np.full(observed.shape, self.alpha)
        base = self._base(observed)
        if self.smoothing == "shrinkage":
            return observed, self.kappa * base
        # Without smoothing only rows without any observation need a convention: the mean row.
        empty = observed.sum(axis=-1, keepdims=True) == 0.0
        return observed, base * empty

    def rows(self, tables: npt.NDArray[Any]) -> Floats:
        """Probabilities of the next event in each state, shape (..., n_states, n_states + 2)."""
        observed, prior = self.masses(tables)
        total = observed + prior
        return np.asarray(total / total.sum(axis=-1, keepdims=True), dtype=np.float64)

    def _base(self, observed: Floats) -> Floats:
        """Give the mean row over all states, restricted in each row to the cells allowed there."""
        marginal = observed.sum(axis=-2, keepdims=True)
        base = marginal * self.allowed
        total = base.sum(axis=-1, keepdims=True)
        # A row that may take nothing of the mean row gets no mass, unless it has nothing else:
        # then its state is kept, for which no exit is ever claimed.
        stay = np.zeros(observed.shape)
        m = observed.shape[-2]
        stay[..., np.arange(m), np.arange(m)] = observed.sum(axis=-1) == 0.0
        return np.where(total > 0.0, base / np.where(total > 0.0, total, 1.0), stay)


def possible_cells(table: npt.NDArray[Any]) -> Mask:
    """Cells that were seen, or that were too rarely on offer for their absence to mean much."""
    events = table[1:, :-1].astype(np.float64)
    total = events.sum()
    mean_row = events.sum(axis=0) / total if total > 0.0 else np.zeros(events.shape[1])
    unseen = (1.0 - mean_row) ** events.sum(axis=1)[:, None]
    return np.asarray((events > 0.0) | (unseen > _IMPOSSIBLE), dtype=np.bool_)
