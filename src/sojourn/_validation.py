"""Checks at the door: shapes, ranges and names, with messages that say how to mend the input."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "check_choice",
    "check_fraction",
    "check_positive_int",
    "frozen_array",
    "generator",
]


def frozen_array(
    values: Any, dtype: npt.DTypeLike, *, ndim: int = 1, name: str
) -> npt.NDArray[Any]:
    """Copy ``values`` once into a read-only array of the given type.

    Raises
    ------
    ValueError
        If the number of dimensions differs from `ndim`.
    """
    array = np.array(values, dtype=dtype)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), not {array.ndim}")
    array.flags.writeable = False
    return array


def check_choice(value: str, choices: Iterable[str], *, name: str) -> str:
    """Return `value` if it is one of `choices`, else raise ValueError that lists them."""
    allowed = tuple(choices)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
    return value


def check_fraction(value: float, *, name: str) -> float:
    """Return `value` if it lies strictly between 0 and 1, else raise ValueError."""
    if not (math.isfinite(value) and 0.0 < value < 1.0):
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}")
    return float(value)


def check_positive_int(value: int, *, name: str) -> int:
    """Return `value` as int if it is a whole number of at least 1, else raise ValueError."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
    return int(value)


def generator(
    rng: np.random.Generator | np.random.SeedSequence | int | None,
) -> np.random.Generator:
    """Make a Generator of whatever the caller passed as ``rng`` (SPEC 7)."""
    return np.random.default_rng(rng)
