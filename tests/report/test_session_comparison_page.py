"""The page of two logs of sessions: whole, safe, and of the result's own figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from report.test_page import structure_of
from sojourn.assess import SessionComparison, compare_sessions
from sojourn.assess.comparison_text import signed
from sojourn.cli.main import main
from sojourn.corpus import SessionLog, SessionLogBuilder, write_sessions
from sojourn.estimates import Status
from sojourn.records import Outcome, TaskResult
from sojourn.report import html_text
from sojourn.report.session_comparison import overview, sections

EVIL = "<script>alert(1)</script>\x1b[31m"


def log_of(success: int, domains: tuple[str, ...] = ("d",)) -> SessionLog:
    """Eight sessions of twenty independent tasks; of ten tasks about so many succeed."""
    rng = np.random.default_rng(success)
    builder = SessionLogBuilder()
    for session in range(8):
        for t in range(20):
            won = rng.random() < success / 10
            builder.add(
                TaskResult(
                    session_id=str(session),
                    position=t,
                    outcome=Outcome.SUCCESS if won else Outcome.FAILURE,
                    domain=domains[t % len(domains)],
                )
            )
    return builder.build()


@pytest.fixture(scope="module")
def apart() -> SessionComparison:
    return compare_sessions(log_of(3), log_of(8), names=("old", EVIL), n_max=5, rng=0)


def test_page_is_whole_and_runs_nothing(apart: SessionComparison) -> None:
    text = html_text(apart)
    parser = structure_of(text)
    assert "script" not in parser.tags
    assert parser.handlers == []
    assert "\x1b" not in text
    assert all(address.startswith("#") for address in parser.addresses)
    assert text.count('<svg role="img"') == 2
    assert text == html_text(apart)


def test_page_shows_the_answer_and_the_differences(apart: SessionComparison) -> None:
    text = html_text(apart)
    assert apart.answers == {"d": "better"}
    assert '<td data-label="answer" class="word accepted">better</td>' in text
    for row in apart.rows:
        assert f"{row.a:.3f}" in text
        assert f"{row.b:.3f}" in text
        assert signed(row.difference).split(" ")[0] in text
    (long_run,) = (r for r in apart.rows if r.start == "long_run" and r.n == 1)
    assert f"A {long_run.a:.3f}, B {long_run.b:.3f}" in text


def test_inconclusive_differences_are_marked_with_their_reason(apart: SessionComparison) -> None:
    doubtful = replace(
        apart.rows[0],
        difference=replace(
            apart.rows[0].difference, status=Status.INCONCLUSIVE, reasons=("chains disagree",)
        ),
    )
    found = replace(apart, rows=(doubtful, *apart.rows[1:]))
    one, runs = sections(found, "d", with_figures=False)
    shown = [cells for section in (one, runs) for cells in section.tables[0].rows]
    marks = [str(cells[-2]).count("?") for cells in shown]
    assert marks == [1] + [0] * (len(shown) - 1)
    assert [str(cells[-2]).endswith("?") for cells in shown] == [True] + [False] * (len(shown) - 1)
    assert one.notes == ["Chains disagree."]
    assert "? chains disagree" in str(found)
    assert "Chains disagree" not in html_text(apart)


def test_several_domains_have_an_overview_and_a_part_each() -> None:
    both = compare_sessions(log_of(3, ("x", "y")), log_of(7, ("x", "y")), n_max=2, rng=0)
    text = html_text(both)
    structure_of(text)
    assert [row[0].text for row in overview(both).rows] == ["x", "y"]  # type: ignore[attr-defined]
    for number in range(2):
        assert f'<a href="#group-{number}">' in text
        assert f'id="group-{number}"' in text


def test_command_writes_the_page(tmp_path: Path) -> None:
    for name, success in (("a", 3), ("b", 8)):
        write_sessions(log_of(success), tmp_path / f"{name}.csv")
    page = tmp_path / "c.html"
    given = [str(tmp_path / f"{name}.csv") for name in "ab"]
    assert main(["compare", *given, "--n-max", "2", "--html", str(page), "--quiet"]) == 0
    assert "b.csv against a.csv" in page.read_text(encoding="utf-8")
