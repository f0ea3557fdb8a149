"""Plurals and wrapped lines."""

from __future__ import annotations

from sojourn.tables import at_least, at_most, n_of, wrapped
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


def test_bounds_are_rounded_outwards_and_round_ones_stay() -> None:
    assert [at_most(x) for x in (0.0851, 0.0859, 0.087, 0.1, 0.0)] == [
        "0.086", "0.086", "0.087", "0.100", "0.000",
    ]  # fmt: skip
    assert [at_least(x) for x in (0.0851, 0.0859, 0.087, 0.29, 0.0)] == [
        "0.085", "0.085", "0.087", "0.290", "0.000",
    ]  # fmt: skip


def test_long_lines_go_on_under_their_text_and_short_ones_stay() -> None:
    line = "  " + "word " * 30
    found = wrapped([line.rstrip(), "a  b", ""], width=40)
    assert all(len(part) <= 40 for part in found)
    assert found[1].startswith("      word")
    assert found[-2:] == ["a  b", ""]


def test_a_column_that_is_a_sentence_goes_on_under_itself() -> None:
    line = "  timing    accepted  " + "word " * 30
    found = wrapped([line.rstrip()], width=80)
    assert found[1].startswith(" " * 26 + "word")
    assert wrapped(["word " * 30], width=80)[1].startswith("    word")
    numbers = "  timing" + "      0.50 [0.40, 0.60]" * 4
    assert wrapped([numbers], width=80)[1].startswith(" " * 6 + "0.50")
