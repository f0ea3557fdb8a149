"""The exact conditional test of a first-order absorbing chain.

Runs that come independently from one first-order chain are, given where they start and how often
each step is taken, all equally likely: the counts are sufficient. So the test draws corpora with
the observed starts and counts and asks whether the observed order of steps is a usual one. It
needs no split, no asymptotics and no refit, and is exact at every size, with ties and sparse rows.

Two families of statistics are read off the same draws, each combined by its smallest p-value:
*order* (does what came before the present state matter: second-order likelihood ratio, with starts
and ends and among moves alone, where memory is seen best; lengths of stays) and
*timing* (distance of both incidence curves from the chain fitted to the counts, dependence of the
steps on their index, spread of the lengths).

What the test does not look at: the success rate, which every chain reproduces, and whether a
departure matters, which is the error bound's question.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, frozen_array, generator
from sojourn.estimates import Verdict
from sojourn.process._exact_kernels import (
    Chain,
    Design,
    Drawn,
    Reference,
    accumulate_tables,
    count_corpus,
    draw_statistics,
    fitted_curves,
    hub_of,
    incidence_curves,
    statistics_of,
    tabulate,
)
from sojourn.process._exact_result import ExactStatistic, ExactTest
from sojourn.process.capped import check_cap, make_chain, make_design, movable_strata
from sojourn.sequences import StateSequences
from sojourn.tables import n_of

__all__ = ["ExactStatistic", "ExactTest", "combine_statistics", "reference_of", "test_exact"]

Floats = npt.NDArray[np.float64]

ORDER = ("second_order", "second_order_moves", "stays")
TIMING = ("incidence", "step_index", "length_spread")
_ENOUGH_VALUES = 20
_N_BUCKETS = 2  # early and late steps: more buckets find drifts less often
_LONGEST_HORIZON = 20_000
_N_CHUNKS = 8
_MOST_STATES = 200
_MOST_KEPT = 2**24  # whole numbers of drawn corpora in memory: 64 MB


def test_exact(
    sequences: StateSequences,
    *,
    n_draws: int = 999,
    within_tasks: bool = False,
    alpha: float = 0.05,
    cap: int | npt.NDArray[np.int64] | None = None,
    approximate: bool = False,
    swaps_per_step: int = 5,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> ExactTest:
    """Test whether runs come from one first-order chain, exactly given starts and counts.

    Parameters
    ----------
    sequences : StateSequences
        The runs; those without a step are left out.
    n_draws : int
        Corpora to draw; p-values are multiples of ``1 / (n_draws + 1)``.
    within_tasks : bool
        Draw inside tasks, so that tasks may have a chain each. With one run a task this is a
        test of the order of steps within runs.
    alpha : float
        Size of the test of each family.
    cap : int, ndarray of shape (n_runs,) or None
        Largest number of steps a run may have; cut runs have exactly that many. None reads it
        off the cut runs and means no cap where nothing was cut.
    approximate : bool
        Say so when the states were made from features that see their neighbours or by a score:
        the p-values are then not exact.
    swaps_per_step : int
        Length of each tail-swap chain in swaps per step of the corpus (cap only).
    executor : concurrent.futures.Executor or None
        Where to run the draws; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of the draws' seeds.

    Returns
    -------
    ExactTest
        P-values, verdicts, effect sizes and the null draws.

    Raises
    ------
    ValueError
        If an argument is out of range or a run is longer than its cap.

    Notes
    -----
    A draw takes the tree of last exits from each state by loop-erased walks that step with
    probability c_ij / c_i, shuffles the rest of each state's steps and the starts, and reads the
    runs off the stacks; this is uniform over the ordered corpora with the given starts and
    counts. Statistics are compared among the observed and all drawn corpora alike.

    References
    ----------
    Wilson (1996), Generating random spanning trees more quickly than the cover time.
    Besag and Clifford (1989), Generalized Monte Carlo significance tests, Biometrika 76.
    Pethel and Hahs (2014), Exact test of independence using mutual information, Entropy 16.
    """
    check_positive_int(n_draws, name="n_draws")
    check_positive_int(swaps_per_step, name="swaps_per_step")
    check_fraction(alpha, name="alpha")
    seeds = generator(rng).integers(0, 2**64, size=n_draws + 1, dtype=np.uint64)
    kept = np.flatnonzero(sequences.lengths > 0)
    kept = kept[np.argsort(sequences.task[kept], kind="stable")] if within_tasks else kept
    runs = sequences.select(kept)
    reasons = []
    if kept.size < sequences.n_runs:
        reasons.append(f"left out: {n_of(sequences.n_runs - kept.size, 'run')} without a step")
    if runs.n_runs == 0:
        return _untested(runs, within_tasks, alpha, approximate, [*reasons, "no run has a step"])
    if runs.n_states > _MOST_STATES:
        too_many = f"{runs.n_states} states, more than {_MOST_STATES}: pool the rare ones"
        return _untested(runs, within_tasks, alpha, approximate, [*reasons, too_many])
    caps = cap if cap is None or np.ndim(cap) == 0 else np.asarray(cap)[kept]
    checked = check_cap(runs, caps, within=within_tasks)
    if checked.reason is not None:
        return _untested(runs, within_tasks, alpha, approximate, [*reasons, checked.reason])
    job = _lay_out(runs, within_tasks, checked.cap, swaps_per_step)
    drawn = _draw(runs, job, seeds, executor)
    return _result(runs, job, drawn, within_tasks, alpha, approximate, reasons)


class _Job(NamedTuple):
    design: Design
    chain: Chain
    reference: Reference
    movable: npt.NDArray[np.bool_]
    cap: int | None


class _Drawn(NamedTuple):
    raw: Floats  # (n_draws + 1, 6 + m): the observed corpus first
    movable: npt.NDArray[np.bool_]


def _lay_out(
    runs: StateSequences,
    within_tasks: bool,
    cap: npt.NDArray[np.int64] | None,
    swaps_per_step: int,
) -> _Job:
    if within_tasks:
        stratum = np.unique(runs.task, return_inverse=True)[1].astype(np.int64)
    else:
        stratum = np.zeros(runs.n_runs, dtype=np.int64)
    sizes = np.bincount(stratum)
    direct = np.full(sizes.size, cap is None) | (sizes == 1)
    design = make_design(runs, stratum, direct)
    chain = make_chain(runs, stratum, direct, cap, swaps_per_step)
    longest = None if cap is None else int(cap.max())
    reference = reference_of(runs, longest=longest)
    return _Job(design, chain, reference, movable_strata(runs, design) & direct, longest)


def reference_of(runs: StateSequences, *, longest: int | None = None) -> Reference:
    """Return what the chain fitted to the counts lets expect; buckets and horizon follow from it.

    Parameters
    ----------
    runs : StateSequences
        Runs with at least one step each.
    longest : int or None
        No step beyond this one is looked at (a cap).
    """
    m = runs.n_states
    starts, counts = count_corpus(*plain_arrays(runs), m)
    n_runs, n_steps = runs.n_runs, runs.states.size
    rows = counts.sum(axis=1, keepdims=True)
    P = np.divide(counts, rows, out=np.zeros_like(counts), where=rows > 0)
    horizon, occupancy = _horizon(starts / n_runs, P[:, :m], 0.05 / n_runs, longest or n_steps)
    curves = np.zeros((2, horizon + 1))
    fitted_curves(starts / n_runs, counts, curves)
    cumulated = np.cumsum(occupancy) / occupancy.sum()
    bucket = np.minimum((cumulated - occupancy / occupancy.sum() / 2) * _N_BUCKETS, _N_BUCKETS - 1)
    log_P = _log_rows(counts)
    return Reference(
        log_triple=np.tile(log_P, (m + 1, 1)),
        log_move=np.tile(_log_rows(counts[:, :m]), (m, 1)),
        log_bucket=np.tile(log_P, (_N_BUCKETS, 1)),
        curves=curves,
        bucket=bucket.astype(np.int64),
        log_int=np.log(np.maximum(np.arange(n_steps + 1), 1)).astype(np.float64),
    )


def _horizon(start: Floats, Q: Floats, small: float, longest: int) -> tuple[int, Floats]:
    """Count steps until hardly a run of the fitted chain goes on; give the share at each."""
    going: list[float] = []
    now = start
    while len(going) < min(longest, _LONGEST_HORIZON) and now.sum() > small:
        going.append(float(now.sum()))
        now = now @ Q
    return len(going), np.array(going)


def plain_arrays(
    runs: StateSequences,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Return writable copies of states, offsets and events: one type for the kernels to compile."""
    return np.array(runs.states), np.array(runs.offsets), np.array(runs.event)


def _draw(
    runs: StateSequences,
    job: _Job,
    seeds: npt.NDArray[np.uint64],
    executor: Executor | None,
) -> _Drawn:
    design, chain = job.design, job.chain
    n_strata = design.direct.size
    moved = np.zeros(n_strata, dtype=np.bool_)
    hub = hub_of(chain, seeds[0], moved)
    chunks = np.array_split(seeds[1:], _N_CHUNKS)
    flags = [moved.copy() for _ in chunks]
    reference = job.reference
    places = [_places(runs, chunk.size if n_strata > 1 else 1, seeds.size) for chunk in chunks]
    if n_strata > 1:  # with one stratum the fitted chain says what to expect
        reference = _mean_reference(runs, job, hub, chunks, flags, places, executor)
    raw = np.empty((seeds.size, 6 + runs.n_states))
    statistics_of(*plain_arrays(runs), runs.n_states, reference, raw[0])
    parts = np.array_split(raw[1:], _N_CHUNKS)
    _run_all(
        executor,
        [
            (draw_statistics, chunk, design, hub, reference, part, flag, place)
            for chunk, part, flag, place in zip(chunks, parts, flags, places, strict=True)
        ],
    )
    return _Drawn(raw, job.movable | np.any(flags, axis=0))


def _places(runs: StateSequences, n_places: int, n_draws: int) -> Drawn:
    """Make room for drawn corpora; for one at a time where all would take too much memory."""
    if n_draws * (runs.states.size + 2 * runs.n_runs) > _MOST_KEPT:
        n_places = 1
    n_places = max(n_places, 1)
    return Drawn(
        states=np.empty((n_places, runs.states.size), dtype=np.int32),
        offsets=np.empty((n_places, runs.n_runs + 1), dtype=np.int64),
        event=np.empty((n_places, runs.n_runs), dtype=np.int8),
        filled=np.zeros(1, dtype=np.bool_),
    )


def _mean_reference(
    runs: StateSequences,
    job: _Job,
    hub: Chain,
    chunks: list[npt.NDArray[np.uint64]],
    flags: list[npt.NDArray[np.bool_]],
    places: list[Drawn],
    executor: Executor | None,
) -> Reference:
    """Take means over the observed and all drawn corpora, so that all are on a par."""
    old, m = job.reference, runs.n_states
    sums = [
        (
            np.zeros(old.log_triple.shape, dtype=np.int64),
            np.zeros(old.log_bucket.shape, dtype=np.int64),
            np.zeros(old.curves.shape),
        )
        for _ in range(len(chunks) + 1)
    ]
    endings = np.zeros((3, old.curves.shape[1] + 1))
    squares = np.zeros(m, dtype=np.int64)
    tabulate(*plain_arrays(runs), old.bucket, sums[-1][0], sums[-1][1], squares, endings)
    incidence_curves(endings, sums[-1][2])
    _run_all(
        executor,
        [
            (accumulate_tables, chunk, job.design, hub, old, *part, flag, place)
            for chunk, part, flag, place in zip(chunks, sums[:-1], flags, places, strict=True)
        ],
    )
    # Added in the order of the chunks, so that the workers' order cannot change a last bit.
    triple, bucket, curves = (np.sum([part[k] for part in sums], axis=0) for k in range(3))
    n_corpora = sum(chunk.size for chunk in chunks) + 1
    return old._replace(
        log_triple=_log_rows(triple),
        log_move=_log_rows(triple[m:, :m]),
        log_bucket=_log_rows(bucket),
        curves=curves / n_corpora,
    )


def _log_rows(table: npt.NDArray[Any]) -> Floats:
    rows = table.sum(axis=1, keepdims=True)
    P = np.divide(table, rows, out=np.zeros(table.shape), where=rows > 0)
    return np.asarray(np.log(P, out=np.zeros_like(P), where=P > 0))


def _run_all(executor: Executor | None, calls: list[tuple[Any, ...]]) -> None:
    if executor is None:
        for function, *arguments in calls:
            function(*arguments)
        return
    for future in [executor.submit(function, *arguments) for function, *arguments in calls]:
        future.result()


class _Combined(NamedTuple):
    columns: Floats  # (n_corpora, 6): one statistic a column
    p: Floats  # (n_corpora, 6): each statistic's p-value at each corpus
    order: Floats  # (n_corpora,): family p-values
    timing: Floats
    joint: Floats


def combine_statistics(raw: Floats) -> _Combined:
    """Turn raw rows of exchangeable corpora into statistics, p-values and family p-values.

    Parameters
    ----------
    raw : ndarray of shape (n_corpora, 6 + m)
        Rows as `statistics_of` fills them.

    Returns
    -------
    named tuple
        ``columns``, ``p`` of shape (n_corpora, 6), ``order``, ``timing``, ``joint`` of shape
        (n_corpora,): every corpus ranked among all, itself included.
    """
    raw = np.round(raw, 9)  # equal corpora must tie whatever the order of additions
    stays = np.zeros(raw.shape[0])
    for column in raw[:, 6:].T:
        if np.any(column != column[0]):
            stays -= np.log(_two_sided(column))
    incidence = raw[:, 2:4].max(axis=1)
    columns = np.column_stack(
        (raw[:, 0], raw[:, 5], np.round(stays, 9), incidence, raw[:, 1], raw[:, 4])
    )
    p = np.column_stack([_upper(column) for column in columns.T[:5]] + [_two_sided(columns[:, 5])])
    order, timing = p[:, :3].min(axis=1), p[:, 3:].min(axis=1)
    return _Combined(columns, p, _upper(-order), _upper(-timing), _upper(-p.min(axis=1)))


def _upper(values: Floats) -> Floats:
    """Share of all values that are at least as large, for each of them."""
    below = np.searchsorted(np.sort(values), values, side="left")
    return np.asarray((values.size - below) / values.size)


def _two_sided(values: Floats) -> Floats:
    return np.minimum(1.0, 2.0 * np.minimum(_upper(values), _upper(-values)))


def _result(
    runs: StateSequences,
    job: _Job,
    drawn: _Drawn,
    within_tasks: bool,
    alpha: float,
    approximate: bool,
    reasons: list[str],
) -> ExactTest:
    combined = combine_statistics(drawn.raw)
    statistics = _statistics(combined)
    verdicts = []
    for family, p in (("order", combined.order[0]), ("timing", combined.timing[0])):
        verdict, reason = _verdict(family, float(p), statistics, alpha)
        verdicts.append(verdict)
        reasons += [] if reason is None else [reason]
    raw = drawn.raw
    null_mean = raw[1:].mean(axis=0)
    n_observed = runs.states.size - int(np.sum(runs.event == 0))
    steps = np.add.reduceat(runs.lengths, job.design.strata[:-1])
    mean_square = runs.lengths.mean() ** 2 * runs.n_runs
    spread = null_mean[4] - mean_square
    return ExactTest(
        p_order=float(combined.order[0]),
        p_timing=float(combined.timing[0]),
        p_joint=float(combined.joint[0]),
        order=verdicts[0],
        timing=verdicts[1],
        within_tasks=within_tasks,
        alpha=alpha,
        order_gain=float((raw[0, 0] - null_mean[0]) / (2 * n_observed)) if n_observed else None,
        success_distance=float(raw[0, 2]),
        failure_distance=float(raw[0, 3]),
        stay_dispersion={
            name: float(raw[0, 6 + i] / null_mean[6 + i])
            for i, name in enumerate(runs.state_names)
            if null_mean[6 + i] > 0
        },
        length_dispersion=float((raw[0, 4] - mean_square) / spread) if spread > 1e-9 else None,
        statistics=statistics,
        n_runs=runs.n_runs,
        n_steps=runs.states.size,
        n_strata=drawn.movable.size,
        movable_strata=float(drawn.movable.mean()),
        movable_steps=float(steps[drawn.movable].sum() / steps.sum()),
        n_draws=raw.shape[0] - 1,
        sampler="tail_swap" if job.chain.members.size else "uniform",
        exactness="approximate" if approximate else "exact",
        conditions=_conditions(within_tasks, job.cap, approximate),
        reasons=tuple(reasons),
    )


def _statistics(combined: _Combined) -> tuple[ExactStatistic, ...]:
    return tuple(
        ExactStatistic(
            name=name,
            family="order" if name in ORDER else "timing",
            value=float(combined.columns[0, k]),
            p_value=float(combined.p[0, k]),
            n_distinct=int(np.unique(combined.columns[1:, k]).size),
            draws=frozen_array(combined.columns[1:, k], np.float64, name="draws"),
        )
        for k, name in enumerate(ORDER + TIMING)
    )


def _verdict(
    family: str, p: float, statistics: tuple[ExactStatistic, ...], alpha: float
) -> tuple[Verdict, str | None]:
    most = max(s.n_distinct for s in statistics if s.family == family)
    if most < _ENOUGH_VALUES:
        reason = (
            f"{family}: the counts leave only {most} different values of its statistics, "
            f"fewer than {_ENOUGH_VALUES}: too little can move to tell anything"
        )
        return Verdict.INCONCLUSIVE, reason
    return (Verdict.REJECTED if p <= alpha else Verdict.ACCEPTED), None


def _conditions(within_tasks: bool, cap: int | None, approximate: bool) -> tuple[str, ...]:
    return (
        "the runs of each task are independent and come from one first-order chain of that task"
        if within_tasks
        else "the runs are independent and come from one first-order chain",
        "every run is complete: it ended by itself"
        if cap is None
        else f"every run ended by itself or was cut at its step cap ({cap})",
        "the states, which see other steps too or were chosen by a score, are taken as given"
        if approximate
        else "the states were fixed without looking at the order of the steps",
    )


def _untested(
    runs: StateSequences,
    within_tasks: bool,
    alpha: float,
    approximate: bool,
    reasons: list[str],
) -> ExactTest:
    return ExactTest(
        p_order=None,
        p_timing=None,
        p_joint=None,
        order=Verdict.INCONCLUSIVE,
        timing=Verdict.INCONCLUSIVE,
        within_tasks=within_tasks,
        alpha=alpha,
        order_gain=None,
        success_distance=None,
        failure_distance=None,
        stay_dispersion={},
        length_dispersion=None,
        statistics=(),
        n_runs=runs.n_runs,
        n_steps=runs.states.size,
        n_strata=runs.n_tasks if within_tasks else min(1, runs.n_runs),
        movable_strata=0.0,
        movable_steps=0.0,
        n_draws=0,
        sampler="uniform",
        exactness="approximate" if approximate else "exact",
        conditions=_conditions(within_tasks, None, approximate),
        reasons=tuple(reasons),
    )
