"""Slow and obvious versions for incidence curves: fractions, and every resample one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

CENSORED, SUCCESS, FAILURE = 0, 1, 2
Curve = list[Fraction]


def product_limit(
    duration: Sequence[int],
    event: Sequence[int],
    horizon: int,
    weights: Sequence[int] | None = None,
) -> tuple[Curve, Curve]:
    """R(d) = sum of S(k-1) e(k) / n(k), S(k) = S(k-1) (1 - hazard of either), by definition."""
    w = [1] * len(duration) if weights is None else list(weights)
    going = Fraction(1)
    reached = {SUCCESS: Fraction(0), FAILURE: Fraction(0)}
    success, failure = [], []
    for d in range(horizon + 1):
        at_risk = sum(w[i] for i in range(len(w)) if duration[i] >= d)
        ended = {
            j: sum(w[i] for i in range(len(w)) if duration[i] == d and event[i] == j)
            for j in reached
        }
        if at_risk:
            for j in reached:
                reached[j] += going * Fraction(ended[j], at_risk)
            going *= 1 - Fraction(sum(ended.values()), at_risk)
        success.append(reached[SUCCESS])
        failure.append(reached[FAILURE])
    return success, failure


def every_resample(
    duration: Sequence[int], event: Sequence[int], unit: Sequence[int], horizon: int
) -> list[Curve]:
    """Return the success curves of all m^m equally likely draws of the m units."""
    units = sorted(set(unit))
    found = []
    for draw in product(units, repeat=len(units)):
        weights = [draw.count(u) for u in unit]
        found.append(product_limit(duration, event, horizon, weights)[0])
    return found


def split_ties(duration: Sequence[int], event: Sequence[int]) -> list[float]:
    """Spread tied runs over the step after d, events first: the same curve without ties.

    m tied events one after the other at n, n - 1, ... at risk add S / n each, as m at once do.
    """
    order = sorted(range(len(duration)), key=lambda i: (duration[i], event[i] == CENSORED))
    times = [0.0] * len(duration)
    for place, i in enumerate(order):
        times[i] = duration[i] + 1 + place / (2 * len(order))
    return times


def stratified(
    duration: Sequence[int], event: Sequence[int], stratum: Sequence[int], horizon: int
) -> list[Fraction]:
    """Share-weighted success curves of the strata; a stratum without runs borrows all hazards."""
    total = Fraction(0)
    curve = [Fraction(0)] * (horizon + 1)
    for code in set(stratum):
        own = [i for i in range(len(stratum)) if stratum[i] == code]
        going, reached = Fraction(1), Fraction(0)
        share = Fraction(len(own), len(stratum))
        for d in range(horizon + 1):
            pool = [i for i in own if duration[i] >= d]
            if not pool:
                pool = [i for i in range(len(stratum)) if duration[i] >= d]
            if pool:
                hits = [event[i] for i in pool if duration[i] == d]
                reached += going * Fraction(hits.count(SUCCESS), len(pool))
                ended = hits.count(SUCCESS) + hits.count(FAILURE)
                going *= 1 - Fraction(ended, len(pool))
            curve[d] += share * reached
        total += share
    assert total == 1
    return curve
