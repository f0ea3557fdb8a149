"""What the exact test could have seen: smallest detectable effects at the observed design.

A test that does not reject says little unless one knows what it would have found. Corpora of the
observed size are simulated from the fitted chain with a named departure of growing strength, each
is put to the exact test, and the strength is sought at which a family rejects in four of five.
The observed effect plays no part. The test is run on every corpus: departures open steps that the
chain never takes, which changes the law of its statistics, so that a critical value taken once
from corpora of the chain would promise far too much.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sojourn._validation import check_fraction, check_positive_int, frozen_array, generator
from sojourn.estimates import Verdict, number
from sojourn.process._exact_kernels import count_corpus, simulate_corpus
from sojourn.process.exact import plain_arrays, test_exact
from sojourn.sequences import CENSORED, StateSequences

__all__ = [
    "ALTERNATIVES",
    "DetectableEffects",
    "PowerCurve",
    "detectable_effects",
    "simulate_alternative",
]

Floats = npt.NDArray[np.float64]

ALTERNATIVES: dict[str, tuple[float, ...]] = {
    "memory": (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8),
    "early_exit": (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95),
    "stay_spread": (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.5),
    "pace": (1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.4, 2.8, 3.5, 5.0, 8.0),
}
"""Strengths tried for each departure.

``memory``: probability that a step goes back to the state before. ``early_exit``: fraction by
which exits are rarer up to the median length. ``stay_spread``: log-odds by which stays are longer
or shorter, half and half. ``pace``: factor by which half of the tasks are slower.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerCurve:
    """Power of one family against one departure.

    Attributes
    ----------
    alternative, family : str
        Departure (a key of `ALTERNATIVES`) and family (``order`` or ``timing``).
    effect, power : ndarray of shape (n_effects,)
        Strengths tried and the share of corpora rejected.
    detectable : float or None
        Smallest strength with the power asked for, between the strengths tried by interpolation;
        None if the strongest has less.
    """

    alternative: str
    family: str
    effect: Floats = field(repr=False)
    power: Floats = field(repr=False)
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectableEffects:
    """Smallest effects that the exact test finds at the observed design.

    Attributes
    ----------
    curves : tuple of PowerCurve
        One a departure and family.
    alpha, power : float
        Size of the test and the power asked for.
    n_corpora, n_draws : int
        Simulated corpora behind each power, and the draws of each test.
    reasons : tuple of str
        Why there are no curves.
    """

    curves: tuple[PowerCurve, ...]
    alpha: float
    power: float
    n_corpora: int
    n_draws: int
    reasons: tuple[str, ...]

    def of(self, family: str) -> dict[str, float | None]:
        """Return the detectable strength of every departure for one family."""
        return {c.alternative: c.detectable for c in self.curves if c.family == family}

    def to_dict(self) -> dict[str, Any]:
        """Return the detectable effects as plain values."""
        return {
            "alpha": self.alpha,
            "power": self.power,
            "order": {k: number(v) for k, v in self.of("order").items()},
            "timing": {k: number(v) for k, v in self.of("timing").items()},
            "n_corpora": self.n_corpora,
            "n_draws": self.n_draws,
            "reasons": list(self.reasons),
        }


class _Design(NamedTuple):
    start: Floats
    P: Floats
    cap: npt.NDArray[np.int64]
    task: npt.NDArray[np.int32]
    state_names: tuple[str, ...]
    early_steps: int
    longest: int | None


def detectable_effects(
    sequences: StateSequences,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    n_corpora: int = 100,
    n_draws: int = 99,
    cap: int | None = None,
    executor: Executor | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
) -> DetectableEffects:
    """Find the smallest departures that the pooled exact test would find at this design.

    Parameters
    ----------
    sequences : StateSequences
        The runs: their chain, number, tasks and cap make the design.
    alpha : float
        Size of the test of each family.
    power : float
        Share of corpora in which the departure must be found.
    n_corpora : int
        Corpora simulated for each strength; the standard error of a power is at most
        ``.5 / sqrt(n_corpora)``.
    n_draws : int
        Draws of each test, at least ``1 / alpha - 1``.
    cap : int or None
        Step cap; None takes the longest cut run where one was cut.
    executor : concurrent.futures.Executor or None
        Where to simulate and test; the answer does not depend on it.
    rng : Generator, SeedSequence, int or None
        Source of the simulation.

    Returns
    -------
    DetectableEffects
        Power curves and detectable strengths by departure and family.

    Raises
    ------
    ValueError
        If an argument is out of range, or so few draws that no p-value can reach `alpha`.
    """
    check_fraction(alpha, name="alpha")
    check_fraction(power, name="power")
    check_positive_int(n_corpora, name="n_corpora")
    if (check_positive_int(n_draws, name="n_draws") + 1) * alpha < 1.0 - 1e-12:
        raise ValueError(f"{n_draws} draws cannot give a p-value of {alpha:g}; draw more")
    key = int(generator(rng).integers(2**63))
    runs = sequences.select(np.flatnonzero(sequences.lengths > 0))
    reason = _not_simulated(runs)
    if reason is not None:
        return DetectableEffects(
            curves=(), alpha=alpha, power=power, n_corpora=0, n_draws=0, reasons=(reason,)
        )
    design = _design(runs, cap)
    curves: list[PowerCurve] = []
    for place, alternative in enumerate(ALTERNATIVES):
        if alternative == "stay_spread" and not np.any(np.diagonal(design.P) > 0):
            continue  # no state is ever held, so stays cannot vary
        tried = _Tried(design, alternative, (key, place), n_corpora, n_draws, alpha, executor, {})
        _search(tried, power)
        curves += [_power_curve(tried, family, power) for family in (0, 1)]
    return DetectableEffects(
        curves=tuple(curves),
        alpha=alpha,
        power=power,
        n_corpora=n_corpora,
        n_draws=n_draws,
        reasons=(),
    )


def _not_simulated(runs: StateSequences) -> str | None:
    if runs.n_runs < 2:
        return "fewer than two runs have a step"
    if not np.any(runs.event != CENSORED):
        return "no run ended, so there is no chain to simulate"
    return None


def _design(runs: StateSequences, cap: int | None) -> _Design:
    starts, counts = count_corpus(*plain_arrays(runs), runs.n_states)
    rows = counts.sum(axis=1, keepdims=True)
    cut = runs.event == CENSORED
    longest = int(runs.lengths[cut].max()) if cap is None and cut.any() else cap
    limit = 50 * int(runs.lengths.max()) if longest is None else longest
    return _Design(
        start=starts / runs.n_runs,
        P=np.divide(counts, rows, out=np.zeros_like(counts), where=rows > 0),
        cap=np.full(runs.n_runs, limit),
        task=np.unique(runs.task, return_inverse=True)[1].astype(np.int32),
        state_names=runs.state_names,
        early_steps=max(1, int(np.median(runs.lengths))),
        longest=longest,
    )


def simulate_alternative(
    start: Floats,
    transition: Floats,
    task: npt.NDArray[np.int32],
    *,
    alternative: str,
    effect: float,
    early_steps: int = 4,
    cap: int | npt.NDArray[np.int64] = 1_000_000,
    state_names: tuple[str, ...],
    rng: np.random.Generator,
) -> StateSequences:
    """Simulate one corpus from a chain with a departure.

    Parameters
    ----------
    start : ndarray of shape (m,)
        Start distribution.
    transition : ndarray of shape (m, m + 2)
        Rows of the chain: states, success, failure.
    task : ndarray of shape (n_runs,)
        The task of each run; pace goes by task.
    alternative : str
        A key of `ALTERNATIVES`.
    effect : float
        Its strength; 0 (``pace``: 1) is the chain itself.
    early_steps : int
        Steps in which ``early_exit`` acts.
    cap : int or ndarray of shape (n_runs,)
        Runs still going after so many steps are cut.
    state_names : tuple of str
        Names of the m states.
    rng : Generator
        Source of the simulation.
    """
    slowness = np.ones(task.size)
    if alternative == "pace":
        tasks = np.unique(task)
        slow = rng.permutation(tasks)[: tasks.size // 2]
        slowness[np.isin(task, slow)] = effect
    states, offsets, event = simulate_corpus(
        int(rng.integers(2**63)),
        np.array(start, dtype=np.float64),
        np.array(transition, dtype=np.float64),
        np.array(np.broadcast_to(cap, task.shape), dtype=np.int64),
        effect if alternative == "memory" else 0.0,
        1.0 - effect if alternative == "early_exit" else 1.0,
        early_steps,
        effect if alternative == "stay_spread" else 0.0,
        slowness,
    )
    return StateSequences(
        states=states, offsets=offsets, event=event, task=task, unit=task, state_names=state_names
    )


class _Tried(NamedTuple):
    design: _Design
    alternative: str
    key: tuple[int, int]
    n_corpora: int
    n_draws: int
    alpha: float
    executor: Executor | None
    rates: dict[int, tuple[float, float]]

    def rate(self, k: int) -> tuple[float, float]:
        """Share of corpora with strength k that each family rejects; simulated when first asked."""
        if k not in self.rates:
            effect = ALTERNATIVES[self.alternative][k]
            seeds = [(*self.key, k, b) for b in range(self.n_corpora)]
            each = map if self.executor is None else self.executor.map
            rejected = np.array(list(each(lambda seed: self._rejects(effect, seed), seeds)))
            self.rates[k] = (float(rejected[:, 0].mean()), float(rejected[:, 1].mean()))
        return self.rates[k]

    def _rejects(self, effect: float, seed: tuple[int, ...]) -> tuple[bool, bool]:
        rng = np.random.default_rng(seed)
        design = self.design
        runs = simulate_alternative(
            design.start,
            design.P,
            design.task,
            alternative=self.alternative,
            effect=effect,
            early_steps=design.early_steps,
            cap=design.cap,
            state_names=design.state_names,
            rng=rng,
        )
        result = test_exact(
            runs,
            n_draws=self.n_draws,
            alpha=self.alpha,
            cap=design.longest,
            swaps_per_step=1,
            rng=rng,
        )
        return result.order is Verdict.REJECTED, result.timing is Verdict.REJECTED


def _search(tried: _Tried, power: float) -> None:
    """Halve the strengths until each family's weakest sufficient one is known."""
    for family in (0, 1):
        low, high = -1, len(ALTERNATIVES[tried.alternative]) - 1
        if tried.rate(high)[family] < power:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if tried.rate(middle)[family] >= power:
                high = middle
            else:
                low = middle


def _power_curve(tried: _Tried, family: int, power: float) -> PowerCurve:
    known = sorted(tried.rates)
    effect = np.array([ALTERNATIVES[tried.alternative][k] for k in known])
    rate = np.array([tried.rates[k][family] for k in known])
    found = None
    below = np.flatnonzero(rate < power)
    last = int(below[-1]) if below.size else -1
    if last < rate.size - 1:
        found = float(effect[last + 1])
        if last >= 0:
            found = float(np.interp(power, rate[last : last + 2], effect[last : last + 2]))
    return PowerCurve(
        alternative=tried.alternative,
        family=("order", "timing")[family],
        effect=frozen_array(effect, np.float64, name="effect"),
        power=frozen_array(rate, np.float64, name="power"),
        detectable=found,
    )
