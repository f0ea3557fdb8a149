"""Plurals and wrapped lines."""

from __future__ import annotations

from sojourn.tables import n_of, wrapped
from sojourn.tables.words import percent


def test_nouns_follow_their_number() -> None:
    assert [n_of(count, "run") for count in (0, 1, 2, 1234)] == [
        "0 runs",
        "1 run",
        "2 runs",
        "1,234 runs",
    ]
    assert [n_of(count, "success", "successes") for count in (1, 2)] == ["1 success", "2 successes"]


def test_levels_keep_their_digits() -> None:
    shares = (0.5, 0.9, 0.95, 0.975, 0.999, 0.9999, 2 * 0.95 - 1)
    assert [percent(share) for share in shares] == [
        "50%", "90%", "95%", "97.5%", "99.9%", "99.99%", "90%",
    ]  # fmt: skip


def test_long_lines_go_on_under_their_text_and_short_ones_stay() -> None:
    line = "  " + "word " * 30
    found = wrapped([line.rstrip(), "a  b", ""], width=40)
    assert all(len(part) <= 40 for part in found)
    assert found[1].startswith("      word")
    assert found[-2:] == ["a  b", ""]
