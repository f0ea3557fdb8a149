"""May the states of a block be one state? A test that their rows to the blocks are equal.

A chain on fine states remains a chain when blocks of them are merged, whatever the start, if and
only if all members of a block go on to each block, and to each end, with the same probabilities
(Kemeny and Snell). Clusters of steps claim this of their members; here it is put to the test. A
chain whose blocks fail may still have the right success rate and even the right curves: what fails
is that the state tells all that matters of the past.

Not tested: whether the fine chain is a chain itself; and members that were hardly visited are
hardly tested, so the table names the visits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_positive_int, generator
from sojourn.estimates import number
from sojourn.sequences import CENSORED, StateSequences
from sojourn.tables import n_of, p_text, text_table

__all__ = ["BlockLumpability", "LumpabilityTest", "test_lumpability"]

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
_TIE = 1e-9
_FEW = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockLumpability:
    """How alike the members of one block go on.

    Attributes
    ----------
    name : str
        The block.
    p_value : float or None
        P(a statistic as large | members go on alike); None where nothing can be told.
    statistic : float
        2 sum O log(O / E) over members and what followed: E what exchanging labels lets expect.
    gain : float
        Information of the member about the next block or end, in nats a visit, over what chance
        alone gives; may be negative.
    distance : float
        Total variation distance between the row of `farthest` and what exchange lets expect.
    farthest : str or None
        The member whose row differs most among those with at least 20 visits; None without any.
    members : tuple of str
        The fine states of the block that were visited.
    visits : ndarray of shape (n_members,), int64
        Visits of each member whose next event was seen.
    rows : ndarray of shape (n_members, n_blocks + 2)
        Share of each next block, success and failure after each member.
    """

    name: str
    p_value: float | None
    statistic: float
    gain: float
    distance: float
    farthest: str | None
    members: tuple[str, ...]
    visits: npt.NDArray[np.int64] = field(repr=False)
    rows: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the block as plain values."""
        return {
            "name": self.name,
            "p_value": number(self.p_value),
            "statistic": number(self.statistic),
            "gain": number(self.gain),
            "distance": number(self.distance),
            "farthest": self.farthest,
            "members": list(self.members),
            "visits": self.visits.tolist(),
            "rows": self.rows.tolist(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LumpabilityTest:
    """Whether blocks of fine states may be states.

    Attributes
    ----------
    p_value : float or None
        P(a sum of the blocks' statistics as large | members of each block go on alike); None when
        no block can be tested.
    gain : float
        Information of the member about the next block or end, in nats a step, over what chance
        alone gives; over all blocks.
    blocks : tuple of BlockLumpability
        Block by block, the most telling first.
    within_tasks : bool
        Whether labels were exchanged inside tasks only.
    n_draws : int
        Draws of the null.
    n_visits : int
        Visits whose next event was seen.
    movable : float
        Share of the visits that can change their label: those in a block (and task) with two
        members and two followers.
    reasons : tuple of str
        What a reader must know.
    """

    p_value: float | None
    gain: float
    blocks: tuple[BlockLumpability, ...]
    within_tasks: bool
    n_draws: int
    n_visits: int
    movable: float
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        p = "not testable" if self.p_value is None else f"p {p_text(self.p_value)}"
        where = "within tasks" if self.within_tasks else "over all runs"
        lines = [
            f"members of a block go on alike: {p} ({where}, {n_of(self.n_visits, 'visit')}, "
            f"{self.movable:.0%} of them can move), {self.gain:.4f} nats a step lost"
        ]
        rows = [
            (
                b.name,
                str(len(b.members)),
                str(int(b.visits.sum())),
                p_text(b.p_value),
                f"{b.gain:.4f}",
                f"{b.distance:.3f}",
                b.farthest or "-",
            )
            for b in self.blocks
        ]
        head = ("block", "members", "visits", "p", "nats", "distance", "farthest member")
        return "\n".join([*lines, *text_table(head, rows), *self.reasons])

    def to_dict(self) -> dict[str, Any]:
        """Return the test as plain values."""
        return {
            "p_value": number(self.p_value),
            "gain": number(self.gain),
            "blocks": [block.to_dict() for block in self.blocks],
            "within_tasks": self.within_tasks,
            "n_draws": self.n_draws,
            "n_visits": self.n_visits,
            "movable": number(self.movable),
            "reasons": list(self.reasons),
        }


class _Visits(NamedTuple):
    """Visits whose next event was seen: fine state, what followed (block or end), and stratum."""

    member: Places
    follower: Places
    stratum: Places


class _BlockDraws(NamedTuple):
    """Observed and expected tables of one block, and its statistic under the null."""

    observed: Floats
    expected: Floats
    draws: Floats
    movable: int


def test_lumpability(
    sequences: StateSequences,
    blocks: Mapping[str, str] | Sequence[str],
    *,
    within_tasks: bool = False,
    n_draws: int = 999,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> LumpabilityTest:
    """Test whether the members of each block go on to blocks and ends with the same probabilities.

    Parameters
    ----------
    sequences : StateSequences
        Runs as paths of fine states.
    blocks : mapping of str to str, or sequence of str
        The block of each fine state, by its name or in the order of the states.
    within_tasks : bool
        Exchange labels inside tasks only. Tasks that prefer other members and also go on otherwise
        make the pooled test reject even if the members of a block are alike in every task.
    n_draws : int
        Draws of the null.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Returns
    -------
    LumpabilityTest

    Raises
    ------
    ValueError
        If a fine state has no block, or there are not as many blocks as fine states.

    Notes
    -----
    Visits of a block are a table O of members by followers (next block, success, failure). Under
    the null the labels of the members may be exchanged among the visits (of a task): a random
    table with the same margins, drawn as such, with mean E. The statistic is 2 sum O log(O / E),
    which is the usual G2 of homogeneity when all runs are one stratum; p = (1 + #{draws >= it}) /
    (n_draws + 1), for each block and for their sum. The p-values of blocks are not adjusted for
    their number.

    The p is exact when the members inside a block are drawn independently of what came before. If
    the fine label remembers (a label tends to follow itself), it is right in large samples: the
    events after successive visits are independent draws all the same.

    References
    ----------
    Kemeny and Snell, Finite Markov Chains, section 6.3. Thomas and Barr (1977), Biometrika.
    """
    check_positive_int(n_draws, name="n_draws")
    of_state, names = _block_of(sequences.state_names, blocks)
    visits = _visits(sequences, of_state, len(names), within_tasks)
    generators = generator(rng).spawn(len(names))
    found, movable = [], 0
    total = np.zeros(n_draws + 1)
    for b, name in enumerate(names):
        inside = of_state[visits.member] == b
        chosen = _Visits(*(part[inside] for part in visits))
        if not chosen.member.size:
            continue
        drawn = _draw_block(chosen, len(names) + 2, n_draws, generators[b])
        movable += drawn.movable
        total += drawn.draws
        members = np.unique(chosen.member)
        found.append(_block_result(name, tuple(sequences.state_names[i] for i in members), drawn))
    n_visits = int(visits.member.size)
    found.sort(key=lambda block: -block.gain * block.visits.sum())
    return LumpabilityTest(
        p_value=_p_value(total) if movable else None,
        gain=_gain(total, n_visits),
        blocks=tuple(found),
        within_tasks=within_tasks,
        n_draws=n_draws,
        n_visits=n_visits,
        movable=movable / n_visits if n_visits else 0.0,
        reasons=_reasons(movable, total),
    )


def _block_of(
    state_names: tuple[str, ...], blocks: Mapping[str, str] | Sequence[str]
) -> tuple[Places, tuple[str, ...]]:
    if isinstance(blocks, Mapping):
        missing = [name for name in state_names if name not in blocks]
        if missing:
            raise ValueError(f"blocks name no block for {', '.join(map(repr, missing[:5]))}")
        labels = [blocks[name] for name in state_names]
    else:
        labels = list(blocks)
    if len(labels) != len(state_names):
        raise ValueError(f"{len(labels)} blocks are given for {len(state_names)} states")
    names = tuple(dict.fromkeys(labels))
    place = {name: k for k, name in enumerate(names)}
    return np.array([place[label] for label in labels], dtype=np.intp), names


def _visits(sequences: StateSequences, of_state: Places, n: int, within_tasks: bool) -> _Visits:
    """Pair each step with the block that followed, or the end; n and n + 1 are the ends."""
    member = sequences.states.astype(np.intp)
    lengths = sequences.lengths
    follower = np.empty(member.size, dtype=np.intp)
    follower[:-1] = of_state[member[1:]]
    last = sequences.offsets[1:][lengths > 0] - 1
    # Events are 1 success, 2 failure; a cut run tells nothing of what followed its last step.
    follower[last] = n + sequences.event[lengths > 0] - 1
    seen = np.ones(member.size, dtype=np.bool_)
    seen[last] = sequences.event[lengths > 0] != CENSORED
    stratum = np.zeros(member.size, dtype=np.intp)
    if within_tasks:
        stratum = np.repeat(sequences.task, lengths).astype(np.intp)
    return _Visits(member[seen], follower[seen], stratum[seen])


def _draw_block(
    visits: _Visits, n_followers: int, n_draws: int, rng: np.random.Generator
) -> _BlockDraws:
    """Draw tables with the margins of each stratum; statistics are observed first, then drawn."""
    from scipy.stats import random_table

    members, row = np.unique(visits.member, return_inverse=True)
    strata, stratum = np.unique(visits.stratum, return_inverse=True)
    shape = (strata.size, members.size, n_followers)
    cell = np.ravel_multi_index((stratum, row, visits.follower), shape)
    tables = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    size = rows.sum(axis=1)
    expected = np.einsum("si,sj,s->ij", rows, columns, 1.0 / size)
    observed = tables.sum(axis=0)
    drawn = np.zeros((n_draws, members.size, n_followers), dtype=np.int64)
    movable = 0
    for s in range(strata.size):
        i, j = np.flatnonzero(rows[s]), np.flatnonzero(columns[s])
        if i.size > 1 and j.size > 1:
            movable += int(size[s])
            law = random_table(rows[s, i], columns[s, j])
            drawn[:, i[:, None], j[None, :]] += law.rvs(n_draws, random_state=rng).astype(np.int64)
        else:
            drawn += tables[s]
    statistic = _divergence(np.concatenate((observed[None], drawn)), expected)
    return _BlockDraws(observed.astype(np.float64), expected, statistic, movable)


def _divergence(tables: npt.NDArray[Any], expected: Floats) -> Floats:
    """2 sum O log(O / E) of many tables; E is positive wherever a table may be."""
    from scipy.special import xlogy

    ratio = np.divide(tables, expected, out=np.ones(tables.shape), where=expected > 0.0)
    return np.asarray(2.0 * xlogy(tables, ratio).sum(axis=(1, 2)), dtype=np.float64)


def _p_value(statistics: Floats) -> float:
    """Share of the draws, the observed one counted, that reach the observed one (the first)."""
    reach = statistics >= statistics[0] - _TIE * max(1.0, abs(statistics[0]))
    return float(np.count_nonzero(reach)) / statistics.size


def _gain(statistics: Floats, n_visits: int) -> float:
    """Nats a visit over what chance gives."""
    return float(statistics[0] - statistics[1:].mean()) / (2.0 * n_visits) if n_visits else 0.0


def _block_result(name: str, members: tuple[str, ...], drawn: _BlockDraws) -> BlockLumpability:
    visits = drawn.observed.sum(axis=1)
    rows = drawn.observed / visits[:, None]
    distance = 0.5 * np.abs(rows - drawn.expected / visits[:, None]).sum(axis=1)
    often = np.flatnonzero(visits >= _FEW)
    farthest = int(often[np.argmax(distance[often])]) if often.size else None
    return BlockLumpability(
        name=name,
        p_value=_p_value(drawn.draws) if drawn.movable else None,
        statistic=float(drawn.draws[0]),
        gain=_gain(drawn.draws, int(visits.sum())),
        distance=0.0 if farthest is None else float(distance[farthest]),
        farthest=None if farthest is None else members[farthest],
        members=members,
        visits=visits.astype(np.int64),
        rows=rows,
    )


def _reasons(movable: int, statistics: Floats) -> tuple[str, ...]:
    if not movable:
        return ("no block has two members that were followed by different things",)
    n_distinct = np.unique(statistics.round(9)).size
    if n_distinct < _FEW:
        return (f"the draws take {n_distinct} different values only; the p-value is coarse",)
    return ()
