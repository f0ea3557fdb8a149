"""What has happened so far in a run, as numbers of each step that cannot see ahead.

A step's name does not tell whether the run is in trouble; what went before does. The features here
look at the steps of a run up to and including their own and no further: they are cumulative sums
and positions of the last event of a kind, so that cutting a run short changes nothing before the
cut. They do look at neighbours, so states made of them are not fixed without the order of steps,
and the exact test of order is only approximate for them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice
from sojourn.corpus import StepTypes
from sojourn.states.features import repeats_previous

__all__ = ["EDIT_WORDS", "HISTORY_FEATURES", "edit_names", "history_features", "history_levels"]

HISTORY_FEATURES = ("error_streak", "edits", "repeats", "since_progress", "failure_share")
EDIT_WORDS = frozenset(
    [
        "add",
        "append",
        "apply",
        "create",
        "delete",
        "edit",
        "insert",
        "modify",
        "move",
        "overwrite",
        "patch",
        "remove",
        "rename",
        "replace",
        "rm",
        "mv",
        "tee",
        "touch",
        "update",
        "write",
    ]
)
N_LEVELS = 4
_SHARE = "failure_share"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

Steps = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]
Values = npt.NDArray[np.float32]


def edit_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that say that something is changed, such as ``str_replace`` or ``editFile``.

    A name counts when one of its words is in `EDIT_WORDS`; words are parted by case and by all
    that is no letter.
    """
    return tuple(
        name for name in names if any(w.lower() in EDIT_WORDS for w in _WORDS.findall(name))
    )


def history_features(
    steps: Steps,
    offsets: Offsets,
    types: StepTypes,
    digests: Digests | None = None,
    *,
    names: Sequence[str] = HISTORY_FEATURES,
    edits: Collection[str] | None = None,
) -> Values:
    """Describe each step by what its run has done up to and including it.

    Parameters
    ----------
    steps : ndarray of shape (n_steps,), int32
        Codes of distinct steps.
    offsets : ndarray of shape (n_runs + 1,), int64
        Run r is ``steps[offsets[r]:offsets[r + 1]]``.
    types : StepTypes
        The table of distinct steps.
    digests : ndarray of shape (n_steps,), uint64, optional
        Digests of whole actions, 0 where unknown. They tell whether two steps are the same action;
        without them the same name, kind, result and number of calls count as the same.
    names : sequence of str
        Which features, each one of `HISTORY_FEATURES`.
    edits : collection of str, optional
        The step names that change something; by default those of `edit_names`.

    Returns
    -------
    ndarray of shape (n_steps, n_names), float32
        ``error_streak``: steps with an error since the last one without (steps that do not tell
        leave it as it is). ``edits``: steps so far that change something. ``repeats``: how many
        steps before this one, without a break, did the same. ``since_progress``: steps since the
        last progress, a step without error that does what the run had not done before.
        ``failure_share``: share of errors among the steps so far that tell; 0 when none does.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    for name in names:
        check_choice(name, HISTORY_FEATURES, name="history")
    values = np.zeros((steps.size, len(names)), dtype=np.float32)
    if steps.size == 0:
        return values
    run = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    start = offsets[:-1][run]
    ok = types.ok[steps]
    changed = np.isin(types.names, tuple(edit_names(types.names) if edits is None else edits))
    for k, name in enumerate(names):
        if name == "error_streak":
            values[:, k] = _since(ok == 0, ok == 1, start)
        elif name == "edits":
            values[:, k] = _so_far(changed[types.name[steps]], start)
        elif name == "repeats":
            values[:, k] = _streak(repeats_previous(steps, offsets, digests), start)
        elif name == "since_progress":
            progress = (ok != 0) & _first_time(steps, run, digests)
            values[:, k] = _since(np.ones(steps.size, np.bool_), progress, start)
        else:
            told = _so_far(ok >= 0, start)
            values[:, k] = _so_far(ok == 0, start) / np.maximum(told, 1)
    return values


def history_levels(values: Values, names: Sequence[str]) -> npt.NDArray[np.int8]:
    """Round history features to `N_LEVELS` levels, so that few distinct steps remain.

    Parameters
    ----------
    values : ndarray of shape (n_steps, n_names), float32
        The features.
    names : sequence of str
        Their names.

    Returns
    -------
    ndarray of shape (n_steps, n_names), int8
        Counts: 0, 1 - 2, 3 - 6, 7 and more. Shares: 0, up to a third, up to two thirds, above.
    """
    levels = np.empty(values.shape, dtype=np.int8)
    for k, name in enumerate(names):
        # In float64 a third of 3 is exactly one, and 2^j - 1 is exactly j.
        value = values[:, k].astype(np.float64)
        raw = (
            np.ceil(np.round(3.0 * value, 6)) if name == _SHARE else np.floor(np.log2(1.0 + value))
        )
        levels[:, k] = np.minimum(raw, N_LEVELS - 1)
    return levels


def _so_far(marked: npt.NDArray[np.bool_], start: Offsets) -> npt.NDArray[np.int64]:
    """Count marked steps from the start of the run up to and including each step."""
    before = np.concatenate(([0], np.cumsum(marked, dtype=np.int64)))
    return np.asarray(before[1:] - before[start], dtype=np.int64)


def _since(
    marked: npt.NDArray[np.bool_], reset: npt.NDArray[np.bool_], start: Offsets
) -> npt.NDArray[np.int64]:
    """Count marked steps after the last reset, or from the start of the run without one."""
    here = np.arange(marked.size)
    last = np.maximum.accumulate(np.where(reset, here, -1))
    after = np.where(last >= start, last + 1, start)
    before = np.concatenate(([0], np.cumsum(marked, dtype=np.int64)))
    return np.asarray(before[1:] - before[after], dtype=np.int64)


def _streak(marked: npt.NDArray[np.bool_], start: Offsets) -> npt.NDArray[np.int64]:
    """Count marked steps without a break up to and including each step."""
    return _since(marked, ~marked, start)


def _first_time(
    steps: Steps, run: npt.NDArray[np.intp], digests: Digests | None
) -> npt.NDArray[np.bool_]:
    """Tell of each step whether its run does this action for the first time."""
    action = steps.astype(np.uint64)
    known = np.zeros(steps.size, dtype=np.bool_)
    if digests is not None:
        known = digests != 0
        action = np.where(known, digests, action)
    # Stable, so that the first of equal actions of a run is the earliest.
    order = np.lexsort((known, action, run))
    first = np.ones(steps.size, dtype=np.bool_)
    one, two = order[:-1], order[1:]
    first[two] = (run[one] != run[two]) | (action[one] != action[two]) | (known[one] != known[two])
    return first
