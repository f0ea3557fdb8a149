"""How far P(success ever) of a chain can move at most, from norms of the change alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.process.unrolled import UnrolledChain

__all__ = ["PerturbationBound", "perturbation_bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbationBound:
    """Bounds on how far P(success ever) can move, from norms alone.

    Attributes
    ----------
    published : float or None
        ||N||^2 ||D|| ||R+|| + C, the published first-order term and its remainder; None where its
        conditions do not hold.
    norm : float or None
        ||N|| (||D|| ||h|| + ||dR+||) / (1 - ||N|| ||D||), which allows for changed exits too; None
        where ||N|| ||D|| >= 1.
    reason : str or None
        Why the published bound does not apply.
    """

    published: float | None
    norm: float | None
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as plain values."""
        return {"published": self.published, "norm": self.norm, "reason": self.reason}


def perturbation_bound(before: UnrolledChain, after: UnrolledChain) -> PerturbationBound:
    """Bound the change of P(success ever) of a homogeneous chain by norms of the change.

    Notes
    -----
    With D the change of Q and maximum norms throughout, the published bound is
    ||N||^2 ||D|| ||R+|| + C with C = ||N||^3 ||D||^2 ||R+|| / (1 - ||N|| ||D||), for a change that
    leaves R+ as it is, takes mass from Q only (D 1 <= 0), and has ||N|| ||D|| < 1. From
    h' - h = N' (D h + dR+) and ||N'|| <= ||N|| / (1 - ||N|| ||D||) follows one without the first
    two conditions. A changed start is covered by neither.
    """
    n = before.n_inner
    Q, change = before.rows[0, :, :n], after.rows[0, :, :n] - before.rows[0, :, :n]
    exits = after.rows[0, :, n] - before.rows[0, :, n]
    if not np.array_equal(before.start, after.start):
        return PerturbationBound(published=None, norm=None, reason="the start is changed too")
    try:
        fundamental = np.linalg.inv(np.eye(n) - Q)
    except np.linalg.LinAlgError:
        return PerturbationBound(published=None, norm=None, reason="some runs never end")
    N, D = _norm(fundamental), _norm(change)
    gap = 1.0 - N * D
    if not (np.all(fundamental >= -1e-12) and gap > 0.0):
        reason = "the change is too large for it: ||N|| ||D|| is 1 or more"
        return PerturbationBound(published=None, norm=None, reason=reason)
    values = before.values[0]
    norm = N * (D * float(np.max(values)) + float(np.max(np.abs(exits)))) / gap
    if np.any(np.abs(exits) > 1e-15):
        return PerturbationBound(published=None, norm=norm, reason="it takes R+ to be unchanged")
    if np.any(change.sum(axis=1) > 1e-15):
        return PerturbationBound(published=None, norm=norm, reason="it takes mass to leave Q only")
    top = float(np.max(before.rows[0, :, n]))
    return PerturbationBound(
        published=N**2 * D * top + N**3 * D**2 * top / gap, norm=norm, reason=None
    )


def _norm(matrix: npt.NDArray[Any]) -> float:
    return float(np.abs(matrix).sum(axis=1).max())
