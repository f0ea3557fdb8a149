"""Round steps: both ends, no more than asked for, round between."""

from __future__ import annotations

import pytest

from sojourn.tables import round_steps


@pytest.mark.parametrize(
    ("first", "last", "at_most", "expected"),
    [
        (1, 9, 13, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (1, 31, 10, [1, 2, 5, 10, 15, 20, 25, 30, 31]),
        (4, 50, 13, [4, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50]),
        (1, 200, 13, [1, 2, 5, 10, 20, 50, 100, 150, 200]),
        (3, 3, 2, [3]),
        (0, 10**9, 4, [0, 200_000_000, 500_000_000, 10**9]),
    ],
)
def test_known_rows(first: int, last: int, at_most: int, expected: list[int]) -> None:
    assert round_steps(first, last, at_most) == expected


@pytest.mark.parametrize("first", [0, 1, 7, 99])
@pytest.mark.parametrize("length", [0, 1, 12, 13, 37, 1000, 123_456])
@pytest.mark.parametrize("at_most", [2, 3, 13])
def test_ends_are_kept_and_the_number_is(first: int, length: int, at_most: int) -> None:
    steps = round_steps(first, first + length, at_most)
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (first, first + length)
    assert len(steps) <= at_most


@pytest.mark.parametrize(("first", "last", "at_most"), [(-1, 3, 5), (4, 3, 5), (1, 3, 1)])
def test_wrong_ends_are_refused(first: int, last: int, at_most: int) -> None:
    with pytest.raises(ValueError, match="must"):
        round_steps(first, last, at_most)
