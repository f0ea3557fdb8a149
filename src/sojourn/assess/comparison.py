"""Comparing sets of runs: from two corpora to what may be said of the one against the other.

Reads as a method section does: apply the policy to both, find the tasks that they share, compare
rates and repeated attempts task by task, test that they do equally well at every task, compare
their curves and the steps they take, and answer: better, worse, equivalent within a margin, or
inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._threads import plain_blas
from sojourn._validation import check_fraction
from sojourn.assess.certify import MIN_UNITS, only_runs
from sojourn.assess.comparison_results import (
    Answer,
    ComparedRow,
    Comparison,
    ComparisonFamily,
    Flip,
)
from sojourn.assess.traces import seeded, why_unusable
from sojourn.attempts import TaskCounts
from sojourn.attempts.differences import (
    PairedCounts,
    exact_paired_p,
    pass_difference,
    permuted_p,
    probability_better,
    rate_difference,
    smallest_visible,
    task_flips,
)
from sojourn.corpus import Policy, ResolvedRuns, TraceCorpus, resolve
from sojourn.errors import NothingUsableError
from sojourn.estimates import Estimate, Status
from sojourn.process.difference import (
    CurveDifference,
    RunEnds,
    TransitionChange,
    curve_difference,
    transition_changes,
)
from sojourn.sequences import StateSequences
from sojourn.states.model import fit_states
from sojourn.stats import holm
from sojourn.tables import n_of

__all__ = ["compare_many", "compare_traces"]

_MAX_K = 4
# With fewer shared tasks than this share of the smaller set, the two are not paired.
_ENOUGH_SHARED = 0.5
_CURVE_STEPS = 5
_HALVINGS = 20
_MAX_CHANGES = 10
Rng = np.random.Generator | np.random.SeedSequence | int | None
Ints = npt.NDArray[np.int64]


class _Arm(NamedTuple):
    """One set: its runs that count, and the number of each run's task in a common numbering."""

    name: str
    corpus: TraceCorpus
    runs: ResolvedRuns
    task: Ints
    unit: Ints


class _Decision(NamedTuple):
    """What decides a comparison: the difference of the success rate, at any probability."""

    a: TaskCounts
    b: TaskCounts
    estimand: str
    paired: bool
    margin: float

    def at(self, ci_prob: float) -> Estimate:
        """Return the difference with an interval of this probability."""
        return rate_difference(
            self.a, self.b, estimand=self.estimand, paired=self.paired, ci_prob=ci_prob
        )

    def p_value(self) -> float:
        """Return the smallest error at which the interval still excludes 0, by halving."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if _answer(self.at(1.0 - middle), 0.0) is Answer.INCONCLUSIVE:
                low = middle
            else:
                high = middle
        return high


class _Match(NamedTuple):
    """Both sets over common task numbers, and how many tasks were shared and left out."""

    a: _Arm
    b: _Arm
    labels: tuple[str, ...]
    paired: bool
    n_shared: int
    n_only_a: int
    n_only_b: int
    notes: tuple[str, ...]


@plain_blas()
def compare_many(
    arms: Mapping[str, TraceCorpus],
    *,
    baseline: str | None = None,
    policy: Policy | None = None,
    by_id: bool = False,
    margin: float = 0.02,
    ci_prob: float = 0.95,
    n_resamples: int = 999,
    rng: Rng = None,
) -> ComparisonFamily:
    """Compare several sets of runs with one of them.

    Parameters
    ----------
    arms : mapping of str to TraceCorpus
        At least two sets, by name.
    baseline : str, optional
        The name of the set that the others are compared with; the first by default.
    policy : Policy, optional
        How limits and faults are counted.
    by_id : bool
        Whether equal ids are the same task whatever their task sets are called.
    margin : float
        Differences of the success rate under it are of no matter.
    ci_prob : float
        Probability of the intervals.
    n_resamples : int
        Bootstrap replicates of curves and transitions.
    rng : Generator, SeedSequence, int or None
        Source of the random draws; each comparison draws anew from the same seed.

    Returns
    -------
    ComparisonFamily
        One comparison a set other than the baseline. Of several, answers and p-values are adjusted
        by Holm: that any set is wrongly called better or worse has a probability of at most
        1 - `ci_prob`. The intervals shown are of `ci_prob` each.

    Raises
    ------
    ValueError
        If there are fewer than two sets or none is the baseline.
    NothingUsableError
        If no run of a set counts.
    """
    names = list(arms)
    if len(names) < 2:
        raise ValueError(f"a comparison needs two sets of runs; there is {len(names)}")
    base = names[0] if baseline is None else baseline
    if base not in arms:
        raise ValueError(f"no set is called {base!r}; there are {', '.join(names)}")
    found = [
        _compare(
            arms[base],
            arms[name],
            names=(base, name),
            policy=policy,
            by_id=by_id,
            margin=margin,
            ci_prob=ci_prob,
            n_resamples=n_resamples,
            rng=rng,
        )
        for name in names
        if name != base
    ]
    return ComparisonFamily(_adjusted(found, ci_prob))


def _adjusted(
    found: Sequence[tuple[Comparison, _Decision]], ci_prob: float
) -> tuple[Comparison, ...]:
    """Return comparisons with answers and p-values that hold for all of them together (Holm).

    Better and worse need both: intervals that exclude 0 and exact tests that reject.
    """
    if len(found) == 1:
        return (found[0][0],)
    error = 1.0 - ci_prob
    p_values = holm([comparison.p_value for comparison, _ in found])
    decided = holm([decision.p_value() for _, decision in found])
    adjusted = []
    for (comparison, decision), p, q in zip(found, p_values, decided, strict=True):
        each = decision.at(1.0 - error / len(found))
        answer = comparison.answer
        if answer in (Answer.BETTER, Answer.WORSE) and max(p, q) > error:
            answer = Answer.INCONCLUSIVE
        if answer is Answer.EQUIVALENT:
            answer = _answer(each, decision.margin)
        held = answer is comparison.answer
        told = f"{answer} with all {len(found)} comparisons in view, {comparison.answer} by itself"
        adjusted.append(
            replace(
                comparison,
                answer=answer,
                adjusted_p=float(p),
                smallest_visible=smallest_visible(each),
                notes=comparison.notes if held else (*comparison.notes, told),
            )
        )
    return tuple(adjusted)


@plain_blas()
def compare_traces(
    a: TraceCorpus,
    b: TraceCorpus,
    *,
    names: tuple[str, str] = ("A", "B"),
    policy: Policy | None = None,
    by_id: bool = False,
    margin: float = 0.02,
    ci_prob: float = 0.95,
    n_resamples: int = 999,
    rng: Rng = None,
) -> Comparison:
    """Compare two sets of runs, paired by task where they share tasks.

    Parameters
    ----------
    a, b : TraceCorpus
        The two sets; all runs of a set are taken together.
    names : (str, str)
        What they are called.
    policy, by_id, margin, ci_prob, n_resamples, rng
        As for `compare_many`.

    Returns
    -------
    Comparison

    Raises
    ------
    NothingUsableError
        If no run of a set counts.

    Notes
    -----
    Tasks are shared by (task_set, task_id), or with `by_id` by task_id alone. Where at least half
    of the smaller set's tasks are shared, only these are compared, each with itself; else all
    tasks are, as two samples.
    """
    return _compare(
        a,
        b,
        names=names,
        policy=policy,
        by_id=by_id,
        margin=margin,
        ci_prob=ci_prob,
        n_resamples=n_resamples,
        rng=rng,
    )[0]


def _compare(
    a: TraceCorpus,
    b: TraceCorpus,
    *,
    names: tuple[str, str],
    policy: Policy | None,
    by_id: bool,
    margin: float,
    ci_prob: float,
    n_resamples: int,
    rng: Rng,
) -> tuple[Comparison, _Decision]:
    """Return a comparison and what decided it."""
    check_fraction(margin, name="margin")
    check_fraction(ci_prob, name="ci_prob")
    counted = [resolve(corpus, policy) for corpus in (a, b)]
    for name, runs in zip(names, counted, strict=True):
        if not runs.n_runs:
            raise NothingUsableError(f"{name}: {why_unusable(runs)}")
    generator, seed = seeded(rng)
    draws = generator.spawn(4)
    match = _match(names, (a, b), (counted[0], counted[1]), by_id=by_id)
    one, two = (_counts(arm) for arm in (match.a, match.b))
    few = min(one.n_units, two.n_units) < MIN_UNITS
    rows = list(_attempt_rows(one, two, paired=match.paired, ci_prob=ci_prob))
    if few:
        rows = [_doubted(row, min(one.n_units, two.n_units)) for row in rows]
    curves = _curves(match, ci_prob, n_resamples, draws[0])
    if curves is not None:
        rows += _curve_rows(curves)
    again = rows[0].same_tasks
    same = match.paired and again is not None and again.value is not None
    decided = again if same and again is not None else rows[0].population
    same_runs = match.paired and np.array_equal(one.successes, two.successes)
    same_runs &= np.array_equal(one.attempts, two.attempts)
    p = (
        exact_paired_p(PairedCounts(a=one, b=two))
        if match.paired
        else permuted_p(one, two, rng=draws[1])
    )
    estimand = "same_tasks" if same else "population"
    comparison = Comparison(
        name_a=names[0],
        name_b=names[1],
        answer=Answer.INCONCLUSIVE if few else _answer(decided, margin),
        estimand=estimand,
        margin=margin,
        paired=match.paired,
        n_shared=match.n_shared,
        n_only_a=match.n_only_a,
        n_only_b=match.n_only_b,
        n_runs_a=one.n_runs,
        n_runs_b=two.n_runs,
        rows=tuple(rows),
        p_value=p,
        adjusted_p=p,
        test=_test_name(one, two, paired=match.paired),
        chance_better=probability_better(one, two, paired=match.paired, rng=draws[2]),
        smallest_visible=smallest_visible(decided),
        flips=_flips(match, one, two),
        curves=curves,
        transitions=_transitions(match, ci_prob, draws[3]),
        notes=(
            *match.notes,
            *(("the two sets hold the same outcomes at every task",) if same_runs else ()),
            *((f"fewer than {MIN_UNITS} tasks or clusters: nothing is decided",) if few else ()),
        ),
        seed=seed,
        ci_prob=ci_prob,
    )
    return comparison, _Decision(one, two, estimand, match.paired, margin)


def _doubted(row: ComparedRow, n_units: int) -> ComparedRow:
    """Return a row that few tasks do not support: the interval for others like them is a guess."""
    few = f"{n_units} of the {MIN_UNITS} tasks or clusters that are needed"
    return replace(row, population=row.population.doubted(few))


def _answer(difference: Estimate, margin: float) -> Answer:
    interval = difference.interval
    if interval is None or difference.status is Status.WITHHELD:
        return Answer.INCONCLUSIVE
    if -margin <= interval.low and interval.high <= margin:
        return Answer.EQUIVALENT
    if interval.low > 0.0:
        return Answer.BETTER
    return Answer.WORSE if interval.high < 0.0 else Answer.INCONCLUSIVE


def _test_name(one: TaskCounts, two: TaskCounts, *, paired: bool) -> str:
    if not paired:
        return "tasks exchanged between the two sets"
    if one.max_attempts == two.max_attempts == 1:
        return "McNemar's exact test"
    return "exact test over attempts inside tasks"


def _match(
    names: tuple[str, str],
    corpora: tuple[TraceCorpus, TraceCorpus],
    runs: tuple[ResolvedRuns, ResolvedRuns],
    *,
    by_id: bool,
) -> _Match:
    """Give the tasks of both sets common numbers; where pairs are made, leave out the others."""
    notes: list[str] = []
    keys = [_keys(corpus, found) for corpus, found in zip(corpora, runs, strict=True)]
    if by_id:
        keys = [[("", task) for _, task in own] for own in keys]
        notes.append("tasks are matched by their ids alone")
    elif not set(keys[0]) & set(keys[1]) and {t for _, t in keys[0]} & {t for _, t in keys[1]}:
        notes.append(
            "no task is shared, for the task sets differ, though ids are: if equal ids are the "
            "same task, match by ids alone (--match-ids, by_id=True)"
        )
    shared = set(keys[0]) & set(keys[1])
    smaller = min(len(set(own)) for own in keys)
    paired = len(shared) >= max(2, _ENOUGH_SHARED * smaller)
    n_only = [len(set(own) - shared) for own in keys]
    if paired and any(n_only):
        notes.append(f"left out: {n_of(sum(n_only), 'task')} that only one of the two has")
    if not paired:
        notes.append(
            f"shared: {n_of(len(shared), 'task')}, too few to compare task by task, so the two are "
            "compared as samples of different tasks"
        )
    if by_id and any(len(set(own)) < len(own) for own in keys):
        raise ValueError("a set holds several tasks of one id: they cannot be matched by ids alone")
    order = {key: number for number, key in enumerate(dict.fromkeys((*keys[0], *keys[1])))}
    arms = []
    cluster_of: dict[int, int] = {}
    for which, (name, corpus, found) in enumerate(zip(names, corpora, runs, strict=True)):
        number = np.array([order[key] for key in keys[which]], dtype=np.int64)
        keep = np.ones(found.n_runs, dtype=bool)
        if paired:
            keep = np.array([key in shared for key in keys[which]])[found.task]
        task = number[found.task]
        # A task's cluster is that of the first set, so that a unit is the same in both.
        for t, u in zip(task.tolist(), found.unit.tolist(), strict=True):
            cluster_of.setdefault(t, u + which * len(order))
        if not paired:
            cluster = found.unit.astype(np.int64)
        else:
            cluster = np.array([cluster_of[t] for t in task.tolist()], dtype=np.int64)
        arms.append(_Arm(name, corpus, only_runs(found, keep), task[keep], cluster[keep]))
    several = len({task_set for task_set, _ in order}) > 1
    labels = tuple(f"{task_set} / {task}" if several else task for task_set, task in order)
    return _Match(arms[0], arms[1], labels, paired, len(shared), n_only[0], n_only[1], tuple(notes))


def _keys(corpus: TraceCorpus, runs: ResolvedRuns) -> list[tuple[str, str]]:
    table = corpus.tasks
    return [
        (table.task_set[int(row)] or "", table.task_id[int(row)]) for row in runs.task_row.tolist()
    ]


def _counts(arm: _Arm) -> TaskCounts:
    return TaskCounts.from_runs(arm.runs.success, arm.task, arm.unit)


def _attempt_rows(
    one: TaskCounts, two: TaskCounts, *, paired: bool, ci_prob: float
) -> Iterator[ComparedRow]:
    def both(estimand: str, k: int | None, *, any_: bool = False) -> Estimate:
        if k is None:
            return rate_difference(one, two, estimand=estimand, paired=paired, ci_prob=ci_prob)
        return pass_difference(
            one, two, k, at_least_one=any_, estimand=estimand, paired=paired, ci_prob=ci_prob
        )

    yield ComparedRow(
        name="success rate",
        a=one.rate,
        b=two.rate,
        population=both("population", None),
        same_tasks=both("same_tasks", None) if paired else None,
    )
    for any_, sign in ((False, "^"), (True, "@")):
        for k in range(1, min(one.max_attempts, two.max_attempts, _MAX_K) + 1):
            if k == 1 and (any_ or one.max_attempts == 1):
                continue
            values = [_pass_value(counts, k, any_=any_) for counts in (one, two)]
            yield ComparedRow(
                name=f"pass{sign}{k}",
                a=values[0],
                b=values[1],
                population=both("population", k, any_=any_),
                same_tasks=both("same_tasks", k, any_=any_) if paired else None,
            )


def _pass_value(counts: TaskCounts, k: int, *, any_: bool) -> float | None:
    from sojourn.attempts import pass_at, pass_hat

    return (pass_at if any_ else pass_hat)(counts, k, rng=0).value


def _curves(
    match: _Match, ci_prob: float, n_resamples: int, rng: np.random.Generator
) -> CurveDifference | None:
    ends = []
    for arm in (match.a, match.b):
        known = arm.runs.duration >= 0
        if not known.any():
            return None
        ends.append(
            RunEnds(
                arm.runs.duration[known].astype(np.int64), arm.runs.event[known], arm.unit[known]
            )
        )
    return curve_difference(
        ends[0], ends[1], paired=match.paired, ci_prob=ci_prob, n_resamples=n_resamples, rng=rng
    )


def _curve_rows(curves: CurveDifference) -> Iterator[ComparedRow]:
    steps = np.unique(np.linspace(1, curves.horizon, _CURVE_STEPS).astype(int)).tolist()
    for d in steps if curves.horizon else []:
        yield ComparedRow(
            name=f"success within {d}",
            a=float(curves.a[0, d]),
            b=float(curves.b[0, d]),
            population=curves.at(d),
        )
    means = [float(curves.horizon - x[:, : curves.horizon].sum()) for x in (curves.a, curves.b)]
    yield ComparedRow(
        name=f"mean steps, up to {curves.horizon}",
        a=means[0],
        b=means[1],
        population=curves.mean_steps,
    )


def _flips(match: _Match, one: TaskCounts, two: TaskCounts) -> tuple[Flip, ...]:
    if not match.paired:
        return ()
    tasks = np.unique(match.a.task)
    return tuple(
        Flip(
            task=match.labels[int(tasks[flip.task])],
            successes_a=flip.successes_a,
            attempts_a=flip.attempts_a,
            successes_b=flip.successes_b,
            attempts_b=flip.attempts_b,
        )
        for flip in task_flips(PairedCounts(a=one, b=two))
    )


def _transitions(
    match: _Match, ci_prob: float, rng: np.random.Generator
) -> tuple[TransitionChange, ...]:
    """Compare the transitions between named steps; nothing where a set has none."""
    found = []
    for arm in (match.a, match.b):
        if not np.diff(arm.corpus.offsets)[arm.runs.index].any():
            return ()
        states = fit_states(arm.corpus, runs=arm.runs, mode="names", min_share=0.0, max_names=40)
        found.append(_with_units(states.transform(arm.corpus, arm.runs), arm))
    names = tuple(dict.fromkeys((*found[0].state_names, *found[1].state_names)))
    sequences = [_renamed(x, names) for x in found]
    changes = transition_changes(
        sequences[0], sequences[1], paired=match.paired, ci_prob=ci_prob, rng=rng
    )
    return changes[:_MAX_CHANGES]


def _with_units(sequences: StateSequences, arm: _Arm) -> StateSequences:
    """Return the sequences with the common unit numbers; they hold runs with logged steps only."""
    number = {int(own): int(u) for own, u in zip(arm.runs.unit, arm.unit, strict=True)}
    unit = np.array([number[int(u)] for u in sequences.unit], dtype=np.int32)
    return StateSequences(
        states=sequences.states,
        offsets=sequences.offsets,
        event=sequences.event,
        task=sequences.task,
        unit=unit,
        state_names=sequences.state_names,
    )


def _renamed(sequences: StateSequences, names: tuple[str, ...]) -> StateSequences:
    place = np.array([names.index(name) for name in sequences.state_names], dtype=np.int32)
    return StateSequences(
        states=place[sequences.states],
        offsets=sequences.offsets,
        event=sequences.event,
        task=sequences.task,
        unit=sequences.unit,
        state_names=names,
    )
