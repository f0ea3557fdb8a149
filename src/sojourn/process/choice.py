"""Which process is good enough: cross-validation over tasks of how well the ends are foretold.

Every candidate is fitted to four fifths of the units and scored on the rest, on the log
probability of when and how each held-out run ended. All candidates are scored on the same tasks,
so that what makes a task hard cancels in their differences. The simplest candidate whose score is
within one standard error of the best is chosen; the homogeneous chain is kept within 1.5, because
folds share the runs that they are fitted to and the standard error is too small by about that
factor. Smooth incidence curves without states are scored
beside them: what a candidate gains over these is what its states are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_positive_int, generator
from sojourn.estimates import number
from sojourn.process.base import TraceProcess
from sojourn.process.candidates import (
    BASELINE,
    CANDIDATES,
    check_candidate,
    fit_baseline,
    fit_candidate,
    place_of,
)
from sojourn.process.process_bound import BootstrappedProcess
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["CandidateScore", "ProcessChoice", "choose_process"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


# By how much folds that share training runs make a standard error too small: the root of
# 1 + K / (K - 1) for K = 5 folds (Nadeau and Bengio 2003, Machine Learning 52, section 3). To leave
# the homogeneous chain is a claim, and must bear it; among richer processes nothing is claimed.
_OVERLAP = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateScore:
    """One row of the table of candidates.

    Attributes
    ----------
    name : str
        The candidate.
    log_score : float or None
        Mean over tasks of the held-out log score; None where it could not be fitted.
    difference, se_difference : float or None
        Its score less the best candidate's, and the standard error of that, by unit.
    n_parameters : int or None
        Free parameters of the fit to all runs.
    chosen, baseline : bool
        Whether it was chosen; whether it is the smooth baseline, which never is.
    notes : tuple of str
        On what it was fitted where not on all runs, what its starts came to, or why it could not
        be fitted.
    """

    name: str
    log_score: float | None
    difference: float | None
    se_difference: float | None
    n_parameters: int | None
    chosen: bool = False
    baseline: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row in the form of the JSON contract."""
        return {
            "name": self.name,
            "log_score": number(self.log_score),
            "difference": number(self.difference),
            "se_difference": number(self.se_difference),
            "n_parameters": self.n_parameters,
            "chosen": self.chosen,
            "baseline": self.baseline,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessChoice:
    """The choice of a process, with the table that it was made from.

    Attributes
    ----------
    chosen : str
        The homogeneous chain if it is near, else the near one with the fewest parameters.
    near : tuple of str
        All candidates within one standard error of the best, the simplest first; the homogeneous
        chain within 1.5.
    best : str
        The candidate with the best score.
    scores : tuple of CandidateScore
        All candidates, the simplest first, then the baseline.
    process : process
        The chosen one, fitted to all runs.
    fits : mapping of str to process
        All candidates, fitted to all runs.
    n_folds, n_units, n_tasks, n_runs : int
        The cross-validation.
    """

    chosen: str
    near: tuple[str, ...]
    best: str
    scores: tuple[CandidateScore, ...]
    process: BootstrappedProcess = field(repr=False)
    fits: Mapping[str, BootstrappedProcess] = field(repr=False)
    n_folds: int
    n_units: int
    n_tasks: int
    n_runs: int

    def __str__(self) -> str:
        lines = [
            f"chosen: {self.chosen}, the simplest within one standard error of {self.best} "
            f"({self.n_folds} folds over {n_of(self.n_units, 'unit')})",
            f"  {'process':18} {'score':>12} {'difference':>11} {'se':>7} {'parameters':>10}",
        ]
        for row in self.scores:
            mark = "*" if row.chosen else " "
            if row.log_score is None:
                lines.append(f"{mark} {row.name:18} {'; '.join(row.notes)}")
                continue
            lines.append(
                f"{mark} {row.name:18} {row.log_score:12.4f} {row.difference or 0.0:11.4f} "
                f"{row.se_difference or 0.0:7.4f} {row.n_parameters or 0:10d}"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "chosen": self.chosen,
            "near": list(self.near),
            "best": self.best,
            "candidates": [row.to_dict() for row in self.scores],
            "n_folds": self.n_folds,
            "n_units": self.n_units,
            "n_tasks": self.n_tasks,
            "n_runs": self.n_runs,
        }


@plain_blas()
def choose_process(
    sequences: StateSequences,
    *,
    candidates: Sequence[str] = CANDIDATES,
    n_folds: int = 5,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> ProcessChoice:
    """Choose a process by cross-validation over units.

    Parameters
    ----------
    sequences : StateSequences
        The runs; all runs of a unit are in one fold.
    candidates : sequence of str
        Names, as `fit_candidate` takes them.
    n_folds : int
        Number of folds, at least 2; fewer where there are fewer units.
    executor : concurrent.futures.Executor, optional
        Where to fit; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of the folds and of starts of iterations.

    Returns
    -------
    ProcessChoice

    Raises
    ------
    ValueError
        If there are fewer than two units, no candidate, one named twice or unknown, or if none
        could be fitted.

    Notes
    -----
    With s_k(t) the held-out score of candidate k on task t and D_u the sum over the tasks of unit
    u of s_k - s_best, the difference is sum D_u / T over T tasks, and its variance
    U / (U - 1) sum_u (D_u - difference T_u)^2 / T^2 over U units of T_u tasks.
    """
    names = [check_candidate(name) for name in candidates]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"candidates must be one or more different names; got {candidates!r}")
    names.sort(key=place_of)
    if check_positive_int(n_folds, name="n_folds") < 2:
        raise ValueError("n_folds must be at least 2")
    source = generator(rng)
    held = _held_out(sequences, n_folds, source)
    fitted = _fit_all(sequences, [*names, BASELINE], held, executor, source)
    units = _units_of_tasks(sequences)
    able = [name for name in names if fitted[name].reason is None]
    if not able:
        raise ValueError(f"no candidate could be fitted: {fitted[names[0]].reason}")
    best = max(able, key=lambda name: float(fitted[name].score.mean()))
    rows = {name: _compared(name, fitted[name], fitted[best], units) for name in fitted}
    near = sorted(
        (name for name in able if _is_near(rows[name])),
        key=lambda name: _simplicity(name, rows[name]),
    )
    chosen = near[0]
    fits = {name: fitted[name].whole for name in able}
    return ProcessChoice(
        chosen=chosen,
        near=tuple(near),
        best=best,
        scores=tuple(
            _row(rows[name], chosen=name == chosen, baseline=name == BASELINE) for name in rows
        ),
        process=fits[chosen],
        fits=fits,
        n_folds=len(held),
        n_units=int(np.unique(sequences.unit).size),
        n_tasks=sequences.n_tasks,
        n_runs=sequences.n_runs,
    )


class _Fitted(NamedTuple):
    whole: Any  # the fit to all runs
    score: Floats  # (n_tasks,) held-out, in ascending order of tasks
    reason: str | None  # why it could not be fitted


class _Compared(NamedTuple):
    name: str
    log_score: float | None
    difference: float | None
    se: float | None
    n_parameters: int | None
    notes: tuple[str, ...]


def _held_out(
    sequences: StateSequences, n_folds: int, rng: np.random.Generator
) -> list[npt.NDArray[np.bool_]]:
    """Deal the units into folds; return which runs each fold holds out."""
    units, place = np.unique(sequences.unit, return_inverse=True)
    if units.size < 2:
        raise ValueError("cross-validation needs at least two tasks or clusters")
    n_folds = min(n_folds, units.size)
    fold = np.empty(units.size, dtype=np.int64)
    fold[rng.permutation(units.size)] = np.arange(units.size) % n_folds
    return [fold[place] == k for k in range(n_folds)]


def _units_of_tasks(sequences: StateSequences) -> Ints:
    """Return the unit of each task, in ascending order of tasks, numbered from 0."""
    first = np.unique(sequences.task, return_index=True)[1]
    return np.unique(sequences.unit[first], return_inverse=True)[1].astype(np.int64)


def _fit_all(
    sequences: StateSequences,
    names: list[str],
    held: list[npt.NDArray[np.bool_]],
    executor: Executor | None,
    rng: np.random.Generator,
) -> dict[str, _Fitted]:
    """Fit and score everything: one job a candidate and fold, and one on all runs."""
    folds = [
        (sequences.select(np.flatnonzero(~out)), sequences.select(np.flatnonzero(out)))
        for out in held
    ]
    tasks = np.unique(sequences.task)
    jobs: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    for name in names:
        seeds = rng.spawn(len(folds) + 1)
        jobs.append((_fit, (name, sequences, seeds[0])))
        jobs += [(_score, (name, *fold, s)) for fold, s in zip(folds, seeds[1:], strict=True)]
    if executor is None:
        done = [function(*arguments) for function, arguments in jobs]
    else:
        futures = [executor.submit(function, *arguments) for function, arguments in jobs]
        done = [future.result() for future in futures]
    found = {}
    for k, name in enumerate(names):
        whole, *scores = done[k * (len(folds) + 1) : (k + 1) * (len(folds) + 1)]
        reason = next((part for part in (whole, *scores) if isinstance(part, str)), None)
        score = np.zeros(tasks.size)
        if reason is None:
            for (_, out), part in zip(folds, scores, strict=True):
                score[np.searchsorted(tasks, np.unique(out.task))] = part
        found[name] = _Fitted(whole, score, reason)
    return found


def _fit(name: str, runs: StateSequences, rng: np.random.Generator) -> TraceProcess | str:
    """Fit one process, or say why it cannot be fitted."""
    try:
        return fit_baseline(runs) if name == BASELINE else fit_candidate(name, runs, rng=rng)
    except (ValueError, ArithmeticError) as error:  # the row of the table says why
        return str(error)


def _score(
    name: str, runs: StateSequences, out: StateSequences, rng: np.random.Generator
) -> Floats | str:
    fit = _fit(name, runs, rng)
    return fit if isinstance(fit, str) else fit.log_score(out)


def _compared(name: str, fitted: _Fitted, best: _Fitted, units: Ints) -> _Compared:
    if fitted.reason is not None:
        return _Compared(name, None, None, None, None, (fitted.reason,))
    n_tasks = units.size
    gap = fitted.score - best.score
    difference = float(gap.mean())
    by_unit = np.bincount(units, weights=gap) - difference * np.bincount(units)
    n_units = by_unit.size
    se = float(np.sqrt(n_units / (n_units - 1) * np.sum(by_unit**2)) / n_tasks)
    whole = fitted.whole
    return _Compared(
        name, float(fitted.score.mean()), difference, se, int(whole.n_parameters), _notes(whole)
    )


def _notes(fit: Any) -> tuple[str, ...]:
    """Say what the starts of an iteration came to, and on which part of the runs it rests."""
    notes = []
    optima, part = getattr(fit, "optima", None), getattr(fit, "fitted_on", None)
    if optima is not None:
        notes.append(str(optima))
    if part is not None and part.n_runs < part.n_runs_given:
        notes.append(f"fitted on {part}")
    return tuple(notes)


def _is_near(row: _Compared) -> bool:
    if row.difference is None or row.se is None:
        return False
    times = _OVERLAP if row.name == "homogeneous" else 1.0
    return row.difference + times * row.se >= 0.0


def _simplicity(name: str, row: _Compared) -> tuple[bool, int, tuple[int, int]]:
    """Order by number of parameters, the homogeneous chain before all, ties by kind."""
    return (name != "homogeneous", row.n_parameters or 0, place_of(name))


def _row(row: _Compared, *, chosen: bool, baseline: bool) -> CandidateScore:
    return CandidateScore(
        name=row.name,
        log_score=row.log_score,
        difference=row.difference,
        se_difference=row.se,
        n_parameters=row.n_parameters,
        chosen=chosen,
        baseline=baseline,
        notes=row.notes,
    )
