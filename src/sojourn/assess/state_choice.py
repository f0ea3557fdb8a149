"""Which features and how many states: chosen by how well whole runs are foretold.

A silhouette says how well clusters are apart, not whether they tell anything of a run. Here each
candidate makes its states of some tasks, a process is fitted to them, and both foretell the ends
(the step and the outcome) of the runs of other tasks. Ends are the same whatever the states, so
scores of states of any number and kind can be compared. The simplest candidate within one standard
error of the best is taken, since more states always cost something that the score does not show.

States chosen by a score have looked at how runs end: the exact test is approximate for them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_positive_int, frozen_array, generator
from sojourn.corpus import ResolvedRuns, TraceCorpus, resolve
from sojourn.errors import NothingUsableError
from sojourn.estimates import number
from sojourn.process import TraceProcess, fit_homogeneous
from sojourn.sequences import StateSequences
from sojourn.states import FEATURE_FIELDS, HISTORY_FEATURES, StateModel, fit_states
from sojourn.states.model import runs_with_steps
from sojourn.tables import text_table

__all__ = ["StateChoice", "StateScore", "StateSpec", "choose_states", "state_specs"]

Floats = npt.NDArray[np.float64]
Fit = Callable[[StateSequences], TraceProcess]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateSpec:
    """A way to make states.

    Attributes
    ----------
    label : str
        Its name in tables.
    settings : mapping of str to object
        Arguments of `fit_states` other than the corpus and the runs.
    """

    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", dict(self.settings))
        if not self.label:
            raise ValueError("a spec of states needs a label")
        for name in ("corpus", "runs"):
            if name in self.settings:
                raise ValueError(f"{self.label}: {name} is given to choose_states, not to a spec")

    def fit(self, corpus: TraceCorpus, runs: ResolvedRuns) -> StateModel:
        """Make the states of some runs."""
        return fit_states(corpus, runs=runs, **self.settings)


def state_specs(
    *,
    n_states: Iterable[int] = (2, 3, 4, 6, 8, 12),
    fields: Sequence[Sequence[str]] = (FEATURE_FIELDS,),
    history: Sequence[Sequence[str]] = ((),),
    names: bool = True,
    baseline: bool = True,
    **settings: Any,
) -> tuple[StateSpec, ...]:
    """List candidates: every number of clusters for every choice of features.

    Parameters
    ----------
    n_states : iterable of int
        Numbers of clusters.
    fields, history : sequence of sequences of str
        Alternatives for the arguments of the same name of `fit_states`.
    names : bool
        Whether step names as states are a candidate.
    baseline : bool
        Whether one state for all steps is.
    **settings
        Other arguments of `fit_states`, for the clusters.

    Returns
    -------
    tuple of StateSpec
    """
    specs = []
    if baseline:
        specs.append(StateSpec(label="one state", settings={"table": {"*": "any step"}}))
    if names:
        specs.append(StateSpec(label="names", settings={"mode": "names"}))
    for which, so_far, m in itertools.product(fields, history, n_states):
        words = [f"{m} clusters"]
        if tuple(which) != FEATURE_FIELDS:
            words[0] += f" of {'+'.join(which) or 'nothing'}"
        if so_far:
            everything = set(so_far) == set(HISTORY_FEATURES)
            words.append("all history" if everything else f"history {'+'.join(so_far)}")
        chosen = {"mode": "clusters", "n_states": m, "fields": tuple(which)}
        chosen |= {"history": tuple(so_far), **settings}
        specs.append(StateSpec(label=", ".join(words), settings=chosen))
    return tuple(specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateScore:
    """One candidate in the table.

    Attributes
    ----------
    label : str
        The candidate.
    score : float
        Mean log probability of the ends of a held-out task's runs.
    difference : float
        Its score less that of the best candidate; 0 for the best.
    standard_error : float
        Of the difference, paired by task, over the units of resampling.
    n_states : int
        States when all runs are used.
    n_parameters : int
        Free parameters of the process when all runs are used.
    within : bool
        Whether the difference is at most one standard error.
    chosen : bool
        Whether it is the simplest of those.
    """

    label: str
    score: float
    difference: float
    standard_error: float
    n_states: int
    n_parameters: int
    within: bool
    chosen: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        row = dataclasses.asdict(self)
        return {k: number(v) if isinstance(v, float) else v for k, v in row.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateChoice:
    """The chosen states, and the table that they were chosen by.

    Attributes
    ----------
    spec : StateSpec
        The chosen candidate.
    model : StateModel
        Its states from all runs. With more than one candidate `order_free` is false: they were
        chosen by how runs end.
    process : TraceProcess
        The process fitted to them.
    table : tuple of StateScore
        All candidates, in the order given.
    scores : ndarray of shape (n_specs, n_tasks)
        Held-out score of each task.
    n_folds, n_tasks, n_units : int
        Folds, and what was scored.
    """

    spec: StateSpec
    model: StateModel
    process: TraceProcess
    table: tuple[StateScore, ...]
    scores: Floats = field(repr=False)
    n_folds: int
    n_tasks: int
    n_units: int

    def __post_init__(self) -> None:
        scores = frozen_array(self.scores, np.float64, ndim=2, name="scores")
        object.__setattr__(self, "scores", scores)

    def __str__(self) -> str:
        head = (
            f"states by held-out log score: {self.spec.label} "
            f"({self.n_folds} folds, {self.n_tasks} tasks, {self.n_units} units)"
        )
        rows = [
            (
                f"{'*' if row.chosen else ' '} {row.label}",
                str(row.n_states),
                str(row.n_parameters),
                f"{row.score:.4f}",
                f"{row.difference:+.4f}",
                f"{row.standard_error:.4f}",
            )
            for row in self.table
        ]
        names = ("candidate", "states", "parameters", "nats a task", "to the best", "se")
        return "\n".join([head, *text_table(names, rows)])

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "chosen": self.spec.label,
            "table": [row.to_dict() for row in self.table],
            "n_folds": self.n_folds,
            "n_tasks": self.n_tasks,
            "n_units": self.n_units,
        }


@plain_blas()
def choose_states(
    corpus: TraceCorpus,
    runs: ResolvedRuns | None = None,
    specs: Sequence[StateSpec] | None = None,
    *,
    fit: Fit = fit_homogeneous,
    n_folds: int = 5,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> StateChoice:
    """Choose the features and the number of states by cross-validation over tasks.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    runs : ResolvedRuns, optional
        The runs that count; by the default policy when left out. Those without steps in the log
        are left out.
    specs : sequence of StateSpec, optional
        The candidates; `state_specs` by default.
    fit : callable
        Fits a process to runs of states.
    n_folds : int
        Folds; a unit of resampling (the cluster, else the task) is never divided. At most the
        number of units.
    rng : Generator, SeedSequence, int or None
        Source of the folds.

    Returns
    -------
    StateChoice

    Raises
    ------
    NothingUsableError
        If fewer than two units have runs with steps.
    ValueError
        If there is no candidate, two have one label, or there are fewer than two folds.

    Notes
    -----
    States are made anew of the training tasks of each fold, and only they are. The score of a task
    is that of `TraceProcess.log_score`. Differences to the best mean score are paired by task;
    their standard error is that of a mean over units of unequal size,
    sqrt(U / (U - 1) sum_u (sum_{t in u} (d_t - d))^2) / T. Of the candidates within one standard
    error of the best, that with the fewest parameters is taken, the earlier one of a tie.
    """
    candidates = state_specs() if specs is None else tuple(specs)
    labels = [spec.label for spec in candidates]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError("specs must hold at least one candidate, and no label twice")
    if check_positive_int(n_folds, name="n_folds") < 2:
        raise ValueError("n_folds must be at least 2")
    resolved = resolve(corpus) if runs is None else runs
    usable = _subset(resolved, runs_with_steps(corpus, resolved))
    folds = _folds(usable, n_folds, generator(rng))
    scores = np.stack([_held_out(corpus, usable, folds, spec, fit) for spec in candidates])
    unit = _unit_of_task(usable)
    models = [spec.fit(corpus, usable) for spec in candidates]
    processes = [fit(model.transform(corpus, usable)) for model in models]
    n_parameters = [process.n_parameters for process in processes]
    ranked = _rank(scores, unit, n_parameters)
    table = tuple(
        StateScore(
            label=label,
            score=float(scores[k].mean()),
            difference=float(ranked.difference[k]),
            standard_error=float(ranked.error[k]),
            n_states=models[k].n_states,
            n_parameters=n_parameters[k],
            within=bool(ranked.within[k]),
            chosen=k == ranked.chosen,
        )
        for k, label in enumerate(labels)
    )
    model = models[ranked.chosen]
    if len(candidates) > 1:
        model = dataclasses.replace(model, order_free=False)
    return StateChoice(
        spec=candidates[ranked.chosen],
        model=model,
        process=processes[ranked.chosen],
        table=table,
        scores=scores,
        n_folds=int(folds.max()) + 1,
        n_tasks=scores.shape[1],
        n_units=int(np.unique(unit).size),
    )


def _subset(runs: ResolvedRuns, keep: npt.NDArray[np.bool_]) -> ResolvedRuns:
    """Keep some of the runs, with the numbers of their tasks and units as they are."""
    names = ("index", "success", "event", "duration", "step_limit", "task", "unit")
    return dataclasses.replace(runs, **{name: getattr(runs, name)[keep] for name in names})


def _folds(runs: ResolvedRuns, n_folds: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Fold of each run: units are shuffled and dealt out."""
    units, place = np.unique(runs.unit, return_inverse=True)
    if units.size < 2:
        raise NothingUsableError(
            f"{units.size} unit of resampling with steps; states are chosen on held-out tasks, "
            "which takes at least two"
        )
    dealt = np.arange(units.size) % min(n_folds, units.size)
    return rng.permutation(dealt)[place]


def _held_out(
    corpus: TraceCorpus,
    runs: ResolvedRuns,
    folds: npt.NDArray[np.intp],
    spec: StateSpec,
    fit: Fit,
) -> Floats:
    """Score every task by states and a process that did not see it, in order of task numbers."""
    tasks = np.unique(runs.task)
    scores = np.empty(tasks.size)
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        training, rest = _subset(runs, ~held_out), _subset(runs, held_out)
        model = spec.fit(corpus, training)
        process = fit(model.transform(corpus, training))
        place = np.searchsorted(tasks, np.unique(rest.task))
        scores[place] = process.log_score(model.transform(corpus, rest))
    return scores


def _unit_of_task(runs: ResolvedRuns) -> npt.NDArray[np.int32]:
    _, first = np.unique(runs.task, return_index=True)
    return runs.unit[first]


class _Ranked(NamedTuple):
    difference: Floats
    error: Floats
    within: npt.NDArray[np.bool_]
    chosen: int


def _rank(scores: Floats, unit: npt.NDArray[np.int32], n_parameters: Sequence[int]) -> _Ranked:
    """Compare all with the best, and take the simplest within one standard error."""
    best = int(np.argmax(scores.mean(axis=1)))
    paired = scores - scores[best]
    difference = paired.mean(axis=1)
    _, place = np.unique(unit, return_inverse=True)
    n_units, n_tasks = int(place.max()) + 1, scores.shape[1]
    sums = np.zeros((scores.shape[0], n_units))
    np.add.at(sums.T, place, (paired - difference[:, None]).T)
    error = np.sqrt(n_units / (n_units - 1.0) * (sums**2).sum(axis=1)) / n_tasks
    within = -difference <= error
    simplest = min(np.flatnonzero(within).tolist(), key=lambda k: n_parameters[k])
    return _Ranked(difference, error, within, simplest)
