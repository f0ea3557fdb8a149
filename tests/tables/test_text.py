"""Text tables, and labels that a log cannot write to a terminal with."""

from __future__ import annotations

import pytest

from sojourn.tables import clean, indent, p_is, text_table


def test_columns_are_aligned() -> None:
    assert text_table(("name", "n"), [("a", 1), ("long", 200), ("b", None)]) == [
        "name    n",
        "a       1",
        "long  200",
        "b       -",
    ]


def test_a_label_too_long_for_its_row_loses_its_middle() -> None:
    long = "fetch_" + "x" * 68 + "_retry"
    found = text_table(("state", "value"), [(long, "0.50 [0.40, 0.60]"), ("b", "1")])
    assert all(len(line) <= 94 for line in found)
    assert found[1].startswith("fetch_xxx")
    assert "…" in found[1]
    assert "_retry  0.50 [0.40, 0.60]" in found[1]
    words = [("a label that is no name of a log", "words " * 20)]
    assert text_table(("", ""), words, left=2)[0].startswith("a label that is no name of a log")
    wide = text_table(("state", *"abcde"), [("s" * 60, *["0.50 [0.40, 0.60]"] * 5)])
    assert wide[1].startswith("s" * 12 + "…" + "s" * 11 + "  ")


def test_table_without_header() -> None:
    assert text_table(("", ""), [("a", 1)], left=2) == ["a  1"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("gpt-4o", "gpt-4o"),
        ("a\x1b[2Jb", "a?[2Jb"),
        ("a\nb\rc\td", "a?b?c?d"),
        ("\u202egnp.exe", "?gnp.exe"),
        ("a\u2028b\u200bc", "a?b?c"),
        ("\ud800", "?"),
        ("é漢", "é漢"),
    ],
)
def test_clean_leaves_letters_and_takes_control(label: str, expected: str) -> None:
    assert clean(label) == expected


def test_clean_shortens() -> None:
    assert clean("x" * 1_000_000, limit=10) == "x" * 9 + "…"


def test_indent_leaves_empty_lines_empty() -> None:
    assert indent(["a", ""]) == ["  a", ""]


def test_a_small_p_is_below_and_not_equal_to_below() -> None:
    assert [p_is(p) for p in (0.0004, 0.0125, 1.0, None)] == [
        "p < .001",
        "p = 0.013",
        "p = 1.000",
        "p -",
    ]
