"""The page: self-contained, without script, and every figure it shows is a figure of the result."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from builders import corpus_of
from sojourn.assess import GroupedAssessment, TraceAssessment, assess_groups
from sojourn.assess.chain import ChainSettings, StateRow
from sojourn.corpus import CorpusBuilder
from sojourn.data import example_path
from sojourn.estimates import Verdict
from sojourn.readers import read_traces
from sojourn.records import Outcome, Step, Trace
from sojourn.report import html_text, json_text, write_json, write_report
from sojourn.report.chain import chain_sections
from sojourn.report.figures import page_figures, shown_test
from sojourn.report.html import environment_of
from sojourn.report.parts import Rows
from sojourn.report.sections import cards, claim_rows, overview_rows, sections

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "src/sojourn/report/schema.json").read_text(encoding="utf-8")
)


QUICK = ChainSettings(quick=True)


@pytest.fixture(scope="module")
def example() -> GroupedAssessment:
    settings = ChainSettings(n_simulated=39, n_refits=99, n_forecast=19)
    return assess_groups(read_traces(example_path()), chain=settings, rng=0, n_resamples=199)


class _Structure(HTMLParser):
    """Collects what a page would load or run, and checks that tags close in order."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr", "path", "use", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def structure_of(text: str) -> _Structure:
    parser = _Structure()
    parser.feed(text)
    assert parser.open == []
    return parser


def test_names_inside_a_page_are_its_own_and_lead_somewhere(example: GroupedAssessment) -> None:
    text = html_text(example)
    assert text.count("<svg") > 3
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names))
    targets = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert len(targets) > 10
    assert targets <= set(names)


def test_options_are_not_broken_after_their_dashes_and_all_else_is_escaped() -> None:
    rows = Rows(caption="c", header=("a", "b"), rows=[("x", "see (--states) or a--b <i>--x</i>")])
    shown = str(environment_of().globals["table"](rows))
    assert '(<span class="option">--states</span>) or a--b &lt;i&gt;' in shown
    assert "<i>" not in shown


def test_a_page_of_many_groups_stays_below_a_megabyte(example: GroupedAssessment) -> None:
    groups = tuple(example) * 12
    text = html_text(replace(example, groups=groups))
    assert len(text.encode()) < 1_000_000
    drawn = text.count('<svg role="img"')
    assert drawn > 2 * 9
    assert text.count("Its figures are left out") == len(groups) - drawn // 9


def test_page_is_whole_loads_nothing_and_runs_nothing(example: GroupedAssessment) -> None:
    text = html_text(example)
    parser = structure_of(text)
    assert "script" not in parser.tags
    assert parser.handlers == []
    assert all(address.startswith("#") for address in parser.addresses)
    assert "default-src 'none'" in text
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text


def test_page_shows_verdicts_before_figures_and_the_counted_numbers(
    example: GroupedAssessment,
) -> None:
    text = html_text(example)
    assert text.index("What may be believed") < text.index("How often does it succeed?")
    for figure in ("0.420", "0.200", "0.720", "0.031", "50 tasks", "84 of 200"):
        assert figure in text
    assert text.count('<svg role="img"') == 9


def chained(claims: dict[str, Verdict]) -> TraceAssessment:
    """Return an assessment of runs with steps whose chain has the given verdicts."""
    builder = CorpusBuilder()
    for task in range(24):
        for attempt in range(2):
            names = ["look", "edit", "look"][: 1 + (task + attempt) % 3]
            builder.add(
                Trace(
                    task_id=str(task),
                    task_repeat=attempt,
                    outcome=Outcome.SUCCESS if task % 3 else Outcome.FAILURE,
                    n_steps=len(names),
                    steps=tuple(Step(name=name) for name in names),
                )
            )
    (result,) = assess_groups(builder.build(), chain=QUICK, rng=0, n_resamples=99)
    assert result.chain is not None
    certificate = replace(
        result.chain.certificate,
        claims=tuple(
            replace(claim, verdict=claims[claim.claim]) for claim in result.chain.certificate.claims
        ),
    )
    return replace(result, chain=replace(result.chain, certificate=certificate))


@pytest.mark.parametrize(
    ("order", "timing", "shown"),
    [
        ("accepted", "accepted", True),
        ("accepted", "rejected", False),
        ("rejected", "accepted", False),
        ("inconclusive", "accepted", True),
        ("accepted", "inconclusive", True),
    ],
)
def test_values_of_states_are_shown_as_far_as_both_claims_let_them(
    order: str, timing: str, shown: bool
) -> None:
    result = chained({"order": Verdict(order), "timing": Verdict(timing)})
    assert result.chain is not None
    states = chain_sections(result, {})[1]
    (table,) = states.tables
    assert ("P(success) from here" in table.header) == shown
    if shown:
        doubtful = "inconclusive" in (order, timing)
        assert all(str(row[-1]).endswith("?") == doubtful for row in table.rows)


def test_states_are_counted_and_shares_of_failed_runs_too() -> None:
    result = chained({"order": Verdict.ACCEPTED, "timing": Verdict.ACCEPTED})
    assert result.chain is not None
    rows: tuple[StateRow, ...] = result.chain.rows
    table = chain_sections(result, {})[1].tables[0]
    # 48 runs; every third has one, two or three steps, the second of them an edit.
    assert [row[:2] for row in table.rows] == [("look", "1.33"), ("edit", "0.67")]
    failed = sum(row.n_failure for row in rows)
    assert failed == 16
    assert [row[5] for row in table.rows] == [f"{row.n_failure / failed:.0%}" for row in rows]


def test_runs_of_one_step_have_no_test_no_graph_and_no_p_value() -> None:
    (result,) = assess_groups(
        corpus_of(["s", "f"] * 12, n_steps=1), chain=QUICK, rng=0, n_resamples=99
    )
    figures = page_figures(result)
    assert not {"fit", "test", "chain"} & set(figures)
    assert shown_test(result) is None
    fit, _ = chain_sections(result, figures)
    assert fit.tables == ()
    assert "No run has more than one step" in fit.paragraphs[0]


def test_where_nothing_moves_there_is_a_dash_for_p() -> None:
    (result,) = assess_groups(corpus_of(["s"] * 24, n_steps=4), chain=QUICK, rng=0, n_resamples=99)
    assert result.chain is not None
    assert result.chain.certificate.pooled is not None
    assert result.chain.certificate.pooled.movable_steps == 0
    fit, _ = chain_sections(result, page_figures(result))
    tests = next(table for table in fit.tables if table.header[0] == "statistic")
    assert all(set(row[1:]) == {"-"} for row in tests.rows[:-1])
    assert set(tests.rows[-1][1:]) == {"0%"}


def test_curve_rows_are_round_and_hold_the_supported_step(example: GroupedAssessment) -> None:
    (result,) = example
    assert result.curves is not None
    section = next(s for s in sections(result, with_figures=False) if "more steps" in s.question)
    steps = [row[0] for row in section.tables[0].rows]
    assert len(steps) <= 14
    assert {result.curves.supported_to, result.curves.horizon, 10, 20} <= set(steps)


def test_tasks_have_a_column_only_where_their_number_differs_by_k() -> None:
    headers = []
    for tasks in (["ss", "sf"], ["ss", "s"]):
        (result,) = assess_groups(corpus_of(tasks), chain=QUICK, rng=0, n_resamples=99)
        section = next(s for s in sections(result, with_figures=False) if "in a row" in s.question)
        headers.append(section.tables[0].header)
        assert all(len(row) == len(headers[-1]) for row in section.tables[0].rows)
    assert ["tasks" in header for header in headers] == [False, True]


def test_no_supported_step_is_said_in_words() -> None:
    (result,) = assess_groups(corpus_of(["sf"]), chain=QUICK, rng=0, n_resamples=99)
    text = html_text(result)
    assert "no step is supported" in text
    assert "step -1" not in text


def test_printed_bounds_of_errors_hold(example: GroupedAssessment) -> None:
    (result,) = example
    assert result.chain is not None
    bound = result.chain.certificate.bound
    assert bound is not None
    fit, _ = chain_sections(result, {})
    table = next(table for table in fit.tables if table.header[0] == "curve")
    for (_, lower, upper), curve in zip(table.rows, (bound.success, bound.failure), strict=True):
        assert curve is not None
        assert curve.lower - 0.001 < float(str(lower)) <= curve.lower
        assert curve.upper <= float(str(upper)) < curve.upper + 0.001


def test_steps_at_which_nothing_happens_are_left_out() -> None:
    (result,) = assess_groups(corpus_of(["s"] * 4, n_steps=1), chain=QUICK, rng=0, n_resamples=99)
    section = next(s for s in sections(result, with_figures=False) if "more steps" in s.question)
    assert len(section.tables[0].rows) == 1


def test_median_steps_are_whole_and_the_pooled_claim_is_spelt_out(
    example: GroupedAssessment,
) -> None:
    (result,) = example
    found = {card.name: card for card in cards(result)}
    assert re.fullmatch(r"\d+", found["Median steps to finish"].value)
    assert "the pooled rate would claim 0.031 (0.420^4)" in found["All of 4 attempts (pass^4)"].note


def test_the_page_shows_candidates_and_the_tests_of_the_chosen_process(
    example: GroupedAssessment,
) -> None:
    (result,) = example
    assert result.chain is not None
    assert result.chain.chosen == "progress"
    fit, _ = chain_sections(result, {})
    candidates = next(table for table in fit.tables if table.header[0] == "process")
    assert [str(row[0])[:1] for row in candidates.rows].count("*") == 1
    assert any(str(row[0]) == "* progress" for row in candidates.rows)
    evidence = next(table for table in fit.tables if table.header == ("what", "came out"))
    assert any("within tasks" in str(row[0]) for row in evidence.rows)
    assert any("progress process was chosen" in words for words in fit.paragraphs)
    curves = next(s for s in sections(result, with_figures=False) if "more steps" in s.question)
    beside = next(table for table in curves.tables if "success (progress)" in table.header)
    assert "whose timing is accepted" in beside.caption


def test_claims_have_plain_names_and_the_horizon_is_not_claimed(
    example: GroupedAssessment,
) -> None:
    (result,) = example
    rows = {row[0].code: row for row in claim_rows(result).rows}  # type: ignore[attr-defined]
    assert rows["rate"][0].text == "success rate"  # type: ignore[attr-defined]
    assert rows["horizon"][1].text == "inconclusive"  # type: ignore[attr-defined]
    assert "unclaimed" in html_text(example)


def test_page_is_the_same_for_the_same_result(example: GroupedAssessment) -> None:
    assert html_text(example) == html_text(example)


@pytest.mark.parametrize("tasks", [["s"], ["f"], ["l"], ["ssss", "ffff"], ["sxf", "l"]])
@pytest.mark.parametrize("n_steps", [None, 0, 4])
def test_corners_have_a_page_and_valid_json(tasks: list[str], n_steps: int | None) -> None:
    result = assess_groups(corpus_of(tasks, n_steps=n_steps), chain=QUICK, rng=0, n_resamples=99)
    structure_of(html_text(result))
    jsonschema.validate(json.loads(json_text(result)), SCHEMA)


def test_json_of_the_example_keeps_the_schema(example: GroupedAssessment) -> None:
    jsonschema.validate(json.loads(json_text(example)), SCHEMA)


def test_schema_is_not_satisfied_by_anything(example: GroupedAssessment) -> None:
    broken = json.loads(json_text(example))
    broken["estimates"]["success_rate"]["status"] = "certain"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, SCHEMA)


def test_several_groups_stand_on_one_page_and_in_one_json() -> None:
    builder = CorpusBuilder()
    for model in ("first", "second"):
        for task in range(4):
            builder.add(Trace(task_id=str(task), model=model, outcome=Outcome.SUCCESS, n_steps=2))
    result = assess_groups(builder.build(), chain=QUICK, rng=0, n_resamples=99)
    text = html_text(result)
    structure_of(text)
    assert "2 groups" in text
    for number in range(2):
        assert f'<a href="#group-{number}">' in text
        assert f'id="group-{number}"' in text
    overview = overview_rows(list(result))
    assert overview.header == ("group", "success rate", "verdict", "runs", "left out", "tasks")
    assert overview.rows[0][3:] == ("4", "0", "4")
    document = json.loads(json_text(result))
    assert document["kind"] == "groups"
    assert [group["group"]["model"] for group in document["groups"]] == ["first", "second"]
    jsonschema.validate(document, SCHEMA)


def test_command_on_the_page_is_quoted_and_escaped(example: GroupedAssessment) -> None:
    text = html_text(example, command=["sojourn", "assess", "a b/<x>.json"])
    assert "sojourn assess &#39;a b/&lt;x&gt;.json&#39;" in text


def test_files_are_written_all_or_nothing(example: GroupedAssessment, tmp_path: Path) -> None:
    write_report(example, tmp_path / "r.html")
    write_json(example, tmp_path / "r.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser")
@pytest.mark.parametrize("width", [360, 1200])
def test_page_does_not_scroll_sideways(
    example: GroupedAssessment, tmp_path: Path, width: int
) -> None:
    page = tmp_path / "r.html"
    # The page itself may run no script, so the measuring frame stands around it.
    write_report(example, page)
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe id="f" src="r.html" style="width:{width}px;height:900px;border:0"></iframe>'
        "<script>onload=()=>{const d=document.getElementById('f').contentDocument"
        ".documentElement;document.title=d.scrollWidth+' '+d.clientWidth;"
        "document.body.textContent='WIDTHS '+document.title}</script>"
    )
    switches = "headless no-sandbox disable-gpu no-first-run disable-background-networking"
    shown = subprocess.run(
        [
            "chromium",
            *(f"--{switch}" for switch in switches.split()),
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r"WIDTHS (\d+) (\d+)", shown.stdout)
    assert found is not None, shown.stdout[:500]
    assert int(found.group(1)) <= int(found.group(2))
