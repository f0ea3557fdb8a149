"""Which numbers of steps a table of a curve shows: round ones, and both ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

__all__ = ["round_steps"]


def round_steps(first: int, last: int, at_most: int) -> list[int]:
    """Return `first`, round numbers between, and `last`.

    Parameters
    ----------
    first, last : int
        The ends, 0 <= first <= last; both are among the steps.
    at_most : int
        The largest number of steps to return, at least 2.

    Returns
    -------
    list of int
        Increasing. Every step where they are few enough; else 1, 2, 5, 10, 20, 50 and so on up to
        a stride, and its multiples from there, the stride being the smallest of 2, 5, 10, 20, ...
        that is wide enough; where none is, `first` and the largest of 1, 2, 5, 10, 20, ...

    Raises
    ------
    ValueError
        If the ends are out of order or `at_most` is too small.

    Examples
    --------
    >>> round_steps(1, 31, 10)
    [1, 2, 5, 10, 15, 20, 25, 30, 31]
    """
    if not 0 <= first <= last:
        raise ValueError(f"steps must satisfy 0 <= first <= last, not {first} and {last}")
    if at_most < 2:
        raise ValueError(f"at_most must be 2 or more, not {at_most}")
    if last - first < at_most:
        return list(range(first, last + 1))
    kept: list[int] = []
    for stride in _strides():
        if last // stride - first // stride > at_most:
            continue
        steps = {first, last, *range(first - first % stride, last + 1, stride), *_below(stride)}
        kept = sorted(step for step in steps if first <= step <= last)
        if len(kept) <= at_most or stride > last:
            break
    return [first, *kept[1:][-(at_most - 1) :]]


def _below(stride: int) -> list[int]:
    return list(takewhile(lambda step: step < stride, _strides()))


def _strides() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50, ... without end."""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10
