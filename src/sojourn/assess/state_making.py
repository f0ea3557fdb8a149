"""How states are to be made, in a user's words: by name, by a table, by features, or by score.

One object carries the wish from the command line or a script to the states of an assessment or of
a model, so that both make the same ones. Features are named as a user would name them; which of
them look at other steps, and whether a score was looked at, decides how exact a test can be.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sojourn._validation import check_choice, check_positive_int, generator
from sojourn.assess.certify import MAX_RUNS, only_runs
from sojourn.assess.state_choice import StateChoice, StateSpec, choose_states, state_specs
from sojourn.corpus import ResolvedRuns, TraceCorpus
from sojourn.errors import NothingUsableError
from sojourn.states.embedding import Embedder, NgramEmbedder
from sojourn.states.features import FEATURE_FIELDS
from sojourn.states.history import HISTORY_FEATURES
from sojourn.states.model import StateModel, fit_states
from sojourn.tables import n_of

__all__ = ["MODES", "STATE_FEATURES", "MadeStates", "StateSettings"]

MODES = ("auto", "names", "clusters", "best-for-curves", "best-for-forecasts")
STATE_FEATURES = (*FEATURE_FIELDS, *HISTORY_FEATURES, "history", "similar_names")
"""What clusters may go by; ``history`` is all features of the run so far."""

_CHOSEN_BY = {"best-for-curves": "ends", "best-for-forecasts": "success"}
_NUMBERS = (2, 3, 4, 6, 8, 12)
_MAX_STATES = 1000


class MadeStates(NamedTuple):
    """States, the table that they were chosen by where they were, and what to say of that."""

    model: StateModel
    choice: StateChoice | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateSettings:
    """How the states of an assessment or a model are made.

    Attributes
    ----------
    table : mapping of str to str, or None
        A user's states: step name to state, ``*`` for all others; it replaces the rest.
    mode : {"auto", "names", "clusters", "best-for-curves", "best-for-forecasts"}
        ``auto``: step names, or clusters where more than 12 names are frequent or features are
        given. The best are chosen among one state, names, and clusters of several numbers by the
        step, by the run so far, and by both: those that foretell the ends of whole runs
        (``best-for-curves``) or the success of runs under way (``best-for-forecasts``) on held-out
        tasks, the simplest within one standard error of the best.
    features : tuple of str
        What clusters go by, of `STATE_FEATURES`; by default the step's own fields.
        ``similar_names`` brings names together that are spelt alike.
    n_states : int or None
        Number of clusters; None: by silhouette, or several in a choice.
    embedder : Embedder or None
        What turns names into vectors in the place of spelling.
    cache : path-like or None
        A folder where vectors are kept.

    Raises
    ------
    ValueError
        If a word is unknown, or one setting contradicts another.
    """

    table: Mapping[str, str] | None = None
    mode: str = "auto"
    features: tuple[str, ...] = ()
    n_states: int | None = None
    embedder: Embedder | None = None
    cache: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        check_choice(self.mode, MODES, name="mode")
        for word in self.features:
            check_choice(word, STATE_FEATURES, name="features")
        if self.n_states is not None:
            check_positive_int(self.n_states, name="n_states")
            if self.n_states > _MAX_STATES:
                raise ValueError(f"n_states must be at most {_MAX_STATES}; got {self.n_states}")
        clusters = self.features or self.n_states is not None or self.embedder is not None
        if clusters and (self.table is not None or self.mode == "names"):
            raise ValueError(
                "features, a number of states and an encoder describe clusters: they do not go "
                "with names or a table of states"
            )
        if self.table is not None and self.mode != "auto":
            raise ValueError("a table names the states itself; it goes with no other way")

    def make(
        self,
        corpus: TraceCorpus,
        runs: ResolvedRuns,
        *,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    ) -> MadeStates:
        """Make the states of some runs; `rng` deals the folds of a choice and is else not used.

        Where there are too few tasks to choose on, states are made as by ``auto``, and it is said.

        Raises
        ------
        NothingUsableError
            If no run that counts has a step.
        """
        if self.mode not in _CHOSEN_BY:
            return MadeStates(self._made(corpus, runs, self.mode))
        for_part, for_folds = generator(rng).spawn(2)
        part, told = _part_of(runs, for_part)
        by = _CHOSEN_BY[self.mode]
        try:
            choice = choose_states(corpus, part, self.specs(), by=by, rng=for_folds)
        except NothingUsableError as error:
            model = self._made(corpus, runs, "auto")
            return MadeStates(model, note=f"states could not be chosen: {error}")
        model = choice.model
        if part is not runs:
            model = replace(choice.spec.fit(corpus, runs), order_free=False)
        return MadeStates(model, choice, choice.note + told)

    def _made(self, corpus: TraceCorpus, runs: ResolvedRuns, mode: str) -> StateModel:
        clusters = bool(self.features) or self.n_states is not None or self.embedder is not None
        if mode == "auto" and clusters:
            mode = "clusters"
        return fit_states(
            corpus,
            runs=runs,
            table=self.table,
            mode=mode,
            n_states=self.n_states,
            **(self._features(self._history) if mode == "clusters" else {}),
        )

    def specs(self) -> tuple[StateSpec, ...]:
        """Return the candidates of a choice."""
        numbers = _NUMBERS if self.n_states is None else (self.n_states,)
        given = self._features(())
        fields, _ = given.pop("fields"), given.pop("history")
        # Without any wish, all that is known of the run so far.
        so_far = self._history or (() if self.features else HISTORY_FEATURES)
        plain = state_specs(n_states=numbers, fields=(fields,), **given)
        if not so_far:
            return plain
        both = ("by the step", fields), ("by the run so far", ())
        return plain + tuple(
            StateSpec(
                label=f"{m} clusters {words}" + (" and the run so far" if which else ""),
                settings={"mode": "clusters", "n_states": m, "fields": which, "history": so_far}
                | (given if which else {}),
            )
            for words, which in both
            for m in numbers
        )

    @property
    def _history(self) -> tuple[str, ...]:
        if "history" in self.features:
            return HISTORY_FEATURES
        return tuple(name for name in HISTORY_FEATURES if name in self.features)

    def _features(self, history: tuple[str, ...]) -> dict[str, Any]:
        """Return the arguments of `fit_states` that say what clusters go by."""
        fields = tuple(name for name in FEATURE_FIELDS if name in self.features)
        embedder = self.embedder
        if embedder is None and "similar_names" in self.features:
            embedder = NgramEmbedder()
        if not fields:
            fields = FEATURE_FIELDS
        elif embedder is not None and "name" not in fields:
            fields = (*fields, "name")
        return {"fields": fields, "history": history, "embedder": embedder, "cache": self.cache}

    def to_dict(self) -> dict[str, Any]:
        """Return the wish as plain values, for the record."""
        return {
            "mode": "table" if self.table is not None else self.mode,
            "features": list(self.features),
            "n_states": self.n_states,
            "embedder": None if self.embedder is None else self.embedder.name,
        }


def _part_of(runs: ResolvedRuns, rng: np.random.Generator) -> tuple[ResolvedRuns, str]:
    """Return the runs to choose on: all, or of very many those of random tasks, which is said."""
    if runs.n_runs <= MAX_RUNS:
        return runs, ""
    units, place = np.unique(runs.unit, return_inverse=True)
    order = rng.permutation(units.size)
    rank = np.empty(units.size, dtype=np.int64)
    rank[order] = np.arange(units.size)
    sizes = np.bincount(rank[place])
    n_units = max(2, int(np.count_nonzero(np.cumsum(sizes) <= MAX_RUNS)))
    part = only_runs(runs, rank[place] < n_units)
    drawn = n_of(n_units, "task or cluster", "tasks or clusters")
    told = f"; chosen on the {n_of(part.n_runs, 'run')} of {drawn} drawn at random"
    return part, told
