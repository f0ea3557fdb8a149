"""Which state a step is in, learnt once and then applied to any corpus.

Named states are the default: a reader of the report knows them, they are fixed without looking at
the order of steps (so that the exact test is exact), and they mean the same on other tasks. When
too many names remain, steps are described by rules and clustered; a user's own table replaces both.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_choice, check_positive_int
from sojourn.corpus import ResolvedRuns, StepTypes, TraceCorpus, resolve
from sojourn.errors import NothingUsableError, StateTableError
from sojourn.records import Actor, StepKind
from sojourn.sequences import StateSequences
from sojourn.states.embedding import Embedder
from sojourn.states.features import FEATURE_FIELDS, OTHER
from sojourn.states.history import HISTORY_FEATURES
from sojourn.states.rule import ClusterRule, Description, fit_clusters
from sojourn.tables import n_of

__all__ = ["StateMembers", "StateModel", "fit_states", "runs_with_steps"]

Floats = npt.NDArray[np.float64]
_ACTORS, _KINDS = tuple(Actor), tuple(StepKind)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateModel:
    """A rule from steps to named states.

    Attributes
    ----------
    state_names : tuple of str
        One readable name a state.
    mode : str
        ``names``, ``table`` or ``clusters``.
    order_free : bool
        Whether a step's state is fixed without looking at other steps of its run. The exact test
        is exact only then.
    silhouette : tuple of (int, float)
        Mean silhouette of every number of states that was looked at; empty without clustering.
    by_name : mapping of str to int
        State of each step name, for ``names`` and ``table``; ``*`` is the state of other names.
    by_kind : mapping of (str, str) to int
        State of a name never seen, by the step's actor and kind, where there is no ``*``.
    clusters : ClusterRule or None
        What ``clusters`` goes by.
    """

    state_names: tuple[str, ...]
    mode: str
    order_free: bool = True
    silhouette: tuple[tuple[int, float], ...] = ()
    by_name: Mapping[str, int] = field(default_factory=dict, repr=False)
    by_kind: Mapping[tuple[str, str], int] = field(default_factory=dict, repr=False)
    clusters: ClusterRule | None = field(default=None, repr=False)

    def __str__(self) -> str:
        lines = [f"{n_of(self.n_states, 'state')} from {self.mode}: {', '.join(self.state_names)}"]
        lines += [f"  silhouette at {m:>3} states  {value:.3f}" for m, value in self.silhouette]
        return "\n".join(lines)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_names)

    def states_of(self, types: StepTypes) -> npt.NDArray[np.int32]:
        """Give the state of each distinct step, first as itself and then as a repetition.

        Returns
        -------
        ndarray of shape (n_types, 2), int32

        Raises
        ------
        StateTableError
            If a user's table has no state for a name, nor a ``*``.
        ValueError
            If states look at the history of a run: then a step has none by itself.
        """
        if self.clusters is not None:
            return self.clusters.of_types(types)
        used = np.unique(types.name)
        missing = [types.names[i] for i in used if types.names[i] not in self.by_name]
        if missing and "*" not in self.by_name and not self.by_kind:
            raise StateTableError(
                f"the table has no state for {', '.join(map(repr, missing[:5]))}"
                f"{' and others' if len(missing) > 5 else ''}; add them, or '*' for all others"
            )
        states = np.empty((len(types), 2), dtype=np.int32)
        for code in range(len(types)):
            name = types.names[types.name[code]]
            kind = str(_ACTORS[types.actor[code]]), str(_KINDS[types.kind[code]])
            fallback = self.by_name.get("*", self.by_kind.get(kind, self.by_kind.get(("", ""), 0)))
            states[code] = self.by_name.get(name, fallback)
        return states

    def transform(self, corpus: TraceCorpus, runs: ResolvedRuns | None = None) -> StateSequences:
        """Turn runs into paths of states.

        Parameters
        ----------
        corpus : TraceCorpus
            Any corpus, not only the one that the states come from.
        runs : ResolvedRuns, optional
            The runs that count and how they ended; by the default policy when left out.

        Returns
        -------
        StateSequences
            The runs of `runs_with_steps`, in their order, with the tasks and units of `runs`.
        """
        resolved = resolve(corpus) if runs is None else runs
        kept = runs_with_steps(corpus, resolved)
        index = resolved.index[kept]
        codes, offsets, digests = _steps_of(corpus, index)
        types = corpus.step_types
        if self.clusters is not None:
            path = self.clusters.path(types, codes, offsets, digests)
        else:
            path = self.states_of(types)[:, 0][codes]
        return StateSequences(
            states=path,
            offsets=offsets,
            event=resolved.event[kept],
            task=resolved.task[kept],
            unit=resolved.unit[kept],
            state_names=self.state_names,
        )

    def members(self, corpus: TraceCorpus, runs: ResolvedRuns | None = None) -> StateMembers:
        """Turn runs into paths of the distinct steps that make up the states.

        Whether the members of a state go on alike can be tested on them.

        Parameters
        ----------
        corpus, runs
            As in `transform`.

        Returns
        -------
        StateMembers
        """
        coarse = self.transform(corpus, runs)
        resolved = resolve(corpus) if runs is None else runs
        codes, _, _ = _steps_of(corpus, resolved.index[runs_with_steps(corpus, resolved)])
        types = corpus.step_types
        words = [
            types.names[name] + (" (error)" if ok == 0 else "")
            for name, ok in zip(types.name, types.ok, strict=True)
        ]
        word_names = tuple(dict.fromkeys(words))
        place = {word: k for k, word in enumerate(word_names)}
        word = np.array([place[w] for w in words], dtype=np.int64)[codes]
        pair = word * self.n_states + coarse.states
        distinct, fine = np.unique(pair, return_inverse=True)
        blocks = tuple(self.state_names[k % self.n_states] for k in distinct)
        names = [word_names[k // self.n_states] for k in distinct]
        # A step that is in several states, by its history, is a member of each.
        twice = {name for name in names if names.count(name) > 1}
        return StateMembers(
            sequences=StateSequences(
                states=fine.reshape(-1),
                offsets=coarse.offsets,
                event=coarse.event,
                task=coarse.task,
                unit=coarse.unit,
                state_names=tuple(
                    f"{name} in {block}" if name in twice else name
                    for name, block in zip(names, blocks, strict=True)
                ),
            ),
            blocks=blocks,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the states in the form of the JSON contract, with how they were made."""
        return {
            "n_states": self.n_states,
            "names": list(self.state_names),
            "silhouette": [{"n_states": m, "value": value} for m, value in self.silhouette],
            "mode": self.mode,
            "order_free": self.order_free,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateMembers:
    """Runs as paths of distinct steps, and the state that each distinct step is in.

    Attributes
    ----------
    sequences : StateSequences
        The runs; a fine state is a step's name and whether it had an error.
    blocks : tuple of str
        The state of each fine state.
    """

    sequences: StateSequences
    blocks: tuple[str, ...]


def runs_with_steps(corpus: TraceCorpus, runs: ResolvedRuns) -> npt.NDArray[np.bool_]:
    """Tell which resolved runs have their steps in the log (or are known to have had none)."""
    logged = np.diff(corpus.offsets)[runs.index]
    return np.asarray((logged > 0) | (corpus.n_steps[runs.index] == 0), dtype=np.bool_)


def fit_states(
    corpus: TraceCorpus,
    *,
    mode: str = "auto",
    table: Mapping[str, str] | None = None,
    runs: ResolvedRuns | None = None,
    max_names: int = 12,
    min_share: float = 0.01,
    n_states: int | None = None,
    min_states: int = 2,
    max_states: int = 15,
    fields: Sequence[str] = FEATURE_FIELDS,
    repeats: bool = False,
    history: Sequence[str] = (),
    edits: Collection[str] | None = None,
    embedder: Embedder | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> StateModel:
    """Choose the states of a corpus.

    Parameters
    ----------
    corpus : TraceCorpus
        The runs.
    mode : {"auto", "names", "clusters"}
        ``names``: step names are states, those under `min_share` of steps pooled into ``other``.
        ``auto``: the same when at most `max_names` states remain, else ``clusters``.
    table : mapping of str to str, optional
        A state for each step name, ``*`` for all others; it replaces `mode`.
    runs : ResolvedRuns, optional
        The runs that count; by the default policy when left out.
    max_names, min_share : int, float
        See `mode`.
    n_states : int, optional
        Number of clusters; by default that of the largest mean silhouette, the smallest of those
        that tie.
    min_states, max_states : int
        Numbers of clusters to look at.
    fields : sequence of {"actor", "kind", "name", "ok"}
        Features to cluster by.
    repeats : bool
        Whether to cluster by "repeats the previous action" too. It looks at another step, so the
        exact test is only approximate then.
    history : sequence of str
        Features of the run so far to cluster by, each one of `HISTORY_FEATURES` and rounded to
        four levels (see `history_features`). They look at other steps, as `repeats` does. With
        any of them ``auto`` means ``clusters``.
    edits : collection of str, optional
        The step names that change something, for the feature ``edits``; by default those whose
        words say so.
    embedder : Embedder, optional
        Cluster by vectors of the step names in the place of indicators, so that names that
        resemble each other, rare ones too, come together. ``auto`` means ``clusters`` then.
    cache : path-like, optional
        A folder where vectors are kept.

    Returns
    -------
    StateModel

    Raises
    ------
    NothingUsableError
        If no run that counts has a step, or names are to be embedded and no step has one.
    ValueError
        If a setting is out of range or contradicts another, or the table leaves out a name.
    """
    check_choice(mode, ("auto", "names", "clusters"), name="mode")
    check_positive_int(max_names, name="max_names")
    if not 0.0 <= min_share < 1.0:
        raise ValueError(f"min_share must lie in [0, 1); got {min_share!r}")
    if check_positive_int(min_states, name="min_states") > check_positive_int(
        max_states, name="max_states"
    ):
        raise ValueError(f"min_states must be at most max_states, {max_states}")
    _check_clustering(mode, table is not None, history, fields, embedder is not None)
    resolved = resolve(corpus) if runs is None else runs
    index = resolved.index[runs_with_steps(corpus, resolved)]
    codes, offsets, digests = _steps_of(corpus, index)
    if codes.size == 0:
        raise NothingUsableError("no run that counts has a step; states cannot be chosen")
    types = corpus.step_types
    counts = np.bincount(codes, minlength=len(types))
    if table is not None:
        return _from_table(table, types, counts)
    named = np.bincount(types.name, weights=counts, minlength=len(types.names)).astype(np.float64)
    kept = _frequent(types.names, named, min_share)
    pooled = bool(named.sum() > sum(named[types.names.index(name)] for name in kept))
    few = len(kept) + pooled <= max_names
    if mode == "names" or (mode == "auto" and few and not history and embedder is None):
        return _from_names(types, counts, kept, pooled)
    description = Description(
        fields=tuple(fields),
        kept_names=kept,
        repeats=repeats,
        history=tuple(dict.fromkeys(history)),
        edits=None if edits is None else tuple(edits),
        embedder=embedder,
        cache=cache,
    )
    wanted = (n_states, n_states) if n_states is not None else (min_states, max_states)
    found = fit_clusters(description, types, codes, offsets, digests, wanted)
    return StateModel(
        state_names=found.names,
        mode="clusters",
        order_free=description.order_free,
        silhouette=found.silhouette,
        clusters=found.rule,
    )


def _check_clustering(
    mode: str, by_table: bool, history: Sequence[str], fields: Sequence[str], embeds: bool
) -> None:
    """Refuse features of clusters where there will be no clusters."""
    for name in history:
        check_choice(name, HISTORY_FEATURES, name="history")
    if (history or embeds) and (by_table or mode == "names"):
        raise ValueError("history and embedder describe clusters; they need mode 'clusters'")
    if embeds and "name" not in fields:
        raise ValueError("embedder embeds step names, but fields must hold 'name' for that")


def _frequent(names: Sequence[str], counts: Floats, min_share: float) -> tuple[str, ...]:
    """Names with their share of steps or more, the most frequent first."""
    enough = np.flatnonzero((counts > 0) & (counts >= min_share * counts.sum()))
    return tuple(names[i] for i in sorted(enough.tolist(), key=lambda i: (-counts[i], names[i])))


def _from_table(
    table: Mapping[str, str], types: StepTypes, counts: npt.NDArray[np.intp]
) -> StateModel:
    if not table:
        raise ValueError("the table of states must not be empty")
    for name, state in table.items():
        if not (isinstance(name, str) and isinstance(state, str) and state):
            raise ValueError(
                f"the table must map names to names of states; got {name!r}: {state!r}"
            )
    state_names = tuple(dict.fromkeys(table.values()))
    place = {name: k for k, name in enumerate(state_names)}
    model = StateModel(
        state_names=state_names,
        mode="table",
        by_name={name: place[state] for name, state in table.items()},
    )
    model.states_of(_only(types, counts > 0))
    return model


def _only(types: StepTypes, keep: npt.NDArray[np.bool_]) -> StepTypes:
    return StepTypes.from_keys([k for k, used in zip(types.keys(), keep, strict=True) if used])


def _from_names(
    types: StepTypes, counts: npt.NDArray[np.intp], kept: tuple[str, ...], pooled: bool
) -> StateModel:
    state_names = list(kept)
    if pooled and OTHER not in state_names:
        state_names.append(OTHER)
    by_name = {name: k for k, name in enumerate(state_names)}
    by_kind: dict[tuple[str, str], int] = {}
    if pooled:
        by_name["*"] = state_names.index(OTHER)
    else:
        # A name never seen goes where most steps of its actor and kind are.
        state = np.array([by_name.get(name, 0) for name in types.names])[types.name]
        kinds = list(zip(types.actor.tolist(), types.kind.tolist(), strict=True))
        for kind in dict.fromkeys(kinds):
            among = np.array([k == kind for k in kinds])
            found = np.bincount(state[among], weights=counts[among])
            by_kind[(str(_ACTORS[kind[0]]), str(_KINDS[kind[1]]))] = int(np.argmax(found))
        by_kind[("", "")] = 0
    return StateModel(
        state_names=tuple(state_names), mode="names", by_name=by_name, by_kind=by_kind
    )


def _steps_of(
    corpus: TraceCorpus, index: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.uint64] | None]:
    """Give the steps of the runs, one run after the other; no copy when it is all of them."""
    if np.array_equal(index, np.arange(len(corpus))):
        return corpus.steps, corpus.offsets, corpus.digests
    lengths = np.diff(corpus.offsets)[index]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    source = np.repeat(corpus.offsets[:-1][index] - offsets[:-1], lengths)
    source += np.arange(offsets[-1])
    digests = None if corpus.digests is None else corpus.digests[source]
    return corpus.steps[source], offsets, digests
