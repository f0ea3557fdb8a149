"""Fit a model once: states, process, refits to resampled tasks, certificate; then follow runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

import sojourn
from sojourn._threads import plain_blas
from sojourn._validation import check_positive_int
from sojourn.assess.certified import ChainSettings, ChainStreams, certified, part_to_forecast
from sojourn.assess.certify import MIN_UNITS
from sojourn.assess.forecast import forecast_claim, measured_skill
from sojourn.assess.model_file import FittedModel
from sojourn.assess.state_making import MadeStates, StateSettings
from sojourn.assess.traces import chain_generator
from sojourn.attempts import TaskCounts, icc
from sojourn.corpus import Policy, ResolvedRuns, StepTypes, TraceCorpus, resolve
from sojourn.corpus.columns import step_key
from sojourn.errors import NothingUsableError, StateTableError
from sojourn.process.base import TraceProcess
from sojourn.process.candidates import check_candidate, fit_candidate
from sojourn.process.choice import choose_process
from sojourn.process.draws import UNFITTED, refitted_draws
from sojourn.process.forecast import ForecastTables, Monitor, forecast_tables
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.records import Step
from sojourn.sequences import StateSequences
from sojourn.states.model import StateModel
from sojourn.states.rule import ClusterRule
from sojourn.tables import clean

__all__ = ["StepReader", "fit_model", "model_tables", "monitor_of"]

Rng = np.random.Generator | np.random.SeedSequence | int | None
_MIXED = "states look at the steps before: feed a run's steps or its states' names, not both"


@plain_blas()
def fit_model(
    corpus: TraceCorpus,
    *,
    process: str = "auto",
    policy: Policy | None = None,
    states: StateSettings | None = None,
    n_draws: int = 199,
    certificate: bool = True,
    group: Mapping[str, Any] | None = None,
    rng: Rng = None,
) -> FittedModel:
    """Fit a process to the runs of a corpus, with all that forecasts and what-ifs need of it.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs, of one group.
    process : str
        ``auto``: what `assess_traces` speaks of for the same runs and seed. Else
        ``homogeneous``, ``progress``, ``order-K``, ``semi-markov``, ``phases-N`` or ``mixture-N``.
    policy : Policy, optional
        How limits and faults count.
    states : StateSettings, optional
        How states are made.
    n_draws : int
        Refits to resampled tasks, which intervals are made of.
    certificate : bool
        Whether to certify the process as an assessment does. Without it ``auto`` is the choice by
        the held-out score alone.
    group : mapping, optional
        Which runs these are, for the record.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Raises
    ------
    NothingUsableError
        If no run that counts has a step, or the named process cannot be fitted to these runs.
    ValueError
        If no process has this name.

    Notes
    -----
    The process that is kept is the one that was certified, not another fit of its kind. Of more
    than 20,000 runs those of tasks drawn at random make a process other than the homogeneous
    chain; ``trained_on`` counts them.
    """
    check_positive_int(n_draws, name="n_draws")
    named = None if process == "auto" else check_candidate(process)
    settings = ChainSettings(process=named, states=StateSettings() if states is None else states)
    resolved = resolve(corpus, Policy() if policy is None else policy)
    streams = ChainStreams.of(chain_generator(rng))
    made = _fitted(corpus, resolved, settings, streams, certificate=certificate)
    draws = refitted_draws(made.process, made.runs, n_draws, rng=streams.forecast.spawn(2)[1])
    types = corpus.step_types
    used = np.unique(types.name[np.unique(corpus.steps)])
    return FittedModel(
        process=made.process,
        states=made.states.model,
        draws=draws,
        horizon=max(int(made.runs.lengths.max()), 1),
        trained_on={
            "n_runs": made.runs.n_runs,
            "n_tasks": made.runs.n_tasks,
            "n_units": int(np.unique(made.runs.unit).size),
            "digest": _digest(made.runs),
            "states": settings.states.to_dict(),
            "notes": [note for note in (*made.notes, draws.note) if note is not None],
        },
        group={} if group is None else dict(group),
        policy=resolved.policy.to_dict(),
        certificate=made.claims,
        step_names=frozenset(types.names[i] for i in used),
        versions={"sojourn": sojourn.__version__, "numpy": version("numpy")},
    )


class _Made(NamedTuple):
    """A process with the runs that it was fitted to, and what is claimed of it."""

    process: TraceProcess
    runs: StateSequences
    states: MadeStates
    claims: list[Mapping[str, Any]] | None
    notes: tuple[str, ...]


def _fitted(
    corpus: TraceCorpus,
    resolved: ResolvedRuns,
    settings: ChainSettings,
    streams: ChainStreams,
    *,
    certificate: bool,
) -> _Made:
    """Make states, fit a process to them, and certify it, as an assessment does."""
    states = settings.states.make(corpus, resolved, rng=streams.states)
    sequences = states.model.transform(corpus, resolved)
    if sequences.n_runs == 0 or sequences.states.size == 0:
        raise NothingUsableError("no run that counts has a step; there is nothing to fit")
    fit = fit_homogeneous(sequences)
    if not certificate:
        return _uncertified(fit, sequences, states, settings.process, streams.climb)
    counts = TaskCounts.from_runs(resolved.success, resolved.task, resolved.unit)
    made = certified(
        corpus,
        resolved,
        states.model,
        sequences,
        fit,
        settings=settings,
        note=states.note,
        icc=icc(counts).value,
        streams=streams,
    )
    found = made.found
    notes = made.certificate.notes + (() if made.climb is None else made.climb.notes)
    if found is None and settings.process not in (None, fit.name):
        raise NothingUsableError(f"the process could not be certified: {'; '.join(notes)}")
    process: TraceProcess = fit if found is None else found.process
    claims = made.certificate.claims if found is None else found.claims
    part, more = part_to_forecast(sequences, found, streams.part)
    skill, missing = measured_skill(part, process, rng=streams.forecast.spawn(1)[0])
    foretells = forecast_claim(made.order, skill, missing)
    foretells = replace(foretells, reasons=(*foretells.reasons, *more))
    return _Made(
        process,
        sequences if found is None else found.runs,
        states,
        [claim.to_dict() for claim in (*claims, foretells)],
        notes + (() if found is None else found.notes),
    )


def _uncertified(
    fit: HomogeneousFit,
    sequences: StateSequences,
    states: MadeStates,
    name: str | None,
    rng: np.random.Generator,
) -> _Made:
    """Fit the named process, or the one of the best held-out score, without any claim."""
    notes = () if states.note is None else (states.note,)
    process: TraceProcess = fit
    n_units = int(np.unique(sequences.unit).size)
    try:
        if name is None and n_units >= MIN_UNITS:
            process = choose_process(sequences, rng=rng).process
        elif name not in (None, fit.name):
            process = fit_candidate(str(name), sequences, rng=rng)
    except UNFITTED as error:
        raise NothingUsableError(f"{name} could not be fitted to these runs: {error}") from None
    return _Made(process, sequences, states, None, notes)


def model_tables(model: FittedModel) -> ForecastTables:
    """Compute the forecasts of a model for every state and step, with those of its refits."""
    return forecast_tables(
        model.process, horizon=model.horizon, draws=model.draws, n_units=model.n_units
    )


def monitor_of(
    model: FittedModel, *, tables: ForecastTables | None = None, ci_prob: float = 0.95
) -> Monitor:
    """Return a monitor that is fed the steps of a run: `Step` objects, or the names of states.

    Parameters
    ----------
    model : FittedModel
        The model.
    tables : ForecastTables, optional
        Those of `model_tables`, for one who follows many runs.
    ci_prob : float
        Probability of the intervals.
    """
    reader = StepReader(model.states, model.step_names)
    return Monitor(
        model_tables(model) if tables is None else tables,
        state_of=reader,
        ci_prob=ci_prob,
        doubt=model.doubt("forecast"),
    )


class StepReader:
    """Gives the states of a run's steps, one step at a time.

    A step whose name was not seen in the fit is flagged. It goes where the rule of states sends
    such steps (the state of rare steps, the nearest cluster), or nowhere if the rule says nothing.

    Parameters
    ----------
    states : StateModel
        The rule.
    step_names : collection of str
        Names that were seen in the fit; empty if that is not known.
    """

    def __init__(self, states: StateModel, step_names: frozenset[str] = frozenset()) -> None:
        self._states = states
        self._names = step_names
        self._steps: list[Step] = []
        self._n_named = 0

    def __call__(self, step: Step | str) -> tuple[int | None, bool]:
        """Return the state of the run's next step, None for none, and whether it was known.

        Parameters
        ----------
        step : Step or str
            A step, or the name of the state that it is in.

        Raises
        ------
        TypeError
            If it is neither.
        ValueError
            If no state has that name, or steps and names are mixed where a state looks at the
            steps before it.
        """
        if isinstance(step, str):
            return self._named(step), True
        if not isinstance(step, Step):
            raise TypeError(f"feed a Step or the name of a state; got {type(step).__name__}")
        rule = self._states.clusters
        if rule is not None and not rule.description.order_free and self._n_named:
            raise ValueError(_MIXED)
        self._steps.append(step)
        known = not self._names or step.name in self._names
        if rule is None or rule.description.order_free:
            types = StepTypes.from_keys([step_key(step)])
            try:
                return int(self._states.states_of(types)[0, 0]), known
            except StateTableError:
                return None, False
        return _last_state(rule, self._steps), known

    def _named(self, name: str) -> int:
        names = tuple(self._states.state_names)
        if name not in names:
            raise ValueError(
                f"{clean(name)!r} is no state of the model ({clean(', '.join(names), limit=200)}); "
                "a step that is none of them is fed as Step(name=...)"
            )
        rule = self._states.clusters
        if rule is not None and not rule.description.order_free and self._steps:
            raise ValueError(_MIXED)
        self._n_named += 1
        return names.index(name)


def _last_state(rule: ClusterRule, steps: Sequence[Step]) -> int:
    """Apply a rule that looks at the run so far: earlier steps keep the states they had."""
    keys = [step_key(step) for step in steps]
    distinct = list(dict.fromkeys(keys))
    place = {key: code for code, key in enumerate(distinct)}
    digests = np.array([step.digest for step in steps], dtype=np.uint64)
    path = rule.path(
        StepTypes.from_keys(distinct),
        np.array([place[key] for key in keys], dtype=np.int32),
        np.array([0, len(steps)], dtype=np.int64),
        digests if digests.any() else None,
    )
    return int(path[-1])


def _digest(sequences: StateSequences) -> str:
    """Fingerprint the paths that were fitted, so that two fits can be told to be of the same."""
    digest = hashlib.sha256()
    for array in (sequences.states, sequences.offsets, sequences.event, sequences.task):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]
