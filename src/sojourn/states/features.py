"""What is known of a step when it happens, as numbers.

A feature of a step may see that step and those before it, never those after it: one that knew how
long the run will be would let the future into the state. So `step_features` is given the table of
distinct steps and no runs at all, and `repeats_previous` compares a step with its predecessor only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice
from sojourn.corpus import StepTypes
from sojourn.records import Actor, StepKind

__all__ = ["FEATURE_FIELDS", "StepFeatures", "repeats_previous", "step_features"]

FEATURE_FIELDS = ("actor", "kind", "name", "ok")
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepFeatures:
    """Indicator features of distinct steps.

    Attributes
    ----------
    matrix : ndarray of shape (n_types, n_features)
        One row a distinct step; each entry is 0 or 1.
    columns : tuple of str
        What each feature says, such as ``name=search`` or ``ok=error``.
    """

    matrix: npt.NDArray[np.float64]
    columns: tuple[str, ...]


def step_features(
    types: StepTypes, *, fields: Sequence[str] = FEATURE_FIELDS, names: Sequence[str] | None = None
) -> StepFeatures:
    """Encode each distinct step by indicators of who acted, how, what, and whether it went well.

    Parameters
    ----------
    types : StepTypes
        The table of distinct steps.
    fields : sequence of {"actor", "kind", "name", "ok"}
        What to encode. A step of which `ok` is unknown has neither of its two indicators.
    names : sequence of str, optional
        Names with an indicator of their own; all others share ``name=other``. All by default.

    Returns
    -------
    StepFeatures
    """
    blocks: list[npt.NDArray[np.bool_]] = []
    columns: list[str] = []
    for field in fields:
        check_choice(field, FEATURE_FIELDS, name="fields")
        if field == "name":
            kept = types.names if names is None else tuple(names)
            place = {name: j for j, name in enumerate(kept)}
            own = np.array([place.get(n, len(kept)) for n in types.names], np.int64)[types.name]
            blocks.append(own[:, None] == np.arange(len(kept) + 1))
            columns += [f"name={name}" for name in (*kept, OTHER)]
        elif field == "ok":
            blocks.append(types.ok[:, None] == np.array([1, 0]))
            columns += ["ok=yes", "ok=error"]
        else:
            members = tuple(Actor) if field == "actor" else tuple(StepKind)
            codes = types.actor if field == "actor" else types.kind
            blocks.append(codes[:, None] == np.arange(len(members)))
            columns += [f"{field}={member}" for member in members]
    empty = np.zeros((len(types), 0), dtype=np.bool_)
    matrix = np.concatenate([empty, *blocks], axis=1).astype(np.float64)
    used: npt.NDArray[np.bool_] = np.asarray(matrix.any(axis=0), dtype=np.bool_)
    return StepFeatures(
        matrix=matrix[:, used],
        columns=tuple(c for c, u in zip(columns, used, strict=True) if u),
    )


def repeats_previous(
    steps: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    digests: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.bool_]:
    """Tell of each step whether it does the same as the step before it in its run.

    Parameters
    ----------
    steps : ndarray of shape (n_steps,), int32
        Codes of distinct steps.
    offsets : ndarray of shape (n_runs + 1,), int64
        Run r is ``steps[offsets[r]:offsets[r + 1]]``.
    digests : ndarray of shape (n_steps,), uint64, optional
        Digests of whole actions, 0 where unknown; where both are known they decide.

    Returns
    -------
    ndarray of shape (n_steps,), bool
        False for the first step of a run.
    """
    same = np.zeros(steps.size, dtype=np.bool_)
    if steps.size < 2:
        return same
    same[1:] = steps[1:] == steps[:-1]
    if digests is not None:
        known = (digests[1:] != 0) & (digests[:-1] != 0)
        same[1:] = np.where(known, digests[1:] == digests[:-1], same[1:])
    first = offsets[:-1]
    same[first[first < steps.size]] = False
    return same
