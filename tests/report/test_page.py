"""The page: self-contained, without script, and every figure it shows is a figure of the result."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from builders import corpus_of
from sojourn.assess import GroupedAssessment, assess_groups
from sojourn.corpus import CorpusBuilder
from sojourn.data import example_path
from sojourn.readers import read_traces
from sojourn.records import Outcome, Trace
from sojourn.report import html_text, json_text, write_json, write_report

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "src/sojourn/report/schema.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def example() -> GroupedAssessment:
    return assess_groups(read_traces(example_path()), rng=0, n_resamples=199)


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
    assert text.count('<svg role="img"') == 4


def test_page_is_the_same_for_the_same_result(example: GroupedAssessment) -> None:
    assert html_text(example) == html_text(example)


@pytest.mark.parametrize("tasks", [["s"], ["f"], ["l"], ["ssss", "ffff"], ["sxf", "l"]])
@pytest.mark.parametrize("n_steps", [None, 0, 4])
def test_corners_have_a_page_and_valid_json(tasks: list[str], n_steps: int | None) -> None:
    result = assess_groups(corpus_of(tasks, n_steps=n_steps), rng=0, n_resamples=99)
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
    result = assess_groups(builder.build(), rng=0, n_resamples=99)
    text = html_text(result)
    structure_of(text)
    assert "2 groups" in text
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
