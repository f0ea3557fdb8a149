"""Which features and how many states: chosen by how well whole runs are foretold.

A silhouette says how well clusters are apart, not whether they tell anything of a run. Here each
candidate makes its states of some tasks, a process is fitted to them, and both foretell the runs of
other tasks: either their ends (the step and the outcome), which is what curves rest on, or, from
their states so far, the success of runs under way, which is what forecasts rest on. What is
foretold is the same whatever the states, so scores of states of any number and kind can be
compared. The simplest candidate within one standard error of the best is taken, since more states
always cost something that the score does not show.

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
from sojourn._validation import check_choice, check_positive_int, frozen_array, generator
from sojourn.corpus import ResolvedRuns, TraceCorpus, resolve
from sojourn.errors import NothingUsableError
from sojourn.estimates import number
from sojourn.process import TraceProcess, fit_homogeneous
from sojourn.process.forecast import path_values
from sojourn.sequences import CENSORED, SUCCESS, StateSequences
from sojourn.states import FEATURE_FIELDS, HISTORY_FEATURES, StateModel, fit_states
from sojourn.states.model import runs_with_steps
from sojourn.tables import n_of, text_table

__all__ = ["StateChoice", "StateScore", "StateSpec", "choose_states", "state_specs"]

Floats = npt.NDArray[np.float64]
Fit = Callable[[StateSequences], TraceProcess]
Score = Callable[[TraceProcess, StateSequences, ResolvedRuns], Floats]


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
        Mean over held-out tasks of the log probability of the ends of their runs, or of their
        outcomes.
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
    by : {"ends", "success"}
        What was foretold.
    """

    spec: StateSpec
    model: StateModel
    process: TraceProcess
    table: tuple[StateScore, ...]
    scores: Floats = field(repr=False)
    n_folds: int
    n_tasks: int
    n_units: int
    by: str = "ends"

    def __post_init__(self) -> None:
        scores = frozen_array(self.scores, np.float64, ndim=2, name="scores")
        object.__setattr__(self, "scores", scores)

    def __str__(self) -> str:
        what = {"ends": "the ends of runs", "success": "the success of runs under way"}[self.by]
        head = (
            f"states by how well {what} are foretold: {self.spec.label} "
            f"({n_of(self.n_folds, 'fold')}, {n_of(self.n_tasks, 'task')}, "
            f"{n_of(self.n_units, 'unit')})"
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

    @property
    def note(self) -> str:
        """Say in one line what was chosen, by what, and out of how many."""
        what = {"ends": "the ends of held-out runs", "success": "the success of held-out runs"}
        best = max(self.table, key=lambda row: row.score)
        own = next(row for row in self.table if row.chosen)
        gap = "the best" if own is best else f"{-own.difference:.3f} nats a task from the best"
        return (
            f"states: {self.spec.label}, the simplest of {len(self.table)} candidates within one "
            f"standard error of the best at foretelling {what[self.by]} ({gap})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "chosen": self.spec.label,
            "by": self.by,
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
    by: str = "ends",
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
    by : {"ends", "success"}
        ``ends``: the step and outcome of whole runs, as the process's curves foretell them.
        ``success``: the outcome of runs that ended, from their states up to each quartile of the
        run lengths that they reach.
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
    is that of `TraceProcess.log_score` for ``ends``; for ``success`` the sum of log P(outcome |
    states so far) over its runs and steps, each forecast mixed with weight 1 / (n + 1) of the
    success rate of the n training runs. Tasks without a run to forecast are then left out, and a
    cut run has no outcome. Differences to the best mean score are paired by task;
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
    check_choice(by, ("ends", "success"), name="by")
    resolved = resolve(corpus) if runs is None else runs
    usable = _subset(resolved, runs_with_steps(corpus, resolved))
    folds = _folds(usable, n_folds, generator(rng))
    score: Score = _score_of_ends
    if by == "success":
        score = _ScoreOfSuccess.of(corpus, usable).score
    scores = np.stack([_held_out(corpus, usable, folds, spec, fit, score) for spec in candidates])
    unit, told = _unit_of_task(usable), ~np.isnan(scores[0])
    if np.unique(unit[told]).size < 2:
        raise NothingUsableError("fewer than two tasks have a run that ended; nothing is foretold")
    scores, unit = scores[:, told], unit[told]
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
        by=by,
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
    score: Score,
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
        scores[place] = score(process, model.transform(corpus, rest), training)
    return scores


def _score_of_ends(process: TraceProcess, rest: StateSequences, _: ResolvedRuns) -> Floats:
    """Score the ends of the runs of each task."""
    return process.log_score(rest)


class _ScoreOfSuccess(NamedTuple):
    """Scores forecasts of success from the states up to some steps; NaN for a task without any."""

    steps: tuple[int, ...]

    @classmethod
    def of(cls, corpus: TraceCorpus, runs: ResolvedRuns) -> _ScoreOfSuccess:
        """Take the quartiles of the run lengths."""
        lengths = np.diff(corpus.offsets)[runs.index]
        quartiles = np.quantile(lengths, [0.25, 0.5, 0.75], method="inverted_cdf")
        return cls(tuple(sorted({max(int(q), 1) for q in quartiles})))

    def score(self, process: TraceProcess, rest: StateSequences, training: ResolvedRuns) -> Floats:
        """Score the outcomes of the runs of each task."""
        _, place = np.unique(rest.task, return_inverse=True)
        values = path_values(process, rest, self.steps)
        n_known = np.count_nonzero(training.event != CENSORED)
        rate = (np.count_nonzero(training.event == SUCCESS) + 0.5) / (n_known + 1.0)
        weight = 1.0 / (n_known + 1.0)
        there = (rest.lengths[:, None] >= np.array(self.steps)) & (rest.event != CENSORED)[:, None]
        value = (1.0 - weight) * np.where(np.isnan(values), rate, values) + weight * rate
        won = (rest.event == SUCCESS)[:, None]
        found = np.where(there, np.log(np.where(won, value, 1.0 - value)), 0.0).sum(axis=1)
        total = np.bincount(place, weights=found)
        told = np.bincount(place, weights=there.any(axis=1)) > 0
        return np.asarray(np.where(told, total, np.nan), dtype=np.float64)


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
