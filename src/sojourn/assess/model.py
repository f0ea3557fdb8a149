"""Fit a model once: states, process, refits to resampled tasks, certificate; then follow runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

import sojourn
from sojourn._validation import check_positive_int, generator
from sojourn.assess.certify import certify
from sojourn.assess.climb import climb
from sojourn.assess.forecast import forecast_claim, measured_skill
from sojourn.assess.model_file import FittedModel
from sojourn.corpus import Policy, StepTypes, TraceCorpus, resolve
from sojourn.corpus.columns import step_key
from sojourn.errors import NothingUsableError, StateTableError
from sojourn.estimates import Claim
from sojourn.process.base import TraceProcess
from sojourn.process.candidates import fit_candidate
from sojourn.process.choice import choose_process
from sojourn.process.draws import refitted_draws
from sojourn.process.forecast import ForecastTables, Monitor, forecast_tables
from sojourn.records import Step
from sojourn.sequences import StateSequences
from sojourn.states.model import StateModel, fit_states
from sojourn.states.rule import ClusterRule

__all__ = ["StepReader", "fit_model", "model_tables", "monitor_of"]

Rng = np.random.Generator | np.random.SeedSequence | int | None


def fit_model(
    corpus: TraceCorpus,
    *,
    process: str = "homogeneous",
    policy: Policy | None = None,
    table: Mapping[str, str] | None = None,
    mode: str = "auto",
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
        ``homogeneous``, ``progress``, ``order-K``, ``semi-markov``, ``phases-N``, ``mixture-N``,
        or ``auto``: chosen by cross-validation over tasks.
    policy : Policy, optional
        How limits and faults count.
    table : mapping of str to str, optional
        A user's states: step name to state, ``*`` for all others.
    mode : {"auto", "names", "clusters"}
        How states are made without a table.
    n_draws : int
        Refits to resampled tasks, which intervals are made of.
    certificate : bool
        Whether to certify the process as an assessment does; some ten seconds for others than
        the homogeneous chain.
    group : mapping, optional
        Which runs these are, for the record.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Raises
    ------
    NothingUsableError
        If no run that counts has a step.
    """
    check_positive_int(n_draws, name="n_draws")
    policy = Policy() if policy is None else policy
    for_choice, for_fit, for_draws, for_claims = generator(rng).spawn(4)
    resolved = resolve(corpus, policy)
    states = fit_states(corpus, runs=resolved, table=table, mode=mode)
    sequences = states.transform(corpus, resolved)
    if sequences.n_runs == 0 or sequences.states.size == 0:
        raise NothingUsableError("no run that counts has a step; there is nothing to fit")
    if process == "auto":
        process = choose_process(sequences, rng=for_choice).chosen
    fit = fit_candidate(process, sequences, rng=for_fit)
    claims = None
    if certificate:
        claims = _claims(sequences, fit, approximate=not states.order_free, rng=for_claims)
    types = corpus.step_types
    used = np.unique(types.name[np.unique(corpus.steps)])
    return FittedModel(
        process=fit,
        states=states,
        draws=refitted_draws(fit, sequences, n_draws, rng=for_draws),
        horizon=max(int(sequences.lengths.max()), 1),
        trained_on={
            "n_runs": sequences.n_runs,
            "n_tasks": sequences.n_tasks,
            "n_units": int(np.unique(sequences.unit).size),
            "digest": _digest(sequences),
        },
        group={} if group is None else dict(group),
        policy=policy.to_dict(),
        certificate=claims,
        step_names=frozenset(types.names[i] for i in used),
        versions={"sojourn": sojourn.__version__, "numpy": version("numpy")},
    )


def _claims(
    sequences: StateSequences, fit: TraceProcess, *, approximate: bool, rng: np.random.Generator
) -> list[Mapping[str, Any]] | None:
    """Certify a process as an assessment does, or return None where it cannot be."""
    for_tests, for_skill = rng.spawn(2)
    found: tuple[Claim, ...] = ()
    if fit.name == "homogeneous":
        found = certify(sequences, approximate=approximate, rng=for_tests).claims
    else:
        looked = climb(sequences, name=fit.name, approximate=approximate, rng=for_tests).found
        found = () if looked is None else looked.claims
    order = next((claim for claim in found if claim.claim == "order"), None)
    if order is None:
        return None
    skill = forecast_claim(order, *measured_skill(sequences, fit, rng=for_skill))
    return [claim.to_dict() for claim in (*found, skill)]


def model_tables(model: FittedModel) -> ForecastTables:
    """Compute the forecasts of a model for every state and step, with those of its refits."""
    return forecast_tables(
        model.process, horizon=model.horizon, draws=model.draws, n_units=model.n_units
    )


def monitor_of(
    model: FittedModel, *, tables: ForecastTables | None = None, ci_prob: float = 0.95
) -> Monitor:
    """Return a monitor that is fed the steps of a run.

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
        model_tables(model) if tables is None else tables, state_of=reader, ci_prob=ci_prob
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

    def __call__(self, step: Step) -> tuple[int | None, bool]:
        """Return the state of the run's next step, None for none, and whether it was known."""
        self._steps.append(step)
        known = not self._names or step.name in self._names
        rule = self._states.clusters
        if rule is None or rule.description.order_free:
            types = StepTypes.from_keys([step_key(step)])
            try:
                return int(self._states.states_of(types)[0, 0]), known
            except StateTableError:
                return None, False
        return _last_state(rule, self._steps), known


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
