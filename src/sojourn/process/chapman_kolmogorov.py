"""Where runs are k steps on, as seen and as the chain has it: the Chapman-Kolmogorov check.

The one-step table of a homogeneous chain foretells every later step: its k-th power. So the chain
is compared with the data where it was not fitted, at k = 2, 3, .. steps, from each state and from
the start (which is the occupancy of the states by step). Ends are states that are never left.
A power that fades too fast tells of memory or of stays that are no geometric ones.

Runs that were cut are not where they would be. A pair of moments (t, t + k) is used where few
runs were cut in between, each weighed by one over the chance of not having been cut (inverse
probability of censoring), which takes cuts to say nothing of what would have followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, generator
from sojourn.estimates import number
from sojourn.process.capped import check_cap, make_chain, make_design
from sojourn.process.counting import TransitionCounts, count_transitions
from sojourn.process.homogeneous import HomogeneousFit, fit_homogeneous
from sojourn.sequences import CENSORED, StateSequences
from sojourn.tables import p_text, text_table
from sojourn.tables.words import percent

__all__ = ["ChapmanKolmogorov", "chapman_kolmogorov"]

Floats = npt.NDArray[np.float64]
_LEAST_KEPT = 0.1
_FEW_EXPECTED = 5.0
_CONSTANT = 1e-9
_SWAPS_PER_STEP = 5
_WEIGHTS = 10_000_000
START = "start"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChapmanKolmogorov:
    """Observed k-step frequencies beside the powers of the chain's table.

    Attributes
    ----------
    p_value : float or None
        P(a largest standardised departure as large | the runs come from one chain), exact given
        starts and counts; None where no corpora can be drawn, with `reasons`.
    distance : float
        Largest absolute difference of observed and predicted among the judged cells.
    lags : ndarray of shape (n_lags,), int64
        k = 1 .. n_lags.
    origins, targets : tuple of str
        ``start`` and the states; the states, ``success`` and ``failure``.
    observed, predicted : ndarray of shape (n_lags, n_states + 1, n_states + 2)
        P(at the target k steps on | at the origin now), as seen and by the chain; NaN where no
        pair was seen. From the start, k counts the first step.
    low, high : ndarray of the same shape
        Bootstrap interval of the observed over units of resampling, each cell by itself.
    null_low, null_high : ndarray of the same shape
        Where all judged cells together lie with probability `ci_prob` if the runs come from one
        chain with these starts and counts; NaN in cells that are not judged: at lag 1, where the
        chain is fitted, and where fewer than 5 visits are expected at the target, or elsewhere.
    n_units : ndarray of shape (n_lags, n_states + 1), int64
        Units of resampling with a pair of moments from the origin.
    ci_prob : float
        Of intervals and band.
    within_tasks : bool
        Whether corpora were drawn inside tasks.
    n_boot, n_draws : int
        Resampled and drawn corpora.
    reasons : tuple of str
        What a reader must know.
    """

    p_value: float | None
    distance: float
    lags: npt.NDArray[np.int64]
    origins: tuple[str, ...]
    targets: tuple[str, ...]
    observed: Floats = field(repr=False)
    predicted: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    null_low: Floats = field(repr=False)
    null_high: Floats = field(repr=False)
    n_units: npt.NDArray[np.int64] = field(repr=False)
    ci_prob: float
    within_tasks: bool
    n_boot: int
    n_draws: int
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = (
            f"k steps on against the chain's k-th power: p {p_text(self.p_value)}, "
            f"largest difference {self.distance:.3f}"
        )
        rows = []
        for origin, target in self.largest(5):
            k = self._widest_lag(origin, target)
            cell = k, self.origins.index(origin), self.targets.index(target)
            rows.append(
                (
                    f"{origin} to {target}",
                    str(int(self.lags[k])),
                    f"{self.observed[cell]:.3f}",
                    f"[{self.low[cell]:.3f}, {self.high[cell]:.3f}]",
                    f"{self.predicted[cell]:.3f}",
                )
            )
        names = ("widest apart", "k", "seen", f"{percent(self.ci_prob)} interval", "chain")
        return "\n".join([head, *(text_table(names, rows) if rows else []), *self.reasons])

    def largest(self, n: int) -> tuple[tuple[str, str], ...]:
        """Return the pairs (origin, target) that differ most, at their worst lag, at most `n`."""
        worst = self._gaps().max(axis=0)
        order = np.argsort(-worst, axis=None, kind="stable")[:n]
        pairs = [np.unravel_index(k, worst.shape) for k in order]
        return tuple(
            (self.origins[i], self.targets[j]) for i, j in pairs if worst[i, j] > _CONSTANT
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, NaN as None."""
        curves = ("observed", "predicted", "low", "high", "null_low", "null_high")
        return {
            "p_value": number(self.p_value),
            "distance": number(self.distance),
            "lags": self.lags.tolist(),
            "origins": list(self.origins),
            "targets": list(self.targets),
            **{name: _plain(getattr(self, name)) for name in curves},
            "n_units": self.n_units.tolist(),
            "ci_prob": self.ci_prob,
            "within_tasks": self.within_tasks,
            "n_boot": self.n_boot,
            "n_draws": self.n_draws,
            "reasons": list(self.reasons),
        }

    def _gaps(self) -> Floats:
        """Absolute differences; -1 where they are not judged or nothing was seen."""
        gap = np.abs(self.observed - self.predicted)
        judged = ~np.isnan(gap)
        judged[0] = False
        if self.p_value is not None:
            judged &= ~np.isnan(self.null_low)
        return np.where(judged, gap, -1.0)

    def _widest_lag(self, origin: str, target: str) -> int:
        return int(
            np.argmax(self._gaps()[:, self.origins.index(origin), self.targets.index(target)])
        )


def chapman_kolmogorov(
    sequences: StateSequences,
    *,
    n_lags: int = 10,
    fit: HomogeneousFit | None = None,
    within_tasks: bool = False,
    n_boot: int = 999,
    n_draws: int = 999,
    ci_prob: float = 0.95,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> ChapmanKolmogorov:
    """Compare where runs are k steps on with the k-th power of the one-step table.

    Parameters
    ----------
    sequences : StateSequences
        The runs.
    n_lags : int
        Largest k.
    fit : HomogeneousFit, optional
        The chain fitted to these runs; by default by plain maximum likelihood.
    within_tasks : bool
        Draw corpora inside tasks, so that tasks may have a chain each; the band then tells of
        memory, and no longer of tasks that differ in their pace.
    n_boot : int
        Resampled corpora, for the intervals of the observed frequencies.
    n_draws : int
        Corpora drawn with the observed starts and counts, for the band and the p-value.
    ci_prob : float
        Of intervals and band.
    rng : Generator, SeedSequence, int or None
        Source of chance.

    Returns
    -------
    ChapmanKolmogorov

    Raises
    ------
    ValueError
        If there is no run or a setting is out of range.

    Notes
    -----
    With G(t) the chance of not being cut after steps 0 .. t (Kaplan-Meier of the cuts, held fixed
    while units are resampled), a run that is in i at step t and is seen at j at t + k adds
    G(t - 1) / G(last step passed before t + k) to cell (k, i, j). A moment t is an origin for lag k
    only where G(t + k - 1) / G(t - 1) is at least 0.1: beyond, the runs that go on are not seen.

    The null draws are those of the exact test of order: all corpora with these starts and counts
    are equally likely under one chain, and share its fitted table. Each cell is standardised by
    its mean and deviation among the observed and the drawn corpora alike; the statistic is the
    largest absolute value. It needs complete runs, or runs cut by one step cap. A bootstrap of the
    difference over units rejects a true chain in .12 to .21 instead of .05, hence the draws.

    References
    ----------
    Prinz et al. (2011), J. Chem. Phys. 134, 174105, for the check itself; Robins and Rotnitzky
    (1992) for the weights; Besag and Mondal (2013), Biometrics 69, for exact tests of chains.
    """
    for name, value in (("n_lags", n_lags), ("n_boot", n_boot), ("n_draws", n_draws)):
        check_positive_int(value, name=name)
    check_fraction(ci_prob, name="ci_prob")
    if sequences.n_runs == 0:
        raise ValueError("there is no run to look at")
    chain = fit_homogeneous(sequences, smoothing="none") if fit is None else fit
    source = generator(rng)
    counts = [_lag_counts(sequences, lag) for lag in range(1, n_lags + 1)]
    shape = (sequences.n_states + 1, sequences.n_states + 2)
    observed = np.stack([_shares(count.cells.sum(axis=0), shape)[0] for count in counts])
    predicted = _powers(chain, n_lags)
    draws = _resample(counts, observed, n_boot, source)
    tail = (1.0 - ci_prob) / 2.0
    low, high = np.quantile(draws, (tail, 1.0 - tail), axis=0)
    judged = _judged(predicted, count_transitions(sequences))
    null = _null(sequences, n_lags, judged, within_tasks, n_draws, ci_prob, source)
    seen = judged & ~np.isnan(observed)
    return ChapmanKolmogorov(
        p_value=null.p_value,
        distance=float(np.abs(observed - predicted)[seen].max(initial=0.0)),
        lags=np.arange(1, n_lags + 1),
        origins=(START, *sequences.state_names),
        targets=(*sequences.state_names, "success", "failure"),
        observed=observed,
        predicted=predicted,
        low=low,
        high=high,
        null_low=null.low,
        null_high=null.high,
        n_units=np.stack([count.n_units for count in counts]),
        ci_prob=ci_prob,
        within_tasks=within_tasks,
        n_boot=n_boot,
        n_draws=n_draws,
        reasons=null.reasons,
    )


class _LagCounts(NamedTuple):
    """Weighted pairs of moments by unit, (n_units, origins x targets), and units by origin."""

    cells: Any
    n_units: npt.NDArray[np.int64]


def _not_cut(sequences: StateSequences, n_more: int) -> Floats:
    """Give H with H[t] the chance of not being cut before step t, t = 0 .. longest + n_more."""
    lengths = sequences.lengths
    longest = int(lengths.max(initial=0))
    cut = np.bincount(lengths[sequences.event == CENSORED], minlength=longest + 1)
    longer = sequences.n_runs - np.cumsum(np.bincount(lengths, minlength=longest + 1))
    hazard = cut / np.maximum(cut + longer, 1)
    kept = np.concatenate(([1.0], np.cumprod(1.0 - hazard)))
    # After the longest run nobody is left to be cut.
    return np.pad(kept, (0, n_more), mode="edge")


def _lag_counts(sequences: StateSequences, lag: int) -> _LagCounts:
    from scipy.sparse import coo_array

    m, lengths = sequences.n_states, sequences.lengths
    kept = _not_cut(sequences, lag)
    units, unit_of_run = np.unique(sequences.unit, return_inverse=True)
    # Every moment of every run: 0 is the start, t the time just after step t.
    run = np.repeat(np.arange(sequences.n_runs), lengths + 1)
    first = np.concatenate(([0], np.cumsum(lengths + 1)))[:-1]
    t = np.arange(run.size) - first[run]
    place = sequences.offsets[:-1][run] + t
    padded = np.concatenate((sequences.states, [0])).astype(np.int64)
    origin = np.where(t == 0, 0, padded[np.maximum(place - 1, 0)] + 1)
    inside = t + lag <= lengths[run]
    event = sequences.event[run]
    there = padded[np.where(inside, place + lag - 1, padded.size - 1)]
    target = np.where(inside, there, m + event - 1)
    last = np.minimum(t + lag, lengths[run])
    usable = (kept[t + lag] >= _LEAST_KEPT * kept[t]) & (kept[t] > 0.0)
    seen = usable & (inside | (event != CENSORED))
    unit = unit_of_run[run[seen]]
    weight = kept[t[seen]] / kept[last[seen]]
    cell = origin[seen] * (m + 2) + target[seen]
    shape = (units.size, (m + 1) * (m + 2))
    pairs = np.unique(unit * (m + 1) + origin[seen])
    return _LagCounts(
        cells=coo_array((weight, (unit, cell)), shape=shape).tocsr(),
        n_units=np.bincount(pairs % (m + 1), minlength=m + 1).astype(np.int64),
    )


def _shares(cells: npt.NDArray[Any], shape: tuple[int, ...]) -> Floats:
    """Scale rows of cells to sum one, (n_tables, *shape); NaN where an origin was not seen."""
    table = np.asarray(cells, dtype=np.float64).reshape(-1, *shape)
    total = table.sum(axis=-1, keepdims=True)
    shares = np.full(table.shape, np.nan)
    np.divide(table, total, out=shares, where=total > 0.0)
    return shares


def _resample(
    counts: list[_LagCounts], observed: Floats, n_boot: int, rng: np.random.Generator
) -> Floats:
    """Frequencies of corpora of resampled units, (n_boot, n_lags, m + 1, m + 2)."""
    n = counts[0].cells.shape[0]
    draws = np.empty((n_boot, *observed.shape))
    size = max(1, _WEIGHTS // n)
    for start in range(0, n_boot, size):
        block = slice(start, min(start + size, n_boot))
        weights = rng.multinomial(n, np.full(n, 1.0 / n), size=block.stop - start).T
        for k, count in enumerate(counts):
            draws[block, k] = _shares((count.cells.T @ weights).T, observed.shape[1:])
    # An origin that a resample lost says nothing new there.
    return np.where(np.isnan(draws), observed, draws)


def _powers(fit: HomogeneousFit, n_lags: int) -> Floats:
    """Where the chain is after 1 .. n_lags steps, (n_lags, m + 1, m + 2)."""
    chain = fit.chain
    m = chain.n_states
    one = np.empty((m + 1, m + 2))
    one[0] = [*chain.initial, chain.initial_success, chain.initial_failure]
    one[1:] = np.column_stack((chain.transient, chain.to_success, chain.to_failure))
    later = [one]
    for _ in range(1, n_lags):
        # One step first, then the others; what ended with the first stays where it is.
        after = one[:, :m] @ later[-1][1:]
        after[:, m:] += one[:, m:]
        later.append(after)
    return np.stack(later)


def _judged(predicted: Floats, counts: TransitionCounts) -> npt.NDArray[np.bool_]:
    """Cells where the chain was not fitted and enough visits are expected on both sides."""
    visits = np.concatenate(([counts.n_runs], counts.table[1:].sum(axis=1)))[:, None]
    enough = visits * np.minimum(predicted, 1.0 - predicted) >= _FEW_EXPECTED
    enough[0] = False
    return np.asarray(enough, dtype=np.bool_)


class _Null(NamedTuple):
    """Band and p-value from corpora with the observed starts and counts, or why there are none."""

    p_value: float | None
    low: Floats
    high: Floats
    reasons: tuple[str, ...]


def _null(
    sequences: StateSequences,
    n_lags: int,
    judged: npt.NDArray[np.bool_],
    within_tasks: bool,
    n_draws: int,
    ci_prob: float,
    rng: np.random.Generator,
) -> _Null:
    kept = np.flatnonzero(sequences.lengths > 0)
    kept = kept[np.argsort(sequences.task[kept], kind="stable")] if within_tasks else kept
    runs = sequences.select(kept)
    nowhere = np.full(judged.shape, np.nan)
    if runs.n_runs == 0:
        return _Null(None, nowhere, nowhere, ("no run has a step",))
    checked = check_cap(runs, None, within=False)
    if checked.reason is not None:
        return _Null(None, nowhere, nowhere, (checked.reason,))
    # Runs without a step are the same in every corpus; they count at the start.
    empty = sequences.select(np.flatnonzero(sequences.lengths == 0))
    drawn = _draw_tables(runs, empty, checked.cap, within_tasks, n_lags, n_draws, rng)
    shares = _shares(drawn, judged.shape[1:]).reshape(n_draws + 1, *judged.shape)
    judged = judged & ~np.isnan(shares).any(axis=0)
    mean, deviation = np.zeros(judged.shape), np.zeros(judged.shape)
    mean[judged] = shares[:, judged].mean(axis=0)
    deviation[judged] = shares[:, judged].std(axis=0)
    judged = judged & (deviation > _CONSTANT)
    if not judged.any():
        reason = "no cell has enough visits, or all corpora with these counts look alike"
        return _Null(None, nowhere, nowhere, (reason,))
    largest = (np.abs(shares - mean)[:, judged] / deviation[judged]).max(axis=1)
    reach = largest >= largest[0] * (1.0 - _CONSTANT)
    half = np.where(judged, np.quantile(largest[1:], ci_prob) * deviation, np.nan)
    return _Null(float(np.count_nonzero(reach)) / reach.size, mean - half, mean + half, ())


def _draw_tables(
    runs: StateSequences,
    empty: StateSequences,
    cap: npt.NDArray[np.int64] | None,
    within_tasks: bool,
    n_lags: int,
    n_draws: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Tables of the observed and the drawn corpora, (n_draws + 1, n_lags, m + 1, m + 2)."""
    from sojourn.process._exact_kernels import draw_corpus, hub_of
    from sojourn.process._lag_kernels import count_lags

    stratum = np.zeros(runs.n_runs, dtype=np.int64)
    if within_tasks:
        stratum = np.unique(runs.task, return_inverse=True)[1].astype(np.int64)
    sizes = np.bincount(stratum)
    direct = np.full(sizes.size, cap is None) | (sizes == 1)
    design = make_design(runs, stratum, direct)
    seeds = rng.integers(0, 2**64, size=n_draws + 1, dtype=np.uint64)
    moved = np.zeros(sizes.size, dtype=np.bool_)
    hub = hub_of(make_chain(runs, stratum, direct, cap, _SWAPS_PER_STEP), seeds[0], moved)
    m = runs.n_states
    tables = np.zeros((n_draws + 1, n_lags, m + 1, m + 2), dtype=np.int64)
    last_moment = np.iinfo(np.int64).max // 2 if cap is None else int(cap.max())
    states, offsets, event = np.array(runs.states), np.array(runs.offsets), np.array(runs.event)
    for b, table in enumerate(tables):
        if b > 0:
            draw_corpus(seeds[b], design, hub, states, offsets, event, moved)
        count_lags(states, offsets, event, last_moment, table)
    ended = np.bincount(empty.event, minlength=3)[1:]
    tables[:, :, 0, m:] += ended
    return tables


def _plain(values: Floats) -> Any:
    """Return nested lists with None for NaN."""
    if values.ndim == 1:
        return [number(value) for value in values.tolist()]
    return [_plain(part) for part in values]
