"""The processes that a choice is made among: a name, how to fit it, and its place in simplicity.

A name is the kind of process, with a number where the kind has one: ``order-2``, ``phases-4``,
``mixture-2``. A kind is imported when it is first fitted.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sojourn.process.base import TraceProcess
from sojourn.process.process_bound import BootstrappedProcess
from sojourn.sequences import StateSequences

__all__ = ["BASELINE", "CANDIDATES", "check_candidate", "fit_baseline", "fit_candidate", "place_of"]


class _Kind(NamedTuple):
    module: str
    function: str
    number: str | None  # the argument that the number in the name sets
    draws: bool  # an iteration from many starts, which takes rng


# In order of simplicity.
_KINDS = {
    "homogeneous": _Kind("homogeneous", "fit_homogeneous", None, False),
    "progress": _Kind("progress", "fit_progress", None, False),
    "order": _Kind("order_k", "fit_order", "order", False),
    "semi-markov": _Kind("semi_markov", "fit_semi_markov", None, False),
    "phases": _Kind("phases", "fit_phases", "n_phases", True),
    "mixture": _Kind("mixture", "fit_mixture", "n_classes", True),
}
_ORDER = tuple(_KINDS)
_MOST = {"order": 4, "phases": 64, "mixture": 32}

CANDIDATES = ("homogeneous", "progress", "order-2", "semi-markov", "phases-4", "mixture-2")
"""The candidates of a choice by default, the simplest first."""

BASELINE = "smooth incidence"
"""Row of the table for the smooth curves without states; never chosen."""


def check_candidate(name: str) -> str:
    """Return `name` if it names a candidate.

    Raises
    ------
    ValueError
        If the kind is unknown, or its number is missing or out of range.
    """
    _parsed(name)
    return name


def place_of(name: str) -> tuple[int, int]:
    """Place in the order of simplicity: the kind, then its number."""
    kind, number = _parsed(name)
    return _ORDER.index(kind), number


def fit_candidate(
    name: str, sequences: StateSequences, *, rng: np.random.Generator
) -> BootstrappedProcess:
    """Fit a candidate by its name.

    Parameters
    ----------
    name : str
        ``homogeneous``, ``progress``, ``order-K``, ``semi-markov``, ``phases-N`` or ``mixture-N``.
    sequences : StateSequences
        The runs. Of more than 5,000 the candidates that iterate from many starts (phases,
        mixture) take a part, and say so in their ``fitted_on``.
    rng : Generator
        Source of the starts of an iteration; other candidates draw nothing.

    Raises
    ------
    ValueError
        If the name is unknown, or the runs cannot be fitted.
    """
    key, number = _parsed(name)
    kind = _KINDS[key]
    fit: Callable[..., Any] = getattr(
        import_module(f"sojourn.process.{kind.module}"), kind.function
    )
    arguments: dict[str, Any] = {} if kind.number is None else {kind.number: number}
    if kind.draws:
        arguments["rng"] = rng
    fitted: BootstrappedProcess = fit(sequences, **arguments)
    return fitted


def fit_baseline(sequences: StateSequences) -> TraceProcess:
    """Fit the smooth incidence curves without states, against which candidates are scored."""
    from sojourn.process.smooth import fit_smooth_incidence

    return fit_smooth_incidence(sequences)


def _parsed(name: str) -> tuple[str, int]:
    kind, number = name, ""
    if name not in _KINDS:
        kind, _, number = name.rpartition("-")
    if kind not in _KINDS or (_KINDS[kind].number is None) is bool(number):
        raise ValueError(f"no process is called {name!r}; there are {_known()}")
    if not number:
        return kind, 0
    if not number.isdecimal() or not 1 <= int(number) <= _MOST[kind]:
        raise ValueError(f"{kind} needs a number from 1 to {_MOST[kind]}, not {number!r}")
    return kind, int(number)


def _known() -> str:
    return ", ".join(key if kind.number is None else f"{key}-N" for key, kind in _KINDS.items())
