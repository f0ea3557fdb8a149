"""Tables of the page: which are wide, which are laid out anew on a phone, what is not broken."""

from __future__ import annotations

import pytest

from sojourn.estimates import Estimate, Interval, Status
from sojourn.report.comparison import difference_cell
from sojourn.report.parts import Cell, Rows, p_cell, short_name

ESTIMATE = "0.622 [0.010,\N{NO-BREAK SPACE}0.979]\N{NO-BREAK SPACE}?"


def rows(*columns: str, left: int = 1) -> Rows:
    return Rows(caption="c", header=("x",) * len(columns), rows=[columns], left=left)


@pytest.mark.parametrize(
    ("columns", "wide"),
    [
        (("state", "1", "2", "3", "4", "5"), False),  # many columns of few letters
        (("semi-markov-moves0.5", "-16.753", "1.481 +- 0.182", "1,204"), False),
        (("interface", ESTIMATE, ESTIMATE), True),
        (("interface", ESTIMATE), False),
        (("a" * 70,), True),
    ],
)
def test_what_does_not_fit_half_of_the_page_is_wide(columns: tuple[str, ...], wide: bool) -> None:
    assert rows(*columns).wide == wide


def test_a_head_or_a_code_counts_as_well() -> None:
    assert Rows(caption="", header=("a" * 70,), rows=[("1",)]).wide
    assert rows("x", "y").wide is False
    assert Rows(caption="", header=("x",), rows=[(Cell(text="a" * 30, code="b" * 30),)]).wide


@pytest.mark.parametrize(
    ("columns", "left", "layout"),
    [
        (("claim", "verdict", "why"), 3, "words"),
        (("retrieval+product_advisor", "0 of 0", "0.015", ESTIMATE, ESTIMATE), 1, "stack"),
        (("1", ESTIMATE, ESTIMATE, ESTIMATE, ESTIMATE), 0, "stack"),
        (("30", ESTIMATE, ESTIMATE), 0, ""),
        # The first column may be broken anywhere.
        (("a" * 80, "1", "2", "3"), 1, ""),
        # A text that may be broken at its blanks takes no more room than its longest word.
        (("x", "so many words that no phone could show them on one line of its own"), 1, ""),
    ],
)
def test_what_does_not_fit_a_phone_is_stacked(
    columns: tuple[str, ...], left: int, layout: str
) -> None:
    assert rows(*columns, left=left).layout == layout


def test_intervals_and_p_values_are_not_broken() -> None:
    estimate = Estimate(
        value=0.05,
        interval=Interval(low=-0.01, high=0.11, ci_prob=0.95, kind="x"),
        status=Status.SUPPORTED,
    )
    assert difference_cell(estimate) == "+0.050 [-0.010,\N{NO-BREAK SPACE}+0.110]"
    assert p_cell(0.0001) == "<\N{NO-BREAK SPACE}.001"
    assert p_cell(None) == "-"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("gpt-4o", "gpt-4o"),
        ("x" * 32, "x" * 32),
        ("airline-gpt-4o-2024-11-20-temperature-0.jsonl", "airline-gpt-4o-2…erature-0.jsonl"),
        ("a" * 40 + "\x1b" + "b" * 60, "a" * 16 + "\N{HORIZONTAL ELLIPSIS}" + "b" * 15),
    ],
)
def test_names_in_titles_keep_both_ends(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_column_of_links_takes_more_of_a_phone() -> None:
    row = ("a" * 30, "inconclusive", "+0.050 [-0.011,\N{NO-BREAK SPACE}+0.110]", "0.180")
    header = ("B", "answer", "difference", "p")
    assert Rows(caption="c", header=header, rows=[row], left=2).layout == ""
    leading = (Cell(text="a" * 30, href="#x"), *row[1:])
    assert Rows(caption="c", header=header, rows=[leading], left=2).layout == "stack"
