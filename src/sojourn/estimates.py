"""What a figure looks like when it leaves the house: never alone.

An `Estimate` carries its interval and whether it may be believed; a `ReliabilityCurve` says which
of the two quantities that the literature calls R it is; a `Claim` is one row of the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_fraction, frozen_array

__all__ = [
    "Claim",
    "Estimate",
    "Interval",
    "ReliabilityCurve",
    "Status",
    "Verdict",
    "number",
]


class Status(StrEnum):
    """Whether a figure may be used: as it is, with the caution, or not at all."""

    SUPPORTED = "supported"
    INCONCLUSIVE = "inconclusive"
    WITHHELD = "withheld"


class Verdict(StrEnum):
    """Answer to a claim; ``inconclusive`` is an honest one."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"

    @property
    def status(self) -> Status:
        """The status of the figures that rest on the claim."""
        return {
            Verdict.ACCEPTED: Status.SUPPORTED,
            Verdict.REJECTED: Status.WITHHELD,
            Verdict.INCONCLUSIVE: Status.INCONCLUSIVE,
        }[self]


def number(value: float | None) -> float | None:
    """Return `value` as a plain float, or None where it is missing, NaN or infinite."""
    if value is None:
        return None
    as_float = float(value)
    return as_float if math.isfinite(as_float) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval with the probability it claims and the way it was made.

    Attributes
    ----------
    low, high : float
        The bounds, low <= high.
    ci_prob : float
        The coverage or posterior probability it is meant to have.
    kind : str
        How it was made, for instance ``wilson_effective``, ``bootstrap``, ``eti``.
    """

    low: float
    high: float
    ci_prob: float = 0.95
    kind: str

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] is empty or not a number")
        check_fraction(self.ci_prob, name="ci_prob")

    @property
    def width(self) -> float:
        """Distance between the bounds."""
        return self.high - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its interval, whether it is supported, and the reasons when it is not.

    Attributes
    ----------
    value : float or None
        The figure; None exactly when it is withheld or does not exist.
    interval : Interval or None
        Its uncertainty.
    status : Status
        ``supported``, ``inconclusive`` (use with the caution) or ``withheld`` (no value).
    reasons : tuple of str
        Why it is not supported, or what a reader must know to use it.
    estimand : str or None
        ``population`` (tasks like these) or ``same_tasks`` (these tasks, run again).
    """

    value: float | None
    interval: Interval | None = None
    status: Status = Status.SUPPORTED
    reasons: tuple[str, ...] = ()
    estimand: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"an estimate of {self.value} must be given as None with a reason")
        if self.value is None and self.status is Status.SUPPORTED:
            raise ValueError("an estimate without a value cannot be supported")
        if self.value is None and not self.reasons:
            raise ValueError("an estimate without a value needs a reason")
        if self.estimand is not None:
            check_choice(self.estimand, ("population", "same_tasks"), name="estimand")

    def __str__(self) -> str:
        if self.value is None:
            return f"- ({self.reasons[0]})"
        text = f"{self.value:z.3f}"  # no -0.000
        if self.interval is not None:
            text += f" [{self.interval.low:z.3f}, {self.interval.high:z.3f}]"
        return text if self.status is Status.SUPPORTED else f"{text} ({self.status})"

    def doubted(self, doubt: str | None) -> Estimate:
        """Return the estimate, no longer supported where there is a doubt."""
        if doubt is None or self.status is not Status.SUPPORTED:
            return self
        return replace(self, status=Status.INCONCLUSIVE, reasons=(*self.reasons, doubt))

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate in the form of the JSON contract."""
        interval = self.interval
        return {
            "value": number(self.value),
            "interval": None if interval is None else [number(interval.low), number(interval.high)],
            "ci_prob": 0.95 if interval is None else interval.ci_prob,
            "estimand": self.estimand,
            "kind": None if interval is None else interval.kind,
            "status": str(self.status),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReliabilityCurve:
    """A reliability as a function of a count, with a pointwise band.

    Attributes
    ----------
    quantity : str
        ``success_within``: P(success within d steps), rises with d.
        ``failure_within``: P(failure within d steps), rises with d.
        ``success_run``: P(next n tasks all succeed), falls with n.
    x : ndarray of shape (n_points,), int
        The counts d or n, increasing.
    value, low, high : ndarray of shape (n_points,)
        The curve and its pointwise band.
    ci_prob : float
        Probability of the band.
    kind : str
        How the band was made.
    n_supported : int
        Leading points that are supported; later ones are inconclusive.
    """

    quantity: str
    x: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    ci_prob: float = 0.95
    kind: str
    n_supported: int

    def __post_init__(self) -> None:
        check_choice(
            self.quantity, ("success_within", "failure_within", "success_run"), name="quantity"
        )
        object.__setattr__(self, "x", frozen_array(self.x, np.int64, name="x"))
        for name in ("value", "low", "high"):
            array = frozen_array(getattr(self, name), np.float64, name=name)
            if array.shape != self.x.shape:
                raise ValueError(f"{name} has shape {array.shape}, x has {self.x.shape}")
            object.__setattr__(self, name, array)

    def at(self, x: int) -> float | None:
        """Return the curve at one count, or None outside the points it was computed at."""
        index = int(np.searchsorted(self.x, x))
        if index == self.x.size or self.x[index] != x:
            return None
        return float(self.value[index])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row of the certificate: a claim, the verdict on it, and what to do next.

    Attributes
    ----------
    claim : str
        ``rate``, ``attempts``, ``attempts_beyond``, ``order``, ``timing``, ``forecast`` or
        ``horizon``.
    verdict : Verdict
        The answer.
    p_value : float or None
        Evidence of a test where one decides or stands beside the decision.
    error_bound : mapping of str to float, or None
        Largest error of the model's curves that the data admit, by curve.
    reasons : tuple of str
        Why, in words.
    next : str or None
        The line that says what to do next when the claim is not accepted.
    """

    claim: str
    verdict: Verdict
    p_value: float | None = None
    error_bound: Mapping[str, float] | None = None
    detectable: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    next: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the claim in the form of the JSON contract."""
        bound = self.error_bound
        return {
            "claim": self.claim,
            "verdict": str(self.verdict),
            "p_value": number(self.p_value),
            "error_bound": None if bound is None else {k: number(v) for k, v in bound.items()},
            "detectable": {k: number(v) for k, v in self.detectable.items()},
            "reasons": list(self.reasons),
            "next": self.next,
        }
